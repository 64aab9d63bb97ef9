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
    until("all vote", || {
        nodes[0].cluster.view().members.iter().filter(|member| member.is_voter).count() == 3
    });
    declare_quorum(&brokers[0], &users[0], "q");
    until("it is known", || brokers.iter().all(|broker| has(broker, "q")));
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
