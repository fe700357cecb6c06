//! The memory of all tails of a log: its limits, what it is used for, and the order of eviction.
//!
//! Memory is allocated in pieces, whose size is a power of two. Each piece belongs to a chunk, or
//! to readers that still hold bytes of an evicted chunk, or is on the free list. Chunks that are
//! completely persisted are kept as a cache of recent data.
//!
//! There are two bounds. The *limit* is hard: if all memory below it holds unpersisted batches or
//! is held by readers, an allocation is refused. The *target* bounds the memory as long as
//! something can be evicted: an allocation that would exceed the target first releases free pieces
//! of other sizes, and then evicts persisted chunks, the oldest first. The target equals the limit
//! unless the cache sizes itself ([`super::sizing`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};

use tailwater_format::message::tail::HEADER_BYTES;
use tailwater_io::SharedMemory;
use tailwater_io::buffer::{AppendBuffer, MAX_ALIGNMENT, PageSource, Pages};

use super::Chunk;
use super::survivors::{region_name, region_number};
use crate::backpressure::Backpressure;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::{Error, ErrorKind, Result};

/// Minimum size of a piece, in bytes.
const PIECE_MIN: usize = 32 << 10;

/// The kind of memory that a chunk is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MemoryKind {
    /// Anonymous memory of the process. It ceases to exist when the process ends.
    Private,
    /// Shared memory, which outlives the process.
    Shared,
}

/// The memory in which all partitions of a log keep their tails (recently appended batches). Safe
/// to use from any thread.
pub(crate) struct ChunkPool {
    me: Weak<Self>,
    shared: Option<Arc<dyn SharedMemory>>,
    /// Whether new chunks may be in shared memory. If not, `shared` is only used to recover the
    /// batches that an earlier process left in it.
    allocates_shared: bool,
    limit: usize,
    state: Mutex<State>,
    /// Whether memory is scarce ([`Self::is_tight()`]). Updated whenever the state changes.
    is_tight: AtomicBool,
    backpressure: Arc<Backpressure>,
}

#[derive(Default)]
struct State {
    /// Total size of all pieces, free ones included, in bytes.
    used: usize,
    /// While anything can be evicted, `used` is kept at or below this, in bytes.
    target: usize,
    free: BTreeMap<(MemoryKind, usize), Vec<Piece>>,
    /// Total size of the pieces in `free`, in bytes.
    free_bytes: usize,
    /// Persisted chunks that are kept as a cache, the oldest first.
    cached: VecDeque<Arc<Chunk>>,
    /// Total size of the chunks in `cached`, in bytes.
    cached_bytes: usize,
    /// Number of the next region of shared memory to be created.
    next_region: u64,
    /// The names of the regions of shared memory that this process has created and not removed.
    regions: BTreeSet<String>,
    /// Whether the operating system refused the last request for memory.
    is_refused: bool,
    /// Whether the log was closed. The regions of shared memory have then been removed, or belong
    /// to the process that opens the log next.
    is_closed: bool,
}

struct Piece {
    pages: Pages,
    /// Name of the shared-memory region to which `pages` belong; `None` for private memory.
    region: Option<String>,
}

impl ChunkPool {
    /// Creates a pool of at most `limit` bytes. Regions that already exist in `shared` are left
    /// unchanged. `allocates_shared` says whether new chunks may be in shared memory.
    ///
    /// # Errors
    /// Errors from listing the regions.
    pub(crate) fn new(
        shared: Option<Arc<dyn SharedMemory>>,
        allocates_shared: bool,
        limit: usize,
        backpressure: Arc<Backpressure>,
    ) -> Result<Arc<Self>> {
        let mut state = State { target: limit, ..State::default() };
        if let Some(shared) = &shared {
            let numbers = shared.list()?;
            let numbers = numbers.iter().filter_map(|name| region_number(name));
            state.next_region = numbers.max().map_or(0, |last| last + 1);
        }
        let state = Mutex::new(state);
        let is_tight = AtomicBool::new(false);
        Ok(Arc::new_cyclic(|me| Self {
            me: me.clone(),
            shared,
            allocates_shared,
            limit,
            state,
            is_tight,
            backpressure,
        }))
    }

    /// Returns the log's shared memory; `None` if it has none. An earlier process may have left
    /// batches in it.
    pub(crate) fn shared(&self) -> Option<&Arc<dyn SharedMemory>> {
        self.shared.as_ref()
    }

    /// Returns whether new chunks may be in shared memory, which outlives the process.
    pub(crate) fn allocates_shared(&self) -> bool {
        self.allocates_shared
    }

    /// Returns the total size of all pieces, free ones included, in bytes.
    pub(crate) fn used(&self) -> usize {
        self.state.lock().used
    }

    /// Returns whether memory is scarce: unpersisted chunks and readers hold more than half of the
    /// limit, or the operating system refused the last request. Partitions then persist
    /// immediately, and release chunks that are not full.
    pub(crate) fn is_tight(&self) -> bool {
        self.is_tight.load(Ordering::Relaxed)
    }

    /// Returns whether the operating system refused the last request for memory.
    pub(crate) fn is_refused(&self) -> bool {
        self.state.lock().is_refused
    }

    fn note_tightness(&self, state: &State) {
        let is_tight = state.is_refused || state.held() > self.limit / 2;
        self.is_tight.store(is_tight, Ordering::Relaxed);
    }

    /// Returns the target, in bytes: the bound on the memory that persisted chunks may fill.
    pub(crate) fn target(&self) -> usize {
        self.state.lock().target
    }

    /// Sets the target for the memory of all tails, in bytes. While more memory is used, evicts
    /// persisted chunks.
    pub(crate) fn set_target(&self, target: usize) {
        self.state.lock().target = target.min(self.limit);
        self.evict_beyond_target();
    }

    /// Returns the hard limit on the memory of all tails, in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Allocates memory with space for at least `bytes` bytes. In shared memory, a header precedes
    /// that space.
    ///
    /// # Errors
    /// Full, if the limit is reached and all memory contains unpersisted batches or is held by
    /// readers; full, if the operating system refuses more memory or has no descriptor left;
    /// invalid argument, if `bytes` exceeds the limit; I/O errors.
    pub(crate) fn allocate(&self, kind: MemoryKind, bytes: usize) -> Result<AppendBuffer> {
        let size = bytes.max(PIECE_MIN).next_power_of_two();
        let header = match kind {
            MemoryKind::Private => 0,
            MemoryKind::Shared => HEADER_BYTES,
        };
        if size > self.limit {
            let message = format!("{bytes} bytes do not fit into tail_bytes_max ({})", self.limit);
            return Err(Error::invalid(message));
        }
        let piece = self.take_piece(kind, header, size)?;
        let Piece { pages, region } = piece;
        let Some(memory) = self.me.upgrade() else {
            return Err(Error::new(ErrorKind::Internal, "memory outlives its owner"));
        };
        let source = Arc::new(Source { memory, kind, size, region });
        Ok(AppendBuffer::new(pages, header, source))
    }

    fn take_piece(&self, kind: MemoryKind, header: usize, size: usize) -> Result<Piece> {
        loop {
            let mut state = self.state.lock();
            if let Some(piece) = state.free.get_mut(&(kind, size)).and_then(Vec::pop) {
                state.free_bytes -= size;
                self.note_tightness(&state);
                return Ok(piece);
            }
            let bound = if state.has_evictable() { state.target } else { self.limit };
            let mut refused = None;
            if state.used + size <= bound {
                state.used += size;
                let region = state.next_region;
                state.next_region += u64::from(kind == MemoryKind::Shared);
                drop(state);
                let mapped = self.map(kind, header + size, region);
                state = self.state.lock();
                state.is_refused = mapped.is_err();
                state.used -= if mapped.is_err() { size } else { 0 };
                self.note_tightness(&state);
                match mapped {
                    Ok(piece) => {
                        state.regions.extend(piece.region.clone());
                        return Ok(piece);
                    }
                    // The region belongs to somebody else. The next one has another name.
                    Err(error) if error.is_about_existing() => continue,
                    Err(error) if error.kind() == ErrorKind::NoSpace => refused = Some(error),
                    // An eviction would free no descriptor.
                    Err(error) if error.kind() == ErrorKind::OutOfDescriptors => {
                        let message = format!("no memory can be shared: {error}");
                        return Err(Error::new(ErrorKind::Full, message));
                    }
                    Err(error) => return Err(error),
                }
            }
            let Some(evicted) = state.evict() else {
                let mut message =
                    "all memory of tails is unpersisted or held by readers".to_owned();
                if let Some(error) = refused {
                    message.push_str(&format!(", and the system has no more memory: {error}"));
                }
                return Err(Error::new(ErrorKind::Full, message));
            };
            drop(state);
            self.release(evicted);
        }
    }

    /// Releases free pieces of memory and evicts cached chunks, until the size of the pool is at
    /// most `target`, or nothing is left to release or evict.
    fn evict_beyond_target(&self) {
        loop {
            let mut state = self.state.lock();
            if state.used <= state.target {
                return;
            }
            let Some(evicted) = state.evict() else { return };
            drop(state);
            self.release(evicted);
        }
    }

    /// Releases what `evict` returned. The caller must not hold the lock of the state, because
    /// releasing a chunk calls [`Source::give_back`], which takes that lock.
    fn release(&self, evicted: Evicted) {
        match evicted {
            Evicted::Piece(piece) => self.unmap(piece),
            // The chunk's memory returns to the pool now, or when the last reader drops its
            // reference.
            Evicted::Chunk(chunk) => chunk.evict(),
        }
    }

    fn map(&self, kind: MemoryKind, bytes: usize, region: u64) -> Result<Piece> {
        match (kind, &self.shared) {
            (MemoryKind::Private, _) => {
                let pages = Pages::map(bytes, MAX_ALIGNMENT)
                    .ok_or_else(|| Error::new(ErrorKind::Full, "the system has no more memory"))?;
                Ok(Piece { pages, region: None })
            }
            (MemoryKind::Shared, Some(shared)) => {
                let name = region_name(region);
                let pages = shared.create(&name, bytes)?;
                Ok(Piece { pages, region: Some(name) })
            }
            (MemoryKind::Shared, None) => {
                Err(Error::new(ErrorKind::Internal, "there is no shared memory"))
            }
        }
    }

    fn unmap(&self, piece: Piece) {
        if let (Some(region), Some(shared)) = (&piece.region, &self.shared) {
            // Ignore an error: the region contains no batches, and the next opening of the log
            // removes it.
            let _ = shared.remove(region);
            self.state.lock().regions.remove(region);
        }
    }

    /// Keeps a chunk, which is completely persisted, as a cache of recent data.
    pub(crate) fn cache(&self, chunk: Arc<Chunk>) {
        let mut state = self.state.lock();
        state.cached_bytes += capacity(&chunk);
        state.cached.push_back(chunk);
        self.note_tightness(&state);
        drop(state);
        self.evict_beyond_target();
        self.backpressure.changed();
    }

    /// Evicts `chunks` from the cache; ignores chunks that are not in the cache. Also returns all
    /// free memory of the pool to the operating system.
    pub(crate) fn release_chunks(&self, chunks: &[Arc<Chunk>]) {
        let mut evicted = Vec::new();
        let mut state = self.state.lock();
        let cached = std::mem::take(&mut state.cached);
        for chunk in cached {
            if chunks.iter().any(|other| Arc::ptr_eq(other, &chunk)) {
                state.cached_bytes -= capacity(&chunk);
                evicted.push(chunk);
            } else {
                state.cached.push_back(chunk);
            }
        }
        drop(state);
        evicted.iter().for_each(|chunk| chunk.evict());
        loop {
            let mut state = self.state.lock();
            let Some(piece) = state.take_free() else { return };
            drop(state);
            self.unmap(piece);
        }
    }

    /// Closes the pool and evicts all cached chunks. `is_persisted` states whether all batches are
    /// persisted. If they are, the regions that this process created are removed. Otherwise these
    /// regions remain, and the process that opens the log next recovers the batches in them.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn close(&self, is_persisted: bool) -> Result<()> {
        let mut state = self.state.lock();
        state.is_closed = true;
        let cached = std::mem::take(&mut state.cached);
        state.cached_bytes = 0;
        state.free.clear();
        state.free_bytes = 0;
        let regions = std::mem::take(&mut state.regions);
        drop(state);
        cached.iter().for_each(|chunk| chunk.evict());
        if let (Some(shared), true) = (&self.shared, is_persisted) {
            for name in regions {
                shared.remove(&name)?;
            }
            shared.remove_if_empty();
        }
        Ok(())
    }
}

/// What was taken from the free list or the cache in order to release its memory.
enum Evicted {
    Piece(Piece),
    Chunk(Arc<Chunk>),
}

/// Returns the size of a cached chunk's memory, in bytes.
fn capacity(chunk: &Chunk) -> usize {
    chunk.bytes().map_or(0, |bytes| bytes.capacity())
}

impl State {
    /// Returns the memory that cannot be evicted, in bytes: unpersisted chunks, and evicted chunks
    /// that readers still hold.
    fn held(&self) -> usize {
        self.used.saturating_sub(self.free_bytes + self.cached_bytes)
    }

    fn has_evictable(&self) -> bool {
        self.free_bytes > 0 || !self.cached.is_empty()
    }

    /// Removes and returns a free piece of memory. If no piece is free, removes and returns the
    /// oldest cached chunk.
    fn evict(&mut self) -> Option<Evicted> {
        if let Some(piece) = self.take_free() {
            return Some(Evicted::Piece(piece));
        }
        let oldest = self.cached.pop_front()?;
        self.cached_bytes -= capacity(&oldest);
        Some(Evicted::Chunk(oldest))
    }

    /// Removes and returns the largest free piece of shared memory or, if there is none, the
    /// largest of private memory.
    fn take_free(&mut self) -> Option<Piece> {
        let (key, pieces) = self.free.iter_mut().rfind(|(_, pieces)| !pieces.is_empty())?;
        let (size, piece) = (key.1, pieces.pop()?);
        self.used -= size;
        self.free_bytes -= size;
        Some(piece)
    }
}

/// Returns the memory of one chunk to the pool when the last reference to it is dropped.
struct Source {
    memory: Arc<ChunkPool>,
    kind: MemoryKind,
    size: usize,
    region: Option<String>,
}

impl PageSource for Source {
    fn give_back(&self, mut pages: Pages) {
        let mut state = self.memory.state.lock();
        if state.is_closed {
            // Do not touch the region: one with the same name may already belong to another
            // process.
            return;
        }
        if state.used > state.target {
            state.used -= self.size;
            self.memory.note_tightness(&state);
            drop(state);
            self.memory.unmap(Piece { pages, region: self.region.clone() });
            return self.memory.backpressure.changed();
        }
        drop(state);
        if self.kind == MemoryKind::Shared {
            // Zero the memory before it is reused. If this process dies, the process that opens the
            // log next must not find old batches after the new ones.
            pages.zero();
        }
        let piece = Piece { pages, region: self.region.clone() };
        let mut state = self.memory.state.lock();
        state.free.entry((self.kind, self.size)).or_default().push(piece);
        state.free_bytes += self.size;
        self.memory.note_tightness(&state);
        drop(state);
        self.memory.backpressure.changed();
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({} bytes)", self.size)
    }
}

impl fmt::Debug for ChunkPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        write!(
            f,
            "ChunkPool({} of {} bytes, {} chunks cached)",
            state.used,
            self.limit,
            state.cached.len()
        )
    }
}
