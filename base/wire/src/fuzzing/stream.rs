//! RabbitMQ's stream protocol.

use crate::stream::{
    Chunk, ChunkHeader, Entry, Message, Parsed, Publish, PublishWriter, parse_frame, write_chunk,
};

const FRAME_MAX: usize = 1_048_576;

/// A read buffer of frames, as a connection sees it.
pub fn stream_frame(data: &[u8]) {
    let mut rest = data;
    loop {
        match parse_frame(rest, FRAME_MAX) {
            Ok(Parsed::Complete { frame, consumed }) => {
                if let Ok(message) = Message::decode(&frame) {
                    round_trip(&message);
                }
                rest = &rest[consumed..];
            }
            Ok(Parsed::Incomplete { needed }) => {
                assert!(rest.len() < needed && needed <= FRAME_MAX + 4);
                return;
            }
            Err(_) => return,
        }
    }
}

fn round_trip(message: &Message<'_>) {
    let mut written = Vec::new();
    message.encode(&mut written);
    let Ok(Parsed::Complete { frame, consumed }) = parse_frame(&written, usize::MAX) else {
        panic!("an encoded message is no frame");
    };
    assert_eq!((consumed, Message::decode(&frame)), (written.len(), Ok(*message)));
    match message {
        Message::Publish(publish) => publish_again(publish, &written),
        Message::Deliver(deliver) => stream_chunk(deliver.chunk),
        _ => {}
    }
}

fn publish_again(publish: &Publish<'_>, frame: &[u8]) {
    assert_eq!(publish.entries().count(), publish.len() as usize);
    let mut again = Vec::new();
    let mut writer = if publish.version() == 1 {
        PublishWriter::new(publish.publisher_id, &mut again)
    } else {
        PublishWriter::with_filter_values(publish.publisher_id, &mut again)
    };
    for entry in publish.entries() {
        writer.push_filtered(entry.publishing_id, entry.filter_value, &entry.entry);
        if let Entry::SubBatch(batch) = entry.entry {
            let _ = (batch.check(u32::MAX), batch.messages().count());
        }
    }
    writer.finish();
    // Reserved bits of a sub-batch are not written again.
    assert_eq!(again.len(), frame.len());
}

/// A chunk, as consumers get it.
pub fn stream_chunk(data: &[u8]) {
    let Ok(chunk) = Chunk::parse(data) else { return };
    assert_eq!(ChunkHeader::decode(&chunk.header.encode()), Ok(chunk.header));
    let count = chunk.entries().count();
    assert!(count <= usize::from(chunk.header.entry_count));
    let _ = chunk.check_crc();
    if chunk.check_entries().is_err() {
        return;
    }
    assert_eq!(count, usize::from(chunk.header.entry_count));
    let mut again = Vec::new();
    let entries = chunk.entries().map(|(_, entry)| entry);
    assert_eq!(write_chunk(&chunk.header, usize::MAX, entries, &mut again), chunk.header.entry_count);
    let again = Chunk::parse(&again).expect("what is written can be read");
    assert_eq!((again.check_crc(), again.check_entries()), (Ok(()), Ok(())));
    assert_eq!((again.header.record_count, again.data.len()), (chunk.header.record_count, chunk.data.len()));
}
