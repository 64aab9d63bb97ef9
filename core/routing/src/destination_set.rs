//! A persistent set of destinations that reads as a few flat slices.
//!
//! Refuses to know why a destination is in it; the counting of bindings is done above.
//!
//! ```text
//!  set     nothing  |  one destination, in place  |  tree
//!  tree    4 ways by 2 bits of the destination's hash per level; leaves of at most 64 destinations in a row
//! ```
//!
//! A change copies one leaf and the few branches above it, whatever the size of the set; reading ten thousand
//! destinations is a walk over some 300 slices. A list rebuilt lazily after each change was the alternative: it is one
//! slice, but the first route after every change then costs as much as the whole set.

use std::hash::Hash;
use std::sync::Arc;

use smallvec::SmallVec;
use stdx::hamt::hash_of;

const LEVEL_BITS: u32 = 2;
const WAYS: usize = 1 << LEVEL_BITS;
/// A leaf with more destinations is split.
const LEAF_LEN_MAX: usize = 64;
/// A branch with no more destinations becomes a leaf.
const BRANCH_LEN_MIN: usize = 16;

/// An immutable-when-shared set: cloning is O(1), adding and removing O(log n).
#[derive(Clone)]
pub struct DestinationSet<T>(Inner<T>);

#[derive(Clone)]
enum Inner<T> {
    Empty,
    One(T),
    Tree(Arc<Node<T>>),
}

#[derive(Clone)]
enum Node<T> {
    Leaf(Vec<T>),
    Branch { len: usize, children: [Arc<Node<T>>; WAYS] },
}

impl<T> DestinationSet<T> {
    /// The empty set; does not allocate.
    #[must_use]
    pub const fn new() -> Self {
        Self(Inner::Empty)
    }

    /// Number of destinations.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Inner::Empty => 0,
            Inner::One(_) => 1,
            Inner::Tree(node) => node.len(),
        }
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        matches!(self.0, Inner::Empty)
    }

    /// The destinations as one slice, if they lie in a row: always up to 16, never above 64.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> Option<&[T]> {
        match &self.0 {
            Inner::Empty => Some(&[]),
            Inner::One(one) => Some(std::slice::from_ref(one)),
            Inner::Tree(node) => match &**node {
                Node::Leaf(members) => Some(members),
                Node::Branch { .. } => None,
            },
        }
    }

    /// The destinations as slices, none of them empty.
    #[must_use]
    pub fn chunks(&self) -> Chunks<'_, T> {
        match &self.0 {
            Inner::Tree(node) => Chunks { first: &[], rest: SmallVec::from_iter([&**node]) },
            _ => Chunks { first: self.as_slice().unwrap_or(&[]), rest: SmallVec::new() },
        }
    }

    /// The destinations one by one.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks().flatten()
    }
}

impl<T: PartialEq> DestinationSet<T> {
    /// Whether both are the very same set: true only if they are equal, and always true for an unchanged clone.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Inner::Empty, Inner::Empty) => true,
            (Inner::One(one), Inner::One(another)) => one == another,
            (Inner::Tree(node), Inner::Tree(another)) => Arc::ptr_eq(node, another),
            _ => false,
        }
    }
}

impl<T: Clone + Eq + Hash> DestinationSet<T> {
    /// Whether it is in the set.
    #[must_use]
    pub fn contains(&self, member: &T) -> bool {
        match &self.0 {
            Inner::Empty => false,
            Inner::One(one) => one == member,
            Inner::Tree(node) => node.contains(hash_of(member), member),
        }
    }

    /// Adds a destination; says whether it was new.
    pub fn insert(&mut self, member: T) -> bool {
        if self.contains(&member) {
            return false;
        }
        match &mut self.0 {
            Inner::Empty => self.0 = Inner::One(member),
            Inner::One(one) => {
                let both = vec![one.clone(), member];
                self.0 = Inner::Tree(Arc::new(Node::Leaf(both)));
            }
            Inner::Tree(node) => Node::insert(node, hash_of(&member), 0, member),
        }
        true
    }

    /// Removes a destination; says whether it was there.
    pub fn remove(&mut self, member: &T) -> bool {
        if !self.contains(member) {
            return false;
        }
        let Inner::Tree(node) = &mut self.0 else {
            self.0 = Inner::Empty;
            return true;
        };
        Node::remove(node, hash_of(member), 0, member);
        if let Node::Leaf(members) = &**node
            && let [one] = &members[..]
        {
            self.0 = Inner::One(one.clone());
        }
        true
    }
}

impl<T> Node<T> {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(members) => members.len(),
            Node::Branch { len, .. } => *len,
        }
    }
}

#[inline]
const fn way(hash: u64, shift: u32) -> usize {
    ((hash >> shift) & (WAYS as u64 - 1)) as usize
}

impl<T: Clone + Eq + Hash> Node<T> {
    fn contains(&self, hash: u64, member: &T) -> bool {
        let mut node = self;
        let mut shift = 0;
        loop {
            match node {
                Node::Leaf(members) => return members.contains(member),
                Node::Branch { children, .. } => node = &children[way(hash, shift)],
            }
            shift += LEVEL_BITS;
        }
    }

    /// Adds a destination that is not in the set.
    fn insert(node: &mut Arc<Self>, hash: u64, shift: u32, member: T) {
        match Arc::make_mut(node) {
            Node::Leaf(members) => {
                if members.len() == members.capacity() {
                    members.reserve_exact((members.len() / 4).max(2));
                }
                members.push(member);
                if members.len() > LEAF_LEN_MAX && shift < u64::BITS {
                    *node = Arc::new(Self::split(std::mem::take(members), shift));
                }
            }
            Node::Branch { len, children } => {
                *len += 1;
                Self::insert(&mut children[way(hash, shift)], hash, shift + LEVEL_BITS, member);
            }
        }
    }

    fn split(members: Vec<T>, shift: u32) -> Self {
        let len = members.len();
        let mut leaves: [Vec<T>; WAYS] = [const { Vec::new() }; WAYS];
        for member in members {
            leaves[way(hash_of(&member), shift)].push(member);
        }
        Node::Branch { len, children: leaves.map(|leaf| Arc::new(Node::Leaf(leaf))) }
    }

    /// Removes a destination that is in the set.
    fn remove(node: &mut Arc<Self>, hash: u64, shift: u32, member: &T) {
        match Arc::make_mut(node) {
            Node::Leaf(members) => members.retain(|other| other != member),
            Node::Branch { len, children } => {
                *len -= 1;
                Self::remove(&mut children[way(hash, shift)], hash, shift + LEVEL_BITS, member);
                if *len <= BRANCH_LEN_MIN {
                    let chunks = Chunks { first: &[], rest: SmallVec::from_iter([&**node]) };
                    *node = Arc::new(Node::Leaf(chunks.flatten().cloned().collect()));
                }
            }
        }
    }
}

impl<T> Default for DestinationSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for DestinationSet<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Iterator over the slices of a [`DestinationSet`].
pub struct Chunks<'s, T> {
    first: &'s [T],
    rest: SmallVec<[&'s Node<T>; 32]>,
}

impl<'s, T> Iterator for Chunks<'s, T> {
    type Item = &'s [T];

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first));
        }
        loop {
            match self.rest.pop()? {
                Node::Leaf(members) if members.is_empty() => {}
                Node::Leaf(members) => return Some(members),
                Node::Branch { children, .. } => {
                    self.rest.extend(children.iter().rev().map(|child| &**child));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_behaves_as_a_hash_set_and_clones_never_change(
            changes in prop::collection::vec((0u32..600, prop::bool::weighted(0.7)), 0..2500),
        ) {
            let (mut set, mut model, mut versions) = (DestinationSet::new(), HashSet::new(), Vec::new());
            for (step, (member, add)) in changes.into_iter().enumerate() {
                if add {
                    prop_assert_eq!(set.insert(member), model.insert(member));
                } else {
                    prop_assert_eq!(set.remove(&member), model.remove(&member));
                }
                if step % 97 == 0 {
                    versions.push((set.clone(), model.clone()));
                }
            }
            versions.push((set, model));
            for (set, model) in versions {
                prop_assert_eq!(set.len(), model.len());
                prop_assert_eq!(set.is_empty(), model.is_empty());
                prop_assert_eq!(set.iter().count(), model.len());
                prop_assert_eq!(set.iter().copied().collect::<HashSet<_>>(), model);
                prop_assert!(set.chunks().all(|chunk| !chunk.is_empty()));
            }
        }
    }

    #[test]
    fn destinations_of_equal_hashes_share_a_leaf() {
        #[derive(Clone, PartialEq, Eq)]
        struct Same(u32);
        impl Hash for Same {
            fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
        }
        let mut set = DestinationSet::new();
        for member in 0..200 {
            assert!(set.insert(Same(member)));
        }
        assert_eq!(set.iter().count(), 200);
        for member in 0..200 {
            assert!(set.remove(&Same(member)));
        }
        assert!(set.is_empty());
    }

    #[test]
    fn small_sets_are_one_slice() {
        let mut set = DestinationSet::new();
        for member in 0..16u32 {
            assert_eq!(set.as_slice().map(<[u32]>::len), Some(set.len()));
            set.insert(member);
        }
        for member in 16..1000 {
            set.insert(member);
        }
        assert_eq!(set.as_slice(), None);
        for member in 16..1000 {
            set.remove(&member);
        }
        assert_eq!(set.as_slice().map(<[u32]>::len), Some(16));
    }
}
