//! Running compactions.

use tailwater_format::key::user_key;

use crate::compaction::picker::inputs::Inputs;
use crate::compaction::picker::tree::Tree;
use crate::options::CompactionStyle;

impl<'a> Tree<'a> {
    /// Whether a running compaction takes tables of level 0. Only one compaction at a time may do
    /// so, since tables of level 0 may overlap. Under universal compaction, every running
    /// compaction counts as one that does.
    pub(super) fn is_level_0_busy(&self) -> bool {
        let is_universal = self.options().compaction_style == CompactionStyle::Universal;
        self.context.running.iter().any(|running| is_universal || running.start_level() == 0)
    }

    /// Whether a running compaction writes to `output_level` in a range of user keys that overlaps
    /// the range of `inputs`.
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
