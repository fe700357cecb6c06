//! Running compactions.

use crate::compaction::Compaction;
use crate::compaction::picker::inputs::Inputs;
use crate::compaction::picker::tree::Tree;
use crate::options::CompactionStyle;
use tailwater_format::Comparator;
use tailwater_format::key::user_key;

impl Compaction {
    /// Marks the inputs as being compacted, or as free again. Must be called before another
    /// compaction is picked, and when this one has ended, even if it failed.
    pub(crate) fn mark_inputs(&self, being_compacted: bool) {
        let files = self.inputs.iter().flat_map(|input| &input.files);
        files.for_each(|file| file.set_being_compacted(being_compacted));
    }

    /// Returns the first input level.
    fn start_level(&self) -> usize {
        self.inputs.first().map_or(0, |input| input.level)
    }

    /// Returns the smallest and the largest user key of the inputs.
    pub(crate) fn user_keys(&self, comparator: &Comparator) -> Option<(&[u8], &[u8])> {
        let files = || self.inputs.iter().flat_map(|input| &input.files);
        let smallest = files().map(|file| file.smallest_user_key());
        let largest = files().map(|file| file.largest_user_key());
        let smallest = smallest.min_by(|a, b| comparator.compare(a, b))?;
        let largest = largest.max_by(|a, b| comparator.compare(a, b))?;
        Some((smallest, largest))
    }
}

impl<'a> Tree<'a> {
    /// Whether a compaction takes tables of level 0: only one may at a time, since its tables
    /// overlap.
    pub(super) fn is_level_0_busy(&self) -> bool {
        let is_universal = self.options().compaction_style == CompactionStyle::Universal;
        self.context.running.iter().any(|running| is_universal || running.start_level() == 0)
    }

    /// Whether a running compaction writes to the same level in the range of these inputs.
    pub(super) fn collides(&self, inputs: &[&Inputs<'a>], output_level: usize) -> bool {
        let comparator = self.context.comparator;
        let range = self.range_of_all(inputs);
        let (smallest, largest) = (user_key(range.smallest), user_key(range.largest));
        let running = self.context.running.iter();
        running.filter(|running| running.output_level == output_level).any(|running| {
            running.user_keys(comparator).is_some_and(|(from, to)| {
                comparator.compare(smallest, to).is_le()
                    && comparator.compare(largest, from).is_ge()
            })
        })
    }
}
