//! Selection of input tables: overlaps, clean cuts, and widening of inputs.
//!
//! Below level 0 the records of one user key may continue from the end of a table into the next
//! table. If only one of the two tables were compacted, newer records of the key could end up in a
//! deeper level than older ones. A *clean cut* is a boundary between two neighbouring tables that
//! share no user key. Inputs always begin and end at a clean cut.

use std::ops::Range;
use std::sync::Arc;

use tailwater_format::key::user_key;

use crate::compaction::picker::key_range::{Bounds, KeyRange, compare_bounds};
use crate::compaction::picker::level_targets::multiply;
use crate::compaction::picker::tree::{Files, Tree, total_size};
use crate::table::FileMetadata;

/// Returned if a table that a compaction needs is already being compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Busy;

/// Tables of one level; never empty.
#[derive(Clone)]
pub(super) struct Inputs<'a> {
    pub(super) level: usize,
    /// The tables, in the order that they have in their level: by key or, in level 0, from the
    /// newest to the oldest.
    pub(super) files: Files<'a>,
}

impl Inputs<'_> {
    /// Fails if any of the tables is already being compacted.
    pub(super) fn check_free(&self) -> Result<(), Busy> {
        if self.files.iter().any(|file| file.compaction.is_claimed()) { Err(Busy) } else { Ok(()) }
    }

    /// Returns the total size of the tables, in bytes.
    pub(super) fn size(&self) -> u64 {
        total_size(self.files.iter().copied())
    }
}

impl<'a> Tree<'a> {
    /// Returns the key range of tables.
    pub(super) fn range(&self, inputs: &Inputs<'a>) -> KeyRange<'a> {
        let ranges = inputs
            .files
            .iter()
            .map(|file| KeyRange { smallest: file.smallest(), largest: file.largest() });
        let union = ranges.reduce(|a, b| a.union(b, self.context.comparator));
        union.unwrap_or(KeyRange { smallest: &[], largest: &[] })
    }

    /// Returns the key range of tables of several levels.
    pub(super) fn range_of_all(&self, inputs: &[&Inputs<'a>]) -> KeyRange<'a> {
        let ranges = inputs.iter().map(|inputs| self.range(inputs));
        let union = ranges.reduce(|a, b| a.union(b, self.context.comparator));
        union.unwrap_or(KeyRange { smallest: &[], largest: &[] })
    }

    /// Returns the tables of a level that overlap a range, in the order that they have in the
    /// level. In level 0, also returns each table that overlaps another returned table.
    pub(super) fn overlapping(&self, level: usize, bounds: Bounds<'_>) -> Files<'a> {
        let files = self.files(level);
        match level {
            0 => self.overlapping_in_level_0(bounds),
            _ => files[self.overlap(files, bounds)].iter().collect(),
        }
    }

    fn overlapping_in_level_0(&self, bounds: Bounds<'_>) -> Files<'a> {
        let files = self.files(0);
        let compare = |a: &[u8], b: &[u8]| self.context.comparator.compare(a, b);
        let mut begin = bounds.begin.map(user_key);
        let mut end = bounds.end.map(user_key);
        let mut is_taken = vec![false; files.len()];
        loop {
            let mut grew = false;
            for (file, is_taken) in files.iter().zip(&mut is_taken) {
                let (smallest, largest) = (file.smallest_user_key(), file.largest_user_key());
                let is_outside = begin.is_some_and(|begin| compare(largest, begin).is_lt())
                    || end.is_some_and(|end| compare(smallest, end).is_gt());
                if *is_taken || is_outside {
                    continue;
                }
                *is_taken = true;
                grew = true;
                begin = begin
                    .map(|begin| if compare(smallest, begin).is_lt() { smallest } else { begin });
                end = end.map(|end| if compare(largest, end).is_gt() { largest } else { end });
            }
            if !grew {
                let taken = files.iter().zip(is_taken).filter(|(_, is_taken)| *is_taken);
                return taken.map(|(file, _)| file).collect();
            }
        }
    }

    /// Returns the indexes of the tables that overlap a range, in a level other than 0.
    fn overlap(&self, files: &[Arc<FileMetadata>], bounds: Bounds<'_>) -> Range<usize> {
        let compare = |a: &[u8], b: &[u8]| compare_bounds(self.context.comparator, a, b);
        let from = bounds.begin.map_or(0, |begin| {
            files.partition_point(|file| compare(file.largest(), begin).is_lt())
        });
        let to = bounds.end.map_or(files.len(), |end| {
            files.partition_point(|file| compare(file.smallest(), end).is_le())
        });
        from..to.max(from)
    }

    /// Returns the tables of a level other than 0 that are entirely within a range. Tables at
    /// either end that share a user key with their neighbour outside the range are left out.
    fn clean_within(&self, level: usize, range: KeyRange<'_>) -> Files<'a> {
        let files = self.files(level);
        let compare = |a: &[u8], b: &[u8]| compare_bounds(self.context.comparator, a, b);
        let joins = |left: usize| match (files.get(left), files.get(left + 1)) {
            (Some(left), Some(right)) => compare(left.largest(), right.smallest()).is_eq(),
            _ => false,
        };
        let mut from =
            files.partition_point(|file| compare(file.smallest(), range.smallest).is_lt());
        while from > 0 && joins(from - 1) {
            from += 1;
        }
        let mut to = files.partition_point(|file| compare(file.largest(), range.largest).is_le());
        while to > from && joins(to - 1) {
            to -= 1;
        }
        files.get(from..to).unwrap_or_default().iter().collect()
    }

    /// Widens inputs to clean cuts. Does nothing for level 0, from which only one compaction at a
    /// time takes tables.
    ///
    /// # Errors
    /// Busy, if any of the widened inputs is already being compacted.
    pub(super) fn widen_to_clean_cut(&self, inputs: &mut Inputs<'a>) -> Result<(), Busy> {
        // In level 0, the search for overlapping tables has already widened the inputs.
        if inputs.level == 0 {
            return Ok(());
        }
        loop {
            let count = inputs.files.len();
            inputs.files = self.overlapping(inputs.level, self.range(inputs).bounds());
            if inputs.files.len() <= count {
                return inputs.check_free();
            }
        }
    }

    /// Returns the table that follows the last of the inputs in their level, which is not level 0.
    pub(super) fn file_behind(&self, inputs: &Inputs<'a>) -> Option<&'a Arc<FileMetadata>> {
        let last = inputs.files.last()?;
        let files = self.files(inputs.level);
        let at = files.iter().position(|file| Arc::ptr_eq(file, last))?;
        files.get(at + 1)
    }

    /// Returns the tables of the output level that the inputs overlap; `None` if there are none.
    /// Also adds further tables of the input level to the inputs, as long as the inputs then
    /// overlap no further tables of the output level. With `only_right`, first tries to add only
    /// tables whose keys are above those of the inputs. If that fails, adds tables on both sides
    /// that lie within the union of two key ranges: that of the inputs and that of the overlapped
    /// tables.
    pub(super) fn join_output_level(
        &self,
        inputs: &mut Inputs<'a>,
        output_level: usize,
        only_right: bool,
    ) -> Result<Option<Inputs<'a>>, Busy> {
        if inputs.level == output_level {
            return Ok(None);
        }
        let range = self.range(inputs);
        let Some(outputs) = self.output_inputs(output_level, range)? else {
            return Ok(None);
        };
        let everything = range.union(self.range(&outputs), self.context.comparator);
        let begin = if only_right { range.smallest } else { everything.smallest };
        let wide = KeyRange { smallest: begin, largest: everything.largest };
        let widened = self
            .widened(inputs, wide, &outputs)
            .or_else(|| self.widened_within(inputs, everything, &outputs));
        if let Some(widened) = widened {
            *inputs = widened;
        }
        Ok(Some(outputs))
    }

    /// Returns the tables of the output level that overlap `range`, and their neighbours that share
    /// user keys with them. Returns `None` if no table overlaps the range.
    pub(super) fn output_inputs(
        &self,
        output_level: usize,
        range: KeyRange<'_>,
    ) -> Result<Option<Inputs<'a>>, Busy> {
        let files = self.overlapping(output_level, range.bounds());
        if files.is_empty() {
            return Ok(None);
        }
        let mut outputs = Inputs { level: output_level, files };
        self.widen_to_clean_cut(&mut outputs)?;
        Ok(Some(outputs))
    }

    /// Returns the inputs widened to all tables of their level that overlap `range`. Returns `None`
    /// if widening is not worthwhile ([`Self::is_worth_widening`]), if a table is already being
    /// compacted, or if the widened inputs overlap further tables of the output level.
    fn widened(
        &self,
        inputs: &Inputs<'a>,
        range: KeyRange<'_>,
        outputs: &Inputs<'a>,
    ) -> Option<Inputs<'a>> {
        let files = self.overlapping(inputs.level, range.bounds());
        let size = total_size(files.iter().copied());
        let mut widened = Inputs { level: inputs.level, files };
        self.widen_to_clean_cut(&mut widened).ok()?;
        widened.check_free().ok()?;
        if !self.is_worth_widening(inputs, &widened, size, outputs) {
            return None;
        }
        let outputs_then = self.output_inputs(outputs.level, self.range(&widened)).ok()??;
        (outputs_then.files.len() == outputs.files.len()).then_some(widened)
    }

    /// Returns the inputs widened to all tables of the input level that lie entirely within
    /// `range`. `range` is the key range of the inputs and of `outputs`, the tables that they
    /// overlap in the output level. Returns `None` if widening is not worthwhile
    /// ([`Self::is_worth_widening`]).
    fn widened_within(
        &self,
        inputs: &Inputs<'a>,
        range: KeyRange<'_>,
        outputs: &Inputs<'a>,
    ) -> Option<Inputs<'a>> {
        if inputs.level == 0 {
            return None;
        }
        let files = self.clean_within(inputs.level, range);
        let widened = Inputs { level: inputs.level, files };
        let is_worth = self.is_worth_widening(inputs, &widened, widened.size(), outputs);
        (is_worth && widened.check_free().is_ok()).then_some(widened)
    }

    /// Whether `widened` has more tables than `inputs`, and the size of the compaction stays below
    /// twice `max_compaction_bytes`. The limit is generous, since the added tables then need no
    /// separate compaction.
    fn is_worth_widening(
        &self,
        inputs: &Inputs<'a>,
        widened: &Inputs<'a>,
        widened_size: u64,
        outputs: &Inputs<'a>,
    ) -> bool {
        let limit = multiply(self.options().max_compaction_bytes, 2.0);
        widened.files.len() > inputs.files.len()
            && outputs.size().saturating_add(widened_size) < limit
    }

    /// Returns the tables that overlap a range, in the first level below the output level that has
    /// such tables.
    pub(super) fn grandparents(&self, output_level: usize, range: KeyRange<'_>) -> Files<'a> {
        (output_level + 1..self.level_count())
            .map(|level| self.overlapping(level, range.bounds()))
            .find(|files| !files.is_empty())
            .unwrap_or_default()
    }
}
