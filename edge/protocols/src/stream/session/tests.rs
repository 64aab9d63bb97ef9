//! Arbitrary clients: whatever comes, a session never panics, answers with whole frames, and bounds what it keeps.

use std::task::{Context, Waker};

use broker::{Broker, BrokerOptions};
use wire::stream::commands::{Credit, StoreOffset};
use wire::stream::requests::{
    Create, CreateSuperStream, DeclarePublisher, Delete, DeletePublisher, DeleteSuperStream, Metadata,
    PeerProperties, QueryOffset, ResolveOffsetSpec, SaslHandshake, StreamStats, Subscribe, Unsubscribe,
};
use wire::stream::{Compression, Entry, List, OffsetSpec, PublishWriter, SubBatch};

use super::*;
use crate::Session as _;

/// A small generator of numbers, the same ones for a seed.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

const NAMES: [&str; 5] = ["a", "b", "a-0", "", "amq.x"];
const NOW: Now = Now { monotonic_ms: 1000, unix_ms: 1_700_000_000_000 };

struct Case {
    session: Session,
    draw: Draw,
    id: u32,
}

impl Case {
    fn new(broker: &Broker, seed: u64) -> Case {
        let peer = Peer::plain("127.0.0.1:1".parse().unwrap(), "127.0.0.1:5552".parse().unwrap(), seed);
        let settings = Settings { frame_max: 4096, initial_credits: 100, ..Settings::default() };
        let session = Session::new(broker.clone(), Arc::new(settings), peer, NOW);
        Case { session, draw: Draw(seed * 2 + 1), id: 0 }
    }

    fn open(&mut self) {
        let ask = |request: Request<'_>, id, out: &mut Vec<u8>| request.encode(id, out);
        let mut out = Vec::new();
        ask(PeerProperties::default().into(), 1, &mut out);
        ask(SaslHandshake {}.into(), 2, &mut out);
        let plain = SaslAuthenticate { mechanism: "PLAIN", response: Some(b"\0guest\0guest") };
        ask(plain.into(), 3, &mut out);
        Command::from(Tune { frame_max: 4096, heartbeat: 1 }).encode(&mut out);
        ask(Open { virtual_host: "/" }.into(), 4, &mut out);
        self.feed(&out);
    }

    /// Hands bytes in, in pieces, and takes what comes out.
    fn feed(&mut self, mut bytes: &[u8]) {
        let mut cx = Context::from_waker(Waker::noop());
        let mut kept: Vec<u8> = Vec::new();
        let mut patience = 0;
        while !bytes.is_empty() || !kept.is_empty() {
            let piece = 1 + self.draw.below(bytes.len().max(1) as u64) as usize;
            let (now, later) = bytes.split_at(piece.min(bytes.len()));
            bytes = later;
            kept.extend_from_slice(now);
            let progress = self.session.receive(&kept, NOW);
            assert!(progress.consumed <= kept.len());
            kept.drain(..progress.consumed);
            while self.session.is_stalled() && patience < 2000 {
                let _goes_on = self.session.poll_stalled(&mut cx);
                std::thread::sleep(std::time::Duration::from_micros(50));
                patience += 1;
            }
            self.take_output();
            if bytes.is_empty() && (progress.consumed == 0 || patience >= 2000) {
                break;
            }
        }
    }

    fn take_output(&mut self) {
        let mut buffer = Vec::new();
        self.session.outbox().take(&mut buffer);
        let mut rest = &buffer[..];
        while !rest.is_empty() {
            let Ok(Parsed::Complete { frame, consumed }) = parse_frame(rest, usize::MAX) else {
                panic!("half a frame is sent");
            };
            Message::decode(&frame).expect("the server speaks its protocol");
            rest = &rest[consumed..];
        }
        self.session.bytes_sent(buffer.len(), NOW);
        self.session.output_drained();
    }

    /// A frame that may make sense.
    fn frame(&mut self) -> Vec<u8> {
        let (mut out, draw) = (Vec::new(), &mut self.draw);
        self.id += 1;
        let (stream, name, byte) = (draw.of(&NAMES), draw.of(&NAMES), draw.below(4) as u8);
        let number = draw.next();
        let offset = draw.of(&[
            OffsetSpec::None,
            OffsetSpec::First,
            OffsetSpec::Last,
            OffsetSpec::Next,
            OffsetSpec::Offset(number),
            OffsetSpec::Timestamp(number.cast_signed()),
        ]);
        let texts = ListBuf::of([("name", name), ("single-active-consumer", "true"), ("filter.0", stream)]);
        let arguments = ListBuf::of([("max-length-bytes", draw.of(&["1000", "x", "-1"]))]);
        let names = ListBuf::of([stream, name]);
        let properties = Trailing(if number % 2 == 0 { texts.as_list() } else { List::EMPTY });
        let request: Request<'_> = match draw.below(18) {
            0 => DeclarePublisher { publisher_id: byte, reference: name, stream }.into(),
            1 => DeletePublisher { publisher_id: byte }.into(),
            2 => {
                Subscribe { subscription_id: byte, stream, offset, credit: number as u16, properties }.into()
            }
            3 => Unsubscribe { subscription_id: byte }.into(),
            4 | 5 => Create { stream, arguments: List::EMPTY }.into(),
            6 => Create { stream, arguments: arguments.as_list() }.into(),
            7 if number % 8 == 0 => Delete { stream }.into(),
            8 => Metadata { streams: names.as_list() }.into(),
            9 => QueryOffset { reference: name, stream }.into(),
            10 => StreamStats { stream }.into(),
            11 => ResolveOffsetSpec { stream, offset, properties }.into(),
            12 if number % 8 == 0 => {
                let (partitions, binding_keys) = (names.as_list(), names.as_list());
                CreateSuperStream { name, partitions, binding_keys, arguments: List::EMPTY }.into()
            }
            13 if number % 8 == 0 => DeleteSuperStream { name }.into(),
            14 => {
                Command::from(Credit { subscription_id: byte, credit: number as u16 }).encode(&mut out);
                return out;
            }
            15 => {
                Command::from(StoreOffset { reference: name, stream, offset: number }).encode(&mut out);
                return out;
            }
            _ => {
                let mut writer = PublishWriter::new(byte, &mut out);
                for nth in 0..number % 5 {
                    let body = [7_u8; 40];
                    let batch = SubBatch {
                        compression: Compression::of_bits(nth as u8),
                        record_count: (number >> 8) as u16 % 5,
                        uncompressed_bytes: 100,
                        data: &body[..(number >> 16) as usize % 40],
                    };
                    let is_batch = (number >> 24) % 4 == 0;
                    writer.push(
                        number + nth,
                        &if is_batch { Entry::SubBatch(batch) } else { Entry::Message(&body) },
                    );
                }
                writer.finish();
                return out;
            }
        };
        request.encode(self.id, &mut out);
        out
    }

    /// Sometimes a frame that is none.
    fn spoiled(&mut self, mut frame: Vec<u8>) -> Vec<u8> {
        match self.draw.below(60) {
            0 => {
                let at = self.draw.below(frame.len() as u64) as usize;
                frame[at] ^= 1 << self.draw.below(8);
            }
            1 => frame.truncate(self.draw.below(frame.len() as u64) as usize),
            _ => {}
        }
        frame
    }
}

#[test]
fn whatever_a_client_sends_the_session_stays_whole() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::open(folder.path(), BrokerOptions::default()).unwrap();
    for seed in 1..60 {
        let mut case = Case::new(&broker, seed);
        if seed % 6 != 0 {
            case.open();
        }
        for _ in 0..80 {
            let frame = case.frame();
            let frame = case.spoiled(frame);
            case.feed(&frame);
            if case.session.state() != crate::State::Running {
                break;
            }
            case.session.tick(Now { monotonic_ms: 1000 + case.draw.below(900), ..NOW });
        }
        case.session.released();
    }
    assert_eq!(broker.connections().count(), 0);
    assert!(broker.stream_groups().all().is_empty(), "nobody is left in a group");
    broker.shutdown();
}
