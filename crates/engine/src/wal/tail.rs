//! Reads a log while it is written, batch by batch, up to an end that advances.
//!
//! Only the part that is complete in the file is read, so any deviation there is damage. Whatever
//! follows that part is not read: an unfinished record, preallocated zeros, or remains of an older
//! log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::batch::WriteBatch;
use tailwater_format::file_name::FileKind;
use tailwater_format::key::Sequence;
use tailwater_format::record_log::{Event, Record, RecordReader};
use tailwater_io::{IoMode, Purpose, ReadFile, Storage};

use crate::error::{Error, Result};
use crate::record_log::FileSource;
use crate::wal::batch::{self, Refusal};

/// A log and its read position.
pub(super) struct LogTail {
    pub(super) number: u64,
    path: PathBuf,
    file: Arc<dyn ReadFile>,
    /// End of the part that `reader` may read, in bytes.
    end: u64,
    /// `None` until there is a byte to read.
    reader: Option<RecordReader<FileSource>>,
}

/// A batch that was read from a log, with its position.
#[derive(Debug)]
pub(super) struct FoundBatch {
    pub(super) batch: WriteBatch,
    /// Start of the batch's record in the file, in bytes.
    pub(super) offset: u64,
    /// The sequence number that follows the batch's last operation.
    pub(super) next_sequence: Sequence,
}

impl FoundBatch {
    /// Returns the sequence number of the batch's last operation; for an empty batch, the sequence
    /// number before the batch.
    pub(super) fn last_sequence(&self) -> Sequence {
        self.next_sequence.saturating_sub(1)
    }
}

impl LogTail {
    /// Opens log `number` at its start.
    pub(super) fn open(storage: &dyn Storage, directory: &Path, number: u64) -> Result<Self> {
        let path = directory.join(FileKind::Wal(number).to_string());
        let file = storage.open(&path, IoMode::Buffered, Purpose::Wal)?;
        Ok(Self { number, path, file, end: 0, reader: None })
    }

    /// Returns the path of the log.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Extends the readable part to `end`. Returns whether the new end is further than the old one.
    /// Everything before the old end must have been read.
    pub(super) fn read_up_to(&mut self, end: u64) -> bool {
        if end <= self.end {
            return false;
        }
        let source = FileSource::new(Arc::clone(&self.file), Purpose::Wal, self.end..end);
        match &mut self.reader {
            Some(reader) => reader.resume(source),
            None => self.reader = Some(RecordReader::new(source, self.number)),
        }
        self.end = end;
        true
    }

    /// Returns the next batch; `None` if there is none before the end.
    ///
    /// # Errors
    /// Corruption, with the offset, for anything that deviates from what was written; not
    /// supported, for batches of transactions and user-defined timestamps; errors from reading the
    /// file.
    pub(super) fn next_batch(&mut self) -> Result<Option<FoundBatch>> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        loop {
            let (offset, reason) = match reader.next_event()? {
                Event::Record(record) => return found(&self.path, record).map(Some),
                Event::Predecessor(_) => continue,
                Event::Skipped(skipped) if !skipped.lossy => continue,
                Event::Skipped(skipped) => (skipped.offset, skipped.reason.to_string()),
                Event::Damage(damage) => (damage.offset, damage.reason.to_string()),
                Event::Torn(torn) => (torn.offset, torn.reason.to_string()),
                Event::Stale(stale) => (
                    stale.offset,
                    "the log ends before remains of an earlier use of the file".to_owned(),
                ),
                Event::TimestampSizes(_) => {
                    let error = Error::not_supported("user-defined timestamps");
                    return Err(error.in_file(&self.path));
                }
                Event::End => match reader.offset() {
                    offset if offset == self.end => return Ok(None),
                    offset => (offset, format!("the log ends before byte {}", self.end)),
                },
            };
            return Err(Error::corruption_at(&self.path, offset, reason));
        }
    }
}

/// Decodes the batch that a record holds.
fn found(path: &Path, record: Record<'_>) -> Result<FoundBatch> {
    let offset = record.start;
    match batch::check(record.payload, None) {
        Ok(checked) => {
            let batch = WriteBatch::from_data(record.payload.to_vec());
            let batch = batch.map_err(|error| Error::decoding(path, offset, error))?;
            Ok(FoundBatch { batch, offset, next_sequence: checked.next_sequence })
        }
        Err(Refusal::NotSupported(feature)) => Err(Error::not_supported(feature).in_file(path)),
        Err(refusal) => Err(Error::corruption_at(path, offset, refusal.reason())),
    }
}
