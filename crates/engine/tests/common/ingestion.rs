//! Writes changes into files that a database can ingest.

use std::path::Path;

use tailwater::{Result, SstFileWriter};

use crate::change::Change;

/// Writes changes into a new file at `path`. The changes other than range deletions must be in key
/// order, and contain each key at most once.
pub(crate) fn write(writer: &mut SstFileWriter, path: &Path, changes: &[Change]) -> Result<()> {
    writer.open(path)?;
    for change in changes {
        match change {
            Change::Put { key, value } | Change::TimedPut { key, value, .. } => {
                writer.put(key, value)?;
            }
            Change::Merge { key, operand } => writer.merge(key, operand)?,
            Change::Delete { key } | Change::SingleDelete { key } => writer.delete(key)?,
            Change::DeleteRange { begin, end } => writer.delete_range(begin, end)?,
        }
    }
    writer.finish().map(drop)
}
