//! The memory of all tails: its bounds, its users, and the order of eviction.
//!
//! Memory is allocated in pieces whose size is a power of two. Each piece belongs to a chunk, to
//! readers that still hold slices of an evicted chunk, or to the free list. Persisted chunks are a
//! cache of recent data.
//!
//! There are two bounds. The *limit* is hard: if all memory below it is unpersisted or held by
//! readers, an allocation is refused. The *target* bounds the cache: an allocation that would
//! exceed the target first releases free pieces of other sizes, and then evicts persisted chunks,
//! the oldest first. The target equals the limit unless the cache sizes itself ([`super::sizing`]).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};

use tailwater_format::message::tail::HEADER_BYTES;
use tailwater_io::SharedMemory;
use tailwater_io::buffer::{AppendBuffer, MAX_ALIGNMENT, PageSource, Pages};

use super::Chunk;
use crate::backpressure::Backpressure;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::{Error, ErrorKind, Result};

/// Size of the smallest piece, in bytes.
const PIECE_MIN: usize = 32 << 10;

/// The kind of a chunk's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MemoryKind {
    /// Anonymous memory of the process.
    Private,
    /// Shared memory, which outlives the process.
    Shared,
}

/// The memory of all tails of a log.
pub(crate) struct ChunkPool {
    me: Weak<Self>,
    shared: Option<Arc<dyn SharedMemory>>,
    /// Whether new chunks can be in shared memory. Otherwise `shared`, if there is any, only has
    /// the batches of an earlier process.
    allocates_shared: bool,
    limit: usize,
    /// Number of the first region of shared memory that this process creates. Regions with lower
    /// numbers belong to earlier processes.
    first_region: u64,
    state: Mutex<State>,
    /// Whether memory is scarce ([`Self::is_tight()`]); updated with each change of the state.
    is_tight: AtomicBool,
    backpressure: Arc<Backpressure>,
}

#[derive(Default)]
struct State {
    /// Total size of all pieces, including free ones, in bytes.
    used: usize,
    /// Bound on `used` while persisted chunks are kept, in bytes: beyond it they are evicted.
    target: usize,
    free: BTreeMap<(MemoryKind, usize), Vec<Piece>>,
    /// Total size of the pieces in `free`, in bytes.
    free_bytes: usize,
    /// Persisted chunks, the oldest first.
    cached: VecDeque<Arc<Chunk>>,
    /// Total size of the chunks in `cached`, in bytes.
    cached_bytes: usize,
    /// Number of the next region of shared memory.
    next_region: u64,
    /// Whether the system refused the last request for more memory.
    is_refused: bool,
    /// Whether the log was closed. Its regions of shared memory were then removed, or belong to the
    /// process that opens the log next.
    is_closed: bool,
}

struct Piece {
    pages: Pages,
    /// Name of the piece's region of shared memory; `None` for private memory.
    region: Option<String>,
}

impl ChunkPool {
    /// Creates a pool of at most `limit` bytes. Existing regions of shared memory stay unchanged.
    /// With `allocates_shared`, new chunks can be in shared memory.
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
            let numbers = shared.list()?.into_iter().filter_map(|name| name.parse::<u64>().ok());
            state.next_region = numbers.max().map_or(0, |last| last + 1);
        }
        let first_region = state.next_region;
        let state = Mutex::new(state);
        let is_tight = AtomicBool::new(false);
        Ok(Arc::new_cyclic(|me| Self {
            me: me.clone(),
            shared,
            allocates_shared,
            limit,
            first_region,
            state,
            is_tight,
            backpressure,
        }))
    }

    /// Returns the shared memory, if there is any. An earlier process may have left batches in it.
    pub(crate) fn shared(&self) -> Option<&Arc<dyn SharedMemory>> {
        self.shared.as_ref()
    }

    /// Returns whether new chunks can be in shared memory, which outlives the process.
    pub(crate) fn allocates_shared(&self) -> bool {
        self.allocates_shared
    }

    /// Returns the total size of all pieces in bytes, including free pieces.
    pub(crate) fn used(&self) -> usize {
        self.state.lock().used
    }

    /// Returns whether unpersisted chunks and readers hold more than half of the limit, or the
    /// system refused more memory. If so, partitions persist immediately and release chunks that
    /// are not full.
    pub(crate) fn is_tight(&self) -> bool {
        self.is_tight.load(Ordering::Relaxed)
    }

    /// Returns whether the system refused the last request for memory.
    pub(crate) fn is_refused(&self) -> bool {
        self.state.lock().is_refused
    }

    fn note_tightness(&self, state: &State) {
        let is_tight = state.is_refused || state.held() > self.limit / 2;
        self.is_tight.store(is_tight, Ordering::Relaxed);
    }

    /// Returns the size of all pieces, in bytes, up to which persisted chunks are kept.
    pub(crate) fn target(&self) -> usize {
        self.state.lock().target
    }

    /// Sets the size of all pieces, in bytes, up to which persisted chunks are kept. Evicts chunks
    /// beyond it.
    pub(crate) fn set_target(&self, target: usize) {
        self.state.lock().target = target.min(self.limit);
        self.evict_beyond_target();
    }

    /// Returns the hard limit, in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns memory with space for `bytes`. Shared memory has a header before that space.
    ///
    /// # Errors
    /// Full, if everything is unpersisted or held by readers; no space, if the system has no more
    /// shared memory; I/O errors.
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
                    Ok(piece) => return Ok(piece),
                    Err(error) => {
                        if error.kind() != ErrorKind::NoSpace {
                            return Err(error);
                        }
                        refused = Some(error);
                    }
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

    /// Evicts persisted chunks until the target is met or none is left.
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

    /// Releases memory that was evicted. The caller must not hold the lock of the state: releasing
    /// a chunk calls [`Source::give_back`], which takes that lock.
    fn release(&self, evicted: Evicted) {
        match evicted {
            Evicted::Piece(piece) => self.unmap(piece),
            // The chunk's memory returns to the pool now, or when the last reader drops its slice.
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
                let name = format!("{region:020}");
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
            // A region that cannot be removed now contains no batches: the next opening removes it.
            let _ = shared.remove(region);
        }
    }

    /// Keeps a persisted chunk as a cache of recent data.
    pub(crate) fn cache(&self, chunk: Arc<Chunk>) {
        let mut state = self.state.lock();
        state.cached_bytes += capacity(&chunk);
        state.cached.push_back(chunk);
        self.note_tightness(&state);
        drop(state);
        self.evict_beyond_target();
        self.backpressure.changed();
    }

    /// Evicts those of `chunks` that are in the cache, and returns free memory to the system.
    /// `chunks` are the chunks of an idle partition.
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

    /// Evicts all chunks. With `is_persisted`, removes the regions of this process. Otherwise the
    /// regions stay, and the process that opens the log next recovers the batches in them.
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
        drop(state);
        cached.iter().for_each(|chunk| chunk.evict());
        if let (Some(shared), true) = (&self.shared, is_persisted) {
            for name in shared.list()? {
                if name.parse::<u64>().is_ok_and(|number| number >= self.first_region) {
                    shared.remove(&name)?;
                }
            }
            shared.remove_if_empty();
        }
        Ok(())
    }
}

/// Memory that was taken from the free list or the cache, and is to be released.
enum Evicted {
    Piece(Piece),
    Chunk(Arc<Chunk>),
}

/// Returns the memory of a cached chunk, in bytes.
fn capacity(chunk: &Chunk) -> usize {
    chunk.bytes().map_or(0, |bytes| bytes.capacity())
}

impl State {
    /// Returns the number of bytes in unpersisted chunks, and in evicted chunks that readers still
    /// hold.
    fn held(&self) -> usize {
        self.used.saturating_sub(self.free_bytes + self.cached_bytes)
    }

    fn has_evictable(&self) -> bool {
        self.free_bytes > 0 || !self.cached.is_empty()
    }

    /// Removes and returns a free piece; if there is none, the oldest cached chunk.
    fn evict(&mut self) -> Option<Evicted> {
        if let Some(piece) = self.take_free() {
            return Some(Evicted::Piece(piece));
        }
        let oldest = self.cached.pop_front()?;
        self.cached_bytes -= capacity(&oldest);
        Some(Evicted::Chunk(oldest))
    }

    /// Removes and returns the largest free piece of shared memory; if there is none, of private
    /// memory.
    fn take_free(&mut self) -> Option<Piece> {
        let (key, pieces) = self.free.iter_mut().rfind(|(_, pieces)| !pieces.is_empty())?;
        let (size, piece) = (key.1, pieces.pop()?);
        self.used -= size;
        self.free_bytes -= size;
        Some(piece)
    }
}

/// Takes back the memory of one chunk when the last reference to it is dropped.
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
            // The log is closed: regions with the same names may already belong to another process.
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
            // If the memory is reused and this process dies, the process that opens the log next
            // must not find old batches after the new ones.
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
