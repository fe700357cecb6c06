//! What of memtables goes into a table.
//!
//! Of two versions of a key that no snapshot tells apart only the newer one can ever be read. The
//! older one is dropped, unless the newer one is a merge operand, which needs what is below. Single
//! deletions stay, and what they may have to meet below them does too: were one dropped without its
//! write, or a write without its deletion, compaction would pair the wrong two.

use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{self, ParsedKey, Sequence, ValueType};

use crate::iterator::{Leaf, MergingIterator};
use crate::memtable::MemTable;
use crate::{Error, ErrorKind, Result};

/// The records of memtables that a table keeps, in order.
pub(super) struct Contents {
    comparator: Comparator,
    merged: MergingIterator,
    /// The sequence numbers that snapshots show, in order.
    snapshots: Vec<Sequence>,
    /// The user key of the last record that was kept.
    last_key: Vec<u8>,
    /// That record's sequence number, if it hides older records of its key.
    hides_from: Option<Sequence>,
    /// How many records were looked at.
    read: u64,
}

impl Contents {
    /// The records of `memtables`, given newest first.
    pub(super) fn new(
        comparator: &Comparator,
        memtables: &[Arc<MemTable>],
        snapshots: Vec<Sequence>,
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
            last_key: Vec::new(),
            hides_from: None,
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
            let hidden = same_key
                && parsed.value_type != ValueType::SingleDeletion
                && self.hides_from.is_some_and(|newer| self.hides(newer, parsed.sequence));
            self.read += 1;
            if !hidden {
                let hides =
                    !matches!(parsed.value_type, ValueType::Merge | ValueType::SingleDeletion);
                let sequence = parsed.sequence;
                self.hides_from = hides.then_some(sequence);
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

    /// Whether no snapshot shows the version at `older` rather than the one at `newer`.
    fn hides(&self, newer: Sequence, older: Sequence) -> bool {
        let at = self.snapshots.partition_point(|&snapshot| snapshot < older);
        self.snapshots.get(at).is_none_or(|&snapshot| snapshot >= newer)
    }
}
