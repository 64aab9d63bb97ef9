//! Groups on simulated nodes: disks lose what was not synced, nets lose, repeat, delay and cut, clocks drift, nodes die at any
//! moment, members change. One thread, from a seed.
//!
//! A failure prints its seed. `MULTIRAFT_SEEDS=17..18 cargo test -p multiraft --test simulation confirmed` repeats that of seed 17.
//! A wider range runs many.

#![allow(clippy::print_stderr, reason = "seeds are for people")]

mod disk;
mod faults;
mod machine;
mod operator;
mod oracle;
mod world;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use disk::Planted;
use oracle::Events;
use world::World;

/// Says which seed it was when a history fails.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {0} failed; repeat with MULTIRAFT_SEEDS={0}..{1}", self.0, self.0 + 1);
        }
    }
}

/// The counts of a history.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    confirmed: usize,
    /// Before the quiet.
    events: Events,
    fingerprint: u64,
}

/// 20 seconds of trouble, then quiet, then everything has to be there.
fn history(seed: u64, planted: Planted) -> Told {
    let _named = Named(seed);
    let mut world = World::new(seed, planted);
    for _ in 0..10 {
        world.run_for(1000 + world.random.below(2000));
        world.compare_logs();
    }
    let events = world.noted();
    world.calm_down();
    world.run_for(14_000);
    world.check_whole();
    let confirmed = world.all_oracles().map(|oracle| oracle.confirmed.len()).sum();
    Told { confirmed, events, fingerprint: world.fingerprint }
}

/// Runs all, also when some fail.
fn histories(seeds: impl Iterator<Item = u64>) -> Told {
    let (mut all, mut failed) = (Told::default(), Vec::new());
    for seed in seeds {
        let Ok(told) = catch_unwind(|| history(seed, Planted::Nothing)) else {
            failed.push(seed);
            continue;
        };
        all.confirmed += told.confirmed;
        for (event, count) in told.events {
            *all.events.entry(event).or_default() += count;
        }
    }
    assert!(failed.is_empty(), "{} histories failed: {failed:?}", failed.len());
    all
}

/// The seeds of `MULTIRAFT_SEEDS`, FIRST..END, or a hundred.
fn seeds() -> Range<u64> {
    let Ok(range) = std::env::var("MULTIRAFT_SEEDS") else { return 0..100 };
    let ends = range.split_once("..").and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
    ends.expect("MULTIRAFT_SEEDS is FIRST..END")
}

#[test]
fn confirmed_commands_survive_crashes_partitions_and_changes_of_members() {
    let seeds = seeds();
    let count = seeds.end - seeds.start;
    let told = histories(seeds);
    eprintln!("{count} histories: {told:#?}");
    if count >= 100 {
        are_no_idle_ones(&told, count);
    }
}

/// Events that have to happen at least so often in a hundred histories.
const EVENTS: [(&str, u64); 12] = [
    ("a leader is elected", 500),
    ("a state is captured", 50),
    ("a member catches up by a state", 50),
    ("the members change", 50),
    ("two majorities are needed", 10),
    ("a removed replica is deleted", 10),
    ("a replica is made on a node that had another one", 10),
    ("a start is refused for damage", 5),
    ("an entry cannot be read for damage", 1),
    ("a member whose disk is gone is removed", 5),
    ("a group ends and another one begins", 50),
    ("entries are written again", 10),
];

fn are_no_idle_ones(told: &Told, count: u64) {
    assert!(told.confirmed as u64 > 50 * count, "{told:?}");
    for (event, least) in EVENTS {
        let found = told.events.get(event).copied().unwrap_or_default();
        assert!(found * 100 >= least * count, "{event}: {found} times in {count} histories");
    }
}

#[test]
fn a_seed_makes_the_same_history_each_time() {
    let told = history(7, Planted::Nothing);
    assert_eq!(told, history(7, Planted::Nothing));
    assert_ne!(told.fingerprint, history(8, Planted::Nothing).fingerprint);
}

/// Whether one of some histories fails.
fn is_noticed(planted: Planted) -> bool {
    (0..200).any(|seed| catch_unwind(AssertUnwindSafe(|| history(seed, planted))).is_err())
}

#[test]
fn a_disk_that_loses_synced_records_is_noticed() {
    assert!(is_noticed(Planted::LosesSynced));
}

#[test]
fn a_replica_that_forgets_its_votes_is_noticed() {
    assert!(is_noticed(Planted::ForgetsVotes));
}
