//! LMDB as a store.

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};
use tailwater_bench::store::{Direction, Engine, Entry, Failure, Scanned, Store};

use crate::TRANSACTION;

/// Maximum size of the database file, in bytes. The file is sparse: unwritten parts take no disk
/// space.
const MAP_BYTES: usize = 64 << 30;

/// An LMDB database.
struct Lmdb {
    environment: Env,
    entries: Database<Bytes, Bytes>,
}

pub(crate) const ENGINE: Engine = Engine { name: "lmdb", open: create };

#[expect(unsafe_code, reason = "maps a file, in a directory that only this run uses")]
fn create(directory: &Path, _options: &str) -> Result<Box<dyn Store>, Failure> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES);
    // SAFETY: only this process opens or changes the files, and data lost in a crash does not
    // matter.
    let environment = unsafe { options.flags(EnvFlags::NO_SYNC).open(directory)? };
    let mut transaction = environment.write_txn()?;
    let entries = environment.create_database(&mut transaction, None)?;
    transaction.commit()?;
    Ok(Box::new(Lmdb { environment, entries }))
}

impl Store for Lmdb {
    fn name(&self) -> &'static str {
        ENGINE.name
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut transaction = self.environment.write_txn()?;
        self.entries.put(&mut transaction, key, value)?;
        Ok(transaction.commit()?)
    }

    fn put_all(&self, entries: &mut dyn Iterator<Item = Entry<'_>>) -> Result<(), Failure> {
        let mut entries = entries.peekable();
        while entries.peek().is_some() {
            let mut transaction = self.environment.write_txn()?;
            for (key, value) in entries.by_ref().take(TRANSACTION) {
                self.entries.put(&mut transaction, &key, value)?;
            }
            transaction.commit()?;
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure> {
        let transaction = self.environment.read_txn()?;
        Ok(self.entries.get(&transaction, key)?.map(<[u8]>::len))
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<usize, Failure> {
        let transaction = self.environment.read_txn()?;
        let mut found = 0;
        for key in keys {
            found += usize::from(self.entries.get(&transaction, key)?.is_some());
        }
        Ok(found)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
    ) -> Result<Scanned, Failure> {
        let transaction = self.environment.read_txn()?;
        let begin = from.map_or(Bound::Unbounded, Bound::Included);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut scanned = Scanned::default();
        let mut add = |entry: heed::Result<(&[u8], &[u8])>| -> Result<(), Failure> {
            let (key, value) = entry?;
            scanned.add(key, value);
            Ok(())
        };
        match direction {
            Direction::Forward => {
                let range = (begin, Bound::<&[u8]>::Unbounded);
                self.entries.range(&transaction, &range)?.take(limit).try_for_each(&mut add)?;
            }
            Direction::Backward => {
                let range = (Bound::<&[u8]>::Unbounded, begin);
                self.entries.rev_range(&transaction, &range)?.take(limit).try_for_each(&mut add)?;
            }
        }
        Ok(scanned)
    }

    fn compact(&self) -> Result<(), Failure> {
        Ok(self.environment.force_sync()?)
    }

    fn settle(&self) -> Result<(), Failure> {
        Ok(())
    }
}
