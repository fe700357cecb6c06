//! Prefetching of memory: requests a cache line that will soon be read, without waiting for it.

#![expect(unsafe_code, reason = "the instruction takes a pointer")]

/// Size of a cache line, in bytes.
pub(crate) const CACHE_LINE: usize = 64;

/// Prefetches the cache line at an address. The address need not be valid.
#[inline(always)]
pub(crate) fn line<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, and it faults on no address.
        unsafe { _mm_prefetch(address.cast(), _MM_HINT_T0) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Prefetches the cache line that contains the byte at `offset` of `bytes`, if there is one.
#[inline(always)]
pub(crate) fn byte(bytes: &[u8], offset: usize) {
    if let Some(byte) = bytes.get(offset) {
        line(byte);
    }
}

/// Prefetches all cache lines of `bytes`.
#[inline(always)]
pub(crate) fn bytes(bytes: &[u8]) {
    bytes.chunks(CACHE_LINE).for_each(|chunk| line(chunk.as_ptr()));
}
