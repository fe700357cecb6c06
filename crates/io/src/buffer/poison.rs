//! Tells AddressSanitizer which bytes are nobody's, of memory that is handed out in parts.
//!
//! The sanitizer knows what the allocator was asked for, and takes a part of that which is used
//! after it was given back, or beyond its end, for the program's business. These calls say which
//! parts those are. In builds without `--cfg asan` they are nothing (`ci/sanitize.sh`).
#![cfg_attr(asan, expect(unsafe_code, reason = "the sanitizer's functions are C's"))]

use std::ptr::NonNull;

#[cfg(asan)]
// SAFETY: as the sanitizer's header declares them (sanitizer/asan_interface.h).
unsafe extern "C" {
    fn __asan_poison_memory_region(start: *const u8, length: usize);
    fn __asan_unpoison_memory_region(start: *const u8, length: usize);
}

/// Nobody may look at these bytes from now on.
#[inline(always)]
pub fn poison(start: NonNull<u8>, length: usize) {
    #[cfg(asan)]
    // SAFETY: it changes only what the sanitizer knows of them.
    unsafe {
        __asan_poison_memory_region(start.as_ptr(), length);
    }
    #[cfg(not(asan))]
    let _ = (start, length);
}

/// These bytes are somebody's from now on.
#[inline(always)]
pub fn unpoison(start: NonNull<u8>, length: usize) {
    #[cfg(asan)]
    // SAFETY: it changes only what the sanitizer knows of them.
    unsafe {
        __asan_unpoison_memory_region(start.as_ptr(), length);
    }
    #[cfg(not(asan))]
    let _ = (start, length);
}
