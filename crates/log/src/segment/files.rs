//! Where the files of segments are, and how they are opened.

use std::path::Path;
use std::sync::Arc;

use tailwater_io::buffer::{BufferPool, PooledBuffer};
use tailwater_io::descriptors::{Claim, Share};
use tailwater_io::{IoMode, Operation, Storage};

use super::open_files::OpenFiles;
use super::part_buffers::PartBuffers;
use super::scan::{DEPTH, REQUEST_BYTES};
use crate::Result;

/// Maximum number of sealed segments that are rewritten at a time.
pub(crate) const REWRITES_MAX: usize = 4;
/// Memory of a rewrite, in bytes: a buffer for reading, and one for writing.
const REWRITE_BYTES: usize = REQUEST_BYTES + (1 << 20);

/// The storage of a log's segments, with the I/O modes and buffers for their files.
#[derive(Debug)]
pub(crate) struct SegmentFiles {
    pub(crate) storage: Arc<dyn Storage>,
    /// Effective I/O mode of writes to segments.
    pub(crate) append_mode: IoMode,
    /// Whether every write to a segment is durable, even if the topic's durability does not require
    /// it.
    pub(crate) syncs_appends: bool,
    /// Effective I/O mode of reads from segments.
    pub(crate) read_mode: IoMode,
    /// Buffers for reads of segments.
    read_buffers: BufferPool,
    /// Buffers for rewriting sealed segments. A rewrite keeps its buffers between its steps, which
    /// persisters take, so readers must not wait for these buffers.
    pub(super) rewrite_buffers: BufferPool,
    pub(crate) open: Arc<OpenFiles>,
    pub(crate) part_buffers: PartBuffers,
}

impl SegmentFiles {
    /// Creates the files of a log. `read_bytes_max` bounds the memory for reads of segments, in
    /// bytes; at least one read is possible in any case.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        [append_mode, read_mode]: [IoMode; 2],
        syncs_appends: bool,
        read_bytes_max: usize,
        open: Arc<OpenFiles>,
    ) -> Self {
        Self {
            storage,
            append_mode,
            syncs_appends,
            read_mode,
            read_buffers: BufferPool::new(read_bytes_max.max(REQUEST_BYTES)),
            rewrite_buffers: BufferPool::new(REWRITES_MAX * REWRITE_BYTES),
            open,
            part_buffers: PartBuffers::default(),
        }
    }

    /// Returns access to segments for a consumer's read. Waits until descriptors are free, and the
    /// read waits until memory is free. The calling thread must not have another access or scanner.
    pub(crate) fn access(&self) -> ReadAccess<'_> {
        let claim = self.open.budget.claim(Share::Reading, DESCRIPTORS);
        ReadAccess { files: self, claim, waits: true }
    }

    /// Whether consumers wait for memory.
    pub(crate) fn is_memory_awaited(&self) -> bool {
        self.read_buffers.is_awaited()
    }

    /// Returns access to segments for the threads of the log, which must not wait for consumers. If
    /// there is no free descriptor or memory, exceeds the limits.
    pub(crate) fn access_now(&self) -> ReadAccess<'_> {
        let claim = self.open.budget.claim_now(Share::Reading, DESCRIPTORS);
        ReadAccess { files: self, claim, waits: false }
    }
}

/// Number of descriptors that a read of a segment needs: one for the segment, and one that is first
/// used for the index and then to read ahead.
const DESCRIPTORS: usize = 2;

/// Permission to open the files of a segment for one scan.
#[derive(Debug)]
pub(crate) struct ReadAccess<'a> {
    pub(crate) files: &'a SegmentFiles,
    /// The descriptors that the scan may use and does not yet use.
    pub(super) claim: Claim,
    /// Whether the scan waits for memory.
    waits: bool,
}

/// Memory for a scan.
pub(super) struct ScanBuffers {
    pub(super) pool: BufferPool,
    /// The first buffer. So the scan is possible even if the pool has no other.
    pub(super) first: PooledBuffer,
    /// Maximum number of read-ahead requests in flight.
    pub(super) depth: usize,
}

impl SegmentFiles {
    /// Returns memory for reading a segment that is being rewritten, without read-ahead.
    ///
    /// # Errors
    /// Of kind `OutOfMemory`, if too many segments are being rewritten.
    pub(super) fn rewrite_memory(&self, path: &Path) -> Result<ScanBuffers> {
        let pool = self.rewrite_buffers.clone();
        let first = pool.try_acquire(REQUEST_BYTES).map_err(|error| {
            let source = std::io::Error::new(std::io::ErrorKind::OutOfMemory, error);
            tailwater_io::Error::new(Operation::Read, path, source)
        })?;
        Ok(ScanBuffers { pool, first, depth: 1 })
    }
}

impl ReadAccess<'_> {
    /// Returns memory for a scan. If other scans use much of the memory, this scan does not read
    /// ahead.
    pub(super) fn buffers(&self) -> Result<ScanBuffers> {
        let SegmentFiles { read_buffers: pool, open, .. } = self.files;
        let is_plenty = pool.in_use() + DEPTH * REQUEST_BYTES <= pool.limit() / 2;
        let depth = if is_plenty { DEPTH } else { 1 };
        let given = match self.waits {
            // Cursors keep buffers for polls that may never come.
            true => pool.acquire_or_release(REQUEST_BYTES, || open.cursors.drop_oldest()),
            false => pool.try_acquire(REQUEST_BYTES),
        };
        match given {
            Ok(first) => Ok(ScanBuffers { pool: pool.clone(), first, depth }),
            Err(_) => alone(),
        }
    }
}

/// Returns memory for a scan that does not read ahead, outside the log's limit.
fn alone() -> Result<ScanBuffers> {
    let pool = BufferPool::new(REQUEST_BYTES);
    let first = pool.try_acquire(REQUEST_BYTES).map_err(|error| {
        crate::Error::new(crate::ErrorKind::Internal, format!("a pool of one buffer: {error}"))
    })?;
    Ok(ScanBuffers { pool, first, depth: 1 })
}
