//! Rewrites the sealed segments of a log that is not open without the gaps between their batches.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::message::name::{FileName, TEMPORARY};
use tailwater_io::{FileLock, Storage};

use super::{LogDirectory, PartitionFiles};
use crate::guard::LockGuard;
use crate::segment::{Segment, SegmentFiles, dense};
use crate::{Error, Result, identity, layout};

/// The outcome of [`compact`]: the number of rewritten segments, and their total size before and
/// after.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactReport {
    /// Number of segments rewritten.
    pub segments: u64,
    /// Total size in bytes of the rewritten segments, before and after.
    pub bytes: [u64; 2],
}

/// Rewrites the sealed segments of a log that have gaps between their batches, so that the gaps
/// disappear. The log must not be open. The new files get the owner, the group and the permissions
/// of those that they replace. A run that was interrupted can be repeated.
///
/// # Errors
/// Not found, if the directory contains no log; busy, if the log is open (its process then rewrites
/// sealed segments itself); corruption, if a segment is damaged, which is then left unchanged; I/O
/// errors.
pub fn compact(storage: Arc<dyn Storage>, directory: &Path) -> Result<CompactReport> {
    // Locking creates a file, so first check that the directory contains a log.
    identity::read_existing(&*storage, directory)?;
    let lock_path = directory.join(layout::LOCK);
    let lock = storage.lock(&lock_path).map_err(|error| {
        Error::from(error).while_doing(format_args!(
            "cannot lock the log in {}: while it is open, its owner rewrites padded segments itself",
            directory.display()
        ))
    })?;
    let lock: Arc<dyn FileLock> = Arc::from(lock);
    let log = LogDirectory::read_with(storage, &LockGuard::new(&lock, lock_path), directory)?;
    let mut report = CompactReport::default();
    for (id, incarnation) in log.partitions().collect::<Vec<_>>() {
        let partition = layout::incarnation_directory(directory, id, incarnation);
        remove_copies(&*log.segment_files.storage, &partition)?;
        let PartitionFiles { segments, .. } = log.partition(id)?;
        let sealed = segments.len().saturating_sub(1);
        for segment in segments.into_iter().take(sealed) {
            if segment.generation() > 0 || !has_gaps(&log.segment_files, &segment)? {
                continue;
            }
            let rewritten = dense::rewrite(&log.segment_files, &Arc::new(segment))?;
            rewritten.check_name_is_free(&log.segment_files)?;
            rewritten.install(&log.segment_files)?;
            rewritten.remove_old(&log.segment_files);
            report.segments += 1;
            report.bytes[0] += rewritten.old.length();
            report.bytes[1] += rewritten.new.length();
        }
    }
    Ok(report)
}

/// Removes the incomplete copies of segments that an interrupted run has left in the directory of a
/// partition's incarnation.
fn remove_copies(storage: &dyn Storage, directory: &Path) -> Result<()> {
    for entry in storage.list(directory).map_err(Error::on_required)? {
        let is_copy = entry.name.strip_suffix(TEMPORARY).and_then(FileName::parse).is_some();
        if is_copy {
            storage.remove(&directory.join(&entry.name))?;
        }
    }
    Ok(())
}

fn has_gaps(files: &SegmentFiles, segment: &Segment) -> Result<bool> {
    let mut access = files.access_now();
    let mut scanner = segment.scan(&mut access, 0)?;
    let mut end = 0;
    while let Some((position, header)) = scanner.peek()? {
        if position != end {
            return Ok(true);
        }
        end = position + header.length;
        scanner.skip();
    }
    Ok(segment.length() > end)
}
