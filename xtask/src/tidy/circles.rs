//! Circles of imports: files of one crate that need each other, directly or through others. A circle of more than 8 files is too large to
//! read in parts. Today's larger ones stand in `xtask/ratchet.txt` (kind `circle`, by crate) and may only shrink.
//!
//! An import is a path that begins with `crate`, `self`, `super` or a module below the file's own. A name that a module re-exports is
//! followed to the file that has it. Tests and `mod` lines do not count. Refuses to understand Rust any further.

use std::collections::{BTreeMap, BTreeSet};

use super::Tree;
use super::code::Code;

/// Files that may need each other in a circle.
pub(crate) const CIRCLE_FILES_MAX: usize = 8;

/// Re-exports that are followed one after the other; a longer chain is a mistake.
const EXPORTS_FOLLOWED_MAX: usize = 8;

/// Words between `::`: `crate::queues::Queue` has three. Modules stand without `crate`.
type Words = Vec<String>;

/// For each crate that has circles of more than 8 files: those circles, the largest first, each with its files.
pub(crate) fn large_circles(tree: &Tree) -> BTreeMap<String, Vec<Vec<String>>> {
    let folders = tree.crates().map(|(folder, _)| folder.to_owned());
    let circles = folders.map(|folder| {
        let circles = House::read(tree, &folder).circles();
        (folder, circles)
    });
    circles.filter(|(_, circles)| !circles.is_empty()).collect()
}

/// One file of a crate.
#[derive(Default)]
struct Room {
    file: String,
    /// Names that it re-exports, and the paths behind them as written.
    exports: BTreeMap<String, Words>,
    /// All other paths, as written.
    paths: Vec<Words>,
}

/// Modules of a crate that are files, by their names from the root on.
struct House(BTreeMap<Words, Room>);

impl House {
    fn read(tree: &Tree, folder: &str) -> Self {
        let inside = format!("{folder}/src/");
        let room = |file: &super::tree::File, code: &Code| {
            let module = module_of(file.path.strip_prefix(&inside)?)?;
            Some((module, Room::read(&file.path, code)))
        };
        Self(tree.rust().filter_map(|(file, code)| room(file, code)).collect())
    }

    /// The module that has what a path of `from` names; none for paths into other crates.
    fn resolve(&self, from: &[String], path: &[String], followed: usize) -> Option<Words> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.to_vec(),
            "super" => {
                let mut at = from.to_vec();
                at.pop()?;
                while rest.first().is_some_and(|word| word == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
                at
            }
            child => {
                let below = [from, &[child.to_owned()]].concat();
                self.0.contains_key(&below).then_some(below)?
            }
        };
        for (index, word) in rest.iter().enumerate() {
            let below = [&at[..], std::slice::from_ref(word)].concat();
            if self.0.contains_key(&below) {
                at = below;
                continue;
            }
            let export = self.0.get(&at).and_then(|room| room.exports.get(word));
            if let Some(export) = export.filter(|_| followed < EXPORTS_FOLLOWED_MAX) {
                let path = [&export[..], &rest[index + 1..]].concat();
                return self.resolve(&at, &path, followed + 1).or(Some(at));
            }
            break;
        }
        Some(at)
    }

    /// Which modules each module imports.
    fn imports(&self) -> BTreeMap<&Words, BTreeSet<Words>> {
        let of = |(module, room): (&Words, &Room)| -> BTreeSet<Words> {
            let found = room.paths.iter().filter_map(|path| self.resolve(module, path, 0));
            found.filter(|target| target != module && self.0.contains_key(target)).collect()
        };
        self.0.iter().map(|it| (it.0, of(it))).collect()
    }

    /// Circles of more than 8 files, the largest first.
    fn circles(&self) -> Vec<Vec<String>> {
        let imports = self.imports();
        let reached: BTreeMap<&Words, BTreeSet<&Words>> =
            imports.keys().map(|module| (*module, reached_from(module, &imports))).collect();
        let mut left: BTreeSet<&Words> = imports.keys().copied().collect();
        let mut circles = Vec::new();
        while let Some(module) = left.pop_first() {
            let circle: Vec<&Words> = left
                .iter()
                .copied()
                .filter(|it| reached[module].contains(it) && reached[it].contains(module))
                .collect();
            for other in &circle {
                left.remove(other);
            }
            if circle.len() + 1 > CIRCLE_FILES_MAX {
                let all = std::iter::once(module).chain(circle);
                circles.push(all.map(|it| self.0[it].file.clone()).collect::<Vec<_>>());
            }
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }
}

fn reached_from<'a>(module: &Words, imports: &'a BTreeMap<&Words, BTreeSet<Words>>) -> BTreeSet<&'a Words> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Words> = imports[module].iter().collect();
    while let Some(it) = next.pop() {
        if reached.insert(it) {
            next.extend(&imports[it]);
        }
    }
    reached
}

impl Room {
    fn read(file: &str, code: &Code) -> Self {
        let mut room = Self { file: file.to_owned(), ..Self::default() };
        let mut inside_uses = Vec::new();
        for at in code.words("use").filter(|at| !code.in_tests(*at)) {
            let Some(length) = code.text()[at..].find(';') else { continue };
            inside_uses.push(at..at + length);
            let mut paths = Vec::new();
            let mut words = tokens(&code.text()[at + "use".len()..at + length]).into_iter();
            flatten(&mut words, &[], &mut paths);
            let is_exported =
                code.text()[..at].trim_end().ends_with(')') || code.text()[..at].trim_end().ends_with("pub");
            for (name, path) in paths {
                if is_exported {
                    room.exports.insert(name, path);
                } else {
                    room.paths.push(path);
                }
            }
        }
        for (at, _) in code.text().match_indices("::") {
            if code.in_tests(at) || inside_uses.iter().any(|it| it.contains(&at)) {
                continue;
            }
            room.paths.extend(path_around(code.text(), at));
        }
        room
    }
}

/// The path whose first `::` is this one.
fn path_around(text: &str, at: usize) -> Option<Words> {
    let is_word = |it: char| it.is_alphanumeric() || it == '_';
    let before = &text[..at];
    let first = &before[before.rfind(|it| !is_word(it)).map_or(0, |found| found + 1)..];
    if first.is_empty() || before[..before.len() - first.len()].ends_with("::") {
        return None;
    }
    let rest = text[at..].split("::").skip(1);
    let mut path = vec![first.to_owned()];
    for part in rest {
        let word: String = part.chars().take_while(|it| is_word(*it)).collect();
        let ends = word.len() < part.len();
        if word.is_empty() {
            break;
        }
        path.push(word);
        if ends {
            break;
        }
    }
    Some(path)
}

/// Words, braces and commas of a `use`.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut in_word = false;
    for character in text.chars() {
        let is_word = character.is_alphanumeric() || character == '_';
        match tokens.last_mut() {
            Some(last) if is_word && in_word => last.push(character),
            _ if is_word || "{},*".contains(character) => tokens.push(character.into()),
            _ => {}
        }
        in_word = is_word;
    }
    tokens
}

/// The paths of a tree of imports with the names that they are given here, up to the `}` that closes it.
fn flatten(tokens: &mut std::vec::IntoIter<String>, base: &[String], paths: &mut Vec<(String, Words)>) {
    let mut path = base.to_vec();
    let mut name = None;
    let mut is_renamed = false;
    while let Some(token) = tokens.next() {
        match token.as_str() {
            "{" => {
                flatten(tokens, &path, paths);
                name = None;
            }
            "," | "}" => {
                paths.extend(name.take().map(|name| (name, std::mem::replace(&mut path, base.to_vec()))));
                path = base.to_vec();
                if token == "}" {
                    return;
                }
            }
            "as" => is_renamed = true,
            _ if std::mem::take(&mut is_renamed) => name = Some(token),
            "self" if !path.is_empty() => name = path.last().cloned(),
            _ => {
                path.push(token.clone());
                name = Some(token);
            }
        }
    }
    paths.extend(name.map(|name| (name, path)));
}

/// The module that a file below `src` is; none for tests and other programs of the crate.
fn module_of(file: &str) -> Option<Words> {
    let mut words: Words = file.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if words.iter().any(|word| word == "tests" || word == "bin") {
        return None;
    }
    if matches!(words.last()?.as_str(), "mod")
        || (words.len() == 1 && matches!(words[0].as_str(), "lib" | "main"))
    {
        words.pop();
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of the circles of a crate with these files, each with its text.
    fn sizes(files: &[(&str, String)]) -> Vec<usize> {
        let mut tree = Tree::of(&[("core/a/Cargo.toml", "[package]\nname = \"a\"\n")]);
        for (file, text) in files {
            tree.add(&format!("core/a/src/{file}"), text);
        }
        large_circles(&tree).values().flatten().map(Vec::len).collect()
    }

    /// A ring of so many files, each of which imports the next by what `import` makes of its name.
    fn ring(count: usize, import: fn(String) -> String) -> Vec<(String, String)> {
        (0..count).map(|it| (format!("m{it}.rs"), import(format!("m{}", (it + 1) % count)))).collect()
    }

    fn ring_sizes(count: usize, import: fn(String) -> String) -> Vec<usize> {
        let files = ring(count, import);
        sizes(&files.iter().map(|(file, text)| (file.as_str(), text.clone())).collect::<Vec<_>>())
    }

    #[test]
    fn nine_files_in_a_circle_are_found_and_eight_are_not() {
        assert_eq!(ring_sizes(9, |next| format!("use crate::{next}::A;")), [9]);
        assert_eq!(ring_sizes(8, |next| format!("use crate::{next}::A;")), [0; 0]);
    }

    #[test]
    fn every_way_to_write_an_import_counts() {
        let ways: [fn(String) -> String; 6] = [
            |next| format!("use super::{next}::A;"),
            |next| format!("use crate::{{x::B, {next}::{{self, A as C}}}};"),
            |next| format!("fn f() {{ crate::{next}::g(); }}"),
            |next| format!("use crate::{next};"),
            |next| format!("fn f(a: &super::{next}::A) {{}}"),
            |next| format!("use crate::x::B;\npub(crate) fn f() {{ <crate::{next}::A as T>::g() }}"),
        ];
        for way in ways {
            assert_eq!(ring_sizes(9, way), [9], "{}", way("next".into()));
        }
    }

    #[test]
    fn tests_comments_module_lines_and_other_crates_do_not_count() {
        let ways: [fn(String) -> String; 4] = [
            |next| format!("#[cfg(test)]\nmod tests {{ use crate::{next}::A; }}"),
            |next| format!("// crate::{next}::A\n"),
            |next| format!("mod {next};"),
            |next| format!("use serde::{next}::A;"),
        ];
        for way in ways {
            assert_eq!(ring_sizes(9, way), [0; 0], "{}", way("next".into()));
        }
    }

    #[test]
    fn a_name_that_the_root_exports_is_followed_to_its_file() {
        let exports: String = (0..9).map(|it| format!("pub use m{it}::A{it};\n")).collect();
        let with = |count: usize, next: fn(usize) -> String| {
            let mut files = vec![("lib.rs".to_owned(), exports.clone())];
            files.extend((0..count).map(|it| (format!("m{it}.rs"), next(it))));
            sizes(&files.iter().map(|(file, text)| (file.as_str(), text.clone())).collect::<Vec<_>>())
        };
        assert_eq!(with(9, |it| format!("use crate::A{};", (it + 1) % 9)), [9], "without the root");
        let chain = |it: usize| if it == 8 { String::new() } else { format!("use crate::A{};", it + 1) };
        assert_eq!(with(9, chain), [0; 0]);
    }

    #[test]
    fn a_module_and_those_below_it_are_a_circle() {
        let mut files =
            vec![("p/mod.rs".to_owned(), (0..8).map(|it| format!("use m{it}::A;\n")).collect::<String>())];
        files.extend((0..8).map(|it| (format!("p/m{it}.rs"), "use super::P;".to_owned())));
        assert_eq!(
            sizes(&files.iter().map(|(file, text)| (file.as_str(), text.clone())).collect::<Vec<_>>()),
            [9]
        );
    }
}
