//! Calls of user code by a merge: the compaction filter and the merge operator.

use tailwater_format::key::{Sequence, ValueType};
use tailwater_format::{timed_value, wide_column};
use tailwater_io::Purpose;

use super::{Merge, Value};
use crate::compaction_filter::{FilterContext, FilterDecision, FilteredValue};
use crate::error::{Error, ErrorKind, Result};
use crate::merge_operator::MergeOperator;

/// What the merge does after the compaction filter was applied to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filtered {
    /// The filter skipped no records. The merge continues with the current record or operand.
    Left,
    /// The filter skipped records. The merge continues with the record that the source is on now.
    Skipped,
}

impl Merge {
    /// Applies the compaction filter to the current record, which is the newest version of its key.
    /// The filter may keep, remove or change the record, or skip to another key.
    pub(super) fn filter_record(&mut self) -> Result<Filtered> {
        let Some(filter) = &self.rules.filter else { return Ok(Filtered::Left) };
        let context = FilterContext { level: self.rules.level };
        let user_key = self.source.user_key();
        let ask = |kind, value: &[u8]| filter.filter(&context, user_key, kind, value);
        let decision = match self.value_type {
            ValueType::Value => ask(FilteredValue::Plain, self.source.value()),
            ValueType::WideColumnEntity => ask(FilteredValue::WideColumns, self.source.value()),
            ValueType::BlobIndex => {
                ask(FilteredValue::Plain, &self.read_blob(self.source.value())?)
            }
            _ => return Ok(Filtered::Left),
        };
        match decision {
            FilterDecision::Keep => {}
            FilterDecision::Remove => {
                self.dropped.filtered += 1;
                self.value_type = ValueType::Deletion;
                self.value = Value::Empty;
            }
            FilterDecision::ChangeValue(value) => {
                self.value_type = ValueType::Value;
                self.changed = value;
                self.value = Value::Changed;
            }
            FilterDecision::RemoveAndSkipUntil(until) => return self.skip_until(&until),
        }
        Ok(Filtered::Left)
    }

    /// Applies the compaction filter to the source's current operand. Unless the filter removed the
    /// operand, adds it to `operands`, the collected operands of the current key.
    pub(super) fn filter_operand(&mut self, sequence: Sequence) -> Result<Filtered> {
        let mut is_changed = false;
        // The compaction filter is not called for operands that a snapshot sees.
        let filter = self.rules.filter.as_ref();
        if let Some(filter) = filter.filter(|_| !self.rules.snapshots.see(sequence)) {
            let context = FilterContext { level: self.rules.level };
            let (user_key, value) = (self.source.user_key(), self.source.value());
            match filter.filter(&context, user_key, FilteredValue::MergeOperand, value) {
                FilterDecision::Keep => {}
                FilterDecision::Remove => {
                    self.dropped.filtered += 1;
                    return Ok(Filtered::Left);
                }
                FilterDecision::ChangeValue(value) => {
                    self.changed = value;
                    is_changed = true;
                }
                FilterDecision::RemoveAndSkipUntil(until) => {
                    if self.skip_until(&until)? == Filtered::Skipped {
                        return Ok(Filtered::Skipped);
                    }
                }
            }
        }
        self.push_operand(sequence, is_changed);
        Ok(Filtered::Left)
    }

    /// Skips to the first record at or after the user key `until`. If `until` is not after the
    /// current key, does nothing.
    fn skip_until(&mut self, until: &[u8]) -> Result<Filtered> {
        if self.rules.comparator.compare(until, self.user_key()).is_le() {
            return Ok(Filtered::Left);
        }
        self.dropped.filtered += 1;
        self.source.skip_until(until)?;
        Ok(Filtered::Skipped)
    }

    /// Merges the operands over the source's current record, which is treated as a record of type
    /// `value_type`. If `value_type` is not the type of a value, for example a deletion, the
    /// operands are merged without a base value.
    pub(super) fn fold_over_base(
        &mut self,
        operator: &MergeOperator,
        value_type: ValueType,
    ) -> Result<()> {
        let blob = match value_type {
            ValueType::BlobIndex => self.read_blob(self.source.value())?,
            _ => Vec::new(),
        };
        let (user_key, value) = (self.source.user_key(), self.source.value());
        let base = match value_type {
            ValueType::Value => Some(value),
            ValueType::BlobIndex => Some(&blob[..]),
            ValueType::ValuePreferredSequence => {
                let (value, _) = timed_value::split(value).ok_or_else(|| {
                    let key = user_key.escape_ascii();
                    let message = format!("key '{key}' has a timed value of less than 8 bytes");
                    Error::new(ErrorKind::Corruption, message)
                })?;
                Some(value)
            }
            ValueType::WideColumnEntity => {
                let default = wide_column::default_column(value).map_err(|error| {
                    let message = format!("key '{}': {error}", user_key.escape_ascii());
                    Error::new(ErrorKind::Corruption, message)
                })?;
                let blob = match default.filter(|column| column.is_blob_index) {
                    Some(column) => Some(self.read_blob(column.value)?),
                    None => None,
                };
                if operator.keeps_entity_columns() {
                    self.value_type = ValueType::WideColumnEntity;
                    let blob = blob.as_deref();
                    return self.operands.fold_over_entity(operator, user_key, value, blob);
                }
                let default = default.map_or(&[][..], |column| column.value);
                self.value_type = ValueType::Value;
                let base = blob.as_deref().unwrap_or(default);
                return self.operands.fold_over(operator, user_key, Some(base));
            }
            _ => None,
        };
        self.value_type = ValueType::Value;
        self.operands.fold_over(operator, user_key, base)
    }

    /// Reads the value to which a blob index in the source's current record refers.
    fn read_blob(&self, index: &[u8]) -> Result<Vec<u8>> {
        let blobs = &self.rules.readers.blobs;
        blobs.read(self.source.user_key(), index, Purpose::CompactionBlobRead)
    }
}
