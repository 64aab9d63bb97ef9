//! Nodes of different releases in one cluster.

use super::*;

/// Versions of an older release, of one that speaks with it, and of one after that. Most commands came with version 4.
const OLDER: VersionRange = VersionRange { min: 3, max: 3 };
const BOTH: VersionRange = VersionRange { min: 3, max: 4 };
const NEWER: VersionRange = VersionRange { min: 3, max: 5 };

fn speaking(world: &World, nth: usize, disk: &SimDisk, versions: VersionRange) -> (Node, Broker) {
    let node = started(world, nth, disk, versions);
    let broker = node.open();
    (node, broker)
}

fn started(world: &World, nth: usize, disk: &SimDisk, versions: VersionRange) -> Node {
    let options =
        ClusterOptions { seeds: 3, change_timeout: Duration::from_secs(2), ..ClusterOptions::default() };
    start_speaking(world, (nth, nth as u8 + 1), disk, options, versions)
}

fn three_speaking(world: &World, disks: &[SimDisk; 3], versions: [VersionRange; 3]) -> [(Node, Broker); 3] {
    let nodes = [0, 1, 2].map(|nth| started(world, nth, &disks[nth], versions[nth]));
    nodes.map(|node| {
        let broker = node.open();
        (node, broker)
    })
}

#[test]
fn nodes_of_a_newer_release_work_with_one_of_an_older_at_the_version_of_that() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let four = VersionRange { min: 4, max: 4 };
    let own = VersionRange::OWN;
    assert_eq!((four.common(own), own.common(four), OLDER.common(own)), (Some(4), Some(4), None));
    let nodes = three_speaking(&world, &disks, [four, own, own]);
    let users = [0, 1, 2].map(|nth| user(&nodes[nth].1));
    let have = |queue: &str| nodes.iter().all(|(_, broker)| has(broker, queue));
    for nth in 0..3 {
        let (first, queue) = (format!("first {nth}"), format!("q{nth}"));
        declare(&nodes[nth].1, &users[nth], &first).unwrap();
        until("all serve", || have(&first));
        declare(&nodes[nth].1, &users[nth], &queue).unwrap();
        assert!(have(&queue), "every node has it with the answer");
    }
    for (nth, (node, broker)) in nodes.iter().enumerate() {
        stop(&world, nth, node, broker);
    }
}

#[test]
fn a_command_that_a_member_does_not_know_is_refused_until_that_is_upgraded() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let [a, b, c] = three_speaking(&world, &disks, [BOTH; 3]);
    let users = [user(&a.1), user(&b.1)];
    declare(&a.1, &users[0], "all know it").unwrap();
    stop(&world, 2, &c.0, &c.1);
    until("the others go on without it", || declare(&a.1, &users[0], "it was seen and knows it").is_ok());
    let c = speaking(&world, 2, &disks[2], OLDER);
    until(
        "the older one is linked",
        || matches!(declare(&a.1, &users[0], "one does not know it"), Err(Refused::Storage(text)) if text.contains("node 'rabbit@c' of the cluster is older")),
    );
    assert!(declare(&b.1, &users[1], "one does not know it").is_err());
    assert!(!has(&c.1, "one does not know it"));
    stop(&world, 2, &c.0, &c.1);
    let c = speaking(&world, 2, &disks[2], NEWER);
    until("all know it again", || declare(&a.1, &users[0], "one does not know it").is_ok());
    until("it is there", || has(&c.1, "one does not know it"));
    for (nth, (node, broker)) in [&a, &b, &c].into_iter().enumerate() {
        stop(&world, nth, node, broker);
    }
}

#[test]
fn a_node_that_is_older_than_all_members_may_not_join() {
    let (world, disks) = (World::new(), [SimDisk::new(), SimDisk::new(), SimDisk::new()]);
    let nodes = three_speaking(&world, &disks, [BOTH; 3]);
    let older = started(&world, 3, &SimDisk::new(), OLDER);
    let refused = older.cluster.wait_ready(Duration::from_secs(20)).unwrap_err();
    assert!(refused.contains("node rabbit@d is older than all members"), "{refused}");
    world.net.leave(&name(3));
    older.cluster.stop();
    for (nth, (node, broker)) in nodes.iter().enumerate() {
        stop(&world, nth, node, broker);
    }
}
