//! fjall as a store.

use std::thread;
use std::time::Duration;

use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use tailwater_bench::store::{Direction, Engine, Failure, Scanned, Store};

use crate::CACHE_BYTES;

/// A fjall database, with fjall's default options for blocks and filters.
struct Fjall {
    database: Database,
    entries: Keyspace,
}

pub(crate) const ENGINE: Engine = Engine {
    name: "fjall",
    open: |directory, _options| {
        let database = Database::builder(directory).cache_size(CACHE_BYTES as u64).open()?;
        let entries = database.keyspace("entries", KeyspaceCreateOptions::default)?;
        Ok(Box::new(Fjall { database, entries }))
    },
};

impl Store for Fjall {
    fn name(&self) -> &'static str {
        ENGINE.name
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.entries.insert(key, value)?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure> {
        Ok(self.entries.get(key)?.map(|value| value.len()))
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
    ) -> Result<Scanned, Failure> {
        let mut scanned = Scanned::default();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut add = |guard: fjall::Guard| -> Result<(), Failure> {
            let (key, value) = guard.into_inner()?;
            scanned.add(&key, &value);
            Ok(())
        };
        let range = match (direction, from) {
            (Direction::Forward, Some(key)) => self.entries.range(key..),
            (Direction::Backward, Some(key)) => self.entries.range(..=key),
            (_, None) => self.entries.iter(),
        };
        match direction {
            Direction::Forward => range.take(limit).try_for_each(&mut add)?,
            Direction::Backward => range.rev().take(limit).try_for_each(&mut add)?,
        }
        Ok(scanned)
    }

    fn compact(&self) -> Result<(), Failure> {
        self.entries.rotate_memtable_and_wait()?;
        Ok(self.entries.major_compact()?)
    }

    fn settle(&self) -> Result<(), Failure> {
        self.entries.rotate_memtable_and_wait()?;
        while self.database.active_compactions() > 0 || self.database.outstanding_flushes() > 0 {
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}
