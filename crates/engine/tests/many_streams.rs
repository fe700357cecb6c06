//! Compactions that merge many tables. With direct I/O each input needs a buffer of its own, so a
//! fixed number of buffers would not suffice.
#![cfg(not(loom))]

use std::path::Path;
use std::time::Duration;

use tailwater::{ColumnFamily, CompactRangeOptions, Db, OpenOptions, WriteOptions};
use tailwater_testkit::filesystem::writes_directly;
use tempfile::TempDir;

/// The options of every database. Writes never wait for compactions, so that many tables can
/// accumulate in level 0.
const ALWAYS: &str = "create_if_missing=true;compression=kNoCompression;\
                      level0_slowdown_writes_trigger=1000;level0_stop_writes_trigger=1000;\
                      use_direct_io_for_compaction_reads=true";

/// Returns an empty directory. If direct I/O does not bypass the page cache there, prints what is
/// left out.
fn directory() -> TempDir {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    writes_directly(directory.path(), "many tables read directly");
    directory
}

fn open(directory: &Path, more: &str) -> (Db, ColumnFamily) {
    let mut options = OpenOptions::default();
    options.set_from_string(&format!("{ALWAYS};{more}")).expect("options");
    let db = Db::open(directory, &options).expect("a database");
    let family = db.cf_handle("default").expect("a family");
    (db, family)
}

/// Adds `tables` overlapping tables to level 0.
fn fill(db: &Db, family: &ColumnFamily, tables: usize) {
    for table in 0..tables {
        for key in 0..20 {
            let key = format!("{key:04}");
            let value = format!("{table}").repeat(100);
            db.put_cf_opt(family, key.as_bytes(), value.as_bytes(), &WriteOptions::default())
                .expect("a write");
        }
        db.flush_cf(family).expect("a flush");
    }
}

fn compact(tables: usize, more: &str) {
    let directory = directory();
    let (db, family) = open(directory.path(), &format!("disable_auto_compactions=true;{more}"));
    fill(&db, &family, tables);
    let compacted = db.compact_range_cf_opt(&family, None, None, &CompactRangeOptions::default());
    compacted.expect("a compaction");
    db.put_cf_opt(&family, b"a", b"b", &WriteOptions::default()).expect("a write after it");
}

/// The compaction can merge all 200 tables at once only if the limit on open files is at least
/// 4000.
#[test]
fn two_hundred_tables_of_level_0_are_merged() {
    compact(200, "");
}

#[test]
fn forty_tables_are_merged_in_requests_of_1_mib() {
    compact(40, "direct_request_size=1048576");
}

/// Tests automatic compactions of forty tables. If a compaction failed, the writes below would be
/// refused.
#[test]
fn forty_tables_are_merged_by_automatic_compactions() {
    let directory = directory();
    let requests = "direct_request_size=1048576";
    let (db, family) = open(directory.path(), &format!("disable_auto_compactions=true;{requests}"));
    fill(&db, &family, 40);
    drop((db, family));
    let (db, family) = open(directory.path(), requests);
    while db.live_files().iter().filter(|file| file.level == 0).count() >= 4 {
        db.put_cf_opt(&family, b"a", b"b", &WriteOptions::default()).expect("a concurrent write");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn six_tables_are_merged_with_16_mib_of_readahead() {
    compact(6, "compaction_readahead_size=16777216");
}

#[test]
fn two_hundred_tables_are_merged_through_the_page_cache() {
    compact(200, "use_direct_io_for_compaction_reads=false");
}
