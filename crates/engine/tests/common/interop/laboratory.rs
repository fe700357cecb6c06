//! The environment of the interoperability tests: both engines, directories for databases, and
//! random numbers.

use fastrand::Rng;
use tailwater::verify::{self, Severity};
use tailwater::{Db, Error, OpenOptions, ReadOptions, Snapshot};
use tailwater_testkit::dump::Entry;
use tailwater_testkit::filesystem::writes_directly;
use tailwater_testkit::oracle::{Oracle, Script};
use tailwater_testkit::seed;
use tempfile::TempDir;

use crate::check;
use crate::model::Model;
use crate::place::Place;
use crate::shape::Shape;
use crate::step::Step;

/// Options that create everything that is missing.
pub(crate) const CREATE: &str = "create_if_missing=true;create_missing_column_families=true";

/// The real RocksDB, a directory for databases, and a random number generator.
pub(crate) struct Laboratory {
    pub(crate) oracle: Oracle,
    directory: TempDir,
    pub(crate) rng: Rng,
    /// The name of the test and the seed, for failure messages.
    pub(crate) context: String,
    places: usize,
}

/// Calls `test` repeatedly, as often as the environment variables request. Does nothing if the
/// oracle (the real RocksDB) is not available.
pub(crate) fn in_laboratory(part: &str, mut test: impl FnMut(&mut Laboratory)) {
    let Some(oracle) = Oracle::start(part) else { return };
    let seed = seed::rng();
    let context = format!("{part}, seed {}", seed.value());
    let directory = tempfile::tempdir().expect("a directory");
    writes_directly(directory.path(), &format!("direct modes of {part}"));
    let mut laboratory = Laboratory { oracle, directory, rng: seed.rng, context, places: 0 };
    for _ in 0..seed::rounds() {
        test(&mut laboratory);
        laboratory.clear();
    }
}

impl Laboratory {
    /// Returns a new place: a directory for the files of the next database.
    pub(crate) fn next_place(&mut self) -> Place {
        self.places += 1;
        Place::new(self.directory.path().join(self.places.to_string()))
    }

    /// Removes the directories of all databases that this laboratory created. None of the databases
    /// may be open.
    #[expect(clippy::disallowed_methods, reason = "files around databases, not of a database")]
    pub(crate) fn clear(&mut self) {
        for entry in std::fs::read_dir(self.directory.path()).expect("a directory") {
            let path = entry.expect("an entry of the directory").path();
            std::fs::remove_dir_all(path).expect("a directory that can be removed");
        }
    }

    /// Returns a copy of the files that a database would leave if its process were killed now.
    pub(crate) fn copy(&mut self, place: &Place) -> Place {
        self.places += 1;
        place.copy_to(self.directory.path().join(self.places.to_string()))
    }

    /// Asserts that RocksDB finds the model's contents in the database that the script opens.
    /// RocksDB keeps the database open.
    pub(crate) fn rocksdb_finds(&mut self, script: Script, model: &Model, context: &str) {
        let found = self
            .oracle
            .dump_open(script)
            .unwrap_or_else(|error| panic!("{context}: RocksDB says {error}"));
        assert_same(&found, &model.dump(), &format!("{context}: RocksDB"));
    }

    /// Makes RocksDB run a script.
    pub(crate) fn rocksdb_does(&mut self, script: &Script, context: &str) -> String {
        let answer = self.oracle.run(script);
        answer.unwrap_or_else(|error| panic!("{context}: RocksDB says {error}"))
    }

    /// Makes RocksDB close the database.
    pub(crate) fn rocksdb_closes(&mut self, context: &str) {
        let mut script = Script::default();
        script.line(&[&"close"]);
        self.rocksdb_does(&script, context);
    }
}

/// Opens a database with Tailwater for writing, and asserts that it holds the model's contents.
pub(crate) fn open_ours(
    shape: &Shape,
    place: &Place,
    model: &Model,
    more: &str,
    context: &str,
) -> Db {
    let options = shape.open_options(place, model, more);
    let db = Db::open(place.database(), &options)
        .unwrap_or_else(|error| panic!("{context}: opening for writing: {error}"));
    check::holds(&db, &model.dump(), &format!("{context}, opened for writing"));
    db
}

/// Makes Tailwater perform `count` random steps, and then flush the writes that are in no log.
/// After that, all writes are durable except those in the last bytes of the log. A snapshot that is
/// taken between the steps keeps older versions of keys in tables.
pub(crate) fn ours_does(db: &Db, model: &mut Model, rng: &mut Rng, count: usize, context: &str) {
    let perform = |steps: Vec<Step>| {
        for step in steps {
            step.perform(db).unwrap_or_else(|error| panic!("{context}: {step:?}: {error}"));
        }
    };
    let before = rng.usize(..=count);
    perform(model.advance(rng, before));
    let seen = (db.snapshot(), model.clone());
    perform(model.advance(rng, count - before));
    perform(model.settle());
    let (snapshot, model) = seen;
    shows(db, snapshot, &model, &format!("{context}, by a snapshot"));
}

/// Asserts that `snapshot` shows the contents of the default family in `model`, a copy of the model
/// from the time of the snapshot.
fn shows(db: &Db, snapshot: Snapshot, model: &Model, context: &str) {
    let fail = |error: Error| -> ! { panic!("{context}: {error}") };
    let family = db.cf_handle("default").unwrap_or_else(|error| fail(error));
    let options = ReadOptions::new().with_snapshot(snapshot).with_total_order_seek(true);
    let mut iterator =
        db.raw_iterator_cf_opt(&family, &options).unwrap_or_else(|error| fail(error));
    iterator.seek_to_first().unwrap_or_else(|error| fail(error));
    for entry in model.dump().iter().filter(|entry| entry.family == "default") {
        let expected = Some((entry.key.as_slice(), entry.value.as_slice()));
        assert_eq!(iterator.item(), expected, "{context}");
        iterator.next().unwrap_or_else(|error| fail(error));
    }
    assert!(!iterator.valid(), "{context}: more than was written");
}

/// Returns a script that makes RocksDB perform `count` random steps, with a snapshot between two of
/// them, and then write all buffered data to the operating system.
pub(crate) fn rocksdb_steps(model: &mut Model, rng: &mut Rng, count: usize) -> Script {
    let mut script = Script::default();
    let before = rng.usize(..=count);
    model.advance(rng, before).iter().for_each(|step| step.tell(&mut script));
    script.line(&[&"snapshot"]);
    model.advance(rng, count - before).iter().for_each(|step| step.tell(&mut script));
    model.settle().iter().for_each(|step| step.tell(&mut script));
    script.line(&[&"release"]);
    script.line(&[&"flush-wal"]);
    script
}

/// Asserts that a database that Tailwater opens read-only holds the model's contents, and that
/// verification finds no damage.
pub(crate) fn ours_finds(options: &OpenOptions, place: &Place, model: &Model, context: &str) {
    let db = Db::open_read_only(place.database(), options)
        .unwrap_or_else(|error| panic!("{context}: opening for reading: {error}"));
    check::holds(&db, &model.dump(), &format!("{context}, opened for reading"));
    // Verification may take the remains of an older log in a recycled file for an incomplete
    // record.
    let recycles = options.database().recycle_log_file_num > 0;
    let is_bad =
        |severity| severity == Severity::Damage || (severity == Severity::TornTail && !recycles);
    let report = verify::verify(place.database(), options);
    let bad: Vec<_> = report.findings.iter().filter(|finding| is_bad(finding.severity)).collect();
    assert!(bad.is_empty(), "{context}: {bad:#?}");
}

/// Asserts that two dumps have the same entries, whatever the order of their families.
pub(crate) fn assert_same(found: &[Entry], expected: &[Entry], context: &str) {
    let sorted = |entries: &'_ [Entry]| -> Vec<Entry> {
        let mut entries = entries.to_vec();
        entries.sort_by(|a, b| a.family.cmp(&b.family));
        entries
    };
    let (found, expected) = (sorted(found), sorted(expected));
    let show = |entry: Option<&Entry>| {
        entry.map_or_else(
            || "nothing".to_owned(),
            |entry| {
                let Entry { family, key, value } = entry;
                let (key, length) = (key.escape_ascii(), value.len());
                let shown = value[..length.min(60)].escape_ascii();
                format!("'{key}' = '{shown}' ({length} bytes) in '{family}'")
            },
        )
    };
    for at in 0..found.len().max(expected.len()) {
        let (found, expected) = (found.get(at), expected.get(at));
        assert!(
            found == expected,
            "{context} finds {} where there must be {}, entry {at}",
            show(found),
            show(expected)
        );
    }
}
