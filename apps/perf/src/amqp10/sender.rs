//! A sender: frames of a batch are made once, and stamped and sent again and again, as far as credit and window go.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use wire::amqp10::{DeliveryState, Header, Performative, Role, Transfer, encode_delivery, write_data_head};

use super::client::{CHANNEL, Client, Incoming, Wish};
use super::options::Amqp10Options;
use crate::io::monotonic_ns;
use crate::threads::Counts;

const HANDLE: u32 = 0;

/// Frames that are sent again and again; all messages have as many bytes.
struct Template {
    frames: Vec<u8>,
    message_bytes: usize,
    /// Transfer frames of a message.
    message_frames: u32,
    /// Where delivery ids and tags stand in a message.
    ids: Vec<usize>,
    /// Where its send time stands.
    time: Option<usize>,
}

impl Template {
    fn new(options: &Amqp10Options, frame_bytes_max: usize) -> Self {
        // Texts that stand nowhere else in the frames: their places are found again.
        const ID: [u8; 4] = [0xF1, 0xF2, 0xF3, 0xF4];
        const TIME: [u8; 8] = [0xE1, 0xE2, 0xE3, 0xE4, 0xE5, 0xE6, 0xE7, 0xE8];
        let mut body = vec![b'x'; options.size];
        if let Some(start) = body.first_chunk_mut::<8>() {
            *start = TIME;
        }
        let mut head = Vec::new();
        if options.durable {
            Header { durable: Some(true), ..Header::default() }.encode(&mut head);
        }
        write_data_head(body.len(), &mut head);
        let transfer = Transfer {
            delivery_id: Some(u32::from_be_bytes(ID)),
            delivery_tag: Some(&ID),
            message_format: Some(0),
            settled: Some(options.confirm == 0),
            ..Transfer::of(HANDLE)
        };
        let mut one = Vec::new();
        let message_frames = encode_delivery(CHANNEL, &transfer, &[&head, &body], frame_bytes_max, &mut one);
        let ids = one.windows(4).enumerate().filter(|(_, it)| **it == ID).map(|(at, _)| at).collect();
        let time = one.windows(8).position(|it| it == TIME);
        let frames = one.repeat(options.batch_size as usize);
        Self { frames, message_bytes: one.len(), message_frames, ids, time }
    }

    /// `count` messages with delivery ids from `first` on, sent now.
    fn stamped(&mut self, first: u32, count: u32, now_ns: u64) -> &[u8] {
        let bytes = count as usize * self.message_bytes;
        for (message, nth) in self.frames[..bytes].chunks_exact_mut(self.message_bytes).zip(0..) {
            for at in &self.ids {
                message[*at..*at + 4].copy_from_slice(&first.wrapping_add(nth).to_be_bytes());
            }
            if let Some(at) = self.time {
                message[at..at + 8].copy_from_slice(&now_ns.to_be_bytes());
            }
        }
        &self.frames[..bytes]
    }
}

/// Starts a sender; its thread ends when the run is over.
///
/// # Errors
/// The broker refuses it.
pub(super) fn start(
    options: &Amqp10Options,
    nth: usize,
    counts: &Arc<Counts>,
) -> Result<JoinHandle<Result<()>>> {
    let mut client = Client::open(&options.uri)?;
    let (name, address) = (format!("sender-{nth}"), options.address(nth));
    let settled = options.confirm == 0;
    let wish = Wish {
        name: &name,
        handle: HANDLE,
        role: Role::Sender,
        address: &address,
        settled,
        is_management: false,
    };
    let remote_handle = client.attach(&wish)?;
    let template = Template::new(options, client.frame_bytes_max);
    let limits = Limits { credit_end: 0, window_end: client.window, remote_handle, is_asked: false };
    let sender = Sender { client, template, limits, sent: 0, answered: 0 };
    let (options, counts) = (options.clone(), counts.clone());
    Ok(thread::spawn(move || sender.run(&options, &counts)))
}

/// The limits that the broker sets.
struct Limits {
    /// Delivery count where the link's credit ends.
    credit_end: u32,
    /// Transfer id where the session's window ends.
    window_end: u32,
    remote_handle: u32,
    /// It wants to hear of the session.
    is_asked: bool,
}

struct Sender {
    client: Client,
    template: Template,
    limits: Limits,
    /// Messages; wraps.
    sent: u32,
    /// Messages of which the broker has told the outcome; wraps.
    answered: u32,
}

impl Sender {
    fn run(mut self, options: &Amqp10Options, counts: &Counts) -> Result<()> {
        let (begin, mut total) = (monotonic_ns(), 0_u64);
        while !counts.is_over() {
            let count = self.allowed(options.confirm).min(options.batch_size);
            if count == 0 {
                self.read(counts)?;
                continue;
            }
            let due =
                (total * 1_000_000_000).checked_div(options.rate).map_or(0, |after_ns| begin + after_ns);
            let wait_ns = due.saturating_sub(monotonic_ns());
            if wait_ns > 0 {
                thread::sleep(Duration::from_nanos(wait_ns.min(100_000_000)));
                continue;
            }
            self.client.write(self.template.stamped(self.sent, count, monotonic_ns()))?;
            self.sent = self.sent.wrapping_add(count);
            total += u64::from(count);
            counts.published.fetch_add(count.into(), Ordering::Relaxed);
            if options.confirm == 0 {
                self.answered = self.sent;
            }
        }
        Ok(())
    }

    /// Messages that may be sent now.
    fn allowed(&self, unsettled_max: u32) -> u32 {
        let sent_frames = self.sent.wrapping_mul(self.template.message_frames);
        let window = ahead(self.limits.window_end, sent_frames) / self.template.message_frames;
        let credit = ahead(self.limits.credit_end, self.sent);
        let unsettled = self.sent.wrapping_sub(self.answered);
        let confirms = if unsettled_max == 0 { u32::MAX } else { unsettled_max.saturating_sub(unsettled) };
        window.min(credit).min(confirms)
    }

    /// Reads what the broker says of credit, windows and outcomes.
    fn read(&mut self, counts: &Counts) -> Result<()> {
        let Self { client, limits, answered, .. } = self;
        client.read(|incoming| match incoming {
            Incoming::Other(Performative::Flow(flow)) => {
                limits.window_end = flow.next_incoming_id.unwrap_or(0).wrapping_add(flow.incoming_window);
                if flow.handle == Some(limits.remote_handle)
                    && let Some(credit) = flow.link_credit
                {
                    limits.credit_end = flow.delivery_count.unwrap_or(0).wrapping_add(credit);
                }
                limits.is_asked |= flow.echo;
            }
            Incoming::Other(Performative::Disposition(disposition)) if disposition.role == Role::Receiver => {
                let last = disposition.last.unwrap_or(disposition.first);
                let count = last.wrapping_sub(disposition.first).wrapping_add(1);
                *answered = answered.wrapping_add(count);
                let is_accepted = matches!(disposition.state, Some(DeliveryState::Accepted(_)));
                let counter = if is_accepted { &counts.confirmed } else { &counts.refused };
                counter.fetch_add(count.into(), Ordering::Relaxed);
            }
            _ => {}
        })?;
        if std::mem::take(&mut self.limits.is_asked) {
            let sent_frames = self.sent.wrapping_mul(self.template.message_frames);
            let flow = self.client.flow(sent_frames);
            self.client.send(|out| flow.encode_frame(CHANNEL, out))?;
        }
        Ok(())
    }
}

/// How far `end` is ahead of `now`, both of which wrap; 0 if it is behind.
fn ahead(end: u32, now: u32) -> u32 {
    u32::try_from(end.wrapping_sub(now).cast_signed()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use wire::amqp10::{Parsed, decode_transfer, parse_frame};

    #[test]
    fn messages_are_stamped_in_all_their_places() {
        for (size, words) in [(12, ""), (3, "--durable"), (2000, "-c 0")] {
            let words = format!("perf -b 7 -s {size} {words}");
            let options = Amqp10Options::parse_from(words.split_whitespace());
            let mut template = Template::new(&options, 512);
            let (mut bytes, mut ids) = (template.stamped(5, 3, 99), Vec::new());
            while let Ok(Parsed::Complete { frame, consumed }) = parse_frame(bytes, 512) {
                let (transfer, _) = decode_transfer(frame.body).unwrap();
                ids.extend(transfer.delivery_id);
                bytes = &bytes[consumed..];
            }
            assert_eq!((ids, bytes.len()), (vec![5, 6, 7], 0), "{size}");
            assert_eq!(template.time.is_some(), size >= 8);
            assert_eq!(template.message_frames > 1, size > 512);
        }
    }

    #[test]
    fn limits_may_wrap_and_may_be_behind() {
        assert_eq!((ahead(5, 2), ahead(2, 5), ahead(3, u32::MAX)), (3, 0, 4));
    }
}
