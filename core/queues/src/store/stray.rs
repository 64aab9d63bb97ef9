//! Blocks in segments of which no record tells: the facts that its bytes alone give, and its way back into a queue. Knows
//! neither their numbers nor what of them was settled.

use super::bitmap::Bitmap;
use super::block::{Block, Heads, PlacedOnDisk};
use super::recovery::Recovering;
use crate::body::SharedBody;
use crate::logged::Place;
use crate::record::{self, BlockPlace, InBlock, Stored};

/// A block in a segment that no record names.
#[derive(Clone, Debug)]
pub struct StrayBlock {
    place: BlockPlace,
    count: u32,
    gone: Bitmap,
    live: u32,
    live_bytes: u32,
    whole_bytes: u64,
    expires: bool,
    body_bytes: u64,
    bodies: Vec<(u32, SharedBody)>,
}

/// More messages than a block has, however many of them were taken out of it.
const COUNT_MAX: u32 = 1 << 22;

/// Whether these may be the bytes of a block, by its first message alone.
pub fn may_be_block(bytes: &[u8]) -> bool {
    record::parse_in_block(bytes).is_some()
}

impl StrayBlock {
    /// Reads the whole bytes of the block at `place`; `None` when they are not messages. Messages that are not persistent are left out as a
    /// restart would leave them out, and those for which `keep`, told of all others in order, is false.
    pub fn read(
        place: BlockPlace,
        bytes: &[u8],
        mut keep: impl FnMut(&Stored<'_>, &[u8]) -> bool,
    ) -> Option<StrayBlock> {
        let mut block = StrayBlock {
            place,
            count: 0,
            gone: Bitmap::EMPTY,
            live: 0,
            live_bytes: 0,
            whole_bytes: 0,
            expires: false,
            body_bytes: 0,
            bodies: Vec::new(),
        };
        let whole = record::unpack_block(bytes)?;
        let mut rest = &whole[..];
        while !rest.is_empty() {
            let (found, taken) = record::parse_in_block(rest)?;
            match found {
                InBlock::Message(stored) => {
                    let is_kept = stored.persistent && keep(&stored, &rest[..taken]);
                    block.add(&stored, taken, is_kept);
                }
                InBlock::Holes(count) => block.add_holes(count)?,
                InBlock::Run(_) => return None,
            }
            rest = &rest[taken..];
        }
        Some(block)
    }

    /// `None` when there cannot be so many.
    fn add_holes(&mut self, count: u32) -> Option<()> {
        let end = self.count.checked_add(count).filter(|end| *end <= COUNT_MAX)?;
        for index in self.count..end {
            self.gone.insert(index);
        }
        self.count = end;
        Some(())
    }

    fn add(&mut self, stored: &Stored<'_>, stored_bytes: usize, is_kept: bool) {
        let index = self.count;
        self.count += 1;
        self.whole_bytes += stored_bytes as u64;
        if !is_kept {
            self.gone.insert(index);
            return;
        }
        self.live += 1;
        self.live_bytes += stored_bytes as u32;
        self.expires |= stored.expiry_ms.is_some();
        self.body_bytes += stored.body_bytes() as u64;
        self.bodies.extend(stored.shared.map(|body| (index, SharedBody::named(body.id, body.bytes))));
    }

    /// Messages of it that come back.
    pub fn messages(&self) -> u64 {
        self.live.into()
    }

    fn into_block(self, first: u64) -> Option<Block> {
        let StrayBlock { place, count, gone: settled, live_bytes, expires, body_bytes, bodies, .. } = self;
        let bytes = u64::from(live_bytes) * u64::from(place.bytes) / self.whole_bytes.max(1);
        let live_bytes = Some(u32::try_from(bytes).unwrap_or(u32::MAX));
        let (place, heads) = (Place::Segment(place), Heads::default());
        Block::on_disk(PlacedOnDisk {
            first,
            count,
            place,
            settled,
            expires,
            body_bytes,
            live_bytes,
            heads,
            bodies,
        })
    }
}

impl Recovering {
    /// Shows the bytes of all messages in memory that are not settled.
    pub fn each_resident(&self, mut show: impl FnMut(&[u8])) {
        for block in self.blocks().filter(|block| block.has_data()) {
            let live = (block.first..block.end()).filter(|number| !block.is_settled(*number));
            live.filter_map(|number| block.stored_bytes(number)).for_each(&mut show);
        }
    }

    /// The messages of these blocks come before all others of the priority level, in this order. Returns how many came: none when there are
    /// no numbers left for them.
    pub fn put_in_front(&mut self, level: u8, strays: Vec<StrayBlock>) -> u64 {
        let (mut numbers, mut messages, mut blocks) = (0, 0, Vec::new());
        for stray in strays.into_iter().filter(|stray| stray.live > 0) {
            let live = stray.messages();
            if let Some(block) = stray.into_block(numbers) {
                numbers = block.end();
                messages += live;
                blocks.push(block);
            }
        }
        if self.make_way(level, numbers, blocks) { messages } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::stored;
    use crate::{MessageSeq, RecordKind};

    const PLACE: BlockPlace = BlockPlace { segment: 1 << 32, offset: 32, bytes: 100 };

    #[test]
    fn a_block_is_read_without_what_a_restart_would_not_bring_back() {
        let mut bytes =
            [stored(b"one", true, None), stored(b"transient", false, None), stored(b"three", true, Some(7))]
                .concat();
        record::store_hole(&mut bytes);
        record::store_holes(&mut bytes, 2);
        let mut seen = Vec::new();
        let block = StrayBlock::read(PLACE, &bytes, |stored, _| {
            seen.push(stored.message.body.to_vec());
            stored.message.body != b"one"
        });
        let block = block.expect("it is whole");
        assert_eq!((block.count, block.messages(), block.expires, block.body_bytes), (6, 1, true, 5));
        assert_eq!(block.live_bytes as usize, stored(b"three", true, Some(7)).len());
        let mut far_too_many = bytes.clone();
        record::store_holes(&mut far_too_many, COUNT_MAX);
        assert!(StrayBlock::read(PLACE, &far_too_many, |_, _| true).is_none());
        assert_eq!(seen, [b"one".to_vec(), b"three".to_vec()]);
        assert!(StrayBlock::read(PLACE, &bytes[1..], |_, _| true).is_none());
    }

    #[test]
    fn stray_messages_come_before_those_of_records_which_are_still_found_in_the_log() {
        let mut queue = Recovering::default();
        let mut payload = Vec::new();
        for number in 0..3 {
            record::write_enqueued(&mut payload, MessageSeq(number), &stored(b"logged", true, None));
        }
        let end = 32 + payload.len() as u64;
        queue.apply(RecordKind::Enqueue, &payload, &(0..end)).expect("it can be read");
        queue.leave_in_log();
        let bytes = [stored(b"one", true, None), stored(b"two", true, None)].concat();
        let stray = StrayBlock::read(PLACE, &bytes, |_, _| true).expect("it is whole");
        assert_eq!(queue.put_in_front(0, vec![stray]), 2);
        assert_eq!(queue.contents(), (5, 24));
        let firsts: Vec<_> = queue.placed_blocks().map(|block| (block.first.0, block.place)).collect();
        assert_eq!(firsts[0], (0, Place::Segment(PLACE)));
        assert_eq!(firsts[1].0, 0, "the log has it under this number");
        queue
            .move_logged(|block| {
                assert_eq!((block.first.0, block.count, block.range.end()), (0, 3, end));
                Ok::<_, ()>(BlockPlace { segment: 2 << 32, ..PLACE })
            })
            .expect("it is copied");
        let mut state = Vec::new();
        queue.write_state(&mut state);
        let mut again = Recovering::default();
        again.apply(RecordKind::State, &state, &(0..9)).expect("it can be read");
        let blocks: Vec<_> = again.placed_blocks().map(|block| (block.first.0, block.count)).collect();
        assert_eq!((blocks, again.next_number(0)), (vec![(0, 2), (2, 3)], 5));
    }
}
