//! Changes between two profiles: the second one's tree with each function's change of share. Knows nothing of colours.

use std::collections::BTreeMap;

use super::folded::{self, Said};
use super::raw::ProfileError;
use super::tree::Node;
use super::{Document, Unit, Watched};

/// The change between two profiles.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The second profile; [`Node::delta`] is the change of a function's share of the whole, from -1 to 1. Functions that have
    /// gone stand in it with their former share and a negative change.
    pub tree: Node,
    unit: Unit,
}

impl Difference {
    /// The picture of it: red where a share has grown, blue where it has shrunk.
    #[must_use]
    pub fn svg(&self, title: &str) -> String {
        super::flame::svg(&self.tree, title, self.unit, super::flame::Palette::Change)
    }

    /// For people: the functions whose share has changed most, in points of a hundred. A function that stands in several places
    /// of the tree has the sum of its changes.
    #[must_use]
    pub fn table(&self, lines_max: usize) -> String {
        let mut own: BTreeMap<&str, f64> = BTreeMap::new();
        own_changes(&self.tree, &mut own);
        let mut lines: Vec<(&str, f64)> =
            own.into_iter().filter(|(_, change)| change.abs() >= 0.0005).collect();
        lines.sort_by(|(_, one), (_, other)| other.abs().total_cmp(&one.abs()));
        let mut text = String::from("  change  function (its own share, without what it calls)\n");
        for (name, change) in lines.into_iter().take(lines_max) {
            text.push_str(&format!("{:>+7.2}%  {name}\n", change * 100.0));
        }
        text.trim_end().to_owned()
    }
}

/// Changes of functions without those of what they call.
fn own_changes<'a>(node: &'a Node, sums: &mut BTreeMap<&'a str, f64>) {
    let below: f64 = node.children.iter().map(|child| child.delta).sum();
    *sums.entry(&node.name).or_default() += node.delta - below;
    node.children.iter().for_each(|child| own_changes(child, sums));
}

/// The change from one profile to another, each as folded stacks or as a JSON tree, the files that `warren ctl profile -o`
/// writes. Shares are compared, so the two may have taken different times.
///
/// # Errors
/// One of them is neither, or they are of different things, such as time and memory, and say so. Files of earlier builds do not
/// say of time whether threads ran or waited.
pub fn diff(before: &str, after: &str) -> Result<Difference, ProfileError> {
    let (before, of_before) = read(before).map_err(|error| of_file("first", &error))?;
    let (after, of_after) = read(after).map_err(|error| of_file("second", &error))?;
    if let Some((one, other)) = of_before.zip(of_after).and_then(|(one, other)| difference(one, other)) {
        let problem = format!(
            "the first profile is of {one}, the second of {other}: only profiles that count the same can be compared"
        );
        return Err(ProfileError::Asked(problem));
    }
    // Folded stacks of earlier builds and other tools do not say.
    let unit = of_after.or(of_before).map_or(Unit::Nanoseconds, |of| of.unit);
    let (was, is) = (before.value.max(1) as f64, after.value.max(1) as f64);
    Ok(Difference { tree: merge(Some(&before), Some(&after), was, is), unit })
}

/// The kinds of two profiles, if they differ.
fn difference(one: Said, other: Said) -> Option<(&'static str, &'static str)> {
    if one.unit != other.unit {
        return Some((one.unit.name(), other.unit.name()));
    }
    let (one, other) = one.watched.zip(other.watched)?;
    let time_of = |watched| match watched {
        Watched::Waiting => "the time that threads waited",
        _ => "the time that threads ran",
    };
    // Memory and page faults there is one kind of.
    let is_other_time = (one == Watched::Waiting) != (other == Watched::Waiting);
    is_other_time.then(|| (time_of(one), time_of(other)))
}

fn of_file(which: &str, error: &ProfileError) -> ProfileError {
    ProfileError::Asked(format!("the {which} file: {error}"))
}

fn read(text: &str) -> Result<(Node, Option<Said>), ProfileError> {
    let (tree, said) = match text.trim_start().starts_with('{') {
        true => read_json(text).map(|(tree, said)| (tree, Some(said)))?,
        false => (Node::of_folded(text)?, folded::said(text)),
    };
    if tree.value == 0 {
        let problem = "it holds no samples: profiles are folded stacks or JSON, from `profile ... -o FILE.folded` or `FILE.json`";
        return Err(ProfileError::Asked(problem.into()));
    }
    Ok((tree, said))
}

fn read_json(text: &str) -> Result<(Node, Said), ProfileError> {
    let bad = |error: serde_json::Error| ProfileError::Asked(format!("not a profile in JSON: {error}"));
    let document: Document = serde_json::from_str(text).map_err(bad)?;
    let Document { unit, watched, .. } = document;
    Ok((Node::of_paths(document.paths()), Said { unit, watched }))
}

fn merge(before: Option<&Node>, after: Option<&Node>, was: f64, is: f64) -> Node {
    let share = |node: Option<&Node>, whole: f64| node.map_or(0.0, |node| node.value as f64 / whole);
    let mut children: BTreeMap<&str, (Option<&Node>, Option<&Node>)> = BTreeMap::new();
    for child in before.into_iter().flat_map(|node| &node.children) {
        children.entry(&child.name).or_default().0 = Some(child);
    }
    for child in after.into_iter().flat_map(|node| &node.children) {
        children.entry(&child.name).or_default().1 = Some(child);
    }
    let children: Vec<Node> =
        children.into_values().map(|(before, after)| merge(before, after, was, is)).collect();
    // Functions that have gone need room too.
    let gone: u64 = children.iter().map(|child| child.value).sum();
    let value = match (before, after) {
        (_, Some(after)) => after.value.max(gone),
        (Some(before), None) => ((before.value as f64 / was * is) as u64).max(gone),
        (None, None) => 0,
    };
    let name = after.or(before).map(|node| node.name.clone()).unwrap_or_default();
    Node { name, value, delta: share(after, is) - share(before, was), children }
}

#[cfg(test)]
mod tests {
    use super::super::report::Profile;
    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn a_change_is_one_of_shares_and_what_has_gone_is_shown() {
        let Difference { tree, .. } = diff("a;b 50\na;c 50\n", "a;b 300\na;d 100\n").unwrap();
        let of = |name: &str| {
            let node = tree.children[0].children.iter().find(|node| node.name == name).unwrap();
            (node.value, node.delta)
        };
        assert_eq!(of("b"), (300, 0.25));
        assert_eq!(of("c"), (200, -0.5));
        assert_eq!(of("d"), (100, 0.25));
        assert_eq!(tree.value, 600);
    }

    #[test]
    fn time_is_not_compared_with_memory() {
        let of = |unit| Profile { unit, ..sample(&[("a;b", 5)]) };
        let json = |unit| serde_json::to_string(&Document::of(&of(unit))).unwrap();
        let (time, memory) = (Unit::Nanoseconds, Unit::Bytes);
        let refused = |before: &str, after: &str| diff(before, after).unwrap_err().to_string();
        let text = refused(&json(time), &json(memory));
        assert!(text.contains("the first profile is of time, the second of memory"), "{text}");
        assert!(
            refused(&folded::file(&of(Unit::Faults)), &json(time))
                .contains("of page faults, the second of time")
        );
        assert!(refused(&folded::file(&of(memory)), &folded::file(&of(time))).contains("of memory"));
        let of_memory = diff(&json(memory), &folded::file(&of(memory))).unwrap();
        assert_eq!((of_memory.unit, of_memory.tree.children.len()), (memory, 1));
        assert_eq!(diff("a 1", &json(memory)).unwrap().unit, memory);
    }

    #[test]
    fn the_time_that_threads_ran_is_not_compared_with_that_in_which_they_waited() {
        let of = |watched| Profile { watched, ..sample(&[("a;b", 5)]) };
        let json = |watched| serde_json::to_string(&Document::of(&of(watched))).unwrap();
        let (ran, waited) = (folded::file(&of(Watched::Cpu)), folded::file(&of(Watched::Waiting)));
        for (before, after) in [(&ran, &waited), (&json(Watched::Cpu), &waited)] {
            let text = diff(before, after).unwrap_err().to_string();
            assert!(
                text.contains("of the time that threads ran, the second of the time that threads waited"),
                "{text}"
            );
        }
        assert!(diff(&ran, &ran).is_ok() && diff(&json(Watched::Waiting), &waited).is_ok());
        let earlier = "(values are nanoseconds) 0\na;b 5\n";
        assert!(
            diff(earlier, &waited).is_ok() && diff(&ran, earlier).is_ok() && diff("a;b 5", &waited).is_ok()
        );
    }

    #[test]
    fn a_file_of_the_web_page_is_compared_with_one_of_the_command() {
        let page = r#"{"unit":"bytes","began_ms":1,"wall_ms":0,"samples":3,"dropped":0,"label_names":[],"names":["a","b"],"stacks":[{"frames":[0,1],"labels":[],"value":5,"count":1}]}"#;
        let command = folded::file(&Profile { unit: Unit::Bytes, ..sample(&[("a;b", 5)]) });
        let Difference { tree, unit } = diff(page, &command).unwrap();
        assert_eq!((unit, tree.value, tree.children[0].delta), (Unit::Bytes, 5, 0.0));
        assert!(diff(page, &folded::file(&sample(&[("a;b", 5)]))).is_err(), "that is time");
        let ran = page.replace(r#""unit":"bytes""#, r#""unit":"nanoseconds","watched":"cpu""#);
        let waited = Profile { watched: Watched::Waiting, ..sample(&[("a;b", 5)]) };
        assert!(diff(&ran, &folded::file(&waited)).unwrap_err().to_string().contains("threads waited"));
    }

    #[test]
    fn files_that_are_no_profiles_are_refused() {
        assert!(diff("", "a 1").is_err() && diff("{}", "a 1").is_err() && diff("{\"x\"", "a 1").is_err());
        let refused = |before: &str, after: &str| diff(before, after).unwrap_err().to_string();
        let other = refused("log.console = true\nlisteners.tcp.default = 5672\n", "a 1");
        assert!(
            other.starts_with("the first file: ") && other.contains("line 1 is \"log.console = true\""),
            "{other}"
        );
        let cut_off = refused("a 1", "a;b 5\na;c");
        assert!(
            cut_off.starts_with("the second file: ") && cut_off.contains("line 2 is \"a;c\""),
            "{cut_off}"
        );
    }
}
