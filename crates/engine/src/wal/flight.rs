//! A part of a direct log on its way to the device, beside others of the same log.

use std::path::Path;

use tailwater_io::{Create, IoMode, Purpose, Storage, WriteFile};

use super::blocks::Blocks;
use crate::Result;

/// What one part of a log is written with. A log has as many as it has had parts on their way at a
/// time.
#[derive(Debug)]
pub(super) struct Lane {
    file: Box<dyn WriteFile>,
    blocks: Blocks,
}

impl Lane {
    /// One for the log at `path`.
    pub(super) fn new(storage: &dyn Storage, path: &Path) -> Result<Self> {
        let file = storage.create(path, Create::Existing, IoMode::Direct, Purpose::Wal)?;
        Ok(Self { file, blocks: Blocks::new() })
    }

    /// Has `bytes` and so many zeros behind them, which are whole blocks, written at `offset`.
    pub(super) fn take_off(mut self, bytes: &[u8], zeros: usize, offset: u64) -> LogFlight {
        self.blocks.set(bytes, zeros);
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
        let Self { lane: Lane { file, blocks }, offset } = self;
        Ok(file.write_durably_at(blocks.as_slice(), *offset, Purpose::Wal)?)
    }

    /// Where they end in the log, in bytes.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.lane.blocks.as_slice().len() as u64
    }
}
