//! Kills `load` at random times, and checks that acknowledged data exists, no package is loaded in
//! part, and loading can be resumed.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tailwater_testkit::dump::Entry;
use tailwater_testkit::filesystem::writes_directly;
use tailwater_testkit::oracle::{Oracle, Script};
use tailwater_testkit::seed::{self, Seed};
use tailwater_testkit::{directory, golden};

use crate::support::{db, hex_dump, hex_lines, program, read, write};

/// Number of databases to load.
const ROUNDS: usize = 20;

/// Every database whose number is a multiple of this is also read by RocksDB.
const ORACLE_STEP: usize = 5;

/// Number of packages (stanzas of a package index) to load into each database.
const PACKAGES: usize = 700;

/// Options for loading: with and without flushes of full memtables during the load, and with
/// buffered and direct logs.
const OPTIONS: [&str; 4] = [
    "",
    "write_buffer_size=131072",
    "wal_io_mode=direct;wal_preallocation_block_size=65536",
    "wal_io_mode=auto;write_buffer_size=131072",
];

/// Number of packages per batch.
const BATCH: usize = 7;

/// The entries that loading one package writes: one in column family `default`, and one in
/// `depends` for each package on which it depends.
#[derive(Clone)]
struct Package {
    entry: Entry,
    depends: Vec<Entry>,
}

/// The packages of the golden database, in the order of their keys.
fn packages() -> Vec<Package> {
    let mut depends: BTreeMap<Vec<u8>, Vec<Entry>> = BTreeMap::new();
    let mut packages = Vec::new();
    for entry in golden::dump("packages") {
        if entry.family == "default" {
            packages.push(entry);
        } else {
            let arrow = entry.key.windows(2).rposition(|two| two == b"<-").expect("an arrow");
            depends.entry(entry.key[arrow + 2..].to_vec()).or_default().push(entry);
        }
    }
    let package = |entry: Entry| {
        let name = entry.key.split(|&byte| byte == b'/').next().expect("a name").to_vec();
        Package { entry, depends: depends.remove(&name).unwrap_or_default() }
    };
    packages.into_iter().map(package).collect()
}

/// The dump of a database with exactly these packages.
fn dump_of(packages: &[Package]) -> String {
    let mut entries: Vec<&Entry> = packages.iter().map(|package| &package.entry).collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    let mut depends: Vec<&Entry> = packages.iter().flat_map(|package| &package.depends).collect();
    depends.sort_by(|a, b| a.key.cmp(&b.key));
    hex_lines(entries.into_iter().chain(depends))
}

/// One database, and the runs of the program that load packages (stanzas of a package index) into
/// the database. Most of these runs are killed.
struct Run {
    packages: Vec<Package>,
    path: PathBuf,
    index: PathBuf,
    acknowledgements: PathBuf,
    /// The argument of `--options`.
    options: &'static str,
    /// Number of loaded packages that the last check found in the database. The next check must
    /// find them, too.
    present: usize,
    what: String,
}

impl Run {
    fn new(scratch: &Path, all: &[Package], seed: &mut Seed, round: usize) -> Self {
        let mut packages = all.to_vec();
        seed.rng.shuffle(&mut packages);
        packages.truncate(PACKAGES);
        let stanzas: Vec<_> = packages.iter().map(|package| &package.entry.value[..]).collect();
        let index = scratch.join("Packages");
        write(&index, &stanzas.join(&b'\n'));
        Self {
            packages,
            path: scratch.join("database"),
            index,
            acknowledgements: scratch.join("loaded"),
            options: OPTIONS[seed.rng.usize(..OPTIONS.len())],
            present: 0,
            what: format!("TAILWATER_SEED={} round {round}", seed.value()),
        }
    }

    /// Starts a run that loads all packages, including those already in the database.
    fn begin(&self) -> Child {
        write(&self.acknowledgements, b"");
        #[expect(clippy::disallowed_methods, reason = "test data, not a database's files")]
        let index = File::open(&self.index).expect("the index");
        program()
            .args(["db", "load"])
            .arg(&self.path)
            .args(["--create", "--format", "packages", "-", "--sync"])
            .args(["--options", self.options])
            .args(["--batch", &BATCH.to_string(), "--ack"])
            .arg(&self.acknowledgements)
            .stdin(index)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs")
    }

    /// Returns the number of loaded packages in the last complete line of the acknowledgement file,
    /// which the program writes; 0 if the file has no complete line.
    fn acknowledged(&self) -> usize {
        let text = String::from_utf8(read(&self.acknowledgements)).expect("text");
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let last = whole.lines().last();
        last.map_or(0, |line| line.parse().expect("a number"))
    }

    /// Starts a run and kills it at a random time: either early, while the run creates the
    /// database, or after an acknowledgement.
    fn load_and_kill(&self, seed: &mut Seed) {
        let mut child = self.begin();
        let wanted = if seed.rng.u8(..4) == 0 { 0 } else { seed.rng.usize(..PACKAGES) };
        while self.acknowledged() < wanted && child.try_wait().expect("a state").is_none() {
            std::thread::yield_now();
        }
        let longest_us = if wanted == 0 { 20_000 } else { 2_000 };
        let moment = Instant::now() + Duration::from_micros(seed.rng.u64(..longest_us));
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        child.kill().expect("the process can be killed");
        let ended = child.wait_with_output().expect("the process ends");
        let complaints = String::from_utf8_lossy(&ended.stderr);
        // Either the program was killed and has no exit code, or it had already ended with success.
        let is_fine = ended.status.code().is_none_or(|code| code == 0);
        assert!(is_fine, "{}: {complaints}", self.what);
    }

    /// Checks that each package is loaded completely or not at all, and that all acknowledged
    /// packages are loaded.
    fn check(&mut self) {
        let acknowledged = self.acknowledged();
        if !self.path.join("CURRENT").exists() {
            assert_eq!((self.present, acknowledged), (0, 0), "{}", self.what);
            return;
        }
        let answer = db("dump", &self.path, ["--all", "--hex"]);
        assert!(matches!(answer.code, 0 | 3), "{}: {}", self.what, answer.complaints);
        let is_package = |line: &&str| line.starts_with("default\t");
        let found = answer.output.lines().filter(is_package).count();
        let last = acknowledged.max(self.present);
        assert!(
            found >= last && (found == self.present || found <= acknowledged + BATCH),
            "{}: {found} packages exist, {} existed before, {acknowledged} were acknowledged",
            self.what,
            self.present
        );
        assert!(answer.output == dump_of(&self.packages[..found]), "{}: {found}", self.what);
        let verified = db("verify", &self.path, []);
        let is_fine = matches!(verified.code, 0 | 3);
        assert!(is_fine, "{}: {}{}", self.what, verified.output, verified.complaints);
        self.present = found;
    }

    /// Loads all packages in a run that is not killed.
    fn finish(&self) {
        let ended = self.begin().wait_with_output().expect("the process ends");
        let complaints = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(0), "{}: {complaints}", self.what);
        assert_eq!(self.acknowledged(), PACKAGES, "{}", self.what);
        assert!(hex_dump(&self.path) == dump_of(&self.packages), "{}", self.what);
        db("verify", &self.path, []).well();
    }

    /// Makes RocksDB read a copy of the database.
    fn check_with_oracle(&self, oracle: &mut Oracle) {
        if !self.path.join("CURRENT").exists() {
            return;
        }
        let copy = tempfile::tempdir().expect("a directory");
        for (path, file) in directory::snapshot(&self.path) {
            write(&copy.path().join(path.file_name().expect("a name")), &file.contents);
        }
        let names = db("column-families", &self.path, []).output;
        let others: Vec<_> = names.lines().filter(|name| *name != "default").collect();
        let families: Vec<_> = others.iter().map(|name| (*name, "")).collect();
        let entries = oracle
            .dump(Script::open(copy.path(), "", &families))
            .unwrap_or_else(|error| panic!("{}: RocksDB says: {error}", self.what));
        let ours = db("dump", &self.path, ["--all", "--hex"]).output;
        assert!(hex_lines(&entries) == ours, "{}: RocksDB reads something else", self.what);
    }
}

#[test]
fn a_killed_load_leaves_whole_packages_and_can_be_continued() {
    let mut seed = seed::rng();
    let all = packages();
    let mut oracle = Oracle::start("reading what killed loading left");
    for round in 0..ROUNDS * seed::rounds() {
        let scratch = tempfile::tempdir().expect("a directory");
        writes_directly(scratch.path(), "a killed load with direct logs");
        let mut run = Run::new(scratch.path(), &all, &mut seed, round);
        for _ in 0..seed.rng.usize(1..=2) {
            run.load_and_kill(&mut seed);
            run.check();
        }
        if let Some(oracle) = oracle.as_mut().filter(|_| round % ORACLE_STEP == 0) {
            run.check_with_oracle(oracle);
        }
        run.finish();
    }
}
