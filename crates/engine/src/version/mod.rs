//! Versions: which tables and blob files a column family consists of.
//!
//! A [`Version`] never changes. The MANIFEST is a log of edits; a [`VersionBuilder`] applies them
//! to one version to make the next, and refuses edits that do not fit. Readers keep the version
//! they began with. [`Versions`] has the order in which edits are written and take effect.

mod blob_file;
mod builder;
mod compactions;
mod installation;
mod level;
pub(crate) mod manifest;
mod manifest_writer;
mod obsolete;
mod set;
mod turns;

pub(crate) use blob_file::BlobFileMetadata;
pub(crate) use builder::VersionBuilder;
pub(crate) use compactions::{CompactCursors, Compaction, CompactionState, InputLevel, Reason};
pub(crate) use installation::{Installation, Versions, Written};
pub(crate) use level::Level;
pub(crate) use manifest_writer::{ManifestLimits, set_current, write_manifest, write_whole};
pub(crate) use set::{FamilyVersion, VersionSet, VersionSetBeginning};

use crate::table::FileMetadata;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The tables and blob files that a column family consists of.
#[derive(Debug, Default)]
pub(crate) struct Version {
    /// Level 0 first. In level 0 tables may overlap and the newest comes first; in the others they
    /// do not, and come in key order.
    levels: Vec<Arc<Level>>,
    /// By file number.
    blob_files: BTreeMap<u64, BlobFileMetadata>,
}

impl Version {
    /// One without files.
    pub(crate) fn with_levels(count: usize) -> Self {
        let levels = std::iter::repeat_with(Arc::default).take(count).collect();
        Self { levels, blob_files: BTreeMap::new() }
    }

    /// The levels, level 0 first.
    pub(crate) fn levels(&self) -> &[Arc<Level>] {
        &self.levels
    }

    /// The blob files, by file number.
    pub(crate) fn blob_files(&self) -> &BTreeMap<u64, BlobFileMetadata> {
        &self.blob_files
    }

    /// Every table with its level, level 0 first.
    pub(crate) fn files(&self) -> impl Iterator<Item = (usize, &Arc<FileMetadata>)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(number, level)| level.files().iter().map(move |file| (number, file)))
    }
}
