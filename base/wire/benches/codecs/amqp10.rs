//! AMQP 1.0: a message of 12 bytes with header, properties and application properties.

use divan::{Bencher, black_box};
use wire::amqp10::{
    Header, MessageId, Parsed, Properties, SectionKind, Sections, Str, Transfer, Writer, decode_transfer,
    encode_delivery, parse_frame, split_section, write_data_head,
};

use crate::allocates_nothing;

fn encode(out: &mut Vec<u8>) {
    out.clear();
    Header { durable: Some(true), ..Header::default() }.encode(out);
    let properties = Properties {
        message_id: Some(MessageId::Ulong(7)),
        to: Some(Str(b"/queues/q")),
        ..Properties::EMPTY
    };
    properties.encode(out);
    Writer::new(out).described(SectionKind::ApplicationProperties as u64, |writer| {
        writer.map(|writer| {
            writer.string(b"key");
            writer.string(b"value");
        });
    });
    write_data_head(12, out);
    out.extend_from_slice(b"Hello world!");
}

fn message() -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

/// Reads the parts that a broker looks at when such a message is published.
fn read(message: &[u8]) -> usize {
    let sections = Sections::scan(message).expect("a message");
    let header = sections.header().expect("a header");
    let to = sections.properties().to().expect("an address");
    to.0.len() + usize::from(header.durable == Some(true)) + sections.bare_message().len()
}

/// A transfer frame with a body of 12 bytes and no other section.
fn transfer(out: &mut Vec<u8>) {
    out.clear();
    let transfer = Transfer {
        delivery_id: Some(1000),
        delivery_tag: Some(b"tag1"),
        message_format: Some(0),
        settled: Some(false),
        ..Transfer::of(0)
    };
    encode_delivery(0, &transfer, &[b"\x00\x53\x75\xA0\x0C", b"Hello world!"], 131_072, out);
}

fn read_transfer(frame: &[u8]) -> usize {
    let Ok(Parsed::Complete { frame, .. }) = parse_frame(frame, 131_072) else { panic!("a frame") };
    let (transfer, payload) = decode_transfer(frame.body).expect("a transfer");
    let sections = Sections::scan(payload).expect("a message");
    sections.single_data().expect("data").len() + transfer.handle as usize
}

/// Checks the shapes that run without allocation.
pub(crate) fn check() {
    let mut out = Vec::new();
    allocates_nothing("encoding sections", || encode(&mut out));
    let mut frame = Vec::new();
    allocates_nothing("writing a transfer", || transfer(&mut frame));
    allocates_nothing("reading a transfer", || assert_eq!(read_transfer(&frame), 12));
    let message = message();
    allocates_nothing("reading sections", || assert!(read(&message) > 0));
}

#[divan::bench]
fn sections_write(bencher: Bencher<'_, '_>) {
    let mut out = Vec::with_capacity(256);
    bencher.bench_local(|| encode(black_box(&mut out)));
}

#[divan::bench]
fn sections_scan_and_read(bencher: Bencher<'_, '_>) {
    let message = message();
    bencher.bench_local(|| read(black_box(&message)));
}

#[divan::bench]
fn sections_scan(bencher: Bencher<'_, '_>) {
    let message = message();
    bencher.bench_local(|| Sections::scan(black_box(&message)).map(|sections| sections.bare_start()));
}

#[divan::bench]
fn first_section(bencher: Bencher<'_, '_>) {
    let message = message();
    bencher.bench_local(|| split_section(black_box(&message)).map(|(section, _)| section.kind));
}

#[divan::bench]
fn transfer_write(bencher: Bencher<'_, '_>) {
    let mut out = Vec::with_capacity(256);
    bencher.bench_local(|| transfer(black_box(&mut out)));
}

#[divan::bench]
fn transfer_read(bencher: Bencher<'_, '_>) {
    let mut frame = Vec::new();
    transfer(&mut frame);
    bencher.bench_local(|| read_transfer(black_box(&frame)));
}
