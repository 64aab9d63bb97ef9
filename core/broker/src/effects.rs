//! Effects that the machine asks for, done: deliveries and log records at once, the rest after the cell is released.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use message::MessageView;
use queues::{
    BlockBytes, BlockPlace, BlockToken, ConsumerId, CreditNews, DeadReason, Delivery, Effects, GetToken,
    Gone, GotMessage, HeldBody, Holes, LargeBody, LogRange, LoggedBlock, OwnBytes, RecordKind, SettleRun,
    SettledRun, SharedBody,
};
use smallvec::SmallVec;
use stdx::FewMap;

use crate::alarms::Raised;
use crate::bodies::Fetched;
use crate::call::Reply;
use crate::cell::gather::Gather;
use crate::cell::{Attached, Event, GetReply, Queue};
use crate::cluster::replicas::Shipped;
use crate::control::deleted::DeletedQueue;
use crate::data::consume::ConsumerSink;
use crate::data::letter::DeadLetter;
use crate::refused::Refused;
use crate::stages::{Began, Stage};

/// The driver's side of [`Effects`] while a machine runs.
pub(crate) struct CellEffects<'a> {
    pub(crate) queue: &'a Arc<Queue>,
    pub(crate) sinks: &'a mut FewMap<ConsumerId, Attached>,
    pub(crate) gets: &'a mut HashMap<GetToken, GetReply, foldhash::fast::RandomState>,
    pub(crate) gathers: &'a mut Vec<Gather>,
    /// Where shared bodies of a machine that goes are kept.
    pub(crate) held_bodies: &'a mut Vec<SharedBody>,
    pub(crate) aftermath: &'a mut Aftermath,
}

/// The effects that have to wait until the cell is released.
#[derive(Default)]
pub(crate) struct Aftermath {
    dead_letters: Vec<DeadLetter>,
    gone: Option<Gone>,
    /// The client that cancelled the last consumer of a queue that goes with it: answered when the queue has gone (B68).
    pub(crate) last_cancelled: Option<Reply<()>>,
    pub(crate) deleted: Option<(u64, Reply<Result<DeletedQueue, Refused>>, Box<str>)>,
    /// Gets without ack: settled by the caller right after the get.
    pub(crate) got_without_ack: SmallVec<[SettleRun; 1]>,
    /// Messages for gets whose connection is gone: put back by the caller.
    pub(crate) got_by_nobody: Vec<SettleRun>,
    pub(crate) checkpointed: bool,
    pub(crate) fault: Option<&'static str>,
    /// Bytes of its records.
    pub(crate) appended_bytes: u32,
    /// Its records, for other nodes that have the queue.
    pub(crate) shipped: Shipped,
    /// A delivery of this turn was timed.
    is_dispatch_timed: bool,
}

impl Aftermath {
    /// Whether the queue deletes itself.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.is_some()
    }

    /// The messages that died in this turn, in its order.
    pub(crate) fn take_letters(&mut self) -> Vec<DeadLetter> {
        std::mem::take(&mut self.dead_letters)
    }

    /// A record was appended.
    fn note_appended(&mut self, record: &Range<u64>) {
        let bytes = u32::try_from(record.end - record.start).unwrap_or(u32::MAX);
        self.appended_bytes = self.appended_bytes.saturating_add(bytes);
    }

    /// The work that the end of the queue leaves, if this turn brought it.
    pub(crate) fn take_ending(&mut self) -> Option<Box<Ending>> {
        if self.gone.is_none() && self.deleted.is_none() {
            return None;
        }
        let (gone, deleted) = (self.gone.take(), self.deleted.take());
        Some(Box::new(Ending { gone, last_cancelled: self.last_cancelled.take(), deleted }))
    }
}

/// The end of a queue, which the services are told when the cell is released.
pub(crate) struct Ending {
    gone: Option<Gone>,
    last_cancelled: Option<Reply<()>>,
    deleted: Option<(u64, Reply<Result<DeletedQueue, Refused>>, Box<str>)>,
}

impl Ending {
    /// Tells the services.
    pub(crate) fn tell(self, queue: &Arc<Queue>) {
        if let Some(why) = self.gone {
            queue.services().queue_gone(queue.clone(), why, self.last_cancelled);
        }
        if let Some((ready, reply, by)) = self.deleted {
            queue.services().queue_deleted(queue, ready, reply, by);
        }
    }
}

impl CellEffects<'_> {
    /// Hands a run to a consumer through `deliver`.
    #[inline]
    fn dispatch(
        &mut self,
        consumer: ConsumerId,
        run: &[Delivery<'_>],
        deliver: impl FnOnce(&dyn ConsumerSink) -> usize,
    ) -> usize {
        let Some(Attached { sink, channel, .. }) = self.sinks.get(&consumer) else { return 0 };
        let stages = &self.queue.services().stages;
        // One of each turn: with many consumers each gets a single message.
        let began = match std::mem::replace(&mut self.aftermath.is_dispatch_timed, true) {
            true => Began::default(),
            false => stages.begin(),
        };
        let taken = deliver(&**sink);
        stages.end_in(self.queue.kind(), Stage::Dispatch, began);
        if self.queue.place.trace.is_on() {
            self.queue.trace_delivered(consumer, *channel, &run[..taken]);
        }
        taken
    }

    /// Asks for bodies of a block.
    fn gather(&mut self, mut gather: Gather, bodies: Vec<SharedBody>) {
        let services = self.queue.services();
        for body in bodies {
            match services.bodies.fetch(&services.segments, self.queue.id, &body) {
                Fetched::Here(bytes) => gather.add(HeldBody { body, bytes }),
                Fetched::Asked => {
                    self.queue.disk_asked();
                    gather.await_body(body);
                }
                Fetched::Missing => gather.lose(),
            }
        }
        if gather.is_complete() {
            // The machine is not to be called back from here.
            self.queue.note(Event::BodiesHere);
        }
        self.gathers.push(gather);
    }

    fn note_appended(&mut self, record: Range<u64>) -> Range<u64> {
        self.queue.appended(record.end);
        self.aftermath.note_appended(&record);
        record
    }
}

impl Effects for CellEffects<'_> {
    fn deliver(&mut self, consumer: ConsumerId, run: &[Delivery<'_>]) -> usize {
        self.dispatch(consumer, run, |sink| sink.deliver(consumer.token, run))
    }

    fn deliver_large(&mut self, consumer: ConsumerId, delivery: &Delivery<'_>, body: LargeBody) -> usize {
        let run = std::slice::from_ref(delivery);
        self.dispatch(consumer, run, |sink| sink.deliver_large(consumer.token, delivery, body))
    }

    fn credit_news(&mut self, consumer: ConsumerId, news: CreditNews) {
        if let Some(Attached { sink, .. }) = self.sinks.get(&consumer) {
            sink.credit_news(consumer.token, news);
        }
    }

    fn got(&mut self, get: GetToken, message: Option<(Delivery<'_>, u64)>) {
        let Some(GetReply { reply, ack_required }) = self.gets.remove(&get) else { return };
        let got = message.map(|(delivery, ready_left)| {
            let run = SettleRun { consumer: None, first: delivery.seq, count: 1 };
            if reply.is_abandoned() {
                // The connection ended meanwhile: the message must not stay unacked for nobody.
                self.aftermath.got_by_nobody.push(run);
            } else if !ack_required {
                self.aftermath.got_without_ack.push(run);
            }
            GotMessage {
                seq: delivery.seq,
                redelivered: delivery.redelivered,
                exchange: delivery.message.exchange.into(),
                routing_key: delivery.message.routing_key.into(),
                properties: delivery.message.properties.into(),
                body: delivery.message.body.into(),
                annotations: delivery.annotations.into(),
                ready_left,
            }
        });
        reply.send(Ok(got));
    }

    fn consumer_cancelled(&mut self, consumer: ConsumerId) {
        if let Some(Attached { sink, .. }) = self.sinks.get(&consumer) {
            sink.cancelled(consumer.token);
        }
    }

    fn append(&mut self, kind: RecordKind, write: &mut dyn FnMut(&mut Vec<u8>)) -> Range<u64> {
        #[cfg(test)]
        assert!(
            !self.queue.fails_next.swap(false, std::sync::atomic::Ordering::Relaxed),
            "a fault of a test"
        );
        if self.aftermath.shipped.is_on() {
            let mut payload = Vec::new();
            write(&mut payload);
            self.aftermath.shipped.add(kind, &payload);
            let record =
                self.queue.services().append(self.queue.id, kind, &mut |out| out.extend_from_slice(&payload));
            return self.note_appended(record);
        }
        let record = self.queue.services().append(self.queue.id, kind, write);
        self.note_appended(record)
    }

    fn append_lent(&mut self, kind: RecordKind, head: &[u8], tail: BlockBytes) -> Range<u64> {
        if self.aftermath.shipped.is_on() {
            self.aftermath.shipped.add(kind, &[head, &tail].concat());
        }
        let record = self.queue.services().append_lent(self.queue.id, kind, head, tail);
        self.note_appended(record)
    }

    fn log_body(&mut self, held: &HeldBody) {
        self.queue.services().bodies.log_body(&self.queue.services().log, held);
    }

    fn dead_letter(
        &mut self,
        reason: DeadReason,
        removal: Option<SettledRun>,
        message: MessageView<'_>,
        annotations: &[u8],
        shared: Option<HeldBody>,
    ) {
        let letter = DeadLetter::new(reason, removal, self.queue.life(), message, annotations, shared);
        self.aftermath.dead_letters.push(letter);
    }

    fn has_room(&self) -> bool {
        !self.queue.services().alarms.raised().has(Raised::DISK_FULL)
    }

    fn write_block(&mut self, token: BlockToken, bytes: BlockBytes) {
        self.queue.disk_asked();
        self.queue.services().write_block(self.queue, token, bytes);
    }

    fn read_block(&mut self, token: BlockToken, own: Option<OwnBytes>, bodies: Vec<SharedBody>) {
        if !bodies.is_empty() {
            self.gather(Gather::new(token, own.is_some()), bodies);
        }
        let Some(own) = own else { return };
        self.queue.disk_asked();
        match own {
            OwnBytes::Segment(place) => self.queue.services().read_block(self.queue, token, place),
            OwnBytes::Log(block) => self.queue.services().read_logged(self.queue.id, token, block),
        }
    }

    fn let_body_go(&mut self, body: &SharedBody) {
        self.queue.services().bodies.let_go(&self.queue.services().segments, body);
    }

    fn keep_in_log(&mut self, token: BlockToken, range: LogRange) {
        self.queue.disk_asked();
        self.queue.services().keep_in_log(self.queue, token, range);
    }

    fn move_logged(&mut self, token: BlockToken, block: LoggedBlock, holes: Holes) {
        self.queue.disk_asked();
        self.queue.services().move_logged(self.queue.id, token, block, holes);
    }

    fn seal_segment(&mut self, segment: u64) {
        self.queue.services().segments.submit_seal(self.queue.id.0, segment);
    }

    fn move_block(&mut self, token: BlockToken, place: BlockPlace, holes: Holes) {
        self.queue.disk_asked();
        self.queue.services().move_block(self.queue, token, place, holes);
    }

    fn sync_blocks(&mut self) {
        self.queue.disk_asked();
        self.queue.services().sync_blocks(self.queue);
    }

    fn delete_segment(&mut self, segment: u64) {
        self.queue.services().delete_segment_when_durable(self.queue.id, segment);
    }

    fn wake_at(&mut self, time_ms: u64) {
        self.queue.services().wake_at(self.queue, time_ms);
    }

    fn gone(&mut self, why: Gone) {
        self.aftermath.gone = Some(why);
    }

    fn checkpointed(&mut self) {
        self.aftermath.checkpointed = true;
    }
}
