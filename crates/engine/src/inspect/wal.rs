//! A reader of write-ahead logs, which returns their batches one by one.

use std::fmt;
use std::path::Path;

use tailwater_format::batch::BatchReader;
use tailwater_format::file_name::FileKind;
use tailwater_format::key::Sequence;
use tailwater_format::record_log::PredecessorWal;
use tailwater_io::{IoMode, Purpose, Storage};

pub use super::record_log::{Irregularity, IrregularityKind, Placement};
use super::record_log::{Item, Items};
use crate::error::Result;
use crate::wal::batch;

pub use crate::wal::batch::Refusal;

/// A reader of a write-ahead log. It keeps one block and one batch in memory.
pub struct LogReader {
    items: Items,
    number: Option<u64>,
}

/// A part of a log: a record, or bytes that are not a record.
#[derive(Debug)]
#[non_exhaustive]
pub enum LogItem<'a> {
    /// A record, which holds a batch.
    Batch(LogBatch<'a>),
    /// A record with the sizes of user-defined timestamps in later batches.
    TimestampSizes {
        /// Offset of the record in the file.
        offset: u64,
        /// The id of each column family, and the size of its timestamps in bytes.
        sizes: Vec<(u32, u16)>,
    },
    /// A record that describes the log before this one.
    Predecessor {
        /// Offset of the record in the file.
        offset: u64,
        /// The contents of the record.
        predecessor: PredecessorWal,
    },
    /// Bytes that are not a record.
    Irregularity(Irregularity),
}

/// A record of a log and the batch in it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogBatch<'a> {
    /// The location of the record in the log, and the way in which the record is stored.
    pub placement: Placement,
    /// The batch's bytes, decompressed.
    pub payload: &'a [u8],
    /// The sequence number of the first operation; 0 if the batch is too short for a header.
    pub sequence: Sequence,
    /// Number of sequence numbers that the batch uses, according to its header; 0 if the batch is
    /// too short for a header.
    pub count: u32,
    /// The reason why the batch is invalid, if it is. Offsets in the reason count from the batch's
    /// first byte.
    pub problem: Option<Refusal>,
}

impl<'a> LogBatch<'a> {
    fn of(placement: Placement, payload: &'a [u8]) -> Self {
        let (sequence, count) = BatchReader::new(payload)
            .map_or((0, 0), |batch| (batch.sequence(), batch.record_count()));
        let problem = batch::check(payload, None).err();
        Self { placement, payload, sequence, count, problem }
    }

    /// Returns the operations of the batch, up to the first that does not decode.
    pub fn operations(&self) -> impl Iterator<Item = tailwater_format::batch::Record<'a>> {
        let batch = BatchReader::new(self.payload).into_iter().flatten();
        batch.map_while(std::result::Result::ok)
    }
}

impl fmt::Debug for LogReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogReader")
            .field("path", &self.path())
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl LogReader {
    /// Opens a log. The log's number is taken from its name or, if the name has no number, from its
    /// first recyclable fragment.
    ///
    /// # Errors
    /// I/O errors. An empty file is a log without records.
    pub fn open(storage: &dyn Storage, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let number = match name.as_deref().and_then(FileKind::parse) {
            Some(FileKind::Wal(number)) => Some(number),
            _ => None,
        };
        let file = storage.open(path, IoMode::Buffered, Purpose::Wal)?;
        Ok(Self { items: Items::open(file, number, Purpose::Wal)?, number })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.items.path()
    }

    /// Returns the number in the name of the log, if the name has one.
    pub fn number(&self) -> Option<u64> {
        self.number
    }

    /// Returns the length of the file when it was opened, in bytes.
    pub fn length(&self) -> u64 {
        self.items.length()
    }

    /// Returns the number of the compression algorithm, if the first record states it.
    pub fn compression(&self) -> Option<u32> {
        self.items.compression()
    }

    /// Returns the next item; `None` at the end. Reading continues after damage, as recovery does
    /// in the mode that skips damaged records. So it is possible that items after damage are not
    /// valid contents of the log.
    ///
    /// # Errors
    /// I/O errors.
    pub fn next_item(&mut self) -> Result<Option<LogItem<'_>>> {
        Ok(self.items.next()?.map(|item| match item {
            Item::Record { placement, payload } => LogItem::Batch(LogBatch::of(placement, payload)),
            Item::TimestampSizes { offset, sizes } => LogItem::TimestampSizes { offset, sizes },
            Item::Predecessor { offset, predecessor } => {
                LogItem::Predecessor { offset, predecessor }
            }
            Item::Irregularity(irregularity) => LogItem::Irregularity(irregularity),
        }))
    }
}
