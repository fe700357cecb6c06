//! The merge operands of one key, which an iterator collects until it merges them.

use crate::error::Result;
use crate::merge_operator::FamilyMergeOperator;
use crate::table::fold;

/// The operands of one key, in the order in which they were read. The buffers are reused for the
/// next key.
#[derive(Debug, Default)]
pub(super) struct Operands {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Operands {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn push(&mut self, operand: &[u8]) {
        self.bytes.extend_from_slice(operand);
        self.ends.push(self.bytes.len());
    }

    /// Merges the operands into a base value. `newest_first` says in which order the operands were
    /// read: newest first or oldest first.
    pub(super) fn fold(
        &self,
        merge_operator: &FamilyMergeOperator,
        user_key: &[u8],
        base: Option<&[u8]>,
        newest_first: bool,
    ) -> Result<Vec<u8>> {
        let mut start = 0;
        let mut operands: Vec<&[u8]> = Vec::with_capacity(self.ends.len());
        for &end in &self.ends {
            operands.push(&self.bytes[start..end]);
            start = end;
        }
        if newest_first {
            operands.reverse();
        }
        fold(merge_operator, user_key, base, &operands)
    }
}
