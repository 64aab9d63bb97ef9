//! Alarms against memory and disk that are as large as the test says.

use std::path::Path;

use platform::{SimClock, SimDisk, SimMemory};

use super::*;

const DIR: &str = "/data";

struct World {
    memory: Arc<SimMemory>,
    clock: Arc<SimClock>,
    disk: SimDisk,
    alarms: Alarms,
}

/// 1000 bytes of memory, 100 MB of disk; alarms above 600 used and below 50 MB free.
fn world() -> World {
    let (memory, disk, clock) = (Arc::new(SimMemory::new(1000)), SimDisk::new(), Arc::new(SimClock::new(0)));
    disk.create_dir_all(Path::new(DIR)).unwrap();
    disk.set_space_bytes(Some(100_000_000));
    let sources = Sources {
        memory: memory.clone(),
        disk: Arc::new(disk.clone()),
        data_dir: DIR.into(),
        clock: clock.clone(),
        reserve_bytes_max: 64 << 20,
    };
    let limits = (MemoryLimit::Fraction(0.6), DiskLimit::Bytes(50_000_000));
    let alarms =
        Alarms::new(limits, sources, (Arc::new(Nobody), Announcer::silent()), Checkpointer::default());
    World { memory, clock, disk, alarms }
}

impl World {
    fn look(&self) -> &'static str {
        self.alarms.look();
        self.alarms.raised().reason()
    }
}

#[test]
fn memory_above_its_threshold_raises_and_at_it_clears() {
    let world = world();
    for (used, reason) in [(600, ""), (601, "low on memory"), (1000, "low on memory"), (600, "")] {
        world.memory.set_used_bytes(used);
        assert_eq!(world.look(), reason, "{used}");
    }
}

#[test]
fn who_follows_the_memory_threshold_hears_it_at_once_and_when_it_moves() {
    let world = world();
    let heard: Arc<Mutex<Vec<u64>>> = Arc::default();
    let follower = heard.clone();
    world.alarms.follow_memory_limit(move |limit_bytes| follower.lock().push(limit_bytes));
    world.alarms.set_memory_limit(MemoryLimit::Bytes(300));
    world.look();
    assert_eq!(*heard.lock(), [600, 300, 300]);
}

#[test]
fn memory_that_is_free_does_not_count() {
    let world = world();
    world.memory.set_used_bytes(900);
    world.memory.set_kept_bytes(300);
    assert_eq!(world.look(), "");
    world.memory.set_used_bytes(900);
    world.memory.set_kept_bytes(299);
    assert_eq!(world.look(), "low on memory");
}

#[test]
fn between_looks_what_is_free_goes_back_before_memory_crosses_its_threshold() {
    let world = world();
    let is_crossed = |used: u64, kept: u64| {
        world.memory.set_used_bytes(used);
        world.memory.set_kept_bytes(kept);
        let mut is_in_vain = false;
        (world.alarms.is_crossed(&mut is_in_vain), world.memory.used_bytes().unwrap(), is_in_vain)
    };
    assert_eq!(is_crossed(599, 100), (false, 599, false), "not before a look has told how much there is");
    world.look();
    assert_eq!(is_crossed(450, 100), (false, 450, false), "not near");
    assert_eq!(is_crossed(451, 100), (false, 351, false));
    assert_eq!(is_crossed(580, 20), (false, 560, true));
    assert_eq!(is_crossed(700, 99), (true, 601, true));
    world.look();
    assert_eq!(is_crossed(700, 50), (false, 700, false), "the alarm is on, and ends with a look");
}

#[test]
fn disk_below_its_threshold_raises_and_at_it_clears() {
    let world = world();
    for (space, reason) in [(49_999_999, "low on disk"), (50_000_000, ""), (0, "low on disk")] {
        world.disk.set_space_bytes(Some(space));
        assert_eq!(world.look(), reason, "{space}");
    }
}

#[test]
fn a_moved_threshold_counts_at_once_and_both_reasons_are_joined() {
    let world = world();
    world.memory.set_used_bytes(1);
    world.alarms.set_memory_limit(MemoryLimit::Fraction(0.0));
    assert_eq!(world.alarms.raised().reason(), "low on memory");
    world.alarms.set_disk_limit(DiskLimit::OfMemory(1e6));
    assert_eq!(world.alarms.raised().reason(), "low on disk & memory");
    world.alarms.set_memory_limit(MemoryLimit::Bytes(1));
    world.alarms.set_disk_limit(DiskLimit::Bytes(0));
    assert!(!world.alarms.raised().blocks());
}

#[test]
fn a_full_disk_raises_at_once_and_clears_only_when_there_is_room_and_nobody_waits() {
    let world = world();
    world.alarms.set_disk_limit(DiskLimit::Bytes(0));
    let free_bytes = || world.disk.free_bytes(Path::new(DIR)).unwrap();
    assert_eq!(free_bytes(), 75_000_000, "a quarter is in reserve");
    world.disk.set_space_bytes(Some(25_000_000));
    assert!(world.alarms.make_room() && world.alarms.make_room());
    assert_eq!(free_bytes(), 12_500_000);
    assert_eq!(world.alarms.raised(), Raised::DISK.with(Raised::DISK_FULL));
    world.alarms.log_waits();
    assert!(world.alarms.raised().has(Raised::LOG_WAITS));
    world.disk.set_space_bytes(Some(50_000_000));
    assert_eq!(world.look(), "low on disk");
    assert_eq!(free_bytes(), 37_500_000, "the log has not written yet");
    assert!(world.alarms.check_durable().is_err());
    world.alarms.log_goes_on();
    assert!(world.alarms.check_durable().is_err());
    world.disk.set_space_bytes(Some(37_499_999));
    assert_eq!(world.look(), "low on disk");
    world.disk.set_space_bytes(Some(37_500_000));
    assert_eq!((world.look(), free_bytes()), ("", 12_500_000));
    world.alarms.disk_full();
    assert_eq!(world.alarms.raised(), Raised::DISK.with(Raised::DISK_FULL));
    world.clock.advance(FOUND_FULL);
    assert_eq!(world.look(), "");
}

#[test]
fn what_could_wait_and_found_no_room_keeps_the_alarm_on_until_there_is_some() {
    let world = world();
    world.alarms.set_disk_limit(DiskLimit::Bytes(0));
    world.look();
    world.disk.set_space_bytes(Some(28_000_000));
    assert_eq!(world.look(), "", "3 MB are free");
    world.alarms.disk_full();
    for _ in 0..5 {
        assert_eq!(world.look(), "low on disk", "half of what is in reserve is not free");
    }
    assert_eq!(world.alarms.reserve.bytes(), 25_000_000, "nothing of it is given up");
    world.disk.set_space_bytes(Some(38_000_000));
    assert_eq!(world.look(), "low on disk", "a disk that takes no more files has room, too");
    world.clock.advance(FOUND_FULL);
    assert_eq!(world.look(), "");
}

#[test]
fn the_reserve_counts_as_free() {
    let world = world();
    world.look();
    for (space, reason) in [(50_000_000, ""), (49_999_999, "low on disk")] {
        world.disk.set_space_bytes(Some(space));
        assert_eq!((world.look(), world.alarms.levels().disk_free_bytes), (reason, Some(space)));
    }
    assert_eq!(world.disk.free_bytes(Path::new(DIR)).unwrap(), 24_999_999);
}

#[test]
fn what_empties_a_file_may_have_half_of_what_is_free_and_in_reserve() {
    let world = world();
    world.alarms.set_disk_limit(DiskLimit::Bytes(0));
    let free_bytes = || world.disk.free_bytes(Path::new(DIR)).unwrap();
    world.disk.set_space_bytes(Some(29_000_000));
    let reserved = 25_000_000 - (1 << 20);
    assert!(!world.alarms.takes_place(2_000_001 + reserved / 2, 0));
    assert!(world.alarms.takes_place(2_000_000, 0) && !world.alarms.raised().blocks());
    assert_eq!(free_bytes(), 4_000_000);
    assert!(world.alarms.takes_place(2_000_001, 0));
    assert_eq!((free_bytes(), world.alarms.raised().has(Raised::DISK_FULL)), (10_250_000, true));
    assert!(!world.alarms.takes_place(2_000_001, 29_000_000), "as much waits to be written");
}

#[test]
fn a_message_that_is_larger_than_what_may_wait_needs_room_of_its_own() {
    let world = world();
    world.alarms.set_disk_limit(DiskLimit::Bytes(0));
    let may_come = |free_bytes: u64| {
        world.disk.set_space_bytes(Some(25_000_000 + free_bytes));
        world.alarms.check_room("a message", 20_000_000, 1_000_000)
    };
    assert!(may_come(21_000_000 + 25_000_000 / 4).is_ok());
    let Err(Refused::Storage(why)) = may_come(21_000_000 + 25_000_000 / 4 - 1) else {
        panic!("it would fill the disk")
    };
    assert!(why.contains("27249999 bytes are free, too few for a message of 20000000 bytes"), "{why}");
}

#[test]
fn a_life_that_begins_on_a_full_disk_knows_it() {
    let world = world();
    world.alarms.set_disk_limit(DiskLimit::Bytes(0));
    world.disk.set_space_bytes(Some(25_000_000));
    assert!(world.alarms.make_room());
    world.disk.set_space_bytes(Some(20_000_000));
    let sources = Sources {
        memory: Arc::new(SimMemory::new(0)),
        disk: Arc::new(world.disk.clone()),
        data_dir: DIR.into(),
        clock: world.clock.clone(),
        reserve_bytes_max: 64 << 20,
    };
    let limits = (MemoryLimit::Fraction(0.6), DiskLimit::Bytes(0));
    let next = Alarms::new(limits, sources, (Arc::new(Nobody), Announcer::silent()), Checkpointer::default());
    next.make_room_to_start();
    assert_eq!(next.raised(), Raised::DISK.with(Raised::DISK_FULL));
    assert!(next.check_durable().is_ok(), "what is declared with the start is");
    next.look();
    assert!(next.raised().has(Raised::DISK_FULL), "half of the reserve is to be free beside it");
    next.disk_full();
    assert!(next.check_durable().is_err());
    world.clock.advance(FOUND_FULL);
    world.disk.set_space_bytes(Some(37_500_000));
    next.look();
    assert_eq!(next.raised(), Raised::default());
}

#[test]
fn what_cannot_be_measured_raises_nothing() {
    let world = world();
    let memory = Arc::new(SimMemory::new(0));
    memory.set_used_bytes(5);
    let sources = Sources {
        memory,
        disk: Arc::new(world.disk.clone()),
        data_dir: DIR.into(),
        clock: Arc::new(SimClock::new(0)),
        reserve_bytes_max: 64 << 20,
    };
    let limits = (MemoryLimit::Fraction(0.6), DiskLimit::Bytes(1));
    let alarms =
        Alarms::new(limits, sources, (Arc::new(Nobody), Announcer::silent()), Checkpointer::default());
    alarms.look();
    assert_eq!(alarms.raised(), Raised::default());
}

#[test]
fn the_first_failure_of_storage_is_kept_for_good() {
    let world = world();
    world.alarms.storage_failed("first");
    world.alarms.storage_failed("second");
    assert_eq!(world.alarms.storage_failure().as_deref(), Some("first"));
    assert_eq!(world.look(), "");
    let Err(Refused::Storage(text)) = world.alarms.check_durable() else {
        panic!("nothing durable is promised")
    };
    assert!(text.ends_with("until the node is restarted: first"), "{text}");
    assert!(world.alarms.raised().has(Raised::STORAGE_FAILED) && !world.alarms.raised().blocks());
}
