//! Gets of several keys at one sequence number.

use std::sync::Arc;

use tailwater_format::key::Sequence;

use crate::column_family::SuperVersion;
use crate::error::Result;
use crate::read::get;
use crate::stats::{Histogram, Statistics, Ticker};
use crate::table::{PinnedValue, ReadProfile};

/// Reads the values of several keys at the sequence number `snapshot`, and passes each to
/// `receive`, with the key's index in `keys`.
///
/// The keys are looked up in ascending order, so that keys in the same block are looked up one
/// after another.
pub(crate) fn multi_get(
    source: &Arc<SuperVersion>,
    keys: &[impl AsRef<[u8]>],
    snapshot: Sequence,
    profile: &ReadProfile,
    statistics: Option<&Statistics>,
    mut receive: impl FnMut(usize, Result<Option<PinnedValue>>),
) {
    let started = statistics.map(Statistics::start);
    let (mut values_found, mut bytes) = (0, 0);
    let comparator = source.tables().comparator();
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|&a, &b| comparator.compare(keys[a].as_ref(), keys[b].as_ref()));
    for at in order {
        let found = get::get_in(source, keys[at].as_ref(), snapshot, profile, statistics);
        if statistics.is_some()
            && let Ok(Some(value)) = &found
        {
            values_found += 1;
            bytes += value.len() as u64;
        }
        receive(at, found);
    }
    if let (Some(statistics), Some(started)) = (statistics, started) {
        let recorder = statistics.recorder();
        recorder.add(Ticker::MultigetCalls, 1);
        recorder.add(Ticker::MultigetKeysRead, keys.len() as u64);
        recorder.add(Ticker::MultigetKeysFound, values_found);
        recorder.add(Ticker::MultigetBytesRead, bytes);
        recorder.record(Histogram::BytesPerMultiget, bytes);
        statistics.record_since(Histogram::DbMultiget, started);
    }
}
