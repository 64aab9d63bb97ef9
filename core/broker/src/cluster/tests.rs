//! Three brokers in one process, each with its thread and its simulated disk, over links in memory.

mod replicated;
mod versions;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use message::Table;
use platform::SimDisk;

use super::memory::MemoryNet;
use super::peers::{DataId, PeerIdentity, VersionRange};
use super::{Cluster, ClusterOptions, NodeName, Purpose};
use crate::foundation::Foundation;
use crate::test_broker::connect;
use crate::{BindRequest, Broker, BrokerOptions, DestinationName, Principal, QueueDeclare, Refused};

const DATA: &str = "/data";

/// The links, and a thread that delivers.
struct World {
    net: Arc<MemoryNet>,
    is_over: Arc<AtomicBool>,
    mover: Option<JoinHandle<()>>,
}

impl World {
    fn new() -> World {
        let (net, is_over) = (MemoryNet::new(), Arc::new(AtomicBool::new(false)));
        let (moved, over) = (net.clone(), is_over.clone());
        let mover = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if moved.deliver(1000) == 0 {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
        World { net, is_over, mover: Some(mover) }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.mover.take().map(JoinHandle::join);
    }
}

fn name(nth: usize) -> NodeName {
    NodeName::new(&format!("rabbit@{}", ["a", "b", "c", "d"][nth])).unwrap()
}

/// A node that is on, without its broker.
struct Node {
    cluster: Cluster,
    foundation: Foundation,
}

fn start_with(world: &World, nth: usize, disk: &SimDisk, data_id: u8, options: ClusterOptions) -> Node {
    start_speaking(world, (nth, data_id), disk, options, VersionRange::OWN)
}

fn start_speaking(
    world: &World,
    (nth, data_id): (usize, u8),
    disk: &SimDisk,
    options: ClusterOptions,
    versions: VersionRange,
) -> Node {
    let mut foundation = Foundation::real(Arc::new(disk.clone()));
    // Checkpoints come soon.
    foundation.sizes.snapshot_every_bytes = 32 << 10;
    foundation.sizes.log_file_bytes_max = 16 << 10;
    let cluster = Cluster::new(foundation.clone(), Path::new(DATA), options);
    let identity = PeerIdentity { name: name(nth), data_id: DataId([data_id; 16]), life: 1, versions };
    let peers = world.net.join(identity, Arc::new(cluster.clone()));
    cluster.start(peers).unwrap();
    Node { cluster, foundation }
}

fn start(world: &World, nth: usize, disk: &SimDisk) -> Node {
    let options =
        ClusterOptions { seeds: 3, change_timeout: Duration::from_secs(2), ..ClusterOptions::default() };
    start_with(world, nth, disk, nth as u8 + 1, options)
}

impl Node {
    fn open(&self) -> Broker {
        assert_eq!(self.cluster.wait_ready(Duration::from_secs(20)), Ok(true));
        Broker::open_in_cluster(&self.foundation, Path::new(DATA), BrokerOptions::default(), &self.cluster)
            .unwrap()
    }
}

/// Ends a node and closes all it has.
fn stop(world: &World, nth: usize, node: &Node, broker: &Broker) {
    world.net.leave(&name(nth));
    broker.shutdown();
    node.cluster.stop();
}

fn three(world: &World, disks: &[SimDisk; 3]) -> ([Node; 3], [Broker; 3]) {
    let nodes = [0, 1, 2].map(|nth| start(world, nth, &disks[nth]));
    let brokers = [0, 1, 2].map(|nth| nodes[nth].open());
    (nodes, brokers)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn until_all_vote(nodes: &[Node; 3]) {
    until("all vote", || nodes[0].cluster.view().members.iter().filter(|it| it.is_voter).count() == 3);
}

fn user(broker: &Broker) -> Principal {
    until("the default user is here", || broker.read_metadata(|state| state.user(b"guest").is_some()));
    until("the default user may come in", || connect(broker).is_ok());
    connect(broker).unwrap()
}

fn declare_as(broker: &Broker, principal: &Principal, queue: &str, exclusive: bool) -> Result<(), Refused> {
    let arguments = Table::EMPTY;
    let (durable, auto_delete) = (true, false);
    let declare = QueueDeclare { name: queue.as_bytes(), durable, exclusive, auto_delete, arguments };
    broker.declare_queue(principal, declare)?.counts.wait().map(drop)
}

fn declare(broker: &Broker, principal: &Principal, queue: &str) -> Result<(), Refused> {
    declare_as(broker, principal, queue, false)
}

fn has(broker: &Broker, queue: &str) -> bool {
    broker.vhost("/").is_some_and(|vhost| vhost.queue(queue.as_bytes()).is_some())
}

fn home(broker: &Broker, queue: &str) -> u16 {
    broker.vhost("/").unwrap().queue(queue.as_bytes()).unwrap().record.home
}

#[test]
fn whoever_has_the_answer_finds_the_queue_on_every_node() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let (nodes, brokers) = three(&world, &disks);
    let users = [0, 1, 2].map(|nth| user(&brokers[nth]));
    for nth in 0..3 {
        let first = format!("first {nth}");
        declare(&brokers[nth], &users[nth], &first).unwrap();
        until("all serve", || brokers.iter().all(|broker| has(broker, &first)));
    }
    for nth in 0..300 {
        let (by, queue) = (nth % 3, format!("q{nth}"));
        declare(&brokers[by], &users[by], &queue).unwrap();
        let found = [0, 1, 2].map(|other| has(&brokers[other], &queue));
        assert_eq!(found, [true; 3], "{queue}, declared on node {by}");
    }
    // A node that is gone is not waited for.
    stop(&world, 2, &nodes[2], &brokers[2]);
    declare(&brokers[0], &users[0], "later").unwrap();
    assert!(has(&brokers[1], "later"));
    for nth in [0, 1] {
        stop(&world, nth, &nodes[nth], &brokers[nth]);
    }
}

#[test]
fn what_is_declared_on_one_node_is_on_all_and_outlives_the_leader() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let (nodes, brokers) = three(&world, &disks);
    let users = [0, 1, 2].map(|nth| user(&brokers[nth]));
    for nth in 0..3 {
        let queue = format!("q{nth}");
        declare(&brokers[nth], &users[nth], &queue).unwrap();
        assert!(has(&brokers[nth], &queue), "it is there at once where it was declared");
        let bind = BindRequest {
            source: b"amq.direct",
            destination: DestinationName::Queue(queue.as_bytes()),
            routing_key: b"k",
            arguments: Table::EMPTY,
        };
        brokers[nth].bind(&users[nth], bind).unwrap().wait().unwrap();
    }
    for broker in &brokers {
        until("all queues are on all nodes", || (0..3).all(|nth| has(broker, &format!("q{nth}"))));
        let bindings = || broker.read_metadata(|state| state.vhost(b"/").unwrap().binding_count());
        until("all bindings are on all nodes", || bindings() == 3);
        for (nth, node) in nodes.iter().enumerate() {
            let own = node.cluster.own().unwrap().0;
            assert_eq!(home(broker, &format!("q{nth}")), own);
        }
    }
    let view = nodes[0].cluster.view();
    assert_eq!(view.members.len(), 3);
    until_all_vote(&nodes);
    let leader = nodes[0].cluster.view().leader.unwrap();
    let leads = (0..3).find(|nth| nodes[*nth].cluster.own().unwrap().0 == leader).unwrap();
    stop(&world, leads, &nodes[leads], &brokers[leads]);
    let rest: Vec<_> = (0..3).filter(|nth| *nth != leads).collect();
    until("another node leads", || declare(&brokers[rest[0]], &users[rest[0]], "later").is_ok());
    until("it is on the other one, too", || has(&brokers[rest[1]], "later"));

    let back = start(&world, leads, &disks[leads]);
    let broker = back.open();
    assert!(has(&broker, "later") && has(&broker, "q0") && has(&broker, "q1") && has(&broker, "q2"));
    stop(&world, leads, &back, &broker);
    for nth in rest {
        stop(&world, nth, &nodes[nth], &brokers[nth]);
    }
}

#[test]
fn a_minority_refuses_changes_and_all_goes_on_when_it_is_linked_again() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let (nodes, brokers) = three(&world, &disks);
    let users = [0, 1, 2].map(|nth| user(&brokers[nth]));
    until_all_vote(&nodes);
    world.net.cut(&name(0), &name(1));
    world.net.cut(&name(0), &name(2));
    let refused = declare(&brokers[0], &users[0], "minority");
    let text = "Could not declare queue 'minority' in vhost '/' on node 'rabbit@a' because the metadata store operation timed out";
    assert_eq!(refused, Err(Refused::Storage(text.into())));
    until("the majority goes on", || declare(&brokers[1], &users[1], "majority").is_ok());
    assert!(!has(&brokers[0], "majority") && !nodes[0].cluster.view().has_majority());
    world.net.heal(&name(0), &name(1));
    world.net.heal(&name(0), &name(2));
    until("it is told", || has(&brokers[0], "majority"));
    until("it can declare again", || declare(&brokers[0], &users[0], "healed").is_ok());
    assert!(!has(&brokers[0], "minority"), "what was refused does not come later");
    for nth in 0..3 {
        stop(&world, nth, &nodes[nth], &brokers[nth]);
    }
}

#[test]
fn power_cuts_on_all_nodes_lose_nothing_that_was_answered_and_end_what_lives_owned() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let (nodes, brokers) = three(&world, &disks);
    let users = [0, 1, 2].map(|nth| user(&brokers[nth]));
    declare(&brokers[1], &users[1], "kept").unwrap();
    declare_as(&brokers[2], &users[2], "exclusive", true).unwrap();
    until("an exclusive queue is known everywhere", || has(&brokers[0], "exclusive"));
    // The contents after a power cut are decided now; later writes of the nodes are on other disks.
    let left = [0, 1, 2].map(|nth| disks[nth].fork());
    (0..3).for_each(|nth| left[nth].crash(nth as u64));
    for nth in 0..3 {
        stop(&world, nth, &nodes[nth], &brokers[nth]);
    }
    let nodes = [0, 1, 2].map(|nth| start(&world, nth, &left[nth]));
    let brokers = [0, 1, 2].map(|nth| nodes[nth].open());
    for broker in &brokers {
        assert!(has(broker, "kept"));
        until("a new life removes what the earlier one owned", || !has(broker, "exclusive"));
    }
    for nth in 0..3 {
        stop(&world, nth, &nodes[nth], &brokers[nth]);
    }
}

/// Hears of confirms, deliveries and the end of consumers.
#[derive(Default)]
struct Heard {
    confirmed: parking_lot::Mutex<Vec<(u64, u64, Vec<u64>)>>,
    delivered: parking_lot::Mutex<Vec<(queues::MessageSeq, Vec<u8>)>>,
    cancelled: AtomicBool,
}

impl crate::ConfirmSink for Heard {
    fn confirmed(&self, range: crate::ConfirmRange) {
        self.confirmed.lock().push((range.first, range.last, range.rejected));
    }
}

impl crate::ConsumerSink for Heard {
    fn deliver(&self, _token: u32, run: &[queues::Delivery<'_>]) -> usize {
        self.delivered.lock().extend(run.iter().map(|it| (it.seq, it.message.body.to_vec())));
        run.len()
    }

    fn cancelled(&self, _token: u32) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// Publishes persistent messages with confirms; gives what was refused when all are answered.
fn publish(broker: &Broker, principal: &Principal, queue: &str, bodies: &[Vec<u8>]) -> Vec<u64> {
    let heard = Arc::new(Heard::default());
    let mut channel = crate::PublishChannel::new();
    channel.enable_confirms(heard.clone());
    let mut publisher = crate::Publisher::new(broker, principal);
    for body in bodies {
        let message = crate::Incoming {
            mandatory: false,
            exchange: b"",
            routing_key: queue.as_bytes(),
            properties: &[0x10, 0, 2],
            body,
        };
        publisher.publish(&mut channel, message).unwrap();
    }
    publisher.flush();
    let count =
        |heard: &Heard| heard.confirmed.lock().iter().map(|(first, last, _)| last - first + 1).sum::<u64>();
    until("all publishes are answered", || count(&heard) == bodies.len() as u64);
    let confirmed = heard.confirmed.lock();
    confirmed.iter().flat_map(|(.., rejected)| rejected.clone()).collect()
}

fn bodies(count: usize, bytes: usize) -> Vec<Vec<u8>> {
    (0..count).map(|nth| [nth.to_string().into_bytes(), vec![b'.'; bytes]].concat()).collect()
}

fn consumer(id: queues::ConsumerId) -> queues::ConsumerSpec {
    queues::ConsumerSpec {
        id,
        tag: b"tag"[..].into(),
        channel: 1,
        ack_required: true,
        prefetch: 0,
        by_credit: false,
        delivered_before: 0,
        filter: None,
        priority: 0,
        exclusive: false,
        arguments: Box::default(),
    }
}

#[test]
fn a_queue_is_used_from_other_nodes_as_if_it_lived_there() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let (nodes, brokers) = three(&world, &disks);
    let users = [0, 1, 2].map(|nth| user(&brokers[nth]));
    declare(&brokers[0], &users[0], "q").unwrap();
    until("it is known", || has(&brokers[1], "q") && has(&brokers[2], "q"));
    let sent = bodies(500, 10);
    assert_eq!(publish(&brokers[1], &users[1], "q", &sent), [0; 0]);
    let large = bodies(1, 3 << 20);
    assert_eq!(publish(&brokers[2], &users[2], "q", &large), [0; 0]);
    let counts = brokers[2].check_queue(&users[2], b"q").unwrap().counts.wait().unwrap();
    assert_eq!((counts.ready, counts.consumers), (501, 0));

    let get = |nth: usize, ack: bool| {
        let (queue, call) = brokers[nth].get(&users[nth], b"q", ack).unwrap();
        (queue, call.wait().unwrap().unwrap())
    };
    assert_eq!(get(2, false).1.body[..], sent[0][..]);
    let (queue, got) = get(1, true);
    let settle = |how, seq, consumer| {
        queue.settle(how, &[queues::SettleRun { consumer, first: seq, count: 1 }]);
    };
    settle(queues::SettleHow::Requeue, got.seq, None);
    let ready =
        |nth: usize| brokers[nth].vhost("/").unwrap().queue(b"q").unwrap().counts().wait().unwrap().ready;
    until("it is back", || ready(0) == 500);

    let heard = Arc::new(Heard::default());
    let id = queues::ConsumerId { connection: users[1].connection, token: 7 };
    let request = crate::ConsumeRequest { queue: b"q", spec: consumer(id) };
    let (queue, call) = brokers[1].consume(&users[1], request, heard.clone()).unwrap();
    call.wait().unwrap();
    assert!(heard.delivered.lock().is_empty(), "it is paused");
    queue.resume(id);
    until("all come", || heard.delivered.lock().len() == 500);
    let stats = brokers[2].vhost("/").unwrap().queue(b"q").unwrap().stats().wait();
    assert_eq!((stats.unacked, stats.consumers.len(), &stats.consumers[0].spec), (500, 1, &consumer(id)));
    let delivered = heard.delivered.lock().clone();
    let expected: Vec<_> = sent[1..].iter().chain(&large).cloned().collect();
    assert!(delivered.iter().map(|(_, body)| body).eq(expected.iter()), "in order, whatever their size");
    for (seq, _) in &delivered[..400] {
        queue.settle(
            queues::SettleHow::Ack,
            &[queues::SettleRun { consumer: Some(id), first: *seq, count: 1 }],
        );
    }
    // An ack has arrived when a later question is answered.
    queue.counts().wait().unwrap();
    // The link ends: the rest goes back, the consumer hears of it.
    world.net.cut(&name(0), &name(1));
    until("the consumer is cancelled", || heard.cancelled.load(Ordering::Relaxed));
    until("what it had is ready again", || ready(0) == 100);
    assert!(matches!(brokers[1].check_queue(&users[1], b"q"), Err(Refused::HomeDown { .. })));
    assert_eq!(publish(&brokers[1], &users[1], "q", &bodies(3, 1)), [1, 2, 3]);
    world.net.heal(&name(0), &name(1));
    until("it can be used again", || brokers[1].check_queue(&users[1], b"q").is_ok());
    let purged = brokers[1].purge_queue(&users[1], b"q").unwrap().wait();
    assert_eq!(purged, 100);
    publish(&brokers[1], &users[1], "q", &bodies(2, 1));
    let delete = |if_empty| brokers[2].delete_queue(&users[2], b"q", false, if_empty);
    assert!(matches!(delete(true).unwrap().wait(), Err(Refused::NotEmpty(_))));
    assert_eq!(delete(false).unwrap().wait().unwrap().ready, 2);
    assert!(!has(&brokers[2], "q"), "it is gone where it was asked for");
    for nth in 0..3 {
        stop(&world, nth, &nodes[nth], &brokers[nth]);
    }
}

#[test]
fn an_alarm_of_one_node_blocks_publishers_of_the_others_until_it_is_over_or_the_node_is_gone() {
    use super::peers::{PeerEvents, Vitals};
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let (nodes, brokers) = three(&world, &disks);
    let blocks = || brokers[0].alarms().raised().blocks();
    let short = Vitals { is_memory_short: true, ..Vitals::default() };
    nodes[0].cluster.heard(&name(1), &short);
    assert!(blocks() && brokers[0].alarms().raised().reason() == "low on memory");
    assert!(!nodes[0].cluster.vitals().is_memory_short, "it says what it is itself");
    nodes[0].cluster.heard(&name(1), &Vitals::default());
    assert!(!blocks());
    nodes[0].cluster.heard(&name(1), &short);
    world.net.cut(&name(0), &name(1));
    assert!(!blocks());
    for nth in 0..3 {
        stop(&world, nth, &nodes[nth], &brokers[nth]);
    }
}

#[test]
fn a_node_that_was_away_for_long_gets_the_state_while_it_runs_and_when_it_starts() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let (nodes, brokers) = three(&world, &disks);
    let users = [0, 1, 2].map(|nth| user(&brokers[nth]));
    declare(&brokers[0], &users[0], "goes").unwrap();
    until("it is known", || has(&brokers[2], "goes"));
    world.net.cut(&name(0), &name(2));
    world.net.cut(&name(1), &name(2));
    brokers[0].delete_queue(&users[0], b"goes", false, false).unwrap().wait().unwrap();
    let change = |round: u32| {
        for nth in 0..400 {
            let queue = format!("{round}-{nth}-{}", "x".repeat(100));
            declare(&brokers[0], &users[0], &queue).unwrap();
            if nth % 4 != 0 {
                brokers[0].delete_queue(&users[0], queue.as_bytes(), false, false).unwrap().wait().unwrap();
            }
        }
    };
    until("the majority goes on", || declare(&brokers[0], &users[0], "goes on").is_ok());
    change(1);
    world.net.heal(&name(0), &name(2));
    world.net.heal(&name(1), &name(2));
    let names = |broker: &Broker| -> Vec<Vec<u8>> {
        let vhost = broker.vhost("/").unwrap();
        let mut names: Vec<_> = vhost.queues().iter().map(|queue| queue.name().to_vec()).collect();
        names.sort();
        names
    };
    let snapshot = |broker: &Broker| {
        broker.read_metadata(|state| {
            let mut bytes = Vec::new();
            state.encode_snapshot(&mut bytes);
            bytes
        })
    };
    until("the tables are the same", || names(&brokers[2]) == names(&brokers[0]));
    until("the states are the same", || snapshot(&brokers[2]) == snapshot(&brokers[0]));
    assert_eq!(names(&brokers[2]).len(), 101);
    stop(&world, 2, &nodes[2], &brokers[2]);
    change(2);
    let back = start(&world, 2, &disks[2]);
    let broker = back.open();
    until("it has all after its start", || names(&broker) == names(&brokers[0]));
    stop(&world, 2, &back, &broker);
    for nth in 0..2 {
        let bytes: usize = disks[nth]
            .paths()
            .iter()
            .filter(|path| path.starts_with("/data/cluster/log"))
            .filter_map(|path| disks[nth].contents(path))
            .map(|contents| contents.len())
            .sum();
        assert!(bytes < 1 << 20, "old files go: {bytes} bytes are left");
        stop(&world, nth, &nodes[nth], &brokers[nth]);
    }
}

#[test]
fn a_lost_disk_is_refused_until_the_node_is_forgotten_and_another_name_never_fits() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let (nodes, brokers) = three(&world, &disks);
    let users = [0, 1, 2].map(|nth| user(&brokers[nth]));
    declare(&brokers[2], &users[2], "lost").unwrap();
    declare(&brokers[1], &users[1], "stays").unwrap();
    until_all_vote(&nodes);
    stop(&world, 2, &nodes[2], &brokers[2]);
    let options =
        || ClusterOptions { seeds: 3, change_timeout: Duration::from_secs(2), ..ClusterOptions::default() };
    let empty = SimDisk::new();
    let stranger = start_with(&world, 2, &empty, 99, options());
    let refused = stranger.cluster.wait_ready(Duration::from_secs(20)).unwrap_err();
    assert!(refused.contains("forget_cluster_node rabbit@c"), "{refused}");
    world.net.leave(&name(2));
    stranger.cluster.stop();
    until("it is down", || nodes[0].cluster.view().members.iter().any(|it| it.name == name(2) && !it.is_up));
    nodes[0].cluster.forget(name(2)).wait().unwrap();
    until("it is gone with its queue", || {
        !has(&brokers[0], "lost") && nodes[0].cluster.view().members.len() == 2
    });
    assert!(has(&brokers[0], "stays"));
    let old = start(&world, 2, &disks[2]);
    let refused = old.cluster.wait_ready(Duration::from_secs(20)).unwrap_err();
    assert!(refused.contains("no member"), "{refused}");
    world.net.leave(&name(2));
    old.cluster.stop();
    let anew = start_with(&world, 2, &empty, 99, options());
    let broker = anew.open();
    assert!(has(&broker, "stays") && anew.cluster.own().unwrap().0 == 4);
    stop(&world, 2, &anew, &broker);
    let foundation = Foundation::real(Arc::new(disks[1].copy()));
    let renamed = Cluster::new(foundation, Path::new(DATA), options());
    let versions = VersionRange::OWN;
    let identity = PeerIdentity { name: name(3), data_id: DataId([2; 16]), life: 1, versions };
    let peers = world.net.join(identity, Arc::new(renamed.clone()));
    assert!(renamed.start(peers).unwrap_err().to_string().contains("is that of node rabbit@b"));
    for nth in 0..2 {
        stop(&world, nth, &nodes[nth], &brokers[nth]);
    }
}

#[test]
fn a_node_of_another_cluster_with_the_name_of_a_member_gets_none_of_its_messages() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let (nodes, brokers) = three(&world, &disks);
    let users = [0, 1, 2].map(|nth| user(&brokers[nth]));
    declare(&brokers[2], &users[2], "away").unwrap();
    until("all know the queue", || brokers.iter().all(|broker| has(broker, "away")));
    stop(&world, 2, &nodes[2], &brokers[2]);
    let alone =
        ClusterOptions { seeds: 1, change_timeout: Duration::from_secs(2), ..ClusterOptions::default() };
    let stranger = start_with(&world, 2, &SimDisk::new(), 99, alone);
    let its_broker = stranger.open();
    let its_user = user(&its_broker);
    declare(&its_broker, &its_user, "away").unwrap();
    assert!(nodes[0].cluster.view().members.iter().all(|it| it.name != name(2) || !it.is_up));
    let three_bodies = bodies(3, 10);
    assert_eq!(publish(&brokers[0], &users[0], "away", &three_bodies), [1, 2, 3], "all are refused");
    let count = |broker: &Broker| {
        let queue = broker.vhost("/").unwrap().queue(b"away").unwrap();
        queue.counts().wait().unwrap().ready
    };
    assert_eq!(count(&its_broker), 0);
    stop(&world, 2, &stranger, &its_broker);
    let back = start(&world, 2, &disks[2]);
    let broker = back.open();
    until("the member takes messages", || publish(&brokers[0], &users[0], "away", &three_bodies).is_empty());
    assert_eq!(count(&broker), 3);
    stop(&world, 2, &back, &broker);
    for nth in 0..2 {
        stop(&world, nth, &nodes[nth], &brokers[nth]);
    }
}

#[test]
fn what_a_node_had_alone_comes_along_when_it_forms_a_cluster() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let foundation = Foundation::real(Arc::new(disks[0].clone()));
    let alone = crate::recovery::open(&foundation, Path::new(DATA), BrokerOptions::default(), None).unwrap();
    let guest = user(&alone);
    declare(&alone, &guest, "old").unwrap();
    assert_eq!(publish(&alone, &guest, "old", &bodies(10, 5)), [0; 0]);
    alone.shutdown();
    drop((guest, alone));
    let (nodes, brokers) = three(&world, &disks);
    let users = [0, 1, 2].map(|nth| user(&brokers[nth]));
    until("it is known", || has(&brokers[2], "old"));
    let ready =
        |nth: usize| brokers[nth].check_queue(&users[nth], b"old").unwrap().counts.wait().unwrap().ready;
    assert_eq!((ready(0), ready(2)), (10, 10));
    for nth in 0..3 {
        stop(&world, nth, &nodes[nth], &brokers[nth]);
    }
    let refused = crate::recovery::open(&foundation, Path::new(DATA), BrokerOptions::default(), None);
    assert!(refused.err().unwrap().to_string().contains("member of a cluster"));
}

#[test]
fn members_leave_one_after_the_other_and_the_last_one_goes_on() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let (nodes, brokers) = three(&world, &disks);
    until_all_vote(&nodes);
    let options = |purpose| ClusterOptions { seeds: 3, change_timeout: Duration::from_secs(2), purpose };
    // The first one led the cluster when it was formed.
    for nth in 0..2 {
        stop(&world, nth, &nodes[nth], &brokers[nth]);
        let leaving = start_with(&world, nth, &disks[nth], nth as u8 + 1, options(Purpose::Leave));
        assert_eq!(leaving.cluster.wait_left(Duration::from_secs(20)), Ok(true));
        world.net.leave(&name(nth));
        leaving.cluster.stop();
        until("it is forgotten", || nodes[2].cluster.view().members.len() == 2 - nth);
    }
    let last = user(&brokers[2]);
    declare(&brokers[2], &last, "alone").unwrap();
    let again = start_with(&world, 0, &SimDisk::new(), 77, options(Purpose::Join));
    let broker = again.open();
    assert!(has(&broker, "alone"));
    stop(&world, 0, &again, &broker);
    stop(&world, 2, &nodes[2], &brokers[2]);
}

#[test]
fn a_member_is_forced_to_go_on_without_the_others_who_then_take_no_part() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let (nodes, brokers) = three(&world, &disks);
    let users = [0, 1, 2].map(|nth| user(&brokers[nth]));
    declare(&brokers[1], &users[1], "own").unwrap();
    declare(&brokers[2], &users[2], "lost").unwrap();
    for nth in [0, 2, 1] {
        stop(&world, nth, &nodes[nth], &brokers[nth]);
    }
    let options = |purpose| ClusterOptions { seeds: 3, change_timeout: Duration::from_secs(2), purpose };
    let forced = start_with(&world, 1, &disks[1], 2, options(Purpose::ForceBoot));
    let broker = forced.open();
    let guest = user(&broker);
    assert!(has(&broker, "own") && has(&broker, "lost"));
    declare(&broker, &guest, "new").unwrap();
    let old = start(&world, 0, &disks[0]);
    assert_eq!(old.cluster.wait_ready(Duration::from_secs(2)), Ok(false), "it waits for its own cluster");
    declare(&broker, &guest, "newer").unwrap();
    world.net.leave(&name(0));
    old.cluster.stop();
    stop(&world, 1, &forced, &broker);
    let served = start(&world, 1, &disks[1]);
    let broker = served.open();
    assert!(has(&broker, "newer"), "the next start needs no force");
    stop(&world, 1, &served, &broker);
}
