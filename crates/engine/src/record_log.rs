//! Reading of record logs (write-ahead logs and MANIFESTs) from files.

use std::ops::Range;
use std::sync::Arc;

use tailwater_format::record_log::{BlockSource, RecordReader};
use tailwater_io::{Purpose, ReadFile};

/// Supplies the bytes of a range of a file, in order, to a [`RecordReader`].
#[derive(Debug)]
pub(crate) struct FileSource {
    file: Arc<dyn ReadFile>,
    purpose: Purpose,
    /// The bytes of the file that are still to be read, as a range of offsets from the beginning of
    /// the file. The file may end before the range does.
    span: Range<u64>,
}

impl FileSource {
    /// Creates a source of the bytes `span` of the file.
    pub(crate) fn new(file: Arc<dyn ReadFile>, purpose: Purpose, span: Range<u64>) -> Self {
        Self { file, purpose, span }
    }
}

impl BlockSource for FileSource {
    type Error = tailwater_io::Error;

    fn fill(&mut self, block: &mut [u8]) -> tailwater_io::Result<usize> {
        let left = self.span.end.saturating_sub(self.span.start);
        let length = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let block = block.get_mut(..length).unwrap_or_default();
        let count = self.file.read_full_at(block, self.span.start, self.purpose)?;
        self.span.start += count as u64;
        Ok(count)
    }
}

/// Returns a reader of a whole record log, positioned at its beginning. `log_number` is the number
/// in the file's name.
pub(crate) fn reader(
    file: Arc<dyn ReadFile>,
    log_number: u64,
    purpose: Purpose,
) -> RecordReader<FileSource> {
    RecordReader::new(FileSource::new(file, purpose, 0..u64::MAX), log_number)
}
