//! An open connection: its requests on the way to the broker, and its objects there.
//!
//! Refuses to know packets' bytes, keep alive and how the socket is driven; `session.rs` does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};

use broker::{ClientClaim, MessageSeq, Principal, Queue, SettleHow, SettleRun};
use wire::mqtt::{Ack, Packet, reason};

use super::connect::Wishes;
use super::deliver::{AT_LEAST_ONCE, AT_MOST_ONCE};
use super::inflight::{Entry, Stage};
use super::keeper::Keeper;
use super::memory::Marks;
use super::publishing::Publishing;
use super::retained::Retainer;
use super::will::Will;
use super::work::{ENDS_WITH_CONNECTION, Work};
use crate::OUTPUT_BYTES_LOW;
use crate::connection::Opened;
use crate::outbox::OutputBytes;

/// An open connection.
pub(crate) struct Running {
    pub(crate) work: Arc<Work>,
    pub(crate) wishes: Wishes,
    /// `None` until the client publishes something.
    pub(crate) publishing: Option<Box<Publishing>>,
    /// Topics of the client's aliases.
    pub(crate) aliases: Vec<Option<Box<str>>>,
    pub(crate) will: Option<Box<Will>>,
    /// Seconds that the session outlives the connection: as CONNECT said, or DISCONNECT.
    pub(crate) expiry_s: Option<u32>,
    /// Queues by number of source - 1.
    sources: Vec<Option<Arc<Queue>>>,
    /// Acknowledged deliveries that their queues do not know of yet.
    settled: Vec<(u32, SettleRun)>,
    pub(crate) publisher_full: bool,
    pub(crate) output_full: bool,
    /// It has published while an alarm is on: nothing is read until all are off.
    pub(crate) held: bool,
    has_freed_window: bool,
    /// The session was found or made: it is this connection's.
    pub(crate) is_open: bool,
    pub(crate) keeper: Option<Box<Keeper>>,
    /// Retained messages of the vhost, once there are some.
    pub(crate) retainer: Option<Arc<Retainer>>,
    /// Something was published to them.
    pub(crate) has_kept: bool,
    pub(crate) key: Vec<u8>,
    pub(crate) stored: Vec<u8>,
    /// The client id, until all the rest is given back.
    _claim: ClientClaim,
}

impl Running {
    pub(crate) fn new(work: Arc<Work>, wishes: Wishes, claim: ClientClaim) -> Running {
        Running {
            publishing: None,
            aliases: Vec::new(),
            will: None,
            expiry_s: wishes.expiry_s,
            sources: Vec::new(),
            settled: Vec::new(),
            publisher_full: false,
            output_full: false,
            held: false,
            has_freed_window: false,
            is_open: false,
            keeper: None,
            retainer: None,
            has_kept: false,
            key: Vec::new(),
            stored: Vec::new(),
            _claim: claim,
            work,
            wishes,
        }
    }

    /// Writes a packet.
    pub(crate) fn write(&self, packet: &Packet<'_>) {
        packet.encode(self.wishes.version, self.work.sink.outbox.lock().bytes());
    }

    /// The session consumes from these queues from now on.
    pub(crate) fn attach(&mut self, sources: Vec<(u32, Arc<Queue>)>) {
        for (token, queue) in sources {
            let at = token as usize - 1;
            if self.sources.len() <= at {
                self.sources.reserve_exact(at + 1 - self.sources.len());
                self.sources.resize(at + 1, None);
            }
            queue.resume(self.work.consumer(token));
            self.sources[at] = Some(queue);
        }
    }

    /// Which of its own sources the session has.
    pub(crate) fn has_source(&self) -> [bool; 2] {
        [AT_MOST_ONCE, AT_LEAST_ONCE].map(|token| self.source(token).is_some())
    }

    fn source(&self, token: u32) -> Option<&Arc<Queue>> {
        self.sources.get(token as usize - 1)?.as_ref()
    }

    /// The session stops consuming from a shared queue; its messages go back. The last one deletes it.
    pub(crate) fn detach(&mut self, token: u32) {
        self.submit();
        let Some(queue) = self.sources.get_mut(token as usize - 1).and_then(Option::take) else { return };
        drop(queue.cancel(self.work.consumer(token)));
        let left = self.work.with_side(|side| {
            side.detach(token);
            side.inflight.take_of(token)
        });
        let runs = left.iter().filter(|entry| entry.is_held()).map(|entry| self.run(*entry));
        queue.settle(SettleHow::Requeue, &runs.collect::<Vec<_>>());
        self.work.delete_shared(&String::from_utf8_lossy(queue.name()));
    }

    fn run(&self, Entry { token, seq, .. }: Entry) -> SettleRun {
        self.run_of(token, seq)
    }

    fn run_of(&self, token: u32, seq: MessageSeq) -> SettleRun {
        SettleRun { consumer: Some(self.work.consumer(token)), first: seq, count: 1 }
    }

    /// PUBACK.
    pub(crate) fn acknowledged(&mut self, id: u16) {
        self.settle_if(id, Stage::Ack);
    }

    /// PUBREC: the client has the message. It is answered whether it is known or not.
    pub(crate) fn received(&mut self, ack: &Ack<'_>) {
        let id = ack.packet_id;
        if ack.reason_code >= reason::UNSPECIFIED_ERROR {
            return self.settle_if(id, Stage::Receive);
        }
        let is_released = self.work.with_side(|side| match side.inflight.get(id) {
            Some(entry) if entry.stage == Stage::Receive => {
                let message = *entry;
                entry.stage = Stage::Complete;
                // Of its own queue the session keeps it until PUBCOMP: after a crash it goes out again with the same id.
                if message.token == AT_LEAST_ONCE {
                    side.marks.make().released.push((id, message.seq));
                } else {
                    side.done.push((message.token, message.seq));
                }
                true
            }
            Some(entry) => entry.stage == Stage::Complete,
            None => {
                let mut released = side.marks.get().into_iter().flat_map(|marks| &marks.released);
                released.any(|(known, _)| *known == id)
            }
        });
        let reason_code = if is_released { reason::SUCCESS } else { reason::PACKET_IDENTIFIER_NOT_FOUND };
        self.write(&Packet::PubRel(Ack { packet_id: id, reason_code, ..Ack::default() }));
        self.work.sink.has_news.store(true, Ordering::Release);
    }

    /// PUBCOMP.
    pub(crate) fn completed(&mut self, id: u16) {
        let done = self.work.with_side(|side| {
            let released = side.marks.get_mut().and_then(|marks| marks.complete(id));
            if side.inflight.get(id).is_none_or(|entry| entry.stage != Stage::Complete) {
                // It is on its way from the queue to this connection.
                if released.is_some() {
                    side.marks.make().pass_over(released);
                }
                return None;
            }
            side.counted.acked += 1;
            side.inflight.remove(id)
        });
        if let Some(entry) = done.filter(|entry| entry.token == AT_LEAST_ONCE) {
            self.add(entry.token, self.run(entry));
        }
        self.has_freed_window = true;
    }

    /// The session goes on: messages that the client has and did not complete are released again.
    pub(crate) fn resend_releases(&self) {
        let released = self.work.with_side(|side| side.marks.get().map(|marks| marks.released.clone()));
        for (packet_id, _) in released.into_iter().flatten() {
            self.write(&Packet::PubRel(Ack { packet_id, ..Ack::default() }));
        }
    }

    /// PUBREL: the client will not send the message again.
    pub(crate) fn released(&mut self, id: u16) {
        let was_known =
            self.work.with_side(|side| side.marks.get_mut().is_some_and(|marks| marks.received.remove(&id)));
        let reason_code = if was_known { reason::SUCCESS } else { reason::PACKET_IDENTIFIER_NOT_FOUND };
        self.write(&Packet::PubComp(Ack { packet_id: id, reason_code, ..Ack::default() }));
    }

    fn settle_if(&mut self, id: u16, stage: Stage) {
        let entry = self.work.with_side(|side| match side.inflight.get(id) {
            Some(entry) if entry.stage == stage => {
                side.counted.acked += 1;
                side.inflight.remove(id)
            }
            _ => None,
        });
        if let Some(entry) = entry {
            self.add(entry.token, self.run(entry));
            self.has_freed_window = true;
        }
    }

    /// One more settled delivery; neighbours in their queue are one run.
    fn add(&mut self, token: u32, run: SettleRun) {
        match self.settled.last_mut() {
            Some((of, last)) if *of == token && last.first.0 + u64::from(last.count) == run.first.0 => {
                last.count += run.count;
            }
            _ => self.settled.push((token, run)),
        }
    }

    /// Hands publishes and settlements to the queues.
    pub(crate) fn submit(&mut self) {
        self.flush_published();
        self.flush_kept();
        self.take_done();
        while let Some((token, _)) = self.settled.first() {
            let token = *token;
            let of_token = |it: &mut (u32, SettleRun)| it.0 == token;
            let runs: Vec<_> = self.settled.extract_if(.., of_token).map(|(_, run)| run).collect();
            if let Some(queue) = self.source(token) {
                queue.settle(SettleHow::Ack, &runs);
            }
        }
    }

    /// Publishes go to their queues.
    pub(crate) fn flush_published(&mut self) {
        if let Some(publishing) = &mut self.publishing {
            publishing.publisher.flush();
        }
    }

    /// Whether the broker takes no more publishes now.
    fn is_publisher_full(&mut self, cx: &mut Context<'_>) -> bool {
        self.publishing.as_mut().is_some_and(|it| it.publisher.poll_ready(cx).is_pending())
    }

    /// Retained messages go to their store, which lets go of those before them.
    pub(crate) fn flush_kept(&mut self) {
        if !std::mem::take(&mut self.has_kept) {
            return;
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.flush();
        }
        if let Some(retainer) = &self.retainer {
            retainer.tend();
        }
    }

    /// Deliveries that need no answer.
    fn take_done(&mut self) {
        if !self.work.sink.has_news.swap(false, Ordering::AcqRel) {
            return;
        }
        let (done, unsendable) = self
            .work
            .with_side(|side| (std::mem::take(&mut side.done), std::mem::take(&mut side.unsendable)));
        for (token, seq) in done {
            self.add(token, self.run_of(token, seq));
        }
        for (token, seq) in unsendable {
            if let Some(queue) = self.source(token) {
                queue.settle(SettleHow::Reject, &[self.run_of(token, seq)]);
            }
        }
    }

    /// Everything that one read brought goes to the queues.
    pub(crate) fn end_batch(&mut self) {
        self.submit();
        if self.has_freed_window {
            self.has_freed_window = false;
            self.resume_paused();
        }
        self.publisher_full = self.is_publisher_full(&mut Context::from_waker(Waker::noop()));
        self.output_full = self.work.sink.outbox.is_full();
    }

    /// Drives what is awaited. Ready when parsing may go on.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        if self.work.sink.has_news.load(Ordering::Acquire) {
            self.submit();
        }
        if self.publisher_full {
            self.publisher_full = self.is_publisher_full(cx);
        }
    }

    /// A queue of the session that was deleted by somebody else.
    pub(crate) fn take_cancelled(&mut self) -> Option<u32> {
        self.work.with_side(|side| side.cancelled.pop())
    }

    /// Resumes sources that were refused a delivery, if there is room now.
    pub(crate) fn resume_paused(&mut self) {
        let mut paused = Vec::new();
        {
            let mut output = self.work.sink.outbox.lock();
            if output.pending_bytes() < OUTPUT_BYTES_LOW {
                output.state().take_paused(&mut paused);
            }
        }
        for token in paused {
            if let Some(queue) = self.source(token) {
                queue.resume(self.work.consumer(token));
            }
        }
    }

    /// The output has been written out.
    pub(crate) fn output_drained(&mut self) {
        self.output_full = false;
        self.resume_paused();
    }

    /// DISCONNECT says how long the session outlives the connection. One that ends with it has no queue left that could be told.
    pub(crate) fn set_expiry(&mut self, expiry_s: Option<u32>) {
        self.expiry_s = expiry_s;
        if expiry_s == ENDS_WITH_CONNECTION {
            return;
        }
        let own = [AT_MOST_ONCE, AT_LEAST_ONCE].map(|token| self.work.queue_name(token));
        for queue in own.iter().filter_map(|name| self.work.principal.vhost.queue(name.as_bytes())) {
            // Nobody waits: a client that comes back says what it wants.
            drop(self.work.begin_set_expiry(&queue, expiry_s));
        }
    }

    /// Leaves the state that the session is to be remembered by.
    fn leave_marks(&self, has_queues: bool) {
        if !self.is_open {
            return;
        }
        let (marks, unanswered) = if self.expiry_s == ENDS_WITH_CONNECTION {
            (Marks { has_ended: self.work.delete_lasting(), ..Marks::default() }, false)
        } else {
            self.work.with_side(|side| (side.marks.take(), side.acks.has_exactly_once()))
        };
        let now_ms = self.work.settings.clock.wall_ms();
        let lasts = !has_queues && self.expiry_s != ENDS_WITH_CONNECTION;
        let until_ms = self.expiry_s.map_or(u64::MAX, |seconds| now_ms + u64::from(seconds) * 1000);
        let marks = Marks { lasts_until_ms: lasts.then_some(until_ms), ..marks };
        let unanswered = unanswered.then(|| self.work.sink.outbox.clone());
        let session = (self.work.principal.vhost.name(), &*self.work.client_id);
        self.work.settings.shared.memories.keep(session, marks, unanswered, now_ms);
    }
}

impl Opened for Running {
    fn principal(&self) -> &Principal {
        &self.work.principal
    }

    fn is_stalled(&self) -> bool {
        self.publisher_full || self.output_full || self.held
    }

    fn release(&mut self) {
        self.submit();
        let mut left = self.work.with_side(|side| side.inflight.take_all());
        left.retain(|(_, entry)| entry.is_held());
        let has_queues = self.has_source().contains(&true);
        for (token, queue) in (1..).zip(std::mem::take(&mut self.sources)) {
            let Some(queue) = queue else { continue };
            drop(queue.cancel(self.work.consumer(token)));
            let of_queue = left.iter().filter(|(_, entry)| entry.token == token);
            let runs: Vec<_> = of_queue.map(|(_, entry)| self.run(*entry)).collect();
            queue.settle(SettleHow::Fail, &runs);
            if token >= super::deliver::SHARED_FIRST && self.expiry_s == ENDS_WITH_CONNECTION {
                self.work.delete_shared(&String::from_utf8_lossy(queue.name()));
            }
        }
        self.publish_will();
        self.leave_marks(has_queues);
        self.work.broker.close_connection(&self.work.principal);
    }
}
