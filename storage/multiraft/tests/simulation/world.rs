//! Nodes, their disks and the net between them, on one thread and from a seed. Decides what happens when; judges nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use bytes::Bytes;
use multiraft::{
    Apply, Body, Effects, Envelope, Group, Head, Members, Message, RaftRs, Refused, ReplicaId, Settings,
    entry_body,
};
use platform::SeededRandom;

use super::disk::{Disk, Planted};
use super::machine::{List, command_of};
use super::oracle::{Events, Oracle};

pub(crate) const NODES: usize = 5;
const TICK_MS: u64 = 100;

/// A replica of a group on a node.
pub(crate) struct Replica {
    pub(crate) group: Group<RaftRs>,
    pub(crate) list: List,
    /// Proposals that wait: index and term to command.
    pub(crate) proposed: HashMap<(u64, u64), u64>,
}

#[derive(Default)]
pub(crate) struct Node {
    pub(crate) disk: Disk,
    /// By group. Empty while the node is down.
    pub(crate) replicas: BTreeMap<u64, Replica>,
    /// Which replica of each group has its records here.
    pub(crate) ids: BTreeMap<u64, ReplicaId>,
    /// Groups whose replica is made at the next start.
    pub(crate) awaited: BTreeMap<u64, Members>,
    /// Groups that ever had a replica here.
    pub(crate) had: BTreeSet<u64>,
    /// A group with a damaged record.
    pub(crate) rotten: Option<u64>,
    pub(crate) is_up: bool,
    /// Counts starts: events of an earlier life are void.
    pub(crate) life: u64,
    tick_ms: u64,
    is_syncing: bool,
    created: u64,
}

pub(crate) enum Event {
    Deliver { to: usize, group: u64, message: Message, bodies: Vec<Bytes> },
    Tick { node: usize, life: u64 },
    Synced { node: usize, life: u64, up_to: commitlog::Position },
    Start { node: usize },
    Client,
    Trouble,
}

/// Everything, at one moment.
pub(crate) struct World {
    pub(crate) random: SeededRandom,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    pub(crate) nodes: Vec<Node>,
    /// Directions in which nothing passes.
    pub(crate) cut: BTreeSet<(usize, usize)>,
    loss_percent: u64,
    pub(crate) is_calm: bool,
    pub(crate) planted: Planted,
    pub(crate) next_command: u64,
    /// As many groups have ever begun.
    pub(crate) groups: u64,
    pub(crate) oracles: BTreeMap<u64, Oracle>,
    /// Of groups that are no more.
    pub(crate) ended: Vec<Oracle>,
    events_noted: Events,
    /// Of all that happened: two runs of a seed have the same.
    pub(crate) fingerprint: u64,
}

impl World {
    pub(crate) fn new(seed: u64, planted: Planted) -> Self {
        let random = SeededRandom::new(seed);
        let mut world = Self {
            now: 0,
            events: BTreeMap::new(),
            scheduled: 0,
            nodes: (0..NODES).map(|_| Node::default()).collect(),
            cut: BTreeSet::new(),
            loss_percent: random.below(8),
            is_calm: false,
            planted,
            next_command: 1,
            groups: 0,
            oracles: BTreeMap::new(),
            ended: Vec::new(),
            events_noted: Events::new(),
            fingerprint: 0,
            random,
        };
        for node in 0..NODES {
            world.begin_life(node);
        }
        let voters = [1, 2, 3, 3, 3, 4, 5][world.pick(7)];
        for _ in 0..1 + world.random.below(2) {
            world.begin_group(0, voters);
        }
        world.at(1, Event::Client);
        world.at(500, Event::Trouble);
        world
    }

    /// Something happened that histories are for.
    pub(crate) fn note(&mut self, event: &'static str) {
        *self.events_noted.entry(event).or_default() += 1;
    }

    /// The events so far, and their counts.
    pub(crate) fn noted(&self) -> Events {
        let mut all = self.events_noted.clone();
        for oracle in self.all_oracles() {
            for (event, count) in &oracle.events {
                *all.entry(event).or_default() += count;
            }
        }
        all
    }

    pub(crate) fn all_oracles(&self) -> impl Iterator<Item = &Oracle> {
        self.oracles.values().chain(&self.ended)
    }

    pub(crate) fn pick(&self, count: usize) -> usize {
        usize::try_from(self.random.below(count as u64)).expect("a small number")
    }

    pub(crate) fn new_id(&mut self, node: usize, group: u64) -> ReplicaId {
        self.nodes[node].created += 1;
        let id = ReplicaId((node as u64 + 1) * 1000 + self.nodes[node].created);
        self.nodes[node].ids.insert(group, id);
        id
    }

    pub(crate) fn put(&mut self, node: usize, group: u64, replica: Group<RaftRs>, list: List) {
        let replica = Replica { group: replica, list, proposed: HashMap::new() };
        self.nodes[node].replicas.insert(group, replica);
        // A replica exists once its first record is durable.
        let Node { disk, replicas, .. } = &mut self.nodes[node];
        disk.sync(disk.end());
        for replica in replicas.values_mut() {
            replica.group.durable(disk.end());
        }
    }

    pub(crate) fn at(&mut self, after_ms: u64, event: Event) {
        self.scheduled += 1;
        self.events.insert((self.now + after_ms, self.scheduled), event);
    }

    /// Lets things happen for so long.
    pub(crate) fn run_for(&mut self, ms: u64) {
        let end = self.now + ms;
        while let Some(((time, number), event)) = self.events.pop_first() {
            if time > end {
                self.events.insert((time, number), event);
                break;
            }
            self.now = time;
            self.happen(event);
        }
        self.now = end;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Deliver { to, group, message, bodies } => self.deliver(to, group, message, bodies),
            Event::Tick { node, life } if self.nodes[node].life == life => {
                for group in self.groups_on(node) {
                    if let Some(replica) = self.replica(node, group) {
                        replica.group.tick();
                    }
                    self.turn(node, group);
                }
                let tick = self.nodes[node].tick_ms;
                self.at(tick, Event::Tick { node, life });
            }
            Event::Synced { node, life, up_to } if self.nodes[node].life == life => {
                self.nodes[node].is_syncing = false;
                self.nodes[node].disk.sync(up_to);
                for group in self.groups_on(node) {
                    if let Some(replica) = self.replica(node, group) {
                        replica.group.durable(up_to);
                    }
                    self.turn(node, group);
                }
                self.look_after_disk(node);
            }
            Event::Tick { .. } | Event::Synced { .. } => {}
            Event::Start { node } => self.start(node),
            Event::Client => {
                self.propose();
                let pause = if self.is_calm { 50 } else { self.random.below(30) };
                self.at(1 + pause, Event::Client);
            }
            Event::Trouble => {
                if self.is_calm {
                    self.replace_lost();
                } else {
                    self.trouble();
                }
                let pause = self.random.below(400);
                self.at(1 + pause, Event::Trouble);
            }
        }
    }

    pub(crate) fn groups_on(&self, node: usize) -> Vec<u64> {
        self.nodes[node].replicas.keys().copied().collect()
    }

    pub(crate) fn replica(&mut self, node: usize, group: u64) -> Option<&mut Replica> {
        self.nodes[node].replicas.get_mut(&group)
    }

    fn deliver(&mut self, to: usize, group: u64, message: Message, bodies: Vec<Bytes>) {
        let Some(replica) = self.replica(to, group) else { return };
        match replica.group.step(message, bodies) {
            // The message was for an earlier replica of this node.
            Ok(()) | Err(Refused::BadMessage("it is for another replica")) => {}
            Err(refused) => panic!("a message was refused: {refused}"),
        }
        // Sometimes several messages make one turn.
        if self.is_calm || !self.random.chance(1, 4) {
            self.turn(to, group);
        }
    }

    /// Runs a group and does what it wants.
    pub(crate) fn turn(&mut self, node: usize, group: u64) {
        let Node { disk, replicas, ids, .. } = &mut self.nodes[node];
        let Some(replica) = replicas.get_mut(&group) else { return };
        let Effects { send, apply, wants_state } = replica.group.run(disk);
        let oracle = self.oracles.get_mut(&group).expect("a known group");
        let id = *ids.get(&group).expect("a replica has an id");
        let term = replica.group.status().term;
        for step in apply {
            apply_one(replica, oracle, step, term);
        }
        oracle.look_at(id, &replica.group);
        self.fingerprint =
            (self.fingerprint ^ replica.list.digest() ^ term ^ self.now).rotate_left(7).wrapping_mul(31);
        let mut outgoing = send;
        for to in wants_state {
            let state = replica.list.capture();
            oracle.note("a state is captured");
            outgoing.extend(replica.group.install_message(to, state));
        }
        for envelope in outgoing {
            if self.nodes[node].is_up {
                self.send(node, envelope);
            }
        }
        self.look_after_disk(node);
    }

    fn send(&mut self, from: usize, Envelope { group, message, bodies }: Envelope) {
        let to = usize::try_from(message.to.0 / 1000 - 1).expect("a node");
        let heads = message.heads.clone();
        let whole = bodies.into_iter().enumerate().map(|(at, body)| self.body(from, body, heads.get(at)));
        let Some(whole) = whole.collect::<Option<Vec<Bytes>>>() else {
            self.note("an entry cannot be read for damage");
            return self.lose_disk(from);
        };
        let is_lost = self.cut.contains(&(from, to)) || self.random.below(100) < self.loss_percent;
        if is_lost && message.installed.is_some() {
            // A transport that carries states knows when that failed.
            let replica = self.replica(from, group).expect("it has just sent");
            replica.group.install_failed(message.to);
        }
        if is_lost {
            return;
        }
        for _ in 0..1 + u64::from(!self.is_calm && self.random.chance(1, 40)) {
            let delay = if self.random.chance(1, 30) { 400 } else { 20 };
            let delay = 1 + self.random.below(delay);
            let (message, bodies) = (message.clone(), whole.clone());
            self.at(delay, Event::Deliver { to, group, message, bodies });
        }
    }

    /// `None` for a body that is damaged.
    fn body(&self, node: usize, body: Body, head: Option<&Head>) -> Option<Bytes> {
        let place = match body {
            Body::Here(bytes) => return Some(bytes),
            Body::InLog(place) => place,
        };
        let disk = &self.nodes[node].disk;
        let rots = !self.is_calm && self.random.chance(1, 50) && self.may_lose(node);
        if rots {
            disk.damage_at(place);
        }
        let record = disk.read(place).expect("the log has what a group still needs");
        let read = entry_body(&record, *head.expect("a head for each body"));
        assert_eq!(read.is_err(), rots, "what is read is the entry, or damage");
        read.ok()
    }

    /// Begins a sync if there is something to sync.
    pub(crate) fn look_after_disk(&mut self, node: usize) {
        let Node { disk, is_syncing, life, .. } = &mut self.nodes[node];
        let (up_to, life) = (disk.end(), *life);
        if *is_syncing || disk.synced() == up_to {
            return;
        }
        *is_syncing = true;
        let slow = if !self.is_calm && self.random.chance(1, 30) { 600 } else { 15 };
        let delay = 1 + self.random.below(slow);
        self.at(delay, Event::Synced { node, life, up_to });
    }

    pub(crate) fn begin_life(&mut self, node: usize) {
        let tick_ms = TICK_MS - 20 + self.random.below(41);
        let Node { life, is_up, is_syncing, tick_ms: tick, .. } = &mut self.nodes[node];
        (*life, *is_up, *is_syncing, *tick) = (*life + 1, true, false, tick_ms);
        let life = *life;
        let first = 1 + self.random.below(tick_ms);
        self.at(first, Event::Tick { node, life });
        self.look_after_disk(node);
    }

    /// Log matching between all replicas.
    pub(crate) fn compare_logs(&self) {
        for group in self.oracles.keys() {
            let replicas: Vec<_> = self.nodes.iter().filter_map(|node| node.replicas.get(group)).collect();
            for (one, other) in pairs(0..replicas.len()) {
                Oracle::compare(&replicas[one].group, &replicas[other].group);
            }
        }
    }

    /// The knowledge of each node about a group, for a person who looks at a failure.
    fn describe(&self, group: u64) -> String {
        let mut text = String::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let Some(replica) = node.replicas.get(&group) else { continue };
            let (id, group) = (node.ids[&group], &replica.group);
            let known = (group.status(), group.applied(), group.members(), group.peers());
            text.push_str(&format!("node {number} replica {id}: {known:?}\n"));
        }
        text
    }

    /// Members whose disks are gone have to go.
    fn replace_lost(&mut self) {
        for group in self.oracles.keys().copied().collect::<Vec<_>>() {
            let oracle = &self.oracles[&group];
            if oracle.lost.iter().any(|lost| oracle.members.1.contains(*lost)) {
                self.change_members(group);
            }
        }
    }

    /// Faults end, nodes that are down start.
    pub(crate) fn calm_down(&mut self) {
        self.is_calm = true;
        self.cut.clear();
        self.loss_percent = 0;
    }

    /// After some time without faults: every group leads, has confirmed new commands, and all its members are equal and complete.
    pub(crate) fn check_whole(&mut self) {
        let before: BTreeMap<u64, usize> =
            self.oracles.iter().map(|(group, oracle)| (*group, oracle.confirmed.len())).collect();
        self.run_for(3000);
        for (group, oracle) in &self.oracles {
            let confirms = oracle.confirmed.len() > before[group];
            assert!(confirms, "group {group} confirms nothing\n{}", self.describe(*group));
        }
        // The last proposals get everywhere.
        self.events.retain(|_, event| !matches!(event, Event::Client));
        self.run_for(3000);
        self.remove_strangers();
        self.compare_logs();
        for (group, oracle) in &self.oracles {
            let members = &oracle.members.1;
            assert!(!members.is_joint(), "group {group} is stuck between members");
            let mut found = 0;
            for node in &self.nodes {
                let Some(replica) = node.replicas.get(group).filter(|_| members.contains(node.ids[group]))
                else {
                    continue;
                };
                found += 1;
                assert_eq!(
                    replica.group.applied().0,
                    oracle.members.0,
                    "group {group} has a member that is behind"
                );
                let list: BTreeSet<u64> = replica.list.commands().iter().copied().collect();
                assert_eq!(list.len(), replica.list.commands().len(), "a command was applied twice");
                assert!(oracle.confirmed.is_subset(&list), "a confirmed command is lost");
            }
            assert_eq!(
                found,
                members.voters.len() + members.learners.len(),
                "a member of group {group} is missing"
            );
        }
    }
}

fn apply_one(replica: &mut Replica, oracle: &mut Oracle, step: Apply, known_in: u64) {
    match step {
        Apply::Entry { index, term, body } => {
            let command = command_of(&body);
            replica.list.apply(command);
            oracle.applied(index, term, command, known_in);
            oracle.machine(index, &replica.list);
            if let Some(own) = replica.proposed.remove(&(index, term)) {
                assert_eq!(own, command, "another body has the place of a proposal");
                oracle.confirm(command);
            }
        }
        Apply::State { index, state, .. } => {
            replica.list = List::install(&state);
            oracle.machine(index, &replica.list);
            if index > 1 {
                oracle.note("a member catches up by a state");
            }
        }
    }
}

pub(crate) fn settings(group: u64, id: ReplicaId) -> Settings {
    Settings {
        uncommitted_bytes_max: 100_000,
        cache_bytes_max: 4000,
        install_ticks_max: 30,
        ..Settings::new(group, id)
    }
}

/// All ordered pairs of different numbers.
pub(crate) fn pairs(numbers: Range<usize>) -> Vec<(usize, usize)> {
    let all = numbers.clone().flat_map(|one| numbers.clone().map(move |other| (one, other)));
    all.filter(|(one, other)| one != other).collect()
}
