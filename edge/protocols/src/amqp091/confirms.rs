//! Publisher confirms: groups of settled publishes in, as few basic.ack frames as possible out, from whatever thread
//! brings the news.
//!
//! Refuses to know queues and when a publish counts as safe; that is the broker's business (B106-B108).
//!
//! Rules (B105): a number is confirmed once; `multiple` covers only numbers that are all settled and of which none was
//! refused in the same group; an answer out of order is acked on its own, so that nothing waits for a slow queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::{ConfirmRange, ConfirmSink};
use wire::amqp091::{encode_ack, encode_nack};

use super::deliver::Deliveries;
use crate::outbox::Outbox;

/// Which publishes of a channel are settled and told.
#[derive(Debug)]
pub(crate) struct ConfirmProgress {
    /// Lowest number that is not settled.
    floor: u64,
    /// Settled ranges above the floor: first number to last, not touching each other.
    above: BTreeMap<u64, u64>,
    settled_count: u64,
    /// Messages that were refused.
    rejected_count: u64,
}

impl Default for ConfirmProgress {
    fn default() -> Self {
        ConfirmProgress { floor: 1, above: BTreeMap::new(), settled_count: 0, rejected_count: 0 }
    }
}

impl ConfirmProgress {
    /// Publishes settled so far.
    pub(crate) fn settled_count(&self) -> u64 {
        self.settled_count
    }

    /// Publishes acked so far.
    pub(crate) fn confirmed_count(&self) -> u64 {
        self.settled_count - self.rejected_count
    }

    /// Writes what is to be said about a group.
    pub(crate) fn settle(&mut self, channel: u16, range: &ConfirmRange, out: &mut Vec<u8>) {
        debug_assert!(range.first <= range.last && range.first >= self.floor, "each number is settled once");
        let mut next = range.first;
        if range.first == self.floor {
            // Everything below the first refused number may go into one frame.
            let last = range.rejected.first().map_or(range.last, |&rejected| rejected - 1);
            if last >= next {
                encode_ack(out, channel, last, last > next);
                next = last + 1;
            }
        }
        let mut rejected = range.rejected.iter().copied().peekable();
        for number in next..=range.last {
            if rejected.next_if_eq(&number).is_some() {
                encode_nack(out, channel, number, false, false);
            } else {
                encode_ack(out, channel, number, false);
            }
        }
        self.settled_count += range.last - range.first + 1;
        self.rejected_count += range.rejected.len() as u64;
        self.mark(range.first, range.last);
    }

    fn mark(&mut self, first: u64, last: u64) {
        if first != self.floor {
            let merged = self.above.range_mut(..first).next_back().filter(|(_, end)| **end + 1 == first);
            match merged {
                Some((_, end)) => *end = last,
                None => {
                    self.above.insert(first, last);
                }
            }
            return;
        }
        self.floor = last + 1;
        while let Some(entry) = self.above.first_entry().filter(|entry| *entry.key() == self.floor) {
            self.floor = entry.remove() + 1;
        }
    }
}

/// A confirming channel's end of the broker's confirms.
#[derive(Debug)]
pub(crate) struct ChannelConfirms {
    pub(crate) outbox: Arc<Outbox<Deliveries>>,
    pub(crate) channel: u16,
    /// Of the channel this was made for; news for a closed one are dropped even if its number is in use again.
    pub(crate) serial: u64,
}

impl ConfirmSink for ChannelConfirms {
    fn confirmed(&self, range: ConfirmRange) {
        self.outbox.write(|output| {
            let (bytes, side, _) = output.parts();
            if let Some(channel) = side.channel(self.channel).filter(|channel| channel.serial == self.serial)
            {
                channel.confirms.settle(self.channel, &range, bytes);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use wire::amqp091::{Method, Parsed, parse_frame};

    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    enum Said {
        Ack(u64),
        AckThrough(u64),
        Nack(u64),
    }
    use Said::{Ack, AckThrough, Nack};

    fn said(mut bytes: &[u8]) -> Vec<Said> {
        let mut said = Vec::new();
        while let Ok(Parsed::Complete { frame, consumed }) = parse_frame(bytes, 100) {
            assert_eq!(frame.channel, 7);
            said.push(match Method::decode(frame.payload).unwrap() {
                Method::BasicAck(ack) if ack.multiple => AckThrough(ack.delivery_tag),
                Method::BasicAck(ack) => Ack(ack.delivery_tag),
                Method::BasicNack(nack) => Nack(nack.delivery_tag),
                other => panic!("{other:?}"),
            });
            bytes = &bytes[consumed..];
        }
        said
    }

    fn settle(progress: &mut ConfirmProgress, first: u64, last: u64, rejected: &[u64]) -> Vec<Said> {
        let mut out = Vec::new();
        progress.settle(7, &ConfirmRange { first, last, rejected: rejected.to_vec() }, &mut out);
        said(&out)
    }

    #[test]
    fn a_group_at_the_floor_is_one_frame() {
        let mut progress = ConfirmProgress::default();
        assert_eq!(settle(&mut progress, 1, 1, &[]), [Ack(1)]);
        assert_eq!(settle(&mut progress, 2, 1000, &[]), [AckThrough(1000)]);
        assert_eq!(progress.settled_count(), 1000);
    }

    #[test]
    fn what_comes_early_is_acked_on_its_own() {
        let mut progress = ConfirmProgress::default();
        assert_eq!(settle(&mut progress, 3, 4, &[]), [Ack(3), Ack(4)]);
        assert_eq!(settle(&mut progress, 5, 5, &[]), [Ack(5)]);
        assert_eq!(progress.above.len(), 1);
        assert_eq!(settle(&mut progress, 1, 2, &[]), [AckThrough(2)]);
        assert!(progress.above.is_empty());
        assert_eq!(settle(&mut progress, 6, 8, &[]), [AckThrough(8)]);
    }

    #[test]
    fn multiple_never_reaches_across_a_nack() {
        let mut progress = ConfirmProgress::default();
        assert_eq!(
            settle(&mut progress, 1, 7, &[3, 6]),
            [AckThrough(2), Nack(3), Ack(4), Ack(5), Nack(6), Ack(7)]
        );
        assert_eq!(settle(&mut progress, 8, 9, &[]), [AckThrough(9)]);
    }

    #[test]
    fn a_nack_at_the_floor_comes_alone() {
        let mut progress = ConfirmProgress::default();
        assert_eq!(settle(&mut progress, 1, 3, &[1]), [Nack(1), Ack(2), Ack(3)]);
        assert_eq!(settle(&mut progress, 4, 4, &[4]), [Nack(4)]);
        assert_eq!(settle(&mut progress, 5, 6, &[]), [AckThrough(6)]);
    }

    #[test]
    fn early_groups_in_any_order_close_up() {
        let mut progress = ConfirmProgress::default();
        for number in [9, 5, 7, 3] {
            assert_eq!(settle(&mut progress, number, number, &[]), [Ack(number)]);
        }
        assert_eq!(settle(&mut progress, 8, 8, &[]), [Ack(8)]);
        assert_eq!(settle(&mut progress, 1, 2, &[]), [AckThrough(2)]);
        assert_eq!(progress.floor, 4);
        assert_eq!(settle(&mut progress, 4, 4, &[]), [Ack(4)]);
        assert_eq!(progress.floor, 6);
        assert_eq!(settle(&mut progress, 6, 6, &[]), [Ack(6)]);
        assert_eq!(progress.floor, 10);
        assert!(progress.above.is_empty());
    }
}
