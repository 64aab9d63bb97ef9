//! Index of the facts about each message besides its place: when it is due, what it repeats. Learnt when a message comes;
//! after a restart from the blocks, those on disk read back one after the other.

use super::messages::Store;
use crate::effects::Effects;
use crate::record::Stored;
use crate::traffic::{IncomingMessage, MessageSeq};
use message::{MessageView, UniqueKey};

/// Blocks read at once after a restart to learn what is in them.
const READS_MAX: usize = 4;

impl Store {
    /// Whether a message repeats one that is in the queue.
    pub(crate) fn is_duplicate(&self, incoming: &IncomingMessage<'_>) -> bool {
        self.present
            .as_ref()
            .is_some_and(|present| UniqueKey::of(&incoming.message).is_some_and(|key| present.contains(key)))
    }

    /// Log position that what a duplicate repeats needs at most.
    pub(crate) fn latest_logged(&self) -> u64 {
        self.present.as_ref().map_or(0, |present| present.logged)
    }

    /// A message is in the queue.
    pub(crate) fn note_key(&mut self, seq: MessageSeq, message: &MessageView<'_>) {
        if let Some(present) = &mut self.present
            && let Some(key) = UniqueKey::of(message)
        {
            present.insert(seq, key);
        }
    }

    /// Bytes of what is known of messages.
    pub(crate) fn index_bytes(&self) -> usize {
        self.present.as_ref().map_or(0, |present| present.heap_bytes()) + self.unread.len() * 16
    }

    /// After a recovery: learns what messages in memory repeat, tells `each` of them, and notes which blocks are still to be read.
    pub(crate) fn learn_all(&mut self, each: &mut impl FnMut(MessageSeq, &Stored<'_>)) {
        for level in 0..self.levels.len() {
            let firsts: Vec<u64> = self.levels[level].blocks().map(|block| block.first).collect();
            for first in firsts {
                self.learn(MessageSeq::new(level as u8, first), each);
            }
        }
    }

    /// Learns what it must of a block's messages; those of a block on disk come later.
    fn learn(&mut self, seq: MessageSeq, each: &mut impl FnMut(MessageSeq, &Stored<'_>)) {
        let Some(block) = self.levels[usize::from(seq.level())].block(seq.number()) else { return };
        if !block.is_resident() {
            self.unread.insert(seq);
            return;
        }
        for number in (block.first..block.end()).filter(|number| !block.is_settled(*number)) {
            let Some(stored) = block.stored(number) else { continue };
            each(MessageSeq::new(seq.level(), number), &stored);
            if let Some(present) = &mut self.present
                && let Some(key) = UniqueKey::of(&stored.message)
            {
                present.insert(MessageSeq::new(seq.level(), number), key);
            }
        }
    }

    /// A block came back from disk: the same of its messages.
    pub(crate) fn learn_read(&mut self, seq: MessageSeq, each: &mut impl FnMut(MessageSeq, &Stored<'_>)) {
        if self.unread.remove(&seq) {
            self.learn(seq, each);
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
