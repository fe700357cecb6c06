//! Random operations on a database while it is open for writing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tailwater::{
    BottommostRewrite, CompactRangeOptions, Db, IngestOptions, OpenOptions, SstFileWriter,
    WriteBatch, WriteOptions,
};
use tailwater_io::Storage;

use crate::Checked;
use crate::database::{DEFAULT, Database, Place, State};
use crate::openings::fresh;
use crate::world::World;

/// What happened to a database while it was open.
#[derive(Debug)]
pub(crate) struct Session {
    /// The contents after each operation, oldest first. The number in each pair is that of the
    /// first storage call at whose start the contents are durable.
    pub(crate) states: Vec<(u64, State)>,
    /// The paths of the checkpoints that were made, with their contents.
    pub(crate) checkpoints: Vec<(PathBuf, State)>,
    /// The column families that were created, with the directories for their tables.
    pub(crate) family_tables: BTreeMap<String, Vec<Place>>,
}

impl Session {
    /// Returns the current contents of the database.
    pub(crate) fn state(&self) -> &State {
        &self.states.last().expect("a first state").1
    }

    /// Returns the contents that may be found after a crash before storage call number `call`. The
    /// first element is the newest contents that were durable before this call. The second element
    /// is the contents after the next operation, if there is one, since that operation may be
    /// durable, too.
    pub(crate) fn left_by_crash(&self, call: u64) -> Vec<&State> {
        let reached = self.states.iter().rposition(|(since, _)| *since <= call).unwrap_or(0);
        self.states[reached..].iter().take(2).map(|(_, state)| state).collect()
    }
}

impl World {
    /// Performs up to five random operations on an open database. All of them are durable on
    /// return.
    pub(crate) fn work_on(
        &mut self,
        db: &Db,
        database: &Database,
        options: &OpenOptions,
    ) -> Checked<Session> {
        let mut session = Session {
            states: vec![(0, database.state.clone())],
            checkpoints: Vec::new(),
            family_tables: database.layout.family_tables.clone(),
        };
        for _ in 0..self.rng.usize(..6) {
            let mut state = session.state().clone();
            let done = match self.rng.u8(..20) {
                0..=6 => self.put(db, database, &mut state),
                7 | 8 => db.flush_all(),
                9 | 10 => compact(db),
                11 | 12 => self.create_family(db, database, options, &mut session, &mut state),
                13 => self.drop_family(db, &mut state),
                14 | 15 => self.ingest(db, database, options, &mut state),
                16 | 17 => self.checkpoint(db, database, &mut session),
                _ => self.put(db, database, &mut state).and_then(|()| db.flush_all()),
            };
            done.map_err(|error| format!("database {}, open: {error}", database.number))?;
            session.states.push((self.disk.call_count(), state));
        }
        Ok(session)
    }

    fn entry(&mut self, database: &Database) -> (String, String) {
        let key = format!("{}/{:02}", database.number, self.rng.u8(..30));
        self.numbers += 1;
        (key, format!("{}{}", self.numbers, "v".repeat(self.rng.usize(..300))))
    }

    fn put(&mut self, db: &Db, database: &Database, state: &mut State) -> tailwater::Result<()> {
        let mut batch = WriteBatch::new();
        for _ in 0..self.rng.usize(1..8) {
            let names: Vec<String> = state.keys().cloned().collect();
            let name = self.rng.choice(&names).expect("a column family");
            let family = db.cf_handle(name)?;
            let (key, value) = self.entry(database);
            let table = state.entry(name.clone()).or_default();
            if self.rng.u8(..5) == 0 {
                batch.delete_cf(family.id(), key.as_bytes()).expect("room");
                table.remove(&key);
            } else {
                batch.put_cf(family.id(), key.as_bytes(), value.as_bytes()).expect("room");
                table.insert(key, value);
            }
        }
        db.write_opt(&mut batch, &WriteOptions::new().with_sync(true))
    }

    fn create_family(
        &mut self,
        db: &Db,
        database: &Database,
        options: &OpenOptions,
        session: &mut Session,
        state: &mut State,
    ) -> tailwater::Result<()> {
        self.numbers += 1;
        let name = format!("family{}", self.numbers);
        let mut known: Vec<Vec<Place>> = session.family_tables.values().cloned().collect();
        known.push(database.layout.tables.clone());
        let directory = fresh(self, 'f');
        known.push(vec![Place { directory, target_size: u64::MAX }]);
        let places = self.rng.choice(known).expect("a list");
        let mut own = options.column_family(DEFAULT).clone();
        own.cf_paths = self.paths(&places);
        session.family_tables.insert(name.clone(), places);
        state.insert(name.clone(), BTreeMap::new());
        db.create_cf(&name, &own).map(drop)
    }

    fn drop_family(&mut self, db: &Db, state: &mut State) -> tailwater::Result<()> {
        let names: Vec<String> = state.keys().filter(|name| *name != DEFAULT).cloned().collect();
        let Some(name) = self.rng.choice(names) else { return Ok(()) };
        state.remove(&name);
        db.drop_cf(&db.cf_handle(&name)?)
    }

    fn ingest(
        &mut self,
        db: &Db,
        database: &Database,
        options: &OpenOptions,
        state: &mut State,
    ) -> tailwater::Result<()> {
        let path = PathBuf::from(format!("/files/{}.sst", self.numbers));
        let entries: BTreeMap<String, String> = (0..3).map(|_| self.entry(database)).collect();
        let mut writer = SstFileWriter::new(options, DEFAULT)?;
        writer.open(&path)?;
        for (key, value) in &entries {
            writer.put(key.as_bytes(), value.as_bytes())?;
        }
        writer.finish()?;
        state.entry(DEFAULT.to_owned()).or_default().extend(entries);
        let options = IngestOptions::new().with_move_files(self.rng.bool());
        let path = self.spelled(&path);
        db.ingest_external_file_cf_opts(&db.cf_handle(DEFAULT)?, &[&path], &options).map(drop)
    }

    fn checkpoint(
        &mut self,
        db: &Db,
        database: &Database,
        session: &mut Session,
    ) -> tailwater::Result<()> {
        self.numbers += 1;
        let above = match self.rng.u8(..4) {
            0 => database.layout.home.clone(),
            1 => PathBuf::from("/deep/er"),
            _ => PathBuf::from("/"),
        };
        let path = above.join(format!("c{}", self.numbers));
        let spelled = self.spelled(&path);
        session.checkpoints.push((path, session.state().clone()));
        db.checkpoint(&spelled)
    }

    /// Whether a directory is the home of a database.
    pub(crate) fn is_database(&self, home: &Path) -> bool {
        self.disk.metadata(&home.join("CURRENT")).is_ok()
    }
}

fn compact(db: &Db) -> tailwater::Result<()> {
    let options =
        CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
    for family in db.column_families() {
        db.compact_range_cf_opt(&family, None, None, &options)?;
    }
    Ok(())
}
