//! A bounded set of short histories, in every run of the tests. `make soak` has the long ones. More: `cargo xtask sim --minutes N`.

fn nothing_confirmed_is_lost(seeds: impl IntoIterator<Item = u64>) {
    for seed in seeds {
        if let Err(why) = sim::run(seed, None) {
            panic!("seed {seed} fails: {why}; again: cargo xtask sim --seed {seed} --tell");
        }
    }
}

#[test]
fn nothing_confirmed_is_lost_in_the_histories_of_the_first_seeds() {
    nothing_confirmed_is_lost(2..=7);
}

#[test]
fn nothing_confirmed_is_lost_in_histories_that_once_failed() {
    nothing_confirmed_is_lost([18, 27, 28, 37, 38, 39, 86, 117]);
}

#[test]
fn nothing_confirmed_is_lost_in_further_histories_that_once_failed() {
    nothing_confirmed_is_lost([275, 9044, 23155, 70013, 200074, 920300]);
}

#[test]
fn no_tenant_finds_anything_lost_doubled_early_or_out_of_order() {
    for seed in (1..=20).chain([21397, 31906, 32352, 200040]) {
        if let Err(why) = sim::run_house(seed, None) {
            panic!("seed {seed} fails: {why}; again: cargo xtask sim --seed {seed} --kind 1 --tell");
        }
    }
}

#[test]
fn what_goes_to_queues_whose_declaration_is_not_answered_is_safe_when_it_is_confirmed() {
    for seed in 1..=20 {
        if let Err(why) = sim::run_newborn(seed, None) {
            panic!("seed {seed} fails: {why}; again: cargo xtask sim --seed {seed} --kind 2 --tell");
        }
    }
}

#[test]
fn nothing_is_lost_and_nobody_waits_for_ever_where_memory_is_short() {
    for seed in (1..=3).chain([10, 48, 54, 400483, 900824]) {
        if let Err(why) = sim::run_short(seed, None) {
            panic!("seed {seed} fails: {why}; again: cargo xtask sim --seed {seed} --kind 3 --tell");
        }
    }
}

#[test]
fn nothing_is_lost_on_full_disks_and_all_of_it_goes_on_when_there_is_room() {
    for seed in [3, 27, 117, 200, 230, 243, 253] {
        if let Err(why) = sim::run_full(seed, None) {
            panic!("seed {seed} fails: {why}; again: cargo xtask sim --seed {seed} --kind 4 --tell");
        }
    }
}

#[test]
fn sessions_of_mqtt_lose_nothing_and_repeat_only_what_they_may() {
    for seed in 1..=20 {
        if let Err(why) = sim::run_fleet(seed, None) {
            panic!("seed {seed} fails: {why}; again: cargo xtask sim --seed {seed} --kind 5 --tell");
        }
    }
}

#[test]
fn what_is_committed_to_a_stream_stays_at_its_offset() {
    for seed in (1..=20).chain([56, 493]) {
        if let Err(why) = sim::run_brook(seed, None) {
            panic!("seed {seed} fails: {why}; again: cargo xtask sim --seed {seed} --kind 6 --tell");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    assert_eq!(sim::run(3, None), sim::run(3, None));
    assert_eq!(sim::run_house(3, None), sim::run_house(3, None));
    assert_eq!(sim::run_newborn(3, None), sim::run_newborn(3, None));
    assert_eq!(sim::run_fleet(3, None), sim::run_fleet(3, None));
    assert_eq!(sim::run_brook(3, None), sim::run_brook(3, None));
    assert_eq!(sim::run_short(2, None), sim::run_short(2, None));
    assert_eq!(sim::run_short(3, None), sim::run_short(3, None));
    assert_eq!(sim::run_full(3, None), sim::run_full(3, None));
}
