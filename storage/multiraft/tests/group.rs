//! A group on the real log over a simulated disk, and what peers may send.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use commitlog::{Log, LogOptions, LogWriter, Position, RECORD_HEADER_BYTES, Recovered, Step};
use multiraft::{
    Apply, EntryLog, Group, Head, Installed, Members, Message, MessageKind, RaftRs, Recovery, Refused,
    ReplicaId, Role, Settings, entry_body,
};
use platform::SimDisk;
use proptest::prelude::*;

const GROUP: u64 = 7;
const OWN: ReplicaId = ReplicaId(1);

fn open(disk: &SimDisk) -> (Log, LogWriter, Recovered) {
    Log::open_driven(Arc::new(disk.clone()), Path::new("/data/log"), LogOptions::default()).expect("a log")
}

/// Runs the group until nothing is left to do, with all synced; returns the bodies it applied.
fn work(group: &mut Group<RaftRs>, log: &Log, writer: &mut LogWriter) -> Vec<Bytes> {
    let mut bodies = Vec::new();
    for _ in 0..4 {
        group.tick();
        bodies.extend(group.run(log).apply.into_iter().map(body_of));
        while writer.step() == Step::Worked {}
        group.durable(log.durable());
    }
    bodies
}

fn body_of(step: Apply) -> Bytes {
    match step {
        Apply::Entry { body, .. } => body,
        Apply::State { state, .. } => state,
    }
}

/// Reads the group back; returns what the machine gets, too.
fn recover(mut recovered: Recovered) -> (Group<RaftRs>, Vec<Bytes>) {
    let mut recovery = Recovery::new(Settings::new(GROUP, OWN));
    let mut bodies = Vec::new();
    while let Some(record) = recovered.next_record().expect("whole records") {
        let payload = Bytes::copy_from_slice(record.payload);
        recovery.record(record.position, record.kind, &payload).expect("records of a group");
        bodies.extend(recovery.take_apply().into_iter().map(body_of));
    }
    (recovery.finish().expect("a replica"), bodies)
}

#[test]
fn entries_on_the_real_log_are_read_by_place_and_after_a_power_cut() {
    let disk = SimDisk::new();
    let (log, mut writer, _) = open(&disk);
    let begin = Bytes::from_static(b"begin");
    let mut group = Group::<RaftRs>::create(Settings::new(GROUP, OWN), Members::of(&[OWN]), &begin, &log)
        .expect("a group");
    assert!(matches!(group.propose(Bytes::new()), Err(Refused::NotLeader { .. })));
    assert_eq!(work(&mut group, &log, &mut writer), [] as [Bytes; 0]);
    assert_eq!(group.status().role, Role::Leader);
    let bodies = [Bytes::from_static(b"small"), Bytes::from(vec![9; 10_000]), Bytes::from_static(b"last")];
    let places = bodies.clone().map(|body| group.propose(body).expect("it leads"));
    assert_eq!(work(&mut group, &log, &mut writer), bodies);

    for ((index, term), body) in places.into_iter().zip(&bodies) {
        let place = group.place(index).expect("no checkpoint stands for it");
        let range = log.read_range(place.first, place.bytes).expect("it is durable");
        let payload = Bytes::copy_from_slice(&range.bytes[range.records[0].payload.clone()]);
        let head = group.heads().get(index).expect("a head");
        assert_eq!(head.term, term);
        assert_eq!(entry_body(&payload, head).as_ref(), Ok(body));
    }

    group.propose(Bytes::from_static(b"lost")).expect("it leads");
    let _not_synced = group.run(&log);
    disk.crash(1);
    let (log, mut writer, recovered) = open(&disk);
    let (mut group, mut found) = recover(recovered);
    found.extend(work(&mut group, &log, &mut writer));
    assert_eq!(found, [&[begin], &bodies[..]].concat());

    let before = group.needs();
    group.checkpoint(&Bytes::from_static(b"state"), &log);
    assert_eq!(group.needs(), before, "the checkpoint is not durable");
    work(&mut group, &log, &mut writer);
    assert!(group.needs() > before);
    drop((log, writer));
    let (_, found) = recover(open(&disk).2);
    assert_eq!(found.first().map(|first| &first[..]), Some(&b"begin"[..]));
}

#[test]
fn a_group_takes_no_more_than_its_bound_but_always_one_entry() {
    let disk = SimDisk::new();
    let (log, mut writer, _) = open(&disk);
    let settings = Settings { uncommitted_bytes_max: 100, ..Settings::new(GROUP, OWN) };
    let mut group =
        Group::<RaftRs>::create(settings, Members::of(&[OWN]), &Bytes::new(), &log).expect("a group");
    work(&mut group, &log, &mut writer);
    group.propose(Bytes::from(vec![1; 1000])).expect("one entry always may");
    assert_eq!(group.propose(Bytes::from_static(b"x")), Err(Refused::Full(1000)));
    let _in_the_log = group.run(&log);
    assert_eq!(group.propose(Bytes::from_static(b"x")), Err(Refused::Full(1000)));
    work(&mut group, &log, &mut writer);
    group.propose(Bytes::from_static(b"x")).expect("there is room again");
}

/// A log in memory, for tests that choose which records are found at a start.
#[derive(Default)]
struct Memory(RefCell<Vec<(Position, u8, Bytes)>>);

impl Memory {
    fn end(&self) -> Position {
        self.0.borrow().last().map_or(Position(0), |record| record.0)
    }
}

impl EntryLog for Memory {
    fn append(&self, _group: u64, kind: u8, head: &[u8], body: &Bytes) -> Position {
        let payload: Bytes = [head, body].concat().into();
        let end = Position(self.end().0 + (RECORD_HEADER_BYTES + payload.len()) as u64);
        self.0.borrow_mut().push((end, kind, payload));
        end
    }
}

/// The end of a turn, with all durable. Returns the kinds of messages that go out.
fn settle(group: &mut Group<RaftRs>, log: &Memory) -> Vec<MessageKind> {
    let mut send = group.run(log).send;
    group.durable(log.end());
    send.extend(group.run(log).send);
    assert_eq!(group.failure(), None);
    send.iter().map(|envelope| envelope.message.kind).collect()
}

/// The replica that records make.
fn read_back(replica: ReplicaId, records: &[(Position, u8, Bytes)]) -> Group<RaftRs> {
    let mut recovery = Recovery::new(Settings::new(GROUP, replica));
    for (end, kind, payload) in records {
        recovery.record(*end, *kind, payload).expect("a whole record");
    }
    recovery.finish().expect("records of a replica")
}

/// A member of three in memory.
fn member(log: &Memory) -> Group<RaftRs> {
    let members = Members::of(&[OWN, ReplicaId(2), ReplicaId(3)]);
    let mut group =
        Group::create(Settings::new(GROUP, OWN), members, &Bytes::new(), log).expect("a group begins");
    settle(&mut group, log);
    group
}

fn from_leader(kind: MessageKind, term: u64) -> Message {
    Message {
        kind,
        from: ReplicaId(2),
        to: OWN,
        term,
        index: 0,
        index_term: 0,
        commit: 0,
        commit_term: 0,
        reject: false,
        reject_hint: 0,
        transfer: false,
        heads: Vec::new(),
        installed: None,
    }
}

/// Entries behind this one, of the leader's term.
fn append(behind: (u64, u64), count: u64, term: u64, commit: u64) -> (Message, Vec<Bytes>) {
    let head = |index| Head { index, term, ..Head::default() };
    let heads = (behind.0 + 1..=behind.0 + count).map(head).collect();
    let message = from_leader(MessageKind::Append, term);
    let message = Message { index: behind.0, index_term: behind.1, commit, heads, ..message };
    (message, (0..count).map(|_| Bytes::from_static(b"body")).collect())
}

#[test]
fn a_replica_whose_state_is_not_durable_yet_may_campaign() {
    let log = Memory::default();
    let mut group = member(&log);
    let members = group.members().clone();
    let installed = Some(Box::new(Installed { index: 10, term: 2, members }));
    let message = Message { installed, ..from_leader(MessageKind::Install, 2) };
    group.step(message, vec![Bytes::new()]).expect("a message");
    assert!(group.run(&log).send.is_empty(), "the state is not durable");
    group.campaign();
    assert!(group.run(&log).send.is_empty(), "the state is not durable");
    let sent = settle(&mut group, &log);
    assert!(sent.contains(&MessageKind::Appended) && sent.contains(&MessageKind::PreVote), "{sent:?}");
}

#[test]
fn a_start_needs_no_entry_that_was_to_be_written_again_and_was_not() {
    let log = Memory::default();
    let mut group = member(&log);
    let (message, bodies) = append((1, 1), 5, 2, 1);
    group.step(message, bodies).expect("a message");
    settle(&mut group, &log);
    group.checkpoint(&Bytes::new(), &log);
    let old = log.0.borrow().len();
    group.move_up(log.end(), &log);
    settle(&mut group, &log);
    assert_eq!(log.0.borrow().len(), old + 5);

    // The power goes when the first one is durable. The file with its earlier record goes after the start.
    let records = log.0.borrow()[..=old].to_vec();
    let needed = read_back(OWN, &records).needs();
    let (_, left) = records.split_at(records.partition_point(|record| record.0 <= needed));
    assert_eq!(left.len(), 6, "the entry has two records, and one is not needed");
    assert_eq!(read_back(OWN, left).heads(), group.heads());
}

#[test]
fn what_an_earlier_replica_knew_to_be_committed_says_nothing_of_a_later_one() {
    let log = Memory::default();
    let mut earlier = member(&log);
    let (message, bodies) = append((1, 1), 5, 2, 6);
    earlier.step(message, bodies).expect("a message");
    settle(&mut earlier, &log);
    let (message, bodies) = append((6, 2), 1, 2, 6);
    earlier.step(message, bodies).expect("a message");
    settle(&mut earlier, &log);

    let later = ReplicaId(11);
    let mut group = Group::<RaftRs>::create_empty(Settings::new(GROUP, later), &log).expect("a replica");
    settle(&mut group, &log);
    let (message, bodies) = append((0, 0), 3, 2, 0);
    group.step(Message { to: later, ..message }, bodies).expect("a message");
    settle(&mut group, &log);
    assert_eq!(read_back(later, &log.0.borrow()).applied(), (0, 0));
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..6, Just(u64::MAX), Just(1 << 62)]
}

prop_compose! {
    fn message()(
        kind in 0usize..10,
        numbers in prop::array::uniform8(number()),
        flags in any::<(bool, bool)>(),
        heads in prop::collection::vec((number(), number()), 0..3),
    ) -> Message {
        let kinds = [
            MessageKind::Append, MessageKind::Appended, MessageKind::Vote, MessageKind::Voted, MessageKind::PreVote,
            MessageKind::PreVoted, MessageKind::Heartbeat, MessageKind::HeartbeatAnswer, MessageKind::Install,
            MessageKind::CampaignNow,
        ];
        let [from, term, index, index_term, commit, commit_term, reject_hint, other] = numbers;
        let installed = Installed { index, term: index_term, members: Members::of(&[OWN, ReplicaId(other)]) };
        Message {
            kind: kinds[kind], from: ReplicaId(from), to: OWN, term, index, index_term, commit, commit_term,
            reject: flags.0, reject_hint, transfer: flags.1,
            heads: heads.into_iter().map(|(index, term)| Head { index, term, ..Head::default() }).collect(),
            installed: (kinds[kind] == MessageKind::Install).then(|| Box::new(installed)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn no_message_brings_the_process_down(messages in prop::collection::vec(message(), 1..20)) {
        let disk = SimDisk::new();
        let (log, mut writer, _) = open(&disk);
        let members = Members::of(&[OWN, ReplicaId(2), ReplicaId(3)]);
        let mut group =
            Group::<RaftRs>::create(Settings::new(GROUP, OWN), members, &Bytes::new(), &log).expect("a group");
        for message in messages {
            let bodies = vec![Bytes::new(); message.heads.len().max(usize::from(message.installed.is_some()))];
            // It is refused, or believed, or stops this replica.
            let _refused = group.step(message, bodies);
            work(&mut group, &log, &mut writer);
        }
    }
}
