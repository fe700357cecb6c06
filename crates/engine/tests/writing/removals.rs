//! Tests that files are removed when nobody uses them any more, and not before.

use std::collections::BTreeSet;
use std::time::Duration;

use tailwater::{ColumnFamily, CompactRangeOptions, Db, ReadOptions};
use tailwater_io::sim::SimStorage;

use crate::support::{default_family, names, property, put, simulated};

fn open(disk: &SimStorage, text: &str) -> (Db, ColumnFamily) {
    let mut options = simulated(disk, "disable_auto_compactions=true");
    options.set_from_string(text).expect("options");
    let db = Db::open("/db", &options).expect("a database");
    let family = default_family(&db);
    (db, family)
}

fn compact(db: &Db, family: &ColumnFamily) {
    db.compact_range_cf_opt(family, None, None, &CompactRangeOptions::default())
        .expect("a compaction");
}

/// Regression test: a table was moved to another level and then compacted. The table file was
/// removed although readers still used an older version, in which the table was not yet moved.
#[test]
fn a_moved_table_stays_while_an_older_version_is_read() {
    let disk = SimStorage::new(1);
    let (db, family) = open(&disk, "level_compaction_dynamic_level_bytes=false");
    put(&db, "a", "1").expect("a put");
    compact(&db, &family);
    assert_eq!(property(&db, "rocksdb.num-files-at-level1"), "1");
    db.close().expect("closing");
    drop((db, family));

    // With this limit on open tables, a table is opened only when it is read.
    let (db, family) = open(&disk, "level_compaction_dynamic_level_bytes=true;max_open_files=20");
    let mut older = db.raw_iterator_cf_opt(&family, &ReadOptions::default()).expect("an iterator");
    compact(&db, &family);
    assert_eq!(property(&db, "rocksdb.num-files-at-level6"), "1", "it was moved");
    put(&db, "a", "2").expect("a put");
    compact(&db, &family);
    put(&db, "b", "3").expect("a put");
    db.flush_all().expect("a flush, after which tables are removed");

    older.seek_to_first().expect("the table of the older version");
    assert_eq!(older.item(), Some((&b"a"[..], &b"1"[..])));
}

/// Returns the names of all files of the database, except those of its LOG.
fn files(disk: &SimStorage) -> BTreeSet<String> {
    names(disk, "/db".as_ref()).into_iter().filter(|name| !name.starts_with("LOG")).collect()
}

/// Makes tables, a log, a MANIFEST and an OPTIONS file obsolete.
fn replace_all(db: &Db, family: &ColumnFamily) {
    for value in ["1", "2"] {
        put(db, "a", value).expect("a put");
        db.flush_all().expect("a flush");
    }
    compact(db, family);
    for bytes in [50_000, 60_000, 70_000] {
        db.set_options_cf(family, &[("target_file_size_base", &format!("{bytes}"))])
            .expect("a change");
    }
}

/// Returns the names of the files that the database needs now. A log that is kept for recycling is
/// not needed.
fn needed_files(db: &Db, disk: &SimStorage) -> BTreeSet<String> {
    let oldest_log = property(db, "rocksdb.min-log-number-to-keep");
    let oldest_log = format!("{:06}.log", oldest_log.parse::<u64>().expect("a number"));
    let mut files = files(disk);
    files.retain(|name| !name.ends_with(".log") || *name >= oldest_log);
    files
}

/// Tests that no file of any kind is removed or recycled while file deletions are disabled, and
/// that all obsolete files are removed afterwards. Calls are counted.
#[test]
fn disabled_file_deletions_keep_files_of_every_kind() {
    for recycled in ["", "recycle_log_file_num=2"] {
        let disk = SimStorage::new(1);
        let text = format!("max_manifest_file_size=1;max_manifest_space_amp_pct=0;{recycled}");
        let (db, family) = open(&disk, &text);
        replace_all(&db, &family);
        put(&db, "b", "3").expect("a put");
        db.disable_file_deletions().expect("disabling");
        db.disable_file_deletions().expect("disabling again");
        assert_eq!(property(&db, "rocksdb.is-file-deletions-enabled"), "0");
        let before = needed_files(&db, &disk);
        replace_all(&db, &family);
        let during = files(&disk);
        let gone: Vec<&String> = before.difference(&during).collect();
        assert!(gone.is_empty(), "{gone:?} were removed");
        db.enable_file_deletions().expect("enabling");
        replace_all(&db, &family);
        assert!(before.is_subset(&files(&disk)), "deletions are disabled once more");
        assert_eq!(property(&db, "rocksdb.is-file-deletions-enabled"), "0");
        db.enable_file_deletions().expect("enabling again");
        assert_eq!(property(&db, "rocksdb.is-file-deletions-enabled"), "1");
        wait_until_removed(&db);
        let after = files(&disk);
        for kind in [".sst", ".log", "MANIFEST", "OPTIONS"] {
            let is_replaced = |name: &&String| name.contains(kind) && !after.contains(*name);
            assert!(before.iter().any(|name| is_replaced(&name)), "{kind}: {before:?}, {after:?}");
        }
        let count = |kind: &str| after.iter().filter(|name| name.contains(kind)).count();
        assert_eq!((count(".sst"), count("MANIFEST"), count("OPTIONS")), (1, 1, 2), "{after:?}");
        // Without a call to end, this does nothing.
        db.enable_file_deletions().expect("enabling once more");
        db.disable_file_deletions().expect("disabling");
        assert_eq!(property(&db, "rocksdb.is-file-deletions-enabled"), "0");
    }
}

/// Tests that a database that is closed while file deletions are disabled leaves its obsolete files
/// to the next opening, even if they are enabled afterwards.
#[test]
fn files_kept_by_disabled_deletions_are_removed_by_the_next_opening() {
    let disk = SimStorage::new(1);
    let (db, family) = open(&disk, "");
    db.disable_file_deletions().expect("disabling");
    let before = files(&disk);
    replace_all(&db, &family);
    db.close().expect("closing");
    let closed = files(&disk);
    assert!(before.is_subset(&closed));
    db.enable_file_deletions().expect("enabling");
    assert_eq!(files(&disk), closed, "a closed database removes nothing");
    drop((db, family));
    let (db, _) = open(&disk, "");
    let is_left = |name: &&String| name.ends_with(".log") || name.starts_with("MANIFEST");
    let left: Vec<String> = before.intersection(&files(&disk)).filter(is_left).cloned().collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(property(&db, "tailwater.num-obsolete-files"), "0");
}

/// Waits until all obsolete files are removed. The removal may be delayed by reads of other tests
/// in this process.
fn wait_until_removed(db: &Db) {
    for _ in 0..60_000 {
        if property(db, "tailwater.num-obsolete-files") == "0" {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
        // The end of a pause looks for files that can be removed.
        drop(db.pause_compactions().expect("a pause"));
    }
    panic!("obsolete files stay");
}
