//! Blocks that hold many entries end, or their tables end, before the blocks are too long.

use std::path::Path;

use tailwater::for_tests::EntryLimit;
use tailwater::{Db, ErrorKind, OpenOptions, ReadOptions, SstFileWriter};
use tailwater_format::key::ValueType;
use tailwater_format::limits::block_length_max;
use tailwater_io::Operation;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};

use crate::database::names;
use crate::support::{
    ENTRY, KEY, PATH, close_and_verify, compact, count, failure, long_key, simulated,
};

/// Number of keys of the maximum length, a little more than an index block can have.
fn too_many_keys() -> usize {
    block_length_max() / KEY + 10
}

fn options(disk: &SimStorage, more: &str) -> OpenOptions {
    let text = "write_buffer_size=1G;level0_file_num_compaction_trigger=100;\
                merge_operator=stringappendtest;compression=kNoCompression";
    simulated(disk, &format!("{text};{more}"))
}

fn check_puts(db: &Db, keys: usize) {
    let mut cursor = db.raw_iterator().expect("an iterator");
    cursor.seek_to_first().expect("a seek");
    for number in 0..keys {
        let key = long_key(number);
        let value = number.to_string().into_bytes();
        assert!(cursor.item() == Some((&key[..], &value[..])), "{number}");
        cursor.next().expect("a step");
        assert!(db.get(&key).expect("a get") == Some(value), "{number}");
    }
    assert!(!cursor.valid());
}

/// Regression test: a data block ended only when it had reached `block_size`. With a large
/// `block_size`, entries of ordinary length made it longer than 4 GiB; flushes then failed.
#[test]
fn a_data_block_ends_before_an_entry_that_would_make_it_too_long() {
    let _limit = EntryLimit::of(ENTRY);
    for deviation in [0, 10, 100] {
        let disk = SimStorage::new(1);
        let table = format!("block_size=8M;block_size_deviation={deviation}");
        let options = options(&disk, &format!("block_based_table_factory={{{table}}}"));
        let db = Db::open(PATH, &options).expect("a database");
        let value = vec![b'v'; ENTRY - 8];
        let keys = 3 * block_length_max() / value.len();
        for key in 0..keys {
            db.put(format!("{key:08}"), &value).expect("a put");
        }
        db.flush().expect("a flush");
        assert!((0..keys).all(|key| db.get(format!("{key:08}")).expect("a get").is_some()));
        db.compact_range(None, None).expect("a compaction");
        assert_eq!(db.range(..).map(Result::unwrap).filter(|(_, it)| **it == *value).count(), keys);
        close_and_verify(db, &options);
    }
}

/// Regression test: the index block of a table could become longer than 4 GiB. Flushes of such a
/// table failed, so the database did not open.
#[test]
fn a_table_ends_before_its_index_is_too_long() {
    let _limit = EntryLimit::of(ENTRY);
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &options(&disk, "")).expect("a database");
    let keys = 2 * too_many_keys();
    for number in (0..keys).rev() {
        db.put(long_key(number), number.to_string()).expect("a put");
    }
    // Recovery flushes all keys from the log.
    let disk = disk.process_crash_image(1);
    let db = Db::open(PATH, &options(&disk, "")).expect("a database");
    let tables = db.live_files().len();
    assert!((3..8).contains(&tables), "{tables}");
    check_puts(&db, keys);
    for number in 0..keys {
        db.put(long_key(number), number.to_string()).expect("a put");
    }
    db.flush().expect("a flush");
    assert_eq!(db.live_files().len(), 2 * tables);
    check_puts(&db, keys);
    db.compact_range(None, None).expect("a compaction");
    assert_eq!(db.live_files().len(), tables);
    check_puts(&db, keys);
    close_and_verify(db, &options(&disk, ""));
}

/// A flush that writes several tables is atomic, whichever of its calls fails.
#[test]
fn a_flush_of_several_tables_installs_all_or_none() {
    let _limit = EntryLimit::of(ENTRY);
    let tables = |disk: &SimStorage| {
        let mut names = names(disk, Path::new(PATH));
        names.retain(|name| name.ends_with(".sst"));
        names.len()
    };
    let keys = 2 * too_many_keys();
    for (operation, call) in [Operation::Create, Operation::Write, Operation::Sync]
        .into_iter()
        .flat_map(|operation| (0..4).map(move |call| (operation, call)))
    {
        let disk = SimStorage::new(call);
        let own = options(&disk, "max_bgerror_resume_count=0");
        let db = Db::open(PATH, &own).expect("a database");
        for number in 0..keys {
            db.put(long_key(number), number.to_string()).expect("a put");
        }
        db.flush_wal(true).expect("a sync");
        let rule = FaultRule::new(Fault::NoSpace).path_containing(".sst").operation(operation);
        disk.set_faults(FaultPlan::none().with(rule.at(call)));
        db.flush().expect_err("no space");
        assert_eq!((db.live_files().len(), tables(&disk)), (0, 0), "{operation:?} {call}");
        disk.set_faults(FaultPlan::none());
        check_puts(&Db::open(PATH, &options(&disk.crash_image(call), "")).expect("recovery"), keys);
        db.resume().expect("writes resume");
        db.flush().expect("a flush");
        assert!(tables(&disk) > 1);
        check_puts(&Db::open(PATH, &options(&disk.crash_image(call), "")).expect("recovery"), keys);
        check_puts(&db, keys);
        close_and_verify(db, &own);
    }
}

/// Regression test: see [`a_table_ends_before_its_index_is_too_long`].
#[test]
fn a_table_ends_between_versions_of_a_key() {
    let _limit = EntryLimit::of(ENTRY);
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &options(&disk, "")).expect("a database");
    let operands = 3 * too_many_keys();
    let operand = |number: usize| format!("{number:04}");
    let expected =
        |from: usize, to: usize| (from..to).map(operand).collect::<Vec<_>>().join(",").into_bytes();
    // The operands of this operator are merged only with a base value or at the last level.
    let key = long_key(1);
    let mut snapshots = Vec::new();
    for number in 0..operands {
        db.merge(&key, operand(number)).expect("a merge");
        if number % 7 == 0 {
            snapshots.push((number, ReadOptions::new().with_snapshot(db.snapshot())));
        }
    }
    db.put(long_key(0), "before").expect("a put");
    db.put(long_key(2), "after").expect("a put");
    let check = |db: &Db| {
        assert!(db.get(&key).expect("a get") == Some(expected(0, operands)));
        for (number, options) in &snapshots {
            assert!(db.get_opt(&key, options).expect("a get") == Some(expected(0, number + 1)));
        }
        let mut cursor = db.raw_iterator().expect("an iterator");
        cursor.seek_to_last().expect("a seek");
        for wanted in [&b"after"[..], &expected(0, operands), b"before"] {
            assert!(cursor.value() == wanted);
            cursor.prev().expect("a step");
        }
        assert!(!cursor.valid());
    };
    check(&db);
    db.flush().expect("a flush");
    let tables = db.live_files().len();
    assert!((3..8).contains(&tables), "{tables}");
    check(&db);
    db.compact_range(None, None).expect("a compaction");
    // That compaction moves the tables; this one rewrites them.
    compact(&db);
    assert!(db.live_files().iter().all(|file| file.level > 0));
    let tables = db.live_files().len();
    assert!((3..8).contains(&tables), "{tables}");
    check(&db);
    // The next compaction takes all tables that have versions of the key.
    db.put(long_key(0), "before").expect("a put");
    db.compact_range(None, Some(b"kkk")).expect("a compaction");
    check(&db);
    drop(snapshots);
    compact(&db);
    assert!(db.get(&key).expect("a get") == Some(expected(0, operands)));
    close_and_verify(db, &options(&disk, ""));
}

/// As in [`a_table_ends_between_versions_of_a_key`], but a range tombstone covers the key.
#[test]
fn a_table_ends_between_versions_of_a_key_that_are_newer_than_a_range_tombstone() {
    let _limit = EntryLimit::of(ENTRY);
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &options(&disk, "")).expect("a database");
    let key = long_key(1);
    db.put(&key, "deleted").expect("a put");
    db.put("c", "deleted").expect("a put");
    db.put("z", "value").expect("a put");
    db.delete_range("b", "y").expect("a deletion");
    db.put("x", "newer").expect("a put");
    let operands = 3 * too_many_keys();
    for _ in 0..operands {
        db.merge(&key, "1").expect("a merge");
    }
    let check = |db: &Db| {
        let value = db.get(&key).expect("a get").expect("a value");
        assert_eq!(value.len(), 2 * operands - 1);
        assert!(db.get("c").expect("a get").is_none());
        let keys: Vec<_> = db.range(..).map(|entry| entry.expect("an entry").0).collect();
        assert!(keys.iter().map(|key| &key[..]).eq([&key[..], b"x", b"z"]));
    };
    check(&db);
    let disk = disk.process_crash_image(1);
    let db = Db::open(PATH, &options(&disk, "")).expect("a database");
    assert!(db.live_files().len() > 2);
    check(&db);
    db.compact_range(None, None).expect("a compaction");
    check(&db);
    close_and_verify(db, &options(&disk, ""));
}

/// Versions of a key that only snapshots keep, and that are older than a range tombstone, must be
/// in one table. If they do not fit, the flush fails until the snapshots are released.
#[test]
fn versions_below_a_range_tombstone_that_fit_no_table_fail_the_flush() {
    let _limit = EntryLimit::of(ENTRY);
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &options(&disk, "")).expect("a database");
    let key = long_key(1);
    let mut snapshots = Vec::new();
    let versions = 2 * too_many_keys();
    for number in 0..versions {
        db.put(&key, number.to_string()).expect("a put");
        snapshots.push(ReadOptions::new().with_snapshot(db.snapshot()));
    }
    db.delete_range("b", "y").expect("a deletion");
    let (kind, text) = failure(db.flush());
    assert_eq!(kind, ErrorKind::NotSupported, "{text}");
    assert!(db.get(&key).expect("a get").is_none());
    for (number, options) in snapshots.iter().enumerate() {
        let found = db.get_opt(&key, options).expect("a get");
        assert_eq!(found, Some(number.to_string().into_bytes()));
    }
    let recovered = disk.process_crash_image(1);
    let again = Db::open(PATH, &options(&recovered, "")).expect("a database without snapshots");
    assert!(again.get(&key).expect("a get").is_none());
    drop(snapshots);
    db.resume().expect("writes resume");
    db.flush().expect("a flush");
    assert!(db.get(&key).expect("a get").is_none());
    close_and_verify(db, &options(&disk, ""));
}

/// As in [`versions_below_a_range_tombstone_that_fit_no_table_fail_the_flush`], for a compaction of
/// tables each of which has some of the versions.
#[test]
fn versions_below_a_range_tombstone_that_fit_no_table_fail_the_compaction() {
    let _limit = EntryLimit::of(ENTRY);
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &options(&disk, "")).expect("a database");
    let key = long_key(1);
    let mut snapshots = Vec::new();
    for number in 0..2 * too_many_keys() {
        db.put(&key, number.to_string()).expect("a put");
        snapshots.push(ReadOptions::new().with_snapshot(db.snapshot()));
        if number % 50 == 0 {
            db.flush().expect("a flush");
        }
    }
    db.flush().expect("a flush");
    db.delete_range("b", "y").expect("a deletion");
    let check = |db: &Db| {
        assert!(db.get(&key).expect("a get").is_none());
        for (number, options) in snapshots.iter().enumerate() {
            let found = db.get_opt(&key, options).expect("a get");
            assert_eq!(found, Some(number.to_string().into_bytes()));
        }
    };
    let (kind, text) = failure(db.compact_range(None, None));
    assert_eq!(kind, ErrorKind::NotSupported, "{text}");
    check(&db);
    assert!(db.background_error().is_none(), "writes are not refused");
    drop(snapshots);
    db.compact_range(None, None).expect("a compaction");
    assert!(db.get(&key).expect("a get").is_none());
    close_and_verify(db, &options(&disk, ""));
}

/// Regression test: the block of range tombstones could become longer than 4 GiB. Flushes of such a
/// table failed, so the database did not open.
#[test]
fn a_table_ends_before_its_range_tombstones_are_too_long() {
    let _limit = EntryLimit::of(ENTRY);
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &options(&disk, "")).expect("a database");
    let keys = 2 * too_many_keys();
    for number in 0..keys {
        db.put(long_key(number), "value").expect("a put");
    }
    db.compact_range(None, None).expect("a compaction");
    let before = ReadOptions::new().with_snapshot(db.snapshot());
    for number in (0..keys).step_by(2) {
        db.delete_range(long_key(number), long_key(number + 1)).expect("a deletion");
    }
    let check = |db: &Db, before: Option<&ReadOptions>| {
        for number in 0..keys {
            let found = db.get(long_key(number)).expect("a get");
            assert_eq!(found.is_some(), number % 2 == 1, "{number}");
        }
        assert_eq!(db.range(..).count(), keys / 2);
        if let Some(before) = before {
            assert_eq!(db.range_opt(.., before).count(), keys);
        }
    };
    check(&db, Some(&before));
    let recovered = disk.process_crash_image(1);
    let again = Db::open(PATH, &options(&recovered, "")).expect("a database");
    check(&again, None);
    db.flush().expect("a flush");
    assert_eq!(count(&disk, &db, ValueType::RangeDeletion), keys / 2);
    check(&db, Some(&before));
    db.compact_range(None, None).expect("a compaction");
    assert!(count(&disk, &db, ValueType::RangeDeletion) >= keys / 2, "the snapshot needs them");
    check(&db, Some(&before));
    drop(before);
    db.put(long_key(1), "value").expect("a put");
    db.compact_range(None, None).expect("a compaction");
    check(&db, None);
    close_and_verify(db, &options(&disk, ""));
}

/// Regression test: a writer of tables accepted keys and range deletions until a block of the table
/// was too long. Finishing the table then failed, and everything in it was lost.
#[test]
fn a_writer_of_tables_says_that_its_table_is_full() {
    let _limit = EntryLimit::of(ENTRY);
    let disk = SimStorage::new(1);
    let options = options(&disk, "");
    let mut writer = SstFileWriter::new(&options, "default").expect("a writer");
    let (mut files, mut number) = (Vec::new(), 0);
    while number < 2 * too_many_keys() {
        let file = format!("/{number}.sst");
        writer.open(&file).expect("a table");
        while number < 9 * too_many_keys() {
            match writer.put(long_key(number), number.to_string()) {
                Ok(()) => number += 1,
                refused => {
                    assert_eq!(failure(refused).0, ErrorKind::LimitReached);
                    break;
                }
            }
        }
        files.push(file);
        writer.finish().expect("a table");
    }
    assert!(files.len() >= 2);
    let db = Db::open(PATH, &options).expect("a database");
    db.ingest_external_file(&files).expect("an ingestion");
    check_puts(&db, number);

    writer.open("/deletions.sst").expect("a table");
    let mut deleted = 0;
    while deleted < number && writer.delete_range(long_key(deleted), long_key(deleted + 1)).is_ok()
    {
        deleted += 1;
    }
    assert!((too_many_keys() / 2 - 10..too_many_keys()).contains(&deleted), "{deleted}");
    writer.finish().expect("a table");
    db.ingest_external_file(&["/deletions.sst"]).expect("an ingestion");
    assert!(db.get(long_key(deleted - 1)).expect("a get").is_none());
    assert!(db.get(long_key(deleted)).expect("a get").is_some());
    close_and_verify(db, &options);
}
