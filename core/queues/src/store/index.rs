//! What a machine must know of each message besides where it is: when it is due, what it repeats. Learnt when a message comes;
//! after a restart from the blocks, those on disk read back one after the other.

use wire::amqp091::Properties;

use super::level::Level;
use crate::arguments::Overflow;
use crate::classic::machine::Classic;
use crate::effects::Effects;
use crate::message::{IncomingMessage, MessageSeq};
use crate::unique::{Present, UniqueKey};

/// Blocks read at once after a restart to learn what is in them.
const READS_MAX: usize = 4;

/// Why a queue does not take a message that is routed to it, or does not keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnedAway {
    /// One with the same `x-deduplication-header` is in it: dropped.
    Duplicate,
    /// It is as long as it may be, and refuses publishes then.
    Full(Afterwards),
    /// It takes the message and drops it for its limit: from the head, and there is nothing else to drop.
    OverLimit(Afterwards),
    /// It takes the message, and nobody gets it before its time to live of 0 is over.
    Expires(Afterwards),
}

/// What becomes of a message that a queue does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// Nothing.
    Gone,
    /// It goes to the dead-letter exchange of the queue.
    DeadLettered,
}

impl Classic {
    /// Whether a message with these raw properties and a body of that size would be turned away now.
    pub fn turns_away(&self, properties: &[u8], body_bytes: u64) -> Option<TurnedAway> {
        let is_present =
            |present: &Present| UniqueKey::of_properties(properties).is_some_and(|key| present.contains(key));
        let afterwards = |dies: bool| {
            if dies && self.config.dead_letters { Afterwards::DeadLettered } else { Afterwards::Gone }
        };
        if self.present.is_none() && self.next_to_pass_to().is_some() {
            // It would not be in the queue at all.
            None
        } else if self.is_full_for(body_bytes) {
            Some(TurnedAway::Full(afterwards(self.config.overflow == Overflow::RejectPublishDlx)))
        } else if self.present.as_deref().is_some_and(is_present) {
            Some(TurnedAway::Duplicate)
        } else {
            let level = usize::from(
                Properties::new(properties).priority().unwrap_or(0).min(self.config.max_priority),
            );
            if self.drops_at_once(level, body_bytes) {
                Some(TurnedAway::OverLimit(afterwards(true)))
            } else {
                self.expires_at_once(level).then(|| TurnedAway::Expires(afterwards(true)))
            }
        }
    }

    /// Whether a new message of that level is dropped from the head with all before it, and before consumers are asked.
    fn drops_at_once(&self, level: usize, body_bytes: u64) -> bool {
        let below: u64 = self.levels.iter().take(level).map(Level::ready).sum();
        let over_count = self.config.max_length.is_some_and(|max| below + 1 > max);
        let over_bytes = self.config.max_length_bytes.is_some_and(|max| body_bytes > max);
        self.config.overflow == Overflow::DropHead && (over_count || over_bytes)
    }

    /// Whether a new message of that level is the head, overdue and asked for by nobody.
    fn expires_at_once(&self, level: usize) -> bool {
        let is_head = self.levels.iter().skip(level).all(|level| level.ready() == 0);
        let is_waited_for = self.consumers.next().is_some() || !self.gets.is_empty();
        self.config.message_ttl_ms == Some(0) && is_head && !is_waited_for
    }

    /// Whether a message repeats one that is in the queue.
    pub(crate) fn is_duplicate(&self, incoming: &IncomingMessage<'_>) -> bool {
        self.present.as_ref().is_some_and(|present| {
            UniqueKey::of_properties(incoming.message.properties).is_some_and(|key| present.contains(key))
        })
    }

    /// Log position that what a duplicate repeats needs at most.
    pub(crate) fn latest_logged(&self) -> u64 {
        self.present.as_ref().map_or(0, |present| present.logged)
    }

    /// A message is in the queue.
    pub(crate) fn note_key(&mut self, seq: MessageSeq, properties: &[u8]) {
        if let Some(present) = &mut self.present
            && let Some(key) = UniqueKey::of_properties(properties)
        {
            present.insert(seq, key);
        }
    }

    /// Bytes of what is known of messages.
    pub(crate) fn index_bytes(&self) -> usize {
        self.schedule.as_ref().map_or(0, |schedule| schedule.heap_bytes())
            + self.present.as_ref().map_or(0, |present| present.heap_bytes())
            + self.unread.len() * 16
    }

    /// After a recovery: learns what it must of all messages in memory, and which blocks are still to be read.
    pub(crate) fn learn_all(&mut self) {
        if !self.is_schedule() && self.present.is_none() {
            return;
        }
        for level in 0..self.levels.len() {
            let firsts: Vec<u64> = self.levels[level].blocks().map(|block| block.first).collect();
            for first in firsts {
                self.learn(MessageSeq::new(level as u8, first));
            }
        }
    }

    /// Learns what it must of a block's messages; those of a block on disk come later.
    fn learn(&mut self, seq: MessageSeq) {
        let Some(block) = self.levels[usize::from(seq.level())].block(seq.number()) else { return };
        if !block.is_resident() {
            self.unread.insert(seq);
            return;
        }
        for number in (block.first..block.end()).filter(|number| !block.is_settled(*number)) {
            let Some(stored) = block.stored(number) else { continue };
            if let Some(schedule) = &mut self.schedule {
                schedule.add(stored.expiry_ms.unwrap_or(0), number);
            }
            if let Some(present) = &mut self.present
                && let Some(key) = UniqueKey::of_properties(stored.message.properties)
            {
                present.insert(MessageSeq::new(seq.level(), number), key);
            }
        }
    }

    /// A block came back from disk.
    pub(crate) fn learn_read(&mut self, seq: MessageSeq) {
        if self.unread.remove(&seq) {
            self.learn(seq);
        }
    }

    /// Asks for blocks that nobody has read since the restart.
    pub(crate) fn read_unread(&mut self, fx: &mut impl Effects) {
        // Blocks that are gone meanwhile have nothing to tell.
        while let Some(first) = self.unread.first().copied() {
            if self.levels[usize::from(first.level())].block(first.number()).is_some() {
                break;
            }
            self.unread.remove(&first);
        }
        let firsts: smallvec::SmallVec<[MessageSeq; READS_MAX]> =
            self.unread.iter().take(READS_MAX).copied().collect();
        for first in firsts {
            self.request_block(first, fx);
        }
    }
}
