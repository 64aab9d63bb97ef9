//! A consumer: walks the entries of each chunk and gives its credit back.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use wire::stream::commands::Credit;
use wire::stream::requests::Subscribe;
use wire::stream::{Chunk, Command, Entry, Message, OffsetSpec, Trailing};

use super::client::{Client, pairs};
use super::options::StreamOptions;
use crate::threads::Counts;

const SUBSCRIPTION_ID: u8 = 1;
/// Bytes of a message before its body, if that is shorter than 256 bytes, and if it is not.
const SECTION_HEAD_BYTES: [usize; 2] = [5, 8];

fn offset_of(text: &str) -> Result<OffsetSpec> {
    Ok(match text {
        "first" => OffsetSpec::First,
        "last" => OffsetSpec::Last,
        "next" => OffsetSpec::Next,
        number => OffsetSpec::Offset(number.parse().context("--offset is first, last, next or a number")?),
    })
}

/// Starts a consumer; its thread ends when the run is over.
///
/// # Errors
/// The broker refuses it.
pub(super) fn start(
    options: &StreamOptions,
    nth: usize,
    counts: &Arc<Counts>,
) -> Result<JoinHandle<Result<()>>> {
    let mut client = Client::open(&options.uris)?;
    let names: Vec<String> = (0..options.filter_values.len()).map(|nth| format!("filter.{nth}")).collect();
    let properties =
        pairs(names.iter().map(String::as_str).zip(options.filter_values.iter().map(String::as_str)));
    let subscribe = Subscribe {
        subscription_id: SUBSCRIPTION_ID,
        stream: &options.streams[nth % options.streams.len()],
        offset: offset_of(&options.offset)?,
        credit: options.initial_credits,
        properties: Trailing(properties.as_list()),
    };
    client.request(subscribe, |_| ())?;
    let counts = counts.clone();
    Ok(thread::spawn(move || read(client, &counts)))
}

fn read(mut client: Client, counts: &Counts) -> Result<()> {
    let mut out = Vec::new();
    while !counts.is_over() {
        let mut chunks = 0;
        client.read(|message| {
            if let Message::Deliver(deliver) = message
                && let Ok(chunk) = Chunk::parse(deliver.chunk)
            {
                chunks += 1;
                take(&chunk, counts);
            }
        })?;
        if chunks > 0 {
            counts.groups.fetch_add(chunks, Ordering::Relaxed);
            out.clear();
            let credit = u16::try_from(chunks).unwrap_or(u16::MAX);
            Command::from(Credit { subscription_id: SUBSCRIPTION_ID, credit }).encode(&mut out);
            client.socket.write_all(&out)?;
        }
    }
    Ok(())
}

/// Walks all messages of a chunk, as a client does that hands them out.
fn take(chunk: &Chunk<'_>, counts: &Counts) {
    let (mut messages, mut sent_ns) = (0_u64, None);
    for (_, entry) in chunk.entries() {
        match entry {
            Entry::Message(message) => {
                messages += 1;
                sent_ns = sent_ns.or_else(|| time_in(message));
            }
            Entry::SubBatch(batch) => {
                for message in batch.messages() {
                    messages += 1;
                    sent_ns = sent_ns.or_else(|| time_in(message));
                }
            }
        }
    }
    counts.consumed.fetch_add(messages, Ordering::Relaxed);
    if let Some(sent_ns) = sent_ns {
        counts.record_latency(sent_ns);
    }
}

/// The send time in a message of this generator.
fn time_in(message: &[u8]) -> Option<u64> {
    let head = SECTION_HEAD_BYTES[usize::from(message.get(3) == Some(&0xB0))];
    message.get(head..).and_then(<[u8]>::first_chunk).map(|time| u64::from_be_bytes(*time))
}
