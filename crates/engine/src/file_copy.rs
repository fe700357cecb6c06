//! Hard links to files, or copies if the filesystem does not support links.

use std::path::Path;
use std::sync::Arc;

use tailwater_io::buffer::BufferPool;
use tailwater_io::stream::{ReaderOptions, SequentialReader, SequentialWriter, WriterOptions};
use tailwater_io::{Create, IoMode, Purpose, ReadFile, Storage};

use crate::error::{Error, Result};

/// Size of each read and write while a file is copied, in bytes.
const COPY_BYTES: usize = 1 << 20;

/// I/O modes in which a copy reads its source and writes its target.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CopyModes {
    pub(crate) source: IoMode,
    pub(crate) target: IoMode,
}

/// Hard-links a file. If the filesystem cannot link it, copies it in the given I/O modes. The
/// directory of the link or copy is not synced.
pub(crate) fn link_or_copy(
    storage: &dyn Storage,
    from: &Path,
    to: &Path,
    modes: CopyModes,
) -> Result<()> {
    match storage.link(from, to) {
        Ok(()) => Ok(()),
        Err(error) if error.is_no_space() => Err(error.into()),
        // Linking fails if the files are on different filesystems, or if the filesystem does not
        // support links. If it failed for any other reason, the copy fails, too.
        Err(_) => copy(storage, from, None, to, modes),
    }
}

/// Copies a file or, if a length in bytes is given, its beginning, and syncs the copy. The
/// directory of the copy is not synced.
///
/// # Errors
/// Corruption, if the file is shorter than `length`; errors from reading and writing.
pub(crate) fn copy(
    storage: &dyn Storage,
    from: &Path,
    length: Option<u64>,
    to: &Path,
    modes: CopyModes,
) -> Result<()> {
    let purpose = Purpose::Checkpoint;
    let source = storage.open(from, modes.source, purpose)?;
    let length = length.map_or_else(|| source.length(), Ok)?;
    let target = storage.create(to, Create::New, modes.target, purpose)?;
    let options = WriterOptions { buffer_bytes: COPY_BYTES, ..WriterOptions::new(purpose) };
    let writer = SequentialWriter::new(target, options, &BufferPool::new(COPY_BYTES), None)?;
    copy_into(source, length, writer, purpose, || Ok(()))
}

/// Copies the first `length` bytes of a file to a new file, and syncs the new file. `check` is
/// called before each MiB; an error from it stops the copy.
///
/// # Errors
/// Corruption if the file is shorter than `length`; errors from reading, writing and `check`.
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
            let message = format!("the file ended after {offset} bytes while it was being copied");
            return Err(Error::corruption(&path, message));
        }
        writer.append(bytes)?;
        offset += bytes.len() as u64;
    }
    writer.sync()?;
    writer.close()?;
    Ok(())
}
