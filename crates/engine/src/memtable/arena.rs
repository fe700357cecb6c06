//! An arena: memory that is allocated in pieces and freed as a whole.
//!
//! The arena is divided into shards, and a thread always uses the same shard, so that inserts of
//! different threads rarely write to the same cache line. A shard allocates from its current chunk
//! by adding the size of the piece to a counter. If a piece does not fit, the shard gets a new
//! chunk, and the free end of the old chunk stays unused. The size of a new chunk is a fraction of
//! the arena's size. So a small memtable needs little memory, and the unused ends of chunks are a
//! small part of a large memtable. A piece that would fill a large part of a chunk gets a chunk of
//! its own.
//!
//! Invariants:
//! - Pieces never overlap.
//! - A chunk is freed only with the arena, by a background thread if there is one.
//! - Every chunk is on the list that starts at `chunks`, even if no shard uses the chunk any more.
//! - No call waits for another thread, except that a new chunk may have to take capacity from a
//!   cache ([`Account`]).
//!
//! Large chunks are mapped directly with `mmap`. An allocator would keep much of the memory of a
//! freed memtable: after a large chunk is freed for the first time, glibc raises its `mmap`
//! threshold and allocates such chunks in its heaps, between other live allocations.
#![expect(unsafe_code, reason = "hands out raw memory; see the invariants above")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use tailwater_io::buffer::Pages;
use tailwater_io::buffer::poison::{poison, unpoison};

use super::account::Account;

/// Alignment of every allocated piece, in bytes.
pub(super) const ALIGNMENT: usize = 8;

/// Alignment of chunks, in bytes: a cache line.
const CHUNK_ALIGNMENT: usize = 64;

const SMALLEST_CHUNK: usize = 4 << 10;
/// Size of the largest chunks, in bytes, and their alignment: a huge page of x86-64 and of AArch64
/// with small pages of 4 KiB.
const LARGEST_CHUNK: usize = 2 << 20;

/// Size from which on a chunk is mapped with `mmap`, in bytes. Smaller chunks come from the
/// allocator.
const PAGED_CHUNK: usize = 64 << 10;

/// Size of a new chunk, as a fraction of all memory that the arena already has: 1/GROWTH, rounded
/// up to a power of two.
const GROWTH: usize = 8;

/// Maximum size of a piece that shares a chunk with other pieces, as a fraction of the size of a
/// new chunk: 1/PIECES_PER_CHUNK.
const PIECES_PER_CHUNK: usize = 4;

/// Memory for the entries of one memtable. Several threads may allocate concurrently.
pub(super) struct Arena {
    shards: Box<[Shard]>,
    /// All chunks, the newest first.
    chunks: AtomicPtr<Chunk>,
    /// Total size of all chunks in bytes, including their headers.
    allocated: AtomicUsize,
    account: Account,
}

/// Aligned to a pair of cache lines, because processors fetch them in pairs.
#[repr(align(128))]
struct Shard {
    /// The chunk from which the shard allocates; null until the shard's first allocation.
    current: AtomicPtr<Chunk>,
}

/// The header of a chunk. The space for pieces follows it in memory.
#[repr(C)]
struct Chunk {
    older: *mut Chunk,
    /// Size of the chunk in bytes, including this header.
    size: usize,
    /// Whether the chunk was mapped with `mmap`. Otherwise it came from the allocator.
    is_paged: bool,
    /// Number of allocated bytes, including this header. Can exceed `size`: threads that find the
    /// chunk full at the same time have already added the sizes of their pieces.
    used: AtomicUsize,
}

impl Arena {
    /// Creates an empty arena. The number of shards is rounded up to a power of two. `account`
    /// counts the arena's memory.
    pub(super) fn new(shards: usize, account: Account) -> Self {
        let shard = || Shard { current: AtomicPtr::new(ptr::null_mut()) };
        let arena = Self {
            shards: std::iter::repeat_with(shard).take(shards.next_power_of_two()).collect(),
            chunks: AtomicPtr::new(ptr::null_mut()),
            allocated: AtomicUsize::new(0),
            account,
        };
        arena.account.add(arena.memory_usage());
        arena
    }

    /// Returns the memory that the arena holds, in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        self.allocated.load(Ordering::Relaxed) + size_of_val(&*self.shards)
    }

    /// Allocates `size` uninitialised bytes, aligned to [`ALIGNMENT`]. They stay valid as long as
    /// the arena. Any number is valid for `shard`; it is taken modulo the number of shards. Threads
    /// that use different shards do not contend.
    #[inline]
    pub(super) fn allocate(&self, shard: usize, size: usize) -> NonNull<u8> {
        let piece = self.allocate_rounded(shard, size.next_multiple_of(ALIGNMENT));
        unpoison(piece, size);
        piece
    }

    #[inline]
    fn allocate_rounded(&self, shard: usize, size: usize) -> NonNull<u8> {
        let shard = &self.shards[shard & (self.shards.len() - 1)];
        loop {
            let current = shard.current.load(Ordering::Acquire);
            if let Some(piece) = Self::carve(current, size) {
                return piece;
            }
            let chunk_size = self.next_chunk_size();
            if size > chunk_size / PIECES_PER_CHUNK {
                return self.allocate_alone(size);
            }
            self.replace(shard, current, chunk_size);
        }
    }

    /// Allocates a piece from the chunk. Returns `None` if `chunk` is null or does not have enough
    /// space.
    #[inline]
    fn carve(chunk: *mut Chunk, size: usize) -> Option<NonNull<u8>> {
        let chunk = NonNull::new(chunk)?;
        // SAFETY: chunks live as long as the arena, and no mutable reference exists to a chunk that
        // other threads can reach.
        let head = unsafe { chunk.as_ref() };
        // Checked before the addition: adding the size of a piece that does not fit would use up
        // space that is still large enough for smaller pieces.
        if head.used.load(Ordering::Relaxed).checked_add(size)? > head.size {
            return None;
        }
        let start = head.used.fetch_add(size, Ordering::Relaxed);
        if start + size > head.size {
            return None;
        }
        // SAFETY: the bytes from `start` to `start + size` are within the chunk, and the counter
        // gave them to this call only.
        Some(unsafe { chunk.cast::<u8>().add(start) })
    }

    fn next_chunk_size(&self) -> usize {
        let wanted = self.allocated.load(Ordering::Relaxed) / GROWTH;
        wanted.next_power_of_two().clamp(SMALLEST_CHUNK, LARGEST_CHUNK)
    }

    /// Allocates `size` bytes in a chunk that holds nothing else.
    #[cold]
    fn allocate_alone(&self, size: usize) -> NonNull<u8> {
        let chunk = self.new_chunk(size_of::<Chunk>() + size, size_of::<Chunk>() + size);
        // SAFETY: the chunk has `size` bytes after its header, and they were marked as used before
        // any other thread could see the chunk.
        unsafe { chunk.cast::<u8>().add(size_of::<Chunk>()) }
    }

    /// Replaces `full`, the shard's current chunk, with a new chunk of `size` bytes. Does nothing
    /// if another thread has already replaced it.
    #[cold]
    fn replace(&self, shard: &Shard, full: *mut Chunk, size: usize) {
        if shard.current.load(Ordering::Relaxed) != full {
            return;
        }
        let chunk = self.new_chunk(size, size_of::<Chunk>());
        // If two threads race here, both have allocated a chunk, and one of them fails this
        // exchange. Its chunk stays unused. It is on the arena's list, so it is freed with the
        // others.
        let _ = shard.current.compare_exchange(
            full,
            chunk.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        );
    }

    /// Allocates a chunk and adds it to the list. The chunk has `size` bytes, including its header,
    /// or a little more if it is mapped, because mappings are whole pages. The first `used` bytes
    /// of the chunk count as allocated already.
    fn new_chunk(&self, size: usize, used: usize) -> NonNull<Chunk> {
        let (memory, size, is_paged) = obtain(size);
        let chunk = memory.cast::<Chunk>();
        // SAFETY: the header is within the allocated memory.
        poison(unsafe { chunk.add(1).cast() }, size - size_of::<Chunk>());
        self.allocated.fetch_add(size, Ordering::Relaxed);
        self.account.add(size);
        let mut older = self.chunks.load(Ordering::Relaxed);
        loop {
            // SAFETY: the memory is large and aligned enough for the header, and no other thread
            // can reach it yet.
            unsafe { chunk.write(Chunk { older, size, is_paged, used: AtomicUsize::new(used) }) };
            match self.chunks.compare_exchange_weak(
                older,
                chunk.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return chunk,
                Err(newest) => older = newest,
            }
        }
    }
}

/// Returns the layout of a chunk of this size in bytes. The size includes the header.
fn chunk_layout(size: usize) -> Layout {
    match Layout::from_size_align(size, CHUNK_ALIGNMENT) {
        Ok(layout) => layout,
        Err(_) => panic!("a chunk of {size} bytes does not fit the address space"),
    }
}

/// Allocates memory for a chunk of at least `size` bytes, including the header. Returns the memory,
/// its actual size in bytes, and whether it was mapped with `mmap`.
fn obtain(size: usize) -> (NonNull<u8>, usize, bool) {
    // Mapping can fail even if memory is free, when the process has too many mappings. Then the
    // allocator is used.
    let is_largest = size == LARGEST_CHUNK;
    let alignment = if is_largest { LARGEST_CHUNK } else { CHUNK_ALIGNMENT };
    if size >= PAGED_CHUNK
        && let Some(pages) = Pages::map(size, alignment)
    {
        if is_largest {
            pages.prefer_huge_pages();
        }
        let size = pages.length();
        return (pages.leak(), size, true);
    }
    let layout = chunk_layout(size);
    // SAFETY: the layout's size is not 0, because it includes a chunk's header.
    let memory = NonNull::new(unsafe { alloc(layout) });
    (memory.unwrap_or_else(|| handle_alloc_error(layout)), size, false)
}

/// Frees the memory of a chunk.
///
/// # Safety
/// `memory`, `size` and `is_paged` must be a result of [`obtain`]. The memory must not have been
/// freed before, and nothing may refer to it any more.
unsafe fn give_back(memory: NonNull<u8>, size: usize, is_paged: bool) {
    if is_paged {
        // SAFETY: the caller ensures that `obtain` returned this memory and size, and so leaked
        // these pages. The caller also ensures that they have not been freed before, and that
        // nothing refers to them any more.
        drop(unsafe { Pages::from_leaked(memory, size) });
    } else {
        // SAFETY: the caller ensures that `obtain` returned this memory and size, and so allocated
        // it with this layout. The caller also ensures that the memory has not been freed before,
        // and that nothing refers to it any more.
        unsafe { dealloc(memory.as_ptr(), chunk_layout(size)) };
    }
}

/// The chunks of a dropped arena, as a linked list with the newest first. This value is their sole
/// owner.
struct Chunks {
    newest: *mut Chunk,
}

// SAFETY: no other thread can reach the chunks.
unsafe impl Send for Chunks {}

impl Drop for Arena {
    fn drop(&mut self) {
        let newest = *self.chunks.get_mut();
        self.account.free(Chunks { newest });
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        let mut next = self.newest;
        while let Some(chunk) = NonNull::new(next) {
            // SAFETY: each chunk is on the list once, and no other thread can reach it.
            unsafe {
                let head = chunk.read();
                next = head.older;
                unpoison(chunk.cast(), head.size);
                give_back(chunk.cast(), head.size, head.is_paged);
            }
        }
    }
}

// SAFETY: chunks are reached through atomics, and each piece is given to only one caller.
unsafe impl Send for Arena {}
// SAFETY: as for `Send`.
unsafe impl Sync for Arena {}

#[cfg(test)]
mod tests {
    use std::thread;

    use tailwater_io::buffer::page_size;

    use super::*;

    #[test]
    fn arenas_start_small_and_waste_little_when_large() {
        let arena = Arena::new(4, Account::default());
        arena.allocate(0, 100);
        assert!(arena.memory_usage() <= SMALLEST_CHUNK + 4 * size_of::<Shard>());
        let wanted = 16 << 20;
        for _ in 0..wanted / 160 {
            arena.allocate(1, 160);
        }
        assert!(arena.memory_usage() > wanted);
        // Rounded up to a power of two, the last chunk is at most twice the fraction.
        assert!(arena.memory_usage() < wanted + 2 * wanted / GROWTH);
    }

    #[test]
    fn a_large_allocation_takes_only_its_own_pages() {
        let arena = Arena::new(1, Account::default());
        let before = arena.memory_usage();
        let piece = arena.allocate(0, 3 << 20);
        let wanted = (3_usize << 20) + size_of::<Chunk>();
        assert_eq!(arena.memory_usage() - before, wanted.next_multiple_of(page_size()));
        // SAFETY: the piece has 3 << 20 bytes.
        unsafe { piece.write_bytes(7, 3 << 20) };
    }

    #[test]
    fn allocations_of_many_threads_do_not_overlap() {
        let is_slow = cfg!(miri) || std::env::var_os("TAILWATER_SLOW_TOOL").is_some();
        let rounds = if is_slow { 50 } else { 5000 };
        let arena = Arena::new(2, Account::default());
        let mut pieces: Vec<(usize, usize)> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|shard| {
                    let arena = &arena;
                    scope.spawn(move || {
                        let sizes = (0..rounds).map(|round| 1 + (round * 37 + shard) % 700);
                        let carve = |size| (arena.allocate(shard, size).addr().get(), size);
                        sizes.map(carve).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        pieces.sort_unstable();
        for pair in pieces.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0);
        }
        assert!(pieces.iter().all(|(start, _)| start % ALIGNMENT == 0));
    }
}
