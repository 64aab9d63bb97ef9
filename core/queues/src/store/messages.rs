//! The messages of a store: levels of blocks, and their counts. How messages come in, are handed out and leave.

use std::collections::{BTreeMap, BTreeSet};

use super::block::{Block, BodyBytesOf};
use super::level::{Freed, Level, SettledMessages};
use super::spill::Checkpoint;
use crate::arguments::QueueConfig;
use crate::body::{BodyBuffer, HeldBody, LARGE_BODY_BYTES, SharedBody};
use crate::effects::Effects;
use crate::logged::{LogRange, Place};
use crate::quorum::Returns;
use crate::record::{self, RecordKind, SettledRun};
use crate::traffic::{IncomingMessage, IncomingMessages, MessageSeq, SettleRun};
use crate::unique::Present;

/// The messages of a queue.
#[derive(Debug)]
pub struct Store {
    /// Persistent messages are logged.
    pub(crate) is_durable: bool,
    /// Bytes of message data that it keeps in memory at most, whatever its share.
    pub(crate) configured_bytes: usize,
    /// Up to the highest that ever had a message: those above are made when they are used.
    pub(crate) levels: Vec<Level>,
    /// Number of the first message of a level that is made from now on.
    pub(crate) first_number: u64,
    pub(crate) segments: BTreeMap<u64, SegmentUse>,
    /// Settlements of persistent messages not yet logged, merged into runs within their blocks.
    pub(crate) unlogged: Vec<SettledRun>,
    /// Shared bodies of messages that are settled, until the log says so.
    pub(crate) released: Vec<SharedBody>,
    pub(crate) ready: u64,
    pub(crate) ready_bytes: u64,
    pub(crate) unacked: u64,
    pub(crate) unacked_bytes: u64,
    /// Persistent messages in the queue.
    pub(crate) persistent: u64,
    /// Bytes of their bodies.
    pub(crate) persistent_bytes: u64,
    /// Bytes of message data in memory.
    pub(crate) memory_bytes: usize,
    /// The bytes of them that [`Store::share_memory`] leaves it.
    pub(crate) share_bytes: usize,
    /// Blocks that have a place in segments, and in the log.
    pub(crate) in_segments: OnDisk,
    /// Bytes of all blocks ever written to its segments.
    pub(crate) all_segment_bytes: u64,
    pub(crate) in_log: OnDisk,
    /// Bytes of messages in blocks of segments that were settled since somebody was told of free room there.
    pub(crate) settled_unseen: u64,
    /// Blocks on their way to a segment whose place is not known yet.
    pub(crate) writes: u32,
    /// The newest segment that an answer named. Writes under way go to it or to a later one.
    pub(crate) segment_newest: u64,
    pub(crate) has_dead_segments: bool,
    /// A block in a segment was given up, or much in such blocks is settled: few messages may live there.
    pub(crate) may_be_sparse: bool,
    /// Segments that blocks left for others since the latest state record.
    pub(crate) moved_from: Vec<u64>,
    /// Where in the log blocks were that have been moved to segments since the latest state record.
    pub(crate) moved: Vec<LogRange>,
    /// Where in the log blocks were some of whose messages are dying, or were when the others were settled.
    pub(crate) dying_in_log: Vec<LogRange>,
    /// No state record refers to the log from here on.
    pub(crate) stated_end: u64,
    /// Bodies of blocks whose own bytes are in memory may be on disk only: since a restart.
    pub(crate) misses_bodies: bool,
    /// Log position of the oldest record this queue needs; 0 when none.
    pub(crate) oldest_log: u64,
    /// The latest state record.
    pub(crate) written: Written,
    pub(crate) checkpoint: Checkpoint,
    /// Logged messages that died and whose letters the driver has not reported as logged.
    pub(crate) dying: u64,
    /// The latest block could not be written: time alone is no reason to try again.
    pub(crate) write_failed: bool,
    /// Messages of the batch that are to be logged, in runs within their blocks.
    pub(crate) logged: Vec<(MessageSeq, u32)>,
    /// Shared bodies of these.
    pub(crate) logged_bodies: Vec<HeldBody>,
    /// Blocks on disk of which nobody has read since the restart what must be known of their messages.
    pub(crate) unread: BTreeSet<MessageSeq>,
    /// The originals that its messages may duplicate, in a queue that drops duplicates.
    pub(crate) present: Option<Box<Present>>,
    /// Messages that came back, in a queue that counts that.
    pub(crate) returns: Option<Box<Returns>>,
    /// Blocks that are kept in memory, or read, for members that lack their messages.
    pub(crate) filling: Vec<MessageSeq>,
    /// The message for which somebody waits who has had it since before this node led: its block stays in memory.
    pub(crate) claimed: Option<MessageSeq>,
    /// Some member is being sent what it lacks.
    pub(crate) is_filling: bool,
    /// Messages read back from segments or the log.
    pub(crate) disk_reads: u64,
    /// Messages written to the log or to segments; one that goes from the log to a segment counts twice.
    pub(crate) disk_writes: u64,
}

/// The bytes of a queue in a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SegmentUse {
    /// Blocks with messages that are not settled.
    pub(crate) blocks: u32,
    /// Bytes of those.
    pub(crate) needed_bytes: u64,
    /// Bytes of all blocks ever written to it; after a restart, at least as far as the last one that is needed.
    pub(crate) bytes: u64,
}

impl SegmentUse {
    /// One more block lies there.
    pub(crate) fn add(&mut self, block_bytes: u32) {
        self.blocks += 1;
        self.needed_bytes += u64::from(block_bytes);
        self.bytes += u64::from(block_bytes);
    }

    /// A block there is needed no more.
    pub(crate) fn remove(&mut self, block_bytes: u32) {
        self.blocks -= 1;
        self.needed_bytes -= u64::from(block_bytes);
    }
}

/// Blocks of a queue with a place on disk, of one sort of places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OnDisk {
    /// How many.
    pub(crate) blocks: u64,
    /// Their bytes there; in the log, records that several blocks share for each of them.
    pub(crate) bytes: u64,
    /// Of those, bytes of messages that are not settled.
    pub(crate) live_bytes: u64,
}

impl OnDisk {
    /// One more block.
    pub(crate) fn add(&mut self, place: Place, live_bytes: u32) {
        self.blocks += 1;
        self.bytes += u64::from(place.bytes());
        self.live_bytes += u64::from(live_bytes);
    }

    /// A block that is not there any more.
    pub(crate) fn remove(&mut self, place: Place, live_bytes: u32) {
        self.blocks -= 1;
        self.bytes -= u64::from(place.bytes());
        self.live_bytes -= u64::from(live_bytes);
    }
}

/// Size of a state record, and how many messages it told of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
}

impl Store {
    /// An empty store.
    pub(crate) fn new(config: &QueueConfig) -> Store {
        Store {
            is_durable: config.durable,
            configured_bytes: config.memory_bytes_max,
            levels: vec![Level::new(0)],
            first_number: 0,
            segments: BTreeMap::new(),
            unlogged: Vec::new(),
            released: Vec::new(),
            ready: 0,
            ready_bytes: 0,
            unacked: 0,
            unacked_bytes: 0,
            persistent: 0,
            persistent_bytes: 0,
            memory_bytes: 0,
            share_bytes: usize::MAX,
            in_segments: OnDisk::default(),
            all_segment_bytes: 0,
            in_log: OnDisk::default(),
            settled_unseen: 0,
            writes: 0,
            segment_newest: 0,
            has_dead_segments: false,
            may_be_sparse: false,
            moved_from: Vec::new(),
            moved: Vec::new(),
            dying_in_log: Vec::new(),
            stated_end: 0,
            misses_bodies: false,
            oldest_log: 0,
            written: Written::default(),
            checkpoint: Checkpoint::default(),
            dying: 0,
            write_failed: false,
            logged: Vec::new(),
            logged_bodies: Vec::new(),
            unread: BTreeSet::new(),
            present: config.deduplicates.then(Box::default),
            returns: config.counts_returns.then(Box::default),
            filling: Vec::new(),
            claimed: None,
            is_filling: false,
            disk_reads: 0,
            disk_writes: 0,
        }
    }

    /// Whether no message ever was in it.
    pub(crate) fn is_as_new(&self) -> bool {
        self.checkpoint == Checkpoint::Idle
            && self.first_number == 0
            && self.levels.iter().all(|level| level.next_number() == 0)
    }

    /// Whether it is empty, and nothing of it is on disk or under way. The first question settles it for queues that are in use.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.ready == 0
            && self.unacked == 0
            && self.oldest_log == 0
            && self.blocks_on_disk() == 0
            && self.memory_bytes == 0
            && self.writes == 0
            && self.dying == 0
            && self.persistent == 0
            && self.checkpoint == Checkpoint::Idle
            && self.present.is_none()
            && self.segments.is_empty()
            && self.moved.is_empty()
            && self.moved_from.is_empty()
            && self.dying_in_log.is_empty()
            && self.unlogged.is_empty()
            && self.released.is_empty()
            && self.unread.is_empty()
            && self.levels.iter().all(|level| level.is_empty())
    }

    /// Puts a message behind all others of its level, with the body that it has, or with this one. The batch that it is of is logged by
    /// [`Store::log_enqueued`].
    pub(crate) fn add(
        &mut self,
        incoming: &IncomingMessage<'_>,
        whole: Option<BodyBuffer>,
        level: usize,
        expiry_ms: Option<u64>,
    ) -> MessageSeq {
        let body_bytes = whole.as_ref().map_or(incoming.message.body.len(), |body| body.len());
        let before = self.level_mut(level).newest_mut().map_or(0, |block| block.memory_bytes());
        let block_bytes = self.backlog_block_bytes();
        let number = match whole {
            None => self.levels[level].push(incoming, expiry_ms, block_bytes),
            Some(body) => self.levels[level].push_whole(incoming, expiry_ms, body),
        };
        if body_bytes >= LARGE_BODY_BYTES && incoming.shared.is_none() {
            // It would take no more messages anyway. Closed, it can be lent to the sender of this one.
            self.levels[level].close_newest();
        }
        let newest = self.levels[level].newest_mut().expect("the message is in it");
        let after = newest.memory_bytes();
        let is_first_of_block = newest.count == 1;
        self.memory_bytes += if is_first_of_block { after } else { after - before };
        self.ready += 1;
        self.ready_bytes += body_bytes as u64;
        let seq = MessageSeq::new(level as u8, number);
        self.note_key(seq, &incoming.message);
        if incoming.persistent {
            self.persistent += 1;
            self.persistent_bytes += body_bytes as u64;
            if self.is_durable {
                self.log_next(seq, is_first_of_block);
                self.logged_bodies.extend(incoming.shared.cloned());
            }
        }
        seq
    }

    /// A message is logged with the batch.
    pub(super) fn log_next(&mut self, seq: MessageSeq, is_first_of_block: bool) {
        if is_first_of_block || !self.logged.last_mut().is_some_and(|latest| extends(latest, seq)) {
            self.logged.push((seq, 1));
        }
    }

    /// Adds messages from `next` on that are like the newest of the level, the one before them, in everything but the body: nothing
    /// has to be found out about them. Returns how many.
    pub(crate) fn add_alike<'a>(
        &mut self,
        newest: &IncomingMessage<'_>,
        level: usize,
        batch: &(impl IncomingMessages<'a> + ?Sized),
        next: usize,
    ) -> usize {
        let block_bytes = self.backlog_block_bytes();
        let bodies = (next..batch.count()).map_while(|nth| batch.alike(nth));
        let added = self.levels[level].push_alike(bodies, block_bytes);
        self.memory_bytes += added.stored_bytes;
        self.ready += u64::from(added.count);
        self.ready_bytes += added.body_bytes;
        if newest.persistent {
            self.persistent += u64::from(added.count);
            self.persistent_bytes += added.body_bytes;
            if self.is_durable {
                self.logged.last_mut().expect("the newest is to be logged").1 += added.count;
            }
        }
        added.count as usize
    }

    /// A level, made with those below it when it is not there.
    #[inline]
    pub(crate) fn level_mut(&mut self, level: usize) -> &mut Level {
        while self.levels.len() <= level {
            let mut made = Level::new(self.levels.len() as u8);
            made.go_on_at(self.first_number);
            self.levels.push(made);
        }
        &mut self.levels[level]
    }

    /// The block of a message.
    #[inline]
    pub(crate) fn block(&self, seq: MessageSeq) -> Option<&Block> {
        self.levels.get(usize::from(seq.level()))?.block(seq.number())
    }

    /// The highest level with ready messages.
    pub(crate) fn top_level(&self) -> Option<usize> {
        (0..self.levels.len()).rev().find(|level| self.levels[*level].ready() > 0)
    }

    /// Ready messages of each level that has some, the lowest first.
    pub(crate) fn ready_by_level(&self) -> Vec<(u8, u64)> {
        let mut all: Vec<u64> = self.levels.iter().map(Level::ready).collect();
        let line = self.returns.iter().flat_map(|returns| returns.line());
        line.for_each(|seq| all[usize::from(seq.level())] += 1);
        (0..).zip(all).filter(|(_, ready)| *ready > 0).collect()
    }

    /// Moves `count` messages from ready to unacked.
    pub(crate) fn take(&mut self, level: usize, count: usize) {
        let bytes = self.levels[level].take(count);
        less(&mut self.ready, count as u64, "ready messages");
        less(&mut self.ready_bytes, bytes, "bytes of ready messages");
        assert!(
            self.ready > 0 || self.ready_bytes == 0,
            "no message is ready, and bytes of some are counted"
        );
        self.unacked += count as u64;
        self.unacked_bytes += bytes;
    }

    /// Takes the head of a level, which must have one; returns its number.
    pub(crate) fn take_one(&mut self, level: usize) -> u64 {
        let number = self.levels[level].head().expect("the caller saw a ready message");
        self.take(level, 1);
        number
    }

    /// Removes handed-out messages for good; returns how many there were.
    pub(crate) fn drop_unacked(&mut self, first: MessageSeq, count: u32) -> u64 {
        self.remove(first, count, Removal::Logged)
    }

    /// Removes handed-out messages; returns how many there were.
    pub(crate) fn remove(&mut self, first: MessageSeq, count: u32, removal: Removal) -> u64 {
        let Some(level) = self.levels.get_mut(usize::from(first.level())) else { return 0 };
        let mut freed = Freed::default();
        let (mut settled, mut bytes, mut persistent, mut persistent_bytes) = (0, 0, 0, 0);
        let unlogged = &mut self.unlogged;
        let present = &mut self.present;
        let logged = self.is_durable && removal == Removal::Logged;
        level.settle_run(first.number(), u64::from(count), &mut freed, |messages: SettledMessages| {
            let seq = MessageSeq::new(first.level(), messages.first);
            settled += u64::from(messages.count);
            bytes += messages.body_bytes;
            if messages.persistent {
                persistent += u64::from(messages.count);
                persistent_bytes += messages.body_bytes;
            }
            if let Some(present) = present {
                (0..u64::from(messages.count)).for_each(|nth| present.remove(MessageSeq(seq.0 + nth)));
            }
            if messages.persistent && logged {
                push_settled(unlogged, seq, &messages);
            }
        });
        if let Some(returns) = self.returns.as_mut().filter(|returns| !returns.is_empty()) {
            returns.forget(first, count);
        }
        less(&mut self.unacked, settled, "unacked messages");
        less(&mut self.unacked_bytes, bytes, "bytes of unacked messages");
        less(&mut self.persistent, persistent, "persistent messages");
        less(&mut self.persistent_bytes, persistent_bytes, "bytes of persistent messages");
        assert!(
            self.unacked > 0 || self.unacked_bytes == 0,
            "no message is unacked, and bytes of some are counted"
        );
        assert!(
            self.persistent > 0 || self.persistent_bytes == 0,
            "none is persistent, and bytes of some are counted"
        );
        self.release(&freed);
        self.released.append(&mut freed.bodies);
        settled
    }

    /// Puts deliveries back where they were (B129); returns how many there were.
    pub(crate) fn put_back(&mut self, run: &SettleRun) -> u64 {
        let Some(level) = self.levels.get_mut(usize::from(run.first.level())) else { return 0 };
        let mut returned = 0;
        let first = run.first.number();
        for number in first..first.saturating_add(u64::from(run.count)) {
            if !level.is_unacked(number) {
                continue;
            }
            level.put_back(number);
            returned += 1;
            let body_bytes = level.block(number).map_or(0, |block| block.body_bytes(number));
            less(&mut self.unacked, 1, "unacked messages");
            less(&mut self.unacked_bytes, body_bytes, "bytes of unacked messages");
            self.ready += 1;
            self.ready_bytes += body_bytes;
        }
        returned
    }

    /// Logs gathered settlements as one record, then gives up the segments they emptied. Returns where the record ends in the log; 0 when
    /// there are none.
    pub(crate) fn settle_log(&mut self, fx: &mut impl Effects) -> u64 {
        let position = if self.unlogged.is_empty() { 0 } else { self.log_settled(fx) };
        // As with segments: a message whose removal is not logged would be looked for after a crash.
        if self.dying == 0 {
            self.released.clear();
        }
        self.delete_dead_segments(fx);
        position
    }

    fn log_settled(&mut self, fx: &mut impl Effects) -> u64 {
        let runs = &self.unlogged;
        let record = fx.append(RecordKind::Settle, &mut |out| {
            runs.iter().for_each(|run| record::write_settled(out, run));
        });
        self.unlogged.clear();
        if self.persistent == 0 && self.dying == 0 {
            // Nothing of this queue in the log matters any more.
            self.oldest_log = 0;
            self.has_dead_segments |= !self.moved_from.is_empty();
            self.moved_from.clear();
        }
        record.end
    }

    /// The shared bodies that records of this queue may name. For a driver that gives the machine up while they are still needed.
    pub fn bodies(&self) -> Vec<SharedBody> {
        let blocks = self.levels.iter().flat_map(Level::blocks);
        let held = blocks.flat_map(|block| block.bodies().map(|(_, body)| body));
        held.chain(&self.released).cloned().collect()
    }

    /// Bytes of shared bodies among [`Store::resident_bytes`].
    pub fn shared_bytes(&self) -> usize {
        self.levels.iter().flat_map(Level::blocks).map(Block::held_bytes).sum()
    }

    /// Bytes that those take where they are stored, without bodies that other queues have, too; about: looks at all of its blocks.
    pub fn stored_bytes(&self) -> u64 {
        self.levels.iter().flat_map(Level::blocks).map(|block| u64::from(block.live_persistent_bytes())).sum()
    }

    /// Letters of these messages are safe: now their removal is logged. True when that was what a checkpoint waited for, which is over now.
    pub(crate) fn letters_taken(&mut self, removals: &[SettledRun], fx: &mut impl Effects) -> bool {
        less(&mut self.dying, removals.len() as u64, "messages whose letters are on their way");
        if let Some(returns) = &mut self.returns {
            removals.iter().for_each(|run| returns.has_died(run.first));
        }
        self.unlogged.extend_from_slice(removals);
        self.settle_log(fx);
        let ends = self.dying == 0 && self.checkpoint.waits_for_letters();
        if ends {
            self.write_checkpoint(fx);
        }
        ends
    }

    /// After a recovery: all messages of the lowest level are handed out, and there is no other level.
    pub(crate) fn take_all(&mut self) {
        self.levels[0].take(usize::try_from(self.ready).expect("they fit into memory"));
        self.unacked += std::mem::take(&mut self.ready);
        self.unacked_bytes += std::mem::take(&mut self.ready_bytes);
    }

    /// Sizes of the messages of a block are in memory now. Until then they were known by what records told.
    pub(crate) fn correct_body_bytes(&mut self, before: BodyBytesOf, now: BodyBytesOf) {
        let all = if now.are_out { &mut self.unacked_bytes } else { &mut self.ready_bytes };
        *all += now.all;
        less(all, before.all, "bytes of messages");
        self.persistent_bytes += now.persistent;
        less(&mut self.persistent_bytes, before.persistent, "bytes of persistent messages");
    }

    /// Drops messages that are ready, from the head, about `count_max` of them (at least 1); returns how many (B80). Fewer than that: none is
    /// left.
    pub(crate) fn purge(&mut self, count_max: u64, fx: &mut impl Effects) -> u64 {
        let (mut purged, mut is_amid_block) = (0, false);
        self.return_due(u64::MAX);
        while purged < count_max
            && let Some(seq) = self.take_returned()
        {
            self.drop_unacked(seq, 1);
            purged += 1;
        }
        while (purged < count_max || is_amid_block)
            && let Some(level) = self.top_level()
        {
            let number = self.take_one(level);
            is_amid_block =
                self.levels[level].block(number).is_some_and(|block| block.is_amid_unknown(number));
            self.drop_unacked(MessageSeq::new(level as u8, number), 1);
            purged += 1;
        }
        self.settle_log(fx);
        purged
    }

    /// How many of its messages are persistent, ready and unacked.
    #[inline]
    pub fn persistent(&self) -> u64 {
        self.persistent
    }

    /// Log position of the oldest record needed to recover this queue; 0 when none is.
    pub fn oldest_log_position(&self) -> u64 {
        self.oldest_log
    }

    /// Bytes on the heap: messages in memory, and the state of those on disk. Without bodies that it shares.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.levels.capacity() * size_of::<Level>()
            + self.levels.iter().map(Level::heap_bytes).sum::<usize>()
            + self.index_bytes()
            + self.returns.as_ref().map_or(0, |returns| size_of::<Returns>() + returns.heap_bytes())
            + self.segments.len() * size_of::<(u64, SegmentUse)>()
            + (self.moved.capacity() + self.dying_in_log.capacity()) * size_of::<LogRange>()
            + self.moved_from.capacity() * size_of::<u64>()
            + self.unlogged.capacity() * size_of::<SettledRun>()
            + self.released.capacity() * size_of::<SharedBody>()
            + self.logged_bodies.capacity() * size_of::<HeldBody>()
            + self.logged.capacity() * size_of::<(MessageSeq, u32)>()
    }
}

/// Takes from a counter of a queue. Less than nothing is a bug: something was handed out or settled twice. The queue must not go on.
#[inline]
#[track_caller]
pub(super) fn less(counter: &mut u64, by: u64, what: &str) {
    match counter.checked_sub(by) {
        Some(left) => *counter = left,
        None => too_few(what),
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn too_few(what: &str) -> ! {
    panic!("a queue has fewer {what} than it gives up")
}

/// How a removal gets into the log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    Logged,
    LoggedWithItsLetter,
}

/// Makes a run one longer when `seq` follows it.
pub(crate) fn extends((first, count): &mut (MessageSeq, u32), seq: MessageSeq) -> bool {
    let follows = first.0 + u64::from(*count) == seq.0 && *count < u32::MAX;
    *count += u32::from(follows);
    follows
}

/// Adds settled messages to the runs of a settle record: a run stays within a block.
pub(super) fn push_settled(runs: &mut Vec<SettledRun>, seq: MessageSeq, messages: &SettledMessages) {
    let (count, body_bytes) = (messages.count, u32::try_from(messages.body_bytes).unwrap_or(u32::MAX));
    match runs.last_mut() {
        Some(run) if run.first.0 + u64::from(run.count) == seq.0 && !messages.begins_block => {
            run.count += count;
            run.body_bytes = run.body_bytes.saturating_add(body_bytes);
        }
        _ => runs.push(SettledRun { first: seq, count, body_bytes }),
    }
}
