//! Loads the options that a database's own files record: in the newest OPTIONS file, in
//! `TAILWATER-OPTIONS`, and in the MANIFEST, which has the options of column families that were
//! created since the OPTIONS file was written.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_format::options_text::Document;
use tailwater_io::posix::PosixStorage;
use tailwater_io::{Purpose, Storage};

use crate::error::{Error, ErrorKind, Result};
use crate::merge_operator::MergeOperator;
use crate::options::{self, DbOptions, Options, TailwaterOptions, UnknownOptions};
use crate::version::manifest::{self, Manifest};

use super::{OpenOptions, Overrides};

/// Maximum number of attempts to read the options. An attempt fails if another process, which has
/// the database open, replaces the OPTIONS file meanwhile.
const ATTEMPTS: usize = 16;

impl OpenOptions {
    /// Returns the options that are stored in a database's newest OPTIONS file, in its MANIFEST and
    /// in its `TAILWATER-OPTIONS` file. If one of the files does not exist, the options that it
    /// would store have their defaults. Options of column families that the database does not have
    /// are ignored.
    ///
    /// The file records the values of options whose defaults depend on other options, such as
    /// `max_compaction_bytes`. A value that equals the one that the other options determine counts
    /// as not set: the returned options have the default instead, and the value follows if another
    /// option is changed. [`OpenOptions::effective`] returns the values.
    ///
    /// # Errors
    /// The errors of [`OpenOptions::load_from`].
    pub fn load(directory: impl AsRef<Path>) -> Result<Self> {
        Self::load_from(Arc::new(PosixStorage::new()), directory)
    }

    /// Like [`OpenOptions::load`], for a database in `storage` instead of the local file system.
    /// Names of unknown options are ignored if a newer version of RocksDB wrote the file.
    ///
    /// # Errors
    /// - Corruption, with file and line: the file is malformed, or has an unknown option or value.
    /// - Not supported: a value enables a feature that Tailwater does not have.
    pub fn load_from(storage: Arc<dyn Storage>, directory: impl AsRef<Path>) -> Result<Self> {
        Self::load_with(storage, directory.as_ref(), None)
    }

    /// Like [`Self::load_from`]. If the MANIFEST has already been read, it is `manifest`.
    fn load_with(
        storage: Arc<dyn Storage>,
        directory: &Path,
        manifest: Option<&Manifest>,
    ) -> Result<Self> {
        let mut attempts = 1..ATTEMPTS;
        loop {
            match Self::load_once(Arc::clone(&storage), directory, manifest) {
                // A writer may have replaced the OPTIONS file after the directory was listed.
                Err(error) if error.is_not_found() && attempts.next().is_some() => {
                    storage.list(directory)?;
                }
                loaded => return loaded,
            }
        }
    }

    fn load_once(
        storage: Arc<dyn Storage>,
        directory: &Path,
        manifest: Option<&Manifest>,
    ) -> Result<Self> {
        let mut loaded = Self::with_storage(storage);
        let entries = loaded.storage.list(directory)?;
        let numbers = entries.iter().filter_map(|entry| match FileKind::parse(&entry.name) {
            Some(FileKind::Options(number)) => Some(number),
            _ => None,
        });
        let newest = numbers.max();
        if let Some(newest) = newest {
            let path = directory.join(FileKind::Options(newest).to_string());
            let options = read_options_file(&*loaded.storage, &path)?;
            loaded.database = options.database;
            loaded.families = options.column_families;
            loaded.check_recorded_wal_dir(directory)?;
        }
        // The MANIFEST is read after the OPTIONS file. So it has the options of a column family
        // that another process creates meanwhile.
        match manifest {
            Some(manifest) => loaded.follow_manifest(manifest, newest)?,
            None => {
                if let Some(manifest) = read_manifest(&*loaded.storage, directory)? {
                    loaded.follow_manifest(&manifest, newest)?;
                }
            }
        }
        loaded.unset_derived();
        let own = FileKind::TailwaterOptions.to_string();
        if entries.iter().any(|entry| entry.name == own) {
            loaded.database.tailwater = read_own_options(&*loaded.storage, &directory.join(own))?;
        }
        Ok(loaded)
    }

    /// Makes [`Db::open`](crate::Db::open) load the options from the database's own files, in the
    /// way of [`OpenOptions::load`], and then apply the option string `over` on top of them, in the
    /// way of [`OpenOptions::set_from_string`]. The options set on this object are used only if the
    /// database does not exist yet and is created.
    ///
    /// Opening reads the files while it holds the database's lock. So it never overwrites options
    /// that another process has just changed. A program that calls [`OpenOptions::load`] and later
    /// opens the database may overwrite such changes. Options of column families that the database
    /// does not have are ignored, and so is a recorded `error_if_exists`. `Db::open` can then also
    /// return the errors of [`OpenOptions::load`], and refuses to replace a recorded
    /// `merge_operator` by another one, with which the stored operands would be unreadable. A
    /// database that is opened read-only, which records nothing, may get another one.
    pub fn set_load_when_opened(&mut self, over: &str) -> &mut Self {
        self.over_file = Some(Overrides { text: over.to_owned(), family: None });
        self
    }

    /// Like [`OpenOptions::set_load_when_opened`], but the options of column families in `over`
    /// apply to the column family `family` only. They have no effect if the database does not have
    /// it. If its options are not recorded, they apply to all column families without recorded
    /// options.
    pub fn set_load_when_opened_for(&mut self, family: &str, over: &str) -> &mut Self {
        let family = Some(family.to_owned());
        self.over_file = Some(Overrides { text: over.to_owned(), family });
        self
    }

    /// Whether `Db::open` loads the options from the database's files.
    pub(crate) fn loads_when_opened(&self) -> bool {
        self.over_file.is_some()
    }

    /// Returns the options with which to open the database in `home` for writing. If
    /// [`OpenOptions::set_load_when_opened`] was called, they are loaded from the database's files.
    ///
    /// # Errors
    /// The errors of [`Self::loaded`]; invalid argument, for another merge operator than the
    /// recorded one.
    pub(crate) fn loaded_for_writing(&self, home: &Path) -> Result<Self> {
        let Some(over) = &self.over_file else { return Ok(self.clone()) };
        let recorded = self.recorded(home, None)?;
        let mut loaded = recorded.clone();
        loaded.apply(over)?;
        loaded.check_merge_operators(&recorded)?;
        Ok(loaded)
    }

    /// Like [`Self::loaded_for_writing`], if nothing will be recorded. If the MANIFEST has already
    /// been read, it is `manifest`.
    ///
    /// # Errors
    /// The errors of [`OpenOptions::load_from`] and [`OpenOptions::set_from_string`].
    pub(crate) fn loaded(&self, home: &Path, manifest: Option<&Manifest>) -> Result<Self> {
        let Some(over) = &self.over_file else { return Ok(self.clone()) };
        let mut loaded = self.recorded(home, manifest)?;
        loaded.apply(over)?;
        Ok(loaded)
    }

    /// Returns a copy with the options that the database's files record.
    fn recorded(&self, home: &Path, manifest: Option<&Manifest>) -> Result<Self> {
        let Self { database, families, other_families, warnings, .. } =
            Self::load_with(Arc::clone(&self.storage), home, manifest)?;
        // A recorded `error_if_exists` was set for the creation of this database. It must not make
        // later openings fail.
        let database = DbOptions { error_if_exists: false, ..database };
        Ok(Self { database, families, other_families, warnings, ..self.clone() })
    }

    /// Applies an option string on top of the options that the database's files record.
    fn apply(&mut self, over: &Overrides) -> Result<()> {
        let Some(name) = &over.family else { return self.set_from_string(&over.text) };
        let named = self.families.iter_mut().find(|(family, _)| family == name);
        let family = named.map_or(&mut self.other_families, |(_, options)| options);
        Ok(options::set_from_string(&mut self.database, family, &over.text)?)
    }

    /// Checks that each column family with a merge operator in `recorded` has the same one.
    ///
    /// # Errors
    /// Invalid argument, naming the column family and both operators.
    fn check_merge_operators(&self, recorded: &Self) -> Result<()> {
        for (name, options) in &recorded.families {
            let Some(recorded) = options.merge_operator.id() else { continue };
            let set = self.column_family(name).merge_operator.id();
            if set.map(canonical_name) != Some(canonical_name(recorded)) {
                let other = set.map_or("without it".to_owned(), |set| format!("with '{set}'"));
                return Err(Error::invalid_argument(format!(
                    "column family '{name}': option merge_operator is recorded as '{recorded}', \
                     whose operands would be unreadable {other}"
                )));
            }
        }
        Ok(())
    }

    /// Adapts the column families, loaded from OPTIONS file number `newest`, to those of the
    /// MANIFEST. Families that were dropped since the file was written lose their options. Families
    /// that were created since then get the options that the MANIFEST records.
    fn follow_manifest(&mut self, manifest: &Manifest, newest: Option<u64>) -> Result<()> {
        let families = manifest.families.values();
        let names: BTreeSet<&str> = families.map(|family| family.name.as_str()).collect();
        self.families.retain(|(name, _)| name == "default" || names.contains(name.as_str()));
        let known: BTreeSet<String> = self.column_families().map(str::to_owned).collect();
        for family in manifest.families.values() {
            let Some(recorded) = &family.recorded_options else { continue };
            let is_older = newest.is_none_or(|newest| newest < recorded.options_number);
            if is_older || !known.contains(&family.name) {
                let options =
                    parse_options(&recorded.text, &manifest.database.path)?.column_families;
                if let Some((_, options)) = options.into_iter().next() {
                    self.set_column_family(&family.name, options);
                }
            }
        }
        Ok(())
    }

    /// Clears a recorded `wal_dir` that cannot be right: the directory does not exist, or is the
    /// home of another database. The logs are then in the home. Older versions of RocksDB recorded
    /// the home as `wal_dir`; in a copy of such a database, it still names the home of the
    /// original.
    fn check_recorded_wal_dir(&mut self, home: &Path) -> Result<()> {
        let recorded = Path::new(&self.database.wal_dir);
        if recorded.as_os_str().is_empty() {
            return Ok(());
        }
        let why = match self.storage.identity(recorded) {
            Err(error) if error.is_not_found() => "does not exist",
            Err(error) => return Err(error.into()),
            Ok(identity) if identity == self.storage.identity(home)? => return Ok(()),
            Ok(_) => match self.storage.metadata(&recorded.join(FileKind::Current.to_string())) {
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(error.into()),
                Ok(_) => "is the home of another database",
            },
        };
        self.warnings.push(format!(
            "the recorded wal_dir {} {why}: the logs are expected in {}",
            recorded.display(),
            home.display()
        ));
        self.database.wal_dir.clear();
        Ok(())
    }
}

/// Returns the name that a merge operator gives itself. Options may call a built-in one otherwise.
fn canonical_name(name: &str) -> String {
    MergeOperator::built_in(name).map_or(name.to_owned(), |operator| operator.name().to_owned())
}

/// Returns the contents of the MANIFEST; `None` if it cannot be read. Opening the database then
/// reports the reason.
///
/// # Errors
/// Out of file descriptors. This is not reported as `None`, because it says nothing about the
/// database.
fn read_manifest(storage: &dyn Storage, directory: &Path) -> Result<Option<Manifest>> {
    for _ in 0..ATTEMPTS {
        let number = manifest::current(storage, directory);
        let read = |number: u64| Manifest::read(storage, directory, number);
        match number.clone().and_then(read) {
            Ok(manifest) => return Ok(Some(manifest)),
            Err(error) if error.is_out_of_descriptors() => return Err(error),
            Err(_) if number.ok() == manifest::current(storage, directory).ok() => break,
            // A writer has replaced the MANIFEST.
            Err(_) => {}
        }
    }
    Ok(None)
}

fn read_options_file(storage: &dyn Storage, path: &Path) -> Result<Options> {
    parse_options(&read_text(storage, path)?, path)
}

/// Returns the options of an OPTIONS file with this text. `path` is named in errors.
fn parse_options(text: &str, path: &Path) -> Result<Options> {
    let document =
        Document::parse(text).map_err(|error| Error::corruption(path, error.to_string()))?;
    Options::from_document(&document, UnknownOptions::IgnoreFromNewer)
        .map_err(|error| not_accepted(&error, path))
}

pub(super) fn read_own_options(storage: &dyn Storage, path: &Path) -> Result<TailwaterOptions> {
    let text = read_text(storage, path)?;
    TailwaterOptions::from_text(&text).map_err(|error| not_accepted(&error, path))
}

/// Returns the error for an options file that was read but not accepted.
fn not_accepted(error: &options::Error, path: &Path) -> Error {
    let kind = match error.problem {
        options::Problem::Refused { .. } => ErrorKind::NotSupported,
        _ => ErrorKind::Corruption,
    };
    Error::new(kind, error.to_string()).in_file(path)
}

fn read_text(storage: &dyn Storage, path: &Path) -> Result<String> {
    let bytes = storage.read_file(path, u64::MAX, Purpose::Metadata)?;
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to() as u64;
        Error::corruption_at(path, offset, "the options file is not UTF-8")
    })
}
