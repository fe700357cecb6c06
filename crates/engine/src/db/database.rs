//! The components of a database that is open for writing.

use std::sync::Arc;

use tailwater_io::sync::Mutex;

use crate::column_family::ColumnFamily;
use crate::compaction::{CompactRangeOptions, CompactionScheduler};
use crate::context::Context;
use crate::directory::Locks;
use crate::error::Result;
use crate::flush::FlushScheduler;
use crate::ingest::Ingester;
use crate::open_options::OptionsFiles;
use crate::panics;
use crate::version::Versions;
use crate::write::WritePath;

/// A database that is open for writing. Its methods are in
///
/// - `opening`, `closing`, `resume`: from the start to the end, and after errors
/// - `creating_families`, `families`: creating and dropping column families
/// - `changing_options`, `options_file`: the options, and their file
/// - `checkpoint`: copies of the database
/// - `background_jobs`, `dump_statistics`: the work of background threads
pub(super) struct Database {
    pub(super) context: Arc<Context>,
    pub(super) versions: Arc<Versions>,
    pub(super) compactions: Arc<CompactionScheduler>,
    pub(super) flushes: Arc<FlushScheduler>,
    pub(super) writes: Arc<WritePath>,
    pub(super) ingester: Ingester,
    pub(super) options_files: OptionsFiles,
    /// Held while the options or the set of column families change.
    pub(super) changing_options: Mutex<()>,
    /// The locks on the database's directories; `None` when the database is closed.
    pub(super) locks: Mutex<Option<Locks>>,
    /// The outcome of closing the database; `None` until then. Locked while the database is being
    /// closed.
    pub(super) closed: Mutex<Option<Result<()>>>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let directory = &self.context.directory;
        f.debug_struct("Database").field("directory", directory).finish_non_exhaustive()
    }
}

impl Database {
    /// Flushes a column family and compacts a range of its keys, both ends included, level by level
    /// down to the last level. Runs on the caller's thread, concurrently with background
    /// compactions. A panic becomes an error of this call only.
    pub(super) fn compact_range(
        &self,
        family: &ColumnFamily,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        let _manual = self.context.background.manual().begin()?;
        if let (Some(begin), Some(end)) = (begin, end)
            && family.comparator().compare(begin, end).is_gt()
        {
            return Ok(());
        }
        let compact = || self.compactions.compact_range(family, begin, end, options);
        panics::catch(format!("a compaction of '{}'", family.name()), || {
            if self.context.stall.state().stopped_by().is_some() {
                // While writes are stopped, the flush would wait until they resume. They may resume
                // only after a compaction. So in this case the range is compacted both before and
                // after the flush.
                compact()?;
            }
            let memtables = family.super_version();
            let needs_flush = match (begin, end) {
                (Some(begin), Some(end)) => {
                    memtables.memtables().iter().any(|memtable| memtable.overlaps(begin, end))
                }
                _ => true,
            };
            drop(memtables);
            if needs_flush {
                self.writes.flush(&[family])?;
            }
            compact()?;
            // The compaction may have filled other levels so that they need compaction.
            self.compactions.compact_soon();
            Ok(())
        })
    }
}
