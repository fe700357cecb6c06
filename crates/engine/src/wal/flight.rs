//! A part of a direct log on its way to the device, beside others of the same log.

use std::path::Path;

use tailwater_io::buffer::{ALIGNMENT, AlignedBuffer};
use tailwater_io::{Create, IoMode, Purpose, Storage, WriteFile};

use crate::Result;

/// What one part of a log is written with. A log has as many as it has had parts on their way at a
/// time.
#[derive(Debug)]
pub(super) struct Lane {
    file: Box<dyn WriteFile>,
    aligned: AlignedBuffer,
}

impl Lane {
    /// One for the log at `path`.
    pub(super) fn new(storage: &dyn Storage, path: &Path) -> Result<Self> {
        let file = storage.create(path, Create::Existing, IoMode::Direct, Purpose::Wal)?;
        Ok(Self { file, aligned: AlignedBuffer::with_capacity(ALIGNMENT) })
    }

    /// Has `bytes`, which are whole blocks, written at `offset`.
    pub(super) fn take_off(mut self, bytes: &[u8], offset: u64) -> LogFlight {
        self.aligned.reserve(bytes.len(), ALIGNMENT);
        self.aligned.clear();
        self.aligned.append(bytes);
        LogFlight { lane: self, offset }
    }
}

/// Whole blocks of a log that are to be written over zeros.
#[derive(Debug)]
pub(crate) struct LogFlight {
    pub(super) lane: Lane,
    offset: u64,
}

impl LogFlight {
    /// Writes them, durably.
    pub(crate) fn write(&mut self) -> Result<()> {
        let Self { lane: Lane { file, aligned }, offset } = self;
        Ok(file.write_durably_at(aligned, *offset, Purpose::Wal)?)
    }

    /// Where they end in the log, in bytes.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.lane.aligned.len() as u64
    }
}
