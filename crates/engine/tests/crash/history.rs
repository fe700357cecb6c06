//! The history of a run, and what may and must survive a crash at any of its calls.
//!
//! # What must survive
//!
//! - After a power cut: every acknowledged synced write and every logged write before it; data that
//!   was ingested or flushed to a table; column families as they were created and dropped.
//! - After a crash of the process: also every acknowledged logged write, unless `manual_wal_flush`
//!   kept it in memory.
//!
//! # What may survive
//!
//! - Nothing that was not started. A logged batch exists whole or not at all.
//! - Logged batches that are not guaranteed are lost from the end: none exists without those before
//!   it. `kSkipAnyCorruptedRecords` recovers everything that can be read, so there may be gaps.
//! - Ingested files exist, all of one ingestion or none, independently of earlier writes.
//! - Unlogged writes are also lost from the end, independently in each column family; with
//!   `atomic_flush` in all column families together.
//! - A write that returned an error may exist or not, but only whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use tailwater_format::log::RecoveryMode;

use crate::Checked;
use crate::model::{Batch, DEFAULT, Durability, State, difference};

/// An operation of the database.
#[derive(Clone)]
pub(crate) enum Step {
    Open,
    Write(Batch),
    /// Flushes these column families.
    Flush(Vec<String>),
    FlushLog {
        sync: bool,
    },
    CreateFamily(String),
    DropFamily(String),
    /// Closes the database by `close` or by dropping the last handle.
    Close,
    /// Creates a checkpoint of these contents.
    Checkpoint(PathBuf, State),
    /// Changes an option of the database or of a column family to a value.
    ChangeOption(&'static str, &'static str),
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Write(batch) => write!(f, "{:?} {:?}", batch.durability, batch.parts),
            Self::Flush(families) => write!(f, "flush {families:?}"),
            Self::FlushLog { sync } => write!(f, "flush the log, sync {sync}"),
            Self::CreateFamily(name) => write!(f, "create {name}"),
            Self::DropFamily(name) => write!(f, "drop {name}"),
            Self::Close => f.write_str("close"),
            Self::ChangeOption(name, value) => write!(f, "set {name} to {value}"),
            Self::Checkpoint(directory, _) => write!(f, "checkpoint {}", directory.display()),
        }
    }
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// An error: the step may or may not have taken effect.
    Failed,
    /// An error; later a column family was found not to have been created or dropped.
    Void,
}

/// A step with the numbers of its storage calls.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) step: Step,
    pub(crate) calls: Range<u64>,
    pub(crate) outcome: Outcome,
}

/// The operations of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// The initial contents of the database; empty if there was no database.
    pub(crate) base: State,
    pub(crate) entries: Vec<Entry>,
    /// Whether logged writes stay in memory until the log is flushed.
    pub(crate) manual_wal_flush: bool,
    /// Whether column families are flushed together.
    pub(crate) atomic_flush: bool,
    /// Whether closing flushes unlogged writes.
    pub(crate) flushes_when_closed: bool,
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A power cut before the call with this number.
    PowerCut(u64),
    /// A crash of the process before the call with this number.
    ProcessCrash(u64),
    /// None: the contents are read as they are.
    StillOpen,
}

/// Whether something must, may or must not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Existence {
    Must,
    May,
    MustNot,
}

/// The requirements on one write.
#[derive(Debug)]
struct WriteClaim<'a> {
    batch: &'a Batch,
    /// Whether all of it must exist.
    must: bool,
    /// The column families in which its part must exist.
    must_in: BTreeSet<&'a str>,
    /// Whether it may be lost although it was acknowledged: because of an error, or because it was
    /// neither logged nor flushed when the database was reopened.
    doubtful: bool,
    /// Whether its log has been written to the system.
    is_written: bool,
}

/// The writes of a run that may survive, and those that must.
#[derive(Debug)]
pub(crate) struct Claims<'a> {
    history: &'a History,
    ending: Ending,
    writes: Vec<WriteClaim<'a>>,
    families: BTreeMap<&'a str, Existence>,
    /// Whether the database must exist.
    pub(crate) exists: bool,
    /// Checkpoints with their contents, and whether they must exist.
    pub(crate) checkpoints: Vec<(&'a PathBuf, &'a State, bool)>,
}

impl History {
    /// Records the visible contents: writes that are not visible, and did not have to be, stay
    /// lost.
    pub(crate) fn settle(&mut self, found: &State) {
        for entry in &mut self.entries {
            let failed = entry.outcome == Outcome::Failed;
            match &mut entry.step {
                Step::Write(batch) => batch.parts.retain(|part| {
                    found.get(&part.family).and_then(|table| part.is_in(table)) != Some(false)
                }),
                Step::CreateFamily(name) if failed => {
                    let is_there = found.contains_key(name);
                    entry.outcome = if is_there { Outcome::Done } else { Outcome::Void };
                }
                Step::DropFamily(name) if failed => {
                    let is_there = found.contains_key(name);
                    entry.outcome = if is_there { Outcome::Void } else { Outcome::Done };
                }
                _ => {}
            }
        }
    }

    /// Returns the writes that may survive this ending, and those that must.
    pub(crate) fn claims(&self, ending: Ending) -> Claims<'_> {
        let mut claims = Claims {
            history: self,
            ending,
            writes: Vec::new(),
            families: self.base.keys().map(|name| (name.as_str(), Existence::Must)).collect(),
            exists: !self.base.is_empty(),
            checkpoints: Vec::new(),
        };
        for entry in &self.entries {
            let (begun, ended) = match ending {
                Ending::PowerCut(call) | Ending::ProcessCrash(call) => {
                    (entry.calls.start < call, entry.calls.end <= call)
                }
                Ending::StillOpen => (true, true),
            };
            if (begun || ended) && entry.outcome != Outcome::Void {
                claims.add(entry, ended && entry.outcome == Outcome::Done);
            }
        }
        claims
    }
}

impl<'a> Claims<'a> {
    /// Accounts for a step that was started and perhaps acknowledged.
    fn add(&mut self, entry: &'a Entry, acknowledged: bool) {
        match &entry.step {
            Step::Open => {
                self.exists |= acknowledged;
                for write in &mut self.writes {
                    write.doubtful |= !write.must && !write.is_written;
                }
                let default = if self.exists { Existence::Must } else { Existence::May };
                self.families.insert(DEFAULT, default);
            }
            Step::Write(batch) => self.add_write(entry, batch, acknowledged),
            Step::CreateFamily(name) => {
                let existence = if acknowledged { Existence::Must } else { Existence::May };
                self.families.insert(name, existence);
            }
            Step::DropFamily(name) => {
                let existence = if acknowledged { Existence::MustNot } else { Existence::May };
                self.families.insert(name, existence);
            }
            Step::Checkpoint(directory, state) => {
                self.checkpoints.push((directory, state, acknowledged));
            }
            // It guarantees nothing about writes.
            Step::ChangeOption(..) => {}
            Step::Flush(_) | Step::FlushLog { .. } | Step::Close if !acknowledged => {}
            Step::Flush(families) => {
                for name in families {
                    self.writes.iter_mut().for_each(|write| write.flushed(name));
                }
            }
            Step::FlushLog { sync } => self.log_reached(*sync),
            Step::Close => {
                self.log_reached(false);
                if self.history.flushes_when_closed {
                    let unlogged = self.writes.iter_mut();
                    unlogged
                        .filter(|write| write.batch.durability == Durability::Unlogged)
                        .for_each(|write| write.must |= !write.doubtful);
                }
            }
        }
    }

    fn add_write(&mut self, entry: &Entry, batch: &'a Batch, acknowledged: bool) {
        self.writes.push(WriteClaim {
            batch,
            must: acknowledged && self.ending == Ending::StillOpen,
            must_in: BTreeSet::new(),
            doubtful: entry.outcome != Outcome::Done,
            is_written: false,
        });
        if acknowledged {
            match batch.durability {
                Durability::Unlogged => {}
                Durability::Logged if self.history.manual_wal_flush => {}
                Durability::Logged => self.log_reached(false),
                Durability::Synced => self.log_reached(true),
                Durability::Ingested => {
                    self.writes.iter_mut().last().expect("the one above").must = true;
                }
            }
        }
    }

    /// Records that all logs were written to the system, or are on the device.
    fn log_reached(&mut self, device: bool) {
        let survives = device || matches!(self.ending, Ending::ProcessCrash(_));
        for write in &mut self.writes {
            if write.batch.durability != Durability::Unlogged {
                write.is_written = true;
                write.must |= survives && !write.doubtful;
            }
        }
    }

    /// Compares the contents of a database that was opened in `mode` with the claims.
    pub(crate) fn judge(&self, found: &State, mode: RecoveryMode) -> Checked<()> {
        self.judge_families(found)?;
        let present = self.writes.iter().map(|write| write.presence(found));
        let present: Vec<Presence> = present.collect::<Checked<_>>()?;
        if self.ending != Ending::StillOpen {
            if mode != RecoveryMode::SkipAnyCorruptedRecords {
                self.judge_order(&present)?;
            }
            self.judge_unlogged(found)?;
        }
        let mut expected: State = self.history.base.clone();
        expected.retain(|name, _| found.contains_key(name));
        for name in found.keys() {
            expected.entry(name.clone()).or_default();
        }
        for write in &self.writes {
            write.batch.apply(&mut expected, |part| {
                found.get(&part.family).is_some_and(|table| part.is_in(table) != Some(false))
            });
        }
        match difference(&expected, found) {
            Some(difference) => Err(difference),
            None => Ok(()),
        }
    }

    fn judge_families(&self, found: &State) -> Checked<()> {
        for (name, existence) in &self.families {
            match (existence, found.contains_key(*name)) {
                (Existence::Must, false) => return Err(format!("column family {name} is missing")),
                (Existence::MustNot, true) => return Err(format!("column family {name} is back")),
                _ => {}
            }
        }
        match found.keys().find(|name| !self.families.contains_key(name.as_str())) {
            Some(name) if name != DEFAULT => Err(format!("there never was a column family {name}")),
            _ => Ok(()),
        }
    }

    /// Checks that no logged batch exists without those before it.
    fn judge_order(&self, present: &[Presence]) -> Checked<()> {
        let mut missing = None;
        for (index, (write, presence)) in self.writes.iter().zip(present).enumerate() {
            let is_logged =
                matches!(write.batch.durability, Durability::Logged | Durability::Synced);
            if !is_logged || write.doubtful {
                continue;
            }
            match (presence, missing) {
                (Presence::Absent, _) => missing = Some(index),
                (Presence::Whole, Some(before)) => {
                    return Err(format!(
                        "write {index} is there, but write {before}, which came before it, is not"
                    ));
                }
                (Presence::Whole, None) | (Presence::Unknown, _) => {}
            }
        }
        Ok(())
    }

    /// Checks that unlogged writes are lost from the end.
    fn judge_unlogged(&self, found: &State) -> Checked<()> {
        // For each group of families that are flushed together, the first lost write.
        let mut lost: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, write) in self.writes.iter().enumerate() {
            if write.batch.durability != Durability::Unlogged || write.doubtful {
                continue;
            }
            let parts = write.batch.parts.iter().filter_map(|part| {
                let is_in = part.is_in(found.get(&part.family)?)?;
                let group = if self.history.atomic_flush { "all" } else { part.family.as_str() };
                Some((group, is_in))
            });
            let parts: Vec<(&str, bool)> = parts.collect();
            for &(group, is_in) in &parts {
                if let Some(before) = lost.get(group).filter(|_| is_in) {
                    return Err(format!(
                        "write {index}, not logged, is there in {group}, but write {before}, also \
                         not logged, which came before it, is not"
                    ));
                }
            }
            for (group, _) in parts.into_iter().filter(|(_, is_in)| !is_in) {
                lost.entry(group).or_insert(index);
            }
        }
        Ok(())
    }
}

/// The parts of a batch that were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Whole,
    Absent,
    Unknown,
}

impl<'a> WriteClaim<'a> {
    /// Records that its part for a column family is in a table.
    fn flushed(&mut self, family: &'a str) {
        if !self.doubtful && self.batch.parts.iter().any(|part| part.family == family) {
            self.must_in.insert(family);
        }
    }

    /// Returns the parts that exist, or an error if this combination is not allowed.
    fn presence(&self, found: &State) -> Checked<Presence> {
        let mut seen: Option<bool> = None;
        for part in &self.batch.parts {
            let Some(table) = found.get(&part.family) else { continue };
            let Some(is_in) = part.is_in(table) else { continue };
            let must = self.must || self.must_in.contains(part.family.as_str());
            if must && !is_in {
                return Err(format!("in column family {} is lost: {part:?}", part.family));
            }
            let logged = self.batch.durability != Durability::Unlogged;
            if logged && seen.is_some_and(|seen| seen != is_in) {
                return Err(format!("a batch is there in part: {:?}", self.batch));
            }
            seen = Some(is_in);
        }
        Ok(match seen {
            Some(true) => Presence::Whole,
            Some(false) => Presence::Absent,
            None => Presence::Unknown,
        })
    }
}
