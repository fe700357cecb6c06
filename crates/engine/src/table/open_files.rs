//! The open tables and blob files of a database, of which some are closed when no file descriptor
//! is left.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tailwater_io::descriptors::{Exhausted, KeepsFilesOpen};

use crate::epoch;

/// Maximum number of checks of whether descriptors were released, after files were closed because
/// no descriptor was left.
const CHECKS_MAX: usize = 20;
/// Interval between two checks of whether descriptors were released.
const CHECK_INTERVAL: Duration = Duration::from_micros(100);

/// The caches of open files of a database, which it registers with its budget of descriptors.
pub(crate) struct OpenFiles(pub(crate) Vec<Arc<dyn KeepsFilesOpen>>);

impl KeepsFilesOpen for OpenFiles {
    fn close_some(&self, exhausted: Exhausted) -> bool {
        // Another thread may have closed readers whose files are still open. Collecting releases
        // these files.
        if epoch::collect() > 0 {
            return true;
        }
        let mut closed = false;
        for cache in &self.0 {
            closed |= cache.close_some(exhausted);
        }
        // A read or memtable insert in progress pins its epoch, which keeps all closed files open
        // until the operation ends.
        for _ in 0..CHECKS_MAX {
            if epoch::collect() > 0 {
                return true;
            }
            if epoch::waiting() == 0 {
                break;
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        closed
    }
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenFiles({} caches)", self.0.len())
    }
}
