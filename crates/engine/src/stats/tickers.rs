//! Tickers, by RocksDB's names (`monitoring/statistics.cc`).

/// Declares an enumeration of figures (tickers or histograms) with their names in RocksDB.
macro_rules! figures {
    ($(#[$about:meta])* $kind:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum $kind { $($(#[$doc])* $variant,)* }

        impl $kind {
            /// All variants (tickers or histograms), in the order in which they are declared.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];
            /// Number of variants (tickers or histograms).
            pub(crate) const COUNT: usize = Self::ALL.len();

            /// Returns the name of this ticker or histogram in RocksDB.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the ticker or histogram with the given name in RocksDB.
            pub(crate) fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|figure| figure.name() == name)
            }
        }
    };
}

pub(super) use figures;

figures! {
    /// The tickers. Blocks that open tables keep in memory are not looked up in the block cache. So
    /// they count neither as hits nor as misses.
    Ticker {
        /// Lookups in the block cache that found no block.
        BlockCacheMiss = "rocksdb.block.cache.miss",
        /// Lookups in the block cache that found the block.
        BlockCacheHit = "rocksdb.block.cache.hit",
        /// Number of insertions of blocks into the block cache, including insertions of blocks that
        /// the cache already held.
        BlockCacheAdd = "rocksdb.block.cache.add",
        /// Blocks that the block cache refused because they did not fit.
        BlockCacheAddFailures = "rocksdb.block.cache.add.failures",
        BlockCacheIndexMiss = "rocksdb.block.cache.index.miss",
        BlockCacheIndexHit = "rocksdb.block.cache.index.hit",
        BlockCacheIndexAdd = "rocksdb.block.cache.index.add",
        /// Charge of inserted index blocks, in bytes.
        BlockCacheIndexBytesInsert = "rocksdb.block.cache.index.bytes.insert",
        BlockCacheFilterMiss = "rocksdb.block.cache.filter.miss",
        BlockCacheFilterHit = "rocksdb.block.cache.filter.hit",
        BlockCacheFilterAdd = "rocksdb.block.cache.filter.add",
        /// Charge of inserted filter blocks, in bytes.
        BlockCacheFilterBytesInsert = "rocksdb.block.cache.filter.bytes.insert",
        BlockCacheDataMiss = "rocksdb.block.cache.data.miss",
        BlockCacheDataHit = "rocksdb.block.cache.data.hit",
        BlockCacheDataAdd = "rocksdb.block.cache.data.add",
        /// Charge of inserted data blocks, in bytes.
        BlockCacheDataBytesInsert = "rocksdb.block.cache.data.bytes.insert",
        /// Charge of blocks found in the block cache, in bytes.
        BlockCacheBytesRead = "rocksdb.block.cache.bytes.read",
        /// Charge of all inserted blocks, in bytes.
        BlockCacheBytesWrite = "rocksdb.block.cache.bytes.write",
        /// Number of insertions of blocks that the cache already held, because another thread had
        /// inserted them first.
        BlockCacheAddRedundant = "rocksdb.block.cache.add.redundant",
        BlockCacheIndexAddRedundant = "rocksdb.block.cache.index.add.redundant",
        BlockCacheFilterAddRedundant = "rocksdb.block.cache.filter.add.redundant",
        BlockCacheDataAddRedundant = "rocksdb.block.cache.data.add.redundant",
        /// Number of searches of a table that a whole-key filter avoided.
        BloomFilterUseful = "rocksdb.bloom.filter.useful",
        /// Number of lookups in whole-key filters that answered "may be present".
        BloomFilterFullPositive = "rocksdb.bloom.filter.full.positive",
        /// Number of lookups in whole-key filters that answered "may be present" for a key that the
        /// table had.
        BloomFilterFullTruePositive = "rocksdb.bloom.filter.full.true.positive",
        /// Number of lookups in prefix filters.
        BloomFilterPrefixChecked = "rocksdb.bloom.filter.prefix.checked",
        /// Number of searches of a table that a prefix filter avoided.
        BloomFilterPrefixUseful = "rocksdb.bloom.filter.prefix.useful",
        /// Number of lookups in prefix filters that answered "may be present" for the prefix of a
        /// key that the table had.
        BloomFilterPrefixTruePositive = "rocksdb.bloom.filter.prefix.true.positive",
        /// Number of gets that memtables answered.
        MemtableHit = "rocksdb.memtable.hit",
        /// Number of gets that no memtable answered, and that searched tables.
        MemtableMiss = "rocksdb.memtable.miss",
        /// Number of gets that found their value in level 0.
        GetHitL0 = "rocksdb.l0.hit",
        /// Number of gets that found their value in level 1.
        GetHitL1 = "rocksdb.l1.hit",
        /// Number of gets that found their value in level 2 or deeper.
        GetHitL2AndUp = "rocksdb.l2andup.hit",
        /// Operations (puts, deletions, merges and others) of the batches that were written.
        KeysWritten = "rocksdb.number.keys.written",
        /// Number of gets, including those of absent keys.
        KeysRead = "rocksdb.number.keys.read",
        /// Total size of the batches that were written, in bytes.
        BytesWritten = "rocksdb.bytes.written",
        /// Total size, in bytes, of the values that get operations found.
        BytesRead = "rocksdb.bytes.read",
        /// Seeks of iterators, including those to the first or last key.
        DbSeek = "rocksdb.number.db.seek",
        /// Steps of iterators to the next key.
        DbNext = "rocksdb.number.db.next",
        /// Steps of iterators to the previous key.
        DbPrev = "rocksdb.number.db.prev",
        /// Seeks that ended on a key.
        DbSeekFound = "rocksdb.number.db.seek.found",
        /// Steps forward that ended on a key.
        DbNextFound = "rocksdb.number.db.next.found",
        /// Steps backward that ended on a key.
        DbPrevFound = "rocksdb.number.db.prev.found",
        /// Total size, in bytes, of the keys and values of the entries at which iterators were
        /// positioned.
        IterBytesRead = "rocksdb.db.iter.bytes.read",
        /// Seeks by which iterators skipped the remaining versions of a key, after stepping past
        /// many of them.
        Reseeks = "rocksdb.number.reseeks.iteration",
        IteratorsCreated = "rocksdb.num.iterator.created",
        IteratorsDeleted = "rocksdb.num.iterator.deleted",
        /// Tables that compactions opened with direct I/O for their own reads, in addition to the
        /// reader that users share. RocksDB has no such ticker.
        CompactionDirectFileOpens = "tailwater.compaction.direct.file.opens",
        /// Three tickers of warm handover. Warm handover keeps in memory the data that users read,
        /// when a flush or compaction replaces memtables or tables. RocksDB does not have these
        /// tickers. The first counts blocks that compactions and flushes handed over. The second
        /// counts regions of tables that were handed over only to the page cache and that users
        /// have read since. The third counts bytes handed over to the block cache.
        HandoverBlocks = "tailwater.handover.blocks",
        HandoverBlocksRead = "tailwater.handover.blocks.read",
        HandoverCachedBytes = "tailwater.handover.cached.bytes",
        /// Number of violated contracts, of single deletions, merge operators and compaction
        /// filters, that flushes and compactions found. RocksDB has no such ticker.
        ContractViolations = "tailwater.contract.violations",
        /// Tables opened, except those that `CompactionDirectFileOpens` counts.
        FileOpens = "rocksdb.no.file.opens",
        /// Tables that could not be opened.
        FileErrors = "rocksdb.no.file.errors",
        /// Time that writers waited because writes were slowed down or stopped, in microseconds.
        StallMicros = "rocksdb.stall.micros",
        /// Calls that get several keys (multi-gets).
        MultigetCalls = "rocksdb.number.multiget.get",
        MultigetKeysRead = "rocksdb.number.multiget.keys.read",
        MultigetBytesRead = "rocksdb.number.multiget.bytes.read",
        MultigetKeysFound = "rocksdb.number.multiget.keys.found",
        /// Number of sync operations. One operation may sync several logs.
        WalSynced = "rocksdb.wal.synced",
        /// Total size of the batches that were logged, in bytes.
        WalBytes = "rocksdb.wal.bytes",
        /// Number of batches that their own writer wrote, as the leader of its write group.
        WriteBySelf = "rocksdb.write.self",
        /// Number of batches that were written by the leader of their write group, and not by their
        /// own writer.
        WriteByOther = "rocksdb.write.other",
        /// Batches that were logged.
        WriteWithWal = "rocksdb.write.wal",
        /// Lookups in the row cache that found the row.
        RowCacheHit = "rocksdb.row.cache.hit",
        /// Lookups in the row cache that found no row, after which the table was searched.
        RowCacheMiss = "rocksdb.row.cache.miss",
        /// Number of bytes that compactions read.
        CompactReadBytes = "rocksdb.compact.read.bytes",
        /// Number of bytes that compactions wrote.
        CompactWriteBytes = "rocksdb.compact.write.bytes",
        /// Total size of the tables that flushes wrote, in bytes.
        FlushWriteBytes = "rocksdb.flush.write.bytes",
        /// Compactions that were not started, because they could exceed the space that the
        /// `SstFileManager` allows.
        CompactionCancelled = "rocksdb.compaction.cancelled",
        /// Obsolete files that were renamed, to be removed slowly.
        FilesMarkedTrash = "rocksdb.files.marked.trash",
        /// Obsolete files that were removed slowly.
        FilesDeletedFromTrashQueue = "rocksdb.files.marked.trash.deleted",
        /// Obsolete files that were removed in one step.
        FilesDeletedImmediately = "rocksdb.files.deleted.immediately",
        /// Flushes of a column family that began because a memtable had reached
        /// `write_buffer_size`.
        FlushReasonWriteBufferFull = "rocksdb.flush.reason.write_buffer_full",
        /// Flushes of a column family that began because memtables came near the limit of the write
        /// buffer manager.
        FlushReasonWriteBufferManager = "rocksdb.flush.reason.write_buffer_manager",
        /// Flushes of a column family that began because a memtable had reached
        /// `memtable_max_range_deletions`.
        FlushReasonRangeDeletions = "rocksdb.flush.reason.memtable_max_range_deletions",
        /// The same for requests of flushes with `atomic_flush`, each of which concerns all column
        /// families. The last of these tickers counts the requests for other reasons.
        AtomicFlushRequestWriteBufferFull =
            "rocksdb.atomic_flush.request.reason.write_buffer_full",
        AtomicFlushRequestWriteBufferManager =
            "rocksdb.atomic_flush.request.reason.write_buffer_manager",
        AtomicFlushRequestRangeDeletions =
            "rocksdb.atomic_flush.request.reason.memtable_max_range_deletions",
        AtomicFlushRequestOther = "rocksdb.atomic_flush.request.reason.other",
        /// Number of times that a thread waited for the next refill of the rate limiter.
        RateLimiterDrains = "rocksdb.number.rate_limiter.drains",
        /// Bytes of reads that the rate limiter granted.
        RateLimiterBytesRead = "rocksdb.rate.limiter.bytes.read",
        /// Bytes of writes that the rate limiter granted.
        RateLimiterBytesWrite = "rocksdb.rate.limiter.bytes.write",
        /// Requests for reads that the rate limiter granted. A large read is split into several.
        RateLimiterRequestsRead = "rocksdb.rate.limiter.requests.read",
        /// Requests for writes that the rate limiter granted. A large write is split into several.
        RateLimiterRequestsWrite = "rocksdb.rate.limiter.requests.write",
        /// Requests for reads that waited for a refill of the rate limiter.
        RateLimiterDelayedRead = "rocksdb.rate.limiter.delayed.requests.read",
        /// Requests for writes that waited for a refill of the rate limiter.
        RateLimiterDelayedWrite = "rocksdb.rate.limiter.delayed.requests.write",
        /// Time that reads waited for the rate limiter, in microseconds.
        RateLimiterWaitMicrosRead = "rocksdb.rate.limiter.total.wait.micros.read",
        /// Time that writes waited for the rate limiter, in microseconds.
        RateLimiterWaitMicrosWrite = "rocksdb.rate.limiter.total.wait.micros.write",
        /// Number of bytes that iterators read ahead.
        PrefetchBytes = "rocksdb.prefetch.bytes",
        /// Blocks that iterators found in their readahead buffers.
        PrefetchHits = "rocksdb.prefetch.hits",
    }
}
