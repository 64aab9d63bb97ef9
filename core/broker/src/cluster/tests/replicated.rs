//! Quorum queues on three brokers over simulated disks: power cuts on one node after the other lose nothing that was confirmed.

use super::*;

fn declare_quorum(broker: &Broker, principal: &Principal, queue: &str) {
    let mut arguments = message::TableBuf::new();
    arguments.push_str("x-queue-type", "quorum");
    let declare = QueueDeclare {
        name: queue.as_bytes(),
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: arguments.as_table(),
    };
    broker.declare_queue(principal, declare).unwrap().counts.wait().unwrap();
}

/// A quorum queue that the first node leads, known on all, when all vote.
fn declare_on_all(nodes: &[Node; 3], brokers: &[Broker; 3], principal: &Principal, queue: &str) {
    until_all_vote(nodes);
    declare_quorum(&brokers[0], principal, queue);
    until("the queue is known", || brokers.iter().all(|broker| has(broker, queue)));
}

fn leader(broker: &Broker, queue: &str) -> u16 {
    broker.vhost("/").unwrap().queue(queue.as_bytes()).unwrap().home_node()
}

/// Publishes until each message is confirmed: a nack is answered by sending again.
fn publish_all(broker: &Broker, principal: &Principal, queue: &str, bodies: &[Vec<u8>]) {
    let mut left = bodies.to_vec();
    until("all publishes are confirmed", || {
        let refused = publish(broker, principal, queue, &left);
        left = refused.iter().map(|nth| left[*nth as usize - 1].clone()).collect();
        left.is_empty()
    });
}

fn ready(broker: &Broker, queue: &str) -> Option<u64> {
    let counts = broker.vhost("/")?.queue(queue.as_bytes())?.counts().wait();
    counts.ok().map(|counts| counts.ready)
}

#[test]
fn power_cuts_of_one_leader_after_the_other_lose_nothing_that_was_confirmed() {
    let world = World::new();
    let mut disks = [SimDisk::new(), SimDisk::new(), SimDisk::new()];
    let (mut nodes, mut brokers) = three(&world, &disks);
    let mut users = [0, 1, 2].map(|nth| user(&brokers[nth]));
    declare_on_all(&nodes, &brokers, &users[0], "q");
    let all = bodies(600, 100);
    let mut sent = 0;
    for round in 0..4 {
        let own = leader(&brokers[1], "q");
        let leads = (0..3).find(|nth| nodes[*nth].cluster.own().unwrap().0 == own).unwrap();
        let other = (leads + 1) % 3;
        publish_all(&brokers[other], &users[other], "q", &all[sent..sent + 100]);
        sent += 100;
        // The disk of the leader keeps its contents of now. Others go on without it.
        let left = disks[leads].fork();
        left.crash(round);
        stop(&world, leads, &nodes[leads], &brokers[leads]);
        until("another node leads", || leader(&brokers[other], "q") != own);
        publish_all(&brokers[other], &users[other], "q", &all[sent..sent + 50]);
        sent += 50;
        disks[leads] = left;
        nodes[leads] = start(&world, leads, &disks[leads]);
        brokers[leads] = nodes[leads].open();
        users[leads] = user(&brokers[leads]);
        until("it knows the queue", || has(&brokers[leads], "q"));
        let replicas = || brokers[leads].vhost("/").unwrap().queue(b"q").unwrap().replicas().unwrap();
        until("it is in sync again", || replicas().in_sync.len() == 3);
    }
    until("all are there", || ready(&brokers[0], "q") == Some(ready(&brokers[1], "q").unwrap_or(0)));
    let mut found = std::collections::BTreeSet::new();
    loop {
        let (_, call) = brokers[2].get(&users[2], b"q", false).unwrap();
        let Some(got) = call.wait().unwrap() else { break };
        found.insert(got.body.to_vec());
    }
    let missing: Vec<_> = all[..sent].iter().filter(|body| !found.contains(*body)).collect();
    assert!(missing.is_empty(), "{} of {sent} confirmed messages are gone", missing.len());
    for nth in 0..3 {
        stop(&world, nth, &nodes[nth], &brokers[nth]);
    }
}

/// A consumer of a node, which hears of what comes to it.
fn consume(broker: &Broker, principal: &Principal, queue: &str, prefetch: u32) -> Arc<Heard> {
    let heard = Arc::new(Heard::default());
    let id = queues::ConsumerId { connection: principal.connection, token: 7 };
    let spec = queues::ConsumerSpec { prefetch, ..consumer(id) };
    let request = crate::ConsumeRequest { queue: queue.as_bytes(), spec };
    let (queue, call) = broker.consume(principal, request, heard.clone()).unwrap();
    call.wait().unwrap();
    queue.resume(id);
    heard
}

/// Publishes without waiting for a confirm.
fn publish_unconfirmed(broker: &Broker, principal: &Principal, queue: &str, body: &[u8]) {
    let mut channel = crate::PublishChannel::new();
    let mut publisher = crate::Publisher::new(broker, principal);
    let (exchange, properties) = (&b""[..], &[0x10, 0, 2][..]);
    let message =
        crate::Incoming { mandatory: false, exchange, routing_key: queue.as_bytes(), properties, body };
    publisher.publish(&mut channel, message).unwrap();
    publisher.flush();
}

fn waits_for(broker: &Broker, queue: &str) -> Option<String> {
    broker.vhost("/").unwrap().queue(queue.as_bytes()).unwrap().delivery_waits_for()
}

#[test]
fn a_leader_that_is_cut_off_delivers_nothing_until_it_is_linked_again() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let (nodes, brokers) = three(&world, &disks);
    let users = [0, 1, 2].map(|nth| user(&brokers[nth]));
    declare_on_all(&nodes, &brokers, &users[0], "q");
    let sent = bodies(3, 10);
    publish_all(&brokers[0], &users[0], "q", &sent);
    let first = consume(&brokers[0], &users[0], "q", 0);
    until("the leader delivers", || first.delivered.lock().len() == 3);
    assert_eq!(waits_for(&brokers[0], "q"), None);

    world.net.cut(&name(0), &name(1));
    until("one node less changes nothing", || !nodes[0].cluster.view().members.iter().all(|it| it.is_up));
    publish_unconfirmed(&brokers[0], &users[0], "q", b"before");
    until("it is linked with a majority", || first.delivered.lock().len() == 4);
    world.net.cut(&name(0), &name(2));
    let says_so = |why: &str| why.starts_with("the leader is linked with 1 of 3 nodes");
    until("the leader stops and says why", || waits_for(&brokers[0], "q").is_some_and(|it| says_so(&it)));
    publish_unconfirmed(&brokers[0], &users[0], "q", b"lonely");
    until("the message is in the queue", || ready(&brokers[0], "q") == Some(1));
    let own = nodes[0].cluster.own().unwrap().0;
    until("another node leads", || leader(&brokers[1], "q") != own && leader(&brokers[2], "q") != own);
    let second = consume(&brokers[1], &users[1], "q", 0);
    until("the next leader delivers", || second.delivered.lock().len() >= 3);
    publish_all(&brokers[2], &users[2], "q", &[b"later".to_vec()]);
    let has_later = || second.delivered.lock().iter().any(|(_, body)| body == b"later");
    until("it goes on", has_later);
    assert_eq!(first.delivered.lock().len(), 4, "the old leader delivers nothing");

    world.net.heal(&name(0), &name(1));
    world.net.heal(&name(0), &name(2));
    until("it follows", || leader(&brokers[0], "q") != own);
    let mut nth = 0;
    until("consumers of both nodes are served", || {
        nth += 1;
        publish_all(&brokers[2], &users[2], "q", &[format!("healed {nth}").into_bytes()]);
        let is_served = |heard: &Heard| heard.delivered.lock().iter().any(|it| it.1.starts_with(b"healed"));
        is_served(&first) && is_served(&second)
    });
    for nth in 0..3 {
        stop(&world, nth, &nodes[nth], &brokers[nth]);
    }
}

#[test]
fn consumers_that_are_brought_to_the_same_leader_again_keep_their_messages() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let (nodes, brokers) = three(&world, &disks);
    let users = [0, 1, 2].map(|nth| user(&brokers[nth]));
    declare_on_all(&nodes, &brokers, &users[0], "q");
    publish_all(&brokers[0], &users[0], "q", &bodies(6, 10));
    let heard = [0, 1, 2].map(|nth| consume(&brokers[nth], &users[nth], "q", 2));
    until("each has two", || heard.iter().all(|heard| heard.delivered.lock().len() == 2));

    let queues = [0, 1, 2].map(|nth| brokers[nth].vhost("/").unwrap().queue(b"q").unwrap());
    let ids = [0, 1, 2].map(|nth| queues::ConsumerId { connection: users[nth].connection, token: 7 });
    for (queue, id) in queues.iter().zip(ids) {
        let replica = queue.replica.get().unwrap();
        replica.bring_again(id, replica.known().epoch);
    }
    let is_brought = |queue: &Arc<crate::cell::Queue>| !queue.replica.get().unwrap().is_to_bring_again();
    until("all are brought again", || queues.iter().all(is_brought));
    for ((queue, id), heard) in queues.iter().zip(ids).zip(&heard) {
        queue.counts().wait().unwrap();
        let all: Vec<_> = heard.delivered.lock().iter().map(|(seq, _)| *seq).collect();
        for first in all {
            let run = queues::SettleRun { consumer: Some(id), first, count: 1 };
            queue.settle(queues::SettleHow::Ack, &[run]);
        }
    }
    until("all are settled", || queues[0].stats().wait().unacked == 0);
    publish_all(&brokers[0], &users[0], "q", &bodies(6, 10));
    until("each gets two more", || heard.iter().all(|heard| heard.delivered.lock().len() == 4));
    for nth in 0..3 {
        stop(&world, nth, &nodes[nth], &brokers[nth]);
    }
}
