//! Opens databases with correct and with wrong options, and crashes them.

use std::path::{Path, PathBuf};

use tailwater::{Db, Error, ErrorKind, OpenOptions};
use tailwater_io::Storage;

use crate::Checked;
use crate::database::{Database, Layout, Standing, State, difference, state_of};
use crate::session::Session;
use crate::world::World;

/// How a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Opens the database for writing, and creates it if it does not exist.
    Create,
    /// Opens an existing database for writing.
    Write,
    /// Opens an existing database for writing with `adopt_directories`, so that it becomes the
    /// owner of its directories for logs and tables.
    Adopt,
}

impl World {
    /// Returns the options with which a database is opened in manner `manner`.
    fn options_for(&mut self, database: &Database, manner: Manner) -> OpenOptions {
        let families = self.families(database);
        let mut options = self.options(&database.layout, &database.tuning, &families);
        let create = manner == Manner::Create;
        options.set_from_string(&format!("create_if_missing={create}")).expect("options");
        if manner == Manner::Adopt {
            options.set_adopt_directories(true);
        }
        options
    }

    /// Opens a database, checks that it has exactly its data, performs random operations on it,
    /// closes it, and updates its model. Returns the error if the opening is refused. If
    /// `may_crash`, every third call, on average, also simulates a crash: it replaces the disk by
    /// its state after a crash before a random storage call. Then it opens the database again in
    /// the same manner, which must succeed.
    pub(crate) fn open_and_work(
        &mut self,
        database: &mut Database,
        manner: Manner,
        may_crash: bool,
    ) -> Checked<Result<(), Error>> {
        let others = self.needed_by_others(&[database.number])?;
        let crashes = may_crash && self.rng.u8(..3) == 0;
        if crashes {
            self.disk.start_recording();
        }
        let start = self.disk.call_count();
        let options = self.options_for(database, manner);
        let home = self.spelled(&database.layout.home);
        let db = match Db::open(&home, &options) {
            Ok(db) => db,
            Err(error) => {
                self.check(&others)?;
                self.count("an opening is refused");
                return Ok(Err(error));
            }
        };
        let session = self.opened(&db, database, &options)?;
        if self.rng.bool() {
            db.close().map_err(|error| format!("cannot be closed: {error}"))?;
        }
        drop(db);
        self.check(&others)?;
        let mut remade = Vec::new();
        if crashes {
            let call = self.rng.u64(start..=self.disk.call_count());
            self.crash(call);
            remade = self.open_after_crash(database, manner, &session, call)?;
        } else {
            database.state = session.state().clone();
        }
        self.note_checkpoints(database, &session, &remade)?;
        database.layout.family_tables = session.family_tables;
        let names: Vec<&String> = database.state.keys().collect();
        database.layout.family_tables.retain(|name, _| names.contains(&name));
        database.claims = self.claims(&database.layout);
        self.count("an opening succeeds");
        Ok(Ok(()))
    }

    fn opened(&mut self, db: &Db, database: &Database, options: &OpenOptions) -> Checked<Session> {
        let found = state_of(db).map_err(|error| format!("it opens, but: {error}"))?;
        if let Some(difference) = difference(&database.state, &found) {
            return Err(format!("database {} opens, but {difference}", database.number));
        }
        self.work_on(db, database, options)
    }

    /// Replaces the disk by its image after a crash. The crash comes directly before the storage
    /// call with the number `call`. It is a power cut or, in a quarter of the cases, a crash of the
    /// process.
    fn crash(&mut self, call: u64) {
        let seed = self.rng.u64(..);
        let mut replay = self.disk.replay();
        replay.advance_to(call);
        let image = match self.rng.u8(..4) {
            0 => replay.process_crash_image(seed),
            _ => replay.crash_image(seed),
        };
        self.note(format_args!("  crash at call {call}"));
        self.count("a crash");
        self.replace_disk(image);
    }

    /// Opens a database in the same manner as before the crash. Repeats the checkpoints that the
    /// crash left incomplete, and returns their paths.
    fn open_after_crash(
        &mut self,
        database: &mut Database,
        manner: Manner,
        session: &Session,
        call: u64,
    ) -> Checked<Vec<PathBuf>> {
        database.layout.family_tables.clone_from(&session.family_tables);
        let options = self.options_for(database, manner);
        let home = self.spelled(&database.layout.home);
        let db = Db::open(&home, &options).map_err(|error| {
            format!("database {} does not open after a crash: {error}", database.number)
        })?;
        let found = state_of(&db).map_err(|error| format!("after a crash: {error}"))?;
        let mut allowed = session.left_by_crash(call).into_iter();
        if !allowed.any(|state| *state == found) {
            let expected = session.left_by_crash(call)[0];
            let difference = difference(expected, &found).unwrap_or_default();
            return Err(format!("database {} after a crash: {difference}", database.number));
        }
        database.state = found;
        // A checkpoint must succeed even if its path has remains of an incomplete one.
        let homes = session.checkpoints.iter().map(|(home, _)| home);
        let unfinished: Vec<PathBuf> = homes.filter(|it| !self.is_database(it)).cloned().collect();
        for home in &unfinished {
            self.count("a checkpoint is made again");
            db.checkpoint(home).map_err(|error| format!("a checkpoint after a crash: {error}"))?;
        }
        Ok(unfinished)
    }

    /// Adds the checkpoints of `session` to the world, as databases. A checkpoint in `remade` was
    /// repeated after a crash, so it has the current contents of `database`. Any other checkpoint
    /// has the contents that the session recorded.
    fn note_checkpoints(
        &mut self,
        database: &Database,
        session: &Session,
        remade: &[PathBuf],
    ) -> Checked<()> {
        for (home, state) in &session.checkpoints {
            if !self.is_database(home) {
                return Err(format!("there is no checkpoint in {}", home.display()));
            }
            let is_of_now = remade.contains(home);
            let state = if is_of_now { &database.state } else { state };
            self.add(Database {
                number: 0,
                lineage: database.lineage,
                layout: Layout::at(home.clone()),
                state: state.clone(),
                standing: Standing::Owner,
                tuning: database.tuning.clone(),
                is_stale: false,
                claims: Default::default(),
            });
        }
        Ok(())
    }

    /// Adds a database to the world.
    pub(crate) fn add(&mut self, database: Database) {
        self.numbers += 1;
        self.databases.push(Database { number: self.numbers, ..database });
    }

    /// Opens a database read-only with this layout, and returns its contents.
    pub(crate) fn look(
        &mut self,
        database: &Database,
        layout: &Layout,
    ) -> tailwater::Result<State> {
        let families = self.families(database);
        let options = self.options(layout, &database.tuning, &families);
        let home = self.spelled(&layout.home);
        state_of(&Db::open_read_only(&home, &options)?)
    }

    /// Opens every database read-only. Checks that each one that opens shows exactly its data, and
    /// that each one that must open does.
    pub(crate) fn look_at_all(&mut self) -> Checked<()> {
        self.leave_what_is_gone();
        for database in self.databases.clone() {
            let found = self.look(&database, &database.layout);
            let number = database.number;
            match found {
                Ok(found) => {
                    if let Some(difference) = difference(&database.state, &found) {
                        return Err(format!("database {number}, looked at: {difference}"));
                    }
                }
                Err(error) if self.is_rightful(&database) => {
                    return Err(format!("database {number} cannot be looked at: {error}"));
                }
                Err(error) => names_a_cause(&error)?,
            }
        }
        Ok(())
    }

    /// Changes the working directory to `/` if the current one was removed, since relative paths
    /// would no longer resolve.
    fn leave_what_is_gone(&mut self) {
        if self.disk.metadata(Path::new(".")).is_err() {
            self.enter(Path::new("/"));
        }
    }

    /// Marks a copy as stale if `of` has logs or tables in a directory that the copy uses, too.
    /// Must be called after `of` was opened for writing or destroyed.
    pub(crate) fn outdate_copies(&mut self, of: &Database) {
        let outside = of.layout.outside();
        for copy in &mut self.databases {
            let is_copy = copy.standing == Standing::Copy && copy.number != of.number;
            if is_copy && !copy.layout.outside().is_disjoint(&outside) {
                copy.is_stale = true;
            }
        }
    }

    /// Destroys a database. Returns whether it no longer exists. Sometimes a crash interrupts the
    /// destruction. The database is then either complete, or no longer recognized as a database. In
    /// the latter case a second destruction must succeed.
    pub(crate) fn destroy(&mut self, database: &Database, layout: &Layout) -> Checked<bool> {
        let others = self.needed_by_others(&[database.number])?;
        let own = self.needed(database)?;
        let is_rightful = self.is_rightful(database)
            && self.has_claimed_all(database)
            && *layout == database.layout;
        let crashes = is_rightful && self.rng.u8(..3) == 0;
        if crashes {
            self.disk.start_recording();
        }
        let start = self.disk.call_count();
        let destroyed = self.try_to_destroy(database, layout);
        self.check(&others)?;
        match destroyed {
            Err(error) if is_rightful => {
                return Err(format!("{} cannot be destroyed: {error}", database.number));
            }
            Err(error) => {
                self.check(&own).map_err(|change| format!("refused ({error}), but {change}"))?;
                names_a_cause(&error)?;
                self.count("a destruction is refused");
                return Ok(false);
            }
            Ok(()) => {}
        }
        if crashes {
            let call = self.rng.u64(start..=self.disk.call_count());
            self.crash(call);
            if self.is_database(&layout.home) {
                // The home still has a database, which must be complete. The next check of all
                // databases verifies that.
                return Ok(false);
            }
            let others = self.needed_by_others(&[database.number])?;
            self.count("a destruction is completed");
            let again = self.try_to_destroy(database, layout);
            again.map_err(|error| format!("{} again: {error}", database.number))?;
            self.check(&others)?;
        }
        if self.is_database(&layout.home) {
            return Err(format!("{} is there after it was destroyed", database.number));
        }
        Ok(true)
    }

    fn try_to_destroy(&mut self, database: &Database, layout: &Layout) -> tailwater::Result<()> {
        let families = self.families(database);
        let options = self.options(layout, &database.tuning, &families);
        let home = self.spelled(&layout.home);
        Db::destroy(&home, &options)
    }
}

/// Checks that an error names the file or directory that caused it.
pub(crate) fn names_a_cause(error: &Error) -> Checked<()> {
    let has_path = error.path().is_some_and(|path| path != Path::new(""));
    let is_about_files = matches!(
        error.kind(),
        ErrorKind::Corruption | ErrorKind::InvalidArgument | ErrorKind::NotFound
    );
    if has_path && is_about_files {
        return Ok(());
    }
    Err(format!("an error of kind {:?} names no file or directory: {error}", error.kind()))
}

/// Returns an unused path whose last component begins with this letter.
pub(crate) fn fresh(world: &mut World, letter: char) -> PathBuf {
    world.numbers += 1;
    let above = *world.rng.choice(["/", "/", "/deep/er"]).as_ref().expect("one of them");
    Path::new(above).join(format!("{letter}{}", world.numbers))
}
