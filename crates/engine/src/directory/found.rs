//! Finds the directories of a database, and claims them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::claim::Claim;
use tailwater_format::file_name::FileKind;
use tailwater_io::{FileIdentity, FileLock, Purpose, Storage};

use super::claim::{Home, claimed_by, make_claim, read_claim, remove_claim, replace_claim};
use super::files::{Files, holds_data, may_be_outside};
use super::{GuardedStorage, Needed, create_directory};
use crate::error::{Error, ErrorKind, Result};
use crate::open_options::OpenOptions;
use crate::version::write_whole;

/// The directories of a database, without duplicates, and the files found there.
#[derive(Debug)]
pub(crate) struct Directories {
    home: Home,
    home_files: Files,
    outside: Vec<OutsideDirectory>,
    /// Whether the caller takes over the home even if another database has claimed it.
    adopts_home: bool,
}

/// The locks that keep other processes from writing to a database's directories.
#[derive(Debug)]
pub(crate) struct Locks {
    #[expect(dead_code, reason = "held until it is dropped")]
    home: Arc<dyn FileLock>,
    outside: Vec<(FileIdentity, Arc<dyn FileLock>)>,
    /// The storage that guards the locked directories: if a directory was moved and another one is
    /// now at its path, the storage refuses to use the path; if a lock is no longer in place, it
    /// refuses changes. Each directory locked later is added to it. `None` if directories are not
    /// guarded.
    guard: Option<Arc<GuardedStorage>>,
}

impl Locks {
    /// Creates a set of locks that has only the lock on the home directory. If `guard` is given, it
    /// guards the home, and will guard each further directory that is added.
    pub(crate) fn of_home(
        lock: Box<dyn FileLock>,
        home: &Home,
        guard: Option<Arc<GuardedStorage>>,
    ) -> Self {
        let lock = Arc::from(lock);
        if let Some(guard) = &guard {
            guard.guard(&home.path, home.identity, Some(&lock));
        }
        Self { home: lock, outside: Vec::new(), guard }
    }

    /// Locks a directory of the database other than its home, unless the directory is already
    /// locked.
    ///
    /// # Errors
    /// The errors of [`Directories::lock_outside`].
    pub(crate) fn add(
        &mut self,
        storage: &dyn Storage,
        directory: &OutsideDirectory,
    ) -> Result<()> {
        let OutsideDirectory { path, identity, ownership, .. } = directory;
        let Some(identity) = *identity else { return Ok(()) };
        if self.outside.iter().any(|(locked, _)| *locked == identity) {
            return Ok(());
        }
        let lock = storage.lock(&path.join(FileKind::OutsideLock.to_string()));
        let lock = lock.map_err(|error| {
            Error::from(error).while_doing(
                "the directory is in use by a database that is open for writing elsewhere",
            )
        })?;
        let is_as_found = match read_claim(storage, path) {
            Ok(claim) => claim.as_ref() == ownership.claim(),
            Err(error) if error.kind() == ErrorKind::Corruption => {
                matches!(ownership, Ownership::Adopted(_))
            }
            Err(error) => return Err(error),
        };
        if !is_as_found {
            let message = "the claim on the directory has just changed";
            return Err(Error::new(ErrorKind::Busy, message).in_file(path));
        }
        let lock = Arc::from(lock);
        if let Some(guard) = &self.guard {
            // The opening removes the lock of a directory that no option names any more.
            let is_kept = !directory.options.is_empty();
            guard.guard(path, identity, is_kept.then_some(&lock));
        }
        self.outside.push((identity, lock));
        Ok(())
    }
}

/// A directory outside the home.
#[derive(Debug)]
pub(crate) struct OutsideDirectory {
    /// The absolute path of the directory, with links resolved. If the directory is missing, the
    /// path in the options.
    pub(crate) path: PathBuf,
    /// The device and inode of the directory; `None` if the directory is missing.
    identity: Option<FileIdentity>,
    pub(crate) ownership: Ownership,
    /// The files found in the directory.
    pub(crate) files: Files,
    /// The options that name the directory. Empty if the directory is known only from the
    /// database's own record of claimed directories.
    pub(crate) options: Vec<&'static str>,
    /// Whether the database's own record of claimed directories lists the directory.
    pub(crate) is_recorded: bool,
}

/// Which database owns an outside directory.
#[derive(Debug)]
pub(crate) enum Ownership {
    /// The directory does not exist.
    Missing,
    /// The directory exists but has no claim, the file that names the owning database.
    Unclaimed,
    /// The database that is being opened has claimed the directory.
    Own(Claim),
    /// Another database has claimed the directory, and the caller takes the directory over.
    Adopted(Claim),
    /// Another database has claimed the directory.
    Foreign(Claim),
}

impl Ownership {
    /// Returns the claim that was found, if any.
    fn claim(&self) -> Option<&Claim> {
        match self {
            Self::Missing | Self::Unclaimed => None,
            Self::Own(claim) | Self::Adopted(claim) | Self::Foreign(claim) => Some(claim),
        }
    }
}

impl OutsideDirectory {
    /// Returns the files that belong to the database and may be removed when they are obsolete.
    /// Returns none if the database has not claimed the directory.
    pub(crate) fn removable(&self) -> impl Iterator<Item = FileKind> + '_ {
        let is_own = matches!(self.ownership, Ownership::Own(_));
        self.claimable().filter(move |_| is_own)
    }

    /// Returns the tables, blob files, logs and trash in the directory, except files of other
    /// databases. The claim has a list of these.
    pub(crate) fn claimable(&self) -> impl Iterator<Item = FileKind> + '_ {
        let kept = match &self.ownership {
            Ownership::Own(claim) | Ownership::Adopted(claim) => claim.kept.as_slice(),
            _ => &[],
        };
        let kept: HashSet<&str> = kept.iter().map(String::as_str).collect();
        let is_kept = move |kind: &FileKind| kept.contains(kind.to_string().as_str());
        self.files.iter().filter(move |kind| may_be_outside(*kind) && !is_kept(kind))
    }

    /// Returns the names of the tables, blob files, logs and trash in this directory that do not
    /// belong to the database. `needed` lists all files that the database needs. If the option
    /// `wal_dir` does not name this directory, no log in it belongs to the database.
    fn not_own(&self, needed: &Needed) -> Vec<String> {
        let has_logs = self.options.contains(&"wal_dir");
        let is_own = |kind| match kind {
            FileKind::Wal(_) => has_logs && needed.has(kind),
            kind => needed.has(kind),
        };
        let foreign = self.files.iter().filter(|&kind| may_be_outside(kind) && !is_own(kind));
        foreign.map(|kind| kind.to_string()).collect()
    }

    /// Returns the error for a directory that contains files but must be empty.
    fn has_files(&self, doing: &str) -> Error {
        let Some(kind) = self.files.first_with_data() else {
            return Error::invalid_argument(doing).in_file(&self.path);
        };
        let (own, what) = match kind {
            FileKind::Wal(_) => (&["wal_dir"][..], "log"),
            FileKind::Blob(_) => (&["db_paths", "cf_paths"][..], "blob"),
            _ => (&["db_paths", "cf_paths"][..], "table"),
        };
        let named = self.options.iter().filter(|option| own.contains(option)).copied();
        let option = named.chain(self.options.iter().copied()).next().unwrap_or("a directory");
        let message = format!("{doing}, {option} contains existing {what} file: {kind}");
        Error::invalid_argument(message).in_file(&self.path)
    }

    /// Whether the directory is the home of another database.
    pub(crate) fn is_home_of_another(&self) -> bool {
        self.files.has(FileKind::Current)
    }

    /// Checks that the database may use the directory.
    fn check(&self) -> Result<()> {
        if self.is_home_of_another() {
            let message = format!(
                "the directory is the home of another database (it has a CURRENT file), and cannot \
                 be {} of this one",
                self.options.join(", ")
            );
            return Err(Error::invalid_argument(message).in_file(&self.path));
        }
        match &self.ownership {
            Ownership::Foreign(claim) => Err(claimed_by(&self.path, claim)),
            _ => Ok(()),
        }
    }
}

impl Directories {
    /// Finds the directories of the database in `home`: those named by the options, and those that
    /// the database has claimed. `database_id` is the database's durable id, empty if it has none.
    ///
    /// [`Self::check`] refuses directories that belong to another database.
    pub(crate) fn find(
        storage: &dyn Storage,
        home: Home,
        options: &OpenOptions,
        database_id: &str,
    ) -> Result<Self> {
        let home_files = Files::list_with_lengths(storage, &home.path)?;
        Self::find_with_home_files(storage, home, home_files, options, database_id)
    }

    /// Like [`Self::find`], but takes the files of the home directory from `home_files` instead of
    /// listing the directory.
    pub(crate) fn find_with_home_files(
        storage: &dyn Storage,
        home: Home,
        home_files: Files,
        options: &OpenOptions,
        database_id: &str,
    ) -> Result<Self> {
        let adopts = options.adopts_directories();
        let mut found = Self { home, home_files, outside: Vec::new(), adopts_home: adopts };
        for (option, path) in options.outside_paths(&found.home.path) {
            found.add(storage, &path, Some(option), database_id, adopts)?;
        }
        for path in read_record(storage, &found.home.path)? {
            found.add(storage, &path, None, database_id, false)?;
        }
        // The record in the home lists the directories that the database has claimed. A directory
        // that no option names is ignored if it no longer belongs to the database.
        found.outside.retain(|directory| {
            !directory.options.is_empty() || matches!(directory.ownership, Ownership::Own(_))
        });
        Ok(found)
    }

    fn add(
        &mut self,
        storage: &dyn Storage,
        path: &Path,
        option: Option<&'static str>,
        database_id: &str,
        adopts: bool,
    ) -> Result<()> {
        let identity = match storage.identity(path) {
            Ok(identity) => Some(identity),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        if identity == Some(self.home.identity) {
            return Ok(());
        }
        let is_same = |known: &&mut OutsideDirectory| match identity {
            Some(identity) => known.identity == Some(identity),
            None => known.path == path,
        };
        if let Some(known) = self.outside.iter_mut().find(is_same) {
            known.is_recorded |= option.is_none();
            known.options.extend(option.filter(|option| !known.options.contains(option)));
            return Ok(());
        }
        let path = match identity {
            None => path.to_owned(),
            Some(_) => storage.canonical_path(path)?,
        };
        let ownership = match identity {
            None => Ownership::Missing,
            Some(identity) => match self.ownership(storage, &path, identity, database_id, adopts) {
                // If no option names the directory, an error is ignored. Such a directory is known
                // from the record of claimed directories, and is only searched for obsolete files.
                Err(error) if option.is_none() && !error.is_out_of_descriptors() => return Ok(()),
                ownership => ownership?,
            },
        };
        let files = Files::list_with_lengths(storage, &path)?;
        let is_recorded = option.is_none();
        let options = option.into_iter().collect();
        self.outside.push(OutsideDirectory {
            path,
            identity,
            ownership,
            files,
            options,
            is_recorded,
        });
        Ok(())
    }

    fn ownership(
        &self,
        storage: &dyn Storage,
        path: &Path,
        identity: FileIdentity,
        database_id: &str,
        adopts: bool,
    ) -> Result<Ownership> {
        let claim = match read_claim(storage, path) {
            // With an unreadable claim, the directory is adopted as if it had an empty claim.
            Err(error) if error.is_corruption() && adopts => Some(Claim::default()),
            claim => claim?,
        };
        Ok(match claim {
            None => Ownership::Unclaimed,
            Some(claim) if self.home.is_named_by(&claim, database_id, path, identity) => {
                Ownership::Own(claim)
            }
            Some(claim) if adopts => Ownership::Adopted(claim),
            Some(claim) => Ownership::Foreign(claim),
        })
    }

    /// Returns the database's home.
    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// Returns the files found in the home.
    pub(crate) fn home_files(&self) -> &Files {
        &self.home_files
    }

    /// Returns the directories outside the home.
    pub(crate) fn outside(&self) -> &[OutsideDirectory] {
        &self.outside
    }

    /// Returns the files in the directory at a path, if that is one of the database's directories.
    pub(crate) fn files_in(&self, storage: &dyn Storage, path: &Path) -> Result<Option<&Files>> {
        if let Some(outside) = self.outside.iter().find(|outside| outside.path == path) {
            return Ok(Some(&outside.files));
        }
        let identity = match storage.identity(path) {
            Ok(identity) => identity,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if identity == self.home.identity {
            return Ok(Some(&self.home_files));
        }
        let outside = self.outside.iter().find(|outside| outside.identity == Some(identity));
        Ok(outside.map(|outside| &outside.files))
    }

    /// Whether the directory at a path belongs to the database: it is the home, or a claimed
    /// outside directory.
    pub(crate) fn is_own(&self, storage: &dyn Storage, path: &Path) -> Result<bool> {
        let identity = storage.identity(path)?;
        let outside = self.outside.iter().find(|outside| outside.identity == Some(identity));
        let is_own = |outside: &OutsideDirectory| matches!(outside.ownership, Ownership::Own(_));
        Ok(identity == self.home.identity || outside.is_some_and(is_own))
    }

    /// Returns all directories, with their files.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Path, &Files)> {
        let outside = self.outside.iter().map(|outside| (outside.path.as_path(), &outside.files));
        std::iter::once((self.home.path.as_path(), &self.home_files)).chain(outside)
    }

    /// Refuses directories that belong to another database.
    ///
    /// # Errors
    /// Invalid argument, naming the directory and the other database.
    pub(crate) fn check(&self, storage: &dyn Storage) -> Result<()> {
        self.check_home(storage)?;
        self.outside.iter().try_for_each(OutsideDirectory::check)
    }

    /// Refuses a home that another database has claimed for its files.
    ///
    /// # Errors
    /// Invalid argument, naming the other database.
    pub(crate) fn check_home(&self, storage: &dyn Storage) -> Result<()> {
        if self.home_files.has(FileKind::Claim)
            && !self.adopts_home
            && let Some(claim) = read_claim(storage, &self.home.path)?
        {
            return Err(claimed_by(&self.home.path, &claim));
        }
        Ok(())
    }

    /// Checks, before a database is created, that its directories have no files of a database.
    ///
    /// # Errors
    /// Corruption, if the home has files of a database that lost its CURRENT; invalid argument, if
    /// another directory has files.
    pub(crate) fn check_for_new(&self, storage: &dyn Storage) -> Result<()> {
        self.check_home(storage)?;
        let lost = self.home_files.iter().find(|&kind| {
            // Files without data, and MANIFEST-000001, may remain from a crash while a database was
            // created. They are accepted.
            holds_data(kind) || matches!(kind, FileKind::Manifest(number) if number != 1)
        });
        if let Some(kind) = lost {
            let message = format!(
                "there is no CURRENT file, but {kind}: a database that lost its CURRENT is not \
                 replaced by a new one"
            );
            return Err(Error::corruption(&self.home.path, message));
        }
        self.outside.iter().try_for_each(OutsideDirectory::check)?;
        let has_data = |directory: &&OutsideDirectory| directory.files.first_with_data().is_some();
        match self.outside.iter().find(has_data) {
            Some(directory) => Err(directory.has_files("while creating a new database")),
            None => Ok(()),
        }
    }

    /// Checks, before a column family is created, that no directory without a claim contains files
    /// of a database.
    ///
    /// # Errors
    /// Invalid argument, naming the directory and a file.
    pub(crate) fn check_unclaimed_are_empty(&self) -> Result<()> {
        let unclaimed = |directory: &&OutsideDirectory| {
            matches!(directory.ownership, Ownership::Unclaimed)
                && directory.files.first_with_data().is_some()
        };
        match self.outside.iter().find(unclaimed) {
            Some(directory) => Err(directory.has_files("while creating a column family")),
            None => Ok(()),
        }
    }

    /// Locks the outside directories that are not yet in `locks`. A locked directory cannot be used
    /// by another process, even by one whose database has another home.
    ///
    /// # Errors
    /// Busy, if another process or handle has locked a directory, or has claimed it since it was
    /// found.
    pub(crate) fn lock_outside(&self, storage: &dyn Storage, locks: &mut Locks) -> Result<()> {
        self.outside.iter().try_for_each(|directory| locks.add(storage, directory))
    }

    /// Creates missing directories. Also syncs the names of existing directories that the database
    /// has not yet claimed, because an earlier attempt may have created them and ended before the
    /// sync.
    pub(crate) fn create(&mut self, storage: &dyn Storage) -> Result<()> {
        for directory in &mut self.outside {
            if matches!(directory.ownership, Ownership::Own(_)) {
                continue;
            }
            create_directory(storage, &directory.path)?;
            if let Ownership::Missing = directory.ownership {
                directory.path = storage.canonical_path(&directory.path)?;
                directory.identity = Some(storage.identity(&directory.path)?);
                directory.ownership = Ownership::Unclaimed;
            }
        }
        Ok(())
    }

    /// Claims the directories that the database has not yet claimed. If such a directory has
    /// tables, blob files or logs that the database does not need, its claim lists them as foreign.
    /// The files found before the claim do not become [removable](OutsideDirectory::removable).
    pub(crate) fn claim(
        &self,
        storage: &dyn Storage,
        database_id: &str,
        needed: &Needed,
    ) -> Result<()> {
        for directory in &self.outside {
            let Some(identity) = directory.identity else { continue };
            let own = self.home.claim(database_id, &directory.path, identity);
            match &directory.ownership {
                Ownership::Own(there) => {
                    let claim = Claim { kept: there.kept.clone(), ..own.clone() };
                    if *there != claim {
                        // The database's home was renamed, or its device number changed.
                        replace_claim(storage, &directory.path, &claim)?;
                    } else if !directory.is_recorded {
                        // An earlier opening may have ended after it made the claim and before it
                        // synced the directory.
                        storage.sync_directory(&directory.path)?;
                    }
                }
                Ownership::Adopted(_) => {
                    let claim = Claim { kept: directory.not_own(needed), ..own.clone() };
                    replace_claim(storage, &directory.path, &claim)?;
                }
                Ownership::Unclaimed => {
                    let claim = Claim { kept: directory.not_own(needed), ..own.clone() };
                    make_claim(storage, &directory.path, &claim)?;
                }
                Ownership::Missing | Ownership::Foreign(_) => {}
            }
        }
        if self.adopts_home && self.home_files.has(FileKind::Claim) {
            remove_claim(storage, &self.home, &self.home.path)?;
        }
        self.write_record(storage)
    }

    /// Removes the claims (the files that name the owning database) from directories that no option
    /// names any more. Keeps a claim if foreign or needed files are left in the directory. The
    /// caller must have removed the files that [`Self::left_over`] returned for the same `needed`.
    pub(crate) fn give_up_unused(&self, storage: &dyn Storage, needed: &Needed) -> Result<()> {
        for directory in self.outside.iter().filter(|directory| directory.options.is_empty()) {
            let with_data = directory.files.iter().filter(|&kind| may_be_outside(kind)).count();
            let removed = directory.removable().filter(|&kind| !needed.has(kind)).count();
            if removed == with_data {
                // The removal of the files is made durable before the claim, which names their
                // owner, is removed. Otherwise, after a crash, the files could be there without the
                // claim.
                storage.sync_directory(&directory.path)?;
                remove_claim(storage, &self.home, &directory.path)?;
            }
        }
        Ok(())
    }

    /// Writes the record of claimed directories, a file in the home. It lists all directories that
    /// the database has claimed. Does nothing if the existing record already lists exactly these
    /// directories.
    fn write_record(&self, storage: &dyn Storage) -> Result<()> {
        let mut paths = Vec::new();
        paths.extend(self.outside.iter().map(|directory| directory.path.clone()));
        paths.sort_unstable();
        paths.dedup();
        let home = &self.home.path;
        if read_record(storage, home)? == paths {
            return Ok(());
        }
        let path = home.join(FileKind::ClaimedDirectories.to_string());
        let aside = home.join(FileKind::Temporary(0).to_string());
        let lines = paths.iter().map(|path| format!("{}\n", path.to_string_lossy()));
        let text: String = lines.collect();
        write_whole(storage, &aside, text.as_bytes(), Purpose::Metadata)?;
        // A crash here is safe: the previous record of claimed directories remains, and each of the
        // directories already has its claim.
        storage.rename(&aside, &path)?;
        // The MANIFEST edit of a new column family may follow. It must not become durable before
        // the record of claimed directories.
        storage.sync_directory(home)?;
        Ok(())
    }
}

/// Returns the directories that the database in `home` has claimed, according to the record in the
/// home. Invalid parts of the record are ignored, since it is only used to find obsolete files.
fn read_record(storage: &dyn Storage, home: &Path) -> Result<Vec<PathBuf>> {
    let path = home.join(FileKind::ClaimedDirectories.to_string());
    let bytes = storage.read_if_exists(&path, 1 << 20, Purpose::Metadata)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let paths = text.lines().map(PathBuf::from).filter(|path| path.is_absolute());
    Ok(paths.collect())
}
