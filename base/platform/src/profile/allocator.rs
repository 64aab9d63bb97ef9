//! The system's allocator with a look at one allocation in many thousands, and with huge pages for very large pieces. Knows nothing of what becomes
//! of the looks.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

use super::heap::{note_allocated, note_freed};

/// Pieces of at least so many bytes are to be in huge pages: bodies of messages, and buffers that such have made large. With pages of 4 KiB more than half
/// of the processor time for a message of 64 MiB went into page faults. Smaller pieces stay in the pages that the system takes by itself: what is
/// rounded up to 2 MiB would be felt there.
pub const HUGE_BYTES_MIN: usize = 8 << 20;

static HAS_HUGE_PIECES: AtomicBool = AtomicBool::new(false);

/// Whether huge pages were ever asked for.
#[must_use]
pub fn has_huge_pieces() -> bool {
    HAS_HUGE_PIECES.load(Ordering::Relaxed)
}

/// Asks the system for huge pages for a piece, as far as such fit into it; what it says to that does not matter. Whole pages of the piece's mapping,
/// which is not to fall in parts: then it could not grow where it is.
#[cold]
#[expect(unsafe_code, reason = "advice about memory is unsafe in general")]
fn prefer_huge_pages(pointer: *mut u8, bytes: usize) {
    if pointer.is_null() {
        return;
    }
    HAS_HUGE_PIECES.store(true, Ordering::Relaxed);
    let page_bytes = rustix::param::page_size();
    let before = pointer.addr() % page_bytes;
    let all_bytes = (before + bytes).next_multiple_of(page_bytes);
    // SAFETY: the pages are those of a piece that the allocator has just handed out. The advice changes neither their contents nor whether
    // they may be used, even if others have a part of the first or the last one.
    let _advised =
        unsafe { libc::madvise(pointer.wrapping_sub(before).cast(), all_bytes, libc::MADV_HUGEPAGE) };
}

/// The system's allocator, watched by [`super::start_heap`]. Costs a load and a branch for each call while nobody watches. Pieces of
/// [`HUGE_BYTES_MIN`] bytes or more are to be in huge pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct WatchedAllocator;

// SAFETY: every call is passed to `System` unchanged, with the caller's own guarantees, and its result is returned unchanged. The work beside it only
// reads the pointer's number, or advises the system which pages to take, and never allocates through this object without a guard against recursion.
#[expect(unsafe_code, reason = "an allocator is unsafe to implement")]
unsafe impl GlobalAlloc for WatchedAllocator {
    // SAFETY: as of `System`, to which the call is passed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        let pointer = unsafe { System.alloc(layout) };
        if layout.size() >= HUGE_BYTES_MIN {
            prefer_huge_pages(pointer, layout.size());
        }
        note_allocated(pointer.addr(), layout.size());
        pointer
    }

    // SAFETY: as of `System`, to which the call is passed on.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
        let pointer = unsafe { System.alloc_zeroed(layout) };
        if layout.size() >= HUGE_BYTES_MIN {
            prefer_huge_pages(pointer, layout.size());
        }
        note_allocated(pointer.addr(), layout.size());
        pointer
    }

    // SAFETY: as of `System`, to which the call is passed on.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note_freed(pointer.addr());
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    // SAFETY: as of `System`, to which the call is passed on.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note_freed(pointer.addr());
        // SAFETY: the caller keeps the contract of `GlobalAlloc::realloc`.
        let moved = unsafe { System.realloc(pointer, layout, bytes) };
        if bytes >= HUGE_BYTES_MIN {
            prefer_huge_pages(moved, bytes);
        }
        note_allocated(moved.addr(), bytes);
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags that the system reports for the mapping that an address lies in.
    fn flags_of(address: usize) -> String {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_it = false;
        for line in smaps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let bounds = range.and_then(|(begin, end)| {
                Some(usize::from_str_radix(begin, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
            });
            is_it = bounds.map_or(is_it, |bounds| bounds.contains(&address));
            if is_it && let Some(flags) = line.strip_prefix("VmFlags:") {
                return format!("{flags} ");
            }
        }
        panic!("{address:x} is mapped");
    }

    #[test]
    #[expect(unsafe_code, reason = "an allocator is unsafe to use")]
    fn a_very_large_piece_is_to_be_in_huge_pages_and_grows_with_what_is_in_it() {
        // Without support in the system there is nothing to see.
        if std::fs::metadata("/sys/kernel/mm/transparent_hugepage/enabled").is_err() {
            return;
        }
        let layout = |bytes| Layout::from_size_align(bytes, 1).unwrap();
        let (before, after) = (HUGE_BYTES_MIN + 5, 3 * HUGE_BYTES_MIN + 7);
        // SAFETY: the sizes are not 0, the piece is written within its bounds only, and given back once, with the size that it has then.
        unsafe {
            let piece = WatchedAllocator.alloc(layout(before));
            assert!(flags_of(piece.addr() + HUGE_BYTES_MIN / 2).contains(" hg "), "asked for");
            assert!(has_huge_pieces());
            piece.write_bytes(7, before);
            let grown = WatchedAllocator.realloc(piece, layout(before), after);
            assert!(std::slice::from_raw_parts(grown, before).iter().all(|byte| *byte == 7));
            assert!(flags_of(grown.addr() + after / 2).contains(" hg "), "asked for");
            WatchedAllocator.dealloc(grown, layout(after));
        }
    }
}
