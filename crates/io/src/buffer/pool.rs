//! A pool of I/O buffers. It limits their total memory and reuses returned buffers.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::ALIGNMENT;
use super::aligned::AlignedBuffer;
use crate::sync::{Mutex, Turns};

/// The reason why the pool returned no buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolError {
    /// The requested size exceeds the pool's limit, so the request can never succeed.
    TooLarge {
        /// The requested size, rounded up to the alignment, in bytes.
        bytes: usize,
        /// The pool's limit on the total size of its buffers, in bytes.
        limit: usize,
    },
    /// Too many bytes are in use at present. A later request may succeed.
    Exhausted,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { bytes, limit } => {
                write!(f, "a buffer of {bytes} bytes does not fit a pool of {limit}")
            }
            Self::Exhausted => f.write_str("all I/O buffers are in use"),
        }
    }
}

impl std::error::Error for PoolError {}

/// A pool of aligned buffers. It limits the total bytes of the buffers in use and of those kept for
/// reuse.
///
/// A clone is another handle to the same pool. Safe to use from any thread. Buffers may outlive the
/// pool.
#[derive(Debug, Clone)]
pub struct BufferPool {
    shared: Arc<PoolBudget>,
}

#[derive(Debug)]
struct PoolBudget {
    limit: usize,
    state: Mutex<State>,
    /// The threads that wait until enough buffers have been returned.
    turns: Turns,
}

#[derive(Debug, Default)]
struct State {
    in_use: usize,
    peak: usize,
    kept_bytes: usize,
    /// Buffers kept for reuse, by capacity. No list is empty.
    kept: BTreeMap<usize, Vec<AlignedBuffer>>,
}

impl BufferPool {
    /// Creates a pool that holds at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        let shared = PoolBudget { limit, state: Mutex::default(), turns: Turns::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Returns an empty buffer with a capacity of `bytes`. While too many bytes are in use, waits
    /// until enough buffers have been returned. Threads that wait are served in the order of their
    /// arrival.
    ///
    /// A thread that waits here while it holds buffers of the same pool may wait forever. For every
    /// buffer but the first it must use [`Self::try_acquire`].
    ///
    /// # Errors
    /// [`PoolError::TooLarge`].
    pub fn acquire(&self, bytes: usize) -> Result<PooledBuffer, PoolError> {
        self.acquire_or_release(bytes, || false)
    }

    /// Like [`Self::acquire`], but before it waits, calls `release` as long as too many bytes are
    /// in use and the function returns true. The function returns some buffers that are kept only
    /// for speed, or false if it keeps none.
    ///
    /// # Errors
    /// [`PoolError::TooLarge`].
    pub fn acquire_or_release(
        &self,
        bytes: usize,
        mut release: impl FnMut() -> bool,
    ) -> Result<PooledBuffer, PoolError> {
        let capacity = self.capacity_for(bytes)?;
        Ok(self.shared.turns.take(|| {
            loop {
                let given = self.give_if_free(capacity);
                if given.is_some() || !release() {
                    return given;
                }
            }
        }))
    }

    /// Returns an empty buffer with a capacity of `bytes`, without waiting. While threads wait for
    /// buffers, returns none, so that it does not overtake them.
    ///
    /// # Errors
    /// [`PoolError::Exhausted`] and [`PoolError::TooLarge`].
    pub fn try_acquire(&self, bytes: usize) -> Result<PooledBuffer, PoolError> {
        let capacity = self.capacity_for(bytes)?;
        if self.is_awaited() {
            return Err(PoolError::Exhausted);
        }
        self.give_if_free(capacity).ok_or(PoolError::Exhausted)
    }

    /// Whether threads wait for buffers. Buffers that are kept only for speed should then be
    /// returned.
    pub fn is_awaited(&self) -> bool {
        self.shared.turns.are_awaited()
    }

    /// Returns the limit in bytes.
    pub fn limit(&self) -> usize {
        self.shared.limit
    }

    /// Returns the total size of the buffers in use, in bytes. Buffers that are kept for reuse do
    /// not count.
    pub fn in_use(&self) -> usize {
        self.shared.state.lock().in_use
    }

    /// Returns the highest number of bytes that have been in use at the same time.
    pub fn peak(&self) -> usize {
        self.shared.state.lock().peak
    }

    fn capacity_for(&self, bytes: usize) -> Result<usize, PoolError> {
        let bytes = bytes.max(1).checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX);
        let limit = self.shared.limit;
        if bytes > limit { Err(PoolError::TooLarge { bytes, limit }) } else { Ok(bytes) }
    }

    fn give_if_free(&self, capacity: usize) -> Option<PooledBuffer> {
        let mut state = self.shared.state.lock();
        let is_free = state.in_use + capacity <= self.shared.limit;
        is_free.then(|| self.give(&mut state, capacity))
    }

    /// Takes a buffer of this capacity that was kept for reuse, or allocates one. The caller has
    /// checked that `capacity` fits into the limit.
    fn give(&self, state: &mut State, capacity: usize) -> PooledBuffer {
        state.in_use += capacity;
        state.peak = state.peak.max(state.in_use);
        let buffer = state.take_kept(Some(capacity)).unwrap_or_else(|| {
            while state.in_use + state.kept_bytes > self.shared.limit {
                if state.take_kept(None).is_none() {
                    break;
                }
            }
            AlignedBuffer::with_capacity(capacity)
        });
        PooledBuffer { buffer: Some(buffer), shared: Arc::clone(&self.shared) }
    }
}

impl State {
    /// Removes and returns a buffer that was kept for reuse: one of the given capacity or, for
    /// `None`, one of the largest capacity.
    fn take_kept(&mut self, capacity: Option<usize>) -> Option<AlignedBuffer> {
        let capacity = match capacity {
            Some(capacity) => capacity,
            None => *self.kept.keys().next_back()?,
        };
        let list = self.kept.get_mut(&capacity)?;
        let buffer = list.pop()?;
        if list.is_empty() {
            self.kept.remove(&capacity);
        }
        self.kept_bytes -= capacity;
        Some(buffer)
    }
}

/// A pooled buffer, which returns to its pool when it is dropped.
#[derive(Debug)]
pub struct PooledBuffer {
    /// The buffer; `None` only inside `drop`.
    buffer: Option<AlignedBuffer>,
    shared: Arc<PoolBudget>,
}

impl PooledBuffer {
    /// Replaces this buffer in the pool by an empty buffer of the same size, and returns that. The
    /// memory of this buffer is leaked, because the kernel may still write to it.
    pub(crate) fn leak_and_replace(mut self) -> Self {
        let fresh = AlignedBuffer::with_capacity(self.capacity());
        std::mem::forget(self.buffer.replace(fresh));
        self
    }
}

impl Deref for PooledBuffer {
    type Target = AlignedBuffer;

    fn deref(&self) -> &AlignedBuffer {
        match &self.buffer {
            Some(buffer) => buffer,
            None => unreachable!("the buffer leaves only when this is dropped"),
        }
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut AlignedBuffer {
        match &mut self.buffer {
            Some(buffer) => buffer,
            None => unreachable!("the buffer leaves only when this is dropped"),
        }
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let Some(mut buffer) = self.buffer.take() else { return };
        buffer.clear();
        let capacity = buffer.capacity();
        let mut state = self.shared.state.lock();
        state.in_use -= capacity;
        state.kept_bytes += capacity;
        state.kept.entry(capacity).or_default().push(buffer);
        drop(state);
        self.shared.turns.changed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused_and_counted() {
        let pool = BufferPool::new(3 * 4096);
        let mut first = pool.acquire(5000).unwrap();
        assert_eq!((first.capacity(), pool.in_use(), pool.peak()), (8192, 8192, 8192));
        first.append(b"left over");
        let address = first.as_ptr().addr();
        drop(first);
        assert_eq!((pool.in_use(), pool.peak()), (0, 8192));
        let again = pool.acquire(8192).unwrap();
        assert_eq!((again.as_ptr().addr(), again.len()), (address, 0));
    }

    #[test]
    fn the_limit_holds_for_kept_buffers_too() {
        let pool = BufferPool::new(4 * 4096);
        let small: Vec<_> = (0..4).map(|_| pool.try_acquire(4096).unwrap()).collect();
        assert_eq!(pool.try_acquire(1).unwrap_err(), PoolError::Exhausted);
        drop(small);
        let large = pool.try_acquire(3 * 4096).unwrap();
        let kept = pool.shared.state.lock().kept_bytes;
        assert_eq!((pool.in_use(), kept), (3 * 4096, 4096));
        drop(large);
        let too_large = PoolError::TooLarge { bytes: 5 * 4096, limit: 4 * 4096 };
        assert_eq!(pool.acquire(4 * 4096 + 1).unwrap_err(), too_large);
        assert!(matches!(pool.acquire(usize::MAX), Err(PoolError::TooLarge { .. })));
    }

    #[test]
    fn acquire_waits_for_a_buffer_to_come_back() {
        let pool = BufferPool::new(4096);
        let held = pool.acquire(1).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pool.acquire(1).map(|buffer| buffer.capacity()));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waiting.is_finished());
            drop(held);
            assert_eq!(waiting.join().unwrap(), Ok(4096));
        });
        assert_eq!(pool.peak(), 4096);
    }

    #[test]
    fn a_waiting_thread_is_not_overtaken_and_can_release_buffers() {
        let pool = BufferPool::new(2 * 4096);
        let held = pool.acquire(4096).unwrap();
        let kept = Mutex::new(vec![pool.acquire(4096).unwrap()]);
        assert!(pool.acquire_or_release(4096, || kept.lock().pop().is_some()).is_ok());
        assert!(kept.lock().is_empty());
        let other = pool.acquire(4096).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pool.acquire(2 * 4096).map(|buffer| buffer.capacity()));
            while !pool.is_awaited() {
                std::thread::yield_now();
            }
            drop(held);
            assert_eq!(pool.try_acquire(4096).unwrap_err(), PoolError::Exhausted);
            drop(other);
            assert_eq!(waiting.join().unwrap(), Ok(2 * 4096));
        });
        assert!(pool.try_acquire(4096).is_ok());
    }
}
