//! Pages of memory from the system, without an allocator between.
#![expect(unsafe_code, reason = "the interfaces for mappings are unsafe")]

#[cfg(debug_assertions)]
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
pub use rustix::param::page_size;

/// A mapping of its own: its pages are there when they are first touched, and the system has them
/// back when they are [released](Pages::release) and when it is dropped.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    /// A multiple of the page's size.
    length: usize,
}

// SAFETY: it owns its memory alone, as a Vec does, and gives out no reference to it.
unsafe impl Send for Pages {}
// SAFETY: as above; what it is asked for by several threads is done by the system.
unsafe impl Sync for Pages {}

impl Pages {
    /// At least `length` bytes, all zero, that begin at a multiple of `alignment`, a power of two;
    /// `None` where there are none. `length` is not 0.
    pub fn map(length: usize, alignment: usize) -> Option<Self> {
        let length = length.checked_next_multiple_of(page_size())?;
        // What is mapped begins at a page; what it takes to reach the alignment from there goes
        // again.
        let spare = if alignment > page_size() { alignment } else { 0 };
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        let whole = length.checked_add(spare)?;
        // SAFETY: a new mapping, of which nobody knows yet.
        let begin = unsafe { mmap_anonymous(ptr::null_mut(), whole, flags, MapFlags::PRIVATE) };
        let begin = begin.ok()?.cast::<u8>();
        let before = begin.align_offset(alignment);
        assert!(before <= spare, "the alignment is a power of two");
        for (offset, surplus) in [(0, before), (before + length, spare - before)] {
            if surplus > 0 {
                // SAFETY: whole pages inside the mapping and outside the bytes that are kept. If
                // the system refuses they stay, which does no harm: nobody touches them.
                let _ = unsafe { munmap(begin.add(offset).cast(), surplus) };
            }
        }
        // SAFETY: `before` is not above `spare`, so all of `length` behind it is mapped.
        let start = NonNull::new(unsafe { begin.add(before) })?;
        Some(Self { start, length })
    }

    /// The first `length` bytes of a file, which it has and others may map, too: what is written to
    /// them is in the file. `length` is not 0.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn map_file(file: BorrowedFd<'_>, length: usize) -> rustix::io::Result<Self> {
        let length = length.next_multiple_of(page_size());
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, of which nobody knows yet.
        let start = unsafe { mmap(ptr::null_mut(), length, flags, MapFlags::SHARED, file, 0) }?;
        match NonNull::new(start.cast::<u8>()) {
            Some(start) => Ok(Self { start, length }),
            None => Err(Errno::NOMEM),
        }
    }

    /// Where they begin.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How many bytes they are.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Makes all of them zero.
    pub fn zero(&mut self) {
        // SAFETY: they are writable memory of this alone, to which nobody has a reference.
        unsafe { self.start.as_ptr().write_bytes(0, self.length) };
    }

    /// Has the system back them with small pages only. In a huge one, what is released in part
    /// stays, and what nobody uses comes back when the system makes one of small ones.
    pub fn avoid_huge_pages(&self) {
        // SAFETY: it is about a mapping of its own, and changes nothing in it. A kernel without
        // huge pages refuses, which comes to the same.
        let _ =
            unsafe { madvise(self.start.as_ptr().cast(), self.length, Advice::LinuxNoHugepage) };
    }

    /// Gives the memory of `length` bytes from `start` on back to the system, both multiples of the
    /// page's size: they are zero when they are touched again. Where all memory is locked they stay
    /// as they are.
    ///
    /// # Safety
    /// They are inside pages that live, and nobody refers to anything in them.
    pub unsafe fn release(start: NonNull<u8>, length: usize) {
        // SAFETY: as the caller says.
        let _ = unsafe { madvise(start.as_ptr().cast(), length, Advice::LinuxDontNeed) };
    }

    /// Where they begin. They are given back when they are [put together](Pages::from_leaked)
    /// again.
    pub fn leak(self) -> NonNull<u8> {
        ManuallyDrop::new(self).start
    }

    /// Pages that were leaked.
    ///
    /// # Safety
    /// `start` is from [`Pages::leak`], `length` is what they were mapped with, and this is done
    /// once.
    pub unsafe fn from_leaked(start: NonNull<u8>, length: usize) -> Self {
        Self { start, length: length.next_multiple_of(page_size()) }
    }
}

#[cfg(debug_assertions)]
thread_local! {
    static GIVEN_BACK: Cell<u64> = const { Cell::new(0) };
}

/// How many [`Pages`] the calling thread has dropped so far, in builds with debug assertions.
#[cfg(debug_assertions)]
pub fn pages_given_back() -> u64 {
    GIVEN_BACK.get()
}

impl Drop for Pages {
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        let _ = GIVEN_BACK.try_with(|count| count.set(count.get() + 1));
        // SAFETY: a mapping of its own, to which nobody refers any more.
        if unsafe { munmap(self.start.as_ptr().cast(), self.length) }.is_err() {
            // It was one with its neighbours, and there is no room for the two that are left.
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
            // SAFETY: both bytes are in the mapping, which this test alone knows.
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
    fn pages_are_leaked_and_put_together() {
        let pages = Pages::map(10_000, 1).unwrap();
        let length = pages.length();
        let start = pages.leak();
        // SAFETY: from the line above, once.
        let pages = unsafe { Pages::from_leaked(start, 10_000) };
        assert_eq!((pages.start(), pages.length()), (start, length));
    }
}
