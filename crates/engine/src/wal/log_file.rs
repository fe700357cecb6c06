//! A log that is being written: through the page cache, or by direct I/O.
//!
//! A direct log is written in blocks of 4 KiB, and no block is written twice: each write is padded
//! to a block boundary with a record that readers ignore (`format::record_log::Writer::pad`), and
//! the next write begins a new block. So no block with an acknowledged byte is ever rewritten, and
//! a failure during a write cannot destroy what an earlier write stored. Several groups may be in
//! flight ([`super::pipelined`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::batch::WriteBatch;
use tailwater_format::key::Sequence;
use tailwater_format::record_log::{PredecessorWal, Writer};
use tailwater_io::buffer::ALIGNMENT;
use tailwater_io::{Create, IoMode, Purpose, Storage, WriteFile};

use super::blocks::Blocks;
use super::pipelined::{Flushes, PipelinedWrite, WriteSlot};
use super::preallocation::{Ended, Preallocator, ZeroedSpan};
use crate::error::{Error, Result};

/// A log that is being written, or is closed but not yet synced.
///
/// After a failed call the end of the log in its file is unknown, and nothing more is written to
/// the file.
pub(super) struct LogFile {
    pub(super) number: u64,
    path: PathBuf,
    file: Box<dyn WriteFile>,
    encoder: Writer,
    /// Encoded bytes that are not yet written.
    buffer: Vec<u8>,
    /// End of the written bytes, as a file offset.
    written: u64,
    /// Offset of the next write. The bytes from `written` to this offset are in flight.
    next: u64,
    /// End of the part that is known to be on the device, as a file offset.
    synced: u64,
    /// End of the bytes whose write-back was started, as a file offset.
    write_back: u64,
    /// Number of bytes reserved, from the start of the file.
    reserved: u64,
    /// Whether the file held an older log: remains of the older log may follow the end of this log.
    is_over_another: bool,
    /// Whether the file was truncated and has not been synced since.
    is_cut: bool,
    /// Whether the file's directory entry was synced.
    name_synced: bool,
    /// The sequence number of the last batch; 0 if there is no batch.
    last_batch: Sequence,
    /// Whether any batch contains an operation.
    holds_operations: bool,
    /// The additional state of a log written by direct I/O.
    direct: Option<Direct>,
}

/// The additional state of a direct log.
struct Direct {
    /// The zeros that the log overwrites; `None` if the file is appended to.
    zeroed: Option<ZeroedSpan>,
    /// The blocks of the current write.
    blocks: Blocks,
    /// Unused slots. With each, another group can be written while earlier groups are still being
    /// written.
    slots: Vec<WriteSlot>,
    /// Makes groups in flight durable (by `fdatasync`) if they are written without `RWF_DSYNC`.
    flushes: Arc<Flushes>,
}

/// Capacity of the buffer that is kept for the next batches, in bytes. A batch may have any length.
const BUFFER_BYTES_KEPT: usize = 4 << 20;

/// The event after which written bytes must be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// The bytes must be durable when the call returns.
    Durable,
    /// The bytes must be durable after the next sync.
    Whenever,
}

/// The I/O mode of a log.
#[derive(Clone, Copy)]
pub(super) enum Mode<'a> {
    /// Buffered, through the page cache.
    Buffered {
        /// Number of bytes of disk space to reserve for the new log.
        preallocate: u64,
    },
    /// Direct, bypassing the page cache.
    Direct {
        /// Source of the log's preallocated file; `None` if the file is appended to.
        preallocator: Option<&'a Preallocator>,
        /// The length of the previous log, and whether that log has used up its preallocated space.
        before: Ended,
        /// Length at which the log ends and the next one begins, in bytes.
        max: u64,
    },
}

/// Parameters of a new log.
pub(super) struct Beginning<'a> {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    pub(super) mode: Mode<'a>,
    /// The unneeded log whose file is reused, if any.
    pub(super) recycled: Option<&'a Path>,
    /// Whether the records carry the log's number, which distinguishes them from older content of
    /// the file.
    pub(super) recyclable: bool,
    pub(super) compressed: bool,
    /// The description of the previous log, to be recorded in the new log.
    pub(super) predecessor: Option<PredecessorWal>,
    /// Whether the directory entry of a buffered log is synced when the log begins, rather than at
    /// its first sync. The directory entry of a direct log is always synced when the log begins.
    pub(super) sync_name: bool,
}

impl LogFile {
    /// Begins a log.
    pub(super) fn begin(storage: &dyn Storage, beginning: Beginning<'_>) -> Result<Self> {
        let Beginning { number, path, mode, recycled, recyclable, compressed, .. } = beginning;
        let Beginning { predecessor, sync_name, .. } = beginning;
        let (file, reserved, direct) = match mode {
            Mode::Buffered { preallocate } => {
                let (file, reserved) = begin_buffered(storage, &path, recycled, preallocate)?;
                (file, reserved, None)
            }
            Mode::Direct { preallocator, before, max } => {
                let preallocated = match (recycled, preallocator) {
                    (None, Some(preallocator)) => preallocator.take(before, max),
                    _ => None,
                };
                let existing = recycled.or(preallocated.as_deref());
                let (file, direct) = begin_direct(storage, &path, existing, preallocator)?;
                (file, 0, Some(direct))
            }
        };
        let mut buffer = Vec::new();
        let mut encoder = if compressed {
            Writer::new_compressed(number, recyclable, &mut buffer)
                .map_err(|error| Error::decoding(&path, 0, error))?
        } else {
            Writer::new(number, recyclable)
        };
        if let Some(predecessor) = predecessor {
            encoder.add_predecessor(predecessor, &mut buffer);
        }
        let mut log = Self {
            number,
            path,
            file,
            encoder,
            buffer,
            written: 0,
            next: 0,
            synced: 0,
            write_back: 0,
            reserved,
            is_over_another: recycled.is_some(),
            is_cut: false,
            name_synced: false,
            last_batch: 0,
            holds_operations: false,
            direct,
        };
        // A direct log's directory entry is synced before anything is written to the log, because a
        // later record is acknowledged as soon as the record itself is synced.
        if (sync_name || log.direct.is_some())
            && let Err(error) = log.sync_name(storage)
        {
            // The new file is removed, because the caller may continue the previous log.
            let _ = storage.remove(&log.path);
            return Err(error);
        }
        Ok(log)
    }

    /// Appends a batch, in memory.
    pub(super) fn append(&mut self, batch: &WriteBatch) -> Result<()> {
        self.encoder
            .add_record(batch.data(), &mut self.buffer)
            .map_err(|error| Error::decoding(&self.path, self.written, error))?;
        self.last_batch = batch.sequence();
        self.holds_operations |= !batch.is_empty();
        Ok(())
    }

    /// Writes the appended batches that are still in memory to the file or, for a direct log, to
    /// the device.
    pub(super) fn write_out(&mut self, bytes_per_sync: u64) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        if self.direct.is_some() {
            return self.write_blocks(Durability::Whenever);
        }
        self.file.write_all_at(&self.buffer, self.written, Purpose::Wal)?;
        self.written += self.buffer.len() as u64;
        self.next = self.written;
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        if bytes_per_sync > 0 && self.written - self.write_back >= bytes_per_sync {
            self.file.start_writeback(self.write_back, self.written - self.write_back)?;
            self.write_back = self.written;
        }
        Ok(())
    }

    /// Writes the appended batches that are still in memory, and syncs the file and its directory
    /// entry. With `full`, also syncs metadata that is not needed to read the file.
    pub(super) fn sync(&mut self, storage: &dyn Storage, full: bool) -> Result<()> {
        let is_first_doubt = self.synced == self.written && !self.is_cut && !full;
        if self.direct.is_some() && is_first_doubt && !self.buffer.is_empty() {
            self.write_blocks(Durability::Durable)?;
        }
        self.write_out(0)?;
        if self.synced < self.written || self.is_cut {
            if full {
                self.file.sync_all(Purpose::Wal)?
            } else {
                self.file.sync_data(Purpose::Wal)?
            }
            self.synced = self.written;
            self.is_cut = false;
        }
        self.sync_name(storage)
    }

    /// Writes the appended batches that are still in memory, padded, in new blocks. `Durable` makes
    /// only these blocks durable, so everything before them must already be on the device.
    fn write_blocks(&mut self, durability: Durability) -> Result<()> {
        let Some(Direct { zeroed, blocks, .. }) = &mut self.direct else { return Ok(()) };
        let zeros = self.encoder.pad_but_zeros(&mut self.buffer);
        let end = self.written + (self.buffer.len() + zeros) as u64;
        let is_over_zeros = zeroed.as_ref().is_some_and(|zeroed| zeroed.reaches(end));
        let is_flushed = zeroed.as_ref().is_some_and(ZeroedSpan::is_by_flush);
        blocks.set(&self.buffer, zeros);
        match durability {
            Durability::Durable if is_over_zeros && !is_flushed => {
                self.file.write_durably_at(blocks.as_slice(), self.written, Purpose::Wal)?;
                self.synced = end;
            }
            // These blocks become durable with a later sync, which includes the metadata needed to
            // read them.
            Durability::Durable | Durability::Whenever => {
                self.file.write_all_at(blocks.as_slice(), self.written, Purpose::Wal)?;
            }
        }
        (self.written, self.next) = (end, end);
        blocks.shrink_to(BUFFER_BYTES_KEPT);
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        Ok(())
    }

    /// Prepares a pipelined write of the appended batches that are still in memory. Later batches
    /// may be written before this write ends. Returns `None` unless the batches overwrite zeros,
    /// and all earlier batches are on the device or in another pipelined write.
    pub(super) fn begin_pipelined(&mut self, storage: &dyn Storage) -> Option<PipelinedWrite> {
        let is_certain = self.synced == self.written && !self.is_cut && self.name_synced;
        let Direct { zeroed: Some(zeroed), slots, flushes, .. } = self.direct.as_mut()? else {
            return None;
        };
        if !is_certain {
            return None;
        }
        // An upper bound, because padding may take another block.
        let end = self.next + (self.buffer.len() + 2 * ALIGNMENT) as u64;
        if !zeroed.reaches(end) {
            return None;
        }
        let slot = slots.pop().or_else(|| WriteSlot::new(storage, &self.path).ok())?;
        let zeros = self.encoder.pad_but_zeros(&mut self.buffer);
        let flushes = zeroed.is_by_flush().then_some(&*flushes);
        let write = slot.begin_pipelined(&self.buffer, zeros, self.next, flushes);
        self.next = write.end();
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        Some(write)
    }

    /// Whether a group is in flight.
    pub(super) fn is_in_flight(&self) -> bool {
        self.written < self.next
    }

    /// Notes that a group was written. Must be called once for each group, in the order of the
    /// groups in the log.
    pub(super) fn end_pipelined(&mut self, write: PipelinedWrite) {
        self.written = write.end();
        self.synced = self.written;
        if let Some(direct) = &mut self.direct {
            direct.slots.push(write.slot);
        }
    }

    /// Syncs the file's directory entry.
    fn sync_name(&mut self, storage: &dyn Storage) -> Result<()> {
        if !self.name_synced {
            if let Some(directory) = self.path.parent() {
                storage.sync_directory(directory)?;
            }
            self.name_synced = true;
        }
        Ok(())
    }

    /// Truncates the file to the log's end: removes reserved space, zeros, or remains of an earlier
    /// log.
    pub(super) fn cut_off(&mut self) -> Result<()> {
        if let Some(direct) = &mut self.direct {
            direct.zeroed = None;
        }
        if self.reserved > self.written || self.file.length()? > self.written {
            self.file.truncate(self.written)?;
            self.is_cut = self.is_over_another || self.direct.is_some();
        }
        (self.reserved, self.is_over_another) = (0, false);
        Ok(())
    }

    /// Whether the file may be longer than the log.
    pub(super) fn may_be_longer(&self) -> bool {
        self.reserved > self.written || self.is_over_another || self.direct.is_some()
    }

    /// Returns the log's length in bytes, including bytes in memory and in flight.
    pub(super) fn length(&self) -> u64 {
        self.next + self.buffer.len() as u64
    }

    /// Returns the end of the written part of the log, in bytes. The part consists of whole records
    /// and no longer changes.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of bytes that are only in memory.
    pub(super) fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Whether the log is written by direct I/O.
    pub(super) fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Returns the length of the log, and whether the log has used up its preallocated space.
    pub(super) fn as_ended(&self) -> Ended {
        let length = self.length();
        let zeroed = self.direct.as_ref().and_then(|direct| direct.zeroed.as_ref());
        Ended { length, is_used_up: zeroed.is_some_and(|zeroed| zeroed.is_used_up(length)) }
    }

    /// Whether the log holds no operations, so that no memtable depends on it.
    pub(super) fn is_empty(&self) -> bool {
        !self.holds_operations
    }

    /// Whether any part of the log may not be on the device yet.
    pub(super) fn is_dirty(&self) -> bool {
        self.synced < self.length() || self.is_cut
    }

    /// Returns a description of this log, to be stored in the next log.
    pub(super) fn as_predecessor(&self) -> PredecessorWal {
        PredecessorWal {
            log_number: self.number,
            size: self.length(),
            last_sequence: self.last_batch,
        }
    }
}

/// Begins a buffered log. Returns its file and the number of reserved bytes.
fn begin_buffered(
    storage: &dyn Storage,
    path: &Path,
    recycled: Option<&Path>,
    preallocate: u64,
) -> Result<(Box<dyn WriteFile>, u64)> {
    if let Some(old) = recycled {
        // A crash here is safe: the records in the file have the old log's number, so replay skips
        // them.
        storage.rename(old, path)?;
        return Ok((create_or_remove(storage, path, IoMode::Buffered)?, 0));
    }
    let mut file = storage.create(path, Create::New, IoMode::Buffered, Purpose::Wal)?;
    if preallocate == 0 {
        return Ok((file, 0));
    }
    match file.allocate(0, preallocate) {
        Ok(()) => Ok((file, preallocate)),
        Err(error) if error.is_no_space() => {
            // The disk has too little space for the whole reservation, but perhaps enough for the
            // records. So the part that was reserved is freed. If the truncation fails, only that
            // space is unavailable.
            let _ = file.truncate(0);
            Ok((file, 0))
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens the existing file at `path`, which was renamed to the name of a new log. If opening fails,
/// removes the file, because the new log does not begin and the previous log stays in use.
fn create_or_remove(
    storage: &dyn Storage,
    path: &Path,
    mode: IoMode,
) -> Result<Box<dyn WriteFile>> {
    storage.create(path, Create::Existing, mode, Purpose::Wal).map_err(|error| {
        let _ = storage.remove(path);
        error.into()
    })
}

/// Begins a direct log: over an earlier log, over zeros, or in a new file.
fn begin_direct(
    storage: &dyn Storage,
    path: &Path,
    existing: Option<&Path>,
    preallocator: Option<&Preallocator>,
) -> Result<(Box<dyn WriteFile>, Direct)> {
    let file = match existing {
        Some(existing) => {
            // A crash here is safe: the file holds only zeros, or records with the old log's
            // number.
            storage.rename(existing, path)?;
            create_or_remove(storage, path, IoMode::Direct)?
        }
        None => storage.create(path, Create::New, IoMode::Direct, Purpose::Wal)?,
    };
    let end = file.length()?;
    let zeroed =
        preallocator.map(|preallocator| preallocator.zeroed_span(end - end % ALIGNMENT as u64));
    Ok((file, Direct { zeroed, blocks: Blocks::new(), slots: Vec::new(), flushes: Arc::default() }))
}
