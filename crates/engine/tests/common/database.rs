//! Helpers to open, write and read databases as users do.

use std::path::Path;
use std::sync::Arc;

use tailwater::env::Env;
use tailwater::{ColumnFamily, Db, ErrorKind, OpenOptions, Result, WriteOptions};
use tailwater_io::Storage;
use tailwater_io::sim::SimStorage;

/// Returns options that create a missing database.
pub(crate) fn options(text: &str) -> OpenOptions {
    with_storage(OpenOptions::default(), text)
}

/// Like [`options`], on a simulated disk and without background threads. If a test turns them on,
/// they are not those of the databases of other tests.
pub(crate) fn simulated(disk: &SimStorage, text: &str) -> OpenOptions {
    let mut options = OpenOptions::with_storage(Arc::new(disk.clone()));
    options.set_env(Env::new().with_clock(disk.clock()));
    options.set_inline_background(true);
    with_storage(options, text)
}

fn with_storage(mut options: OpenOptions, text: &str) -> OpenOptions {
    options.set_from_string("create_if_missing=true").expect("options");
    options.set_from_string(text).expect("options");
    options
}

/// Returns the options of a synced write.
pub(crate) fn synced() -> WriteOptions {
    WriteOptions::new().with_sync(true)
}

/// Returns the options of an unlogged write.
pub(crate) fn unlogged() -> WriteOptions {
    WriteOptions::new().with_disable_wal(true)
}

/// Returns the default column family.
pub(crate) fn default_family(db: &Db) -> ColumnFamily {
    db.cf_handle("default").expect("the default column family")
}

/// Returns the names of the entries of a directory.
pub(crate) fn names(storage: &dyn Storage, directory: &Path) -> Vec<String> {
    let entries = storage.list(directory).expect("a directory");
    entries.into_iter().map(|entry| entry.name).collect()
}

/// Returns the names of the logs in a directory, oldest first.
pub(crate) fn logs(storage: &dyn Storage, directory: &Path) -> Vec<String> {
    let mut logs = names(storage, directory);
    logs.retain(|name| name.ends_with(".log"));
    logs.sort();
    logs
}

/// Returns the kind and text of an error.
pub(crate) fn failure<T>(result: Result<T>) -> (ErrorKind, String) {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => (error.kind(), error.to_string()),
    }
}
