//! The oracle: the real RocksDB in a separate process, for databases that are written during a
//! test.
//!
//! `ci/oracle/` contains the oracle's program, documentation of its commands, and its setup script.
//! It needs Java. It also needs Maven, unless RocksDB's Java binding is already in the local Maven
//! repository. If anything is missing, the tests that need the oracle print a message on standard
//! error and pass. With `TAILWATER_ORACLE=required` in the environment, they fail instead.

use std::fmt::{Display, Write as _};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tempfile::TempDir;

use crate::dump::{self, Entry};

/// Maximum duration of a script. After that, the oracle is killed.
const PATIENCE: Duration = Duration::from_secs(300);

/// The real RocksDB in a separate process, which ends when the value is dropped.
#[derive(Debug)]
pub struct Oracle {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    scratch: TempDir,
}

/// A script: commands for the oracle, one per line.
#[derive(Debug, Clone, Default)]
pub struct Script {
    lines: String,
}

impl Oracle {
    /// Starts the oracle. If it is not available, prints on standard error that `part` of the tests
    /// is skipped and why, and returns `None`.
    ///
    /// # Panics
    /// If the oracle is not available and the environment requires it.
    pub fn start(part: &str) -> Option<Self> {
        Self::start_in(part, Path::new("."))
    }

    /// Starts the oracle like [`Oracle::start`], with `directory` as its working directory.
    ///
    /// # Panics
    /// If the oracle is not available and the environment requires it.
    pub fn start_in(part: &str, directory: &Path) -> Option<Self> {
        match Self::try_start(directory) {
            Ok(oracle) => Some(oracle),
            Err(reason) => {
                let required =
                    std::env::var_os("TAILWATER_ORACLE").is_some_and(|it| it == "required");
                assert!(!required, "{part} needs the real RocksDB: {reason}");
                // `eprintln!` is not used, because the test harness shows its output only for
                // failing tests.
                let message = format!("LEFT OUT: {part} needs the real RocksDB: {reason}\n");
                let _ = std::io::stderr().write_all(message.as_bytes());
                None
            }
        }
    }

    fn try_start(working_directory: &Path) -> Result<Self, String> {
        let directory = make_ready()?;
        let mut library = std::ffi::OsString::from("-Djava.library.path=");
        library.push(&directory);
        let mut classes = directory.clone().into_os_string();
        classes.push(":");
        classes.push(directory.join("rocksdbjni.jar"));
        let mut process = Command::new("java")
            .args([library.as_os_str(), "-XX:+UseSerialGC".as_ref(), "-cp".as_ref(), &classes])
            .arg("Oracle")
            .current_dir(working_directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start java: {error}"))?;
        let input = process.stdin.take();
        let output = process.stdout.take().ok_or("java has no output")?;
        let scratch = TempDir::new().map_err(|error| error.to_string())?;
        let mut oracle = Self { process, input, output: BufReader::new(output), scratch };
        oracle.run(&Script::default())?;
        Ok(oracle)
    }

    /// Executes a script. Returns the text that its commands recorded.
    ///
    /// # Errors
    /// The first error of a command. The rest of the script was skipped, and the database is
    /// closed.
    pub fn run(&mut self, script: &Script) -> Result<String, String> {
        let input = self.input.as_mut().ok_or("the oracle has ended")?;
        let ended = |error: std::io::Error| format!("the oracle ended: {error}");
        input.write_all(script.lines.as_bytes()).map_err(ended)?;
        input.write_all(b"answer\n").map_err(ended)?;
        input.flush().map_err(ended)?;
        let mut answer = String::new();
        let process = self.process.id().to_string();
        let read = std::thread::scope(|scope| {
            let (answered, waits) = mpsc::channel::<()>();
            scope.spawn(move || {
                if waits.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    let _ = Command::new("kill").args(["-9", &process]).status();
                }
            });
            let read = self.output.read_line(&mut answer);
            drop(answered);
            read
        });
        read.map_err(ended)?;
        match answer.trim_end().split_once(' ').unwrap_or((answer.trim_end(), "")) {
            ("ok", remembered) => Ok(remembered.to_owned()),
            ("error", error) => Err(error.to_owned()),
            _ => Err(format!(
                "the oracle ended after '{answer}', or was killed after {} s without an answer",
                PATIENCE.as_secs()
            )),
        }
    }

    /// Executes a script that leaves a database open. Returns the contents of that database, and
    /// closes it.
    ///
    /// # Errors
    /// The first error of a command.
    ///
    /// # Panics
    /// If the dump cannot be read.
    pub fn dump(&mut self, script: Script) -> Result<Vec<Entry>, String> {
        let entries = self.dump_open(script)?;
        let mut close = Script::default();
        close.line(&[&"close"]);
        self.run(&close)?;
        Ok(entries)
    }

    /// Executes a script like [`Oracle::dump`], but leaves the database open.
    ///
    /// # Errors
    /// The first error of a command; the database is then closed.
    ///
    /// # Panics
    /// If the dump cannot be read.
    pub fn dump_open(&mut self, mut script: Script) -> Result<Vec<Entry>, String> {
        let path = self.scratch.path().join("dump");
        script.line(&[&"dump", &path.display()]);
        self.run(&script)?;
        Ok(dump::parse(&read(&path)))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // The oracle's program ends at the end of its input.
        self.input = None;
        let _ = self.process.wait();
    }
}

/// Runs the setup script of the oracle. Returns the oracle's directory.
fn make_ready() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let directory = target.join("oracle");
    let made = Command::new("sh")
        .arg(root.join("ci/oracle/fetch.sh"))
        .arg(&directory)
        .output()
        .map_err(|error| format!("cannot run fetch.sh: {error}"))?;
    if made.status.success() {
        Ok(directory)
    } else {
        Err(String::from_utf8_lossy(&made.stderr).trim().to_owned())
    }
}

impl Script {
    /// Creates a script whose first commands open the database in `directory`. `database` contains
    /// the options of the database, and `families` the name and the options of each column family.
    /// Options are option strings of RocksDB, without spaces.
    pub fn open(directory: &Path, database: &str, families: &[(&str, &str)]) -> Self {
        let mut script = Self::describe(directory, database, families);
        script.line(&[&"open"]);
        script
    }

    /// Creates a script like [`Script::open`], but without the command that opens the database.
    pub fn describe(directory: &Path, database: &str, families: &[(&str, &str)]) -> Self {
        let mut script = Self::default();
        script.line(&[&"directory", &directory.display()]);
        script.line(&[&"database", &database]);
        for (family, options) in families {
            script.line(&[&"family", family, options]);
        }
        script
    }

    /// Adds a command, which consists of `words`.
    ///
    /// # Panics
    /// If a word contains a space or a line feed.
    pub fn line(&mut self, words: &[&dyn Display]) {
        for (at, word) in words.iter().enumerate() {
            let start = self.lines.len();
            write!(self.lines, "{word}").expect("memory");
            let word = &self.lines[start..];
            assert!(!word.contains([' ', '\n']), "a word has a space in it: '{word}'");
            self.lines.push(if at + 1 < words.len() { ' ' } else { '\n' });
        }
    }

    /// Adds a command that puts a value.
    pub fn put(&mut self, family: &str, key: &[u8], value: &[u8]) {
        self.line(&[&"put", &family, &Hex(key), &Hex(value)]);
    }

    /// Adds a command that writes a merge operand.
    pub fn merge(&mut self, family: &str, key: &[u8], operand: &[u8]) {
        self.line(&[&"merge", &family, &Hex(key), &Hex(operand)]);
    }

    /// Adds a command that deletes a key.
    pub fn delete(&mut self, family: &str, key: &[u8]) {
        self.line(&[&"delete", &family, &Hex(key)]);
    }

    /// Adds a command that deletes a key with a single deletion. The key must have been put only
    /// once since its last deletion.
    pub fn single_delete(&mut self, family: &str, key: &[u8]) {
        self.line(&[&"single-delete", &family, &Hex(key)]);
    }

    /// Adds a command that deletes the keys from `from` (inclusive) to `to` (exclusive).
    pub fn delete_range(&mut self, family: &str, from: &[u8], to: &[u8]) {
        self.line(&[&"delete-range", &family, &Hex(from), &Hex(to)]);
    }

    /// Adds a command that puts a value with a write time, in seconds since 1970.
    pub fn timed_put(&mut self, family: &str, key: &[u8], value: &[u8], time_s: u64) {
        self.line(&[&"timed-put", &family, &Hex(key), &Hex(value), &time_s]);
    }

    /// Adds a command that flushes a column family, and waits until the flush is complete.
    pub fn flush(&mut self, family: &str) {
        self.line(&[&"flush", &family]);
    }

    /// Adds a command that compacts a whole column family.
    pub fn compact(&mut self, family: &str) {
        self.line(&[&"compact", &family]);
    }
}

/// Formats bytes for the oracle: as hexadecimal digits, or `-` if there are none.
struct Hex<'a>(&'a [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("-");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[expect(clippy::disallowed_methods, reason = "reads the oracle's output, not a database's file")]
fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::{Oracle, Script};

    #[test]
    fn the_oracle_reads_what_it_wrote() {
        let Some(mut oracle) = Oracle::start("the oracle's own test") else { return };
        let directory = tempfile::tempdir().unwrap();
        let mut script = Script::open(directory.path(), "", &[("other", "compression=kZSTD")]);
        script.put("other", b"key", b"");
        script.put("default", b"gone", b"value");
        script.delete("default", b"gone");
        let entries = oracle.dump(script).unwrap();
        let entries: Vec<_> = entries
            .iter()
            .map(|entry| (&*entry.family, &entry.key[..], &entry.value[..]))
            .collect();
        assert_eq!(entries, [("other", &b"key"[..], &b""[..])]);
    }

    #[test]
    fn a_refusal_of_rocksdb_is_an_error_and_the_oracle_continues() {
        let Some(mut oracle) = Oracle::start("the oracle's own test") else { return };
        let directory = tempfile::tempdir().unwrap();
        let refused = "block_based_table_factory={format_version=1}";
        let script = Script::open(directory.path(), "", &[("default", refused)]);
        let error = oracle.run(&script).unwrap_err();
        assert!(error.contains("format_version"), "{error}");
        assert_eq!(oracle.run(&Script::default()), Ok(String::new()));
    }
}
