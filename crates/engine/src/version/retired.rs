//! The files that a change of versions took out of a column family.

use std::collections::BTreeSet;
use std::sync::Arc;

use tailwater_format::version_edit::{BlobFileAddition, VersionEdit};

use crate::table::FileMetadata;
use crate::version::Version;

/// The tables and blob files of a version that are not in the version that replaced it.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    pub(super) tables: Vec<Arc<FileMetadata>>,
    pub(super) blob_files: Vec<Arc<BlobFileAddition>>,
}

impl Retired {
    /// Returns all files of a version, for a column family that was dropped.
    pub(super) fn all(version: &Version) -> Self {
        Self {
            tables: version.files().map(|(_, file)| Arc::clone(file)).collect(),
            blob_files: blob_files(version).cloned().collect(),
        }
    }

    /// Returns the files of `old` that are not in `new`, the version that resulted from `edits`.
    pub(super) fn between<'e>(
        old: &Version,
        new: &Version,
        edits: impl Iterator<Item = &'e VersionEdit> + Clone,
    ) -> Self {
        let deleted = edits.clone().flat_map(|edit| &edit.deleted_files);
        let mut gone: BTreeSet<u64> = deleted.map(|deleted| deleted.number).collect();
        // A table that was moved to another level is deleted from one level and added to another.
        for added in edits.flat_map(|edit| &edit.new_files) {
            gone.remove(&added.number);
        }
        let is_gone = |file: &&Arc<FileMetadata>| gone.contains(&file.number());
        let tables = old.files().map(|(_, file)| file).filter(is_gone);
        // No edit names the blob files that leave a version.
        let is_left =
            |added: &&Arc<BlobFileAddition>| !new.blob_files().contains_key(&added.number);
        Self {
            tables: if gone.is_empty() { Vec::new() } else { tables.cloned().collect() },
            blob_files: blob_files(old).filter(is_left).cloned().collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.blob_files.is_empty()
    }
}

fn blob_files(version: &Version) -> impl Iterator<Item = &Arc<BlobFileAddition>> {
    version.blob_files().values().map(|file| &file.added)
}
