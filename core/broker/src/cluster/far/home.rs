//! The side of the node that has the messages: requests of another node to queues here, and its consumers.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Weak};

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use queues::{ConsumerId, CreditNews, Delivery, MessageSeq, SettleHow, SettleRun};
use stdx::QueueId;

use super::frames::{Asking, News};
use super::{frames, replicas};
use crate::call::Call;
use crate::cell::{Event, Queue};
use crate::cluster::awaited::Awaited;
use crate::cluster::far::known::{Far, Guest};
use crate::cluster::frames::Fields;
use crate::cluster::name::NodeName;
use crate::data::batch::{BatchConfirms, Handover, Picks};
use crate::data::confirms::{ConfirmRange, ConfirmSink};
use crate::data::consume::ConsumerSink;
use crate::refused::Refused;
use crate::services::Services;

/// Bytes of deliveries on their way to one consumer of another node.
const WINDOW_BYTES: i64 = 1 << 20;

impl ConsumerSink for Guest {
    fn deliver(&self, _token: u32, run: &[Delivery<'_>]) -> usize {
        let Some(far) = self.far.upgrade() else { return 0 };
        let mut room = self.room_bytes.lock();
        let weight = |it: &Delivery<'_>| frames::carried_bytes(&it.message, it.annotations);
        let mut out = BytesMut::with_capacity(64 + run.iter().map(weight).sum::<usize>());
        frames::put_consumer(&mut out, self.id);
        let mut taken = 0;
        for delivery in run {
            if *room <= 0 {
                break;
            }
            *room -= frames::carried_bytes(&delivery.message, delivery.annotations) as i64;
            frames::put_delivery(&mut out, delivery);
            taken += 1;
        }
        if taken == 0 {
            return 0;
        }
        if self.ack_required {
            let mut unsettled = far.guests.unsettled.lock();
            let held = unsettled.entry((self.queue, Some(self.id))).or_default();
            run[..taken].iter().for_each(|delivery| held.insert(delivery.seq.0..delivery.seq.0 + 1));
        }
        far.outlet.send(frames::DELIVER, out.freeze());
        taken
    }

    fn credit_news(&self, _token: u32, news: CreditNews) {
        self.tell(News::Credit(news));
    }

    fn cancelled(&self, _token: u32) {
        if let Some(far) = self.far.upgrade() {
            far.guests.consumers.lock().remove(&self.id);
        }
        self.tell(News::Cancelled);
    }
}

impl Guest {
    fn tell(&self, news: News) {
        let Some(far) = self.far.upgrade() else { return };
        let mut out = BytesMut::new();
        frames::put_consumer(&mut out, self.id);
        frames::put_news(&mut out, news);
        far.outlet.send(frames::NEWS, out.freeze());
    }
}

/// Sends the confirms of a handover back.
struct HandedOver {
    far: Weak<Far>,
    number: u64,
    queue: Weak<Queue>,
    count: u32,
}

impl ConfirmSink for HandedOver {
    fn confirmed(&self, range: ConfirmRange) {
        let Some(far) = self.far.upgrade() else { return };
        let is_given_up = range.rejected.len() == self.count as usize
            && self.queue.upgrade().is_some_and(|queue| queue.is_replicated() && queue.is_elsewhere());
        if is_given_up {
            // Another node leads: the other node hands over there again, and messages that are there already are taken once.
            return far.outlet.send(frames::ANSWER, no(self.number, &frames::not_ready()));
        }
        let mut out = ok(self.number);
        out.put_u32(range.rejected.len() as u32);
        range.rejected.iter().for_each(|publish| out.put_u32((*publish - 1) as u32));
        far.outlet.send(frames::ANSWER, out.freeze());
    }
}

fn run_of(consumer: Option<ConsumerId>, numbers: Range<u64>) -> SettleRun {
    // Deliveries of one client are fewer than that.
    let count = u32::try_from(numbers.end - numbers.start).unwrap_or(u32::MAX);
    SettleRun { consumer, first: MessageSeq(numbers.start), count }
}

fn ok(number: u64) -> BytesMut {
    let mut out = BytesMut::with_capacity(32);
    out.put_u64(number);
    out.put_u8(0);
    out
}

fn no(number: u64, refused: &Refused) -> Bytes {
    let mut out = BytesMut::with_capacity(32);
    out.put_u64(number);
    out.put_u8(1);
    frames::put_refused(&mut out, refused);
    out.freeze()
}

impl Far {
    /// Something is asked of a queue here.
    pub(super) fn asked_by(self: &Arc<Self>, services: &Arc<Services>, message: Bytes) -> Option<()> {
        let asking = Asking::read(&mut Fields(message.clone()))?;
        *self.guests.services.lock() = Arc::downgrade(services);
        let mut early = self.guests.early.lock();
        // Under the lock: the bringer of a newer view looks here afterwards.
        let applied = services.cluster.as_ref().map_or(0, |cluster| cluster.view().applied);
        let queue = services.queue_by_id(QueueId(asking.queue));
        // A queue that this node has led before may have another epoch by now: members wait for that, too.
        let is_here =
            queue.is_some_and(|queue| !queue.is_elsewhere()) && !replicas::is_of_members(asking.code);
        if !early.is_empty() || (!is_here && asking.applied > applied) {
            early.push_back((asking.applied, message));
            return Some(());
        }
        drop(early);
        self.ask_here(services, message)
    }

    /// More of the metadata is applied.
    pub(super) fn try_again(self: &Arc<Self>, services: &Arc<Services>, applied: u64) {
        loop {
            let early = self.guests.early.lock();
            let Some((_, message)) = early.front().filter(|(needed, _)| *needed <= applied) else { return };
            let message = message.clone();
            // Removed afterwards: events that come meanwhile stay behind it.
            drop(early);
            let _unreadable = self.ask_here(services, message);
            self.guests.early.lock().pop_front();
        }
    }

    /// Something is asked before this node's queues are there.
    pub(super) fn not_ready(&self, message: Bytes) -> Option<()> {
        let asking = Asking::read(&mut Fields(message))?;
        if asking.has_answer() {
            self.outlet.send(frames::ANSWER, no(asking.number, &frames::not_ready()));
        }
        Some(())
    }

    fn ask_here(self: &Arc<Self>, services: &Arc<Services>, message: Bytes) -> Option<()> {
        let mut from = Fields(message);
        let asking = Asking::read(&mut from)?;
        let number = asking.number;
        let found = services.queue_by_id(QueueId(asking.queue));
        if let Some(queue) = found.as_ref().filter(|_| replicas::is_of_members(asking.code)) {
            return self.told_by_member(queue, asking.code, &mut from);
        }
        let Some(queue) = found.as_ref().filter(|queue| !queue.is_elsewhere()) else {
            self.refuse_stray(&asking, found.as_deref());
            return Some(());
        };
        match asking.code {
            frames::PUBLISH => self.take_handover(queue, number, &mut from),
            frames::GET => self.take_get(queue, number, from.u8()? != 0),
            frames::PURGE => {
                let (reply, call) = Call::pair();
                queue.submit_here_one(Event::Purge(0, reply));
                self.answer_with(call, number, |out, purged| out.put_u64(*purged));
                Some(())
            }
            frames::COUNTS => {
                self.answer_result(queue.counts(), number, |out, counts| {
                    out.put_u64(counts.ready);
                    out.put_u32(counts.consumers);
                });
                Some(())
            }
            frames::STATS => {
                self.answer_with(queue.stats(), number, frames::put_stats);
                Some(())
            }
            frames::DELETE => {
                let (if_unused, if_empty, by) = (from.u8()? != 0, from.u8()? != 0, from.run()?);
                let by = String::from_utf8_lossy(&by).into();
                let (reply, call) = Call::pair();
                queue.submit_here_one(Event::Delete { if_unused, if_empty, reply, by });
                self.answer_result(call, number, |out, deleted| out.put_u64(deleted.ready));
                Some(())
            }
            frames::CONSUME => self.take_consumer(queue, number, &mut from),
            frames::CANCEL => {
                let id = frames::consumer(&mut from)?;
                self.guests.consumers.lock().remove(&id);
                let (reply, call) = Call::pair();
                queue.submit_here_one(Event::Cancel(id, reply));
                self.answer_with(call, number, |_, ()| {});
                Some(())
            }
            frames::SETTLE => self.take_settlement(queue, &mut from),
            frames::RESUME => {
                let (id, freed) = (frames::consumer(&mut from)?, from.u64()?);
                if let Some((_, guest)) = self.guests.consumers.lock().get(&id) {
                    *guest.room_bytes.lock() += freed as i64;
                }
                queue.resume(id);
                Some(())
            }
            frames::CREDIT => {
                let id = frames::consumer(&mut from)?;
                queue.credit(id, frames::credit(&mut from)?);
                Some(())
            }
            frames::TOUCH => {
                queue.submit_here_one(Event::Touch);
                Some(())
            }
            _ => None,
        }
    }

    /// Something is asked of a queue that is not here, or does not lead here any more: the asker looks for the next leader then.
    fn refuse_stray(&self, asking: &Asking, found: Option<&Queue>) {
        let refused = match found {
            Some(queue) if queue.is_replicated() => frames::not_ready(),
            _ => Refused::NotFound(crate::Resource::queue("", b"")),
        };
        if asking.has_answer() {
            self.outlet.send(frames::ANSWER, no(asking.number, &refused));
        }
    }

    fn take_handover(self: &Arc<Self>, queue: &Arc<Queue>, number: u64, from: &mut Fields) -> Option<()> {
        let (batch, count, id) = frames::handover(from)?;
        let (far, of) = (Arc::downgrade(self), Arc::downgrade(queue));
        let sink: Arc<dyn ConfirmSink> = Arc::new(HandedOver { far, number, queue: of, count });
        let mut confirms = BatchConfirms::new();
        let group = confirms.group_of(&sink, 1);
        confirms.numbered(group, count.into());
        // The only answer is the queue's.
        let picks = Picks::Range { first: 0, count };
        let handover = Handover { id, batch: Arc::new(batch), picks, confirms: Some(Arc::new(confirms)) };
        queue.count_incoming(&handover);
        queue.submit_here_one(Event::Publish(handover));
        Some(())
    }

    fn take_get(self: &Arc<Self>, queue: &Arc<Queue>, number: u64, ack_required: bool) -> Option<()> {
        let (reply, call) = Call::pair();
        queue.submit_here_one(Event::Get(ack_required, reply));
        let (far, holder) = (Arc::downgrade(self), (queue.id, None));
        self.answer_result(call, number, move |out, got| {
            out.put_u8(u8::from(got.is_some()));
            let Some(got) = got else { return };
            if let Some(far) = far.upgrade().filter(|_| ack_required) {
                far.guests.unsettled.lock().entry(holder).or_default().insert(got.seq.0..got.seq.0 + 1);
            }
            frames::put_got(out, got);
        });
        Some(())
    }

    fn take_consumer(self: &Arc<Self>, queue: &Arc<Queue>, number: u64, from: &mut Fields) -> Option<()> {
        let spec = frames::spec(from)?;
        let guest = Arc::new(Guest {
            far: Arc::downgrade(self),
            queue: queue.id,
            id: spec.id,
            ack_required: spec.ack_required,
            room_bytes: Mutex::new(WINDOW_BYTES),
        });
        self.guests.consumers.lock().insert(spec.id, (queue.clone(), guest.clone()));
        let (reply, call) = Call::pair();
        let (far, id) = (Arc::downgrade(self), spec.id);
        queue.submit_here_one(Event::Consume(Box::new(spec), guest, reply));
        let outlet = self.clone();
        Awaited::begin(call, move |answer| match answer {
            Ok(()) => outlet.outlet.send(frames::ANSWER, ok(number).freeze()),
            Err(refused) => {
                if let Some(far) = far.upgrade() {
                    far.guests.consumers.lock().remove(&id);
                }
                outlet.outlet.send(frames::ANSWER, no(number, &refused));
            }
        });
        Some(())
    }

    /// Settles those of these that its clients have: a late settlement does not settle another client's delivery.
    fn take_settlement(&self, queue: &Arc<Queue>, from: &mut Fields) -> Option<()> {
        let (how, runs) = frames::settlement(from)?;
        let mut theirs = Vec::with_capacity(runs.len());
        let mut unsettled = self.guests.unsettled.lock();
        for run in &runs {
            let holder = (queue.id, run.consumer);
            let Some(held) = unsettled.get_mut(&holder) else { continue };
            held.remove(run.first.0..run.first.0.saturating_add(run.count.into()), |numbers| {
                theirs.push(run_of(run.consumer, numbers));
            });
            if held.is_empty() {
                unsettled.remove(&holder);
            }
        }
        drop(unsettled);
        queue.settle_here(how, &theirs);
        Some(())
    }

    /// A client of the other node has these since before this node led, unless the queue does not grant them. A settlement of them from now
    /// on comes to the queue behind its claim. Gives those that are new: the other node may claim twice. Nothing is noted of another epoch.
    pub(super) fn note_claimed(
        &self,
        queue: &Queue,
        epoch: u32,
        consumer: Option<ConsumerId>,
        numbers: &[Range<u64>],
    ) -> Vec<Range<u64>> {
        let mut unsettled = self.guests.unsettled.lock();
        // Under the lock: at the end of an epoch its notes are forgotten afterwards.
        if !queue.leads_in(epoch) {
            return Vec::new();
        }
        let held = unsettled.entry((queue.id, consumer)).or_default();
        let mut new = Vec::new();
        for claimed in numbers {
            let mut from = claimed.start;
            held.remove(claimed.clone(), |known| {
                new.extend((from < known.start).then_some(from..known.start));
                from = known.end;
            });
            new.extend((from < claimed.end).then_some(from..claimed.end));
            held.insert(claimed.clone());
        }
        new
    }

    /// The queue has not granted these.
    pub(in crate::cluster) fn forget_claimed(
        &self,
        queue: QueueId,
        consumer: Option<ConsumerId>,
        numbers: &[Range<u64>],
    ) {
        let mut unsettled = self.guests.unsettled.lock();
        let Some(held) = unsettled.get_mut(&(queue, consumer)) else { return };
        numbers.iter().for_each(|numbers| held.remove(numbers.clone(), |_| {}));
        if held.is_empty() {
            unsettled.remove(&(queue, consumer));
        }
    }

    /// This node does not lead a queue any more: clients of the other node claim their messages from the next leader.
    pub(in crate::cluster) fn forget_unsettled(&self, queue: QueueId) {
        self.guests.unsettled.lock().retain(|(of, _), _| *of != queue);
    }

    fn answer_with<T: Unpin + Send + 'static>(
        self: &Arc<Self>,
        call: Call<T>,
        number: u64,
        put: impl Fn(&mut BytesMut, &T) + Send + Sync + 'static,
    ) {
        let far = self.clone();
        Awaited::begin(call, move |answer| {
            let mut out = ok(number);
            put(&mut out, &answer);
            far.outlet.send(frames::ANSWER, out.freeze());
        });
    }

    fn answer_result<T: Unpin + Send + 'static>(
        self: &Arc<Self>,
        call: Call<Result<T, Refused>>,
        number: u64,
        put: impl Fn(&mut BytesMut, &T) + Send + Sync + 'static,
    ) {
        let far = self.clone();
        Awaited::begin(call, move |answer| {
            let answer = match answer {
                Ok(answer) => {
                    let mut out = ok(number);
                    put(&mut out, &answer);
                    out.freeze()
                }
                Err(refused) => no(number, &refused),
            };
            far.outlet.send(frames::ANSWER, answer);
        });
    }

    /// The link has ended: consumers of the other node leave. What they had goes back, unless they may come again for it.
    pub(super) fn leave(&self, may_return: bool) {
        let consumers = std::mem::take(&mut *self.guests.consumers.lock());
        let mut queues: HashMap<QueueId, Arc<Queue>> = HashMap::new();
        for (id, (queue, _)) in consumers {
            // Not at another leader: there the other node has its consumers itself.
            let (reply, call) = Call::pair();
            queue.submit_here_one(Event::Cancel(id, reply));
            drop(call);
            queues.insert(queue.id, queue);
        }
        self.guests.early.lock().clear();
        let unsettled = std::mem::take(&mut *self.guests.unsettled.lock());
        for ((queue, consumer), held) in unsettled {
            let Some(queue) = queues.get(&queue).cloned().or_else(|| self.queue_here(queue)) else {
                continue;
            };
            if may_return && queue.keep_for_absent(self.to(), consumer, &held) {
                continue;
            }
            let runs: Vec<_> = held.iter().map(|numbers| run_of(consumer, numbers)).collect();
            queue.settle_here(SettleHow::Requeue, &runs);
        }
    }

    /// The other node.
    pub(in crate::cluster) fn to(&self) -> &NodeName {
        self.outlet.to()
    }

    fn queue_here(&self, queue: QueueId) -> Option<Arc<Queue>> {
        self.guests.services.lock().upgrade()?.queue_by_id(queue)
    }
}
