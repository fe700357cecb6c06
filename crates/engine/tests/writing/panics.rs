//! Panics in the user's comparator, merge operator, prefix extractor, compaction filter or clock,
//! or in the storage, in every thread and every stage of work.
//!
//! No call may wait forever. Writers, flushes, `resume`, `background_error` and `close` must report
//! the panic and its origin.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use tailwater::{
    BottommostRewrite, CompactRangeOptions, Db, ErrorKind, IngestOptions, OpenOptions,
    SstFileWriter, WriteOptions,
};
use tailwater_io::sim::SimStorage;

use crate::fuse::{self, Fuse, Object};
use crate::gate::Gate;
use crate::support::{default_family, failure, findings, get, level_0, log, property, put, synced};

const PATH: &str = "/db";

/// A simulated disk and a fuse. When a test arms the fuse, calls of a chosen user-defined object of
/// the database panic.
struct Scene {
    disk: SimStorage,
    fuse: Arc<Fuse>,
    text: String,
}

impl Scene {
    fn new(text: &str) -> Self {
        Self { disk: SimStorage::new(1), fuse: Arc::default(), text: text.to_owned() }
    }

    fn options(&self) -> OpenOptions {
        let files = Gate::fused(Arc::new(self.disk.clone()), &self.fuse);
        let mut options = files.options(&self.text);
        fuse::install(&mut options, self.disk.clock(), &self.fuse);
        options
    }

    fn open(&self) -> Db {
        Db::open(PATH, &self.options()).expect("a database")
    }

    fn open_inline(&self) -> Db {
        let mut options = self.options();
        options.set_inline_background(true);
        Db::open(PATH, &options).expect("a database")
    }

    /// Stops the panics that the fuse injects, verifies and reopens the database, and checks that
    /// all these keys exist.
    fn check_after(&self, keys: &[&str]) {
        self.fuse.disarm();
        assert_eq!(findings(PATH.as_ref(), &self.options()), []);
        let db = self.open();
        for key in keys {
            assert!(get(&db, key).is_some(), "{key} is lost");
        }
    }
}

/// Checks that writes, flushes, `background_error` and `close` all report a panic of this object.
fn expect_latched(db: &Db, object: Object) {
    let latched = db.background_error().expect("a failure");
    expect_panic(latched.kind(), &latched.to_string(), object);
    for result in [put(db, "refused", "1"), db.flush_all(), db.flush_wal(true)] {
        let (kind, text) = failure(result);
        expect_panic(kind, &text, object);
    }
}

fn expect_panic(kind: ErrorKind, text: &str, object: Object) {
    assert_eq!(kind, ErrorKind::Panicked, "{text}");
    assert!(text.contains(object.name()), "{text}");
}

fn expect_closed_with(db: &Db, object: Object) {
    let (kind, text) = failure(db.close());
    expect_panic(kind, &text, object);
}

fn wait_for_failure(db: &Db) {
    while db.background_error().is_none() {
        std::thread::yield_now();
    }
}

/// Regression test: a panic in the flushing thread ended the thread. Flushes, writers and `resume`
/// then waited forever, `background_error` reported nothing, and `close` succeeded.
#[test]
fn a_panicking_flush_is_reported_and_retried_by_resume() {
    for object in [Object::Comparator, Object::PrefixExtractor, Object::Storage] {
        let scene = Scene::new("");
        let db = scene.open();
        put(&db, "a", "1").expect("a put");
        put(&db, "b", "2").expect("a put");
        scene.fuse.arm(object, "tailwater-flush");
        let (kind, text) = failure(db.flush_all());
        expect_panic(kind, &text, object);
        assert!(text.contains("flush"), "{text}");
        expect_latched(&db, object);
        let (kind, text) = failure({
            scene.fuse.arm(object, "panics::");
            db.resume()
        });
        expect_panic(kind, &text, object);
        scene.fuse.disarm();
        db.resume().expect("nothing panics any more");
        put(&db, "c", "3").expect("a put");
        db.flush_all().expect("a flush");
        assert_eq!(get(&db, "b").as_deref(), Some("2"));
        db.close().expect("closing");
        drop(db);
        scene.check_after(&["a", "b", "c"]);
    }
}

/// Tests a panic in the flushing thread after which the database is closed without `resume`.
#[test]
fn closing_reports_a_panicked_flush() {
    let scene = Scene::new("");
    let db = scene.open();
    db.put_cf_opt(&default_family(&db), b"a", b"1", &synced()).expect("a put");
    put(&db, "b", "2").expect("a put");
    scene.fuse.arm(Object::Comparator, "tailwater-flush");
    failure(db.flush_all());
    expect_closed_with(&db, Object::Comparator);
    drop(db);
    scene.check_after(&["a", "b"]);
}

/// Tests a panic in the background thread that writes the buffers of a table to its file.
#[test]
fn a_writing_thread_that_panics_fails_its_flush() {
    let scene = Scene::new("compression=kNoCompression;writable_file_max_buffer_size=65536");
    let db = scene.open();
    for key in 0..100 {
        put(&db, &format!("{key:03}"), &"v".repeat(10_000)).expect("a put");
    }
    scene.fuse.arm(Object::Storage, "tailwater-write");
    let (kind, text) = failure(db.flush_all());
    assert_eq!(kind, ErrorKind::Panicked, "{text}");
    assert!(text.contains(".sst"), "{text}");
    scene.fuse.disarm();
    db.resume().expect("nothing panics any more");
    db.close().expect("closing");
    drop(db);
    scene.check_after(&["000", "099"]);
}

/// Returns a database with two overlapping tables in level 0. Arms the fuse for `object` before the
/// second flush, which starts a compaction, so that the compaction panics.
fn compaction_that_panics(scene: &Scene, object: Object, threads: &'static str) -> Db {
    let db = scene.open();
    fill_for_compaction(scene, &db, object, threads);
    wait_for_failure(&db);
    db
}

/// Flushes two overlapping tables. Arms the fuse for `object` before the second flush, which starts
/// a compaction.
fn fill_for_compaction(scene: &Scene, db: &Db, object: Object, threads: &'static str) {
    let family = default_family(db);
    for round in 0..2 {
        for key in ["a", "b", "c", "d"] {
            db.merge_cf_opt(&family, key.as_bytes(), b"1", &WriteOptions::default())
                .expect("a merge");
            put(db, &format!("{key}{key}"), &"v".repeat(2000)).expect("a put");
        }
        if round == 1 {
            scene.fuse.arm(object, threads);
        }
        db.flush_cf(&family).expect("a flush");
    }
}

/// Regression test: a panic in a compaction thread, or in the thread of a subcompaction, was not
/// reported.
#[test]
fn a_panicking_compaction_is_reported_and_retried_by_resume() {
    let objects = [Object::Comparator, Object::PrefixExtractor, Object::Storage];
    for (text, threads) in
        [("", "tailwater-comp"), ("low_priority_compactions=true", "subcompaction")]
    {
        for object in objects {
            let text = format!("level0_file_num_compaction_trigger=2;{text}");
            let scene = Scene::new(&text);
            let db = compaction_that_panics(&scene, object, threads);
            expect_latched(&db, object);
            scene.fuse.disarm();
            db.resume().expect("nothing panics any more");
            while level_0(&db) > 0 {
                std::thread::yield_now();
            }
            assert_eq!(get(&db, "a").as_deref(), Some("11"), "each operand counts once");
            put(&db, "later", "1").expect("a put");
            db.close().expect("closing");
            drop(db);
            scene.check_after(&["a", "dd", "later"]);
        }
    }
}

#[test]
fn closing_reports_a_panicked_compaction() {
    let scene = Scene::new("level0_file_num_compaction_trigger=2");
    let db = compaction_that_panics(&scene, Object::PrefixExtractor, "tailwater-comp");
    expect_closed_with(&db, Object::PrefixExtractor);
    drop(db);
    scene.check_after(&["a", "dd"]);
}

/// Tests a panic in a manual compaction, which runs in the caller's thread. The call must return
/// the panic as an error.
#[test]
fn a_manual_compaction_returns_the_panic() {
    for object in [Object::PrefixExtractor, Object::Comparator] {
        let scene = Scene::new("disable_auto_compactions=true");
        let db = scene.open();
        let family = default_family(&db);
        for _ in 0..2 {
            db.merge_cf_opt(&family, b"a", b"1", &WriteOptions::default()).expect("a merge");
            put(&db, "b", "1").expect("a put");
            db.flush_cf(&family).expect("a flush");
        }
        scene.fuse.arm(object, "panics::");
        let range =
            || db.compact_range_cf_opt(&family, None, None, &CompactRangeOptions::default());
        let (kind, text) = failure(range());
        expect_panic(kind, &text, object);
        scene.fuse.disarm();
        put(&db, "c", "1").expect("a put: nothing of the database has failed");
        range().expect("nothing panics any more");
        assert_eq!(get(&db, "a").as_deref(), Some("11"));
    }
}

/// Regression test: a panic of the compaction filter or the merge operator for one key failed the
/// compaction, and all writes were refused. `resume` only repeated this.
#[test]
fn a_compaction_keeps_the_records_for_which_user_code_panics() {
    let filter_calls_of_a_table = 4;
    for (text, threads) in
        [("", "tailwater-comp"), ("low_priority_compactions=true", "subcompaction")]
    {
        for (object, violations) in
            [(Object::CompactionFilter, 3 * filter_calls_of_a_table), (Object::MergeOperator, 4)]
        {
            let scene = Scene::new(&format!("level0_file_num_compaction_trigger=2;{text}"));
            let db = scene.open();
            fill_for_compaction(&scene, &db, object, threads);
            let found = || property(&db, "tailwater.contract-violations");
            while level_0(&db) > 0 || found() == "0" {
                std::thread::yield_now();
            }
            scene.fuse.disarm();
            assert!(db.background_error().is_none() && db.stopped_compactions().is_empty());
            assert_eq!(found(), violations.to_string(), "{object:?}");
            assert!(log(&scene.disk, PATH).contains(object.name()));
            assert_eq!(get(&db, "a").as_deref(), Some("11"), "each operand counts once");
            put(&db, "later", "1").expect("a put");
            let range = CompactRangeOptions::new()
                .with_bottommost_level_compaction(BottommostRewrite::Force);
            let family = default_family(&db);
            db.compact_range_cf_opt(&family, None, None, &range).expect("a compaction");
            assert_eq!(get(&db, "a").as_deref(), Some("11"), "the operands are merged now");
            assert_eq!(found(), violations.to_string(), "{object:?}");
            db.close().expect("closing");
            drop((db, family));
            scene.check_after(&["a", "dd", "later"]);
        }
    }
}

/// Regression test: a panic in the thread that removes obsolete files ended the thread. Files that
/// became obsolete later were never removed.
#[test]
fn a_panic_while_removing_files_is_reported() {
    let scene = Scene::new("disable_auto_compactions=true");
    let db = scene.open();
    put(&db, "a", "1").expect("a put");
    db.flush_all().expect("a flush");
    scene.fuse.arm(Object::Storage, "tailwater-clean");
    let force =
        CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
    // The compaction makes one table obsolete. The thread that removes obsolete files therefore
    // calls the storage once, and panics.
    db.compact_range_cf_opt(&default_family(&db), None, None, &force).expect("a compaction");
    wait_for_failure(&db);
    expect_latched(&db, Object::Storage);
    scene.fuse.disarm();
    db.resume().expect("nothing panics any more");
    put(&db, "b", "1").expect("a put");
    db.close().expect("closing");
    drop(db);
    scene.check_after(&["a", "b"]);
}

/// Calls `resume` until a flush succeeds. This may take several calls, because the report of a
/// panic may come after the first `resume`. After a successful flush, a flush has no panic left to
/// report.
fn resume_after_the_last_panic(db: &Db) {
    while db.resume().and_then(|()| put(db, "resumed", "1")).and_then(|()| db.flush_all()).is_err()
    {
        std::thread::yield_now();
    }
}

/// Regression test: a panic while statistics were written to the LOG ended a background thread.
#[test]
fn a_panic_in_periodic_work_is_reported() {
    let scene = Scene::new("stats_dump_period_sec=1");
    let db = scene.open();
    put(&db, "a", "1").expect("a put");
    scene.fuse.arm(Object::Clock, "tailwater-clean");
    wait_for_failure(&db);
    expect_latched(&db, Object::Clock);
    scene.fuse.watch(Object::Clock, "tailwater-clean");
    while !scene.fuse.has_seen_a_call() {
        resume_after_the_last_panic(&db);
    }
    resume_after_the_last_panic(&db);
    put(&db, "b", "1").expect("a put");
}

/// Regression test: a panic in the thread that preallocates logs ended the thread. Every later log
/// waited forever for its preallocated space.
#[test]
fn preallocation_that_panics_is_reported() {
    let scene = Scene::new("wal_io_mode=direct");
    scene.fuse.arm(Object::Storage, "tailwater-wal");
    let db = scene.open();
    wait_for_failure(&db);
    expect_latched(&db, Object::Storage);
    scene.fuse.watch(Object::Storage, "tailwater-wal");
    while !scene.fuse.has_seen_a_call() {
        // This call flushes. Every flush begins a log and requests the preallocation of the log
        // after it.
        resume_after_the_last_panic(&db);
    }
    // The preallocating thread has reported all its panics by now.
    resume_after_the_last_panic(&db);
    put(&db, "a", "1").expect("a put");
    db.close().expect("closing");
    drop(db);
    scene.check_after(&["a"]);
}

/// Regression test: a panic in background work that ran in the caller's thread left locks held.
#[test]
fn a_panic_of_inline_background_work_is_reported() {
    for object in [Object::Comparator, Object::PrefixExtractor] {
        let scene = Scene::new("");
        let db = scene.open_inline();
        put(&db, "a", "1").expect("a put");
        put(&db, "b", "2").expect("a put");
        scene.fuse.arm(object, "");
        let (kind, text) = failure(db.flush_all());
        expect_panic(kind, &text, object);
        scene.fuse.disarm();
        expect_latched(&db, object);
        db.resume().expect("nothing panics any more");
        put(&db, "c", "3").expect("a put");
        db.close().expect("closing");
        drop(db);
        scene.check_after(&["a", "b", "c"]);
    }
    let scene = Scene::new("level0_file_num_compaction_trigger=2");
    let db = scene.open_inline();
    let pause = db.pause_compactions().expect("a pause");
    for _ in 0..2 {
        put(&db, "a", "1").expect("a put");
        put(&db, "b", "1").expect("a put");
        db.flush_all().expect("a flush");
    }
    scene.fuse.arm(Object::Comparator, "");
    // The end of the pause runs the compaction.
    drop(pause);
    scene.fuse.disarm();
    expect_latched(&db, Object::Comparator);
    db.resume().expect("nothing panics any more");
    assert_eq!(level_0(&db), 0);
}

/// Tests concurrent writers whose comparator panics. The writer in whose thread it panics must
/// panic. The others must return errors and must not wait forever.
#[test]
fn a_panicking_writer_releases_the_write_queue() {
    const WRITERS: usize = 4;
    // A log with direct I/O also has groups in flight, behind which other groups wait.
    let cases = ["", "wal_io_mode=direct"];
    let cases = cases.map(|options| [0, 5, 60, 400, 1000].map(|passes| (options, passes)));
    for (options, passes) in cases.into_iter().flatten() {
        let scene = Scene::new(options);
        let db = scene.open();
        let family = default_family(&db);
        db.put_cf_opt(&family, b"k", b"1", &synced()).expect("a put");
        scene.fuse.arm_after(Object::Comparator, "writer", passes);
        let write = |writer: usize| {
            for round in 0..100 {
                // A large batch is inserted into the memtable by its own writer, and small batches
                // by the leader of the write group.
                let mut batch = tailwater::WriteBatch::new();
                for key in 0..if writer == 0 { 100 } else { 3 } {
                    batch
                        .put_cf(0, format!("{writer} {round} {key}").as_bytes(), b"")
                        .expect("a put");
                }
                let options = WriteOptions::new().with_sync(writer == 1);
                if let Err(error) = db.write_opt(&mut batch, &options) {
                    assert_eq!(error.kind(), ErrorKind::Panicked, "{error}");
                }
            }
        };
        let panicked = std::thread::scope(|scope| {
            let start = |writer: usize| {
                let body = move || catch_unwind(AssertUnwindSafe(|| write(writer))).is_err();
                let named = std::thread::Builder::new().name(format!("writer{writer}"));
                named.spawn_scoped(scope, body).expect("a thread")
            };
            let threads: Vec<_> = (0..WRITERS).map(start).collect();
            let joined = threads.into_iter().map(|thread| thread.join().expect("caught"));
            joined.filter(|&has_panicked| has_panicked).count()
        });
        assert!(panicked > 0, "nobody panicked after {passes} comparisons");
        scene.fuse.disarm();
        expect_latched(&db, Object::Comparator);
        let (kind, text) = failure(db.resume());
        expect_panic(kind, &text, Object::Comparator);
        assert!(text.contains("reopening"), "{text}");
        expect_closed_with(&db, Object::Comparator);
        drop((db, family));
        scene.check_after(&["k"]);
    }
}

/// Tests an ingestion that panics in the calling thread, while it is the leader of the write queue.
#[test]
fn a_panicking_ingestion_releases_the_write_queue() {
    let mut panicked = 0;
    for passes in 0..60 {
        let scene = Scene::new("");
        let db = scene.open();
        let family = default_family(&db);
        put(&db, "b", "1").expect("a put");
        let file = Path::new("/file.sst");
        let mut writer = SstFileWriter::new(&scene.options(), "default").expect("a writer");
        writer.open(file).expect("a file");
        for key in ["a", "b", "c"] {
            writer.put(key.as_bytes(), b"2").expect("a put");
        }
        writer.finish().expect("a whole file");
        scene.fuse.arm_after(Object::Comparator, "panics::", passes);
        let options = IngestOptions::default();
        let ingest = || db.ingest_external_file_cf_opts(&family, &[file], &options);
        let ended = catch_unwind(AssertUnwindSafe(ingest));
        scene.fuse.disarm();
        let is_done = matches!(ended, Ok(Ok(_)));
        if !is_done {
            panicked += 1;
            if db.background_error().is_none() {
                put(&db, "d", "1").expect("a put");
                db.flush_all().expect("a flush");
                ingest().expect("an ingestion");
            }
        }
        // `close` waits for calls that are working on files. The ingestion that panicked must no
        // longer count as such a call.
        let _ = db.close();
        drop((db, family));
        scene.check_after(&["b"]);
    }
    assert!(panicked > 10, "only {panicked} panicked");
}
