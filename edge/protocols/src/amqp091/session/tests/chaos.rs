//! Clients that send anything in any order: nothing panics, and their messages come back.

use wire::amqp091::methods::{confirm, tx};

use super::*;
use crate::dice::Dice;

/// Names of queues and exchanges that all clients share.
const NAMES: [&str; 3] = ["chaos-a", "chaos-b", "amq.fanout"];

impl Dice {
    fn name(&mut self) -> ShortStr<'static> {
        ShortStr::bounded(NAMES[self.roll(3) as usize].as_bytes())
    }
}

/// One request, mostly a sensible one.
fn request(dice: &mut Dice, out: &mut Vec<u8>) {
    let channel = 1 + dice.roll(3) as u16;
    let (name, tag, flag) = (dice.name(), 1 + dice.roll(12), dice.flip());
    let method: Method<'_> =
        match dice.roll(24) {
            // Rarely, because it ends the connection.
            0 if dice.roll(8) == 0 => {
                [channel::Open::default().into(), channel::CloseOk {}.into()][dice.roll(2) as usize]
            }
            0..=2 => {
                channel::Close { reply_code: 200, ..channel::Close::default() }.encode_frame(channel, out);
                channel::Open::default().into()
            }
            3 | 4 => queue::Declare { queue: name, durable: true, nowait: flag, ..queue::Declare::default() }
                .into(),
            5 => queue::Bind { queue: name, exchange: dice.name(), nowait: flag, ..queue::Bind::default() }
                .into(),
            6 => queue::Purge { queue: name, ..queue::Purge::default() }.into(),
            7 => queue::Delete { queue: name, ..queue::Delete::default() }.into(),
            8 | 9 => basic::Consume { queue: name, no_ack: flag, ..basic::Consume::default() }.into(),
            10 => basic::Get { queue: name, no_ack: flag, ..basic::Get::default() }.into(),
            11 => basic::Cancel { consumer_tag: ShortStr::bounded(b"tag"), nowait: flag }.into(),
            12 => basic::Ack { delivery_tag: tag, multiple: flag }.into(),
            13 => basic::Nack { delivery_tag: tag, multiple: flag, requeue: dice.flip() }.into(),
            14 => basic::Reject { delivery_tag: tag, requeue: flag }.into(),
            15 => basic::Recover { requeue: true }.into(),
            16 => basic::Qos { prefetch_count: tag as u16, global: flag, ..basic::Qos::default() }.into(),
            17 => confirm::Select { nowait: flag }.into(),
            18 => [tx::Select {}.into(), tx::Commit {}.into(), tx::Rollback {}.into()][dice.roll(3) as usize],
            19 => queue::Unbind { queue: name, exchange: dice.name(), ..queue::Unbind::default() }.into(),
            _ => {
                let body = vec![7; dice.roll(30) as usize * dice.roll(300) as usize];
                encode_publish(out, channel, b"", &name, flag, &[0, 0], &body, 4096);
                return;
            }
        };
    method.encode_frame(channel, out);
}

/// A connection's life: requests, some of them damaged, in pieces of any size; closed channels are opened again.
/// Returns the number of frames that came back.
fn live(world: &World, dice: &mut Dice) -> usize {
    let mut client = world.open();
    let mut bytes = Vec::new();
    for number in 1..=3 {
        channel::Open::default().encode_frame(number, &mut bytes);
    }
    let mut frames = 0;
    for _ in 0..dice.roll(40) {
        for _ in 0..dice.roll(8) {
            request(dice, &mut bytes);
        }
        if !bytes.is_empty() && dice.roll(40) == 0 {
            let at = dice.roll(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << dice.roll(8);
        }
        send_in_pieces(&mut client, dice, &std::mem::take(&mut bytes));
        if dice.roll(4) == 0 {
            continue;
        }
        client.read_output();
        while let Some(got) = client.next() {
            frames += 1;
            if got.name() == "channel.close" {
                channel::CloseOk {}.encode_frame(got.channel, &mut bytes);
                channel::Open::default().encode_frame(got.channel, &mut bytes);
            }
        }
    }
    if dice.flip() {
        client.session.released();
    }
    frames
}

fn send_in_pieces(client: &mut Client, dice: &mut Dice, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(1 + dice.roll(rest.len().min(2000) as u64) as usize);
        client.send(piece);
        rest = behind;
    }
}

#[test]
fn clients_that_send_anything_leave_nothing_behind() {
    let world = World::new();
    let mut dice = Dice(0xC0FFEE);
    let frames: usize = (0..300).map(|_| live(&world, &mut dice)).sum();
    assert!(frames > 2_000, "{frames} frames: clients that are closed at once prove nothing");
    assert_eq!(world.broker.connections().count(), 0);
    // Nothing is held by anyone: every message is ready, every consumer gone.
    let mut client = world.channel();
    for name in &NAMES[..2] {
        client.declare(name);
        let queue = world.broker.vhost("/").unwrap().queue(name.as_bytes()).unwrap();
        let mut call = queue.stats();
        let stats = loop {
            client.turn();
            if let Some(stats) = call.try_take() {
                break stats;
            }
        };
        assert_eq!((stats.unacked, stats.consumers.len()), (0, 0), "{name}");
    }
}
