//! A small database in which one file is damaged. Iterators and gets read the whole database.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tailwater::verify;
use tailwater::{ColumnFamily, Db, Error, OpenOptions, ReadOptions};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};
use tailwater_testkit::golden;
use tailwater_testkit::model::Family;

use crate::tally::Outcome;

pub(crate) const DIRECTORY: &str = "/database";

/// A small golden database, whose files are in memory.
pub(crate) struct Small {
    pub(crate) name: &'static str,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    models: BTreeMap<String, Family>,
    options: OpenOptions,
}

/// A small golden database with `contents` in place of the original contents of `file`.
pub(crate) struct Damaged<'a> {
    pub(crate) small: &'a Small,
    pub(crate) file: &'a str,
    pub(crate) contents: Vec<u8>,
}

/// Why the reads of a column family did not all return correct results.
enum Trouble {
    /// At least one read returned an error, and no read returned a wrong result.
    Failed(Error),
    /// At least one read returned a wrong result.
    Wrong(String),
}

impl Small {
    pub(crate) fn load(name: &'static str) -> Self {
        let mut files = golden::files(name);
        let storage = store(&files, None);
        let options = OpenOptions::load_from(Arc::clone(&storage), Path::new(DIRECTORY))
            .expect("an OPTIONS file");
        let db = Db::open_read_only(Path::new(DIRECTORY), &options).expect("a whole database");
        let dump = golden::dump(name);
        let families = db.column_families();
        let models = families.iter().map(|family| {
            let model = Family::new(family.name(), family.comparator().clone(), &dump);
            (family.name().to_owned(), model)
        });
        let models = models.collect();
        // The tests do not damage OPTIONS, since it has no checksum. Without OPTIONS, no
        // verification spends time on reading it.
        files.retain(|file, _| !file.starts_with("OPTIONS"));
        Self { name, models, options, files }
    }

    /// Returns the files to damage: tables, blob files, logs, the MANIFEST and CURRENT.
    pub(crate) fn damageable(&self) -> impl Iterator<Item = (&str, &Vec<u8>)> {
        let covered = |file: &str| {
            [".sst", ".blob", ".log"].iter().any(|extension| file.ends_with(extension))
                || file.starts_with("MANIFEST")
                || file == "CURRENT"
        };
        let files = self.files.iter().map(|(file, contents)| (file.as_str(), contents));
        files.filter(move |(file, _)| covered(file))
    }

    pub(crate) fn has_legacy_footers(&self) -> bool {
        matches!(self.name, "small-2" | "small-5")
    }

    /// Whether damage to `file` may affect reads of `family`. A table or blob file affects only the
    /// column family that uses it; every other file affects both column families.
    fn concerns(&self, file: &str, family: &str) -> bool {
        let Some((number, "sst" | "blob")) = file.split_once('.') else { return true };
        let number: u32 = number.parse().expect("a file number");
        let first_of_other = if self.name == "small-blobs" { 15 } else { 13 };
        (number >= first_of_other) == (family == "other")
    }

    /// Returns the options of the database in `storage`.
    fn options_in(&self, storage: Arc<dyn Storage>) -> OpenOptions {
        let mut options = OpenOptions::with_storage(storage);
        options.set_database(self.options.database().clone());
        for family in self.options.column_families() {
            options.set_column_family(family, self.options.column_family(family).clone());
        }
        options
    }
}

fn store(files: &BTreeMap<String, Vec<u8>>, other: Option<(&str, &[u8])>) -> Arc<dyn Storage> {
    let storage = SimStorage::new(1);
    let directory = Path::new(DIRECTORY);
    storage.create_directory(directory).expect("a directory");
    for (file, contents) in files {
        let contents = match other {
            Some((name, contents)) if name == file => contents,
            _ => contents,
        };
        let path = directory.join(file);
        storage
            .create(&path, Create::New, IoMode::Buffered, Purpose::Metadata)
            .and_then(|mut file| file.write_all_at(contents, 0, Purpose::Metadata))
            .expect("a file");
    }
    Arc::new(storage)
}

impl Damaged<'_> {
    /// Opens, reads and verifies the damaged database, and returns the outcome.
    ///
    /// # Panics
    /// Panics if a read returns a wrong result, if an error names another file than the damaged
    /// one, if a column family that does not use the damaged file cannot be read, or if reads find
    /// damage that verification does not.
    pub(crate) fn outcome(&self) -> Outcome {
        let options = self.options();
        let read = self.read(&options);
        let found = self.verify(&options);
        match read {
            Outcome::Unnoticed if found => Outcome::Verified,
            Outcome::Unnoticed | Outcome::Older if !found => Outcome::Unnoticed,
            noticed => {
                assert!(found, "{self}: verification does not find what reading did: {noticed:?}");
                noticed
            }
        }
    }

    /// Returns the options with which the damaged database is opened.
    pub(crate) fn options(&self) -> OpenOptions {
        let storage = store(&self.small.files, Some((self.file, &self.contents)));
        self.small.options_in(storage)
    }

    fn read(&self, options: &OpenOptions) -> Outcome {
        let db = match Db::open_read_only(Path::new(DIRECTORY), options) {
            Ok(db) => db,
            Err(error) => {
                self.check_names_file(&error);
                return Outcome::Refused { has_offset: error.offset().is_some() };
            }
        };
        let mut outcome = Outcome::Unnoticed;
        if let Some(left_out) = db.left_out().first() {
            assert!(left_out.path.ends_with(self.file), "{self}: {left_out:?}");
            outcome = Outcome::LeftOut;
        }
        let mut batches = None;
        for (name, model) in &self.small.models {
            match self.read_family(&db, name, model) {
                Ok(count) => {
                    let before = *batches.get_or_insert(count);
                    assert_eq!(before, count, "{self}: half a batch was replayed");
                }
                Err(Trouble::Failed(error)) => {
                    self.check_names_file(&error);
                    assert!(self.small.concerns(self.file, name), "{self}: '{name}': {error}");
                    outcome = Outcome::Failed { has_offset: error.offset().is_some() };
                }
                Err(Trouble::Wrong(what)) => {
                    outcome = self.older(outcome).unwrap_or_else(|| panic!("{self}: {what}"));
                }
            }
        }
        if batches.is_some_and(|batches| batches < BATCHES) {
            outcome = self.older(outcome).unwrap_or_else(|| panic!("{self}: batches are missing"));
        }
        outcome
    }

    /// Returns the outcome for a database that shows an earlier state, or `None` if the damage must
    /// not lead to an earlier state. Damage to a MANIFEST or log may lead to an earlier state, but
    /// the database must report what it left out. A truncated MANIFEST or log may lead to an
    /// earlier state even without a report, since a file that ends after a whole record looks
    /// complete.
    fn older(&self, outcome: Outcome) -> Option<Outcome> {
        let grows = self.file.ends_with(".log") || self.file.starts_with("MANIFEST");
        let was_cut = self.contents.len() < self.small.files[self.file].len();
        match outcome {
            Outcome::LeftOut if grows => Some(Outcome::LeftOut),
            _ if grows && was_cut => Some(Outcome::Older),
            _ => None,
        }
    }

    /// Reads a column family completely by iterators in both directions and by gets. Returns how
    /// many of the log's batches these reads show. All reads must show the same number.
    fn read_family(&self, db: &Db, name: &str, model: &Family) -> Result<u32, Trouble> {
        let family = db.cf_handle(name);
        let family = family.map_err(|error| Trouble::Wrong(error.to_string()))?;
        let forward = iterate(db, &family, true).map(|entries| shown_batches(model, &entries));
        let backward = iterate(db, &family, false).map(|entries| shown_batches(model, &entries));
        let gets = get_all(db, &family, model);
        // If one read fails and another one returns a wrong result, this function reports the wrong
        // result.
        let mut failed = None;
        let mut batches = None;
        for answer in [forward, backward, gets] {
            match answer {
                Ok(Ok(count)) if batches.is_none_or(|before| before == count) => {
                    batches = Some(count);
                }
                Ok(Ok(_)) => return Err(Trouble::Wrong("reads do not agree".to_owned())),
                Ok(Err(what)) => {
                    return Err(Trouble::Wrong(format!("family '{name}': {what}")));
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(batches.unwrap_or(BATCHES)), |error| Err(Trouble::Failed(error)))
    }

    /// Whether verification has any finding. A note also counts, for example that the file has an
    /// unknown version because the byte with its version is damaged. Checks that every finding is
    /// about the damaged file.
    fn verify(&self, options: &OpenOptions) -> bool {
        let report = verify::verify(Path::new(DIRECTORY), options);
        for finding in &report.findings {
            // A damaged MANIFEST may show an earlier state, which other files contradict, so
            // findings about those files are accepted.
            let about = finding.path.ends_with(self.file)
                || self.is_followed_to(&finding.path)
                || self.file.starts_with("MANIFEST");
            assert!(about, "{self}: {finding:?}");
        }
        !report.findings.is_empty()
    }

    fn check_names_file(&self, error: &Error) {
        let named = error.path().unwrap_or_else(|| panic!("{self}: no file is named: {error}"));
        let about = named.ends_with(self.file) || self.is_followed_to(named);
        assert!(about, "{self}: another file is named: {error}");
    }

    /// Whether CURRENT is the damaged file and `path` is that of a MANIFEST. A damaged CURRENT may
    /// name a MANIFEST that does not exist. Errors and findings then name this MANIFEST instead of
    /// CURRENT.
    fn is_followed_to(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.file == "CURRENT" && name.starts_with("MANIFEST")
    }
}

impl std::fmt::Display for Damaged<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whole = &self.small.files[self.file];
        let changed = whole.iter().zip(&self.contents).position(|(a, b)| a != b);
        let at = changed.unwrap_or(self.contents.len());
        write!(f, "{}, {} damaged at {at} of {}", self.small.name, self.file, whole.len())
    }
}

/// Number of batches in the log. Batch N puts the key `walN` in both column families.
pub(crate) const BATCHES: u32 = 8;

/// Returns the number of the batch that put this key, or `None` if no batch of the log did.
pub(crate) fn batch_of(key: &[u8]) -> Option<u32> {
    str::from_utf8(key.strip_prefix(b"wal")?).ok()?.parse().ok()
}

pub(crate) type Entries = Vec<(Vec<u8>, Vec<u8>)>;
/// How many of the log's batches a read shows, or a description of a wrong result.
type Shown = Result<u32, String>;

/// Checks that `entries` are those of the model, except that the newest batches of the log may be
/// missing. Returns the number of batches found.
fn shown_batches(model: &Family, entries: &Entries) -> Shown {
    let batches = entries.iter().filter(|(key, _)| batch_of(key).is_some()).count() as u32;
    let expected = model.entries.iter();
    let expected = expected.filter(|(key, _)| batch_of(key).is_none_or(|batch| batch <= batches));
    if expected.eq(entries) { Ok(batches) } else { Err("other entries".to_owned()) }
}

/// Gets every key of the model. Returns the number of batches whose key was found; each batch put
/// one of the keys. If one get fails and another one returns a wrong result, this function reports
/// the wrong result.
fn get_all(db: &Db, family: &ColumnFamily, model: &Family) -> tailwater::Result<Shown> {
    let mut value = Vec::new();
    let mut batches = 0;
    let mut failed = None;
    for (key, expected) in &model.entries {
        match (db.get_into_cf_opt(family, key, &ReadOptions::default(), &mut value), batch_of(key))
        {
            (Ok(true), batch) if value == *expected => batches += u32::from(batch.is_some()),
            (Ok(false), Some(_)) => {}
            (Ok(_), _) => return Ok(Err(format!("get of '{}'", key.escape_ascii()))),
            (Err(error), _) => failed = Some(error),
        }
    }
    failed.map_or(Ok(Ok(batches)), Err)
}

/// Returns all entries in the order of the column family, whether they are read forward or
/// backward.
pub(crate) fn iterate(db: &Db, family: &ColumnFamily, forward: bool) -> tailwater::Result<Entries> {
    let mut iterator = db.raw_iterator_cf_opt(family, &ReadOptions::default())?;
    if forward {
        iterator.seek_to_first()?
    } else {
        iterator.seek_to_last()?
    }
    let mut entries = Vec::new();
    while let Some((key, value)) = iterator.item() {
        entries.push((key.to_vec(), value.to_vec()));
        if forward { iterator.next()? } else { iterator.prev()? }
    }
    if !forward {
        entries.reverse();
    }
    Ok(entries)
}
