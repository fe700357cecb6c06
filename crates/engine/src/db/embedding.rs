//! What an interface for programs in other languages needs in addition: its own lines in the LOG,
//! objects that come with the options of later column families, the database's identity.

use crate::db::{Access, Db};
use crate::directory::read_identity;
use crate::error::{Error, ErrorKind, Result};
use crate::open_options::OpenOptions;

impl Db {
    /// Writes a line of the program to the database's LOG, as a warning. Without effect on a handle
    /// that was opened for reading, which has no LOG.
    ///
    /// ```
    /// # fn main() -> tailwater::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = tailwater::Db::open_default(directory.path())?;
    /// db.write_to_log("the program ignores option x");
    /// let log = std::fs::read_to_string(directory.path().join("LOG")).expect("the LOG");
    /// assert!(log.contains("WARN the program ignores option x"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_to_log(&self, line: &str) {
        if let Ok(database) = self.database() {
            database.context.info_log.warn(format_args!("{line}"));
        }
    }

    /// Registers the comparators, merge operators, prefix extractors and compaction filters of
    /// `options` under their names, for column families that are created later. An object whose
    /// name is registered already is ignored.
    ///
    /// ```
    /// # fn main() -> tailwater::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = tailwater::Db::open_default(directory.path())?;
    /// use std::sync::Arc;
    /// use tailwater::options::{ColumnFamilyOptions, ObjectName};
    /// use tailwater::{CustomMergeOperator, MergeOperator, OpenOptions};
    ///
    /// struct Last;
    ///
    /// impl CustomMergeOperator for Last {
    ///     fn name(&self) -> &str {
    ///         "example.Last"
    ///     }
    ///
    ///     fn full_merge(&self, _: &[u8], _: Option<&[u8]>, all: &[&[u8]]) -> Option<Vec<u8>> {
    ///         all.last().map(|last| last.to_vec())
    ///     }
    /// }
    ///
    /// let mut objects = OpenOptions::default();
    /// objects.add_merge_operator(MergeOperator::Custom(Arc::new(Last)));
    /// db.add_objects(&objects)?;
    ///
    /// let mut options = ColumnFamilyOptions::default();
    /// options.merge_operator = ObjectName::new("example.Last");
    /// let family = db.create_cf("names", &options)?;
    /// db.merge_cf(&family, "key", "a")?;
    /// db.merge_cf(&family, "key", "b")?;
    /// assert_eq!(db.get_cf(&family, "key")?.as_deref(), Some(&b"b"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Read-only, for a handle that was opened for reading.
    pub fn add_objects(&self, options: &OpenOptions) -> Result<()> {
        self.database()?.context.options.open().add_objects(options);
        Ok(())
    }

    /// Returns the database's ID: that of its file IDENTITY or, if options keep it out of there,
    /// that of its MANIFEST or of this opening.
    ///
    /// ```
    /// # fn main() -> tailwater::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = tailwater::Db::open_default(directory.path())?;
    /// let file = std::fs::read_to_string(directory.path().join("IDENTITY")).expect("the file");
    /// assert_eq!(db.identity()?, file.trim_end());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// For a handle that was opened for reading: not found, if the database has no file IDENTITY;
    /// errors from reading it.
    pub fn identity(&self) -> Result<String> {
        match &self.inner.access {
            Access::Writing(writing) => Ok(writing.database.context.identity.database_id.clone()),
            Access::Reading(_) => read_identity(&*self.inner.storage, &self.inner.directory)?
                .ok_or_else(|| {
                    Error::new(ErrorKind::NotFound, "the database has no file IDENTITY")
                }),
        }
    }
}
