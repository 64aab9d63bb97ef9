//! One priority level: blocks in order, a cursor behind which everything was handed out, and messages that came back.

mod following;

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use super::block::{AddedAlike, BACKLOG_BLOCK_BYTES, BLOCK_BYTES, Block};
use crate::body::{BodyBuffer, HeldBody, LargeBody, SharedBody};
use crate::logged::Place;
use crate::record;
use crate::traffic::{Delivery, IncomingMessage, MessageSeq};

/// A level with more blocks than these has a long backlog.
const BACKLOG_BLOCKS_MIN: usize = 64;

/// With so many blocks the next one gets room for what the last one took at once: growing it by doubling was 7 % of filling a
/// backlog. With fewer the room that is not used would count.
const ALIKE_BLOCKS_MIN: usize = 4;

/// A hole longer than this begins a new block instead of placeholders.
const HOLE_MAX: u64 = 256;

/// Messages of one priority, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Level {
    blocks: VecDeque<Block>,
    /// Number the next message gets.
    next: u64,
    /// Everything below was handed out, dropped or is in `returned`.
    cursor: u64,
    /// Numbers below the cursor that are ready again. Not empty while something is in reserve.
    returned: BTreeSet<u64>,
    /// Below the cursor since a recovery: an unsettled message here is ready, and becomes `returned` block by block, so that a
    /// long backlog with gaps does not cost memory by the message. All of the level, while the queue follows.
    reserve: Range<u64>,
    /// Unsettled messages in `reserve`.
    reserved: u64,
    /// First numbers of closed blocks whose own bytes are in memory and can be moved to disk.
    resident: BTreeSet<u64>,
    /// Everything below has been handed out at least once, or is gone.
    handed_out: u64,
    /// The value of it that members were told.
    handed_out_told: u64,
    /// Messages below were handed out by leaders before this one.
    again_below: u64,
    level: u8,
}

/// The bytes that a settlement freed.
#[derive(Debug, Default)]
pub(crate) struct Freed {
    /// The place of each freed block that had one on disk.
    pub(crate) places: Vec<Place>,
    /// Bytes of message data that left memory.
    pub(crate) bytes: usize,
    /// Shared bodies that the queue has no use for any more.
    pub(crate) bodies: Vec<SharedBody>,
    /// Bytes of messages, without shared bodies, that were settled in blocks of segments.
    pub(crate) settled_in_segments: u64,
    /// In blocks of the log.
    pub(crate) settled_in_log: u64,
}

/// The kind of messages at the moment they are settled: consecutive ones of one block that are all persistent or all transient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SettledMessages {
    /// Number of the first.
    pub(crate) first: u64,
    /// How many.
    pub(crate) count: u32,
    /// Body bytes of all; with the first message of a block whose sizes are not in memory go those of all that are persistent, or transient,
    /// as it is.
    pub(crate) body_bytes: u64,
    /// Delivery mode 2.
    pub(crate) persistent: bool,
    /// The first is the first of its block.
    pub(crate) begins_block: bool,
}

impl Freed {
    #[inline]
    fn note_settled(&mut self, place: Option<Place>, bytes: u32) {
        match place {
            Some(Place::Segment(_)) => self.settled_in_segments += u64::from(bytes),
            Some(Place::Log(_)) => self.settled_in_log += u64::from(bytes),
            None => {}
        }
    }
}

impl Level {
    /// An empty level.
    pub(crate) fn new(level: u8) -> Level {
        Level { level, ..Level::default() }
    }

    /// Ready messages.
    pub(crate) fn ready(&self) -> u64 {
        self.returned.len() as u64 + self.reserved + (self.next - self.cursor)
    }

    fn seq(&self, number: u64) -> MessageSeq {
        MessageSeq::new(self.level, number)
    }

    /// Number the next message will get.
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// Whether nothing is in it, nor on its way to or from the disk.
    pub(crate) fn is_empty(&self) -> bool {
        let is_over =
            |block: &Block| block.live == 0 && block.place().is_none() && !block.writing && !block.reading;
        self.ready() == 0 && self.blocks.iter().all(is_over)
    }

    /// An empty level goes on with this number.
    pub(crate) fn go_on_at(&mut self, next: u64) {
        (self.next, self.cursor) = (next, next);
    }

    /// Recovery only: numbers below are never used again.
    pub(crate) fn skip_to(&mut self, next: u64) {
        self.next = self.next.max(next);
    }

    fn position(&self, number: u64) -> Option<usize> {
        // New messages and those that became durable are in the newest block, delivered ones in the oldest. A search in a long backlog, in
        // which each step is a cache miss, was a fifth of filling one.
        let (oldest, newest) = (self.blocks.front()?, self.blocks.back()?);
        if newest.first <= number {
            return (number < newest.end()).then(|| self.blocks.len() - 1);
        }
        if number < oldest.end() {
            return (oldest.first <= number).then_some(0);
        }
        let at = self.blocks.partition_point(|block| block.end() <= number);
        (at < self.blocks.len() && self.blocks[at].first <= number).then_some(at)
    }

    /// The block holding a number.
    pub(crate) fn block(&self, number: u64) -> Option<&Block> {
        self.position(number).map(|at| &self.blocks[at])
    }

    /// The block holding a number, to change it.
    pub(crate) fn block_mut(&mut self, number: u64) -> Option<&mut Block> {
        self.position(number).map(|at| &mut self.blocks[at])
    }

    /// All blocks, oldest first.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter()
    }

    /// Blocks whose messages are in memory.
    pub(crate) fn blocks_in_memory(&self) -> impl Iterator<Item = &Block> {
        let newest = self.blocks.back().filter(|block| !self.resident.contains(&block.first));
        let closed = self.resident.iter().filter_map(|first| self.block(*first));
        closed.chain(newest).filter(|block| block.is_resident())
    }

    /// First numbers of closed blocks in memory, newest first: those needed last come first.
    pub(crate) fn movable(&self) -> impl Iterator<Item = u64> {
        self.resident.iter().rev().copied()
    }

    /// Drops a block's bytes from memory, which must be on disk; returns how many there were.
    pub(crate) fn evict(&mut self, number: u64) -> usize {
        let Some(block) = self.block_mut(number) else { return 0 };
        let (first, bytes) = (block.first, block.memory_bytes());
        block.evict();
        self.resident.remove(&first);
        bytes
    }

    /// A block's bytes came back. False when they are not what was written.
    pub(crate) fn fill(&mut self, number: u64, bytes: Option<Vec<u8>>, bodies: &[HeldBody]) -> bool {
        let Some(block) = self.block_mut(number) else { return true };
        let first = block.first;
        let is_whole = block.fill(bytes, bodies);
        self.resident.insert(first);
        is_whole
    }

    /// Blocks from the one that holds `number` on.
    pub(crate) fn blocks_from(&self, number: u64) -> impl Iterator<Item = &Block> {
        let at = self.blocks.partition_point(|block| block.end() <= number);
        self.blocks.range(at..)
    }

    /// All blocks, oldest first, to change them.
    pub(crate) fn blocks_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Block> {
        self.blocks.iter_mut()
    }

    /// The newest block takes no more messages; its bytes, if they are in memory, can be moved.
    fn end_newest(&mut self) {
        if let Some(last) = self.blocks.back_mut() {
            last.close();
            if last.has_data() {
                self.resident.insert(last.first);
            }
        }
    }

    fn begin_block(&mut self, first: u64) {
        self.end_newest();
        let mut block = Block::new(first);
        if self.blocks.len() >= ALIKE_BLOCKS_MIN
            && let Some(before) = self.blocks.back()
        {
            // And a sixteenth: they are not quite alike.
            let (bytes, messages) = (before.data_bytes().min(BACKLOG_BLOCK_BYTES), before.count as usize);
            block.make_room(bytes + bytes / 16, messages + messages / 16);
        }
        self.push_block(block);
    }

    /// Room grows by a quarter: of very many blocks, half of the memory is not kept for ones that may never come.
    fn push_block(&mut self, block: Block) {
        if self.blocks.len() == self.blocks.capacity() {
            self.blocks.reserve_exact(1 + self.blocks.len() / 4);
        }
        self.blocks.push_back(block);
    }

    fn block_bytes_max(&self, backlog_block_bytes: usize) -> usize {
        if self.blocks.len() > BACKLOG_BLOCKS_MIN { backlog_block_bytes } else { BLOCK_BYTES }
    }

    fn open_block(&mut self, backlog_block_bytes: usize) -> &mut Block {
        let bytes_max = self.block_bytes_max(backlog_block_bytes);
        if !self.blocks.back().is_some_and(|block| block.is_open(bytes_max) && block.end() == self.next) {
            self.begin_block(self.next);
        }
        self.blocks.back_mut().expect("one was pushed")
    }

    /// The newest block takes no more messages when it is full: it can be moved, too.
    pub(crate) fn close_full(&mut self) {
        if self.newest().is_some_and(|newest| newest.memory_bytes() >= BACKLOG_BLOCK_BYTES) {
            self.close_newest();
        }
    }

    /// The newest block, which is in memory, takes no more messages.
    pub(crate) fn close_newest(&mut self) {
        if let Some(newest) = self.blocks.back_mut() {
            newest.close();
            self.resident.insert(newest.first);
        }
    }

    /// Bytes in blocks from the one that holds `head` on; not looked at further when there are `bytes_max`.
    pub(crate) fn bytes_ahead(&self, head: u64, bytes_max: usize) -> usize {
        let mut bytes = 0;
        for block in self.blocks_from(head) {
            if bytes >= bytes_max {
                break;
            }
            bytes += block.stored_size();
        }
        bytes
    }

    /// Number after the blocks that are to be in memory when `head` is served: at most `count` blocks, and no block after those that
    /// make up `bytes_max`. The one of the head is always among them.
    pub(crate) fn read_ahead_end(&self, head: u64, count: usize, bytes_max: usize) -> u64 {
        let mut bytes = 0;
        let ahead = self.blocks_from(head).take(count).take_while(|block| {
            let has_room = bytes == 0 || bytes < bytes_max;
            bytes += block.stored_size();
            has_room
        });
        ahead.last().map_or(head, Block::end)
    }

    /// Enqueues a message; returns its number. The newest block afterwards is the one that holds it. In a long backlog a block is
    /// closed after `backlog_block_bytes`.
    pub(crate) fn push(
        &mut self,
        incoming: &IncomingMessage<'_>,
        expiry_ms: Option<u64>,
        backlog_block_bytes: usize,
    ) -> u64 {
        let block = self.open_block(backlog_block_bytes);
        let shared = incoming.shared.map(|held| (held.body.clone(), Some(held.bytes.clone())));
        block.push(incoming.persistent, expiry_ms.is_some(), incoming.message.body.len(), shared, |out| {
            record::store(out, incoming, expiry_ms);
        });
        self.next += 1;
        self.next - 1
    }

    /// As [`Self::push`], of a message whose body is `body`, in memory of its own, which becomes a block.
    pub(crate) fn push_whole(
        &mut self,
        incoming: &IncomingMessage<'_>,
        expiry_ms: Option<u64>,
        body: BodyBuffer,
    ) -> u64 {
        if !self.blocks.back().is_some_and(|block| block.is_fresh() && block.end() == self.next) {
            self.end_newest();
            self.push_block(Block::new(self.next));
        }
        let (body_bytes, mut head) = (body.len(), Vec::new());
        record::store_head(&mut head, incoming, expiry_ms, body_bytes);
        let block = self.blocks.back_mut().expect("one was pushed");
        block.push_whole(incoming.persistent, expiry_ms.is_some(), body_bytes, body.led_by(&head));
        self.resident.insert(self.next);
        self.next += 1;
        self.next - 1
    }

    /// Enqueues messages that differ from the newest in their bodies only, as many as its block takes.
    pub(crate) fn push_alike<'a>(
        &mut self,
        bodies: impl Iterator<Item = &'a [u8]>,
        backlog_block_bytes: usize,
    ) -> AddedAlike {
        let bytes_max = self.block_bytes_max(backlog_block_bytes);
        let newest = self.blocks.back_mut().expect("the message before them is in it");
        let added = newest.push_alike(bodies, bytes_max);
        self.next += u64::from(added.count);
        added
    }

    /// The newest block.
    pub(crate) fn newest(&self) -> Option<&Block> {
        self.blocks.back()
    }

    /// The newest block, to change it.
    pub(crate) fn newest_mut(&mut self) -> Option<&mut Block> {
        self.blocks.back_mut()
    }

    /// Recovery only: a message goes where it was, from an enqueue record, of which so many bytes are its, or from a state record. Known numbers are
    /// passed over.
    pub(crate) fn restore(&mut self, number: u64, stored: &[u8], enqueued: Option<(&Range<u64>, u32)>) {
        let Some((parsed, _)) = record::parse(stored) else { return };
        if number < self.next && self.next > 0 {
            return;
        }
        let block = self.block_for(number, BACKLOG_BLOCK_BYTES);
        let shared = parsed.shared.map(|shared| (SharedBody::named(shared.id, shared.bytes), None));
        let own_bytes = shared.is_none().then_some(parsed.message.body.len());
        block.restore(stored, own_bytes, |block| {
            let (persistent, expires) = (parsed.persistent, parsed.expiry_ms.is_some());
            block.push(persistent, expires, parsed.body_bytes(), shared, |out| {
                out.extend_from_slice(stored);
            });
        });
        enqueued.into_iter().for_each(|(record, bytes)| block.note_logged(record, 1, bytes));
        self.next = number + 1;
    }

    /// The newest block, which takes the message of this number next: none below it comes any more.
    fn block_for(&mut self, number: u64, backlog_block_bytes: usize) -> &mut Block {
        let bytes_max = self.block_bytes_max(backlog_block_bytes);
        let follows =
            self.blocks.back().is_some_and(|block| block.is_open(bytes_max) && block.end() == self.next);
        if follows && number - self.next <= HOLE_MAX {
            let block = self.blocks.back_mut().expect("it follows");
            (self.next..number).for_each(|_| block.push_hole());
        } else {
            self.begin_block(number);
        }
        self.blocks.back_mut().expect("just begun or continued")
    }

    /// Recovery only: a block that is on disk.
    pub(crate) fn restore_block(&mut self, block: Block) {
        self.next = self.next.max(block.end());
        if let Some(last) = self.blocks.back_mut() {
            last.close();
        }
        self.push_block(block);
    }

    /// Recovery only: these blocks, which have the first `numbers` of numbers, come before all others, whose numbers move up.
    pub(crate) fn put_in_front(&mut self, numbers: u64, blocks: Vec<Block>) {
        self.blocks.iter_mut().for_each(|block| block.first += numbers);
        self.next += numbers;
        blocks.into_iter().rev().for_each(|block| self.blocks.push_front(block));
    }

    /// Recovery only: forgets blocks.
    pub(crate) fn retain_blocks(&mut self, keep: impl FnMut(&mut Block) -> bool) {
        self.blocks.retain_mut(keep);
    }

    /// Recovery is over: everything not settled is ready, in order.
    pub(crate) fn recovered(&mut self) {
        self.blocks.retain(|block| block.live > 0);
        let older = self.blocks.len().saturating_sub(1);
        self.resident =
            self.blocks.range(..older).filter(|block| block.has_data()).map(|block| block.first).collect();
        self.begin_at_dense_tail();
    }

    /// Everything that is not settled is ready, in order, and nothing is handed out.
    fn begin_at_dense_tail(&mut self) {
        // The cursor begins at the longest dense tail; whatever lives before it has come back.
        self.cursor = self.next;
        for block in self.blocks.iter().rev() {
            if block.end() != self.cursor || block.live != block.count {
                break;
            }
            self.cursor = block.first;
        }
        let sparse = self.blocks.iter().take_while(|block| block.first < self.cursor);
        self.reserved = sparse.map(|block| u64::from(block.live)).sum();
        self.reserve = 0..self.cursor;
        self.refill();
    }

    /// Takes a block out of the reserve when nothing else has come back.
    fn refill(&mut self) {
        while self.returned.is_empty() && self.reserved > 0 {
            self.load_reserve();
        }
        if self.reserved == 0 {
            self.reserve = 0..0;
        }
    }

    /// Takes the next block out of the reserve.
    fn load_reserve(&mut self) {
        let at = self.blocks.partition_point(|block| block.end() <= self.reserve.start);
        let block = &self.blocks[at];
        // The newest block may have grown since.
        let numbers = block.first..block.end().min(self.reserve.end);
        let before = self.returned.len();
        self.returned.extend(numbers.filter(|number| !block.is_settled(*number)));
        self.reserved -= (self.returned.len() - before) as u64;
        self.reserve.start = block.end();
    }

    /// Whether a message is there and not settled.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.block(number).is_some_and(|block| !block.is_settled(number))
    }

    /// After a recovery: hands out a message that is ready, unless it stands too far behind others.
    pub(crate) fn take_out(&mut self, number: u64) -> bool {
        const FAR: u64 = 1 << 16;
        while self.reserved > 0 && (number >= self.cursor || self.reserve.contains(&number)) {
            if self.returned.len() as u64 >= FAR {
                return false;
            }
            self.load_reserve();
        }
        if number >= self.cursor {
            if number - self.cursor >= FAR || number >= self.next {
                return false;
            }
            self.returned.extend(self.cursor..=number);
            self.cursor = number + 1;
        }
        let is_taken = self.returned.remove(&number);
        if is_taken && let Some(block) = self.block_mut(number) {
            block.unacked += 1;
            // It was handed out before, and so were those in front of it.
            self.handed_out = self.handed_out.max(number + 1);
            self.again_below = self.again_below.max(number + 1);
        }
        self.refill();
        is_taken
    }

    /// Number of the first ready message.
    pub(crate) fn head(&self) -> Option<u64> {
        match self.returned.first() {
            Some(number) => Some(*number),
            None if self.cursor < self.next => Some(self.cursor),
            None => None,
        }
    }

    /// Fills `run`, which is empty, with ready messages from the head, at most `count`; stops before a block that is not in memory
    /// and before a message that expired before `now_ms` (B139).
    pub(crate) fn peek<'a, const N: usize>(
        &'a self,
        count: usize,
        now_ms: u64,
        run: &mut smallvec::SmallVec<[Delivery<'a>; N]>,
    ) {
        self.look(count, now_ms, run);
        let again = run.iter_mut().take_while(|delivery| delivery.seq.number() < self.again_below);
        again.for_each(|delivery| delivery.redelivered = true);
    }

    fn look<'a, const N: usize>(
        &'a self,
        count: usize,
        now_ms: u64,
        run: &mut smallvec::SmallVec<[Delivery<'a>; N]>,
    ) {
        let mut current: Option<&Block> = None;
        for number in self.returned.iter().copied().take(count) {
            let block = match current {
                Some(block) if (block.first..block.end()).contains(&number) => block,
                _ => match self.block(number) {
                    Some(block) => block,
                    None => return,
                },
            };
            current = Some(block);
            if block.peek(self.seq(number), 1, now_ms, run) == 0 {
                return;
            }
        }
        let (mut number, end) = if self.reserved == 0 { (self.cursor, self.next) } else { (0, 0) };
        while number < end && run.len() < count {
            let Some(block) = self.block(number) else { return };
            let in_block = (block.end() - number).min((count - run.len()) as u64);
            if block.peek(self.seq(number), in_block, now_ms, run) < in_block {
                return;
            }
            number += in_block;
        }
    }

    /// The body of a message, to be kept without a copy of it, where that is possible.
    #[cold]
    pub(crate) fn large_body(&self, seq: MessageSeq) -> Option<LargeBody> {
        self.block(seq.number())?.large_body(seq.number())
    }

    /// The first ready message, if it is in memory and not expired.
    pub(crate) fn peek_one(&self, now_ms: u64) -> Option<Delivery<'_>> {
        let mut run: smallvec::SmallVec<[Delivery<'_>; 1]> = smallvec::SmallVec::new();
        self.peek(1, now_ms, &mut run);
        run.first().copied()
    }

    /// Number of the ready message behind `nth` others of this level, in the order in which they go out.
    pub(crate) fn ready_at(&self, nth: u64) -> Option<u64> {
        let returned = self.returned.len() as u64;
        if nth < returned {
            return self.returned.iter().nth(usize::try_from(nth).ok()?).copied();
        }
        let mut left = nth - returned;
        if left >= self.reserved {
            return Some(self.cursor + (left - self.reserved)).filter(|number| *number < self.next);
        }
        let in_reserve = |block: &&Block| {
            block.first < self.reserve.end && self.reserve.start < block.end() && block.live > 0
        };
        for block in self.blocks.iter().filter(in_reserve) {
            if block.live == block.count && left >= u64::from(block.live) {
                left -= u64::from(block.live);
                continue;
            }
            let numbers = block.first.max(self.reserve.start)..block.end().min(self.reserve.end);
            for number in numbers.filter(|number| !block.is_settled(*number)) {
                if left == 0 {
                    return Some(number);
                }
                left -= 1;
            }
        }
        None
    }

    /// Whether the first ready message is in memory.
    pub(crate) fn is_head_here(&self) -> bool {
        self.head().and_then(|number| self.block(number)).is_some_and(Block::is_resident)
    }

    /// Takes `count` ready messages off the head; returns the bytes of their bodies.
    pub(crate) fn take(&mut self, count: usize) -> u64 {
        let (mut left, mut body_bytes) = (count as u64, 0);
        while left > 0 && !self.returned.is_empty() {
            let number = self.returned.pop_first().expect("not empty");
            self.handed_out = self.handed_out.max(number + 1);
            if let Some(block) = self.block_mut(number) {
                block.unacked += 1;
                body_bytes += block.taken_bytes(number..number + 1);
            }
            left -= 1;
            self.refill();
        }
        while left > 0 && self.cursor < self.next {
            let Some(at) = self.position(self.cursor) else {
                self.cursor += 1;
                continue;
            };
            let block = &mut self.blocks[at];
            let end = block.end().min(self.cursor + left);
            left -= end - self.cursor;
            block.unacked += (end - self.cursor) as u32;
            body_bytes += block.taken_bytes(self.cursor..end);
            self.cursor = end;
            self.handed_out = self.handed_out.max(end);
        }
        body_bytes
    }

    /// Whether a number is handed out and not settled.
    pub(crate) fn is_unacked(&self, number: u64) -> bool {
        number < self.cursor
            && !self.returned.contains(&number)
            && !self.reserve.contains(&number)
            && self.block(number).is_some_and(|block| !block.is_settled(number))
    }

    /// Puts a handed-out message back in its place.
    pub(crate) fn put_back(&mut self, number: u64) {
        if let Some(block) = self.block_mut(number) {
            block.unacked -= 1;
            block.mark_redelivered(number);
        }
        self.returned.insert(number);
    }

    /// Settles handed-out messages for good: `count` numbers from `first`. Numbers that are not handed out are passed
    /// over. `each` hears of all that are settled; freed segments are counted in `freed`.
    pub(crate) fn settle_run(
        &mut self,
        first: u64,
        count: u64,
        freed: &mut Freed,
        mut each: impl FnMut(SettledMessages),
    ) {
        let end = first.saturating_add(count).min(self.cursor);
        let mut number = first;
        while number < end {
            let Some(at) = self.position(number) else {
                // Between blocks: go to the next one.
                match self.blocks_from(number).next() {
                    Some(block) => number = block.first,
                    None => return,
                }
                continue;
            };
            let block = &mut self.blocks[at];
            let (stop, live_bytes) = (block.end().min(end), block.live_bytes);
            let all_are_out = self.returned.is_empty() && self.reserve.is_empty();
            let in_order = if all_are_out { block.settle_in_order(number..stop) } else { None };
            if let Some(body_bytes) = in_order {
                let count = (stop - number) as u32;
                block.unacked -= count;
                let (persistent, begins_block) = (block.persistent > 0, number == block.first);
                let body_bytes = body_bytes + block.take_away_bytes(number);
                each(SettledMessages { first: number, count, body_bytes, persistent, begins_block });
            } else {
                for number in number..stop {
                    let is_back = !self.returned.is_empty() && self.returned.contains(&number);
                    if is_back || self.reserve.contains(&number) || !block.settle(number) {
                        continue;
                    }
                    block.unacked -= 1;
                    if let Some((body, bytes)) = block.take_body(number) {
                        freed.bytes += bytes;
                        freed.bodies.push(body);
                    }
                    each(SettledMessages {
                        first: number,
                        count: 1,
                        body_bytes: block.body_bytes(number) + block.take_away_bytes(number),
                        persistent: block.is_persistent(number),
                        begins_block: number == block.first,
                    });
                }
            }
            number = stop;
            freed.note_settled(block.place(), live_bytes - block.live_bytes);
            if block.live == 0 && block.end() <= self.cursor {
                self.free_block(at, freed);
            }
        }
    }

    /// A block holds nothing any more: the newest one begins anew, others go.
    fn free_block(&mut self, at: usize, freed: &mut Freed) {
        // A block being written is kept until the answer comes, so that its place is known and can be freed.
        if self.blocks[at].writing || self.blocks[at].reading {
            return;
        }
        if at + 1 == self.blocks.len() && self.blocks[at].place().is_none() {
            freed.bytes += self.blocks[at].memory_bytes();
            self.resident.remove(&self.blocks[at].first);
            self.blocks[at].begin_anew(self.next);
            return;
        }
        let block = self.blocks.remove(at).expect("it was found");
        self.resident.remove(&block.first);
        freed.bytes += block.memory_bytes();
        freed.places.extend(block.place());
    }

    /// Frees a fully settled block after its write or read ended.
    pub(crate) fn free_if_dead(&mut self, number: u64, freed: &mut Freed) {
        if let Some(at) = self.position(number)
            && self.blocks[at].live == 0
            && self.blocks[at].end() <= self.cursor
        {
            self.free_block(at, freed);
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.blocks.iter().map(Block::heap_bytes).sum::<usize>()
            + self.blocks.capacity() * size_of::<Block>()
            + self.returned.len() * 16
    }
}
