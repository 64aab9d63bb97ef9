//! Patterns of policies: RabbitMQ's are Perl's regular expressions, look-around and back references included. Refuses to
//! know what they are matched for.

use std::borrow::Cow;

/// Longest pattern, bytes: names have 255.
const PATTERN_BYTES_MAX: usize = 4096;

/// Memory that a compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Steps back that deciding about one name may take: a fraction of a millisecond. Every queue declared is matched.
const BACKTRACKS_MAX: usize = 10_000;

/// A pattern of names, unanchored.
#[derive(Debug)]
pub(crate) enum Pattern {
    Everything,
    /// Matched in time that grows with the name only.
    Plain(Box<regex::bytes::Regex>),
    /// With look-around or back references. What takes too many steps to decide does not match.
    Fancy(Box<fancy_regex::Regex>),
    /// Not a valid expression: matches nothing.
    Broken,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Pattern {
        if matches!(text, "" | ".*" | "^" | "^.*" | "^.*$" | ".*$") {
            return Pattern::Everything;
        }
        if text.len() > PATTERN_BYTES_MAX {
            return Pattern::Broken;
        }
        let plain = regex::bytes::RegexBuilder::new(text).size_limit(COMPILED_BYTES_MAX).build();
        if let Ok(plain) = plain {
            return Pattern::Plain(Box::new(plain));
        }
        fancy(text).map_or(Pattern::Broken, |regex| Pattern::Fancy(Box::new(regex)))
    }

    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        match self {
            Pattern::Everything => true,
            Pattern::Plain(regex) => regex.is_match(name),
            Pattern::Fancy(regex) => {
                let name: Cow<'_, str> = String::from_utf8_lossy(name);
                regex.is_match(&*name).unwrap_or(false)
            }
            Pattern::Broken => false,
        }
    }
}

/// A pattern of names, as somebody looks for them: a policy's, but letters are the same in either case.
#[derive(Debug)]
pub struct NamePattern(Pattern);

impl NamePattern {
    /// At most 4096 bytes. What is no valid expression matches nothing.
    #[must_use]
    pub fn of_any_case(text: &str) -> Self {
        NamePattern(Pattern::new(&format!("(?i){text}")))
    }

    /// Whether it is anywhere in a name.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        self.0.matches(name)
    }
}

fn fancy(text: &str) -> Result<fancy_regex::Regex, fancy_regex::Error> {
    fancy_regex::RegexBuilder::new(text)
        .backtrack_limit(BACKTRACKS_MAX)
        .delegate_size_limit(COMPILED_BYTES_MAX)
        .build()
}

/// Why a pattern is none, with RabbitMQ's words where its library and ours see the same mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternProblem {
    /// What is wrong.
    pub text: String,
    /// At which byte of the pattern it was noticed.
    pub position: usize,
}

/// What is wrong with a policy's pattern; `None` when it can be used.
#[must_use]
pub fn policy_pattern_problem(pattern: &str) -> Option<PatternProblem> {
    use fancy_regex::{Error, ParseError};
    if pattern.len() > PATTERN_BYTES_MAX {
        return Some(PatternProblem {
            text: "regular expression is too large".into(),
            position: PATTERN_BYTES_MAX,
        });
    }
    if !matches!(Pattern::new(pattern), Pattern::Broken) {
        return None;
    }
    let error = fancy(pattern).err()?;
    let Error::ParseError(position, kind) = &error else {
        return Some(PatternProblem { text: error.to_string(), position: 0 });
    };
    let end = pattern.len();
    let (text, position) = match kind {
        ParseError::UnclosedOpenParen => ("missing closing parenthesis", end),
        ParseError::InvalidClass => ("missing terminating ] for character class", end),
        ParseError::TargetNotRepeatable => ("quantifier does not follow a repeatable item", position + 1),
        ParseError::TrailingBackslash => ("\\ at end of pattern", end),
        _ if pattern[*position..].starts_with(')') => ("unmatched closing parenthesis", *position),
        other => return Some(PatternProblem { text: other.to_string(), position: *position }),
    };
    Some(PatternProblem { text: text.into(), position })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_for_in_either_case_and_may_be_excluded() {
        let without_b = NamePattern::of_any_case("^(?!b)");
        assert!(without_b.matches(b"orders") && !without_b.matches(b"Billing"));
        assert!(!NamePattern::of_any_case("(").matches(b"("));
    }

    #[test]
    fn a_pattern_may_look_ahead_as_those_of_rabbitmq_often_do() {
        let pattern = Pattern::new("^(?!amq\\.)");
        assert!(pattern.matches(b"orders") && !pattern.matches(b"amq.direct"));
        assert!(Pattern::new("^(.)x\\1$").matches(b"axa"));
        assert!(Pattern::new("rd").matches(b"orders"), "patterns are not anchored");
        assert!(Pattern::new("").matches(b"anything"));
        assert!(Pattern::new("^.$").matches(b"a") && !Pattern::new("[").matches(b"["));
    }

    #[test]
    fn what_is_wrong_with_a_pattern_is_said_in_rabbitmqs_words() {
        let said = |pattern| policy_pattern_problem(pattern).map(|it| (it.text, it.position));
        assert_eq!(said("("), Some(("missing closing parenthesis".into(), 1)));
        assert_eq!(said("[a"), Some(("missing terminating ] for character class".into(), 2)));
        assert_eq!(said("*"), Some(("quantifier does not follow a repeatable item".into(), 1)));
        assert_eq!(said("^(?!amq\\.).*"), None);
        for odd in ["a)", "(?<n>a", "\\"] {
            assert!(said(odd).is_some(), "{odd}");
        }
    }

    #[test]
    fn a_pattern_that_takes_for_ever_does_not_match() {
        let pattern = Pattern::new("^(?=(a+)+$)\\1b");
        assert!(!pattern.matches(&[b'a'; 200]));
    }

    #[test]
    fn patterns_that_take_much_memory_are_refused_before_they_are_compiled() {
        let long = "x".repeat(PATTERN_BYTES_MAX + 1);
        assert!(matches!(Pattern::new(&long), Pattern::Broken));
        assert_eq!(policy_pattern_problem(&long).unwrap().text, "regular expression is too large");
        assert!(policy_pattern_problem("((a{1000}){1000}){10}").is_some());
    }
}
