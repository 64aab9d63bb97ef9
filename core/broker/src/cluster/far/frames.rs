//! Messages between two nodes about queues, as bytes. Integers are big-endian.

use bytes::{BufMut, BytesMut};
use message::{Facts, MessageView};
use queues::{
    ConsumerId, ConsumerSpec, ConsumerStats, Credit, CreditNews, Delivery, GotMessage, MemberStanding,
    MessageSeq, QueueStats, SettleHow, SettleRun,
};
use stdx::ConnectionId;

use crate::cluster::far::carried::Carried;
use crate::cluster::frames::{Fields, put_run};
use crate::cluster::peers::FIRST_KIND;
use crate::data::batch::{Batch, Handover, HandoverId};
use crate::refused::{Refused, Resource};

/// Something is asked of a queue that lives at the receiver.
pub(super) const ASK: u8 = FIRST_KIND + 32;
/// The answer.
pub(super) const ANSWER: u8 = FIRST_KIND + 33;
/// Messages for a consumer of the receiver.
pub(super) const DELIVER: u8 = FIRST_KIND + 34;
/// The fate of a consumer of the receiver.
pub(super) const NEWS: u8 = FIRST_KIND + 35;
/// A direct reply for a requester of the receiver: vhost, address, message.
pub(super) const REPLY: u8 = FIRST_KIND + 36;

/// Before every question: its number, the queue, and how much of the metadata the asker has applied.
pub(super) struct Asking {
    pub(super) number: u64,
    pub(super) queue: u64,
    pub(super) applied: u64,
    pub(super) code: u8,
}

pub(super) const PUBLISH: u8 = 1;
pub(super) const GET: u8 = 2;
pub(super) const PURGE: u8 = 3;
pub(super) const COUNTS: u8 = 4;
pub(super) const DELETE: u8 = 5;
pub(super) const CONSUME: u8 = 6;
pub(super) const CANCEL: u8 = 7;
pub(super) const SETTLE: u8 = 8;
pub(super) const RESUME: u8 = 9;
pub(super) const CREDIT: u8 = 10;
pub(super) const TOUCH: u8 = 11;
pub(super) const STATS: u8 = 12;

impl Asking {
    pub(super) fn begin(&self) -> BytesMut {
        let mut out = BytesMut::with_capacity(64);
        out.put_u64(self.number);
        out.put_u64(self.queue);
        out.put_u64(self.applied);
        out.put_u8(self.code);
        out
    }

    pub(super) fn has_answer(&self) -> bool {
        !matches!(self.code, SETTLE | RESUME | CREDIT | TOUCH) && !super::replicas::is_of_members(self.code)
    }

    pub(super) fn read(from: &mut Fields) -> Option<Asking> {
        let (number, queue, applied) = (from.u64()?, from.u64()?, from.u64()?);
        Some(Asking { number, queue, applied, code: from.u8()? })
    }
}

pub(super) fn put_consumer(out: &mut BytesMut, id: ConsumerId) {
    out.put_u16(id.connection.node);
    out.put_u32(id.connection.life);
    out.put_u64(id.connection.count);
    out.put_u32(id.token);
}

pub(super) fn consumer(from: &mut Fields) -> Option<ConsumerId> {
    let connection = ConnectionId { node: from.u16()?, life: from.u32()?, count: from.u64()? };
    Some(ConsumerId { connection, token: from.u32()? })
}

fn flag(from: &mut Fields) -> Option<bool> {
    from.u8().map(|byte| byte != 0)
}

impl Carried {
    pub(super) fn view(&self) -> MessageView<'_> {
        MessageView {
            exchange: self.exchange(),
            routing_key: self.routing_key(),
            properties: self.properties(),
            body: self.body(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        carried_bytes(&self.view(), self.annotations())
    }
}

/// The weight of a message in windows.
pub(super) fn carried_bytes(message: &MessageView<'_>, annotations: &[u8]) -> usize {
    let names = message.exchange.len() + message.routing_key.len() + message.properties.len();
    names + message.body.len() + annotations.len() + 32
}

pub(super) fn put_message(out: &mut BytesMut, message: &MessageView<'_>, annotations: &[u8]) {
    for part in [message.exchange, message.routing_key, message.properties, message.body, annotations] {
        put_run(out, part);
    }
}

/// The messages of a handover.
/// Writes a handover. It may have to be sent again: the batch keeps its messages.
pub(super) fn put_handover(out: &mut BytesMut, handover: &Handover) {
    let Handover { id, batch, picks, .. } = handover;
    out.put_u8(u8::from(id.is_some()));
    if let Some(id) = id {
        out.put_u16(id.node);
        out.put_u64(id.life);
        out.put_u64(id.number);
    }
    let whole = batch.whole();
    out.put_u32(picks.len() as u32);
    for nth in 0..picks.len() as u32 {
        let incoming = batch.incoming(picks.nth(nth));
        out.put_u8(u8::from(incoming.persistent) | u8::from(incoming.ttl_ms.is_some()) << 1);
        out.put_u8(incoming.priority);
        out.put_u64(incoming.ttl_ms.unwrap_or(0));
        let body = whole.as_ref().map_or(incoming.message.body, |whole| whole);
        put_message(out, &MessageView { body, ..incoming.message }, incoming.annotations);
    }
}

/// Reads a handover into a batch, its messages numbered from 1 in group 0; tells how many, and what names it.
pub(super) fn handover(from: &mut Fields) -> Option<(Batch, u32, Option<HandoverId>)> {
    let has_id = from.u8()? != 0;
    let id = if has_id {
        Some(HandoverId { node: from.u16()?, life: from.u64()?, number: from.u64()? })
    } else {
        None
    };
    let count = from.u32()?;
    let mut batch = Batch::default();
    for nth in 0..count {
        let flags = from.u8()?;
        let (priority, ttl_ms) = (from.u8()?, from.u64()?);
        let facts =
            Facts { persistent: flags & 1 != 0, priority, ttl_ms: (flags & 2 != 0).then_some(ttl_ms) };
        let carried = Carried::read(from)?;
        batch.push(carried.view(), facts, carried.annotations());
        batch.number_newest(0, u64::from(nth) + 1);
    }
    (count > 0).then(|| from.end((batch, count, id))).flatten()
}

pub(super) fn put_spec(out: &mut BytesMut, spec: &ConsumerSpec) {
    put_consumer(out, spec.id);
    put_run(out, &spec.tag);
    out.put_u16(spec.channel);
    out.put_u8(u8::from(spec.ack_required) | u8::from(spec.by_credit) << 1 | u8::from(spec.exclusive) << 2);
    out.put_u32(spec.prefetch);
    out.put_u32(spec.delivered_before);
    out.put_i64(spec.priority);
    put_run(out, &spec.arguments);
}

pub(super) fn spec(from: &mut Fields) -> Option<ConsumerSpec> {
    let (id, tag, channel) = (consumer(from)?, from.run()?, from.u16()?);
    let flags = from.u8()?;
    let (prefetch, delivered_before) = (from.u32()?, from.u32()?);
    let (priority, arguments) = (from.u64()? as i64, from.run()?);
    from.end(ConsumerSpec {
        id,
        tag: tag[..].into(),
        channel,
        ack_required: flags & 1 != 0,
        by_credit: flags & 2 != 0,
        delivered_before,
        // Only streams filter, and those are used on their own node.
        filter: None,
        exclusive: flags & 4 != 0,
        prefetch,
        priority,
        arguments: arguments[..].into(),
    })
}

const HOWS: [SettleHow; 4] = [SettleHow::Ack, SettleHow::Requeue, SettleHow::Fail, SettleHow::Reject];

pub(super) fn put_settlement(out: &mut BytesMut, how: SettleHow, runs: &[SettleRun]) {
    out.put_u8(HOWS.iter().position(|it| *it == how).map_or(u8::MAX, |at| at as u8));
    out.put_u32(runs.len() as u32);
    for run in runs {
        out.put_u8(u8::from(run.consumer.is_some()));
        if let Some(id) = run.consumer {
            put_consumer(out, id);
        }
        out.put_u64(run.first.0);
        out.put_u32(run.count);
    }
}

pub(super) fn settlement(from: &mut Fields) -> Option<(SettleHow, Vec<SettleRun>)> {
    let how = *HOWS.get(usize::from(from.u8()?))?;
    let mut runs = Vec::new();
    for _ in 0..from.u32()? {
        let consumer = if flag(from)? { Some(consumer(from)?) } else { None };
        runs.push(SettleRun { consumer, first: MessageSeq(from.u64()?), count: from.u32()? });
    }
    from.end((how, runs))
}

pub(super) fn put_credit(out: &mut BytesMut, credit: Credit) {
    out.put_u32(credit.limit);
    out.put_u8(u8::from(credit.drain));
}

pub(super) fn credit(from: &mut Fields) -> Option<Credit> {
    Some(Credit { limit: from.u32()?, drain: flag(from)? })
}

pub(super) fn put_got(out: &mut BytesMut, got: &GotMessage) {
    out.put_u64(got.seq.0);
    out.put_u8(u8::from(got.redelivered));
    out.put_u64(got.ready_left);
    let GotMessage { exchange, routing_key, properties, body, annotations, .. } = got;
    put_message(out, &MessageView { exchange, routing_key, properties, body }, annotations);
}

pub(super) fn got(from: &mut Fields) -> Option<GotMessage> {
    let (seq, redelivered, ready_left) = (MessageSeq(from.u64()?), flag(from)?, from.u64()?);
    let carried = Carried::read(from)?;
    from.end(GotMessage {
        seq,
        redelivered,
        exchange: carried.exchange().into(),
        routing_key: carried.routing_key().into(),
        properties: carried.properties().into(),
        body: carried.body().into(),
        annotations: carried.annotations().into(),
        ready_left,
    })
}

fn put_tag(out: &mut BytesMut, tag: Option<&[u8]>) {
    out.put_u8(u8::from(tag.is_some()));
    put_run(out, tag.unwrap_or_default());
}

fn tag(from: &mut Fields) -> Option<Option<Box<[u8]>>> {
    let (is_there, tag) = (flag(from)?, from.run()?);
    Some(is_there.then(|| tag[..].into()))
}

/// A queue's row in listings, without counts of traffic.
pub(super) fn put_stats(out: &mut BytesMut, stats: &QueueStats) {
    let numbers = [
        stats.ready,
        stats.unacked,
        stats.ready_bytes,
        stats.unacked_bytes,
        stats.persistent,
        stats.persistent_bytes,
        stats.memory_bytes,
        stats.resident_bytes,
        stats.disk_bytes,
        stats.live_disk_bytes,
        stats.segment_bytes,
        stats.active_ms,
        stats.delayed,
        stats.ready_returned,
        stats.consumer_capacity.to_bits(),
    ];
    numbers.iter().for_each(|number| out.put_u64(*number));
    put_tag(out, stats.single_active_tag.as_deref());
    put_tag(out, stats.exclusive_tag.as_deref());
    out.put_u32(stats.consumers.len() as u32);
    for consumer in &stats.consumers {
        let mut spec = BytesMut::new();
        put_spec(&mut spec, &consumer.spec);
        put_run(out, &spec);
        out.put_u32(consumer.unacked);
        out.put_u8(u8::from(consumer.active));
    }
    out.put_u32(stats.members.len() as u32);
    for member in &stats.members {
        out.put_u16(member.node);
        out.put_u64(member.lag);
        out.put_u64(member.has);
        out.put_u8(u8::from(member.is_following));
    }
}

pub(super) fn stats(from: &mut Fields) -> Option<QueueStats> {
    let mut stats = QueueStats::default();
    let QueueStats { ready, unacked, ready_bytes, unacked_bytes, persistent, persistent_bytes, .. } =
        &mut stats;
    let first = [ready, unacked, ready_bytes, unacked_bytes, persistent, persistent_bytes];
    for number in first {
        *number = from.u64()?;
    }
    let QueueStats { memory_bytes, resident_bytes, disk_bytes, live_disk_bytes, segment_bytes, .. } =
        &mut stats;
    for number in [memory_bytes, resident_bytes, disk_bytes, live_disk_bytes, segment_bytes] {
        *number = from.u64()?;
    }
    (stats.active_ms, stats.delayed, stats.ready_returned) = (from.u64()?, from.u64()?, from.u64()?);
    stats.consumer_capacity = f64::from_bits(from.u64()?);
    (stats.single_active_tag, stats.exclusive_tag) = (tag(from)?, tag(from)?);
    for _ in 0..from.u32()? {
        let spec = spec(&mut Fields(from.run()?))?;
        stats.consumers.push(ConsumerStats {
            spec,
            unacked: from.u32()?,
            active: flag(from)?,
            in_stream: None,
        });
    }
    for _ in 0..from.u32()? {
        let (node, lag, has) = (from.u16()?, from.u64()?, from.u64()?);
        stats.members.push(MemberStanding { node, lag, has, is_following: flag(from)? });
    }
    from.end(stats)
}

/// Deliveries to one consumer, one after the other.
pub(super) fn put_delivery(out: &mut BytesMut, delivery: &Delivery<'_>) {
    out.put_u64(delivery.seq.0);
    out.put_u8(u8::from(delivery.redelivered));
    put_message(out, &delivery.message, delivery.annotations);
}

/// The next delivery; `None` when there is none, or it cannot be read.
pub(super) fn delivery(from: &mut Fields) -> Option<(MessageSeq, bool, Carried)> {
    Some((MessageSeq(from.u64()?), flag(from)?, Carried::read(from)?))
}

/// The fate of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Cancelled,
    Credit(CreditNews),
}

pub(super) fn put_news(out: &mut BytesMut, news: News) {
    let (code, number) = match news {
        News::Cancelled => (0, 0),
        News::Credit(CreditNews::Noted { available }) => (1, available),
        News::Credit(CreditNews::Drained { limit }) => (2, limit.into()),
        News::Credit(CreditNews::Activity { is_active: false, .. }) => (3, 0),
        News::Credit(CreditNews::Activity { is_active: true, available }) => (4, available),
    };
    out.put_u8(code);
    out.put_u64(number);
}

pub(super) fn news(from: &mut Fields) -> Option<News> {
    let (code, number) = (from.u8()?, from.u64()?);
    from.end(match code {
        0 => News::Cancelled,
        1 => News::Credit(CreditNews::Noted { available: number }),
        2 => News::Credit(CreditNews::Drained { limit: number as u32 }),
        3 => News::Credit(CreditNews::Activity { is_active: false, available: 0 }),
        4 => News::Credit(CreditNews::Activity { is_active: true, available: number }),
        _ => return None,
    })
}

/// A refusal of a queue. Of others only the text goes along.
pub(super) fn put_refused(out: &mut BytesMut, refused: &Refused) {
    let (code, text): (u8, &[u8]) = match refused {
        Refused::NotFound(_) => (1, b""),
        Refused::Crashed(_) => (2, b""),
        Refused::ExclusiveUse(_) => (3, b""),
        Refused::NotEmpty(_) => (4, b""),
        Refused::InUse(_) => (5, b""),
        Refused::HomeDown { .. } => (7, b""),
        Refused::Storage(text) => (6, text.as_bytes()),
        _ => (6, b"the queue's node refused it"),
    };
    out.put_u8(code);
    put_run(out, text);
}

/// The queues of this node are not there yet.
pub(super) fn not_ready() -> Refused {
    Refused::HomeDown { resource: Resource::queue("", b""), node: "".into() }
}

pub(super) fn refused(from: &mut Fields, resource: Resource) -> Option<Refused> {
    let (code, text) = (from.u8()?, from.run()?);
    from.end(match code {
        1 => Refused::NotFound(resource),
        2 => Refused::Crashed(resource),
        3 => Refused::ExclusiveUse(resource),
        4 => Refused::NotEmpty(resource),
        5 => Refused::InUse(resource),
        6 => Refused::Storage(String::from_utf8_lossy(&text).into()),
        7 => Refused::HomeDown { resource, node: "".into() },
        _ => return None,
    })
}
