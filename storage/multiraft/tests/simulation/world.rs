//! Nodes, their disks and the net between them, on one thread and from a seed. Decides what happens when; judges nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use bytes::Bytes;
use multiraft::{
    Apply, Body, Change, Effects, Envelope, Group, Head, Members, Message, RaftRs, Recovery, Refused,
    ReplicaId, Role, Settings, entry_body,
};
use platform::SeededRandom;

use super::disk::{Disk, Planted};
use super::machine::{List, body_of, command_of};
use super::oracle::Oracle;

const NODES: usize = 5;
const TICK_MS: u64 = 100;

/// A replica of a group on a node.
struct Replica {
    group: Group<RaftRs>,
    list: List,
    /// Proposals that wait: index and term to command.
    proposed: HashMap<(u64, u64), u64>,
}

#[derive(Default)]
struct Node {
    disk: Disk,
    /// By group. Empty while the node is down.
    replicas: BTreeMap<u64, Replica>,
    /// Which replica of each group has its records here.
    ids: BTreeMap<u64, ReplicaId>,
    is_up: bool,
    /// Counts starts: events of an earlier life are void.
    life: u64,
    tick_ms: u64,
    is_syncing: bool,
    created: u64,
}

enum Event {
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
    nodes: Vec<Node>,
    /// Directions in which nothing passes.
    cut: BTreeSet<(usize, usize)>,
    loss_percent: u64,
    is_calm: bool,
    planted: Planted,
    next_command: u64,
    pub(crate) oracles: BTreeMap<u64, Oracle>,
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
            oracles: BTreeMap::new(),
            fingerprint: 0,
            random,
        };
        let voters = [1, 2, 3, 3, 3, 4, 5][world.pick(7)];
        for group in 1..=1 + world.random.below(2) {
            let ids: Vec<ReplicaId> = (0..voters).map(|node| world.new_id(node, group)).collect();
            world.oracles.entry(group).or_default().ever.extend(&ids);
            for (node, id) in ids.iter().enumerate() {
                let created = Group::create(
                    settings(group, *id),
                    Members::of(&ids),
                    &Bytes::new(),
                    &world.nodes[node].disk,
                );
                world.put(node, group, created.expect("a group begins"), List::default());
            }
        }
        for node in 0..NODES {
            world.begin_life(node);
        }
        world.at(1, Event::Client);
        world.at(500, Event::Trouble);
        world
    }

    fn pick(&self, count: usize) -> usize {
        usize::try_from(self.random.below(count as u64)).expect("a small number")
    }

    fn new_id(&mut self, node: usize, group: u64) -> ReplicaId {
        self.nodes[node].created += 1;
        let id = ReplicaId((node as u64 + 1) * 1000 + self.nodes[node].created);
        self.nodes[node].ids.insert(group, id);
        id
    }

    fn put(&mut self, node: usize, group: u64, replica: Group<RaftRs>, list: List) {
        let replica = Replica { group: replica, list, proposed: HashMap::new() };
        self.nodes[node].replicas.insert(group, replica);
        // A replica exists once its first record is durable.
        let Node { disk, replicas, .. } = &mut self.nodes[node];
        disk.sync(disk.end());
        for replica in replicas.values_mut() {
            replica.group.durable(disk.end());
        }
    }

    fn at(&mut self, after_ms: u64, event: Event) {
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
                    self.replica(node, group).expect("it is up").group.tick();
                    self.turn(node, group);
                }
                let tick = self.nodes[node].tick_ms;
                self.at(tick, Event::Tick { node, life });
            }
            Event::Synced { node, life, up_to } if self.nodes[node].life == life => {
                self.nodes[node].is_syncing = false;
                self.nodes[node].disk.sync(up_to);
                for group in self.groups_on(node) {
                    self.replica(node, group).expect("it is up").group.durable(up_to);
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
                if !self.is_calm {
                    self.trouble();
                }
                let pause = self.random.below(400);
                self.at(1 + pause, Event::Trouble);
            }
        }
    }

    fn groups_on(&self, node: usize) -> Vec<u64> {
        self.nodes[node].replicas.keys().copied().collect()
    }

    fn replica(&mut self, node: usize, group: u64) -> Option<&mut Replica> {
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
    fn turn(&mut self, node: usize, group: u64) {
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
            oracle.installs += 1;
            outgoing.extend(replica.group.install_message(to, state));
        }
        for envelope in outgoing {
            self.send(node, envelope);
        }
        self.look_after_disk(node);
    }

    fn send(&mut self, from: usize, Envelope { group, message, bodies }: Envelope) {
        let to = usize::try_from(message.to.0 / 1000 - 1).expect("a node");
        let heads = message.heads.clone();
        let whole = bodies.into_iter().enumerate().map(|(at, body)| self.body(from, body, heads.get(at)));
        let whole: Vec<Bytes> = whole.collect();
        let is_lost = self.cut.contains(&(from, to)) || self.random.below(100) < self.loss_percent;
        if is_lost && message.installed.is_some() {
            // Whoever carries states knows when that failed.
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

    fn body(&self, node: usize, body: Body, head: Option<&Head>) -> Bytes {
        match body {
            Body::Here(bytes) => bytes,
            Body::InLog(place) => {
                let record = self.nodes[node].disk.read(place).expect("the log has what a group still needs");
                entry_body(&record, *head.expect("a head for each body")).expect("it is the entry")
            }
        }
    }

    /// Begins a sync if there is something to sync.
    fn look_after_disk(&mut self, node: usize) {
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

    fn begin_life(&mut self, node: usize) {
        let tick_ms = TICK_MS - 20 + self.random.below(41);
        let Node { life, is_up, is_syncing, tick_ms: tick, .. } = &mut self.nodes[node];
        (*life, *is_up, *is_syncing, *tick) = (*life + 1, true, false, tick_ms);
        let life = *life;
        let first = 1 + self.random.below(tick_ms);
        self.at(first, Event::Tick { node, life });
        self.look_after_disk(node);
    }

    fn crash(&mut self, node: usize) {
        let Node { disk, replicas, is_up, life, .. } = &mut self.nodes[node];
        if !*is_up {
            return;
        }
        replicas.clear();
        *is_up = false;
        *life += 1;
        disk.crash(&self.random, self.planted);
        let pause = if self.random.chance(1, 3) { 6000 } else { 400 };
        let pause = self.random.below(pause);
        self.at(pause, Event::Start { node });
    }

    fn start(&mut self, node: usize) {
        for (group, id) in self.nodes[node].ids.clone() {
            let mut recovery = Recovery::<RaftRs>::new(settings(group, id));
            let mut list = List::default();
            let records = self.nodes[node].disk.records(group);
            let mut applied = Vec::new();
            for record in records {
                recovery.record(record.end, record.kind, &record.payload).expect("records are whole");
                applied.extend(recovery.take_apply());
            }
            let finished = recovery.finish().expect("records are those of a replica");
            for step in applied {
                match step {
                    Apply::Entry { body, .. } => list.apply(command_of(&body)),
                    Apply::State { state, .. } => list = List::install(&state),
                }
            }
            let oracle = self.oracles.get_mut(&group).expect("a known group");
            oracle.machine(finished.applied().0, &list);
            self.put(node, group, finished, list);
        }
        self.begin_life(node);
    }

    fn propose(&mut self) {
        let group = 1 + self.random.below(self.oracles.len() as u64);
        let leader = if self.is_calm { self.leader(group) } else { None };
        let node = leader.unwrap_or_else(|| self.pick(NODES));
        let size = if self.random.chance(1, 20) { 20_000 } else { 40 };
        let count = 1 + self.random.below(4);
        for _ in 0..count {
            let (command, body) = (self.next_command, body_of(self.next_command, self.random.below(size)));
            let Some(replica) = self.replica(node, group) else { return };
            match replica.group.propose(body) {
                Ok(place) => {
                    replica.proposed.insert(place, command);
                    self.next_command += 1;
                }
                Err(Refused::NotLeader { .. } | Refused::HandingOver(_) | Refused::Full(_)) => {}
                Err(refused) => panic!("a proposal was refused: {refused}"),
            }
        }
        self.turn(node, group);
    }

    /// Something goes wrong, or an operator does something.
    fn trouble(&mut self) {
        let node = self.pick(NODES);
        let group = 1 + self.random.below(self.oracles.len() as u64);
        match self.random.below(20) {
            0..4 => self.crash(node),
            4 => (0..NODES).for_each(|node| self.crash(node)),
            5..8 => self.cut_links(),
            8..10 => self.cut.clear(),
            10..14 => self.change_members(group),
            14 => self.hand_over(group),
            15 => {
                if let Some(replica) = self.replica(node, group) {
                    replica.group.forget_leader();
                    replica.group.campaign();
                    self.turn(node, group);
                }
            }
            16 => self.reset_link(node),
            _ => self.checkpoint(node),
        }
        self.remove_strangers();
    }

    fn cut_links(&mut self) {
        self.cut.clear();
        if self.random.chance(1, 2) {
            // Two parts.
            let split: Vec<bool> = (0..NODES).map(|_| self.random.chance(1, 2)).collect();
            for (from, to) in pairs(0..NODES) {
                if split[from] != split[to] {
                    self.cut.insert((from, to));
                }
            }
        } else {
            // Some directions.
            for (from, to) in pairs(0..NODES) {
                if self.random.chance(1, 4) {
                    self.cut.insert((from, to));
                }
            }
        }
    }

    fn reset_link(&mut self, node: usize) {
        for group in self.groups_on(node) {
            let replica = self.replica(node, group).expect("it is there");
            for peer in replica.group.peers() {
                replica.group.unreachable(peer.replica);
            }
            self.turn(node, group);
        }
    }

    fn leader(&mut self, group: u64) -> Option<usize> {
        let leads = |node: &usize| {
            let replica = self.nodes[*node].replicas.get(&group);
            replica.is_some_and(|replica| replica.group.status().role == Role::Leader)
        };
        let all: Vec<usize> = (0..NODES).filter(leads).collect();
        (!all.is_empty()).then(|| all[self.pick(all.len())])
    }

    fn hand_over(&mut self, group: u64) {
        let Some(node) = self.leader(group) else { return };
        let replica = self.nodes[node].replicas.get_mut(&group).expect("it leads");
        let voters = replica.group.members().voters.clone();
        if !voters.is_empty() {
            let to = voters[usize::try_from(self.random.below(voters.len() as u64)).expect("few")];
            replica.group.transfer(to);
            self.turn(node, group);
        }
    }

    fn change_members(&mut self, group: u64) {
        let Some(node) = self.leader(group) else { return };
        let other = self.pick(NODES);
        let members = self.nodes[node].replicas[&group].group.members().clone();
        let Some(id) = self.id_on(other, group) else { return };
        let peers = self.nodes[node].replicas[&group].group.peers();
        let is_near = |id| {
            members.learners.contains(&id) && peers.iter().any(|peer| peer.replica == id && peer.matched > 0)
        };
        let mut changes = Vec::new();
        if members.learners.contains(&id) {
            changes.push(if is_near(id) { Change::AddVoter(id) } else { Change::Remove(id) });
        } else if members.voters.contains(&id) {
            let demote = self.random.chance(1, 3);
            changes.push(if demote { Change::AddLearner(id) } else { Change::Remove(id) });
        } else {
            changes.push(Change::AddLearner(id));
        }
        if self.random.chance(1, 2)
            && let Some(second) =
                peers.iter().map(|peer| peer.replica).find(|peer| *peer != id && is_near(*peer))
        {
            changes.push(Change::AddVoter(second));
        }
        let replica = self.nodes[node].replicas.get_mut(&group).expect("it leads");
        match replica.group.change_members(&changes) {
            Ok(_)
            | Err(Refused::ChangeInProgress | Refused::HandingOver(_) | Refused::ImpossibleChange(_)) => {}
            Err(refused) => panic!("a change of members was refused: {refused}"),
        }
        self.turn(node, group);
    }

    /// The replica on a node, a new one if there is none.
    fn id_on(&mut self, node: usize, group: u64) -> Option<ReplicaId> {
        if let Some(id) = self.nodes[node].ids.get(&group) {
            // What was removed never comes back under its old id.
            let oracle = &self.oracles[&group];
            return (!oracle.ever.contains(id) || oracle.members.1.contains(*id)).then_some(*id);
        }
        if !self.nodes[node].is_up {
            return None;
        }
        let id = self.new_id(node, group);
        let empty = Group::create_empty(settings(group, id), &self.nodes[node].disk).expect("the log works");
        self.put(node, group, empty, List::default());
        Some(id)
    }

    /// Replicas that were members and are not any more go, as soon as the group says so.
    fn remove_strangers(&mut self) {
        for node in &mut self.nodes {
            for (group, oracle) in &self.oracles {
                let Some(id) = node.ids.get(group) else { continue };
                let is_settled = oracle.settled.0 > 0 && !oracle.settled.1.contains(*id);
                if is_settled && oracle.ever.contains(id) && !oracle.members.1.contains(*id) {
                    node.replicas.remove(group);
                    node.ids.remove(group);
                }
            }
        }
    }

    fn checkpoint(&mut self, node: usize) {
        for group in self.groups_on(node) {
            self.turn(node, group);
            let Node { disk, replicas, .. } = &mut self.nodes[node];
            let replica = replicas.get_mut(&group).expect("it is there");
            if self.random.chance(2, 3) {
                replica.group.checkpoint(&replica.list.capture(), disk);
            }
            if self.random.chance(1, 2) {
                let below = commitlog::Position(self.random.below(disk.end().0 + 1));
                replica.group.move_up(below, disk);
            }
            if self.random.chance(1, 4) {
                replica.group.trim_cache(0);
            }
        }
        let needs = self.nodes[node].replicas.values().map(|replica| replica.group.needs()).min();
        // All files of replicas that are no more may go; of those that are, only what they do not need.
        if let Some(needs) = needs.filter(|_| self.nodes[node].replicas.len() == self.nodes[node].ids.len()) {
            self.nodes[node].disk.drop_below(needs);
        }
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

    /// What each node knows of a group, for a person who looks at a failure.
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
        }
    }
}

fn settings(group: u64, id: ReplicaId) -> Settings {
    Settings {
        uncommitted_bytes_max: 100_000,
        cache_bytes_max: 4000,
        install_ticks_max: 30,
        ..Settings::new(group, id)
    }
}

/// All ordered pairs of different numbers.
fn pairs(numbers: Range<usize>) -> Vec<(usize, usize)> {
    let all = numbers.clone().flat_map(|one| numbers.clone().map(move |other| (one, other)));
    all.filter(|(one, other)| one != other).collect()
}
