//! A queue at run time: its inbox, its machine behind a lock, and what can happen to it.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use metadata::QueueRecord;
use parking_lot::{Mutex, RwLock};
use queues::{
    BlockPlace, BlockToken, BodyBytes, ConsumerId, ConsumerSpec, Credit, GetToken, GotMessage, Kind, Machine,
    MessageSeq, Peeked, QueueCounts, QueueStats, Scheduled, SettleHow, SettleRun, SettledRun, SharedBody,
    Store,
};
use stdx::{ConnectionId, FewMap, QueueId, piece_bytes};

use super::condition::{Condition, ConditionCell, HeldLetters};
use super::examine::Examined;
use super::gather::Gather;
use super::lives::{Life, Reloads};
use super::machine::{AnyMachine, MachineType};
use super::place::Place;
use super::portions::Runs;
use super::rest::{Kept, Rest};
use super::settings::Terms;
use super::waiting::Waiting;
use super::watch::Watch;
use crate::call::Reply;
use crate::cluster::replicas::{Replica, ReplicaEvent};
use crate::control::deleted::DeletedQueue;
use crate::data::batch::Handover;
use crate::data::consume::ConsumerSink;
use crate::pacing::{Hold, Pacing};
use crate::queue_types::kind_of;
use crate::refused::{Refused, Resource};
use crate::segment_room::CountedRoom;
use crate::services::Services;
use crate::stages::{Began, QueueKind};
use crate::streams::Stream;

/// Bytes of publishes waiting in an inbox above which publishers stop reading their sockets.
const INBOX_BYTES_MAX: usize = 4 << 20;

/// A queue at run time. Most of very many queues are idle: what it was declared with is the metadata's record itself, and what
/// only a used queue needs is not there before it is used.
pub struct Queue {
    pub(crate) id: QueueId,
    pub(crate) record: Arc<QueueRecord>,
    pub(crate) place: Arc<Place>,
    pub(super) machine_type: MachineType,
    /// Another node of the cluster has its messages, when no other has them, too.
    pub(super) is_elsewhere: bool,
    /// Several nodes have its messages.
    pub(crate) replica: OnceLock<Box<Replica>>,
    /// The settings of the queue; policies change them.
    pub(super) terms: RwLock<Terms>,
    pub(super) inbox: Mutex<Vec<Event>>,
    pub(super) inbox_bytes: AtomicUsize,
    /// Until when publishers are held back for consumers.
    pub(super) hold: Hold,
    /// Publishers that wait for room in the inbox, or are held back; dead letters that are to be sent.
    pub(super) waiting: Waiting,
    /// Nothing while it is as if it had just been declared.
    pub(crate) state: Mutex<Kept>,
    /// Log position of the oldest record needed; 0 when none. Read by the checkpointer.
    pub(super) oldest_log: AtomicU64,
    /// Bytes that a checkpoint would write, about.
    pub(super) state_bytes: AtomicU32,
    pub(super) condition: ConditionCell,
    /// Nobody finds it by its name any more, nor ever will.
    pub(super) is_removed: AtomicBool,
    pub(super) reloads: Reloads,
    /// The log of a stream, once it is open.
    pub(crate) stream: OnceLock<Arc<Stream>>,
    /// The next record that the machine appends makes it panic.
    #[cfg(test)]
    pub(crate) fails_next: std::sync::atomic::AtomicBool,
}

/// State that only the thread that runs the machine touches.
pub(crate) struct CellState {
    pub(crate) machine: AnyMachine,
    /// Events of the latest turn for which there was no time: they stand before those in the inbox.
    pub(super) left: std::vec::IntoIter<Event>,
    /// The queue's part of the count of the node's segments.
    pub(crate) room: Option<CountedRoom>,
    /// Has joined the node's [`crate::memory_shares::MemoryShares`].
    pub(crate) is_holder: bool,
    /// Whether it is empty, and since when.
    pub(super) rest: Rest,
    /// The queue's source, until the first turn is over.
    pub(super) rested: Option<Box<[u8]>>,
    pub(super) pacing: Pacing,
    /// When the latest tick comes that was asked for to let held publishers go on.
    pub(super) held_tick_ms: u64,
    pub(super) watch: Watch,
    pub(super) sinks: FewMap<ConsumerId, Attached>,
    pub(super) gets: HashMap<GetToken, GetReply, foldhash::fast::RandomState>,
    pub(super) next_get: u64,
    pub(super) checkpoints: Vec<Reply<()>>,
    /// Blocks that wait for shared bodies.
    pub(super) gathers: Vec<Gather>,
    /// Shared bodies of a machine that is gone, while the disk may still name them.
    pub(super) held_bodies: Vec<SharedBody>,
    /// The queue is deleted for good.
    pub(super) is_forgotten: bool,
    pub(super) is_reloading: bool,
    /// Events that came while the queue was out of service.
    pub(super) held_letters: Option<Box<HeldLetters>>,
    /// Consumers since the queue came back from a crash, or from rest after one; `None` if it never crashed.
    #[expect(clippy::box_collection, reason = "hardly a queue has it")]
    pub(super) since_reload: Option<Box<HashSet<ConsumerId>>>,
}

/// A consumer as its cell knows it.
pub(crate) struct Attached {
    pub(crate) sink: Arc<dyn ConsumerSink>,
    pub(crate) channel: u16,
    pub(crate) tag: Box<[u8]>,
}

/// A caller that asked for a message, and how.
pub(crate) struct GetReply {
    pub(crate) reply: Reply<Result<Option<GotMessage>, Refused>>,
    pub(crate) ack_required: bool,
}

/// Events of a queue.
pub(crate) enum Event {
    Publish(Handover),
    Settle(SettleHow, Runs, Began),
    /// A consumer annotates what it settles next.
    Annotate(SettleRun, Arc<[u8]>),
    Consume(Box<ConsumerSpec>, Arc<dyn ConsumerSink>, Reply<Result<(), Refused>>),
    Cancel(ConsumerId, Reply<()>),
    Resume(ConsumerId),
    Credit(ConsumerId, Credit),
    Get(bool, Reply<Result<Option<GotMessage>, Refused>>),
    /// Drops all ready messages, in portions; so many are dropped.
    Purge(u64, Reply<u64>),
    Counts(Reply<Result<QueueCounts, Refused>>),
    Touch,
    /// Other policies apply to it, or they say something else.
    Reconfigure,
    /// Others need memory, too: messages beyond its share go to disk.
    ShareMemory,
    Stats(Reply<QueueStats>),
    Examine(Reply<Examined>),
    /// Somebody looks at the ready message at a position, from 0.
    Peek(u64, Reply<Peeked>),
    Tick,
    /// It has been empty for a while, or was.
    Rest,
    BlockWritten(BlockToken, Option<BlockPlace>),
    /// A block that stays in the log can be read there, or never will be.
    BlockLogged(BlockToken, bool),
    BlockRead(BlockToken, Option<Vec<u8>>),
    /// A shared body that it waits for was read, or not.
    BodyRead(u64, Option<BodyBytes>),
    /// Shared bodies that it asked for were in memory.
    BodiesHere,
    /// Whether they could be made durable.
    BlocksSynced(bool),
    /// Letters of these messages are safe where they went.
    LettersTaken(Life, Vec<SettledRun>),
    /// Nothing of the log up to the position is to be needed but blocks that lie there, and of those none in these parts.
    Checkpoint(u64, Arc<[Range<u64>]>, Reply<()>),
    /// Segments of which little is needed are to go.
    Compact(Reply<()>),
    /// Messages that wait in the store of a delayed exchange, so many at most.
    Scheduled(usize, Reply<Vec<Scheduled>>),
    /// Drops a message that waits; answers whether there was one.
    DropScheduled(MessageSeq, Reply<bool>),
    Delete {
        if_unused: bool,
        if_empty: bool,
        reply: Reply<Result<DeletedQueue, Refused>>,
        /// The user who deletes it.
        by: Box<str>,
    },
    /// The metadata say it is deleted.
    Close,
    /// A crashed queue was read back from the disk.
    Reloaded(Box<AnyMachine>),
    /// Something concerns the nodes that have it.
    Replica(Box<ReplicaEvent>),
    /// Taken over by what will answer it.
    Handled,
}

impl CellState {
    pub(super) fn new(machine: AnyMachine) -> CellState {
        CellState {
            machine,
            room: None,
            left: Vec::new().into_iter(),
            is_holder: false,
            rest: Rest::Awake,
            rested: None,
            pacing: Pacing::default(),
            held_tick_ms: 0,
            watch: Watch::default(),
            sinks: FewMap::default(),
            gets: HashMap::default(),
            next_get: 0,
            checkpoints: Vec::new(),
            gathers: Vec::new(),
            held_bodies: Vec::new(),
            is_forgotten: false,
            is_reloading: false,
            held_letters: None,
            since_reload: None,
        }
    }

    /// Its own bytes and all that hang on it.
    pub(super) fn heap_bytes(&self) -> usize {
        let tags = self.sinks.values().map(|attached| attached.tag.len()).sum::<usize>();
        size_of::<CellState>()
            + self.machine.heap_bytes()
            + self.sinks.heap_bytes()
            + tags
            + self.held_letters.as_ref().map_or(0, |held| held.bytes())
    }

    /// Whether nothing would be lost by making it anew when it is needed.
    pub(super) fn is_as_new(&self) -> bool {
        self.left.len() == 0
            && self.machine.is_as_new()
            && self.sinks.is_empty()
            && self.gets.is_empty()
            && self.checkpoints.is_empty()
            && self.gathers.is_empty()
            && self.held_bodies.is_empty()
            && !self.is_reloading
            && self.held_letters.is_none()
    }

    /// The machine goes: the disk may name its shared bodies until it is read back, or the deletion of the queue is durable.
    pub(super) fn hold_bodies(&mut self) {
        if !self.is_forgotten {
            self.held_bodies.extend(self.machine.store().into_iter().flat_map(Store::bodies));
        }
    }
}

impl Queue {
    /// A cell around a machine; without one the queue is empty, and gets one when it is used.
    pub(crate) fn new(
        record: Arc<QueueRecord>,
        terms: Terms,
        machine_type: MachineType,
        machine: Option<AnyMachine>,
        place: Arc<Place>,
    ) -> Arc<Queue> {
        let machine = machine.filter(|machine| !machine.is_as_new());
        let oldest_log = AtomicU64::new(machine.as_ref().map_or(0, Machine::oldest_log_position));
        let state_bytes =
            AtomicU32::new(machine.as_ref().and_then(Machine::store).map_or(0, Store::state_bytes));
        if terms.config.deduplicates {
            place.services.queues.has_unique.store(true, Ordering::Relaxed);
        }
        Arc::new(Queue {
            id: record.id,
            is_elsewhere: record.home != place.services.own_node,
            replica: OnceLock::new(),
            record,
            place,
            machine_type,
            terms: RwLock::new(terms),
            inbox: Mutex::new(Vec::new()),
            inbox_bytes: AtomicUsize::new(0),
            waiting: Waiting::default(),
            hold: Hold::default(),
            state: Mutex::new(Kept::of(machine)),
            oldest_log,
            state_bytes,
            condition: ConditionCell::running(),
            is_removed: AtomicBool::new(false),
            reloads: Reloads::new(),
            stream: OnceLock::new(),
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

    /// The user who declared it, where that is known: not of queues declared before that was kept.
    pub fn declared_by(&self) -> Option<&[u8]> {
        self.record.declared_by.as_deref()
    }

    /// Goes with its last consumer.
    pub fn is_auto_delete(&self) -> bool {
        self.record.auto_delete
    }

    /// The connection it belongs to, if it is exclusive.
    pub fn exclusive_owner(&self) -> Option<ConnectionId> {
        self.record.exclusive_owner
    }

    /// Its type.
    pub(crate) fn machine_type(&self) -> MachineType {
        self.machine_type
    }

    /// The kind of the event, for measurements.
    pub(crate) fn kind(&self) -> QueueKind {
        self.machine_type.kind()
    }

    /// A machine of its type without messages.
    pub(super) fn new_machine(&self, now_ms: u64) -> AnyMachine {
        if self.machine_type == MachineType::Stream && self.condition() == Condition::Running {
            return self.stream_machine();
        }
        self.machine_type.open(self.config(), now_ms)
    }

    /// Its type.
    pub fn queue_kind(&self) -> Kind {
        kind_of(self.record.queue_type)
    }

    /// The disk was asked for something that it answers with an event.
    pub(crate) fn disk_asked(&self) {
        self.reloads.disk_asked();
    }

    /// Nobody finds it by its name any more.
    pub(crate) fn removed(&self) {
        self.is_removed.store(true, Ordering::Release);
    }

    /// Whether its name leads nowhere, or to another queue. As long as it does not, the name leads to this queue.
    #[inline]
    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Acquire)
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

    /// Its deletion is durable: nothing of it is needed any more.
    pub(crate) fn forget_log(&self) {
        self.oldest_log.store(0, Ordering::Release);
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
        self.is_inbox_full() || self.is_stream_full() || self.hold.is_on(|| self.services().clock.now().0)
    }

    /// Whether too much waits to be taken.
    pub(crate) fn is_inbox_full(&self) -> bool {
        self.inbox_bytes.load(Ordering::Relaxed) > INBOX_BYTES_MAX
    }

    /// Room was made for publishers that wait.
    pub(crate) fn wake_publishers(&self) {
        if !self.is_over_bound() {
            self.waiting.take_publishers().into_iter().for_each(Waker::wake);
        }
    }

    /// Wakes a publisher when the inbox was emptied.
    pub(crate) fn wake_when_taken(&self, waker: &Waker) {
        self.waiting.add_publisher(waker.clone());
    }

    /// Its blocks in the log are known to the thread that empties the log.
    pub(crate) fn note_logged_at_start(self: &Arc<Self>) {
        let kept = self.state.lock();
        let store = kept.used().and_then(|state| state.machine.store());
        if let Some(store) = store.filter(|store| store.log_ranges().next().is_some()) {
            self.services().log_places.note_at_start(self.id, store.stated_end());
        }
    }

    /// Brings an event; runs the machine if nobody else does.
    pub(crate) fn submit(self: &Arc<Self>, event: Event) {
        if !self.is_replicated() {
            return self.submit_to_leader(event);
        }
        if let Some(event) = self.note_client(event) {
            self.submit_to_leader(event);
        }
    }

    /// Bytes of messages are on their way into the cell.
    pub(crate) fn count_incoming(&self, handover: &Handover) {
        self.inbox_bytes.fetch_add(handover.batch.bytes(), Ordering::Relaxed);
    }

    /// Whether several nodes have its messages.
    #[inline]
    pub fn is_replicated(&self) -> bool {
        self.replica.get().is_some()
    }

    /// Bytes of messages are on their way to its home.
    pub(crate) fn sent_elsewhere(&self, bytes: usize) {
        self.inbox_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Its home has answered for them, or never will.
    pub(crate) fn taken_elsewhere(&self, bytes: usize) {
        self.inbox_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.wake_publishers();
    }

    /// Whether another node of the cluster has its messages.
    pub fn is_elsewhere(&self) -> bool {
        self.replica.get().map_or(self.is_elsewhere, |replica| !replica.leads())
    }

    /// As [`Queue::submit`], with events that follow each other. Publishes are not among them.
    pub(crate) fn submit_all(self: &Arc<Self>, events: impl Iterator<Item = Event>) {
        if self.is_replicated() || self.is_elsewhere() {
            return events.for_each(|event| self.submit(event));
        }
        self.submit_here(events);
    }

    /// Brings an event without running the machine: from threads that must not, such as the log's.
    pub(crate) fn submit_later(self: &Arc<Self>, event: Event) {
        // These events are about the storage of this node.
        if self.is_elsewhere() && !self.is_replicated() {
            return self.submit_elsewhere(event);
        }
        self.inbox.lock().push(event);
        self.services().run_later(self.clone());
    }

    /// Leaves an event for the round after this one. Only by the one who runs the machine.
    pub(crate) fn note(&self, event: Event) {
        self.inbox.lock().push(event);
    }

    /// Its deletion is durable: nothing on disk names shared bodies on its behalf any more.
    pub(crate) fn let_bodies_go(self: &Arc<Self>) {
        let held = self.state.lock().used_mut().map(|state| {
            state.is_forgotten = true;
            std::mem::take(&mut state.held_bodies)
        });
        drop(held);
        self.run();
    }

    /// Its deletion is durable, and the disk has nothing of it, nor shared bodies on its behalf: most queues of clients that come and go are
    /// so. False when that is not known at once.
    pub(crate) fn leaves_nothing(self: &Arc<Self>) -> bool {
        if self.record.durable || self.reloads.has_asked_disk() || self.stream.get().is_some() {
            return false;
        }
        let Some(mut kept) = self.state.try_lock() else { return false };
        let leaves_nothing = kept.used_mut().is_none_or(|state| {
            let store = state.machine.store().into_iter();
            state.is_forgotten =
                state.held_bodies.is_empty() && store.flat_map(Store::bodies).next().is_none();
            state.is_forgotten
        });
        drop(kept);
        // Another thread left its event here while this thread had the lock.
        self.run();
        leaves_nothing
    }

    /// Forgets what nobody has taken from the inbox, and consumers: at the end, when nothing runs any more.
    pub(crate) fn abandon(&self) {
        let (events, state) = (std::mem::take(&mut *self.inbox.lock()), self.state.lock().take());
        drop((events, state));
    }

    /// Bytes of memory: of the cell with the machine's own structures, and of messages without bodies that it shares.
    pub(crate) fn held_bytes(self: &Arc<Self>) -> (usize, usize) {
        let bytes = {
            let kept = self.state.lock();
            let (own, resident) = kept.used().map_or((kept.rest_bytes(), 0), |state| {
                let resident =
                    state.machine.resident_bytes() - state.machine.store().map_or(0, Store::shared_bytes);
                (state.heap_bytes() - resident, resident)
            });
            (self.fixed_bytes() + own, resident)
        };
        self.run();
        bytes
    }

    /// Columns of listings, with the memory of the cell.
    pub(super) fn stats_of(&self, machine: &AnyMachine, now_ms: u64) -> QueueStats {
        let mut stats = machine.stats(now_ms);
        // A machine that is as new, or at rest, was made for this question.
        let is_idle = machine.is_as_new() || machine.rest().is_some();
        let used = if is_idle { 0 } else { stats.memory_bytes + size_of::<CellState>() as u64 };
        stats.memory_bytes = used + self.fixed_bytes() as u64;
        stats.members = self.members();
        stats
    }

    /// Bytes of the queue whether it is used or not, without its record, which belongs to the metadata.
    pub(crate) fn fixed_bytes(&self) -> usize {
        const COUNTS_BYTES: usize = 2 * size_of::<usize>();
        piece_bytes(size_of::<Queue>() + COUNTS_BYTES) + self.terms.read().heap_bytes()
    }

    /// Reads something from the machine; events that came meanwhile are done afterwards. `None`, and no machine is made, when nobody has
    /// used the queue since the node started; streams are always asked.
    pub(crate) fn read_used<T>(self: &Arc<Self>, read: impl FnOnce(&AnyMachine, u64) -> T) -> Option<T> {
        let now_ms = self.services().now_ms();
        let value = {
            let kept = self.state.lock();
            match kept.used() {
                Some(state) => Some(read(&state.machine, now_ms)),
                None if kept.is_untouched() && self.stream.get().is_none() => None,
                None => Some(read(&kept.idle_machine(self, now_ms), now_ms)),
            }
        };
        // Another thread left its event here while this thread had the lock.
        self.run();
        value
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
    type Exchange = routing::Exchange<QueueRef>;

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
