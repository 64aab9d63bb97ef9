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

    /// Settles what a confirm names; says how many messages that were and when the last of them was sent.
    ///
    /// # Errors
    /// [`NotOutstanding`].
    pub(crate) fn settle(&mut self, tag: u64, reach: Reach) -> Result<(u64, u64), NotOutstanding> {
        let wrong = NotOutstanding { tag };
        let index = tag.checked_sub(self.first).and_then(|index| usize::try_from(index).ok()).ok_or(wrong)?;
        if index >= self.confirmed.len() || self.confirmed[index] {
            return Err(wrong);
        }
        let sent = self.sent.partition_point(|sent| sent.last < tag);
        let at_ns = self.sent[sent].at_ns;
        let count = match reach {
            Reach::One => {
                self.confirmed[index] = true;
                1
            }
            Reach::UpTo => {
                let count = self.confirmed.drain(..=index).filter(|confirmed| !confirmed).count();
                self.first = tag + 1;
                count
            }
        };
        while self.confirmed.front() == Some(&true) {
            self.confirmed.pop_front();
            self.first += 1;
        }
        while self.sent.front().is_some_and(|sent| sent.last < self.first) {
            self.sent.pop_front();
        }
        self.outstanding -= count;
        Ok((count as u64, at_ns))
    }

    /// Number of the next message.
    fn next(&self) -> u64 {
        self.first + self.confirmed.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirms_in_any_order_free_the_window() {
        let mut window = Window::new(5);
        window.send(3, 10);
        window.send(2, 20);
        assert_eq!(window.room(), 0);
        assert_eq!(window.settle(4, Reach::One), Ok((1, 20)));
        assert_eq!(window.settle(2, Reach::One), Ok((1, 10)));
        assert_eq!(window.room(), 2);
        assert_eq!(window.settle(3, Reach::UpTo), Ok((2, 10)));
        assert_eq!(window.room(), 4);
        assert_eq!(window.settle(5, Reach::UpTo), Ok((1, 20)));
        assert!(window.is_empty());
        window.send(1, 30);
        assert_eq!(window.settle(6, Reach::One), Ok((1, 30)));
        assert!(window.is_empty() && window.sent.is_empty() && window.confirmed.is_empty());
    }

    #[test]
    fn confirms_for_nothing_are_errors() {
        let mut window = Window::new(5);
        assert_eq!(window.settle(1, Reach::One), Err(NotOutstanding { tag: 1 }));
        window.send(3, 0);
        window.settle(2, Reach::One).unwrap();
        for tag in [0, 2, 4, u64::MAX] {
            assert_eq!(window.settle(tag, Reach::UpTo), Err(NotOutstanding { tag }));
        }
    }
}
