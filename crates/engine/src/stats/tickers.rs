//! What is counted, by RocksDB's names (`monitoring/statistics.cc`).

/// Declares an enumeration of figures with the names they are known by.
macro_rules! figures {
    ($(#[$about:meta])* $kind:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum $kind { $($(#[$doc])* $variant,)* }

        impl $kind {
            /// All, in the order of their numbers.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];
            /// How many there are.
            pub(crate) const COUNT: usize = Self::ALL.len();

            /// The name that RocksDB gives it.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The one of that name.
            pub(crate) fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|figure| figure.name() == name)
            }
        }
    };
}

pub(super) use figures;

figures! {
    /// What is counted. Blocks that open tables keep for themselves are not looked for in the block
    /// cache, and so are neither hits nor misses.
    Ticker {
        /// Blocks looked for in the block cache and not found there.
        BlockCacheMiss = "rocksdb.block.cache.miss",
        /// Blocks found in the block cache.
        BlockCacheHit = "rocksdb.block.cache.hit",
        /// Blocks put into the block cache, those included that somebody else had put there.
        BlockCacheAdd = "rocksdb.block.cache.add",
        /// Blocks that found no room in the block cache.
        BlockCacheAddFailures = "rocksdb.block.cache.add.failures",
        BlockCacheIndexMiss = "rocksdb.block.cache.index.miss",
        BlockCacheIndexHit = "rocksdb.block.cache.index.hit",
        BlockCacheIndexAdd = "rocksdb.block.cache.index.add",
        /// What index blocks were charged to the block cache, in bytes.
        BlockCacheIndexBytesInsert = "rocksdb.block.cache.index.bytes.insert",
        BlockCacheFilterMiss = "rocksdb.block.cache.filter.miss",
        BlockCacheFilterHit = "rocksdb.block.cache.filter.hit",
        BlockCacheFilterAdd = "rocksdb.block.cache.filter.add",
        /// What filter blocks were charged to the block cache, in bytes.
        BlockCacheFilterBytesInsert = "rocksdb.block.cache.filter.bytes.insert",
        BlockCacheDataMiss = "rocksdb.block.cache.data.miss",
        BlockCacheDataHit = "rocksdb.block.cache.data.hit",
        BlockCacheDataAdd = "rocksdb.block.cache.data.add",
        /// What data blocks were charged to the block cache, in bytes.
        BlockCacheDataBytesInsert = "rocksdb.block.cache.data.bytes.insert",
        /// What the blocks found in the block cache were charged to it, in bytes.
        BlockCacheBytesRead = "rocksdb.block.cache.bytes.read",
        /// What all blocks were charged to the block cache, in bytes.
        BlockCacheBytesWrite = "rocksdb.block.cache.bytes.write",
        /// Blocks that somebody else had put into the block cache meanwhile.
        BlockCacheAddRedundant = "rocksdb.block.cache.add.redundant",
        BlockCacheIndexAddRedundant = "rocksdb.block.cache.index.add.redundant",
        BlockCacheFilterAddRedundant = "rocksdb.block.cache.filter.add.redundant",
        BlockCacheDataAddRedundant = "rocksdb.block.cache.data.add.redundant",
        /// Gets that a filter of whole keys spared a table.
        BloomFilterUseful = "rocksdb.bloom.filter.useful",
        /// Gets that a filter of whole keys let through to a table.
        BloomFilterFullPositive = "rocksdb.bloom.filter.full.positive",
        /// Those of them for which the table had the key.
        BloomFilterFullTruePositive = "rocksdb.bloom.filter.full.true.positive",
        /// Gets that asked a filter of prefixes.
        BloomFilterPrefixChecked = "rocksdb.bloom.filter.prefix.checked",
        /// Those of them that it spared a table.
        BloomFilterPrefixUseful = "rocksdb.bloom.filter.prefix.useful",
        /// Gets that a filter of prefixes let through to a table that had the key.
        BloomFilterPrefixTruePositive = "rocksdb.bloom.filter.prefix.true.positive",
        /// Gets that memtables decided.
        MemtableHit = "rocksdb.memtable.hit",
        /// Gets that went on to tables.
        MemtableMiss = "rocksdb.memtable.miss",
        /// Gets that found their value in level 0.
        GetHitL0 = "rocksdb.l0.hit",
        /// Gets that found their value in level 1.
        GetHitL1 = "rocksdb.l1.hit",
        /// Gets that found their value in a deeper level.
        GetHitL2AndUp = "rocksdb.l2andup.hit",
        /// Operations that were written.
        KeysWritten = "rocksdb.number.keys.written",
        /// Gets, those of absent keys included.
        KeysRead = "rocksdb.number.keys.read",
        /// The bytes of batches that were written.
        BytesWritten = "rocksdb.bytes.written",
        /// The bytes of values that gets found.
        BytesRead = "rocksdb.bytes.read",
        /// Seeks of iterators, those to either end included.
        DbSeek = "rocksdb.number.db.seek",
        /// Steps of iterators to the next key.
        DbNext = "rocksdb.number.db.next",
        /// Steps of iterators to the key before.
        DbPrev = "rocksdb.number.db.prev",
        /// Seeks that ended on a key.
        DbSeekFound = "rocksdb.number.db.seek.found",
        /// Steps forward that ended on a key.
        DbNextFound = "rocksdb.number.db.next.found",
        /// Steps backward that ended on a key.
        DbPrevFound = "rocksdb.number.db.prev.found",
        /// The bytes of the keys and values that iterators came to stand on.
        IterBytesRead = "rocksdb.db.iter.bytes.read",
        /// Seeks of iterators past many versions of one key.
        Reseeks = "rocksdb.number.reseeks.iteration",
        IteratorsCreated = "rocksdb.num.iterator.created",
        IteratorsDeleted = "rocksdb.num.iterator.deleted",
        /// Tables that compactions opened for themselves, past the page cache. RocksDB has no such
        /// ticker.
        CompactionDirectFileOpens = "tailwater.compaction.direct.file.opens",
        /// Blocks that a compaction or flush handed over warm; those of them that only the page
        /// cache got and users read since; the bytes of those that went to the block cache. RocksDB
        /// has no such tickers.
        HandoverBlocks = "tailwater.handover.blocks",
        HandoverBlocksRead = "tailwater.handover.blocks.read",
        HandoverCachedBytes = "tailwater.handover.cached.bytes",
        /// Tables opened otherwise.
        FileOpens = "rocksdb.no.file.opens",
        /// Tables that could not be opened.
        FileErrors = "rocksdb.no.file.errors",
        /// How long writers waited because writes were slowed down or stopped, in microseconds.
        StallMicros = "rocksdb.stall.micros",
        /// Gets of several keys.
        MultigetCalls = "rocksdb.number.multiget.get",
        MultigetKeysRead = "rocksdb.number.multiget.keys.read",
        MultigetBytesRead = "rocksdb.number.multiget.bytes.read",
        MultigetKeysFound = "rocksdb.number.multiget.keys.found",
        /// Syncs of logs that somebody asked for.
        WalSynced = "rocksdb.wal.synced",
        /// The bytes of batches that were logged.
        WalBytes = "rocksdb.wal.bytes",
        /// Batches whose writer led their group.
        WriteBySelf = "rocksdb.write.self",
        /// Batches that another writer took along.
        WriteByOther = "rocksdb.write.other",
        /// Batches that were logged.
        WriteWithWal = "rocksdb.write.wal",
        /// The bytes that compactions read.
        CompactReadBytes = "rocksdb.compact.read.bytes",
        /// The bytes that compactions wrote.
        CompactWriteBytes = "rocksdb.compact.write.bytes",
        /// The bytes of tables that flushes wrote.
        FlushWriteBytes = "rocksdb.flush.write.bytes",
        /// The bytes that iterators read ahead.
        PrefetchBytes = "rocksdb.prefetch.bytes",
        /// Blocks that iterators took out of what was read ahead for earlier ones.
        PrefetchHits = "rocksdb.prefetch.hits",
    }
}
