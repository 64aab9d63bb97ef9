//! The syntax of `rabbitmq.conf` (cuttlefish's sysctl style): text in, `key = value` settings with their lines out.
//!
//! ```text
//! line    = [ setting | comment ] [ CR ] LF
//! setting = key ws* "=" ws* ( "'" any-but-quote* "'" | any-but-# + ) [ comment ]
//! key     = word *( "." word )
//! word    = 1*( letter | digit | "_" | "-" | "\." )      ; "\." is a dot inside a word
//! comment = "#" any*
//! ```
//!
//! Checked against RabbitMQ 4.3's own parser: an unquoted value ends at the first `#`, inner blanks stay, double quotes
//! are ordinary characters, an empty value must be written `''`. Refuses to know which keys exist.

use super::error::{Problem, ProblemKind};

/// One `key = value` of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// Line in the file, counted from 1.
    pub(super) line: usize,
    /// The key's words; a dot inside a word was written `\.`.
    pub(super) words: Vec<String>,
    /// The value without quotes, before substitution.
    pub(super) value: String,
}

impl Setting {
    /// The key as one string, for texts and for looking up substitutions.
    pub(super) fn key(&self) -> String {
        self.words.join(".")
    }
}

/// Splits a file into settings; the second list has a problem for each line that is none.
pub(super) fn settings(text: &str) -> (Vec<Setting>, Vec<Problem>) {
    let mut settings = Vec::new();
    let mut problems = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        match setting(line.trim_matches([' ', '\t', '\r'])) {
            Ok(None) => {}
            Ok(Some((words, value))) => settings.push(Setting { line: line_number, words, value }),
            Err(kind) => problems.push(Problem { line: line_number, kind }),
        }
    }
    (settings, problems)
}

/// One line, already trimmed.
fn setting(line: &str) -> Result<Option<(Vec<String>, String)>, ProblemKind> {
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    if let Some(rest) = line.strip_prefix("include") {
        let argument = rest.trim_start_matches([' ', '\t']);
        if argument.len() < rest.len() && !argument.starts_with('=') {
            return Err(ProblemKind::Include);
        }
    }
    let (key, value) = line.split_once('=').ok_or(ProblemKind::NotASetting)?;
    let words = words(key.trim_end_matches([' ', '\t'])).ok_or(ProblemKind::NotASetting)?;
    let value = value.trim_start_matches([' ', '\t']);
    let value = match value.strip_prefix('\'') {
        Some(quoted) => quoted_value(quoted, &words)?,
        None => plain_value(value, &words)?,
    };
    Ok(Some((words, value)))
}

/// The words of a key, or `None` if it has characters that no key has.
fn words(key: &str) -> Option<Vec<String>> {
    let mut words = vec![String::new()];
    let mut characters = key.chars();
    while let Some(character) = characters.next() {
        let word = words.last_mut().expect("starts with one word and only grows");
        match character {
            '\\' if characters.as_str().starts_with('.') => {
                characters.next();
                word.push('.');
            }
            '.' => words.push(String::new()),
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => word.push(character),
            _ => return None,
        }
    }
    words.iter().all(|word| !word.is_empty()).then_some(words)
}

fn quoted_value(quoted: &str, words: &[String]) -> Result<String, ProblemKind> {
    let (value, rest) =
        quoted.split_once('\'').ok_or_else(|| ProblemKind::OpenQuote { key: words.join(".") })?;
    let rest = rest.trim_start_matches([' ', '\t']);
    if rest.is_empty() || rest.starts_with('#') {
        Ok(value.to_owned())
    } else {
        Err(ProblemKind::AfterQuote { key: words.join(".") })
    }
}

fn plain_value(value: &str, words: &[String]) -> Result<String, ProblemKind> {
    let end = value.find('#').unwrap_or(value.len());
    let value = value[..end].trim_end_matches([' ', '\t']);
    if value.is_empty() { Err(ProblemKind::NoValue { key: words.join(".") }) } else { Ok(value.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> (String, String) {
        let (settings, problems) = settings(line);
        assert_eq!(problems, [], "{line}");
        assert_eq!(settings.len(), 1, "{line}");
        (settings[0].words.join("|"), settings[0].value.clone())
    }

    fn refused(line: &str) -> ProblemKind {
        let (settings, problems) = settings(line);
        assert_eq!(settings, [], "{line}");
        assert_eq!(problems.len(), 1, "{line}");
        problems[0].kind.clone()
    }

    /// Each pair was put through RabbitMQ 4.3's own parser.
    #[test]
    fn settings_read_as_rabbitmq_reads_them() {
        for (line, key, value) in [
            ("heartbeat = 60", "heartbeat", "60"),
            ("heartbeat=5", "heartbeat", "5"),
            ("  default_vhost   =   /x  ", "default_vhost", "/x"),
            ("\tdefault_vhost\t=\t/x\t", "default_vhost", "/x"),
            ("default_pass = 'a # b'", "default_pass", "a # b"),
            ("default_user = ab # trailing", "default_user", "ab"),
            ("default_user = a#b", "default_user", "a"),
            ("cluster_name = a b c", "cluster_name", "a b c"),
            ("cluster_name = \"dq\"", "cluster_name", "\"dq\""),
            ("cluster_name = ''", "cluster_name", ""),
            ("cluster_name = a = b", "cluster_name", "a = b"),
            ("loopback_users.foo\\.bar = true", "loopback_users|foo.bar", "true"),
            ("default_permissions.read = ^a\\.b$", "default_permissions|read", "^a\\.b$"),
            ("include = 3", "include", "3"),
            ("heartbeat = 60\r", "heartbeat", "60"),
        ] {
            assert_eq!(one(line), (key.to_owned(), value.to_owned()), "{line}");
        }
    }

    #[test]
    fn what_is_no_setting_is_refused_with_its_reason() {
        assert_eq!(refused("heartbeat"), ProblemKind::NotASetting);
        assert_eq!(refused("= 3"), ProblemKind::NotASetting);
        assert_eq!(refused("log..level = 3"), ProblemKind::NotASetting);
        assert_eq!(refused("log.dir. = 3"), ProblemKind::NotASetting);
        assert_eq!(refused("{rabbit, []}."), ProblemKind::NotASetting);
        assert_eq!(refused("a\\b = 3"), ProblemKind::NotASetting);
        assert_eq!(refused("include conf.d/*.conf"), ProblemKind::Include);
        let key = || "q".to_owned();
        assert_eq!(refused("q ="), ProblemKind::NoValue { key: key() });
        assert_eq!(refused("q = # none"), ProblemKind::NoValue { key: key() });
        assert_eq!(refused("q = 'ab"), ProblemKind::OpenQuote { key: key() });
        assert_eq!(refused("q = 'it''s'"), ProblemKind::AfterQuote { key: key() });
    }

    #[test]
    fn lines_count_from_one_and_blank_lines_and_comments_count_too() {
        let (settings, problems) = settings("\u{feff}# head\r\n\r\n## more\na = 1\n   \nb\n");
        assert_eq!(settings[0].line, 4);
        assert_eq!(problems[0].line, 6);
    }

    #[test]
    fn every_text_is_read_without_panic() {
        for text in
            ["\\", "a\\", "'", "=", "a='", "a=\u{1F407}", "\u{0}=\u{0}", "a.\\. = 1", "include", "include "]
        {
            let _ = settings(text);
        }
    }
}
