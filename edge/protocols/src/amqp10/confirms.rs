//! Confirms of a link's messages: settled publishes in, dispositions of ranges out, from whatever thread brings the news.
//!
//! Refuses to know queues and when a publish counts as safe.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use broker::{ConfirmRange, ConfirmSink, PublishCounters, TrafficTotals};
use wire::amqp10::{
    Accepted, DeliveryState, Disposition, Error, Map, Rejected, Released, Role, Symbol, Value, Writer,
    conditions,
};

use super::deliver::Sink;

/// The answer to the sender of a message when its fate is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing: it was sent settled.
    Nothing,
    /// It is in all queues that it was routed to.
    Accepted,
    /// It went nowhere.
    Released,
    /// A queue refused it.
    Rejected,
}

/// A message that was published and not confirmed, or not in its turn.
#[derive(Clone, Copy, Debug)]
struct Entry {
    delivery_id: u32,
    told: Told,
    is_settled: bool,
}

/// Messages of one link on their way.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Differs between links that had the same place one after the other.
    pub(crate) serial: u64,
    pub(crate) channel: u16,
    /// The queue that the link's address names; empty if it names none.
    pub(crate) queue: Box<[u8]>,
    /// Number of the first of the entries.
    first: u64,
    entries: VecDeque<Entry>,
    /// The deliveries among them that are not settled.
    pub(crate) unconfirmed: u32,
    /// The link has little credit and gets more when some of its messages are confirmed.
    pub(crate) is_starved: bool,
    pub(crate) confirmed_count: u64,
    counters: Arc<PublishCounters>,
}

impl Progress {
    pub(crate) fn new(
        serial: u64,
        channel: u16,
        queue: Box<[u8]>,
        counters: Arc<PublishCounters>,
    ) -> Progress {
        Progress {
            serial,
            channel,
            queue,
            first: 1,
            entries: VecDeque::new(),
            unconfirmed: 0,
            is_starved: false,
            confirmed_count: 0,
            counters,
        }
    }

    /// The counts of the link.
    pub(crate) fn totals(&self) -> TrafficTotals {
        TrafficTotals { confirmed: self.confirmed_count, ..self.counters.now() }
    }

    /// The next message was published.
    pub(crate) fn published(&mut self, delivery_id: u32, told: Told) {
        self.entries.push_back(Entry { delivery_id, told, is_settled: false });
        self.unconfirmed += 1;
    }

    /// Settles publishes and appends what is said about them: a disposition for each run of neighbours with one outcome.
    pub(crate) fn settle(&mut self, range: &ConfirmRange, out: &mut Vec<u8>) {
        let mut rejected = range.rejected.iter().copied().peekable();
        let mut run: Option<(Told, u32, u32)> = None;
        for number in range.first..=range.last {
            let is_rejected = rejected.next_if_eq(&number).is_some();
            let at = usize::try_from(number.wrapping_sub(self.first)).unwrap_or(usize::MAX);
            let Some(entry) = self.entries.get_mut(at) else { continue };
            entry.is_settled = true;
            self.unconfirmed -= 1;
            let told = match entry.told {
                Told::Accepted if is_rejected => Told::Rejected,
                told => told,
            };
            self.confirmed_count += u64::from(told == Told::Accepted);
            match &mut run {
                Some((of, _, last)) if *of == told && last.wrapping_add(1) == entry.delivery_id => {
                    *last = entry.delivery_id;
                }
                _ => {
                    let next = (told, entry.delivery_id, entry.delivery_id);
                    if let Some(ended) = run.replace(next) {
                        tell(self.channel, &self.queue, ended, out);
                    }
                }
            }
        }
        if let Some(ended) = run {
            tell(self.channel, &self.queue, ended, out);
        }
        while self.entries.front().is_some_and(|entry| entry.is_settled) {
            self.entries.pop_front();
            self.first += 1;
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.queue.len()
    }
}

/// Appends a disposition, unless there is nothing to say.
fn tell(channel: u16, queue: &[u8], (told, first, last): (Told, u32, u32), out: &mut Vec<u8>) {
    let state = match told {
        Told::Nothing => return,
        Told::Accepted => DeliveryState::Accepted(Accepted {}),
        Told::Released => DeliveryState::Released(Released {}),
        Told::Rejected => return tell_rejected(channel, queue, first, last, out),
    };
    disposition(first, last, state).encode_frame(channel, out);
}

fn disposition(first: u32, last: u32, state: DeliveryState<'_>) -> Disposition<'_> {
    let last = (last != first).then_some(last);
    Disposition { role: Role::Receiver, first, last, settled: true, state: Some(state), batchable: false }
}

#[cold]
fn tell_rejected(channel: u16, queue: &[u8], first: u32, last: u32, out: &mut Vec<u8>) {
    let name = String::from_utf8_lossy(queue);
    let text = format!("queue '{name}' exceeded maximum length");
    let mut info = Vec::new();
    Writer::new(&mut info).map(|writer| {
        writer.symbol(b"queue");
        writer.string(name.as_bytes());
        writer.symbol(b"reason");
        writer.symbol(b"maxlen");
    });
    let info = match Value::parse(&info) {
        Ok((Value::Map(map), _)) if !queue.is_empty() => map,
        _ => Map::EMPTY,
    };
    let error = Error {
        condition: Symbol(conditions::RESOURCE_LIMIT_EXCEEDED.as_bytes()),
        description: (!queue.is_empty()).then_some(text.as_str()),
        info,
    };
    let state = DeliveryState::Rejected(Rejected { error: Some(error) });
    disposition(first, last, state).encode_frame(channel, out);
}

/// Says at once what becomes of one message: it was not published.
pub(crate) fn reject(channel: u16, delivery_id: u32, error: Error<'_>, out: &mut Vec<u8>) {
    let state = DeliveryState::Rejected(Rejected { error: Some(error) });
    disposition(delivery_id, delivery_id, state).encode_frame(channel, out);
}

/// A link's end of the broker's confirms.
pub(crate) struct LinkConfirms {
    pub(crate) sink: Arc<Sink>,
    /// Place among the links that send.
    pub(crate) place: usize,
    /// Of the link this was made for.
    pub(crate) serial: u64,
}

impl ConfirmSink for LinkConfirms {
    fn confirmed(&self, range: ConfirmRange) {
        let is_fed = self.sink.outbox.write(|output| {
            let (bytes, side, _) = output.parts();
            let Some(progress) = side.progress(self.place).filter(|link| link.serial == self.serial) else {
                return false;
            };
            progress.settle(&range, bytes);
            std::mem::take(&mut progress.is_starved)
        });
        if is_fed {
            self.sink.has_news.store(true, Ordering::Release);
            self.sink.outbox.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::amqp10::{Parsed, Performative, parse_frame};

    use super::*;

    fn said(mut bytes: &[u8]) -> Vec<(u32, u32, &'static str)> {
        let mut said = Vec::new();
        while let Ok(Parsed::Complete { frame, consumed }) = parse_frame(bytes, 4096) {
            let Ok((Performative::Disposition(it), _)) = Performative::decode(frame.body) else { panic!() };
            let state = match it.state {
                Some(DeliveryState::Accepted(_)) => "accepted",
                Some(DeliveryState::Released(_)) => "released",
                Some(DeliveryState::Rejected(_)) => "rejected",
                _ => "?",
            };
            said.push((it.first, it.last.unwrap_or(it.first), state));
            bytes = &bytes[consumed..];
        }
        said
    }

    fn range(first: u64, last: u64, rejected: &[u64]) -> ConfirmRange {
        ConfirmRange { first, last, rejected: rejected.to_vec() }
    }

    #[test]
    fn neighbours_with_one_outcome_are_told_together() {
        let mut progress = Progress::new(1, 0, Box::default(), Arc::default());
        for id in 100..105 {
            progress.published(id, Told::Accepted);
        }
        progress.published(105, Told::Released);
        progress.published(106, Told::Nothing);
        progress.published(107, Told::Accepted);
        let mut out = Vec::new();
        progress.settle(&range(1, 8, &[3]), &mut out);
        let expected = [
            (100, 101, "accepted"),
            (102, 102, "rejected"),
            (103, 104, "accepted"),
            (105, 105, "released"),
            (107, 107, "accepted"),
        ];
        assert_eq!(said(&out), expected);
        assert_eq!((progress.unconfirmed, progress.entries.len(), progress.first), (0, 0, 9));
    }

    #[test]
    fn groups_in_any_order_are_told_when_they_come() {
        let mut progress = Progress::new(1, 0, Box::default(), Arc::default());
        (0..6).for_each(|id| progress.published(id, Told::Accepted));
        let mut out = Vec::new();
        progress.settle(&range(4, 5, &[]), &mut out);
        assert_eq!((said(&out), progress.unconfirmed), (vec![(3, 4, "accepted")], 4));
        out.clear();
        progress.settle(&range(1, 3, &[]), &mut out);
        progress.settle(&range(6, 6, &[]), &mut out);
        assert_eq!(said(&out), [(0, 2, "accepted"), (5, 5, "accepted")]);
        assert!(progress.entries.is_empty());
    }
}
