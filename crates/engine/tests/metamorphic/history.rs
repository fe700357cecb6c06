//! Random steps on a database. They do not depend on the database's options.

use fastrand::Rng;
use tailwater::BottommostRewrite;
use tailwater_format::Comparator;

use crate::change::Change;

/// The column families.
pub(crate) const FAMILIES: [&str; 2] = ["default", "other"];
/// Number of ordinary keys. All writes use these, except single deletions and the puts that precede
/// them.
const KEYS: u32 = 60;
/// Number of ordinary keys that share a prefix.
const KEYS_OF_A_PREFIX: u32 = 7;
/// Number of keys, in each column family, to which only puts and single deletions are applied.
const SINGLE_KEYS: u32 = 10;
/// Time at which the clock of a simulated disk begins, in seconds since 1970.
const CLOCK_BEGINS_S: u64 = 1_700_000_000;
/// Maximum number of open snapshots, and maximum number of open iterators.
const HELD_MAX: usize = 4;

/// A change to one column family. `family` is its index in [`FAMILIES`].
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) family: usize,
    pub(crate) change: Change,
}

/// One step of a history. Numbers that denote column families are indexes in [`FAMILIES`].
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Writes these changes, as one batch or one by one.
    Write(Vec<Write>),
    /// Ingests files into one column family, one file for each list of changes. Later files have
    /// precedence over earlier ones. In each list the range deletions come first; then each key
    /// occurs once, in order.
    Ingest {
        family: usize,
        files: Vec<Vec<Change>>,
    },
    TakeSnapshot,
    /// Releases an open snapshot: the one whose index among the open snapshots is this value modulo
    /// the number of open snapshots.
    ReleaseSnapshot(usize),
    /// Creates an iterator over this column family. It stays open, and later steps move it.
    HoldIterator(usize),
    ReleaseIterator(usize),
    Flush(usize),
    FlushAll,
    FlushLog {
        sync: bool,
    },
    Compact {
        family: usize,
        begin: Option<Vec<u8>>,
        end: Option<Vec<u8>>,
        rewrite: BottommostRewrite,
    },
    /// Changes some options of this column family, of its tables, or of the database.
    ChangeOptions(usize),
    Pause,
    Continue,
    PassTime {
        seconds: u64,
    },
    Reopen,
    /// Reads everything: the latest state, all open snapshots, and all open iterators.
    Ask,
}

impl Step {
    /// Whether a run may skip this step: skipping it does not change the results of reads, and does
    /// not prevent a later step.
    pub(crate) fn is_upkeep(&self) -> bool {
        match self {
            Self::Flush(_)
            | Self::FlushAll
            | Self::FlushLog { .. }
            | Self::Compact { .. }
            | Self::ChangeOptions(_)
            | Self::Pause
            | Self::Continue
            | Self::PassTime { .. } => true,
            Self::Write(_)
            | Self::Ingest { .. }
            | Self::TakeSnapshot
            | Self::ReleaseSnapshot(_)
            | Self::HoldIterator(_)
            | Self::ReleaseIterator(_)
            | Self::Reopen
            | Self::Ask => false,
        }
    }
}

/// A sequence of steps, and the comparators of the column families.
#[derive(Debug, Clone)]
pub(crate) struct History {
    pub(crate) orders: [Comparator; 2],
    /// Whether there may be range deletions, which databases with a row cache refuse.
    pub(crate) deletes_ranges: bool,
    /// The steps with their numbers. A step keeps its number when other steps are removed. A run
    /// derives its random choices at a step from the number.
    pub(crate) steps: Vec<(u64, Step)>,
}

impl History {
    /// Returns a random history.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let other = if rng.bool() { Comparator::ReverseBytewise } else { Comparator::Bytewise };
        let orders = [Comparator::Bytewise, other];
        let count = *rng.choice(&[40, 80, 160]).expect("there are some");
        let mut generator = Generator::new(rng.fork(), orders.clone());
        let mut steps = Vec::new();
        if rng.u8(..3) == 0 {
            // The first file of a new database gets sequence number 0, and so does a snapshot
            // before the first write.
            let family = generator.rng.usize(..FAMILIES.len());
            let files = vec![generator.file(family)];
            steps.extend([Step::Ingest { family, files }, Step::TakeSnapshot]);
        }
        steps.extend((0..count).map(|_| generator.step()));
        steps.extend([Step::Ask, Step::Reopen, Step::Ask]);
        let deletes_ranges = generator.ranges > 0;
        Self { orders, deletes_ranges, steps: (1..).zip(steps).collect() }
    }
}

/// Generates the random operations of a history.
struct Generator {
    rng: Rng,
    orders: [Comparator; 2],
    /// Percentage of range deletions among the generated changes.
    ranges: u8,
    /// The keys for single deletions, by column family. The flag of a key tells whether it was put
    /// since its last single deletion. A key is removed from the list when a range deletion covers
    /// it while the flag is set.
    singles: [Vec<(Vec<u8>, bool)>; 2],
}

impl Generator {
    fn new(mut rng: Rng, orders: [Comparator; 2]) -> Self {
        let keys: Vec<(Vec<u8>, bool)> =
            (0..SINGLE_KEYS).map(|number| (single_key(number), false)).collect();
        let ranges = *rng.choice(&[0, 3, 10, 25]).expect("there are some");
        Self { rng, orders, ranges, singles: [keys.clone(), keys] }
    }

    fn step(&mut self) -> Step {
        let family = self.rng.usize(..FAMILIES.len());
        match self.rng.u8(..100) {
            0..=4 => Step::TakeSnapshot,
            5..=8 => Step::ReleaseSnapshot(self.rng.usize(..HELD_MAX)),
            9 | 10 => Step::HoldIterator(family),
            11 => Step::ReleaseIterator(self.rng.usize(..HELD_MAX)),
            12..=17 => Step::Flush(family),
            18 | 19 => Step::FlushAll,
            20 => Step::FlushLog { sync: self.rng.bool() },
            21..=27 => self.compact(family),
            28 => Step::Pause,
            29 | 30 => Step::Continue,
            31 | 32 => Step::PassTime { seconds: 10_u64.pow(self.rng.u32(1..6)) },
            33 | 34 => Step::Reopen,
            35..=37 => Step::Ask,
            38..=40 => self.ingest(family),
            41..=44 => Step::ChangeOptions(family),
            _ => {
                let count = if self.rng.u8(..4) > 0 { 1 } else { self.rng.usize(2..12) };
                Step::Write((0..count).map(|_| self.write()).collect())
            }
        }
    }

    fn ingest(&mut self, family: usize) -> Step {
        let count = if self.rng.bool() { 1 } else { self.rng.usize(2..5) };
        Step::Ingest { family, files: (0..count).map(|_| self.file(family)).collect() }
    }

    /// Returns the changes in a file to be ingested. There is at least one.
    fn file(&mut self, family: usize) -> Vec<Change> {
        let near = self.rng.bool().then(|| self.rng.u32(..KEYS));
        let count = self.rng.usize(..10);
        let mut keys: Vec<Vec<u8>> = (0..count)
            .map(|_| match near {
                Some(near) => key((near + self.rng.u32(..5)).min(KEYS - 1)),
                None => key(self.rng.u32(..KEYS)),
            })
            .collect();
        keys.sort_by(|a, b| self.orders[family].compare(a, b));
        keys.dedup();
        let mut changes = Vec::new();
        while self.rng.u8(..100) < self.ranges {
            changes.push(self.delete_range(family));
        }
        if keys.is_empty() {
            keys.push(key(self.rng.u32(..KEYS)));
        }
        changes.extend(keys.into_iter().map(|key| match self.rng.u8(..4) {
            0 => Change::Delete { key },
            1 => Change::Merge { key, operand: self.operand() },
            _ => Change::Put { key, value: self.value() },
        }));
        changes
    }

    fn compact(&mut self, family: usize) -> Step {
        let (begin, end) = self.range(family);
        let rewrite = *self
            .rng
            .choice(&[
                BottommostRewrite::Skip,
                BottommostRewrite::IfHaveCompactionFilter,
                BottommostRewrite::Force,
                BottommostRewrite::ForceOptimized,
            ])
            .expect("there are some");
        Step::Compact {
            family,
            begin: self.rng.bool().then_some(begin),
            end: self.rng.bool().then_some(end),
            rewrite,
        }
    }

    fn write(&mut self) -> Write {
        let family = self.rng.usize(..FAMILIES.len());
        if self.rng.u8(..100) < self.ranges {
            return Write { family, change: self.delete_range(family) };
        }
        let key = key(self.rng.u32(..KEYS));
        let change = match self.rng.u8(..20) {
            0..=6 => Change::Put { key, value: self.value() },
            7 | 8 => Change::TimedPut { key, value: self.value(), time_s: self.time_s() },
            9..=12 => Change::Merge { key, operand: self.operand() },
            13..=15 => Change::Delete { key },
            _ => self.single(family),
        };
        Write { family, change }
    }

    /// Returns a put or a single deletion of a key that is reserved for single deletions. It is a
    /// single deletion only if the key was put once since its last single deletion.
    fn single(&mut self, family: usize) -> Change {
        let value = self.value();
        match self.rng.choice(&mut self.singles[family]) {
            None => Change::Put { key: key(0), value },
            Some((key, is_there)) => {
                *is_there = !*is_there;
                let key = key.clone();
                if *is_there { Change::Put { key, value } } else { Change::SingleDelete { key } }
            }
        }
    }

    fn delete_range(&mut self, family: usize) -> Change {
        let (begin, end) = self.range(family);
        let order = &self.orders[family];
        self.singles[family].retain(|(key, is_there)| {
            let is_covered = order.compare(&begin, key).is_le() && order.compare(key, &end).is_lt();
            !(is_covered && *is_there)
        });
        Change::DeleteRange { begin, end }
    }

    /// Returns two keys of a column family in its order. They are often close to each other.
    fn range(&mut self, family: usize) -> (Vec<u8>, Vec<u8>) {
        let from = self.rng.u32(..KEYS);
        let to = if self.rng.u8(..4) == 0 {
            self.rng.u32(..KEYS)
        } else {
            (from + self.rng.u32(..8)).min(KEYS - 1)
        };
        let (a, b) = (key(from), key(to));
        if self.orders[family].compare(&a, &b).is_le() { (a, b) } else { (b, a) }
    }

    /// Returns a value. Most values have a few bytes; some are as long as a small table, and a few
    /// as long as a quarter of a memtable.
    fn value(&mut self) -> Vec<u8> {
        let length = match self.rng.u8(..60) {
            0 => self.rng.usize(..16_000),
            1..=9 => self.rng.usize(..1500),
            10 => 0,
            _ => self.rng.usize(1..60),
        };
        self.bytes(length)
    }

    /// Returns a write time in seconds since 1970. Most are near the time at which the clock of a
    /// simulated disk begins.
    fn time_s(&mut self) -> u64 {
        match self.rng.u8(..8) {
            0 => self.rng.u64(..),
            1 => 0,
            _ => CLOCK_BEGINS_S - 2000 + self.rng.u64(..20_000),
        }
    }

    fn operand(&mut self) -> Vec<u8> {
        let length = if self.rng.u8(..12) == 0 { 400 } else { 12 };
        let length = self.rng.usize(..length);
        self.bytes(length)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let letter = self.rng.u8(b'a'..=b'z');
        let is_plain = self.rng.bool();
        let byte = |_| if is_plain { letter } else { self.rng.u8(b'a'..=b'z') };
        (0..length).map(byte).collect()
    }
}

/// Returns ordinary key number `number`. The first three have special lengths; all others have a
/// prefix of four bytes, which several keys share.
fn key(number: u32) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        1 => b"a".to_vec(),
        2 => vec![0xff; 6],
        _ => {
            let length = 6 + number as usize % 3;
            let mut key = format!("p{:03}{number:02}", number / KEYS_OF_A_PREFIX).into_bytes();
            key.resize(length, b'x');
            key
        }
    }
}

/// Returns key number `number` of the keys to which only puts and single deletions are applied. In
/// key order this key lies between ordinary keys.
fn single_key(number: u32) -> Vec<u8> {
    [&key(3 + number * 5)[..], b"!single"].concat()
}
