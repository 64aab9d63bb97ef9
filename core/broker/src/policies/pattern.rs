//! Patterns of policies and permissions: RabbitMQ's are Perl's regular expressions, look-around and back references included.
//! Refuses to know what they are matched for.

use std::time::{Duration, Instant};

use super::perl::{Translation, translated};

/// Bounds of a pattern: its form, and the time that it may take.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Its length, bytes.
    text_bytes: usize,
    /// Memory when it is compiled.
    compiled_bytes: usize,
    /// Steps back that deciding about one name may take.
    backtracks: usize,
}

/// Names have 255 bytes.
const OF_POLICIES: Bounds = Bounds { text_bytes: 4096, compiled_bytes: 1 << 20, backtracks: BACKTRACKS_MAX };

/// They may list hundreds of names.
const OF_PERMISSIONS: Bounds =
    Bounds { text_bytes: 64 << 10, compiled_bytes: 10 << 20, backtracks: BACKTRACKS_MAX };

/// Instructions of a compiled pattern: calls of groups are written out.
const PROGRAM_STEPS_MAX: usize = 10_000;

/// Steps back that deciding about one name may take: a fraction of a millisecond. Every queue declared is matched.
const BACKTRACKS_MAX: usize = 10_000;

/// Steps back that a search through all names may take, together: about a fifth of a second.
const SEARCH_BACKTRACKS_MAX: usize = 20_000_000;

/// Steps back that a search allows for a name at least, however many names there are.
const NAME_BACKTRACKS_MIN: usize = 2_000;

/// How long a search may take. Patterns without steps back are not all fast either.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(2);

/// A pattern of names, unanchored.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    Everything,
    /// Matched in time that grows with the name only.
    Plain(Box<regex::bytes::Regex>),
    /// With look-around or back references. A name that takes too many steps to decide does not match.
    Fancy(Box<fancy_regex::Regex>),
    /// Not a valid expression: matches nothing.
    Broken,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Pattern {
        Self::within(OF_POLICIES, text)
    }

    /// As permissions are read: the empty expression stands for `^$`.
    pub(crate) fn of_permission(text: &str) -> Pattern {
        Self::within(OF_PERMISSIONS, if text.is_empty() { "^$" } else { text })
    }

    fn within(bounds: Bounds, text: &str) -> Pattern {
        // Not `^.*$`, which a line feed does not match.
        if matches!(text, "" | ".*" | "^" | "^.*" | ".*$") {
            return Pattern::Everything;
        }
        Self::compiled(text, bounds).unwrap_or(Pattern::Broken)
    }

    /// # Errors
    /// The fault of the expression.
    fn compiled(text: &str, bounds: Bounds) -> Result<Pattern, PatternProblem> {
        if text.len() > bounds.text_bytes {
            let text = "regular expression is too large".into();
            return Err(PatternProblem { text, position: bounds.text_bytes });
        }
        let translated = translated(text)?;
        Self::of_engines(&translated, bounds).map_err(|error| PatternProblem::of_engine(&error))
    }

    /// An expression as [`translated`] writes it.
    fn of_engines(translated: &Translation, bounds: Bounds) -> Result<Pattern, fancy_regex::Error> {
        let text = &translated.text;
        if translated.has_possessive {
            return fancy(text, bounds).map(|regex| Pattern::Fancy(Box::new(regex)));
        }
        let plain =
            regex::bytes::RegexBuilder::new(text).unicode(false).size_limit(bounds.compiled_bytes).build();
        match plain {
            Ok(plain) => Ok(Pattern::Plain(Box::new(plain))),
            Err(_) => fancy(text, bounds).map(|regex| Pattern::Fancy(Box::new(regex))),
        }
    }

    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        self.decide(name).unwrap_or(false)
    }

    /// `None` when that takes too many steps.
    fn decide(&self, name: &[u8]) -> Option<bool> {
        match self {
            Pattern::Everything => Some(true),
            Pattern::Plain(regex) => Some(regex.is_match(name)),
            Pattern::Fancy(regex) => regex.is_match(name).ok(),
            Pattern::Broken => Some(false),
        }
    }
}

/// A search for names by a pattern: a policy's, but letters are the same in either case. The whole search has a bound.
#[derive(Debug)]
pub struct NameSearch {
    pattern: Pattern,
    began: Instant,
}

/// A search would cost too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySteps;

impl NameSearch {
    /// Through so many names, which begins now; a pattern has at most 4096 bytes. An invalid expression matches nothing.
    #[must_use]
    pub fn of_any_case(text: &str, name_count: usize) -> Self {
        let each = SEARCH_BACKTRACKS_MAX / name_count.max(1);
        let each = each.clamp(NAME_BACKTRACKS_MIN, BACKTRACKS_MAX);
        let bounds = Bounds { backtracks: each, ..OF_POLICIES };
        let is_short = text.len() <= bounds.text_bytes;
        let translated = translated(text).ok().filter(|_| is_short);
        let pattern = translated.and_then(|mut it| {
            it.text.insert_str(0, "(?i)");
            Pattern::of_engines(&it, bounds).ok()
        });
        Self { pattern: pattern.unwrap_or(Pattern::Broken), began: Instant::now() }
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

fn fancy(text: &str, bounds: Bounds) -> Result<fancy_regex::Regex, fancy_regex::Error> {
    fancy_regex::RegexBuilder::new(text)
        .bytes_mode(fancy_regex::BytesMode::Ascii)
        .backtrack_limit(bounds.backtracks)
        .max_prog_size(PROGRAM_STEPS_MAX)
        .delegate_size_limit(bounds.compiled_bytes)
        .build()
}

/// Why a pattern is none, with RabbitMQ's words where its library and ours see the same mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternProblem {
    /// The fault, in words.
    pub text: String,
    /// At which byte of the pattern it was noticed.
    pub position: usize,
}

impl PatternProblem {
    /// The bound that a pattern breaks that is right as such.
    fn of_engine(error: &fancy_regex::Error) -> Self {
        use fancy_regex::CompileError::{InnerError, PatternTooComplex, VariableLookBehindRequiresFeature};
        let text = match error {
            fancy_regex::Error::CompileError(error) => match &**error {
                InnerError(_) | PatternTooComplex => "regular expression is too large".into(),
                VariableLookBehindRequiresFeature => "length of lookbehind assertion is not limited".into(),
                other => other.to_string(),
            },
            other => other.to_string(),
        };
        Self { text, position: 0 }
    }
}

/// The fault of a policy's pattern; `None` when it can be used.
#[must_use]
pub fn policy_pattern_problem(pattern: &str) -> Option<PatternProblem> {
    Pattern::compiled(pattern, OF_POLICIES).err()
}

/// The fault of a permission's pattern; `None` when it can be used.
#[must_use]
pub fn permission_pattern_problem(pattern: &str) -> Option<PatternProblem> {
    Pattern::compiled(pattern, OF_PERMISSIONS).err()
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
        let long = "x".repeat(OF_POLICIES.text_bytes + 1);
        assert!(matches!(Pattern::new(&long), Pattern::Broken));
        assert_eq!(policy_pattern_problem(&long).unwrap().text, "regular expression is too large");
        assert!(policy_pattern_problem("((a{1000}){1000}){10}").is_some());
        assert!(permission_pattern_problem("((a{1000}){1000}){10}").is_some());
        let names: Vec<String> = (0..2000).map(|nth| format!("orders-of-shop-{nth}")).collect();
        assert_eq!(permission_pattern_problem(&format!("^({})$", names.join("|"))), None);
        assert!(permission_pattern_problem(&"x".repeat(OF_PERMISSIONS.text_bytes + 1)).is_some());
    }
}
