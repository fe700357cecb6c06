//! Merge operands of a key, and their merged value.

use tailwater_format::key::Sequence;
use tailwater_format::wide_column::{self, DEFAULT_COLUMN, WideColumn};

use crate::error::{Error, ErrorKind, Result};
use crate::merge_operator::MergeOperator;

/// The operands of one key within one stripe, and their merged value. The buffers are reused from
/// key to key.
#[derive(Debug, Default)]
pub(super) struct Operands {
    /// The operands, concatenated, newest first.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    sequences: Vec<Sequence>,
    folded: Vec<u8>,
}

impl Operands {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.sequences.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds an operand. Operands are added from the newest to the oldest.
    pub(super) fn push(&mut self, sequence: Sequence, operand: &[u8]) {
        self.bytes.extend_from_slice(operand);
        self.ends.push(self.bytes.len());
        self.sequences.push(sequence);
    }

    /// Returns the sequence number of the operand at an index; index 0 is the newest.
    pub(super) fn sequence(&self, at: usize) -> Sequence {
        self.sequences.get(at).copied().unwrap_or(0)
    }

    /// Returns the operand at an index.
    pub(super) fn get(&self, at: usize) -> &[u8] {
        let start =
            at.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end);
        let end = self.ends.get(at).copied().unwrap_or(start);
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// Returns the value that the last merge of the operands produced.
    pub(super) fn folded(&self) -> &[u8] {
        &self.folded
    }

    /// Merges the operands over a base value.
    ///
    /// # Errors
    /// A user-code error, if the merge operator fails.
    pub(super) fn fold_over(
        &mut self,
        operator: &MergeOperator,
        user_key: &[u8],
        base: Option<&[u8]>,
    ) -> Result<()> {
        let mut folded = std::mem::take(&mut self.folded);
        let operands = (0..self.len()).rev().map(|at| self.get(at));
        let is_done = operator.full_merge_into(user_key, base, operands, &mut folded);
        self.folded = folded;
        if is_done { Ok(()) } else { Err(failed(operator, user_key)) }
    }

    /// Merges the operands over the default column of an entity (a record of wide columns), and
    /// keeps its other columns. If the default column's value is in a blob file, `blob` is that
    /// value. Source: `MergeOperator::FullMergeV3` in `db/merge_operator.cc`.
    ///
    /// # Errors
    /// The errors of [`Operands::fold_over`]; corruption, for an entity that does not decode.
    pub(super) fn fold_over_entity(
        &mut self,
        operator: &MergeOperator,
        user_key: &[u8],
        entity: &[u8],
        blob: Option<&[u8]>,
    ) -> Result<()> {
        let damaged = |error: tailwater_format::Error| {
            let message = format!("key '{}': {error}", user_key.escape_ascii());
            Error::new(ErrorKind::Corruption, message)
        };
        let mut columns = wide_column::decode(entity).map_err(damaged)?;
        let default = columns.first().filter(|column| column.name == DEFAULT_COLUMN);
        let (base, has_default) =
            (default.map_or(&[][..], |column| column.value), default.is_some());
        self.fold_over(operator, user_key, Some(blob.unwrap_or(base)))?;
        let value = std::mem::take(&mut self.folded);
        let folded = WideColumn::new(DEFAULT_COLUMN, &value);
        columns.splice(..usize::from(has_default), [folded]);
        wide_column::encode(&columns, &mut self.folded).map_err(damaged)
    }

    /// Merges the operands with each other into one operand. Returns whether the operator could do
    /// this.
    pub(super) fn fold_together(&mut self, operator: &MergeOperator, user_key: &[u8]) -> bool {
        let mut folded = std::mem::take(&mut self.folded);
        let operands = (0..self.len()).rev().map(|at| self.get(at));
        let is_done = operator.partial_merge_into(user_key, operands, &mut folded);
        self.folded = folded;
        is_done
    }
}

#[cold]
fn failed(operator: &MergeOperator, user_key: &[u8]) -> Error {
    let (name, key) = (operator.name(), user_key.escape_ascii());
    Error::new(ErrorKind::UserCode, format!("merge operator '{name}' failed on key '{key}'"))
}
