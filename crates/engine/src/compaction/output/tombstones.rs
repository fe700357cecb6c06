//! The range tombstones of an output.
//!
//! An output holds, in full length, every tombstone that overlaps its part of the key space. The
//! tombstone applies only between the output's bounds. The parts of neighbouring outputs adjoin, so
//! together the outputs cover everything that the inputs covered. Of the tombstones over a range,
//! only the newest in each stripe is kept; a tombstone that all snapshots see is dropped if no
//! deeper level has keys in its range. Source: `CompactionOutputs::AddRangeDels` in
//! `db/compaction/compaction_outputs.cc`.

use tailwater_format::Comparator;
use tailwater_format::key::{self, MAX_SEQUENCE, ValueType, pack_trailer};
use tailwater_format::limits::{ENTRY_OVERHEAD, block_length_max};

use crate::compaction::merge::{DeeperLevels, InputTombstones, Snapshots};
use crate::range_tombstone::{Boundary, RangeTombstone, StripedFragment, joined};

/// The trailer of the internal key that sorts before all versions of a user key.
const BEFORE_ALL_VERSIONS: u64 = pack_trailer(MAX_SEQUENCE, ValueType::RangeDeletion as u8);

/// A range tombstone of an output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutputTombstone {
    /// The internal key at which the tombstone starts.
    pub(super) start: Vec<u8>,
    /// The user key at which the tombstone ends, exclusive.
    pub(super) end: Vec<u8>,
    /// The smallest and largest internal key at which the tombstone applies in this output, both
    /// inclusive.
    pub(super) smallest: Vec<u8>,
    pub(super) largest: Vec<u8>,
}

/// An output's part of the key space: internal keys, both inclusive; `None` is unbounded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds<'a> {
    pub(super) lower: Option<&'a [u8]>,
    pub(super) upper: Option<&'a [u8]>,
}

/// What decides whether a tombstone is dropped.
pub(super) struct Rules<'a> {
    pub(super) comparator: &'a Comparator,
    pub(super) snapshots: &'a Snapshots,
    pub(super) is_bottommost: bool,
}

/// The lengths of the range tombstones that the current output would have if it ended at the
/// current key. An output ends before its block of range tombstones is longer than a block may be,
/// as far as there are keys at which it can end.
#[derive(Debug, Default)]
pub(super) struct TombstoneLengths {
    /// The start of each fragment of range tombstones, as a user key, and an upper bound of the
    /// fragment's length in the block. Empty if all fragments together fit half a block: the
    /// lengths are then not tracked.
    fragments: Vec<(Vec<u8>, usize)>,
    /// Index of the first fragment that starts after the current key.
    next: usize,
    /// Number of fragments of the current output.
    count: usize,
    /// Length of the fragments of the current output, in bytes.
    bytes: usize,
}

impl TombstoneLengths {
    /// Creates the state before the first key of the outputs with these user keys as bounds.
    pub(super) fn between(
        inputs: &InputTombstones,
        rules: &Rules<'_>,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
    ) -> Self {
        let boundary = |user_key| Boundary { user_key, trailer: BEFORE_ALL_VERSIONS };
        let (lower, upper) = (lower.map(boundary), upper.map(boundary));
        let fragments = inputs.between(rules.comparator, rules.snapshots, lower, upper);
        let length = |it: &StripedFragment<'_>| {
            it.sequences.len() * (it.start.len() + it.end.len() + ENTRY_OVERHEAD)
        };
        if fragments.iter().map(length).sum::<usize>() <= block_length_max() / 2 {
            return Self::default();
        }
        let fragments = fragments.iter().map(|it| (it.start.to_vec(), length(it)));
        Self { fragments: fragments.collect(), ..Self::default() }
    }

    /// Whether the lengths are tracked, so that outputs may have to end because of them.
    pub(super) fn are_tracked(&self) -> bool {
        !self.fragments.is_empty()
    }

    /// Moves to the next key.
    pub(super) fn pass(&mut self, comparator: &Comparator, user_key: &[u8]) {
        while let Some((start, length)) = self.fragments.get(self.next)
            && comparator.compare(start, user_key).is_le()
        {
            self.next += 1;
            self.count += 1;
            self.bytes += length;
        }
    }

    /// Whether the current output must end at the next key at which it can end. False if it has a
    /// single fragment, because that fragment would be the first of the next output, too.
    pub(super) fn are_long(&self) -> bool {
        self.count > 1 && self.bytes > block_length_max() / 2
    }

    /// Starts an output at the current key. The last fragment may extend into it.
    pub(super) fn restart(&mut self) {
        let last = self.next.checked_sub(1).and_then(|last| self.fragments.get(last));
        self.count = usize::from(last.is_some());
        self.bytes = last.map_or(0, |(_, length)| *length);
    }
}

/// Returns the tombstones of the output with the given bounds, and the number of tombstones that
/// were dropped. Must be called for the outputs in the order of their keys.
pub(super) fn output_tombstones(
    inputs: &InputTombstones,
    bounds: Bounds<'_>,
    rules: &Rules<'_>,
    deeper: &mut DeeperLevels,
) -> (Vec<OutputTombstone>, u64) {
    let lower = bounds.lower.and_then(Boundary::from_internal_key);
    let upper = bounds.upper.and_then(Boundary::from_internal_key);
    let mut fragments = inputs.between(rules.comparator, rules.snapshots, lower, upper);
    let mut dropped = 0;
    // Obsolete tombstones are dropped from each fragment before adjacent fragments with the same
    // tombstones are joined. A tombstone may be obsolete in only some of these fragments.
    for StripedFragment { start, end, sequences } in &mut fragments {
        sequences.retain(|&sequence| {
            let tombstone = RangeTombstone { start, end, sequence };
            let Some(cut) = cut(&tombstone, bounds, rules.comparator) else { return false };
            let everyone_sees = sequence <= rules.snapshots.earliest();
            let (begin, end) = (key::user_key(&cut.smallest), key::user_key(&cut.largest));
            let is_obsolete =
                everyone_sees && (rules.is_bottommost || deeper.lack_keys_between(begin, end));
            dropped += u64::from(is_obsolete);
            !is_obsolete
        });
    }
    let mut kept = Vec::new();
    for StripedFragment { start, end, sequences } in joined(rules.comparator, fragments) {
        let of = |sequence| RangeTombstone { start, end, sequence };
        kept.extend(
            sequences
                .into_iter()
                .filter_map(|sequence| cut(&of(sequence), bounds, rules.comparator)),
        );
    }
    (kept, dropped)
}

/// Returns the part of a tombstone that lies within `bounds`; `None` if no part does.
fn cut(
    tombstone: &RangeTombstone<'_>,
    bounds: Bounds<'_>,
    comparator: &Comparator,
) -> Option<OutputTombstone> {
    let compare = |a: &[u8], b: &[u8]| key::compare_internal(comparator, a, b);
    let trailer = pack_trailer(tombstone.sequence, ValueType::RangeDeletion as u8);
    let start = internal_key(tombstone.start, trailer);
    let mut smallest = start.clone();
    let mut largest = exclusive_bound(tombstone.end);
    if let Some(lower) = bounds.lower {
        if compare(&largest, lower).is_le() {
            return None;
        }
        let lower_user_key = key::user_key(lower);
        if comparator.compare(tombstone.start, lower_user_key).is_lt() {
            smallest = internal_key(lower_user_key, trailer);
        }
        if compare(&smallest, lower).is_lt() {
            smallest = lower.to_vec();
        }
    }
    if let Some(upper) = bounds.upper {
        if compare(upper, &smallest).is_lt() {
            return None;
        }
        if compare(upper, &largest).is_lt() {
            largest = upper.to_vec();
        }
    }
    Some(OutputTombstone { start, end: tombstone.end.to_vec(), smallest, largest })
}

/// Returns the internal key that sorts before all versions of a user key. As an upper bound, it
/// excludes the user key.
pub(super) fn exclusive_bound(user_key: &[u8]) -> Vec<u8> {
    internal_key(user_key, BEFORE_ALL_VERSIONS)
}

fn internal_key(user_key: &[u8], trailer: u64) -> Vec<u8> {
    let mut internal_key = Vec::new();
    key::put_internal_key(&mut internal_key, user_key, trailer);
    internal_key
}
