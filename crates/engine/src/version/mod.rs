//! Versions: the tables and blob files of a column family at a point in time.
//!
//! A [`Version`] never changes. The MANIFEST is a log of edits. A [`VersionBuilder`] applies edits
//! to a version to build the next version, and refuses contradictory edits. A reader keeps the
//! version with which it began. [`Versions`] orders the writing and installation of edits.

mod blob_file;
mod builder;
mod compactions;
mod installation;
mod level;
pub(crate) mod manifest;
pub(crate) mod manifest_tail;
mod manifest_writer;
mod obsolete;
mod retired;
mod set;
pub(crate) mod synced_logs;
mod turns;

pub(crate) use blob_file::BlobFileMetadata;
pub(crate) use builder::VersionBuilder;
pub(crate) use compactions::{
    CompactCursors, Compaction, CompactionKind, CompactionState, InputLevel, Reason,
};
pub(crate) use installation::{Installation, Installed, Versions, Written};
pub(crate) use level::Level;
pub(crate) use manifest_writer::{ManifestLimits, set_current, write_manifest, write_whole};
pub(crate) use obsolete::ObsoleteFiles;
pub(crate) use retired::Retired;
pub(crate) use set::{FamilyVersion, VersionSet, VersionSetBeginning};

use crate::table::FileMetadata;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The tables and blob files of a column family at a point in time.
#[derive(Debug, Default)]
pub(crate) struct Version {
    /// The levels, level 0 first. In level 0, tables may overlap and are ordered newest first; in
    /// deeper levels they do not overlap and are in key order.
    levels: Vec<Arc<Level>>,
    /// The blob files, by file number.
    blob_files: BTreeMap<u64, BlobFileMetadata>,
}

impl Version {
    /// Creates a version without files.
    pub(crate) fn with_levels(count: usize) -> Self {
        let levels = std::iter::repeat_with(Arc::default).take(count).collect();
        Self { levels, blob_files: BTreeMap::new() }
    }

    /// Returns the levels, level 0 first.
    pub(crate) fn levels(&self) -> &[Arc<Level>] {
        &self.levels
    }

    /// Returns the blob files, by file number.
    pub(crate) fn blob_files(&self) -> &BTreeMap<u64, BlobFileMetadata> {
        &self.blob_files
    }

    /// Returns every table with its level, level 0 first.
    pub(crate) fn files(&self) -> impl Iterator<Item = (usize, &Arc<FileMetadata>)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(number, level)| level.files().iter().map(move |file| (number, file)))
    }
}
