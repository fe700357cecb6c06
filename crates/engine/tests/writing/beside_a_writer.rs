//! Opening a database for reading while it is written elsewhere. The writer works between two
//! storage calls of the reader, so that each run is repeatable.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tailwater::options::ColumnFamilyOptions;
use tailwater::{CompactRangeOptions, Db, OpenOptions, ReadOptions, WriteBatch, WriteOptions};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, DirectoryEntry, IoMode, Purpose, ReadFile, Result, Storage};
use tailwater_testkit::seed;

use crate::support::{get_from, logs, make_file, simulated};

const DB: &str = "/db";

/// Number of storage calls of the reader between two steps of the writer, on average.
const CALLS_PER_STEP: usize = 30;

/// Number of times that the database is opened for reading in each round.
const OPENINGS: usize = 12;

type Step = Box<dyn FnMut(&Path) + Send>;

/// A storage that calls a function before some calls of the reader.
struct Shared {
    disk: SimStorage,
    /// Called before a file is opened, a log is read or a directory is listed, with its path.
    before: Arc<Mutex<Option<Step>>>,
}

/// A log that calls the function before each read.
struct SharedLog {
    file: Arc<dyn ReadFile>,
    before: Arc<Mutex<Option<Step>>>,
}

fn meanwhile(before: &Mutex<Option<Step>>, path: &Path) {
    let taken = before.lock().unwrap_or_else(PoisonError::into_inner).take();
    // The function itself makes no call through this storage.
    if let Some(mut step) = taken {
        step(path);
        *before.lock().unwrap_or_else(PoisonError::into_inner) = Some(step);
    }
}

impl std::fmt::Debug for SharedLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedLog").finish_non_exhaustive()
    }
}

impl ReadFile for SharedLog {
    tailwater_io::forward_read_file!(file: length, path, mode, alignment);

    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        meanwhile(&self.before, self.file.path());
        self.file.read_at(buffer, offset, purpose)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Storage for Shared {
    tailwater_io::forward_storage!(
        disk: create, rename, remove, remove_directory, link, create_directory, metadata,
        identity, canonical_path, capabilities, resident_pages, sync_directory, lock, statistics,
    );

    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>> {
        meanwhile(&self.before, path);
        let file = self.disk.open(path, mode, purpose)?;
        if path.extension().is_none_or(|extension| extension != "log") {
            return Ok(file);
        }
        Ok(Arc::new(SharedLog { file, before: Arc::clone(&self.before) }))
    }

    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>> {
        meanwhile(&self.before, directory);
        self.disk.list(directory)
    }
}

/// A database that is written.
struct Writer {
    disk: SimStorage,
    options: &'static str,
    db: Option<Db>,
    /// Number of batches that were written. Batch `n` puts key `n` into both column families.
    written: Arc<Mutex<u64>>,
    rng: fastrand::Rng,
    /// Whether a third column family exists.
    has_third: bool,
}

impl Writer {
    fn new(options: &'static str, written: &Arc<Mutex<u64>>, seed: u64) -> Self {
        let disk = SimStorage::new(seed);
        let rng = fastrand::Rng::with_seed(seed);
        let written = Arc::clone(written);
        let mut writer = Self { disk, options, db: None, written, rng, has_third: false };
        writer.open();
        let options = ColumnFamilyOptions::default();
        writer.db().create_cf("other", &options).expect("a column family");
        for _ in 0..20 {
            writer.put();
        }
        writer
    }

    fn open(&mut self) {
        let options = simulated(&self.disk, self.options);
        self.db = Some(Db::open(DB, &options).expect("the database"));
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("an open database")
    }

    fn put(&mut self) {
        let mut written = self.written.lock().expect("not poisoned");
        let db = self.db();
        let (key, mut batch) = (key(*written), WriteBatch::new());
        let value = vec![b'v'; 200];
        for name in ["default", "other"] {
            let family = db.cf_handle(name).expect("a column family");
            batch.put_cf(&family, &key, &value).expect("a record");
        }
        db.write_opt(&mut batch, &WriteOptions::default()).expect("a write");
        *written += 1;
    }

    /// Writes, and does something else besides.
    fn step(&mut self) {
        self.put();
        let name = ["default", "other"][self.rng.usize(..2)];
        let family = self.db().cf_handle(name).expect("a column family");
        match self.rng.u8(..12) {
            0..=5 => self.db().flush_cf(&family).expect("a flush"),
            6..=8 => {
                let all = CompactRangeOptions::default();
                self.db().compact_range_cf_opt(&family, None, None, &all).expect("a compaction");
            }
            9 if self.has_third => {
                let third = self.db().cf_handle("third").expect("a column family");
                self.db().drop_cf(&third).expect("dropped");
                self.has_third = false;
            }
            9 => {
                let options = ColumnFamilyOptions::default();
                let third = self.db().create_cf("third", &options).expect("a column family");
                self.db().put_cf(&third, "k", "v").expect("a put");
                self.has_third = true;
            }
            10 => {
                let number = *self.written.lock().expect("not poisoned");
                let path = Path::new("/table.sst");
                let options = simulated(&self.disk, self.options);
                make_file(&options, path, &[&format!("x{number:06}")], "ingested");
                self.db().ingest_external_file(&[path]).expect("an ingestion");
            }
            // Begins a new MANIFEST.
            _ => {
                self.db.take().expect("an open database").close().expect("closed");
                self.open();
            }
        }
        self.put();
    }
}

fn key(number: u64) -> String {
    format!("k{number:06}")
}

/// Returns the number of keys that a state of the database shows. They must be the first ones, and
/// the same in both column families.
fn shown(db: &Db, what: &str) -> u64 {
    let counts = ["default", "other"].map(|name| {
        let family = db.cf_handle(name).expect("a column family");
        let options = ReadOptions::new().with_iterate_upper_bound("l");
        let mut iterator = db.raw_iterator_cf_opt(&family, &options).expect("an iterator");
        iterator.seek_to_first().unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut count = 0;
        while iterator.valid() {
            assert_eq!(iterator.key(), key(count).as_bytes(), "{what}: a gap in '{name}'");
            count += 1;
            iterator.next().unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        count
    });
    assert_eq!(counts[0], counts[1], "{what}: a batch is shown in part");
    counts[0]
}

/// Regression test: a database could not be opened for reading if its MANIFEST changed during every
/// attempt, and an attempt read everything anew. If a table disappeared after the opening, because
/// it had not been opened, reads failed.
#[test]
fn a_busy_database_is_opened_in_one_of_its_states() {
    let mut seed = seed::rng();
    for round in 0..8 * seed::rounds() {
        let text = [
            "write_buffer_size=65536",
            "write_buffer_size=65536;recycle_log_file_num=3",
            "write_buffer_size=65536;max_manifest_file_size=2000;wal_io_mode=direct",
            "write_buffer_size=65536;max_manifest_file_size=2000;recycle_log_file_num=3",
        ][round % 4];
        let what = format!("TAILWATER_SEED={} round {round} with {text}", seed.value());
        let written = Arc::new(Mutex::new(0));
        let writer = Writer::new(text, &written, seed.rng.u64(..));
        let shared = Arc::new(Shared { disk: writer.disk.clone(), before: Arc::default() });
        let (writer, mut rng) = (Arc::new(Mutex::new(writer)), seed.rng.fork());
        let busy = Arc::clone(&writer);
        let interrupt = move |_: &Path| {
            if rng.usize(..CALLS_PER_STEP) == 0 {
                busy.lock().expect("not poisoned").step();
            }
        };
        *shared.before.lock().expect("not poisoned") = Some(Box::new(interrupt));
        let count = || *written.lock().expect("not poisoned");
        for opening in 0..OPENINGS {
            let what = format!("{what}, opening {opening}");
            let mut options = OpenOptions::with_storage(Arc::clone(&shared) as Arc<dyn Storage>);
            if opening % 2 == 0 {
                options.set_load_when_opened("");
            }
            let before = count();
            let db = Db::open_read_only(DB, &options);
            let db = db.unwrap_or_else(|error| panic!("{what}: {error}"));
            let after = count();
            assert!(db.left_out().is_empty(), "{what}: {:?}", db.left_out());
            // Removes all tables that existed when the database was opened.
            let all = CompactRangeOptions::default();
            for _ in 0..3 {
                let mut writer = writer.lock().expect("not poisoned");
                writer.put();
                for family in writer.db().column_families() {
                    let compacted = writer.db().compact_range_cf_opt(&family, None, None, &all);
                    compacted.expect("a compaction");
                }
            }
            let shown = shown(&db, &what);
            assert!((before..=after).contains(&shown), "{what}: {before} <= {shown} <= {after}");
        }
        *shared.before.lock().expect("not poisoned") = None;
    }
}

/// Regression test: a log that became obsolete while it was opened was overwritten with a later
/// log, and a new MANIFEST was begun before it was replayed. The reader lacked all writes in the
/// log.
#[test]
fn a_log_that_is_overwritten_while_it_is_replayed_is_not_missed() {
    for seed in 0..5 {
        let text = "recycle_log_file_num=3;write_buffer_size=65536";
        let written = Arc::new(Mutex::new(0));
        let mut writer = Writer::new(text, &written, seed);
        let before = *written.lock().expect("not poisoned");
        let disk = writer.disk.clone();
        let mut reads = 0;
        let overwrite = move |path: &Path| {
            let is_log = path.extension().is_some_and(|extension| extension == "log");
            reads += u64::from(is_log);
            // The log is first opened, and then read.
            if reads != 2 {
                return;
            }
            for _ in 0..8 {
                writer.put();
                for family in writer.db().column_families() {
                    writer.db().flush_cf(&family).expect("a flush");
                }
            }
            writer.db.take().expect("an open database").close().expect("closed");
            writer.open();
        };
        let shared = Shared { disk, before: Arc::new(Mutex::new(Some(Box::new(overwrite)))) };
        let mut options = OpenOptions::with_storage(Arc::new(shared));
        options.set_load_when_opened("");
        let db = Db::open_read_only(DB, &options).expect("the database");
        let shown = shown(&db, "a reader");
        assert!(shown >= before, "{shown} of {before} keys are shown");
    }
}

/// Regression test: the end of a log that another process was writing was reported as torn.
#[test]
fn a_write_in_progress_is_not_called_torn() {
    let disk = SimStorage::new(1);
    let db = Db::open(DB, &simulated(&disk, "")).expect("a new database");
    for value in ["1", "2"] {
        db.put("a", value).expect("a put");
    }
    let name = logs(&disk, DB.as_ref()).pop().expect("a log");
    let path = Path::new(DB).join(name);
    let file = disk.open(&path, IoMode::Buffered, Purpose::Wal).expect("the log");
    let length = file.length().expect("a length");
    let mut bytes = vec![0; length as usize];
    file.read_full_at(&mut bytes, 0, Purpose::Wal).expect("a read");
    let image = disk.process_crash_image(1);
    // The log ends within its last record when it is opened first.
    let mut log = image
        .create(&path, Create::Existing, IoMode::Buffered, Purpose::Wal)
        .expect("the log of the image");
    log.truncate(length - 1).expect("a shorter log");
    let mut is_read = false;
    let mut rest = Some(log);
    let before = move |about: &Path| {
        if is_read && let Some(mut log) = rest.take() {
            let last = bytes.last_chunk::<1>().expect("a byte");
            log.write_all_at(last, length - 1, Purpose::Wal).expect("the rest of the record");
        }
        is_read |= about == path;
    };
    let shared = Shared { disk: image, before: Arc::new(Mutex::new(Some(Box::new(before)))) };
    let options = OpenOptions::with_storage(Arc::new(shared));
    let read = Db::open_read_only(DB, &options).expect("the database");
    assert!(read.left_out().is_empty(), "{:?}", read.left_out());
    assert_eq!(get_from(&read, read.default_cf(), "a").as_deref(), Some("2"));
}
