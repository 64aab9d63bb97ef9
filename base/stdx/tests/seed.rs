//! Effects of seeding the hashes of a process; a program of its own, because it can be done once. Refuses to know what hashes are for.

use std::hash::BuildHasher;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use stdx::hamt::{Hamt, hash_of, seed_hashes};

#[test]
fn a_seed_comes_before_the_first_hash_and_makes_hashes_unpredictable() {
    assert!(seed_hashes(7));
    assert!(!seed_hashes(8), "once");
    let known = SeedableRandomState::with_seed(0x5741_5252_454e_0001, SharedSeed::global_fixed());
    let keys: Vec<Vec<u8>> = (0..100_u8).map(|len| vec![len; usize::from(len)]).collect();
    assert!(keys.iter().all(|key| hash_of(&key[..]) != known.hash_one(&key[..])));
    let mut map = Hamt::new();
    for key in &keys {
        map.insert(key.clone(), key.len());
    }
    assert!(keys.iter().all(|key| map.get(&key[..]) == Some(&key.len())));
}
