//! Contracts that a program must keep: for its writes, and for its merge operators and compaction
//! filters.
//!
//! A flush or compaction that finds a violation does not fail, because otherwise one key could stop
//! the compactions of its column family, and in the end all writes. It keeps the records with which
//! every read has the same result as before, and reports the violation. `docs/errors.md` defines
//! what is kept for each kind of violation.

use std::fmt;

use crate::error::key_text;

/// A contract that can be violated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contract {
    /// A key that is removed by single deletions is put once before each of them, and neither
    /// merged nor removed in another way.
    SingleDeletion,
    /// The merge operator exists, and merges all operands of a key.
    MergeOperator,
    /// The compaction filter returns a decision that can be carried out.
    CompactionFilter,
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SingleDeletion => "single deletions",
            Self::MergeOperator => "the merge operator",
            Self::CompactionFilter => "the compaction filter",
        })
    }
}

/// The violations that a flush or compaction found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Violations {
    /// One element for each contract that was violated.
    broken: Vec<Broken>,
}

/// The violations of one contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) contract: Contract,
    /// Number of violations.
    pub(crate) count: u64,
    /// A description of the first violation, with its key.
    pub(crate) first: String,
}

impl Violations {
    /// Adds a violation by the key `user_key`. `what` describes the violation.
    #[cold]
    pub(crate) fn note(&mut self, contract: Contract, user_key: &[u8], what: impl fmt::Display) {
        match self.broken.iter_mut().find(|known| known.contract == contract) {
            Some(known) => known.count += 1,
            None => {
                let first = format!("key '{}': {what}", key_text(user_key));
                self.broken.push(Broken { contract, count: 1, first });
            }
        }
    }

    /// Adds the violations that another part of the same work found.
    pub(crate) fn add(&mut self, other: Self) {
        for more in other.broken {
            match self.broken.iter_mut().find(|known| known.contract == more.contract) {
                Some(known) => known.count += more.count,
                None => self.broken.push(more),
            }
        }
    }

    /// Returns the number of violations of all contracts.
    pub(crate) fn count(&self) -> u64 {
        self.broken.iter().map(|broken| broken.count).sum()
    }

    /// Returns the violations of each contract that was violated.
    pub(crate) fn broken(&self) -> &[Broken] {
        &self.broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_are_counted_and_the_first_of_each_contract_is_described() {
        let mut violations = Violations::default();
        violations.note(Contract::MergeOperator, b"a", "failed");
        violations.note(Contract::MergeOperator, b"b", "failed again");
        let mut others = Violations::default();
        others.note(Contract::MergeOperator, b"c", "failed");
        others.note(Contract::SingleDeletion, b"\xff", "deleted");
        violations.add(others);
        let broken: Vec<_> = violations
            .broken()
            .iter()
            .map(|broken| (broken.contract.to_string(), broken.count, &broken.first[..]))
            .collect();
        let expected = [
            ("the merge operator".to_owned(), 3, "key 'a': failed"),
            ("single deletions".to_owned(), 1, "key '\\xff': deleted"),
        ];
        assert_eq!((broken, violations.count()), (expected.to_vec(), 4));
    }
}
