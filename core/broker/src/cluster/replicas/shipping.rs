//! Records of the leader on their way to the members, and messages that members lack, out of the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{BufMut, Bytes, BytesMut};
use queues::{Classic, Cursor, Fill, RecordKind};

use super::leading::Shipment;
use super::role::{Replica, ReplicaEvent, Waiting};
use crate::cell::machine::AnyMachine;
use crate::cell::{Event, Queue};
use crate::cluster::far::{Far, replicas as frames};
use crate::data::batch::{BatchConfirms, Handover, HandoverId};
use crate::effects::CellEffects;

/// A member that has not said what it has is asked again after so long.
pub(super) const ASK_AGAIN_MS: u64 = 1_000;
/// One portion of a fill has about so many bytes.
const PORTION_BYTES: usize = 512 << 10;

/// Records that a turn has logged, for the members.
#[derive(Default)]
pub(crate) struct Shipped {
    records: Option<Box<Records>>,
    /// Whether the queue leads, and its records go to members.
    is_on: bool,
}

#[derive(Default)]
struct Records {
    whole: BytesMut,
    /// Records that bring no messages.
    rest: BytesMut,
}

impl Shipped {
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether what is logged from here on goes to members.
    pub(super) fn turn_on(&mut self, is_on: bool) {
        self.is_on = is_on;
    }

    /// A handover was taken in this turn.
    pub(crate) fn add_seen(&mut self, id: HandoverId) {
        frames::put_seen(&mut self.records.get_or_insert_default().whole, id, id.number + 1);
    }

    /// Consumers have had messages.
    fn add_handed_out(&mut self, classic: &mut Classic) {
        classic.take_handed_out(|below| {
            let records = self.records.get_or_insert_default();
            frames::put_handed_out(&mut records.whole, below);
            frames::put_handed_out(&mut records.rest, below);
        });
    }

    /// Adds a record of the queue.
    pub(crate) fn add(&mut self, kind: RecordKind, payload: &[u8]) {
        if kind == RecordKind::State {
            return;
        }
        let records = self.records.get_or_insert_default();
        frames::put_record(&mut records.whole, kind, payload);
        if !kind.is_enqueue() {
            frames::put_record(&mut records.rest, kind, payload);
        }
    }
}

impl Replica {
    /// A batch is confirmed when the members have what this turn logs; `None` when it need not wait for them.
    pub(crate) fn wait(&self, position: u64, confirms: &Arc<BatchConfirms>) -> Option<()> {
        let mut held = self.leading.lock();
        let leading = held.as_mut().filter(|_| position > 0)?;
        self.appended.fetch_max(position, Ordering::AcqRel);
        leading.wait((position, confirms.clone()));
        Some(())
    }

    /// As [`Replica::wait`], for messages that were taken before: of this turn, which logs something, or of earlier ones.
    fn wait_again(&self, confirms: &Arc<BatchConfirms>, is_logging: bool) -> Option<()> {
        let mut held = self.leading.lock();
        let leading = held.as_mut()?;
        let position = self.appended.load(Ordering::Acquire);
        if is_logging {
            leading.wait((position, confirms.clone()));
        } else {
            leading.wait_for_now((position, confirms.clone()));
        }
        Some(())
    }
}

impl Queue {
    /// The members have what these waited for.
    pub(super) fn confirm_all(&self, confirmed: Vec<Waiting>) {
        for (position, confirms) in confirmed {
            if confirms.answered(position) {
                self.services().confirm_when_durable(&confirms);
            }
        }
    }

    /// The messages of a handover are taken, unless some of them are refused: those may be handed over again.
    pub(crate) fn note_taken(&self, id: Option<HandoverId>, shipped: &mut Shipped) {
        if let (Some(id), Some(replica)) = (id, self.replica.get()) {
            replica.seen.lock().note(id, id.number + 1);
            shipped.add_seen(id);
        }
    }

    /// Whether the messages of a handover are here, or were: it is confirmed when they are safe.
    pub(crate) fn takes_again(self: &Arc<Self>, handover: &mut Handover, shipped: &Shipped) -> bool {
        let (Some(id), Some(replica)) = (handover.id, self.replica.get()) else { return false };
        if !replica.has_taken(id) {
            return false;
        }
        if let Some(confirms) = handover.confirms.take()
            && replica.wait_again(&confirms, shipped.records.is_some()).is_none()
            && confirms.answered(replica.appended.load(Ordering::Acquire))
        {
            self.services().confirm_when_durable(&confirms);
        }
        true
    }

    /// At the end of a turn: its logged records go to the members.
    pub(crate) fn ship(self: &Arc<Self>, machine: &mut AnyMachine, mut shipped: Shipped) {
        let (Some(replica), AnyMachine::Classic(classic)) = (self.replica.get(), machine) else { return };
        let mut held = replica.leading.lock();
        let Some(leading) = held.as_mut() else { return };
        shipped.add_handed_out(classic);
        if let Some(records) = shipped.records {
            let shipments = leading.ship(records.whole.len(), records.rest.len());
            let (whole, rest) = (records.whole.freeze(), records.rest.freeze());
            let epoch = leading.known().epoch;
            for Shipment { node, number, is_whole } in shipments {
                self.send_records(node, epoch, number, if is_whole { &whole } else { &rest });
            }
            leading.leave_slow(|| classic.newest());
        }
        let confirmed = leading.end_turn();
        drop(held);
        self.confirm_all(confirmed);
    }

    fn send_records(self: &Arc<Self>, node: u16, epoch: u32, number: u64, records: &Bytes) {
        if let Some(far) = self.far_of(node) {
            far.send_replica(self.id, 0, frames::RECORDS, |out| {
                out.put_u32(epoch);
                out.put_u64(number);
                out.extend_from_slice(records);
            });
        }
    }

    /// Members that are linked and know nothing yet are told what lives.
    pub(super) fn begin_members(
        self: &Arc<Self>,
        classic: &mut Classic,
        now_ms: u64,
        fx: &mut CellEffects<'_>,
    ) {
        let Some(replica) = self.replica.get() else { return };
        let to_ask =
            replica.leading.lock().as_ref().map(|it| it.to_ask(now_ms, ASK_AGAIN_MS)).unwrap_or_default();
        for node in to_ask {
            self.begin_member(classic, node, now_ms, fx);
        }
    }

    fn begin_member(
        self: &Arc<Self>,
        classic: &mut Classic,
        node: u16,
        now_ms: u64,
        _fx: &mut CellEffects<'_>,
    ) {
        let (Some(replica), Some(far)) = (self.replica.get(), self.far_of(node)) else { return };
        let mut held = replica.leading.lock();
        let Some(leading) = held.as_mut().filter(|leading| leading.known().has(node)) else { return };
        let mut live = Vec::new();
        classic.live().encode(&mut live);
        leading.asked(node, now_ms);
        let epoch = leading.known().epoch;
        let applied = self.services().cluster.as_ref().map_or(0, |cluster| cluster.fars().needed());
        far.send_replica(self.id, applied, frames::SYNC, |out| {
            out.put_u32(epoch);
            out.extend_from_slice(&live);
        });
    }

    /// After each event: the disk may have read what a member lacks or a client claims, or letters that a member waits for are safe.
    pub(crate) fn go_on_filling(
        self: &Arc<Self>,
        machine: &mut AnyMachine,
        now_ms: u64,
        fx: &mut CellEffects<'_>,
    ) {
        if let AnyMachine::Classic(classic) = machine {
            self.fill_members(classic, fx);
            self.go_on_claiming(classic, now_ms, fx);
        }
    }

    /// Sends members what they lack, as far as they have taken what was sent before.
    fn fill_members(self: &Arc<Self>, classic: &mut Classic, fx: &mut CellEffects<'_>) {
        let Some(replica) = self.replica.get() else { return };
        let nodes = replica.leading.lock().as_ref().map(|leading| leading.to_fill()).unwrap_or_default();
        for node in nodes {
            self.fill_member(replica, classic, node, fx);
        }
    }

    fn fill_member(
        self: &Arc<Self>,
        replica: &Replica,
        classic: &mut Classic,
        node: u16,
        fx: &mut CellEffects<'_>,
    ) {
        loop {
            let mut held = replica.leading.lock();
            let Some(leading) = held.as_mut() else { return };
            if !leading.to_fill().contains(&node) {
                return;
            }
            let epoch = leading.known().epoch;
            let Some(cursor) = leading.cursor(node) else { return };
            let (number, records) = match classic.fill(cursor, PORTION_BYTES, fx) {
                // The answer of the disk is an event, after which it is tried again.
                Fill::Waits => return,
                Fill::Records(records) => {
                    let mut out = BytesMut::new();
                    records.iter().for_each(|(kind, payload)| frames::put_record(&mut out, *kind, payload));
                    (leading.fill(node, out.len()), out.freeze())
                }
                Fill::End => {
                    let mut out = BytesMut::new();
                    replica.seen.lock().put_all(&mut out, frames::put_seen);
                    classic.each_handed_out(|below| frames::put_handed_out(&mut out, below));
                    (leading.filled(node), out.freeze())
                }
            };
            drop(held);
            let Some(number) = number else { return };
            self.send_records(node, epoch, number, &records);
        }
    }

    /// An event of the leader's cell.
    pub(crate) fn handle_replica(
        self: &Arc<Self>,
        machine: &mut AnyMachine,
        event: ReplicaEvent,
        now_ms: u64,
        fx: &mut CellEffects<'_>,
    ) {
        let (Some(replica), AnyMachine::Classic(classic)) = (self.replica.get(), machine) else { return };
        match event {
            ReplicaEvent::Changed => {
                let known = replica.known();
                let confirmed =
                    replica.leading.lock().as_mut().map(|it| it.update(&known, now_ms)).unwrap_or_default();
                self.confirm_all(confirmed);
                self.begin_members(classic, now_ms, fx);
                if self.is_to_bring(replica) {
                    self.leader_changed();
                }
            }
            ReplicaEvent::LeaderLinked => self.leader_changed(),
            ReplicaEvent::BringAgain => self.bring_consumers_again(replica),
            ReplicaEvent::Here { node, epoch } => {
                let is_unheard = replica
                    .leading
                    .lock()
                    .as_ref()
                    .is_some_and(|leading| leading.known().epoch == epoch && leading.is_unheard(node));
                if is_unheard {
                    self.begin_member(classic, node, now_ms, fx);
                }
            }
            ReplicaEvent::Begin(node) => self.begin_member(classic, node, now_ms, fx),
            ReplicaEvent::Has { node, epoch, cursor } => {
                if let Some(leading) = &mut *replica.leading.lock()
                    && leading.known().epoch == epoch
                    && let Ok(cursor) = Cursor::decode(&cursor)
                {
                    leading.has(node, cursor);
                }
            }
            ReplicaEvent::Fill => {}
            ReplicaEvent::Claim(mut claiming) => {
                self.take_back(replica, classic, &mut claiming);
                self.note_claim(replica, claiming);
            }
            ReplicaEvent::Claimed { node, epoch } => {
                replica.claims.told(node, epoch);
                self.end_absence(replica, node, epoch);
            }
            ReplicaEvent::Lost { epoch, holder, numbers } => {
                if replica.known().epoch == epoch {
                    numbers.into_iter().for_each(|gone| replica.clients.held.lose(holder, gone));
                }
            }
            ReplicaEvent::Sync { epoch, live, far } => self.follow_live(classic, (epoch, live), &far, fx),
            ReplicaEvent::Records { epoch, number, records, far } => {
                self.follow_records(classic, (epoch, number, records), &far, now_ms, fx);
            }
        }
    }

    /// A member has answered a frame.
    pub(in crate::cluster) fn member_answered(self: &Arc<Self>, node: u16, epoch: u32, number: u64) {
        let Some(replica) = self.replica.get() else { return };
        let now_ms = self.services().now_ms();
        let mut held = replica.leading.lock();
        let Some(leading) = held.as_mut().filter(|leading| leading.known().epoch == epoch) else { return };
        let confirmed = leading.answered(node, number, now_ms);
        let is_to_fill = leading.to_fill().contains(&node);
        let (caught_up, version) = (leading.caught_up(), leading.known().version);
        drop(held);
        self.confirm_all(confirmed);
        if !caught_up.is_empty() {
            self.ask_for(metadata::ReplicaChange::CaughtUp, &caught_up, version);
        }
        if is_to_fill {
            self.submit_here_one(Event::Replica(Box::new(ReplicaEvent::Fill)));
        }
    }

    /// Something of the queue's members is to change.
    pub(super) fn ask_for(&self, change: metadata::ReplicaChange, nodes: &[u16], version: u64) {
        let Some(cluster) = &self.services().cluster else { return };
        // One: the next one is of another version.
        let Some(node) = nodes.first().copied() else { return };
        let asked = metadata::ChangeReplicas { queue: self.id, version, change, node };
        cluster.step(metadata::ClusterStep::ChangeReplicas(asked));
    }

    /// The link to a node, if it is linked.
    pub(super) fn far_of(&self, node: u16) -> Option<Arc<Far>> {
        let cluster = self.services().cluster.as_ref()?;
        let view = cluster.view();
        cluster.fars().get(&view.member(node)?.name)
    }
}
