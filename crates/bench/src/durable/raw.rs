//! Durable writes to the device without an engine.

use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;
use tailwater_io::probe::{DurableBy, DurableFile};

use crate::store::Failure;
use crate::workloads::puts::{Figures, Length, measure};

/// Length of the overwritten file, in blocks of [`DurableFile::BLOCK_BYTES`]. The file has 64 MiB.
const BLOCKS: u64 = (64 << 20) / DurableFile::BLOCK_BYTES as u64;

/// The way in which raw writes become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Raw {
    /// Each write is durable when it completes, as with O_DSYNC
    Dsync,
    /// An fdatasync follows each write
    Fdatasync,
}

impl Raw {
    /// Returns the label of this kind of raw write in reports.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Dsync => "raw dsync",
            Self::Fdatasync => "raw fdatasync",
        }
    }

    /// Returns whether the filesystem of a directory supports direct I/O. To determine this,
    /// creates a file in the directory.
    ///
    /// # Errors
    /// An error if creating the file fails for another reason.
    pub(super) fn is_possible_in(directory: &Path) -> Result<bool, Failure> {
        match DurableFile::create(directory, 1) {
            Ok(_) => Ok(true),
            Err(error) if error.is_unsupported() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Measures raw writes: `writers` threads durably overwrite the blocks of a new file in
    /// `directory`. Each thread cycles through its own region of the file.
    pub(super) fn write(
        self,
        directory: &Path,
        writers: usize,
        length: Length,
    ) -> Result<Figures, Failure> {
        let by = match self {
            Self::Dsync => DurableBy::Flag,
            Self::Fdatasync => DurableBy::Sync,
        };
        let file = &DurableFile::create(directory, BLOCKS.max(writers as u64))?;
        measure(writers, length, |writer| {
            let (block, region) = (DurableFile::block(), file.blocks() / writers as u64);
            let first = writer as u64 * region;
            move |number| Ok(file.overwrite(first + number % region, &block, by)?)
        })
    }
}
