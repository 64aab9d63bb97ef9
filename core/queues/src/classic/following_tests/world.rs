//! The world of one member: its log, its disk, and what it hands out. Knows nothing of the other members.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::{body_of, id_of};
use crate::record::{self, BlockPlace, RecordKind, SettledRun};
use crate::store::Holes;
use crate::{
    BlockBytes, BlockToken, BodyBuffer, ConsumerId, DeadReason, Delivery, DiskAnswer, Effects, GetToken,
    Gone, HeldBody, LogRange, LoggedBlock, MessageSeq, OwnBytes, SharedBody,
};
use message::MessageView;

/// Requests to the disk in order of their coming.
enum Job {
    Write(BlockToken, BlockBytes),
    Read(BlockToken, Option<OwnBytes>, Vec<SharedBody>),
    Keep(BlockToken),
    Move(BlockToken, LoggedBlock, Holes),
    Rewrite(BlockToken, BlockPlace, Holes),
    Sync,
    Seal(u64),
    Delete(u64),
}

/// Results of the disk, to be told to the machine.
pub(super) enum Done {
    Written(BlockToken, Option<BlockPlace>),
    Logged(BlockToken),
    Read(BlockToken, Option<Vec<u8>>, Vec<HeldBody>),
    Synced,
    Nothing,
}

impl Done {
    pub(super) fn answer(&mut self) -> Option<DiskAnswer<'_>> {
        Some(match self {
            Done::Written(token, place) => DiskAnswer::Written(*token, *place),
            Done::Logged(token) => DiskAnswer::Logged(*token, true),
            Done::Read(token, bytes, bodies) => DiskAnswer::Read(*token, bytes.take(), bodies),
            Done::Synced => DiskAnswer::Synced(true),
            Done::Nothing => return None,
        })
    }
}

#[derive(Default)]
pub(super) struct World {
    /// All records that were ever logged and are not cut off.
    pub(super) log: BTreeMap<u64, (RecordKind, Vec<u8>)>,
    pub(super) log_end: u64,
    /// A crash takes nothing before this.
    pub(super) durable: u64,
    /// Records for members, while this one leads.
    pub(super) outgoing: Vec<(RecordKind, Vec<u8>)>,
    /// Bodies of records that come next.
    bodies: Vec<HeldBody>,
    pub(super) leads: bool,
    jobs: VecDeque<Job>,
    disk: BTreeMap<(u64, u64), (BlockBytes, bool)>,
    next_offset: u64,
    segment: u64,
    /// Deaths whose letters are on their way.
    pub(super) removals: Vec<SettledRun>,
    /// Messages that were handed out and are not settled.
    pub(super) out: Vec<MessageSeq>,
    pub(super) reads: u64,
    /// All that was handed out, by this member and by leaders before it.
    pub(super) ever_out: BTreeSet<MessageSeq>,
    /// The handed out messages that it knows of: they go out with the mark of a delivery again, should this member lead.
    pub(super) told_out: BTreeSet<MessageSeq>,
    pub(super) seen_again: u64,
    /// The mark of each message that was handed out.
    pub(super) redelivered: Vec<bool>,
}

impl World {
    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Requests die with the process.
    pub(super) fn restart(&mut self) {
        self.jobs.clear();
        self.outgoing.clear();
        self.bodies.clear();
        self.removals.clear();
        self.out.clear();
        self.told_out.clear();
        self.leads = false;
        self.disk.retain(|_, (_, synced)| *synced);
    }

    pub(super) fn keep_segments(&mut self, needed: &[u64]) {
        self.disk.retain(|(segment, _), _| needed.contains(segment));
    }

    fn handed_out(&mut self, delivery: &Delivery<'_>) {
        assert!(self.leads, "only a leader serves");
        assert_eq!(delivery.message.body, body_of(id_of(delivery.message.body)), "a body is as it was sent");
        if delivery.seq != MessageSeq(0) {
            let is_again = self.told_out.contains(&delivery.seq);
            assert!(delivery.redelivered || !is_again, "it was handed out before");
            self.seen_again += u64::from(is_again);
            self.ever_out.insert(delivery.seq);
            self.redelivered.push(delivery.redelivered);
            assert!(!self.out.contains(&delivery.seq), "a message is handed out once");
            self.out.push(delivery.seq);
        }
    }

    /// Does what was asked for first; fails at that when told so.
    pub(super) fn disk_step(&mut self, fails: bool) -> Done {
        match self.jobs.pop_front() {
            None => Done::Nothing,
            Some(Job::Write(token, _) | Job::Move(token, ..) | Job::Rewrite(token, ..)) if fails => {
                Done::Written(token, None)
            }
            Some(Job::Write(token, bytes)) => self.write(token, &bytes),
            Some(Job::Move(token, block, holes)) => {
                let bytes = holes.punch(self.fetch(&block)).expect("it is a block");
                self.write(token, &bytes)
            }
            Some(Job::Rewrite(token, place, holes)) => {
                let block = &self.disk[&(place.segment, place.offset)].0;
                let bytes = holes.punch(block.to_vec()).expect("it is a block");
                self.write(token, &bytes)
            }
            Some(Job::Keep(token)) => {
                self.durable = self.log_end;
                Done::Logged(token)
            }
            Some(Job::Read(token, own, bodies)) => {
                self.reads += 1;
                let bytes = own.map(|own| self.read(&own));
                Done::Read(token, bytes, bodies.into_iter().map(|body| held(&body)).collect())
            }
            Some(Job::Sync) => {
                self.disk.values_mut().for_each(|(_, synced)| *synced = true);
                Done::Synced
            }
            Some(Job::Seal(segment)) => {
                self.segment += u64::from(self.segment == segment);
                Done::Nothing
            }
            Some(Job::Delete(segment)) => {
                self.durable = self.log_end;
                self.disk.retain(|(of, _), _| *of != segment);
                Done::Nothing
            }
        }
    }

    fn write(&mut self, token: BlockToken, block: &[u8]) -> Done {
        let (segment, offset) = (self.segment, self.next_offset);
        self.next_offset += 1;
        self.segment += u64::from(offset.is_multiple_of(4));
        let bytes = BlockBytes::from(record::pack_block(block).into_owned());
        let place = BlockPlace { segment, offset, bytes: bytes.len() as u32 };
        self.disk.insert((segment, offset), (bytes, false));
        Done::Written(token, Some(place))
    }

    fn read(&self, own: &OwnBytes) -> Vec<u8> {
        match own {
            OwnBytes::Segment(at) => {
                let block = &self.disk.get(&(at.segment, at.offset)).expect("what is read is there").0;
                record::unpack_block(block).expect("it is a block").into_owned()
            }
            OwnBytes::Log(block) => self.fetch(block),
        }
    }

    fn fetch(&self, block: &LoggedBlock) -> Vec<u8> {
        let (mut bytes, mut payloads) = (Vec::new(), Vec::new());
        for (kind, payload) in self.log.range(block.range.position..block.range.end()).map(|(_, it)| it) {
            if kind.is_enqueue() {
                payloads.push((*kind, bytes.len()..bytes.len() + payload.len()));
                bytes.extend_from_slice(payload);
            }
        }
        block.assemble(bytes, payloads).expect("what is read is there")
    }
}

/// Shared bodies are those of their messages: the number is the same.
pub(super) fn held(body: &SharedBody) -> HeldBody {
    let bytes = body_of(body.id() as u32);
    assert_eq!(bytes.len(), body.bytes() as usize);
    HeldBody { body: body.clone(), bytes: Arc::new(BodyBuffer::from(bytes)) }
}

impl Effects for World {
    fn deliver(&mut self, _: ConsumerId, run: &[Delivery<'_>]) -> usize {
        run.iter().for_each(|delivery| self.handed_out(delivery));
        run.len()
    }

    fn got(&mut self, _: GetToken, message: Option<(Delivery<'_>, u64)>) {
        message.iter().for_each(|(delivery, _)| self.handed_out(delivery));
    }

    fn consumer_cancelled(&mut self, _: ConsumerId) {}

    fn append(&mut self, kind: RecordKind, write: &mut dyn FnMut(&mut Vec<u8>)) -> Range<u64> {
        let mut payload = Vec::new();
        write(&mut payload);
        let start = self.log_end;
        self.log_end = start + payload.len() as u64 + 1;
        self.log.insert(start, (kind, payload.clone()));
        if self.leads && kind != RecordKind::State {
            let whole = record::whole_record(kind, &payload, &self.bodies);
            self.outgoing.push(whole.expect("the bodies came before"));
        }
        start..self.log_end
    }

    fn log_body(&mut self, held: &HeldBody) {
        self.bodies.push(held.clone());
    }

    fn dead_letter(
        &mut self,
        _: DeadReason,
        removal: Option<SettledRun>,
        message: MessageView<'_>,
        _: &[u8],
        _: Option<HeldBody>,
    ) {
        assert!(self.leads, "nothing dies while the queue follows");
        assert_eq!(message.body, body_of(id_of(message.body)));
        self.removals.extend(removal);
    }

    fn write_block(&mut self, token: BlockToken, bytes: BlockBytes) {
        self.jobs.push_back(Job::Write(token, bytes));
    }

    fn read_block(&mut self, token: BlockToken, own: Option<OwnBytes>, bodies: Vec<SharedBody>) {
        self.jobs.push_back(Job::Read(token, own, bodies));
    }

    fn let_body_go(&mut self, _: &SharedBody) {}

    fn keep_in_log(&mut self, token: BlockToken, _: LogRange) {
        self.jobs.push_back(Job::Keep(token));
    }

    fn move_logged(&mut self, token: BlockToken, block: LoggedBlock, holes: Holes) {
        self.jobs.push_back(Job::Move(token, block, holes));
    }

    fn seal_segment(&mut self, segment: u64) {
        self.jobs.push_back(Job::Seal(segment));
    }

    fn move_block(&mut self, token: BlockToken, place: BlockPlace, holes: Holes) {
        self.jobs.push_back(Job::Rewrite(token, place, holes));
    }

    fn sync_blocks(&mut self) {
        self.jobs.push_back(Job::Sync);
    }

    fn delete_segment(&mut self, segment: u64) {
        self.jobs.push_back(Job::Seal(segment));
        self.jobs.push_back(Job::Delete(segment));
    }

    fn wake_at(&mut self, _: u64) {}

    fn gone(&mut self, _: Gone) {}

    fn checkpointed(&mut self) {}
}
