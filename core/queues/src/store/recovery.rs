//! A queue rebuilt from its log records, and the state record that shortens the log.
//!
//! State record (integers big-endian), see `docs/formats/queue-records.md`:
//!
//! ```text
//! version u8 = 7 | levels u8 | per level: next number u64 | blocks u32 | per block:
//!   1 | first u64 | count u32 | expires u8 | segment u64 | offset u64 | bytes u32 | live body bytes u64
//!     | live bytes u32 | runs u16 | longest head u16 | words u32 | settled words u64...
//!   3 | first u64 | count u32 | expires u8 | log position u64 | bytes u32 | live body bytes u64
//!     | live bytes u32 | runs u16 | longest head u16 | words u32 | settled words u64...
//!   4 | as 1 | shared u32 | per message with a shared body: index u32 | body id u64 | body bytes u32
//!   5 | as 3 | shared u32 | per message with a shared body, as 4
//!   6 | first u64 | bytes u32 | the block as a segment would have it, without what is settled
//! ```
//!
//! Version 6 and those before it had blocks of kind 2 in place of 6: messages u32 | per message: number u64, stored message. Version 5 did not have runs and longest heads, and no segments with packed blocks. Version 4 did not have the live bytes of blocks, and their segments no placeholders for several messages. Version 3 had no blocks of kinds 4 and 5 and no references to shared bodies, version 2 no blocks of kind 3 either.

use std::collections::BTreeMap;
use std::ops::Range;

use super::bitmap::Bitmap;
use super::block::{Block, Heads, PlacedOnDisk};
use super::level::Level;
use super::messages::{Store, Written};
use crate::arguments::QueueConfig;
use crate::body::SharedBody;
use crate::logged::{LogRange, LoggedBlock, Place, Remains};
use crate::record::{self, BlockPlace, InBlock, RecordKind, Returned, SettledRun, SharedRef};
use crate::traffic::MessageSeq;
use RecordError::Damaged;

const VERSION: u8 = 7;
/// The oldest version that tells the live bytes of blocks.
const VERSION_LIVE_BYTES: u8 = 5;
/// The oldest version that tells what messages of blocks have in common.
const VERSION_HEADS: u8 = 6;
/// The oldest version whose state records carry small blocks packed.
const VERSION_PACKED: u8 = 7;
/// The oldest version that is read.
const VERSION_MIN: u8 = 2;
const PLACED: u8 = 1;
const INLINE: u8 = 2;
const LOGGED: u8 = 3;
const PLACED_SHARED: u8 = 4;
const LOGGED_SHARED: u8 = 5;
const PACKED: u8 = 6;

/// A record that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// It cannot be what was written.
    Damaged,
    /// A state record of this version, which another version of Warren wrote.
    Version(u8),
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecordError::Damaged => write!(f, "it is damaged"),
            RecordError::Version(version) => write!(
                f,
                "it has format version {version}, this version of Warren reads {VERSION_MIN} to {VERSION}; let the version that wrote the data directory drain its queues first"
            ),
        }
    }
}

impl std::error::Error for RecordError {}

/// Writes the durable state of all levels.
pub(crate) fn write_state(out: &mut Vec<u8>, levels: &[Level]) {
    out.push(VERSION);
    out.push(levels.len() as u8);
    for level in levels {
        out.extend_from_slice(&level.next_number().to_be_bytes());
        let kept = || level.blocks().filter(|block| block.live > 0 && block.persistent > 0);
        out.extend_from_slice(&(kept().count() as u32).to_be_bytes());
        kept().for_each(|block| write_block(out, block));
    }
}

fn write_block(out: &mut Vec<u8>, block: &Block) {
    let gone = block.settled_or_transient();
    if let Some(place) = block.place().filter(|_| block.is_safe()) {
        let kept = || block.bodies().filter(|(index, _)| !gone.contains(*index));
        let shared = kept().count() as u32;
        out.push(match place {
            Place::Segment(_) if shared == 0 => PLACED,
            Place::Segment(_) => PLACED_SHARED,
            Place::Log(_) if shared == 0 => LOGGED,
            Place::Log(_) => LOGGED_SHARED,
        });
        out.extend_from_slice(&block.first.to_be_bytes());
        out.extend_from_slice(&block.count.to_be_bytes());
        out.push(u8::from(block.expires));
        match place {
            Place::Segment(place) => {
                out.extend_from_slice(&place.segment.to_be_bytes());
                out.extend_from_slice(&place.offset.to_be_bytes());
            }
            Place::Log(range) => out.extend_from_slice(&range.position.to_be_bytes()),
        }
        out.extend_from_slice(&place.bytes().to_be_bytes());
        out.extend_from_slice(&block.live_persistent_body_bytes().to_be_bytes());
        out.extend_from_slice(&block.live_persistent_bytes().to_be_bytes());
        out.extend_from_slice(&block.heads.runs.to_be_bytes());
        out.extend_from_slice(&block.heads.longest.to_be_bytes());
        out.extend_from_slice(&(gone.words().len() as u32).to_be_bytes());
        gone.words().iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
        if shared > 0 {
            out.extend_from_slice(&shared.to_be_bytes());
        }
        for (index, body) in kept() {
            out.extend_from_slice(&index.to_be_bytes());
            out.extend_from_slice(&body.id().to_be_bytes());
            out.extend_from_slice(&body.bytes().to_be_bytes());
        }
        return;
    }
    let bytes = block.bytes_without(gone).expect("a block that is not safe on disk is in memory");
    out.push(PACKED);
    out.extend_from_slice(&block.first.to_be_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// Reads big-endian fields off the front of a record.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], RecordError> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(Damaged)?;
        self.0 = rest;
        Ok(head)
    }

    fn u8(&mut self) -> Result<u8, RecordError> {
        Ok(self.bytes(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, RecordError> {
        Ok(u16::from_be_bytes(self.bytes(2)?.try_into().expect("two bytes")))
    }

    fn u32(&mut self) -> Result<u32, RecordError> {
        Ok(u32::from_be_bytes(self.bytes(4)?.try_into().expect("four bytes")))
    }

    fn u64(&mut self) -> Result<u64, RecordError> {
        Ok(u64::from_be_bytes(self.bytes(8)?.try_into().expect("eight bytes")))
    }
}

/// A block of a queue being rebuilt whose messages are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedBlock {
    /// Where it lies.
    pub place: Place,
    /// Its first message, settled or not, under the number that records have of it.
    pub first: MessageSeq,
    /// Messages in it, settled ones included.
    pub count: u32,
    /// Messages in it that are not settled.
    pub messages: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
}

/// The rest of a block on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// All of it.
    All,
    /// Some of its messages.
    Some(Remains),
    /// Nothing.
    Nothing,
}

impl PlacedBlock {
    fn of((level, in_front): (usize, u64), block: &Block) -> Option<PlacedBlock> {
        Some(PlacedBlock {
            place: block.place()?,
            first: MessageSeq::new(level as u8, block.first.saturating_sub(in_front)),
            count: block.count,
            messages: block.live.into(),
            body_bytes: block.live_body_bytes(),
        })
    }

    /// How to read it back, if it lies in the log.
    pub fn logged(&self) -> Option<LoggedBlock> {
        let Place::Log(range) = self.place else { return None };
        Some(LoggedBlock { first: self.first, count: self.count, range, own_bytes: range.bytes })
    }
}

/// A queue being rebuilt: feed it its records in log order, then finish.
#[derive(Debug)]
pub struct Recovering {
    levels: Vec<Level>,
    oldest_log: u64,
    state_bytes: u64,
    body_id_max: u64,
    /// Bytes of blocks in segments, as far as somebody has looked.
    segment_bytes: BTreeMap<u64, u64>,
    /// By level: so many numbers were put before those that records tell of.
    in_front: Vec<u64>,
    /// The returned messages, as records told one after the other.
    returned: Vec<Returned>,
}

impl Default for Recovering {
    fn default() -> Self {
        Recovering {
            levels: vec![Level::new(0)],
            oldest_log: 0,
            state_bytes: 0,
            body_id_max: 0,
            segment_bytes: BTreeMap::new(),
            in_front: Vec::new(),
            returned: Vec::new(),
        }
    }
}

impl Recovering {
    /// Applies one record that lies in this part of the log.
    pub fn apply(
        &mut self,
        kind: RecordKind,
        payload: &[u8],
        record: &Range<u64>,
    ) -> Result<(), RecordError> {
        let position = record.end;
        if self.oldest_log == 0 {
            self.oldest_log = position;
        }
        match kind {
            RecordKind::Enqueue | RecordKind::EnqueueShared | RecordKind::EnqueueAlike => {
                // Its header counts with the first message.
                let mut beside = (record.end - record.start).saturating_sub(payload.len() as u64);
                let is_whole = record::each_logged(kind, payload, |seq, stored, bytes| {
                    let bytes = bytes as u64 + std::mem::take(&mut beside);
                    let own = Some((record, u32::try_from(bytes).unwrap_or(u32::MAX)));
                    let shared = record::parse(stored).and_then(|(stored, _)| stored.shared);
                    self.body_id_max = self.body_id_max.max(shared.map_or(0, |shared| shared.id));
                    self.level(seq.level()).restore(seq.number(), stored, own);
                });
                if !is_whole {
                    return Err(Damaged);
                }
            }
            RecordKind::Settle => {
                for entry in record::settled(payload) {
                    let run = entry.ok_or(Damaged)?;
                    self.level(run.first.level()).restore_settled(&run);
                }
            }
            RecordKind::Returned => {
                for entry in record::returned(payload) {
                    self.returned.push(entry.ok_or(Damaged)?);
                }
            }
            RecordKind::State => {
                self.read_state(payload)?;
                self.returned.clear();
                self.oldest_log = position;
                self.state_bytes = payload.len() as u64;
            }
        }
        Ok(())
    }

    fn level(&mut self, level: u8) -> &mut Level {
        while self.levels.len() <= usize::from(level) {
            self.levels.push(Level::new(self.levels.len() as u8));
        }
        &mut self.levels[usize::from(level)]
    }

    /// The number that the next message of a priority level gets, as far as records told.
    pub fn next_number(&self, level: u8) -> u64 {
        self.levels.get(usize::from(level)).map_or(0, Level::next_number)
    }

    fn read_state(&mut self, payload: &[u8]) -> Result<(), RecordError> {
        let mut reader = Reader(payload);
        let version = reader.u8()?;
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(RecordError::Version(version));
        }
        self.levels.clear();
        for level in 0..reader.u8()? {
            let next = reader.u64()?;
            for _ in 0..reader.u32()? {
                read_block(&mut reader, version, self.level(level))?;
            }
            self.level(level).skip_to(next);
        }
        self.level(0);
        if reader.0.is_empty() { Ok(()) } else { Err(Damaged) }
    }

    /// The queue as it was: everything that lives is ready. `resolve` gives a handle for each shared body that is named.
    pub fn finish(
        mut self,
        config: &QueueConfig,
        resolve: &mut dyn FnMut(&SharedBody) -> SharedBody,
    ) -> Store {
        let mut queue = Store::new(config);
        for level in &mut self.levels {
            level.recovered();
            queue.ready += level.ready();
            level.blocks_mut().for_each(|block| block.resolve_bodies(resolve));
            for block in level.blocks() {
                queue.memory_bytes += block.memory_bytes();
                queue.misses_bodies |= block.bodies().next().is_some();
                queue.persistent += u64::from(block.live);
                queue.ready_bytes += block.live_body_bytes();
            }
        }
        queue.persistent_bytes = queue.ready_bytes;
        let placed = || self.levels.iter().flat_map(Level::blocks).filter_map(|it| Some((it.place()?, it)));
        placed().for_each(|(place, block)| queue.occupy(place, block.live_bytes));
        for (place, _) in placed() {
            match place {
                Place::Log(range) => queue.stated_end = queue.stated_end.max(range.end()),
                Place::Segment(place) => {
                    let bytes = self.segment_bytes.get(&place.segment).copied();
                    queue.note_segment_bytes(place, bytes);
                }
            }
        }
        queue.oldest_log = if queue.persistent > 0 { self.oldest_log } else { 0 };
        queue.written = Written { bytes: self.state_bytes, messages: queue.persistent };
        queue.levels = self.levels;
        if self.in_front.is_empty() {
            queue.put_returned(&self.returned);
        }
        queue
    }

    /// Blocks that lie on disk and hold messages that are not settled.
    pub fn placed_blocks(&self) -> impl Iterator<Item = PlacedBlock> + '_ {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(move |(level, blocks)| {
            let alive = blocks.blocks().filter(|block| block.live > 0);
            alive.filter_map(move |block| PlacedBlock::of(self.level_at(level), block))
        })
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.levels.iter().flat_map(Level::blocks)
    }

    /// A level, and how many numbers were put before it.
    fn level_at(&self, level: usize) -> (usize, u64) {
        (level, self.in_front.get(level).copied().unwrap_or(0))
    }

    /// Puts blocks that have the first `numbers` of numbers before all others of a level; false when there are not so many left.
    pub(crate) fn make_way(&mut self, level: u8, numbers: u64, blocks: Vec<Block>) -> bool {
        let at = usize::from(level);
        if self.level(level).next_number().checked_add(numbers).is_none_or(|next| next >> 56 != 0) {
            return false;
        }
        self.levels[at].put_in_front(numbers, blocks);
        self.in_front.resize(self.in_front.len().max(at + 1), 0);
        self.in_front[at] += numbers;
        true
    }

    /// Lets messages that records brought leave memory, as far as the log has them together, and settled ones. The next messages begin new
    /// blocks: these do not reach over records that cannot be read.
    pub fn leave_in_log(&mut self) {
        for level in &mut self.levels {
            level.retain_blocks(|block| block.live > 0);
            for block in level.blocks_mut() {
                block.close();
                if let Some(range) = block.place_in_log(1).filter(|_| block.place().is_none()) {
                    block.begin_copy(false);
                    block.copied_to(Place::Log(range));
                    block.evict();
                }
            }
        }
    }

    /// A segment has so many bytes of blocks, whether they are needed or not.
    pub fn note_segment_bytes(&mut self, segment: u64, bytes: u64) {
        self.segment_bytes.insert(segment, bytes);
    }

    /// Parts of the log that hold such blocks.
    pub fn log_ranges(&self) -> impl Iterator<Item = LogRange> + '_ {
        let blocks = self.levels.iter().flat_map(Level::blocks).filter(|block| block.live > 0);
        blocks.filter_map(Block::log_range)
    }

    /// Shared bodies of messages that are not settled.
    pub fn bodies(&self) -> impl Iterator<Item = SharedRef> + '_ {
        let blocks = self.levels.iter().flat_map(Level::blocks);
        let of_block =
            |block| Block::bodies(block).map(|(_, body)| SharedRef { id: body.id(), bytes: body.bytes() });
        blocks.flat_map(of_block)
    }

    /// The highest number of a shared body that any record named, 0 when none did.
    pub fn body_id_max(&self) -> u64 {
        self.bodies().map(|body| body.id).max().unwrap_or(0).max(self.body_id_max)
    }

    /// Forgets the messages whose shared bodies `keep` does not want.
    pub fn retain_bodies(&mut self, mut keep: impl FnMut(SharedRef) -> bool) {
        for block in self.levels.iter_mut().flat_map(Level::blocks_mut) {
            let unwanted = |(index, body): (u32, &SharedBody)| {
                let is_kept = keep(SharedRef { id: body.id(), bytes: body.bytes() });
                (!is_kept).then_some((block.first + u64::from(index), u64::from(body.bytes())))
            };
            let gone: Vec<(u64, u64)> = block.bodies().filter_map(unwanted).collect();
            for (number, body_bytes) in gone {
                block.settle(number);
                block.take_body(number);
                block.forget_away_bytes(body_bytes);
            }
        }
    }

    /// Messages that are not settled, and the bytes of their bodies.
    pub fn contents(&self) -> (u64, u64) {
        let blocks = self.levels.iter().flat_map(Level::blocks);
        blocks.fold((0, 0), |(messages, bytes), block| {
            (messages + u64::from(block.live), bytes + block.live_body_bytes())
        })
    }

    /// Forgets settled blocks, and of blocks on disk what is not there, as `look` says. Returns how many messages were lost of blocks of which
    /// some are there, and the bytes of their bodies.
    pub fn retain_placed(&mut self, mut look: impl FnMut(&PlacedBlock) -> Left) -> (u64, u64) {
        let mut lost = (0, 0);
        for nth in 0..self.levels.len() {
            let at = self.level_at(nth);
            self.levels[nth].retain_blocks(|block| {
                let placed = PlacedBlock::of(at, block);
                match placed.as_ref().filter(|_| block.live > 0).map_or(Left::All, &mut look) {
                    Left::All => {}
                    Left::Nothing => return false,
                    Left::Some(remains) => {
                        let before = (u64::from(block.live), block.live_body_bytes());
                        let after = match block.lose(remains) {
                            true => (u64::from(block.live), block.live_body_bytes()),
                            false => (0, 0),
                        };
                        lost.0 += before.0 - after.0;
                        lost.1 += before.1.saturating_sub(after.1);
                        return after.0 > 0;
                    }
                }
                block.live > 0
            });
        }
        lost
    }

    /// Blocks in the log lie in segments from now on, synced ones, where `copy` says.
    ///
    /// # Errors
    /// The error that `copy` returns.
    pub fn move_logged<E>(
        &mut self,
        mut copy: impl FnMut(&LoggedBlock) -> Result<BlockPlace, E>,
    ) -> Result<(), E> {
        for nth in 0..self.levels.len() {
            let at = self.level_at(nth);
            for block in self.levels[nth].blocks_mut() {
                if let Some(logged) = PlacedBlock::of(at, block).and_then(|placed| placed.logged()) {
                    block.copied_as_it_was(Place::Segment(copy(&logged)?));
                    // A block that was left in the log was never in a segment before.
                    block.synced = true;
                }
            }
        }
        Ok(())
    }

    /// Appends a state record that makes the queue as it is here.
    pub fn write_state(&self, out: &mut Vec<u8>) {
        write_state(out, &self.levels);
    }

    /// Segments the queue still needs; all others of it can be deleted.
    pub fn segments(&self) -> impl Iterator<Item = u64> + '_ {
        let blocks = self.levels.iter().flat_map(Level::blocks).filter(|block| block.live > 0);
        let places = blocks.filter_map(Block::place);
        places.filter_map(|place| match place {
            Place::Segment(place) => Some(place.segment),
            Place::Log(_) => None,
        })
    }
}

fn read_block(reader: &mut Reader<'_>, version: u8, level: &mut Level) -> Result<(), RecordError> {
    match reader.u8()? {
        kind @ (PLACED | LOGGED | PLACED_SHARED | LOGGED_SHARED) => {
            let (first, count, expires) = (reader.u64()?, reader.u32()?, reader.u8()? != 0);
            let place = read_place(reader, kind)?;
            let body_bytes = reader.u64()?;
            let live_bytes = if version < VERSION_LIVE_BYTES { None } else { Some(reader.u32()?) };
            let heads = if version < VERSION_HEADS {
                Heads::default()
            } else {
                Heads { runs: reader.u16()?, longest: reader.u16()? }
            };
            let words = reader.u32()? as usize;
            let bytes = reader.bytes(words.checked_mul(8).ok_or(Damaged)?)?;
            let word = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("chunks of eight"));
            let settled = Bitmap::from_words(bytes.chunks_exact(8).map(word).collect());
            let mut bodies = Vec::new();
            let shared = if let PLACED_SHARED | LOGGED_SHARED = kind { reader.u32()? } else { 0 };
            for _ in 0..shared {
                let index = reader.u32()?;
                bodies.push((index, SharedBody::named(reader.u64()?, reader.u32()?)));
            }
            let known =
                PlacedOnDisk { first, count, place, settled, expires, body_bytes, live_bytes, heads, bodies };
            level.restore_block(Block::on_disk(known).ok_or(Damaged)?);
        }
        INLINE if version < VERSION_PACKED => {
            for _ in 0..reader.u32()? {
                let number = reader.u64()?;
                let (_, taken) = record::parse(reader.0).ok_or(Damaged)?;
                let stored = reader.bytes(taken)?;
                if number >> 56 != 0 {
                    return Err(Damaged);
                }
                level.restore(number, stored, None);
            }
        }
        PACKED if version >= VERSION_PACKED => {
            let (first, bytes) = (reader.u64()?, reader.u32()?);
            restore_packed(level, first, reader.bytes(bytes as usize)?).ok_or(Damaged)?;
        }
        _ => return Err(Damaged),
    }
    Ok(())
}

/// Messages of a block that a state record carries itself.
fn restore_packed(level: &mut Level, first: u64, block: &[u8]) -> Option<()> {
    let whole = record::unpack_block(block)?;
    let (mut number, mut at) = (first, 0);
    while at < whole.len() {
        let (found, taken) = record::parse_in_block(&whole[at..])?;
        let end = at + taken;
        let count = match found {
            InBlock::Message(_) => 1,
            InBlock::Holes(count) => u64::from(count),
            InBlock::Run(_) => return None,
        };
        let next = number.checked_add(count).filter(|next| *next <= MessageSeq::NUMBER_MAX)?;
        if let InBlock::Message(_) = found {
            level.restore(number, &whole[at..end], None);
        }
        (number, at) = (next, end);
    }
    Some(())
}

fn read_place(reader: &mut Reader<'_>, kind: u8) -> Result<Place, RecordError> {
    if let LOGGED | LOGGED_SHARED = kind {
        return Ok(Place::Log(LogRange { position: reader.u64()?, bytes: reader.u32()? }));
    }
    let (segment, offset) = (reader.u64()?, reader.u64()?);
    Ok(Place::Segment(BlockPlace { segment, offset, bytes: reader.u32()? }))
}

impl Level {
    /// One run of a settle record: marks what is there, passes over what is not. Runs are settled, and logged, as a
    /// whole: a state record has either all of a run or nothing.
    fn restore_settled(&mut self, run: &SettledRun) {
        let mut number = run.first.number();
        let end = number.saturating_add(u64::from(run.count));
        while number < end {
            match self.block_mut(number) {
                Some(block) => {
                    let stop = end.min(block.end());
                    let new = (number..stop).filter(|number| block.settle(*number)).count();
                    (number..stop).for_each(|number| drop(block.take_body(number)));
                    if new > 0 {
                        block.forget_away_bytes(u64::from(run.body_bytes));
                    }
                    number = stop;
                }
                None => match self.blocks_from(number).next().map(|block| block.first) {
                    Some(next) => number = next.max(number + 1),
                    None => return,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A level whose next number is 9 and that has one block in the given place: messages 2 to 4, of which the first is settled, with 70
    /// bytes of live bodies.
    fn state(version: u8, kind: u8, place: &[u8]) -> Vec<u8> {
        let head = [version, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, kind];
        let block = [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 1];
        let rest = [0, 0, 0, 90, 0, 0, 0, 0, 0, 0, 0, 70, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
        [&head[..], &block, place, &rest].concat()
    }

    /// The same as version 5 has it, with 74 bytes that live.
    fn state_of_5(kind: u8, place: &[u8]) -> Vec<u8> {
        let mut state = state(5, kind, place);
        let at = state.len() - 12;
        state.splice(at..at, [0, 0, 0, 74]);
        state
    }

    /// The same as later versions have it, with two runs.
    fn state_of_today(kind: u8, place: &[u8]) -> Vec<u8> {
        let mut state = state_of_5(kind, place);
        state[0] = VERSION;
        let at = state.len() - 12;
        state.splice(at..at, [0, 2, 0, 17]);
        state
    }

    const IN_SEGMENT: [u8; 16] = [0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 32];
    const IN_LOG: [u8; 8] = [0, 0, 0, 0, 0, 0, 1, 0];

    fn placed(bytes: &[u8]) -> Vec<PlacedBlock> {
        let mut recovering = Recovering::default();
        recovering.apply(RecordKind::State, bytes, &(0..9)).expect("it can be read");
        let mut written = Vec::new();
        recovering.write_state(&mut written);
        let mut today = [&[VERSION], &bytes[1..]].concat();
        let is_body_bytes = |body_bytes: &[u8]| body_bytes == [0, 0, 0, 0, 0, 0, 0, 70];
        let at = bytes.windows(8).rposition(is_body_bytes).expect("one block") + 8;
        match bytes[0] {
            // Two messages of three live: so much of 90 bytes.
            2..=4 => drop(today.splice(at..at, [0, 0, 0, 60, 0, 0, 0, 0])),
            5 => drop(today.splice(at + 4..at + 4, [0, 0, 0, 0])),
            _ => {}
        }
        assert_eq!(written, today, "the version of today, and nothing else changes");
        recovering.placed_blocks().collect()
    }

    #[test]
    fn state_records_of_all_versions_are_read_byte_for_byte_as_documented() {
        let segment = BlockPlace { segment: (1 << 32) + 5, offset: 32, bytes: 90 };
        let first = MessageSeq::new(0, 2);
        let block =
            PlacedBlock { place: Place::Segment(segment), first, count: 3, messages: 2, body_bytes: 70 };
        assert_eq!(placed(&state(2, PLACED, &IN_SEGMENT)), [block]);
        assert_eq!(placed(&state(3, PLACED, &IN_SEGMENT)), [block]);
        let place = Place::Log(LogRange { position: 256, bytes: 90 });
        let in_log = PlacedBlock { place, ..block };
        assert_eq!(placed(&state(3, LOGGED, &IN_LOG)), [in_log]);
        // The last message has the body 77.
        let shared = [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 60];
        assert_eq!(placed(&[state(4, PLACED_SHARED, &IN_SEGMENT), shared.to_vec()].concat()), [block]);
        assert_eq!(placed(&[state(4, LOGGED_SHARED, &IN_LOG), shared.to_vec()].concat()), [in_log]);
        for state in [state_of_5, state_of_today] {
            assert_eq!(placed(&state(PLACED, &IN_SEGMENT)), [block]);
            assert_eq!(placed(&state(LOGGED, &IN_LOG)), [in_log]);
        }
        assert_eq!(placed(&[state_of_today(PLACED_SHARED, &IN_SEGMENT), shared.to_vec()].concat()), [block]);
        assert_eq!(placed(&[state_of_today(LOGGED_SHARED, &IN_LOG), shared.to_vec()].concat()), [in_log]);
    }

    #[test]
    fn a_block_that_cannot_be_is_damage() {
        let never = [&[255; 8][..]].concat();
        let shared = |index: u8| [0, 0, 0, 1, 0, 0, 0, index, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 60];
        let with = |index| [state(4, PLACED_SHARED, &IN_SEGMENT), shared(index).to_vec()].concat();
        for bytes in [
            state(3, LOGGED, &never),
            state(3, 9, &IN_LOG),
            state(3, LOGGED, &IN_LOG[1..]),
            state(4, LOGGED_SHARED, &IN_LOG),
            with(0),
            with(3),
        ] {
            assert_eq!(Recovering::default().apply(RecordKind::State, &bytes, &(0..9)), Err(Damaged));
        }
    }
}
