//! A member does what its leader has logged.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use bytes::{BufMut, Bytes};
use queues::{Classic, LiveSet};

use crate::cell::Queue;
use crate::cluster::far::Far;
use crate::cluster::far::replicas::{self as frames, Part};
use crate::data::batch::BatchConfirms;
use crate::data::confirms::{ConfirmRange, ConfirmSink};
use crate::effects::CellEffects;
use stdx::QueueId;

/// Tells the leader that a frame is on this node's disk.
struct Stored {
    far: Weak<Far>,
    queue: QueueId,
    epoch: u32,
    number: u64,
}

impl ConfirmSink for Stored {
    fn confirmed(&self, range: ConfirmRange) {
        // After a failure of the log nobody is told anything: the leader goes on without this node.
        if let Some(far) = self.far.upgrade().filter(|_| range.rejected.is_empty()) {
            far.send_replica(self.queue, 0, frames::STORED, |out| {
                out.put_u32(self.epoch);
                out.put_u64(self.number);
            });
        }
    }
}

impl Queue {
    /// Whether a frame of that epoch is of the leader that this node knows.
    fn is_of_leader(&self, epoch: u32) -> bool {
        let Some(replica) = self.replica.get() else { return false };
        let known = replica.known();
        known.epoch == epoch && known.leader != replica.own && known.has(replica.own)
    }

    /// The leader may have told what lives before this node knew that it leads.
    pub(super) fn tell_leader(self: &Arc<Self>, known: &metadata::Replicas) {
        if let Some(far) = self.far_of(known.leader) {
            far.send_replica(self.id, 0, frames::HERE, |out| out.put_u32(known.epoch));
        }
    }

    /// The leader says what lives.
    pub(super) fn follow_live(
        self: &Arc<Self>,
        classic: &mut Classic,
        (epoch, live): (u32, Bytes),
        far: &Arc<Far>,
        fx: &mut CellEffects<'_>,
    ) {
        if !self.is_of_leader(epoch) {
            return;
        }
        let live = match LiveSet::decode(&live) {
            Ok(live) => live,
            Err(error) => return self.refuse_leader(&format!("{error:?}")),
        };
        let dropped = classic.keep_only(&live, fx);
        if let Some(replica) = self.replica.get() {
            // The leader says it anew when this node has what that has.
            replica.seen.lock().clear();
        }
        if dropped > 0 {
            tracing::info!(queue = %String::from_utf8_lossy(self.name()), dropped, "messages that the leader does not have are gone here, too");
        }
        let mut cursor = Vec::new();
        classic.newest().encode(&mut cursor);
        far.send_replica(self.id, 0, frames::HAS, |out| {
            out.put_u32(epoch);
            out.extend_from_slice(&cursor);
        });
    }

    /// The leader has logged something.
    pub(super) fn follow_records(
        self: &Arc<Self>,
        classic: &mut Classic,
        (epoch, number, records): (u32, u64, Bytes),
        far: &Arc<Far>,
        now_ms: u64,
        fx: &mut CellEffects<'_>,
    ) {
        if !self.is_of_leader(epoch) {
            return;
        }
        let Some(replica) = self.replica.get() else { return };
        let mut position = 0;
        for record in frames::records(&records) {
            let (kind, payload) = match record {
                Some(Part::Record(kind, payload)) => (kind, payload),
                Some(Part::Seen(id, end)) => {
                    replica.seen.lock().note(id, end);
                    continue;
                }
                Some(Part::HandedOut(below)) => match classic.follow_handed_out(below) {
                    Ok(()) => continue,
                    Err(error) => return self.refuse_leader(&error.to_string()),
                },
                None => return self.refuse_leader("a record cannot be read"),
            };
            match classic.follow(kind, payload, now_ms, fx) {
                // Nobody waits for settlements to be durable, on one node neither.
                Ok(at) if kind.is_enqueue() => position = position.max(at),
                Ok(_) => {}
                Err(error) => return self.refuse_leader(&error.to_string()),
            }
        }
        replica.appended.fetch_max(position, Ordering::AcqRel);
        let sink: Arc<dyn ConfirmSink> =
            Arc::new(Stored { far: Arc::downgrade(far), queue: self.id, epoch, number });
        let confirms = Arc::new(BatchConfirms::of_letters(&sink));
        if confirms.answered(position) {
            self.services().confirm_when_durable(&confirms);
        }
    }

    /// Without an answer the leader goes on without this node.
    fn refuse_leader(&self, why: &str) {
        let queue = String::from_utf8_lossy(self.name());
        tracing::error!(%queue, why, "this node does not follow the leader of the queue");
    }
}
