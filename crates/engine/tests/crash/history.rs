//! The history of a run: it determines what may and what must survive a crash at any call of the
//! run.
//!
//! # What must survive
//!
//! - After a power cut: every acknowledged synced write and every logged write before it; data that
//!   was ingested, or flushed to a table; the creation and removal of column families.
//! - After a crash of the process: also every acknowledged logged write, unless `manual_wal_flush`
//!   kept the write in memory.
//!
//! # What may survive
//!
//! - Only operations that were started. A logged batch exists completely or not at all.
//! - If logged batches are lost that need not survive, the newest are lost: no batch exists without
//!   the batches before it. An exception is `kSkipAnyCorruptedRecords`, which recovers every
//!   readable batch and so may leave gaps.
//! - The files of an ingestion, all or none, even if earlier writes are lost.
//! - If unlogged writes are lost, the newest of each column family are lost, independently of other
//!   column families. With `atomic_flush` the newest of all column families are lost together.
//! - A write that returned an error, completely or not at all.

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
    /// Creates a checkpoint in this directory. It must have these contents.
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
    /// The step returned an error, and may or may not have taken effect.
    Failed,
    /// The step returned an error, and later the column family was found not to have been created
    /// or dropped.
    Void,
}

/// A step, its outcome, and the range of the numbers of its storage calls.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) step: Step,
    pub(crate) calls: Range<u64>,
    pub(crate) outcome: Outcome,
}

/// The operations of a run, and the properties of the database that affect what survives.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// The contents of the database at the start of the run; empty if there was no database.
    pub(crate) base: State,
    pub(crate) entries: Vec<Entry>,
    /// Whether logged writes stay in memory until the log is flushed.
    pub(crate) manual_wal_flush: bool,
    /// Whether column families are flushed together.
    pub(crate) atomic_flush: bool,
    /// Whether closing flushes unlogged writes.
    pub(crate) flushes_when_closed: bool,
}

/// How a run ended before its contents are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A power cut before the call with this number.
    PowerCut(u64),
    /// A crash of the process before the call with this number.
    ProcessCrash(u64),
    /// The database is still open, so nothing may be lost.
    StillOpen,
}

/// Whether a column family must, may or must not exist.
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
    /// Whether all parts of the write must exist.
    must: bool,
    /// The column families in which the write's part must exist, since it was flushed there.
    must_in: BTreeSet<&'a str>,
    /// Whether the write may be lost although later writes exist: it returned an error, or it was
    /// neither logged nor flushed when the database was reopened.
    doubtful: bool,
    /// Whether the log that contains the write has been written to the system.
    is_written: bool,
}

/// The requirements on the contents of a database after a run has ended in one way.
#[derive(Debug)]
pub(crate) struct Claims<'a> {
    history: &'a History,
    ending: Ending,
    writes: Vec<WriteClaim<'a>>,
    families: BTreeMap<&'a str, Existence>,
    /// Whether the database must exist.
    pub(crate) exists: bool,
    /// Checkpoints: the directory, the contents, and whether the checkpoint must exist.
    pub(crate) checkpoints: Vec<(&'a PathBuf, &'a State, bool)>,
}

impl History {
    /// Adjusts the history to the contents that a reopened database shows. Parts of writes that are
    /// not visible, and need not be, are removed, since they may not return later.
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

    /// Returns the requirements on the contents after this ending.
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
    /// Adds the requirements of a step that was started and, if `acknowledged`, succeeded.
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
            // An option change guarantees nothing about writes.
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

    /// Records that all logs have been written to the system and, if `device`, are on the device.
    fn log_reached(&mut self, device: bool) {
        let survives = device || matches!(self.ending, Ending::ProcessCrash(_));
        for write in &mut self.writes {
            if write.batch.durability != Durability::Unlogged {
                write.is_written = true;
                write.must |= survives && !write.doubtful;
            }
        }
    }

    /// Checks the contents of a database that was opened in `mode` against the requirements.
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

    /// Checks that no logged batch exists without all logged batches before it.
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

    /// Checks that no unlogged write exists in a column family without all unlogged writes before
    /// it.
    fn judge_unlogged(&self, found: &State) -> Checked<()> {
        // The index of the first lost write of each group: a column family or, with `atomic_flush`,
        // all column families.
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

/// Whether the parts of a batch were found: all, none, or unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Whole,
    Absent,
    Unknown,
}

impl<'a> WriteClaim<'a> {
    /// Records that a flush has written the write's part for a column family to a table.
    fn flushed(&mut self, family: &'a str) {
        if !self.doubtful && self.batch.parts.iter().any(|part| part.family == family) {
            self.must_in.insert(family);
        }
    }

    /// Returns whether the batch exists. Fails if a required part is missing, or if only some parts
    /// of a logged batch exist.
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
