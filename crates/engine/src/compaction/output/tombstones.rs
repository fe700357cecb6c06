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

use crate::compaction::merge::{DeeperLevels, InputTombstones, Snapshots};
use crate::range_tombstone::{Boundary, RangeTombstone, StripedFragment, joined};

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
    internal_key(user_key, pack_trailer(MAX_SEQUENCE, ValueType::RangeDeletion as u8))
}

fn internal_key(user_key: &[u8], trailer: u64) -> Vec<u8> {
    let mut internal_key = Vec::new();
    key::put_internal_key(&mut internal_key, user_key, trailer);
    internal_key
}
