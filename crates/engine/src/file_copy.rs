//! Copies of files, and second names where those will do.

use std::path::Path;
use std::sync::Arc;

use tailwater_io::buffer::BufferPool;
use tailwater_io::stream::{ReaderOptions, SequentialReader, SequentialWriter, WriterOptions};
use tailwater_io::{Create, IoMode, Purpose, ReadFile, Storage};

use crate::{Error, Result};

/// How much is copied at a time, in bytes.
const COPY_BYTES: usize = 1 << 20;

/// How a file is read and written that is copied.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CopyModes {
    pub(crate) source: IoMode,
    pub(crate) target: IoMode,
}

/// Gives a file a second name, or copies it, in the modes of copying, where the filesystem does not
/// do that. The name is not synced.
pub(crate) fn link_or_copy(
    storage: &dyn Storage,
    from: &Path,
    to: &Path,
    modes: CopyModes,
) -> Result<()> {
    match storage.link(from, to) {
        Ok(()) => Ok(()),
        Err(error) if error.is_no_space() => Err(error.into()),
        // Another filesystem, or one without links; if it is not that, the copy fails too.
        Err(_) => copy(storage, from, to, modes),
    }
}

fn copy(storage: &dyn Storage, from: &Path, to: &Path, modes: CopyModes) -> Result<()> {
    let purpose = Purpose::Checkpoint;
    let source = storage.open(from, modes.source, purpose)?;
    let length = source.length()?;
    let target = storage.create(to, Create::New, modes.target, purpose)?;
    let options = WriterOptions { buffer_bytes: COPY_BYTES, ..WriterOptions::new(purpose) };
    let writer = SequentialWriter::new(target, options, &BufferPool::new(COPY_BYTES), None)?;
    copy_into(source, length, writer, purpose, || Ok(()))
}

/// Appends the first `length` bytes of a file to a new one, and puts them on the device. `check` is
/// asked before each MiB whether to go on.
///
/// # Errors
/// Corruption, for a file that is shorter; those of reading, writing and `check`.
pub(crate) fn copy_into(
    source: Arc<dyn ReadFile>,
    length: u64,
    mut writer: SequentialWriter,
    purpose: Purpose,
    check: impl Fn() -> Result<()>,
) -> Result<()> {
    let path = source.path().to_owned();
    let options = ReaderOptions { request_bytes: COPY_BYTES, depth: 1, first: 1, purpose };
    let pool = BufferPool::new(COPY_BYTES);
    let mut reader = SequentialReader::new(source, 0..length, options, &pool, None)?;
    let mut offset = 0;
    while offset < length {
        check()?;
        let bytes = reader.read(offset, COPY_BYTES)?;
        if bytes.is_empty() {
            let message = format!("it ended after {offset} bytes while it was copied");
            return Err(Error::corruption(&path, message));
        }
        writer.append(bytes)?;
        offset += bytes.len() as u64;
    }
    writer.sync()?;
    writer.close()?;
    Ok(())
}
