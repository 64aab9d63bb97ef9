//! The thread that has a node's replica of the metadata group: it takes what comes from other nodes and from this one's control plane, keeps
//! the log, and has committed steps applied. Before the broker is there it applies them itself.
//!
//! Refuses to know: sockets, what commands mean.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use metadata::{AddNode, BeginLife, ClusterStep, FIRST_NODE, State};
use multiraft::{Apply, Body, Change, Effects, Envelope, Members, Peer, ReplicaId, Role, entry_body};
use platform::Monotonic;

use super::frames::{self, Arriving, ClusterId, Standing, Welcome};
use super::member;
use super::name::NodeName;
use super::node::{Ask, Event, Shared, View, ViewedMember};
use super::outgoing::Outgoing;
use super::peers::{DataId, Epoch, Lane, PeerIdentity, SendRefused, SharedPeers};
use super::replica::{self, Replica};
use crate::broker::{Inner, StartError};
use crate::foundation::Foundation;

/// Between ticks of the group.
const TICK: Duration = Duration::from_millis(100);
/// What is asked for is asked for again after so long.
const AGAIN: Duration = Duration::from_secs(1);
/// A turn's steps become entries of about so many bytes.
const ENTRY_BYTES: usize = 512 << 10;
/// As many nodes vote; further ones follow.
const VOTERS_MAX: usize = 7;
/// A learner that lacks no more entries than these becomes a voter.
const CAUGHT_UP: u64 = 1_000;
/// Steps of other nodes that wait for a proposal, bytes: beyond that they have to come again.
const FORWARDED_BYTES_MAX: usize = 64 << 20;

/// Where committed steps go.
pub(super) enum Machine {
    /// The node starts: the broker is not there yet.
    Starting(State),
    /// The state is on its way into the broker.
    Between(VecDeque<Apply>),
    /// The broker has it.
    Broker(Weak<Inner>),
}

/// A node that is linked.
struct Linked {
    identity: PeerIdentity,
    standing: Standing,
}

/// What the thread has.
pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) foundation: Foundation,
    pub(super) data_dir: PathBuf,
    pub(super) peers: SharedPeers,
    /// How many addresses of nodes were configured; none for a node that waits to be told.
    seeds: usize,
    linked: BTreeMap<NodeName, Linked>,
    arriving: Arriving,
    /// Payloads for the recovery lane that wait for room.
    states: BTreeMap<NodeName, VecDeque<Bytes>>,
    member: Option<Welcome>,
    replica: Option<Replica>,
    machine: Machine,
    /// The members as of the latest applied step.
    nodes: BTreeMap<u16, (NodeName, DataId, u32, u64)>,
    nonce: u64,
    outgoing: Outgoing,
    forwarded: VecDeque<Bytes>,
    forwarded_bytes: usize,
    next_tick: Monotonic,
    next_ask: Monotonic,
    /// When to ask for votes after the leader's link ended.
    campaign_at: Option<Monotonic>,
    refusal: Option<String>,
}

impl Driver {
    /// Reads what the node is a member of, and its replica.
    pub(super) fn open(
        shared: Arc<Shared>,
        foundation: Foundation,
        data_dir: PathBuf,
        peers: SharedPeers,
        seeds: usize,
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
            seeds,
            linked: BTreeMap::new(),
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
        };
        if let Some(member) = member::read(&*driver.foundation.disk, &driver.data_dir)? {
            let (replica, state) = replica::recover(&driver, &member)?;
            driver.machine = Machine::Starting(state);
            driver.become_member(member, replica);
        }
        Ok(driver)
    }

    fn become_member(&mut self, member: Welcome, replica: Replica) {
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
    }

    fn nodes_of(&mut self, rows: &[metadata::NumberedNode]) {
        let named = |row: &metadata::NumberedNode| {
            let name = NodeName::new(&row.row.name).ok()?;
            Some((row.number, (name, DataId(row.row.data_id), row.row.life, row.row.nonce)))
        };
        if !rows.is_empty() {
            self.nodes = rows.iter().filter_map(named).collect();
        }
    }

    /// Works until it is told to stop.
    pub(super) fn run(mut self) {
        loop {
            let wait = Duration::from_nanos(self.next_tick.0.saturating_sub(self.now().0));
            let Some(events) = self.shared.next(wait) else { break };
            for event in events {
                self.handle(event);
            }
            self.tick();
            self.turn();
        }
        if let Some(replica) = &self.replica
            && let Err(error) = replica.log.close()
        {
            tracing::error!(%error, "the log of the metadata group could not be closed");
        }
    }

    fn now(&self) -> Monotonic {
        self.foundation.clock.now()
    }

    fn own(&self) -> u16 {
        self.member.as_ref().map_or(0, |member| member.number)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Up(identity) => self.up(identity),
            Event::Down(name) => self.down(&name),
            Event::Frame(from, epoch, lane, kind, payload) => self.frame(&from, epoch, lane, kind, payload),
            Event::Drained(name) => self.pump_state(&name),
            Event::Durable => {}
            Event::Propose(entry, told) => self.outgoing.add(entry, told, self.foundation.clock.now()),
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
            }
        }
    }

    // --- Links.

    fn up(&mut self, identity: PeerIdentity) {
        let name = identity.name.clone();
        self.arriving.forget(&name);
        self.states.remove(&name);
        self.linked.insert(name.clone(), Linked { identity, standing: Standing::default() });
        self.send(&name, Lane::Control, frames::STANDING, self.standing().encode());
        if let (Some(number), Some(replica)) = (self.number_of(&name), &mut self.replica) {
            replica.group.unreachable(ReplicaId(number.into()));
        }
        self.outgoing.send_again();
    }

    fn down(&mut self, name: &NodeName) {
        self.linked.remove(name);
        self.arriving.forget(name);
        let was_sent_state = self.states.remove(name).is_some();
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
        self.nodes.iter().filter(|(number, node)| **number < own && self.linked.contains_key(&node.0)).count()
    }

    fn number_of(&self, name: &NodeName) -> Option<u16> {
        self.nodes.iter().find(|(_, node)| node.0 == *name).map(|(number, _)| *number)
    }

    fn send(&self, to: &NodeName, lane: Lane, kind: u8, payload: Bytes) -> bool {
        self.peers.send(to, lane, kind, payload).is_ok()
    }

    /// Sends a message in pieces; false when some of it was not taken.
    fn send_whole(&self, to: &NodeName, lane: Lane, kind: u8, message: Bytes) -> bool {
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
            frames::STANDING => Standing::decode(payload).map(|standing| self.heard_standing(from, standing)),
            frames::JOIN => {
                self.asked_to_join(from);
                Some(())
            }
            frames::WELCOME => Welcome::decode(payload).map(|welcome| self.welcomed(welcome)),
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

    // --- Formation and membership.

    fn standing(&self) -> Standing {
        let member = self.member.as_ref().map(|member| (member.cluster, member.number));
        let is_waiting = member.is_none() && self.refusal.is_none() && self.seeds > 0;
        Standing { member, is_waiting }
    }

    fn tell_standing(&self) {
        let standing = self.standing().encode();
        for name in self.linked.keys() {
            self.send(name, Lane::Control, frames::STANDING, standing.clone());
        }
    }

    fn heard_standing(&mut self, from: &NodeName, standing: Standing) {
        if let Some(linked) = self.linked.get_mut(from) {
            linked.standing = standing;
        }
        let (Some(own), Some((cluster, number))) = (&self.member, standing.member) else { return };
        if own.cluster != cluster {
            tracing::warn!(node = %from, "the node is a member of another cluster; it takes no part in this one");
            return;
        }
        let is_member = self.is_member(from, number);
        if !is_member && self.replica.as_ref().is_some_and(Replica::knows_all) {
            let text = format!(
                "node {from} is no member of the cluster: it was forgotten, or its data are not those of the member"
            );
            self.send(from, Lane::Control, frames::REFUSED, text.into());
        }
    }

    fn is_member(&self, name: &NodeName, number: u16) -> bool {
        let data = self.linked.get(name).map(|linked| linked.identity.data_id);
        self.nodes.get(&number).is_some_and(|node| node.0 == *name && Some(node.1) == data)
    }

    /// Forms a cluster when it is this node's turn, or asks those that have one.
    fn find_a_cluster(&mut self) {
        if self.member.is_some() || self.refusal.is_some() || self.seeds == 0 {
            return;
        }
        let members: Vec<_> = self
            .linked
            .iter()
            .filter(|(_, it)| it.standing.member.is_some())
            .map(|(name, _)| name.clone())
            .collect();
        for name in &members {
            self.send(name, Lane::Control, frames::JOIN, Bytes::new());
        }
        let own = &self.peers.own().name;
        let are_all_here = self.linked.len() + 1 >= self.seeds;
        let is_first = self.linked.keys().all(|name| own < name);
        let wait = |linked: &Linked| linked.standing.is_waiting;
        if members.is_empty() && are_all_here && is_first && self.linked.values().all(wait) {
            self.form();
        }
    }

    fn form(&mut self) {
        let own = self.peers.own().clone();
        let mut id = [0; 16];
        self.foundation.random.fill(&mut id);
        let members = vec![(FIRST_NODE, own.name.clone(), own.data_id)];
        let welcome = Welcome { cluster: ClusterId(id), number: FIRST_NODE, members };
        let formed = replica::form(self, &welcome).and_then(|formed| {
            member::write(&*self.foundation.disk, &self.data_dir, &welcome)?;
            Ok(formed)
        });
        match formed {
            Ok((replica, state)) => {
                tracing::info!(node = %own.name, "this node has formed a cluster");
                self.machine = Machine::Starting(state);
                self.become_member(welcome, replica);
                self.tell_standing();
            }
            Err(error) => self.fail(format!("the cluster cannot be formed: {error}")),
        }
    }

    /// The leader gives a newcomer its number.
    fn asked_to_join(&mut self, from: &NodeName) {
        let Some(data_id) = self.linked.get(from).map(|linked| linked.identity.data_id) else { return };
        if !self.replica.as_ref().is_some_and(Replica::leads) {
            return;
        }
        match self.number_of(from) {
            None => {
                let add = AddNode { name: from.as_str().into(), data_id: data_id.0 };
                self.propose_step(&ClusterStep::AddNode(add));
            }
            Some(number) if self.nodes[&number].1 == data_id => {
                let member = self.member.as_ref().expect("who leads is a member");
                let members =
                    self.nodes.iter().map(|(number, node)| (*number, node.0.clone(), node.1)).collect();
                let welcome = Welcome { cluster: member.cluster, number, members };
                self.send(from, Lane::Control, frames::WELCOME, welcome.encode());
            }
            Some(_) => {
                let text = format!(
                    "node {from} is a member of the cluster with other data: if its disk was lost, run `forget_cluster_node {from}` on another node first"
                );
                self.send(from, Lane::Control, frames::REFUSED, text.into());
            }
        }
    }

    fn welcomed(&mut self, welcome: Welcome) {
        if self.member.is_some() {
            return;
        }
        let begun = replica::begin_empty(self, &welcome).and_then(|replica| {
            member::write(&*self.foundation.disk, &self.data_dir, &welcome)?;
            Ok(replica)
        });
        match begun {
            Ok(replica) => {
                tracing::info!(number = welcome.number, "this node joins a cluster");
                self.become_member(welcome, replica);
                self.tell_standing();
            }
            Err(error) => self.fail(error.to_string()),
        }
    }

    fn refused(&mut self, from: &NodeName, text: &str) {
        tracing::error!(node = %from, "the cluster refuses this node: {text}");
        self.fail(text.to_owned());
    }

    fn fail(&mut self, text: String) {
        self.shared.fail(&text);
        self.refusal = Some(text);
        if self.member.is_some() {
            self.replica = None;
        }
    }

    fn ask(&mut self, ask: Ask) -> Result<(), String> {
        match ask {
            Ask::Forget(name) => {
                let number =
                    self.number_of(&name).ok_or_else(|| format!("{name} is no member of the cluster"))?;
                if self.linked.contains_key(&name) {
                    return Err(format!("node {name} is running; stop it first"));
                }
                if number == self.own() {
                    return Err("a node cannot forget itself".into());
                }
                self.propose_or_forward(&ClusterStep::ForgetNode(metadata::ForgetNode { node: number }));
                Ok(())
            }
        }
    }

    // --- Time.

    fn tick(&mut self) {
        let now = self.now();
        if now < self.next_tick {
            return;
        }
        self.next_tick = Monotonic(now.0 + TICK.as_nanos() as u64);
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
        if now >= self.next_ask {
            self.next_ask = Monotonic(now.0 + AGAIN.as_nanos() as u64);
            self.find_a_cluster();
            self.begin_life();
        }
        let names: Vec<_> = self.states.keys().cloned().collect();
        names.iter().for_each(|name| self.pump_state(name));
        if let Some(replica) = &mut self.replica {
            replica.keep_short();
        }
        self.shared.fars.pump();
    }

    /// Asks for a life until it has one.
    fn begin_life(&mut self) {
        let (Some(member), None) = (&self.member, self.shared.life()) else { return };
        let data_id = self.peers.own().data_id.0;
        let begin = BeginLife { node: member.number, data_id, nonce: self.nonce };
        self.propose_or_forward(&ClusterStep::BeginLife(begin));
    }

    /// The leader makes the group's members those that the state names: one change at a time, the rest with the next ticks.
    fn keep_members(&mut self) {
        let own = self.own();
        let Some(replica) = self.replica.as_mut().filter(|replica| replica.leads()) else { return };
        let members = replica.group.members().clone();
        let of = |number: u16| ReplicaId(number.into());
        let known = |id: &ReplicaId| self.nodes.keys().any(|number| of(*number) == *id);
        let peers = replica.group.peers();
        let commit = replica.group.status().commit;
        let caught_up = |id: &&ReplicaId| {
            let is_ready = |peer: &Peer| peer.is_active && !peer.wants_state && peer.matched > 0;
            peers
                .iter()
                .any(|peer| peer.replica == **id && is_ready(peer) && peer.matched + CAUGHT_UP >= commit)
        };
        let gone = members.voters.iter().chain(&members.learners).find(|id| !known(id) && **id != of(own));
        let new = self.nodes.keys().map(|number| of(*number)).find(|id| !members.contains(*id));
        let ready = members.learners.iter().find(caught_up).filter(|_| members.voters.len() < VOTERS_MAX);
        let change = match (gone, new, ready) {
            (Some(gone), ..) => Change::Remove(*gone),
            (_, _, Some(ready)) => Change::AddVoter(*ready),
            (_, Some(new), _) => Change::AddLearner(new),
            _ => return,
        };
        if let Err(refused) = replica.group.change_members(&[change]) {
            tracing::debug!(%refused, "a change of the cluster's members has to wait");
        }
    }

    // --- Proposals.

    fn propose_step(&mut self, step: &ClusterStep) {
        let mut bytes = Vec::new();
        step.encode(&mut bytes);
        self.take_forwarded(bytes.into());
    }

    fn propose_or_forward(&mut self, step: &ClusterStep) {
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

    /// Proposes what waits, or sends it to who leads.
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

    // --- The group.

    fn turn(&mut self) {
        self.propose();
        let Some(replica) = &mut self.replica else { return self.publish_view() };
        replica.group.durable(replica.log.durable());
        let Effects { send, apply, wants_state } = replica.group.run(&replica.log);
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
        let name = self.name_of(to).filter(|name| self.linked.contains_key(name));
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

    /// The machine's state, which has applied all that the group has handed out.
    fn capture(&self) -> Option<Bytes> {
        let mut bytes = Vec::new();
        match &self.machine {
            Machine::Starting(state) => state.encode_snapshot(&mut bytes),
            Machine::Between(_) => return None,
            Machine::Broker(inner) => inner.upgrade()?.writer.lock().state.encode_snapshot(&mut bytes),
        }
        Some(bytes.into())
    }

    fn checkpoint_if_due(&mut self) {
        if self.replica.as_ref().is_some_and(|replica| replica.is_checkpoint_due())
            && let Some(state) = self.capture()
            && let Some(replica) = &mut self.replica
        {
            replica.checkpoint(&state);
        }
    }

    fn apply(&mut self, all: Vec<Apply>) {
        if let Machine::Between(waiting) = &mut self.machine {
            return waiting.extend(all);
        }
        let mut steps = Vec::new();
        for apply in all {
            match apply {
                Apply::Entry { index, body, .. } => match ClusterStep::decode_all(&body) {
                    Ok(more) => steps.extend(more),
                    Err(error) => {
                        return self.fail(format!("entry {index} of the metadata cannot be read: {error}"));
                    }
                },
                Apply::State { state, .. } => {
                    self.apply_steps(std::mem::take(&mut steps));
                    self.replace(&state);
                }
            }
        }
        self.apply_steps(steps);
    }

    fn apply_steps(&mut self, steps: Vec<ClusterStep>) {
        if steps.is_empty() {
            return;
        }
        let own = (self.own(), self.shared.life().unwrap_or(0));
        let changes_nodes = steps.iter().any(|step| !matches!(step, ClusterStep::Proposed(_)));
        match &mut self.machine {
            Machine::Starting(state) => {
                let mut ignored = metadata::Applied::default();
                for step in &steps {
                    state.step(step, &mut ignored);
                    ignored.clear();
                }
                let rows = rows(state);
                self.nodes_of(&rows);
            }
            Machine::Broker(inner) => {
                let Some(inner) = inner.upgrade() else { return };
                let outgoing = &mut self.outgoing;
                let steps = steps.into_iter().map(|step| {
                    let told = outgoing.answered(&step, own);
                    (step, told)
                });
                inner.follow_steps(steps.collect(), own.0);
                if changes_nodes {
                    let rows = rows(&inner.writer.lock().state);
                    self.nodes_of(&rows);
                }
            }
            Machine::Between(_) => {}
        }
        if changes_nodes {
            self.note_life();
        }
    }

    /// The life that this process was given, once.
    fn note_life(&mut self) {
        let own = self.own();
        let begun = self.nodes.get(&own).filter(|(.., life, nonce)| *nonce == self.nonce && *life > 0);
        if let Some((.., life, _)) = begun {
            self.shared.begin_life(own, *life);
        }
    }

    /// Another state takes the place of this one.
    fn replace(&mut self, bytes: &Bytes) {
        if bytes.is_empty() {
            return;
        }
        let state = match State::decode_snapshot(bytes) {
            Ok(state) => state,
            Err(error) => return self.fail(format!("a state of the metadata cannot be read: {error}")),
        };
        let rows = rows(&state);
        match &mut self.machine {
            Machine::Starting(old) => *old = state,
            Machine::Broker(inner) => {
                if let Some(inner) = inner.upgrade() {
                    let own =
                        (self.member.as_ref().map_or(0, |it| it.number), self.shared.life().unwrap_or(0));
                    let answered =
                        state.node(own.0).filter(|row| row.life == own.1).map_or(0, |row| row.answered);
                    inner.replace_state(state);
                    self.outgoing.passed(answered, &inner);
                }
            }
            Machine::Between(_) => {}
        }
        self.nodes_of(&rows);
        self.note_life();
    }

    fn publish_view(&mut self) {
        let status = self.replica.as_ref().map(|replica| replica.group.status());
        let members =
            self.replica.as_ref().map(|replica| replica.group.members().clone()).unwrap_or_default();
        let own = self.own();
        let viewed = |(number, node): (&u16, &(NodeName, DataId, u32, u64))| ViewedMember {
            number: *number,
            name: node.0.clone(),
            is_up: *number == own || self.linked.contains_key(&node.0),
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

/// The members of a state.
pub(super) fn rows(state: &State) -> Vec<metadata::NumberedNode> {
    state.nodes().map(|(number, row)| metadata::NumberedNode { number, row: row.clone() }).collect()
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
