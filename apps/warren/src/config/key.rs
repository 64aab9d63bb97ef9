//! One configuration key, as the parser, the reference and the tests need it.
//!
//! Refuses to know which keys exist (that is [`super::keys`]) and where a value comes from.

use super::options::Options;

/// A group of keys in the reference.
pub struct Section {
    /// Heading.
    pub title: &'static str,
    /// One or two sentences below it.
    pub about: &'static str,
    /// Its keys. The order matters where one key overrides another: the later one in the table wins.
    pub keys: &'static [Key],
}

/// The one definition of a configuration key.
pub struct Key {
    /// Its name; a word that starts with `$` stands for any one word.
    pub name: &'static str,
    /// An older name that means the same; if both are set, `name` wins (as in RabbitMQ).
    pub alias: Option<&'static str>,
    /// Type, bounds, and where the value goes.
    pub take: Take,
    /// The value when nothing is configured, as one would write it; empty if unset means "off" or "left to the node".
    pub default: &'static str,
    /// Its effect: whole sentences, differences from RabbitMQ included.
    pub doc: &'static str,
    /// A full line that sets it.
    pub example: &'static str,
}

/// The unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Plain count.
    Count,
    /// Bytes; may be written with KB, MB or GB (powers of 1,024).
    Bytes,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// The unit's name in texts; empty for a plain count.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::Bytes => "bytes",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
        }
    }
}

/// The type of a key's value, its bounds, and the function that stores it. Each function is only called with a value
/// of its type within its bounds.
pub enum Take {
    /// A whole number.
    Integer {
        /// Smallest allowed value.
        min: u64,
        /// Largest allowed value.
        max: u64,
        /// The unit of the number.
        unit: Unit,
        /// Stores it.
        set: fn(&mut Options, u64),
    },
    /// A whole number or `infinity`, which arrives as `None`.
    Limit {
        /// Smallest allowed number.
        min: u64,
        /// Largest allowed number.
        max: u64,
        /// The unit of the number.
        unit: Unit,
        /// Stores it.
        set: fn(&mut Options, Option<u64>),
    },
    /// `true` or `false`.
    Boolean {
        /// Stores it.
        set: fn(&mut Options, bool),
    },
    /// One of a few words.
    Choice {
        /// The words.
        of: &'static [&'static str],
        /// Words that RabbitMQ also accepts and Warren does not yet: a better error text than "unknown".
        not_yet: &'static [&'static str],
        /// Stores it.
        set: fn(&mut Options, &str),
    },
    /// Any text, with a check of its own.
    Text {
        /// The form of the text, for the reference.
        shape: &'static str,
        /// Stores it, or says what is wrong with it.
        set: fn(&mut Options, &str) -> Result<(), String>,
    },
    /// A key with a `$word`, set any number of times to build a list.
    List {
        /// The form of one value, for the reference.
        shape: &'static str,
        /// Called once before the first entry: the configured list replaces the default list.
        clear: fn(&mut Options),
        /// Adds an entry from the word that stands for `$word` and the value; entries arrive in order of their words.
        add: fn(&mut Options, &str, &str) -> Result<(), String>,
    },
}

impl Take {
    /// Checks a value and stores it; `word` is what stands for `$word` (empty for keys without one). The error says
    /// what was expected.
    pub(super) fn store(&self, options: &mut Options, word: &str, value: &str) -> Result<(), String> {
        match self {
            Self::Integer { min, max, unit, set } => set(options, number(value, *min, *max, *unit)?),
            Self::Limit { set, .. } if value == "infinity" => set(options, None),
            Self::Limit { min, max, unit, set } => {
                let number =
                    number(value, *min, *max, *unit).map_err(|reason| format!("{reason}, or infinity"))?;
                set(options, Some(number));
            }
            Self::Boolean { set } => set(options, boolean(value)?),
            Self::Choice { of, not_yet, set } => {
                if not_yet.contains(&value) {
                    return Err(format!("Warren does not support {value} yet; {}", expected(of)));
                }
                if !of.contains(&value) {
                    return Err(expected(of));
                }
                set(options, value);
            }
            Self::Text { set, .. } => set(options, value)?,
            Self::List { add, .. } => add(options, word, value)?,
        }
        Ok(())
    }

    /// The type in words, for the reference and for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Integer { min, max, unit, .. } => range(*min, *max, *unit),
            Self::Limit { min, max, unit, .. } => format!("{}, or `infinity`", range(*min, *max, *unit)),
            Self::Boolean { .. } => "`true` or `false`".to_owned(),
            Self::Choice { of: [only], .. } => format!("`{only}`"),
            Self::Choice { of, .. } => format!("one of `{}`", of.join("`, `")),
            Self::Text { shape, .. } | Self::List { shape, .. } => (*shape).to_owned(),
        }
    }
}

fn range(min: u64, max: u64, unit: Unit) -> String {
    let unit = match unit {
        Unit::Count => "number",
        Unit::Bytes => "bytes (`KB`, `MB`, `GB` allowed)",
        Unit::Milliseconds => "milliseconds",
        Unit::Seconds => "seconds",
    };
    match max {
        u64::MAX => format!("{unit}, at least {min}"),
        max => format!("{unit}, {min} to {max}"),
    }
}

/// Reads `true` or `false`; RabbitMQ accepts no other spelling either.
pub(super) fn boolean(value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| "expected true or false".to_owned())
}

fn expected(words: &[&str]) -> String {
    format!("expected {}", words.join(" or "))
}

fn number(value: &str, min: u64, max: u64, unit: Unit) -> Result<u64, String> {
    let number = if unit == Unit::Bytes { bytes(value) } else { value.parse().ok() };
    match number {
        Some(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(format!("expected {}", range(min, max, unit).replace('`', ""))),
    }
}

/// `131072`, `128KB`, `16mb`, `1GB`: powers of 1,024, as in RabbitMQ. `None` for anything else and on overflow.
pub(super) fn bytes(value: &str) -> Option<u64> {
    let (digits, shift) = [("kb", 10), ("mb", 20), ("gb", 30)]
        .into_iter()
        .find_map(|(suffix, shift)| Some((strip_suffix_any_case(value, suffix)?, shift)))
        .unwrap_or((value, 0));
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift)
}

fn strip_suffix_any_case<'a>(value: &'a str, suffix: &str) -> Option<&'a str> {
    let at = value.len().checked_sub(suffix.len())?;
    let (digits, end) = value.split_at_checked(at)?;
    end.eq_ignore_ascii_case(suffix).then_some(digits)
}

/// Converts a number that the table's bounds have already checked.
pub(super) fn narrow<T: TryFrom<u64>>(number: u64) -> T {
    T::try_from(number).ok().expect("the bounds in the table fit the field; a test applies both")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_suffixes_of_1024() {
        let bytes = |text| number(text, 0, u64::MAX, Unit::Bytes).ok();
        assert_eq!(bytes("131072"), Some(131_072));
        assert_eq!(bytes("1kb"), Some(1_024));
        assert_eq!(bytes("16MB"), Some(16 << 20));
        assert_eq!(bytes("2Gb"), Some(2 << 30));
        for text in [
            "",
            "kb",
            "1k",
            "1KiB",
            "-3",
            "1.5MB",
            "99999999999999999999",
            "18446744073709551615GB",
            "\u{1F407}b",
        ] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn a_number_outside_its_bounds_is_refused_with_the_bounds() {
        assert_eq!(number("65536", 0, 65_535, Unit::Seconds), Err("expected seconds, 0 to 65535".to_owned()));
        assert_eq!(number("5", 5, 5, Unit::Count), Ok(5));
        assert_eq!(number("1KB", 0, 9, Unit::Count), Err("expected number, 0 to 9".to_owned()));
    }

    #[test]
    fn booleans_have_one_spelling() {
        assert_eq!(boolean("true"), Ok(true));
        assert_eq!(boolean("false"), Ok(false));
        for text in ["TRUE", "yes", "on", "1", ""] {
            assert!(boolean(text).is_err(), "{text}");
        }
    }
}
