//! Record logs in files: how a write-ahead log or MANIFEST is fed to its reader.

use std::sync::Arc;

use tailwater_format::log::{BlockSource, RecordReader};
use tailwater_io::{Purpose, ReadFile};

/// A file's bytes, in order, for a [`RecordReader`].
#[derive(Debug)]
pub(crate) struct FileSource {
    file: Arc<dyn ReadFile>,
    purpose: Purpose,
    offset: u64,
}

impl BlockSource for FileSource {
    type Error = tailwater_io::Error;

    fn fill(&mut self, block: &mut [u8]) -> tailwater_io::Result<usize> {
        let count = self.file.read_full_at(block, self.offset, self.purpose)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// Reads a record log from the start of its file. `log_number` is the number in the file's name.
pub(crate) fn reader(
    file: Arc<dyn ReadFile>,
    log_number: u64,
    purpose: Purpose,
) -> RecordReader<FileSource> {
    RecordReader::new(FileSource { file, purpose, offset: 0 }, log_number)
}
