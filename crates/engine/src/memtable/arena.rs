//! An arena: memory that is allocated piece by piece and freed as a whole.
//!
//! The arena is divided into shards, and a thread always uses the same shard, so that inserts of
//! different threads rarely share a cache line. A shard allocates from its current chunk by adding
//! to a counter. If a piece does not fit, the shard gets a new chunk, and the tail of the old chunk
//! stays unused. Chunk sizes grow with the arena, so that a small memtable needs little memory, and
//! the unused tails are a small part of a large memtable. A piece that would fill much of a chunk
//! gets its own chunk.
//!
//! Invariants: a chunk is freed only with the arena; pieces never overlap; every chunk is on the
//! list that starts at `chunks`, even if no shard uses the chunk any more. No call waits for
//! another thread. Chunks are freed by a background thread, if there is one.
//!
//! Large chunks are mapped from the system, because an allocator would retain much of the memory of
//! a freed memtable: after the first large chunk is freed, glibc allocates such chunks in its
//! heaps, between other live allocations.
#![expect(unsafe_code, reason = "hands out raw memory; see the invariants above")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use tailwater_io::buffer::Pages;
use tailwater_io::buffer::poison::{poison, unpoison};

use crate::epoch::heavy;

/// Alignment of every piece, in bytes.
pub(super) const ALIGNMENT: usize = 8;

/// Alignment of chunks, in bytes: a cache line.
const CHUNK_ALIGNMENT: usize = 64;

const SMALLEST_CHUNK: usize = 4 << 10;
const LARGEST_CHUNK: usize = 1 << 20;

/// Minimum size of a chunk that is mapped, in bytes.
const PAGED_CHUNK: usize = 64 << 10;

/// Size of a new chunk, as a fraction of the arena's size: 1/GROWTH.
const GROWTH: usize = 8;

/// Size of the largest piece that shares a chunk, as a fraction of a new chunk: 1/PIECES_PER_CHUNK.
const PIECES_PER_CHUNK: usize = 4;

/// Memory for the entries of one memtable. Used by several threads concurrently.
pub(super) struct Arena {
    shards: Box<[Shard]>,
    /// All chunks, the newest first.
    chunks: AtomicPtr<Chunk>,
    /// Total size of all chunks in bytes, their heads included.
    allocated: AtomicUsize,
}

/// Aligned to a pair of cache lines, because processors fetch them in pairs.
#[repr(align(128))]
struct Shard {
    /// The shard's current chunk; null until its first piece is allocated.
    current: AtomicPtr<Chunk>,
}

/// The head of a chunk; the chunk's space follows it in memory.
#[repr(C)]
struct Chunk {
    older: *mut Chunk,
    /// Size of the chunk in bytes, this head included.
    size: usize,
    /// Whether the chunk is mapped from the system.
    is_paged: bool,
    /// Number of bytes allocated, this head included. Greater than `size` if several threads found
    /// the chunk full simultaneously.
    used: AtomicUsize,
}

impl Arena {
    /// Creates an empty arena. The number of shards is rounded up to a power of two.
    pub(super) fn new(shards: usize) -> Self {
        let shard = || Shard { current: AtomicPtr::new(ptr::null_mut()) };
        Self {
            shards: std::iter::repeat_with(shard).take(shards.next_power_of_two()).collect(),
            chunks: AtomicPtr::new(ptr::null_mut()),
            allocated: AtomicUsize::new(0),
        }
    }

    /// Returns the memory that the arena holds, in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        self.allocated.load(Ordering::Relaxed) + size_of_val(&*self.shards)
    }

    /// Allocates `size` uninitialised bytes, which are aligned to [`ALIGNMENT`] and valid as long
    /// as the arena. Any number is valid for `shard`; threads that use different shards do not
    /// contend.
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

    /// Allocates a piece from the chunk, if it is not null and has space.
    #[inline]
    fn carve(chunk: *mut Chunk, size: usize) -> Option<NonNull<u8>> {
        let chunk = NonNull::new(chunk)?;
        // SAFETY: chunks live as long as the arena, and nobody has a mutable reference to a chunk
        // that others can reach.
        let head = unsafe { chunk.as_ref() };
        // The check before the addition keeps a piece that does not fit from using up the chunk's
        // space, which smaller pieces can still use.
        if head.used.load(Ordering::Relaxed).checked_add(size)? > head.size {
            return None;
        }
        let start = head.used.fetch_add(size, Ordering::Relaxed);
        if start + size > head.size {
            return None;
        }
        // SAFETY: `start + size` is within the chunk's allocation, and the counter assigned this
        // range only to this call.
        Some(unsafe { chunk.cast::<u8>().add(start) })
    }

    fn next_chunk_size(&self) -> usize {
        let wanted = self.allocated.load(Ordering::Relaxed) / GROWTH;
        wanted.next_power_of_two().clamp(SMALLEST_CHUNK, LARGEST_CHUNK)
    }

    /// Allocates a chunk for this piece only.
    #[cold]
    fn allocate_alone(&self, size: usize) -> NonNull<u8> {
        let chunk = self.new_chunk(size_of::<Chunk>() + size, size_of::<Chunk>() + size);
        // SAFETY: the chunk has `size` bytes after its head, and they were marked as used before
        // any other thread could see the chunk.
        unsafe { chunk.cast::<u8>().add(size_of::<Chunk>()) }
    }

    /// Gives the shard a new chunk, unless another thread did so since the caller read `full`.
    #[cold]
    fn replace(&self, shard: &Shard, full: *mut Chunk, size: usize) {
        if shard.current.load(Ordering::Relaxed) != full {
            return;
        }
        let chunk = self.new_chunk(size, size_of::<Chunk>());
        // If two threads of a shard race, the loser leaves its chunk unused, because the winner's
        // chunk suffices for both. The unused chunk is on the list and is freed with the others.
        let _ = shard.current.compare_exchange(
            full,
            chunk.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        );
    }

    /// Allocates a chunk and adds it to the list. The chunk has `size` bytes, rounded up to whole
    /// pages if it is mapped; `used` of them count as allocated from the start.
    fn new_chunk(&self, size: usize, used: usize) -> NonNull<Chunk> {
        let (memory, size, is_paged) = obtain(size);
        let chunk = memory.cast::<Chunk>();
        // SAFETY: the head is within the allocated memory.
        poison(unsafe { chunk.add(1).cast() }, size - size_of::<Chunk>());
        self.allocated.fetch_add(size, Ordering::Relaxed);
        let mut older = self.chunks.load(Ordering::Relaxed);
        loop {
            // SAFETY: the memory is large and aligned enough, and nobody else can reach it yet.
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

/// Returns the layout of a chunk of this size, which must be at least that of a chunk's head.
fn chunk_layout(size: usize) -> Layout {
    match Layout::from_size_align(size, CHUNK_ALIGNMENT) {
        Ok(layout) => layout,
        Err(_) => panic!("a chunk of {size} bytes does not fit the address space"),
    }
}

/// Allocates `size` bytes or a little more. Returns the memory, its size, and whether it is mapped
/// from the system. `size` must be at least that of a chunk's head.
fn obtain(size: usize) -> (NonNull<u8>, usize, bool) {
    // Mapping may fail although memory is free, if the process has too many mappings. The allocator
    // is then used.
    if size >= PAGED_CHUNK
        && let Some(pages) = Pages::map(size, CHUNK_ALIGNMENT)
    {
        let size = pages.length();
        return (pages.leak(), size, true);
    }
    let layout = chunk_layout(size);
    // SAFETY: the layout is at least as large as a chunk's head.
    let memory = NonNull::new(unsafe { alloc(layout) });
    (memory.unwrap_or_else(|| handle_alloc_error(layout)), size, false)
}

/// Frees the memory of a chunk.
///
/// # Safety
/// The memory must come from [`obtain`], with the given size and kind, must be freed only once, and
/// nothing may refer to it any more.
unsafe fn give_back(memory: NonNull<u8>, size: usize, is_paged: bool) {
    if is_paged {
        // SAFETY: the pages were leaked in `obtain`; the caller ensures the other conditions.
        drop(unsafe { Pages::from_leaked(memory, size) });
    } else {
        // SAFETY: the caller ensures the conditions.
        unsafe { dealloc(memory.as_ptr(), chunk_layout(size)) };
    }
}

/// The sole owner of a dropped arena's chunks: a linked list, the newest first.
struct Chunks(*mut Chunk);

// SAFETY: nobody else can reach the chunks.
unsafe impl Send for Chunks {}

impl Drop for Arena {
    fn drop(&mut self) {
        heavy::drop_elsewhere(Chunks(*self.chunks.get_mut()));
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        let mut next = self.0;
        while let Some(chunk) = NonNull::new(next) {
            // SAFETY: the chunk is on the list once, and nobody else can reach it.
            unsafe {
                let head = chunk.read();
                next = head.older;
                unpoison(chunk.cast(), head.size);
                give_back(chunk.cast(), head.size, head.is_paged);
            }
        }
    }
}

// SAFETY: chunks are reached through atomics, and each piece is given to one caller only.
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
        let arena = Arena::new(4);
        arena.allocate(0, 100);
        assert!(arena.memory_usage() <= SMALLEST_CHUNK + 4 * size_of::<Shard>());
        let wanted = 16 << 20;
        for _ in 0..wanted / 160 {
            arena.allocate(1, 160);
        }
        assert!(arena.memory_usage() > wanted);
        assert!(arena.memory_usage() < wanted + wanted / GROWTH);
    }

    #[test]
    fn a_large_allocation_takes_only_its_own_pages() {
        let arena = Arena::new(1);
        let before = arena.memory_usage();
        let piece = arena.allocate(0, 3 << 20);
        let wanted = (3_usize << 20) + size_of::<Chunk>();
        assert_eq!(arena.memory_usage() - before, wanted.next_multiple_of(page_size()));
        // SAFETY: the piece has that many bytes.
        unsafe { piece.write_bytes(7, 3 << 20) };
    }

    #[test]
    fn allocations_of_many_threads_do_not_overlap() {
        let is_slow = cfg!(miri) || std::env::var_os("TAILWATER_SLOW_TOOL").is_some();
        let rounds = if is_slow { 50 } else { 5000 };
        let arena = Arena::new(2);
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
