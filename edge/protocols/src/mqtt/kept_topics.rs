//! Retained messages by topic, and the walk that finds those of many filters at once, in steps.
//!
//! Refuses to know where messages are stored and who gets them.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use super::retained::Kept;

/// A level of topics.
#[derive(Default)]
pub(super) struct Level {
    below: BTreeMap<Box<str>, Level>,
    kept: Option<Arc<Kept>>,
}

impl Level {
    pub(super) fn is_empty(&self) -> bool {
        self.below.is_empty() && self.kept.is_none()
    }

    /// Puts a message in its place, or takes it away; returns the message that was there.
    pub(super) fn put(&mut self, topic: Option<&str>, kept: Option<Arc<Kept>>) -> Option<Arc<Kept>> {
        let Some(topic) = topic else { return std::mem::replace(&mut self.kept, kept) };
        let (first, rest) = first_level(topic);
        let old = if kept.is_some() && !self.below.contains_key(first) {
            self.below.entry(first.into()).or_default().put(rest, kept)
        } else {
            self.below.get_mut(first)?.put(rest, kept)
        };
        if self.below.get(first).is_some_and(Level::is_empty) {
            self.below.remove(first);
        }
        old
    }
}

fn first_level(topic: &str) -> (&str, Option<&str>) {
    match topic.split_once('/') {
        Some((first, rest)) => (first, Some(rest)),
        None => (topic, None),
    }
}

/// Topic filters by level.
#[derive(Default)]
pub(crate) struct FilterTree {
    names: BTreeMap<Box<str>, FilterTree>,
    plus: Option<Box<FilterTree>>,
    /// A filter ends here with `#`: it matches this level and all below.
    has_hash: bool,
    /// A filter ends here.
    ends: bool,
}

impl FilterTree {
    /// Adds a topic filter.
    pub(crate) fn add(&mut self, filter: &str) {
        let mut at = self;
        for level in filter.split('/') {
            at = match level {
                "#" => {
                    at.has_hash = true;
                    return;
                }
                "+" => at.plus.get_or_insert_default(),
                name => at.names.entry(name.into()).or_default(),
            };
        }
        at.ends = true;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.plus.is_none() && !self.has_hash
    }
}

/// A walk through all topics that some filters match. It goes on where it stopped, whatever was published meanwhile: a topic that is there all
/// the time is found once.
pub(crate) struct Walk<'f> {
    filters: &'f FilterTree,
    /// The level that was looked at last; `None` at the beginning.
    path: Option<String>,
    is_over: bool,
}

impl<'f> Walk<'f> {
    pub(crate) fn new(filters: &'f FilterTree) -> Walk<'f> {
        Walk { filters, path: None, is_over: filters.is_empty() }
    }

    /// All topics were looked at.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Goes on for about so many comparisons of levels. The found messages are appended.
    pub(super) fn step(&mut self, topics: &Level, comparisons: usize, out: &mut Vec<Arc<Kept>>) {
        let before = self.path.take();
        let mut step = Step { path: String::new(), left: comparisons, out };
        let resume = match &before {
            // The root itself holds no message.
            None => Resume::Below,
            Some(path) => Resume::After(path),
        };
        let set = Set { nodes: vec![self.filters], has_all: self.filters.has_hash };
        let ended = step.below(topics, &set, true, resume);
        match ended {
            ControlFlow::Continue(()) => self.is_over = true,
            ControlFlow::Break(()) => self.path = Some(step.path),
        }
    }
}

/// Filters that may still match below a level.
struct Set<'f> {
    nodes: Vec<&'f FilterTree>,
    /// One matches everything below.
    has_all: bool,
}

impl<'f> Set<'f> {
    /// Filters that may match below a level of this name, and whether one matches the level itself.
    fn under(&self, name: &str, is_first: bool) -> (Set<'f>, bool) {
        let sees = !is_first || !name.starts_with('$');
        let nodes: Vec<_> = self
            .nodes
            .iter()
            .flat_map(|node| [node.names.get(name), node.plus.as_deref().filter(|_| sees)])
            .flatten()
            .collect();
        let has_all = (self.has_all && sees) || nodes.iter().any(|node| node.has_hash);
        let is_hit = has_all || nodes.iter().any(|node| node.ends);
        (Set { nodes, has_all }, is_hit)
    }

    /// Whether all of so many levels are to be looked at: any may match, or filters name more than there are.
    fn is_for_all(&self, levels: usize) -> bool {
        let names = self.nodes.iter().map(|node| node.names.len()).sum::<usize>();
        self.has_all || names > levels || self.nodes.iter().any(|node| node.plus.is_some())
    }

    /// The names that filters have for the next level, in their order.
    fn names(&self) -> Vec<&'f str> {
        let mut names: Vec<&str> =
            self.nodes.iter().flat_map(|node| node.names.keys()).map(|name| &**name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Where to go on below a level.
#[derive(Clone, Copy)]
enum Resume<'p> {
    /// With all of it.
    Below,
    /// Behind this level, with what is below it.
    After(&'p str),
}

struct Step<'o> {
    /// The level that was looked at last, once the step has come to its end.
    path: String,
    left: usize,
    out: &'o mut Vec<Arc<Kept>>,
}

impl Step<'_> {
    /// Looks at all below a level. Breaks off when enough was done, with the path of where it was.
    fn below(&mut self, level: &Level, set: &Set<'_>, is_first: bool, resume: Resume<'_>) -> ControlFlow<()> {
        let (from, rest) = match resume {
            Resume::Below => (None, None),
            Resume::After(path) => {
                let (first, rest) = first_level(path);
                (Some(first), Some(rest))
            }
        };
        let mut visit = |name: &str, below: &Level| {
            let resume = match rest {
                Some(rest) if from == Some(name) => Some(rest.map_or(Resume::Below, Resume::After)),
                _ => None,
            };
            self.look(name, below, set, is_first, resume)
        };
        if set.is_for_all(level.below.len()) {
            let from = from.map_or(Bound::Unbounded, Bound::Included);
            for (name, below) in level.below.range::<str, _>((from, Bound::Unbounded)) {
                visit(name, below)?;
            }
        } else {
            let names = set.names();
            let behind = names.partition_point(|name| from.is_some_and(|from| *name < from));
            for name in &names[behind..] {
                if let Some(below) = level.below.get(*name) {
                    visit(name, below)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Looks at a level, unless that was done before, and at all below it.
    fn look(
        &mut self,
        name: &str,
        level: &Level,
        set: &Set<'_>,
        is_first: bool,
        resume: Option<Resume<'_>>,
    ) -> ControlFlow<()> {
        let (under, is_hit) = set.under(name, is_first);
        if resume.is_none() {
            if is_hit {
                self.out.extend(level.kept.clone());
            }
            let Some(left) = self.left.checked_sub(1 + set.nodes.len()) else {
                self.path = name.to_owned();
                return ControlFlow::Break(());
            };
            self.left = left;
        }
        if !under.has_all && under.nodes.is_empty() {
            return ControlFlow::Continue(());
        }
        let ended = self.below(level, &under, false, resume.unwrap_or(Resume::Below));
        if ended.is_break() {
            self.path.insert(0, '/');
            self.path.insert_str(0, name);
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::super::retained::kept;
    use super::super::subscriptions::matches;
    use super::*;

    const TOPICS: [&str; 12] =
        ["a", "a/b", "a/b/c", "/a", "$SYS/x", "a/", "b/b", "b/b/c/d", "$SYS", "//", "c/d/e", "a/b/d"];

    fn topics() -> Level {
        let mut root = Level::default();
        for (seq, topic) in (0..).zip(TOPICS) {
            assert!(root.put(Some(topic), Some(kept(seq))).is_none());
        }
        root
    }

    /// Found by a walk with steps of this length, as numbers of topics.
    fn found(filters: &[&str], comparisons: usize) -> Vec<u64> {
        let (root, mut tree, mut out) = (topics(), FilterTree::default(), Vec::new());
        filters.iter().for_each(|filter| tree.add(filter));
        let mut walk = Walk::new(&tree);
        let mut steps = 0;
        while !walk.is_over() {
            walk.step(&root, comparisons, &mut out);
            steps += 1;
            assert!(steps < 1000, "the walk does not get on");
        }
        let mut found: Vec<u64> = out.iter().map(|kept| kept.seq()).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn walks_find_each_topic_that_a_filter_matches_once_however_short_their_steps_are() {
        for filters in [
            &["a"][..],
            &["a/#"],
            &["#"],
            &["+", "#", "a"],
            &["+/+"],
            &["a/+/c", "+/b/#", "a/b/c"],
            &["$SYS/#"],
            &["$SYS/+", "+/x"],
            &["nothing/#", "c/d", "c/d/e"],
            &["//", "/+", "b/b/c/d", "b"],
            &["a/b/c/#", "a/+/+"],
        ] {
            let expected: Vec<u64> = (0..)
                .zip(TOPICS)
                .filter(|(_, topic)| filters.iter().any(|filter| matches(filter, topic)))
                .map(|(seq, _)| seq)
                .collect();
            for comparisons in [0, 1, 3, 7, 1000] {
                assert_eq!(found(filters, comparisons), expected, "{filters:?}, {comparisons}");
            }
        }
    }

    #[test]
    fn a_walk_goes_on_behind_a_topic_that_is_gone() {
        let (mut root, mut tree, mut out) = (topics(), FilterTree::default(), Vec::new());
        tree.add("+/#");
        let mut walk = Walk::new(&tree);
        while !walk.is_over() {
            walk.step(&root, 0, &mut out);
            for topic in TOPICS {
                if out.iter().any(|kept| TOPICS[kept.seq() as usize] == topic) {
                    root.put(Some(topic), None);
                }
            }
        }
        assert_eq!(out.len(), TOPICS.len() - 2, "all but those that begin with $");
    }
}
