//! Sessions fed with frames that make no sense together: random performatives with random numbers, and bytes that are damaged. Nothing panics,
//! whatever is said can be read, memory stays bounded, and the messages of the connection go back to their queue.

use broker::ConnectionControl;
use wire::amqp10::{Detach, End, Modified, Released, Value, Writer};

use super::*;

/// Connections that are tried, and frames that each sends.
const CONNECTIONS: u64 = 40;
const FRAMES: u64 = 150;
/// Memory that no such connection may take, bytes: windows and credit bound what it is sent, and its frames are small.
const MEMORY_BYTES_MAX: u64 = 4 << 20;

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Mostly small, sometimes at an edge.
    fn number(&mut self) -> u32 {
        match self.below(8) {
            0 => u32::MAX - self.below(3) as u32,
            1 => (1 << 31) - 1 + self.below(3) as u32,
            2 => self.next() as u32,
            _ => self.below(12) as u32,
        }
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| value(self))
    }
}

const ADDRESSES: [Option<&str>; 7] = [
    Some("/queues/q"),
    Some("/queues/s"),
    Some("/exchanges/amq.fanout"),
    Some("/management"),
    Some("/queues/none"),
    Some("nonsense"),
    None,
];

fn attach(numbers: &mut Numbers, out: &mut Vec<u8>) {
    let role = numbers.pick(&[Role::Sender, Role::Receiver]);
    let address = numbers.pick(&ADDRESSES);
    let handle = if numbers.below(9) == 0 { numbers.number() } else { numbers.below(6) as u32 };
    let plain = attach_frame(role, handle);
    let mut filters = Vec::new();
    let mut writer = Writer::new(&mut filters);
    for _ in 0..numbers.below(3) {
        let name =
            numbers.pick(&["rabbitmq:stream-offset-spec", "amqp:sql-filter", "amqp:properties-filter"]);
        writer.symbol(numbers.pick(&["sql-filter", "f"]).as_bytes());
        let text = numbers.pick(&["first", "p.subject LIKE 'a%'", "next", "((("]);
        writer.described_by_name(name.as_bytes(), |writer| writer.string(text.as_bytes()));
    }
    let mut paired = Vec::new();
    Writer::new(&mut paired).symbol(b"paired");
    Writer::new(&mut paired).value(&Value::Bool(true));
    let (dynamic, many) = (numbers.below(10) == 0, numbers.below(20) == 0);
    let source = Source { address, dynamic, filter: Map::from_raw(&filters), ..Source::default() };
    let target = Target { address, dynamic, ..Target::default() };
    let modes = [SenderSettleMode::Mixed, SenderSettleMode::Settled, SenderSettleMode::Unsettled];
    let attach = Attach {
        source: (!many).then_some(source),
        target: (!many).then_some(AttachTarget::Target(target)),
        snd_settle_mode: numbers.pick(&modes),
        initial_delivery_count: numbers.maybe(Numbers::number),
        max_message_size: numbers.maybe(|numbers| numbers.number().into()),
        properties: if address == Some("/management") { Map::from_raw(&paired) } else { Map::EMPTY },
        ..plain
    };
    attach.encode_frame(0, out);
}

fn disposition(numbers: &mut Numbers, out: &mut Vec<u8>) {
    let accepted = DeliveryState::Accepted(Accepted {});
    let released = DeliveryState::Released(Released {});
    let flags = (numbers.maybe(Numbers::flag), numbers.maybe(Numbers::flag));
    let modified = DeliveryState::Modified(Modified {
        delivery_failed: flags.0,
        undeliverable_here: flags.1,
        message_annotations: Map::EMPTY,
    });
    let disposition = Disposition {
        role: numbers.pick(&[Role::Receiver, Role::Receiver, Role::Sender]),
        first: numbers.number(),
        last: numbers.maybe(Numbers::number),
        settled: numbers.flag(),
        state: numbers.pick(&[Some(accepted), Some(released), Some(modified), None]),
        batchable: false,
    };
    disposition.encode_frame(0, out);
}

fn transfer(numbers: &mut Numbers, out: &mut Vec<u8>) {
    let mut message = message_of(numbers.below(300) as usize);
    if numbers.below(4) == 0 {
        message.truncate(numbers.below(message.len() as u64) as usize);
    }
    let transfer = Transfer {
        delivery_id: numbers.maybe(Numbers::number),
        delivery_tag: numbers.maybe(|_| &b"tag"[..]),
        message_format: Some(0),
        settled: numbers.maybe(Numbers::flag),
        more: numbers.below(4) == 0,
        aborted: numbers.below(12) == 0,
        ..Transfer::of(numbers.below(7) as u32)
    };
    let start = out.len();
    encode_delivery(0, &transfer, &[&message], 100_000, out);
    debug_assert!(out.len() > start);
}

fn random_frame(numbers: &mut Numbers) -> Vec<u8> {
    let mut out = Vec::new();
    match numbers.below(20) {
        0 => begin_frame().encode_frame(numbers.below(3) as u16, &mut out),
        1 => Begin { handle_max: numbers.number(), incoming_window: numbers.number(), ..begin_frame() }
            .encode_frame(numbers.below(3) as u16, &mut out),
        2 if numbers.below(4) == 0 => End { error: None }.encode_frame(0, &mut out),
        2..=6 => attach(numbers, &mut out),
        7 => {
            let handle = numbers.below(7) as u32;
            Detach { handle, closed: numbers.flag(), error: None }.encode_frame(0, &mut out);
        }
        8..=11 => {
            let handle = numbers.maybe(|numbers| numbers.below(7) as u32);
            let (window, credit) = (numbers.number(), numbers.number());
            let flow = flow_frame(handle, numbers.below(4) as u32, window, credit);
            let (drain, echo) = (numbers.flag(), numbers.flag());
            Flow { drain, echo, delivery_count: numbers.maybe(Numbers::number), ..flow }
                .encode_frame(0, &mut out);
        }
        12..=14 => disposition(numbers, &mut out),
        _ => transfer(numbers, &mut out),
    }
    // Bytes behind the frame's head, which would only end the connection.
    if numbers.below(10) == 0 && out.len() > 12 {
        for _ in 0..=numbers.below(3) {
            let at = 11 + numbers.below(out.len() as u64 - 11) as usize;
            out[at] ^= 1 << numbers.below(8);
        }
    }
    out
}

#[test]
fn frames_that_make_no_sense_break_nothing() {
    let world = World::new();
    world.queue(b"q");
    world.queue_of(b"s", "stream");
    for seed in 1..=CONNECTIONS {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut client = world.begun();
        for _ in 0..FRAMES {
            client.send(&random_frame(&mut numbers));
            if client.session.phase != Phase::Running {
                break;
            }
            let bytes = client.session.control.memory().total();
            assert!(bytes < MEMORY_BYTES_MAX, "seed {seed}: {bytes} bytes");
        }
        let mut rest = &client.output[..];
        while !rest.is_empty() {
            match parse_frame(rest, usize::MAX) {
                Ok(Parsed::Complete { frame, consumed }) => {
                    assert!(Performative::decode(frame.body).is_ok(), "seed {seed}");
                    rest = &rest[consumed..];
                }
                other => panic!("seed {seed}: {other:?}"),
            }
        }
        crate::Session::released(&mut client.session);
    }
    let queue = world.broker.vhost("/").and_then(|vhost| vhost.queue(b"q")).expect("it is still there");
    let stats = queue.stats().wait();
    assert_eq!((stats.unacked, stats.consumers.len()), (0, 0));
}
