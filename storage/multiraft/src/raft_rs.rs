//! [`Kernel`] by raft-rs, the consensus of TiKV. The only file that knows it. Nothing of its protobuf encoding is stored or sent.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use raft::eraftpb::{
    ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState, Entry, EntryType,
    HardState, Snapshot,
};
use raft::{Config, ProgressState, RawNode, SnapshotStatus, StateRole};

use crate::heads::Heads;
use crate::kernel::{
    EntryKind, Head, Installed, Kernel, Message, Peer, Ready, Refused, ReplicaId, Role, Start, Status, Timing,
};
use crate::members::{Change, Members};
use crate::raft_messages::{
    conf_of, entry_of, from_raft, head_of, installed_of, members_of, snapshot_of, to_raft,
};

/// Heads in one append message at most, roughly: raft-rs counts bytes of its own encoding, about 20 for a head.
const APPEND_BYTES_MAX: u64 = 64 * 20;
/// Append messages to one replica that are not answered yet.
const INFLIGHT_MAX: usize = 32;

/// The heads that raft-rs reads: in memory, so that it never waits for a disk.
struct Shape {
    heads: Heads,
    start: (HardState, ConfState),
    /// The entries that a state would stand for that is captured now.
    installed: Installed,
}

impl raft::Storage for Shape {
    fn initial_state(&self) -> raft::Result<raft::RaftState> {
        Ok(raft::RaftState::new(self.start.0.clone(), self.start.1.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: raft::GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low < self.heads.first_index() {
            return Err(raft::Error::Store(raft::StorageError::Compacted));
        }
        let missing = || raft::Error::Store(raft::StorageError::Unavailable);
        let count = max_size.into().map_or(u64::MAX, |bytes| (bytes / 16).max(1));
        let entries = (low..high.min(low.saturating_add(count))).map(|index| {
            let head = self.heads.get(index).ok_or_else(missing)?;
            Ok(entry_of(head))
        });
        entries.collect()
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index + 1 < self.heads.first_index() {
            return Err(raft::Error::Store(raft::StorageError::Compacted));
        }
        self.heads.term(index).ok_or(raft::Error::Store(raft::StorageError::Unavailable))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.heads.first_index())
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.heads.last_index())
    }

    fn snapshot(&self, _request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        Ok(snapshot_of(&self.installed))
    }
}

/// A kernel with raft-rs inside: ticks, pre-vote, check-quorum, votes and appends in its own thread's calls.
pub struct RaftRs {
    node: RawNode<Shape>,
    /// Committed entries up to here have been handed out.
    handed: u64,
    /// The random part of election timeouts is ours, so that a simulation can be repeated.
    random: u64,
    timeout: usize,
    seen: (u64, StateRole, u64),
    failure: Option<String>,
}

impl RaftRs {
    fn new(replica: ReplicaId, timing: Timing, start: Start) -> raft::Result<Self> {
        let config = Config {
            id: replica.0,
            election_tick: timing.election_ticks.into(),
            heartbeat_tick: timing.heartbeat_ticks.into(),
            applied: start.commit,
            max_size_per_msg: APPEND_BYTES_MAX,
            max_inflight_msgs: INFLIGHT_MAX,
            check_quorum: true,
            pre_vote: true,
            // It would add entries to an append that waits, without looking whether they follow the entry that this one names.
            batch_append: false,
            ..Config::default()
        };
        let (commit, term) = (start.commit, start.heads.term(start.commit).unwrap_or_default());
        let hard = HardState { term: start.term, vote: start.vote.0, commit, ..HardState::default() };
        let shape = Shape {
            heads: start.heads,
            start: (hard, conf_of(&start.members)),
            installed: Installed { index: commit, term, members: start.members },
        };
        let node = RawNode::new(&config, shape, &slog::Logger::root(slog::Discard, slog::o!()))?;
        let random = timing.seed ^ replica.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let seen = (u64::MAX, StateRole::Follower, 0);
        let mut kernel = Self { node, handed: commit, random, timeout: 0, seen, failure: None };
        kernel.keep_time();
        Ok(kernel)
    }

    /// Runs raft-rs, which panics where something cannot be. The replica then stops for good, which Raft allows at any time.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut RawNode<Shape>) -> T) -> Result<T, Refused> {
        if let Some(failure) = &self.failure {
            return Err(Refused::Stopped(failure.clone()));
        }
        match catch_unwind(AssertUnwindSafe(|| work(&mut self.node))) {
            Ok(result) => {
                self.keep_time();
                Ok(result)
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                let failure = text.unwrap_or_else(|| "consensus panicked".to_owned());
                self.failure = Some(failure.clone());
                Err(Refused::Stopped(failure))
            }
        }
    }

    /// Puts an election timeout of ours in place of each that raft-rs has drawn.
    fn keep_time(&mut self) {
        let raft = &self.node.raft;
        let now = (raft.term, raft.state, raft.leader_id);
        if now != self.seen {
            self.seen = now;
            self.draw_timeout();
        }
        if self.node.raft.randomized_election_timeout() != self.timeout {
            self.node.raft.set_randomized_election_timeout(self.timeout);
        }
    }

    fn draw_timeout(&mut self) {
        // One step of SplitMix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let ticks = self.node.raft.election_timeout();
        self.timeout = ticks + usize::try_from((mixed >> 33) % (ticks as u64)).unwrap_or_default();
    }

    fn may_propose(&self) -> Result<(), Refused> {
        let raft = &self.node.raft;
        if raft.state != StateRole::Leader {
            return Err(Refused::NotLeader { leader: ReplicaId(raft.leader_id) });
        }
        raft.lead_transferee.map_or(Ok(()), |to| Err(Refused::HandingOver(ReplicaId(to))))
    }

    fn propose_entry(&mut self, entry: Entry, kind: EntryKind) -> Result<Head, Refused> {
        let mut message = raft::eraftpb::Message::default();
        message.set_msg_type(raft::eraftpb::MessageType::MsgPropose);
        message.from = self.node.raft.id;
        message.mut_entries().push(entry);
        self.guarded(|node| node.raft.step(message))?
            .map_err(|_| Refused::NotLeader { leader: ReplicaId::NONE })?;
        let raft = &self.node.raft;
        Ok(Head { index: raft.raft_log.last_index(), term: raft.term, kind })
    }

    /// Tells raft-rs what is applied, as far as it is durable.
    fn pass_applied(&mut self) {
        let log = &self.node.raft.raft_log;
        if self.handed > log.applied && self.handed <= log.committed.min(log.persisted) {
            let handed = self.handed;
            let _stopped = self.guarded(|node| node.advance_apply_to(handed));
        }
    }

    /// Takes what raft-rs wants stored into the heads, so that it can be read from there.
    fn take_ready(node: &mut RawNode<Shape>) -> Ready {
        let mut from = node.ready();
        let mut ready = Ready { number: from.number(), ..Ready::default() };
        ready.vote = from.hs().map(|hard| (hard.term, ReplicaId(hard.vote)));
        if !from.snapshot().is_empty() {
            let installed = installed_of(from.snapshot());
            let shape = node.mut_store();
            shape.heads = Heads::after(installed.index, installed.term);
            shape.installed = installed.clone();
            ready.install = Some(installed);
        }
        let heads = &mut node.mut_store().heads;
        ready.heads.extend(from.take_entries().iter().map(head_of));
        for head in &ready.heads {
            heads.push(*head);
        }
        ready.messages.extend(from.take_messages().iter().filter_map(from_raft));
        ready.messages_when_stored.extend(from.take_persisted_messages().iter().filter_map(from_raft));
        ready.committed.extend(from.take_committed_entries().iter().map(head_of));
        node.advance_append_async(from);
        if let Some(installed) = &ready.install {
            // Heads before it are gone, so nothing may look for them. This replica's answer about the state waits until it is durable.
            node.raft.on_persist_snap(installed.index);
            node.advance_apply_to(installed.index);
        }
        ready
    }
}

impl Kernel for RaftRs {
    fn open(replica: ReplicaId, timing: Timing, start: Start) -> Result<Self, Refused> {
        let opened = catch_unwind(AssertUnwindSafe(|| Self::new(replica, timing, start)));
        match opened {
            Ok(Ok(kernel)) => Ok(kernel),
            Ok(Err(error)) => Err(Refused::Stopped(error.to_string())),
            Err(_) => Err(Refused::Stopped("term, vote and entries contradict each other".to_owned())),
        }
    }

    fn members_after(members: &Members, changes: &[Change]) -> Members {
        let start = Start { members: members.clone(), ..Start::default() };
        match Self::open(ReplicaId(u64::MAX), Timing::default(), start) {
            Ok(mut scratch) => scratch.apply_members(changes),
            Err(_) => members.clone(),
        }
    }

    fn tick(&mut self) {
        let is_follower = self.node.raft.state != StateRole::Leader;
        if self.guarded(RawNode::tick) == Ok(true) && is_follower {
            // It campaigns; should that come to nothing, the next time is another one.
            self.draw_timeout();
            self.keep_time();
        }
    }

    fn step(&mut self, message: Message) -> Result<(), Refused> {
        if message.to.0 != self.node.raft.id {
            return Err(Refused::BadMessage("it is for another replica"));
        }
        let last_index = self.node.raft.raft_log.last_index();
        if message.kind == crate::kernel::MessageKind::Heartbeat && message.commit > last_index {
            return Err(Refused::BadMessage("entries are committed that this replica had and has lost"));
        }
        let message = to_raft(message).ok_or(Refused::BadMessage("its entries do not follow each other"))?;
        // An answer of a replica that is no member any more is nobody's fault.
        let _stranger = self.guarded(|node| node.step(message))?;
        Ok(())
    }

    fn propose(&mut self) -> Result<Head, Refused> {
        self.may_propose()?;
        self.propose_entry(entry_of(Head::default()), EntryKind::Parts)
    }

    fn propose_empty(&mut self) -> Result<Head, Refused> {
        self.may_propose()?;
        self.propose_entry(Entry::default(), EntryKind::Empty)
    }

    fn propose_members(&mut self, changes: &[Change]) -> Result<Head, Refused> {
        self.may_propose()?;
        let members = &self.node.store().installed.members;
        if self.node.raft.has_pending_conf() || (members.is_joint() && !changes.is_empty()) {
            return Err(Refused::ChangeInProgress);
        }
        let after = Self::members_after(members, changes);
        if after.voters.is_empty() {
            return Err(Refused::ImpossibleChange("no voter would be left"));
        }
        if after == *members {
            return Err(Refused::ImpossibleChange("nothing would change"));
        }
        let data = protobuf::Message::write_to_bytes(&conf_change_of(changes))
            .map_err(|_| Refused::ImpossibleChange("it cannot be encoded"))?;
        let mut entry = Entry { data: Bytes::from(data), ..Entry::default() };
        entry.set_entry_type(EntryType::EntryConfChangeV2);
        self.propose_entry(entry, EntryKind::Members)
    }

    fn apply_members(&mut self, changes: &[Change]) -> Members {
        if let Ok(Ok(conf)) = self.guarded(|node| node.apply_conf_change(&conf_change_of(changes))) {
            self.node.mut_store().installed.members = members_of(&conf);
        }
        self.node.store().installed.members.clone()
    }

    fn campaign(&mut self) {
        // A replica that is no voter would elect itself.
        if self.node.raft.promotable() {
            let _refused = self.guarded(RawNode::campaign);
        }
    }

    fn forget_leader(&mut self) {
        let _stopped = self.guarded(|node| {
            let raft = &mut node.raft;
            let has_leader = raft.state == StateRole::Follower && raft.leader_id != 0;
            if has_leader || raft.state == StateRole::Leader {
                let term = raft.term;
                raft.become_follower(term, 0);
            }
        });
    }

    fn transfer(&mut self, to: ReplicaId) {
        if self.node.raft.state == StateRole::Leader {
            let _stopped = self.guarded(|node| node.transfer_leader(to.0));
        }
    }

    fn ready(&mut self) -> Option<Ready> {
        if self.failure.is_some() || !self.node.has_ready() {
            return None;
        }
        let ready = self.guarded(Self::take_ready).ok()?;
        if let Some(installed) = &ready.install {
            self.handed = installed.index;
        }
        if let Some(head) = ready.committed.last() {
            self.handed = head.index;
        }
        Some(ready)
    }

    fn stored(&mut self, number: u64) {
        let _stopped = self.guarded(|node| node.on_persist_ready(number));
        self.pass_applied();
    }

    fn applied(&mut self) {
        let handed = self.handed;
        let shape = self.node.mut_store();
        if let Some(term) = shape.heads.term(handed) {
            (shape.installed.index, shape.installed.term) = (handed, term);
        }
        self.pass_applied();
    }

    fn compact(&mut self, index: u64) {
        self.node.mut_store().heads.compact(index);
    }

    fn unreachable(&mut self, peer: ReplicaId) {
        let _stopped = self.guarded(|node| node.report_unreachable(peer.0));
    }

    fn install_failed(&mut self, peer: ReplicaId) {
        let _stopped = self.guarded(|node| node.report_snapshot(peer.0, SnapshotStatus::Failure));
    }

    fn status(&self) -> Status {
        let raft = &self.node.raft;
        let role = match raft.state {
            StateRole::Leader => Role::Leader,
            StateRole::Follower => Role::Follower,
            StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
        };
        Status {
            role: if self.failure.is_some() { Role::Follower } else { role },
            term: raft.term,
            leader: ReplicaId(raft.leader_id),
            commit: raft.raft_log.committed,
            last_index: raft.raft_log.last_index(),
            transferee: ReplicaId(raft.lead_transferee.unwrap_or_default()),
        }
    }

    fn peers(&self) -> Vec<Peer> {
        let raft = &self.node.raft;
        let others = raft.prs().iter().filter(|(id, _)| **id != raft.id);
        let mut peers: Vec<Peer> = others
            .map(|(id, progress)| Peer {
                replica: ReplicaId(*id),
                matched: progress.matched,
                is_active: progress.recent_active,
                wants_state: progress.state == ProgressState::Snapshot,
            })
            .collect();
        peers.sort_unstable_by_key(|peer| peer.replica);
        peers
    }

    fn matched_by_all(&self) -> u64 {
        let raft = &self.node.raft;
        raft.prs().iter().map(|(_, progress)| progress.matched).min().unwrap_or_default()
    }

    fn heads(&self) -> &Heads {
        &self.node.store().heads
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// One change is made in one step. Several need a joint configuration, which the group's leader leaves by another entry.
fn conf_change_of(changes: &[Change]) -> ConfChangeV2 {
    let mut all = ConfChangeV2::default();
    if changes.len() > 1 {
        all.set_transition(ConfChangeTransition::Explicit);
    }
    for change in changes {
        let mut one = ConfChangeSingle { node_id: change.replica().0, ..ConfChangeSingle::default() };
        one.set_change_type(match change {
            Change::AddVoter(_) => ConfChangeType::AddNode,
            Change::AddLearner(_) => ConfChangeType::AddLearnerNode,
            Change::Remove(_) => ConfChangeType::RemoveNode,
        });
        all.mut_changes().push(one);
    }
    all
}
