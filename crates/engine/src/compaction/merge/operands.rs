//! Merge operands of a key, and their merged value.

use std::iter;

use tailwater_format::key::Sequence;
use tailwater_format::limits::{self, TooLong};
use tailwater_format::wide_column::{self, DEFAULT_COLUMN, WideColumn};

use crate::merge_operator::{MergeOperator, Merged};
use crate::panics;

/// The outcome of merging operands.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Folding {
    /// [`Operands::folded`] is the result.
    Done,
    /// The operator does not merge these operands without a base value.
    Declined,
    /// The operator failed, for the reason given.
    Failed(String),
}

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
    pub(super) fn fold_over(
        &mut self,
        operator: &MergeOperator,
        user_key: &[u8],
        base: Option<&[u8]>,
    ) -> Folding {
        let mut folded = std::mem::take(&mut self.folded);
        let operands = (0..self.len()).rev().map(|at| self.get(at));
        let merged = panics::catch_user_code(|| {
            operator.full_merge_into(user_key, base, operands, &mut folded)
        });
        self.folded = folded;
        match merged {
            Ok(Merged::Done) => Folding::Done,
            Ok(Merged::Failed) => {
                Folding::Failed(format!("merge operator '{}' failed", operator.name()))
            }
            Ok(Merged::TooLong(entry)) => too_long(operator, entry),
            Err(panicked) => Folding::Failed(panicked),
        }
    }

    /// Merges the operands over `base`, the value of the default column of an entity (a record of
    /// wide columns). The result is the entity with that value and its other `columns`. Source:
    /// `MergeOperator::FullMergeV3` in `db/merge_operator.cc`.
    pub(super) fn fold_over_entity(
        &mut self,
        operator: &MergeOperator,
        user_key: &[u8],
        base: &[u8],
        columns: &[WideColumn<'_>],
    ) -> Folding {
        let folding = self.fold_over(operator, user_key, Some(base));
        if folding != Folding::Done {
            return folding;
        }
        let value = std::mem::take(&mut self.folded);
        let others = columns.iter().copied().filter(|column| column.name != DEFAULT_COLUMN);
        let columns: Vec<_> =
            iter::once(WideColumn::new(DEFAULT_COLUMN, &value)).chain(others).collect();
        if let Err(error) = wide_column::encode(&columns, &mut self.folded) {
            return Folding::Failed(error.to_string());
        }
        match limits::check_value(user_key.len(), self.folded.len()) {
            Ok(()) => Folding::Done,
            Err(entry) => too_long(operator, entry),
        }
    }

    /// Merges the operands with each other into one operand.
    pub(super) fn fold_together(&mut self, operator: &MergeOperator, user_key: &[u8]) -> Folding {
        let mut folded = std::mem::take(&mut self.folded);
        let operands = (0..self.len()).rev().map(|at| self.get(at));
        let merged = panics::catch_user_code(|| {
            operator.partial_merge_into(user_key, operands, &mut folded)
        });
        self.folded = folded;
        match merged {
            Ok(Merged::Done) => Folding::Done,
            Ok(Merged::Failed | Merged::TooLong(_)) => Folding::Declined,
            Err(panicked) => Folding::Failed(panicked),
        }
    }
}

#[cold]
fn too_long(operator: &MergeOperator, entry: TooLong) -> Folding {
    Folding::Failed(format!(
        "merge operator '{}' merges the operands into {entry}",
        operator.name()
    ))
}
