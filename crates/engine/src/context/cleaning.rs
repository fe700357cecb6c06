//! Schedules the removal of obsolete files, in the cleaning job or, if there is none, on the
//! calling thread ([`ObsoleteFiles`]).

use super::Context;
use crate::background::FailedPart;
use crate::column_family::ColumnFamily;
use crate::version::{Installed, ObsoleteFiles};

impl Context {
    /// Schedules the removal of the files that an installation took out of a column family's
    /// version. Each file is removed as soon as nobody uses it.
    pub(crate) fn retire_files(&self, installed: &mut Installed<'_>, family: &ColumnFamily) {
        let readers = family.readers();
        if installed.retire(family.id(), &readers.tables, &readers.blobs) {
            self.background.clean_soon();
        }
    }

    /// Removes obsolete files that nobody uses: in the cleaning job, or on the calling thread if
    /// there is none.
    pub(crate) fn clean_soon(&self, obsolete: &ObsoleteFiles) {
        if !self.options.is_inline() {
            self.background.clean_soon();
            return;
        }
        self.cleaning_round(|| {
            self.shared.garbage.collect();
            obsolete.remove_unread_at_once();
        });
    }

    /// Runs a round of the removal of obsolete files.
    pub(crate) fn cleaning_round(&self, work: impl FnOnce()) {
        // An error is already latched: later calls are refused because of it, and return it.
        let _ = self.round(FailedPart::Upkeep, "the removal of obsolete files", work);
    }
}
