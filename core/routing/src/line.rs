//! A persistent row of weighted members, in an order of the caller's, from which one is picked by its place.
//!
//! Refuses to know what members are and what orders them: searches take a function that says where the sought one lies.
//!
//! ```text
//!  members  A (2)   B (1)   C (3)          a tree balanced by size; each node holds one member and the sum of the
//!  places   0 1     2       3 4 5          weights below it, so that change and pick cost the logarithm of the length
//! ```

use std::cmp::Ordering;
use std::sync::Arc;

/// One side may be so many times larger than the other before nodes are turned.
const LOPSIDED: u32 = 3;
/// The inner child of the larger side may be so many times larger than the outer before it is turned first.
const INNER: u32 = 2;

/// An immutable-when-shared row: cloning is O(1), everything else O(log n).
#[derive(Clone)]
pub(crate) struct Line<T> {
    root: Link<T>,
}

type Link<T> = Option<Arc<Node<T>>>;

#[derive(Clone)]
struct Node<T> {
    member: T,
    weight: u32,
    len: u32,
    /// Weights of this node and all below.
    sum: u64,
    left: Link<T>,
    right: Link<T>,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { root: None }
    }
}

fn len_of<T>(link: &Link<T>) -> u32 {
    link.as_ref().map_or(0, |node| node.len)
}

fn sum_of<T>(link: &Link<T>) -> u64 {
    link.as_ref().map_or(0, |node| node.sum)
}

impl<T> Line<T> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Sum of all weights: places are below it.
    pub(crate) fn sum(&self) -> u64 {
        sum_of(&self.root)
    }

    /// The member at that place, if the place is below [`Line::sum`].
    #[inline]
    pub(crate) fn pick(&self, mut place: u64) -> Option<&T> {
        let mut node = self.root.as_ref()?;
        loop {
            let left = sum_of(&node.left);
            if place < left {
                node = node.left.as_ref()?;
                continue;
            }
            place -= left;
            if place < u64::from(node.weight) {
                return Some(&node.member);
            }
            place -= u64::from(node.weight);
            node = node.right.as_ref()?;
        }
    }

    /// The member that `seek` calls equal, its weight and its first place; `seek` says how a member lies to the sought one.
    pub(crate) fn find(&self, seek: impl Fn(&T) -> Ordering) -> Option<(&T, u32, u64)> {
        let (mut node, mut before) = (self.root.as_ref()?, 0);
        loop {
            match seek(&node.member) {
                Ordering::Greater => node = node.left.as_ref()?,
                Ordering::Equal => return Some((&node.member, node.weight, before + sum_of(&node.left))),
                Ordering::Less => {
                    before += sum_of(&node.left) + u64::from(node.weight);
                    node = node.right.as_ref()?;
                }
            }
        }
    }

    /// All members in order, with their weights.
    pub(crate) fn iter(&self) -> Iter<'_, T> {
        let mut iter = Iter { above: Vec::new() };
        iter.descend(&self.root);
        iter
    }
}

impl<T: Clone> Line<T> {
    /// Puts a member where `seek` says. There must be none that it calls equal.
    pub(crate) fn insert(&mut self, member: T, weight: u32, seek: impl Fn(&T) -> Ordering) {
        insert(&mut self.root, Node::new(member, weight), &seek);
    }

    /// Changes the member that `seek` calls equal, and its weight.
    pub(crate) fn change<R>(
        &mut self,
        seek: impl Fn(&T) -> Ordering,
        change: impl FnOnce(&mut T, &mut u32) -> R,
    ) -> Option<R> {
        change_in(&mut self.root, &seek, change)
    }

    /// Takes out the member that `seek` calls equal.
    pub(crate) fn remove(&mut self, seek: impl Fn(&T) -> Ordering) -> Option<T> {
        // A search first, so that nothing is copied in vain.
        self.find(&seek)?;
        remove(&mut self.root, &seek)
    }
}

impl<T> Node<T> {
    fn new(member: T, weight: u32) -> Arc<Self> {
        Arc::new(Self { member, weight, len: 1, sum: u64::from(weight), left: None, right: None })
    }

    fn recount(&mut self) {
        self.len = len_of(&self.left) + 1 + len_of(&self.right);
        self.sum = sum_of(&self.left) + u64::from(self.weight) + sum_of(&self.right);
    }
}

fn insert<T: Clone>(link: &mut Link<T>, new: Arc<Node<T>>, seek: &impl Fn(&T) -> Ordering) {
    match link {
        None => *link = Some(new),
        Some(node) => {
            let node = Arc::make_mut(node);
            let side = if seek(&node.member) == Ordering::Greater { &mut node.left } else { &mut node.right };
            insert(side, new, seek);
            node.recount();
            balance(link);
        }
    }
}

fn change_in<T: Clone, R>(
    link: &mut Link<T>,
    seek: &impl Fn(&T) -> Ordering,
    change: impl FnOnce(&mut T, &mut u32) -> R,
) -> Option<R> {
    let node = Arc::make_mut(link.as_mut()?);
    let result = match seek(&node.member) {
        Ordering::Greater => change_in(&mut node.left, seek, change),
        Ordering::Equal => Some(change(&mut node.member, &mut node.weight)),
        Ordering::Less => change_in(&mut node.right, seek, change),
    };
    node.recount();
    result
}

fn remove<T: Clone>(link: &mut Link<T>, seek: &impl Fn(&T) -> Ordering) -> Option<T> {
    let node = Arc::make_mut(link.as_mut()?);
    let removed = match seek(&node.member) {
        Ordering::Greater => remove(&mut node.left, seek),
        Ordering::Less => remove(&mut node.right, seek),
        Ordering::Equal => {
            let member = node.member.clone();
            *link = join(node.left.take(), node.right.take());
            return Some(member);
        }
    };
    node.recount();
    balance(link);
    removed
}

/// Two neighbouring trees as one.
fn join<T: Clone>(left: Link<T>, mut right: Link<T>) -> Link<T> {
    if left.is_none() {
        return right;
    }
    let Some((member, weight)) = take_first(&mut right) else { return left };
    let mut node = Node::new(member, weight);
    let inner = Arc::make_mut(&mut node);
    (inner.left, inner.right) = (left, right);
    inner.recount();
    let mut link = Some(node);
    balance(&mut link);
    link
}

fn take_first<T: Clone>(link: &mut Link<T>) -> Option<(T, u32)> {
    let node = Arc::make_mut(link.as_mut()?);
    if node.left.is_none() {
        let first = (node.member.clone(), node.weight);
        *link = node.right.take();
        return Some(first);
    }
    let first = take_first(&mut node.left);
    node.recount();
    balance(link);
    first
}

/// Restores the balance of a node whose sides are balanced, after one of them has changed by one member.
fn balance<T: Clone>(link: &mut Link<T>) {
    let Some(node) = link else { return };
    let (left, right) = (len_of(&node.left), len_of(&node.right));
    if left + right < 2 {
        return;
    }
    if right > LOPSIDED * left {
        let node = Arc::make_mut(node);
        let child = node.right.as_ref().expect("the larger side is not empty");
        if len_of(&child.left) >= INNER * len_of(&child.right) {
            turn_right(&mut node.right);
        }
        turn_left(link);
    } else if left > LOPSIDED * right {
        let node = Arc::make_mut(node);
        let child = node.left.as_ref().expect("the larger side is not empty");
        if len_of(&child.right) >= INNER * len_of(&child.left) {
            turn_left(&mut node.left);
        }
        turn_right(link);
    }
}

/// The right child takes its parent's place.
fn turn_left<T: Clone>(link: &mut Link<T>) {
    let Some(mut node) = link.take() else { return };
    let below = Arc::make_mut(&mut node);
    let Some(mut child) = below.right.take() else { return *link = Some(node) };
    let above = Arc::make_mut(&mut child);
    below.right = above.left.take();
    below.recount();
    above.left = Some(node);
    above.recount();
    *link = Some(child);
}

/// The left child takes its parent's place.
fn turn_right<T: Clone>(link: &mut Link<T>) {
    let Some(mut node) = link.take() else { return };
    let below = Arc::make_mut(&mut node);
    let Some(mut child) = below.left.take() else { return *link = Some(node) };
    let above = Arc::make_mut(&mut child);
    below.left = above.right.take();
    below.recount();
    above.right = Some(node);
    above.recount();
    *link = Some(child);
}

/// Members of a [`Line`] in order.
pub(crate) struct Iter<'l, T> {
    /// Nodes whose left side has been given out.
    above: Vec<&'l Node<T>>,
}

impl<'l, T> Iter<'l, T> {
    fn descend(&mut self, mut link: &'l Link<T>) {
        while let Some(node) = link {
            self.above.push(node);
            link = &node.left;
        }
    }
}

impl<'l, T> Iterator for Iter<'l, T> {
    type Item = (&'l T, u32);

    fn next(&mut self) -> Option<Self::Item> {
        let node = self.above.pop()?;
        self.descend(&node.right);
        Some((&node.member, node.weight))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn depth<T>(link: &Link<T>) -> usize {
        link.as_ref().map_or(0, |node| {
            let (left, right) = (len_of(&node.left), len_of(&node.right));
            assert!(
                left + right < 2 || (left <= LOPSIDED * right && right <= LOPSIDED * left),
                "{left} {right}"
            );
            depth(&node.left).max(depth(&node.right)) + 1
        })
    }

    fn check(line: &Line<u16>, model: &BTreeMap<u16, u32>) {
        assert!(
            line.iter().map(|(&member, weight)| (member, weight)).eq(model.iter().map(|(&m, &w)| (m, w)))
        );
        assert_eq!(len_of(&line.root) as usize, model.len());
        let places: Vec<u16> = model.iter().flat_map(|(&m, &w)| std::iter::repeat_n(m, w as usize)).collect();
        assert_eq!(line.sum(), places.len() as u64);
        for (place, member) in places.iter().enumerate() {
            assert_eq!(line.pick(place as u64), Some(member));
        }
        assert_eq!(line.pick(places.len() as u64), None);
        for (member, &weight) in model {
            let first = places.iter().position(|other| other == member).unwrap() as u64;
            assert_eq!(line.find(|other| other.cmp(member)), Some((member, weight, first)));
        }
        assert!(depth(&line.root) <= 4 + 2 * (len_of(&line.root) + 1).ilog2() as usize + 1);
    }

    proptest! {
        #[test]
        fn it_behaves_as_a_sorted_map_stays_balanced_and_clones_never_change(
            changes in prop::collection::vec((0u16..200, 0u32..4, 0u8..3), 0..600),
        ) {
            let (mut line, mut model, mut versions) = (Line::default(), BTreeMap::new(), Vec::new());
            for (step, (member, weight, what)) in changes.into_iter().enumerate() {
                let seek = |other: &u16| other.cmp(&member);
                match what {
                    0 => prop_assert_eq!(line.remove(seek).is_some(), model.remove(&member).is_some()),
                    _ if model.contains_key(&member) => {
                        line.change(seek, |_, old| *old = weight + 1);
                        model.insert(member, weight + 1);
                    }
                    _ => {
                        line.insert(member, weight + 1, seek);
                        model.insert(member, weight + 1);
                    }
                }
                if step % 60 == 0 {
                    versions.push((line.clone(), model.clone()));
                }
            }
            versions.push((line, model));
            for (line, model) in versions {
                check(&line, &model);
            }
        }
    }

    #[test]
    fn members_added_in_order_make_no_list() {
        let mut line = Line::default();
        for member in 0..2000_u16 {
            line.insert(member, 1, |other| other.cmp(&member));
        }
        assert!(depth(&line.root) <= 20);
        while let Some(&first) = line.pick(0) {
            line.remove(|other| other.cmp(&first));
        }
        assert!(line.is_empty());
    }
}
