//! RabbitMQ's stream protocol: publish frames of 100 messages of 12 bytes, and what follows from them.

use divan::{Bencher, black_box};
use wire::stream::{
    Chunk, ChunkHeader, Entry, Message, Parsed, PublishWriter, parse_frame, write_chunk,
    write_publish_confirm,
};

use crate::allocates_nothing;

fn write(out: &mut Vec<u8>) {
    out.clear();
    let mut writer = PublishWriter::new(1, out);
    for publishing_id in 0..100 {
        writer.push(publishing_id, &Entry::Message(b"Hello world!"));
    }
    writer.finish();
}

/// Frame, then all entries twice: their lengths are checked, then they are gone through.
fn read(frame: &[u8]) -> usize {
    let Ok(Parsed::Complete { frame, .. }) = parse_frame(frame, 1_048_576) else { panic!("a frame") };
    let Ok(Message::Publish(publish)) = Message::decode(&frame) else { panic!("a publish") };
    publish.entries().map(|entry| entry.raw.len()).sum()
}

fn chunk(out: &mut Vec<u8>) {
    out.clear();
    let entries = (0..100).map(|_| Entry::Message(b"Hello world!"));
    write_chunk(&ChunkHeader::default(), usize::MAX, entries, out);
}

fn consume(chunk: &[u8]) -> usize {
    let chunk = Chunk::parse(chunk).expect("a chunk");
    chunk.entries().map(|(_, entry)| entry.encoded_bytes()).sum()
}

fn made(write: fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// Checks the shapes that run without allocation.
pub(crate) fn check() {
    let (mut out, frame, stored) = (Vec::new(), made(write), made(chunk));
    allocates_nothing("writing a publish", || write(&mut out));
    allocates_nothing("reading a publish", || assert_eq!(read(&frame), 1600));
    allocates_nothing("writing a chunk", || chunk(&mut out));
    allocates_nothing("reading a chunk", || assert_eq!(consume(&stored), 1600));
    let mut out = Vec::new();
    allocates_nothing("writing a confirm", || {
        out.clear();
        write_publish_confirm(1, 0..100, &mut out);
    });
}

#[divan::bench]
fn publish_100_write(bencher: Bencher<'_, '_>) {
    let mut out = made(write);
    bencher.bench_local(|| write(black_box(&mut out)));
}

#[divan::bench]
fn publish_100_read(bencher: Bencher<'_, '_>) {
    let frame = made(write);
    bencher.bench_local(|| read(black_box(&frame)));
}

#[divan::bench]
fn confirm_100_write(bencher: Bencher<'_, '_>) {
    let mut out = Vec::with_capacity(1024);
    bencher.bench_local(|| {
        out.clear();
        write_publish_confirm(1, black_box(0..100), &mut out);
    });
}

#[divan::bench]
fn chunk_100_write(bencher: Bencher<'_, '_>) {
    let mut out = made(chunk);
    bencher.bench_local(|| chunk(black_box(&mut out)));
}

#[divan::bench]
fn chunk_100_read(bencher: Bencher<'_, '_>) {
    let stored = made(chunk);
    bencher.bench_local(|| consume(black_box(&stored)));
}
