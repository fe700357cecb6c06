//! Whether the levels below the output's may have a key.

use std::sync::Arc;

use tailwater_format::Comparator;

use crate::version::{Level, Version};

/// The levels below the output's, asked about keys in ascending order.
///
/// A place in each level moves with the keys, so that each table is looked at once. Source:
/// `Compaction::KeyNotExistsBeyondOutputLevel` in `db/compaction/compaction.cc`.
#[derive(Debug, Clone)]
pub(crate) struct DeeperLevels {
    comparator: Comparator,
    knows: Knows,
    /// Each level with the first of its tables that does not end before the last key asked about.
    levels: Vec<(Arc<Level>, usize)>,
}

/// What is known beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Knows {
    /// Nothing deeper has any of the keys.
    Nothing,
    /// That depends on the key.
    ByKey,
    /// Tables of the output level itself may be older than the inputs.
    CannotTell,
}

impl DeeperLevels {
    /// The levels of `version` below `output_level`, for a compaction that is bottommost or not.
    pub(crate) fn new(
        version: &Version,
        comparator: Comparator,
        output_level: usize,
        is_bottommost: bool,
        is_leveled: bool,
    ) -> Self {
        let knows = match () {
            () if is_bottommost => Knows::Nothing,
            () if is_leveled && output_level > 0 => Knows::ByKey,
            () => Knows::CannotTell,
        };
        let below = version.levels().iter().skip(output_level + 1);
        let levels = below
            .filter(|level| knows == Knows::ByKey && !level.files().is_empty())
            .map(|level| (Arc::clone(level), 0))
            .collect();
        Self { comparator, knows, levels }
    }

    /// Whether none of them has a version of a user key for sure.
    pub(crate) fn lack(&mut self, user_key: &[u8]) -> bool {
        self.lack_range(user_key, |comparator, smallest| {
            comparator.compare(smallest, user_key).is_le()
        })
    }

    /// Whether none of them has, for sure, a key from `begin` up to, but not including, `end`.
    pub(crate) fn lack_keys_between(&mut self, begin: &[u8], end: &[u8]) -> bool {
        self.lack_range(begin, |comparator, smallest| comparator.compare(smallest, end).is_lt())
    }

    /// Whether no table that does not end before `begin` is reached, by where it begins.
    fn lack_range(&mut self, begin: &[u8], reaches: impl Fn(&Comparator, &[u8]) -> bool) -> bool {
        match self.knows {
            Knows::Nothing => return true,
            Knows::CannotTell => return false,
            Knows::ByKey => {}
        }
        let comparator = &self.comparator;
        self.levels.iter_mut().all(|(level, at)| {
            while let Some(file) = level.files().get(*at) {
                if comparator.compare(begin, file.largest_user_key()).is_le() {
                    return !reaches(comparator, file.smallest_user_key());
                }
                *at += 1;
            }
            true
        })
    }
}
