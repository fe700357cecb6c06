//! Moving a [`DbIterator`] backward. The records of a key then come oldest first. Any newer record
//! may change the key's value, so all records of the key are read.
//!
//! As an exception, in a run of the merged sources ([`MergingIterator::begin_run`]) every key has
//! one version. The merged sources then stay on the key's record, and nothing is copied.
//!
//! [`MergingIterator::begin_run`]: crate::iterator::MergingIterator::begin_run

use std::cmp::Ordering;

use tailwater_format::key::{self, ValueType};

use super::{DbIterator, Direction, EntryLocation, FIRST_TRAILER, set_internal_key};
use crate::error::Result;
use crate::iterator::merging::RunStep;

/// The base value of a key, as far as its records have been read. Backward iteration reads the
/// records of a key from the oldest to the newest. Merge operands that are newer than the base
/// value are collected separately, in `DbIterator::operands`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    /// The key has no base value: no record has set one, or a later record deleted it.
    Nothing,
    /// `DbIterator::value` holds the bytes of a record of this type.
    Record(ValueType),
}

impl DbIterator {
    pub(super) fn step_backward(&mut self) -> Result<()> {
        if self.direction == Direction::Forward {
            self.direction = Direction::Backward;
            let mut target = std::mem::take(&mut self.target);
            set_internal_key(&mut target, self.key(), FIRST_TRAILER);
            self.target = target;
            self.location = EntryLocation::Nowhere;
            self.merged.seek_for_prev(&self.target)?;
        } else if self.location == EntryLocation::OnRecord {
            match self.merged.previous_in_run(self.view.snapshot) {
                RunStep::Within => return Ok(()),
                RunStep::Left => {}
                RunStep::Stays => self.merged.previous()?,
            }
        }
        self.find_backward()
    }

    /// Moves backward, beginning with the current record of the merged sources, to the first key
    /// that has a value.
    pub(super) fn find_backward(&mut self) -> Result<()> {
        self.location = EntryLocation::Nowhere;
        while self.merged.valid() {
            let user_key = key::user_key(self.merged.key());
            if !self.within_bounds(user_key) {
                return Ok(());
            }
            if self.view.prefix_extractor.is_none() {
                let bound = self.view.lower_bound.as_deref();
                if self.merged.begin_run(self.view.snapshot, bound) {
                    self.location = EntryLocation::OnRecord;
                    return Ok(());
                }
            }
            let user_key = key::user_key(self.merged.key());
            self.key.clear();
            self.key.extend_from_slice(user_key);
            self.location = self.fold_key()?;
            if self.location != EntryLocation::Nowhere {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads all records of the key in `self.key`; the merged sources are before the key
    /// afterwards. Computes the key's value, and returns where the value is stored, or
    /// [`EntryLocation::Nowhere`] if the key has no value.
    fn fold_key(&mut self) -> Result<EntryLocation> {
        let mut base = Base::Nothing;
        let mut passed = 0;
        self.operands.clear();
        while self.merged.valid() {
            let record = self.record()?;
            match self.view.comparator.compare(record.user_key, &self.key) {
                Ordering::Less => break,
                Ordering::Equal => passed += 1,
                // The records are out of order. Continuing could return the same keys again and
                // again.
                Ordering::Greater => return Err(self.out_of_order(record.user_key)),
            }
            if passed > self.view.max_sequential_skip {
                self.count_reseek();
                return self.fold_key_from_newest();
            }
            let (sequence, value_type) = (record.sequence, record.value_type);
            if sequence > self.view.snapshot {
                self.skipped.versions += 1;
                self.merged.previous()?;
                continue;
            }
            if self.view.equates_different_bytes {
                // The comparator may treat different bytes as the same key. The iterator then
                // returns the bytes of the newest visible record.
                self.note_key();
            }
            if let Some(cover) = self.merged.cover() {
                base = Base::Nothing;
                self.operands.clear();
                self.skipped.tombstones += 1;
                self.merged.skip(cover)?;
                continue;
            }
            match value_type {
                ValueType::Merge => self.operands.push(self.merged.value()),
                ValueType::Deletion | ValueType::SingleDeletion | ValueType::RangeDeletion => {
                    self.skipped.tombstones += 1;
                    base = Base::Nothing;
                    self.operands.clear();
                }
                value_type => {
                    self.skipped.versions += u64::from(!matches!(base, Base::Nothing));
                    base = Base::Record(value_type);
                    self.operands.clear();
                    self.value.clear();
                    self.value.extend_from_slice(self.merged.value());
                    if value_type != ValueType::Value {
                        self.base_key.clear();
                        self.base_key.extend_from_slice(key::user_key(self.merged.key()));
                    }
                }
            }
            self.merged.previous()?;
        }
        let folded = self.finish_fold(base);
        self.or_skipped(folded)
    }

    /// Computes the value from the base value and the newer operands.
    fn finish_fold(&mut self, base: Base) -> Result<EntryLocation> {
        if let Base::Record(value_type) = base
            && value_type != ValueType::Value
        {
            if self.operands.is_empty()
                && let Some(index) = self.deferred_blob(value_type, &self.value)?
            {
                self.value = index.to_vec();
                return Ok(EntryLocation::Unread);
            }
            self.value = self.plain_value(&self.base_key, value_type, &self.value)?;
        }
        let has_base = base != Base::Nothing;
        if self.operands.is_empty() {
            return Ok(if has_base { EntryLocation::Copied } else { EntryLocation::Nowhere });
        }
        let base = has_base.then_some(&self.value[..]);
        let merge_operator = self.source.merge_operator();
        self.value = self.operands.fold(merge_operator, &self.key, base, false)?;
        Ok(EntryLocation::Copied)
    }

    /// Computes the same result as [`DbIterator::fold_key`], for a key with many records. Starts at
    /// the newest visible record, and reads older records only until the value is known.
    #[cold]
    fn fold_key_from_newest(&mut self) -> Result<EntryLocation> {
        let trailer = key::pack_trailer(self.view.snapshot, ValueType::FOR_SEEK);
        set_internal_key(&mut self.target, &self.key, trailer);
        self.merged.seek(&self.target)?;
        if self.view.equates_different_bytes
            && self.merged.valid()
            && self.view.comparator.compare(key::user_key(self.merged.key()), &self.key).is_eq()
        {
            self.note_key();
        }
        let folded = self.fold_records_below();
        let found = self.or_skipped(folded)?;
        set_internal_key(&mut self.target, &self.key, FIRST_TRAILER);
        self.merged.seek_for_prev(&self.target)?;
        Ok(found)
    }
}
