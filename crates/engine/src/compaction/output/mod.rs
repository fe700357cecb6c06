//! The output tables of a compaction, or of one part of it.
//!
//! # Invariants
//! - Outputs below level 0 do not overlap, and all versions of a user key are in one output, unless
//!   its index would be longer than a block may be.
//! - Each output has a key range, which begins where the key range of the previous output ends. A
//!   range tombstone that spans this point is in both outputs, and each output applies the
//!   tombstone only within its own key range.
//! - No output is empty.
//!
//! # Order
//! A table is started when its first record, or the first start of a range tombstone, is added. It
//! is completed and synced before the next table is started, or when this part of the compaction
//! ends. When all parts have ended, the job syncs the directory once.
//!
//! # A crash
//! No MANIFEST names the tables yet, so the next open removes them.
//!
//! Source: `db/compaction/compaction_outputs.cc`, `db/compaction/compaction_job.cc`.

mod cuts;
mod old_files;
mod table;
mod tombstones;

use std::sync::Arc;

use tailwater_format::key;

use crate::compaction::job_state::{JobState, Part};
use crate::compaction::merge::{DeeperLevels, Stop};
use crate::error::Result;
use crate::handover::Warmth;
use crate::table::StoredBlock;

pub(crate) use cuts::target_bytes;
use cuts::{Cuts, PassedGrandparents};
pub(crate) use table::WrittenTable;
use table::{OutputTable, WrittenEntries};
use tombstones::{
    Bounds, OutputTombstone, Rules, TombstoneLengths, exclusive_bound, output_tombstones,
};

/// The output tables of a part of a compaction.
pub(crate) struct Outputs {
    shared: Arc<JobState>,
    part: Part,
    cuts: Cuts,
    tombstones: TombstoneLengths,
    deeper: DeeperLevels,
    current: Option<OutputTable>,
    /// The internal key at which the key range of the current output begins. `None` if this key
    /// range begins where this part of the compaction begins.
    lower: Option<Vec<u8>>,
    /// The user key that was added last.
    last_key: Option<Vec<u8>>,
    written: Vec<WrittenTable>,
    /// Number of dropped range tombstones.
    dropped_tombstones: u64,
}

impl Outputs {
    /// Creates an empty set of outputs.
    pub(crate) fn new(shared: &Arc<JobState>, part: &Part) -> Self {
        let comparator = shared.comparator().clone();
        let cuts =
            Cuts::new(&shared.compaction, comparator, &shared.environment.options, shared.now_s);
        let tombstones = TombstoneLengths::between(
            shared.inputs.tombstones(),
            &tombstone_rules(shared),
            part.begin.as_deref(),
            part.end.as_deref(),
        );
        Self {
            deeper: shared.deeper_levels(),
            shared: Arc::clone(shared),
            part: part.clone(),
            cuts,
            tombstones,
            current: None,
            lower: None,
            last_key: None,
            written: Vec::new(),
            dropped_tombstones: 0,
        }
    }

    /// Whether an output may have to end at the start of a range tombstone, because the block of
    /// range tombstones would be too long.
    pub(crate) fn divide_tombstones(&self) -> bool {
        self.tombstones.are_tracked()
    }

    /// Adds the next stop of the merge: a record, or the start of a range tombstone. If the limits
    /// require it, the current output ends before `key`. Internal keys must be given in ascending
    /// order.
    pub(crate) fn add<'i>(
        &mut self,
        stop: Stop,
        key: &[u8],
        value: &[u8],
        warmth: Warmth,
        input: impl FnOnce() -> Option<StoredBlock<'i>>,
    ) -> Result<()> {
        let passed = self.cuts.pass(key);
        self.tombstones.pass(self.shared.comparator(), key::user_key(key));
        if self.current.as_ref().is_some_and(|table| self.ends_before(table, key, passed)) {
            self.complete(Some(key))?;
            self.cuts.restart(key);
            self.tombstones.restart();
            self.lower = Some(key.to_vec());
        }
        let last_key = self.last_key.get_or_insert_default();
        last_key.clear();
        last_key.extend_from_slice(key::user_key(key));
        let table = match &mut self.current {
            Some(table) => table,
            none => none.insert(OutputTable::begin(&self.shared, &self.part)?),
        };
        if stop == Stop::Record { table.add(key, value, warmth, input) } else { Ok(()) }
    }

    /// Whether the current output ends before `key`.
    fn ends_before(&self, table: &OutputTable, key: &[u8], passed: PassedGrandparents) -> bool {
        let is_full = table.is_index_half_full(key) || self.tombstones.are_long();
        let ends =
            is_full || self.cuts.ends_output(passed, table.size(&self.shared.environment.options));
        if !ends || !self.is_last_key(key) {
            return ends;
        }
        // The versions of a user key are divided only if they do not fit one index (which is then
        // more than half full), only below level 0, and only if no range tombstone covers the key.
        let (inputs, user_key) = (&self.shared.inputs, key::user_key(key));
        !table.has_index_room(key)
            && self.shared.compaction.output_level > 0
            && !inputs.tombstones().cover(self.shared.comparator(), user_key)
    }

    fn is_last_key(&self, key: &[u8]) -> bool {
        let comparator = self.shared.comparator();
        let last = self.last_key.as_ref();
        last.is_some_and(|last| comparator.compare(last, key::user_key(key)).is_eq())
    }

    /// Completes the last table. Returns all tables, and the number of dropped range tombstones.
    pub(crate) fn finish(mut self) -> Result<(Vec<WrittenTable>, u64)> {
        self.complete(None)?;
        Ok((self.written, self.dropped_tombstones))
    }

    /// Completes the current table, which ends before the internal key `next`. If there is no
    /// current table, but range tombstones are left, creates a table for them.
    fn complete(&mut self, next: Option<&[u8]>) -> Result<()> {
        let tombstones = self.take_tombstones(next);
        let mut table = match self.current.take() {
            Some(table) => table,
            None if tombstones.is_empty() => return Ok(()),
            None => OutputTable::begin(&self.shared, &self.part)?,
        };
        for OutputTombstone { start, end, smallest, largest } in &tombstones {
            table.add_range_tombstone(start, end, smallest, largest)?;
        }
        self.written.extend(table.finish(&self.shared)?);
        Ok(())
    }

    /// Returns the range tombstones of the current output. The output ends before the internal key
    /// `next`; with `None`, it ends where this part of the compaction ends.
    fn take_tombstones(&mut self, next: Option<&[u8]>) -> Vec<OutputTombstone> {
        let inputs = self.shared.inputs.tombstones();
        if inputs.is_empty() {
            return Vec::new();
        }
        let lower = match &self.lower {
            Some(lower) => Some(lower.clone()),
            None => self.part.begin.as_deref().map(exclusive_bound),
        };
        let end = next.map(key::user_key).or(self.part.end.as_deref());
        let upper = end.map(exclusive_bound);
        let rules = tombstone_rules(&self.shared);
        let bounds = Bounds { lower: lower.as_deref(), upper: upper.as_deref() };
        let (kept, dropped) = output_tombstones(inputs, bounds, &rules, &mut self.deeper);
        self.dropped_tombstones += dropped;
        kept
    }
}

fn tombstone_rules(shared: &JobState) -> Rules<'_> {
    Rules {
        comparator: shared.comparator(),
        snapshots: &shared.snapshots,
        is_bottommost: shared.compaction.is_bottommost,
    }
}

/// If options request it, reads written tables back and compares them with what was written.
pub(crate) fn verify(shared: &JobState, written: &[WrittenTable]) -> Result<()> {
    written.iter().try_for_each(|table| WrittenEntries::read_back(shared, table))
}
