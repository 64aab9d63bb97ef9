//! The command line of `rabbitmqctl`: options anywhere, then the command and its arguments. Refuses to know what a command does.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use tls::{ClientOptions, Verify};

use management::{Format, Headers, Request};

use super::Called;
use super::catalogue::{self, Entry};

/// How much to say besides the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Banner {
    /// The banner tells the work that is being done.
    Shown,
    /// Nothing.
    Hidden,
}

/// Whether the command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// It is.
    Really,
    /// The command line is checked only.
    Dry,
}

/// A command line that was read.
#[derive(Debug, PartialEq)]
pub(super) struct Arguments {
    /// For the server; its command is empty when none was given.
    pub(super) request: Request,
    /// Shape of answers.
    pub(super) format: Format,
    /// Names of columns.
    pub(super) headers: Headers,
    /// Whether to print the banner.
    pub(super) banner: Banner,
    /// Whether to do it.
    pub(super) run: Run,
    /// Folder of the server.
    pub(super) data_dir: Option<PathBuf>,
    /// Server elsewhere, with a user and perhaps a password in it.
    pub(super) url: Option<String>,
    /// How an encrypted connection to that server is made.
    pub(super) tls: ClientOptions,
    /// File whose first line is the password for the URL.
    pub(super) password_file: Option<PathBuf>,
    /// Longest wait for the answer; the command decides when it is not given.
    pub(super) timeout: Option<Duration>,
}

/// Options of every command: letter, long name, with `=` where a value follows.
const COMMON: &[(Option<char>, &str)] = &[
    (Some('p'), "vhost="),
    (Some('n'), "node="),
    (Some('t'), "timeout="),
    (Some('q'), "quiet"),
    (Some('s'), "silent"),
    (Some('l'), "longnames"),
    (Some('?'), "help"),
    (Some('h'), "help"),
    (None, "formatter="),
    (None, "printer="),
    (None, "file="),
    (None, "data-dir="),
    (None, "url="),
    (None, "password-file="),
    (None, "tls-ca-cert-file="),
    (None, "tls-cert-file="),
    (None, "tls-key-file="),
    (None, "insecure"),
    (None, "erlang-cookie="),
    (None, "rabbitmq-home="),
    (None, "mnesia-dir="),
    (None, "plugins-dir="),
    (None, "enabled-plugins-file="),
    (None, "aliases-file="),
    (None, "script-name="),
    (None, "no-table-headers"),
    (None, "table-headers"),
    (None, "print-stacktrace"),
    (None, "dry-run"),
    (None, "version"),
];

/// Letters for options of single commands.
const LETTERS: &[(char, &str)] = &[
    ('e', "if-empty"),
    ('u', "if-unused"),
    ('d', "description="),
    ('d', "duration="),
    ('N', "number="),
    ('P', "pid="),
    ('a', "address="),
    ('a', "all"),
    ('o', "opt-in"),
    ('m', "minimal"),
    ('v', "verbose"),
    ('e', "enabled"),
    ('E', "implicitly-enabled"),
    ('o', "output="),
];

/// The known facts about an option: its long name, and whether a value follows.
#[derive(Clone, Copy)]
struct Known {
    name: &'static str,
    valued: bool,
}

fn known(option: &'static str) -> Known {
    Known { name: option.trim_end_matches('='), valued: option.ends_with('=') }
}

/// The option of a command, by long name or letter.
fn option(entry: Option<&'static Entry>, wanted: &str) -> Option<Known> {
    let own = || entry.into_iter().flat_map(|entry| entry.options.iter().copied());
    if let Some(long) = wanted.strip_prefix("--") {
        let long = long.replace('_', "-");
        let common = COMMON.iter().map(|(_, name)| *name);
        return common.chain(own()).map(known).find(|it| it.name == long);
    }
    let letter = wanted.strip_prefix('-').filter(|rest| rest.chars().count() == 1)?.chars().next();
    let common = COMMON.iter().filter(|(known, _)| *known == letter).map(|(_, name)| *name);
    let of_command =
        LETTERS.iter().filter(|(known, name)| Some(*known) == letter && own().any(|it| it == *name));
    common.chain(of_command.map(|(_, name)| *name)).map(known).next()
}

/// Options and positional words, apart.
#[derive(Default)]
struct Words {
    options: BTreeMap<String, String>,
    positional: Vec<String>,
    /// `--option : value` of each that the command does not take.
    invalid: Vec<String>,
}

/// The command on a line, whatever else is wrong with it: the first word that is neither option nor value of one.
fn command_of(words: &[String]) -> Option<&String> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if !is_option(word) {
            return Some(word);
        }
        if option(None, word).is_some_and(|it| it.valued) {
            words.next();
        }
    }
    None
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && word.parse::<f64>().is_err()
}

impl Words {
    fn read(called: Called, words: &[String]) -> Self {
        let entry = command_of(words).and_then(|word| catalogue::find(&called.command(word)));
        let mut read = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                read.positional.extend(words.by_ref().cloned());
            } else if is_option(word) {
                read.option(entry, word, &mut words);
            } else {
                read.positional.push(word.clone());
            }
        }
        if let Some(first) = read.positional.first_mut() {
            *first = called.command(first);
        }
        if clears_certificates(&read.positional) {
            read.positional = vec!["reload_certificates".to_owned()];
        }
        read
    }

    fn option<'a>(
        &mut self,
        entry: Option<&'static Entry>,
        word: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) {
        let (name, value) = match word.split_once('=').filter(|_| word.starts_with("--")) {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word, None),
        };
        match option(entry, name) {
            Some(known) if known.valued => match value.or_else(|| rest.next().cloned()) {
                Some(value) => drop(self.options.insert(known.name.into(), value)),
                None => self.invalid.push(format!("{name} : ")),
            },
            Some(known) => drop(self.options.insert(known.name.into(), value.unwrap_or_default())),
            None if self.letters(entry, name) => (),
            None => self.invalid.push(format!("{name} : ")),
        }
    }

    /// Several flags behind one dash, such as `-qs`.
    fn letters(&mut self, entry: Option<&'static Entry>, word: &str) -> bool {
        let flags: Option<Vec<Known>> = word[1..]
            .chars()
            .map(|letter| option(entry, &format!("-{letter}")).filter(|known| !known.valued))
            .collect();
        let several = flags.filter(|flags| flags.len() > 1 && !word.starts_with("--"));
        for known in several.iter().flatten() {
            self.options.insert(known.name.into(), String::new());
        }
        several.is_some()
    }
}

/// Whether it is `eval 'ssl:clear_pem_cache().'`: RabbitMQ's guide for renewed certificates ends with it.
fn clears_certificates(words: &[String]) -> bool {
    matches!(words, [eval, code] if eval == "eval" && code.trim_end_matches(['.', ' ']) == "ssl:clear_pem_cache()")
}

/// Why a command line is not run: a text for the user.
#[derive(Debug, PartialEq)]
pub(super) struct Mistake {
    /// The problem.
    pub(super) problem: String,
    /// The command, empty when there is none.
    pub(super) command: String,
}

/// Reads a command line and checks its options and the number of its arguments.
pub(super) fn parse(called: Called, words: Vec<OsString>) -> Result<Arguments, Mistake> {
    let mut line = Vec::with_capacity(words.len());
    for word in words {
        line.push(word.into_string().map_err(|word| Mistake {
            problem: format!("not valid UTF-8: {}", word.to_string_lossy()),
            command: String::new(),
        })?);
    }
    let read = Words::read(called, &line);
    let command = read.positional.first().cloned().unwrap_or_default();
    arguments(read).map_err(|problem| Mistake { problem, command })
}

/// The long name of the option whose value follows the last word, if one does.
pub(super) fn value_of(called: Called, line: &[String], last: &str) -> Option<&'static str> {
    let entry = command_of(line).and_then(|word| catalogue::find(&called.command(word)));
    (is_option(last) && !last.contains('='))
        .then(|| option(entry, last))
        .flatten()
        .filter(|known| known.valued)
        .map(|known| known.name)
}

/// Reads a command line that is not complete yet.
pub(super) fn parse_unchecked(called: Called, line: &[String]) -> Result<Arguments, String> {
    let mut read = Words::read(called, line);
    read.invalid.clear();
    read.options.insert("help".into(), String::new()); // nothing is checked then
    arguments(read)
}

/// Long options that a command takes.
pub(super) fn options_of(command: &str) -> Vec<String> {
    let own = catalogue::find(command).into_iter().flat_map(|entry| entry.options.iter().copied());
    let all = COMMON.iter().map(|(_, name)| *name).chain(own);
    all.map(|name| format!("--{}", name.trim_end_matches('='))).collect()
}

fn arguments(read: Words) -> Result<Arguments, String> {
    let Words { mut options, mut positional, mut invalid } = read;
    let command = if positional.is_empty() { String::new() } else { positional.remove(0) };
    let seconds = options.remove("timeout");
    let timeout = seconds.as_deref().and_then(|text| text.parse::<u32>().ok());
    if let (Some(text), None) = (seconds, timeout) {
        invalid.push(format!("--timeout : {text}"));
    }
    for name in ["priority", "pid"] {
        if let Some(text) = options.get(name).filter(|text| text.parse::<i64>().is_err()) {
            invalid.push(format!("--{name} : {text}"));
        }
    }
    let asks_help = options.contains_key("help") || options.contains_key("version");
    if let Some(entry) = catalogue::find(&command).filter(|_| !asks_help) {
        if !invalid.is_empty() {
            return Err(format!("Invalid options for this command:\n{}", invalid.join("\n")));
        }
        check_count(entry, positional.len())?;
    }
    let format = match options.remove("formatter") {
        None => Format::default(),
        Some(name) => Format::from_name(&name).ok_or_else(|| format!("unknown formatter {name}"))?,
    };
    let silent = options.contains_key("silent");
    let hidden = silent || options.contains_key("no-table-headers");
    let machine = matches!(format, Format::Json | Format::Csv);
    Ok(Arguments {
        data_dir: options.remove("data-dir").map(PathBuf::from),
        url: options.remove("url"),
        tls: ClientOptions {
            verify: if options.remove("insecure").is_some() { Verify::None } else { Verify::Peer },
            ca_file: options.remove("tls-ca-cert-file").map(PathBuf::from),
            certificate_file: options.remove("tls-cert-file").map(PathBuf::from),
            key_file: options.remove("tls-key-file").map(PathBuf::from),
            ..ClientOptions::default()
        },
        password_file: options.remove("password-file").map(PathBuf::from),
        headers: if hidden { Headers::Hidden } else { Headers::Shown },
        banner: if silent || machine || options.contains_key("quiet") {
            Banner::Hidden
        } else {
            Banner::Shown
        },
        run: if options.contains_key("dry-run") { Run::Dry } else { Run::Really },
        request: Request { command, args: positional, options },
        format,
        timeout: timeout.map(|seconds| Duration::from_secs(seconds.into())),
    })
}

fn check_count(entry: &Entry, given: usize) -> Result<(), String> {
    match given {
        few if few < entry.arguments_min => Err("not enough arguments.".into()),
        many if many > entry.arguments_max => Err("too many arguments.".into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> Result<Arguments, String> {
        parse(Called::Warren, line.iter().map(OsString::from).collect()).map_err(|mistake| mistake.problem)
    }

    #[test]
    fn the_code_that_clears_rabbitmqs_cache_of_certificates_reads_them_again() {
        let read = read(&["-q", "eval", "ssl:clear_pem_cache()."]).unwrap();
        assert_eq!((read.request.command.as_str(), read.request.args.len()), ("reload_certificates", 0));
        assert_eq!(self::read(&["eval", "1+1."]).unwrap().request.command, "eval");
    }

    #[test]
    fn options_are_read_wherever_they_stand() {
        let line = [
            "-q",
            "--data-dir",
            "/d",
            "list_queues",
            "-p",
            "v",
            "name",
            "messages",
            "--formatter=json",
            "-n",
            "x",
        ];
        let read = read(&line).unwrap();
        assert_eq!(read.request.command, "list_queues");
        assert_eq!(read.request.args, ["name", "messages"]);
        assert_eq!((read.request.vhost(), read.format, read.banner), ("v", Format::Json, Banner::Hidden));
        assert_eq!(read.data_dir, Some(PathBuf::from("/d")));
    }

    #[test]
    fn empty_arguments_and_all_behind_two_dashes_are_positional() {
        let read = read(&["set_permissions", "u", "", "", "--", "-x"]).unwrap();
        assert_eq!(read.request.args, ["u", "", "", "-x"]);
        assert_eq!((read.banner, read.headers), (Banner::Shown, Headers::Shown));
    }

    #[test]
    fn mistakes_are_told() {
        let problem = |line: &[&str]| read(line).unwrap_err();
        assert_eq!(problem(&["list_queues", "--bogus"]), "Invalid options for this command:\n--bogus : ");
        assert_eq!(
            problem(&["list_queues", "--bogus=1", "-p"]),
            "Invalid options for this command:\n--bogus : \n-p : "
        );
        assert_eq!(problem(&["-t", "soon", "ping"]), "Invalid options for this command:\n--timeout : soon");
        assert!(problem(&["list_queues", "--formatter", "xml"]).contains("xml"));
        assert_eq!(
            problem(&["list_queues", "--if-empty"]),
            "Invalid options for this command:\n--if-empty : "
        );
        assert_eq!(problem(&["delete_queue"]), "not enough arguments.");
        assert_eq!(problem(&["delete_queue", "a", "b"]), "too many arguments.");
        assert_eq!(read(&[]).unwrap().request.command, "");
    }

    #[test]
    fn flags_may_share_a_dash_and_letters_depend_on_the_command() {
        let read = read(&["delete_queue", "-qe", "-u", "q"]).unwrap();
        assert_eq!(read.banner, Banner::Hidden);
        assert!(read.request.has("if-empty") && read.request.has("if-unused"));
        let help = super::tests::read(&["delete_queue", "--help"]).unwrap();
        assert!(help.request.has("help"));
    }
}
