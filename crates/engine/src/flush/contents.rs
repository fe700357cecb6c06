//! The records of memtables that go into a table.
//!
//! If no snapshot lies between two versions of a key, only the newer one can be read. The older one
//! is dropped, unless the newer one is a merge operand, which needs it. A version that a range
//! tombstone hides from every reader is dropped, too.
//!
//! Single deletions are kept, and so are the older writes that they may delete. If only one of the
//! two were dropped, a compaction would pair the other with the wrong record. A deletion that is
//! older than such a write is kept as well: a compaction drops the single deletion and the write
//! together, and afterwards only the older deletion hides records in deeper levels. If there is a
//! hidden write in its place, the contract of single deletions was broken: the key was put again
//! without a deletion in between. The hidden write is then replaced by a deletion.

use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{self, ParsedKey, Sequence, ValueType, pack_trailer};

use crate::compaction::{Snapshots, Stripe};
use crate::contracts::{Contract, Violations};
use crate::error::{Error, ErrorKind, Result};
use crate::iterator::{Leaf, MergingIterator};
use crate::memtable::MemTable;
use crate::range_tombstone::StripedFragment;

/// The records of memtables that go into a table, in order.
pub(super) struct Contents<'t> {
    comparator: Comparator,
    merged: MergingIterator,
    snapshots: &'t Snapshots,
    cover: Cover<'t>,
    /// The user key of the last kept record.
    last_key: Vec<u8>,
    /// The effect of the last kept record on older records of its key.
    last: Last,
    /// The internal key of a deletion that replaces a write.
    deletion: Vec<u8>,
    violations: Violations,
    /// Number of records read.
    read: u64,
}

/// The effect of a kept record on older records of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// No older record is hidden: the kept record is a merge operand, or no record of the key was
    /// kept yet.
    Transparent,
    /// The kept record is a single deletion. It hides no older record: a flush drops no record
    /// because of a single deletion.
    SingleDeletion,
    /// The record, which has this sequence number, hides an older one if no snapshot lies between
    /// the two.
    Hides(Sequence),
    /// Like `Hides`, but the next older record is kept if it is a deletion, and replaced by a
    /// deletion if it is a write. The kept record is a value, and the next newer record of its key
    /// is a single deletion. A compaction will drop these two together. After that, the older
    /// deletion is needed to hide the records that are still older.
    HidesAllBut(Sequence),
}

/// What happens to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Dropped,
    Kept,
    /// The record is a write, and is replaced by a deletion with its sequence number.
    Deletion,
}

impl<'t> Contents<'t> {
    /// Creates an iterator over the records of `memtables`, which are given newest first.
    /// `tombstones` are the range tombstones of all memtables.
    pub(super) fn new(
        comparator: &Comparator,
        memtables: &[Arc<MemTable>],
        snapshots: &'t Snapshots,
        tombstones: &'t [StripedFragment<'t>],
    ) -> Result<Self> {
        let leaves = memtables
            .iter()
            .map(|memtable| Leaf::of_memtable(Arc::clone(memtable), key::MAX_SEQUENCE))
            .collect();
        let mut merged = MergingIterator::new(comparator.clone(), leaves);
        merged.seek_to_first()?;
        Ok(Self {
            comparator: comparator.clone(),
            merged,
            snapshots,
            cover: Cover { comparator: comparator.clone(), tombstones },
            last_key: Vec::new(),
            last: Last::Transparent,
            deletion: Vec::new(),
            violations: Violations::default(),
            read: 0,
        })
    }

    /// Calls `record` with the internal key and value of every record that the flush keeps.
    pub(super) fn for_each(
        &mut self,
        mut record: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut is_first = true;
        while self.merged.valid() {
            let parsed = ParsedKey::parse(self.merged.key())
                .map_err(|error| Error::new(ErrorKind::Corruption, error.to_string()))?;
            let same_key =
                !is_first && self.comparator.compare(parsed.user_key, &self.last_key).is_eq();
            let last = if same_key { self.last } else { Last::Transparent };
            self.read += 1;
            let stripe = self.snapshots.stripe(parsed.sequence);
            let fate = last.fate(&parsed, stripe);
            if fate != Fate::Dropped && !self.cover.hides(&parsed, stripe) {
                if !same_key {
                    self.last_key.clear();
                    self.last_key.extend_from_slice(parsed.user_key);
                }
                is_first = false;
                if fate == Fate::Kept {
                    self.last = last.then(parsed.value_type, parsed.sequence);
                    record(self.merged.key(), self.merged.value())?;
                } else {
                    self.last = Last::Hides(parsed.sequence);
                    let trailer = pack_trailer(parsed.sequence, ValueType::Deletion as u8);
                    self.deletion.clear();
                    key::put_internal_key(&mut self.deletion, parsed.user_key, trailer);
                    let what = "a single deletion of a key that was written twice";
                    self.violations.note(Contract::SingleDeletion, parsed.user_key, what);
                    record(&self.deletion, &[])?;
                }
            }
            self.merged.next()?;
        }
        Ok(())
    }

    /// Returns the violations of the contract of single deletions that the records show.
    pub(super) fn violations(&self) -> &Violations {
        &self.violations
    }

    /// Returns the number of records read from the memtables, including dropped ones.
    pub(super) fn read(&self) -> u64 {
        self.read
    }
}

impl Last {
    /// Whether `record` is kept, because some reader can see it or because a later flush or
    /// compaction needs it. `self` is the effect of the last kept record of the same key, which is
    /// newer. `stripe` is the range of sequence numbers between two adjacent snapshots that
    /// contains `record`.
    fn fate(self, record: &ParsedKey<'_>, stripe: Stripe) -> Fate {
        match (self, record.value_type) {
            (_, ValueType::SingleDeletion) | (Self::HidesAllBut(_), ValueType::Deletion) => {
                Fate::Kept
            }
            (Self::Hides(newer), _) if newer <= stripe.newest => Fate::Dropped,
            (Self::HidesAllBut(newer), _) if newer <= stripe.newest => Fate::Deletion,
            _ => Fate::Kept,
        }
    }

    /// Returns the effect of the kept records of a key on its older records, after one more record
    /// is kept. That record has this type and sequence number. `self` is the effect without it.
    fn then(self, value_type: ValueType, sequence: Sequence) -> Self {
        match value_type {
            ValueType::Merge => Self::Transparent,
            ValueType::SingleDeletion => Self::SingleDeletion,
            ValueType::Deletion => Self::Hides(sequence),
            _ if self == Self::SingleDeletion => Self::HidesAllBut(sequence),
            _ => Self::Hides(sequence),
        }
    }
}

/// Finds out whether range tombstones hide records. The records must be given in ascending order of
/// their keys.
struct Cover<'t> {
    comparator: Comparator,
    /// The tombstones that end after the key of the record that was last passed to
    /// [`Cover::hides`]. Only these can hide later records.
    tombstones: &'t [StripedFragment<'t>],
}

impl Cover<'_> {
    /// Whether a tombstone hides a record from every reader. Returns false for single deletions,
    /// which are always kept.
    fn hides(&mut self, record: &ParsedKey<'_>, stripe: Stripe) -> bool {
        if record.value_type == ValueType::SingleDeletion {
            return false;
        }
        while let Some((first, rest)) = self.tombstones.split_first() {
            if self.comparator.compare(record.user_key, first.end).is_lt() {
                let visible = first.sequences.iter().find(|&&sequence| sequence <= stripe.newest);
                return visible.is_some_and(|&sequence| sequence > record.sequence)
                    && self.comparator.compare(first.start, record.user_key).is_le();
            }
            self.tombstones = rest;
        }
        false
    }
}
