//! Tables that no version has any more: they go when nobody reads them.

use std::sync::{Arc, PoisonError};

use crate::db::{ColumnFamily, Writer};

impl Writer {
    /// Has the tables of a dropped column family go when nobody reads them.
    pub(crate) fn retire_tables(&self, family: &ColumnFamily) {
        let source = family.super_version();
        let tables = source.version().files().map(|(_, file)| {
            let path = source.tables().path(file);
            (path, Arc::clone(file))
        });
        let mut obsolete = self.obsolete.lock().unwrap_or_else(PoisonError::into_inner);
        obsolete.extend(tables);
    }

    /// Removes the obsolete tables that nobody reads any more.
    pub(crate) fn remove_obsolete_tables(&self) {
        let mut obsolete = self.obsolete.lock().unwrap_or_else(PoisonError::into_inner);
        obsolete.retain(|(path, file)| {
            if Arc::strong_count(file) > 1 {
                return true;
            }
            if let Err(error) = self.storage.remove(path) {
                self.info_log.warn(format_args!("a table that is not needed stays: {error}"));
            }
            false
        });
    }
}
