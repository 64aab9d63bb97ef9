//! Folded stacks: one line for each, functions from the outermost in, separated by semicolons, then a number. Flame graph tools read and
//! write them. Knows nothing of labels.

use std::collections::BTreeMap;

use super::raw::ProfileError;
use super::report::{Profile, Unit, Watched};

/// As much of a line that is no stack is shown.
const SHOWN_CHARS_MAX: usize = 60;

/// A profile as a file of folded stacks, with what its values are. The format has no place for that: it is said by a stack of
/// the value 0, which every tool reads and none draws.
#[must_use]
pub fn file(profile: &Profile) -> String {
    let said = Said { unit: profile.unit, watched: Some(profile.watched) };
    let mark = MARKS.iter().find(|(_, of)| *of == said).or(MARKS.iter().find(|(_, of)| of.unit == said.unit));
    format!("{} 0\n{}", mark.map_or("", |(mark, _)| mark), folded(profile))
}

/// The description of its values that a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// The unit of the values.
    pub(super) unit: Unit,
    /// Of what; earlier builds do not say of time whether threads ran or waited.
    pub(super) watched: Option<Watched>,
}

const MARKS: [(&str, Said); 5] = [
    ("(values are nanoseconds of running)", Said { unit: Unit::Nanoseconds, watched: Some(Watched::Cpu) }),
    (
        "(values are nanoseconds of waiting)",
        Said { unit: Unit::Nanoseconds, watched: Some(Watched::Waiting) },
    ),
    ("(values are nanoseconds)", Said { unit: Unit::Nanoseconds, watched: None }),
    ("(values are bytes)", Said { unit: Unit::Bytes, watched: Some(Watched::Heap) }),
    ("(values are page faults)", Said { unit: Unit::Faults, watched: Some(Watched::Faults) }),
];

/// The description of the values of a file, if it has one.
pub(super) fn said(text: &str) -> Option<Said> {
    let first = text.lines().next()?.strip_suffix(" 0")?;
    MARKS.iter().find(|(mark, _)| *mark == first).map(|(_, said)| *said)
}

/// A profile as folded stacks, sorted, same stacks added up.
#[must_use]
pub(super) fn folded(profile: &Profile) -> String {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for stack in &profile.stacks {
        // Queues may be called anything.
        let name = |frame: &u32| profile.name(*frame).replace([';', '\n'], ",");
        let path: Vec<String> = stack.frames.iter().map(name).collect();
        *lines.entry(path.join(";")).or_default() += stack.value;
    }
    lines.iter().map(|(path, value)| format!("{path} {value}\n")).collect()
}

/// The stacks of a file; empty lines, and the one that says what values are, are passed over.
///
/// # Errors
/// A line is not a stack and a number: the text is something else.
pub(super) fn parse(text: &str) -> impl Iterator<Item = Result<(Vec<&str>, u64), ProfileError>> {
    let lines = text.lines().enumerate().skip(usize::from(said(text).is_some()));
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, line)| stack(line).ok_or_else(|| no_stack(index + 1, line)))
}

/// Of a stack of which nobody knows a function there is the number only.
fn stack(line: &str) -> Option<(Vec<&str>, u64)> {
    let (path, value) = line.trim_end().rsplit_once(' ')?;
    Some((path.split(';').collect(), value.parse().ok()?))
}

fn no_stack(number: usize, line: &str) -> ProfileError {
    let shown: String = line.chars().take(SHOWN_CHARS_MAX).collect();
    ProfileError::Asked(format!(
        "no folded stacks, which are lines of functions and a count such as `main;work 5`: line {number} is {shown:?}"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::sample;
    use super::*;

    fn all(text: &str) -> Result<Vec<(Vec<&str>, u64)>, ProfileError> {
        parse(text).collect()
    }

    #[test]
    fn folded_stacks_are_read_as_they_were_written() {
        let text = folded(&sample(&[("a;b c", 5), ("a;b c", 2), ("a", 1)]));
        assert_eq!(text, "a 1\na;b c 7\n");
        assert_eq!(all(&text).unwrap(), [(vec!["a"], 1), (vec!["a", "b c"], 7)]);
        let unknown = folded(&sample(&[("", 5)]));
        assert_eq!((unknown.as_str(), all(&unknown).unwrap()), (" 5\n", vec![(vec![""], 5)]));
        assert_eq!(all("\na;b 2 \r\n\n").unwrap(), [(vec!["a", "b"], 2)]);
    }

    #[test]
    fn a_line_that_is_no_stack_is_named() {
        for (text, line) in [
            ("nonsense\n", "line 1 is \"nonsense\""),
            ("a;b 1\n\na;b x\n", "line 3 is \"a;b x\""),
            ("a 1\n5\n", "line 2 is \"5\""),
            ("(values are bytes) 0\na;b 1\nkey = -5\n", "line 3 is \"key = -5\""),
        ] {
            let error = all(text).unwrap_err().to_string();
            assert!(error.contains(line), "{error}");
        }
        let long = all(&"é".repeat(1000)).unwrap_err().to_string();
        assert!(long.chars().count() < 200, "{long}");
    }

    #[test]
    fn a_file_says_what_its_values_are() {
        for (unit, watched) in [
            (Unit::Nanoseconds, Watched::Cpu),
            (Unit::Nanoseconds, Watched::Waiting),
            (Unit::Bytes, Watched::Heap),
            (Unit::Faults, Watched::Faults),
        ] {
            let text = file(&Profile { unit, watched, ..sample(&[("a;b", 5)]) });
            assert_eq!(said(&text), Some(Said { unit, watched: Some(watched) }), "{text}");
            assert_eq!(all(&text).unwrap(), [(vec!["a", "b"], 5)]);
        }
        let of_time = Some(Said { unit: Unit::Nanoseconds, watched: None });
        assert_eq!(said("(values are nanoseconds) 0\na;b 5\n"), of_time, "of an earlier build");
        assert_eq!((said("a 1\n"), said("(values are inches) 0\n")), (None, None));
    }
}
