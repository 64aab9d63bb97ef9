//! Calls that only the C library's allocator has, and no safe library offers: give free memory back to the operating system, and tell how
//! much of its memory is in use. Knows nothing of when that is worth it.

use super::HeapBytes;

/// Returns what the allocator keeps of freed memory, in all its arenas. Holds each arena's lock while it works: milliseconds,
/// more where gigabytes are free. Does nothing where the C library is not glibc.
pub(super) fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    {
        let _was_any_released = malloc_trim(0);
    }
}

/// The bytes that the allocator has handed out and the bytes that it keeps, in all its arenas. Walks the lists of free pieces under each
/// arena's lock: milliseconds where much is free. `None` where the C library is not glibc.
pub(super) fn heap_bytes() -> Option<HeapBytes> {
    #[cfg(target_env = "gnu")]
    {
        let told = mallinfo2();
        let used = told.allocated_bytes + told.mapped_bytes;
        let (mapped, free) = (told.mapped_bytes as u64, told.free_bytes as u64);
        Some(HeapBytes { used: used as u64, mapped, free })
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

/// glibc's `struct mallinfo2`: its fields in their order, under names that say what they hold.
#[cfg(target_env = "gnu")]
#[repr(C)]
struct Mallinfo2 {
    _arena_bytes: usize,
    _free_pieces: usize,
    _fast_pieces: usize,
    _mapped_pieces: usize,
    mapped_bytes: usize,
    _unused: usize,
    _fast_bytes: usize,
    allocated_bytes: usize,
    free_bytes: usize,
    _top_bytes: usize,
}

// SAFETY: the signatures and the struct are those of glibc (malloc.h). `malloc_trim` takes its own locks, may be called from any thread at any time
// (malloc_trim(3): MT-Safe) and only tells the system which pages of free chunks it may take; `mallinfo2` (mallinfo(3), glibc 2.33)
// likewise, and returns ten numbers by value. No pointer goes in or out.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "declares two functions of the C library that std links already")]
unsafe extern "C" {
    /// Keeps `pad` free bytes at the top of the heap; 1 when memory was released.
    safe fn malloc_trim(pad: usize) -> core::ffi::c_int;
    /// The used and free bytes now.
    safe fn mallinfo2() -> Mallinfo2;
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use crate::{Memory, RealMemory};
    use parking_lot::Mutex;

    /// A process occupies more than one test does: one at a time.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn what_is_allocated_counts_as_used() {
        let _alone = ALONE.lock();
        let memory = RealMemory::new();
        let before = memory.heap().expect("glibc tells");
        let pieces: Vec<Vec<u8>> = (0..1000).map(|_| vec![1; 100_000]).collect();
        let after = memory.heap().expect("glibc tells");
        assert!(after.used > before.used + 90_000_000, "{before:?} {after:?}");
        drop(pieces);
    }

    #[test]
    fn memory_of_many_small_pieces_goes_back_although_one_of_them_is_kept() {
        let _alone = ALONE.lock();
        const PIECES: usize = 2000;
        let memory = RealMemory::new();
        let before = memory.used_bytes().unwrap();
        let mut pieces: Vec<Vec<u8>> = (0..PIECES).map(|_| vec![1; 50_000]).collect();
        let full = memory.used_bytes().unwrap();
        assert!(full > before + 50_000_000, "{before} {full}");
        // The last one keeps the heap from shrinking by itself.
        let kept = pieces.pop();
        drop(pieces);
        memory.release();
        let after = memory.used_bytes().unwrap();
        assert!(after < before + 50_000_000, "{before} {full} {after}");
        drop(kept);
    }
}
