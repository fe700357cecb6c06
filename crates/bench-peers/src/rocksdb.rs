//! RocksDB as a store.

use std::path::Path;

use rocksdb::{
    BottommostLevelCompaction, ColumnFamilyDescriptor, CompactOptions, DB, DBRawIterator,
    FlushOptions, Options, WaitForCompactOptions,
};
use tailwater_bench::store::{Direction, Failure, Scanned, Store};

/// A database of RocksDB's.
pub(crate) struct RocksDb(DB);

impl Store for RocksDb {
    const NAME: &'static str = "rocksdb";

    fn create(directory: &Path, options: &str) -> Result<Self, Failure> {
        let options = Options::default().get_options_from_string(options)?;
        // Named, so that there is a handle of it.
        let default = ColumnFamilyDescriptor::new("default", options.clone());
        Ok(Self(DB::open_cf_descriptors(&options, directory, [default])?))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.0.put(key, value)?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure> {
        Ok(self.0.get_pinned(key)?.map(|value| value.len()))
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<usize, Failure> {
        let family = self.0.cf_handle("default").ok_or("no default column family")?;
        let mut found = 0;
        for value in self.0.batched_multi_get_cf(family, keys, false) {
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
        let mut iterator: DBRawIterator<'_> = self.0.raw_iterator();
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
        self.0.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
        Ok(())
    }

    fn settle(&self) -> Result<(), Failure> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.0.flush_opt(&options)?;
        Ok(self.0.wait_for_compact(&WaitForCompactOptions::default())?)
    }

    fn property(&self, name: &str) -> Result<Option<String>, Failure> {
        Ok(self.0.property_value(name)?)
    }
}
