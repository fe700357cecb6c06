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

/// A memory mapping. Its pages are allocated on first touch. They are returned to the system when
/// they are [released](Pages::release) or the mapping is dropped.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    /// Length in bytes, a multiple of the page size.
    length: usize,
}

// SAFETY: only this value owns the memory, and it returns no references to it.
unsafe impl Send for Pages {}
// SAFETY: as for Send. The system calls made through a shared reference are thread-safe.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps at least `length` bytes of zeros. `length` must not be 0. The memory begins at a
    /// multiple of `alignment`, a power of two. `None` if there is no memory.
    pub fn map(length: usize, alignment: usize) -> Option<Self> {
        let length = length.checked_next_multiple_of(page_size())?;
        // The system aligns a mapping only to pages. For a larger alignment, a longer range is
        // mapped, and the surplus at both ends is unmapped.
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
                // SAFETY: these are whole pages inside the mapping and outside the bytes that are
                // kept. If the system refuses, the pages stay mapped. That is harmless, because
                // nothing accesses them.
                let _ = unsafe { munmap(begin.add(offset).cast(), surplus) };
            }
        }
        // SAFETY: `before` is not above `spare`, so the mapping contains the `length` bytes that
        // begin at `begin + before`.
        let start = NonNull::new(unsafe { begin.add(before) })?;
        Some(Self { start, length })
    }

    /// Maps the first `length` bytes of a file, which must be at least that long. `length` must not
    /// be 0. The mapping is shared: writes to the memory change the file, and other mappings of the
    /// file see them.
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
        // SAFETY: the bytes are writable memory that only this value owns, and nothing refers to
        // them.
        unsafe { self.start.as_ptr().write_bytes(0, self.length) };
    }

    /// Asks the system to use only small pages for this memory. With a huge page, releasing a part
    /// of it frees nothing. In addition, the system allocates released memory again when it merges
    /// small pages into a huge one.
    pub fn avoid_huge_pages(&self) {
        // SAFETY: only this value owns the mapping, whose contents do not change. A kernel without
        // huge pages returns an error, which can be ignored.
        let _ =
            unsafe { madvise(self.start.as_ptr().cast(), self.length, Advice::LinuxNoHugepage) };
    }

    /// Asks the system to use huge pages for this memory, so that random accesses need fewer
    /// translations of addresses. Only for memory of which no part is [released](Pages::release).
    pub fn prefer_huge_pages(&self) {
        // SAFETY: only this value owns the mapping, whose contents do not change. A kernel without
        // huge pages returns an error, which can be ignored.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.length, Advice::LinuxHugepage) };
    }

    /// Returns the memory of the `length` bytes at `start` to the system. Both must be multiples of
    /// the page size. When the bytes are accessed again, they are zero. If the process has locked
    /// all its memory, nothing is returned and the bytes keep their contents.
    ///
    /// # Safety
    /// The bytes are inside a live mapping, and nothing refers to them.
    pub unsafe fn release(start: NonNull<u8>, length: usize) {
        // SAFETY: guaranteed by the caller.
        let _ = unsafe { madvise(start.as_ptr().cast(), length, Advice::LinuxDontNeed) };
    }

    /// Returns the start address without unmapping the pages. The caller must pass the address to
    /// [`Pages::from_leaked`] later.
    pub fn leak(self) -> NonNull<u8> {
        ManuallyDrop::new(self).start
    }

    /// Takes ownership of leaked pages again.
    ///
    /// # Safety
    /// `start` is from [`Pages::leak`], `length` is the length of these pages in bytes, and this is
    /// called once for them.
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
            // The kernel merges adjacent mappings. Unmapping the middle of a merged mapping would
            // split it in two, which fails if the process has reached its limit on mappings. The
            // memory can be released nevertheless.
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
            // SAFETY: both bytes and the released page are in the mapping, which only this test
            // accesses.
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
        // SAFETY: `start` is from `leak` in the line above, and this is the only call for it.
        let pages = unsafe { Pages::from_leaked(start, 10_000) };
        assert_eq!((pages.start(), pages.length()), (start, length));
    }
}
