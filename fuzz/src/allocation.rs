//! A bound on memory: the allocator counts the allocated bytes, and a target states the maximum for
//! its input.
#![expect(
    unsafe_code,
    reason = "implementing an allocator is unsafe; this one forwards every call to the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of bytes that are currently allocated.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// Maximum of [`LIVE`] since the last call of [`within`] began.
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Allowance for memory that does not depend on the input, in bytes: buffers of fixed length,
/// tables of codecs, messages.
pub const SLACK: usize = 1 << 20;

/// The system's allocator, with a count of the allocated bytes. Memory that C libraries allocate
/// themselves is not counted.
#[derive(Debug)]
pub struct Counting;

fn grow(length: usize) {
    let live = LIVE.fetch_add(length, Ordering::Relaxed) + length;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

fn shrink(length: usize) {
    LIVE.fetch_sub(length, Ordering::Relaxed);
}

// SAFETY: every call is forwarded to the system's allocator with the same arguments, and its result
// is returned unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller fulfils this function's contract, which is the contract of the
        // system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, length: usize) -> *mut u8 {
        grow(length);
        shrink(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, length) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Returns the number of bytes that are currently allocated.
pub fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// Runs `body`, and checks that at no time more than `limit` plus [`SLACK`] bytes of its
/// allocations exist.
///
/// # Panics
/// If more bytes were allocated.
pub fn within<T>(limit: usize, body: impl FnOnce() -> T) -> T {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let answer = body();
    let most = PEAK.load(Ordering::Relaxed).saturating_sub(before);
    let limit = limit.saturating_add(SLACK);
    assert!(most <= limit, "{most} bytes were allocated simultaneously, more than {limit}");
    answer
}
