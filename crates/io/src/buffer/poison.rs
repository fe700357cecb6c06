//! Marks the unused parts of a larger allocation for AddressSanitizer.
//!
//! By itself the sanitizer knows only whole allocations. It does not detect an access to a part
//! that was given back, or beyond the end of a part. The functions here mark such bytes as
//! inaccessible. In builds without `--cfg asan` they do nothing (`ci/sanitize.sh`).
#![cfg_attr(asan, expect(unsafe_code, reason = "the sanitizer's functions are C's"))]

use std::ptr::NonNull;

#[cfg(asan)]
// SAFETY: the signatures are those in the sanitizer's header (sanitizer/asan_interface.h).
unsafe extern "C" {
    fn __asan_poison_memory_region(start: *const u8, length: usize);
    fn __asan_unpoison_memory_region(start: *const u8, length: usize);
}

/// Marks the `length` bytes from `start` on as inaccessible.
#[inline(always)]
pub fn poison(start: NonNull<u8>, length: usize) {
    #[cfg(asan)]
    // SAFETY: the call changes only the sanitizer's record of these bytes.
    unsafe {
        __asan_poison_memory_region(start.as_ptr(), length);
    }
    #[cfg(not(asan))]
    let _ = (start, length);
}

/// Marks the `length` bytes from `start` on as accessible.
#[inline(always)]
pub fn unpoison(start: NonNull<u8>, length: usize) {
    #[cfg(asan)]
    // SAFETY: the call changes only the sanitizer's record of these bytes.
    unsafe {
        __asan_unpoison_memory_region(start.as_ptr(), length);
    }
    #[cfg(not(asan))]
    let _ = (start, length);
}
