//! Blocks without those of their messages that are settled: the live part of a block, and how it is written anew so that the rest
//! takes next to nothing. Knows nothing of when that is worth the work.

use std::ops::Range;

use super::bitmap::Bitmap;
use super::block::Block;
use crate::body::BlockBytes;
use crate::record::{self, HOLES_BYTES, InBlock, Item};

/// Which messages of a block need not be written when it is written anew: they are settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holes(Bitmap);

impl Holes {
    /// The block as it is written to a segment, packed or not, without the messages that need not be there: placeholders keep the numbers of
    /// the others. `None` when it is not a block.
    pub fn punch(&self, mut block: Vec<u8>) -> Option<Vec<u8>> {
        if self.0 != Bitmap::EMPTY {
            let length = self.punch_in_place(&mut block)?;
            block.truncate(length);
            block.shrink_to_fit();
        }
        Some(record::pack_anew(block))
    }

    /// Returns the bytes that are left.
    fn punch_in_place(&self, block: &mut [u8]) -> Option<usize> {
        // A placeholder is never longer than what it stands for: nothing is written over before it is read.
        let (mut index, mut at, mut length, mut gone) = (0u32, 0, 0, 0);
        while at < block.len() {
            let (stands_for, is_hole, head_bytes, taken) = match record::parse_in_block(&block[at..])? {
                (InBlock::Message(_), taken) => (1, false, taken, taken),
                (InBlock::Holes(count), taken) => (count, true, taken, taken),
                (InBlock::Run(run), taken) => (run.count(), false, run.head_bytes(), taken),
            };
            let end = index.checked_add(stands_for)?;
            if is_hole || (index..end).all(|index| self.0.contains(index)) {
                gone += stands_for;
            } else {
                length = put_holes(block, length, std::mem::take(&mut gone));
                block.copy_within(at..at + head_bytes, length);
                length += head_bytes;
                length = self.punch_run(block, at + head_bytes..at + taken, length, index)?;
            }
            (index, at) = (end, at + taken);
        }
        Some(put_holes(block, length, gone))
    }

    /// The same of what a run has of single messages, the first of which has this index. Where what follows them stands.
    fn punch_run(
        &self,
        block: &mut [u8],
        items: Range<usize>,
        mut length: usize,
        mut index: u32,
    ) -> Option<usize> {
        let (mut at, mut gone) = (items.start, 0);
        while at < items.end {
            let (item, next) = Item::parse(&block[..items.end], at)?;
            match item {
                Item::Settled(count) => (index, gone) = (index + count, gone + count),
                Item::Body { .. } => {
                    if self.0.contains(index) {
                        gone += 1;
                    } else {
                        length = put_settled(block, length, std::mem::take(&mut gone));
                        block.copy_within(at..next, length);
                        length += next - at;
                    }
                    index += 1;
                }
            }
            at = next;
        }
        Some(put_settled(block, length, gone))
    }
}

/// Puts the stand-in of so many settled messages at this place of a run; returns where its successor stands.
fn put_settled(block: &mut [u8], at: usize, count: u32) -> usize {
    if count == 0 {
        return at;
    }
    let settled = record::settled_in_run(count);
    block[at..at + settled.len()].copy_from_slice(&settled);
    at + settled.len()
}

/// Placeholders for so many messages at this place; where what follows them stands.
fn put_holes(block: &mut [u8], at: usize, count: u32) -> usize {
    if count == 0 {
        return at;
    }
    block[at..at + HOLES_BYTES].copy_from_slice(&record::holes(count));
    at + HOLES_BYTES
}

impl Block {
    /// The holes: messages that a new copy of the block need not have.
    pub(crate) fn holes(&self) -> Holes {
        Holes(self.settled())
    }

    /// Its bytes as a segment would have them, without the messages `gone`; `None` when they are not in memory.
    pub(crate) fn bytes_without(&self, gone: Bitmap) -> Option<Vec<u8>> {
        let bytes = self.data()?.to_vec();
        Some(Holes(gone).punch(bytes).expect("the block was made here, or checked when it was read"))
    }

    /// The bytes of a closed block in memory for a segment: without what is settled, when that is more than half. It is being copied from
    /// now on.
    pub(crate) fn bytes_to_write(&mut self) -> Option<BlockBytes> {
        let whole = self.shared_bytes()?;
        let is_hollow = self.is_hollow();
        self.begin_copy(is_hollow);
        if !is_hollow {
            return Some(whole);
        }
        let punched = self.holes().punch(whole.to_vec());
        Some(punched.expect("the block was made here, or checked when it was read").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logged::Place;

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
    fn read_back(block: &Block, bytes: &[u8]) -> Option<Block> {
        let mut read = block.clone();
        read.put_at(crate::Place::Segment(crate::BlockPlace {
            segment: 1,
            offset: 0,
            bytes: bytes.len() as u32,
        }));
        read.evict();
        let whole = record::unpack_block(bytes)?.into_owned();
        read.fill(Some(whole), &[]).then_some(read)
    }

    #[test]
    fn what_is_settled_leaves_a_block_and_the_others_keep_their_numbers() {
        let mut block = block(40);
        for number in (10..50).filter(|number| number % 10 != 3 && *number != 49) {
            assert!(block.settle(number));
        }
        let whole = block.shared_bytes().expect("closed").to_vec();
        let bytes = block.bytes_to_write().expect("closed").to_vec();
        let run_bytes = record::RUN_BYTES + 19;
        assert_eq!(bytes.len(), HOLES_BYTES + run_bytes + 5 * 104 + 4 * 4);
        assert!(bytes.len() as u64 <= block.kept_bytes() && block.live_bytes == 5 * 119);
        let read = read_back(&block, &bytes).expect("it is whole");
        assert_eq!(bodies(&read), [3, 13, 23, 33, 39]);
        assert_eq!((read.live_bytes as usize, read.live_body_bytes()), (bytes.len(), 500));
        assert!((read.kept_bytes() as usize) <= bytes.len());
        assert_eq!(block.holes().punch(bytes.clone()), Some(bytes.clone()), "once is enough");
        let all = Holes::default().punch(whole.clone()).expect("a block");
        assert_eq!(record::unpack_block(&all).as_deref(), Some(&whole[..]));
        // More is settled: settled messages stay gone.
        assert!(block.settle(23) && block.settle(13));
        let fewer = block.holes().punch(bytes).expect("a block");
        assert_eq!(fewer.len(), HOLES_BYTES + run_bytes + 3 * (104 + 4));
        assert_eq!(bodies(&read_back(&block, &fewer).expect("it is whole")), [23, 33, 39]);
    }

    /// Every message of a block, or nothing for one that is settled.
    fn messages(bytes: &[u8]) -> Vec<Option<Vec<u8>>> {
        let (whole, mut at, mut all) = (record::unpack_block(bytes).expect("a block"), 0, Vec::new());
        while at < whole.len() {
            let (found, taken) = record::parse_in_block(&whole[at..]).expect("a block");
            match found {
                InBlock::Message(_) => all.push(Some(whole[at..at + taken].to_vec())),
                InBlock::Holes(count) => all.extend((0..count).map(|_| None)),
                InBlock::Run(_) => panic!("it was unpacked"),
            }
            at += taken;
        }
        all
    }

    #[test]
    fn whatever_leaves_a_block_in_whatever_order_the_rest_stays_and_it_never_grows() {
        let mut state = 7u64;
        let mut roll = |sides: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % sides
        };
        for _ in 0..300 {
            let (count, stays) = (1 + roll(60), 1 + roll(40));
            let mut kind = 0;
            let one = |kind: u64, size: u64| {
                record::stored(&vec![7; size as usize], true, (kind > 0).then_some(kind))
            };
            let mut whole = Vec::new();
            let mut expected = Vec::new();
            for _ in 0..count {
                kind = if roll(stays) == 0 { roll(3) } else { kind };
                let stored = one(kind, roll(30));
                whole.extend_from_slice(&stored);
                expected.push(Some(stored));
            }
            let mut packed = record::pack_block(&whole).into_owned();
            assert!(packed.len() <= whole.len() && messages(&packed) == expected);
            let mut holes = Holes::default();
            for _ in 0..4 {
                let (begin, every) = (roll(count) as u32, 1 + roll(5) as u32);
                (begin..count as u32).filter(|index| index % every == 0 && roll(4) > 0).for_each(|index| {
                    holes.0.insert(index);
                    expected[index as usize] = None;
                });
                let before = packed.len();
                packed = holes.punch(packed).expect("a block");
                assert!(packed.len() <= before && messages(&packed) == expected);
                assert_eq!(messages(&holes.punch(whole.clone()).expect("a block")), expected);
            }
        }
    }

    #[test]
    fn damaged_bytes_are_no_block_or_another_one_and_nothing_panics() {
        let mut state = 3u64;
        let mut roll = |sides: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % sides
        };
        let holes = Holes(Bitmap::from_words(vec![0b10_0010_0110]));
        let mut block = Vec::new();
        for nth in 0..12u8 {
            block.extend(record::stored(&[nth; 9], true, (nth / 5 == 1).then_some(7)));
        }
        let packed = holes.punch(block).expect("a block");
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut damaged = packed.clone();
            for _ in 0..1 + roll(3) {
                let at = roll(damaged.len());
                damaged[at] = [0, 1, 16, 32, 0x7f, 0x80, 0xff, roll(256) as u8][roll(8)];
            }
            damaged.truncate(damaged.len() - if roll(4) == 0 { roll(packed.len() - 1) } else { 0 });
            let place = crate::BlockPlace { segment: 1, offset: 0, bytes: damaged.len() as u32 };
            let whole = record::unpack_block(&damaged).map(std::borrow::Cow::into_owned);
            let stray = crate::StrayBlock::read(place, &damaged, |_, _| true);
            assert!(whole.is_some() || stray.is_none());
            refused += u32::from(whole.is_none());
            if let Some(punched) = holes.punch(damaged.clone()) {
                assert!(punched.len() <= damaged.len());
            }
        }
        assert!((5_000..19_000).contains(&refused), "{refused}");
    }

    #[test]
    fn a_placeholder_for_a_message_that_lives_is_damage() {
        let mut settled = block(8);
        (10..17).for_each(|number| assert!(settled.settle(number)));
        let bytes = settled.holes().punch(settled.shared_bytes().expect("closed").to_vec()).expect("a block");
        assert!(read_back(&settled, &bytes).is_some());
        assert!(read_back(&block(8), &bytes).is_none());
        let mut longer = settled.clone();
        longer.count += 1;
        assert!(read_back(&longer, &bytes).is_none() && settled.holes().punch(bytes[1..].to_vec()).is_none());
    }

    #[test]
    fn a_block_of_which_much_lives_is_written_as_it_is() {
        let mut block = block(8);
        (10..13).for_each(|number| assert!(block.settle(number)));
        let whole = block.shared_bytes().expect("closed");
        assert_eq!(whole.as_ptr(), block.bytes_to_write().expect("closed").as_ptr(), "it is not copied");
    }

    fn at(segment: u64, bytes: usize) -> Place {
        Place::Segment(crate::BlockPlace { segment, offset: 0, bytes: bytes as u32 })
    }

    #[test]
    fn settled_in_whatever_way_the_bytes_that_live_are_known() {
        let mut block = block(10);
        assert_eq!(block.live_bytes, 1190);
        assert_eq!((block.settle_in_order(10..14), block.live_bytes), (Some(400), 714));
        assert!(block.settle(19) && block.live_bytes == 595);
        block.unacked = 1;
        block.begin_copy(false);
        // The part that they have in common takes 75 bytes there, instead of 190.
        block.copied_to(at(1, 1075));
        assert_eq!(block.live_bytes, 500 + 37);
        block.evict();
        assert!(block.settle(18) && block.live_bytes == 500 + 37 - 107, "its index is still there");
        block.unacked = 0;
        block.evict();
        assert!(block.settle(15) && block.live_bytes == 323, "a share of it");
        assert!((323..700).contains(&block.kept_bytes()), "{}", block.kept_bytes());
        block.begin_copy(true);
        block.copied_to(at(2, 400));
        assert_eq!(block.live_bytes, 400, "all that was written lives");
        [14, 16, 17].into_iter().for_each(|number| assert!(block.settle(number)));
        assert_eq!((block.live_bytes, block.kept_bytes()), (0, 0));
    }

    #[test]
    fn what_is_settled_while_a_block_is_copied_does_not_live_in_the_copy() {
        let mut block = block(10);
        (10..17).for_each(|number| assert!(block.settle(number)));
        let bytes = block.bytes_to_write().expect("closed").len();
        assert!(block.settle(18));
        block.copied_to(at(1, bytes));
        let overhead = bytes - 300;
        assert_eq!(block.live_bytes as usize, 200 + overhead * 2 / 3);
        block.begin_copy(true);
        assert!(block.settle(17));
        block.copied_to(at(2, 255));
        assert_eq!(block.live_bytes, 100 + 55 / 2);
    }

    #[test]
    fn what_a_block_would_have_is_never_told_too_low() {
        let mut state = 11u64;
        let mut roll = |sides: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % sides
        };
        for _ in 0..400 {
            let (count, stays, large) = (1 + roll(80), 1 + roll(30), 1 + roll(60));
            let (mut kind, mut block) = (0, Block::new(10));
            for _ in 0..count {
                kind = if roll(stays) == 0 { roll(3) } else { kind };
                let size = if roll(large) == 0 { 3000 } else { roll(30) };
                let stored = record::stored(&vec![7; size as usize], true, (kind > 0).then_some(kind));
                let own_bytes = Some(size as usize);
                block.restore(&stored, own_bytes, |block| {
                    block.push(true, kind > 0, size as usize, None, |out| out.extend_from_slice(&stored));
                });
            }
            block.close();
            let written_max = block.written_bytes();
            let whole = block.bytes_to_write().expect("closed");
            let written = record::pack_block(&whole).into_owned();
            assert!(written.len() as u64 <= written_max);
            block.copied_to(at(1, written.len()));
            assert_eq!(block.live_bytes as usize, written.len());
            for number in (10..block.end()).filter(|_| roll(3) > 0) {
                block.settle(number);
            }
            let (settled, is_away) = (block.holes(), roll(2) == 0);
            // As its index tells, and as the state record does.
            if is_away && block.live > 0 {
                block.evict();
            }
            let kept = settled.punch(written).expect("a block").len() as u64;
            assert!(block.live == 0 || kept <= block.kept_bytes(), "{kept} of {block:?}");
        }
    }
}
