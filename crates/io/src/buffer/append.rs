//! Memory to which one owner appends while other threads read the bytes that it has published.
//!
//! - Only the [`AppendBuffer`] writes, and only to addresses above the published bytes.
//! - Readers see only published bytes, which never change. So a device may also read them.
//! - The memory returns to its [`PageSource`] once the owner and all readers have been dropped.
#![expect(unsafe_code, reason = "an owner writes to memory that others read, unlike any borrow")]

use std::fmt;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::Pages;

/// The origin of the pages of a buffer. It takes the pages back when nothing refers to them any
/// longer.
pub trait PageSource: fmt::Debug + Send + Sync {
    /// Takes back the pages. Runs in the thread that dropped the last reference to them.
    fn give_back(&self, pages: Pages);
}

/// A buffer to which its owner appends. It is the only value through which the memory is written.
pub struct AppendBuffer {
    shared: Arc<Allocation>,
    /// Number of bytes that were appended, whether published or not.
    length: usize,
}

/// A reader's reference to the memory of an [`AppendBuffer`]. A clone refers to the same memory.
#[derive(Clone)]
pub struct AppendedBytes {
    shared: Arc<Allocation>,
}

/// A range of published bytes. It keeps the memory alive.
#[derive(Clone)]
pub struct AppendedSlice {
    shared: Arc<Allocation>,
    range: Range<usize>,
}

struct Allocation {
    /// The pages that contain the memory; `None` only while the allocation is dropped.
    pages: Option<Pages>,
    /// Address of the first appended byte, `header` bytes after the start of the pages.
    start: NonNull<u8>,
    header: usize,
    capacity: usize,
    /// Number of bytes that readers may see. They are initialised and do not change.
    published: AtomicUsize,
    source: Arc<dyn PageSource>,
}

// SAFETY: only this allocation owns the pages. Published bytes are only read. The bytes after them
// are accessed only by the one AppendBuffer, whose methods take `&mut self`.
unsafe impl Send for Allocation {}
// SAFETY: as for Send.
unsafe impl Sync for Allocation {}

impl AppendBuffer {
    /// Creates an empty buffer in these pages, whose contents may be arbitrary. The appended bytes
    /// begin after a header of `header` bytes. `source` takes the pages back in the end.
    ///
    /// # Panics
    /// If the header is not a multiple of 8, or does not fit into the pages.
    pub fn new(pages: Pages, header: usize, source: Arc<dyn PageSource>) -> Self {
        assert!(header.is_multiple_of(8) && header <= pages.length(), "a header of {header} bytes");
        // SAFETY: the header is inside the pages.
        let start = unsafe { pages.start().add(header) };
        let capacity = pages.length() - header;
        let published = AtomicUsize::new(0);
        let shared = Allocation { pages: Some(pages), start, header, capacity, published, source };
        Self { shared: Arc::new(shared), length: 0 }
    }

    /// Returns the number of bytes that were appended, whether published or not.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the number of bytes that can be appended in total.
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// Returns the number of bytes that can still be appended.
    pub fn remaining(&self) -> usize {
        self.shared.capacity - self.length
    }

    /// Appends bytes. Readers do not see them before [`Self::publish`].
    ///
    /// # Panics
    /// If there is too little space.
    pub fn append(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.remaining(), "{} bytes for {}", bytes.len(), self.remaining());
        // SAFETY: the target is inside the pages and after the published bytes, so nothing else
        // refers to it, and `bytes` does not overlap it.
        unsafe {
            let target = self.shared.start.as_ptr().add(self.length);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
        self.length += bytes.len();
    }

    /// Appends `count` zeros.
    ///
    /// # Panics
    /// If there is too little space.
    pub fn append_zeros(&mut self, count: usize) {
        assert!(count <= self.remaining(), "{count} bytes for {}", self.remaining());
        // SAFETY: as in `append`.
        unsafe { self.shared.start.as_ptr().add(self.length).write_bytes(0, count) };
        self.length += count;
    }

    /// Makes all appended bytes visible to readers.
    pub fn publish(&mut self) {
        self.shared.published.store(self.length, Ordering::Release);
    }

    /// Drops the bytes that were appended but not published.
    pub fn discard(&mut self) {
        self.length = self.shared.published.load(Ordering::Relaxed);
    }

    /// Writes `bytes` to the beginning of the header. Writes their first 8 bytes last, atomically.
    ///
    /// # Panics
    /// If `bytes` has 8 bytes or fewer, or is longer than the header.
    pub fn write_header(&mut self, bytes: &[u8]) {
        assert!(8 < bytes.len() && bytes.len() <= self.shared.header, "{} bytes", bytes.len());
        let (first, rest) = bytes.split_at(8);
        let header = self.shared.header_start();
        // SAFETY: the header is inside the pages and before all bytes that readers see. Only this
        // method writes the bytes of the header after the first 8. The first 8 bytes are accessed
        // only atomically, and this call does not write them.
        unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), header.add(8).as_ptr(), rest.len()) };
        let first = first.try_into().map_or(0, u64::from_ne_bytes);
        self.shared.header_word().store(first, Ordering::Release);
    }

    /// Returns a reference through which the published bytes can be read.
    pub fn reader(&self) -> AppendedBytes {
        AppendedBytes { shared: Arc::clone(&self.shared) }
    }
}

impl AppendedBytes {
    /// Returns the number of published bytes. It never decreases.
    pub fn length(&self) -> usize {
        self.shared.published.load(Ordering::Acquire)
    }

    /// Returns the number of bytes that can be appended in total.
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// Returns the bytes of `range`; `None` if not all of them are published.
    pub fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        self.shared.get(range)
    }

    /// Returns the bytes of `range` as a slice that keeps the memory alive; `None` if not all of
    /// them are published.
    pub fn slice(&self, range: Range<usize>) -> Option<AppendedSlice> {
        self.shared.get(range.clone())?;
        Some(AppendedSlice { shared: Arc::clone(&self.shared), range })
    }

    /// Sets the first 8 bytes of the header to zero.
    pub fn clear_header(&self) {
        if self.shared.header > 0 {
            self.shared.header_word().store(0, Ordering::Release);
        }
    }
}

impl Allocation {
    fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        let published = self.published.load(Ordering::Acquire);
        if range.start > range.end || range.end > published {
            return None;
        }
        // SAFETY: the bytes are inside the pages, were written before the length was published, and
        // do not change while the allocation lives.
        Some(unsafe {
            let start = self.start.as_ptr().add(range.start);
            std::slice::from_raw_parts(start, range.end - range.start)
        })
    }

    fn header_start(&self) -> NonNull<u8> {
        // SAFETY: `start` is `header` bytes after the beginning of the pages.
        unsafe { self.start.sub(self.header) }
    }

    fn header_word(&self) -> &AtomicU64 {
        // SAFETY: pages begin at a multiple of 8 and live as long as the allocation. These 8 bytes
        // are accessed only atomically.
        unsafe { AtomicU64::from_ptr(self.header_start().cast().as_ptr()) }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some(pages) = self.pages.take() {
            self.source.give_back(pages);
        }
    }
}

impl Deref for AppendedSlice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.shared.get(self.range.clone()).unwrap_or_default()
    }
}

impl AsRef<[u8]> for AppendedSlice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for AppendBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AppendBuffer({} of {} bytes)", self.length, self.shared.capacity)
    }
}

impl fmt::Debug for AppendedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AppendedBytes({} of {} bytes)", self.length(), self.shared.capacity)
    }
}

impl fmt::Debug for AppendedSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AppendedSlice({:?})", self.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Mutex;

    #[derive(Debug, Default)]
    struct Kept(Mutex<Vec<Pages>>);

    impl PageSource for Kept {
        fn give_back(&self, pages: Pages) {
            self.0.lock().push(pages);
        }
    }

    fn buffer(header: usize) -> (AppendBuffer, Arc<Kept>) {
        let kept = Arc::new(Kept::default());
        let pages = Pages::map(3 * 4096, 4096).unwrap();
        (AppendBuffer::new(pages, header, Arc::clone(&kept) as _), kept)
    }

    #[test]
    fn readers_see_what_is_published() {
        let (mut buffer, _) = buffer(0);
        let reader = buffer.reader();
        buffer.append(b"one");
        assert_eq!((reader.length(), reader.get(0..1)), (0, None));
        buffer.publish();
        assert_eq!(reader.get(0..3), Some(&b"one"[..]));
        buffer.append(b"lost");
        buffer.discard();
        buffer.append_zeros(2);
        buffer.publish();
        assert_eq!(reader.get(2..5), Some(&b"e\0\0"[..]));
        assert_eq!(reader.get(2..6), None);
        assert_eq!(buffer.remaining(), 3 * 4096 - 5);
    }

    #[test]
    fn memory_is_released_with_the_last_slice() {
        let (mut buffer, kept) = buffer(0);
        buffer.append(b"bytes");
        buffer.publish();
        let slice = buffer.reader().slice(1..4).unwrap();
        drop(buffer);
        assert_eq!((&slice[..], kept.0.lock().len()), (&b"yte"[..], 0));
        drop(slice);
        assert_eq!(kept.0.lock().len(), 1);
    }

    #[test]
    fn a_header_stands_before_the_bytes() {
        let (mut buffer, kept) = buffer(4096);
        buffer.append(b"bytes");
        buffer.publish();
        buffer.write_header(b"headline and more");
        assert_eq!(buffer.reader().get(0..5), Some(&b"bytes"[..]));
        buffer.reader().clear_header();
        drop(buffer);
        let pages = kept.0.lock().pop().unwrap();
        // SAFETY: nothing else accesses these pages.
        let bytes = unsafe { std::slice::from_raw_parts(pages.start().as_ptr(), 4101) };
        assert_eq!(&bytes[..17], b"\0\0\0\0\0\0\0\0 and more");
        assert_eq!(&bytes[4096..], b"bytes");
    }

    #[test]
    fn readers_run_beside_the_owner() {
        let (mut buffer, _) = buffer(0);
        let reader = buffer.reader();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut seen = 0;
                while seen < 3 * 4096 {
                    let length = reader.length();
                    let bytes = reader.get(0..length).unwrap();
                    assert!((seen..length).all(|at| bytes[at] == (at % 251) as u8));
                    seen = length;
                }
            });
            for at in 0..3 * 4096 {
                buffer.append(&[(at % 251) as u8]);
                buffer.publish();
            }
        });
    }

    #[test]
    #[should_panic(expected = "bytes for")]
    fn appending_beyond_the_end_is_refused() {
        let (mut buffer, _) = buffer(4096);
        buffer.append(&[0; 2 * 4096 + 1]);
    }
}
