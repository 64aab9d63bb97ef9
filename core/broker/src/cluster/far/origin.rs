//! The side of the node whose client asks: unanswered requests to queues elsewhere, and their consumers that are here.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use queues::{ConsumerId, Delivery, QueueCounts, QueueStats, SettleHow, SettleRun};

use super::frames;
use super::frames::{Asking, News};
use crate::cell::{Event, Queue};
use crate::cluster::far::known::{Abroad, Arrived, Asked, Far, Question};
use crate::cluster::frames::{Fields, put_run};
use crate::control::deleted::DeletedQueue;
use crate::data::batch::Handover;
use crate::refused::Refused;
use crate::services::Services;

/// Deliveries are handed to a session so many at a time.
const RUN_MAX: usize = 64;
/// Room that a consumer has made is told when it is so many bytes, or when nothing is left.
const FREED_BYTES_TOLD: u64 = 256 << 10;

impl Far {
    /// An event for a queue that lives there.
    pub(in crate::cluster) fn submit(&self, queue: &Arc<Queue>, event: Event) {
        if let Event::Resume(id) = event {
            return self.resume(queue, id);
        }
        let number = self.asked.next.fetch_add(1, Ordering::Relaxed);
        let applied = queue.services().cluster.as_ref().map_or(0, |cluster| cluster.fars().needed());
        let mut out = Asking { number, queue: queue.id.0, applied, code: code_of(&event) }.begin();
        put_question(&mut out, &event);
        // Before it goes out: the answer may be there at once.
        if let Some(question) = Question::of(queue, event, Some(&self.asked)) {
            self.asked.open.lock().insert(number, (queue.clone(), question));
        }
        self.outlet.send(frames::ASK, out.freeze());
        if self.outlet.is_closed() {
            self.give_up();
        }
    }

    /// A session can take more: first what waits here.
    fn resume(&self, queue: &Arc<Queue>, id: ConsumerId) {
        let abroad = self.asked.consumers.lock().get(&id).cloned();
        let freed = abroad.map_or(0, |abroad| abroad.hand_over(0).unwrap_or(0));
        self.tell_room(queue, id, freed);
    }

    fn tell_room(&self, queue: &Arc<Queue>, id: ConsumerId, freed_bytes: u64) {
        let number = self.asked.next.fetch_add(1, Ordering::Relaxed);
        let mut out = Asking { number, queue: queue.id.0, applied: 0, code: frames::RESUME }.begin();
        frames::put_consumer(&mut out, id);
        out.put_u64(freed_bytes);
        self.outlet.send(frames::ASK, out.freeze());
    }

    /// The other node has answered.
    pub(super) fn answered(&self, services: &Arc<Services>, answer: Bytes) -> Option<()> {
        let mut from = Fields(answer);
        let (number, is_refused) = (from.u64()?, from.u8()? != 0);
        let open = self.asked.open.lock().remove(&number);
        let Some((queue, question)) = open else { return Some(()) };
        if is_refused {
            let refused = match frames::refused(&mut from, queue.resource())? {
                Refused::HomeDown { .. } if queue.is_replicated() => {
                    question.wait_for_leader(&queue);
                    return Some(());
                }
                Refused::HomeDown { .. } => queue.home_down(),
                other => other,
            };
            self.asked.forget(&question);
            question.refuse(&queue, &refused);
            return Some(());
        }
        match question {
            Question::Publish(handover) => {
                let mut rejected = Vec::new();
                for _ in 0..from.u32()? {
                    rejected.push(from.u32()?);
                }
                answer_handover(&queue, handover, &rejected);
            }
            Question::Get(_, reply) => {
                let got = if from.u8()? == 0 { None } else { Some(frames::got(&mut from)?) };
                reply.send(Ok(got));
            }
            Question::Purge(reply) => reply.send(from.u64()?),
            Question::Counts(reply) => {
                reply.send(Ok(QueueCounts { ready: from.u64()?, consumers: from.u32()? }));
            }
            Question::Stats(reply) => reply.send(frames::stats(&mut from)?),
            Question::Delete(reply) => {
                let deleted = DeletedQueue { ready: from.u64()? };
                // When it is gone here, too.
                let told = move || reply.send(Ok(deleted));
                services.cluster.as_ref()?.when_caught_up(Box::new(told));
            }
            Question::Consume(_, reply) => reply.send(Ok(())),
            Question::Cancel(id, reply) => {
                self.put_back(id);
                reply.send(());
            }
        }
        Some(())
    }

    /// A consumer is gone: deliveries that its session has not taken go back.
    fn put_back(&self, id: ConsumerId) {
        let Some(abroad) = self.asked.consumers.lock().remove(&id) else { return };
        let waiting = std::mem::take(&mut abroad.waiting.lock().deliveries);
        let runs: Vec<_> =
            waiting.iter().map(|(seq, ..)| SettleRun { consumer: Some(id), first: *seq, count: 1 }).collect();
        abroad.queue.settle(SettleHow::Requeue, &runs);
    }

    /// A consumer is brought elsewhere.
    pub(super) fn forget_consumer(&self, id: ConsumerId) {
        let abroad = self.asked.consumers.lock().remove(&id);
        // Its session takes nothing more of this after it has been asked what it has.
        if let Some(abroad) = abroad {
            abroad.waiting.lock().end();
        }
    }

    /// Messages for a consumer of this node.
    pub(super) fn delivered(&self, message: Bytes) -> Option<()> {
        let mut from = Fields(message);
        let id = frames::consumer(&mut from)?;
        let abroad = self.asked.consumers.lock().get(&id).cloned();
        let mut deliveries = Vec::new();
        while !from.0.is_empty() {
            deliveries.push(frames::delivery(&mut from)?);
        }
        // A consumer that is gone: its home puts back what was not settled when it hears of it.
        let Some(abroad) = abroad else { return Some(()) };
        let mut waiting = abroad.waiting.lock();
        if waiting.is_cancelled {
            return Some(());
        }
        waiting.deliveries.extend(deliveries);
        drop(waiting);
        if let Some(freed) = abroad.hand_over(FREED_BYTES_TOLD) {
            self.tell_room(&abroad.queue, id, freed);
        }
        Some(())
    }

    pub(super) fn news(&self, message: Bytes) -> Option<()> {
        let mut from = Fields(message);
        let id = frames::consumer(&mut from)?;
        let news = frames::news(&mut from)?;
        let abroad = self.asked.consumers.lock().get(&id).cloned();
        let Some(abroad) = abroad else { return Some(()) };
        match news {
            News::Cancelled => {
                self.asked.consumers.lock().remove(&id);
                abroad.cancel(id.token);
            }
            News::Credit(news) => abroad.sink.credit_news(id.token, news),
        }
        Some(())
    }

    /// The link has ended: nobody will answer any more.
    pub(super) fn give_up(&self) {
        let open = std::mem::take(&mut *self.asked.open.lock());
        let consumers = std::mem::take(&mut *self.asked.consumers.lock());
        let mut open: Vec<_> = open.into_iter().collect();
        open.sort_unstable_by_key(|(number, _)| *number);
        for (_, (queue, question)) in open {
            if queue.is_replicated() {
                question.wait_for_leader(&queue);
                continue;
            }
            let refused = queue.home_down();
            question.refuse(&queue, &refused);
        }
        // Consumers of a replicated queue are brought to its next leader.
        for (id, abroad) in consumers.into_iter().filter(|(_, abroad)| !abroad.queue.is_replicated()) {
            abroad.cancel(id.token);
        }
    }
}

/// Questions that come with an event.
fn code_of(event: &Event) -> u8 {
    match event {
        Event::Publish(_) => frames::PUBLISH,
        Event::Get(..) => frames::GET,
        Event::Purge(..) => frames::PURGE,
        Event::Counts(_) => frames::COUNTS,
        Event::Stats(_) => frames::STATS,
        Event::Delete { .. } => frames::DELETE,
        Event::Consume(..) => frames::CONSUME,
        Event::Cancel(..) => frames::CANCEL,
        Event::Settle(..) => frames::SETTLE,
        Event::Credit(..) => frames::CREDIT,
        _ => frames::TOUCH,
    }
}

fn put_question(out: &mut BytesMut, event: &Event) {
    match event {
        Event::Publish(handover) => frames::put_handover(out, handover),
        Event::Get(ack_required, _) => out.put_u8(u8::from(*ack_required)),
        Event::Delete { if_unused, if_empty, by, .. } => {
            out.put_u8(u8::from(*if_unused));
            out.put_u8(u8::from(*if_empty));
            put_run(out, by.as_bytes());
        }
        Event::Consume(spec, ..) => frames::put_spec(out, spec),
        Event::Cancel(id, _) => frames::put_consumer(out, *id),
        Event::Settle(how, runs, _) => frames::put_settlement(out, *how, runs),
        Event::Credit(id, credit) => {
            frames::put_consumer(out, *id);
            frames::put_credit(out, *credit);
        }
        _ => {}
    }
}

impl Asked {
    /// A consumer that does not come to be, or is gone.
    fn forget(&self, question: &Question) {
        if let Question::Consume(id, _) | Question::Cancel(id, _) = question {
            self.consumers.lock().remove(id);
        }
    }
}

impl Question {
    /// The call that waits for an answer to an event; a new consumer is noted.
    fn of(queue: &Arc<Queue>, event: Event, asked: Option<&Asked>) -> Option<Question> {
        Some(match event {
            Event::Publish(handover) => {
                queue.sent_elsewhere(handover.batch.bytes());
                Question::Publish(handover)
            }
            Event::Get(ack_required, reply) => Question::Get(ack_required, reply),
            Event::Purge(_, reply) => Question::Purge(reply),
            Event::Counts(reply) => Question::Counts(reply),
            Event::Stats(reply) => Question::Stats(reply),
            Event::Delete { reply, .. } => Question::Delete(reply),
            Event::Consume(spec, sink, reply) => {
                let (id, channel) = (spec.id, spec.channel);
                let abroad = Abroad { queue: queue.clone(), id, channel, sink, waiting: Mutex::default() };
                if let Some(asked) = asked {
                    asked.consumers.lock().insert(spec.id, Arc::new(abroad));
                }
                Question::Consume(spec.id, reply)
            }
            Event::Cancel(id, reply) => Question::Cancel(id, reply),
            _ => return None,
        })
    }

    /// Asked again as soon as somebody leads the queue.
    fn wait_for_leader(self, queue: &Arc<Queue>) {
        let event = match self {
            Question::Publish(handover) => {
                queue.taken_elsewhere(handover.batch.bytes());
                Event::Publish(handover)
            }
            Question::Get(ack_required, reply) => Event::Get(ack_required, reply),
            Question::Purge(reply) => Event::Purge(0, reply),
            Question::Counts(reply) => Event::Counts(reply),
            Question::Stats(reply) => Event::Stats(reply),
            Question::Consume(_, reply) => return reply.send(Err(queue.home_down())),
            Question::Cancel(_, reply) => return reply.send(()),
            Question::Delete(reply) => return reply.send(Err(queue.home_down())),
        };
        queue.hold_for_leader(event);
    }

    fn refuse(self, queue: &Arc<Queue>, refused: &Refused) {
        match self {
            Question::Publish(handover) => {
                let all: Vec<u32> = match refused {
                    // A queue that is gone has taken them, as on one node.
                    Refused::NotFound(_) => Vec::new(),
                    _ => (0..handover.picks.len() as u32).collect(),
                };
                answer_handover(queue, handover, &all);
            }
            Question::Get(_, reply) => reply.send(Err(refused.clone())),
            Question::Purge(reply) => reply.send(0),
            Question::Counts(reply) => reply.send(Err(refused.clone())),
            Question::Stats(reply) => reply.send(QueueStats::default()),
            Question::Delete(reply) => match refused {
                Refused::NotFound(_) => reply.send(Ok(DeletedQueue { ready: 0 })),
                _ => reply.send(Err(refused.clone())),
            },
            Question::Consume(_, reply) => reply.send(Err(refused.clone())),
            Question::Cancel(_, reply) => reply.send(()),
        }
    }
}

/// An event for a queue whose home is not linked.
pub(in crate::cluster) fn refuse(queue: &Arc<Queue>, event: Event) {
    if let Some(question) = Question::of(queue, event, None) {
        question.refuse(queue, &queue.home_down());
    }
}

impl Abroad {
    /// Gives the session what it can take. Returns the bytes to tell the home, if they are enough.
    fn hand_over(&self, enough_bytes: u64) -> Option<u64> {
        let mut waiting = self.waiting.lock();
        loop {
            let run: Vec<Delivery<'_>> = waiting
                .deliveries
                .iter()
                .take(RUN_MAX)
                .map(|(seq, redelivered, carried)| Delivery {
                    seq: *seq,
                    redelivered: *redelivered,
                    message: carried.view(),
                    annotations: carried.annotations(),
                })
                .collect();
            let count = run.len();
            if count == 0 {
                break;
            }
            let taken = self.sink.deliver(self.id.token, &run);
            if self.queue.place.trace.is_on() {
                self.queue.trace_delivered(self.id, self.channel, &run[..taken]);
            }
            drop(run);
            let freed: usize = waiting.deliveries.drain(..taken).map(|(.., carried)| carried.bytes()).sum();
            waiting.freed_bytes += freed as u64;
            if taken < count {
                break;
            }
        }
        let is_told = waiting.freed_bytes >= enough_bytes || waiting.deliveries.is_empty();
        is_told.then(|| std::mem::take(&mut waiting.freed_bytes))
    }

    fn cancel(&self, token: u32) {
        let is_first = self.waiting.lock().end();
        if is_first {
            self.sink.cancelled(token);
        }
    }
}

impl Arrived {
    /// Its session gets nothing more of this. Returns whether that is new.
    fn end(&mut self) -> bool {
        self.deliveries.clear();
        !std::mem::replace(&mut self.is_cancelled, true)
    }
}

/// Tells the publishers of a handover what became of it: some of its messages are refused.
fn answer_handover(queue: &Arc<Queue>, mut handover: Handover, rejected: &[u32]) {
    queue.taken_elsewhere(handover.batch.bytes());
    let Some(confirms) = handover.confirms.take() else { return };
    let count = handover.picks.len() as u32;
    if confirms.are_of_letters() && rejected.len() as u32 == count {
        confirms.reject_all();
    } else {
        for nth in rejected.iter().filter(|nth| **nth < count) {
            let (group, publish) = handover.batch.place(handover.picks.nth(*nth));
            confirms.reject(group, publish);
        }
    }
    if confirms.answered(0) {
        queue.services().confirm_when_durable(&confirms);
    }
}
