//! Gives free memory back to the operating system: the one thing that glibc does only when told, and that no safe library offers.
//! Knows nothing of when that is worth it.

/// Returns what the allocator keeps of freed memory, in all its arenas. Holds each arena's lock while it works: milliseconds,
/// more where gigabytes are free. Does nothing where the C library is not glibc.
pub(super) fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    {
        let _was_any_released = malloc_trim(0);
    }
}

// SAFETY: the signature is that of glibc (malloc.h). `malloc_trim` takes its own locks, may be called from any thread at any time
// (malloc_trim(3): MT-Safe) and only tells the system which pages of free chunks it may take; no pointer goes in or out.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "declares one function of the C library that std links already")]
unsafe extern "C" {
    /// Keeps `pad` free bytes at the top of the heap; 1 when memory was released.
    safe fn malloc_trim(pad: usize) -> core::ffi::c_int;
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use crate::{Memory, RealMemory};

    #[test]
    fn memory_of_many_small_pieces_goes_back_although_one_of_them_is_kept() {
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
