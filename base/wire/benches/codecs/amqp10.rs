//! AMQP 1.0: a message of 12 bytes with header, properties and application properties.

use divan::{Bencher, black_box};
use wire::amqp10::{
    Header, MessageId, Properties, SectionKind, Sections, Str, Writer, split_section, write_data_head,
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

/// What a broker looks at when such a message is published.
fn read(message: &[u8]) -> usize {
    let sections = Sections::scan(message).expect("a message");
    let header = sections.header().expect("a header");
    let to = sections.properties().to().expect("an address");
    to.0.len() + usize::from(header.durable == Some(true)) + sections.bare_message().len()
}

/// What runs without allocation.
pub(crate) fn check() {
    let mut out = Vec::new();
    allocates_nothing("encoding sections", || encode(&mut out));
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
