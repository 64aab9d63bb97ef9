//! The machine itself: enqueue, settle, consumers, counters.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::arguments::{Order, QueueConfig};
use crate::body::{HeldBody, SharedBody};
use crate::effects::{DeadReason, Effects, GetToken};
use crate::logged::{LogRange, Place};
use crate::message::{ConsumerId, ConsumerSpec, MessageSeq, QueueCounts, SettleHow, SettleRun};
use crate::record::{self, RecordKind, SettledRun};
use crate::service::consumers::Consumers;
use crate::service::expiry::Portion;
use crate::service::letters::{is_alike, letter_bytes};
use crate::service::schedule::Schedule;
use crate::service::totals::{QueueTotals, Tally};
use crate::store::block::Block;
use crate::store::level::{Freed, Level, SettledMessages};
use crate::store::spill::Checkpoint;
use crate::unique::Present;

/// Why a queue deletes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Its last consumer left and it is auto-delete (B68).
    LastConsumer,
    /// Unused for `x-expires` (B141).
    Unused,
}

/// What became of a batch of publishes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PublishOutcome {
    /// Indices in the batch that a length limit refused (B107, B142).
    pub rejected: Vec<u32>,
    /// Log position that must be durable before the batch is confirmed; 0 when nothing was logged.
    pub log_position: u64,
}

/// A classic queue.
#[derive(Debug)]
pub struct Classic {
    pub(crate) config: Arc<QueueConfig>,
    pub(crate) levels: Vec<Level>,
    pub(crate) consumers: Consumers,
    pub(crate) gets: VecDeque<GetToken>,
    /// Rejected deliveries whose block must come back from disk before they can be dead-lettered.
    pub(crate) rejects: VecDeque<(MessageSeq, u32)>,
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
    /// What [`Classic::share_memory`] leaves it of those.
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
    /// A block in a segment was given up, or much in such blocks is settled: what lives there may be little.
    pub(crate) may_be_sparse: bool,
    /// Segments that blocks left for others since the latest state record.
    pub(crate) moved_from: Vec<u64>,
    /// Where in the log blocks were that have been moved to segments since the latest state record.
    pub(crate) moved: Vec<LogRange>,
    /// Where in the log blocks were some of whose messages are dying, or were when the others were settled.
    pub(crate) dying_in_log: Vec<LogRange>,
    /// No state record refers to the log from here on.
    pub(crate) stated_end: u64,
    /// Some message may carry an expiry.
    pub(crate) may_expire: bool,
    /// Bodies of blocks whose own bytes are in memory may be on disk only: since a restart.
    pub(crate) misses_bodies: bool,
    /// Latest wake-up asked for.
    pub(crate) wake_ms: u64,
    pub(crate) last_used_ms: u64,
    /// When a message or a consumer last came or went; 0 for never.
    pub(crate) active_ms: u64,
    /// Log position of the oldest record this queue needs; 0 when none.
    pub(crate) oldest_log: u64,
    /// The latest state record.
    pub(crate) written: Written,
    pub(crate) checkpoint: Checkpoint,
    /// Logged messages that died and whose letters the driver has not reported as logged.
    pub(crate) dying: u64,
    /// So many letters wait to be sent that messages which are to die wait, too.
    letters_wait: bool,
    /// So many bytes of messages may still die; where the disk is nearly full their letters use up what is left of it.
    letters_room_bytes: u64,
    /// The latest block could not be written: time alone is no reason to try again.
    pub(crate) write_failed: bool,
    pub(crate) had_consumer: bool,
    pub(crate) tally: Tally,
    /// Messages of the batch that are to be logged, in runs within their blocks.
    pub(crate) logged: Vec<(MessageSeq, u32)>,
    /// Shared bodies of these.
    pub(crate) logged_bodies: Vec<HeldBody>,
    /// Blocks on disk of which nobody has read since the restart what the machine must know of their messages.
    pub(crate) unread: BTreeSet<MessageSeq>,
    /// What its messages are duplicates of, in a queue that drops them.
    pub(crate) present: Option<Box<Present>>,
    /// When messages are due, in a queue of [`Order::Due`].
    pub(crate) schedule: Option<Box<Schedule>>,
}

/// What a queue has in a segment.
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

impl Classic {
    /// An empty queue. `now_ms` starts the clock of `x-expires`.
    pub fn new(config: impl Into<Arc<QueueConfig>>, now_ms: u64) -> Classic {
        let config = config.into();
        let levels = (0..=config.max_priority).map(Level::new).collect();
        let consumers = Consumers::new(config.single_active);
        let present = config.deduplicates.then(Box::default);
        let schedule = (config.order == Order::Due).then(Box::default);
        Classic {
            config,
            levels,
            consumers,
            gets: VecDeque::new(),
            rejects: VecDeque::new(),
            segments: BTreeMap::new(),
            unlogged: Vec::new(),
            released: Vec::new(),
            logged_bodies: Vec::new(),
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
            may_expire: false,
            misses_bodies: false,
            wake_ms: u64::MAX,
            last_used_ms: now_ms,
            active_ms: 0,
            oldest_log: 0,
            written: Written::default(),
            checkpoint: Checkpoint::default(),
            dying: 0,
            letters_wait: false,
            letters_room_bytes: u64::MAX,
            write_failed: false,
            had_consumer: false,
            tally: Tally::default(),
            logged: Vec::new(),
            schedule,
            present,
            unread: BTreeSet::new(),
        }
    }

    /// Whether it is as if it had just been made: nobody would miss it.
    pub fn is_as_new(&self) -> bool {
        *self.tally.now() == QueueTotals::NONE
            && self.wake_ms == u64::MAX
            && !self.had_consumer
            && self.gets.is_empty()
            && self.checkpoint == Checkpoint::Idle
            && self.levels.iter().all(|level| level.next_number() == 0)
    }

    /// Its configuration.
    pub fn config(&self) -> &Arc<QueueConfig> {
        &self.config
    }

    /// Settles deliveries. Runs that were never handed out are passed over.
    pub fn settle(&mut self, how: SettleHow, runs: &[SettleRun], now_ms: u64, fx: &mut impl Effects) {
        self.active_ms = now_ms;
        for run in runs {
            let settled = match how {
                SettleHow::Ack => {
                    let settled = self.drop_unacked(run.first, run.count);
                    self.tally.totals().deliveries.acked += settled;
                    settled
                }
                SettleHow::Requeue => self.requeue(run),
                SettleHow::Reject => {
                    let settled = self.reject(run.first, run.count, fx);
                    self.tally.totals().rejected += settled;
                    settled
                }
            };
            if let Some(consumer) = run.consumer {
                self.consumers.settled(consumer, settled as u32);
            }
        }
        self.settle_log(fx);
        self.trim(0, now_ms, fx);
        self.expire(now_ms, fx);
        self.serve(now_ms, fx);
        self.relieve(fx);
    }

    /// Settles what basic.get fetched without ack: nobody acked it.
    pub fn settle_unasked(&mut self, runs: &[SettleRun], now_ms: u64, fx: &mut impl Effects) {
        let before = self.tally.now().deliveries.acked;
        self.settle(SettleHow::Ack, runs, now_ms, fx);
        let totals = &mut self.tally.totals().deliveries;
        let settled = totals.acked - before;
        totals.acked = before;
        totals.got -= settled;
        totals.got_no_ack += settled;
    }

    /// Removes handed-out messages for good; returns how many there were.
    pub(crate) fn drop_unacked(&mut self, first: MessageSeq, count: u32) -> u64 {
        self.remove(first, count, Removal::Logged)
    }

    fn remove(&mut self, first: MessageSeq, count: u32, removal: Removal) -> u64 {
        let Some(level) = self.levels.get_mut(usize::from(first.level())) else { return 0 };
        let mut freed = Freed::default();
        let (mut settled, mut bytes, mut persistent, mut persistent_bytes) = (0, 0, 0, 0);
        let unlogged = &mut self.unlogged;
        let present = &mut self.present;
        let logged = self.config.durable && removal == Removal::Logged;
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
        self.unacked -= settled;
        self.unacked_bytes = self.unacked_bytes.saturating_sub(bytes);
        self.persistent -= persistent;
        self.persistent_bytes = self.persistent_bytes.saturating_sub(persistent_bytes);
        self.release(&freed);
        self.released.append(&mut freed.bodies);
        settled
    }

    /// Puts deliveries back where they were (B129); returns how many there were.
    fn requeue(&mut self, run: &SettleRun) -> u64 {
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
            self.unacked -= 1;
            self.unacked_bytes = self.unacked_bytes.saturating_sub(body_bytes);
            self.ready += 1;
            self.ready_bytes += body_bytes;
        }
        returned
    }

    /// Dead-letters deliveries whose content is at hand; the others wait for their block, and those after them behind them.
    /// Returns how many there were.
    pub(crate) fn reject(&mut self, first: MessageSeq, count: u32, fx: &mut impl Effects) -> u64 {
        if !self.config.dead_letters {
            return self.drop_unacked(first, count);
        }
        let mut rejected = 0;
        for offset in 0..u64::from(count) {
            let seq = MessageSeq(first.0 + offset);
            let Some(level) = self.levels.get(usize::from(seq.level())) else { break };
            if !level.is_unacked(seq.number()) {
                continue;
            }
            rejected += 1;
            let block = level.block(seq.number()).expect("unacked messages have a block");
            if self.rejects.is_empty() && block.is_resident() && !self.holds_deaths() {
                self.bury(seq, DeadReason::Rejected, fx);
            } else if !self.rejects.back_mut().is_some_and(|latest| extends(latest, seq)) {
                self.rejects.push_back((seq, 1));
            }
        }
        self.fetch_rejects(fx);
        rejected
    }

    /// Dead-letters a portion of what waited for its block, for the end of a checkpoint, or for earlier letters.
    pub(crate) fn retry_rejects(&mut self, now_ms: u64, fx: &mut impl Effects) {
        let mut portion = Portion::with(0);
        while let Some((first, count)) = self.rejects.front().copied() {
            let block = self.levels[usize::from(first.level())].block(first.number());
            if self.holds_deaths() || block.is_some_and(|block| !block.is_resident()) {
                break;
            }
            if !portion.has_room() {
                self.want_wake(now_ms, fx);
                break;
            }
            portion.take(block.map_or(0, |block| block.body_bytes(first.number())));
            if count == 1 {
                self.rejects.pop_front();
            } else {
                self.rejects[0] = (MessageSeq(first.0 + 1), count - 1);
            }
            self.bury(first, DeadReason::Rejected, fx);
        }
        self.fetch_rejects(fx);
    }

    /// Asks for the block of the reject that waits longest; the others follow, so that their blocks are not in memory all at
    /// once.
    fn fetch_rejects(&mut self, fx: &mut impl Effects) {
        if let Some((first, _)) = self.rejects.front().copied() {
            self.request_block(first, fx);
        }
    }

    /// A handed-out message whose block is in memory dies. Its removal is logged when its letter is safe.
    pub(crate) fn bury(&mut self, seq: MessageSeq, reason: DeadReason, fx: &mut impl Effects) {
        let block = self.levels[usize::from(seq.level())].block(seq.number()).expect("it is handed out");
        let stored = block.stored(seq.number()).expect("its block is in memory");
        let is_logged = self.config.durable && block.is_persistent(seq.number());
        let body_bytes = stored.message.body.len() as u32;
        let removal = is_logged.then_some(SettledRun { first: seq, count: 1, body_bytes });
        if self.letters_room_bytes < u64::MAX && stored.persistent {
            let is_alike = is_alike(block, seq.number(), &stored);
            let bytes = letter_bytes(stored.message, stored.annotations, is_alike);
            self.letters_room_bytes = self.letters_room_bytes.saturating_sub(bytes);
        }
        fx.dead_letter(reason, removal, stored.message, stored.annotations, block.held_body(seq.number()));
        self.dying += u64::from(is_logged);
        self.remove(seq, 1, Removal::LoggedWithItsLetter);
    }

    /// The letters of these messages are logged where they went (or went nowhere): now their removal is. `removals` are those
    /// that [`Effects::dead_letter`] was given, each once.
    pub fn letters_taken(&mut self, removals: &[SettledRun], now_ms: u64, fx: &mut impl Effects) {
        self.dying -= removals.len() as u64;
        self.unlogged.extend_from_slice(removals);
        self.settle_log(fx);
        if self.dying == 0 && self.checkpoint.waits_for_letters() {
            self.write_checkpoint(fx);
            self.retry_rejects(now_ms, fx);
            self.trim(0, now_ms, fx);
            self.expire(now_ms, fx);
            self.serve(now_ms, fx);
            self.release_due(now_ms, fx);
            self.relieve(fx);
        }
    }

    /// Whether messages must not die for now: because of the state record, or because too many letters wait to be sent.
    pub(crate) fn holds_deaths(&self) -> bool {
        let do_letters_wait = self.letters_wait || self.letters_room_bytes == 0;
        self.config.dead_letters && (do_letters_wait || self.holds_for_checkpoint())
    }

    /// Whether nobody knows when messages may die again.
    pub(crate) fn holds_deaths_for_long(&self) -> bool {
        self.config.dead_letters && self.letters_room_bytes == 0
    }

    /// Whether the state record must hold either a message or its logged letter.
    pub(crate) fn holds_for_checkpoint(&self) -> bool {
        self.checkpoint.waits_for_letters()
    }

    /// Whether so many letters wait to be sent that no further message is to die by rule. When that is over, a [`Classic::tick`] has to
    /// follow.
    #[inline]
    pub fn let_letters_wait(&mut self, they_do: bool) {
        self.letters_wait = they_do;
    }

    /// So many bytes of messages may die, with [`letter_bytes`] for each, the last of them whatever it has; `u64::MAX` is no bound.
    /// At zero expired messages stay at the head, and who gets one is told that there is none. When there is more again, also after it was
    /// used up, a [`Classic::tick`] has to follow.
    #[inline]
    pub fn let_letters_have(&mut self, bytes: u64) {
        self.letters_room_bytes = bytes;
    }

    /// Whether messages that are to die wait for [`Classic::let_letters_have`].
    #[inline]
    pub fn letters_await_room(&self) -> bool {
        self.holds_deaths_for_long()
    }

    /// Logs gathered settlements as one record, then gives up the segments they emptied.
    pub(crate) fn settle_log(&mut self, fx: &mut impl Effects) {
        if !self.unlogged.is_empty() {
            self.log_settled(fx);
        }
        // As with segments: a message whose removal is not logged would be looked for after a crash.
        if self.dying == 0 {
            self.released.clear();
        }
        self.delete_dead_segments(fx);
    }

    fn log_settled(&mut self, fx: &mut impl Effects) {
        let runs = &self.unlogged;
        fx.append(RecordKind::Settle, &mut |out| {
            runs.iter().for_each(|run| record::write_settled(out, run));
        });
        self.unlogged.clear();
        if self.persistent == 0 && self.dying == 0 {
            // Nothing of this queue in the log matters any more.
            self.oldest_log = 0;
            self.has_dead_segments |= !self.moved_from.is_empty();
            self.moved_from.clear();
        }
    }

    /// Adds a consumer, paused until [`Classic::resume`]. False when exclusiveness forbids it (B116).
    pub fn add_consumer(&mut self, spec: ConsumerSpec, now_ms: u64) -> bool {
        if !self.consumers.admits(spec.exclusive) {
            return false;
        }
        self.had_consumer = true;
        (self.last_used_ms, self.active_ms) = (now_ms, now_ms);
        self.consumers.add(spec);
        true
    }

    /// Removes a consumer; its deliveries stay unacked (B118). An auto-delete queue goes with its last one (B68).
    pub fn cancel(&mut self, consumer: ConsumerId, now_ms: u64, fx: &mut impl Effects) {
        if self.consumers.remove(consumer).is_none() {
            return;
        }
        (self.last_used_ms, self.active_ms) = (now_ms, now_ms);
        if self.consumers.count() == 0 && self.had_consumer && self.config.auto_delete {
            fx.gone(Gone::LastConsumer);
            return;
        }
        self.watch_expires(fx);
        self.serve(now_ms, fx);
    }

    /// A consumer can take deliveries (again).
    pub fn resume(&mut self, consumer: ConsumerId, now_ms: u64, fx: &mut impl Effects) {
        self.consumers.resume(consumer);
        self.expire(now_ms, fx);
        self.serve(now_ms, fx);
        self.relieve(fx);
    }

    /// The queue was declared again or looked at: `x-expires` starts over (B141).
    pub fn touch(&mut self, now_ms: u64, fx: &mut impl Effects) {
        self.last_used_ms = now_ms;
        self.watch_expires(fx);
    }

    /// Takes over what policies may change while the queue lives: times, limits and what happens at them, and whether the dead
    /// are handed out. Messages keep the time to live that they came with; `x-expires` starts over.
    pub fn reconfigure(&mut self, config: Arc<QueueConfig>, now_ms: u64, fx: &mut impl Effects) {
        self.config = config;
        self.last_used_ms = now_ms;
        self.trim(0, now_ms, fx);
        self.settle_log(fx);
        self.expire(now_ms, fx);
        self.serve(now_ms, fx);
        self.watch_expires(fx);
        self.relieve(fx);
    }

    /// Removes ready messages from the head without dead-lettering, about `count_max` of them (at least 1); returns how many (B80).
    /// Fewer than that: none is left.
    pub fn purge(&mut self, count_max: u64, fx: &mut impl Effects) -> u64 {
        if self.is_schedule() {
            return self.drop_scheduled_up_to(count_max, fx);
        }
        let (mut purged, mut is_amid_block) = (0, false);
        while (purged < count_max || is_amid_block)
            && let Some(level) = self.top_level()
        {
            let number = self.take_one(level);
            is_amid_block =
                self.levels[level].block(number).is_some_and(|block| block.is_amid_unknown(number));
            self.drop_unacked(MessageSeq::new(level as u8, number), 1);
            purged += 1;
        }
        // Sizes of messages on disk are not at hand one by one: what is logged is right for whole blocks of them.
        if self.ready == 0 {
            self.ready_bytes = 0;
            self.persistent_bytes = match self.persistent {
                0 => 0,
                _ => self.levels.iter().flat_map(Level::blocks).map(Block::live_persistent_body_bytes).sum(),
            };
        }
        self.settle_log(fx);
        purged
    }

    /// The queue is deleted: tells its consumers. The driver removes what is stored.
    pub fn delete(&mut self, fx: &mut impl Effects) -> u64 {
        for id in self.consumers.ids() {
            fx.consumer_cancelled(id);
        }
        while let Some(get) = self.gets.pop_front() {
            fx.got(get, None);
        }
        self.ready
    }

    /// The shared bodies that records of this queue may name. For a driver that gives the machine up while they are still needed.
    pub fn bodies(&self) -> Vec<SharedBody> {
        let blocks = self.levels.iter().flat_map(Level::blocks);
        let held = blocks.flat_map(|block| block.bodies().map(|(_, body)| body));
        held.chain(&self.released).cloned().collect()
    }

    /// Bytes of shared bodies among [`Classic::resident_bytes`].
    pub fn shared_bytes(&self) -> usize {
        self.levels.iter().flat_map(Level::blocks).map(Block::held_bytes).sum()
    }

    /// Counts for declare-ok (B70).
    pub fn counts(&self) -> QueueCounts {
        QueueCounts { ready: self.ready, consumers: self.consumers.count() }
    }

    /// How many of its messages are persistent, ready and unacked.
    #[inline]
    pub fn persistent(&self) -> u64 {
        self.persistent
    }

    /// Unacked deliveries; a queue with some is not empty for nobody but itself.
    pub fn unacked(&self) -> u64 {
        self.unacked
    }

    /// Bytes that those take where they are stored, without bodies that other queues have, too; about: looks at all of its blocks.
    pub fn stored_bytes(&self) -> u64 {
        self.levels.iter().flat_map(Level::blocks).map(|block| u64::from(block.live_persistent_bytes())).sum()
    }

    /// Log position of the oldest record needed to recover this queue; 0 when none is.
    pub fn oldest_log_position(&self) -> u64 {
        self.oldest_log
    }

    /// Bytes on the heap: messages in memory, what is known of those on disk, consumers. Without the machine itself and without
    /// bodies that it shares.
    pub fn heap_bytes(&self) -> usize {
        self.levels.capacity() * size_of::<Level>()
            + self.levels.iter().map(Level::heap_bytes).sum::<usize>()
            + self.index_bytes()
            + self.segments.len() * size_of::<(u64, SegmentUse)>()
            + (self.moved.capacity() + self.dying_in_log.capacity()) * size_of::<LogRange>()
            + self.moved_from.capacity() * size_of::<u64>()
            + self.unlogged.capacity() * size_of::<SettledRun>()
            + self.released.capacity() * size_of::<SharedBody>()
            + self.logged_bodies.capacity() * size_of::<HeldBody>()
            + self.logged.capacity() * size_of::<(MessageSeq, u32)>()
            + self.rejects.capacity() * size_of::<(MessageSeq, u32)>()
            + self.gets.capacity() * size_of::<GetToken>()
            + self.consumers.heap_bytes()
            + self.tally.heap_bytes()
    }
}

/// How a removal gets into the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Removal {
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
fn push_settled(runs: &mut Vec<SettledRun>, seq: MessageSeq, messages: &SettledMessages) {
    let body_bytes = messages.body_bytes + messages.away_body_bytes;
    let (count, body_bytes) = (messages.count, u32::try_from(body_bytes).unwrap_or(u32::MAX));
    match runs.last_mut() {
        Some(run) if run.first.0 + u64::from(run.count) == seq.0 && !messages.begins_block => {
            run.count += count;
            run.body_bytes = run.body_bytes.saturating_add(body_bytes);
        }
        _ => runs.push(SettledRun { first: seq, count, body_bytes }),
    }
}
