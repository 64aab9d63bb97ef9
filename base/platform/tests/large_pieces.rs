//! Large pieces of memory that are mapped each by itself; a program of its own, because it changes what holds for the whole process and looks at
//! all of its memory. Refuses to know what the pieces are for.

#![cfg(target_env = "gnu")]

use platform::memory::map_large_pieces;
use platform::{Memory, RealMemory};

#[test]
fn a_large_piece_is_mapped_by_itself_although_larger_ones_were_freed() {
    let mapped = || RealMemory::new().heap().expect("glibc tells").mapped;
    let large = |mib: usize| vec![1_u8; mib << 20];
    map_large_pieces(512 << 10);
    // Without that glibc would map no piece of a megabyte any more.
    drop(large(8));
    let before = mapped();
    let held: Vec<Vec<u8>> = (0..64).map(|_| large(1)).collect();
    assert!(mapped() >= before + (64 << 20), "{} after {before}", mapped());
    drop(held);
    assert!(mapped() <= before, "{} after {before}", mapped());
}
