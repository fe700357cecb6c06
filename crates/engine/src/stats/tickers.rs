//! Tickers, by RocksDB's names (`monitoring/statistics.cc`).

/// Declares an enumeration of figures (tickers or histograms) with their names in RocksDB.
macro_rules! figures {
    ($(#[$about:meta])* $kind:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum $kind { $($(#[$doc])* $variant,)* }

        impl $kind {
            /// All figures, in the order of their numbers.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];
            /// Number of figures.
            pub(crate) const COUNT: usize = Self::ALL.len();

            /// Returns the figure's name in RocksDB.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the figure with the given name.
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
        /// Inserts of blocks into the block cache, including inserts of blocks that the cache
        /// already held.
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
        /// Inserts of blocks that the cache already held, because another thread had inserted them
        /// first.
        BlockCacheAddRedundant = "rocksdb.block.cache.add.redundant",
        BlockCacheIndexAddRedundant = "rocksdb.block.cache.index.add.redundant",
        BlockCacheFilterAddRedundant = "rocksdb.block.cache.filter.add.redundant",
        BlockCacheDataAddRedundant = "rocksdb.block.cache.data.add.redundant",
        /// Searches of a table avoided by a filter of whole keys.
        BloomFilterUseful = "rocksdb.bloom.filter.useful",
        /// Lookups in filters of whole keys that did not exclude the key.
        BloomFilterFullPositive = "rocksdb.bloom.filter.full.positive",
        /// Lookups in filters of whole keys that did not exclude the key, in tables that had the
        /// key.
        BloomFilterFullTruePositive = "rocksdb.bloom.filter.full.true.positive",
        /// Lookups in filters of prefixes.
        BloomFilterPrefixChecked = "rocksdb.bloom.filter.prefix.checked",
        /// Searches of a table avoided by a filter of prefixes.
        BloomFilterPrefixUseful = "rocksdb.bloom.filter.prefix.useful",
        /// Lookups in filters of prefixes that did not exclude the key's prefix, in tables that had
        /// the key.
        BloomFilterPrefixTruePositive = "rocksdb.bloom.filter.prefix.true.positive",
        /// Gets that memtables answered.
        MemtableHit = "rocksdb.memtable.hit",
        /// Gets that no memtable answered, and that searched tables.
        MemtableMiss = "rocksdb.memtable.miss",
        /// Gets that found their value in level 0.
        GetHitL0 = "rocksdb.l0.hit",
        /// Gets that found their value in level 1.
        GetHitL1 = "rocksdb.l1.hit",
        /// Gets that found their value in a deeper level.
        GetHitL2AndUp = "rocksdb.l2andup.hit",
        /// Operations (puts, deletions, merges and others) of the batches that were written.
        KeysWritten = "rocksdb.number.keys.written",
        /// Gets, including those of absent keys.
        KeysRead = "rocksdb.number.keys.read",
        /// Total size of the batches that were written, in bytes.
        BytesWritten = "rocksdb.bytes.written",
        /// Total size of the values that gets found, in bytes.
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
        /// Three tickers of warm handover, which keeps blocks that users read in memory when a
        /// compaction replaces their tables. RocksDB does not have these tickers. The first counts
        /// blocks that compactions and flushes handed over. The second counts regions of tables
        /// that were handed over only to the page cache and that users have read since. The third
        /// counts bytes handed over to the block cache.
        HandoverBlocks = "tailwater.handover.blocks",
        HandoverBlocksRead = "tailwater.handover.blocks.read",
        HandoverCachedBytes = "tailwater.handover.cached.bytes",
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
        /// Syncs of the logs, each of which may sync several logs.
        WalSynced = "rocksdb.wal.synced",
        /// Total size of the batches that were logged, in bytes.
        WalBytes = "rocksdb.wal.bytes",
        /// Batches that their own writer wrote, as the leader of its write group.
        WriteBySelf = "rocksdb.write.self",
        /// Batches that another writer wrote, the leader of the batch's write group.
        WriteByOther = "rocksdb.write.other",
        /// Batches that were logged.
        WriteWithWal = "rocksdb.write.wal",
        /// Number of bytes that compactions read.
        CompactReadBytes = "rocksdb.compact.read.bytes",
        /// Number of bytes that compactions wrote.
        CompactWriteBytes = "rocksdb.compact.write.bytes",
        /// Total size of the tables that flushes wrote, in bytes.
        FlushWriteBytes = "rocksdb.flush.write.bytes",
        /// Number of bytes that iterators read ahead.
        PrefetchBytes = "rocksdb.prefetch.bytes",
        /// Blocks that iterators found in their readahead buffers.
        PrefetchHits = "rocksdb.prefetch.hits",
    }
}
