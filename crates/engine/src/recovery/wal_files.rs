//! Handling of the log files that an earlier opening left: keeping damaged ones, syncing the
//! others, and checking that the device holds their contents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::{Create, IoMode, Purpose, Storage};

use crate::directory::create_directory;
use crate::error::Result;
use crate::file_copy::{CopyModes, link_or_copy};
use crate::stats::InfoLog;
use crate::wal::LiveLog;

/// Name of the folder, in the home, in which damaged logs are kept.
pub(crate) const LOST: &str = "lost";
/// Number of bytes of a log file that are read and compared at a time.
const COMPARED_BYTES: u64 = 1 << 20;

/// Links damaged logs into the folder `lost`. The original files are removed later, when their
/// readable records are in tables.
pub(super) fn set_aside(
    storage: &Arc<dyn Storage>,
    directory: &Path,
    log_directory: &Path,
    damaged: &[u64],
    info_log: &InfoLog,
) -> Result<()> {
    if damaged.is_empty() {
        return Ok(());
    }
    let lost = directory.join(LOST);
    create_directory(&**storage, &lost)?;
    for number in damaged {
        let log = log_directory.join(FileKind::Wal(*number).to_string());
        let kept = keep(&**storage, &log, &lost, *number)?;
        info_log.warn(format_args!("log {number} is damaged and is kept as {}", kept.display()));
    }
    storage.sync_directory(&lost)?;
    Ok(())
}

/// Links or copies a log into a directory under its own name, unless it is already linked there. If
/// another file has that name, a number is added to the name: the other file may be the user's, or
/// an unfinished copy from an earlier opening.
fn keep(storage: &dyn Storage, log: &Path, directory: &Path, number: u64) -> Result<PathBuf> {
    let name = FileKind::Wal(number).to_string();
    let mut kept = directory.join(&name);
    for again in 2.. {
        match storage.identity(&kept) {
            Ok(there) if there == storage.identity(log)? => return Ok(kept),
            Ok(_) => kept = directory.join(format!("{number:06}.{again}.log")),
            Err(error) if error.is_not_found() => break,
            Err(error) => return Err(error.into()),
        }
    }
    link_or_copy(storage, log, &kept, CopyModes::default())?;
    Ok(kept)
}

/// Syncs the logs that an earlier opening left, because it may have crashed before it synced them.
pub(super) fn sync_logs(storage: &dyn Storage, directory: &Path, logs: &[LiveLog]) -> Result<()> {
    for log in logs {
        let path = directory.join(FileKind::Wal(log.number).to_string());
        let mut file = storage.create(&path, Create::Existing, IoMode::Buffered, Purpose::Wal)?;
        file.sync_data(Purpose::Wal)?;
    }
    if !logs.is_empty() {
        storage.sync_directory(directory)?;
    }
    Ok(())
}

/// Whether the logs of earlier openings have the same contents on the device as in the page cache.
/// A successful sync does not ensure this: if an earlier sync, in another process, failed,
/// the kernel may have marked the pages clean although their bytes are not on the device.
pub(super) fn are_on_device(
    storage: &dyn Storage,
    directory: &Path,
    logs: &[LiveLog],
) -> Result<bool> {
    for log in logs {
        let path = directory.join(FileKind::Wal(log.number).to_string());
        if !is_on_device(storage, &path, log.bytes)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the first `length` bytes of a file are the same on the device as in the page cache.
/// Returns false if the file cannot be read with direct I/O.
fn is_on_device(storage: &dyn Storage, path: &Path, length: u64) -> Result<bool> {
    let cached = storage.open(path, IoMode::Buffered, Purpose::Wal)?;
    let device = match storage.open(path, IoMode::Direct, Purpose::Wal) {
        Ok(device) => device,
        Err(error) if error.is_unsupported() => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let (mut left, mut right) = (AlignedBuffer::with_capacity(0), AlignedBuffer::with_capacity(0));
    let mut offset = 0;
    while offset < length {
        let count = (length - offset).min(COMPARED_BYTES) as usize;
        let left = cached.read_span(&mut left, offset, count, Purpose::Wal)?;
        if left != device.read_span(&mut right, offset, count, Purpose::Wal)? {
            return Ok(false);
        }
        offset += count as u64;
    }
    Ok(true)
}
