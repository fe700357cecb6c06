//! One log that is being written.

use std::path::{Path, PathBuf};

use tailwater_format::batch::WriteBatch;
use tailwater_format::key::Sequence;
use tailwater_format::log::{PredecessorWal, Writer};
use tailwater_io::{Create, IoMode, Purpose, Storage, WriteFile};

use crate::{Error, Result};

/// A log that is being written, or that is closed but not yet on the device.
///
/// After a call that failed nothing is known of the file's end, and nothing more is written to it.
pub(super) struct LogFile {
    pub(super) number: u64,
    path: PathBuf,
    file: Box<dyn WriteFile>,
    encoder: Writer,
    /// Encoded and not yet written.
    buffer: Vec<u8>,
    /// How many bytes were written, which is where the next go.
    written: u64,
    /// How many of those are known to be on the device.
    synced: u64,
    /// Up to where write-back was started.
    write_back: u64,
    /// How many bytes are reserved for it, from its start on.
    reserved: u64,
    /// Whether the file held an older log, of which something may stand behind the end.
    is_over_another: bool,
    /// Whether the file's end was cut off and is not known to be so on the device.
    is_cut: bool,
    /// Whether the file's name is known to be on the device.
    name_synced: bool,
    /// The sequence number of the last batch; 0 before the first.
    last_batch: Sequence,
    /// Whether any batch has an operation in it.
    holds_operations: bool,
}

/// How a log is begun.
pub(super) struct Beginning<'a> {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    /// A log that nothing needs any more, whose file becomes this one's.
    pub(super) recycled: Option<&'a Path>,
    /// Whether its records carry its number, so that what the file held before is told apart.
    pub(super) recyclable: bool,
    pub(super) compressed: bool,
    /// How many bytes are reserved.
    pub(super) preallocate: u64,
    /// What it says of the log before it.
    pub(super) predecessor: Option<PredecessorWal>,
    /// Whether its name is put on the device at once.
    pub(super) sync_name: bool,
}

impl LogFile {
    /// Begins a log.
    pub(super) fn begin(storage: &dyn Storage, beginning: Beginning<'_>) -> Result<Self> {
        let Beginning { number, path, recycled, recyclable, compressed, .. } = beginning;
        let Beginning { preallocate, predecessor, sync_name, .. } = beginning;
        let create = match recycled {
            Some(old) => {
                // A crash here is safe: the file holds records of the old log's number, which are
                // passed over.
                storage.rename(old, &path)?;
                Create::Existing
            }
            None => Create::New,
        };
        let mut file = storage.create(&path, create, IoMode::Buffered, Purpose::Wal)?;
        let mut reserved = 0;
        if recycled.is_none() && preallocate > 0 {
            match file.allocate(0, preallocate) {
                Ok(()) => reserved = preallocate,
                Err(error) if error.is_no_space() => {
                    // The records themselves may still fit, once the part that was reserved is
                    // given back; where that fails, there is just less room.
                    let _ = file.truncate(0);
                }
                Err(error) => return Err(error.into()),
            }
        }
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
            synced: 0,
            write_back: 0,
            reserved,
            is_over_another: recycled.is_some(),
            is_cut: false,
            name_synced: false,
            last_batch: 0,
            holds_operations: false,
        };
        if sync_name {
            log.sync_name(storage)?;
        }
        Ok(log)
    }

    /// Appends a batch, in memory.
    pub(super) fn append(&mut self, batch: &WriteBatch) -> Result<()> {
        self.encoder
            .add_record(batch.as_bytes(), &mut self.buffer)
            .map_err(|error| Error::decoding(&self.path, self.written, error))?;
        self.last_batch = batch.sequence();
        self.holds_operations |= batch.count() > 0;
        Ok(())
    }

    /// Hands what was appended to the system.
    pub(super) fn write_out(&mut self, bytes_per_sync: u64) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file.write_all_at(&self.buffer, self.written, Purpose::Wal)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        if bytes_per_sync > 0 && self.written - self.write_back >= bytes_per_sync {
            self.file.start_writeback(self.write_back, self.written - self.write_back)?;
            self.write_back = self.written;
        }
        Ok(())
    }

    /// Puts what was written on the device, and the file's name.
    pub(super) fn sync(&mut self, storage: &dyn Storage, full: bool) -> Result<()> {
        if self.synced < self.written || self.is_cut {
            match full {
                true => self.file.sync_all(Purpose::Wal)?,
                false => self.file.sync_data(Purpose::Wal)?,
            }
            self.synced = self.written;
            self.is_cut = false;
        }
        self.sync_name(storage)
    }

    /// Puts the file's name on the device.
    fn sync_name(&mut self, storage: &dyn Storage) -> Result<()> {
        if !self.name_synced {
            if let Some(directory) = self.path.parent() {
                storage.sync_directory(directory)?;
            }
            self.name_synced = true;
        }
        Ok(())
    }

    /// Cuts off what the file has behind the log's end: reserved space, or what an earlier log
    /// left.
    pub(super) fn cut_off(&mut self) -> Result<()> {
        if self.reserved > self.written || self.file.length()? > self.written {
            self.file.truncate(self.written)?;
            self.is_cut = self.is_over_another;
        }
        (self.reserved, self.is_over_another) = (0, false);
        Ok(())
    }

    /// Whether the file may be longer than the log.
    pub(super) fn may_be_longer(&self) -> bool {
        self.reserved > self.written || self.is_over_another
    }

    /// How long the log is, in bytes, with what is still in memory.
    pub(super) fn length(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// How many bytes are in memory only.
    pub(super) fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Whether no memtable has anything of it.
    pub(super) fn is_empty(&self) -> bool {
        !self.holds_operations
    }

    /// Whether there is something that is not on the device.
    pub(super) fn is_dirty(&self) -> bool {
        self.synced < self.length() || self.is_cut
    }

    /// What the log after this one is to say of it.
    pub(super) fn as_predecessor(&self) -> PredecessorWal {
        PredecessorWal {
            log_number: self.number,
            size: self.length(),
            last_sequence: self.last_batch,
        }
    }
}
