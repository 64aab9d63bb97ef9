//! Every command through encode and decode, golden bytes for some, and what malformed ones do.

use proptest::prelude::*;

use super::super::samples::Samples;
use super::super::{
    Chunk, ChunkError, ChunkHeader, Compression, Entry, ListBuf, OffsetSpec, Parsed, PublishWriter,
    ResponseCode, SubBatch, SubBatchError, Trailing, parse_frame, write_chunk, write_publish_confirm,
};
use super::*;

/// The frame that is all of `bytes`.
fn frame(bytes: &[u8]) -> Frame<'_> {
    match parse_frame(bytes, usize::MAX) {
        Ok(Parsed::Complete { frame, consumed }) if consumed == bytes.len() => frame,
        other => panic!("not one frame: {other:?}"),
    }
}

fn encoded(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

/// Bytes and message are each other's encoding.
fn same(bytes: &[u8], message: &Message<'_>) {
    assert_eq!(encoded(message).escape_ascii().to_string(), bytes.escape_ascii().to_string());
    assert_eq!(Message::decode(&frame(bytes)).as_ref(), Ok(message));
}

#[test]
fn golden_requests() {
    let request = requests::DeclarePublisher { publisher_id: 1, reference: "ref", stream: "s" };
    let message = Message::Request { correlation_id: 2, request: request.into() };
    same(b"\0\0\0\x11\0\x01\0\x01\0\0\0\x02\x01\0\x03ref\0\x01s", &message);

    let mut properties = ListBuf::new();
    properties.push(&("name", "g"));
    let request = requests::Subscribe {
        subscription_id: 3,
        stream: "s",
        offset: OffsetSpec::Offset(5),
        credit: 10,
        properties: Trailing(properties.as_list()),
    };
    let message = Message::Request { correlation_id: 2, request: request.into() };
    let bytes = b"\0\0\0\x25\0\x07\0\x01\0\0\0\x02\x03\0\x01s\0\x04\0\0\0\0\0\0\0\x05\0\x0A\
        \0\0\0\x01\0\x04name\0\x01g";
    same(bytes, &message);

    let request = requests::Subscribe {
        subscription_id: 3,
        stream: "s",
        offset: OffsetSpec::First,
        credit: 1,
        properties: Trailing::default(),
    };
    let message = Message::Request { correlation_id: 2, request: request.into() };
    same(b"\0\0\0\x10\0\x07\0\x01\0\0\0\x02\x03\0\x01s\0\x01\0\x01", &message);

    let request = requests::SaslAuthenticate { mechanism: "PLAIN", response: Some(b"\0guest\0guest") };
    let message = Message::Request { correlation_id: 4, request: request.into() };
    same(b"\0\0\0\x1F\0\x13\0\x01\0\0\0\x04\0\x05PLAIN\0\0\0\x0C\0guest\0guest", &message);
    let request = requests::SaslAuthenticate { mechanism: "EXTERNAL", response: None };
    let message = Message::Request { correlation_id: 4, request: request.into() };
    same(b"\0\0\0\x16\0\x13\0\x01\0\0\0\x04\0\x08EXTERNAL\xFF\xFF\xFF\xFF", &message);

    let request = requests::Close { code: ResponseCode::OK, reason: "bye" };
    let message = Message::Request { correlation_id: 1, request: request.into() };
    same(b"\0\0\0\x0F\0\x16\0\x01\0\0\0\x01\0\x01\0\x03bye", &message);

    let request = requests::ConsumerUpdate { subscription_id: 9, active: true };
    same(
        b"\0\0\0\x0A\0\x1A\0\x01\0\0\0\x07\x09\x01",
        &Message::Request { correlation_id: 7, request: request.into() },
    );
    let malformed = MessageError::Malformed { key: 0x1A, version: 1 };
    assert_eq!(Message::decode(&frame(b"\0\0\0\x0A\0\x1A\0\x01\0\0\0\x07\x09\x02")), Err(malformed));
}

#[test]
fn golden_responses() {
    let response = responses::QueryOffset { code: ResponseCode::NO_OFFSET, offset: 0 };
    let message = Message::Response { correlation_id: 3, response: response.into() };
    same(b"\0\0\0\x12\x80\x0B\0\x01\0\0\0\x03\0\x13\0\0\0\0\0\0\0\0", &message);

    let response = responses::Open { code: ResponseCode::VIRTUAL_HOST_ACCESS_FAILURE, ..Default::default() };
    let message = Message::Response { correlation_id: 3, response: response.into() };
    same(b"\0\0\0\x0A\x80\x15\0\x01\0\0\0\x03\0\x0C", &message);

    let brokers = ListBuf::of([super::super::Broker { reference: 0, host: "h", port: 5552 }]);
    let replicas = ListBuf::of([0_u16, 1]);
    let streams = ListBuf::of([super::super::StreamMetadata {
        stream: "s",
        code: ResponseCode::OK,
        leader: 0,
        replicas: replicas.as_list(),
    }]);
    let response = responses::Metadata { brokers: brokers.as_list(), streams: streams.as_list() };
    let message = Message::Response { correlation_id: 5, response: response.into() };
    let bytes = b"\0\0\0\x28\x80\x0F\0\x01\0\0\0\x05\0\0\0\x01\0\0\0\x01h\0\0\x15\xB0\
        \0\0\0\x01\0\x01s\0\x01\0\0\0\0\0\x02\0\0\0\x01";
    same(bytes, &message);

    let response = responses::ConsumerUpdate { code: ResponseCode::OK, offset: OffsetSpec::Timestamp(-1) };
    let message = Message::Response { correlation_id: 1, response: response.into() };
    same(b"\0\0\0\x14\x80\x1A\0\x01\0\0\0\x01\0\x01\0\x05\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", &message);
}

#[test]
fn golden_commands() {
    let tune = commands::Tune { frame_max: 1_048_576, heartbeat: 60 };
    same(b"\0\0\0\x0C\0\x14\0\x01\0\x10\0\0\0\0\0\x3C", &Message::Command(tune.into()));
    same(b"\0\0\0\x0C\x80\x14\0\x01\0\x10\0\0\0\0\0\x3C", &Message::TuneResponse(tune));
    same(b"\0\0\0\x04\0\x17\0\x01", &Message::Command(commands::Heartbeat {}.into()));
    let credit = commands::Credit { subscription_id: 1, credit: 2 };
    same(b"\0\0\0\x07\0\x09\0\x01\x01\0\x02", &Message::Command(credit.into()));
    let error =
        commands::CreditError { code: ResponseCode::SUBSCRIPTION_ID_DOES_NOT_EXIST, subscription_id: 1 };
    same(b"\0\0\0\x07\x80\x09\0\x01\0\x04\x01", &Message::CreditError(error));
    let update = commands::MetadataUpdate { code: ResponseCode::STREAM_NOT_AVAILABLE, stream: "s" };
    same(b"\0\0\0\x09\0\x10\0\x01\0\x06\0\x01s", &Message::Command(update.into()));
    let mut confirm = Vec::new();
    write_publish_confirm(7, 1..=2, &mut confirm);
    let ids = ListBuf::of([1_u64, 2]);
    let command = commands::PublishConfirm { publisher_id: 7, publishing_ids: ids.as_list() };
    same(&confirm, &Message::Command(command.into()));
    assert_eq!(confirm, b"\0\0\0\x19\0\x03\0\x01\x07\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02");
}

#[test]
fn a_response_may_end_behind_its_code() {
    let decoded = Message::decode(&frame(b"\0\0\0\x0A\x80\x11\0\x01\0\0\0\x03\0\x0F"));
    let response = responses::PeerProperties { code: ResponseCode::INTERNAL_ERROR, ..Default::default() };
    assert_eq!(decoded, Ok(Message::Response { correlation_id: 3, response: response.into() }));
}

#[test]
fn publishes_of_both_versions_are_read_as_they_are_written() {
    let mut bytes = Vec::new();
    let mut writer = PublishWriter::new(4, &mut bytes);
    writer.push(1, &Entry::Message(b"one"));
    let batch = SubBatch {
        compression: Compression::NONE,
        record_count: 2,
        uncompressed_bytes: 10,
        data: b"\0\0\0\x01a\0\0\0\x01b",
    };
    writer.push(2, &Entry::SubBatch(batch));
    writer.finish();
    let golden = b"\0\0\0\x35\0\x02\0\x01\x04\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\x03one\
        \0\0\0\0\0\0\0\x02\x80\0\x02\0\0\0\x0A\0\0\0\x0A\0\0\0\x01a\0\0\0\x01b";
    assert_eq!(bytes.escape_ascii().to_string(), golden.escape_ascii().to_string());
    let Ok(Message::Publish(publish)) = Message::decode(&frame(&bytes)) else { panic!("a publish") };
    let entries: Vec<_> = publish.entries().collect();
    assert_eq!((publish.len(), publish.publisher_id, publish.version()), (2, 4, 1));
    assert_eq!((entries[0].publishing_id, entries[0].raw), (1, &b"\0\0\0\x03one"[..]));
    assert_eq!(entries[1].entry, Entry::SubBatch(batch));
    assert_eq!(batch.check(1 << 26), Ok(()));
    assert_eq!(batch.messages().collect::<Vec<_>>(), [b"a", b"b"]);
    assert_eq!(encoded(&Message::Publish(publish)), bytes);

    let mut bytes = Vec::new();
    let mut writer = PublishWriter::with_filter_values(4, &mut bytes);
    writer.push_filtered(1, Some(b"eu"), &Entry::Message(b"one"));
    writer.push(2, &Entry::Message(b""));
    assert_eq!(writer.bytes(), 46);
    writer.finish();
    let golden = b"\0\0\0\x2A\0\x02\0\x02\x04\0\0\0\x02\0\0\0\0\0\0\0\x01\0\x02eu\0\0\0\x03one\
        \0\0\0\0\0\0\0\x02\xFF\xFF\0\0\0\0";
    assert_eq!(bytes.escape_ascii().to_string(), golden.escape_ascii().to_string());
    let Ok(Message::Publish(publish)) = Message::decode(&frame(&bytes)) else { panic!("a publish") };
    let filters: Vec<_> = publish.entries().map(|entry| entry.filter_value).collect();
    assert_eq!(filters, [Some(&b"eu"[..]), None]);
}

#[test]
fn publishes_whose_lengths_lie_are_malformed() {
    let malformed = |version| Err(MessageError::Malformed { key: 2, version });
    let frame = |version, body: &'static [u8]| Frame { key: 2, is_response: false, version, body };
    let decode = |version, body| Message::decode(&frame(version, body));
    assert_eq!(decode(1, b"\x01\xFF\xFF\xFF\xFF"), malformed(1));
    assert_eq!(decode(1, b"\x01\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x03on"), malformed(1));
    assert_eq!(decode(1, b"\x01\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x01oX"), malformed(1), "a byte too many");
    assert_eq!(decode(1, b"\x01\0\0\0\0\0"), malformed(1));
    let batch = b"\x01\0\0\0\x01\0\0\0\0\0\0\0\x01\xFF\xFF\x80\0\x01\0\0\0\x04\0\0\0\0";
    assert_eq!(decode(2, batch), malformed(2), "version 2 has no sub-batches");
    assert_eq!(decode(3, b""), Err(MessageError::Unknown { key: 2, version: 3 }));
}

#[test]
fn sub_batches_that_nobody_could_read_are_told() {
    let good =
        SubBatch { compression: Compression::ZSTD, record_count: 2, uncompressed_bytes: 8, data: b"x" };
    assert_eq!(good.check(8), Ok(()));
    assert_eq!(good.messages().count(), 0, "compressed ones are not taken apart");
    assert_eq!(good.check(7), Err(SubBatchError::TooLarge { bytes: 8, max: 7 }));
    assert_eq!(SubBatch { record_count: 0, ..good }.check(8), Err(SubBatchError::Empty));
    let error = SubBatchError::TooManyRecords { records: 3, bytes: 8 };
    assert_eq!(SubBatch { record_count: 3, ..good }.check(8), Err(error));
    let error = SubBatchError::UnknownCompression { bits: 5 };
    assert_eq!(SubBatch { compression: Compression::of_bits(5), ..good }.check(8), Err(error));
    assert_eq!(SubBatch { data: b"", ..good }.check(8), Err(SubBatchError::NoData));
}

#[test]
fn a_chunk_has_the_layout_of_osiris() {
    let mut bytes = Vec::new();
    let header = ChunkHeader { timestamp: 0x0102, epoch: 3, chunk_id: 100, ..ChunkHeader::default() };
    let batch =
        SubBatch { compression: Compression::GZIP, record_count: 5, uncompressed_bytes: 50, data: b"zip" };
    let entries = [Entry::Message(b"hello"), Entry::SubBatch(batch), Entry::Message(b"!")];
    assert_eq!(write_chunk(&header, 1 << 20, entries, &mut bytes), 3);
    // The CRC is that of zlib over the data.
    let golden = b"\x50\0\0\x03\0\0\0\x07\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x64\
        \xB6\x70\xE9\x99\0\0\0\x1C\0\0\0\0\0\0\0\0\0\0\0\x05hello\x90\0\x05\0\0\0\x32\0\0\0\x03zip\0\0\0\x01!";
    assert_eq!(bytes.escape_ascii().to_string(), golden.escape_ascii().to_string());
    let chunk = Chunk::parse(&bytes).unwrap();
    assert_eq!((chunk.check_crc(), chunk.check_entries()), (Ok(()), Ok(())));
    let offsets: Vec<_> = chunk.entries().map(|(offset, entry)| (offset, entry.record_count())).collect();
    assert_eq!(offsets, [(100, 1), (101, 5), (106, 1)]);
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(matches!(Chunk::parse(&damaged).unwrap().check_crc(), Err(ChunkError::BadCrc { .. })));
    damaged[3] = 2;
    assert_eq!(Chunk::parse(&damaged).unwrap().check_entries(), Err(ChunkError::BadEntries));
    damaged[0] = 0x51;
    assert_eq!(Chunk::parse(&damaged), Err(ChunkError::BadMagic { octet: 0x51 }));
    assert_eq!(Chunk::parse(&bytes[..bytes.len() - 1]), Err(ChunkError::Truncated));
    let mut small = Vec::new();
    assert_eq!(write_chunk(&header, 5, entries, &mut small), 1, "the first entry is taken whatever its size");
}

#[test]
fn what_is_unknown_and_what_is_malformed_are_told_apart() {
    let decode =
        |key, is_response, version, body| Message::decode(&Frame { key, is_response, version, body });
    let unknown = |key, version| Err(MessageError::Unknown { key, version });
    let malformed = |key| Err(MessageError::Malformed { key, version: 1 });
    assert_eq!(decode(0x20, false, 1, &[]), unknown(0x20, 1));
    assert_eq!(decode(0x20, false, 1, &[0; 8]), unknown(0x20, 1));
    assert_eq!(decode(0x01, false, 2, &[0; 8]), unknown(0x01, 2));
    assert_eq!(decode(0x02, true, 1, &[0; 8]), unknown(0x02, 1), "nobody answers a publish");
    assert_eq!(decode(0x01, false, 1, &[0; 3]), malformed(0x01));
    assert_eq!(decode(0x01, false, 1, b"\0\0\0\x01\x01\0\0\0\x01\xFF"), malformed(0x01), "not UTF-8");
    assert_eq!(decode(0x0f, false, 1, b"\0\0\0\x01\xFF\xFF\xFF\xFF"), malformed(0x0f));
    assert_eq!(decode(0x07, false, 1, b"\0\0\0\x01\x01\0\0\0\x06\0\x01"), malformed(0x07), "offset type 6");
}

/// Every command once, made from the pools; publish, delivery and so on included.
fn every_message<'a>(samples: &mut Samples<'a>) -> Vec<Message<'a>> {
    let correlation_id = 0x0102_0304;
    let mut all: Vec<Message<'a>> = Command::one_of_each(samples).into_iter().map(Message::Command).collect();
    let requests = Request::one_of_each(samples).into_iter();
    all.extend(requests.map(|request| Message::Request { correlation_id, request }));
    let responses = Response::one_of_each(samples).into_iter();
    all.extend(responses.map(|response| Message::Response { correlation_id, response }));
    all.push(Message::TuneResponse(commands::Tune::sample(samples)));
    all.push(Message::CreditError(commands::CreditError::sample(samples)));
    let chunk = samples.text().as_bytes();
    all.push(Message::Deliver(Deliver { subscription_id: 1, committed_chunk_id: None, chunk }));
    all.push(Message::Deliver(Deliver {
        subscription_id: 1,
        committed_chunk_id: Some(samples.number()),
        chunk,
    }));
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_is_decoded_as_it_was_encoded(
        numbers in prop::collection::vec(any::<u64>(), 1..12), texts in prop::collection::vec(".{0,300}", 1..6),
    ) {
        for message in every_message(&mut Samples::new(&numbers, &texts)) {
            let bytes = encoded(&message);
            prop_assert_eq!(Message::decode(&frame(&bytes)), Ok(message));
            crate::fuzzing::stream_frame(&bytes);
        }
    }

    #[test]
    fn a_message_cut_short_is_malformed_or_another(
        numbers in prop::collection::vec(any::<u64>(), 1..12), texts in prop::collection::vec(".{0,20}", 1..6),
    ) {
        for message in every_message(&mut Samples::new(&numbers, &texts)) {
            let bytes = encoded(&message);
            let whole = frame(&bytes);
            // A response may end behind its code.
            let code_end = if matches!(message, Message::Response { .. }) { 6 } else { usize::MAX };
            for length in (0..whole.body.len()).filter(|length| *length != code_end) {
                let cut = Frame { body: &whole.body[..length], ..whole };
                prop_assert_ne!(Message::decode(&cut), Ok(message));
            }
        }
    }

    #[test]
    fn publishes_are_decoded_as_they_were_encoded(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..40),
        damage in any::<(prop::sample::Index, u8)>(),
    ) {
        let mut bytes = Vec::new();
        let mut writer = PublishWriter::new(1, &mut bytes);
        for (id, body) in (5..).zip(&bodies) {
            writer.push(id, &Entry::Message(body));
        }
        writer.finish();
        let Ok(Message::Publish(publish)) = Message::decode(&frame(&bytes)) else { panic!("a publish") };
        let read: Vec<_> = publish.entries().map(|entry| (entry.publishing_id, entry.entry)).collect();
        let written: Vec<_> = (5..).zip(bodies.iter().map(|body| Entry::Message(body))).collect();
        prop_assert_eq!(read, written);
        let mut chunk = Vec::new();
        let entries = publish.entries().map(|entry| entry.entry);
        let taken = write_chunk(&ChunkHeader::default(), usize::MAX, entries, &mut chunk);
        prop_assert_eq!(u32::from(taken), publish.len());
        let raw: Vec<u8> = publish.entries().flat_map(|entry| entry.raw.to_vec()).collect();
        prop_assert_eq!(Chunk::parse(&chunk).unwrap().data, raw);
        for mut bytes in [bytes, chunk] {
            let at = damage.0.index(bytes.len());
            bytes[at] = damage.1;
            crate::fuzzing::stream_frame(&bytes);
            crate::fuzzing::stream_chunk(&bytes);
        }
    }

    #[test]
    fn any_bytes_decode_or_fail_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), key in 0..0x20_u16) {
        for version in [1, 2] {
            for is_response in [false, true] {
                let frame = Frame { key, is_response, version, body: &bytes };
                if let Ok(message) = Message::decode(&frame) {
                    crate::fuzzing::stream_frame(&encoded(&message));
                }
            }
        }
    }
}

#[test]
fn a_value_behind_a_specification_without_one_is_passed_over_in_updates() {
    let mut bytes = Vec::new();
    let offset = OffsetSpec::Next;
    let answer = responses::ConsumerUpdate { code: ResponseCode::OK, offset };
    Response::from(answer).encode(7, &mut bytes);
    bytes.extend_from_slice(&[0; 8]);
    bytes[3] += 8;
    let Ok(Parsed::Complete { frame, .. }) = parse_frame(&bytes, 1000) else { panic!() };
    let expected = Message::Response { correlation_id: 7, response: answer.into() };
    assert_eq!(Message::decode(&frame), Ok(expected));
}
