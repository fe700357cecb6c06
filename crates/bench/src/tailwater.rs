//! Tailwater as a store.

use std::cell::RefCell;
use std::path::Path;
use std::thread;
use std::time::Duration;

use tailwater::{
    BottommostRewrite, ColumnFamily, CompactRangeOptions, Db, OpenOptions, ReadOptions,
    WriteOptions,
};

use crate::store::{Direction, Failure, Scanned, Store};

thread_local! {
    /// Where a get copies to: copying takes no reference that another thread would see.
    static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A database of Tailwater's.
pub struct Tailwater {
    db: Db,
    family: ColumnFamily,
    reads: ReadOptions,
    writes: WriteOptions,
    synced_writes: WriteOptions,
}

impl Store for Tailwater {
    const NAME: &'static str = "tailwater";

    fn create(directory: &Path, options: &str) -> Result<Self, Failure> {
        let mut open = OpenOptions::default();
        open.set_options(options)?;
        let db = Db::open(directory, &open)?;
        let family = db.column_family("default")?;
        let (reads, writes) = (ReadOptions::default(), WriteOptions::default());
        let synced_writes = WriteOptions { sync: true, ..writes };
        Ok(Self { db, family, reads, writes, synced_writes })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.db.put(&self.family, key, value, &self.writes)?)
    }

    fn put_synced(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.db.put(&self.family, key, value, &self.synced_writes)?)
    }

    fn delete_range(&self, begin: &[u8], end: &[u8]) -> Result<(), Failure> {
        Ok(self.db.delete_range(&self.family, begin, end, &self.writes)?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure> {
        VALUE.with_borrow_mut(|value| {
            let found = self.db.get_into(&self.family, key, &self.reads, value)?;
            Ok(found.then_some(value.len()))
        })
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<usize, Failure> {
        let mut found = 0;
        for value in self.db.multi_get(&self.family, keys, &self.reads) {
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
        let mut iterator = self.db.iterator(&self.family, &self.reads)?;
        match (direction, from) {
            (Direction::Forward, Some(key)) => iterator.seek(key)?,
            (Direction::Forward, None) => iterator.seek_to_first()?,
            (Direction::Backward, Some(key)) => iterator.seek_for_prev(key)?,
            (Direction::Backward, None) => iterator.seek_to_last()?,
        }
        let mut scanned = Scanned::default();
        while scanned.entries < limit
            && let Some((key, value)) = iterator.entry()
        {
            scanned.add(key, value);
            match direction {
                Direction::Forward => iterator.next()?,
                Direction::Backward => iterator.previous()?,
            }
        }
        Ok(scanned)
    }

    fn compact(&self) -> Result<(), Failure> {
        let everything =
            CompactRangeOptions { bottommost_level_compaction: BottommostRewrite::Force };
        Ok(self.db.compact_range(&self.family, None, None, &everything)?)
    }

    fn settle(&self) -> Result<(), Failure> {
        self.db.flush(&self.family)?;
        while self.db.needs_compaction(&self.family) || self.db.running_compactions() > 0 {
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn property(&self, name: &str) -> Result<Option<String>, Failure> {
        Ok(self.db.property(&self.family, name)?)
    }
}
