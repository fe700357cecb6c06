//! The files that a database needs, and the obsolete files in its directories.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tailwater_format::file_name::FileKind;

use super::found::Directories;

/// The files that a database needs, by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Needed {
    /// The file numbers of the tables in current versions of the column families.
    pub(crate) tables: BTreeSet<u64>,
    /// The file numbers of the blob files in current versions of the column families.
    pub(crate) blob_files: BTreeSet<u64>,
    /// Number of the oldest needed log.
    pub(crate) oldest_log: u64,
    /// Number of the MANIFEST that CURRENT names.
    pub(crate) manifest: u64,
}

impl Needed {
    /// Whether the database needs a file of this kind and number. The caller must know that the
    /// file belongs to the database.
    pub(crate) fn has(&self, kind: FileKind) -> bool {
        match kind {
            FileKind::Table(number) | FileKind::LevelDbTable(number) => {
                self.tables.contains(&number)
            }
            FileKind::Blob(number) => self.blob_files.contains(&number),
            FileKind::Wal(number) => number >= self.oldest_log,
            FileKind::Manifest(number) => number == self.manifest,
            FileKind::Trash(_)
            | FileKind::Temporary(_)
            | FileKind::TemporaryOptions(_)
            | FileKind::TemporaryCompactionProgress(_)
            | FileKind::CompactionProgress(_)
            | FileKind::Staging => false,
            _ => true,
        }
    }
}

impl Directories {
    /// Returns the obsolete files that certainly belong to the database.
    pub(crate) fn left_over(&self, needed: &Needed) -> Vec<PathBuf> {
        let home = self.home_files().iter().filter(|&kind| !needed.has(kind));
        let home = home.map(|kind| self.home().path.join(kind.to_string()));
        let outside = self.outside().iter().flat_map(|directory| {
            let kinds = directory.removable().filter(|&kind| !needed.has(kind));
            kinds.map(|kind| directory.path.join(kind.to_string()))
        });
        home.chain(outside).collect()
    }

    /// Whether a file is in a directory that no option names any more.
    pub(crate) fn is_unused(&self, file: &Path) -> bool {
        let mut outside = self.outside().iter();
        outside.any(|it| it.options.is_empty() && file.parent() == Some(&it.path))
    }
}
