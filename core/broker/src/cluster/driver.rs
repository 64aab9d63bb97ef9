//! The thread that has a node's replica of the metadata group: it takes what comes from other nodes and from this one's control plane, keeps
//! the log, and has committed steps applied. Before the broker is there it applies them itself.
//!
//! Refuses to know: sockets, what commands mean.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use metadata::{ClusterStep, FIRST_NODE, State};
use multiraft::{Body, Effects, Envelope, Members, ReplicaId, Role, entry_body};
use platform::Monotonic;

use super::counted::Untold;
use super::frames::{Arriving, Standing, Welcome};
use super::inquiries::Inquiries;
use super::long_messages::LongMessages;
use super::machine::{Machine, rows};
use super::name::NodeName;
use super::node::{ClusterOptions, Event, Purpose, Shared};
use super::outgoing::Outgoing;
use super::peers::{DataId, Epoch, Lane, PeerIdentity, SendRefused, SharedPeers, VersionRange};
use super::progress::Progress;
use super::replica::Replica;
use super::trust::Trust;
use super::watch::Watch;
use super::{frames, member, replica};
use crate::cluster::view::{View, ViewedMember};
use crate::foundation::Foundation;
use crate::open_errors::StartError;

/// Between ticks of the group.
const TICK: Duration = Duration::from_millis(100);
/// A question is repeated after so long: a start asks several, one after the other.
const AGAIN: Duration = Duration::from_millis(200);
/// A turn's steps become entries of about so many bytes.
const ENTRY_BYTES: usize = 512 << 10;
/// Steps of other nodes that wait for a proposal, bytes: beyond that they have to come again.
const FORWARDED_BYTES_MAX: usize = 64 << 20;

/// A node that is linked.
pub(super) struct Linked {
    pub(super) identity: PeerIdentity,
    pub(super) standing: Standing,
}

/// The state of the thread.
pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) foundation: Foundation,
    pub(super) data_dir: PathBuf,
    pub(super) peers: SharedPeers,
    /// How many addresses of nodes were configured; none for a node that waits to be told.
    pub(super) seeds: usize,
    pub(super) purpose: Purpose,
    /// Members that have asked the leader to be let go.
    pub(super) leaving: BTreeSet<u16>,
    /// Nodes that have left: they are not dialled when their links end.
    pub(super) left: BTreeSet<NodeName>,
    pub(super) inquiries: Inquiries,
    pub(super) long_messages: LongMessages,
    pub(super) linked: BTreeMap<NodeName, Linked>,
    /// Versions of the nodes that were linked since this one started, by their data.
    pub(super) versions: BTreeMap<DataId, VersionRange>,
    pub(super) arriving: Arriving,
    /// Payloads for the recovery lane that wait for room.
    pub(super) states: BTreeMap<NodeName, VecDeque<Bytes>>,
    pub(super) member: Option<Welcome>,
    pub(super) replica: Option<Replica>,
    pub(super) machine: Machine,
    /// The members as of the latest applied step.
    pub(super) nodes: BTreeMap<u16, (NodeName, DataId, u32, u64)>,
    pub(super) nonce: u64,
    pub(super) outgoing: Outgoing,
    pub(super) forwarded: VecDeque<Bytes>,
    pub(super) forwarded_bytes: usize,
    pub(super) next_tick: Monotonic,
    pub(super) next_ask: Monotonic,
    /// When to ask for votes after the leader's link ended.
    pub(super) campaign_at: Option<Monotonic>,
    pub(super) refusal: Option<String>,
    pub(super) watch: Watch,
    pub(super) progress: Progress,
    pub(super) untold: Untold,
    pub(super) trust: Trust,
}

impl Driver {
    /// Reads what the node is a member of, and its replica.
    pub(super) fn open(
        shared: Arc<Shared>,
        foundation: Foundation,
        data_dir: PathBuf,
        peers: SharedPeers,
        options: &ClusterOptions,
    ) -> Result<Driver, StartError> {
        let nonce = foundation.random.next_u64().max(1);
        let mut driver = Driver {
            outgoing: Outgoing::new(peers.own().name.clone(), shared.timeout),
            next_tick: foundation.clock.now(),
            next_ask: foundation.clock.now(),
            shared,
            foundation,
            data_dir,
            peers,
            seeds: if options.purpose == Purpose::Join { usize::MAX } else { options.seeds },
            purpose: options.purpose,
            leaving: BTreeSet::new(),
            left: BTreeSet::new(),
            inquiries: Inquiries::default(),
            long_messages: LongMessages::default(),
            linked: BTreeMap::new(),
            versions: BTreeMap::new(),
            arriving: Arriving::default(),
            states: BTreeMap::new(),
            member: None,
            replica: None,
            machine: Machine::Starting(State::new()),
            nodes: BTreeMap::new(),
            nonce,
            forwarded: VecDeque::new(),
            forwarded_bytes: 0,
            campaign_at: None,
            refusal: None,
            watch: Watch::default(),
            progress: Progress::default(),
            untold: Untold::default(),
            trust: Trust::default(),
        };
        if let Some(member) = member::read(&*driver.foundation.disk, &driver.data_dir)? {
            check_identity(&member, driver.peers.own())?;
            let (replica, state) = replica::recover(&driver, &member)?;
            let (member, replica, state) = match driver.purpose {
                Purpose::ForceBoot => driver.go_on_alone(&member, replica, state)?,
                _ => (member, replica, state),
            };
            driver.machine = Machine::Starting(state);
            driver.become_member(member, replica);
        }
        Ok(driver)
    }

    pub(super) fn become_member(&mut self, member: Welcome, replica: Replica) {
        self.nodes = member
            .members
            .iter()
            .map(|(number, name, data)| (*number, (name.clone(), *data, 0, 0)))
            .collect();
        self.member = Some(member);
        self.replica = Some(replica);
        if let Machine::Starting(state) = &self.machine {
            self.nodes_of(&rows(state));
        }
        self.tell_members();
    }

    /// Works until it is told to stop.
    pub(super) fn run(mut self) {
        loop {
            let wait = Duration::from_nanos(self.next_tick.0.saturating_sub(self.now().0));
            let Some(events) = self.shared.next(wait) else { break };
            for event in events {
                self.handle(event);
            }
            self.tell_counted();
            self.tick();
            self.turn();
        }
        self.inquiries.tick(Monotonic(u64::MAX));
        if let Some(replica) = &self.replica
            && let Err(error) = replica.log.close()
        {
            tracing::error!(%error, "the log of the metadata group could not be closed");
        }
    }

    pub(super) fn now(&self) -> Monotonic {
        self.foundation.clock.now()
    }

    pub(super) fn own(&self) -> u16 {
        self.member.as_ref().map_or(0, |member| member.number)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Up(identity) => self.up(identity),
            Event::Down(name) => self.down(&name),
            Event::Frame(from, epoch, lane, kind, payload) => self.frame(&from, epoch, lane, kind, payload),
            Event::Drained(name) => {
                self.pump_state(&name);
                self.pump_long(&name);
            }
            Event::Described(name, applied) => self.described_applied(&name, applied),
            Event::Durable => {}
            Event::Heard(question, is_heard) => self.trust.heard(question, is_heard),
            Event::Step(step) => self.propose_or_forward(&step),
            Event::Inquire(to, question, within, reply) => self.inquire(to, &question, within, reply),
            Event::Answered(to, answer) => self.answer_inquiry(&to, answer),
            Event::Counted(counted) => self.untold.add(counted),
            Event::Propose(entry, told) => self.take_proposal(entry, told),
            Event::Ask(ask, reply) => {
                let answer = self.ask(ask);
                reply.send(answer);
            }
            Event::TakeState(reply) => {
                let between = Machine::Between(VecDeque::new());
                if let Machine::Starting(state) = std::mem::replace(&mut self.machine, between) {
                    reply.send(state);
                }
            }
            Event::Attach(inner) => {
                let before = std::mem::replace(&mut self.machine, Machine::Broker(inner));
                if let Machine::Between(waiting) = before {
                    self.apply(waiting.into());
                }
                self.serves();
            }
        }
    }

    fn up(&mut self, identity: PeerIdentity) {
        let name = identity.name.clone();
        self.arriving.forget(&name);
        self.states.remove(&name);
        self.versions.insert(identity.data_id, identity.versions);
        self.linked.insert(name.clone(), Linked { identity, standing: Standing::default() });
        self.send(&name, Lane::Control, frames::STANDING, self.standing().encode());
        if let (Some(number), Some(replica)) = (self.number_of(&name), &mut self.replica) {
            replica.group.unreachable(ReplicaId(number.into()));
        }
        self.outgoing.send_again();
        self.tell_applied(&name);
        self.tell_all_counted(&name);
        if self.is_linked(&name) {
            self.tell_queues(&name, true);
        }
    }

    fn down(&mut self, name: &NodeName) {
        self.linked.remove(name);
        self.applied_without(name);
        self.counted_without(name);
        if self.left.remove(name) {
            self.peers.forget(name);
        }
        self.inquiries.down(name);
        self.long_messages.forget(name);
        self.arriving.forget(name);
        let was_sent_state = self.states.remove(name).is_some();
        self.tell_queues(name, false);
        let Some(number) = self.number_of(name) else { return };
        let rank = self.rank();
        let Some(replica) = &mut self.replica else { return };
        let peer = ReplicaId(number.into());
        replica.group.unreachable(peer);
        if was_sent_state {
            replica.group.install_failed(peer);
        }
        if replica.group.status().leader == peer {
            replica.group.forget_leader();
            let wait = Duration::from_millis(150 * rank as u64);
            self.campaign_at = Some(Monotonic(self.foundation.clock.now().0 + wait.as_nanos() as u64));
        }
    }

    /// How many members whose links are up stand before this one.
    fn rank(&self) -> usize {
        let own = self.own();
        self.nodes.iter().filter(|(number, node)| **number < own && self.is_linked(&node.0)).count()
    }

    /// Whether a node is linked, and is no stranger that has a member's name with other data.
    pub(super) fn is_linked(&self, name: &NodeName) -> bool {
        let member = self.nodes.values().find(|node| node.0 == *name);
        self.linked.get(name).is_some_and(|it| member.is_none_or(|node| node.1 == it.identity.data_id))
    }

    /// Tells queues which data the members have.
    pub(super) fn tell_members(&self) {
        self.shared.fars.members_are(self.nodes.values().map(|node| (node.0.clone(), node.1)).collect());
    }

    pub(super) fn number_of(&self, name: &NodeName) -> Option<u16> {
        self.nodes.iter().find(|(_, node)| node.0 == *name).map(|(number, _)| *number)
    }

    pub(super) fn send(&self, to: &NodeName, lane: Lane, kind: u8, payload: Bytes) -> bool {
        self.peers.send(to, lane, kind, payload).is_ok()
    }

    /// Sends a message in pieces; false when some of it was not taken.
    pub(super) fn send_whole(&self, to: &NodeName, lane: Lane, kind: u8, message: Bytes) -> bool {
        frames::pieces(message).all(|piece| self.send(to, lane, kind, piece))
    }

    fn frame(&mut self, from: &NodeName, epoch: Epoch, lane: Lane, kind: u8, payload: Bytes) {
        let is_read = match kind {
            frames::GROUP => match self.arriving.add(from, lane, kind, payload) {
                None => Some(()),
                Some(message) => self.group_message(from, message),
            },
            frames::FORWARD => {
                if let Some(steps) = self.arriving.add(from, lane, kind, payload) {
                    self.take_forwarded(steps);
                }
                Some(())
            }
            frames::INQUIRY => match self.arriving.add(from, lane, kind, payload) {
                None => Some(()),
                Some(message) => self.inquired(from, message),
            },
            frames::INQUIRED => match self.arriving.add(from, lane, kind, payload) {
                None => Some(()),
                Some(message) => self.take_answer(from, message),
            },
            frames::APPLIED => self.heard_applied(from, payload),
            frames::COUNTED => self.heard_counts(from, payload),
            frames::STANDING => Standing::decode(payload).map(|standing| self.heard_standing(from, standing)),
            frames::JOIN => {
                self.asked_to_join(from);
                Some(())
            }
            frames::WELCOME => Welcome::decode(payload).map(|welcome| self.welcomed(welcome)),
            frames::LEAVE => {
                self.asked_for_leave(from);
                Some(())
            }
            frames::LEFT => {
                self.shared.leave();
                Some(())
            }
            frames::REFUSED if self.purpose == Purpose::Leave => {
                self.shared.leave();
                Some(())
            }
            frames::REFUSED => {
                self.refused(from, &String::from_utf8_lossy(&payload));
                Some(())
            }
            _ => None,
        };
        if is_read.is_none() {
            tracing::warn!(node = %from, kind, "a frame of another node cannot be read; the link is made anew");
            self.peers.hang_up(from, epoch);
        }
    }

    fn group_message(&mut self, from: &NodeName, message: Bytes) -> Option<()> {
        let (message, bodies) = frames::decode_message(message)?;
        let (own, sender) = (self.own(), self.number_of(from));
        let theirs = self.linked.get(from).and_then(|linked| linked.standing.member);
        let ours = self.member.as_ref().map(|member| member.cluster);
        if theirs.is_some_and(|(cluster, _)| Some(cluster) != ours) {
            return Some(());
        }
        let Some(replica) = &mut self.replica else { return Some(()) };
        // A stranger, or one that has come back as somebody else.
        let is_for_us = message.to == ReplicaId(own.into())
            && sender.is_none_or(|number| message.from == ReplicaId(number.into()));
        if is_for_us && let Err(refused) = replica.group.step(message, bodies) {
            tracing::debug!(node = %from, %refused, "a message of the metadata group was refused");
        }
        Some(())
    }

    fn take_forwarded(&mut self, steps: Bytes) {
        let leads = self.replica.as_ref().is_some_and(Replica::leads);
        if leads && self.forwarded_bytes + steps.len() <= FORWARDED_BYTES_MAX {
            self.forwarded_bytes += steps.len();
            self.forwarded.push_back(steps);
        }
    }

    fn tick(&mut self) {
        let now = self.now();
        if now < self.next_tick {
            return;
        }
        self.next_tick = Monotonic(now.0 + TICK.as_nanos() as u64);
        self.inquiries.tick(now);
        self.outgoing.tick(now, &self.machine);
        if let Some(replica) = &mut self.replica {
            replica.group.tick();
            if self.campaign_at.is_some_and(|at| at <= now) {
                self.campaign_at = None;
                if replica.group.status().leader == ReplicaId::NONE && replica.is_voter() {
                    replica.group.campaign();
                }
            }
        }
        self.keep_members();
        self.watch_nodes();
        self.ask_to_leave(now >= self.next_ask);
        if now >= self.next_ask {
            self.next_ask = Monotonic(now.0 + AGAIN.as_nanos() as u64);
            self.find_a_cluster();
            self.begin_life();
        }
        let names: Vec<_> = self.states.keys().cloned().collect();
        names.iter().for_each(|name| self.pump_state(name));
        self.long_messages.nodes().iter().for_each(|name| self.pump_long(name));
        if let Some(replica) = &mut self.replica {
            replica.keep_short();
        }
        self.shared.fars.pump();
    }

    pub(super) fn propose_step(&mut self, step: &ClusterStep) {
        let mut bytes = Vec::new();
        step.encode(&mut bytes);
        self.take_forwarded(bytes.into());
    }

    pub(super) fn propose_or_forward(&mut self, step: &ClusterStep) {
        let Some(replica) = &self.replica else { return };
        if replica.leads() {
            return self.propose_step(step);
        }
        let mut bytes = Vec::new();
        step.encode(&mut bytes);
        if let Some(leader) = self.leader() {
            self.send_whole(&leader, Lane::Control, frames::FORWARD, bytes.into());
        }
    }

    /// The leader, if it is another node and known by name.
    fn leader(&self) -> Option<NodeName> {
        let leader = self.replica.as_ref()?.group.status().leader;
        let number = u16::try_from(leader.0).ok()?;
        self.nodes.get(&number).map(|node| node.0.clone())
    }

    /// Proposes waiting entries, or sends them to the leader.
    fn propose(&mut self) {
        let Some(life) = self.shared.life() else { return self.propose_forwarded() };
        let Some(status) = self.replica.as_ref().map(|replica| replica.group.status()) else { return };
        let leads = status.role == Role::Leader;
        self.outgoing.led_by(status.leader, status.term, leads);
        let leader = if leads { None } else { self.leader() };
        if !leads && leader.is_none() {
            return;
        }
        let origin = (self.own(), life);
        while let Some((steps, count)) = self.outgoing.next(origin, ENTRY_BYTES) {
            let is_taken = match &leader {
                Some(leader) => self.send_whole(leader, Lane::Control, frames::FORWARD, steps),
                None => self.replica.as_mut().is_some_and(|it| it.group.propose(steps).is_ok()),
            };
            if !is_taken {
                break;
            }
            self.outgoing.sent(count);
        }
        self.propose_forwarded();
    }

    fn propose_forwarded(&mut self) {
        let Some(replica) = &mut self.replica else { return };
        if !replica.leads() {
            self.forwarded.clear();
            self.forwarded_bytes = 0;
            return;
        }
        while let Some(first) = self.forwarded.front() {
            let mut count = 1;
            let mut bytes = first.len();
            for more in self.forwarded.iter().skip(1) {
                if bytes + more.len() > ENTRY_BYTES {
                    break;
                }
                (count, bytes) = (count + 1, bytes + more.len());
            }
            let body: Bytes = match count {
                1 => first.clone(),
                _ => self
                    .forwarded
                    .iter()
                    .take(count)
                    .fold(Vec::with_capacity(bytes), |mut all, steps| {
                        all.extend_from_slice(steps);
                        all
                    })
                    .into(),
            };
            if replica.group.propose(body).is_err() {
                break;
            }
            self.forwarded.drain(..count);
            self.forwarded_bytes -= bytes;
        }
    }

    fn turn(&mut self) {
        self.look_at_trust();
        self.propose();
        let Some(replica) = &mut self.replica else { return self.publish_view() };
        replica.group.durable(replica.log.durable());
        let Effects { send, apply, wants_state } = replica.group.run(&replica.log);
        // Queues ask others as soon as they hear of what is applied, before the view shows it.
        self.shared.fars.applying(replica.group.applied().0);
        if let Some(failure) = replica.group.failure() {
            let text = format!("the replica of the metadata has stopped: {failure}");
            tracing::error!("{text}");
            self.fail(text);
        }
        if !apply.is_empty() {
            self.apply(apply);
        }
        for to in wants_state {
            self.send_state(to);
        }
        for envelope in send {
            self.send_envelope(envelope);
        }
        self.checkpoint_if_due();
        self.publish_view();
    }

    fn send_envelope(&mut self, envelope: Envelope) {
        let Envelope { message, bodies, .. } = envelope;
        let to = message.to;
        let Some(name) = self.name_of(to) else { return };
        let Some(replica) = &mut self.replica else { return };
        let bodies: Option<Vec<Bytes>> = bodies
            .iter()
            .enumerate()
            .map(|(nth, body)| match body {
                Body::Here(bytes) => Some(bytes.clone()),
                Body::InLog(place) => {
                    let range = replica.log.read_range(place.first, place.bytes).ok()?;
                    let record = range.records.first()?.payload.clone();
                    entry_body(&Bytes::from(range.bytes).slice(record), *message.heads.get(nth)?).ok()
                }
            })
            .collect();
        let Some(bodies) = bodies else {
            return replica.group.unreachable(to);
        };
        let bytes = frames::encode_message(&message, &bodies);
        if !self.send_whole(&name, Lane::Control, frames::GROUP, bytes)
            && let Some(replica) = &mut self.replica
        {
            replica.group.unreachable(to);
        }
    }

    fn name_of(&self, replica: ReplicaId) -> Option<NodeName> {
        let number = u16::try_from(replica.0).ok()?;
        self.nodes.get(&number).map(|node| node.0.clone())
    }

    fn send_state(&mut self, to: ReplicaId) {
        let state = self.capture();
        let name = self.name_of(to).filter(|name| self.is_linked(name));
        let Some(replica) = &mut self.replica else { return };
        let (Some(state), Some(name)) = (state, name) else { return replica.group.install_failed(to) };
        let Some(envelope) = replica.group.install_message(to, state) else { return };
        let bodies: Vec<_> = envelope
            .bodies
            .into_iter()
            .filter_map(|body| if let Body::Here(bytes) = body { Some(bytes) } else { None })
            .collect();
        let message = frames::encode_message(&envelope.message, &bodies);
        self.states.insert(name.clone(), frames::pieces(message).collect());
        self.pump_state(&name);
    }

    /// Sends as much of a state as the lane has room for.
    fn pump_state(&mut self, name: &NodeName) {
        let Some(pieces) = self.states.get_mut(name) else { return };
        while let Some(piece) = pieces.front() {
            match self.peers.send(name, Lane::Recovery, frames::GROUP, piece.clone()) {
                Ok(()) => drop(pieces.pop_front()),
                Err(SendRefused::Full) => return,
                Err(_) => break,
            }
        }
        self.states.remove(name);
    }

    fn publish_view(&mut self) {
        let status = self.replica.as_ref().map(|replica| replica.group.status());
        let members =
            self.replica.as_ref().map(|replica| replica.group.members().clone()).unwrap_or_default();
        let own = self.own();
        let viewed = |(number, node): (&u16, &(NodeName, DataId, u32, u64))| ViewedMember {
            number: *number,
            name: node.0.clone(),
            is_up: *number == own || self.is_linked(&node.0),
            is_voter: members.voters.contains(&ReplicaId((*number).into())),
        };
        let view = View {
            own,
            leader: status.and_then(|it| u16::try_from(it.leader.0).ok()).filter(|leader| *leader != 0),
            term: status.map_or(0, |it| it.term),
            commit: status.map_or(0, |it| it.commit),
            applied: self.replica.as_ref().map_or(0, |replica| replica.group.applied().0),
            is_member: self.member.is_some(),
            members: self.nodes.iter().map(viewed).collect(),
            refusal: self.refusal.clone(),
        };
        let applied = view.applied;
        self.shared.show(view);
        self.shared.fars.applied(applied);
    }
}

/// A data directory is that of one node for ever.
fn check_identity(member: &Welcome, own: &PeerIdentity) -> Result<(), StartError> {
    let Some((_, name, data)) = member.members.iter().find(|it| it.0 == member.number) else { return Ok(()) };
    if *name == own.name && *data == own.data_id {
        return Ok(());
    }
    Err(StartError::Metadata(format!(
        "the data directory is that of node {name}, a member of a cluster, and this node is {}; a node that is to have another name has to \
         leave the cluster and join it with an empty directory",
        own.name
    )))
}

/// The group's members when it is formed.
pub(super) fn first_members() -> Members {
    Members::of(&[ReplicaId(FIRST_NODE.into())])
}

/// The log tells the thread of its progress.
pub(super) struct LogNews(pub(super) Arc<Shared>);

impl commitlog::DurableListener for LogNews {
    fn durable(&self, _up_to: commitlog::Position) {
        self.0.add(Event::Durable);
    }

    fn file_sealed(&self, _up_to: commitlog::Position) {}

    fn waits_for_room(&self, failure: &commitlog::IoFailure) {
        tracing::error!(%failure, "the disk is full: changes of metadata wait for room");
    }

    fn goes_on(&self) {
        tracing::info!("there was room for the log of the metadata group again");
    }

    fn failed(&self, error: &commitlog::LogError) {
        tracing::error!(%error, "the log of the metadata group has failed; this node takes no part until it is restarted");
    }
}
