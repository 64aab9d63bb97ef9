//! A receiver: accepts ranges of messages, and renews its credit at half.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use anyhow::Result;
use wire::amqp10::{
    Accepted, DeliveryState, Disposition, Performative, Role, SectionCursor, SectionKind, Transfer,
};

use super::client::{CHANNEL, Client, Incoming, Wish};
use super::options::Amqp10Options;
use crate::io::monotonic_ns;
use crate::threads::Counts;

const HANDLE: u32 = 0;

/// Starts a receiver; its thread ends when the run is over.
///
/// # Errors
/// The broker refuses it.
pub(super) fn start(
    options: &Amqp10Options,
    nth: usize,
    counts: &Arc<Counts>,
) -> Result<JoinHandle<Result<()>>> {
    let mut client = Client::open(&options.uri)?;
    let (name, address) = (format!("receiver-{nth}"), options.address(nth));
    let settled = options.multi_ack_every == 0;
    let wish = Wish {
        name: &name,
        handle: HANDLE,
        role: Role::Receiver,
        address: &address,
        settled,
        is_management: false,
    };
    client.attach(&wish)?;
    let (options, counts) = (options.clone(), counts.clone());
    Ok(thread::spawn(move || receive(client, &options, &counts)))
}

/// Messages that have come and are not told yet.
#[derive(Default)]
struct Arrived {
    /// First and last delivery id that are not settled.
    unsettled: Option<(u32, u32)>,
    /// Messages since the start; wraps.
    messages: u32,
    /// Messages of this read.
    read: u32,
    sent_ns: Option<u64>,
    is_asked: bool,
}

fn receive(mut client: Client, options: &Amqp10Options, counts: &Counts) -> Result<()> {
    let (mut arrived, mut out, mut granted_at) = (Arrived::default(), Vec::new(), None);
    // A credit below the range would wait for itself.
    let every = options.multi_ack_every.min(options.credit);
    while !counts.is_over() {
        let used = granted_at.map(|at: u32| arrived.messages.wrapping_sub(at));
        if used.is_none_or(|used| used >= options.credit.div_ceil(2)) || arrived.is_asked {
            let mut flow = client.flow(0);
            flow.handle = Some(HANDLE);
            flow.delivery_count = Some(arrived.messages);
            flow.link_credit = Some(options.credit);
            flow.encode_frame(CHANNEL, &mut out);
            (granted_at, arrived.is_asked) = (Some(arrived.messages), false);
        }
        if !out.is_empty() {
            client.write(&out)?;
            out.clear();
        }
        arrived.read = 0;
        client.read(|incoming| match incoming {
            Incoming::Transfer(transfer, payload) => {
                if arrived.take(transfer, payload) >= every.max(1) {
                    arrived.accept(counts, &mut out);
                }
            }
            Incoming::Other(Performative::Flow(flow)) => arrived.is_asked |= flow.echo,
            Incoming::Other(_) => {}
        })?;
        if arrived.read == 0 {
            // Nothing more comes for a while: the rest is accepted, too.
            arrived.accept(counts, &mut out);
        }
        counts.consumed.fetch_add(arrived.read.into(), Ordering::Relaxed);
        if let Some(sent_ns) = arrived.sent_ns.take() {
            counts.record_latency(sent_ns);
        }
    }
    Ok(())
}

impl Arrived {
    /// A transfer. Gives how many messages are not settled.
    fn take(&mut self, transfer: &Transfer<'_>, payload: &[u8]) -> u32 {
        if let Some(id) = transfer.delivery_id
            && transfer.settled != Some(true)
        {
            let first = self.unsettled.map_or(id, |(first, _)| first);
            self.unsettled = Some((first, id));
        }
        if self.read == 0 && self.sent_ns.is_none() {
            self.sent_ns = time_in(payload);
        }
        if transfer.more {
            return 0;
        }
        self.read += 1;
        self.messages = self.messages.wrapping_add(1);
        self.unsettled.map_or(0, |(first, last)| last.wrapping_sub(first).wrapping_add(1))
    }

    /// Accepts what is not settled.
    fn accept(&mut self, counts: &Counts, out: &mut Vec<u8>) {
        let Some((first, last)) = self.unsettled.take() else { return };
        let disposition = Disposition {
            role: Role::Receiver,
            first,
            last: Some(last),
            settled: true,
            state: Some(DeliveryState::Accepted(Accepted {})),
            batchable: false,
        };
        disposition.encode_frame(CHANNEL, out);
        counts.groups.fetch_add(1, Ordering::Relaxed);
    }
}

/// The send time in a message of this generator.
fn time_in(message: &[u8]) -> Option<u64> {
    for section in SectionCursor::new(message) {
        // The last section of a part is cut short.
        let section = section.ok()?;
        if section.kind == SectionKind::Data {
            let head = if section.value.first() == Some(&0xA0) { 2 } else { 5 };
            let sent_ns = section.value.get(head..)?.first_chunk().map(|time| u64::from_be_bytes(*time))?;
            return (sent_ns <= monotonic_ns()).then_some(sent_ns);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::amqp10::{Header, write_data_head};

    #[test]
    fn the_time_stands_in_the_data_section_behind_others() {
        for size in [8_usize, 300] {
            let mut message = Vec::new();
            Header { durable: Some(true), ..Header::default() }.encode(&mut message);
            write_data_head(size, &mut message);
            message.extend_from_slice(&77_u64.to_be_bytes());
            message.resize(message.len() + size - 8, 0);
            assert_eq!(time_in(&message), Some(77));
        }
        assert_eq!(time_in(b"\x00\x53\x75\xA0\x03abc"), None);
    }

    #[test]
    fn ranges_hold_what_is_not_settled() {
        let (mut arrived, mut out, counts) = (Arrived::default(), Vec::new(), Counts::new());
        for id in 5..8 {
            arrived.take(&Transfer { delivery_id: Some(id), ..Transfer::of(0) }, b"");
        }
        arrived.accept(&counts, &mut out);
        let (said, _) = Performative::decode(&out[8..]).unwrap();
        let Performative::Disposition(range) = said else { panic!("{said:?}") };
        assert_eq!((range.first, range.last), (5, Some(7)));
        arrived.take(&Transfer { delivery_id: Some(8), settled: Some(true), ..Transfer::of(0) }, b"");
        assert_eq!(arrived.unsettled, None);
    }
}
