//! Moves of several tables of a level in one compaction.
//!
//! Source: `TryExtendNonL0TrivialMove` in `db/compaction/compaction_picker_level.cc`.

use std::sync::Arc;

use crate::compaction::picker::inputs::Inputs;
use crate::compaction::picker::key_range::KeyRange;
use crate::compaction::picker::tree::Tree;
use crate::table::FileMetadata;

/// Maximum number of tables moved in one compaction.
const FILES_MAX: usize = 4;

/// Adjacent tables that are moved together.
struct Move<'t, 'a> {
    tree: &'t Tree<'a>,
    /// All tables of the level.
    files: &'a [Arc<FileMetadata>],
    output_level: usize,
    count: usize,
    bytes: u64,
}

impl<'a> Tree<'a> {
    /// If the only input table overlaps no table of the output level, adds neighbours that overlap
    /// none either, so that all these tables are moved without a merge. Returns whether any
    /// neighbour was added. `place` is the input table's index in its level. With `only_right`,
    /// only tables with larger keys are added.
    pub(super) fn extend_move(
        &self,
        inputs: &mut Inputs<'a>,
        output_level: usize,
        place: usize,
        only_right: bool,
    ) -> bool {
        let [first] = inputs.files[..] else { return false };
        let is_elsewhere = self.context.database.db_paths.len() > 1;
        if is_elsewhere || !self.options().compression_per_level.is_empty() {
            return false;
        }
        let files = self.files(inputs.level);
        let mut row = Move { tree: self, files, output_level, count: 1, bytes: first.size() };
        for (next, file) in files.iter().enumerate().skip(place + 1) {
            let range = KeyRange { smallest: first.smallest(), largest: file.largest() };
            if !row.takes(next, range, row.is_cut_behind(next)) {
                break;
            }
            inputs.files.push(file);
        }
        let before = files[..place].iter().enumerate().rev();
        for (next, file) in before.filter(|_| !only_right) {
            let range = KeyRange { smallest: file.smallest(), largest: first.largest() };
            let is_cut = next.checked_sub(1).is_none_or(|before| row.is_cut_behind(before));
            if !row.takes(next, range, is_cut) {
                break;
            }
            inputs.files.insert(0, file);
        }
        inputs.files.len() > 1
    }
}

impl Move<'_, '_> {
    /// Whether there is a clean cut after the table at index `place`: the table shares no user key
    /// with the next table.
    fn is_cut_behind(&self, place: usize) -> bool {
        match (self.files.get(place), self.files.get(place + 1)) {
            (Some(left), Some(right)) => {
                let (left, right) = (left.largest_user_key(), right.smallest_user_key());
                self.tree.context.comparator.compare(left, right).is_ne()
            }
            _ => true,
        }
    }

    /// Adds the table at index `next`, if it can be moved too. `range` spans the tables up to and
    /// including this table. `is_cut` says whether this table shares no user key with the neighbour
    /// that would be added after it.
    fn takes(&mut self, next: usize, range: KeyRange<'_>, is_cut: bool) -> bool {
        let overlaps = || !self.tree.overlapping(self.output_level, range.bounds()).is_empty();
        let file = &self.files[next];
        if self.count >= FILES_MAX || !is_cut || file.compaction.is_claimed() || overlaps() {
            return false;
        }
        self.bytes = self.bytes.saturating_add(file.size());
        let fits = self.bytes <= self.tree.options().max_compaction_bytes;
        self.count += usize::from(fits);
        fits
    }
}
