//! Patterns of policies: RabbitMQ's are Perl's regular expressions, look-around and back references included. Refuses to
//! know what they are matched for.

use std::borrow::Cow;
use std::time::{Duration, Instant};

/// Longest pattern, bytes: names have 255.
const PATTERN_BYTES_MAX: usize = 4096;

/// Memory that a compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Steps back that deciding about one name may take: a fraction of a millisecond. Every queue declared is matched.
const BACKTRACKS_MAX: usize = 10_000;

/// Steps back that a search through all names may take, together: about a fifth of a second.
const SEARCH_BACKTRACKS_MAX: usize = 20_000_000;

/// Steps back that a search allows for a name at least, however many names there are.
const NAME_BACKTRACKS_MIN: usize = 2_000;

/// How long a search may take. Patterns without steps back are not all fast either.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(2);

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
        Self::with_steps(text, BACKTRACKS_MAX)
    }

    fn with_steps(text: &str, backtracks_max: usize) -> Pattern {
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
        fancy(text, backtracks_max).map_or(Pattern::Broken, |regex| Pattern::Fancy(Box::new(regex)))
    }

    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        self.decide(name).unwrap_or(false)
    }

    /// `None` when that takes too many steps.
    fn decide(&self, name: &[u8]) -> Option<bool> {
        match self {
            Pattern::Everything => Some(true),
            Pattern::Plain(regex) => Some(regex.is_match(name)),
            Pattern::Fancy(regex) => {
                let name: Cow<'_, str> = String::from_utf8_lossy(name);
                regex.is_match(&*name).ok()
            }
            Pattern::Broken => Some(false),
        }
    }
}

/// A search for names by a pattern: a policy's, but letters are the same in either case. What all of it costs has a bound.
#[derive(Debug)]
pub struct NameSearch {
    pattern: Pattern,
    began: Instant,
}

/// A search would cost too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySteps;

impl NameSearch {
    /// Through so many names, which begins now; a pattern has at most 4096 bytes. What is no valid expression matches nothing.
    #[must_use]
    pub fn of_any_case(text: &str, name_count: usize) -> Self {
        let each = SEARCH_BACKTRACKS_MAX / name_count.max(1);
        let each = each.clamp(NAME_BACKTRACKS_MIN, BACKTRACKS_MAX);
        Self { pattern: Pattern::with_steps(&format!("(?i){text}"), each), began: Instant::now() }
    }

    /// Whether the pattern is anywhere in a name.
    ///
    /// # Errors
    /// It cannot be decided with the steps that there are for a name, or the search has taken two seconds.
    pub fn matches(&self, name: &[u8]) -> Result<bool, TooManySteps> {
        let is_late = self.began.elapsed() > SEARCH_TIME_MAX;
        self.pattern.decide(name).filter(|_| !is_late).ok_or(TooManySteps)
    }
}

fn fancy(text: &str, backtracks_max: usize) -> Result<fancy_regex::Regex, fancy_regex::Error> {
    fancy_regex::RegexBuilder::new(text)
        .backtrack_limit(backtracks_max)
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
    let error = fancy(pattern, BACKTRACKS_MAX).err()?;
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
        let without_b = NameSearch::of_any_case("^(?!b)", 2);
        assert_eq!([&b"orders"[..], b"Billing"].map(|name| without_b.matches(name)), [Ok(true), Ok(false)]);
        assert_eq!(NameSearch::of_any_case("(", 1).matches(b"("), Ok(false));
    }

    #[test]
    fn a_search_that_would_take_too_many_steps_ends_and_common_ones_go_through_many_names() {
        let hard = "^(?!x)(.?)(.?)(.?)(.?)(.?)(.?)(.?)\\w*\\w*\\w*\\w*z\\1$";
        let name = b"orders-of-today-00001";
        assert_eq!(NameSearch::of_any_case(hard, 1).matches(&[b'a'; 200]), Err(TooManySteps));
        for common in
            ["^(?!k1)k.*7$", "^(?!amq\\.)", "(?<!dead)-letters$", "^(?=.*today)(?!.*test).*1$", "^(\\w+)-\\1"]
        {
            let longest = "k-of-today.".repeat(23);
            for name in [&name[..], longest.as_bytes()] {
                assert!(NameSearch::of_any_case(common, 1_000_000).matches(name).is_ok(), "{common}");
            }
        }
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
