//! The effects that the machine asks of the referee, who looks at everything that leaves the queue. Knows nothing of what is done to the
//! queue.

use std::ops::Range;

use super::{DiskJob, Place, Referee, id_of};
use crate::Gone;
use crate::record::{BlockPlace, RecordKind, SettledRun};
use crate::store::Holes;
use crate::{
    BlockBytes, BlockToken, ConsumerId, DeadReason, Delivery, Effects, GetToken, HeldBody, LogRange,
    LoggedBlock, OwnBytes, SharedBody,
};
use message::MessageView;

impl Effects for Referee {
    fn deliver(&mut self, consumer: ConsumerId, run: &[Delivery<'_>]) -> usize {
        let token = consumer.token;
        assert!(self.may_be_served(token), "consumer {token} cannot take deliveries");
        let priority = self.takers[&token].priority;
        let better = self
            .takers
            .keys()
            .find(|other| self.takers[other].priority > priority && self.may_be_served(**other));
        assert_eq!(better, None, "a consumer of higher priority comes first");
        let taken = run.len().min(self.room);
        self.room -= taken;
        for delivery in &run[..taken] {
            if self.passes_through(token, delivery) {
                self.incoming.pop_front();
                continue;
            }
            self.take_incoming();
            let ack = self.takers[&token].ack;
            self.handed_out(delivery, Some(token), ack);
            let taker = self.takers.get_mut(&token).expect("it is known");
            taker.held += u32::from(ack);
            assert!(taker.prefetch == 0 || taker.held <= taker.prefetch, "prefetch is kept");
        }
        let taker = self.takers.get_mut(&token).expect("it is known");
        taker.paused |= taken < run.len();
        taken
    }

    fn got(&mut self, _: GetToken, message: Option<(Delivery<'_>, u64)>) {
        self.gets -= 1;
        self.take_incoming();
        match message {
            Some((delivery, left)) => {
                self.handed_out(&delivery, None, true);
                assert_eq!(left, self.ready().count() as u64);
            }
            None => assert_eq!(self.ready().count(), 0, "a get finds nothing only in an empty queue"),
        }
    }

    fn consumer_cancelled(&mut self, _: ConsumerId) {}

    fn append(&mut self, kind: RecordKind, write: &mut dyn FnMut(&mut Vec<u8>)) -> Range<u64> {
        let mut payload = Vec::new();
        write(&mut payload);
        let start = self.log_end + self.log_gap;
        self.log_end = start + payload.len() as u64 + 1;
        self.note_record(kind, &payload);
        self.archive.insert(start, (kind, payload.clone()));
        self.log.push_back((start..self.log_end, kind, payload));
        start..self.log_end
    }

    fn log_body(&mut self, held: &HeldBody) {
        self.bodies_logged.insert(held.body.id());
    }

    fn dead_letter(
        &mut self,
        reason: DeadReason,
        removal: Option<SettledRun>,
        message: MessageView<'_>,
        _: &[u8],
        shared: Option<HeldBody>,
    ) {
        let is_known = self.bodies.contains_key(&u64::from(id_of(message.body)));
        assert_eq!(shared.map(|held| held.bytes.to_vec()), is_known.then(|| message.body.to_vec()));
        assert!(self.config.dead_letters);
        let id = id_of(message.body);
        if reason == DeadReason::MaxLength || self.incoming.iter().any(|kept| kept.id == id) {
            self.take_incoming();
        }
        if self.refused.contains(&id) {
            assert_eq!((reason, removal), (DeadReason::MaxLength, None));
            return;
        }
        let (head, now_ms, durable) = (self.head(), self.now_ms, self.config.durable);
        match reason {
            DeadReason::Expired => assert_eq!(head, Some(id), "messages expire at the head"),
            DeadReason::MaxLength => {
                assert_eq!(head, Some(id), "the limit drops from the head");
                assert!(self.over_limit(0, 0), "nothing is dropped below the limit");
            }
            DeadReason::Rejected | DeadReason::DeliveryLimit | DeadReason::Due => {}
        }
        let kept = self.find(id);
        match reason {
            DeadReason::Expired => assert!(kept.expiry_ms.is_some_and(|expiry| expiry <= now_ms)),
            DeadReason::MaxLength => {}
            DeadReason::Rejected => assert!(matches!(kept.place, Place::Rejected(_))),
            DeadReason::DeliveryLimit | DeadReason::Due => unreachable!("the queue serves consumers"),
        }
        assert_eq!(removal.is_some(), durable && kept.persistent);
        kept.place = if removal.is_some() { Place::Dying } else { Place::Gone };
        if let Some(run) = removal {
            assert_eq!((run.count, u64::from(run.body_bytes)), (1, message.body.len() as u64));
            assert!(self.dying.insert(run.first, id).is_none(), "a message dies once");
            self.removals.push(run);
        }
    }

    fn write_block(&mut self, token: BlockToken, bytes: BlockBytes) {
        self.jobs.push_back(DiskJob::Write(token, bytes));
    }

    fn read_block(&mut self, token: BlockToken, own: Option<OwnBytes>, bodies: Vec<SharedBody>) {
        self.left_in_log[1] += u64::from(matches!(own, Some(OwnBytes::Log(_))));
        self.jobs.push_back(DiskJob::Read(token, own, bodies));
    }

    fn let_body_go(&mut self, body: &SharedBody) {
        assert!(self.bodies.contains_key(&body.id()));
    }

    fn keep_in_log(&mut self, token: BlockToken, range: LogRange) {
        self.left_in_log[0] += 1;
        self.jobs.push_back(DiskJob::Keep(token, range.end()));
    }

    fn move_logged(&mut self, token: BlockToken, block: LoggedBlock, holes: Holes) {
        self.left_in_log[2] += 1;
        self.jobs.push_back(DiskJob::Move(token, block, holes));
    }

    fn seal_segment(&mut self, segment: u64) {
        self.jobs.push_back(DiskJob::Seal(segment));
    }

    fn move_block(&mut self, token: BlockToken, place: BlockPlace, holes: Holes) {
        self.left_in_log[3] += 1;
        self.jobs.push_back(DiskJob::Rewrite(token, place, holes));
    }

    fn sync_blocks(&mut self) {
        self.jobs.push_back(DiskJob::Sync);
    }

    fn delete_segment(&mut self, segment: u64) {
        self.jobs.push_back(DiskJob::Seal(segment));
        self.jobs.push_back(DiskJob::Delete(segment, self.log_end));
    }

    fn wake_at(&mut self, _: u64) {}

    fn gone(&mut self, _: Gone) {}

    fn checkpointed(&mut self) {
        self.checkpoints_open = 0;
    }
}
