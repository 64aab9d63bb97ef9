//! A profile as a tree of calls. Flame graphs draw it. Knows nothing of pictures.

use std::collections::BTreeMap;

use super::raw::ProfileError;
use super::report::Profile;

/// Deepest tree that is read from a file.
const DEPTH_MAX: usize = 512;

/// A function and what it called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The function; `all` at the root.
    pub name: String,
    /// The amount that was spent in it and in the functions that it called.
    pub value: u64,
    /// Change against another profile, as a share of the whole; 0 without one.
    pub delta: f64,
    /// The functions that it called, by name.
    pub children: Vec<Node>,
}

/// A tree under construction.
#[derive(Default)]
struct Branch<'a> {
    value: u64,
    children: BTreeMap<&'a str, Branch<'a>>,
}

impl<'a> Branch<'a> {
    fn add(&mut self, path: impl Iterator<Item = &'a str>, value: u64) {
        self.value += value;
        let mut branch = self;
        for name in path.take(DEPTH_MAX) {
            branch = branch.children.entry(name).or_default();
            branch.value += value;
        }
    }

    fn node(self, name: &str) -> Node {
        let children = self.children.into_iter().map(|(name, branch)| branch.node(name)).collect();
        Node { name: name.to_owned(), value: self.value, delta: 0.0, children }
    }
}

impl Node {
    /// The tree of a profile.
    #[must_use]
    pub fn of(profile: &Profile) -> Node {
        let mut root = Branch::default();
        for stack in &profile.stacks {
            root.add(stack.frames.iter().map(|frame| profile.name(*frame)), stack.value);
        }
        root.node("all")
    }

    /// The tree of stacks, the outermost function first.
    pub(super) fn of_paths<'a>(paths: impl Iterator<Item = (Vec<&'a str>, u64)>) -> Node {
        let mut root = Branch::default();
        paths.for_each(|(path, value)| root.add(path.into_iter(), value));
        root.node("all")
    }

    /// The tree of folded stacks.
    ///
    /// # Errors
    /// The text is something else.
    pub(super) fn of_folded(text: &str) -> Result<Node, ProfileError> {
        let mut root = Branch::default();
        for stack in super::folded::parse(text) {
            let (path, value) = stack?;
            root.add(path.into_iter(), value);
        }
        Ok(root.node("all"))
    }

    /// Levels below it, itself included.
    pub(super) fn depth(&self) -> usize {
        1 + self.children.iter().map(Node::depth).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn a_tree_adds_up_what_its_stacks_share() {
        let tree = Node::of(&sample(&[("a;b", 5), ("a;c", 2), ("d", 1)]));
        assert_eq!((tree.value, tree.children.len(), tree.depth()), (8, 2, 3));
        assert_eq!((tree.children[0].name.as_str(), tree.children[0].value), ("a", 7));
        assert_eq!(Node::of_folded("a;b 5\na;c 2\nd 1\n").unwrap(), tree);
    }
}
