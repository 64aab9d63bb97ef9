//! Random histories of a quorum queue with three members: one leads, the others take its records late or lack some, leaders die, and what is left of
//! them comes back. When all is quiet the members have the same.

mod world;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Classic;
use super::dice::Dice;
use crate::record::{self, Counts, RecordKind};
use crate::store::Recovering;
use crate::{
    Claim, Cursor, Fill, FollowError, GetToken, IncomingMessage, Kind, LiveSet, LogRange, Machine,
    MessageSeq, QueueConfig, Retry, RetryOf, SettleHow, SettleRun, SharedBody,
};
use message::MessageView;
use world::{World, held};

/// Histories tried by the test (from seed `WARREN_SEED` on, 1 by default; `WARREN_HISTORIES` of them, if that is set), and
/// steps in each.
const HISTORIES: u64 = 60;
const STEPS: usize = 500;
const MEMBERS: usize = 3;

/// Bodies of every size, which say which message they are of.
fn body_of(id: u32) -> Vec<u8> {
    let size = [0, 10, 1000, 3000, 3000, 20_000, 70_000][id as usize % 7];
    let mut body = vec![id as u8; 4 + size];
    body[..4].copy_from_slice(&id.to_be_bytes());
    body
}

fn id_of(body: &[u8]) -> u32 {
    u32::from_be_bytes(body[..4].try_into().expect("bodies begin with an id"))
}

/// A member's relation to the leader.
#[derive(Clone, Debug, PartialEq)]
enum Link {
    /// It is not in touch.
    Away,
    /// It is sent what it lacks.
    Filling(Cursor),
    /// It is sent what the leader logs.
    InStep,
}

struct Member {
    queue: Classic,
    world: World,
    link: Link,
    /// Records on their way to it.
    coming: VecDeque<(RecordKind, Vec<u8>)>,
}

impl Member {
    fn disk_step(&mut self, now_ms: u64, fails: bool) {
        let mut done = self.world.disk_step(fails);
        if let Some(answer) = done.answer() {
            assert!(self.queue.disk_answered(answer, now_ms, &mut self.world));
        }
    }

    /// All that it has: messages as they are stored, and how often they came back.
    fn contents(&mut self, now_ms: u64) -> (BTreeMap<MessageSeq, Vec<u8>>, BTreeMap<MessageSeq, Counts>) {
        let (mut messages, mut counts) = (BTreeMap::new(), BTreeMap::new());
        let mut cursor = Cursor::default();
        loop {
            match self.queue.fill(&mut cursor, 100_000, &mut self.world) {
                Fill::Records(records) => {
                    for (kind, payload) in records {
                        if kind == RecordKind::Returned {
                            counts.extend(record::returned(&payload).flatten().map(|it| (it.seq, it.counts)));
                            continue;
                        }
                        assert!(record::each_enqueued(kind, &payload, |seq, stored| {
                            assert_eq!(messages.insert(seq, stored.to_vec()), None);
                        }));
                    }
                }
                Fill::Waits => {
                    assert!(!self.world.is_idle(), "what it waits for was asked for");
                    self.disk_step(now_ms, false);
                }
                Fill::End => return (messages, counts),
            }
        }
    }
}

struct Group {
    members: Vec<Member>,
    leader: usize,
    epoch: u32,
    config: QueueConfig,
    share_bytes: usize,
    now_ms: u64,
    dice: Dice,
    next_id: u32,
    /// Messages that some leader has settled: a member that heard of it does not have them, even if a later leader has not heard.
    settled: BTreeSet<MessageSeq>,
    /// Which message a number is of.
    names: BTreeMap<MessageSeq, u32>,
    fills_waited: u64,
    failovers: u64,
    resyncs_dropped: u64,
    claims_granted: u64,
}

impl Group {
    fn new(seed: u64) -> Group {
        let mut dice = Dice::of(seed);
        (0..10).for_each(|_| {
            dice.below(2);
        });
        let mut config = QueueConfig { durable: true, ..Kind::Quorum.rules() };
        config.memory_bytes_max = dice.pick(&[32 << 10, 128 << 10, 4 << 20]);
        config.dead_letters = dice.one_in(2);
        config.message_ttl_ms = dice.pick(&[None, None, Some(300)]);
        config.max_length = dice.pick(&[None, None, Some(60)]);
        config.delivery_limit = dice.pick(&[None, Some(2)]);
        if dice.one_in(3) {
            config.retry = Retry { of: RetryOf::All, min_ms: Some(50), max_ms: None };
        }
        let share_bytes = dice.pick(&[32 << 10, 200 << 10, usize::MAX]);
        let member = |_| {
            let mut queue = Classic::new(config.clone(), 1000);
            queue.store.share_memory(share_bytes);
            Member { queue, world: World::default(), link: Link::Away, coming: VecDeque::new() }
        };
        let members: Vec<Member> = (0..MEMBERS).map(member).collect();
        let mut group = Group {
            members,
            leader: 0,
            epoch: 1,
            config,
            share_bytes,
            now_ms: 1000,
            dice,
            next_id: 0,
            settled: BTreeSet::new(),
            names: BTreeMap::new(),
            fills_waited: 0,
            failovers: 0,
            resyncs_dropped: 0,
            claims_granted: 0,
        };
        for at in 1..MEMBERS {
            group.with(at, |member, now_ms| member.queue.let_follow(true, 0, now_ms, &mut member.world));
        }
        group.lead(0);
        group
    }

    fn with<T>(&mut self, at: usize, act: impl FnOnce(&mut Member, u64) -> T) -> T {
        let now_ms = self.now_ms;
        let result = act(&mut self.members[at], now_ms);
        self.ship();
        result
    }

    /// Records that the leader has logged go to the members that are linked.
    fn ship(&mut self) {
        for (kind, payload) in std::mem::take(&mut self.members[self.leader].world.outgoing) {
            if kind.is_enqueue() {
                assert!(record::each_enqueued(kind, &payload, |seq, stored| {
                    let id = id_of(record::parse(stored).expect("it was just written").0.message.body);
                    assert_eq!(self.names.insert(seq, id), None, "a number never names two messages");
                }));
            }
            if kind == RecordKind::Settle {
                let runs = record::settled(&payload).flatten();
                let all = runs.flat_map(|run| (0..u64::from(run.count)).map(move |nth| run.first.0 + nth));
                self.settled.extend(all.map(MessageSeq));
            }
            for (at, member) in self.members.iter_mut().enumerate() {
                let gets = match member.link {
                    Link::Away => false,
                    Link::Filling(_) => !kind.is_enqueue(),
                    Link::InStep => true,
                };
                if gets && at != self.leader {
                    member.coming.push_back((kind, payload.clone()));
                }
            }
        }
        self.tell_handed_out();
    }

    /// Members in step hear what consumers have had.
    fn tell_handed_out(&mut self) {
        let mut news = Vec::new();
        self.members[self.leader].queue.take_handed_out(|below| news.push(below));
        if !news.is_empty() {
            self.note_handed_out(&news, |member| member.link == Link::InStep);
        }
    }

    fn note_handed_out(&mut self, news: &[MessageSeq], is_told: impl Fn(&Member) -> bool) {
        let ever_out = self.members[self.leader].world.ever_out.clone();
        for (at, member) in self.members.iter_mut().enumerate() {
            if at == self.leader || !is_told(member) {
                continue;
            }
            for below in news {
                member.queue.follow_handed_out(*below).expect("a member takes it");
            }
            member.world.told_out.clone_from(&ever_out);
        }
    }

    fn lead(&mut self, at: usize) {
        self.leader = at;
        self.epoch += 1;
        let epoch = self.epoch;
        for member in &mut self.members {
            (member.link, member.world.leads) = (Link::Away, false);
            member.coming.clear();
        }
        self.members[at].world.leads = true;
        self.with(at, |member, now_ms| member.queue.let_follow(false, epoch, now_ms, &mut member.world));
    }

    fn step(&mut self) {
        let some = self.dice.below(MEMBERS as u64) as usize;
        let one_in_10 = self.dice.one_in(10);
        match self.dice.below(100) {
            0..22 => self.publish(),
            22..34 => self.get(),
            34..46 => self.settle(),
            46..48 => self.purge(),
            48..52 => self.tick(),
            52..66 => self.with(some, |member, now_ms| member.disk_step(now_ms, one_in_10)),
            66..78 => self.hand_over(some, 4),
            78..84 => self.fill_one(some),
            84..88 => self.resync(some),
            88..91 => self.checkpoint(some),
            91..94 => self.letters(),
            94..96 if some != self.leader => self.restart(some),
            96 => self.fail_over(),
            97 if self.dice.one_in(3) => self.quiesce(),
            _ => self.members[some].world.durable = self.members[some].world.log_end,
        }
    }

    fn publish(&mut self) {
        let count = self.dice.pick(&[1, 2, 8, 30]);
        let ids: Vec<u32> = (self.next_id..self.next_id + count).collect();
        self.next_id += count;
        let bodies: Vec<Vec<u8>> = ids.iter().map(|id| body_of(*id)).collect();
        let is_shared: Vec<bool> = ids.iter().map(|_| self.dice.one_in(4)).collect();
        let shared: Vec<_> = ids
            .iter()
            .zip(&bodies)
            .map(|(id, body)| held(&SharedBody::named((*id).into(), body.len() as u32)))
            .collect();
        let ttl_ms = self.dice.pick(&[None, None, Some(20), Some(500)]);
        let priority = self.dice.pick(&[0, 4, 4, 9]);
        let properties = [0x08, 0, priority];
        let are_alike = self.dice.one_in(2);
        let batch: Vec<IncomingMessage<'_>> = (0..ids.len())
            .map(|nth| IncomingMessage {
                message: MessageView {
                    exchange: b"x",
                    routing_key: b"k",
                    properties: &properties,
                    body: &bodies[nth],
                },
                persistent: true,
                priority,
                ttl_ms,
                annotations: b"",
                shared: Some(&shared[nth]).filter(|_| is_shared[nth]),
                is_alike: are_alike && nth > 0 && !is_shared[nth] && !is_shared[nth - 1],
            })
            .collect();
        let leader = self.leader;
        self.with(leader, |member, now_ms| member.queue.publish(&batch[..], now_ms, &mut member.world));
    }

    fn get(&mut self) {
        let count = self.dice.pick(&[1, 5]);
        self.with(self.leader, |member, now_ms| {
            (0..count).for_each(|nth| member.queue.get(GetToken(nth), now_ms, &mut member.world));
        });
    }

    fn settle(&mut self) {
        let how = self.dice.pick(&[
            SettleHow::Ack,
            SettleHow::Ack,
            SettleHow::Requeue,
            SettleHow::Fail,
            SettleHow::Reject,
        ]);
        let out = &mut self.members[self.leader].world.out;
        if out.is_empty() {
            return;
        }
        let first = self.dice.pick(out);
        let most = self.dice.pick(&[1, 3, 100]);
        let count = (1..most).take_while(|nth| out.contains(&MessageSeq(first.0 + nth))).count() as u64 + 1;
        out.retain(|seq| !(first.0..first.0 + count).contains(&seq.0));
        let run = SettleRun { consumer: None, first, count: count as u32 };
        self.with(self.leader, |member, now_ms| member.queue.settle(how, &[run], now_ms, &mut member.world));
    }

    fn purge(&mut self) {
        let most = self.dice.pick(&[1, 20]);
        self.with(self.leader, |member, _| member.queue.purge(most, &mut member.world));
    }

    fn tick(&mut self) {
        self.now_ms += self.dice.pick(&[0, 1, 20, 100]);
        for at in 0..MEMBERS {
            self.with(at, |member, now_ms| member.queue.tick(now_ms, &mut member.world));
        }
    }

    /// Some of what is on its way arrives.
    fn hand_over(&mut self, at: usize, most: usize) {
        if at == self.leader {
            return;
        }
        self.with(at, |member, now_ms| {
            let count = member.coming.len().min(most);
            for (kind, payload) in member.coming.drain(..count) {
                let before = member.world.log_end;
                let position = member.queue.follow(kind, &payload, now_ms, &mut member.world);
                let position = position.expect("a leader sends what can be taken");
                assert!(position == 0 || (before < position && position <= member.world.log_end));
            }
        });
    }

    /// A member that is not in touch tells what it has, and gives up what its leader does not have.
    fn resync(&mut self, at: usize) {
        if at == self.leader || self.members[at].link != Link::Away {
            return;
        }
        let mut bytes = Vec::new();
        self.members[self.leader].queue.live().encode(&mut bytes);
        let live = LiveSet::decode(&bytes).expect("it was just written");
        let cursor = self.with(at, |member, now_ms| {
            member.queue.let_follow(true, 0, now_ms, &mut member.world);
            let before = member.queue.live().len();
            let dropped = member.queue.keep_only(&live, &mut member.world);
            assert_eq!(member.queue.live().len(), before - dropped);
            member.coming.clear();
            bytes.clear();
            member.queue.newest().encode(&mut bytes);
            (dropped, Cursor::decode(&bytes).expect("it was just written"))
        });
        self.resyncs_dropped += cursor.0;
        self.members[at].link = Link::Filling(cursor.1);
    }

    fn fill_one(&mut self, at: usize) {
        let Link::Filling(mut cursor) = self.members[at].link.clone() else { return };
        let bytes_max = self.dice.pick(&[1, 5000, 100_000]);
        let fill =
            self.with(self.leader, |member, _| member.queue.fill(&mut cursor, bytes_max, &mut member.world));
        let member = &mut self.members[at];
        member.link = Link::Filling(cursor);
        match fill {
            Fill::Records(records) => member.coming.extend(records),
            Fill::Waits => self.fills_waited += 1,
            Fill::End => {
                member.link = Link::InStep;
                let mut all = Vec::new();
                self.members[self.leader].queue.each_handed_out(|below| all.push(below));
                self.note_handed_out(&all, |member| member.link == Link::InStep);
            }
        }
    }

    fn checkpoint(&mut self, at: usize) {
        let (compacts, vacates) = (self.dice.one_in(3), self.dice.one_in(3));
        self.with(at, |member, _| {
            if compacts {
                return member.queue.compact(&mut member.world);
            }
            let ranges: Vec<LogRange> = member.queue.store.log_ranges().collect();
            let vacate = ranges.first().filter(|_| vacates).map(|range| range.position..range.end());
            member.queue.checkpoint(member.world.log_end, vacate.as_slice(), &mut member.world);
        });
    }

    /// Letters are safe, also those of a member that does not lead any more.
    fn letters(&mut self) {
        for at in 0..MEMBERS {
            self.settled.extend(self.members[at].world.removals.iter().map(|run| run.first));
            self.with(at, |member, now_ms| {
                let taken = std::mem::take(&mut member.world.removals);
                member.queue.letters_taken(&taken, now_ms, &mut member.world);
            });
        }
    }

    /// A member's power is cut. It has what was durable, and perhaps more.
    fn restart(&mut self, at: usize) {
        let (config, share_bytes, now_ms) = (self.config.clone(), self.share_bytes, self.now_ms);
        let is_cut = self.dice.one_in(2);
        let member = &mut self.members[at];
        let world = &mut member.world;
        if is_cut {
            world.log.retain(|start, _| *start < world.durable);
            world.log_end = world.durable;
        }
        let oldest = if is_cut { 1 } else { member.queue.oldest_log_position() };
        let mut recovering = Recovering::default();
        for (start, (kind, payload)) in &world.log {
            let record = *start..*start + payload.len() as u64 + 1;
            if oldest != 0 && record.end >= oldest {
                recovering.apply(*kind, payload, &record).expect("what was written is read");
            }
        }
        world.durable = world.log_end;
        world.restart();
        let needed: Vec<u64> = recovering.segments().collect();
        world.keep_segments(&needed);
        member.queue = Classic::recovered(recovering, config, now_ms, &mut |name| name.clone());
        member.queue.store.share_memory(share_bytes);
        (member.link, member.coming) = (Link::Away, VecDeque::new());
        member.queue.let_follow(true, 0, now_ms, &mut member.world);
    }

    /// The leader is gone, or is not heard any more; a member that was in step leads.
    fn fail_over(&mut self) {
        let in_step: Vec<usize> =
            (0..MEMBERS).filter(|at| *at != self.leader && self.members[*at].link == Link::InStep).collect();
        if in_step.is_empty() {
            return;
        }
        let (next, before) = (self.dice.pick(&in_step), self.leader);
        self.failovers += 1;
        let held = self.members[before].world.out.clone();
        let ever_out = self.members[before].world.ever_out.clone();
        self.members[next].world.ever_out.extend(ever_out);
        let awaits_claims = self.dice.one_in(2);
        if awaits_claims {
            self.members[next].queue.await_claims();
        }
        self.lead(next);
        self.claim(&held);
        if awaits_claims {
            self.publish();
            self.get();
            assert!(self.members[next].queue.awaits_claims());
            assert!(
                self.members[next].world.out.iter().all(|seq| held.contains(seq)),
                "nobody is served yet"
            );
            self.with(next, |member, now_ms| member.queue.end_claims(now_ms, &mut member.world));
        }
        if self.dice.one_in(2) {
            self.restart(before);
        } else {
            self.members[before].world.out.clear();
            self.with(before, |member, now_ms| {
                member.queue.let_follow(true, 0, now_ms, &mut member.world);
                member.world.outgoing.clear();
            });
        }
    }

    /// Most of those who have messages of the leader before claim them.
    fn claim(&mut self, held: &[MessageSeq]) {
        for seq in held {
            if self.dice.one_in(4) {
                continue;
            }
            let granted = self.with(self.leader, |member, now_ms| {
                loop {
                    match member.queue.claim(None, *seq, &mut member.world) {
                        Claim::Granted => return true,
                        Claim::Refused => return false,
                        Claim::Waits => {
                            assert!(!member.world.is_idle(), "what it waits for was asked for");
                            member.disk_step(now_ms, false);
                        }
                    }
                }
            });
            let member = &mut self.members[self.leader];
            if granted {
                assert!(!member.world.out.contains(seq), "it is granted once");
                member.world.out.push(*seq);
                self.claims_granted += 1;
                let again = member.queue.claim(None, *seq, &mut member.world);
                assert_eq!(again, Claim::Refused, "somebody has it");
            }
        }
    }

    /// Everything arrives: all have the same, but for what a member settled itself before a leader knew of it.
    fn quiesce(&mut self) {
        self.come_to_rest();
        for at in self.others() {
            self.resync(at);
            while self.members[at].link != Link::InStep {
                self.fill_one(at);
                self.letters();
                self.with(self.leader, |member, now_ms| member.disk_step(now_ms, false));
            }
        }
        self.let_leader_look();
        for at in self.others() {
            self.hand_over(at, usize::MAX);
        }
        self.compare();
    }

    /// The leader reads all that it has, until nothing dies of that any more.
    fn let_leader_look(&mut self) {
        loop {
            self.come_to_rest();
            let before = self.members[self.leader].queue.live();
            self.with(self.leader, |member, now_ms| member.contents(now_ms));
            self.come_to_rest();
            if self.members[self.leader].queue.live() == before {
                return;
            }
        }
    }

    /// All disks have done what they were asked for, and all letters are safe.
    fn come_to_rest(&mut self) {
        let is_at_rest = |member: &Member| member.world.is_idle() && member.world.removals.is_empty();
        while !self.members.iter().all(is_at_rest) {
            for at in 0..MEMBERS {
                self.with(at, |member, now_ms| member.disk_step(now_ms, false));
            }
            self.letters();
        }
    }

    /// All of a member that no leader has settled.
    fn unsettled_contents(
        &mut self,
        at: usize,
    ) -> (BTreeMap<MessageSeq, Vec<u8>>, BTreeMap<MessageSeq, Counts>) {
        let (mut messages, mut counts) = self.members[at].contents(self.now_ms);
        messages.retain(|seq, _| !self.settled.contains(seq));
        counts.retain(|seq, _| !self.settled.contains(seq));
        (messages, counts)
    }

    fn others(&self) -> Vec<usize> {
        (0..MEMBERS).filter(|at| *at != self.leader).collect()
    }

    fn compare(&mut self) {
        let now_ms = self.now_ms;
        let (messages, counts) = self.members[self.leader].contents(now_ms);
        self.ship();
        for (seq, stored) in &messages {
            let message = record::parse(stored).expect("it is a message").0.message;
            assert_eq!(message.body, body_of(self.names[seq]), "{seq:?}");
        }
        for at in 0..MEMBERS {
            let member = &mut self.members[at];
            let (mut its, mut its_counts) = member.contents(now_ms);
            let stats = member.queue.stats(now_ms);
            assert_eq!(stats.ready + stats.unacked, its.len() as u64, "member {at} counts right");
            assert_eq!((stats.persistent, member.queue.live().len()), (its.len() as u64, its.len() as u64));
            let bytes = its.values().map(|it| record::parse(it).expect("whole").0.message.body.len() as u64);
            assert_eq!(stats.persistent_bytes, bytes.sum::<u64>(), "member {at} counts bytes right");
            let (segments, log, _) = member.queue.store.counted_on_disk();
            assert_eq!((member.queue.store.in_segments, member.queue.store.in_log), (segments, log));
            for (seq, stored) in messages.iter().filter(|(seq, _)| self.settled.contains(seq)) {
                its.insert(*seq, stored.clone());
            }
            let differ = |one: &BTreeMap<MessageSeq, Vec<u8>>, other: &BTreeMap<MessageSeq, Vec<u8>>| {
                one.keys().filter(|seq| !other.contains_key(seq)).copied().collect::<Vec<_>>()
            };
            assert_eq!((differ(&its, &messages), differ(&messages, &its)), (vec![], vec![]), "member {at}");
            assert!(its == messages, "member {at} has the same bodies");
            for (seq, count) in counts.iter().filter(|(seq, _)| self.settled.contains(seq)) {
                its_counts.insert(*seq, *count);
            }
            assert_eq!(its_counts, counts, "member {at}");
        }
    }
}

fn play(seed: u64) -> [u64; 6] {
    let mut group = Group::new(seed);
    for _ in 0..STEPS {
        group.step();
    }
    group.quiesce();
    // All messages of a member are in its log. One that it settled as the leader, and got again from a leader that did not hear of it, may go.
    for at in 0..MEMBERS {
        if at != group.leader {
            let before = group.unsettled_contents(at);
            group.members[at].world.durable = group.members[at].world.log_end;
            group.restart(at);
            assert!(group.unsettled_contents(at) == before, "member {at} is as it was");
        }
    }
    group.quiesce();
    let reads = group.members.iter().map(|member| member.world.reads).sum();
    let again = group.members.iter().map(|member| member.world.seen_again).sum();
    [group.fills_waited, group.failovers, group.resyncs_dropped, reads, group.claims_granted, again]
}

#[test]
fn members_that_come_and_go_have_what_their_leader_has() {
    let number = |name, otherwise| {
        std::env::var(name).ok().map_or(otherwise, |text: String| text.parse().expect("a number"))
    };
    let (from, histories) = (number("WARREN_SEED", 1), number("WARREN_HISTORIES", HISTORIES));
    let mut seen = [0; 6];
    for seed in from..from + histories {
        let Ok(counts) = std::panic::catch_unwind(|| play(seed)) else {
            panic!("history of seed {seed} went wrong: WARREN_SEED={seed} repeats it")
        };
        (0..6).for_each(|at| seen[at] += counts[at]);
    }
    let is_repeated = histories < HISTORIES;
    assert!(is_repeated || seen.iter().all(|count| *count > 50), "what is tried is rare: {seen:?}");
}

#[test]
fn what_a_lost_leader_has_handed_out_comes_again_with_the_mark_for_that() {
    let config = || QueueConfig { durable: true, ..Kind::Quorum.rules() };
    let (mut leader, mut there) = (Classic::new(config(), 0), World::default());
    there.leads = true;
    let (mut member, mut here) = (Classic::new(config(), 0), World::default());
    member.let_follow(true, 0, 0, &mut here);
    let bodies: Vec<_> = (0..6).map(body_of).collect();
    let incoming = |body| IncomingMessage {
        message: MessageView { exchange: b"x", routing_key: b"k", properties: b"\0\0", body },
        persistent: true,
        priority: 4,
        ttl_ms: None,
        annotations: b"",
        shared: None,
        is_alike: false,
    };
    let batch: Vec<_> = bodies.iter().map(|body| incoming(body)).collect();
    leader.publish(&batch[..], 0, &mut there);
    (0..3).for_each(|nth| leader.get(GetToken(nth), 0, &mut there));
    for (kind, payload) in std::mem::take(&mut there.outgoing) {
        member.follow(kind, &payload, 0, &mut here).expect("a leader sends what can be taken");
    }
    let mut told = Vec::new();
    leader.take_handed_out(|below| told.push(below));
    assert_eq!(told.len(), 1, "of the one level that handed something out");
    leader.take_handed_out(|_| panic!("it was told"));
    told.iter().for_each(|below| member.follow_handed_out(*below).expect("it follows"));
    let refused = member.follow_handed_out(MessageSeq::new(32, 1));
    assert_eq!(refused, Err(FollowError::Damaged), "there is no such priority");
    here.leads = true;
    member.let_follow(false, 2, 0, &mut here);
    assert_eq!(member.follow_handed_out(told[0]), Err(FollowError::Leads));
    (0..6).for_each(|nth| member.get(GetToken(nth), 0, &mut here));
    assert_eq!(here.redelivered, [true, true, true, false, false, false]);
}

#[test]
fn bytes_that_no_leader_sends_are_refused_and_change_nothing() {
    let mut queue = Classic::new(QueueConfig { durable: true, ..Kind::Quorum.rules() }, 0);
    let mut world = World::default();
    assert_eq!(queue.follow(RecordKind::Settle, &[], 0, &mut world), Err(FollowError::Leads));
    queue.let_follow(true, 0, 0, &mut world);
    assert_eq!(queue.follow(RecordKind::State, &[], 0, &mut world), Err(FollowError::Local));
    let mut entry = Vec::new();
    record::write_enqueued(&mut entry, MessageSeq::new(4, 7), &record::stored(b"\0\0\0\x07", true, None));
    let lies: [&dyn Fn(&mut Vec<u8>); 5] = [
        &|bytes| bytes[0] = 32,
        &|bytes| bytes[1..8].fill(0xFF),
        &|bytes| bytes[12] = 0,
        &|bytes| bytes.truncate(bytes.len() - 1),
        &|bytes| bytes.push(0),
    ];
    for lie in lies {
        let mut bytes = entry.clone();
        lie(&mut bytes);
        let refused = queue.follow(RecordKind::Enqueue, &bytes, 0, &mut world);
        assert_eq!(refused, Err(FollowError::Damaged), "{bytes:?}");
    }
    for kind in [RecordKind::Settle, RecordKind::Returned] {
        assert_eq!(queue.follow(kind, &[0; 15], 0, &mut world), Err(FollowError::Damaged));
    }
    assert_eq!((world.log_end, queue.live().len()), (0, 0));
    queue.follow(RecordKind::Enqueue, &entry, 0, &mut world).expect("it is whole");
    assert_eq!(queue.follow(RecordKind::Enqueue, &entry, 0, &mut world), Ok(0), "it is here");
    assert_eq!(queue.live().len(), 1);
}

#[test]
fn random_bytes_are_taken_or_refused() {
    let mut dice = Dice(77);
    let kinds = [
        RecordKind::Enqueue,
        RecordKind::EnqueueShared,
        RecordKind::EnqueueAlike,
        RecordKind::Settle,
        RecordKind::Returned,
        RecordKind::State,
    ];
    let mut queue = Classic::new(QueueConfig { durable: true, ..Kind::Quorum.rules() }, 0);
    let mut world = World::default();
    queue.let_follow(true, 0, 0, &mut world);
    let mut whole = Vec::new();
    for number in 0..5 {
        record::write_enqueued(
            &mut whole,
            MessageSeq::new(0, number),
            &record::stored(b"\0\0\0\x07", true, None),
        );
    }
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = match dice.one_in(2) {
            true => (0..dice.below(64)).map(|_| dice.pick(&[0, 1, 2, 4, 16, 24, 127, 255])).collect(),
            false => whole.clone(),
        };
        for _ in 0..dice.below(3) {
            let at = dice.below(bytes.len() as u64 + 1) as usize;
            let byte = dice.below(256) as u8;
            bytes.get_mut(at).into_iter().for_each(|place| *place = byte);
        }
        let _ = queue.follow(dice.pick(&kinds), &bytes, 0, &mut world);
        let _ = Cursor::decode(&bytes);
        if let Ok(live) = LiveSet::decode(&bytes) {
            let mut again = Vec::new();
            live.encode(&mut again);
            assert_eq!(LiveSet::decode(&again), Ok(live));
        }
        if dice.one_in(50) {
            queue.let_follow(false, dice.below(3) as u32, 0, &mut world);
            queue.let_follow(true, 0, 0, &mut world);
        }
    }
    let live = queue.live();
    assert_eq!(queue.keep_only(&LiveSet::default(), &mut world), live.len());
    assert_eq!((queue.live().len(), queue.counts().ready), (0, 0));
}
