//! Blocks as segments have them: the common part of consecutive messages stands once. In memory each message has it; the writer of a block
//! packs it, the reader unpacks it, and the queue never sees the difference.
//!
//! ```text
//! 12 u32 | flag 32 | 0 | 0 | 0 | count u32 | 0 u32 | first stored message without its body
//!   | until there are as many as the count says: body bytes u32, body; or 2^31 + settled messages u32
//! ```

use std::borrow::Cow;
use std::ops::Range;

use super::{FIXED_BYTES, FLAG_HOLES, FLAG_RUN, InBlock, LENGTH_BYTES, holes, parse, parse_in_block, u32_at};

/// In place of the bytes of a body: so many consecutive messages, in the other bits, are settled.
const SETTLED: u32 = 1 << 31;

/// Bytes that a block has more when it is unpacked, at most: all of its messages but the last have 256 KiB in memory.
const GROWTH_BYTES_MAX: usize = 1 << 20;

/// A block is packed when that saves this part of it: less is not worth unpacking it.
const SAVED_PART_MIN: usize = 8;

/// Consecutive messages of a block in a segment that differ in their bodies only, and settled ones between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedRun<'a> {
    count: u32,
    head: &'a [u8],
    items: &'a [u8],
}

/// An item of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A message: where its body is in the block.
    Body { begin: usize, end: usize },
    /// So many settled messages.
    Settled(u32),
}

impl Item {
    /// The item at this place of a block, whose bytes may be anything; and where the next one begins.
    pub(crate) fn parse(block: &[u8], at: usize) -> Option<(Item, usize)> {
        let (word, begin) = (u32_at(block, at)?, at + LENGTH_BYTES);
        if word & SETTLED != 0 {
            return Some((Item::Settled(word & !SETTLED), begin));
        }
        let end = begin.checked_add(word as usize).filter(|end| *end <= block.len())?;
        Some((Item::Body { begin, end }, end))
    }
}

impl<'a> PackedRun<'a> {
    /// The run at the start of these bytes of a block, and how many it takes.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<(PackedRun<'a>, usize)> {
        let count = u32_at(bytes, 8)?;
        if count == 0 || count >= SETTLED || bytes.get(..FIXED_BYTES)? != fixed(count) {
            return None;
        }
        let rest = &bytes[FIXED_BYTES..];
        let (stored, head_bytes) = parse(rest)?;
        let is_head = stored.message.body.is_empty() && stored.shared.is_none();
        if !is_head || rest[4] & (FLAG_HOLES | FLAG_RUN) != 0 {
            return None;
        }
        let (head, rest) = rest.split_at(head_bytes);
        let (mut left, mut at) = (count, 0);
        while left > 0 {
            let (item, next) = Item::parse(rest, at)?;
            left = match item {
                Item::Body { .. } => left - 1,
                Item::Settled(0) => return None,
                Item::Settled(settled) => left.checked_sub(settled)?,
            };
            at = next;
        }
        Some((PackedRun { count, head, items: &rest[..at] }, FIXED_BYTES + head_bytes + at))
    }

    /// Its messages, settled ones included; at least 1.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes before what it has of single messages.
    pub(crate) fn head_bytes(&self) -> usize {
        FIXED_BYTES + self.head.len()
    }

    fn items(&self) -> impl Iterator<Item = Item> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (item, next) = Item::parse(self.items, at)?;
            at = next;
            Some(item)
        })
    }

    /// Bytes of its messages when each has what they have in common.
    fn whole_bytes(&self) -> Option<usize> {
        self.items().try_fold(0usize, |bytes, item| {
            bytes.checked_add(match item {
                Item::Body { begin, end } => self.head.len().checked_add(end - begin)?,
                Item::Settled(_) => FIXED_BYTES,
            })
        })
    }

    /// Appends its messages, each with what they have in common.
    fn store(&self, out: &mut Vec<u8>) -> Option<()> {
        for item in self.items() {
            match item {
                Item::Body { begin, end } => {
                    let length = u32::try_from(self.head.len() - LENGTH_BYTES + (end - begin)).ok()?;
                    out.extend_from_slice(&length.to_be_bytes());
                    out.extend_from_slice(&self.head[LENGTH_BYTES..]);
                    out.extend_from_slice(&self.items[begin..end]);
                }
                Item::Settled(count) => out.extend_from_slice(&holes(count)),
            }
        }
        Some(())
    }
}

/// The bytes that a run of so many messages begins with. A version that does not know the flag takes it for damage: it says more than is
/// there.
fn fixed(count: u32) -> [u8; FIXED_BYTES] {
    let mut fixed = holes(count);
    fixed[4] = FLAG_RUN;
    fixed
}

/// The bytes that stand in a run for so many settled messages.
pub(crate) fn settled_in_run(count: u32) -> [u8; LENGTH_BYTES] {
    (SETTLED | count).to_be_bytes()
}

/// A block as it is in memory, of one as it is in a segment; `None` when it is damaged.
pub fn unpack_block(block: &[u8]) -> Option<Cow<'_, [u8]>> {
    let (mut at, mut whole_bytes, mut has_runs) = (0, 0usize, false);
    while at < block.len() {
        let (found, taken) = parse_in_block(&block[at..])?;
        let bytes = if let InBlock::Run(run) = found { run.whole_bytes()? } else { taken };
        has_runs |= matches!(found, InBlock::Run(_));
        whole_bytes = whole_bytes.checked_add(bytes)?;
        at += taken;
    }
    if !has_runs {
        return Some(Cow::Borrowed(block));
    }
    if whole_bytes > block.len() + GROWTH_BYTES_MAX {
        return None;
    }
    let (mut whole, mut at) = (Vec::with_capacity(whole_bytes), 0);
    while at < block.len() {
        let (found, taken) = parse_in_block(&block[at..])?;
        match found {
            InBlock::Run(run) => run.store(&mut whole)?,
            _ => whole.extend_from_slice(&block[at..at + taken]),
        }
        at += taken;
    }
    Some(Cow::Owned(whole))
}

/// A block as it is written to a segment: in fewer bytes when that is worth it, else as it is. Bytes that are not a block stay as they are.
pub fn pack_block(block: &[u8]) -> Cow<'_, [u8]> {
    match plan(block) {
        Some(plan) if plan.saved_bytes >= block.len().div_ceil(SAVED_PART_MIN) => {
            Cow::Owned(plan.write(block))
        }
        _ => Cow::Borrowed(block),
    }
}

/// The same of one that is written anew anyway: whatever it saves.
pub(crate) fn pack_anew(block: Vec<u8>) -> Vec<u8> {
    match plan(&block) {
        Some(plan) if plan.saved_bytes > 0 => plan.write(&block),
        _ => block,
    }
}

/// Messages of a block that are to become a run, and placeholders between them.
struct Alike {
    /// Where they are in the block.
    bytes: Range<usize>,
    /// Bytes of the first without its body.
    head_bytes: usize,
    /// Messages, those included that placeholders stand for.
    count: u32,
    /// Bytes that the run takes.
    packed_bytes: usize,
}

impl Alike {
    fn begin(at: usize, taken: usize, head_bytes: usize) -> Alike {
        let packed_bytes = FIXED_BYTES + head_bytes + LENGTH_BYTES + (taken - head_bytes);
        Alike { bytes: at..at + taken, head_bytes, count: 1, packed_bytes }
    }

    /// Whether the message at this place differs from these in its body only.
    fn is_like(&self, block: &[u8], at: usize, head_bytes: usize) -> bool {
        let head = |at: usize| &block[at + LENGTH_BYTES..at + head_bytes];
        self.head_bytes == head_bytes && head(self.bytes.start) == head(at)
    }

    /// The message that ends here goes on with the run, behind so many settled ones; false when it cannot.
    fn push(&mut self, end: usize, body_bytes: usize, settled: u32) -> bool {
        let count = self.count.checked_add(settled).and_then(|count| count.checked_add(1));
        let Some(count) = count.filter(|count| *count < SETTLED) else { return false };
        self.count = count;
        self.bytes.end = end;
        self.packed_bytes += LENGTH_BYTES + body_bytes + if settled > 0 { LENGTH_BYTES } else { 0 };
        true
    }

    fn saved_bytes(&self) -> usize {
        self.bytes.len().saturating_sub(self.packed_bytes)
    }

    fn write(&self, block: &[u8], out: &mut Vec<u8>) {
        let head = &block[self.bytes.start..self.bytes.start + self.head_bytes];
        let length = u32::try_from(self.head_bytes - LENGTH_BYTES).expect("a message is below 4 GiB");
        out.extend_from_slice(&fixed(self.count));
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&head[LENGTH_BYTES..]);
        let (mut at, mut settled) = (self.bytes.start, 0);
        while at < self.bytes.end {
            let (found, taken) = parse_in_block(&block[at..]).expect("it was looked at before");
            match found {
                InBlock::Holes(count) => settled += count,
                _ => {
                    if settled > 0 {
                        out.extend_from_slice(&settled_in_run(settled));
                        settled = 0;
                    }
                    let body = &block[at + self.head_bytes..at + taken];
                    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
                    out.extend_from_slice(body);
                }
            }
            at += taken;
        }
    }
}

/// The messages of a block that become runs.
#[derive(Default)]
struct Plan {
    runs: Vec<Alike>,
    saved_bytes: usize,
}

impl Plan {
    fn add(&mut self, alike: Option<Alike>) {
        if let Some(alike) = alike.filter(|alike| alike.saved_bytes() > 0) {
            self.saved_bytes += alike.saved_bytes();
            self.runs.push(alike);
        }
    }

    fn write(&self, block: &[u8]) -> Vec<u8> {
        let (mut out, mut at) = (Vec::with_capacity(block.len() - self.saved_bytes), 0);
        for alike in &self.runs {
            out.extend_from_slice(&block[at..alike.bytes.start]);
            alike.write(block, &mut out);
            at = alike.bytes.end;
        }
        out.extend_from_slice(&block[at..]);
        out
    }
}

/// `None` when it is not a block, or would be too much larger when it is unpacked.
fn plan(block: &[u8]) -> Option<Plan> {
    let mut plan = Plan::default();
    let (mut at, mut current, mut settled) = (0, None::<Alike>, 0u32);
    while at < block.len() {
        let (found, taken) = parse_in_block(&block[at..])?;
        match found {
            InBlock::Message(stored) if stored.shared.is_none() && taken < SETTLED as usize => {
                let body_bytes = stored.message.body.len();
                let head_bytes = taken - body_bytes;
                let goes_on = current.as_mut().is_some_and(|alike| {
                    alike.is_like(block, at, head_bytes) && alike.push(at + taken, body_bytes, settled)
                });
                if !goes_on {
                    plan.add(current.replace(Alike::begin(at, taken, head_bytes)));
                }
                settled = 0;
            }
            InBlock::Holes(count) => settled = settled.checked_add(count)?,
            InBlock::Message(_) | InBlock::Run(_) => {
                plan.add(current.take());
                settled = 0;
            }
        }
        at += taken;
    }
    plan.add(current);
    (plan.saved_bytes <= GROWTH_BYTES_MAX).then_some(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{HOLES_BYTES, store_hole, store_holes, stored};

    fn block(bodies: &[&[u8]]) -> Vec<u8> {
        bodies.iter().flat_map(|body| stored(body, true, None)).collect()
    }

    /// The head of such a message has 19 bytes.
    const HEAD_BYTES: usize = 19;

    #[test]
    fn messages_that_are_alike_take_their_bodies_and_four_bytes() {
        let bodies: [&[u8]; 5] = [b"first", b"", b"a longer one", b"x", b"last"];
        let whole = block(&bodies);
        let packed = pack_block(&whole).into_owned();
        let body_bytes: usize = bodies.iter().map(|body| body.len()).sum();
        assert_eq!(packed.len(), FIXED_BYTES + HEAD_BYTES + 5 * LENGTH_BYTES + body_bytes);
        assert_eq!(unpack_block(&packed).as_deref(), Some(&whole[..]));
        assert_eq!(pack_block(&packed), packed, "once is enough");
        assert_eq!(parse(&packed), None, "versions before runs take them for damage");
    }

    #[test]
    fn placeholders_between_them_take_four_bytes_and_others_stay() {
        let mut whole = Vec::new();
        store_holes(&mut whole, 7);
        for nth in 0..4 {
            whole.extend(stored(b"alike", true, None));
            store_holes(&mut whole, nth + 1);
        }
        whole.extend(stored(b"with an expiry", true, Some(9)));
        let packed = pack_block(&whole);
        let run = FIXED_BYTES + HEAD_BYTES + 4 * (LENGTH_BYTES + 5) + 3 * LENGTH_BYTES;
        let other = stored(b"with an expiry", true, Some(9)).len();
        assert_eq!(packed.len(), HOLES_BYTES + run + HOLES_BYTES + other);
        assert_eq!(unpack_block(&packed).as_deref(), Some(&whole[..]));
    }

    #[test]
    fn what_saves_little_stays_as_it_is() {
        let large = [7; 1000];
        let whole = block(&[&large[..]; 20]);
        assert!(matches!(pack_block(&whole), Cow::Borrowed(_)));
        assert!(matches!(unpack_block(&whole), Some(Cow::Borrowed(_))));
        let anew = pack_anew(whole.clone());
        assert!(anew.len() < whole.len() && unpack_block(&anew).as_deref() == Some(&whole[..]));
        let mut holes = Vec::new();
        (0..40).for_each(|_| store_hole(&mut holes));
        assert_eq!(unpack_block(&pack_block(&holes)).as_deref(), Some(&holes[..]));
        let shared = [stored(b"one", true, None), [0, 0, 0, 24, 8].to_vec(), vec![0; 23]].concat();
        assert!(matches!(pack_block(&shared), Cow::Borrowed(_)));
        assert!(matches!(pack_block(b"no block at all"), Cow::Borrowed(_)));
    }

    #[test]
    fn every_cut_and_every_lie_is_noticed() {
        let whole = block(&[b"first", b"second", b"third", b"fourth"]);
        let mut packed = pack_block(&whole).into_owned();
        (1..packed.len()).for_each(|end| assert_eq!(unpack_block(&packed[..end]), None, "cut at {end}"));
        let begin = FIXED_BYTES + HEAD_BYTES;
        for (at, byte) in [(3, 13), (4, 48), (5, 1), (11, 0), (11, 5), (15, 1), (19, 16), (20, 9), (20, 17)] {
            let byte = std::mem::replace(&mut packed[at], byte);
            assert_eq!(unpack_block(&packed), None, "byte {at}");
            packed[at] = byte;
        }
        for settled in [0, 4, SETTLED - 1] {
            let mut lie = packed.clone();
            lie.splice(begin..begin + LENGTH_BYTES + 5, settled_in_run(settled));
            assert_eq!(unpack_block(&lie), None, "{settled} settled");
        }
        packed[8] = 0x80;
        assert_eq!(unpack_block(&packed), None, "as many as nobody has");
    }

    #[test]
    fn a_block_that_claims_to_be_far_larger_is_none() {
        let mut head = stored(b"", true, None);
        head.extend(vec![7; 60_000]);
        let length = (head.len() - LENGTH_BYTES) as u32;
        head[..4].copy_from_slice(&length.to_be_bytes());
        head[12..16].copy_from_slice(&60_000u32.to_be_bytes());
        let lie = |count: u32| {
            [fixed(count).to_vec(), head.clone(), vec![0; count as usize * LENGTH_BYTES]].concat()
        };
        assert_eq!(unpack_block(&lie(17)).map(|whole| whole.len()), Some(17 * head.len()));
        assert_eq!(unpack_block(&lie(20)), None);
        let whole = head.repeat(20);
        assert!(matches!(pack_block(&whole), Cow::Borrowed(_)), "it could not be read");
    }
}
