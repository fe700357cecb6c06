//! Moving a [`DbIterator`] forward, to the newest visible record of the next key that has a value.

use tailwater_format::key::{self, ParsedKey, ValueType};
use tailwater_io::charge_reads;

use super::{DbIterator, Direction, EntryLocation, FIRST_TRAILER, LAST_TRAILER, set_internal_key};
use crate::error::{Error, ErrorKind, Result};
use crate::iterator::merging::RunStep;
use crate::table::{PlainValue, plain_value};

impl DbIterator {
    #[inline]
    pub(super) fn step_forward(&mut self) -> Result<()> {
        if self.direction == Direction::Backward {
            // After a backward move, the merged sources are before the current key, whose value was
            // copied. So they seek to the key's first record, and `find_forward` skips all of its
            // records.
            self.direction = Direction::Forward;
            if self.location == EntryLocation::OnRecord {
                self.note_key();
            }
            // With prefix filters, the seek below could miss the next key if that has another
            // prefix than the current key.
            self.merged.ask_prefix_filters(false);
            set_internal_key(&mut self.target, &self.key, FIRST_TRAILER);
            self.merged.seek(&self.target)?;
        } else if self.location == EntryLocation::OnRecord {
            match self.merged.next_in_run(self.view.snapshot) {
                RunStep::Within => return Ok(()),
                RunStep::Left => return self.find_forward(false),
                RunStep::Stays => {}
            }
            self.note_key();
            self.merged.next()?;
        }
        self.find_forward(true)
    }

    /// Moves forward, beginning with the current record of the merged sources, to the first key
    /// that has a value. If `passing` is true, first skips the records of the key in `self.key`.
    pub(super) fn find_forward(&mut self, mut passing: bool) -> Result<()> {
        self.location = EntryLocation::Nowhere;
        let mut passed = 0;
        while self.merged.valid() {
            let record = self.record()?;
            if !self.within_bounds(record.user_key) {
                return Ok(());
            }
            let mut same_key = false;
            if passing {
                let order = self.view.comparator.compare(record.user_key, &self.key);
                if order.is_lt() {
                    // The records are out of order. Continuing could return the same keys again and
                    // again.
                    return Err(self.out_of_order(record.user_key));
                }
                same_key = order.is_eq();
            }
            if same_key || record.sequence > self.view.snapshot {
                passed += 1;
                self.skipped.versions += 1;
                if passed > self.view.max_sequential_skip {
                    passed = 0;
                    self.count_reseek();
                    self.leap(same_key)?;
                } else {
                    self.merged.next()?;
                }
                continue;
            }
            passed = 0;
            let value_type = record.value_type;
            if let Some(cover) = self.merged.cover() {
                self.skipped.tombstones += 1;
                self.merged.skip(cover)?;
                continue;
            }
            match value_type {
                ValueType::Value => {
                    self.location = EntryLocation::OnRecord;
                    if self.view.prefix_extractor.is_none() {
                        let bound = self.view.upper_bound.as_deref();
                        self.merged.begin_run(self.view.snapshot, bound);
                    }
                    return Ok(());
                }
                ValueType::Deletion | ValueType::SingleDeletion | ValueType::RangeDeletion => {
                    self.skipped.tombstones += 1;
                    self.note_key();
                    passing = true;
                    self.merged.next()?;
                }
                _ => {
                    self.note_key();
                    let folded = self.fold_records_below();
                    self.location = self.or_skipped(folded)?;
                    if self.valid() {
                        return Ok(());
                    }
                    passing = true;
                }
            }
        }
        Ok(())
    }

    /// Skips many records with one seek. If `same_key` is true, seeks past the remaining records of
    /// the key in `self.key`. Otherwise seeks past those records of the current record's key that
    /// are newer than the snapshot.
    #[cold]
    fn leap(&mut self, same_key: bool) -> Result<()> {
        if same_key {
            set_internal_key(&mut self.target, &self.key, LAST_TRAILER);
        } else {
            let trailer = key::pack_trailer(self.view.snapshot, ValueType::FOR_SEEK);
            set_internal_key(&mut self.target, key::user_key(self.merged.key()), trailer);
        }
        // The current record may have exactly the target's internal key. A seek would stay on it.
        let comparator = &self.view.comparator;
        let stays = key::compare_internal(comparator, self.merged.key(), &self.target).is_eq();
        if stays { self.merged.next() } else { self.merged.seek(&self.target) }
    }

    /// Copies the key of the current record to `self.key`.
    #[inline]
    pub(super) fn note_key(&mut self) {
        self.key.clear();
        self.key.extend_from_slice(key::user_key(self.merged.key()));
    }

    /// Computes the value of the key in `self.key` from its newest visible record, at which the
    /// merged sources must be, and from older records as far as needed. Returns where the value is
    /// stored; [`EntryLocation::Nowhere`] if the key has no value.
    pub(super) fn fold_records_below(&mut self) -> Result<EntryLocation> {
        self.operands.clear();
        let mut base = None;
        while self.merged.valid() {
            let record = self.record()?;
            if self.view.comparator.compare(record.user_key, &self.key).is_ne() {
                break;
            }
            let value_type = record.value_type;
            if self.merged.cover().is_some() {
                break;
            }
            match value_type {
                ValueType::Merge => self.operands.push(self.merged.value()),
                ValueType::Deletion | ValueType::SingleDeletion | ValueType::RangeDeletion => break,
                _ => {
                    let user_key = key::user_key(self.merged.key());
                    let value = self.merged.value();
                    if self.operands.is_empty()
                        && let Some(index) = self.deferred_blob(value_type, value)?
                    {
                        self.base_key.clear();
                        self.base_key.extend_from_slice(user_key);
                        self.value.clear();
                        self.value.extend_from_slice(index);
                        return Ok(EntryLocation::Unread);
                    }
                    base = Some(self.plain_value(user_key, value_type, value)?);
                    break;
                }
            }
            self.merged.next()?;
        }
        self.value = match base {
            Some(value) if self.operands.is_empty() => value,
            None if self.operands.is_empty() => return Ok(EntryLocation::Nowhere),
            base => {
                let merge_operator = self.source.merge_operator();
                self.operands.fold(merge_operator, &self.key, base.as_deref(), true)?
            }
        };
        Ok(EntryLocation::Copied)
    }

    /// If the iterator defers reading blobs, and a record of this type refers to a blob, returns
    /// the blob index: the location of the blob in a blob file.
    pub(super) fn deferred_blob<'a>(
        &self,
        value_type: ValueType,
        value: &'a [u8],
    ) -> Result<Option<&'a [u8]>> {
        if !self.settings.defers_blobs {
            return Ok(None);
        }
        match plain_value(value_type, value)? {
            PlainValue::Here(_) => Ok(None),
            PlainValue::Blob(index) => Ok(Some(index)),
        }
    }

    /// Returns the user's value that a record of this type holds or, for a blob index, refers to.
    /// `user_key` must be the key's bytes as they were written with the record.
    pub(super) fn plain_value(
        &self,
        user_key: &[u8],
        value_type: ValueType,
        value: &[u8],
    ) -> Result<Vec<u8>> {
        match plain_value(value_type, value)? {
            PlainValue::Here(value) => Ok(value.to_vec()),
            PlainValue::Blob(index) => self.read_blob(user_key, index),
        }
    }

    /// Reads a value from a blob file.
    pub(super) fn read_blob(&self, user_key: &[u8], index: &[u8]) -> Result<Vec<u8>> {
        let _charged = charge_reads(self.settings.profile.charged);
        self.source.read_blob(user_key, index)
    }

    /// Returns the user key, sequence number and type of the current record.
    #[inline]
    pub(super) fn record(&self) -> Result<ParsedKey<'_>> {
        ParsedKey::parse(self.merged.key()).map_err(|error| self.damaged(error.to_string()))
    }

    /// Returns the error for records that are out of order. The iterator reached `user_key` after
    /// it had passed `self.key`. But `user_key` sorts before `self.key` (in forward direction) or
    /// after it (in backward direction).
    #[cold]
    pub(super) fn out_of_order(&self, user_key: &[u8]) -> Error {
        let (found, last) = (user_key.escape_ascii(), self.key.escape_ascii());
        let direction = match self.direction {
            Direction::Forward => "after",
            Direction::Backward => "before",
        };
        self.damaged(format!("records are not in order: '{found}' comes {direction} '{last}'"))
    }

    /// Returns a corruption error. If the current record is in a file, the error names the file.
    #[cold]
    fn damaged(&self, message: String) -> Error {
        let error = Error::new(ErrorKind::Corruption, message);
        match self.merged.path() {
            Some(path) => error.in_file(path),
            None => error,
        }
    }
}
