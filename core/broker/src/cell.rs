//! The queue cell: an inbox of event batches and a pure machine behind a lock that is only ever tried.
//!
//! Whoever brings an event and gets the lock runs the machine until the inbox is empty; whoever does not get it leaves
//! the event and goes. Nobody waits. Effects on other queues (dead letters) and on metadata (auto-delete) run after the
//! cell is released. A panic of the machine ends the service of its queue and of nothing else (`cell/crash.rs`).

pub(crate) mod crash;
pub(crate) mod examine;
pub(crate) mod place;
mod reload;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
mod waiting;
pub(crate) mod watch;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use metadata::{Arguments, QueueRecord};
use parking_lot::{Mutex, RwLock};
use platform::profile;
use queues::{
    BlockPlace, BlockToken, Classic, ConsumerId, ConsumerSpec, GetToken, GotMessage, MessageSeq, Order,
    QueueCounts, QueueStats, Scheduled, SettleHow, SettleRun, SettledRun,
};
use smallvec::SmallVec;
use stdx::{ConnectionId, QueueId};

use crate::call::Reply;
use crate::control::queues::DeletedQueue;
use crate::data::batch::Handover;
use crate::data::consume::ConsumerSink;
use crate::data::dead_letter::{self, DeadLetter};
use crate::data::delayed;
use crate::effects::{Aftermath, CellEffects};
use crate::pacing::{self, Hold, Pacing};
use crate::refused::{Refused, Resource};
use crate::services::Services;
use crate::stages::{Began, QueueKind, Stage};
use crash::{Condition, ConditionCell};
use examine::Examined;
use place::Place;
use reload::Reloads;
use settings::Terms;
use waiting::Waiting;
use watch::Watch;

/// Bytes of publishes waiting in an inbox above which publishers stop reading their sockets.
const INBOX_BYTES_MAX: usize = 4 << 20;

/// For how long a visitor runs the machine beyond the first round before the rest goes to the background: the visitor is a thread that
/// others wait for.
const TURN_NS_MAX: u64 = 2_000_000;

/// Rounds one visitor drains before the rest goes to the background: no publisher is captured.
const ROUNDS_MAX: usize = 16;

/// Queues that run each other by dead letters before the rest goes to the background: chains of queues do not grow the
/// stack.
const NESTED_MAX: u32 = 4;

thread_local! {
    /// Queues whose aftermath this thread is in.
    static NESTED: Cell<u32> = const { Cell::new(0) };
}

/// One level of [`NESTED`] while it lives.
struct Nested;

impl Nested {
    fn enter() -> Nested {
        NESTED.set(NESTED.get() + 1);
        Nested
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        NESTED.set(NESTED.get() - 1);
    }
}

/// A queue at run time. Most of very many queues are idle: what it was declared with is the metadata's record itself, and what
/// only a used queue needs is not there before it is used.
pub struct Queue {
    pub(crate) id: QueueId,
    pub(crate) record: Arc<QueueRecord>,
    pub(crate) place: Arc<Place>,
    order: Order,
    /// What it goes by; policies change it.
    terms: RwLock<Terms>,
    inbox: Mutex<Vec<Event>>,
    inbox_bytes: AtomicUsize,
    /// Until when publishers are held back for consumers.
    hold: Hold,
    /// Publishers that wait for room in the inbox, or are held back; dead letters that are to be sent.
    waiting: Waiting,
    /// `None` while it is as if it had just been declared.
    pub(crate) state: Mutex<Option<Box<CellState>>>,
    /// Log position of the oldest record needed; 0 when none. Read by the checkpointer.
    oldest_log: AtomicU64,
    /// Bytes that a checkpoint would write, about.
    state_bytes: AtomicU32,
    condition: ConditionCell,
    reloads: Reloads,
    /// The next record that the machine appends makes it panic.
    #[cfg(test)]
    pub(crate) fails_next: std::sync::atomic::AtomicBool,
}

/// What came of an attempt to run the machine.
enum Turn {
    /// Nothing had come.
    Idle,
    /// What is left to be done now that the cell is released.
    Worked(Aftermath),
}

/// What only the one who runs the machine touches.
pub(crate) struct CellState {
    pub(crate) machine: Classic,
    /// Has joined the node's [`crate::memory_shares::MemoryShares`].
    pub(crate) is_holder: bool,
    pacing: Pacing,
    /// When the latest tick comes that was asked for to let held publishers go on.
    held_tick_ms: u64,
    watch: Watch,
    sinks: HashMap<ConsumerId, Attached, foldhash::fast::RandomState>,
    gets: HashMap<GetToken, GetReply, foldhash::fast::RandomState>,
    next_get: u64,
    checkpoints: Vec<Reply<()>>,
    is_reloading: bool,
    /// Consumers since the queue came back from a crash; `None` if it never crashed.
    since_reload: Option<HashSet<ConsumerId>>,
}

/// A consumer as its cell knows it.
pub(crate) struct Attached {
    pub(crate) sink: Arc<dyn ConsumerSink>,
    pub(crate) channel: u16,
    pub(crate) tag: Box<[u8]>,
}

/// Who asked for a message, and how.
pub(crate) struct GetReply {
    pub(crate) reply: Reply<Result<Option<GotMessage>, Refused>>,
    pub(crate) ack_required: bool,
}

/// What can happen to a queue.
pub(crate) enum Event {
    Publish(Handover),
    Settle(SettleHow, SmallVec<[SettleRun; 4]>, Began),
    Consume(Box<ConsumerSpec>, Arc<dyn ConsumerSink>, Reply<Result<(), Refused>>),
    Cancel(ConsumerId, Reply<()>),
    Resume(ConsumerId),
    Get(bool, Reply<Result<Option<GotMessage>, Refused>>),
    Purge(Reply<u64>),
    Counts(Reply<Result<QueueCounts, Refused>>),
    Touch,
    /// Other policies apply to it, or they say something else.
    Reconfigure,
    /// Others need memory, too: what is beyond its share goes to disk.
    ShareMemory,
    Stats(Reply<QueueStats>),
    Examine(Reply<Examined>),
    Tick,
    BlockWritten(BlockToken, Option<BlockPlace>),
    BlockRead(BlockToken, Option<Vec<u8>>),
    /// Whether they could be made durable.
    BlocksSynced(bool),
    /// Letters of these messages are safe where they went.
    LettersTaken(Vec<SettledRun>),
    Checkpoint(u64, Reply<()>),
    /// What waits in the store of a delayed exchange, so many at most.
    Scheduled(usize, Reply<Vec<Scheduled>>),
    /// Drops a message that waits; answers whether there was one.
    DropScheduled(MessageSeq, Reply<bool>),
    Delete {
        if_unused: bool,
        if_empty: bool,
        reply: Reply<Result<DeletedQueue, Refused>>,
        /// Whose doing it is.
        by: Box<str>,
    },
    /// The metadata say it is deleted.
    Close,
    /// A crashed queue was read back from the disk.
    Reloaded(Box<Classic>),
    /// Taken over by what will answer it.
    Handled,
}

impl CellState {
    fn new(machine: Classic) -> CellState {
        CellState {
            machine,
            is_holder: false,
            pacing: Pacing::default(),
            held_tick_ms: 0,
            watch: Watch::default(),
            sinks: HashMap::default(),
            gets: HashMap::default(),
            next_get: 0,
            checkpoints: Vec::new(),
            is_reloading: false,
            since_reload: None,
        }
    }

    /// Its own bytes and all that hang on it.
    fn heap_bytes(&self) -> usize {
        let tags = self.sinks.values().map(|attached| attached.tag.len()).sum::<usize>();
        size_of::<CellState>()
            + self.machine.heap_bytes()
            + self.sinks.capacity() * (size_of::<(ConsumerId, Attached)>() + 1)
            + tags
    }

    /// Whether nothing would be lost by making it anew when it is needed.
    fn is_as_new(&self) -> bool {
        self.machine.is_as_new()
            && self.sinks.is_empty()
            && self.gets.is_empty()
            && self.checkpoints.is_empty()
            && !self.is_reloading
            && self.since_reload.is_none()
    }
}

impl Queue {
    /// A cell around a machine; without one the queue is empty, and gets one when it is used.
    pub(crate) fn new(
        record: Arc<QueueRecord>,
        terms: Terms,
        machine: Option<Classic>,
        place: Arc<Place>,
    ) -> Arc<Queue> {
        let machine = machine.filter(|machine| !machine.is_as_new());
        let oldest_log = AtomicU64::new(machine.as_ref().map_or(0, Classic::oldest_log_position));
        let state_bytes = AtomicU32::new(machine.as_ref().map_or(0, Classic::state_bytes));
        if terms.config.deduplicates {
            place.services.has_unique_queues.store(true, Ordering::Relaxed);
        }
        Arc::new(Queue {
            id: record.id,
            record,
            place,
            order: terms.config.order,
            terms: RwLock::new(terms),
            inbox: Mutex::new(Vec::new()),
            inbox_bytes: AtomicUsize::new(0),
            waiting: Waiting::default(),
            hold: Hold::default(),
            state: Mutex::new(machine.map(|machine| Box::new(CellState::new(machine)))),
            oldest_log,
            state_bytes,
            condition: ConditionCell::running(),
            reloads: Reloads::new(),
            #[cfg(test)]
            fails_next: std::sync::atomic::AtomicBool::new(false),
        })
    }

    /// Its number, unique for ever in a data directory.
    pub fn id(&self) -> QueueId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.record.name
    }

    /// The vhost it is in.
    pub fn vhost_name(&self) -> &str {
        &self.place.vhost_name
    }

    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.place.services
    }

    /// Survives a restart.
    pub fn is_durable(&self) -> bool {
        self.record.durable
    }

    /// Goes with its last consumer.
    pub fn is_auto_delete(&self) -> bool {
        self.record.auto_delete
    }

    /// The connection it belongs to, if it is exclusive.
    pub fn exclusive_owner(&self) -> Option<ConnectionId> {
        self.record.exclusive_owner
    }

    /// Arguments as declared.
    pub fn arguments(&self) -> &Arguments {
        &self.record.arguments
    }

    /// Whether it is the store of a delayed exchange.
    pub(crate) fn is_store(&self) -> bool {
        self.order == Order::Due
    }

    /// What kind it is, for measurements.
    pub(crate) fn kind(&self) -> QueueKind {
        if self.is_store() { QueueKind::Delayed } else { QueueKind::Classic }
    }

    /// The disk was asked for something that it answers with an event.
    pub(crate) fn disk_asked(&self) {
        self.reloads.disk_asked();
    }

    /// Whether it can be used.
    pub fn condition(&self) -> Condition {
        self.condition.get()
    }

    /// Whether it is deleted or out of service.
    pub fn is_closed(&self) -> bool {
        self.condition() != Condition::Running
    }

    pub(crate) fn resource(&self) -> Resource {
        Resource::queue(self.vhost_name(), self.name())
    }

    /// Log position of the oldest record needed; 0 when none.
    pub(crate) fn oldest_log_position(&self) -> u64 {
        self.oldest_log.load(Ordering::Acquire)
    }

    /// Bytes that its part of a checkpoint takes up in the log, about; 0 when the log holds nothing of it.
    pub(crate) fn alive_log_bytes(&self) -> u64 {
        if self.oldest_log_position() == 0 {
            return 0;
        }
        u64::from(self.state_bytes.load(Ordering::Relaxed)) + commitlog::RECORD_HEADER_BYTES as u64
    }

    /// A record that ends at `position` was appended: the log is needed from there, whatever comes of the machine.
    pub(crate) fn appended(&self, position: u64) {
        if self.oldest_log.load(Ordering::Relaxed) == 0 {
            self.oldest_log.store(position, Ordering::Release);
        }
    }

    /// Whether publishers should wait before handing over more.
    pub(crate) fn is_over_bound(&self) -> bool {
        self.is_inbox_full() || self.hold.is_on(|| self.services().clock.now().0)
    }

    /// Whether too much waits to be taken.
    pub(crate) fn is_inbox_full(&self) -> bool {
        self.inbox_bytes.load(Ordering::Relaxed) > INBOX_BYTES_MAX
    }

    /// Wakes a publisher when the inbox was emptied.
    pub(crate) fn wake_when_taken(&self, waker: &Waker) {
        self.waiting.add_publisher(waker.clone());
    }

    /// Brings an event; runs the machine if nobody else does.
    pub(crate) fn submit(self: &Arc<Self>, event: Event) {
        if let Event::Publish(handover) = &event {
            self.inbox_bytes.fetch_add(handover.batch.bytes(), Ordering::Relaxed);
        }
        self.inbox.lock().push(event);
        if NESTED.get() < NESTED_MAX {
            self.run();
        } else {
            self.services().run_later(self.clone());
        }
    }

    /// Brings an event without running the machine: from threads that must not, such as the log's.
    pub(crate) fn submit_later(self: &Arc<Self>, event: Event) {
        self.inbox.lock().push(event);
        self.services().run_later(self.clone());
    }

    /// Forgets what nobody has taken from the inbox, and consumers: at the end, when nothing runs any more.
    pub(crate) fn abandon(&self) {
        let (events, state) = (std::mem::take(&mut *self.inbox.lock()), self.state.lock().take());
        drop((events, state));
    }

    /// Bytes of memory: of the cell with the machine's own structures, and of messages.
    pub(crate) fn held_bytes(self: &Arc<Self>) -> (usize, usize) {
        let bytes = match &*self.state.lock() {
            None => (self.fixed_bytes(), 0),
            Some(state) => {
                let resident = state.machine.glance(0).memory_bytes as usize;
                (self.fixed_bytes() + state.heap_bytes() - resident, resident)
            }
        };
        self.run();
        bytes
    }

    /// What listings show, with the memory of the cell.
    fn stats_of(&self, machine: &Classic, now_ms: u64) -> QueueStats {
        let mut stats = machine.stats(now_ms);
        // A machine that is as new was made for this question.
        let used = if machine.is_as_new() { 0 } else { stats.memory_bytes + size_of::<CellState>() as u64 };
        stats.memory_bytes = used + self.fixed_bytes() as u64;
        stats
    }

    /// Bytes of the queue whether it is used or not, without its record, which belongs to the metadata.
    fn fixed_bytes(&self) -> usize {
        const COUNTS_BYTES: usize = 2 * size_of::<usize>();
        size_of::<Queue>() + COUNTS_BYTES + self.terms.read().heap_bytes()
    }

    /// Reads something from the machine; what came meanwhile is done afterwards.
    pub(crate) fn read_machine<T>(self: &Arc<Self>, read: impl FnOnce(&Classic, u64) -> T) -> T {
        let now_ms = self.services().now_ms();
        let value = match &*self.state.lock() {
            Some(state) => read(&state.machine, now_ms),
            None => read(&self.new_state(now_ms).machine, now_ms),
        };
        // Whoever brought an event while this thread had the lock left it here.
        self.run();
        value
    }

    /// Runs the machine until the inbox is empty, somebody else runs it, or enough is done.
    pub(crate) fn run(self: &Arc<Self>) {
        let _profiled = profile::enter_queue(self.id.0);
        let mut end_ns = u64::MAX;
        for round in 0..ROUNDS_MAX {
            if round > 0 && self.is_turn_over(&mut end_ns) {
                break;
            }
            let Some(turn) = self.turn() else { return };
            let has_sent = self.send_letters();
            match turn {
                Turn::Worked(aftermath) => self.contained(|| aftermath.apply(self)),
                // An event may have come after the look and before the unlock, its bringer finding the lock taken.
                Turn::Idle if !has_sent && self.inbox.lock().is_empty() => return,
                Turn::Idle => {}
            }
            if !self.is_over_bound() {
                self.waiting.take_publishers().into_iter().for_each(Waker::wake);
            }
        }
        self.services().run_later(self.clone());
    }

    /// Runs the machine once with all that has come; `None` when somebody else has the lock, who looks again afterwards.
    fn turn(self: &Arc<Self>) -> Option<Turn> {
        let mut held = self.state.try_lock()?;
        let events = std::mem::take(&mut *self.inbox.lock());
        if events.is_empty() {
            return Some(Turn::Idle);
        }
        let mut aftermath = Aftermath::default();
        let now_ms = self.services().now_ms();
        let state = held.get_or_insert_with(|| self.new_state(now_ms));
        state.machine.share_memory(self.services().memory_shares().bytes());
        for mut event in events {
            self.handle_contained(state, &mut event, now_ms, &mut aftermath);
        }
        if self.condition() == Condition::Running {
            self.oldest_log.store(state.machine.oldest_log_position(), Ordering::Release);
            self.state_bytes.store(state.machine.state_bytes(), Ordering::Relaxed);
        }
        self.note_held_bytes(state);
        self.pace(state);
        self.watch(state, now_ms);
        if state.is_as_new() {
            *held = None;
        }
        // While nobody else can run the machine: letters leave in the order in which they died.
        self.post_letters(aftermath.take_letters());
        Some(Turn::Worked(aftermath))
    }

    fn post_letters(&self, letters: Vec<DeadLetter>) {
        if letters.is_empty() {
            return;
        }
        self.inbox_bytes.fetch_add(dead_letter::bytes(&letters), Ordering::Relaxed);
        if self.waiting.post(letters) {
            self.services().letters_out.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Sends the letters that wait, unless another thread is at it: it looks again when it has done so.
    fn send_letters(self: &Arc<Self>) -> bool {
        let Some(letters) = self.waiting.take_letters() else { return false };
        let bytes = dead_letter::bytes(&letters);
        self.contained(|| dead_letter::send(self, letters));
        self.inbox_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if self.waiting.sent() {
            self.services().letters_out.fetch_sub(1, Ordering::AcqRel);
        }
        true
    }

    /// What a turn asked for, on the way to other queues: a panic there is not the machine's.
    fn contained(&self, aftermath: impl FnOnce()) {
        let _nested = Nested::enter();
        if let Err(why) = crash::contained(aftermath) {
            tracing::error!(queue = %String::from_utf8_lossy(self.name()), why, "what a queue asked for was not done");
        }
    }

    /// Whether a visitor that has run the machine once has done enough; the first question sets the end.
    fn is_turn_over(&self, end_ns: &mut u64) -> bool {
        let now_ns = self.services().clock.now().0;
        if *end_ns == u64::MAX {
            *end_ns = now_ns + TURN_NS_MAX;
        }
        now_ns >= *end_ns
    }

    fn new_state(&self, now_ms: u64) -> Box<CellState> {
        Box::new(CellState::new(Classic::new(self.config(), now_ms)))
    }

    /// Holds publishers back while they outrun consumers that are at work.
    fn pace(self: &Arc<Self>, state: &mut CellState) {
        let until_ns = state.pacing.turn(&state.machine.flow(), || self.services().clock.now().0);
        self.hold.set(until_ns);
        let now_ms = if until_ns == 0 { return } else { self.services().now_ms() };
        // While anybody may wait, a tick is due: publishers go on then, whatever consumers do.
        if now_ms >= state.held_tick_ms {
            state.held_tick_ms = now_ms + 1 + pacing::WINDOW_NS / 1_000_000;
            self.services().wake_at(self, state.held_tick_ms);
        }
    }

    /// One event. Should the machine panic, only this queue goes out of service, and the event is answered so.
    fn handle_contained(
        self: &Arc<Self>,
        state: &mut CellState,
        event: &mut Event,
        now_ms: u64,
        aftermath: &mut Aftermath,
    ) {
        match event {
            Event::Publish(handover) => {
                self.inbox_bytes.fetch_sub(handover.batch.bytes(), Ordering::Relaxed);
            }
            Event::BlockWritten(..) | Event::BlockRead(..) | Event::BlocksSynced(_) => {
                self.reloads.disk_answered();
            }
            _ => {}
        }
        if let Event::Examine(reply) = event {
            return reply.send(self.examined(state, now_ms));
        }
        match self.condition() {
            Condition::Running => {
                let handled = crash::contained(|| self.handle(state, event, now_ms, aftermath));
                let fault = aftermath.fault.take().map(str::to_owned);
                if let Some(why) = handled.err().or(fault) {
                    self.crash(state, &why);
                    self.handle_crashed(state, event, now_ms, aftermath);
                }
            }
            Condition::Deleted => self.handle_deleted(state, event),
            Condition::Crashed => self.handle_crashed(state, event, now_ms, aftermath),
        }
    }

    fn handle(
        self: &Arc<Self>,
        state: &mut CellState,
        event: &mut Event,
        now_ms: u64,
        aftermath: &mut Aftermath,
    ) {
        let CellState { machine, sinks, gets, next_get, checkpoints, since_reload, .. } = state;
        let mut fx = CellEffects { queue: self, sinks, gets, aftermath };
        match event {
            Event::Publish(handover) => self.publish(machine, handover, now_ms, &mut fx),
            Event::Settle(how, runs, began) => {
                if let Some(known) = since_reload {
                    runs.retain(|run| run.consumer.is_none_or(|consumer| known.contains(&consumer)));
                }
                machine.settle(*how, runs, now_ms, &mut fx);
                self.services().stages.end_in(self.kind(), Stage::Ack, *began);
            }
            Event::Resume(consumer) => machine.resume(*consumer, now_ms, &mut fx),
            Event::Consume(spec, sink, reply) => {
                let added = machine.add_consumer((**spec).clone(), now_ms);
                if added {
                    since_reload.iter_mut().for_each(|known| known.extend([spec.id]));
                    let attached =
                        Attached { sink: sink.clone(), channel: spec.channel, tag: spec.tag.clone() };
                    fx.sinks.insert(spec.id, attached);
                    self.tell_consumer_created(spec);
                }
                reply.send(if added { Ok(()) } else { Err(Refused::ExclusiveUse(self.resource())) });
            }
            Event::Cancel(..) => cancel(machine, event, now_ms, &mut fx),
            Event::Get(..) => {
                let token = GetToken(*next_get);
                *next_get += 1;
                if let Event::Get(ack_required, reply) = std::mem::replace(event, Event::Handled) {
                    fx.gets.insert(token, GetReply { reply, ack_required });
                }
                machine.get(token, now_ms, &mut fx);
            }
            Event::Purge(reply) => reply.send(machine.purge(&mut fx)),
            Event::Counts(reply) => reply.send(Ok(machine.counts())),
            Event::Touch => machine.touch(now_ms, &mut fx),
            Event::Stats(reply) => reply.send(self.stats_of(machine, now_ms)),
            Event::Tick => machine.tick(now_ms, &mut fx),
            Event::BlockWritten(token, place) => machine.block_written(*token, *place, &mut fx),
            Event::BlockRead(token, bytes) => read_back(machine, *token, bytes.take(), now_ms, &mut fx),
            Event::BlocksSynced(true) => machine.blocks_synced(&mut fx),
            Event::BlocksSynced(false) => machine.blocks_not_synced(&mut fx),
            Event::LettersTaken(removals) => machine.letters_taken(removals, now_ms, &mut fx),
            Event::Checkpoint(position, _) => {
                let position = *position;
                if let Event::Checkpoint(_, reply) = std::mem::replace(event, Event::Handled) {
                    checkpoints.push(reply);
                }
                machine.checkpoint(position, &mut fx);
            }
            Event::Delete { .. } => self.delete(machine, event, &mut fx),
            Event::Close => {
                self.close(machine, &mut fx);
            }
            Event::ShareMemory => machine.relieve(&mut fx),
            Event::Reconfigure => machine.reconfigure(self.config(), now_ms, &mut fx),
            Event::Scheduled(count_max, reply) => reply.send(machine.scheduled(*count_max)),
            Event::DropScheduled(seq, reply) => reply.send(machine.drop_scheduled(*seq, &mut fx)),
            Event::Reloaded(_) | Event::Examine(_) | Event::Handled => {}
        }
        self.follow_up(machine, checkpoints, now_ms, &mut fx);
    }

    /// What an event left to be done at once.
    fn follow_up(
        &self,
        machine: &mut Classic,
        checkpoints: &mut Vec<Reply<()>>,
        now_ms: u64,
        fx: &mut CellEffects<'_>,
    ) {
        let got = std::mem::take(&mut fx.aftermath.got_without_ack);
        if !got.is_empty() {
            machine.settle_unasked(&got, now_ms, fx);
        }
        let stranded = std::mem::take(&mut fx.aftermath.got_by_nobody);
        if !stranded.is_empty() {
            machine.settle(SettleHow::Requeue, &stranded, now_ms, fx);
        }
        // A queue deleted on the way needs nothing, and hears no answers of the disk any more.
        if std::mem::take(&mut fx.aftermath.checkpointed) || self.is_closed() {
            self.oldest_log.store(machine.oldest_log_position(), Ordering::Release);
            checkpoints.drain(..).for_each(|reply| reply.send(()));
        }
    }

    /// Feeds a handover to the machine and answers its confirms.
    fn publish(
        self: &Arc<Self>,
        machine: &mut Classic,
        handover: &mut Handover,
        now_ms: u64,
        fx: &mut CellEffects<'_>,
    ) {
        let picks = &handover.picks;
        let mut batch: SmallVec<[queues::IncomingMessage<'_>; 32]> =
            (0..picks.len() as u32).map(|nth| handover.batch.incoming(picks.nth(nth))).collect();
        if self.is_store() {
            batch.iter_mut().for_each(delayed::wait);
        }
        let outcome = machine.publish(&batch, now_ms, fx);
        self.services().stages.end_in(self.kind(), Stage::Enqueue, handover.batch.began);
        // From here on it is answered.
        let Some(confirms) = handover.confirms.take() else { return };
        for nth in outcome.rejected {
            let entry = handover.batch.entry(picks.nth(nth));
            confirms.reject(entry.group, entry.publish);
        }
        if confirms.answered(outcome.log_position) {
            self.services().confirm_when_durable(&confirms);
        }
    }

    /// What the machine has counted stays counted.
    fn count_gone(&self, machine: &Classic) {
        *self.services().counters.queues_gone.lock() += &machine.glance(0).totals;
    }

    fn delete(&self, machine: &mut Classic, event: &mut Event, fx: &mut CellEffects<'_>) {
        let Event::Delete { if_unused, if_empty, reply, .. } = event else { return };
        let counts = machine.counts();
        // RabbitMQ looks at if-empty first (seen with 4.3.6).
        if *if_empty && counts.ready > 0 {
            reply.send(Err(Refused::NotEmpty(self.resource())));
            return;
        }
        if *if_unused && counts.consumers > 0 {
            reply.send(Err(Refused::InUse(self.resource())));
            return;
        }
        let ready = self.close(machine, fx);
        if let Event::Delete { reply, by, .. } = std::mem::replace(event, Event::Handled) {
            fx.aftermath.deleted = Some((ready, reply, by));
        }
    }

    /// Cancels consumers and forgets all messages; returns how many were ready.
    fn close(&self, machine: &mut Classic, fx: &mut CellEffects<'_>) -> u64 {
        self.condition.set(Condition::Deleted);
        let ready = machine.delete(fx);
        self.count_gone(machine);
        for (id, gone) in fx.sinks.drain() {
            self.tell_consumer_deleted(id, gone.channel, &gone.tag);
        }
        *machine = Classic::new(self.config(), 0);
        ready
    }
}

/// A consumer leaves. Answered when the queue that goes with it is gone, too.
fn cancel(machine: &mut Classic, event: &mut Event, now_ms: u64, fx: &mut CellEffects<'_>) {
    let Event::Cancel(consumer, _) = event else { return };
    machine.cancel(*consumer, now_ms, fx);
    if let Some(gone) = fx.sinks.remove(consumer) {
        fx.queue.tell_consumer_deleted(*consumer, gone.channel, &gone.tag);
    }
    if let Event::Cancel(_, reply) = std::mem::replace(event, Event::Handled) {
        if fx.aftermath.is_gone() {
            fx.aftermath.last_cancelled = Some(reply);
        } else {
            reply.send(());
        }
    }
}

/// A block came back from disk, or could not be read.
fn read_back(
    machine: &mut Classic,
    token: BlockToken,
    bytes: Option<Vec<u8>>,
    now_ms: u64,
    fx: &mut CellEffects<'_>,
) {
    let Some(bytes) = bytes else {
        fx.aftermath.fault = Some("a block cannot be read back");
        return;
    };
    if !machine.block_read(token, bytes, now_ms, fx) {
        fx.aftermath.fault = Some("a block read back does not hold what was written");
    }
}

/// A queue as a destination in routing tables: equal and hashed by identity.
#[derive(Clone)]
pub struct QueueRef(pub Arc<Queue>);

impl PartialEq for QueueRef {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for QueueRef {}

impl routing::QueueHandle for QueueRef {
    fn cmp_names(&self, other: &Self) -> std::cmp::Ordering {
        self.0.name().cmp(other.0.name())
    }
}

impl Hash for QueueRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

impl std::fmt::Debug for QueueRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "queue {}", String::from_utf8_lossy(self.0.name()))
    }
}
