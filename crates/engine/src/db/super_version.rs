//! What a read of a column family reads: its memtables and its version, as they stand at one
//! moment.

use std::sync::Arc;

use tailwater_io::Purpose;

use crate::Result;
use crate::db::FamilyReaders;
use crate::memtable::MemTable;
use crate::merge_operator::FamilyMergeOperator;
use crate::table::TableCache;
use crate::version::Version;

/// The memtables and the version of a column family at one moment. It never changes; whoever holds
/// it keeps its files.
#[derive(Debug)]
pub(crate) struct SuperVersion {
    /// Newest first.
    memtables: Vec<Arc<MemTable>>,
    version: Arc<Version>,
    readers: Arc<FamilyReaders>,
}

impl SuperVersion {
    /// Memtables, newest first, over a version.
    pub(crate) fn new(
        memtables: Vec<Arc<MemTable>>,
        version: Arc<Version>,
        readers: Arc<FamilyReaders>,
    ) -> Self {
        Self { memtables, version, readers }
    }

    /// The memtables, newest first.
    #[inline]
    pub(crate) fn memtables(&self) -> &[Arc<MemTable>] {
        &self.memtables
    }

    /// The tables and blob files.
    #[inline]
    pub(crate) fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// The open tables.
    #[inline]
    pub(crate) fn tables(&self) -> &Arc<TableCache> {
        &self.readers.tables
    }

    /// How operands fold.
    #[inline]
    pub(crate) fn merge_operator(&self) -> &FamilyMergeOperator {
        &self.readers.merge_operator
    }

    /// How many records an iterator steps over, one by one, before it tries a seek.
    pub(crate) fn max_sequential_skip(&self) -> u64 {
        self.readers.max_sequential_skip
    }

    /// The value that a blob index of `user_key` stands for.
    pub(crate) fn read_blob(&self, user_key: &[u8], index: &[u8]) -> Result<Vec<u8>> {
        self.readers.blobs.read(user_key, index, Purpose::UserBlobRead)
    }
}
