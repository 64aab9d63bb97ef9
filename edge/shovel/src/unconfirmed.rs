//! Messages that are published and not settled, in order: which source deliveries may be acked. Refuses to know connections.

use std::collections::VecDeque;

/// The destination's answer to a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    None,
    Confirmed,
    /// Told to the source already.
    Refused,
}

/// Published messages by their publishing sequence numbers, which begin with 1.
pub(crate) struct Unconfirmed {
    /// Sequence number of the first slot.
    first_seq: u64,
    slots: VecDeque<(u64, Answer)>,
    /// How many wait for an answer.
    waiting: u64,
}

/// The meaning of a batch of answers for the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Everything up to this delivery tag is to be acked.
    pub(crate) ack_up_to: Option<u64>,
    /// Messages that were settled for good.
    pub(crate) count: u64,
}

impl Unconfirmed {
    pub(crate) fn new() -> Self {
        Self { first_seq: 1, slots: VecDeque::new(), waiting: 0 }
    }

    /// A message with that tag of the source was published.
    pub(crate) fn published(&mut self, delivery_tag: u64) {
        self.slots.push_back((delivery_tag, Answer::None));
        self.waiting += 1;
    }

    /// Messages without an answer.
    pub(crate) fn len(&self) -> u64 {
        self.waiting
    }

    /// Slots that an answer is about.
    fn range(&self, seq: u64, multiple: bool) -> std::ops::Range<usize> {
        let index = |seq: u64| usize::try_from(seq.saturating_sub(self.first_seq)).unwrap_or(usize::MAX);
        let end = if seq < self.first_seq { 0 } else { index(seq).saturating_add(1).min(self.slots.len()) };
        let begin = if multiple { 0 } else { index(seq).min(end) };
        begin..end
    }

    /// The destination has confirmed. [`Unconfirmed::take_settled`] tells the messages that can be acked.
    pub(crate) fn confirmed(&mut self, seq: u64, multiple: bool) {
        let range = self.range(seq, multiple);
        for (_, answer) in self.slots.range_mut(range) {
            if *answer == Answer::None {
                *answer = Answer::Confirmed;
                self.waiting -= 1;
            }
        }
    }

    /// The destination has refused: gives the tags to give back to the source.
    pub(crate) fn refused(&mut self, seq: u64, multiple: bool, mut give_back: impl FnMut(u64)) {
        let range = self.range(seq, multiple);
        for (tag, answer) in self.slots.range_mut(range) {
            if *answer == Answer::None {
                *answer = Answer::Refused;
                self.waiting -= 1;
                give_back(*tag);
            }
        }
    }

    /// Forgets answered messages from the front. Acking up to a tag also covers those before it that were refused: they must have been
    /// given back by then, or they would be lost.
    pub(crate) fn take_settled(&mut self) -> Settled {
        let mut settled = Settled::default();
        while let Some((tag, answer)) = self.slots.front().copied() {
            match answer {
                Answer::None => break,
                Answer::Confirmed => {
                    settled.ack_up_to = Some(tag);
                    settled.count += 1;
                }
                Answer::Refused => {}
            }
            self.slots.pop_front();
            self.first_seq += 1;
        }
        settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(count: u64) -> Unconfirmed {
        let mut unconfirmed = Unconfirmed::new();
        (1..=count).for_each(|nth| unconfirmed.published(nth + 100));
        unconfirmed
    }

    #[test]
    fn only_a_whole_prefix_is_acked() {
        let mut it = published(5);
        it.confirmed(2, false);
        assert_eq!((it.take_settled(), it.len()), (Settled::default(), 4));
        it.confirmed(1, false);
        assert_eq!(it.take_settled(), Settled { ack_up_to: Some(102), count: 2 });
        it.confirmed(5, true);
        assert_eq!(it.take_settled(), Settled { ack_up_to: Some(105), count: 3 });
        assert_eq!(it.len(), 0);
    }

    #[test]
    fn refused_messages_are_given_back_once_and_do_not_count() {
        let mut it = published(4);
        let mut back = Vec::new();
        it.refused(2, true, |tag| back.push(tag));
        it.refused(2, true, |tag| back.push(tag));
        it.confirmed(4, true);
        assert_eq!(back, [101, 102]);
        assert_eq!(it.take_settled(), Settled { ack_up_to: Some(104), count: 2 });
    }

    #[test]
    fn answers_about_what_was_never_published_or_is_settled_change_nothing() {
        let mut it = published(2);
        it.confirmed(2, true);
        it.take_settled();
        it.confirmed(1, false);
        it.confirmed(9, false);
        it.refused(u64::MAX, true, |_| panic!("nothing is left"));
        assert_eq!((it.take_settled(), it.len()), (Settled::default(), 0));
        it.published(103);
        it.confirmed(0, true);
        assert_eq!(it.len(), 1);
        it.confirmed(3, false);
        assert_eq!(it.take_settled().ack_up_to, Some(103));
    }
}
