//! Concurrent readers of a table that is not yet open.

use std::sync::{Arc, Barrier};
use std::thread;

use tailwater::{Db, OpenOptions, ReadOptions, Statistics, WriteOptions};

const READERS: usize = 8;
const ROUNDS: usize = 40;

#[test]
fn concurrent_readers_open_a_table_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = OpenOptions::default();
    // Because of the limit on open tables, the table is not opened with the database, but by the
    // readers.
    options.set_from_string("create_if_missing=true;max_open_files=20").expect("options");
    let db = Db::open(directory.path(), &options).expect("a database");
    let family = db.cf_handle("default").expect("the default column family");
    for key in 0..1000_u32 {
        db.put_cf_opt(&family, key.to_be_bytes(), [0; 100], &WriteOptions::default())
            .expect("a put");
    }
    db.flush_cf(&family).expect("a flush");
    drop((family, db));
    for round in 0..ROUNDS {
        let statistics = Arc::new(Statistics::new());
        options.set_statistics(Arc::clone(&statistics));
        let db = Db::open(directory.path(), &options).expect("the database");
        let family = db.cf_handle("default").expect("the default column family");
        let all_there = Barrier::new(READERS);
        thread::scope(|scope| {
            for reader in 0..READERS as u32 {
                let (db, family, all_there) = (&db, &family, &all_there);
                scope.spawn(move || {
                    all_there.wait();
                    let found =
                        db.get_cf_opt(family, reader.to_be_bytes(), &ReadOptions::default());
                    assert_eq!(found.expect("a get"), Some(vec![0; 100]));
                });
            }
        });
        assert_eq!(statistics.ticker("rocksdb.no.file.opens"), Some(1), "in round {round}");
    }
}
