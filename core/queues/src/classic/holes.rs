//! Blocks without those of their messages that are settled: what a block has that lives, and how it is written anew so that the rest
//! takes next to nothing. Knows nothing of when that is worth the work.

use std::sync::Arc;

use super::bitmap::Bitmap;
use super::block::Block;
use crate::logged::Place;
use crate::record::{self, HOLES_BYTES, InBlock};

/// Which messages of a block need not be written when it is written anew: they are settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holes(Bitmap);

impl Holes {
    /// The block without the messages that need not be there: placeholders keep the numbers of the others. In the memory that it is in. `None`
    /// when it is not a block.
    pub fn punch(&self, mut block: Vec<u8>) -> Option<Vec<u8>> {
        if self.0 == Bitmap::EMPTY {
            return Some(block);
        }
        // A placeholder is never longer than what it stands for: nothing is written over before it is read.
        let (mut index, mut at, mut length, mut gone) = (0u32, 0, 0, 0);
        while at < block.len() {
            let (stands_for, is_gone, taken) = match record::parse_in_block(&block[at..])? {
                (InBlock::Message(_), taken) => (1, self.0.contains(index), taken),
                (InBlock::Holes(count), taken) => (count, true, taken),
            };
            index = index.checked_add(stands_for)?;
            if is_gone {
                gone += stands_for;
            } else {
                length = put_holes(&mut block, length, std::mem::take(&mut gone));
                block.copy_within(at..at + taken, length);
                length += taken;
            }
            at += taken;
        }
        length = put_holes(&mut block, length, gone);
        block.truncate(length);
        block.shrink_to_fit();
        Some(block)
    }
}

/// Placeholders for so many messages at this place; where what follows them stands.
fn put_holes(block: &mut [u8], at: usize, count: u32) -> usize {
    if count == 0 {
        return at;
    }
    block[at..at + HOLES_BYTES].copy_from_slice(&record::holes(count));
    at + HOLES_BYTES
}

/// Consecutive settled messages in a block of which some are not: so many placeholders at least.
fn runs(settled: &Bitmap, count: u32) -> u32 {
    let begins = |index: &u32| settled.contains(*index) && (*index == 0 || !settled.contains(index - 1));
    (0..count).filter(begins).count() as u32
}

impl Block {
    /// Bytes that it has at most when it is written anew. Those that it has on disk, once it was and nothing is settled since.
    pub(super) fn kept_bytes(&self) -> u64 {
        let live = u64::from(self.live);
        let bytes = u64::from(self.live_bytes) + if live > 0 { (live + 1) * HOLES_BYTES as u64 } else { 0 };
        match self.place() {
            Some(Place::Segment(place)) => bytes.min(place.bytes.into()),
            Some(Place::Log(_)) => bytes.min(self.whole_bytes() as u64),
            None => bytes,
        }
    }

    /// What need not be there when it is written anew.
    pub(super) fn holes(&self) -> Holes {
        Holes(self.settled())
    }

    /// The bytes of a closed block in memory for a segment: without what is settled, when that is more than half.
    pub(super) fn bytes_to_write(&self) -> Option<Arc<Vec<u8>>> {
        let whole = self.shared_bytes()?;
        if self.kept_bytes() * 2 >= whole.len() as u64 {
            return Some(whole);
        }
        Some(Arc::new(
            self.holes().punch(whole.to_vec()).expect("the block was made here, or checked when it was read"),
        ))
    }

    /// It was written anew to its place by somebody who has read it: when its messages are not known one by one, that tells what it has.
    pub(super) fn learn_live_bytes(&mut self) {
        if let Some(place) = self.place()
            && !self.knows_sizes()
            && self.live > 0
        {
            let holes_bytes = runs(&self.settled(), self.count) * HOLES_BYTES as u32;
            self.live_bytes = place.bytes().saturating_sub(holes_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(block: &mut Block, body: &[u8]) {
        let stored = record::stored(body, true, None);
        block.push(true, false, body.len(), None, |out| out.extend_from_slice(&stored));
    }

    fn block(messages: u8) -> Block {
        let mut block = Block::new(10);
        (0..messages).for_each(|nth| push(&mut block, &[nth; 100]));
        block.close();
        block
    }

    fn bodies(block: &Block) -> Vec<u8> {
        let live = (block.first..block.end()).filter(|number| !block.is_settled(*number));
        live.map(|number| block.stored(number).expect("in memory").message.body[0]).collect()
    }

    /// As it is after it was read back from what was written.
    fn read_back(block: &Block, bytes: Vec<u8>) -> Option<Block> {
        let mut read = block.clone();
        read.put_at(crate::Place::Segment(crate::BlockPlace {
            segment: 1,
            offset: 0,
            bytes: bytes.len() as u32,
        }));
        read.evict();
        read.fill(Some(bytes), &[]).then_some(read)
    }

    #[test]
    fn what_is_settled_leaves_a_block_and_the_others_keep_their_numbers() {
        let mut block = block(40);
        for number in (10..50).filter(|number| number % 10 != 3 && *number != 49) {
            assert!(block.settle(number));
        }
        let whole = block.shared_bytes().expect("closed").to_vec();
        let bytes = block.bytes_to_write().expect("closed").to_vec();
        assert_eq!(bytes.len() as u32, 5 * 119 + 5 * HOLES_BYTES as u32);
        assert!(bytes.len() as u64 <= block.kept_bytes() && block.live_bytes == 5 * 119);
        let read = read_back(&block, bytes.clone()).expect("it is whole");
        assert_eq!(bodies(&read), [3, 13, 23, 33, 39]);
        assert_eq!((read.live_bytes, read.live_body_bytes()), (5 * 119, 500));
        assert_eq!(block.holes().punch(bytes.clone()), Some(bytes.clone()), "once is enough");
        assert_eq!(Holes::default().punch(whole.clone()), Some(whole));
        // More is settled: what has gone stays gone.
        assert!(block.settle(23) && block.settle(13));
        let fewer = block.holes().punch(bytes).expect("a block");
        assert_eq!(fewer.len(), 3 * (119 + HOLES_BYTES));
        assert_eq!(bodies(&read_back(&block, fewer).expect("it is whole")), [23, 33, 39]);
    }

    #[test]
    fn a_placeholder_for_a_message_that_lives_is_damage() {
        let mut settled = block(8);
        (10..17).for_each(|number| assert!(settled.settle(number)));
        let bytes = settled.holes().punch(settled.shared_bytes().expect("closed").to_vec()).expect("a block");
        assert!(read_back(&settled, bytes.clone()).is_some());
        assert!(read_back(&block(8), bytes.clone()).is_none());
        let mut longer = settled.clone();
        longer.count += 1;
        assert!(
            read_back(&longer, bytes.clone()).is_none()
                && settled.holes().punch(bytes[1..].to_vec()).is_none()
        );
    }

    #[test]
    fn a_block_of_which_much_lives_is_written_as_it_is() {
        let mut block = block(8);
        (10..13).for_each(|number| assert!(block.settle(number)));
        let whole = block.shared_bytes().expect("closed");
        assert!(Arc::ptr_eq(&whole, &block.bytes_to_write().expect("closed")));
    }

    #[test]
    fn settled_in_whatever_way_the_bytes_that_live_are_known() {
        let mut block = block(10);
        assert_eq!(block.live_bytes, 1190);
        assert_eq!((block.settle_in_order(10..14), block.live_bytes), (Some(400), 714));
        assert!(block.settle(19) && block.live_bytes == 595);
        block.unacked = 1;
        block.put_at(crate::Place::Segment(crate::BlockPlace { segment: 1, offset: 0, bytes: 1190 }));
        block.evict();
        assert!(block.settle(18) && block.live_bytes == 476, "its index is still there");
        block.unacked = 0;
        block.evict();
        assert!(block.settle(15) && block.live_bytes == 357, "a share of it");
        assert_eq!(block.kept_bytes(), 357 + 4 * HOLES_BYTES as u64);
        block.put_at(crate::Place::Segment(crate::BlockPlace { segment: 2, offset: 0, bytes: 400 }));
        block.learn_live_bytes();
        assert_eq!(block.live_bytes, 400 - 3 * HOLES_BYTES as u32);
        [14, 16, 17].into_iter().for_each(|number| assert!(block.settle(number)));
        assert_eq!((block.live_bytes, block.kept_bytes()), (0, 0));
    }
}
