//! Performs random operations on a database on a simulated disk, and records their history.

use std::path::{Path, PathBuf};

use fastrand::Rng;
use tailwater::{
    BottommostRewrite, CheckpointOptions, ColumnFamily, CompactRangeOptions, Db, ErrorKind,
    ExternalFiles, IngestOptions, ReadOptions, Snapshot, SstFileWriter, WriteBatch, WriteOptions,
};
use tailwater_format::record_log::RecoveryMode;
use tailwater_io::Storage;
use tailwater_io::sim::{FaultPlan, SimStorage};

use crate::Checked;
use crate::history::{Ending, Entry, History, Outcome, Step};
use crate::ingestion;
use crate::model::{Batch, DEFAULT, Durability, State, difference};
use crate::setup::Setup;
use crate::workload::{Action, Generator};

/// Whether the steps of a run may return errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// No faults are injected, so no step may fail.
    Calm,
    /// Faults are injected, so any step may fail.
    Faulty,
    /// No more faults are injected. Consequences of earlier faults remain, such as a torn log, but
    /// no step may fail any more.
    Healed,
}

/// A database on a simulated disk, its history, and the generator of random operations.
pub(crate) struct Run {
    pub(crate) storage: SimStorage,
    pub(crate) setup: Setup,
    pub(crate) history: History,
    pub(crate) mood: Mood,
    pub(crate) db: Option<Db>,
    generator: Generator,
    snapshots: Vec<(Snapshot, State)>,
    /// The number of the last checkpoint. It is part of the checkpoint's path. Before the first
    /// checkpoint, this is the parameter `first` of [`Run::new`].
    checkpoints: u64,
    /// Whether the database was reopened and its contents have not yet been read. Until then it is
    /// unknown which writes the reopening recovered.
    is_unsettled: bool,
}

impl Run {
    /// Creates a run, and starts to record storage calls. `base` is the contents of the database
    /// that the disk holds; if `base` is empty, there is no database. The run's writes are numbered
    /// from `first` + 1. The number ranges of the runs on one disk must not overlap.
    pub(crate) fn new(
        storage: SimStorage,
        setup: Setup,
        base: State,
        first: u64,
        rng: Rng,
    ) -> Self {
        storage.start_recording();
        let mut rng = rng;
        // Seeds the thread's generator, from which the database draws its random choices, such as
        // names.
        fastrand::seed(rng.u64(..));
        let mut families: Vec<String> = base.keys().cloned().collect();
        if families.is_empty() {
            families.push(DEFAULT.to_owned());
        }
        let generator = Generator::new(rng, setup.limits(), first, families);
        let history = History {
            base,
            entries: Vec::new(),
            manual_wal_flush: setup.manual_wal_flush,
            atomic_flush: setup.atomic_flush,
            flushes_when_closed: !setup.avoid_flush_during_shutdown,
        };
        Self {
            storage,
            setup,
            history,
            mood: Mood::Calm,
            db: None,
            generator,
            snapshots: Vec::new(),
            checkpoints: first,
            is_unsettled: false,
        }
    }

    /// Opens the database if it is not open, and performs `steps` steps. Checks all contents after
    /// every 16 steps.
    pub(crate) fn work(&mut self, steps: usize) -> Checked<()> {
        if self.db.is_none() {
            self.open()?;
        }
        for step in 0..steps {
            self.step()?;
            if step % 16 == 15 {
                self.compare()?;
            }
        }
        Ok(())
    }

    pub(crate) fn open(&mut self) -> Checked<()> {
        let options = self.setup.options(&self.storage);
        let opened = self.record(Step::Open, |run| {
            let opened = Db::open(run.setup.directory(), &options);
            match opened {
                // A fault may have left an incomplete record in a log. The strict recovery modes
                // refuse such a log, so the default mode is used.
                Err(error) if error.is_corruption() && run.mood == Mood::Healed => {
                    let mode = RecoveryMode::PointInTime;
                    let options = run.setup.options_after(&run.storage, mode, true);
                    Db::open(run.setup.directory(), &options)
                }
                opened => opened,
            }
        })?;
        let Some(db) = opened else { return Ok(()) };
        if self.mood == Mood::Calm && !db.left_out().is_empty() {
            return Err(format!("opening left out {:?}", db.left_out()));
        }
        self.db = Some(db);
        Ok(())
    }

    /// Performs a step, and records its outcome.
    fn record<T>(
        &mut self,
        step: Step,
        work: impl FnOnce(&mut Self) -> tailwater::Result<T>,
    ) -> Checked<Option<T>> {
        let start = self.storage.call_count();
        let result = work(self);
        let outcome = if result.is_ok() { Outcome::Done } else { Outcome::Failed };
        let calls = start..self.storage.call_count();
        let message = result.as_ref().err().map(|_| format!("{step:?}"));
        self.history.entries.push(Entry { step, calls, outcome });
        self.tolerate(result, message)
    }

    /// Returns the value of a successful result. Returns `None` for an error while faults are
    /// injected. Fails for any other error. Also fails if an error is about a file but does not
    /// name the file.
    fn tolerate<T>(
        &self,
        result: tailwater::Result<T>,
        doing: Option<String>,
    ) -> Checked<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if self.mood != Mood::Faulty => {
                Err(format!("{} failed: {error}", doing.unwrap_or_default()))
            }
            Err(error) => {
                let concerns_a_file = matches!(
                    error.kind(),
                    ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::Corruption
                );
                if concerns_a_file && error.path().is_none() {
                    return Err(format!("an error names no file: {error}"));
                }
                Ok(None)
            }
        }
    }

    /// Performs one step.
    fn step(&mut self) -> Checked<()> {
        let action = self.generator.action();
        let Some(db) = self.db.clone() else { return Ok(()) };
        match action {
            Action::Write { batch, single } => self.write(&db, batch, single)?,
            Action::Ingest { batch, moves } => self.ingest(&db, batch, moves)?,
            Action::Flush(name) => {
                if let Some(family) = self.family(&db, &name)? {
                    self.record(Step::Flush(vec![name]), |_| db.flush_cf(&family))?;
                }
            }
            Action::Compact(name) => {
                if let Some(family) = self.family(&db, &name)? {
                    let options = CompactRangeOptions::new()
                        .with_bottommost_level_compaction(BottommostRewrite::Force);
                    self.record(Step::Flush(vec![name]), |_| {
                        db.compact_range_cf_opt(&family, None, None, &options)
                    })?;
                }
            }
            Action::FlushAll => {
                let names = db.column_families().iter().map(|it| it.name().to_owned()).collect();
                self.record(Step::Flush(names), |_| db.flush_all())?;
            }
            Action::FlushLog { sync } => {
                self.record(Step::FlushLog { sync }, |_| db.flush_wal(sync))?;
            }
            Action::CreateFamily(name) => self.create_family(&db, name)?,
            Action::DropFamily(name) => {
                if let Some(family) = self.family(&db, &name)? {
                    self.generator.dropped(&name);
                    self.snapshots.clear();
                    self.record(Step::DropFamily(name), |_| db.drop_cf(&family))?;
                }
            }
            Action::TakeSnapshot => {
                let snapshot = db.snapshot();
                let state = self.tolerate(contents(&db, None), None)?;
                self.snapshots.extend(state.map(|state| (snapshot, state)));
            }
            Action::DropSnapshot => {
                if !self.snapshots.is_empty() {
                    self.snapshots.remove(0);
                }
            }
            Action::Read => self.read_snapshots(&db)?,
            Action::Reopen { cleanly } => {
                drop(db);
                self.reopen(cleanly)?;
            }
            Action::Checkpoint(log_size) => self.checkpoint(&db, log_size)?,
            Action::ChangeOption { family: None, change } => {
                let step = Step::ChangeOption(change.0, change.1);
                self.record(step, |_| db.set_database_options(&[change]))?;
            }
            Action::ChangeOption { family: Some(name), change } => {
                if let Some(family) = self.family(&db, &name)? {
                    let step = Step::ChangeOption(change.0, change.1);
                    self.record(step, |_| db.set_options_cf(&family, &[change]))?;
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, db: &Db, batch: Batch, single: bool) -> Checked<()> {
        let options = WriteOptions::new()
            .with_sync(batch.durability == Durability::Synced)
            .with_disable_wal(batch.durability == Durability::Unlogged);
        let mut families = Vec::new();
        for part in &batch.parts {
            let Some(family) = self.family(db, &part.family)? else { return Ok(()) };
            families.push(family);
        }
        let parts = batch.parts.clone();
        self.record(Step::Write(batch), |_| {
            if single {
                return parts[0].changes[0].write(db, &families[0], &options);
            }
            let mut bytes = WriteBatch::new();
            for (family, part) in families.iter().zip(&parts) {
                part.changes.iter().for_each(|change| change.add_to(&mut bytes, family.id()));
            }
            db.write_opt(&mut bytes, &options)
        })?;
        Ok(())
    }

    /// Ingests a batch. For each part of the batch, that is, for its changes to one column family,
    /// creates a file outside the database. Then ingests all files together.
    fn ingest(&mut self, db: &Db, batch: Batch, moves: bool) -> Checked<()> {
        let mut families = Vec::new();
        for part in &batch.parts {
            let Some(family) = self.family(db, &part.family)? else { return Ok(()) };
            families.push(family);
        }
        let parts = batch.parts.clone();
        let number = self.history.entries.len();
        self.record(Step::Write(batch), |run| {
            let options = run.setup.options(&run.storage);
            run.storage.create_directory(Path::new("/outside"))?;
            let mut paths = Vec::new();
            for (at, part) in parts.iter().enumerate() {
                let path = PathBuf::from(format!("/outside/{number}-{at}.sst"));
                let mut writer = SstFileWriter::new(&options, &part.family)?;
                ingestion::write(&mut writer, &path, &part.changes)?;
                paths.push(path);
            }
            let options = IngestOptions::new().with_move_files(moves);
            let paths: Vec<[&Path; 1]> = paths.iter().map(|path| [path.as_path()]).collect();
            let files: Vec<ExternalFiles<'_>> = families
                .iter()
                .zip(&paths)
                .map(|(family, paths)| ExternalFiles { family, paths, options })
                .collect();
            db.ingest_external_files(&files).map(drop)
        })?;
        Ok(())
    }

    /// Returns the handle of a column family, or `None` if it does not exist. That is accepted only
    /// while faults are injected: a step that dropped it may have returned an error and still have
    /// taken effect.
    fn family(&mut self, db: &Db, name: &str) -> Checked<Option<ColumnFamily>> {
        match db.cf_handle(name) {
            Ok(family) => Ok(Some(family)),
            Err(error) if self.mood != Mood::Faulty => Err(error.to_string()),
            Err(_) => {
                self.generator.dropped(name);
                Ok(None)
            }
        }
    }

    fn create_family(&mut self, db: &Db, name: String) -> Checked<()> {
        let options = self.setup.options(&self.storage).column_family(&name).clone();
        let created =
            self.record(Step::CreateFamily(name.clone()), |_| db.create_cf(&name, &options))?;
        if created.is_some() {
            self.generator.created(name);
        }
        Ok(())
    }

    /// Checks that each snapshot still shows the contents that the database had when it was taken.
    fn read_snapshots(&mut self, db: &Db) -> Checked<()> {
        for (snapshot, expected) in &self.snapshots {
            let found = self.tolerate(contents(db, Some(snapshot)), None)?;
            let Some(mut found) = found else { continue };
            // A column family may have been created after the snapshot was taken. It is then in
            // `found`, but the snapshot shows no keys of it.
            found.retain(|name, table| expected.contains_key(name) || !table.is_empty());
            if let Some(difference) = difference(expected, &found) {
                return Err(format!("a snapshot changed: {difference}"));
            }
        }
        Ok(())
    }

    /// Closes the database, by `close` if `cleanly` and by dropping it otherwise, and reopens it.
    pub(crate) fn reopen(&mut self, cleanly: bool) -> Checked<()> {
        self.snapshots.clear();
        let Some(db) = self.db.take() else { return Ok(()) };
        self.record(Step::Close, |_| {
            let closed = if cleanly { db.close() } else { Ok(()) };
            drop(db);
            closed
        })?;
        if !cleanly && self.mood == Mood::Faulty {
            // Dropping a database does not return an error if closing it failed, so the test
            // assumes that it failed.
            let closed = self.history.entries.last_mut();
            closed.into_iter().for_each(|entry| entry.outcome = Outcome::Failed);
        }
        self.open()?;
        self.compare_reopened()
    }

    fn checkpoint(&mut self, db: &Db, log_size: u64) -> Checked<()> {
        self.checkpoints += 1;
        let directory = PathBuf::from(format!("/checkpoint{}", self.checkpoints));
        if let Some(state) = self.tolerate(contents(db, None), None)? {
            let step = Step::Checkpoint(directory.clone(), state);
            let options = CheckpointOptions::new().with_log_size_for_flush(log_size);
            self.record(step, |_| db.checkpoint_opt(&directory, &options))?;
        }
        Ok(())
    }

    /// Checks the contents of the open database against the history.
    pub(crate) fn compare(&mut self) -> Checked<()> {
        let Some(db) = &self.db else { return Ok(()) };
        let Some(found) = self.tolerate(contents(db, None), None)? else { return Ok(()) };
        let ending = if self.is_unsettled {
            Ending::ProcessCrash(self.storage.call_count())
        } else {
            Ending::StillOpen
        };
        self.history.claims(ending).judge(&found, RecoveryMode::PointInTime)
    }

    /// Checks the contents of the reopened database against the history. Then removes from the
    /// history what the database lost.
    fn compare_reopened(&mut self) -> Checked<()> {
        let Some(db) = &self.db else { return Ok(()) };
        self.is_unsettled = true;
        let Some(found) = self.tolerate(contents(db, None), None)? else { return Ok(()) };
        self.is_unsettled = false;
        let ending = Ending::ProcessCrash(self.storage.call_count());
        self.history.claims(ending).judge(&found, RecoveryMode::PointInTime)?;
        self.history.settle(&found);
        Ok(())
    }

    /// Removes all faults and calls `resume`. If `resume` fails, closes and reopens the database
    /// instead. No later step may fail.
    pub(crate) fn heal(&mut self) -> Checked<()> {
        self.storage.set_faults(FaultPlan::none());
        self.mood = Mood::Healed;
        let Some(db) = self.db.clone() else {
            self.open()?;
            return self.compare_reopened();
        };
        // Reads must be correct even before the database is resumed.
        self.read_snapshots(&db)?;
        self.compare()?;
        if db.resume().is_ok() {
            self.compare()?;
            let found = contents(&db, None).map_err(|error| error.to_string())?;
            self.history.settle(&found);
            self.is_unsettled = false;
            return Ok(());
        }
        drop(db);
        self.snapshots.clear();
        let db = self.db.take();
        self.mood = Mood::Faulty;
        self.record(Step::Close, |_| db.map_or(Ok(()), |db| db.close()))?;
        self.mood = Mood::Healed;
        self.open()?;
        self.compare_reopened()
    }
}

/// Returns all contents of a database, read forward. Also reads them backward and key by key, and
/// checks that both give the same result.
pub(crate) fn contents(db: &Db, snapshot: Option<&Snapshot>) -> tailwater::Result<State> {
    let options = ReadOptions::new()
        .with_snapshot(snapshot.cloned())
        .with_auto_refresh_iterator_with_snapshot(true);
    let mut state = State::new();
    for family in db.column_families() {
        let table = state.entry(family.name().to_owned()).or_default();
        let mut iterator = db.raw_iterator_cf_opt(&family, &options)?;
        iterator.seek_to_first()?;
        while let Some((key, value)) = iterator.item() {
            table.insert(key.to_vec(), value.to_vec());
            iterator.next()?;
        }
        for (key, value) in table.iter().step_by(7) {
            let got = db.get_cf_opt(&family, key, &options)?;
            assert_eq!(got.as_ref(), Some(value), "get and iterator differ about {key:?}");
        }
    }
    Ok(state)
}
