//! Several gets at one moment.

use std::sync::Arc;

use tailwater_format::key::Sequence;

use crate::Result;
use crate::db::SuperVersion;
use crate::read::{PinnedValue, get};
use crate::table::ReadProfile;

/// Reads the values of several keys at one sequence number, in the order of the keys.
///
/// They are looked up in key order, so that keys of one block follow one another.
pub(crate) fn multi_get(
    source: &Arc<SuperVersion>,
    keys: &[&[u8]],
    snapshot: Sequence,
    profile: &ReadProfile,
) -> Vec<Result<Option<PinnedValue>>> {
    let comparator = source.tables().comparator();
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|&a, &b| comparator.compare(keys[a], keys[b]));
    let mut values: Vec<Result<Option<PinnedValue>>> = keys.iter().map(|_| Ok(None)).collect();
    for at in order {
        let mut value = None;
        let found = get::get_in(source, keys[at], snapshot, profile, &mut value);
        values[at] = found.map(|_| value);
    }
    values
}
