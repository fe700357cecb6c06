//! A handle to a column family, or a snapshot, is valid only in the opening of the database that
//! returned it.
//!
//! Every public call that takes a handle or a snapshot must reject one that comes from another
//! database, from an earlier or later opening of the same directory, or from a read-only opening.
//! An exception is [`SstFileWriter::for_column_family`], which only reads the name and the ID of
//! the handle.

use std::path::Path;

use tailwater::{
    ColumnFamily, CompactRangeOptions, Db, ErrorKind, ExternalFiles, IngestOptions, OpenOptions,
    ReadOptions, Result, SizeOptions, Snapshot, SstFileWriter, WriteBatch, WriteOptions,
};
use tailwater_io::sim::SimStorage;

use crate::support::{get_from, simulated};

const FILE: &str = "/outside.sst";
const NAME: &str = "family";
/// A key that exists in every column family.
const KEY: &[u8] = b"key";

/// The name of a call, and a function that makes it with this column family and these read options.
type Call = (&'static str, fn(&Db, &ColumnFamily, &ReadOptions) -> Result<()>);

fn write_options() -> WriteOptions {
    WriteOptions::default()
}

/// Calls that only read.
const READS: [Call; 10] = [
    ("get", |db, family, options| db.get_cf_opt(family, KEY, options).map(drop)),
    ("get_into", |db, family, options| {
        db.get_into_cf_opt(family, KEY, options, &mut Vec::new()).map(drop)
    }),
    ("get_pinned", |db, family, options| db.get_pinned_cf_opt(family, KEY, options).map(drop)),
    ("batched_multi_get", |db, family, options| {
        let values = db.batched_multi_get_cf_opt(family, &[KEY, b"other"], options);
        assert_eq!(values.len(), 2, "an answer for each key");
        values.into_iter().try_for_each(|value| value.map(drop))
    }),
    ("batched_multi_get_with", |db, family, options| {
        let mut values = Vec::new();
        db.batched_multi_get_with_cf_opt(family, &[KEY, b"other"], options, |at, value| {
            values.push((at, value));
        });
        assert_eq!(values.len(), 2, "an answer for each key");
        values.into_iter().try_for_each(|(_, value)| value.map(drop))
    }),
    ("multi_get", |db, family, options| {
        // The refusal of `family` must not prevent the read of the default column family.
        let values = db.multi_get_cf_opt(&[(db.default_cf(), KEY), (family, KEY)], options);
        let [of_default, of_family] = values.try_into().expect("a result for each key");
        if options.snapshot.is_none() {
            of_default.expect("a get");
        }
        of_family.map(drop)
    }),
    ("iterator", |db, family, options| db.raw_iterator_cf_opt(family, options).map(drop)),
    ("approximate_sizes", |db, family, _| {
        db.approximate_sizes_cf_opt(family, &[(b"a", b"z")], &SizeOptions::default()).map(drop)
    }),
    ("approximate_memtable_stats", |db, family, _| {
        db.approximate_memtable_stats_cf(family, b"a", b"z").map(drop)
    }),
    ("property", |db, family, _| db.property_value_cf(family, "rocksdb.levelstats").map(drop)),
];

/// The first `SNAPSHOT_READS` calls in [`READS`] use the snapshot in the read options.
const SNAPSHOT_READS: usize = 6;

/// Calls that change the database or its tables.
const CHANGES: [Call; 11] = [
    ("put", |db, family, _| db.put_cf_opt(family, b"changed", b"", &write_options())),
    ("delete", |db, family, _| db.delete_cf_opt(family, b"changed", &write_options())),
    ("single_delete", |db, family, _| {
        db.single_delete_cf_opt(family, b"changed", &write_options())
    }),
    ("delete_range", |db, family, _| db.delete_range_cf_opt(family, b"c", b"d", &write_options())),
    ("merge", |db, family, _| db.merge_cf_opt(family, b"changed", b"", &write_options())),
    ("flush", |db, family, _| db.flush_cf(family)),
    ("compact_range", |db, family, _| {
        db.compact_range_cf_opt(family, None, None, &CompactRangeOptions::default())
    }),
    ("ingest_external_file", |db, family, _| {
        let paths = [Path::new(FILE)];
        db.ingest_external_file_cf_opts(family, &paths, &IngestOptions::default()).map(drop)
    }),
    ("ingest_external_files", |db, family, _| {
        let (paths, options) = ([Path::new(FILE)], IngestOptions::default());
        db.ingest_external_files(&[ExternalFiles { family, paths: &paths, options }]).map(drop)
    }),
    ("set_options", |db, family, _| {
        db.set_options_cf(family, &[("disable_auto_compactions", "true")])
    }),
    ("drop_cf", |db, family, _| db.drop_cf(family)),
];

fn options(disk: &SimStorage) -> OpenOptions {
    let mut options = simulated(disk, "merge_operator=put;create_missing_column_families=true");
    // Some of the calls wait for a flush in a background thread, so there must be background
    // threads.
    options.set_inline_background(false);
    options.set_column_family(NAME, options.column_family(NAME).clone());
    options
}

fn open(disk: &SimStorage, path: &str) -> Db {
    Db::open(path, &options(disk)).expect("a database")
}

fn family(db: &Db) -> ColumnFamily {
    db.cf_handle(NAME).expect("the column family")
}

fn make_file(disk: &SimStorage) {
    let mut writer = SstFileWriter::new(&options(disk), NAME).expect("a writer");
    writer.open(Path::new(FILE)).expect("a file");
    writer.put(b"ingested", b"").expect("a put");
    writer.finish().expect("a whole file");
}

/// The origin of a handle that does not belong to the database under test.
#[derive(Debug, Clone, Copy)]
enum Origin {
    OtherDatabase,
    EarlierOpening,
    /// The handle comes from a read-only opening of the same database.
    ReadOnly,
}

const ORIGINS: [Origin; 3] = [Origin::OtherDatabase, Origin::EarlierOpening, Origin::ReadOnly];

/// Returns a disk and a database on it, then a column family handle and a snapshot that do not
/// belong to this database, and finally the database to which they do belong.
fn scene(origin: Origin) -> (SimStorage, Db, ColumnFamily, Snapshot, Db) {
    let disk = SimStorage::new(1);
    make_file(&disk);
    let first = open(&disk, "/db");
    first.put_cf_opt(&family(&first), KEY, b"1", &write_options()).expect("a put");
    let (db, other) = match origin {
        Origin::OtherDatabase => {
            let other = open(&disk, "/other");
            other.put_cf_opt(&family(&other), KEY, b"1", &write_options()).expect("a put");
            (first, other)
        }
        Origin::EarlierOpening => {
            first.close().expect("closing");
            (open(&disk, "/db"), first)
        }
        Origin::ReadOnly => {
            let reader = Db::open_read_only("/db", &options(&disk)).expect("a reader");
            (first, reader)
        }
    };
    let (family, snapshot) = (family(&other), other.snapshot());
    (disk, db, family, snapshot, other)
}

fn expect_refused(result: Result<()>, context: &str) {
    let error = result.expect_err(context);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{context}: {error}");
    assert!(error.message().contains("belong to this opening"), "{context}: {error}");
}

/// Regression test: handles and snapshots of another database, or of an earlier opening of the same
/// database, were accepted. A flush with such a handle waited forever, and made the other database
/// ignore synced writes in its next recovery. A put with such a handle went to the other database.
/// A read at such a snapshot showed later writes.
#[test]
fn handles_of_another_database_or_opening_are_refused() {
    for origin in ORIGINS {
        let (_disk, db, foreign, _, other) = scene(origin);
        let none = ReadOptions::default();
        for (name, call) in READS.iter().chain(&CHANGES) {
            expect_refused(call(&db, &foreign, &none), &format!("{name}, {origin:?}"));
        }
        assert!(db.needs_compaction_cf(&foreign).is_err());
        assert_eq!(get_from(&other, &foreign, "key").as_deref(), Some("1"), "it is as it was");
        assert_eq!(get_from(&other, &foreign, "changed"), None);
        assert_eq!(get_from(&db, &family(&db), "key").as_deref(), Some("1"));
        assert_eq!(get_from(&db, &family(&db), "changed"), None);
    }
}

#[test]
fn handles_of_the_writer_are_refused_by_a_reader() {
    let (_disk, db, _, _, reader) = scene(Origin::ReadOnly);
    let (own, snapshot) = (family(&db), db.snapshot());
    let with_snapshot = ReadOptions::new().with_snapshot(snapshot);
    for (name, call) in READS {
        expect_refused(call(&reader, &own, &ReadOptions::default()), name);
    }
    for (name, call) in &READS[..SNAPSHOT_READS] {
        expect_refused(call(&reader, &family(&reader), &with_snapshot), name);
    }
}

#[test]
fn snapshots_of_another_database_or_opening_are_refused() {
    for origin in ORIGINS {
        let (_disk, db, _, snapshot, _other) = scene(origin);
        let options = ReadOptions::new().with_snapshot(snapshot);
        for (name, call) in &READS[..SNAPSHOT_READS] {
            expect_refused(call(&db, &family(&db), &options), &format!("{name}, {origin:?}"));
        }
    }
}

/// Tests handles and snapshots of the same database. Every call that refuses foreign ones must
/// accept these.
#[test]
fn the_databases_own_handles_are_accepted() {
    let (_disk, db, _, _, _other) = scene(Origin::OtherDatabase);
    let options = ReadOptions::new().with_snapshot(db.snapshot());
    for (name, call) in READS.iter().chain(&CHANGES) {
        call(&db, &family(&db), &options).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let clone = db.clone();
    let default = clone.cf_handle("default").expect("a column family");
    db.put_cf_opt(&default, b"a", b"", &write_options()).expect("a clone's handle is the same");
}

/// Regression test: a flush with the handle of a dropped column family reported success.
#[test]
fn a_dropped_family_is_distinct_from_a_new_one_of_its_name() {
    let (_disk, db, _, _, _other) = scene(Origin::OtherDatabase);
    let dropped = family(&db);
    let options_of = dropped.options();
    db.drop_cf(&dropped).expect("dropping");
    let again = db.create_cf(NAME, &options_of).expect("the name again");
    for (name, call) in CHANGES {
        let error = call(&db, &dropped, &ReadOptions::default()).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}: {error}");
    }
    let mut batch = WriteBatch::new();
    batch.put_cf(again.id(), b"changed", b"").expect("a put");
    batch.put_cf(dropped.id(), b"changed", b"").expect("a put");
    let error = db.write_opt(&mut batch, &write_options()).expect_err("a dropped family");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(get_from(&db, &dropped, "key").as_deref(), Some("1"), "reads go on");
    assert_eq!(get_from(&db, &again, "key"), None);
    assert_eq!(get_from(&db, &again, "changed"), None);
}

/// Tests a batch, in which column families are named by their IDs. A write must refuse the batch if
/// the database has no column family with such an ID.
#[test]
fn a_batch_with_an_unknown_family_id_is_refused() {
    let (_disk, db, _, _, other) = scene(Origin::OtherDatabase);
    let more = other.create_cf("more", &family(&other).options()).expect("a family");
    let mut batch = WriteBatch::new();
    batch.put_cf(0, b"changed", b"").expect("a put");
    batch.put_cf(more.id(), b"changed", b"").expect("a put");
    let error = db.write_opt(&mut batch, &write_options()).expect_err("an unknown family");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let default = db.cf_handle("default").expect("a column family");
    assert_eq!(get_from(&db, &default, "changed"), None);
}
