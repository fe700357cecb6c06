//! redb, as an implementation of the benchmark's [`Store`].

use redb::{Database, Durability, ReadTransaction, ReadableDatabase, TableDefinition};
use tailwater_bench::store::{Direction, Engine, Entry, Failure, Scanned, Store};

use crate::{CACHE_BYTES, TRANSACTION};

const ENTRIES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");

/// A redb database.
struct Redb(Database);

pub(crate) const ENGINE: Engine = Engine {
    name: "redb",
    open: |directory, _options| {
        let database =
            Database::builder().set_cache_size(CACHE_BYTES).create(directory.join("redb"))?;
        let transaction = database.begin_write()?;
        transaction.open_table(ENTRIES)?;
        transaction.commit()?;
        Ok(Box::new(Redb(database)))
    },
};

impl Redb {
    fn read(&self) -> Result<ReadTransaction, Failure> {
        Ok(self.0.begin_read()?)
    }
}

impl Store for Redb {
    fn name(&self) -> &'static str {
        ENGINE.name
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(Durability::None)?;
        transaction.open_table(ENTRIES)?.insert(key, value)?;
        Ok(transaction.commit()?)
    }

    fn put_all(&self, entries: &mut dyn Iterator<Item = Entry<'_>>) -> Result<(), Failure> {
        let mut entries = entries.peekable();
        while entries.peek().is_some() {
            let mut transaction = self.0.begin_write()?;
            transaction.set_durability(Durability::None)?;
            let mut table = transaction.open_table(ENTRIES)?;
            for (key, value) in entries.by_ref().take(TRANSACTION) {
                table.insert(&key[..], value)?;
            }
            drop(table);
            transaction.commit()?;
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure> {
        let table = self.read()?.open_table(ENTRIES)?;
        Ok(table.get(key)?.map(|value| value.value().len()))
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<usize, Failure> {
        let table = self.read()?.open_table(ENTRIES)?;
        let mut found = 0;
        for key in keys {
            found += usize::from(table.get(*key)?.is_some());
        }
        Ok(found)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
    ) -> Result<Scanned, Failure> {
        let table = self.read()?.open_table(ENTRIES)?;
        let from = from.unwrap_or_default();
        let mut scanned = Scanned::default();
        let mut range = match direction {
            Direction::Backward if !from.is_empty() => table.range(..=from)?,
            Direction::Forward | Direction::Backward => table.range(from..)?,
        };
        while scanned.entries < limit {
            let next = match direction {
                Direction::Forward => range.next(),
                Direction::Backward => range.next_back(),
            };
            let Some(entry) = next else { break };
            let (key, value) = entry?;
            scanned.add(key.value(), value.value());
        }
        Ok(scanned)
    }

    fn compact(&self) -> Result<(), Failure> {
        // A B-tree has no levels to compact. The empty commit makes all earlier commits durable.
        Ok(self.0.begin_write()?.commit()?)
    }

    fn settle(&self) -> Result<(), Failure> {
        Ok(())
    }
}
