//! The behaviour of a database near the limit on open file descriptors of the process
//! (`RLIMIT_NOFILE`).
//!
//! The limit applies to the whole process, so the tests run one after another.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tailwater::verify::{self, Severity};
use tailwater::{
    BottommostRewrite, CompactRangeOptions, Db, ErrorKind, OpenOptions, ReadOptions, WriteOptions,
};

#[cfg(debug_assertions)]
use tailwater_io::thread::with_starts_left;
use tailwater_testkit::golden;

/// The limit on open file descriptors that the tests set.
const LIMIT: u64 = 200;
/// Number of output tables of a compaction. They cannot all be open at once under [`LIMIT`].
const TABLES: usize = 300;

/// Options with which a compaction writes a table for each entry, and compactions run only on
/// request.
const OPTIONS: &str = "create_if_missing=true;disable_auto_compactions=true;\
     target_file_size_base=1;target_file_size_is_upper_bound=true;max_compaction_bytes=1G;compression=kNoCompression";

/// Lowers the limit on open files while this object exists. Also holds a lock, so that the tests
/// run one after another.
struct Limit {
    before: Rlimit,
    _turn: MutexGuard<'static, ()>,
}

impl Limit {
    fn new(files: u64) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), ..before }).expect("a limit");
        Self { before, _turn: turn }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        setrlimit(Resource::Nofile, self.before).expect("the limit before");
    }
}

/// Opens files until the process has no file descriptor left.
fn take_all_descriptors() -> Vec<std::os::fd::OwnedFd> {
    let open = || rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    std::iter::from_fn(|| open().ok()).collect()
}

fn options(more: &str) -> OpenOptions {
    let mut options = OpenOptions::default();
    options.set_from_string(OPTIONS).expect("options");
    options.set_from_string(more).expect("more options");
    options
}

fn key(number: usize) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

/// Returns a database whose keys a compaction has written into [`TABLES`] tables of one level.
fn many_tables(directory: &Path, more: &str) -> Db {
    let db = Db::open(directory, &options(more)).expect("a database");
    let family = db.cf_handle("default").expect("a column family");
    for number in 0..TABLES {
        let written = db.put_cf_opt(&family, key(number), b"value", &WriteOptions::default());
        written.expect("a put");
    }
    compact(&db).expect("a compaction");
    db
}

/// Compacts everything. `Force` makes the compaction rewrite every table; otherwise it would only
/// move a single table to another level.
fn compact(db: &Db) -> tailwater::Result<()> {
    let family = db.cf_handle("default")?;
    let options =
        CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
    db.compact_range_cf_opt(&family, None, None, &options)
}

fn assert_whole(db: &Db) {
    let family = db.cf_handle("default").expect("a column family");
    for number in 0..TABLES {
        let value = db.get_cf_opt(&family, key(number), &ReadOptions::default()).expect("a get");
        assert_eq!(value.as_deref(), Some(&b"value"[..]), "key {number}");
    }
    let mut iterator =
        db.raw_iterator_cf_opt(&family, &ReadOptions::default()).expect("an iterator");
    iterator.seek_to_first().expect("a seek");
    let mut count = 0;
    while iterator.valid() {
        count += 1;
        iterator.next().expect("a step");
    }
    assert_eq!(count, TABLES);
}

/// Regression test: if a compaction wrote more tables than the limit on open files, it failed after
/// its output was installed, and the database could no longer be opened.
#[test]
fn a_database_may_have_more_tables_than_the_open_file_limit() {
    for more in ["max_open_files=-1", "max_open_files=100000"] {
        let directory = tempfile::tempdir().expect("a directory");
        let limit = Limit::new(LIMIT);
        let db = many_tables(directory.path(), more);
        assert!(open_files_in(directory.path()) < LIMIT as usize * 3 / 4, "{more}");
        assert_whole(&db);
        assert!(open_files_in(directory.path()) < LIMIT as usize * 3 / 4, "{more}");
        db.close().expect("closing");
        drop(db);
        assert_eq!(reports(directory.path()), 1, "{more}");
        let for_reading = Db::open_read_only(directory.path(), &options(more)).expect("reading");
        assert_whole(&for_reading);
        drop(for_reading);
        let again = Db::open(directory.path(), &options(more)).expect("writing");
        assert_whole(&again);
        // Each of two open databases keeps as many tables open as if it were the only one in the
        // process.
        let for_reading = Db::open_read_only(directory.path(), &options(more)).expect("reading");
        assert_whole(&for_reading);
        assert_whole(&again);
        drop((again, for_reading));
        assert_eq!(reports(directory.path()), 1, "{more}, opened again");
        let report = verify::verify(directory.path(), &options(more));
        assert!(report.worst() <= Some(Severity::Note), "{:?}", report.findings);
        assert_eq!(report.tables, TABLES as u64);
        drop(limit);
    }
}

/// Regression test: verification started three threads for each table.
#[test]
#[cfg(debug_assertions)]
fn verification_starts_no_threads_per_table() {
    let directory = tempfile::tempdir().expect("a directory");
    let _limit = Limit::new(LIMIT);
    drop(many_tables(directory.path(), ""));
    let verified = || verify::verify(directory.path(), &options(""));
    let report = with_starts_left(3, verified);
    assert!(report.worst() <= Some(Severity::Note), "{:?}", report.findings);
    assert_eq!(report.tables, TABLES as u64);
}

/// Regression test: when `max_open_files` was raised while the database was open, the database
/// opened more files than the process limit permits.
#[test]
fn raising_max_open_files_stays_within_the_process_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let _limit = Limit::new(LIMIT);
    let db = many_tables(directory.path(), "max_open_files=40");
    assert_eq!(reports(directory.path()), 0, "40 tables are what was asked for");
    assert!(open_files_in(directory.path()) < 60);
    for bound in ["5000", "-1"] {
        db.set_database_options(&[("max_open_files", bound)]).expect("a bound");
        assert_whole(&db);
        assert_eq!(reports(directory.path()), 1);
    }
    assert!(open_files_in(directory.path()) > 60);
}

/// Regression test: if other code in the process had used up the descriptors, reads failed,
/// although the database could have closed some of its open tables.
#[test]
fn open_tables_are_closed_when_descriptors_run_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let _limit = Limit::new(LIMIT);
    let db = many_tables(directory.path(), "");
    let family = db.cf_handle("default").expect("a column family");
    let taken = take_all_descriptors();
    assert_whole(&db);
    // A flush creates a table. A compaction reads and creates several.
    db.put_cf_opt(&family, key(0), b"value", &WriteOptions::default()).expect("a put");
    db.flush_cf(&family).expect("a flush");
    compact(&db).expect("a compaction");
    assert_whole(&db);
    drop(taken);
    db.close().expect("closing");
}

/// Regression test: when no descriptor was free for a flush, a new log or a new MANIFEST, the
/// database refused writes until it was reopened.
#[test]
fn writes_resume_after_a_descriptor_shortage() {
    for more in ["", "max_manifest_file_size=1;max_manifest_space_amp_pct=0"] {
        let directory = tempfile::tempdir().expect("a directory");
        let _limit = Limit::new(LIMIT);
        let more = format!("bgerror_resume_retry_interval=8000;{more}");
        let db = Db::open(directory.path(), &options(&more)).expect("a database");
        let family = db.cf_handle("default").expect("a column family");
        let put = |number| db.put_cf_opt(&family, key(number), b"value", &WriteOptions::default());
        put(0).expect("a put");
        // The database has no open table yet, so it cannot close one to free a descriptor.
        let taken = take_all_descriptors();
        put(1).expect("a put needs no other file");
        let error = db.flush_cf(&family).expect_err("no descriptor is left for a log");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.is_out_of_descriptors(), "{error}");
        assert!(error.to_string().contains("RLIMIT_NOFILE"), "{error}");
        put(2).expect("the log goes on");
        drop(taken);
        db.flush_cf(&family).expect("a flush");
        assert!(db.background_error().is_none());
        // The database must accept puts and compactions again.
        for number in 3..TABLES {
            put(number).expect("a put");
        }
        compact(&db).expect("a compaction");
        assert_whole(&db);
        db.close().expect("closing");
        let db = Db::open(directory.path(), &options(&more)).expect("the database again");
        assert_whole(&db);
    }
}

/// Regression test: when no descriptor was free for a compaction, the database refused writes until
/// `resume` was called.
#[test]
fn background_work_is_retried_until_descriptors_are_available() {
    let directory = tempfile::tempdir().expect("a directory");
    let _limit = Limit::new(LIMIT);
    let more = "disable_auto_compactions=false;level0_file_num_compaction_trigger=4;\
         write_buffer_size=64k;bgerror_resume_retry_interval=8000;target_file_size_base=64M";
    let db = Db::open(directory.path(), &options(more)).expect("a database");
    let family = db.cf_handle("default").expect("a column family");
    let value = [b'v'; 1000];
    let mut refused = 0;
    for round in 0..40 {
        let taken = if round % 2 == 0 { take_all_descriptors() } else { Vec::new() };
        for number in 0..100 {
            // A put that finds the memtable full begins another log, which needs a descriptor.
            let key = key(round * 100 + number);
            match db.put_cf_opt(&family, &key, value, &WriteOptions::default()) {
                Ok(()) => {}
                Err(error) => {
                    assert!(error.is_out_of_descriptors(), "{error}");
                    refused += 1;
                    break;
                }
            }
        }
        // Gives the background threads time to try to open files.
        std::thread::sleep(Duration::from_millis(5));
        drop(taken);
    }
    assert!(refused > 0, "descriptors were always left");
    let tried =
        |number: &usize| db.put_cf_opt(&family, key(*number), value, &WriteOptions::default());
    wait_until(|| tried(&0).is_ok());
    for number in 1..4000 {
        tried(&number).expect("a put");
    }
    db.flush_cf(&family).expect("a flush");
    compact(&db).expect("a compaction");
    for number in 0..4000 {
        assert!(
            db.get_cf_opt(&family, key(number), &ReadOptions::default()).expect("a get").is_some()
        );
    }
    db.close().expect("closing");
}

/// Waits until `works` returns true, for at most a minute.
fn wait_until(mut works: impl FnMut() -> bool) {
    let worked = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        works()
    });
    assert!(worked, "it never worked");
}

/// Regression test: when no descriptor was free, opening a database failed with an error that did
/// not name the cause, but said that the database changed too fast or could not be listed.
#[test]
fn opening_without_a_descriptor_names_the_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let _limit = Limit::new(LIMIT);
    drop(many_tables(directory.path(), ""));
    let mut taken = take_all_descriptors();
    let mut failures = 0;
    for for_writing in [false, true] {
        for left in 0.. {
            let opened = if for_writing {
                Db::open(directory.path(), &options(""))
            } else {
                Db::open_read_only(directory.path(), &options(""))
            };
            match opened {
                Ok(db) => {
                    assert!(left > 0, "a database needs no file");
                    assert!(db.latest_sequence_number() >= TABLES as u64);
                    break;
                }
                Err(error) => {
                    failures += 1;
                    assert!(error.is_out_of_descriptors(), "{left} left: {error}");
                    assert!(error.to_string().contains("RLIMIT_NOFILE"), "{left} left: {error}");
                }
            }
            taken.pop();
        }
        taken.extend(take_all_descriptors());
    }
    assert!(failures > 2);
    drop(taken);
    let db = Db::open(directory.path(), &options("")).expect("the database");
    assert_whole(&db);
}

/// Regression test: open blob files were not closed when no descriptor was free. Besides, each
/// column family kept as many blob files open as all column families together are allowed.
#[test]
fn open_blob_files_are_closed_when_descriptors_run_out() {
    // This test must take the lock in `Limit` before it opens any file: another test may hold the
    // lock and all descriptors.
    let _limit = Limit::new(LIMIT);
    let copy = golden::unpack("blobs");
    let dump = golden::dump("blobs");
    let options = OpenOptions::load(copy.path()).expect("an OPTIONS file");
    let db = Db::open(copy.path(), &options).expect("the database");
    let read_all = || {
        for entry in &dump {
            let family = db.cf_handle(&entry.family).expect("a column family");
            let value = db.get_cf_opt(&family, &entry.key, &ReadOptions::default()).expect("a get");
            assert!(value.as_ref() == Some(&entry.value));
        }
    };
    read_all();
    let open = open_blob_files(copy.path());
    // The database has 13 blob files, more than the 12 that may be open.
    assert_eq!(open, LIMIT as usize / 2 / 8);
    let taken = take_all_descriptors();
    let family = db.cf_handle("default").expect("a column family");
    db.delete_cf_opt(&family, b"none", &WriteOptions::default()).expect("a deletion");
    db.flush_cf(&family).expect("a flush");
    assert!(open_blob_files(copy.path()) < open);
    read_all();
    // The blobs of a batch are in more files than can be open at a time.
    let taken_after = take_all_descriptors();
    for family in db.column_families() {
        let entries: Vec<_> = dump.iter().filter(|it| it.family == family.name()).collect();
        let keys: Vec<_> = entries.iter().map(|entry| &entry.key).collect();
        let values = db.batched_multi_get_cf_opt(&family, &keys, &ReadOptions::default());
        for (value, entry) in values.into_iter().zip(entries) {
            assert!(value.expect("a get").as_deref() == Some(&entry.value[..]));
        }
    }
    drop((taken, taken_after));
}

/// Returns how many lines of the LOG report that tables are closed because of `RLIMIT_NOFILE`.
#[expect(clippy::disallowed_methods, reason = "reads the LOG as users do")]
fn reports(directory: &Path) -> usize {
    let log = std::fs::read_to_string(directory.join("LOG")).expect("a LOG");
    log.lines().filter(|line| line.contains("RLIMIT_NOFILE")).count()
}

/// Returns the number of files in `directory` that this process has open.
fn open_files_in(directory: &Path) -> usize {
    open_files().filter(|path| path.starts_with(directory)).count()
}

/// Returns the number of blob files in `directory` that this process has open.
fn open_blob_files(directory: &Path) -> usize {
    let is_blob = |path: &Path| path.extension().is_some_and(|extension| extension == "blob");
    open_files().filter(|path| path.starts_with(directory) && is_blob(path)).count()
}

/// Returns the files that this process has open.
#[expect(clippy::disallowed_methods, reason = "asks the system what is open")]
fn open_files() -> impl Iterator<Item = PathBuf> {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("the list of descriptors");
    descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
}
