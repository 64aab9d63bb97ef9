//! Services that queue cells share: the log, segments, confirms waiting for the disk, timers, the background thread.

mod body_node;
pub(crate) mod load;
mod log_waiters;
pub(crate) mod motion;
mod parts;
mod roster;
mod segment_answers;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use commitlog::{LentBytes, Log, Position, SegmentIo};
use log_waiters::LogWaiters;
use platform::{Caching, Clock, Random};
use queues::{BlockBytes, BlockPlace, BlockToken, BodyBytes, Gone, HeldBody, Holes, RecordKind};
use stdx::{ConnectionId, QueueId};

use crate::alarms::{Alarms, Raised};
use crate::announcements::events::Announcer;
use crate::background::{Background, Job};
use crate::bodies;
use crate::bodies::Bodies;
use crate::call::{Call, Reply};
use crate::cell::Queue;
use crate::cell::configs::Configs;
use crate::checkpointer::notes::Checkpointer;
use crate::cluster::{Counted, Surroundings};
use crate::control::deleted::DeletedQueue;
use crate::data::batch::BatchConfirms;
use crate::data::confirms::{ConfirmRange, ConfirmSink};
use crate::data::reply::ReplyConsumer;
use crate::foundation::FileSizes;
use crate::log_places::LogPlaces;
use crate::memory_shares::MemoryShares;
use crate::refused::Refused;
use crate::seen_files::SeenFiles;
use crate::segment_room::SegmentTotals;
use crate::services::load::Load;
use crate::services::motion::Motion;
use crate::services::roster::Roster;
use crate::stages::Stages;
use crate::stats::NodeCounters;
use crate::streams::Streams;

pub(crate) use parts::Parts;

/// How long a node that stops waits for dead letters on their way.
const LETTERS_WAIT_MAX_MS: u32 = 3000;

/// Bytes on their way to the log, or to or from segments, above which messages that are to become dead letters wait: what a
/// publisher's message has to wait for when a million of them die at once. Not more than a quarter of what stops publishers.
const LIGHT_BYTES_MAX: u64 = 16 << 20;

/// On a full disk so much may wait to be written before consumers are not heard either: no more than memory is for.
const FULL_WAITING_BYTES_MAX: u64 = 128 << 20;

/// Questions of queues to the control plane.
pub(crate) trait ControlPlane: Send + Sync {
    /// A cell has agreed to its deletion with so many ready messages: the metadata follow, then the answer.
    fn queue_deleted(
        &self,
        queue: &Arc<Queue>,
        ready: u64,
        reply: Reply<Result<DeletedQueue, Refused>>,
        by: Box<str>,
    );

    /// The name of an open connection of this node, and its user.
    fn name_and_user(&self, connection: ConnectionId) -> Option<(Arc<str>, Box<str>)>;

    /// The requester of this node behind an address for direct replies.
    fn requester(&self, vhost: &str, address: &[u8]) -> Option<Arc<ReplyConsumer>>;
}

/// Queues that could deliver and do not.
pub(crate) struct Stalls {
    /// See [`crate::BrokerOptions::stall_ms`].
    pub(crate) after_ms: u64,
    /// How many were reported.
    pub(crate) count: AtomicU64,
}

impl Stalls {
    fn after(after_ms: u64) -> Stalls {
        Stalls { after_ms, count: AtomicU64::new(0) }
    }
}

/// Shared by all cells of a broker.
pub(crate) struct Services {
    pub(crate) log: Log,
    pub(crate) segments: SegmentIo,
    /// Bodies that several queues hold together.
    pub(crate) bodies: Arc<Bodies>,
    /// The files of streams.
    pub(crate) streams: Streams,
    pub(crate) clock: Arc<dyn Clock>,
    /// When the node began to stop; 0 while it runs. Milliseconds since the epoch.
    pub(crate) stopped_ms: AtomicU64,
    /// Batches of dead letters whose sender does not know yet that they are safe.
    pub(crate) letters_out: AtomicU64,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) background: Background,
    pub(crate) waiting: Arc<LogWaiters>,
    /// Queues that exist, and those that are being deleted.
    pub(crate) queues: Roster<Queue>,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) log_places: LogPlaces,
    /// Bounds of files and of bytes on their way to them.
    pub(crate) sizes: FileSizes,
    pub(crate) segment_totals: Arc<SegmentTotals>,
    pub(crate) alarms: Arc<Alarms>,
    pub(crate) seen_files: SeenFiles,
    pub(crate) control: OnceLock<Weak<dyn ControlPlane>>,
    /// Listeners that are told that runtime parameters have changed.
    pub(crate) parameter_watch: OnceLock<Box<dyn Fn() + Send + Sync>>,
    pub(crate) announcer: Arc<Announcer>,
    pub(crate) counters: Arc<NodeCounters>,
    /// Queues that could deliver and do not.
    pub(crate) stalls: Stalls,
    /// See [`crate::BrokerOptions::consumer_disconnected_timeout_ms`].
    pub(crate) consumer_disconnected_timeout_ms: u64,
    pub(crate) configs: Configs,
    /// Where the time of messages goes.
    pub(crate) stages: Arc<Stages>,
    /// The threads that do work that nobody waits for.
    pub(crate) motion: Motion,
    /// Of a node that is a member of one.
    pub(crate) cluster: Option<Arc<dyn Surroundings>>,
    /// This node's number in its cluster; the first one's on a node alone.
    pub(crate) own_node: u16,
}

impl Services {
    /// How many of these clients the other nodes have.
    pub(crate) fn counted_elsewhere(&self, counted: Option<Counted>) -> u64 {
        self.cluster.as_ref().zip(counted).map_or(0, |(cluster, counted)| cluster.counted_elsewhere(&counted))
    }

    /// Tells the other nodes of a cluster how many of these clients there are now.
    pub(crate) fn tell_counted(&self, counted: impl IntoIterator<Item = Option<Counted>>) {
        if let Some(cluster) = &self.cluster {
            counted.into_iter().flatten().for_each(|counted| cluster.counted(counted));
        }
    }

    /// Milliseconds since the epoch; stands still once the node stops.
    pub(crate) fn now_ms(&self) -> u64 {
        match self.stopped_ms.load(Ordering::Relaxed) {
            0 => self.clock.wall_ms(),
            stopped_ms => stopped_ms,
        }
    }

    /// Lets queues know that the dead letters they have sent are safe, so that these are not sent again after the next start.
    /// Nothing expires from now on. Gives up after [`LETTERS_WAIT_MAX_MS`].
    pub(crate) fn settle_letters(&self) {
        self.stopped_ms.store(self.clock.wall_ms(), Ordering::Relaxed);
        self.background.stop_timers();
        let mut waited_ms = 0;
        loop {
            self.settle_all();
            let (reply, mut passed) = Call::pair();
            self.background.submit(Job::Pass(reply));
            while passed.try_take().is_none() {
                if waited_ms == LETTERS_WAIT_MAX_MS {
                    tracing::warn!(
                        "dead letters are still on their way; they are sent again after the next start"
                    );
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
                waited_ms += 1;
            }
            // All work on letters until now is done, and the letters that it sent in turn are counted.
            if self.letters_out.load(Ordering::Acquire) == 0 || self.log.failure().is_some() {
                return;
            }
        }
    }

    /// Appends a record of a queue; returns where it lies, or the end of all positions, twice, when it never will be durable.
    pub(crate) fn append(
        &self,
        queue: QueueId,
        kind: RecordKind,
        write: &mut dyn FnMut(&mut Vec<u8>),
    ) -> Range<u64> {
        let mut bytes = commitlog::RECORD_HEADER_BYTES;
        let measured = |out: &mut Vec<u8>| {
            let before = out.len();
            write(out);
            bytes += out.len() - before;
        };
        // After a failure the position is never durable: a publisher that waits for it is never confirmed.
        let end = match kind {
            // A client that acks is not told when that is durable.
            RecordKind::Settle | RecordKind::Returned => {
                self.log.append_unawaited(queue.0, kind as u8, measured)
            }
            _ => self.log.append(queue.0, kind as u8, measured),
        };
        range_of(end, bytes)
    }

    /// As [`Self::append`], of a record that is not copied but for its head.
    pub(crate) fn append_lent(
        &self,
        queue: QueueId,
        kind: RecordKind,
        head: &[u8],
        tail: BlockBytes,
    ) -> Range<u64> {
        let bytes = commitlog::RECORD_HEADER_BYTES + head.len() + tail.len();
        let write = |out: &mut Vec<u8>| out.extend_from_slice(head);
        range_of(self.log.append_lent(queue.0, kind as u8, write, Arc::new(LentBlock(tail))), bytes)
    }

    /// Tells the channels of a batch as soon as its records are durable.
    pub(crate) fn confirm_when_durable(&self, confirms: &Arc<BatchConfirms>) {
        if confirms.position() <= self.log.durable().0 {
            confirms.complete(&self.stages);
            return;
        }
        self.waiting.add(&self.log, confirms);
    }

    /// Waits until everything logged is durable, or never will be, and tells the waiters for that.
    pub(crate) fn settle_all(&self) {
        if let Ok(durable) = self.log.sync_barrier() {
            self.waiting.settle_and_wait(durable.0);
        }
    }

    /// Registers a waker unless log and segments can take more of a connection that publishes, or of one that does not; true when they can.
    pub(crate) fn poll_pressure(&self, waker: &Waker, publishes: bool) -> bool {
        let is_pressed = || if publishes { self.is_pressed() } else { self.is_pressed_by_consumers() };
        if !is_pressed() {
            return true;
        }
        self.waiting.add_publisher(waker.clone());
        // It may have eased meanwhile; a spurious wake is harmless.
        !is_pressed()
    }

    pub(crate) fn is_pressed(&self) -> bool {
        let bytes_max = self.waiting_bytes_max();
        self.log.over_bound()
            || self.log.pending_bytes() > bytes_max
            || self.segments.queued_bytes() > self.sizes.waiting_bytes_max.min(bytes_max)
    }

    /// So much may wait for the log, and as much for segments, bytes, where disk or memory are small.
    fn waiting_bytes_max(&self) -> u64 {
        self.alarms.waiting_bytes_max().min(self.memory_shares().buffer_bytes_max())
    }

    /// On a full disk what consumers settle must be heard: it makes room.
    fn is_pressed_by_consumers(&self) -> bool {
        if self.is_disk_full() {
            self.log.pending_bytes() > FULL_WAITING_BYTES_MAX
        } else {
            self.is_pressed()
        }
    }

    /// The end: waiting work is never answered, and nothing keeps alive what it waits for. Data on disk stay as they are.
    pub(crate) fn abandon(&self) {
        self.waiting.abandon();
        self.background.abandon();
        self.queues.forget_deleted();
        self.all_queues().iter().for_each(|queue| queue.abandon());
        // Events in the inboxes may have asked for more while they were dropped.
        self.waiting.abandon();
        self.background.abandon();
    }

    /// Bytes that will be written, about: bytes for log and segments, and messages that queues have to take. That is looked at only where
    /// little room is left: there may be very many queues.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let is_near_full = self.alarms.waiting_bytes_max() < u64::MAX;
        // In this order: messages that are taken meanwhile count twice rather than not at all.
        let inboxes = if is_near_full { self.queues.sum(|queue| queue.waiting_bytes()) } else { 0 };
        inboxes + self.log.pending_bytes() + self.segments.queued_bytes()
    }

    /// Whether only what makes room is to be written.
    fn is_disk_full(&self) -> bool {
        self.alarms.raised().has(Raised::DISK_FULL)
    }

    /// A look at the disk is over: the log follows, and dead letters go when the alarm is off.
    pub(crate) fn looked_at_disk(&self) {
        self.log.limit_files(self.alarms.log_file_bytes_max());
        if !self.holds_dead_letters() {
            self.waiting.wake_letters();
        }
    }

    /// Whether nothing is dead-lettered, because the disk alarm is on. A log that has failed never stores anything.
    #[inline]
    pub(crate) fn holds_dead_letters(&self) -> bool {
        self.alarms.raised().has(Raised::DISK) && self.log.failure().is_none()
    }

    /// Has a queue woken when that is over.
    pub(crate) fn await_disk_for_letters(&self, waker: Waker) {
        self.waiting.add_letters(waker);
    }

    /// How much log and segments have to store.
    pub(crate) fn storage_load(&self) -> Load {
        let most = self.log.pending_bytes().max(self.segments.queued_bytes());
        // A log that has failed never stores anything.
        let light_bytes_max =
            LIGHT_BYTES_MAX.min(self.sizes.waiting_bytes_max / 4).min(self.waiting_bytes_max());
        if self.log.failure().is_some() {
            return Load::Light;
        }
        if most <= light_bytes_max {
            return Load::Light;
        }
        if self.is_pressed() { Load::Full } else { Load::Heavy }
    }

    /// Ready when log and segments have little to store. In any case wakes when they have stored something.
    pub(crate) fn poll_light(&self, waker: Waker) -> Poll<()> {
        self.waiting.add_publisher(waker);
        // They may have done so meanwhile; a spurious wake is harmless.
        if self.storage_load() == Load::Light { Poll::Ready(()) } else { Poll::Pending }
    }

    /// How much of their messages queues may keep in memory.
    #[inline]
    pub(crate) fn memory_shares(&self) -> &MemoryShares {
        &self.alarms.shares
    }

    /// Adds a queue for answers of the disk.
    pub(crate) fn register(&self, queue: &Arc<Queue>) {
        self.queues.add(queue.id, queue);
        queue.note_held_at_start();
        queue.note_logged_at_start();
        queue.count_segment_room_at_start();
    }

    /// Forgets a deleted queue. Its data on disk go with [`Services::take_unregistered`], when its deletion is durable:
    /// a crash before that brings the queue back.
    pub(crate) fn unregister(&self, queue: &Arc<Queue>) {
        self.queues.depart(queue.id, queue);
        self.memory_shares().leave(queue.id);
    }

    /// Queues forgotten since the last call.
    pub(crate) fn take_unregistered(&self) -> Vec<Arc<Queue>> {
        self.queues.take_unregistered()
    }

    /// The deletion of a queue is durable: its data on disk go.
    pub(crate) fn departed(&self, queue: Arc<Queue>) {
        queue.forget_log();
        self.queues.departed(queue.id);
        self.log_places.forget(queue.id);
        if !queue.leaves_nothing() {
            self.background.submit(Job::DeleteSegments(queue));
        }
    }

    /// Deleted queues whose deletion is not durable yet.
    pub(crate) fn departing(&self) -> Vec<Arc<Queue>> {
        self.queues.departing()
    }

    pub(crate) fn write_block(&self, queue: &Arc<Queue>, token: BlockToken, bytes: BlockBytes) {
        self.segments.submit_write_as(queue.id.0, token.0, bytes, queues::pack_block);
    }

    pub(crate) fn read_block(&self, queue: &Arc<Queue>, token: BlockToken, place: BlockPlace) {
        self.segments.submit_read_as(queue.id.0, token.0, location(place), (unpack, Caching::Pass));
    }

    pub(crate) fn move_block(&self, queue: &Arc<Queue>, token: BlockToken, place: BlockPlace, holes: Holes) {
        let change = Box::new(move |block| holes.punch(block));
        self.segments.submit_rewrite(queue.id.0, token.0, location(place), change);
    }

    pub(crate) fn sync_blocks(&self, queue: &Arc<Queue>) {
        self.segments.submit_sync(&[queue.id.0], queue.id.0);
    }

    /// Deletes a segment once everything logged so far is durable: after a crash before that, the queue still needs it. Never
    /// after the log has failed: settlements of the messages in it are not logged.
    /// It takes no further block from now on.
    pub(crate) fn delete_segment_when_durable(&self, queue: QueueId, segment: u64) {
        self.segments.submit_seal(queue.0, segment);
        let background = self.background.clone();
        let sink: Arc<dyn ConfirmSink> = Arc::new(UnneededSegment { background, queue, segment });
        let mut confirms = BatchConfirms::new();
        confirms.group_of(&sink, 1);
        let is_last = confirms.answered(self.log.goal().0);
        debug_assert!(is_last, "only the log is waited for");
        self.confirm_when_durable(&Arc::new(confirms));
    }

    /// Deletes segments of shared bodies that nobody needs, as [`Self::delete_segment_when_durable`] does.
    pub(crate) fn free_body_segments(&self) {
        for segment in self.bodies.take_dead_segments(&self.segments) {
            self.delete_segment_when_durable(QueueId(bodies::STREAM), segment);
        }
    }

    /// One body for so many queues; `None` when each may as well have its own.
    #[inline]
    pub(crate) fn share(&self, body: &[u8], queues: usize) -> Option<HeldBody> {
        self.bodies.share(&self.segments, body, queues)
    }

    /// As [`Self::share`], of a body that need not be copied.
    pub(crate) fn share_whole(&self, body: &BodyBytes, queues: usize) -> Option<HeldBody> {
        self.bodies.share_whole(&self.segments, body, queues)
    }

    /// Ticks a queue at a time.
    pub(crate) fn wake_at(&self, queue: &Arc<Queue>, time_ms: u64) {
        self.background.at(time_ms, Arc::downgrade(queue));
    }

    /// Runs a queue's inbox on the background thread.
    pub(crate) fn run_later(&self, queue: Arc<Queue>) {
        self.background.submit(Job::Run(queue));
    }

    /// A queue deletes itself: the control plane does it, on the background thread, then the answer goes out.
    pub(crate) fn queue_gone(&self, queue: Arc<Queue>, why: Gone, reply: Option<Reply<()>>) {
        self.background.submit(Job::Gone(queue, why, reply));
    }

    /// All queues that exist, in the order of their ids, so that work on them is the same every time.
    pub(crate) fn all_queues(&self) -> Vec<Arc<Queue>> {
        self.queues.all()
    }

    /// A queue by its id, also when it was deleted just now and that is not durable yet.
    pub(crate) fn queue_by_id(&self, queue: QueueId) -> Option<Arc<Queue>> {
        self.queues.find(queue)
    }

    /// A cell has agreed to its deletion: the metadata follow, then the answer.
    pub(crate) fn queue_deleted(
        &self,
        queue: &Arc<Queue>,
        ready: u64,
        reply: Reply<Result<DeletedQueue, Refused>>,
        by: Box<str>,
    ) {
        if let Some(control) = self.control.get().and_then(Weak::upgrade) {
            control.queue_deleted(queue, ready, reply, by);
        }
    }

    /// Random bytes, for names and salts.
    pub(crate) fn random_bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.random.fill(&mut bytes);
        bytes
    }
}

/// A block as queues know it, of what a segment has; it stays where it is in memory unless it is packed.
fn unpack(block: Vec<u8>) -> Option<Vec<u8>> {
    let unpacked = match queues::unpack_block(&block)? {
        Cow::Borrowed(_) => None,
        Cow::Owned(whole) => Some(whole),
    };
    Some(unpacked.unwrap_or(block))
}

fn location(place: BlockPlace) -> commitlog::BlockLocation {
    let offset = u32::try_from(place.offset).expect("segments are far below 4 GiB");
    commitlog::BlockLocation { segment: place.segment, offset, len: place.bytes }
}

/// Where a record lies that ends here, with its header so many bytes before.
fn range_of(end: Position, bytes: usize) -> Range<u64> {
    if end == Position::NEVER { end.0..end.0 } else { end.0 - bytes as u64..end.0 }
}

/// A block that its queue has until the log has written it, or longer.
struct LentBlock(BlockBytes);

impl LentBytes for LentBlock {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn own_bytes(&self) -> usize {
        self.0.own_bytes()
    }
}

/// A segment that holds nothing any more, as soon as the log says so durably.
struct UnneededSegment {
    background: Background,
    queue: QueueId,
    segment: u64,
}

impl ConfirmSink for UnneededSegment {
    fn confirmed(&self, range: ConfirmRange) {
        if range.rejected.is_empty() {
            self.background.submit(Job::DeleteSegment(self.queue, self.segment));
        }
    }
}
