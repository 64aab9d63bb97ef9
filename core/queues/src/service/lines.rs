//! The lines of consumers that may be served: one for each priority. Knows nothing of consumers but their slots.

use std::collections::VecDeque;

/// Lines, the one of the highest priority first. A queue has one as a rule, which stays when it is empty.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<Line>);

#[derive(Debug)]
struct Line {
    priority: i64,
    slots: VecDeque<usize>,
}

impl Lines {
    fn find(&self, priority: i64) -> Result<usize, usize> {
        self.0.binary_search_by(|line| priority.cmp(&line.priority))
    }

    /// Puts a slot at the end of its line.
    pub(super) fn join(&mut self, priority: i64, slot: usize) {
        let at = self.find(priority).unwrap_or_else(|at| {
            if self.0.is_empty() {
                self.0.reserve_exact(1);
            }
            self.0.insert(at, Line { priority, slots: VecDeque::new() });
            at
        });
        self.0[at].slots.push_back(slot);
    }

    /// Takes a slot out of its line, wherever it stands.
    pub(super) fn leave(&mut self, priority: i64, slot: usize) {
        if let Ok(at) = self.find(priority) {
            self.0[at].slots.retain(|other| *other != slot);
            self.remove_if_empty(at);
        }
    }

    /// Takes the slot at the head of a line, and puts it at its end if it `stays`.
    pub(super) fn served(&mut self, priority: i64, stays: bool) -> Option<usize> {
        let at = self.find(priority).ok()?;
        let line = &mut self.0[at].slots;
        let head = line.pop_front();
        if stays {
            line.extend(head);
        } else {
            self.remove_if_empty(at);
        }
        head
    }

    fn remove_if_empty(&mut self, at: usize) {
        if self.0.len() > 1 && self.0[at].slots.is_empty() {
            self.0.remove(at);
        }
    }

    /// The slot to serve next, and whether it is alone in its line.
    pub(super) fn first(&self) -> Option<(usize, bool)> {
        let line = self.0.iter().map(|line| &line.slots).find(|slots| !slots.is_empty())?;
        Some((*line.front()?, line.len() == 1))
    }

    /// Nobody stands in any.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|line| line.slots.is_empty())
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let of = |line: &Line| line.slots.capacity() * size_of::<usize>();
        self.0.capacity() * size_of::<Line>() + self.0.iter().map(of).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_priority_is_first_and_equal_ones_take_turns() {
        let mut lines = Lines::default();
        assert!(lines.is_empty() && lines.first().is_none());
        for (priority, slot) in [(0, 1), (5, 2), (-1, 3), (5, 4)] {
            lines.join(priority, slot);
        }
        assert_eq!((lines.first(), lines.served(5, true)), (Some((2, false)), Some(2)));
        assert_eq!((lines.first(), lines.served(5, false)), (Some((4, false)), Some(4)));
        assert_eq!(lines.first(), Some((2, true)));
        lines.leave(5, 2);
        assert_eq!((lines.first(), lines.served(7, false)), (Some((1, true)), None));
        lines.leave(0, 1);
        lines.leave(0, 9);
        assert_eq!(lines.first(), Some((3, true)));
        assert_eq!((lines.served(-1, false), lines.is_empty()), (Some(3), true));
        lines.join(2, 8);
        assert_eq!(lines.first(), Some((8, true)));
    }
}
