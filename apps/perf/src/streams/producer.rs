//! A publisher: a frame of a batch is made once, and stamped and sent again and again. Confirms are read by a thread of their own.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use wire::stream::requests::DeclarePublisher;
use wire::stream::{Command, Compression, Entry, Message, PublishWriter, SubBatch};

use super::client::Client;
use super::options::StreamOptions;
use crate::io::monotonic_ns;
use crate::threads::Counts;

/// How long a publisher that may send no more waits.
const PAUSE: Duration = Duration::from_micros(50);
const PUBLISHER_ID: u8 = 1;

/// A frame that is sent again and again.
pub(super) struct Template {
    pub(super) frame: Vec<u8>,
    /// Where publishing ids stand.
    ids: Vec<usize>,
    /// Where send times stand.
    times: Vec<usize>,
}

impl Template {
    /// `entries` entries of `messages` messages of `size` bytes.
    pub(super) fn new(entries: usize, messages: u16, size: usize, filter: Option<&str>) -> Self {
        // Texts that stand nowhere else in the frame: their places are found again.
        const ID: u64 = 0xF1F2_F3F4_F5F6_F7F8;
        const TIME: [u8; 8] = [0xE1, 0xE2, 0xE3, 0xE4, 0xE5, 0xE6, 0xE7, 0xE8];
        let mut body = vec![b'x'; size];
        if let Some(start) = body.first_chunk_mut::<8>() {
            *start = TIME;
        }
        let message = message(&body);
        let mut data = Vec::new();
        (0..messages).for_each(|_| Entry::Message(&message).encode(&mut data));
        let batch = SubBatch {
            compression: Compression::NONE,
            record_count: messages,
            uncompressed_bytes: u32::try_from(data.len()).unwrap_or(u32::MAX),
            data: &data,
        };
        let entry = if messages > 1 { Entry::SubBatch(batch) } else { Entry::Message(&message) };
        let mut frame = Vec::new();
        let mut writer = match filter {
            Some(_) => PublishWriter::with_filter_values(PUBLISHER_ID, &mut frame),
            None => PublishWriter::new(PUBLISHER_ID, &mut frame),
        };
        (0..entries).for_each(|_| writer.push_filtered(ID, filter.map(str::as_bytes), &entry));
        writer.finish();
        let places = |of: [u8; 8]| {
            frame.windows(8).enumerate().filter(|(_, it)| **it == of).map(|(at, _)| at).collect()
        };
        let (ids, times) = (places(ID.to_be_bytes()), places(TIME));
        Self { frame, ids, times }
    }

    /// Gives the entries ids from `first` on, and all messages the time.
    fn stamp(&mut self, first: u64, now_ns: u64) {
        for (id, at) in (first..).zip(&self.ids) {
            self.frame[*at..*at + 8].copy_from_slice(&id.to_be_bytes());
        }
        for at in &self.times {
            self.frame[*at..*at + 8].copy_from_slice(&now_ns.to_be_bytes());
        }
    }
}

/// Sections of a message: one of data.
fn message(body: &[u8]) -> Vec<u8> {
    let mut out = vec![0x00, 0x53, 0x75];
    match u8::try_from(body.len()) {
        Ok(len) => out.extend_from_slice(&[0xA0, len]),
        Err(_) => {
            out.push(0xB0);
            out.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
    out
}

/// Starts a publisher; its two threads end when the run is over.
///
/// # Errors
/// The broker refuses it.
pub(super) fn start(
    options: &StreamOptions,
    nth: usize,
    counts: &Arc<Counts>,
) -> Result<[JoinHandle<Result<()>>; 2]> {
    let stream = &options.streams[nth % options.streams.len()];
    let mut client = Client::open(&options.uris)?;
    let name = if options.producer_names { format!("perf-{nth}") } else { String::new() };
    client.request(DeclarePublisher { publisher_id: PUBLISHER_ID, reference: &name, stream }, |_| ())?;
    let socket = client.socket.try_clone()?;
    let answered = Arc::new(AtomicU64::new(0));
    let (of_sender, of_reader) = (answered.clone(), answered);
    let (options, sender_counts, reader_counts) = (options.clone(), counts.clone(), counts.clone());
    let per_entry = u64::from(options.sub_entry_size);
    Ok([
        thread::spawn(move || send(socket, &options, &of_sender, &sender_counts)),
        thread::spawn(move || read(client, &of_reader, &reader_counts, per_entry)),
    ])
}

fn send(mut socket: TcpStream, options: &StreamOptions, answered: &AtomicU64, counts: &Counts) -> Result<()> {
    let entries = options.batch_size;
    let mut template =
        Template::new(entries, options.sub_entry_size, options.size, options.filter_value.as_deref());
    let messages = entries as u64 * u64::from(options.sub_entry_size);
    let (begin, mut sent, mut next_id) = (monotonic_ns(), 0_u64, 1_u64);
    while !counts.is_over() {
        if next_id - 1 + entries as u64 > answered.load(Ordering::Acquire) + options.confirms {
            thread::sleep(PAUSE);
            continue;
        }
        let due = (sent * 1_000_000_000).checked_div(options.rate).map_or(0, |after_ns| begin + after_ns);
        let wait_ns = due.saturating_sub(monotonic_ns());
        if wait_ns > 0 {
            thread::sleep(Duration::from_nanos(wait_ns.min(100_000_000)));
            continue;
        }
        template.stamp(next_id, monotonic_ns());
        socket.write_all(&template.frame)?;
        next_id += entries as u64;
        sent += messages;
        counts.published.fetch_add(messages, Ordering::Relaxed);
    }
    Ok(())
}

fn read(mut client: Client, answered: &AtomicU64, counts: &Counts, per_entry: u64) -> Result<()> {
    while !counts.is_over() {
        client.read(|message| match message {
            Message::Command(Command::PublishConfirm(confirm)) => {
                let count = u64::from(confirm.publishing_ids.len());
                counts.confirmed.fetch_add(count * per_entry, Ordering::Relaxed);
                answered.fetch_add(count, Ordering::Release);
            }
            Message::Command(Command::PublishError(error)) => {
                let count = u64::from(error.errors.len());
                counts.refused.fetch_add(count * per_entry, Ordering::Relaxed);
                answered.fetch_add(count, Ordering::Release);
            }
            _ => {}
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::stream::{Parsed, parse_frame};

    #[test]
    fn a_frame_is_stamped_in_all_its_places() {
        for (messages, filter) in [(1, None), (1, Some("f")), (10, None)] {
            let mut template = Template::new(7, messages, 20, filter);
            assert_eq!((template.ids.len(), template.times.len()), (7, 7 * usize::from(messages)));
            template.stamp(5, 99);
            let Ok(Parsed::Complete { frame, .. }) = parse_frame(&template.frame, 1 << 20) else { panic!() };
            let Ok(Message::Publish(publish)) = Message::decode(&frame) else { panic!() };
            let ids: Vec<u64> = publish.entries().map(|entry| entry.publishing_id).collect();
            assert_eq!(ids, (5..12).collect::<Vec<_>>());
            assert!(publish.entries().all(|entry| entry.entry.record_count() == messages));
        }
    }
}
