//! A column family that is open.

use std::sync::Arc;

use tailwater_format::Comparator;

use crate::db::SuperVersion;
use crate::epoch::{self, EpochCell};

/// A column family that is open. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct ColumnFamily {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: u32,
    name: String,
    comparator: Comparator,
    current: EpochCell<SuperVersion>,
    initial: Arc<SuperVersion>,
    #[expect(
        dead_code,
        reason = "the last field, so that it is dropped when the others have been"
    )]
    closing: Closing,
}

/// Closes the files that nobody reads any more, when the last handle to a column family goes.
#[derive(Debug)]
struct Closing;

impl Drop for Closing {
    /// What was retired by then is collected, and what that retires in turn.
    fn drop(&mut self) {
        while epoch::collect() > 0 {}
    }
}

impl ColumnFamily {
    /// A column family that reads begin with `source`.
    pub(crate) fn new(id: u32, name: String, source: SuperVersion) -> Self {
        let comparator = source.tables().comparator().clone();
        let initial = Arc::new(source);
        let current = EpochCell::new(Some(Arc::clone(&initial)));
        let inner = Inner { id, name, comparator, current, initial, closing: Closing };
        Self { inner: Arc::new(inner) }
    }

    /// Its id, which is never used again for another: 0 is `default`'s.
    pub fn id(&self) -> u32 {
        self.inner.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The order of its keys.
    pub fn comparator(&self) -> &Comparator {
        &self.inner.comparator
    }

    /// The memory that its open tables keep outside the block cache, in bytes: mostly indexes and
    /// filters. The option `max_open_files` bounds how many are open,
    /// `cache_index_and_filter_blocks` moves these to the block cache.
    pub fn table_readers_memory(&self) -> usize {
        let source = self.super_version();
        let files = source.version().files();
        files.filter_map(|(_, file)| file.table.load_arc()).map(|table| table.memory()).sum()
    }

    /// What reads read now.
    #[inline]
    pub(crate) fn current(&self) -> &EpochCell<SuperVersion> {
        &self.inner.current
    }

    /// What reads read now, kept.
    pub(crate) fn super_version(&self) -> Arc<SuperVersion> {
        self.inner.current.load_arc().unwrap_or_else(|| Arc::clone(&self.inner.initial))
    }
}
