//! What of memtables goes into a table.
//!
//! Of two versions of a key that no snapshot tells apart only the newer one can ever be read. The
//! older one is dropped, unless the newer one is a merge operand, which needs what is below. So is
//! a version that a range tombstone covers for everyone who would see it.
//!
//! Single deletions stay, and what they may have to meet below them does too: were one dropped
//! without its write, or a write without its deletion, compaction would pair the wrong two. A
//! deletion below such a write stays as well. Compaction drops the two above it, and then it alone
//! hides what is in deeper levels.

use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{self, ParsedKey, Sequence, ValueType};

use crate::compaction::{Snapshots, Stripe};
use crate::error::{Error, ErrorKind, Result};
use crate::iterator::{Leaf, MergingIterator};
use crate::memtable::MemTable;
use crate::range_tombstone::StripedFragment;

/// The records of memtables that a table keeps, in order.
pub(super) struct Contents<'t> {
    comparator: Comparator,
    merged: MergingIterator,
    snapshots: &'t Snapshots,
    cover: Cover<'t>,
    /// The user key of the last record that was kept.
    last_key: Vec<u8>,
    /// What that record means for older ones of its key.
    last: Last,
    /// How many records were looked at.
    read: u64,
}

/// What a record that was kept means for older ones of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// It hides none.
    Transparent,
    /// It is a single deletion, and so hides none.
    SingleDeletion,
    /// It hides those that no snapshot tells from it.
    Hides(Sequence),
    /// The same, but not deletions: a single deletion will take it away.
    HidesAllBut(Sequence),
}

impl<'t> Contents<'t> {
    /// The records of `memtables`, given newest first, whose range tombstones are `tombstones`.
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
            read: 0,
        })
    }

    /// Calls `record` with the internal key and value of every record that is kept.
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
            if last.keeps(&parsed, stripe) && !self.cover.hides(&parsed, stripe) {
                self.last = last.then(parsed.value_type, parsed.sequence);
                if !same_key {
                    self.last_key.clear();
                    self.last_key.extend_from_slice(parsed.user_key);
                }
                is_first = false;
                record(self.merged.key(), self.merged.value())?;
            }
            self.merged.next()?;
        }
        Ok(())
    }

    /// How many records the memtables gave, those that were dropped too.
    pub(super) fn read(&self) -> u64 {
        self.read
    }
}

impl Last {
    /// Whether it lets an older record of its key, which is in this stripe, be seen, or needs it.
    fn keeps(self, record: &ParsedKey<'_>, stripe: Stripe) -> bool {
        match (self, record.value_type) {
            (_, ValueType::SingleDeletion) | (Self::HidesAllBut(_), ValueType::Deletion) => true,
            (Self::Hides(newer) | Self::HidesAllBut(newer), _) => newer > stripe.newest,
            (Self::Transparent | Self::SingleDeletion, _) => true,
        }
    }

    /// After the next record of the same key that is kept.
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

/// Range tombstones beside records that come in order.
struct Cover<'t> {
    comparator: Comparator,
    /// Those that do not end before the last record.
    tombstones: &'t [StripedFragment<'t>],
}

impl Cover<'_> {
    /// Whether a tombstone covers a record for everyone who would see it. Single deletions are
    /// left alone.
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
