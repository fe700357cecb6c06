//! A reader of write-ahead logs, which returns their batches one by one.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::batch::BatchReader;
use tailwater_format::file_name::FileKind;
use tailwater_format::key::Sequence;
use tailwater_format::record_log::{
    BLOCK_LENGTH, Event, HEADER_LENGTH, PredecessorWal, RECYCLABLE_HEADER_LENGTH, Record,
    RecordReader, ZSTD,
};
use tailwater_io::{IoMode, Purpose, ReadFile, Storage};

pub use super::record_log::{Irregularity, IrregularityKind, Placement};
use crate::error::Result;
use crate::options::DbOptions;
use crate::record_log::{self, FileSource};
use crate::wal::batch;
use crate::wal::replay::{self, Log};

pub use crate::wal::batch::Refusal;
pub use crate::wal::replay::LogEnd;

/// The type of the record that states how all later records are compressed.
const COMPRESSION_TYPE: u8 = 9;

/// A reader of a write-ahead log. It keeps one block and one batch in memory.
pub struct LogReader {
    file: Arc<dyn ReadFile>,
    number: Option<u64>,
    /// The number that the log's recyclable fragments carry.
    carried: u64,
    length: u64,
    compression: Option<u32>,
    reader: RecordReader<FileSource>,
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
    fn of(record: &Record<'a>, compressed: bool) -> Self {
        let (placement, payload) = (Placement::of(record, compressed), record.payload);
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
        let length = file.length()?;
        let mut head = [0; RECYCLABLE_HEADER_LENGTH];
        let is_whole = file.read_full_at(&mut head, 0, Purpose::Wal)? == head.len();
        // In a recyclable fragment, the four bytes after the type are the log's number. In a
        // compression record, they are the number of the compression algorithm.
        let [.., kind, a, b, c, d] = head;
        let word = is_whole.then(|| u32::from_le_bytes([a, b, c, d]));
        let compression = word.filter(|_| kind == COMPRESSION_TYPE);
        let first = word.filter(|_| matches!(kind, 5..=8 | 11 | 131));
        let carried = number.or(first.map(u64::from)).unwrap_or(0);
        let reader = record_log::reader(Arc::clone(&file), carried, Purpose::Wal);
        Ok(Self { file, number, carried, length, compression, reader })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the number in the name of the log, if the name has one.
    pub fn number(&self) -> Option<u64> {
        self.number
    }

    /// Returns the length of the file when it was opened, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the number of the compression algorithm, if the first record states it.
    pub fn compression(&self) -> Option<u32> {
        self.compression
    }

    /// Reads the log as opening a database does that has no other log, with the recovery mode and
    /// the recycling of logs in `options`. Returns the point at which that ends the log before the
    /// end of its file; `None` if the whole log is read. Does not change what
    /// [`LogReader::next_item`] returns.
    ///
    /// # Errors
    /// I/O errors.
    pub fn recovery_end(&self, options: &DbOptions) -> Result<Option<LogEnd>> {
        let log = Log::of_file(Arc::clone(&self.file), self.carried, self.length);
        let recycles = options.recycle_log_file_num > 0;
        replay::end_of_log(&log, options.wal_recovery_mode, recycles)
    }

    /// Returns the next item; `None` at the end. Reading continues after damage, as recovery does
    /// in the mode that skips damaged records. So it is possible that items after damage are not
    /// valid contents of the log.
    ///
    /// # Errors
    /// I/O errors.
    pub fn next_item(&mut self) -> Result<Option<LogItem<'_>>> {
        let next_header = self.next_header();
        let compressed = self.compression == Some(ZSTD);
        Ok(match self.reader.next_event()? {
            Event::Record(record) => Some(LogItem::Batch(LogBatch::of(&record, compressed))),
            Event::TimestampSizes(sizes) => {
                let (offset, sizes) = (next_header, sizes.iter().collect());
                Some(LogItem::TimestampSizes { offset, sizes })
            }
            Event::Predecessor(predecessor) => {
                Some(LogItem::Predecessor { offset: next_header, predecessor })
            }
            event => Irregularity::of(&event).map(LogItem::Irregularity),
        })
    }

    /// Returns the offset of the next header. The bytes at the end of a block that are too few for
    /// a header are skipped. A compression record is skipped too, since the reader returns no event
    /// for it.
    fn next_header(&self) -> u64 {
        let position = self.reader.offset();
        if position == 0 && self.compression.is_some() {
            return RECYCLABLE_HEADER_LENGTH as u64;
        }
        let block = BLOCK_LENGTH as u64;
        let left = block - position % block;
        if left < HEADER_LENGTH as u64 { position + left } else { position }
    }
}
