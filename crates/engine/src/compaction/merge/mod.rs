//! What of a compaction's inputs goes into its outputs.
//!
//! A [`Merge`] goes through the records of all inputs in order and stops at those that somebody may
//! still read. Of each key, from the newest version to the oldest:
//!
//! - a version in the [stripe](Snapshots) of a newer one is dropped: nobody can tell the two apart;
//! - a record that a range tombstone of its stripe covers is dropped;
//! - a deletion that everyone sees is dropped if no deeper level has the key;
//! - a single deletion and the write below it in its stripe are dropped together; a deletion below
//!   them is then as if nothing were above it;
//! - operands of a stripe are folded, over the base value where the inputs have it;
//! - what everyone sees gets sequence number 0 where nothing deeper has any of the keys, unless
//!   its number is to tell when it was written.
//!
//! Where range tombstones begin it stops too, so that outputs can be cut there.
//!
//! # Invariants
//! - What it stops at ascends strictly.
//! - A read at a snapshot, or at any sequence number above all inputs, finds the same before and
//!   after.
//! - Going on to a record allocates nothing once the buffers have grown to the size of keys and
//!   values, unless the user's own operator or filter does.
//!
//! Source: `db/compaction/compaction_iterator.cc`, `db/merge_helper.cc`.

mod blob_garbage;
mod deeper_levels;
mod inputs;
mod operands;
mod records;
mod snapshots;
mod source;
mod tombstones;
mod user_code;

use std::cmp::Ordering;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

use tailwater_format::key::{self, Sequence, TRAILER_LENGTH, ValueType, pack_trailer};
use tailwater_format::{Comparator, timed_value};

use crate::compaction::{CompactionFilter, Quiet};
use crate::db::FamilyReaders;
use crate::handover::Warmth;
use crate::merge_operator::FamilyMergeOperator;
use crate::{Error, ErrorKind, Result};

pub(crate) use blob_garbage::BlobGarbage;
pub(crate) use deeper_levels::DeeperLevels;
pub(crate) use inputs::{InputTable, Inputs};
use operands::Operands;
pub(crate) use snapshots::{Snapshots, Stripe};
pub(crate) use source::Source;
pub(crate) use tombstones::{CoverCursor, InputTombstones};

/// What a merge goes by.
pub(crate) struct Rules {
    pub(crate) comparator: Comparator,
    pub(crate) snapshots: Arc<Snapshots>,
    /// Whether nothing deeper has any of the keys.
    pub(crate) is_bottommost: bool,
    /// Sequence numbers above this tell when their records were written, and are kept.
    pub(crate) timeless_through: Sequence,
    /// Whether a deletion right below a single deletion is an error.
    pub(crate) enforces_single_deletions: bool,
    /// The first level that there are inputs of, for the filter.
    pub(crate) level: usize,
    pub(crate) filter: Option<Arc<dyn CompactionFilter>>,
    /// How operands fold and where blobs are.
    pub(crate) readers: Arc<FamilyReaders>,
    /// One of them is set when the work is to be given up.
    pub(crate) cancelled: [Arc<AtomicBool>; 2],
    /// Where the work has low weight: it stops when that is over.
    pub(crate) quiet: Option<Arc<Quiet>>,
}

/// How many records were dropped, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// A newer version of their key hides them.
    pub(crate) hidden: u64,
    /// They are deletions, or range tombstones, that have nothing left to delete.
    pub(crate) obsolete: u64,
    /// A range tombstone covers them.
    pub(crate) covered: u64,
    /// The filter removed them; where deletions were put in their place, these are counted too.
    pub(crate) filtered: u64,
    /// They are operands, and base values, that were folded into another.
    pub(crate) folded: u64,
}

impl AddAssign for Dropped {
    fn add_assign(&mut self, other: Self) {
        self.hidden += other.hidden;
        self.obsolete += other.obsolete;
        self.covered += other.covered;
        self.filtered += other.filtered;
        self.folded += other.folded;
    }
}

/// Where a [`Merge`] has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// At a record that goes into an output.
    Record,
    /// Where a range tombstone begins.
    TombstoneStart,
    /// Between two records, because the job is to have normal weight from here on.
    Pause,
    /// Behind the last record.
    End,
}

/// The records that go into outputs, one after the other.
pub(crate) struct Merge {
    rules: Rules,
    source: Source,
    cover: CoverCursor,
    deeper: DeeperLevels,
    starts: Starts,
    operator: Arc<FamilyMergeOperator>,
    operands: Operands,
    dropped: Dropped,
    /// The internal key of the record it stands on or looks at.
    key: Vec<u8>,
    /// Whether the next record is held against `key` at all: false before the first, and where the
    /// next version of its key counts as another key's.
    has_key: bool,
    sequence: Sequence,
    value_type: ValueType,
    value: Value,
    /// The last of the stripe of the version before, if that was of the same key.
    newer_stripe: Option<Sequence>,
    /// Whether a version of this key was given sequence number 0.
    has_zeroed: bool,
    /// Whether the version before, of this key, is a single deletion that goes out.
    is_after_single: bool,
    /// Whether a deletion of this key counts although a newer version hides it: what is between
    /// the two goes with a single deletion, here or in a later compaction.
    keeps_deletion: bool,
    /// A value of the filter's.
    changed: Vec<u8>,
    /// How users get at the record: as at the newest of those that it is made of.
    warmth: Warmth,
    resume: Resume,
    steps: u32,
}

/// Where the value of the record is.
#[derive(Debug, Clone, Copy)]
enum Value {
    /// There is none.
    Empty,
    /// In the source.
    Source,
    /// In the source, as a timed value.
    SourceUnpacked,
    /// It is what operands folded into.
    Folded,
    /// It is an operand.
    Operand(usize),
    /// It is the filter's.
    Changed,
}

/// How it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resume {
    /// With the record that the source stands on.
    Here,
    /// With the one behind it.
    Next,
    /// With the operand of this index, or, behind the last, with where the source stands.
    Operand(usize),
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// It is dropped, and the source still stands on it.
    Dropped,
    /// It is dropped, and the source has gone on.
    Passed,
    /// It goes out, and the source still stands on it.
    Kept,
    /// It goes out, and the source has gone on.
    KeptBehind,
    /// The operands go out as they are; the source has gone on.
    Operands,
}

/// Where range tombstones begin, in order.
#[derive(Default)]
struct Starts {
    keys: Vec<Vec<u8>>,
    next: usize,
}

/// Whether the work is to be given up, or to stop, is looked up once in so many records.
const CANCELLATION_INTERVAL: u32 = if cfg!(test) { 8 } else { 256 };

impl Merge {
    /// Before the first record of `source`. `starts` are the places where range tombstones begin,
    /// in order, as internal keys.
    pub(crate) fn new(
        rules: Rules,
        source: Source,
        tombstones: Arc<InputTombstones>,
        deeper: DeeperLevels,
        starts: Vec<Vec<u8>>,
    ) -> Self {
        Self {
            cover: CoverCursor::new(rules.comparator.clone(), tombstones),
            operator: Arc::new(rules.readers.merge_operator.clone()),
            rules,
            source,
            deeper,
            starts: Starts { keys: starts, next: 0 },
            operands: Operands::default(),
            dropped: Dropped::default(),
            key: Vec::new(),
            has_key: false,
            sequence: 0,
            value_type: ValueType::Value,
            value: Value::Empty,
            newer_stripe: None,
            has_zeroed: false,
            is_after_single: false,
            keeps_deletion: false,
            changed: Vec::new(),
            warmth: Warmth::default(),
            resume: Resume::Here,
            steps: 0,
        }
    }

    /// The internal key of where it has stopped.
    #[inline]
    pub(crate) fn key(&self, stop: Stop) -> &[u8] {
        match stop {
            Stop::Record => &self.key,
            Stop::TombstoneStart => self.starts.last(),
            Stop::Pause | Stop::End => &[],
        }
    }

    /// The value of the record it has stopped at.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match self.value {
            Value::Empty => &[],
            Value::Source => self.source.value(),
            Value::SourceUnpacked => {
                timed_value::split(self.source.value()).map_or(&[], |(value, _)| value)
            }
            Value::Folded => self.operands.folded(),
            Value::Operand(at) => self.operands.get(at),
            Value::Changed => &self.changed,
        }
    }

    /// How users get at the record it has stopped at.
    #[inline]
    pub(crate) fn warmth(&self) -> Warmth {
        self.warmth
    }

    /// How many records were dropped so far.
    pub(crate) fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// The records it takes.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Goes on to the next stop.
    ///
    /// # Errors
    /// Cancelled, where the work is to be given up; those of reading; corruption, for damaged
    /// records and single deletions against their contract; those of the user's code.
    pub(crate) fn advance(&mut self) -> Result<Stop> {
        match std::mem::replace(&mut self.resume, Resume::Here) {
            Resume::Here => {}
            Resume::Next => self.source.next()?,
            Resume::Operand(at) if at < self.operands.len() => return self.keep_operand(at),
            Resume::Operand(_) => {}
        }
        loop {
            if self.is_interrupted()? {
                return Ok(Stop::Pause);
            }
            if self.reaches_start() {
                return Ok(Stop::TombstoneStart);
            }
            if !self.source.valid() {
                return Ok(Stop::End);
            }
            self.warmth = self.source.warmth();
            match self.take()? {
                Taken::Dropped => self.source.next()?,
                Taken::Passed => {}
                Taken::Kept => {
                    self.resume = Resume::Next;
                    return self.keep();
                }
                Taken::KeptBehind => return self.keep(),
                Taken::Operands => return self.keep_operand(0),
            }
        }
    }

    #[inline]
    fn is_interrupted(&mut self) -> Result<bool> {
        self.check_cancelled()?;
        if self.steps % CANCELLATION_INTERVAL != 1 {
            return Ok(false);
        }
        let is_over = self.rules.quiet.as_ref().is_some_and(|quiet| quiet.is_over());
        if is_over {
            // Once.
            self.rules.quiet = None;
        }
        Ok(is_over)
    }

    /// Among records that are looked at together, where it cannot stop.
    #[inline]
    fn check_cancelled(&mut self) -> Result<()> {
        self.steps = self.steps.wrapping_add(1);
        if self.steps % CANCELLATION_INTERVAL == 1
            && self.rules.cancelled.iter().any(|flag| flag.load(atomic::Ordering::Relaxed))
        {
            return Err(Error::new(ErrorKind::Cancelled, "the compaction was cancelled"));
        }
        Ok(())
    }

    /// Whether a range tombstone begins before the source's record.
    fn reaches_start(&mut self) -> bool {
        let Some(start) = self.starts.peek() else { return false };
        let reaches = !self.source.valid()
            || key::compare_internal(&self.rules.comparator, start, self.source.key()).is_lt();
        self.starts.next += usize::from(reaches);
        reaches
    }

    /// Passes by the range tombstones that begin before the source's record: among records that
    /// were looked at together.
    fn pass_starts(&mut self) {
        while self.reaches_start() {}
    }

    /// The user key of the record that it looks at.
    #[inline]
    fn user_key(&self) -> &[u8] {
        key::user_key(&self.key)
    }

    /// Whether the source stands on a version of the same key.
    #[inline]
    fn is_same_key(&self) -> bool {
        self.source.valid()
            && self.rules.comparator.compare(self.source.user_key(), self.user_key())
                == Ordering::Equal
    }

    /// Whether the record it looks at is visible to everyone.
    #[inline]
    fn everyone_sees(&self) -> bool {
        self.sequence <= self.rules.snapshots.earliest()
    }

    /// Stops at the record that it looked at.
    #[inline]
    fn keep(&mut self) -> Result<Stop> {
        let is_zeroed = self.rules.is_bottommost
            && self.everyone_sees()
            && self.sequence <= self.rules.timeless_through
            && self.value_type != ValueType::Merge;
        if is_zeroed {
            self.sequence = 0;
            self.has_zeroed = true;
        }
        let trailer = pack_trailer(self.sequence, self.value_type as u8);
        let end = self.key.len().saturating_sub(TRAILER_LENGTH);
        self.key.truncate(end);
        self.key.extend_from_slice(&trailer.to_le_bytes());
        match (self.value_type, &self.value) {
            (ValueType::BlobIndex | ValueType::WideColumnEntity, Value::Source) => {
                self.source.note_output(&self.key)?;
            }
            (ValueType::WideColumnEntity, Value::Folded) => {
                self.source.note_output_of(&self.key, self.operands.folded())?;
            }
            _ => {}
        }
        Ok(Stop::Record)
    }

    /// Stops at an operand that was not folded.
    fn keep_operand(&mut self, at: usize) -> Result<Stop> {
        self.resume = Resume::Operand(at + 1);
        self.sequence = self.operands.sequence(at);
        self.value_type = ValueType::Merge;
        self.value = Value::Operand(at);
        self.keep()
    }
}

impl Starts {
    fn peek(&self) -> Option<&[u8]> {
        self.keys.get(self.next).map(Vec::as_slice)
    }

    /// The one that was reached last.
    fn last(&self) -> &[u8] {
        let last = self.next.checked_sub(1).and_then(|last| self.keys.get(last));
        last.map_or(&[], Vec::as_slice)
    }
}
