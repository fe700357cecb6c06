//! Creates column families while the database is open: one, or several in one step.
//!
//! # Order
//!
//! 1. The options are checked. At the first column family that is refused, the list ends: only the
//!    column families before it are created.
//! 2. If options name new directories, these are created and claimed, and then listed in the record
//!    of claimed directories. After a crash, the next opening removes the claims of listed
//!    directories that no option names. A directory that is claimed but not listed keeps its claim:
//!    this database can use the directory, another database must adopt it.
//! 3. Writes wait while the MANIFEST gets the column families with their options, in one atomic
//!    group. After a crash from here on, all of them exist. The next opening that loads options
//!    from the database's files finds the options in the MANIFEST.
//! 4. The cleaning job writes an OPTIONS file with all options (`options_file.rs`), which is the
//!    only step whose duration grows with the number of all column families. RocksDB does not read
//!    the OPTIONS file when it opens a database. But its function that loads options from the file
//!    does not know the new column families after a crash before this step: the caller has to name
//!    them, for example after it has listed them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::version_edit::{FamilyOptions, VersionEdit};

use crate::column_family::ColumnFamily;
use crate::db::changing_options::unmet_settings;
use crate::db::{Database, Db};
use crate::directory::{Directories, Home, Needed};
use crate::error::{Error, Result};
use crate::io_modes::OF_TABLES;
use crate::open_options::{FamilyObjects, OpenOptions};
use crate::options::{ColumnFamilyOptions, Options, SetOptions, check_column_family};
use crate::version::{FamilyVersion, Version};

/// The error of [`Db::create_cfs`], with the column families that were created in spite of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct CreateFamiliesError {
    /// The column families that were created: those before the first one that was refused, or none
    /// if the MANIFEST could not be written.
    pub created: Vec<ColumnFamily>,
    /// The error of the first column family that was not created.
    pub error: Error,
}

impl fmt::Display for CreateFamiliesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.created.len();
        write!(f, "{}; {count} column families were created before the error", self.error)
    }
}

impl std::error::Error for CreateFamiliesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<CreateFamiliesError> for Error {
    fn from(error: CreateFamiliesError) -> Self {
        error.error
    }
}

impl Db {
    /// Creates a column family.
    ///
    /// When this returns, the column family and its options are on the device: in the MANIFEST. An
    /// OPTIONS file with all options is written soon afterwards in the background, and at the
    /// latest when the database is closed. [`Db::create_cfs`] creates several column families
    /// faster.
    ///
    /// # Errors
    /// Invalid argument, if the name exists or is empty, options contradict each other, or an
    /// option names an object that was not registered when the database was opened; errors from
    /// writing the MANIFEST.
    pub fn create_cf(&self, name: &str, options: &ColumnFamilyOptions) -> Result<ColumnFamily> {
        let mut created = self.create_cfs(&[(name, options)])?;
        created.pop().ok_or_else(|| Error::internal("no column family was created"))
    }

    /// Creates several column families in one step, each given by its name and options. Returns
    /// them in the same order. Writes wait for a single write of the MANIFEST.
    ///
    /// Otherwise like [`Db::create_cf`].
    ///
    /// ```
    /// # fn main() -> tailwater::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let directory = directory.path();
    /// # let db = tailwater::Db::open_default(directory)?;
    /// use tailwater::options::ColumnFamilyOptions;
    ///
    /// let options = ColumnFamilyOptions::default();
    /// let created = db.create_cfs(&[("users", &options), ("groups", &options)])?;
    /// assert_eq!(created[1].name(), "groups");
    ///
    /// let error = db.create_cfs(&[("logs", &options), ("users", &options), ("more", &options)]);
    /// let error = error.expect_err("there is a column family 'users' already");
    /// assert_eq!(error.created.len(), 1, "those before it were created");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Db::create_cf`]. If a column family is refused, those before it in the list
    /// are created, and the error has them; those after it are not created. If the MANIFEST cannot
    /// be written, none is created.
    pub fn create_cfs(
        &self,
        families: &[(&str, &ColumnFamilyOptions)],
    ) -> std::result::Result<Vec<ColumnFamily>, CreateFamiliesError> {
        self.create_wanted(families, None)
    }

    /// Creates several column families, and gives each of them the same objects: comparators, merge
    /// operators, prefix extractors and compaction filters that their options name. Other column
    /// families may have other objects with these names.
    ///
    /// Otherwise like [`Db::create_cfs`].
    ///
    /// ```
    /// # fn main() -> tailwater::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = tailwater::Db::open_default(directory.path())?;
    /// use std::sync::Arc;
    /// use tailwater::options::{ColumnFamilyOptions, ObjectName};
    /// use tailwater::{CustomMergeOperator, FamilyObjects, MergeOperator};
    ///
    /// struct Last;
    ///
    /// impl CustomMergeOperator for Last {
    ///     fn name(&self) -> &str {
    ///         "example.Last"
    ///     }
    ///
    ///     fn full_merge(&self, _: &[u8], _: Option<&[u8]>, all: &[&[u8]]) -> Option<Vec<u8>> {
    ///         all.last().map(|last| last.to_vec())
    ///     }
    /// }
    ///
    /// let mut objects = FamilyObjects::default();
    /// objects.merge_operator = Some(MergeOperator::Custom(Arc::new(Last)));
    /// let mut options = ColumnFamilyOptions::default();
    /// options.merge_operator = ObjectName::new("example.Last");
    ///
    /// let created = db.create_cfs_with_objects(&[("names", &options)], &objects)?;
    /// db.merge_cf(&created[0], "key", "a")?;
    /// db.merge_cf(&created[0], "key", "b")?;
    /// assert_eq!(db.get_cf(&created[0], "key")?.as_deref(), Some(&b"b"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Db::create_cfs`].
    pub fn create_cfs_with_objects(
        &self,
        families: &[(&str, &ColumnFamilyOptions)],
        objects: &FamilyObjects,
    ) -> std::result::Result<Vec<ColumnFamily>, CreateFamiliesError> {
        self.create_wanted(families, Some(objects))
    }

    fn create_wanted(
        &self,
        families: &[(&str, &ColumnFamilyOptions)],
        objects: Option<&FamilyObjects>,
    ) -> std::result::Result<Vec<ColumnFamily>, CreateFamiliesError> {
        let nothing = |error| CreateFamiliesError { created: Vec::new(), error };
        self.database().map_err(nothing)?.create_families(families, objects)
    }
}

/// A column family that is to be created, with checked options.
struct CheckedFamily {
    name: String,
    options: SetOptions<ColumnFamilyOptions>,
    comparator: Comparator,
}

/// A column family that is to be added, and the MANIFEST edit that adds it. The edit lacks the log
/// number.
struct NewFamily {
    family: ColumnFamily,
    options: SetOptions<ColumnFamilyOptions>,
    addition: VersionEdit,
}

impl Database {
    /// Creates column families, up to the first one that is refused.
    pub(super) fn create_families(
        &self,
        families: &[(&str, &ColumnFamilyOptions)],
        objects: Option<&FamilyObjects>,
    ) -> std::result::Result<Vec<ColumnFamily>, CreateFamiliesError> {
        let changing = self.changing_options();
        let (checked, refused) = self.check_new_families(families, objects);
        let checked_count = checked.len();
        let created = if checked.is_empty() { Ok(Vec::new()) } else { self.create(checked) };
        if created.is_err() && objects.is_some() {
            let mut open = self.context.options.open();
            families[..checked_count].iter().for_each(|(name, _)| open.remove_family_objects(name));
        }
        drop(changing);
        self.update_options_file_soon();
        let created =
            created.map_err(|error| CreateFamiliesError { created: Vec::new(), error })?;
        match refused {
            None => Ok(created),
            Some(error) => Err(CreateFamiliesError { created, error }),
        }
    }

    /// Checks column families that are to be created. Returns the checked ones before the first one
    /// that is refused, and the error of that one.
    fn check_new_families(
        &self,
        families: &[(&str, &ColumnFamilyOptions)],
        objects: Option<&FamilyObjects>,
    ) -> (Vec<CheckedFamily>, Option<Error>) {
        let known = self.context.shared.family_set();
        let mut names: BTreeSet<&str> = known.iter().map(ColumnFamily::name).collect();
        let mut checked = Vec::new();
        for &(name, options) in families {
            if !names.insert(name) {
                let message = format!("there is a column family '{name}' already");
                return (checked, Some(Error::invalid_argument(message)));
            }
            match self.check_new_family(name, options, objects) {
                Ok(family) => checked.push(family),
                Err(error) => return (checked, Some(error)),
            }
        }
        (checked, None)
    }

    /// Checks the name and the options of a new column family, and sanitizes the options. Keeps its
    /// objects for [`Self::create`].
    fn check_new_family(
        &self,
        name: &str,
        options: &ColumnFamilyOptions,
        objects: Option<&FamilyObjects>,
    ) -> Result<CheckedFamily> {
        if name.is_empty() {
            return Err(Error::invalid_argument("the name of a column family must not be empty"));
        }
        let database = self.context.options.now();
        let options = SetOptions::of_family(options.clone(), &database);
        check_column_family(&options.effective, &database)?;
        let mut open = self.context.options.open();
        if let Some(objects) = objects {
            open.set_family_objects(name, objects.clone());
        }
        let checked = open.check_objects(name, &options.effective);
        match checked.and_then(|()| open.new_comparator(name, &options.effective)) {
            Ok(comparator) => Ok(CheckedFamily { name: name.to_owned(), options, comparator }),
            Err(error) => {
                if objects.is_some() {
                    open.remove_family_objects(name);
                }
                Err(error)
            }
        }
    }

    /// Creates column families whose options were checked: all of them or none.
    fn create(&self, families: Vec<CheckedFamily>) -> Result<Vec<ColumnFamily>> {
        self.context.errors.check()?;
        let named = families.iter().map(|family| (family.name.as_str(), &family.options));
        let options = self.context.options.open().with_families(named);
        self.prepare_directories(&options)?;
        let first_id = self.versions.lock().next_family_id();
        let new = (first_id..).zip(families);
        let new: Vec<NewFamily> =
            new.map(|(id, family)| self.new_family(id, family, &options)).collect();
        let leadership = self.writes.lead()?;
        self.context.errors.check()?;
        let add = || self.add_families(&new);
        self.context.latch_on_unwind("creating a column family", add)?;
        self.writes.update_log_bound();
        self.writes.update_write_times();
        drop(leadership);
        self.options_files.set_outdated(true);
        let created: Vec<ColumnFamily> = new.into_iter().map(|new| new.family).collect();
        for family in &created {
            let (name, id) = (family.name(), family.id());
            self.context.info_log.info(format_args!("created column family '{name}' with ID {id}"));
        }
        self.write_family_options_to_log(created.iter());
        for warning in unmet_settings(&options, &created) {
            self.context.info_log.warn(format_args!("{warning}"));
        }
        Ok(created)
    }

    /// Returns a new column family and the MANIFEST edit that adds it. `options` has the options of
    /// the new families. The lock on changes of options must be held: every OPTIONS file that is
    /// begun later has the next file number or a higher one.
    fn new_family(&self, id: u32, checked: CheckedFamily, options: &OpenOptions) -> NewFamily {
        let CheckedFamily { name, options: both, comparator } = checked;
        let recorded = FamilyOptions {
            options_number: self.context.numbers.next(),
            text: Options::family_to_text(&both.recorded()),
        };
        let addition = VersionEdit {
            column_family: id,
            column_family_add: Some(name.clone()),
            comparator: Some(comparator.name().to_owned()),
            family_options: Some(recorded),
            ..VersionEdit::default()
        };
        let readers = Arc::new(self.context.readers.readers(options, &name, &comparator));
        let (opening, effective) = (self.context.shared.opening, both.effective.clone());
        let version = Arc::new(Version::with_levels(effective.num_levels as usize));
        let manager = self.context.readers.write_buffer_manager.clone();
        let family = ColumnFamily::new(opening, id, name, effective, readers, version, manager);
        NewFamily { family, options: both, addition }
    }

    /// Adds new column families to the MANIFEST, and then to the family set. Writes must wait.
    fn add_families(&self, new: &[NewFamily]) -> Result<()> {
        // The new families need the logs from the current one on. While this thread leads the write
        // queue, no other thread writes, so no earlier log can hold writes to the families.
        let log_number = self.writes.logs().current_number();
        let edits = new
            .iter()
            .map(|new| VersionEdit { log_number: Some(log_number), ..new.addition.clone() });
        let (edits, installation) = (edits.collect(), self.versions.begin_installation());
        let mut installed = self.context.write_edits(installation, edits, &[])?.install();
        for NewFamily { family, addition, .. } in new {
            family.active().begin_at(log_number, self.context.published());
            let version = Arc::clone(family.super_version().version());
            let version = FamilyVersion {
                name: family.name().to_owned(),
                comparator: family.comparator().clone(),
                log_number,
                level_count: version.levels().len(),
                version,
                compactions: Default::default(),
                next_epoch: 1,
                recorded_options: addition.family_options.clone(),
            };
            installed.add_family(family.id(), version);
        }
        drop(installed);
        let mut open = self.context.options.open();
        for NewFamily { family, options, .. } in new {
            open.change_column_family(family.name(), options);
        }
        drop(open);
        let families = self.context.shared.family_set();
        let families = families.with(new.iter().map(|new| new.family.clone()));
        self.context.shared.families.store(Arc::new(families));
        Ok(())
    }

    /// Creates and claims the directories that the options of new column families name, and probes
    /// their I/O modes. Does nothing if they name only directories of `db_paths`, which the
    /// database already uses. `options` has the options of the new families only.
    fn prepare_directories(&self, options: &OpenOptions) -> Result<()> {
        let known = &options.database().db_paths;
        let named = options.column_families().map(|name| options.column_family(name));
        let mut paths = named.flat_map(|family| &family.cf_paths);
        if paths.all(|path| known.iter().any(|known| known.path == path.path)) {
            return Ok(());
        }
        let storage = &*self.context.storage;
        let home = Home::at(storage, &self.context.directory)?;
        let id = self.context.identity.durable_id(&self.context.options.now()).to_owned();
        let mut directories = Directories::find(storage, home, options, &id)?;
        directories.check(storage)?;
        directories.check_unclaimed_are_empty()?;
        directories.create(storage)?;
        let of_family = |name| options.table_directories(&self.context.directory, name);
        let tables: BTreeSet<PathBuf> = options.column_families().flat_map(of_family).collect();
        for directory in tables {
            let modes = &self.context.shared.io_modes;
            for warning in modes.try_in(storage, &directory, &OF_TABLES)? {
                self.context.info_log.warn(format_args!("{warning}"));
            }
        }
        if let Some(locks) = &mut *self.locks.lock() {
            directories.lock_outside(storage, locks)?;
        }
        directories.claim(storage, &id, &Needed::default())
    }

    /// Creates the missing column families that the options name.
    pub(super) fn create_missing_families(&self) -> Result<()> {
        let options = self.context.options.open().as_set().clone();
        let known = self.context.shared.family_set();
        let known: BTreeSet<&str> = known.iter().map(ColumnFamily::name).collect();
        let missing = options.column_families().filter(|name| !known.contains(name));
        let missing: Vec<_> = missing.map(|name| (name, options.column_family(name))).collect();
        if let Some((name, _)) = missing.first()
            && !self.context.options.fixed().create_missing_column_families
        {
            let message = format!(
                "there is no column family '{name}', and create_missing_column_families is false"
            );
            return Err(Error::invalid_argument(message).in_file(&self.context.directory));
        }
        self.create_families(&missing, None)?;
        Ok(())
    }
}
