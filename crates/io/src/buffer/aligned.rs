//! Heap memory aligned for direct I/O.
//!
//! The memory of a large buffer is a mapping of its own. Its pages are allocated on first touch and
//! returned to the system when the buffer is dropped. An allocator would retain them, in each
//! thread's part of the heap.
#![expect(unsafe_code, reason = "the interfaces for aligned memory are unsafe")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Pages;

/// Alignment, in bytes, of the file offset, the length and the memory address of direct I/O. It is
/// enough for every common device. A file on a device that needs more reports its alignment
/// ([`crate::ReadFile::alignment`]).
pub const ALIGNMENT: usize = 4096;

/// Largest alignment that a file may require, in bytes.
pub const MAX_ALIGNMENT: usize = 64 << 10;

/// Minimum capacity of a buffer that gets a memory mapping of its own, in bytes.
const MAPPED_MIN: usize = 128 << 10;

/// Memory that all buffers of the process use, in bytes.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

/// Returns the memory that all buffers of the process use, in bytes.
pub fn aligned_buffer_bytes() -> usize {
    ALLOCATED.load(Ordering::Relaxed)
}

/// Returns the largest multiple of [`ALIGNMENT`] that is not above `offset`.
#[inline]
pub fn align_down(offset: u64) -> u64 {
    offset - offset % ALIGNMENT as u64
}

/// Returns the smallest multiple of [`ALIGNMENT`] that is not below `offset`. `offset` must not
/// exceed 2^64 minus 4096.
#[inline]
pub fn align_up(offset: u64) -> u64 {
    offset.next_multiple_of(ALIGNMENT as u64)
}

/// A buffer whose address and capacity are multiples of [`ALIGNMENT`]. All of its capacity is
/// initialised, at first with zeros.
///
/// The address is a multiple of the largest power of two that divides the capacity. But if this
/// power exceeds [`MAX_ALIGNMENT`], the address is only a multiple of [`MAX_ALIGNMENT`]. So a
/// buffer whose capacity is a multiple of a device's alignment is suitably aligned for the device.
pub struct AlignedBuffer {
    /// `capacity` initialised bytes that only this buffer owns.
    memory: NonNull<u8>,
    capacity: usize,
    length: usize,
    /// The mapping that contains the memory; `None` if the memory came from the allocator.
    pages: Option<Pages>,
}

// SAFETY: the buffer owns the memory alone, and the memory is accessed only through references to
// the buffer, as a Vec's is.
unsafe impl Send for AlignedBuffer {}
// SAFETY: a shared reference to the buffer gives access only to shared slices.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// Creates an empty buffer with a capacity of `bytes`, rounded up to a nonzero multiple of
    /// [`ALIGNMENT`].
    ///
    /// # Panics
    /// If `bytes` is near the size of the address space. If there is no memory, the process is
    /// aborted, as for a Vec.
    pub fn with_capacity(bytes: usize) -> Self {
        let layout = Self::layout(round_up(bytes, ALIGNMENT));
        let (memory, pages) = if layout.size() < MAPPED_MIN {
            // SAFETY: the layout's size is at least ALIGNMENT and so not zero.
            (NonNull::new(unsafe { alloc_zeroed(layout) }), None)
        } else {
            let pages = Pages::map(layout.size(), layout.align());
            (pages.as_ref().map(Pages::start), pages)
        };
        let Some(memory) = memory else { handle_alloc_error(layout) };
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        Self { memory, capacity: layout.size(), length: 0, pages }
    }

    fn layout(capacity: usize) -> Layout {
        let alignment = (1 << capacity.trailing_zeros()).min(MAX_ALIGNMENT);
        match Layout::from_size_align(capacity, alignment) {
            Ok(layout) => layout,
            Err(_) => panic!("a buffer of {capacity} bytes does not fit the address space"),
        }
    }

    /// Returns the capacity in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Ensures that the capacity is at least `bytes` and the address a multiple of `alignment`, a
    /// power of two up to [`MAX_ALIGNMENT`]. If this requires new memory, the buffer is empty
    /// afterwards and its contents are lost.
    ///
    /// # Panics
    /// As [`Self::with_capacity`].
    pub fn reserve(&mut self, bytes: usize, alignment: usize) {
        if self.capacity < bytes || !self.memory.addr().get().is_multiple_of(alignment) {
            *self = Self::with_capacity(round_up(bytes, alignment));
        }
    }

    /// Returns the number of bytes that can be appended.
    pub fn remaining(&self) -> usize {
        self.capacity - self.length
    }

    /// Empties the buffer.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Sets the length in bytes. If the length grows, the new bytes are those that were last
    /// written at their positions, or zeros.
    ///
    /// # Panics
    /// If `length` is above the capacity.
    pub fn set_length(&mut self, length: usize) {
        assert!(length <= self.capacity, "length {length} of capacity {}", self.capacity);
        self.length = length;
    }

    /// Appends as much of `bytes` as fits and returns the number of bytes appended.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.remaining());
        let start = self.length;
        self.length += count;
        self[start..].copy_from_slice(&bytes[..count]);
        count
    }

    /// Appends zeros up to the next multiple of `alignment`, which should divide the capacity.
    ///
    /// # Panics
    /// If `alignment` does not divide the capacity, and there is no space for the zeros.
    pub fn pad(&mut self, alignment: usize) {
        let start = self.length;
        self.set_length(start.next_multiple_of(alignment));
        self[start..].fill(0);
    }
}

/// Returns the smallest nonzero multiple of `unit` that is not below `bytes`.
fn round_up(bytes: usize, unit: usize) -> usize {
    match bytes.max(1).checked_next_multiple_of(unit) {
        Some(rounded) => rounded,
        None => panic!("a buffer of {bytes} bytes does not fit the address space"),
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: this buffer owns the first `length` bytes, which are at most `capacity` and
        // initialised. The slice borrows `self`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.length) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; in addition `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.length) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        ALLOCATED.fetch_sub(self.capacity, Ordering::Relaxed);
        if self.pages.is_none() {
            // SAFETY: the memory came from alloc_zeroed with this layout and is freed once.
            unsafe { dealloc(self.memory.as_ptr(), Self::layout(self.capacity)) }
        }
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer")
            .field("capacity", &self.capacity)
            .field("length", &self.length)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_zeroed() {
        for bytes in [0, 1, 4095, 4096, 4097, 1 << 20] {
            let mut buffer = AlignedBuffer::with_capacity(bytes);
            assert_eq!(buffer.as_ptr().addr() % ALIGNMENT, 0);
            assert_eq!(buffer.capacity(), bytes.max(1).next_multiple_of(ALIGNMENT));
            assert!(buffer.is_empty());
            buffer.set_length(buffer.capacity());
            assert!(buffer.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn appending_stops_at_the_capacity() {
        let mut buffer = AlignedBuffer::with_capacity(4096);
        assert_eq!(buffer.append(&[7; 4000]), 4000);
        assert_eq!(buffer.append(&[8; 100]), 96);
        assert_eq!(buffer.append(&[9]), 0);
        assert_eq!((buffer[3999], buffer[4000], buffer.len()), (7, 8, 4096));
        buffer.clear();
        assert_eq!(buffer.append(&[1, 2, 3]), 3);
        buffer.pad(4096);
        assert_eq!((buffer.len(), buffer[2], buffer[3], buffer[4095]), (4096, 3, 0, 0));
        buffer.pad(4096);
        assert_eq!(buffer.len(), 4096);
    }

    #[test]
    fn the_alignment_follows_from_the_capacity() {
        for alignment in [4096, 8192, 16_384, MAX_ALIGNMENT] {
            for units in [1, 3, 17] {
                let buffer = AlignedBuffer::with_capacity(units * alignment);
                assert_eq!(buffer.as_ptr().addr() % alignment, 0, "{units} of {alignment}");
            }
        }
    }

    #[test]
    fn reserving_keeps_sufficient_memory() {
        let mut buffer = AlignedBuffer::with_capacity(16_384);
        let place = buffer.as_ptr();
        buffer.append(b"kept");
        buffer.reserve(16_000, 16_384);
        assert_eq!((&buffer[..], buffer.as_ptr()), (&b"kept"[..], place));
        buffer.reserve(16_385, 16_384);
        assert_eq!((buffer.len(), buffer.capacity()), (0, 32_768));
        assert_eq!(buffer.as_ptr().addr() % 16_384, 0);
    }

    #[test]
    #[should_panic(expected = "of capacity")]
    fn a_length_beyond_the_capacity_is_refused() {
        AlignedBuffer::with_capacity(1).set_length(4097);
    }

    /// Regression test: in builds without overflow checks, rounding up overflowed to a capacity of
    /// 0, and memory of size zero was allocated.
    #[test]
    #[should_panic(expected = "does not fit the address space")]
    fn a_capacity_beyond_the_address_space_is_refused() {
        AlignedBuffer::with_capacity(usize::MAX - 100);
    }

    #[test]
    fn alignment_of_offsets() {
        assert_eq!((align_down(0), align_down(4095), align_down(4096)), (0, 0, 4096));
        assert_eq!(
            (align_up(0), align_up(1), align_up(4096), align_up(4097)),
            (0, 4096, 4096, 8192)
        );
    }
}
