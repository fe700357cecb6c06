//! The real RocksDB as an engine that executes scenarios.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::files::{Files, RealFiles};
use super::step::Work;
use super::target::{Answer, Job, Target};
use crate::dump::Entry;
use crate::oracle::{Oracle, Script};

/// Those options used in scenarios that belong to column families. All other options belong to the
/// database.
const FAMILY_OPTIONS: [&str; 3] = ["cf_paths", "enable_blob_files", "merge_operator"];

/// The real RocksDB, which executes steps of scenarios.
///
/// Like the `tailwater` program, it takes the directory of the logs from the newest OPTIONS file of
/// a database, unless a step sets the option `wal_dir`.
#[derive(Debug)]
pub struct RocksDb {
    part: String,
    /// The process, and the working directory in which it was started.
    running: Option<(Oracle, PathBuf)>,
    directory: PathBuf,
}

/// A RocksDB process that several scenarios use, one after another.
pub type SharedRocksDb = Rc<RefCell<RocksDb>>;

impl RocksDb {
    /// Starts RocksDB. If it is not available, reports that `part` is skipped, and returns `None`.
    pub fn start(part: &str) -> Option<SharedRocksDb> {
        let directory = PathBuf::from(".");
        let running = Some((Oracle::start(part)?, directory.clone()));
        let new = Self { part: part.to_owned(), running, directory };
        Some(Rc::new(RefCell::new(new)))
    }

    /// Sets the working directory.
    pub fn enter(&mut self, directory: &Path) {
        self.directory = directory.to_owned();
    }

    /// Executes a job, in the same way as [`Target::work`].
    ///
    /// # Errors
    /// RocksDB's error.
    pub fn work(&mut self, job: &Job<'_>) -> Result<Answer, String> {
        let families = self.families(job)?;
        let script = |open: &str| {
            let mut script = described(job, &families, &self.home(job));
            script.line(&[&open]);
            script
        };
        match job.work {
            Work::Open | Work::Adopt => self.dump(script("open-existing")),
            Work::Look => self.dump(script("open-read-only")),
            Work::Put(entries) => {
                let mut script = script("open");
                put(&mut script, entries);
                self.run(script)
            }
            Work::Flush => {
                let mut script = script("open-existing");
                families.iter().for_each(|family| script.flush(family));
                self.run(script)
            }
            Work::Compact => {
                let mut script = script("open-existing");
                families.iter().for_each(|family| script.compact(family));
                self.run(script)
            }
            Work::CreateFamily(name) => {
                self.run_line(script("open-existing"), &["create", name, ""])
            }
            Work::DropFamily(name) => self.run_line(script("open-existing"), &["drop", name]),
            Work::Ingest(file) => {
                self.run_line(script("open-existing"), &["ingest", "default", "copy", file])
            }
            Work::Move(file) => {
                self.run_line(script("open-existing"), &["ingest", "default", "move", file])
            }
            Work::Checkpoint(path) => self.run_line(script("open-existing"), &["checkpoint", path]),
            Work::Destroy => self.run(script("destroy")),
            Work::External(_) => Err("does not build external tables".to_owned()),
        }
    }

    fn home(&self, job: &Job<'_>) -> PathBuf {
        self.directory.join(job.path)
    }

    /// Returns the names of all column families of a database. RocksDB requires them to open the
    /// database.
    fn families(&mut self, job: &Job<'_>) -> Result<Vec<String>, String> {
        if !self.home(job).join("CURRENT").exists() {
            return Ok(vec!["default".to_owned()]);
        }
        let mut script = Script::default();
        script.line(&[&"directory", &job.path]);
        script.line(&[&"list-families"]);
        let names = self.oracle().run(&script)?;
        Ok(names.split(' ').map(str::to_owned).collect())
    }

    /// Returns a RocksDB process in the current working directory. If the running process was
    /// started in another directory, ends it and starts a new one.
    fn oracle(&mut self) -> &mut Oracle {
        let is_there = self.running.as_ref().is_some_and(|(_, started)| *started == self.directory);
        if !is_there {
            self.running = None;
        }
        let running = self.running.get_or_insert_with(|| {
            let oracle = Oracle::start_in(&self.part, &self.directory);
            (oracle.expect("RocksDB, which was there before"), self.directory.clone())
        });
        &mut running.0
    }

    fn run_line(&mut self, mut script: Script, words: &[&str]) -> Result<Answer, String> {
        let words: Vec<&dyn std::fmt::Display> = words.iter().map(|word| word as _).collect();
        script.line(&words);
        self.run(script)
    }

    fn run(&mut self, mut script: Script) -> Result<Answer, String> {
        script.line(&[&"close"]);
        self.oracle().run(&script).map(|_| Answer::default())
    }

    fn dump(&mut self, script: Script) -> Result<Answer, String> {
        let contents = self.oracle().dump(script)?.iter().map(entry).collect();
        Ok(Answer { contents, ..Answer::default() })
    }
}

/// Returns a script that sets the options, the column families and the directories of a database,
/// but does not open it.
fn described(job: &Job<'_>, families: &[String], home: &Path) -> Script {
    let given = job.options.split(';').filter_map(|option| option.split_once('='));
    let given: Vec<(&str, &str)> = given.collect();
    let is_of_family = |name: &str| FAMILY_OPTIONS.contains(&name);
    let text = |of_family: bool| {
        let chosen = given.iter().filter(|(name, _)| is_of_family(name) == of_family);
        let chosen = chosen.filter(|(name, _)| !name.ends_with("_paths"));
        chosen.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(";")
    };
    let mut database = text(false);
    if !given.iter().any(|(name, _)| *name == "wal_dir")
        && let Some(logs) = recorded_log_directory(home)
    {
        database = format!("wal_dir={logs};{database}");
    }
    let family_options = text(true);
    let described: Vec<(&str, &str)> =
        families.iter().map(|family| (family.as_str(), family_options.as_str())).collect();
    let mut script = Script::describe(Path::new(job.path), &database, &described);
    for (name, value) in given {
        let paths = value.trim_matches(['{', '}']).split(':').filter(|path| !path.is_empty());
        for path in paths {
            let (path, bytes) = path.split_once(',').unwrap_or((path, "1000000000"));
            match name {
                "db_paths" => script.line(&[&"database-path", &path, &bytes]),
                "cf_paths" => families
                    .iter()
                    .for_each(|family| script.line(&[&"family-path", family, &path, &bytes])),
                _ => {}
            }
        }
    }
    script
}

/// Returns the directory of the logs (`wal_dir`) from the newest OPTIONS file in the database's
/// directory.
#[expect(clippy::disallowed_methods, reason = "reads a database from outside the engine")]
fn recorded_log_directory(home: &Path) -> Option<String> {
    let entries = std::fs::read_dir(home).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let newest = names.filter(|name| name.starts_with("OPTIONS-")).max()?;
    let text = std::fs::read_to_string(home.join(newest)).ok()?;
    let value = text.lines().find_map(|line| line.trim().strip_prefix("wal_dir="))?;
    (!value.is_empty()).then(|| value.to_owned())
}

fn put(script: &mut Script, entries: &[(String, String)]) {
    for (key, value) in entries {
        let (family, key) = key.split_once(':').unwrap_or(("default", key));
        script.put(family, key.as_bytes(), value.as_bytes());
    }
}

/// Returns the key and the value of an entry in the notation of scenarios.
fn entry(entry: &Entry) -> (String, String) {
    let key = String::from_utf8_lossy(&entry.key).into_owned();
    let value = String::from_utf8_lossy(&entry.value).into_owned();
    match entry.family.as_str() {
        "default" => (key, value),
        family => (format!("{family}:{key}"), value),
    }
}

/// The target that executes a scenario's steps for RocksDB: the real RocksDB, in a directory of a
/// real filesystem.
#[derive(Debug)]
pub struct RocksDbTarget {
    files: RealFiles,
    rocksdb: SharedRocksDb,
}

impl RocksDbTarget {
    /// Creates a target with the root `directory`, and removes everything in it.
    pub fn new(rocksdb: &SharedRocksDb, directory: &Path) -> Self {
        Self { files: RealFiles::new(directory), rocksdb: Rc::clone(rocksdb) }
    }
}

impl Target for RocksDbTarget {
    fn files(&mut self) -> &mut dyn Files {
        &mut self.files
    }

    fn work(&mut self, job: &Job<'_>) -> Result<Answer, String> {
        let mut rocksdb = self.rocksdb.borrow_mut();
        rocksdb.enter(self.files.directory());
        rocksdb.work(job)
    }

    fn is_tailwater(&self) -> bool {
        false
    }
}
