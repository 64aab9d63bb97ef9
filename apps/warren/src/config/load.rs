//! From files to [`Options`]: reads, substitutes, matches keys against the table, stores values. Refuses to know any
//! single key, and which files there are.

use super::error::{ConfigError, Problem, ProblemKind};
use super::key::{Key, Take};
use super::options::Options;
use super::substitute::{Environment, substitute};
use super::syntax::{Setting, settings};
use super::{keys, nearest};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Largest configuration file, bytes; a larger one is a mistake (a log, a binary) and is not parsed.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Reads configuration files on top of `base`; of two lines for one key the later one wins, and a later file is later. `env` looks
/// up environment variables for `$(NAME)`.
///
/// # Errors
/// [`ConfigError::Unreadable`] if a file cannot be read, [`ConfigError::Invalid`] with every problem they have.
pub fn load(files: &[PathBuf], base: Options, env: Environment<'_>) -> Result<Options, ConfigError> {
    let mut whole = Whole::default();
    for path in files {
        whole.add(path, &text(path)?);
    }
    parse_whole(&whole.text, &whole.files, base, env).map_err(|problems| whole.invalid(problems))
}

fn text(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    let whole_file =
        |kind| ConfigError::Invalid { files: vec![(path.to_owned(), vec![Problem { line: 1, kind }])] };
    let length = std::fs::metadata(path).map_err(unreadable)?.len();
    if length > FILE_BYTES_MAX as u64 {
        return Err(whole_file(ProblemKind::TooLarge { bytes_max: FILE_BYTES_MAX }));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|_| whole_file(ProblemKind::NotText))
}

/// Several files as one text. Lines are counted through.
#[derive(Default)]
struct Whole {
    text: String,
    files: Vec<Piece>,
}

/// A file of the text.
struct Piece {
    path: PathBuf,
    /// Lines of the files before it.
    before: usize,
}

impl Whole {
    fn add(&mut self, path: &Path, text: &str) {
        self.files.push(Piece { path: path.to_owned(), before: self.text.lines().count() });
        self.text.push_str(text.strip_prefix('\u{feff}').unwrap_or(text));
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Problems, in order of lines, by file.
    fn invalid(self, problems: Vec<Problem>) -> ConfigError {
        let mut files: Vec<(PathBuf, Vec<Problem>)> = Vec::new();
        for Problem { line, kind } in problems {
            let (index, line) = place(&self.files, line);
            let path = &self.files[index].path;
            if files.last().is_none_or(|(last, _)| last != path) {
                files.push((path.clone(), Vec::new()));
            }
            let (_, of_file) = files.last_mut().expect("the file was just pushed, or is the last one");
            of_file.push(Problem { line, kind });
        }
        ConfigError::Invalid { files }
    }
}

/// In which file a line of the whole is, by its position, and which line of it that is.
fn place(files: &[Piece], line: usize) -> (usize, usize) {
    let index = files.iter().rposition(|file| file.before < line).unwrap_or(0);
    (index, line - files.get(index).map_or(0, |file| file.before))
}

/// Reads configuration text on top of the defaults; `env` as for [`load`]. On failure returns every problem, in order
/// of lines, never none.
///
/// # Errors
/// The problems of the text.
pub fn parse(text: &str, env: Environment<'_>) -> Result<Options, Vec<Problem>> {
    parse_whole(text, &[], Options::default(), env)
}

fn parse_whole(
    text: &str,
    files: &[Piece],
    mut options: Options,
    env: Environment<'_>,
) -> Result<Options, Vec<Problem>> {
    let (settings, mut problems) = settings(text);
    let settings = substitute(settings, env, &mut problems);
    let chosen = choose(settings, files, &mut problems, &mut options.notices);
    store(&mut options, chosen, &mut problems);
    if problems.is_empty() {
        return Ok(options);
    }
    problems.sort_by_key(|problem| problem.line);
    Err(problems)
}

/// A setting with the key it belongs to.
struct Chosen {
    /// Position of the key in the whole table.
    rank: usize,
    key: &'static Key,
    /// The word that stands for `$word`; empty for other keys.
    word: String,
    setting: Setting,
}

/// Finds each setting's key. Of several lines for one key the last wins, as in RabbitMQ, with a notice unless it is in a later file,
/// which is there for that; a key wins over its alias.
fn choose(
    settings: Vec<Setting>,
    files: &[Piece],
    problems: &mut Vec<Problem>,
    notices: &mut Vec<String>,
) -> Vec<Chosen> {
    let mut chosen: HashMap<(usize, String), (bool, Chosen)> = HashMap::new();
    for setting in settings {
        let Some((rank, key, word, by_alias)) = find(&setting.words) else {
            let (nearest, not_yet) = nearest::advice(&setting.key());
            let kind = ProblemKind::UnknownKey { key: setting.key(), nearest, not_yet };
            problems.push(Problem { line: setting.line, kind });
            continue;
        };
        let place = (rank, word.clone());
        if let Some((earlier_by_alias, earlier)) = chosen.get(&place) {
            let earlier_counts = by_alias && !earlier_by_alias;
            notices.extend(repeated(files, &earlier.setting, &setting, earlier_counts));
            if earlier_counts {
                continue;
            }
        }
        chosen.insert(place, (by_alias, Chosen { rank, key, word, setting }));
    }
    let mut chosen: Vec<Chosen> = chosen.into_values().map(|(_, chosen)| chosen).collect();
    chosen.sort_by(|a, b| (a.rank, &a.word).cmp(&(b.rank, &b.word)));
    chosen
}

fn repeated(files: &[Piece], earlier: &Setting, later: &Setting, earlier_counts: bool) -> Option<String> {
    let (ignored, counts) = if earlier_counts { (later, earlier) } else { (earlier, later) };
    let ((index, line), (counting, counting_line)) = (place(files, ignored.line), place(files, counts.line));
    let file = files.get(index).filter(|_| files.len() > 1);
    let file = file.map_or_else(String::new, |file| format!("{} ", file.path.display()));
    (index == counting).then(|| {
        format!(
            "configuration {file}line {line}: \"{}\" has no effect, \"{}\" in line {counting_line} counts",
            ignored.key(),
            counts.key(),
        )
    })
}

/// The key for these words: its place in the table, what stands for `$word`, and whether it was found by its alias.
fn find(words: &[String]) -> Option<(usize, &'static Key, String, bool)> {
    for (rank, key) in keys::all().enumerate() {
        if let Some(word) = fits(key.name, words) {
            return Some((rank, key, word, false));
        }
        if let Some(word) = key.alias.and_then(|alias| fits(alias, words)) {
            return Some((rank, key, word, true));
        }
    }
    None
}

/// Whether words fit a pattern; the result is what stands for `$word`, or empty. Of two such words it is both with a dot between.
fn fits(pattern: &str, words: &[String]) -> Option<String> {
    let mut wild = String::new();
    let mut remaining = words.iter();
    for expected in pattern.split('.') {
        let word = remaining.next()?;
        if expected.starts_with('$') {
            if !wild.is_empty() {
                wild.push('.');
            }
            wild.push_str(word);
        } else if expected != word {
            return None;
        }
    }
    remaining.next().is_none().then_some(wild)
}

/// Stores the values in the order of the table.
fn store(options: &mut Options, chosen: Vec<Chosen>, problems: &mut Vec<Problem>) {
    let mut cleared = None;
    for Chosen { rank, key, word, setting } in chosen {
        if let Take::List { clear, .. } = key.take
            && cleared != Some(rank)
        {
            clear(options);
            cleared = Some(rank);
        }
        if let Err(reason) = key.take.store(options, &word, &setting.value) {
            let secret = key.name.ends_with("_pass") || key.name.ends_with(".password");
            let value = if secret { String::new() } else { setting.value.clone() };
            let kind = ProblemKind::BadValue { key: setting.key(), value, reason };
            problems.push(Problem { line: setting.line, kind });
        }
    }
}

#[cfg(test)]
mod tests;
