//! Derives the directories of a database from its options.

use std::path::{Component, Path, PathBuf};

use tailwater_io::FileIdentity;

use crate::error::Result;

use super::OpenOptions;

impl OpenOptions {
    /// Records the working directory to which paths in the options are relative, so that a later
    /// `chdir` has no effect. Clears `wal_dir` if it names the home.
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
        // Resolves a leading `..` here, so that the path stays valid if the working directory is
        // removed while the database is open. This is correct because the working directory's path
        // is canonical.
        while let (Some(Component::ParentDir), Some(above)) = (rest.clone().next(), begin.parent())
        {
            begin = above;
            rest.next();
        }
        begin.join(rest.as_path())
    }

    /// Returns the directories for tables of a column family, indexed by path id. `home` is the
    /// database's home directory.
    pub(crate) fn table_directories(&self, home: &Path, family: &str) -> Vec<PathBuf> {
        let own = &self.column_family(family).cf_paths;
        let paths = if own.is_empty() { &self.database.db_paths } else { own };
        if paths.is_empty() {
            return vec![home.to_owned()];
        }
        paths.iter().map(|path| self.resolved(&path.path)).collect()
    }

    /// Returns the directories for tables or blob files of all column families.
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

    /// Returns every path that the options name for files of the database, each with the name of
    /// the option that contains it.
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
                // A family without `cf_paths` inherits `db_paths`, whose paths are already
                // included.
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

    /// Returns the directory of the write-ahead logs.
    pub(crate) fn wal_directory(&self, home: &Path) -> PathBuf {
        match self.database.wal_dir.as_str() {
            "" => home.to_owned(),
            own => self.resolved(Path::new(own)),
        }
    }

    /// Returns the directory of the LOG; `None` if it is the home.
    pub(crate) fn info_log_directory(&self) -> Option<PathBuf> {
        let directory = self.database.db_log_dir.as_str();
        (!directory.is_empty()).then(|| self.resolved(Path::new(directory)))
    }
}
