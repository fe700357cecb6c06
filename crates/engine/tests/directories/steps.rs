//! The random steps of a test. They perform operations on databases, and imitate mistakes and
//! accidents such as wrong paths and missing directories.

use std::path::{Path, PathBuf};

use tailwater::{Db, ErrorKind};
use tailwater_format::file_name::FileKind;
use tailwater_io::Storage;

use crate::Checked;
use crate::database::{DEFAULT, Database, Layout, Place, Standing, State, difference};
use crate::openings::{Manner, fresh, names_a_cause};
use crate::world::{CLAIM, World};

/// Maximum number of databases that exist at the same time.
const DATABASES_MAX: usize = 6;
/// Maximum number of directories in `db_paths`.
const PATHS_MAX: usize = 4;
/// Directories that databases may have outside their homes.
const OUTSIDE: [&str; 5] = ["/f0", "/f1", "/f2", "/deep/f3", "/deep/er/f4"];
/// The options of every database: small memtables, and levels that fill quickly.
const TUNING: &str = "write_buffer_size=65536;arena_block_size=8192;target_file_size_base=4000;\
    max_bytes_for_level_base=4000;level_compaction_dynamic_level_bytes=false;\
    block_based_table_factory={no_block_cache=true}";

impl World {
    /// Performs one step.
    pub(crate) fn step(&mut self) -> Checked<()> {
        if self.databases.len() < 2 {
            return self.create();
        }
        match self.rng.u8(..40) {
            0..=3 if self.databases.len() < DATABASES_MAX => self.create(),
            4..=13 => self.work(),
            14 | 15 if self.databases.len() < DATABASES_MAX => self.copy_home(),
            16 => self.restore_from_copy(),
            17..=19 => self.adopt(),
            20 | 21 => self.rename_home(),
            22 | 23 => self.rename_outside(),
            24..=28 => self.open_wrongly(),
            29 => self.destroy_no_database(),
            30 | 31 => self.destroy_one(),
            32 | 33 => self.lose_a_file(),
            34 => self.unmount(),
            35 => self.forget_claims(),
            36 => self.extend(),
            37 => self.add_stray(),
            _ => self.move_about(),
        }
    }

    fn any(&mut self) -> usize {
        self.rng.usize(..self.databases.len())
    }

    /// Replaces the model of a database in the world by `database`, which has the same number.
    fn put_back(&mut self, database: Database) {
        let known = self.databases.iter_mut().find(|it| it.number == database.number);
        *known.expect("the database") = database;
    }

    fn forget(&mut self, number: usize) {
        self.databases.retain(|it| it.number != number);
    }

    /// Creates a database. The creation may be refused if one of its directories belongs to another
    /// database.
    fn create(&mut self) -> Checked<()> {
        let layout = self.new_layout();
        if self.is_database(&layout.home) {
            return Ok(());
        }
        let mut tuning = TUNING.to_owned();
        let options: [(&str, &[&str]); 4] = [
            ("recycle_log_file_num", &["0", "2"]),
            ("avoid_flush_during_recovery", &["false", "true"]),
            ("level0_file_num_compaction_trigger", &["2", "1000000"]),
            ("max_manifest_file_size", &["300", "1000000"]),
        ];
        for (name, values) in options {
            let value = self.rng.choice(values).expect("a value");
            tuning += &format!(";{name}={value}");
        }
        self.numbers += 1;
        let number = self.numbers;
        let database = Database {
            number,
            lineage: number,
            layout,
            state: State::from([(DEFAULT.to_owned(), Default::default())]),
            standing: Standing::Owner,
            tuning,
            is_stale: false,
            claims: Default::default(),
        };
        self.note(format_args!("create {number}: {:?}", database.layout));
        let mut directories = database.layout.outside();
        directories.insert(database.layout.home.clone());
        let is_home = |path: &PathBuf| self.databases.iter().any(|it| it.layout.home == *path);
        let is_rightful = directories.iter().all(|it| self.is_free(it) && !is_home(it));
        self.forget_strays(&database.layout.home);
        let mut made = database.clone();
        match self.open_and_work(&mut made, Manner::Create, is_rightful)? {
            Ok(()) => self.databases.push(made),
            Err(error) if is_rightful => return Err(format!("cannot be made: {error}")),
            Err(error) => {
                self.count("a new database is refused");
                names_a_cause(&error)?;
            }
        }
        Ok(())
    }

    fn new_layout(&mut self) -> Layout {
        let mut layout = Layout::at(match self.rng.u8(..8) {
            0 => PathBuf::from(*self.rng.choice(&OUTSIDE).expect("a directory")),
            1 => Path::new(self.rng.choice(&OUTSIDE).expect("a directory")).join("inner"),
            _ => fresh(self, 'h'),
        });
        if self.rng.u8(..3) > 0 {
            layout.logs = Some(self.outside_directory(&layout));
        }
        if self.rng.u8(..3) > 0 {
            layout.tables = self.places(&layout);
        }
        if self.rng.u8(..3) == 0 {
            layout.family_tables.insert(DEFAULT.to_owned(), self.places(&layout));
        }
        layout
    }

    fn places(&mut self, layout: &Layout) -> Vec<Place> {
        let place = |world: &mut Self| {
            let directory = match world.rng.u8(..4) {
                0 => layout.home.clone(),
                _ => world.outside_directory(layout),
            };
            let target_size = *world.rng.choice([1, u64::MAX]).as_ref().expect("a size");
            Place { directory, target_size }
        };
        (0..self.rng.usize(1..4)).map(|_| place(self)).collect()
    }

    fn outside_directory(&mut self, layout: &Layout) -> PathBuf {
        match self.rng.u8(..8) {
            0 => layout.home.join("inside"),
            // This directory may already belong to another database.
            1 => PathBuf::from(*self.rng.choice(&OUTSIDE).expect("a directory")),
            _ => {
                let free = OUTSIDE.iter().filter(|it| self.is_free(Path::new(it)));
                let free: Vec<&&str> = free.collect();
                match self.rng.choice(free) {
                    Some(free) => PathBuf::from(*free),
                    None => fresh(self, 'f'),
                }
            }
        }
    }

    /// Opens a database with its own options and performs random operations on it.
    fn work(&mut self) -> Checked<()> {
        let at = self.any();
        let mut database = self.databases[at].clone();
        self.note(format_args!("work {}", database.number));
        self.open_as_it_is(&mut database, Manner::Write)
    }

    fn open_as_it_is(&mut self, database: &mut Database, manner: Manner) -> Checked<()> {
        let is_rightful = self.is_rightful(database) || manner == Manner::Adopt;
        let own = self.needed(database)?;
        match self.open_and_work(database, manner, is_rightful)? {
            Ok(()) => {
                self.outdate_copies(database);
                self.put_back(database.clone());
                Ok(())
            }
            Err(error) if is_rightful => {
                Err(format!("database {} does not open: {error}", database.number))
            }
            Err(error) => {
                self.check(&own)?;
                names_a_cause(&error)
            }
        }
    }

    /// Copies the home of a database to another path, as a backup does, but not its other
    /// directories.
    fn copy_home(&mut self) -> Checked<()> {
        let at = self.any();
        let original = self.databases[at].clone();
        if !self.is_known_apart(&original) {
            return Ok(());
        }
        let home = fresh(self, 'b');
        self.note(format_args!("copy {} to {}", original.number, home.display()));
        self.copy(&original.layout.home, &home);
        let copy = self.copied(&original, home);
        self.add(copy);
        Ok(())
    }

    /// Whether the claims in directories show which of two databases owns the directories:
    /// `original`, or a copy of its home. They do not if `original` has not yet claimed all its
    /// directories. Then the database that is opened first claims them.
    fn is_known_apart(&self, original: &Database) -> bool {
        original.standing == Standing::Copy || self.has_claimed_all(original)
    }

    /// Returns the model of a new database. Its home, at path `home`, is a copy of the home of
    /// `original`.
    fn copied(&self, original: &Database, home: PathBuf) -> Database {
        let mut copy = original.clone();
        copy.layout.renamed(&original.layout.home, &home);
        let shares = copy.layout.outside().iter().any(|it| !it.starts_with(&home));
        if shares {
            copy.standing = Standing::Copy;
        }
        copy.claims = self.claims(&copy.layout);
        copy
    }

    /// Replaces the home (the main directory) of a database by a copy of it with new inodes, as
    /// when a backup is restored.
    fn restore_from_copy(&mut self) -> Checked<()> {
        let at = self.any();
        let original = self.databases[at].clone();
        let home = original.layout.home.clone();
        let is_inside = |it: &Database| {
            it.number != original.number
                && (it.layout.home.starts_with(&home)
                    || it.layout.outside().iter().any(|it| it.starts_with(&home)))
        };
        if self.databases.iter().any(is_inside)
            || self.is_within(&home)
            || !self.is_known_apart(&original)
        {
            return Ok(());
        }
        self.note(format_args!("restore {} from a copy", original.number));
        self.count("a copy takes the place of a home");
        let aside = fresh(self, 'b');
        self.copy(&home, &aside);
        self.remove(&home);
        self.disk.rename(&aside, &home).map_err(|error| error.to_string())?;
        self.sync_parent(&home);
        let mut restored = self.copied(&original, home);
        restored.number = original.number;
        self.put_back(restored);
        Ok(())
    }

    /// Whether the working directory is `directory` or inside it.
    fn is_within(&self, directory: &Path) -> bool {
        self.working_directory().starts_with(directory)
    }

    /// Lets a database adopt directories outside its home that it does not own. The database is a
    /// copy, or another database has claimed the directories.
    fn adopt(&mut self) -> Checked<()> {
        let at = self.any();
        let mut database = self.databases[at].clone();
        let outside = database.layout.outside();
        let is_home = outside.iter().any(|it| self.is_database(it));
        if database.is_stale || is_home || self.is_rightful(&database) {
            return Ok(());
        }
        let shares = |it: &&Database| {
            !it.layout.outside().is_disjoint(&outside) && it.number != database.number
        };
        let sharing: Vec<Database> = self.databases.iter().filter(shares).cloned().collect();
        // To adopt directories is to become their owner. A user may do that only if no other
        // database still needs the directories. So this function adopts directories only if all
        // databases that share them have the same contents.
        let is_same = |it: &Database| {
            it.lineage == database.lineage
                && it.state == database.state
                && it.layout.outside() == outside
        };
        if database.standing == Standing::Owner && !sharing.is_empty()
            || !sharing.iter().all(is_same)
        {
            return Ok(());
        }
        self.note(format_args!("adopt {}", database.number));
        for mut other in sharing {
            other.standing = Standing::Copy;
            other.is_stale = true;
            self.put_back(other);
        }
        database.standing = Standing::Owner;
        self.count("directories are adopted");
        self.open_as_it_is(&mut database, Manner::Adopt)
    }

    fn rename_home(&mut self) -> Checked<()> {
        let at = self.any();
        let home = self.databases[at].layout.home.clone();
        let to = fresh(self, 'r');
        self.note(format_args!("rename {} to {}", home.display(), to.display()));
        self.rename(&home, &to);
        Ok(())
    }

    fn rename_outside(&mut self) -> Checked<()> {
        let at = self.any();
        let layout = &self.databases[at].layout;
        // Directories inside the home are not renamed: if the home is a copy, the claims in such
        // directories still name the original home.
        let outside = layout.outside().into_iter().filter(|it| !it.starts_with(&layout.home));
        let outside: Vec<PathBuf> = outside.collect();
        let Some(from) = self.rng.choice(outside) else { return Ok(()) };
        if self.disk.metadata(&from).is_err() {
            return Ok(());
        }
        let to = fresh(self, 'o');
        self.note(format_args!("rename {} to {}", from.display(), to.display()));
        self.rename(&from, &to);
        Ok(())
    }

    /// Opens or destroys a database with options that name wrong directories.
    fn open_wrongly(&mut self) -> Checked<()> {
        let at = self.any();
        let database = self.databases[at].clone();
        let layout = self.wrong_layout(&database.layout);
        if layout == database.layout {
            return Ok(());
        }
        let own = self.needed(&database)?;
        match self.rng.u8(..5) {
            0 | 1 => {
                self.note(format_args!("look wrongly at {}: {layout:?}", database.number));
                let others = self.needed_by_others(&[])?;
                match self.look(&database, &layout) {
                    Ok(found) => same(&database, &found)?,
                    Err(error) => {
                        self.count("a look with other directories is refused");
                        names_a_cause(&error)?;
                    }
                }
                self.check(&others)?;
                self.check(&own)
            }
            2 | 3 => {
                self.note(format_args!("open wrongly {}: {layout:?}", database.number));
                let mut opened = Database { layout, ..database };
                match self.open_and_work(&mut opened, Manner::Write, false)? {
                    Ok(()) => {
                        self.count("other directories do no harm");
                        self.outdate_copies(&opened);
                        self.put_back(opened);
                        Ok(())
                    }
                    Err(error) => {
                        self.count("other directories are refused");
                        self.check(&own)?;
                        names_a_cause(&error)
                    }
                }
            }
            _ => {
                self.note(format_args!("destroy wrongly {}: {layout:?}", database.number));
                if self.destroy(&database, &layout)? {
                    self.outdate_copies(&database);
                    self.forget(database.number);
                }
                Ok(())
            }
        }
    }

    /// Returns a layout that differs from `layout` in one directory, like a user's mistake.
    fn wrong_layout(&mut self, layout: &Layout) -> Layout {
        let mut wrong = layout.clone();
        let other = self.any();
        let other = self.databases[other].layout.clone();
        let mut directories: Vec<PathBuf> = other.outside().into_iter().collect();
        directories.push(other.home.clone());
        let directory = self.rng.choice(directories).expect("a directory");
        let place = Place { directory: directory.clone(), target_size: 1 };
        // Only the claim in a directory names the owner of the logs in it. Without the claim, the
        // database would not detect that its `wal_dir` is wrong.
        let has_claim = self.disk.metadata(&directory.join(CLAIM)).is_ok();
        let has_room = wrong.tables.len() < PATHS_MAX;
        match self.rng.u8(..10) {
            0 => wrong.logs = None,
            1 if has_claim || self.is_free(&directory) => wrong.logs = Some(directory),
            2 => wrong.logs = Some(fresh(self, 'f')),
            3 if has_room => wrong.tables.insert(0, place),
            4 if has_room => wrong.tables.push(place),
            5 => wrong.tables.reverse(),
            6 => _ = wrong.tables.pop(),
            7 => wrong.tables.clear(),
            8 => _ = wrong.family_tables.pop_first(),
            _ => _ = wrong.family_tables.insert(DEFAULT.to_owned(), vec![place]),
        }
        wrong
    }

    /// Calls `destroy` on a directory that is not the home of a database, but may contain files of
    /// one.
    fn destroy_no_database(&mut self) -> Checked<()> {
        let at = self.any();
        let outside: Vec<PathBuf> = self.databases[at].layout.outside().into_iter().collect();
        let Some(directory) = self.rng.choice(outside) else { return Ok(()) };
        if self.is_database(&directory) {
            return Ok(());
        }
        self.note(format_args!("destroy {}", directory.display()));
        self.forget_strays(&directory);
        let all = self.needed_by_others(&[])?;
        let options = self.options(&Layout::at(directory.clone()), TUNING, &[]);
        let directory = self.spelled(&directory);
        if let Err(error) = Db::destroy(&directory, &options) {
            self.count("a directory that is no home is not destroyed");
            names_a_cause(&error)?;
        }
        self.check(&all)
    }

    /// Removes the stray files in `home` from the list of files that must not be touched.
    /// Destroying `home` may remove them, unless the directory is claimed by another database.
    fn forget_strays(&mut self, home: &Path) {
        if self.disk.metadata(&home.join(CLAIM)).is_err() {
            self.strays.retain(|stray| stray.parent() != Some(home));
        }
    }

    fn destroy_one(&mut self) -> Checked<()> {
        let at = self.any();
        let database = self.databases[at].clone();
        self.destroy_this(&database)
    }

    fn destroy_this(&mut self, database: &Database) -> Checked<()> {
        self.note(format_args!("destroy {}", database.number));
        if self.destroy(database, &database.layout.clone())? {
            self.count("a database is destroyed");
            self.outdate_copies(database);
            self.forget(database.number);
        }
        Ok(())
    }

    /// Removes a file that a database needs, tries to open the database, and restores the file.
    fn lose_a_file(&mut self) -> Checked<()> {
        let at = self.any();
        let mut database = self.databases[at].clone();
        if !self.is_rightful(&database) {
            return Ok(());
        }
        let paths: Vec<PathBuf> = self.needed(&database)?.into_keys().collect();
        let path = self.rng.choice(paths).expect("a file");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.note(format_args!("lose {} of {}", path.display(), database.number));
        let aside = PathBuf::from(format!("/files/{}", self.numbers));
        self.disk.rename(&path, &aside).map_err(|error| error.to_string())?;
        self.sync_parent(&path);
        self.sync_parent(&aside);
        if self.rng.bool() {
            match self.look(&database, &database.layout.clone()) {
                Ok(found) => same(&database, &found)?,
                Err(error) => names(&error, &name)?,
            }
        }
        match self.open_without(&mut database)? {
            None => self.put_back(database),
            Some(error) => {
                self.count("a lost file is missed");
                names(&error, &name)?;
                self.disk.rename(&aside, &path).map_err(|error| error.to_string())?;
                self.sync_parent(&path);
                self.sync_parent(&aside);
            }
        }
        Ok(())
    }

    /// Opens a database after one of its files or directories was removed. If the opening is
    /// refused, checks that it left all other files of the database unchanged, and returns the
    /// error.
    fn open_without(&mut self, database: &mut Database) -> Checked<Option<tailwater::Error>> {
        let number = database.number;
        let before: Vec<_> = self.everything_of(database);
        let mut others = self.databases.clone();
        std::mem::swap(&mut self.databases, &mut others);
        self.databases.retain(|it| it.number != number);
        let opened = self.open_and_work(database, Manner::Write, false);
        let added = self.databases.split_off(others.len() - 1);
        self.databases = others;
        self.databases.extend(added);
        match opened? {
            Ok(()) => {
                self.outdate_copies(database);
                Ok(None)
            }
            Err(error) => {
                let after = self.everything_of(database);
                if let Some(lost) = before.iter().find(|it| !after.contains(it)) {
                    let path = lost.0.display();
                    return Err(format!("{number} is refused, but {path} was changed or removed"));
                }
                Ok(Some(error))
            }
        }
    }

    /// Returns the path and contents of every file in the database's directories that has the name
    /// of a database file, except LOCK and the LOG files.
    fn everything_of(&self, database: &Database) -> Vec<(PathBuf, Vec<u8>)> {
        let mut directories = database.layout.outside();
        directories.insert(database.layout.home.clone());
        let mut all = Vec::new();
        for directory in directories {
            for name in self.names(&directory) {
                let kind = FileKind::parse(&name);
                let may_change = matches!(
                    kind,
                    Some(FileKind::Lock | FileKind::InfoLog | FileKind::OldInfoLog(_))
                );
                let path = directory.join(name);
                if let Some(bytes) = self.read(&path).filter(|_| kind.is_some() && !may_change) {
                    all.push((path, bytes));
                }
            }
        }
        all
    }

    /// Removes a directory of a database other than its home, as if its filesystem were not
    /// mounted. Tries to open the database, and restores the directory.
    fn unmount(&mut self) -> Checked<()> {
        let at = self.any();
        let mut database = self.databases[at].clone();
        let outside: Vec<PathBuf> = database.layout.outside().into_iter().collect();
        let Some(directory) = self.rng.choice(outside) else { return Ok(()) };
        let uses = |it: &Database| {
            let mut paths = it.layout.outside();
            paths.insert(it.layout.home.clone());
            it.number != database.number && paths.iter().any(|it| it.starts_with(&directory))
        };
        let is_shared = self.databases.iter().any(uses) || self.is_within(&directory);
        if is_shared || !self.is_rightful(&database) || self.disk.metadata(&directory).is_err() {
            return Ok(());
        }
        self.note(format_args!("unmount {} of {}", directory.display(), database.number));
        let aside = fresh(self, 'u');
        let strays = self.strays.clone();
        self.strays.retain(|it| it.parent() != Some(&*directory));
        self.disk.rename(&directory, &aside).map_err(|error| error.to_string())?;
        self.sync_parent(&directory);
        self.sync_parent(&aside);
        if self.rng.bool() {
            self.make_directory(&directory);
        }
        match self.open_without(&mut database)? {
            None => self.put_back(database),
            Some(error) => {
                self.count("a directory that is not mounted is missed");
                names_a_cause(&error)?;
                if self.disk.metadata(&directory).is_ok() {
                    if !self.is_free(&directory) {
                        let path = directory.display();
                        return Err(format!("something was made in {path}, which was refused"));
                    }
                    self.remove(&directory);
                }
                self.disk.rename(&aside, &directory).map_err(|error| error.to_string())?;
                self.sync_parent(&directory);
                self.sync_parent(&aside);
                self.strays = strays;
            }
        }
        Ok(())
    }

    /// Removes the claims of a database, which then looks like one that RocksDB created. Chooses
    /// only a database of which no copy exists and that shares no directories with another
    /// database.
    fn forget_claims(&mut self) -> Checked<()> {
        let at = self.any();
        let database = self.databases[at].clone();
        let outside = database.layout.outside();
        let is_related = |it: &&Database| {
            it.lineage == database.lineage || !it.layout.outside().is_disjoint(&outside)
        };
        let related = self.databases.iter().filter(is_related);
        if !self.is_rightful(&database) || related.count() > 1 {
            return Ok(());
        }
        self.note(format_args!("forget the claims of {}", database.number));
        for directory in self.claims(&database.layout).keys() {
            self.disk.remove(&directory.join(CLAIM)).map_err(|error| error.to_string())?;
            self.disk.sync_directory(directory).map_err(|error| error.to_string())?;
        }
        if self.rng.bool() { self.destroy_this(&database) } else { Ok(()) }
    }

    /// Adds a directory to the `db_paths` of a database and opens the database with it.
    fn extend(&mut self) -> Checked<()> {
        let at = self.any();
        let mut database = self.databases[at].clone();
        if database.layout.tables.is_empty() || database.layout.tables.len() >= PATHS_MAX {
            return Ok(());
        }
        let directory = fresh(self, 'f');
        self.note(format_args!("extend {} by {}", database.number, directory.display()));
        let before = database.layout.clone();
        database.layout.tables.push(Place { directory, target_size: u64::MAX });
        let is_rightful = self.is_rightful(&database);
        let own = self.needed(&self.databases[at])?;
        match self.open_and_work(&mut database, Manner::Write, false)? {
            Ok(()) => {
                self.outdate_copies(&database);
                self.put_back(database);
                Ok(())
            }
            Err(error) if is_rightful => Err(format!("{before:?} cannot be extended: {error}")),
            Err(error) => {
                self.check(&own)?;
                names_a_cause(&error)
            }
        }
    }

    /// Writes a stray file, which belongs to no database, into a directory for logs or tables.
    fn add_stray(&mut self) -> Checked<()> {
        let at = self.any();
        let outside: Vec<PathBuf> = self.databases[at].layout.outside().into_iter().collect();
        let Some(directory) = self.rng.choice(outside) else { return Ok(()) };
        let is_home = self.databases.iter().any(|it| it.layout.home == directory);
        if is_home || self.disk.metadata(&directory).is_err() {
            return Ok(());
        }
        let names = ["notes", "OPTIONS-000077", "MANIFEST-000088", "000066.dbtmp", "x.sst.bak"];
        let path = directory.join(self.rng.choice(names).expect("a name"));
        self.note(format_args!("stray {}", path.display()));
        if !self.strays.contains(&path) {
            self.write(&path, b"nobody's");
            self.strays.push(path);
        }
        Ok(())
    }

    /// Changes the working directory, or creates a symbolic link.
    fn move_about(&mut self) -> Checked<()> {
        let at = self.any();
        let mut directories: Vec<PathBuf> = vec![PathBuf::from("/deep/er"), PathBuf::from("/")];
        directories.push(self.databases[at].layout.home.clone());
        directories.extend(self.databases[at].layout.outside());
        let directory = self.rng.choice(directories).expect("a directory");
        if self.disk.metadata(&directory).is_err() {
            return Ok(());
        }
        if self.rng.bool() {
            self.note(format_args!("cd {}", directory.display()));
            self.enter(&directory);
        } else {
            self.note(format_args!("link to {}", directory.display()));
            self.add_link(&directory);
        }
        Ok(())
    }
}

/// Checks that the contents found are exactly those that the model expects.
fn same(database: &Database, found: &State) -> Checked<()> {
    match difference(&database.state, found) {
        Some(difference) => Err(format!("database {}: {difference}", database.number)),
        None => Ok(()),
    }
}

/// Checks that an error names the missing file.
fn names(error: &tailwater::Error, name: &str) -> Checked<()> {
    let is_there = error.to_string().contains(name);
    // If CURRENT is missing, opening reports only that there is no database, without the file's
    // name.
    let is_current = name == "CURRENT" && error.kind() == ErrorKind::NotFound;
    if is_there || is_current {
        return Ok(());
    }
    Err(format!("{name} is missing, but the error does not name it: {error}"))
}
