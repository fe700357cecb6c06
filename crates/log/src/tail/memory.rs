//! The memory of all tails: how much there is, who has it, and what goes when it is wanted.
//!
//! Memory is in pieces of a power of two. A piece belongs to a chunk, to a reader that still holds
//! a slice of an evicted chunk, or to the free list. Where a new one would go beyond the limit,
//! free pieces of other sizes go, then persisted chunks, the oldest first. What is left is
//! unpersisted, and whoever wants more has to wait.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};

use tailwater_format::message::tail::HEADER_BYTES;
use tailwater_io::SharedMemory;
use tailwater_io::buffer::{AppendBuffer, MAX_ALIGNMENT, PageSource, Pages};

use super::Chunk;
use crate::room::Room;
use crate::sync::Mutex;
use crate::{Error, ErrorKind, Result};

/// Smallest piece of memory, in bytes.
const PIECE_MIN: usize = 32 << 10;

/// What kind of memory a chunk has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MemoryKind {
    /// The process's own.
    Private,
    /// Shared memory, which outlives the process.
    Shared,
}

/// The memory of all tails of a log.
pub(crate) struct TailMemory {
    me: Weak<Self>,
    shared: Option<Arc<dyn SharedMemory>>,
    limit: usize,
    /// Regions of lower numbers are other processes'.
    first_region: u64,
    state: Mutex<State>,
    room: Arc<Room>,
}

#[derive(Default)]
struct State {
    /// Bytes of all pieces.
    used: usize,
    free: BTreeMap<(MemoryKind, usize), Vec<Piece>>,
    /// Persisted chunks, the oldest first.
    cached: VecDeque<Arc<Chunk>>,
    /// Number of the next region of shared memory.
    next_region: u64,
    /// Whether the system had no memory when more was asked for last.
    is_refused: bool,
    /// Whether regions stay as they are: the next process needs what they hold.
    keeps_regions: bool,
}

struct Piece {
    pages: Pages,
    /// Name of the region, if it is shared memory.
    region: Option<String>,
}

impl TailMemory {
    /// Memory of at most `limit` bytes. Regions of shared memory that are there are not touched.
    ///
    /// # Errors
    /// Those of listing the regions.
    pub(crate) fn new(
        shared: Option<Arc<dyn SharedMemory>>,
        limit: usize,
        room: Arc<Room>,
    ) -> Result<Arc<Self>> {
        let mut state = State::default();
        if let Some(shared) = &shared {
            let numbers = shared.list()?.into_iter().filter_map(|name| name.parse::<u64>().ok());
            state.next_region = numbers.max().map_or(0, |last| last + 1);
        }
        let first_region = state.next_region;
        let state = Mutex::new(state);
        Ok(Arc::new_cyclic(|me| Self { me: me.clone(), shared, limit, first_region, state, room }))
    }

    /// Returns the memory that outlives the process.
    pub(crate) fn shared(&self) -> Option<&Arc<dyn SharedMemory>> {
        self.shared.as_ref()
    }

    /// Returns whether there is memory that outlives the process.
    pub(crate) fn has_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns the bytes that all pieces take, free ones included.
    pub(crate) fn used(&self) -> usize {
        self.state.lock().used
    }

    /// Returns whether little is left: persisted chunks should become free as soon as they can.
    pub(crate) fn is_tight(&self) -> bool {
        let state = self.state.lock();
        state.is_refused || state.used > self.limit / 4 * 3
    }

    /// Returns the bytes that there may be.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns memory with room for `bytes`, in front of which shared memory has a header.
    ///
    /// # Errors
    /// Full, where everything is unpersisted or held by readers; no space, where the system has no
    /// more shared memory; those of the system.
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
        let piece = loop {
            let mut state = self.state.lock();
            if let Some(piece) = state.free.get_mut(&(kind, size)).and_then(Vec::pop) {
                break piece;
            }
            let mut refused = None;
            if state.used + size <= self.limit {
                state.used += size;
                let region = state.next_region;
                state.next_region += u64::from(kind == MemoryKind::Shared);
                drop(state);
                let mapped = self.map(kind, header + size, region);
                state = self.state.lock();
                state.is_refused = mapped.is_err();
                match mapped {
                    Ok(piece) => break piece,
                    Err(error) => {
                        state.used -= size;
                        if error.kind() != ErrorKind::NoSpace {
                            return Err(error);
                        }
                        refused = Some(error);
                    }
                }
            }
            if let Some((size, piece)) = state.take_free() {
                state.used -= size;
                drop(state);
                self.unmap(piece);
                continue;
            }
            let Some(oldest) = state.cached.pop_front() else {
                let mut message =
                    "all memory of tails is unpersisted or held by readers".to_owned();
                if let Some(error) = refused {
                    message.push_str(&format!(", and there is no more: {error}"));
                }
                return Err(Error::new(ErrorKind::Full, message));
            };
            // Its memory comes back by `give_back`, now or when the last reader lets go of it.
            drop(state);
            oldest.evict();
        };
        let Piece { pages, region } = piece;
        let Some(memory) = self.me.upgrade() else {
            return Err(Error::new(ErrorKind::Internal, "memory outlives its owner"));
        };
        let source = Arc::new(Source { memory, kind, size, region });
        Ok(AppendBuffer::new(pages, header, source))
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
            // A region that stays has no header: whoever opens the log next removes it.
            let _ = shared.remove(region);
        }
    }

    /// Takes a chunk that is persisted as a cache.
    pub(crate) fn cache(&self, chunk: Arc<Chunk>) {
        self.state.lock().cached.push_back(chunk);
        self.room.changed();
    }

    /// Leaves all regions as they are from now on: the log was closed before everything was
    /// persisted, and the next process takes what they hold.
    pub(crate) fn keep_regions(&self) {
        self.state.lock().keeps_regions = true;
    }

    /// Removes all regions that this has made: nobody needs them any more.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn remove_regions(&self) -> Result<()> {
        let mut state = self.state.lock();
        let cached = std::mem::take(&mut state.cached);
        state.free.clear();
        drop(state);
        cached.iter().for_each(|chunk| chunk.evict());
        if let Some(shared) = &self.shared {
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

impl State {
    /// Takes a free piece of the largest size.
    fn take_free(&mut self) -> Option<(usize, Piece)> {
        let key = *self
            .free
            .iter()
            .filter(|(_, pieces)| !pieces.is_empty())
            .max_by_key(|(key, _)| key.1)?
            .0;
        let piece = self.free.get_mut(&key)?.pop()?;
        Some((key.1, piece))
    }
}

/// Takes the memory of one chunk back.
struct Source {
    memory: Arc<TailMemory>,
    kind: MemoryKind,
    size: usize,
    region: Option<String>,
}

impl PageSource for Source {
    fn give_back(&self, mut pages: Pages) {
        if self.kind == MemoryKind::Shared {
            if self.memory.state.lock().keeps_regions {
                return;
            }
            // The next process must not find anything of this use behind what the next use appends.
            pages.zero();
        }
        let piece = Piece { pages, region: self.region.clone() };
        self.memory.state.lock().free.entry((self.kind, self.size)).or_default().push(piece);
        self.memory.room.changed();
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({} bytes)", self.size)
    }
}

impl fmt::Debug for TailMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        write!(
            f,
            "TailMemory({} of {} bytes, {} chunks cached)",
            state.used,
            self.limit,
            state.cached.len()
        )
    }
}
