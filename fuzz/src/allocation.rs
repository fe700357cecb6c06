//! Limits the memory of a target. The allocator counts the allocated bytes, and the target states
//! the maximum for its input.
#![expect(
    unsafe_code,
    reason = "implementing an allocator is unsafe; this one forwards every call to the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of bytes that are allocated at present.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// Maximum of [`LIVE`] since the last call of [`within`] began.
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Memory that is allowed in addition to the stated maximum, in bytes. It is for memory whose size
/// does not depend on the input, such as buffers of fixed length, tables of codecs, and messages.
pub const SLACK: usize = 1 << 20;

/// The system's allocator, which also counts the allocated bytes. Memory that C libraries allocate
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
        // SAFETY: the caller fulfils the contract of the system's allocator, as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, length: usize) -> *mut u8 {
        grow(length);
        shrink(layout.size());
        // SAFETY: the caller fulfils the contract of the system's allocator, as in `alloc`.
        unsafe { System.realloc(pointer, layout, length) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: the caller fulfils the contract of the system's allocator, as in `alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Returns the number of bytes that are allocated at present.
pub fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// Runs `body`. Checks that the memory that it allocates never exceeds `limit` plus [`SLACK`]
/// bytes.
///
/// # Panics
/// If more bytes were allocated at the same time.
pub fn within<T>(limit: usize, body: impl FnOnce() -> T) -> T {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let answer = body();
    let most = PEAK.load(Ordering::Relaxed).saturating_sub(before);
    let limit = limit.saturating_add(SLACK);
    assert!(most <= limit, "{most} bytes were allocated simultaneously, more than {limit}");
    answer
}
