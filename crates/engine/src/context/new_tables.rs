//! Steps common to flushes, compactions and ingestions when they add or replace tables.

use std::sync::Arc;

use tailwater_io::Purpose;

use super::Context;
use crate::column_family::{ColumnFamily, SealedMemTable};
use crate::error::{ErrorKind, Result};
use crate::panics;
use crate::table::FileMetadata;
use crate::table::builder::Origin;
use crate::version::Installed;

impl Context {
    /// Returns the origin to record in the properties of a new table: the IDs of the database,
    /// session and host, and the column family.
    pub(crate) fn origin(&self, family: &ColumnFamily) -> Origin {
        Origin {
            db_id: self.identity.database_id.clone(),
            session_id: self.identity.session_id.clone(),
            host_id: self.identity.host_id.clone(),
            column_family_id: Some(family.id()),
            column_family_name: family.name().to_owned(),
            ..Origin::default()
        }
    }

    /// Opens tables that are about to be added to a version, so that no read has to open them. If
    /// the number of tables kept open is limited, opens at most half that number of tables. If a
    /// table cannot be opened, the error is logged, and the first read that needs the table reports
    /// it. The caller must not hold the version lock. Where possible, it calls this before its turn
    /// to change the versions begins.
    ///
    /// # Errors
    /// Panicked, if user code panics. The tables must then not be added to a version.
    pub(crate) fn open_new_tables(
        &self,
        family: &ColumnFamily,
        new: &[Arc<FileMetadata>],
    ) -> Result<()> {
        let readers = family.readers();
        let tables = &readers.tables;
        let what = format!("opening a table of '{}'", family.name());
        for file in new.iter().take(tables.new_tables_max()) {
            let open = || tables.open(file, Purpose::FlushWrite).map(drop);
            match panics::catch(&what, open) {
                Err(error) if error.kind() == ErrorKind::Panicked => return Err(error),
                Err(error) => {
                    self.info_log.error(format_args!("a new table cannot be opened: {error}"));
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Lets reads see the version of a column family that was just installed. Releases the
    /// memtables of `flushed`, which are in its tables, and schedules the removal of the files that
    /// the version no longer contains.
    pub(crate) fn publish(
        &self,
        installed: &mut Installed<'_>,
        family: &ColumnFamily,
        flushed: &[SealedMemTable],
    ) -> Result<()> {
        family.install(self.installed_version(installed, family)?, flushed);
        self.retire_files(installed, family);
        Ok(())
    }
}
