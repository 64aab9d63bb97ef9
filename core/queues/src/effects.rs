//! Effects that a queue machine asks of the world.

use std::ops::Range;

use crate::body::{BlockBytes, HeldBody, LargeBody, SharedBody};
use crate::logged::{LogRange, LoggedBlock, OwnBytes};
use crate::machine::Gone;
use crate::record::{BlockPlace, RecordKind, SettledRun};
use crate::store::Holes;
use crate::traffic::{ConsumerId, CreditNews, Delivery};
use message::MessageView;

/// Names a block of messages of one queue in requests to and answers from storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockToken(pub u64);

/// Names a basic.get until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GetToken(pub u64);

/// Why a message is dead-lettered (B150).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadReason {
    /// Rejected without requeue.
    Rejected,
    /// Its time to live ran out.
    Expired,
    /// Dropped, or refused, by a length limit.
    MaxLength,
    /// It failed more often than the queue lets it (B152).
    DeliveryLimit,
    /// Not dead at all: its time has come to leave a [`crate::Delayed`] queue.
    Due,
}

/// The effects that a machine may ask for. Called while the machine runs; implementations must not call back into it.
pub trait Effects {
    /// Offers a run to a consumer; returns how many it took, from the front. Fewer than offered means the consumer
    /// cannot take more until it is resumed.
    fn deliver(&mut self, consumer: ConsumerId, run: &[Delivery<'_>]) -> usize;

    /// As [`Effects::deliver`], of one message with a body of [`crate::LARGE_BODY_BYTES`] or more, which may be kept instead of being copied.
    fn deliver_large(&mut self, consumer: ConsumerId, delivery: &Delivery<'_>, _body: LargeBody) -> usize {
        self.deliver(consumer, std::slice::from_ref(delivery))
    }

    /// News of a consumer's credit; follows the deliveries that were made for it.
    fn credit_news(&mut self, _consumer: ConsumerId, _news: CreditNews) {}

    /// Answers a get: the message and how many are ready after it, or nothing.
    fn got(&mut self, get: GetToken, message: Option<(Delivery<'_>, u64)>);

    /// The consumer is cancelled by the queue, which is deleted: tell it (B119).
    fn consumer_cancelled(&mut self, consumer: ConsumerId);

    /// Appends a record about this queue to the durable log; `write` adds its bytes to the buffer handed to it.
    /// Returns where in the log the record lies: nothing before its end is lost once that position is durable. Both are [`u64::MAX`]
    /// when nothing was appended, because the log has failed.
    fn append(&mut self, kind: RecordKind, write: &mut dyn FnMut(&mut Vec<u8>)) -> Range<u64>;

    /// As [`Effects::append`], of `head` and what follows it, which may be kept instead of being copied.
    fn append_lent(&mut self, kind: RecordKind, head: &[u8], tail: BlockBytes) -> Range<u64> {
        self.append(kind, &mut |out| {
            out.extend_from_slice(head);
            out.extend_from_slice(&tail);
        })
    }

    /// The next record refers to this body: later records are durable only after the body is.
    fn log_body(&mut self, held: &HeldBody);

    /// A message leaves the queue dead. A `removal` is logged only when the driver gives it back with
    /// [`crate::Machine::letters_taken`], after the queues the letter goes to have logged it: a crash in between brings the
    /// message back rather than lose its letter. `None`: nothing of it is logged. `shared` is the body of `message`, when it is shared.
    fn dead_letter(
        &mut self,
        reason: DeadReason,
        removal: Option<SettledRun>,
        message: MessageView<'_>,
        annotations: &[u8],
        shared: Option<HeldBody>,
    );

    /// Whether the disk has room for writes that only save memory. Writes that make room elsewhere happen whatever this says.
    fn has_room(&self) -> bool {
        true
    }

    /// Writes a block to a segment of the queue; answered by [`crate::DiskAnswer::Written`].
    fn write_block(&mut self, token: BlockToken, bytes: BlockBytes);

    /// Reads a block back, unless only bodies are missing, and these bodies; answered by [`crate::DiskAnswer::Read`] when
    /// all are there.
    fn read_block(&mut self, token: BlockToken, own: Option<OwnBytes>, bodies: Vec<SharedBody>);

    /// The queue lets go of the bytes of a body, and may ask for them again.
    fn let_body_go(&mut self, body: &SharedBody);

    /// From now on [`crate::Store::log_ranges`] has this range, and its records are not to go from the disk, whatever
    /// [`crate::Machine::oldest_log_position`] says. Answered by [`crate::DiskAnswer::Logged`] when it is durable.
    fn keep_in_log(&mut self, token: BlockToken, range: LogRange);

    /// Writes a block that lies in the log to a segment of the queue, after [`Holes::punch`]; answered by
    /// [`crate::DiskAnswer::Written`].
    fn move_logged(&mut self, token: BlockToken, block: LoggedBlock, holes: Holes);

    /// No block asked for from now on may go to this segment.
    fn seal_segment(&mut self, segment: u64);

    /// Writes a block anew that lies in a sealed segment, after [`Holes::punch`], to another segment of the queue; answered by
    /// [`crate::DiskAnswer::Written`].
    fn move_block(&mut self, token: BlockToken, place: BlockPlace, holes: Holes);

    /// Makes all written blocks durable; answered by [`crate::DiskAnswer::Synced`].
    fn sync_blocks(&mut self);

    /// A segment holds nothing of this queue any more; it may go once everything appended so far is durable. No write
    /// asked for before this is meant for it, and none asked for from now on may go to it.
    fn delete_segment(&mut self, segment: u64);

    /// Wants [`crate::Machine::tick`] at this time (milliseconds since the epoch).
    fn wake_at(&mut self, time_ms: u64);

    /// The queue's own rules delete it.
    fn gone(&mut self, why: Gone);

    /// A checkpoint is over. [`crate::Machine::oldest_log_position`] tells which part of the log is still needed.
    fn checkpointed(&mut self);
}
