//! Calls of user code by a merge: the compaction filter and the merge operator.

use tailwater_format::key::{Sequence, ValueType};
use tailwater_format::wide_column::{self, DEFAULT_COLUMN, WideColumn};
use tailwater_format::{limits, timed_value};
use tailwater_io::Purpose;

use super::operands::Folding;
use super::{Merge, Value};
use crate::compaction_filter::{FilterContext, FilterDecision, FilteredValue};
use crate::contracts::Contract;
use crate::error::Result;
use crate::merge_operator::MergeOperator;
use crate::panics;

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
        let stored = self.source.value();
        let decision = match self.value_type {
            ValueType::Value => self.decision(FilteredValue::Plain(stored)),
            ValueType::BlobIndex => {
                let value = self.read_blob(stored)?;
                self.decision(FilteredValue::Plain(&value))
            }
            ValueType::WideColumnEntity if !filter.keeps_entities() => {
                let mut columns =
                    wide_column::decode(stored).map_err(|error| self.damaged(error))?;
                let blobs = columns.iter().filter(|column| column.is_blob_index);
                let blobs = blobs.map(|column| self.read_blob(column.value));
                let blobs: Vec<Vec<u8>> = blobs.collect::<Result<_>>()?;
                let in_blobs = columns.iter_mut().filter(|column| column.is_blob_index);
                for (column, value) in in_blobs.zip(&blobs) {
                    *column = WideColumn::new(column.name, value);
                }
                self.decision(FilteredValue::WideColumns(&columns))
            }
            _ => return Ok(Filtered::Left),
        };
        match decision {
            Ok(FilterDecision::Keep) => {}
            Ok(FilterDecision::Remove) => self.remove_record(ValueType::Deletion),
            Ok(FilterDecision::Purge) => self.remove_record(ValueType::SingleDeletion),
            Ok(FilterDecision::ChangeValue(value)) => self.change_record(ValueType::Value, value),
            Ok(FilterDecision::ChangeEntity(columns)) => match encode(columns) {
                Ok(entity) => self.change_record(ValueType::WideColumnEntity, entity),
                Err(error) => self.note_filter(&error.to_string()),
            },
            Ok(FilterDecision::RemoveAndSkipUntil(until)) => return self.skip_until(&until),
            Err(panicked) => self.note_filter(&panicked),
        }
        Ok(Filtered::Left)
    }

    /// Replaces the current record by a deletion or single deletion of its key.
    fn remove_record(&mut self, deletion: ValueType) {
        self.dropped.filtered += 1;
        self.value_type = deletion;
        self.value = Value::Empty;
    }

    /// Changes the current record to this type and value, unless the value is too long.
    fn change_record(&mut self, value_type: ValueType, value: Vec<u8>) {
        if self.set_changed(value) {
            self.value_type = value_type;
            self.value = Value::Changed;
        }
    }

    /// Takes the value or operand to which the compaction filter changes the source's current
    /// record. Returns false if it is too long.
    fn set_changed(&mut self, value: Vec<u8>) -> bool {
        if let Err(entry) = limits::check_value(self.source.user_key().len(), value.len()) {
            self.note_filter(&format!("the filter changes the record to {entry}"));
            return false;
        }
        self.changed = value;
        true
    }

    /// Applies the compaction filter to the source's current operand. Unless the filter removed the
    /// operand, adds it to `operands`, the collected operands of the current key.
    pub(super) fn filter_operand(&mut self, sequence: Sequence) -> Result<Filtered> {
        let mut is_changed = false;
        // The compaction filter is not called for operands that a snapshot sees.
        if self.rules.filter.is_some() && !self.rules.snapshots.see(sequence) {
            match self.decision(FilteredValue::MergeOperand(self.source.value())) {
                Ok(FilterDecision::Keep) => {}
                Ok(FilterDecision::Remove) => {
                    self.dropped.filtered += 1;
                    return Ok(Filtered::Left);
                }
                Ok(FilterDecision::ChangeValue(value)) => is_changed = self.set_changed(value),
                Ok(FilterDecision::Purge | FilterDecision::ChangeEntity(_)) => {
                    self.note_filter("a decision that is not possible for a merge operand");
                }
                Ok(FilterDecision::RemoveAndSkipUntil(until)) => {
                    if self.skip_until(&until)? == Filtered::Skipped {
                        return Ok(Filtered::Skipped);
                    }
                }
                Err(panicked) => self.note_filter(&panicked),
            }
        }
        self.push_operand(sequence, is_changed);
        Ok(Filtered::Left)
    }

    /// Returns the compaction filter's decision about the source's current record.
    ///
    /// # Errors
    /// A description of the panic, if the filter panics.
    fn decision(&self, value: FilteredValue<'_>) -> std::result::Result<FilterDecision, String> {
        let Some(filter) = &self.rules.filter else { return Ok(FilterDecision::Keep) };
        let context = FilterContext { level: self.rules.level };
        panics::catch_user_code(|| filter.filter(&context, self.source.user_key(), value))
    }

    #[cold]
    fn note_filter(&mut self, what: &str) {
        self.violations.note(Contract::CompactionFilter, self.source.user_key(), what);
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
    ) -> Result<Folding> {
        let blob = match value_type {
            ValueType::BlobIndex => self.read_blob(self.source.value())?,
            _ => Vec::new(),
        };
        let (user_key, value) = (self.source.user_key(), self.source.value());
        let base = match value_type {
            ValueType::Value => Some(value),
            ValueType::BlobIndex => Some(&blob[..]),
            ValueType::ValuePreferredSequence => {
                let (value, _) = timed_value::split(value)
                    .ok_or_else(|| self.damaged("a timed value of less than 8 bytes"))?;
                Some(value)
            }
            ValueType::WideColumnEntity => {
                let columns = wide_column::decode(value).map_err(|error| self.damaged(error))?;
                let default = columns.first().filter(|column| column.name == DEFAULT_COLUMN);
                let blob = match default.filter(|column| column.is_blob_index) {
                    Some(column) => Some(self.read_blob(column.value)?),
                    None => None,
                };
                let base = blob.as_deref().or(default.map(|column| column.value));
                let base = base.unwrap_or_default();
                return Ok(match keeps_columns(operator) {
                    Err(panicked) => Folding::Failed(panicked),
                    Ok(true) => {
                        self.value_type = ValueType::WideColumnEntity;
                        self.operands.fold_over_entity(operator, user_key, base, &columns)
                    }
                    Ok(false) => {
                        self.value_type = ValueType::Value;
                        self.operands.fold_over(operator, user_key, Some(base))
                    }
                });
            }
            _ => None,
        };
        self.value_type = ValueType::Value;
        Ok(self.operands.fold_over(operator, user_key, base))
    }

    /// Reads the value to which a blob index in the source's current record refers.
    fn read_blob(&self, index: &[u8]) -> Result<Vec<u8>> {
        let blobs = &self.rules.readers.blobs;
        let value = blobs.read(self.source.user_key(), index, Purpose::CompactionBlobRead);
        value.map_err(|error| self.source.named(error))
    }
}

/// Returns whether a merge over an entity keeps its other columns, or a description of the
/// operator's panic.
fn keeps_columns(operator: &MergeOperator) -> std::result::Result<bool, String> {
    panics::catch_user_code(|| operator.keeps_entity_columns())
}

/// Encodes an entity with columns in any order.
fn encode(mut columns: Vec<(Vec<u8>, Vec<u8>)>) -> tailwater_format::Result<Vec<u8>> {
    columns.sort();
    let columns: Vec<WideColumn<'_>> =
        columns.iter().map(|(name, value)| WideColumn::new(name, value)).collect();
    let mut entity = Vec::new();
    wide_column::encode(&columns, &mut entity)?;
    Ok(entity)
}
