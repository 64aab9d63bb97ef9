//! Alarms and failing disks as one connection sees them (B27).

use broker::{DiskLimit, MemoryLimit, Raised};
use wire::amqp091::methods::confirm;

use super::*;

/// Turns the memory alarm on.
fn raise(world: &World) {
    world.broker.alarms().set_memory_limit(MemoryLimit::Bytes(0));
}

/// Turns it off again.
fn clear(world: &World) {
    world.broker.alarms().set_memory_limit(MemoryLimit::Fraction(1.0));
}

/// connection.blocked with this reason.
fn blocked(client: &mut Client, reason: &str) {
    let blocked = client.wait("connection.blocked");
    let Some(Method::ConnectionBlocked(blocked)) = blocked.method() else { unreachable!() };
    assert_eq!(blocked.reason, reason);
}

fn state(world: &World) -> &'static str {
    world.broker.connections().all()[0].1.info().state
}

/// A persistent message to `q`.
fn persistent() -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_publish(&mut bytes, 1, b"", b"q", false, &[0x10, 0, 2], b"x", 131_072);
    bytes
}

#[test]
fn an_alarm_stops_those_who_publish_and_no_others() {
    let world = World::new();
    let (mut publisher, mut other) = (world.channel(), world.channel());
    publisher.declare("q");
    raise(&world);
    assert_eq!(other.names_until_answer(1), [""; 0]);
    publisher.publish(1, "q", b"x");
    blocked(&mut publisher, "low on memory");
    assert!(publisher.session.is_stalled());
    publisher.method(1, basic::Qos::default());
    assert_eq!(publisher.names(), [""; 0]);
    assert_eq!(other.ready("q"), 0, "the message waits with its connection");
    clear(&world);
    assert_eq!(publisher.names(), ["connection.unblocked", "basic.qos-ok"]);
    assert_eq!(other.ready("q"), 1);
    assert_eq!(other.names(), [""; 0]);
}

#[test]
fn the_connection_is_told_once_and_goes_on_when_all_alarms_are_off() {
    let world = World::new();
    let mut client = world.channel();
    raise(&world);
    world.broker.alarms().set_disk_limit(DiskLimit::Bytes(u64::MAX));
    client.publish(1, "q", b"x");
    blocked(&mut client, "low on disk & memory");
    clear(&world);
    assert_eq!(client.names(), [""; 0]);
    raise(&world);
    world.broker.alarms().set_disk_limit(DiskLimit::Bytes(0));
    assert_eq!(client.names(), [""; 0]);
    clear(&world);
    assert_eq!(client.names(), ["connection.unblocked"]);
}

#[test]
fn the_state_of_a_connection_shows_the_alarm() {
    let world = World::new();
    let mut client = world.channel();
    assert_eq!(state(&world), "running");
    raise(&world);
    client.turn();
    assert_eq!(state(&world), "blocking");
    client.publish(1, "q", b"x");
    blocked(&mut client, "low on memory");
    assert_eq!(state(&world), "blocked");
    clear(&world);
    client.turn();
    assert_eq!(state(&world), "running");
}

#[test]
fn a_message_in_pieces_is_stopped_at_its_header() {
    let world = World::new();
    let mut client = world.channel();
    client.declare("q");
    raise(&world);
    let bytes = message(1, "", "q", b"body");
    for byte in bytes {
        client.send(&[byte]);
    }
    blocked(&mut client, "low on memory");
    assert_eq!(client.names(), [""; 0]);
    clear(&world);
    assert_eq!(client.names(), ["connection.unblocked"]);
    assert_eq!(client.ready("q"), 1);
}

#[test]
fn a_client_that_cannot_be_told_is_held_without_a_word() {
    let world = World::new();
    let mut client = world.tuning();
    client.tune_and_open(131_072);
    client.wait("connection.open-ok");
    client.open_channel(1);
    raise(&world);
    client.publish(1, "q", b"x");
    client.method(1, basic::Qos::default());
    assert_eq!(client.names(), [""; 0]);
    clear(&world);
    assert_eq!(client.names(), ["basic.qos-ok"]);
}

#[test]
fn a_connection_opened_during_the_alarm_and_a_silent_one_are_treated_alike() {
    let world = World::new();
    raise(&world);
    let mut client = world.channel();
    client.publish(1, "q", b"x");
    blocked(&mut client, "low on memory");
    for _ in 0..10 {
        client.after_ms(10_000);
    }
    assert_eq!(client.session.state(), State::Running, "silence says nothing while nobody listens");
    clear(&world);
    assert!(client.names().ends_with(&["connection.unblocked"]));
}

#[test]
fn a_blocked_connection_hears_that_it_is_to_close() {
    let world = World::new();
    let mut client = world.channel();
    raise(&world);
    client.publish(1, "q", b"x");
    blocked(&mut client, "low on memory");
    world.broker.close_all_connections(&CloseReason::Operator("enough".into()));
    assert_eq!(client.wait("connection.close").close().1, "CONNECTION_FORCED - enough");
}

#[test]
fn a_failed_sync_is_a_nack_and_then_persistent_messages_close_the_connection() {
    let disk = SimDisk::new();
    let world = World::on(&disk);
    let (mut client, mut other) = (world.channel(), world.channel());
    client.declare("q");
    client.method(1, confirm::Select::default());
    client.wait("confirm.select-ok");
    disk.fail_nth_sync(1);
    client.send(&persistent());
    client.wait("basic.nack");
    let why = world.broker.alarms().storage_failure().unwrap();
    assert!(why.contains("cannot sync /data/log/"), "{why}");
    client.send(&persistent());
    let (code, text, method) = client.wait("connection.close").close();
    assert_eq!((code, method), (541, (60, 40)));
    assert!(text.starts_with("INTERNAL_ERROR - storage has failed, nothing durable is accepted"), "{text}");
    // Transient messages, and messages that are there, go on.
    other.publish(1, "q", b"transient");
    assert_eq!(other.ready("q"), 2);
    other.declare("q");
    other.method(1, durable("new"));
    assert_eq!(other.wait("connection.close").close().0, 541);
}

#[test]
fn a_declaration_whose_sync_fails_closes_the_connection() {
    let disk = SimDisk::new();
    let world = World::on(&disk);
    let mut client = world.channel();
    disk.fail_nth_sync(1);
    client.method(1, durable("q"));
    let (code, text, method) = client.wait("connection.close").close();
    assert_eq!((code, method), (541, (50, 10)));
    assert!(text.contains("cannot sync /data/meta/"), "{text}");
}

#[test]
fn a_full_disk_holds_confirms_and_publishers_until_there_is_room() {
    full_disk(false);
}

#[test]
fn publishers_that_wait_as_there_is_too_much_to_store_are_told_of_a_full_disk() {
    full_disk(true);
}

/// Publishes until the disk is full, which somebody has seen before; then little may wait to be stored.
fn full_disk(is_seen: bool) {
    let disk = SimDisk::new();
    let world = World::on(&disk);
    let (mut client, mut other) = (world.channel(), world.channel());
    client.declare("q");
    client.method(1, confirm::Select::default());
    client.wait("confirm.select-ok");
    // The limit does not stop the first before the log finds no room.
    world.broker.alarms().set_disk_limit(DiskLimit::Bytes(0));
    disk.set_space_bytes(Some(0));
    if is_seen {
        world.broker.alarms().set_disk_limit(DiskLimit::Bytes(0));
    }
    // They fill what the log had written in advance. One that is larger than what may wait would be refused if somebody looked at the disk now.
    for _ in 0..4 {
        let mut large = Vec::new();
        encode_publish(&mut large, 1, b"", b"q", false, &[0x10, 0, 2], &vec![7; 900 << 10], 131_072);
        client.send(&large);
    }
    let until = Instant::now() + PATIENCE;
    while !world.broker.alarms().raised().has(Raised::LOG_WAITS.with(Raised::DISK)) {
        assert!(Instant::now() < until, "no alarm");
        std::thread::yield_now();
    }
    client.send(&persistent());
    // The first ones are there, or wait as well: the alarm may have been raised before they came.
    let told = loop {
        let got = client.frame();
        if got.name() != "basic.ack" {
            break got;
        }
    };
    let Some(Method::ConnectionBlocked(told)) = told.method() else { panic!("{:?}", told.method()) };
    assert_eq!(told.reason, "low on disk");
    assert!(other.ready("q") <= 4);
    other.method(1, durable("new"));
    let (code, text, _) = other.wait("connection.close").close();
    assert_eq!(code, 541);
    assert_eq!(text, "INTERNAL_ERROR - the disk is full, nothing durable is accepted until there is room");
    disk.set_space_bytes(None);
    let mut names = Vec::new();
    while !(names.contains(&"basic.ack") && names.contains(&"connection.unblocked")) {
        names.push(client.frame().name());
    }
    assert!(!names.contains(&"basic.nack"), "{names:?}");
    client.method(1, queue::Declare { passive: true, ..durable("q") });
    let ready = loop {
        match client.frame().method() {
            Some(Method::BasicAck(_)) => {}
            Some(Method::QueueDeclareOk(ok)) => break ok.message_count,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ready, 5);
}

#[test]
fn who_waits_because_of_what_it_settles_is_not_held_by_an_alarm() {
    let world = World::new();
    let mut client = confirming(&world);
    client.send(&persistent());
    // As if so much waited to be stored that nothing is read, neither what is published nor acks.
    let is_held = |client: &mut Client| {
        let running = client.session.running.as_mut().expect("it is open");
        running.publisher_full = true;
        running.alarm(Raised::DISK);
        let holds = running.alarm.holds;
        running.alarm(Raised::default());
        holds
    };
    assert!(is_held(&mut client), "it has published");
    let _told_and_confirmed = [(); 3].map(|()| client.frame());
    client.method(1, get("q", false));
    client.wait("basic.get-ok");
    let _content = (client.frame(), client.frame());
    client.ack(1, false);
    assert!(!is_held(&mut client), "it makes room");
    assert_eq!(client.ready("q"), 0);
}

/// `q` with a confirming channel before it.
fn confirming(world: &World) -> Client {
    let mut client = world.channel();
    client.declare("q");
    client.method(1, confirm::Select::default());
    client.wait("confirm.select-ok");
    client
}

/// Publishes until so many bytes are confirmed; returns the number of messages.
fn confirmed(client: &mut Client, bytes: usize) -> u32 {
    const BODY_BYTES: usize = 1 << 20;
    let count = bytes.div_ceil(BODY_BYTES) as u32;
    (0..count).for_each(|_| confirmed_one(client, BODY_BYTES));
    count
}

/// Publishes a message of so many bytes to `q`, and waits until it is confirmed.
fn confirmed_one(client: &mut Client, body_bytes: usize) {
    let mut bytes = Vec::new();
    encode_publish(&mut bytes, 1, b"", b"q", false, &[0x10, 0, 2], &vec![7; body_bytes], 131_072);
    client.send(&bytes);
    client.wait("basic.ack");
}

/// Stops the broker, lets the power fail, starts it again; returns how many messages are in `q`.
fn ready_after_a_power_cut(disk: &SimDisk, world: World, clients: Vec<Client>) -> u32 {
    drop(clients);
    world.broker.shutdown();
    drop(world);
    disk.crash(7);
    World::on(disk).channel().ready("q")
}

#[test]
fn a_broker_whose_log_has_failed_can_be_stopped_and_keeps_what_was_confirmed() {
    let disk = SimDisk::new();
    let world = World::on(&disk);
    let mut client = confirming(&world);
    let count = confirmed(&mut client, 3 << 20);
    disk.fail_nth_sync(1);
    client.send(&persistent());
    client.wait("basic.nack");
    let ready = ready_after_a_power_cut(&disk, world, vec![client]);
    assert!((count..=count + 1).contains(&ready), "{ready} of {count}");
}

#[test]
fn a_broker_whose_disk_is_full_can_be_stopped_and_keeps_what_was_confirmed() {
    let disk = SimDisk::new();
    let world = World::on(&disk);
    let mut client = confirming(&world);
    let count = confirmed(&mut client, 3 << 20);
    disk.set_space_bytes(Some(0));
    let mut large = Vec::new();
    encode_publish(&mut large, 1, b"", b"q", false, &[0x10, 0, 2], &vec![7; 3 << 20], 131_072);
    client.send(&large);
    client.publish(1, "q", b"transient");
    world.broker.shutdown();
    disk.set_space_bytes(None);
    assert_eq!(ready_after_a_power_cut(&disk, world, vec![client]), count);
}

#[test]
fn segments_that_cannot_be_synced_are_told_and_the_log_keeps_the_messages() {
    let disk = SimDisk::new();
    let world = World::on(&disk);
    let mut client = confirming(&world);
    // More than one file of the log, so that messages have to move out of it when room is short; and with each a transient one, so
    // that they cannot stay where the log has them.
    let count = 280;
    for _ in 0..count {
        client.publish(1, "q", b"transient");
        client.wait("basic.ack");
        // A larger one would be a block by itself.
        confirmed_one(&mut client, 250_000);
    }
    disk.set_space_bytes(Some(1 << 40));
    // The first two are of the reserve, which is made now: its file, and the folder.
    disk.fail_nth_sync(3);
    world.broker.alarms().set_disk_limit(DiskLimit::Bytes(u64::MAX));
    let until = Instant::now() + PATIENCE;
    let why = loop {
        match world.broker.alarms().storage_failure() {
            Some(why) => break why,
            None => assert!(Instant::now() < until, "the failure was not told"),
        }
        std::thread::yield_now();
    };
    assert!(why.contains("cannot sync /data/segments/"), "{why}");
    assert_eq!(ready_after_a_power_cut(&disk, world, vec![client]), count);
}
