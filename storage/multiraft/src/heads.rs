//! The heads of a replica's log in memory: terms as runs, and the few entries that are not for the machine. Knows no body.

use std::collections::VecDeque;

use crate::kernel::{EntryKind, Head};

/// The heads of consecutive entries. A million entries of one term cost as much as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heads {
    /// Index and term of the entry before the first, which a checkpoint or an installed state stands for.
    before: (u64, u64),
    last: u64,
    /// Where a term begins, and the term. Ascending.
    runs: VecDeque<(u64, u64)>,
    /// Entries that are not [`EntryKind::Parts`]. Ascending.
    special: VecDeque<(u64, EntryKind)>,
}

impl Heads {
    /// No entries; the next one follows this.
    pub fn after(index: u64, term: u64) -> Self {
        Self { before: (index, term), last: index, ..Self::default() }
    }

    /// The index of the first entry; one more than [`Self::last_index`] when there is none.
    pub fn first_index(&self) -> u64 {
        self.before.0 + 1
    }

    /// The index of the last entry, or of the one before the first.
    pub fn last_index(&self) -> u64 {
        self.last
    }

    /// The term of the last entry, or of the one before the first.
    pub fn last_term(&self) -> u64 {
        self.runs.back().map_or(self.before.1, |run| run.1)
    }

    /// The term of an entry, or of the one before the first.
    pub fn term(&self, index: u64) -> Option<u64> {
        if index == self.before.0 {
            return Some(self.before.1);
        }
        if index < self.before.0 || index > self.last {
            return None;
        }
        let after = self.runs.partition_point(|run| run.0 <= index);
        self.runs.get(after.checked_sub(1)?).map(|run| run.1)
    }

    /// The head of an entry.
    pub fn get(&self, index: u64) -> Option<Head> {
        if index <= self.before.0 {
            return None;
        }
        let term = self.term(index)?;
        let kind = match self.special.binary_search_by_key(&index, |special| special.0) {
            Ok(at) => self.special[at].1,
            Err(_) => EntryKind::Parts,
        };
        Some(Head { index, term, kind })
    }

    /// Adds an entry; one that is not the next takes the place of what is at its index and of all behind it.
    ///
    /// # Panics
    /// When that leaves a gap, or replaces what is before the first.
    pub(crate) fn push(&mut self, head: Head) {
        assert!(
            head.index > self.before.0 && head.index <= self.last + 1,
            "entry {} does not follow {} to {}",
            head.index,
            self.before.0,
            self.last
        );
        if head.index <= self.last {
            self.truncate(head.index);
        }
        if self.runs.back().is_none_or(|run| run.1 != head.term) {
            self.runs.push_back((head.index, head.term));
        }
        if head.kind != EntryKind::Parts {
            self.special.push_back((head.index, head.kind));
        }
        self.last = head.index;
    }

    /// Removes the entry and all behind it.
    fn truncate(&mut self, from: u64) {
        while self.runs.back().is_some_and(|run| run.0 >= from) {
            self.runs.pop_back();
        }
        while self.special.back().is_some_and(|special| special.0 >= from) {
            self.special.pop_back();
        }
        self.last = from - 1;
    }

    /// Forgets entries up to this one. Only its term is still known.
    pub(crate) fn compact(&mut self, index: u64) {
        let Some(term) = self.term(index).filter(|_| index > self.before.0) else { return };
        self.before = (index, term);
        while self.runs.get(1).is_some_and(|next| next.0 <= index + 1) {
            self.runs.pop_front();
        }
        if self.last == index {
            self.runs.clear();
        } else if let Some(run) = self.runs.front_mut() {
            run.0 = run.0.max(index + 1);
        }
        while self.special.front().is_some_and(|special| special.0 <= index) {
            self.special.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(index: u64, term: u64, kind: u8) -> Head {
        let kind =
            [EntryKind::Parts, EntryKind::Parts, EntryKind::Empty, EntryKind::Members][usize::from(kind)];
        Head { index, term, kind }
    }

    proptest! {
        #[test]
        fn heads_are_those_of_a_plain_list(steps in prop::collection::vec((0u8..3, 0u64..8, 0u8..4), 0..60)) {
            let (mut heads, mut list, mut before, mut term) = (Heads::after(5, 1), Vec::<Head>::new(), (5, 1), 1);
            for (what, number, kind) in steps {
                if what < 2 {
                    term += u64::from(number == 0 || what == 1);
                    let back = if what == 1 { number.min(list.len() as u64) } else { 0 };
                    let head = head(before.0 + list.len() as u64 + 1 - back, term, kind);
                    list.truncate(list.len() - usize::try_from(back).unwrap());
                    list.push(head);
                    heads.push(head);
                } else if !list.is_empty() {
                    let gone = list.drain(..=usize::try_from(number).unwrap().min(list.len() - 1)).next_back().unwrap();
                    before = (gone.index, gone.term);
                    heads.compact(gone.index);
                }
                prop_assert_eq!(heads.first_index(), before.0 + 1);
                prop_assert_eq!(heads.last_index(), before.0 + list.len() as u64);
                prop_assert_eq!(heads.last_term(), list.last().map_or(before.1, |head| head.term));
                prop_assert_eq!(heads.term(before.0), Some(before.1));
                prop_assert_eq!(heads.get(before.0), None);
                prop_assert_eq!(heads.term(heads.last_index() + 1), None);
                for head in &list {
                    prop_assert_eq!(heads.get(head.index), Some(*head));
                }
            }
        }
    }
}
