//! Groups on simulated nodes: disks lose what was not synced, nets lose, repeat, delay and cut, clocks drift, nodes die at any
//! moment, members change. One thread, from a seed.
//!
//! A failure prints its seed. `MULTIRAFT_SEEDS=17..18 cargo test -p multiraft --test simulation confirmed` repeats that of seed 17.
//! A wider range runs many.

#![allow(clippy::print_stderr, reason = "seeds are for people")]

mod disk;
mod machine;
mod oracle;
mod world;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use disk::Planted;
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

/// What a history did.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    confirmed: usize,
    elections: u64,
    installs: u64,
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
    world.calm_down();
    world.run_for(14_000);
    world.check_whole();
    let oracles = world.oracles.values();
    Told {
        confirmed: oracles.clone().map(|oracle| oracle.confirmed.len()).sum(),
        elections: oracles.clone().map(|oracle| oracle.elections).sum(),
        installs: oracles.map(|oracle| oracle.installs).sum(),
        fingerprint: world.fingerprint,
    }
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
        all.elections += told.elections;
        all.installs += told.installs;
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
    // The histories are no idle ones. A few may be.
    let are_busy =
        told.confirmed as u64 > 50 * count && told.elections > 5 * count && 2 * told.installs > count;
    assert!(are_busy || count < 100, "{told:?}");
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
