//! One log that is read while it is written: batch by batch, up to an end that moves.
//!
//! Only what is whole in the file is looked at, so whatever is wrong there is damage. What comes
//! behind, a record that is being written, zeros in space that was written ahead, or what an older
//! log left in the file, is never seen.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::batch::WriteBatch;
use tailwater_format::file_name::FileKind;
use tailwater_format::key::Sequence;
use tailwater_format::log::{Event, Record, RecordReader};
use tailwater_io::{IoMode, Purpose, ReadFile, Storage};

use crate::record_log::FileSource;
use crate::wal::batch::{self, Refusal};
use crate::{Error, Result};

/// A log and how far it was read.
pub(super) struct LogTail {
    pub(super) number: u64,
    path: PathBuf,
    file: Arc<dyn ReadFile>,
    /// Up to where it is read, in bytes.
    end: u64,
    /// `None` before the first byte.
    reader: Option<RecordReader<FileSource>>,
}

/// A batch of a log.
#[derive(Debug)]
pub(super) struct FoundBatch {
    pub(super) batch: WriteBatch,
    /// Where its record begins, in bytes.
    pub(super) offset: u64,
    /// The sequence number after its last operation.
    pub(super) next_sequence: Sequence,
}

impl FoundBatch {
    /// The sequence number of its last operation; of an empty batch, of the one before it.
    pub(super) fn last_sequence(&self) -> Sequence {
        self.next_sequence.saturating_sub(1)
    }
}

impl LogTail {
    /// Opens log `number`, nothing of which is read yet.
    pub(super) fn open(storage: &dyn Storage, directory: &Path, number: u64) -> Result<Self> {
        let path = directory.join(FileKind::Wal(number).to_string());
        let file = storage.open(&path, IoMode::Buffered, Purpose::Wal)?;
        Ok(Self { number, path, file, end: 0, reader: None })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads on up to `end`. Answers whether that is further than before. Everything up to there
    /// must have been read.
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

    /// The next batch; `None` where there is none up to the end.
    ///
    /// # Errors
    /// Corruption, with the offset, for anything that is not as it was written; not supported, for
    /// batches of transactions and user-defined timestamps; those of the system.
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
                Event::Stale(stale) => {
                    (stale.offset, "the log ends before what the file held earlier".to_owned())
                }
                Event::TimestampSizes(_) => {
                    let error = Error::not_supported("user-defined timestamps");
                    return Err(error.in_file(&self.path));
                }
                Event::End => match reader.offset() {
                    offset if offset == self.end => return Ok(None),
                    offset => (offset, format!("the log ends, and had {} bytes", self.end)),
                },
            };
            return Err(Error::corruption_at(&self.path, offset, reason));
        }
    }
}

/// The batch that a record holds.
fn found(path: &Path, record: Record<'_>) -> Result<FoundBatch> {
    let offset = record.start;
    match batch::check(record.payload, None) {
        Ok(checked) => {
            let batch = WriteBatch::from_bytes(record.payload.to_vec());
            let batch = batch.map_err(|error| Error::decoding(path, offset, error))?;
            Ok(FoundBatch { batch, offset, next_sequence: checked.next_sequence })
        }
        Err(Refusal::NotSupported(feature)) => Err(Error::not_supported(feature).in_file(path)),
        Err(refusal) => Err(Error::corruption_at(path, offset, refusal.reason())),
    }
}
