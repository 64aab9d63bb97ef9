//! State of consumers, gets and rejected messages; times and counters.

use std::collections::VecDeque;
use std::sync::Arc;

use super::consumers::Consumers;
use super::totals::{QueueTotals, Tally};
use crate::arguments::QueueConfig;
use crate::effects::{Effects, GetToken};
use crate::machine::DiskAnswer;
use crate::store::Store;
use crate::store::block::Block;
use crate::store::level::Level;
use crate::store::spill::Demand;
use crate::traffic::{ConsumerSpec, Flow, MessageSeq, QueueCounts};

/// Serves those who wait for messages of a [`Store`], and lets messages leave by rule.
#[derive(Debug)]
pub struct Service {
    pub(crate) config: Arc<QueueConfig>,
    pub(crate) consumers: Consumers,
    pub(crate) gets: VecDeque<GetToken>,
    /// Rejected deliveries whose block must come back from disk before they can be dead-lettered.
    pub(crate) rejects: VecDeque<(MessageSeq, u32)>,
    /// Some message may carry an expiry.
    pub(crate) may_expire: bool,
    /// Latest wake-up asked for.
    pub(crate) wake_ms: u64,
    pub(crate) last_used_ms: u64,
    /// When a message or a consumer last came or went; 0 for never.
    pub(crate) active_ms: u64,
    /// So many letters wait to be sent that messages which are to die wait, too.
    pub(super) letters_wait: bool,
    /// So many bytes of messages may still die; where the disk is nearly full their letters use up what is left of it.
    pub(super) is_disk_short: bool,
    pub(crate) had_consumer: bool,
    /// The queue follows a leader: nobody is served, and nothing leaves by rule.
    pub(crate) follows: bool,
    /// Clients that hold messages since before this node led may not have said so: nobody is served, and nothing leaves by rule.
    pub(crate) awaits_claims: bool,
    pub(crate) tally: Tally,
}

impl Service {
    /// Nobody is served yet. `now_ms` starts the clock of `x-expires`.
    pub(crate) fn new(config: Arc<QueueConfig>, now_ms: u64) -> Service {
        Service {
            consumers: Consumers::new(config.single_active).making_way(config.yields_to_priority),
            config,
            gets: VecDeque::new(),
            rejects: VecDeque::new(),
            may_expire: false,
            wake_ms: u64::MAX,
            last_used_ms: now_ms,
            active_ms: 0,
            letters_wait: false,
            is_disk_short: false,
            had_consumer: false,
            follows: false,
            awaits_claims: false,
            tally: Tally::default(),
        }
    }

    /// The same for messages that were recovered.
    pub(crate) fn of(store: &Store, config: Arc<QueueConfig>, now_ms: u64) -> Service {
        let may_expire = store.levels.iter().flat_map(Level::blocks).any(|block: &Block| block.expires);
        Service { may_expire, ..Service::new(config, now_ms) }
    }

    /// Whether nobody was ever served.
    pub(crate) fn is_as_new(&self, store: &Store) -> bool {
        self.totals(store) == QueueTotals::NONE
            && self.wake_ms == u64::MAX
            && !self.is_still()
            && !self.had_consumer
            && self.gets.is_empty()
    }

    /// All counters.
    pub(crate) fn totals(&self, store: &Store) -> QueueTotals {
        QueueTotals { disk_reads: store.disk_reads, disk_writes: store.disk_writes, ..*self.tally.now() }
    }

    /// The demand of consumers and gets on the store.
    pub(crate) fn demand(&self, store: &Store) -> Demand {
        let is_waited_for = !self.gets.is_empty() || self.consumers.next().is_some();
        Demand {
            is_awaited: is_waited_for || self.is_too_long(store),
            dying: self.rejects.front().map(|(first, _)| *first),
        }
    }

    /// Moves message data out of memory while there is more than the queue may keep.
    pub(crate) fn relieve(&self, store: &mut Store, fx: &mut impl Effects) {
        if store.memory_bytes > store.memory_bytes_max() {
            store.relieve(self.demand(store), fx);
        }
    }

    /// Adds a consumer, paused until it is resumed. False when exclusiveness forbids it (B116).
    pub(crate) fn add_consumer(&mut self, spec: ConsumerSpec, now_ms: u64) -> bool {
        if self.follows || !self.consumers.admits(spec.exclusive) {
            return false;
        }
        self.had_consumer = true;
        (self.last_used_ms, self.active_ms) = (now_ms, now_ms);
        self.consumers.add(spec);
        true
    }

    /// The queue is deleted: tells those who wait.
    pub(crate) fn delete(&mut self, fx: &mut impl Effects) {
        for id in self.consumers.ids() {
            fx.consumer_cancelled(id);
        }
        while let Some(get) = self.gets.pop_front() {
            fx.got(get, None);
        }
    }

    /// Whether messages stay where they are for now.
    pub(crate) fn is_still(&self) -> bool {
        self.follows || self.awaits_claims
    }

    /// The queue follows from now on: waiting gets are told that there is nothing.
    pub(crate) fn serve_nobody(&mut self, fx: &mut impl Effects) {
        self.follows = true;
        self.awaits_claims = false;
        self.rejects.clear();
        self.consumers = Consumers::new(self.config.single_active).making_way(self.config.yields_to_priority);
        while let Some(get) = self.gets.pop_front() {
            fx.got(get, None);
        }
    }

    /// Counts for declare-ok (B70).
    pub(crate) fn counts(&self, store: &Store) -> QueueCounts {
        QueueCounts { ready: store.ready, consumers: self.consumers.count() }
    }

    /// How fast it takes and gives; a queue with consumers lags when half of its memory is used, or the disk.
    pub(crate) fn flow(&self, store: &Store) -> Flow {
        let is_behind = store.memory_bytes > store.memory_bytes_max() / 2 || store.blocks_on_disk() > 0;
        Flow {
            published: self.tally.now().published,
            delivered: self.tally.now().deliveries.handed_out(),
            ready: store.ready,
            is_lagging: is_behind && self.consumers.count() > 0,
        }
    }

    /// Letters for a queue that is out of service may not be logged before the next restart. Work that waits behind the dead must not wait
    /// as long: the checkpoint ends without a state record, the log stays as it is.
    pub(crate) fn look_at_letters(&mut self, store: &mut Store, now_ms: u64, fx: &mut impl Effects) {
        match store.awaits_letters_until_ms() {
            Some(until_ms) if now_ms < until_ms => self.want_wake(until_ms, fx),
            Some(_) => store.give_checkpoint_up(fx),
            None => {}
        }
    }

    /// Blocks were written, left in the log or made durable, or could not be.
    pub(crate) fn note_stored(
        &mut self,
        store: &mut Store,
        answer: &DiskAnswer<'_>,
        now_ms: u64,
        fx: &mut impl Effects,
    ) {
        match *answer {
            DiskAnswer::Written(token, place) => store.block_written(token, place, self.demand(store), fx),
            DiskAnswer::Logged(token, is_durable) => {
                store.block_logged(token, is_durable, self.demand(store), fx);
            }
            DiskAnswer::Synced(true) => {
                store.blocks_synced(now_ms, fx);
                self.look_at_letters(store, now_ms, fx);
            }
            DiskAnswer::Synced(false) => store.blocks_not_synced(fx),
            DiskAnswer::Read(..) => {}
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.rejects.capacity() * size_of::<(MessageSeq, u32)>()
            + self.gets.capacity() * size_of::<GetToken>()
            + self.consumers.heap_bytes()
            + self.tally.heap_bytes()
    }
}
