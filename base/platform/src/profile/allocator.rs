//! The system's allocator with a look at one allocation in many thousands. Knows nothing of what becomes of the looks.

use std::alloc::{GlobalAlloc, Layout, System};

use super::heap::{note_allocated, note_freed};

/// The system's allocator, watched by [`super::start_heap`]. Costs a load and a branch for each call while nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct WatchedAllocator;

// SAFETY: every call is passed to `System` unchanged, with the caller's own guarantees, and its result is returned unchanged. What
// is done beside it only reads the pointer's number, and never allocates through this object without a guard against recursion.
#[expect(unsafe_code, reason = "an allocator is unsafe to implement")]
unsafe impl GlobalAlloc for WatchedAllocator {
    // SAFETY: as of `System`, to which the call is passed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        let pointer = unsafe { System.alloc(layout) };
        note_allocated(pointer.addr(), layout.size());
        pointer
    }

    // SAFETY: as of `System`, to which the call is passed on.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
        let pointer = unsafe { System.alloc_zeroed(layout) };
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
        note_allocated(moved.addr(), bytes);
        moved
    }
}
