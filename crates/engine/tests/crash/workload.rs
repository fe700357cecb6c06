//! Generates random operations on a database.

use fastrand::Rng;

use crate::model::{Batch, Change, DEFAULT, Durability, Evidence, Part};

/// Number of ordinary keys in each column family. They begin with `k`. The keys that serve as
/// evidence (see `model`) begin with other characters.
const KEYS: u32 = 40;

/// Time at which the clock of a simulated disk begins, in seconds since 1970.
const CLOCK_BEGINS_S: u64 = 1_700_000_000;

/// Options of the database that the random operations change while the database is open, each with
/// the values that they choose from.
const OF_DATABASE: [(&str, &[&str]); 4] = [
    ("bytes_per_sync", &["0", "5000"]),
    ("wal_bytes_per_sync", &["0", "5000"]),
    ("max_total_wal_size", &["0", "10000", "50000"]),
    ("max_manifest_file_size", &["200", "100000"]),
];
/// Options of a column family that the random operations change while the database is open, each
/// with the values that they choose from.
const OF_FAMILY: [(&str, &[&str]); 5] = [
    ("write_buffer_size", &["65536", "100000"]),
    ("disable_auto_compactions", &["false", "true"]),
    ("level0_file_num_compaction_trigger", &["1", "3", "1000000"]),
    ("target_file_size_base", &["500", "5000"]),
    ("max_bytes_for_level_base", &["1000", "20000"]),
];

/// An operation to perform next.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// Writes a batch. If `single`, the batch has one operation, and is written by the method for
    /// that operation, such as `put`, instead of as a `WriteBatch`.
    Write {
        batch: Batch,
        single: bool,
    },
    /// Ingests a batch: for each column family, one file with the batch's changes to it.
    Ingest {
        batch: Batch,
        /// Whether the ingestion moves the files into the database, so that their original names
        /// are removed.
        moves: bool,
    },
    Flush(String),
    /// Flushes a column family, and then compacts its whole key range.
    Compact(String),
    FlushAll,
    FlushLog {
        sync: bool,
    },
    CreateFamily(String),
    DropFamily(String),
    TakeSnapshot,
    DropSnapshot,
    Read,
    /// Closes the database, by `close` if `cleanly` and by dropping its handle otherwise, and
    /// reopens it.
    Reopen {
        cleanly: bool,
    },
    /// Creates a checkpoint, which copies the logs if they have fewer bytes than this.
    Checkpoint(u64),
    /// Changes an option of a column family or, if `family` is `None`, of the database. `change` is
    /// the option's name and its new value.
    ChangeOption {
        family: Option<String>,
        change: (&'static str, &'static str),
    },
}

/// Which operations the generated work may include.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Whether writes may be unlogged.
    pub(crate) unlogged: bool,
    /// Whether a flush may be of one column family only.
    pub(crate) single_flushes: bool,
    /// Percentage of writes that are synced.
    pub(crate) synced: u8,
    /// Whether the database may be closed and reopened.
    pub(crate) reopening: bool,
}

/// Generates random operations.
#[derive(Debug)]
pub(crate) struct Generator {
    rng: Rng,
    limits: Limits,
    /// The number that was last given to a write or to a column family. The next one gets this
    /// number plus 1.
    next: u64,
    families: Vec<String>,
    /// Keys that single deletions may delete, each with its column family. Each key was put exactly
    /// once.
    singles: Vec<(String, Vec<u8>)>,
    /// Keys that a batch may delete, so that a missing key shows that the batch was applied. Each
    /// entry is the column family, the key, and another key whose presence shows that the first key
    /// was put.
    deletable: Vec<(String, Vec<u8>, Vec<u8>)>,
}

impl Generator {
    /// Creates a generator for a database with these column families. The writes are numbered from
    /// `first` + 1. The keys that show whether a write was applied contain the number of the write.
    /// So generators with different numbers use different such keys.
    pub(crate) fn new(rng: Rng, limits: Limits, first: u64, families: Vec<String>) -> Self {
        Self { rng, limits, next: first, families, singles: Vec::new(), deletable: Vec::new() }
    }

    /// Records that a column family was created.
    pub(crate) fn created(&mut self, family: String) {
        self.families.push(family);
    }

    /// Records that a column family was dropped, so that no later operation uses it.
    pub(crate) fn dropped(&mut self, family: &str) {
        self.families.retain(|name| name != family);
        self.singles.retain(|(name, _)| name != family);
        self.deletable.retain(|(name, _, _)| name != family);
    }

    /// Returns the next operation.
    pub(crate) fn action(&mut self) -> Action {
        match self.rng.u8(..100) {
            0..=3 if self.limits.single_flushes => Action::Flush(self.family()),
            4 | 5 if self.limits.single_flushes => Action::Compact(self.family()),
            0..=7 => Action::FlushAll,
            8..=12 => Action::FlushLog { sync: self.rng.bool() },
            13..=15 if self.families.len() < 4 => {
                let number = self.number();
                Action::CreateFamily(format!("family{number}"))
            }
            16 if self.families.len() > 1 => {
                let index = self.rng.usize(1..self.families.len());
                Action::DropFamily(self.families[index].clone())
            }
            17..=19 => Action::TakeSnapshot,
            20..=22 => Action::DropSnapshot,
            23..=25 => Action::Read,
            26 | 27 if self.limits.reopening => Action::Reopen { cleanly: self.rng.bool() },
            28 => Action::Checkpoint([0, 0, 300, u64::MAX][self.rng.usize(..4)]),
            43 | 44 => self.option(),
            39..=42 => Action::Ingest { batch: self.files(), moves: self.rng.bool() },
            29..=38 => {
                let (batch, single) = self.single();
                Action::Write { batch, single }
            }
            _ => Action::Write { batch: self.batch(), single: false },
        }
    }

    /// Returns a batch of changes to one or more column families.
    pub(crate) fn batch(&mut self) -> Batch {
        let number = self.number();
        let mut families = self.families.clone();
        self.rng.shuffle(&mut families);
        families.truncate(if self.rng.bool() { 1 } else { self.rng.usize(1..=3) });
        let parts = families.into_iter().map(|family| self.part(family, number)).collect();
        Batch { parts, durability: self.durability() }
    }

    fn part(&mut self, family: String, number: u64) -> Part {
        let marker = marker(number);
        let mut changes = vec![Change::Put { key: marker.clone(), value: b"here".to_vec() }];
        for _ in 0..self.rng.u8(..5) {
            let change = self.change(&family, &marker);
            changes.push(change);
        }
        Part { family, changes, evidence: Evidence::Present(marker) }
    }

    fn change(&mut self, family: &str, marker: &[u8]) -> Change {
        match self.rng.u8(..12) {
            0..=3 => Change::Put { key: self.key(), value: self.value() },
            4 => {
                let time_s = CLOCK_BEGINS_S - 50 + self.rng.u64(..100);
                Change::TimedPut { key: self.key(), value: self.value(), time_s }
            }
            5 | 6 => Change::Merge { key: self.key(), operand: self.value() },
            7 => Change::Delete { key: self.key() },
            8 => {
                let (a, b) = (self.key(), self.key());
                Change::DeleteRange { begin: a.clone().min(b.clone()), end: a.max(b) }
            }
            9 => {
                let key = format!("s{:07}", self.number()).into_bytes();
                self.singles.push((family.to_owned(), key.clone()));
                Change::Put { key, value: self.value() }
            }
            10 => match self.singles.iter().position(|(name, _)| name == family) {
                Some(at) => Change::SingleDelete { key: self.singles.swap_remove(at).1 },
                None => Change::Delete { key: self.key() },
            },
            _ => {
                let key = format!("~d{:07}", self.number()).into_bytes();
                self.deletable.push((family.to_owned(), key.clone(), marker.to_vec()));
                Change::Put { key, value: self.value() }
            }
        }
    }

    /// Returns a batch to be ingested as one file for each of one or two column families. Some
    /// files contain only one key. No other write has this key, so it shows whether the batch was
    /// applied.
    fn files(&mut self) -> Batch {
        let number = self.number();
        let mut families = self.families.clone();
        self.rng.shuffle(&mut families);
        families.truncate(self.rng.usize(1..=2));
        let parts = families.into_iter().map(|family| self.file(family, number)).collect();
        Batch { parts, durability: Durability::Ingested }
    }

    /// Returns the contents of a file. A range deletion, if any, comes first and does not delete
    /// the file's own keys. The keys follow in order.
    fn file(&mut self, family: String, number: u64) -> Part {
        let marker = marker(number);
        let mut changes = Vec::new();
        let mut keys = Vec::new();
        if self.rng.u8(..3) > 0 {
            if self.rng.u8(..4) == 0 {
                let (a, b) = (self.key(), self.key());
                changes
                    .push(Change::DeleteRange { begin: a.clone().min(b.clone()), end: a.max(b) });
            }
            keys.extend((0..self.rng.u8(..6)).map(|_| self.key()));
            keys.sort();
            keys.dedup();
        }
        changes.push(Change::Put { key: marker.clone(), value: b"here".to_vec() });
        changes.extend(keys.into_iter().map(|key| match self.rng.u8(..4) {
            0 => Change::Delete { key },
            1 => Change::Merge { key, operand: self.value() },
            _ => Change::Put { key, value: self.value() },
        }));
        Part { family, changes, evidence: Evidence::Present(marker) }
    }

    /// Returns a batch with one operation, for `Action::Write`, and `true` for its field `single`.
    fn single(&mut self) -> (Batch, bool) {
        let number = self.number();
        let durability = self.durability();
        let own = format!("~m{number:07}").into_bytes();
        let (family, change, evidence) = match (self.rng.u8(..3), self.deletable.pop()) {
            (0, Some((family, key, base))) => {
                let evidence = Evidence::Absent { key: key.clone(), base };
                let change = match self.rng.u8(..3) {
                    0 => Change::Delete { key },
                    1 => Change::SingleDelete { key },
                    _ => Change::DeleteRange { end: [&key[..], b"\0"].concat(), begin: key },
                };
                (family, change, evidence)
            }
            (1, _) => {
                let change = Change::Merge { key: own.clone(), operand: self.value() };
                (self.family(), change, Evidence::Present(own))
            }
            _ => {
                let change = Change::Put { key: own.clone(), value: self.value() };
                (self.family(), change, Evidence::Present(own))
            }
        };
        (Batch { parts: vec![Part { family, changes: vec![change], evidence }], durability }, true)
    }

    fn option(&mut self) -> Action {
        let family = self.rng.bool().then(|| self.family());
        let options = if family.is_some() { &OF_FAMILY[..] } else { &OF_DATABASE[..] };
        let (name, values) = options[self.rng.usize(..options.len())];
        Action::ChangeOption { family, change: (name, values[self.rng.usize(..values.len())]) }
    }

    fn durability(&mut self) -> Durability {
        let of_hundred = self.rng.u8(..100);
        if of_hundred < self.limits.synced {
            Durability::Synced
        } else if self.limits.unlogged && of_hundred >= 85 {
            Durability::Unlogged
        } else {
            Durability::Logged
        }
    }

    fn family(&mut self) -> String {
        match self.rng.choice(&self.families) {
            Some(family) => family.clone(),
            None => DEFAULT.to_owned(),
        }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("k{:02}", self.rng.u32(..KEYS)).into_bytes()
    }

    /// Returns a value. Most values have a few bytes. Some are several sectors long, and a few are
    /// longer than a block of a log (32 KiB).
    fn value(&mut self) -> Vec<u8> {
        let length = match self.rng.u8(..40) {
            0 => self.rng.usize(..40_000),
            1..=4 => self.rng.usize(..3000),
            _ => self.rng.usize(1..60),
        };
        let letter = self.rng.u8(b'a'..=b'z');
        let is_plain = self.rng.bool();
        let byte = |_| if is_plain { letter } else { self.rng.u8(b'a'..=b'z') };
        (0..length).map(byte).collect()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Returns the key whose presence shows that the batch with this number was applied.
pub(crate) fn marker(number: u64) -> Vec<u8> {
    format!("!{number:07}").into_bytes()
}
