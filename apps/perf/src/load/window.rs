//! The unconfirmed messages of one publisher: how many more may be sent, and how long each confirm took.
//!
//! Refuses to know what a confirm looks like on the wire. Brokers confirm one by one or many at once, in any order;
//! a confirm that confirms nothing is an error, because a benchmark must not flatter a broker that loses count.

use std::collections::VecDeque;

/// A confirm for a message that was never sent or is already confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the broker confirmed message {tag}, which was not outstanding")]
pub(crate) struct NotOutstanding {
    /// The tag it sent.
    pub(crate) tag: u64,
}

/// How far a confirm reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// This message.
    One,
    /// It and all before it.
    UpTo,
}

/// Messages that were sent together.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Number of the last of them.
    last: u64,
    /// When, in monotonic nanoseconds.
    at_ns: u64,
}

/// Unconfirmed messages, numbered from 1 as the broker does.
#[derive(Debug)]
pub(crate) struct Window {
    size: usize,
    /// Number of the first message that is not confirmed.
    first: u64,
    /// Whether message `first + n` is confirmed, for all that were sent.
    confirmed: VecDeque<bool>,
    outstanding: usize,
    sent: VecDeque<Sent>,
}

impl Window {
    /// A window of at most `size` unconfirmed messages.
    pub(crate) const fn new(size: usize) -> Self {
        Self { size, first: 1, confirmed: VecDeque::new(), outstanding: 0, sent: VecDeque::new() }
    }

    /// How many messages may be sent now.
    pub(crate) const fn room(&self) -> usize {
        self.size.saturating_sub(self.outstanding)
    }

    /// Whether everything is confirmed.
    pub(crate) const fn is_empty(&self) -> bool {
        self.outstanding == 0
    }

    /// Notes that the next `count` messages were sent.
    pub(crate) fn send(&mut self, count: usize, at_ns: u64) {
        self.confirmed.resize(self.confirmed.len() + count, false);
        self.outstanding += count;
        self.sent.push_back(Sent { last: self.next() - 1, at_ns });
    }

    /// Settles what a confirm names; says how many messages that were. `each` gets how many of them were sent, or due, at
    /// which time: a confirm for many tells of each how long it took.
    ///
    /// # Errors
    /// [`NotOutstanding`].
    pub(crate) fn settle(
        &mut self,
        tag: u64,
        reach: Reach,
        mut each: impl FnMut(u64, u64),
    ) -> Result<u64, NotOutstanding> {
        let wrong = NotOutstanding { tag };
        let index = tag.checked_sub(self.first).and_then(|index| usize::try_from(index).ok()).ok_or(wrong)?;
        if index >= self.confirmed.len() || self.confirmed[index] {
            return Err(wrong);
        }
        let count = match reach {
            Reach::One => {
                self.confirmed[index] = true;
                each(1, self.sent[self.sent.partition_point(|sent| sent.last < tag)].at_ns);
                1
            }
            Reach::UpTo => self.settle_up_to(index, each),
        };
        while self.confirmed.front() == Some(&true) {
            self.confirmed.pop_front();
            self.first += 1;
        }
        while self.sent.front().is_some_and(|sent| sent.last < self.first) {
            self.sent.pop_front();
        }
        self.outstanding -= usize::try_from(count).expect("as many as were outstanding");
        Ok(count)
    }

    /// Settles the first messages up to the one with this index.
    fn settle_up_to(&mut self, index: usize, mut each: impl FnMut(u64, u64)) -> u64 {
        let (end, mut count) = (self.first + index as u64, 0);
        let mut confirmed = self.confirmed.drain(..=index);
        for sent in &self.sent {
            let here = (self.first..=sent.last.min(end)).count();
            let settled = confirmed.by_ref().take(here).filter(|confirmed| !confirmed).count() as u64;
            if settled > 0 {
                each(settled, sent.at_ns);
            }
            (self.first, count) = (self.first + here as u64, count + settled);
            if self.first > end {
                break;
            }
        }
        count
    }

    /// Number of the next message.
    fn next(&self) -> u64 {
        self.first + self.confirmed.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many were settled, and times with how many each.
    fn settle(window: &mut Window, tag: u64, reach: Reach) -> Result<Vec<(u64, u64)>, NotOutstanding> {
        let mut times = Vec::new();
        let count = window.settle(tag, reach, |count, at_ns| times.push((count, at_ns)))?;
        assert_eq!(count, times.iter().map(|(count, _)| count).sum::<u64>());
        Ok(times)
    }

    #[test]
    fn a_confirm_for_many_tells_of_each_when_it_was_sent() {
        let mut window = Window::new(9);
        [10, 20, 30, 40].into_iter().for_each(|at_ns| window.send(2, at_ns));
        assert_eq!(settle(&mut window, 3, Reach::One), Ok(vec![(1, 20)]));
        assert_eq!(settle(&mut window, 5, Reach::UpTo), Ok(vec![(2, 10), (1, 20), (1, 30)]));
        assert_eq!(settle(&mut window, 8, Reach::UpTo), Ok(vec![(1, 30), (2, 40)]));
        assert!(window.is_empty() && window.room() == 9);
    }

    #[test]
    fn confirms_in_any_order_free_the_window() {
        let mut window = Window::new(5);
        window.send(3, 10);
        window.send(2, 20);
        assert_eq!(window.room(), 0);
        assert_eq!(settle(&mut window, 4, Reach::One), Ok(vec![(1, 20)]));
        assert_eq!(settle(&mut window, 2, Reach::One), Ok(vec![(1, 10)]));
        assert_eq!(window.room(), 2);
        assert_eq!(settle(&mut window, 3, Reach::UpTo), Ok(vec![(2, 10)]));
        assert_eq!(window.room(), 4);
        assert_eq!(settle(&mut window, 5, Reach::UpTo), Ok(vec![(1, 20)]));
        assert!(window.is_empty());
        window.send(1, 30);
        assert_eq!(settle(&mut window, 6, Reach::One), Ok(vec![(1, 30)]));
        assert!(window.is_empty() && window.sent.is_empty() && window.confirmed.is_empty());
    }

    #[test]
    fn confirms_for_nothing_are_errors() {
        let mut window = Window::new(5);
        assert_eq!(settle(&mut window, 1, Reach::One), Err(NotOutstanding { tag: 1 }));
        window.send(3, 0);
        settle(&mut window, 2, Reach::One).unwrap();
        for tag in [0, 2, 4, u64::MAX] {
            assert_eq!(settle(&mut window, tag, Reach::UpTo), Err(NotOutstanding { tag }));
        }
    }
}
