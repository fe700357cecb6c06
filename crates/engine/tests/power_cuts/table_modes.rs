//! How a process writes its tables: with direct I/O or through the page cache. The kernel's view is
//! the flags of the open files in `/proc/self/fdinfo`, which a thread reads all the time.
//!
//! A table that is written directly may have a second handle, for warm blocks, that is not direct.
//! So a table counts as written through the page cache only if no direct handle was seen.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tailwater::{Db, Purpose};

/// The flag of an open file in Linux that requests direct I/O.
#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
const O_DIRECT: u32 = 0o200_000;
#[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
const O_DIRECT: u32 = 0o40_000;
/// The flags of an open file that is written.
const WRITES: u32 = 0o3;

/// Time between two looks at the open files.
const INTERVAL: Duration = Duration::from_micros(500);

/// Whether a database writes with direct I/O.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Direct {
    pub(crate) logs: bool,
    /// Whether both flushes and compactions write tables directly.
    pub(crate) tables: bool,
}

/// How a database was written.
#[derive(Debug, Default, Clone)]
pub(crate) struct Written {
    /// The modes in effect, according to the database; `None` if it was not opened.
    modes: Option<Direct>,
    /// Number of tables that were seen open for direct writes.
    pub(crate) direct_tables: u64,
    /// Number of tables that were seen open for writes, but never for direct ones.
    buffered_tables: u64,
    /// Number of bytes that compactions wrote to tables, if tables are written directly.
    pub(crate) directly_compacted: u64,
}

impl Written {
    /// Takes the modes from the property of an open database.
    pub(crate) fn set_modes(&mut self, db: &Db) {
        let text = db.property_value("tailwater.io-modes").expect("a property").expect("modes");
        let is_direct = |purpose| {
            let line = text.lines().find(|line| line.starts_with(&format!("{purpose}: ")));
            line.unwrap_or_else(|| panic!("{purpose}: {text}")).ends_with("effective direct")
        };
        let [flushes, compactions] = ["flush_write", "compaction_write"].map(is_direct);
        assert_eq!(flushes, compactions, "{text}");
        self.modes = Some(Direct { logs: is_direct("wal"), tables: flushes });
    }

    /// Takes the number of bytes that compactions have written.
    pub(crate) fn set_bytes(&mut self, db: &Db) {
        if self.modes.is_some_and(|modes| modes.tables) {
            let statistics = db.storage().statistics().snapshot(Purpose::CompactionWrite);
            self.directly_compacted = statistics.written_bytes;
        }
    }

    /// # Errors
    /// Logs or tables were not written in the mode that the options request.
    pub(crate) fn check(&self, requested: Direct) -> Result<(), String> {
        let other = if requested.tables { self.buffered_tables } else { self.direct_tables };
        if self.modes.is_some_and(|modes| modes != requested) || other > 0 {
            return Err(format!("requested: {requested:?}, found: {self:?}"));
        }
        Ok(())
    }

    pub(crate) fn to_line(&self) -> String {
        let Self { modes, direct_tables, buffered_tables, directly_compacted } = self;
        let Direct { logs, tables } = modes.unwrap_or_default();
        let is_open = modes.is_some();
        format!("{is_open} {logs} {tables} {direct_tables} {buffered_tables} {directly_compacted}")
    }

    pub(crate) fn of_line(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let [is_open, logs, tables, direct_tables, buffered_tables, bytes] = words[..] else {
            panic!("six words: {line}")
        };
        let number = |word: &str| word.parse().expect("a number");
        let modes = Direct { logs: logs == "true", tables: tables == "true" };
        Self {
            modes: (is_open == "true").then_some(modes),
            direct_tables: number(direct_tables),
            buffered_tables: number(buffered_tables),
            directly_compacted: number(bytes),
        }
    }
}

impl AddAssign for Written {
    fn add_assign(&mut self, more: Self) {
        self.direct_tables += more.direct_tables;
        self.buffered_tables += more.buffered_tables;
        self.directly_compacted += more.directly_compacted;
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { direct_tables, buffered_tables, directly_compacted, .. } = self;
        write!(
            f,
            "{direct_tables} tables seen with direct writes, {buffered_tables} without, \
             {directly_compacted} bytes compacted directly"
        )
    }
}

/// Calls `work`. Returns how this process wrote tables meanwhile, and the result.
pub(crate) fn watch<R>(work: impl FnOnce(&mut Written) -> R) -> (Written, R) {
    let (mut written, has_ended) = (Written::default(), AtomicBool::new(false));
    let (seen, result) = thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = BTreeMap::<String, Seen>::new();
            while !has_ended.load(Ordering::Relaxed) {
                look(&mut seen);
                thread::sleep(INTERVAL);
            }
            seen
        });
        let result = work(&mut written);
        has_ended.store(true, Ordering::Relaxed);
        (watcher.join().expect("no panic"), result)
    });
    written.direct_tables = seen.values().filter(|seen| seen.is_direct).count() as u64;
    // A single look may have found a table between the closing of its two handles.
    let is_buffered = |seen: &&Seen| !seen.is_direct && seen.looks > 1;
    written.buffered_tables = seen.values().filter(is_buffered).count() as u64;
    (written, result)
}

/// What was seen of a table that was open for writing.
#[derive(Debug, Default)]
struct Seen {
    /// Whether a handle was open for direct writes.
    is_direct: bool,
    /// Number of times that the table was open for writing.
    looks: u32,
}

/// Adds the tables that this process has open for writing.
#[expect(clippy::disallowed_methods, reason = "the kernel's reports are not a database's files")]
fn look(seen: &mut BTreeMap<String, Seen>) {
    let mut now = BTreeMap::<String, bool>::new();
    for entry in std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten() {
        // The descriptor may have been closed since the directory was listed.
        let Ok(path) = std::fs::read_link(entry.path()) else { continue };
        let path = path.to_string_lossy().trim_end_matches(" (deleted)").to_owned();
        if !path.ends_with(".sst") {
            continue;
        }
        let info = std::path::Path::new("/proc/self/fdinfo").join(entry.file_name());
        let Ok(info) = std::fs::read_to_string(info) else { continue };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags");
        let flags = u32::from_str_radix(flags.trim(), 8).expect("a number");
        // The descriptor may have been closed, and reused for another file.
        let is_same =
            std::fs::read_link(entry.path()).is_ok_and(|now| now.to_string_lossy() == path);
        if is_same && flags & WRITES != 0 {
            *now.entry(path).or_default() |= flags & O_DIRECT != 0;
        }
    }
    for (path, is_direct) in now {
        let seen = seen.entry(path).or_default();
        seen.is_direct |= is_direct;
        seen.looks += 1;
    }
}
