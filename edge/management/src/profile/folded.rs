//! Folded stacks: one line for each, functions from the outermost in, separated by semicolons, then a number. What flame graph
//! tools read and write. Knows nothing of labels.

use std::collections::BTreeMap;

use super::report::{Profile, Unit};

/// A profile as a file of folded stacks, with what its values are. The format has no place for that: it is said by a stack of
/// the value 0, which every tool reads and none draws.
#[must_use]
pub(super) fn file(profile: &Profile) -> String {
    format!("{} 0\n{}", mark(profile.unit), folded(profile))
}

const fn mark(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "(values are nanoseconds)",
        Unit::Bytes => "(values are bytes)",
        Unit::Faults => "(values are page faults)",
    }
}

/// What the values of a file are, if it says so.
pub(super) fn unit(text: &str) -> Option<Unit> {
    let first = text.lines().next()?.strip_suffix(" 0")?;
    [Unit::Nanoseconds, Unit::Bytes, Unit::Faults].into_iter().find(|unit| mark(*unit) == first)
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

/// Lines of folded stacks; lines without a number at the end, and the one that says what values are, are passed over.
pub(super) fn parse(text: &str) -> impl Iterator<Item = (Vec<&str>, u64)> {
    text.lines().skip(usize::from(unit(text).is_some())).filter_map(|line| {
        let (path, value) = line.rsplit_once(' ')?;
        Some((path.split(';').collect(), value.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn folded_stacks_are_read_as_they_were_written() {
        let text = folded(&sample(&[("a;b c", 5), ("a;b c", 2), ("a", 1)]));
        assert_eq!(text, "a 1\na;b c 7\n");
        let read: Vec<_> = parse(&text).collect();
        assert_eq!(read, [(vec!["a"], 1), (vec!["a", "b c"], 7)]);
        assert_eq!(parse("nonsense\n\na;b x\n").count(), 0);
    }

    #[test]
    fn a_file_says_what_its_values_are() {
        for unit in [Unit::Nanoseconds, Unit::Bytes, Unit::Faults] {
            let text = file(&Profile { unit, ..sample(&[("a;b", 5)]) });
            assert_eq!(super::unit(&text), Some(unit), "{text}");
            assert_eq!(parse(&text).collect::<Vec<_>>(), [(vec!["a", "b"], 5)]);
        }
        assert_eq!((super::unit("a 1\n"), super::unit("(values are inches) 0\n")), (None, None));
    }
}
