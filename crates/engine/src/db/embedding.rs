//! What an interface for programs in other languages needs in addition: its own lines in the LOG,
//! and the database's identity.

use crate::db::{Access, Db};
use crate::directory::read_identity;
use crate::error::{Error, ErrorKind, Result};

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
