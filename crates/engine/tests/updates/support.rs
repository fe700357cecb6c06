//! Helpers of the tests of followers.

use std::path::Path;

use tailwater::{Db, Error, Updates, WriteOptions};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};

use crate::database;
pub(crate) use crate::database::{default_family, failure, options, simulated, synced, unlogged};

pub(crate) const PATH: &str = "/db";

/// Opens a database on a simulated disk. Background work runs in the calling thread.
pub(crate) fn open(disk: &SimStorage, text: &str) -> Db {
    let db = Db::open(PATH, &simulated(disk, text));
    db.unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Puts a key with a value equal to the key.
pub(crate) fn put(db: &Db, key: &str) {
    put_with(db, key, &WriteOptions::default());
}

pub(crate) fn put_with(db: &Db, key: &str, options: &WriteOptions) {
    db.put_cf_opt(&default_family(db), key.as_bytes(), key.as_bytes(), options).expect("a put");
}

/// Returns the keys in all batches that are available, or the error with which the updates end.
pub(crate) fn keys(updates: &mut Updates) -> Result<Vec<String>, Error> {
    let mut keys = Vec::new();
    for batch in updates {
        for record in batch?.reader().expect("a batch") {
            let key = record.expect("a record").key.to_vec();
            keys.push(String::from_utf8(key).expect("text"));
        }
    }
    Ok(keys)
}

/// Asserts that the available batches have exactly these keys, in this order.
#[track_caller]
pub(crate) fn expect_keys(updates: &mut Updates, expected: &[&str]) {
    assert_eq!(keys(updates).expect("batches"), expected);
}

/// Returns the names of the logs, oldest first.
pub(crate) fn logs(disk: &SimStorage) -> Vec<String> {
    database::logs(disk, PATH.as_ref())
}

/// Changes the contents of a log file without the database's knowledge.
pub(crate) fn meddle(
    disk: &SimStorage,
    log: &str,
    meddle: impl FnOnce(&mut dyn tailwater_io::WriteFile),
) {
    let path = Path::new(PATH).join(log);
    let file = disk.create(&path, Create::Existing, IoMode::Buffered, Purpose::Wal);
    meddle(&mut *file.expect("the log"));
}
