//! The errors of calls that are refused: after a background error, after closing, and on a
//! read-only handle.

use std::error::Error as _;
use std::path::Path;

use tailwater::{
    CompactRangeOptions, Db, ErrorKind, ExternalFiles, IngestOptions, Result, WriteBatch,
};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Purpose};

use crate::support::{default_family, failure, get, put, simulated, synced};

const PATH: &str = "/db";

/// The name of a call that needs a database open for writing, and a function that makes it.
type Call = (&'static str, fn(&Db) -> Result<()>);

const CALLS: [Call; 18] = [
    ("put", |db| put(db, "refused", "1")),
    ("put, synced", |db| db.put_cf_opt(&default_family(db), b"refused", b"1", &synced())),
    ("delete", |db| db.delete_cf_opt(&default_family(db), b"a", &synced())),
    ("delete_range", |db| db.delete_range_cf_opt(&default_family(db), b"a", b"b", &synced())),
    ("write", |db| {
        let mut batch = WriteBatch::new();
        batch.put_cf(0, b"refused", b"1").expect("a put");
        db.write_opt(&mut batch, &synced())
    }),
    ("flush", |db| db.flush_cf(&default_family(db))),
    ("flush_all", |db| db.flush_all()),
    ("flush_wal", |db| db.flush_wal(false)),
    ("flush_wal, synced", |db| db.flush_wal(true)),
    ("compact_range", |db| {
        db.compact_range_cf_opt(&default_family(db), None, None, &CompactRangeOptions::default())
    }),
    ("ingest_external_files", |db| {
        let (family, paths) = (&default_family(db), &[Path::new("/file.sst")][..]);
        let files = ExternalFiles { family, paths, options: IngestOptions::default() };
        db.ingest_external_files(&[files]).map(drop)
    }),
    ("create_cf", |db| db.create_cf("new", &default_family(db).options()).map(drop)),
    ("drop_cf", |db| db.drop_cf(&db.cf_handle("family").expect("a column family"))),
    ("set_options", |db| {
        db.set_options_cf(&default_family(db), &[("disable_auto_compactions", "true")])
    }),
    ("set_database_options", |db| db.set_database_options(&[("max_background_jobs", "2")])),
    ("resume", |db| db.resume()),
    ("checkpoint", |db| db.checkpoint(Path::new("/checkpoint"))),
    ("updates_since", |db| db.updates_since(0).map(drop)),
];

fn open(disk: &SimStorage) -> Db {
    let text = "create_missing_column_families=true;\
                level0_file_num_compaction_trigger=2";
    let mut options = simulated(disk, text);
    options.set_column_family("family", options.column_family("family").clone());
    Db::open(PATH, &options).expect("a database")
}

/// Regression test: calls on a closed database or a read-only handle were refused with the kind
/// `InvalidArgument`, which says that an argument of the call is wrong.
#[test]
fn calls_on_closed_and_read_only_handles_return_their_own_kinds() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    put(&db, "a", "1").expect("a put");
    let reader = Db::open_read_only(PATH, &simulated(&disk, "")).expect("a reader");
    for (name, call) in CALLS {
        let (kind, text) = failure(call(&reader));
        assert_eq!(kind, ErrorKind::ReadOnly, "{name}: {text}");
        assert!(text.contains("opened for reading only"), "{name}: {text}");
    }
    db.close().expect("closing");
    for (name, call) in CALLS {
        let (kind, text) = failure(call(&db));
        assert_eq!(kind, ErrorKind::Closed, "{name}: {text}");
        assert!(text.contains("closed"), "{name}: {text}");
    }
    for db in [&reader, &db] {
        assert_eq!(get(db, "a").as_deref(), Some("1"), "reads go on");
        assert!(db.background_error().is_none());
        db.close().expect("there is nothing to close");
    }
    drop((db, reader));
    assert_eq!(get(&open(&disk), "refused"), None);
}

/// How a test makes a database fail: a name for messages, the call that fails, and the operation
/// and purpose of the storage call into which a fault is injected.
type Place = (&'static str, fn(&Db) -> Result<()>, Operation, Purpose);

const PLACES: [Place; 6] = [
    ("a write of the log", |db| put(db, "b", "1"), Operation::Write, Purpose::Wal),
    (
        "a sync of the log",
        |db| db.put_cf_opt(&default_family(db), b"b", b"1", &synced()),
        Operation::Sync,
        Purpose::Wal,
    ),
    ("a new table", |db| db.flush_all(), Operation::Create, Purpose::FlushWrite),
    ("a write of a table", |db| db.flush_all(), Operation::Write, Purpose::FlushWrite),
    ("a write of the MANIFEST", |db| db.flush_all(), Operation::Write, Purpose::Manifest),
    ("a sync of the MANIFEST", |db| db.flush_all(), Operation::Sync, Purpose::Manifest),
];

/// Regression test: after an error, refused calls returned an error without a source, and closing
/// cleared the background error. A refusal must have the kind, the file and the source of the
/// original error.
#[test]
fn calls_refused_after_an_error_have_its_kind_and_source() {
    for (place, work, operation, purpose) in PLACES {
        for (fault, kind) in
            [(Fault::NoSpace, ErrorKind::NoSpace), (Fault::InputOutput, ErrorKind::Io)]
        {
            if fault == Fault::NoSpace && purpose == Purpose::FlushWrite {
                // Such a flush is retried, and no call is refused.
                continue;
            }
            let disk = SimStorage::new(1);
            let db = open(&disk);
            put(&db, "a", "1").expect("a put");
            let rule = FaultRule::new(fault).operation(operation).purpose(purpose).at(0);
            disk.set_faults(FaultPlan::none().with(rule));
            let first = work(&db).expect_err(place);
            let refused = |result: Result<()>, context: &str| {
                let error = result.expect_err(context);
                assert_eq!(error.kind(), kind, "{place}, {context}: {error}");
                assert_eq!(error.path(), first.path(), "{place}, {context}: {error}");
                let source = error.source().and_then(|it| it.downcast_ref::<tailwater_io::Error>());
                let source = source.unwrap_or_else(|| panic!("{place}, {context}: no source"));
                assert_eq!(source.is_no_space(), kind == ErrorKind::NoSpace, "{context}");
                assert_eq!(source.operation, operation, "{place}, {context}");
            };
            refused(Err(first.clone()), "the call that failed");
            refused(Err(db.background_error().expect("a failure")), "background_error");
            // `resume` is left out, since it may be called after an error. The other calls that are
            // left out do not write.
            for (name, call) in CALLS.iter().filter(|(name, _)| {
                !["set_options", "set_database_options", "resume", "updates_since"].contains(name)
            }) {
                refused(call(&db), name);
            }
            refused(db.close(), "close");
            refused(Err(db.background_error().expect("a failure")), "background_error, closed");
            assert_eq!(failure(put(&db, "c", "1")).0, ErrorKind::Closed);
        }
    }
}

/// Tests that `background_error`, after a failed compaction in the background, has the kind and the
/// source of the failure.
#[test]
fn a_compaction_that_fails_is_reported_with_its_kind_and_source() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let rule = FaultRule::new(Fault::InputOutput).operation(Operation::Write);
    disk.set_faults(FaultPlan::none().with(rule.purpose(Purpose::CompactionWrite).from(0)));
    for _ in 0..2 {
        put(&db, "a", "1").expect("a put");
        put(&db, "b", "1").expect("a put");
        db.flush_all().expect("a flush");
    }
    for error in [db.background_error().expect("a failure"), put(&db, "b", "1").expect_err("it")] {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let source = error.source().and_then(|it| it.downcast_ref::<tailwater_io::Error>());
        assert_eq!(source.expect("a source").operation, Operation::Write);
    }
}
