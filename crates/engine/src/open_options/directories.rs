//! Derives the directories of a database from its options.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use tailwater_io::{FileIdentity, Storage};

use crate::error::Result;
use crate::sst_file_manager::TrackedFiles;

use super::OpenOptions;

impl OpenOptions {
    /// Records the current working directory, to which relative paths in the options refer, so that
    /// a later `chdir` does not change their meaning. Also clears `wal_dir` if it names the home.
    /// `identity` is that of the home.
    pub(crate) fn resolve_paths(&mut self, home: &Path, identity: FileIdentity) -> Result<()> {
        self.working_directory = self.storage.canonical_path(Path::new("."))?;
        if self.database.wal_dir.is_empty() {
            return Ok(());
        }
        match self.storage.identity(&self.wal_directory(home)) {
            Ok(of_logs) if of_logs == identity => self.database.wal_dir.clear(),
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
        Ok(())
    }

    /// Returns the absolute form of a path in the options.
    pub(crate) fn resolved(&self, path: &Path) -> PathBuf {
        let mut begin = self.working_directory.as_path();
        let mut rest = path.components();
        // Resolves each leading `..` here. If it were left to the file system, the path would
        // become invalid when the working directory is removed while the database is open. Removing
        // the last component is correct because the path of the working directory is canonical.
        while let (Some(Component::ParentDir), Some(above)) = (rest.clone().next(), begin.parent())
        {
            begin = above;
            rest.next();
        }
        begin.join(rest.as_path())
    }

    /// Returns the table directories of a column family, indexed by path id: those of its
    /// `cf_paths` or, without these, of `db_paths` or, without these, the database's home directory
    /// `home`.
    pub(crate) fn table_directories(&self, home: &Path, family: &str) -> Vec<PathBuf> {
        let own = &self.column_family(family).cf_paths;
        let paths = if own.is_empty() { &self.database.db_paths } else { own };
        if paths.is_empty() {
            return vec![home.to_owned()];
        }
        paths.iter().map(|path| self.resolved(&path.path)).collect()
    }

    /// Returns the table directories of all column families, without duplicates. Blob files are in
    /// these directories, too.
    pub(crate) fn all_table_directories(&self, home: &Path) -> Vec<PathBuf> {
        let paths = self.database.db_paths.iter().map(|path| self.resolved(&path.path));
        let mut all: Vec<PathBuf> = paths.collect();
        if all.is_empty() {
            all.push(home.to_owned());
        }
        for name in self.column_families().chain(["default"]) {
            all.extend(self.table_directories(home, name));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns every path for database files that the options name explicitly, each with the name
    /// of the option.
    pub(crate) fn outside_paths(&self, home: &Path) -> Vec<(&'static str, PathBuf)> {
        let mut paths = Vec::new();
        if !self.database.wal_dir.is_empty() {
            paths.push(("wal_dir", self.wal_directory(home)));
        }
        let of_database = self.database.db_paths.iter();
        paths.extend(of_database.map(|path| ("db_paths", self.resolved(&path.path))));
        let families = self.families.iter().map(|(_, options)| options);
        for options in families.chain([&self.other_families]) {
            let own = options.cf_paths.iter().filter(|path| {
                // A column family without `cf_paths` has a copy of `db_paths`, which were added
                // above.
                !self.database.db_paths.iter().any(|known| known.path == path.path)
            });
            paths.extend(own.map(|path| ("cf_paths", self.resolved(&path.path))));
        }
        paths
    }

    /// Returns the directory of a column family's blob files: the first of its table directories.
    pub(crate) fn blob_directory(&self, home: &Path, family: &str) -> PathBuf {
        let directories = self.table_directories(home, family);
        directories.into_iter().next().unwrap_or_else(|| home.to_owned())
    }

    /// Returns the files of a database on `storage`, which the manager in the options tracks. Logs
    /// are removed slowly, too, if they are in the first directory of the tables.
    pub(crate) fn tracked_files(&self, storage: &Arc<dyn Storage>, home: &Path) -> TrackedFiles {
        let tables = self.database.db_paths.first();
        let tables = tables.map_or_else(|| home.to_owned(), |path| self.resolved(&path.path));
        let slow_logs = self.wal_directory(home) == tables;
        let manager = self.sst_file_manager.clone();
        TrackedFiles::new(Arc::clone(storage)).managed_by(
            manager,
            slow_logs,
            self.inline_background,
        )
    }

    /// Returns the directory of the WAL files.
    pub(crate) fn wal_directory(&self, home: &Path) -> PathBuf {
        match self.database.wal_dir.as_str() {
            "" => home.to_owned(),
            own => self.resolved(Path::new(own)),
        }
    }

    /// Returns the directory of the information log; `None` if the log is in the home.
    pub(crate) fn info_log_directory(&self) -> Option<PathBuf> {
        let directory = self.database.db_log_dir.as_str();
        (!directory.is_empty()).then(|| self.resolved(Path::new(directory)))
    }
}
