//! Detection of files that already are tables of a database.
//!
//! A table can be ingested again, even from the database's own directory. Moving such a table would
//! give it a second name in the directory and remove its first name, by which versions find it.

use std::path::{Path, PathBuf};

use tailwater_format::file_name::FileKind;
use tailwater_io::FileIdentity;

use super::external_file::ExternalFile;
use super::ingester::Ingester;
use crate::error::{Error, Result};

/// A table of the database.
struct OwnTable {
    path: PathBuf,
    /// Length of the table, in bytes.
    size: u64,
}

impl Ingester {
    /// Refuses to move files that are tables of a column family, whatever path or link leads to
    /// them. Also refuses to move files that are named like tables and are in a directory of
    /// another database. Must be called before anything is linked.
    ///
    /// # Errors
    /// Invalid argument, with both paths; errors from resolving paths.
    pub(super) fn refuse_own_tables<'a>(
        &self,
        files: impl Iterator<Item = &'a ExternalFile>,
    ) -> Result<()> {
        let mut own_tables = None;
        for file in files {
            self.refuse_table_of_another(&file.path)?;
            let identity = self.context.storage.identity(&file.path)?;
            // Tables never change, so only a table that is as long as the file can be this file.
            // For these tables, device and inode are compared.
            let own_tables = own_tables.get_or_insert_with(|| self.own_tables());
            for table in own_tables.iter().filter(|table| table.size == file.size) {
                if self.identity_of(&table.path)? == Some(identity) {
                    let path = table.path.display();
                    let message =
                        format!("it is a table of the database, {path}, and must not be moved");
                    return Err(Error::invalid_argument(message).in_file(&file.path));
                }
            }
        }
        Ok(())
    }

    fn refuse_table_of_another(&self, path: &Path) -> Result<()> {
        let path = &self.context.storage.canonical_path(path)?;
        let name = path.file_name().and_then(|name| FileKind::parse(&name.to_string_lossy()));
        if !matches!(name, Some(FileKind::Table(_) | FileKind::LevelDbTable(_))) {
            return Ok(());
        }
        for mark in [FileKind::Current, FileKind::Claim] {
            let mark = path.with_file_name(mark.to_string());
            if mark.parent() != Some(&self.context.directory) && self.identity_of(&mark)?.is_some()
            {
                let message = "it is in the directory of a database that may need it: a copy of it \
                               can be ingested";
                return Err(Error::invalid_argument(message).in_file(path));
            }
        }
        Ok(())
    }

    /// Returns the tables of the current versions of all column families, and obsolete tables that
    /// are still read.
    fn own_tables(&self) -> Vec<OwnTable> {
        let mut own_tables = Vec::new();
        for family in self.context.shared.family_set().iter() {
            let source = family.super_version();
            own_tables.extend(
                source.version().files().map(|(_, file)| OwnTable {
                    path: source.tables().path(file),
                    size: file.size(),
                }),
            );
        }
        let obsolete = self.versions.obsolete().tables();
        own_tables.extend(obsolete.into_iter().map(|(path, size)| OwnTable { path, size }));
        own_tables
    }

    /// Returns the device and inode of the file at a path; `None` if there is no file.
    fn identity_of(&self, path: &Path) -> Result<Option<FileIdentity>> {
        match self.context.storage.identity(path) {
            Ok(identity) => Ok(Some(identity)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
