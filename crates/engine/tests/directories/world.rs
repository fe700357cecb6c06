//! A simulated disk with several databases, and the files that each of them needs.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use tailwater::inspect::manifest;
use tailwater::options::DbPath;
use tailwater::{Db, OpenOptions};
use tailwater_format::file_name::FileKind;
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};

use crate::database::{Database, Layout, Place, Standing};

/// Name of the file that records which database owns a directory for logs or tables.
pub(crate) const CLAIM: &str = "TAILWATER-CLAIM";

/// A file that must stay unchanged because a database needs it, or because it belongs to no
/// database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Needed {
    /// Who needs the file, as text for a message.
    pub(crate) by: String,
    inode: u64,
    hash: u64,
}

/// A simulated disk, the databases on it, and the working directory of the process.
pub(crate) struct World {
    pub(crate) disk: SimStorage,
    pub(crate) rng: Rng,
    pub(crate) databases: Vec<Database>,
    /// The last number that was used for a new database, path or column family.
    pub(crate) numbers: usize,
    /// Files in directories outside all homes. They belong to no database and must not be touched.
    pub(crate) strays: Vec<PathBuf>,
    working_directory: PathBuf,
    /// The path of each symbolic link, and the canonical path of its target.
    links: Vec<(PathBuf, PathBuf)>,
    /// The operations so far, for messages.
    pub(crate) trace: Vec<String>,
    /// The name of each kind of event, and the number of such events in the test so far.
    pub(crate) tally: BTreeMap<&'static str, u64>,
}

impl World {
    /// Creates a world with an empty disk.
    pub(crate) fn new(mut rng: Rng) -> Self {
        // Seeds the thread's generator, from which the databases draw their random choices, such as
        // IDs.
        fastrand::seed(rng.u64(..));
        let disk = SimStorage::new(rng.u64(..));
        let world = Self {
            disk,
            rng,
            databases: Vec::new(),
            numbers: 0,
            strays: Vec::new(),
            working_directory: PathBuf::from("/"),
            links: Vec::new(),
            trace: Vec::new(),
            tally: BTreeMap::new(),
        };
        for directory in ["/deep/er", "/links", "/files"] {
            world.make_directory(Path::new(directory));
        }
        world
    }

    /// Appends an operation to the trace.
    pub(crate) fn note(&mut self, what: impl fmt::Display) {
        self.trace.push(what.to_string());
    }

    /// Counts an event.
    pub(crate) fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    /// Continues with the disk image that a crash left.
    pub(crate) fn replace_disk(&mut self, disk: SimStorage) {
        self.disk = disk;
        // A new process opens the databases after a crash. Its working directory is `/`.
        self.working_directory = PathBuf::from("/");
    }

    /// Returns the working directory.
    pub(crate) fn working_directory(&self) -> &Path {
        &self.working_directory
    }

    pub(crate) fn enter(&mut self, directory: &Path) {
        self.disk.set_working_directory(directory).expect("a directory");
        self.working_directory = directory.to_owned();
    }

    /// Creates a symbolic link that points to the directory `target`.
    pub(crate) fn add_link(&mut self, target: &Path) {
        let link = PathBuf::from(format!("/links/{}", self.links.len()));
        self.disk.create_symbolic_link(target, &link).expect("a link");
        self.disk.sync_directory(Path::new("/links")).expect("a sync");
        self.links.push((link, target.to_owned()));
    }

    /// Returns a random spelling of a canonical path: absolute, relative, through a symbolic link,
    /// with `..`, or with a slash at the end. The last component need not exist.
    pub(crate) fn spelled(&mut self, canonical: &Path) -> PathBuf {
        let spelling = match self.rng.u8(..6) {
            0 | 1 => self.relative(canonical),
            2 => self.through_link(canonical),
            3 => match canonical.parent() {
                Some(parent) if parent != Path::new("/") => {
                    // Goes from the parent directory up and down again.
                    let name = parent.file_name().unwrap_or_default();
                    parent.join("..").join(name).join(canonical.file_name().unwrap_or_default())
                }
                _ => canonical.to_owned(),
            },
            4 => PathBuf::from(format!("{}/", canonical.display())),
            _ => canonical.to_owned(),
        };
        let leads_there = |path: &Path| match self.disk.canonical_path(path) {
            Ok(found) => found == canonical,
            Err(_) => match (path.parent(), canonical.parent()) {
                (Some(spelled), Some(parent)) => {
                    let spelled = if spelled == Path::new("") { Path::new(".") } else { spelled };
                    let is_new = self.disk.metadata(canonical).is_err();
                    is_new && self.disk.canonical_path(spelled).is_ok_and(|it| it == parent)
                }
                _ => false,
            },
        };
        if leads_there(&spelling) { spelling } else { canonical.to_owned() }
    }

    fn relative(&self, canonical: &Path) -> PathBuf {
        let mut above = self.working_directory.as_path();
        let mut path = PathBuf::new();
        loop {
            if let Ok(below) = canonical.strip_prefix(above) {
                let path = path.join(below);
                // The empty path does not resolve, so `.` is used for the working directory.
                return if path == Path::new("") { PathBuf::from(".") } else { path };
            }
            path.push("..");
            above = above.parent().unwrap_or(Path::new("/"));
        }
    }

    fn through_link(&mut self, canonical: &Path) -> PathBuf {
        let links = self.links.iter().filter(|(_, target)| canonical.starts_with(target));
        let links: Vec<_> = links.collect();
        match self.rng.choice(links) {
            Some((link, target)) => match canonical.strip_prefix(target) {
                Ok(below) if below.as_os_str().is_empty() => link.clone(),
                Ok(below) => link.join(below),
                Err(_) => canonical.to_owned(),
            },
            None => canonical.to_owned(),
        }
    }

    /// Returns options for a database whose directories are those of `layout` and whose column
    /// families have these names.
    pub(crate) fn options(
        &mut self,
        layout: &Layout,
        tuning: &str,
        families: &[String],
    ) -> OpenOptions {
        let mut options = OpenOptions::with_storage(Arc::new(self.disk.clone()));
        options.set_inline_background(true);
        options.set_clock(self.disk.clock());
        options.set_from_string(tuning).expect("options");
        let logs = layout.logs.as_ref();
        let wal_dir = logs.map(|logs| self.spelled(logs).display().to_string());
        let database = options.database_mut();
        database.wal_dir = wal_dir.unwrap_or_default();
        database.db_paths = self.paths(&layout.tables);
        for family in families {
            let places = layout.family_tables.get(family).cloned().unwrap_or_default();
            options.column_family_mut(family).cf_paths = self.paths(&places);
        }
        options
    }

    pub(crate) fn paths(&mut self, places: &[Place]) -> Vec<DbPath> {
        let path = |place: &Place| DbPath {
            path: self.spelled(&place.directory),
            target_size: place.target_size,
        };
        places.iter().map(path).collect()
    }

    /// Returns the names of a database's column families: those in its MANIFEST or, if that cannot
    /// be read, those of the model.
    pub(crate) fn families(&self, database: &Database) -> Vec<String> {
        let options = OpenOptions::with_storage(Arc::new(self.disk.clone()));
        let listed = Db::list_cf(&database.layout.home, &options);
        listed.unwrap_or_else(|_| database.state.keys().cloned().collect())
    }

    /// Returns the files that a database needs and that must stay unchanged, by path. Files in
    /// directories other than the home are included only if the database owns the directories.
    pub(crate) fn needed(&self, database: &Database) -> Result<BTreeMap<PathBuf, Needed>, String> {
        let layout = &database.layout;
        let failed = |error: &dyn fmt::Display| {
            format!("database {} cannot be looked at: {error}", database.number)
        };
        let number = manifest::current(&self.disk, &layout.home).map_err(|it| failed(&it))?;
        let state = manifest::state(&self.disk, &layout.home, number).map_err(|it| failed(&it))?;
        let in_home = [FileKind::Current, FileKind::Identity, FileKind::Manifest(number)];
        let mut paths: Vec<PathBuf> =
            in_home.iter().map(|kind| layout.home.join(kind.to_string())).collect();
        let oldest = state.column_families.iter().map(|family| family.log_number).min();
        let oldest = oldest.unwrap_or(0).max(state.min_log_number_to_keep);
        let mut outside: Vec<PathBuf> = self
            .names(layout.log_directory())
            .into_iter()
            .filter(|name| {
                let kind = FileKind::parse(name);
                matches!(kind, Some(FileKind::Wal(number)) if number >= oldest)
            })
            .map(|name| layout.log_directory().join(name))
            .collect();
        for family in &state.column_families {
            for file in family.levels.iter().flatten() {
                let name = FileKind::Table(file.number).to_string();
                outside.push(layout.table_directory(&family.name, file.path_id.into()).join(name));
            }
        }
        match database.standing {
            Standing::Owner => paths.extend(outside),
            Standing::Copy => {
                paths.extend(outside.into_iter().filter(|it| it.parent() == Some(&layout.home)));
            }
        }
        let by = format!("database {}", database.number);
        let file = |path: PathBuf| match self.file(&path, &by) {
            Some(needed) => Ok((path, needed)),
            None => Err(format!("{} is missing, which {by} needs", path.display())),
        };
        paths.into_iter().map(file).collect()
    }

    /// Returns the files that must stay unchanged while the databases whose numbers are in `but`
    /// are used. These are the files that any other database needs, and the files that belong to no
    /// database.
    pub(crate) fn needed_by_others(
        &self,
        but: &[usize],
    ) -> Result<BTreeMap<PathBuf, Needed>, String> {
        let mut all = BTreeMap::new();
        for database in self.databases.iter().filter(|it| !but.contains(&it.number)) {
            all.extend(self.needed(database)?);
        }
        for path in &self.strays {
            let Some(needed) = self.file(path, "nobody") else {
                return Err(format!("{} is gone, which was no database's", path.display()));
            };
            all.insert(path.clone(), needed);
        }
        Ok(all)
    }

    /// Checks that these files still have the inodes and the contents that `needed` records.
    pub(crate) fn check(&self, needed: &BTreeMap<PathBuf, Needed>) -> Result<(), String> {
        for (path, before) in needed {
            let by = &before.by;
            match self.file(path, by) {
                None => return Err(format!("{} is gone, which {by} needs", path.display())),
                Some(now) if now != *before => {
                    return Err(format!("{} has changed, which {by} needs", path.display()));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn file(&self, path: &Path, by: &str) -> Option<Needed> {
        let inode = self.disk.identity(path).ok()?.inode;
        let mut hasher = DefaultHasher::new();
        self.read(path)?.hash(&mut hasher);
        Some(Needed { by: by.to_owned(), inode, hash: hasher.finish() })
    }

    /// Returns the contents of a file, or `None` if it cannot be read.
    pub(crate) fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let file = self.disk.open(path, IoMode::Buffered, Purpose::Metadata).ok()?;
        let mut bytes = vec![0; file.length().ok()? as usize];
        file.read_full_at(&mut bytes, 0, Purpose::Metadata).ok()?;
        Some(bytes)
    }

    /// Returns the contents of the claims in the directories of a layout other than its home, by
    /// directory.
    pub(crate) fn claims(&self, layout: &Layout) -> BTreeMap<PathBuf, Vec<u8>> {
        let claim = |directory: PathBuf| {
            let claim = self.read(&directory.join(CLAIM))?;
            Some((directory, claim))
        };
        layout.outside().into_iter().filter_map(claim).collect()
    }

    /// Whether opening a database with its own options must succeed. That is so if the database
    /// owns its directories other than the home, no other database has claimed one of them since
    /// this database was last open, and none of them is the home of another database.
    pub(crate) fn is_rightful(&self, database: &Database) -> bool {
        if database.layout.outside().iter().any(|it| self.is_database(it)) {
            return false;
        }
        let claims = self.claims(&database.layout);
        let mut claims = claims.iter();
        let is_own = claims.all(|(path, claim)| database.claims.get(path) == Some(claim));
        database.standing == Standing::Owner && is_own
    }

    /// Whether a database has claimed all existing directories outside its home that its options
    /// name.
    pub(crate) fn has_claimed_all(&self, database: &Database) -> bool {
        let claims = self.claims(&database.layout);
        let outside = database.layout.outside();
        let mut there = outside.iter().filter(|it| self.disk.metadata(it).is_ok());
        there.all(|it| claims.contains_key(it) && claims.get(it) == database.claims.get(it))
    }

    /// Whether a directory does not exist, or contains neither a claim nor database files other
    /// than locks and LOG files.
    pub(crate) fn is_free(&self, directory: &Path) -> bool {
        let is_lock = |name: &str| {
            matches!(name, "LOCK" | "TAILWATER-LOCK" | "LOG") || name.starts_with("LOG.old")
        };
        let is_of_database =
            |name: &String| name == CLAIM || FileKind::parse(name).is_some() && !is_lock(name);
        !self.names(directory).iter().any(is_of_database)
    }

    /// Returns the names of the files in a directory, or nothing if the directory does not exist.
    pub(crate) fn names(&self, directory: &Path) -> Vec<String> {
        let entries = self.disk.list(directory).unwrap_or_default();
        let files = entries.into_iter().filter(|entry| !entry.is_directory);
        files.map(|entry| entry.name).collect()
    }

    /// Creates a directory and syncs its parent directory.
    pub(crate) fn make_directory(&self, path: &Path) {
        self.disk.create_directory(path).expect("a directory");
        for below in path.ancestors() {
            self.sync_parent(below);
        }
    }

    pub(crate) fn sync_parent(&self, path: &Path) {
        if let Some(parent) = path.parent() {
            self.disk.sync_directory(parent).expect("a directory");
        }
    }

    /// Writes a file and syncs it.
    pub(crate) fn write(&self, path: &Path, bytes: &[u8]) {
        let purpose = Purpose::Metadata;
        let file = self.disk.create(path, Create::Truncate, IoMode::Buffered, purpose);
        let mut file = file.expect("a file");
        file.write_all_at(bytes, 0, purpose).expect("a write");
        file.sync_all(purpose).expect("a sync");
        self.sync_parent(path);
    }

    /// Renames a directory on the disk, and updates the paths in the models of the databases.
    pub(crate) fn rename(&mut self, from: &Path, to: &Path) {
        self.disk.rename(from, to).expect("a name that can be changed");
        self.sync_parent(from);
        self.sync_parent(to);
        let mut paths = Layout::at(PathBuf::new());
        for database in &mut self.databases {
            database.layout.renamed(from, to);
            let claims = std::mem::take(&mut database.claims);
            database.claims = claims
                .into_iter()
                .map(|(path, claim)| {
                    paths.home = path;
                    paths.renamed(from, to);
                    (paths.home.clone(), claim)
                })
                .collect();
        }
        for stray in &mut self.strays {
            paths.home.clone_from(stray);
            paths.renamed(from, to);
            stray.clone_from(&paths.home);
        }
        paths.home.clone_from(&self.working_directory);
        paths.renamed(from, to);
        self.enter(&paths.home.clone());
    }

    /// Copies a directory with all its contents. The copied files have new inodes.
    pub(crate) fn copy(&self, from: &Path, to: &Path) {
        self.make_directory(to);
        for entry in self.disk.list(from).expect("a directory") {
            let (from, to) = (from.join(&entry.name), to.join(&entry.name));
            if entry.is_directory {
                self.copy(&from, &to);
            } else if let Some(bytes) = self.read(&from) {
                self.write(&to, &bytes);
            }
        }
    }

    /// Removes a directory with all its contents.
    pub(crate) fn remove(&mut self, directory: &Path) {
        for entry in self.disk.list(directory).expect("a directory") {
            let path = directory.join(&entry.name);
            if entry.is_directory {
                self.remove(&path);
            } else {
                self.disk.remove(&path).expect("a file");
            }
        }
        self.disk.sync_directory(directory).expect("a sync");
        self.disk.remove_directory(directory).expect("an empty directory");
        self.sync_parent(directory);
        self.strays.retain(|stray| stray.parent() != Some(directory));
    }
}
