//! The benchmark's [`Store`] interface, implemented for RocksDB.

use std::path::Path;

use rocksdb::{
    BottommostLevelCompaction, ColumnFamilyDescriptor, CompactOptions, DB, DBRawIterator,
    FlushOptions, Options, WaitForCompactOptions, WriteOptions,
};
use tailwater_bench::store::{Direction, Failure, Scanned, Store};

/// A RocksDB database, and the options of synced writes, which are created once.
pub(crate) struct RocksDb {
    db: DB,
    synced_writes: WriteOptions,
}

impl Store for RocksDb {
    const NAME: &'static str = "rocksdb";

    fn create(directory: &Path, options: &str) -> Result<Self, Failure> {
        let options = Options::default().get_options_from_string(options)?;
        // The default column family is opened by name, because only then does `DB` have a handle
        // for it.
        let default = ColumnFamilyDescriptor::new("default", options.clone());
        let mut synced_writes = WriteOptions::default();
        synced_writes.set_sync(true);
        let db = DB::open_cf_descriptors(&options, directory, [default])?;
        Ok(Self { db, synced_writes })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.db.put(key, value)?)
    }

    fn put_synced(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.db.put_opt(key, value, &self.synced_writes)?)
    }

    fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<(), Failure> {
        let family = self.db.cf_handle("default").ok_or("no default column family")?;
        Ok(self.db.delete_range_cf(family, begin, end)?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure> {
        Ok(self.db.get_pinned(key)?.map(|value| value.len()))
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<usize, Failure> {
        let family = self.db.cf_handle("default").ok_or("no default column family")?;
        let mut found = 0;
        for value in self.db.batched_multi_get_cf(family, keys, false) {
            found += usize::from(value?.is_some());
        }
        Ok(found)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
    ) -> Result<Scanned, Failure> {
        let mut iterator: DBRawIterator<'_> = self.db.raw_iterator();
        match (direction, from) {
            (Direction::Forward, Some(key)) => iterator.seek(key),
            (Direction::Forward, None) => iterator.seek_to_first(),
            (Direction::Backward, Some(key)) => iterator.seek_for_prev(key),
            (Direction::Backward, None) => iterator.seek_to_last(),
        }
        let mut scanned = Scanned::default();
        while scanned.entries < limit
            && let Some((key, value)) = iterator.item()
        {
            scanned.add(key, value);
            match direction {
                Direction::Forward => iterator.next(),
                Direction::Backward => iterator.prev(),
            }
        }
        Ok(iterator.status().map(|()| scanned)?)
    }

    fn compact(&self) -> Result<(), Failure> {
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        self.db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
        Ok(())
    }

    fn settle(&self) -> Result<(), Failure> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.db.flush_opt(&options)?;
        Ok(self.db.wait_for_compact(&WaitForCompactOptions::default())?)
    }

    fn property(&self, name: &str) -> Result<Option<String>, Failure> {
        Ok(self.db.property_value(name)?)
    }
}
