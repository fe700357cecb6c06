//! The range tombstones of an output.
//!
//! An output holds every tombstone that reaches into its part of the key space, as long as it was
//! written; what of that is the output's own is between its bounds. The parts of neighbouring
//! outputs meet, so that together they cover what the inputs covered. Of the tombstones over a
//! range, only the newest of each stripe stays; those that everyone sees go where nothing is left
//! below them. Source: `CompactionOutputs::AddRangeDels` in `db/compaction/compaction_outputs.cc`.

use tailwater_format::Comparator;
use tailwater_format::key::{self, MAX_SEQUENCE, Sequence, ValueType, pack_trailer};

use crate::compaction::merge::{DeeperLevels, InputTombstones, Snapshots};
use crate::range_tombstone::{Boundary, RangeTombstone};

/// A range tombstone as an output holds it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutputTombstone {
    /// The internal key of its start.
    pub(super) start: Vec<u8>,
    /// The user key that it ends before.
    pub(super) end: Vec<u8>,
    /// Where the output's part of it begins and ends, as internal keys that are both included.
    pub(super) smallest: Vec<u8>,
    pub(super) largest: Vec<u8>,
}

/// The part of the key space that an output has: internal keys that are both included; without one
/// it goes on to the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds<'a> {
    pub(super) lower: Option<&'a [u8]>,
    pub(super) upper: Option<&'a [u8]>,
}

/// What decides which tombstones stay.
pub(super) struct Rules<'a> {
    pub(super) comparator: &'a Comparator,
    pub(super) snapshots: &'a Snapshots,
    pub(super) is_bottommost: bool,
}

/// The tombstones of the output within these bounds, and how many were dropped. Outputs are asked
/// about in order.
pub(super) fn output_tombstones(
    inputs: &InputTombstones,
    bounds: Bounds<'_>,
    rules: &Rules<'_>,
    deeper: &mut DeeperLevels,
) -> (Vec<OutputTombstone>, u64) {
    let lower = bounds.lower.and_then(Boundary::from_internal_key);
    let upper = bounds.upper.and_then(Boundary::from_internal_key);
    let fragments = inputs.between(rules.comparator, lower, upper);
    let (mut kept, mut dropped) = (Vec::new(), 0);
    let mut visible = Visible::default();
    for tombstone in fragments.iter() {
        if !visible.takes(&tombstone, rules.snapshots) {
            continue;
        }
        let Some(cut) = cut(&tombstone, bounds, rules.comparator) else { continue };
        let everyone_sees = tombstone.sequence <= rules.snapshots.earliest();
        let (begin, end) = (key::user_key(&cut.smallest), key::user_key(&cut.largest));
        if everyone_sees && (rules.is_bottommost || deeper.lack_keys_between(begin, end)) {
            dropped += 1;
        } else {
            kept.push(cut);
        }
    }
    (kept, dropped)
}

/// Which of the tombstones over the same range somebody sees.
#[derive(Default)]
struct Visible {
    /// Where the range begins.
    start: Option<Vec<u8>>,
    /// None above this sequence number is seen below the last one taken; `None` where none is.
    below: Option<Sequence>,
}

impl Visible {
    /// Whether the next tombstone is the newest of its stripe. They come by range, and of each
    /// range the newest first.
    fn takes(&mut self, tombstone: &RangeTombstone<'_>, snapshots: &Snapshots) -> bool {
        if self.start.as_deref() != Some(tombstone.start) {
            self.start = Some(tombstone.start.to_vec());
            self.below = Some(MAX_SEQUENCE);
        }
        let takes = self.below.is_some_and(|below| tombstone.sequence <= below);
        if takes {
            self.below = snapshots.stripe(tombstone.sequence).below;
        }
        takes
    }
}

/// A tombstone with the part of it that lies within the bounds, if there is one.
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

/// The place before every version of a user key, as an internal key.
pub(super) fn exclusive_bound(user_key: &[u8]) -> Vec<u8> {
    internal_key(user_key, pack_trailer(MAX_SEQUENCE, ValueType::RangeDeletion as u8))
}

fn internal_key(user_key: &[u8], trailer: u64) -> Vec<u8> {
    let mut internal_key = Vec::new();
    key::put_internal_key(&mut internal_key, user_key, trailer);
    internal_key
}
