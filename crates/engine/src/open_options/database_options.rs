//! The options of an open database, some of which can change.

use std::sync::Arc;

use crate::epoch::EpochCell;
use crate::options::DbOptions;

/// The options of an open database: as it was opened with, and current.
#[derive(Debug)]
pub(crate) struct DatabaseOptions {
    opened_with: DbOptions,
    now: EpochCell<DbOptions>,
}

impl DatabaseOptions {
    /// Starts with the options that the database was opened with.
    pub(crate) fn new(opened_with: DbOptions) -> Self {
        let now = EpochCell::new(Some(Arc::new(opened_with.clone())));
        Self { opened_with, now }
    }

    /// Returns the initial options, for those that cannot change while the database is open. Cheap
    /// enough for every write.
    #[inline]
    pub(crate) fn fixed(&self) -> &DbOptions {
        &self.opened_with
    }

    /// Returns the current options, for work that uses them until it is done. It counts a
    /// reference, so it is not for every write.
    pub(crate) fn now(&self) -> Arc<DbOptions> {
        self.now.load_arc().unwrap_or_else(|| Arc::new(self.opened_with.clone()))
    }

    /// Replaces the current options.
    pub(crate) fn change(&self, options: DbOptions) {
        self.now.store(Some(Arc::new(options)));
    }
}
