//! The open files of a database: limits on their number, and closing some of them when no file
//! descriptor is left.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tailwater_io::DescriptorBudget;
use tailwater_io::descriptors::{Exhausted, KeepsFilesOpen};

use crate::blob::OpenBlobFiles;
use crate::column_family::{ColumnFamily, FamilySet};
use crate::epoch::Garbage;
use crate::stats::InfoLog;
use crate::table::{OpenBudget, OpenShares, OpenTables};

/// Maximum number of checks of whether descriptors were released, after files were closed because
/// no descriptor was left.
const CHECKS_MAX: usize = 20;
/// Interval between two checks of whether descriptors were released.
const CHECK_INTERVAL: Duration = Duration::from_micros(100);

/// The open tables and blob files of a database, and the budget of the files that its compactions
/// open themselves. They share the limit on open files.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    pub(super) tables: Arc<OpenTables>,
    pub(super) blob_files: Arc<OpenBlobFiles>,
    pub(crate) compactions: Arc<OpenBudget>,
    descriptors: DescriptorBudget,
    garbage: Arc<Garbage>,
}

impl OpenFiles {
    /// Creates the state without open files, and registers it with `descriptors`. If
    /// `max_open_files` is negative, the budget of descriptors alone limits tables and blob files.
    /// The readers of closed tables are retired into `garbage`.
    pub(super) fn new(
        descriptors: &DescriptorBudget,
        max_open_files: i32,
        garbage: &Arc<Garbage>,
    ) -> Arc<Self> {
        let shares = OpenShares::new(descriptors.capacity(), max_open_files);
        let open_files = Arc::new(Self {
            tables: OpenTables::new(shares, descriptors, garbage.bin()),
            blob_files: Arc::new(OpenBlobFiles::new(shares.blob_files)),
            compactions: Arc::new(OpenBudget::new(shares.compactions)),
            descriptors: descriptors.clone(),
            garbage: Arc::clone(garbage),
        });
        let keeper: Weak<Self> = Arc::downgrade(&open_files);
        descriptors.register(keeper);
        open_files
    }

    /// Sets the LOG, which gets a message when the process's limit on open files first causes
    /// tables to be closed. `tables` is the number of tables of the database.
    pub(crate) fn report_to(&self, info_log: &Arc<InfoLog>, tables: usize) {
        self.tables.report_to(info_log, tables);
    }

    /// Changes the option `max_open_files`.
    pub(crate) fn set_max(&self, max_open_files: i32, families: &FamilySet) {
        let shares = OpenShares::new(self.descriptors.capacity(), max_open_files);
        self.compactions.set(shares.compactions);
        let sources: Vec<_> = families.iter().map(ColumnFamily::super_version).collect();
        let files = sources.iter().flat_map(|source| source.version().files());
        let files: Vec<_> = files.map(|(_, file)| Arc::clone(file)).collect();
        self.tables.change(shares, &files);
        self.blob_files.set_capacity(shares.blob_files);
    }
}

impl KeepsFilesOpen for OpenFiles {
    fn close_some(&self, exhausted: Exhausted) -> bool {
        // Another thread may have closed readers whose files are still open. Collecting releases
        // these files.
        if self.garbage.collect() > 0 {
            return true;
        }
        let closed_tables = self.tables.close_some(exhausted);
        let closed = self.blob_files.close_some(exhausted) || closed_tables;
        // A read or memtable insert in progress pins its epoch, which keeps all closed files open
        // until the operation ends.
        for _ in 0..CHECKS_MAX {
            if self.garbage.collect() > 0 {
                return true;
            }
            if self.garbage.waiting() == 0 {
                break;
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        closed
    }
}
