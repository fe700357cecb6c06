//! Checks whether levels below the output level may have a key.

use std::sync::Arc;

use tailwater_format::Comparator;

use crate::version::{Level, Version};

/// The levels below the output level, queried with ascending keys.
///
/// A position in each level advances with the keys, so that each table is visited once. Source:
/// `Compaction::KeyNotExistsBeyondOutputLevel` in `db/compaction/compaction.cc`.
#[derive(Debug, Clone)]
pub(crate) struct DeeperLevels {
    comparator: Comparator,
    known: KnownKeys,
    /// Each level with tables, and the index of its first table that does not end before the last
    /// queried key.
    levels: Vec<(Arc<Level>, usize)>,
}

/// What is known about the deeper levels (those below the output level) without looking up a key in
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KnownKeys {
    /// No deeper level has a key in the range of the compaction.
    None,
    /// Deeper levels may have some of the keys, so each key is looked up.
    ByKey,
    /// Any key may have an older version, since even tables of the output level may be older than
    /// the inputs. This is so outside leveled compaction, and in compactions within level 0.
    Unknown,
}

impl DeeperLevels {
    /// Any level may have any key.
    pub(crate) fn unknown(comparator: Comparator) -> Self {
        Self { comparator, known: KnownKeys::Unknown, levels: Vec::new() }
    }

    /// Creates the state for a compaction that was picked from `version`.
    pub(crate) fn new(
        version: &Version,
        comparator: Comparator,
        output_level: usize,
        is_bottommost: bool,
        is_leveled: bool,
    ) -> Self {
        let known = match () {
            () if is_bottommost => KnownKeys::None,
            () if is_leveled && output_level > 0 => KnownKeys::ByKey,
            () => KnownKeys::Unknown,
        };
        let below = version.levels().iter().skip(output_level + 1);
        let levels = below
            .filter(|level| known == KnownKeys::ByKey && !level.files().is_empty())
            .map(|level| (Arc::clone(level), 0))
            .collect();
        Self { comparator, known, levels }
    }

    /// Returns true if no deeper level can have a version of a user key. False means that one may
    /// have it.
    pub(crate) fn lack(&mut self, user_key: &[u8]) -> bool {
        self.lack_range(user_key, |comparator, smallest| {
            comparator.compare(smallest, user_key).is_le()
        })
    }

    /// Returns true if no deeper level can have a key from `begin`, inclusive, to `end`, exclusive.
    pub(crate) fn lack_keys_between(&mut self, begin: &[u8], end: &[u8]) -> bool {
        self.lack_range(begin, |comparator, smallest| comparator.compare(smallest, end).is_lt())
    }

    /// Returns true if no table of the deeper levels can have keys in a range that starts at
    /// `begin`. `reaches` is called with a table's smallest key, and returns whether this key is
    /// within or before the range.
    fn lack_range(&mut self, begin: &[u8], reaches: impl Fn(&Comparator, &[u8]) -> bool) -> bool {
        match self.known {
            KnownKeys::None => return true,
            KnownKeys::Unknown => return false,
            KnownKeys::ByKey => {}
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
