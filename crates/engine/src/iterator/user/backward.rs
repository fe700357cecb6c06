//! Moving backward. The records of a key come oldest first, so all of them are read to determine
//! the key's value.

use std::cmp::Ordering;

use tailwater_format::key::{self, ValueType};

use super::{DbIterator, Direction, EntryLocation, FIRST_TRAILER, set_internal_key};
use crate::error::Result;

/// The result of the records of a key that were read so far, oldest first. Merge operands that are
/// newer than this result are kept separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    /// There was no value so far, or it was deleted.
    Nothing,
    /// `self.value` holds the content of a record of this type.
    Record(ValueType),
}

impl DbIterator {
    pub(super) fn step_backward(&mut self) -> Result<()> {
        if self.direction == Direction::Forward {
            self.direction = Direction::Backward;
            let mut target = std::mem::take(&mut self.target);
            set_internal_key(&mut target, self.key(), FIRST_TRAILER);
            self.target = target;
            self.place = EntryLocation::Nowhere;
            self.merged.seek_for_prev(&self.target)?;
        }
        self.find_backward()
    }

    /// Moves backward from the current record of the merged sources to the first key that has a
    /// value.
    pub(super) fn find_backward(&mut self) -> Result<()> {
        self.place = EntryLocation::Nowhere;
        while self.merged.valid() {
            let user_key = key::user_key(self.merged.key());
            if !self.within_bounds(user_key) {
                return Ok(());
            }
            self.key.clear();
            self.key.extend_from_slice(user_key);
            self.place = self.fold_key()?;
            if self.place != EntryLocation::Nowhere {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Moves before every record of the key in `self.key`, and returns the location of the
    /// resulting value, if there is one.
    fn fold_key(&mut self) -> Result<EntryLocation> {
        let mut base = Base::Nothing;
        let mut passed = 0;
        self.operands.clear();
        while self.merged.valid() {
            let record = self.record()?;
            match self.view.comparator.compare(record.user_key, &self.key) {
                Ordering::Less => break,
                Ordering::Equal => passed += 1,
                // Continuing would repeat the same keys forever.
                Ordering::Greater => return Err(self.out_of_order(record.user_key)),
            }
            if passed > self.view.max_sequential_skip {
                self.count_reseek();
                return self.fold_key_from_newest();
            }
            let (sequence, value_type) = (record.sequence, record.value_type);
            if sequence > self.view.snapshot {
                self.merged.previous()?;
                continue;
            }
            if self.view.equates_different_bytes {
                // If keys with different bytes compare equal, the iterator returns the bytes of the
                // newest record's key.
                self.note_key();
            }
            if let Some(cover) = self.merged.cover() {
                base = Base::Nothing;
                self.operands.clear();
                self.merged.skip(cover)?;
                continue;
            }
            match value_type {
                ValueType::Merge => self.operands.push(self.merged.value()),
                ValueType::Deletion | ValueType::SingleDeletion | ValueType::RangeDeletion => {
                    base = Base::Nothing;
                    self.operands.clear();
                }
                value_type => {
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
        self.finish_fold(base)
    }

    /// Computes the value from the base and the newer operands.
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

    /// Like [`DbIterator::fold_key`], for a key with many records: starts at the newest visible
    /// record, and reads older records only as far as needed.
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
        let found = self.fold_records_below()?;
        set_internal_key(&mut self.target, &self.key, FIRST_TRAILER);
        self.merged.seek_for_prev(&self.target)?;
        Ok(found)
    }
}
