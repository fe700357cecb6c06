//! RocksDB reads and compacts tables that ended because a block would have been too long.

use std::path::Path;

use tailwater::for_tests::EntryLimit;
use tailwater::{Db, OpenOptions, ReadOptions};
use tailwater_format::limits::block_length_max;
use tailwater_testkit::oracle::{Oracle, Script};

use crate::support::{ENTRY, KEY, compact, long_key};

fn open(directory: &Path) -> Db {
    let mut options = OpenOptions::default();
    let text = "create_if_missing=true;write_buffer_size=1G;disable_auto_compactions=true;\
                merge_operator=stringappend;compression=kNoCompression";
    options.set_from_string(text).expect("options");
    Db::open(directory, &options).expect("a database")
}

fn entries(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    let owned = |(key, value): (Box<[u8]>, Box<[u8]>)| (key.into_vec(), value.into_vec());
    db.range(..).map(|entry| owned(entry.expect("an entry"))).collect()
}

#[test]
fn rocksdb_reads_tables_that_ended_early() {
    let _limit = EntryLimit::of(ENTRY);
    let Some(mut oracle) = Oracle::start("tables that end before a block is too long") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path().join("db");
    let db = open(&directory);
    let count = block_length_max() / KEY + 10;
    // The versions of a key in several tables of the last level, and of level 0. The table of the
    // last level have them because of snapshots.
    let mut snapshots = Vec::new();
    for number in 0..count {
        db.put(long_key(number), "1").expect("a put");
        db.merge(long_key(7), "2").expect("a merge");
        snapshots.push(ReadOptions::new().with_snapshot(db.snapshot()));
    }
    db.flush().expect("a flush");
    compact(&db);
    for number in (count / 2..count).step_by(3) {
        db.delete_range(long_key(number), long_key(number + 2)).expect("a deletion");
        db.delete_range(long_key(number), long_key(number + 1)).expect("a deletion");
    }
    db.delete_range("a", "b").expect("a deletion");
    for _ in 0..2 * count {
        db.merge(long_key(7), "3").expect("a merge");
        db.merge(long_key(count - 1), "4").expect("a merge");
    }
    db.flush().expect("a flush");
    let tables = |is_level_0: bool| {
        db.live_files().iter().filter(|file| (file.level == 0) == is_level_0).count()
    };
    assert!(tables(true) > 3 && tables(false) > 3);
    let expected = entries(&db);
    drop(snapshots);
    db.close().expect("closing");
    drop(db);

    let families = [("default", "merge_operator=stringappend")];
    let mut script = Script::describe(&directory, "", &families);
    script.line(&[&"open-existing"]);
    script.line(&[&"verify"]);
    let found = |oracle: &mut Oracle, script| {
        let dump = oracle.dump_open(script).unwrap_or_else(|error| panic!("RocksDB: {error}"));
        dump.into_iter().map(|entry| (entry.key, entry.value)).collect::<Vec<_>>()
    };
    assert!(found(&mut oracle, script) == expected, "what RocksDB reads");
    let mut script = Script::default();
    script.compact("default");
    script.line(&[&"verify"]);
    assert!(found(&mut oracle, script) == expected, "what RocksDB reads after it has compacted");
    let mut script = Script::default();
    script.line(&[&"close"]);
    oracle.run(&script).expect("closing");
    assert!(entries(&open(&directory)) == expected, "what RocksDB has compacted");
}
