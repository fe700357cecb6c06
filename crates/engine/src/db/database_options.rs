//! The options of a database that is open, of which some change.

use std::sync::Arc;

use crate::epoch::EpochCell;
use crate::options::DbOptions;

/// The options of a database that is open: as they were then, and as they are now.
#[derive(Debug)]
pub(crate) struct DatabaseOptions {
    opened_with: DbOptions,
    now: EpochCell<DbOptions>,
}

impl DatabaseOptions {
    /// Those that the database was opened with.
    pub(crate) fn new(opened_with: DbOptions) -> Self {
        let now = EpochCell::new(Some(Arc::new(opened_with.clone())));
        Self { opened_with, now }
    }

    /// For options that cannot be changed while the database is open: every write may ask.
    #[inline]
    pub(crate) fn fixed(&self) -> &DbOptions {
        &self.opened_with
    }

    /// All of them at this moment, for work that goes by them until it is done. It counts a
    /// reference, so it is not for every write.
    pub(crate) fn now(&self) -> Arc<DbOptions> {
        self.now.load_arc().unwrap_or_else(|| Arc::new(self.opened_with.clone()))
    }

    /// Puts others in the place of those of this moment.
    pub(crate) fn change(&self, options: DbOptions) {
        self.now.store(Some(Arc::new(options)));
    }
}
