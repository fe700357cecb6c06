//! Pages of memory that are mapped directly from the system, without an allocator.
#![expect(unsafe_code, reason = "the interfaces for mappings are unsafe")]

#[cfg(debug_assertions)]
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
pub use rustix::param::page_size;

/// A memory mapping. Its pages are allocated on first touch and returned to the system when they
/// are [released](Pages::release) and when it is dropped.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    /// A multiple of the page's size.
    length: usize,
}

// SAFETY: only this owns the memory, and it returns no references to it.
unsafe impl Send for Pages {}
// SAFETY: as above; the system calls made through a shared reference are thread-safe.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps at least `length` bytes, all zero, that begin at a multiple of `alignment`, a power of
    /// two; `None` if there is no memory. `length` is not 0.
    pub fn map(length: usize, alignment: usize) -> Option<Self> {
        let length = length.checked_next_multiple_of(page_size())?;
        // A mapping begins at a page boundary, so more is mapped than needed and the surplus
        // unmapped.
        let spare = if alignment > page_size() { alignment } else { 0 };
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        let whole = length.checked_add(spare)?;
        // SAFETY: a new mapping, to which nothing refers yet.
        let begin = unsafe { mmap_anonymous(ptr::null_mut(), whole, flags, MapFlags::PRIVATE) };
        let begin = begin.ok()?.cast::<u8>();
        let before = begin.align_offset(alignment);
        assert!(before <= spare, "the alignment is a power of two");
        for (offset, surplus) in [(0, before), (before + length, spare - before)] {
            if surplus > 0 {
                // SAFETY: whole pages inside the mapping and outside the bytes that are kept. If
                // the system refuses, they stay mapped, which is harmless: nothing accesses them.
                let _ = unsafe { munmap(begin.add(offset).cast(), surplus) };
            }
        }
        // SAFETY: `before` is not above `spare`, so all of the `length` bytes after it are mapped.
        let start = NonNull::new(unsafe { begin.add(before) })?;
        Some(Self { start, length })
    }

    /// Maps the first `length` bytes of a file that is at least that long. The mapping is shared:
    /// others may map the file, and writes go to it. `length` is not 0.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn map_file(file: BorrowedFd<'_>, length: usize) -> rustix::io::Result<Self> {
        let length = length.next_multiple_of(page_size());
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, to which nothing refers yet.
        let start = unsafe { mmap(ptr::null_mut(), length, flags, MapFlags::SHARED, file, 0) }?;
        match NonNull::new(start.cast::<u8>()) {
            Some(start) => Ok(Self { start, length }),
            None => Err(Errno::NOMEM),
        }
    }

    /// Returns the start address.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Sets all bytes to zero.
    pub fn zero(&mut self) {
        // SAFETY: they are writable memory that only this owns, and there is no reference to them.
        unsafe { self.start.as_ptr().write_bytes(0, self.length) };
    }

    /// Asks the system for small pages only. Releasing part of a huge page frees nothing, and
    /// released memory is allocated again when the system merges small pages into a huge one.
    pub fn avoid_huge_pages(&self) {
        // SAFETY: only this owns the mapping, whose contents do not change. A kernel without huge
        // pages refuses, which has the same effect.
        let _ =
            unsafe { madvise(self.start.as_ptr().cast(), self.length, Advice::LinuxNoHugepage) };
    }

    /// Returns the memory of the `length` bytes at `start` to the system; both are multiples of the
    /// page size. The bytes are zero when they are accessed again. If the process has locked all
    /// its memory, they keep their contents.
    ///
    /// # Safety
    /// The bytes are inside a live mapping, and nothing refers to them.
    pub unsafe fn release(start: NonNull<u8>, length: usize) {
        // SAFETY: guaranteed by the caller.
        let _ = unsafe { madvise(start.as_ptr().cast(), length, Advice::LinuxDontNeed) };
    }

    /// Returns the start address without unmapping the pages, which [`Pages::from_leaked`] takes
    /// over again.
    pub fn leak(self) -> NonNull<u8> {
        ManuallyDrop::new(self).start
    }

    /// Takes over leaked pages.
    ///
    /// # Safety
    /// `start` is from [`Pages::leak`], `length` is the length that they were mapped with, and this
    /// is done once.
    pub unsafe fn from_leaked(start: NonNull<u8>, length: usize) -> Self {
        Self { start, length: length.next_multiple_of(page_size()) }
    }
}

#[cfg(debug_assertions)]
thread_local! {
    static GIVEN_BACK: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of [`Pages`] that the calling thread has dropped so far, in builds with debug
/// assertions.
#[cfg(debug_assertions)]
pub fn pages_given_back() -> u64 {
    GIVEN_BACK.get()
}

impl Drop for Pages {
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        let _ = GIVEN_BACK.try_with(|count| count.set(count.get() + 1));
        // SAFETY: only this owns the mapping, and nothing refers to it any more.
        if unsafe { munmap(self.start.as_ptr().cast(), self.length) }.is_err() {
            // The kernel merges adjacent mappings. Unmapping a part of a merged mapping would split
            // it in two, but the limit on the number of mappings is reached.
            // SAFETY: as above.
            unsafe { Self::release(self.start, self.length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_and_zero_until_they_are_written_and_after_they_are_released() {
        for alignment in [1, 4096, 64 << 10, 1 << 20] {
            let pages = Pages::map(3 * alignment + 1, alignment).unwrap();
            assert_eq!(pages.start().addr().get() % alignment, 0);
            assert!(pages.length() > 3 * alignment);
            assert!(pages.length().is_multiple_of(page_size()));
            let last = pages.length() - 1;
            // SAFETY: both bytes are in the mapping, which only this test accesses.
            let (first, last) = unsafe { (pages.start(), pages.start().add(last)) };
            // SAFETY: as above.
            unsafe {
                assert_eq!((first.read(), last.read()), (0, 0));
                first.write(1);
                last.write(2);
                Pages::release(pages.start(), page_size());
                assert_eq!(first.read(), 0);
                assert_eq!(last.read(), if pages.length() > page_size() { 2 } else { 0 });
            }
        }
        assert!(Pages::map(usize::MAX, 4096).is_none());
        assert!(Pages::map(1 << 62, 4096).is_none());
    }

    #[test]
    fn leaked_pages_can_be_reassembled() {
        let pages = Pages::map(10_000, 1).unwrap();
        let length = pages.length();
        let start = pages.leak();
        // SAFETY: from the line above, once.
        let pages = unsafe { Pages::from_leaked(start, 10_000) };
        assert_eq!((pages.start(), pages.length()), (start, length));
    }
}
