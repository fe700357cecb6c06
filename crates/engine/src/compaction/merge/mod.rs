//! The merge: selects the records of the inputs of a compaction or flush that are written to its
//! outputs.
//!
//! A [`Merge`] is an iterator over the records of all inputs, in order. Each [`Merge::advance`]
//! goes on to the next record that a reader may still need, and stops there. For each key, from the
//! newest version to the oldest:
//!
//! - a version in the same [stripe](Snapshots) (the sequence numbers between two snapshots) as a
//!   newer version is dropped, since no reader can see it;
//! - a record that a range tombstone of its stripe covers is dropped;
//! - a deletion that all readers see is dropped if no deeper level has the key;
//! - a single deletion is dropped together with the next older write if both are in one stripe; a
//!   deletion that is older than both is then processed as if it were the newest version;
//! - a single deletion becomes a deletion if older versions show that its contract was broken;
//! - the merge operands of a stripe are merged with each other, and with the base value if the
//!   inputs have it; operands whose merge fails, or would make an entry that is too long, are kept
//!   as they are;
//! - a record that all readers see gets sequence number 0 if no deeper level has any of the
//!   compaction's keys, unless the record's write time is derived from its sequence number.
//!
//! A flush knows nothing of deeper levels, and keeps merge operands, and single deletions with
//! their writes, as they are.
//!
//! A merge also stops where range tombstones begin, so that outputs can be cut there.
//!
//! # Invariants
//! - The keys at which a merge stops ascend strictly.
//! - A read at a snapshot, or at any sequence number above all inputs, has the same result before
//!   and after the compaction. The exceptions are the decisions of a compaction filter, and a key
//!   that was put again without a deletion before it was removed by a single deletion: its older
//!   version reappears if it is in a deeper level, where the merge does not see it.
//! - The contents of a key never end the merge. A violated [contract](crate::contracts) is noted,
//!   and the merge goes on. Only a damaged table ends it.
//! - Advancing allocates nothing once the buffers have grown to the size of keys and values, unless
//!   a user-defined operator or filter does.
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

use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

use tailwater_format::key::{self, Sequence, TRAILER_LENGTH, ValueType, pack_trailer};
use tailwater_format::{Comparator, timed_value};

use crate::column_family::FamilyReaders;
use crate::compaction::LowPriority;
use crate::compaction_filter::CompactionFilter;
use crate::contracts::Violations;
use crate::error::{Error, ErrorKind, Result};
use crate::handover::Warmth;
use crate::merge_operator::FamilyMergeOperator;

pub(crate) use blob_garbage::BlobGarbage;
pub(crate) use deeper_levels::DeeperLevels;
pub(crate) use inputs::{InputTable, Inputs};
use operands::Operands;
pub(crate) use snapshots::Snapshots;
pub(crate) use source::Source;
pub(crate) use tombstones::{CoverCursor, InputTombstones};

/// The parameters of a merge.
pub(crate) struct Rules {
    pub(crate) comparator: Comparator,
    pub(crate) snapshots: Arc<Snapshots>,
    /// Whether the records are those of memtables. Merge operands, single deletions and their
    /// writes are then kept as they are. Timed values are, too: they have a write time where those
    /// of tables have a preferred sequence number.
    pub(crate) is_flush: bool,
    /// Whether no deeper level has any of the compaction's keys.
    pub(crate) is_bottommost: bool,
    /// The last sequence number whose write time need not be preserved. Records with higher
    /// sequence numbers keep these numbers, because write times are derived from sequence numbers.
    pub(crate) preserve_after: Sequence,
    /// Whether violations of the contract of single deletions are noted. They have the same effect
    /// if they are not.
    pub(crate) reports_single_deletions: bool,
    /// The first input level, which the compaction filter receives as an argument.
    pub(crate) level: usize,
    pub(crate) filter: Option<CompactionFilter>,
    /// The column family's readers, for blob files, and its merge operator.
    pub(crate) readers: Arc<FamilyReaders>,
    /// Flags that cancel the merge when any of them is set.
    pub(crate) cancelled: Vec<Arc<AtomicBool>>,
    /// If the merge runs at low priority, indicates when the merge must pause for a switch to
    /// normal priority.
    pub(crate) low_priority: Option<Arc<LowPriority>>,
}

/// Numbers of dropped records, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Number of records that were dropped because a newer version of their key hides them.
    pub(crate) hidden: u64,
    /// Number of deletions and range tombstones that were dropped because they hide nothing any
    /// more.
    pub(crate) obsolete: u64,
    /// Number of records that were dropped because a range tombstone covers them.
    pub(crate) covered: u64,
    /// Number of records that the compaction filter removed or replaced by a deletion.
    pub(crate) filtered: u64,
    /// Number of merge operands and base values that were merged into another record.
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

/// What a [`Merge`] has stopped at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A record to be written.
    Record,
    /// The start of a range tombstone, at which an output may be cut.
    TombstoneStart,
    /// A point between two records. The merge pauses there because the job must switch to normal
    /// priority.
    Pause,
    /// The end of the records.
    End,
}

/// An iterator over the records to be written. It also stops at the start of each range tombstone.
pub(crate) struct Merge {
    rules: Rules,
    source: Source,
    cover: CoverCursor,
    deeper: DeeperLevels,
    starts: Starts,
    operator: Arc<FamilyMergeOperator>,
    operands: Operands,
    dropped: Dropped,
    /// The internal key of the current record.
    key: Vec<u8>,
    /// Whether the next record is compared with `key`, to see whether it is another version of the
    /// same key. If false, the next record is processed as the newest version of its key, without a
    /// comparison. False before the first record.
    has_key: bool,
    sequence: Sequence,
    value_type: ValueType,
    value: Value,
    /// The highest sequence number of the stripe that contains the next newer version of this key;
    /// `None` if this is the newest version.
    newer_stripe: Option<Sequence>,
    /// Whether a newer version of this key was written with sequence number 0.
    has_zeroed: bool,
    /// What the versions processed before, the next newer ones of this key, mean for the next one.
    after_single: AfterSingle,
    violations: Violations,
    /// The value by which the compaction filter replaced the current value.
    changed: Vec<u8>,
    /// The warmth of the input block that has the current record or, if the current record is the
    /// result of a merge, the newest merged record.
    warmth: Warmth,
    resume: Resume,
    steps: u32,
}

/// The location of the current value.
#[derive(Debug, Clone, Copy)]
enum Value {
    /// The current record has no value.
    Empty,
    /// The value of the source's current record.
    Source,
    /// The value of the source's current record, without the preferred sequence number at its end.
    /// The record is a timed value (`kTypeValuePreferredSeqno`).
    SourceUnpacked,
    /// The result of merging the operands.
    Folded,
    /// The operand at this index.
    Operand(usize),
    /// The value by which the compaction filter replaced the original one. It is in
    /// `Merge::changed`.
    Changed,
}

/// Where the next [`Merge::advance`] continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resume {
    /// The merge continues with the source's current record.
    Here,
    /// The merge continues with the source's next record.
    Next,
    /// The merge continues with the operand at this index. If there is no such operand, the merge
    /// continues with the source's current record.
    Operand(usize),
}

/// What a single deletion, processed before, means for the next older version of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum AfterSingle {
    /// Nothing: the version processed before is neither a single deletion nor its write.
    #[default]
    Nothing,
    /// The version processed before is a single deletion that is written to the output. The next
    /// older version is in another stripe.
    Kept,
    /// The versions processed before are a single deletion and its write, in different stripes.
    /// Both are written to the output, and a later compaction drops them together. From then on, an
    /// older deletion is needed to hide what is still older, so it is kept although the write hides
    /// it.
    PairKept,
    /// The version processed before is a single deletion that was dropped, together with its write
    /// unless the next older version is a deletion, too. An older deletion is kept, as after
    /// `PairKept`.
    Dropped,
}

/// The outcome of processing a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// The record is dropped, and the source is still on it.
    Dropped,
    /// The record is dropped, and the source has already moved to the next record.
    Passed,
    /// The record is to be written, and the source is still on it.
    Kept,
    /// The record is to be written, and the source has already moved to the next record.
    KeptBehind,
    /// The operands are to be written unmerged, and the source has already moved past them.
    Operands,
}

/// The starts of range tombstones, in order.
#[derive(Default)]
struct Starts {
    keys: Vec<Vec<u8>>,
    next: usize,
}

/// Number of records between two checks whether the merge must stop or pause.
const CANCELLATION_INTERVAL: u32 = if cfg!(test) { 8 } else { 256 };

impl Merge {
    /// Creates a merge that is positioned before the first record of `source`. `starts` are the
    /// internal keys at which range tombstones start, in order.
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
            after_single: AfterSingle::Nothing,
            violations: Violations::default(),
            changed: Vec::new(),
            warmth: Warmth::default(),
            resume: Resume::Here,
            steps: 0,
        }
    }

    /// Returns the internal key at which the merge has stopped.
    #[inline]
    pub(crate) fn key(&self, stop: Stop) -> &[u8] {
        match stop {
            Stop::Record => &self.key,
            Stop::TombstoneStart => self.starts.last(),
            Stop::Pause | Stop::End => &[],
        }
    }

    /// Returns the value of the current record.
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

    #[inline]
    pub(crate) fn warmth(&self) -> Warmth {
        self.warmth
    }

    /// Returns the numbers of records dropped so far.
    pub(crate) fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Removes and returns the violations of contracts noted so far.
    pub(crate) fn take_violations(&mut self) -> Violations {
        std::mem::take(&mut self.violations)
    }

    /// Returns the source of records.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Advances to the next [`Stop`]: a record to be written, the start of a range tombstone, a
    /// pause, or the end.
    ///
    /// # Errors
    /// Cancelled; read errors; corruption, for damaged records.
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
        let is_over =
            self.rules.low_priority.as_ref().is_some_and(|low_priority| low_priority.is_over());
        if is_over {
            // From now on, the compaction keeps normal priority, so it is no longer checked whether
            // it must leave low priority.
            self.rules.low_priority = None;
        }
        Ok(is_over)
    }

    /// Returns an error if the compaction is cancelled. Used between records that are processed
    /// together, where the merge can be cancelled but cannot pause.
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

    /// Whether the start of the next range tombstone sorts before the source's current record, or
    /// the source has no more records. If so, advances past this start.
    fn reaches_start(&mut self) -> bool {
        let Some(start) = self.starts.peek() else { return false };
        let reaches = !self.source.valid()
            || key::compare_internal(&self.rules.comparator, start, self.source.key()).is_lt();
        self.starts.next += usize::from(reaches);
        reaches
    }

    /// Skips the starts of range tombstones that sort before the source's record. No output can be
    /// cut at a skipped start, because the records around it were processed together.
    fn pass_starts(&mut self) {
        while self.reaches_start() {}
    }

    /// Skips like [`Merge::pass_starts`], but only the starts at the current user key. RocksDB
    /// skips these starts below a single deletion, even if no older version of the key is there.
    fn pass_starts_of_key(&mut self) {
        while self.starts.peek().is_some_and(|start| self.is_of_key(start)) && self.reaches_start()
        {
        }
    }

    /// Returns the user key of the record that is being processed.
    #[inline]
    fn user_key(&self) -> &[u8] {
        key::user_key(&self.key)
    }

    /// Whether the source's record has the same user key as the record that is being processed.
    #[inline]
    fn is_same_key(&self) -> bool {
        self.source.valid() && self.is_of_key(self.source.key())
    }

    /// Whether an internal key has the same user key as the record that is being processed.
    #[inline]
    fn is_of_key(&self, internal_key: &[u8]) -> bool {
        self.rules.comparator.compare(key::user_key(internal_key), self.user_key()).is_eq()
    }

    /// Whether all snapshots see the record that is being processed.
    #[inline]
    fn everyone_sees(&self) -> bool {
        self.sequence <= self.rules.snapshots.earliest()
    }

    /// Completes the current record, which is to be written, and returns [`Stop::Record`].
    #[inline]
    fn keep(&mut self) -> Result<Stop> {
        let is_zeroed = self.rules.is_bottommost
            && self.everyone_sees()
            && self.sequence <= self.rules.preserve_after
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

    /// Makes the operand at index `at` the current record, which is to be written, and returns
    /// [`Stop::Record`].
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

    /// Returns the range tombstone start that the merge passed last, as an internal key; empty if
    /// the merge has passed none.
    fn last(&self) -> &[u8] {
        let last = self.next.checked_sub(1).and_then(|last| self.keys.get(last));
        last.map_or(&[], Vec::as_slice)
    }
}
