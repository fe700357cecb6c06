//! A database in memory or in files, with concurrent writers and readers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use tailwater::env::Env;
use tailwater::{ColumnFamily, Db, OpenOptions, ReadOptions, WriteOptions};
use tailwater_io::sim::SimStorage;
use tailwater_testkit::filesystem::writes_directly;
use tempfile::TempDir;

use crate::ledger::{FAMILIES, Ledger, Numbers, State, check_bounds, number_in};

/// The options of every database in these tests. The memtables are so small that they fill
/// continuously. The number of tables is unlimited, since nothing compacts them.
const OPTIONS: &str = "create_if_missing=true;create_missing_column_families=true;\
    write_buffer_size=65536;max_write_buffer_number=4;disable_auto_compactions=true";

/// The storage of a database: simulated or real files.
#[derive(Debug)]
pub(crate) enum Place {
    Memory(SimStorage),
    Files(TempDir),
}

impl Place {
    /// Returns an empty simulated disk and an empty real directory.
    pub(crate) fn both(seed: u64) -> [Self; 2] {
        let files = tempfile::tempdir().expect("a directory");
        writes_directly(files.path(), "direct modes of concurrent work on real files");
        [Self::Memory(SimStorage::new(seed)), Self::Files(files)]
    }

    /// Returns the database's directory.
    pub(crate) fn directory(&self) -> PathBuf {
        match self {
            Self::Memory(_) => PathBuf::from("/db"),
            Self::Files(directory) => directory.path().join("db"),
        }
    }

    /// Returns the options with which a database at this place is opened; `more` adds options. The
    /// database does not share threads with those of other tests.
    pub(crate) fn options(&self, more: &str) -> OpenOptions {
        let mut options = match self {
            Self::Memory(storage) => OpenOptions::with_storage(Arc::new(storage.clone())),
            Self::Files(_) => OpenOptions::default(),
        };
        options.set_env(Env::new());
        with_families(options, more)
    }

    /// Opens the database.
    pub(crate) fn open(&self, more: &str) -> Db {
        Db::open(self.directory(), &self.options(more)).expect("the database")
    }
}

/// Adds to `options` the options that every database in these tests has, the options in `more`, and
/// the column families of the writers.
pub(crate) fn with_families(mut options: OpenOptions, more: &str) -> OpenOptions {
    options.set_from_string(OPTIONS).expect("options");
    options.set_from_string(more).expect("options");
    for name in FAMILIES {
        let family = options.column_family(name).clone();
        options.set_column_family(name, family);
    }
    options
}

/// Returns the column families to which writers write.
pub(crate) fn families(db: &Db) -> Vec<ColumnFamily> {
    FAMILIES.map(|name| db.cf_handle(name).expect("a column family")).to_vec()
}

/// Returns all entries of some column families.
pub(crate) fn read_all(
    db: &Db,
    families: &[usize],
    options: &ReadOptions,
    backwards: bool,
) -> State {
    let handles = self::families(db);
    let mut state = State::new();
    for &family in families {
        let mut iterator = db.raw_iterator_cf_opt(&handles[family], options).expect("an iterator");
        if backwards { iterator.seek_to_last() } else { iterator.seek_to_first() }.expect("a seek");
        let mut last: Option<Vec<u8>> = None;
        while let Some((key, value)) = iterator.item() {
            let goes_on = |last: &[u8]| if backwards { key < last } else { key > last };
            assert!(
                last.as_deref().is_none_or(goes_on),
                "'{}' is out of order",
                key.escape_ascii()
            );
            last = Some(key.to_vec());
            state.insert((family, key.to_vec()), value.to_vec());
            if backwards { iterator.prev() } else { iterator.next() }.expect("a step");
        }
    }
    state
}

/// The indexes of all column families in [`FAMILIES`].
pub(crate) const ALL: [usize; FAMILIES.len()] = [0, 1, 2];

/// Checks that a database to which nothing is being written holds the last batch of each writer.
pub(crate) fn check_at_rest(db: &Db, ledger: &Ledger) -> Result<(), String> {
    let state = read_all(db, &ALL, &ReadOptions::default(), false);
    let found = ledger.check(&state, &ALL)?;
    check_bounds(&found, &ledger.acknowledged(), &ledger.begun())
}

/// Writers and readers of one database.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) db: &'a Db,
    pub(crate) ledger: &'a Ledger,
    /// Number of writers that are still writing.
    writing: AtomicUsize,
    failed: AtomicBool,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(db: &'a Db, ledger: &'a Ledger) -> Self {
        let (writing, failed) = (AtomicUsize::new(ledger.writers()), AtomicBool::new(false));
        Self { db, ledger, writing, failed }
    }

    /// Whether any writer is still writing.
    pub(crate) fn goes_on(&self) -> bool {
        self.writing.load(Ordering::SeqCst) > 0 && !self.failed.load(Ordering::SeqCst)
    }

    /// Returns the value of a result. An error makes the writers and readers stop, and the test
    /// fail.
    pub(crate) fn must<T>(&self, result: Result<T, String>) -> T {
        result.unwrap_or_else(|error| {
            self.failed.store(true, Ordering::SeqCst);
            panic!("{error}");
        })
    }

    /// Writes the next batches of a writer; `options` returns the write options for a batch number.
    /// Returns the sequence number and the number of operations of each batch.
    pub(crate) fn write(
        &self,
        writer: usize,
        batches: u64,
        options: impl Fn(u64) -> WriteOptions,
    ) -> Vec<(u64, u64)> {
        let _leaving = Leaving { scene: self };
        let ids: Vec<u32> = families(self.db).iter().map(ColumnFamily::id).collect();
        let mut written = Vec::new();
        for _ in 0..batches {
            if self.failed.load(Ordering::SeqCst) {
                break;
            }
            let (number, mut batch) = self.ledger.begin(writer, &ids);
            let result = self.db.write_opt(&mut batch, &options(number));
            self.must(result.map_err(|error| format!("writer {writer}: {error}")));
            self.ledger.acknowledge(writer, number);
            written.push((batch.sequence(), batch.len() as u64));
        }
        written
    }

    /// Reads snapshots and checks them while writers write.
    pub(crate) fn watch_snapshots(&self, mut rng: Rng) {
        while self.goes_on() {
            let least = self.ledger.acknowledged();
            let snapshot = Some(self.db.snapshot());
            let most = self.ledger.begun();
            let options = ReadOptions::new()
                .with_snapshot(snapshot)
                .with_auto_refresh_iterator_with_snapshot(rng.bool())
                .with_pin_data(rng.bool());
            let state = read_all(self.db, &ALL, &options, rng.bool());
            self.check(&state, &ALL, &least, &most);
            // Waits, and then checks that the snapshot still shows the same state, even if
            // memtables were flushed.
            thread::sleep(Duration::from_millis(rng.u64(0..5)));
            self.must(self.compare_gets(&state, &options, &mut rng));
            let again = read_all(self.db, &ALL, &options, rng.bool());
            let same = if again == state { Ok(()) } else { Err("a snapshot changed".to_owned()) };
            self.must(same);
        }
    }

    /// Gets the keys of a random writer one by one, and compares the values with `state`.
    fn compare_gets(
        &self,
        state: &State,
        options: &ReadOptions,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let handles = families(self.db);
        for (family, key) in self.ledger.slots(rng.usize(..self.ledger.writers())) {
            let value =
                self.db.get_cf_opt(&handles[family], &key, options).map_err(|e| e.to_string())?;
            if value.as_ref() != state.get(&(family, key.clone())) {
                return Err(format!("a get and an iterator differ on {}", key.escape_ascii()));
            }
        }
        Ok(())
    }

    /// Reads with iterators that have no explicit snapshot, while writers write.
    pub(crate) fn watch_iterators(&self, mut rng: Rng) {
        while self.goes_on() {
            let family = rng.usize(..FAMILIES.len());
            let least = self.ledger.acknowledged();
            let state = read_all(self.db, &[family], &ReadOptions::default(), rng.bool());
            self.check(&state, &[family], &least, &self.ledger.begun());
        }
    }

    /// Reads a writer's slots (keys) with one get after another while the writer writes. No get may
    /// return a value of an older batch than the previous get.
    pub(crate) fn watch_gets(&self, mut rng: Rng) {
        let handles = families(self.db);
        let options = ReadOptions::default();
        while self.goes_on() {
            let writer = rng.usize(..self.ledger.writers());
            let mut newest = self.ledger.acknowledged()[writer];
            for (family, key) in self.ledger.slots(writer) {
                let value = self.db.get_cf_opt(&handles[family], &key, &options).expect("a get");
                let number = value.map_or(0, |value| number_in(&value));
                let is_right = newest <= number && number <= self.ledger.begun()[writer];
                let error = || format!("writer {writer}: {number} was read after {newest}");
                self.must(if is_right { Ok(()) } else { Err(error()) });
                newest = number;
            }
        }
    }

    /// Flushes one column family at a time while writers write. If a batch writes to several column
    /// families, some of its changes are then in a table, and the others only in a log.
    pub(crate) fn flush_one_by_one(&self, mut rng: Rng) {
        let handles = families(self.db);
        while self.goes_on() {
            let flushed = self.db.flush_cf(&handles[rng.usize(..handles.len())]);
            self.must(flushed.map_err(|error| format!("flushing: {error}")));
            thread::sleep(Duration::from_millis(rng.u64(..20)));
        }
    }

    /// Opens the states that a crash of the process or of the machine would leave, while writers
    /// write. With `all_synced`, acknowledged writes must survive a crash of the machine, too.
    pub(crate) fn watch_crashes(
        &self,
        storage: &SimStorage,
        more: &str,
        all_synced: bool,
        mut rng: Rng,
    ) {
        while self.goes_on() {
            let mut least = self.ledger.acknowledged();
            let (is_machine, seed) = (rng.bool(), rng.u64(..));
            let image = if is_machine {
                storage.crash_image(seed)
            } else {
                storage.process_crash_image(seed)
            };
            let most = self.ledger.begun();
            if is_machine && !all_synced {
                least.fill(0);
            }
            let db = Place::Memory(image).open(more);
            let state = read_all(&db, &ALL, &ReadOptions::default(), rng.bool());
            let checked = self.ledger.check(&state, &ALL);
            let checked = checked.and_then(|found| check_bounds(&found, &least, &most));
            let crash = if is_machine { "machine" } else { "process" };
            let left_out = db.left_out();
            self.must(checked.map_err(|error| {
                format!("after a crash of the {crash}, with {left_out:?} left out: {error}")
            }));
            thread::sleep(Duration::from_millis(rng.u64(..20)));
        }
    }

    fn check(&self, state: &State, families: &[usize], least: &Numbers, most: &Numbers) {
        let checked = self.ledger.check(state, families);
        let checked = checked.and_then(|found| check_bounds(&found, least, most));
        self.must(checked);
    }
}

/// A guard whose drop subtracts a writer from the number of writers that are still writing.
struct Leaving<'s, 'a> {
    scene: &'s Scene<'a>,
}

impl Drop for Leaving<'_, '_> {
    fn drop(&mut self) {
        self.scene.writing.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Checks that the batches have consecutive ranges of sequence numbers from `first` to `latest`;
/// `written` has the first number and the count of each batch.
pub(crate) fn check_sequences(first: u64, mut written: Vec<(u64, u64)>, latest: u64) {
    written.sort_unstable();
    let mut next = first;
    for (sequence, count) in written {
        assert_eq!(sequence, next, "a batch begins where the one before ended");
        next += count;
    }
    assert_eq!(latest + 1, next, "the last sequence number is that of the last operation");
}

/// Opens a database on a copy of a simulated disk. The copy has the contents that a crash of the
/// process would leave now.
pub(crate) fn after_process_crash(storage: &SimStorage, more: &str, seed: u64) -> Db {
    let place = Place::Memory(storage.process_crash_image(seed));
    place.open(more)
}
