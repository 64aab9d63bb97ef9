//! Settings of glibc for memory that is freed, which no safe library offers. Knows nothing of the owners of memory.

/// Small pieces that are freed are merged with their neighbours there and then. glibc would gather them unmerged, any number of
/// them, and the next thread of the same arena that asks for more than a kilobyte would merge them all first: after somebody has
/// deleted a hundred thousand bindings, a publisher waited 50 to 80 ms for that. Each thread's own cache of pieces stays, so
/// that little of the work becomes more. To be called before there are other threads. Does nothing where the C library is not
/// glibc.
pub fn merge_freed_at_once() {
    #[cfg(target_env = "gnu")]
    {
        let _was_set = mallopt(M_MXFAST, 0);
    }
}

/// Pieces from this size on are mapped each by itself, and go back to the system when they are freed; free memory at the end of the heap
/// does from twice that on. glibc would raise the bound to the largest piece that was ever freed: bodies of a megabyte then leave holes among
/// what lives on, and a process of 76 MiB kept 20 to 40 MiB of them. The price is a page fault for each 4 KiB of such a piece. May be called
/// again, with other bounds. Does nothing where the C library is not glibc.
pub fn map_large_pieces(bytes_min: u32) {
    #[cfg(target_env = "gnu")]
    {
        let bytes_min = core::ffi::c_int::try_from(bytes_min).unwrap_or(core::ffi::c_int::MAX);
        let _were_set =
            [mallopt(M_MMAP_THRESHOLD, bytes_min), mallopt(M_TRIM_THRESHOLD, bytes_min.saturating_mul(2))];
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = bytes_min;
}

/// Name of the setting: free memory at the end of the heap is given back from so many bytes on (malloc.h).
#[cfg(target_env = "gnu")]
const M_TRIM_THRESHOLD: core::ffi::c_int = -1;

/// Name of the setting: the smallest piece, in bytes, that is mapped by itself (malloc.h).
#[cfg(target_env = "gnu")]
const M_MMAP_THRESHOLD: core::ffi::c_int = -3;

/// Name of the setting: the largest piece, in bytes, that is gathered unmerged (malloc.h).
#[cfg(target_env = "gnu")]
const M_MXFAST: core::ffi::c_int = 1;

// SAFETY: the signature is that of glibc (malloc.h). `mallopt` takes the main arena's lock and stores a number; no pointer goes in
// or out. Pieces gathered before stay valid: they are merged once.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "declares one function of the C library that std links already")]
unsafe extern "C" {
    /// Sets a parameter of the allocator; 1 when it was set.
    safe fn mallopt(param: core::ffi::c_int, value: core::ffi::c_int) -> core::ffi::c_int;
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    #[test]
    fn memory_freed_by_another_thread_before_and_after_is_used_again() {
        let small = || (0..10_000_u64).map(Box::new).collect::<Vec<_>>();
        let before = small();
        super::merge_freed_at_once();
        let after = small();
        let freed = std::thread::spawn(move || {
            before.iter().zip(&after).map(|(one, other)| **one + **other).sum::<u64>()
        });
        assert_eq!(freed.join().unwrap(), 9_999 * 10_000);
        let large = vec![7_u8; 100_000];
        assert!(large.iter().all(|byte| *byte == 7));
        assert_eq!(small().len(), 10_000);
    }
}
