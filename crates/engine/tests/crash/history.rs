//! The history of a run. From it follows which operations may and which must survive a crash at any
//! storage call of the run.
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
//! - Only operations that were started. A logged batch survives completely or not at all.
//! - Logged batches that need not survive may be lost, but only from the end: no batch survives
//!   without the batches before it. In the mode `kSkipAnyCorruptedRecords`, which recovers every
//!   readable batch, any of them may be missing.
//! - The files of one ingestion survive all together or not at all. They may survive even if
//!   earlier writes are lost.
//! - Unlogged writes may be lost, but only from the end of each column family, independently of the
//!   other column families. With `atomic_flush` this applies to all column families together.
//! - A write that returned an error survives completely or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use tailwater_format::record_log::RecoveryMode;

use crate::Checked;
use crate::model::{Batch, DEFAULT, Durability, State, difference};

/// An operation on the database.
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
    /// Closes the database, either by `close` or by dropping its last handle.
    Close,
    /// Creates a checkpoint in this directory. `State` is the expected contents of the checkpoint.
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
    /// The step returned an error. It may or may not have taken effect.
    Failed,
    /// The step, which creates or drops a column family, returned an error, and a later reading
    /// showed that it had no effect.
    Void,
}

/// A step and its outcome. All storage calls of a run are numbered; `calls` is the range of those
/// made during the step.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) step: Step,
    pub(crate) calls: Range<u64>,
    pub(crate) outcome: Outcome,
}

/// The steps of a run, and the options of the database that affect which writes must survive.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// The contents of the database at the start of the run; empty if there was no database.
    pub(crate) base: State,
    pub(crate) entries: Vec<Entry>,
    /// Whether the log records of acknowledged writes stay in the process's memory until the log is
    /// flushed.
    pub(crate) manual_wal_flush: bool,
    /// Whether a flush covers all column families atomically.
    pub(crate) atomic_flush: bool,
    /// Whether closing the database flushes unlogged writes.
    pub(crate) flushes_when_closed: bool,
}

/// How a run ended before the contents of its database are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A power cut just before the storage call with this number.
    PowerCut(u64),
    /// A crash of the process just before the storage call with this number.
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

/// What must be true of one write after the run has ended.
#[derive(Debug)]
struct WriteClaim<'a> {
    batch: &'a Batch,
    /// Whether all parts of the write must be found after the run. A part is the changes to one
    /// column family.
    must: bool,
    /// The column families that must contain their part of the write, because the part was flushed
    /// to a table.
    must_in: BTreeSet<&'a str>,
    /// Whether the write may be lost although later writes survive. That is so if the write
    /// returned an error, or if the database was reopened while the write was neither in a table
    /// nor in a log that the process had passed to the operating system.
    doubtful: bool,
    /// Whether the process has handed the log record of the write to the operating system.
    is_written: bool,
}

/// What must be true of the contents of a database after its run has ended as in `ending`.
#[derive(Debug)]
pub(crate) struct Claims<'a> {
    history: &'a History,
    ending: Ending,
    writes: Vec<WriteClaim<'a>>,
    families: BTreeMap<&'a str, Existence>,
    /// Whether the database must exist after the run.
    pub(crate) exists: bool,
    /// For each checkpoint: its directory, its contents, and whether it must exist.
    pub(crate) checkpoints: Vec<(&'a PathBuf, &'a State, bool)>,
}

impl History {
    /// Adjusts the history to the contents `found` of a reopened database. If a part of a write is
    /// missing in `found`, the part was lost and must not reappear later, so this removes the part
    /// from the history. If the creation or removal of a column family failed, its outcome becomes
    /// known.
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

    /// Returns what must be true of the contents of the database after this ending.
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
    /// Adds what a step that was started requires of the contents of the database. `acknowledged`
    /// tells whether the step returned success before the run ended.
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

    /// Records that the process has passed all logs to the operating system and, if `device`, that
    /// the logs are synced.
    fn log_reached(&mut self, device: bool) {
        let survives = device || matches!(self.ending, Ending::ProcessCrash(_));
        for write in &mut self.writes {
            if write.batch.durability != Durability::Unlogged {
                write.is_written = true;
                write.must |= survives && !write.doubtful;
            }
        }
    }

    /// Checks that `found`, the contents of a database, is as `self` requires. `mode` is the
    /// recovery mode in which the database was opened.
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

    /// Checks that a logged batch survives only if all logged batches before it survive, too. Skips
    /// batches that are `doubtful`: they may be lost although later batches survive.
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

    /// Checks that an unlogged write survives in a column family only if all earlier unlogged
    /// writes to that column family survive, too. Skips writes that are `doubtful`: they may be
    /// lost although later writes survive.
    fn judge_unlogged(&self, found: &State) -> Checked<()> {
        // The index of the first lost write of each group. A group is one column family or, with
        // `atomic_flush`, all column families.
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

/// Which part of a batch was found in the database: the whole batch, or nothing of it. `Unknown` if
/// the contents of the database do not show whether the batch was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Whole,
    Absent,
    Unknown,
}

impl<'a> WriteClaim<'a> {
    /// Notes that a flush has written the changes of this write to the column family `family` into
    /// a table.
    fn flushed(&mut self, family: &'a str) {
        if !self.doubtful && self.batch.parts.iter().any(|part| part.family == family) {
            self.must_in.insert(family);
        }
    }

    /// Returns whether the batch was found. Fails if a part is missing that must have survived, or
    /// if some parts of a logged batch were found and others were not.
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
