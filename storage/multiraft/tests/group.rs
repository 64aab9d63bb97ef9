//! A group on the real log over a simulated disk, and what peers may send.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use commitlog::{Log, LogOptions, LogWriter, Recovered, Step};
use multiraft::{
    Apply, Group, Head, Installed, Members, Message, MessageKind, RaftRs, Recovery, Refused, ReplicaId, Role,
    Settings, entry_body,
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
