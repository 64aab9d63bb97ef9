//! Histories of a leader and its members in which links come and go, answers are late, and leaders die: nothing that is confirmed is ever missing on a
//! node that may lead.

use std::collections::{BTreeMap, VecDeque};

use metadata::{ReplicaChange, Replicas};
use proptest::prelude::*;
use queues::Cursor;

use super::leading::{Leading, Shipment};

const NODES: [u16; 3] = [1, 2, 3];

/// A frame on its way to a member.
#[derive(Clone, Debug)]
enum Sent {
    /// The number of the frame, and messages up to this one; `None` for a frame without messages.
    Records(u64, Option<u64>),
}

/// Messages are numbered; a node has all up to some number, as the store of a real one.
#[derive(Clone, Copy, Debug, Default)]
struct Disk {
    /// Taken, not durable.
    taken: u64,
    durable: u64,
}

struct World {
    replicas: Replicas,
    disks: BTreeMap<u16, Disk>,
    leading: Leading<u64>,
    /// Frames on their way to a member; answers on their way back: number.
    to: BTreeMap<u16, VecDeque<Sent>>,
    back: BTreeMap<u16, VecDeque<u64>>,
    filled_to: BTreeMap<u16, u64>,
    /// Changes that were asked for and are not decided: each may still come true, or not.
    asked: Vec<(u64, ReplicaChange, u16)>,
    next: u64,
    confirmed: u64,
    /// Confirmed to the publisher when the leader's own disk has it, too.
    waits_for_own: u64,
    now_ms: u64,
}

impl World {
    fn new() -> World {
        let replicas =
            Replicas { leader: 1, epoch: 1, version: 1, members: NODES.to_vec(), in_sync: NODES.to_vec() };
        World {
            leading: Leading::new(1, &replicas, 0),
            replicas,
            disks: NODES.iter().map(|node| (*node, Disk::default())).collect(),
            to: BTreeMap::new(),
            back: BTreeMap::new(),
            filled_to: BTreeMap::new(),
            asked: Vec::new(),
            next: 1,
            confirmed: 0,
            waits_for_own: 0,
            now_ms: 0,
        }
    }

    fn leader(&self) -> u16 {
        self.replicas.leader
    }

    fn confirm(&mut self, confirmed: Vec<u64>) {
        self.waits_for_own = confirmed.into_iter().fold(self.waits_for_own, u64::max);
        self.confirmed = self.confirmed.max(self.waits_for_own.min(self.disks[&self.leader()].durable));
    }

    /// The leader takes a message.
    fn publish(&mut self) {
        let message = self.next;
        self.next += 1;
        self.leading.wait(message);
        let leader = self.leader();
        self.disks.get_mut(&leader).expect("it is there").taken = message;
        for Shipment { node, number, is_whole } in self.leading.ship(10, 1) {
            let records = Sent::Records(number, is_whole.then_some(message));
            self.to.entry(node).or_default().push_back(records);
        }
        let confirmed = self.leading.end_turn();
        self.confirm(confirmed);
    }

    fn link_up(&mut self, node: u16) {
        if node == self.leader() || !self.leading.to_ask(self.now_ms, u64::MAX).contains(&node) {
            return;
        }
        self.leading.asked(node, self.now_ms);
        self.to.insert(node, VecDeque::new());
        self.back.insert(node, VecDeque::new());
        // It drops what the leader does not have, and says what it has.
        let leader = self.disks[&self.leader()];
        let disk = self.disks.get_mut(&node).expect("it is there");
        disk.taken = disk.taken.min(leader.taken);
        disk.durable = disk.durable.min(disk.taken);
        self.filled_to.insert(node, disk.taken);
        self.leading.has(node, Cursor::default());
    }

    fn link_down(&mut self, node: u16) {
        self.to.remove(&node);
        self.back.remove(&node);
        self.leading.left(node, self.now_ms);
    }

    /// Everything that the member lacks is sent, a message at a time.
    fn fill(&mut self, node: u16) {
        if !self.leading.to_fill().contains(&node) {
            return;
        }
        let has = self.disks[&self.leader()].taken;
        let at = self.filled_to[&node];
        let frame = if at < has {
            self.filled_to.insert(node, at + 1);
            self.leading.fill(node, 10).map(|number| Sent::Records(number, Some(at + 1)))
        } else {
            self.leading.filled(node).map(|number| Sent::Records(number, None))
        };
        self.to.entry(node).or_default().extend(frame);
    }

    /// A member takes a frame.
    fn deliver(&mut self, node: u16) {
        let Some(Sent::Records(number, message)) = self.to.get_mut(&node).and_then(VecDeque::pop_front)
        else {
            return;
        };
        let disk = self.disks.get_mut(&node).expect("it is there");
        if let Some(message) = message {
            assert!(message <= disk.taken + 1, "node {node} is sent {message} and has {disk:?}");
            disk.taken = disk.taken.max(message);
        }
        // It answers when that is durable.
        disk.durable = disk.taken;
        self.back.entry(node).or_default().push_back(number);
    }

    fn answer(&mut self, node: u16) {
        let Some(number) = self.back.get_mut(&node).and_then(VecDeque::pop_front) else { return };
        let confirmed = self.leading.answered(node, number, self.now_ms);
        self.confirm(confirmed);
        self.look();
    }

    fn sync_own(&mut self) {
        let leader = self.leader();
        let disk = self.disks.get_mut(&leader).expect("it is there");
        disk.durable = disk.taken;
        self.confirm(Vec::new());
    }

    fn look(&mut self) {
        let version = self.leading.known().version;
        let caught_up = self.leading.caught_up();
        self.asked.extend(caught_up.into_iter().map(|node| (version, ReplicaChange::CaughtUp, node)));
    }

    fn behind(&mut self) {
        self.now_ms += 10_000;
        let version = self.leading.known().version;
        let behind = self.leading.behind(self.now_ms, 1_000);
        self.asked.extend(behind.into_iter().map(|node| (version, ReplicaChange::Behind, node)));
    }

    /// The metadata decide about something that was asked for, whenever that was. The leader hears of it now, or later.
    fn decide(&mut self, nth: usize, is_heard: bool) {
        if self.asked.is_empty() {
            return;
        }
        let (version, change, node) = self.asked.swap_remove(nth % self.asked.len());
        if version == self.replicas.version && self.replicas.asked_for(change, node) {
            self.replicas.version += 1;
        }
        if is_heard {
            self.hear();
        }
    }

    fn hear(&mut self) {
        let confirmed = self.leading.update(&self.replicas, self.now_ms);
        self.confirm(confirmed);
    }

    /// The leader dies, with what is not durable; another one that is in sync leads.
    fn fail_over(&mut self, nth: usize) {
        let old = self.leader();
        let candidates: Vec<u16> =
            self.replicas.in_sync.iter().copied().filter(|node| *node != old).collect();
        let Some(next) = candidates.get(nth % candidates.len().max(1)).copied() else { return };
        for node in [old, next] {
            let disk = self.disks.get_mut(&node).expect("it is there");
            disk.taken = disk.durable;
        }
        (self.replicas.leader, self.replicas.epoch) = (next, self.replicas.epoch + 1);
        self.replicas.version += 1;
        self.leading = Leading::new(next, &self.replicas, self.now_ms);
        self.to.clear();
        self.back.clear();
        self.waits_for_own = 0;
        let has = self.disks[&next].taken;
        self.next = has + 1;
        assert!(has >= self.confirmed, "node {next} leads with {has}, and {} are confirmed", self.confirmed);
    }
}

/// Histories that the test tries, unless `WARREN_HISTORIES` says how many.
const HISTORIES: u32 = 4_000;

fn config() -> ProptestConfig {
    let asked = std::env::var("WARREN_HISTORIES").ok().map(|text| text.parse().expect("a number"));
    ProptestConfig { cases: asked.unwrap_or(HISTORIES), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whoever_may_lead_has_all_that_is_confirmed(steps in proptest::collection::vec((0..20u8, 0..3usize, any::<bool>()), 1..300)) {
        let mut world = World::new();
        for (what, nth, is_so) in steps {
            let node = NODES[nth];
            match what {
                0 | 1 => world.publish(),
                2 => world.link_up(node),
                3 if is_so => world.link_down(node),
                4 | 5 => world.fill(node),
                6 | 7 | 3 => world.deliver(node),
                8 | 9 => world.answer(node),
                10 => world.sync_own(),
                11 => if is_so { world.behind() } else { world.look() },
                12 | 13 => world.decide(nth, is_so),
                14 if is_so => world.fail_over(nth),
                14 => world.hear(),
                // Much goes well for a while.
                15..18 => {
                    world.link_up(node);
                    (0..8).for_each(|_| world.fill(node));
                    (0..8).for_each(|_| world.deliver(node));
                    (0..8).for_each(|_| world.answer(node));
                }
                _ => {
                    world.publish();
                    world.sync_own();
                    for node in NODES.into_iter().filter(|other| *other != node || is_so) {
                        world.deliver(node);
                        world.answer(node);
                    }
                }
            }
            for node in &world.replicas.in_sync {
                prop_assert!(world.disks[node].durable >= world.confirmed, "node {} is in sync with {:?}, and {} are confirmed", node, world.disks[node], world.confirmed);
            }
        }
    }
}

#[test]
fn a_confirm_waits_for_every_member_in_sync_and_for_no_other() {
    let mut world = World::new();
    for node in [2, 3] {
        world.link_up(node);
        world.fill(node);
        world.deliver(node);
        world.answer(node);
    }
    world.publish();
    world.sync_own();
    world.deliver(2);
    world.answer(2);
    assert_eq!(world.confirmed, 0);
    world.behind();
    assert_eq!(world.asked, [(1, ReplicaChange::Behind, 3)]);
    world.decide(0, true);
    assert_eq!(world.confirmed, 1);
    assert_eq!(world.replicas.in_sync, [1, 2]);
}

#[test]
fn a_member_that_answers_other_frames_is_told_again_what_lives() {
    let replicas =
        Replicas { leader: 1, epoch: 1, version: 1, members: NODES.to_vec(), in_sync: NODES.to_vec() };
    let mut leading: Leading<u64> = Leading::new(1, &replicas, 0);
    assert!(leading.asked(2, 0) && leading.asked(3, 0));
    for now_ms in (100..1000).step_by(100) {
        for Shipment { node, number, .. } in leading.ship(10, 10) {
            assert!(leading.answered(node, number, now_ms).is_empty());
        }
    }
    assert!(leading.to_ask(999, 1000).is_empty());
    assert_eq!(leading.to_ask(1000, 1000), [2, 3]);
}
