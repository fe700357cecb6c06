//! Random records for tables, and the database contents that result from them.

use std::collections::BTreeMap;

use fastrand::Rng;
use tailwater_format::Comparator;
use tailwater_format::key::{self, Sequence, ValueType};

/// A record as a table stores it: key, sequence number, type and value.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) key: Vec<u8>,
    pub(crate) sequence: Sequence,
    pub(crate) kind: ValueType,
    /// The value of the record. For a range deletion, the exclusive end of the range.
    pub(crate) value: Vec<u8>,
}

impl Record {
    pub(crate) fn internal_key(&self) -> Vec<u8> {
        let mut internal_key = Vec::new();
        let trailer = key::pack_trailer(self.sequence, self.kind as u8);
        key::put_internal_key(&mut internal_key, &self.key, trailer);
        internal_key
    }
}

/// Returns `count` random records with consecutive sequence numbers, in ascending order of these
/// numbers.
pub(crate) fn random(
    rng: &mut Rng,
    reverse: bool,
    sequence: &mut Sequence,
    count: usize,
) -> Vec<Record> {
    // One in twenty tables has only range deletions.
    let only_ranges = rng.u8(..20) == 0;
    (0..count)
        .map(|_| {
            *sequence += 1;
            let kind = match rng.u8(..100) {
                _ if only_ranges => ValueType::RangeDeletion,
                0 => ValueType::RangeDeletion,
                1..15 => ValueType::Deletion,
                15..30 => ValueType::Merge,
                _ => ValueType::Value,
            };
            let (mut key, mut value) = (random_key(rng), Vec::new());
            match kind {
                ValueType::Value | ValueType::Merge => value = random_value(rng),
                ValueType::RangeDeletion => {
                    value = random_key(rng);
                    if value == key {
                        value.push(0);
                    }
                    if (value < key) != reverse {
                        std::mem::swap(&mut key, &mut value);
                    }
                }
                _ => {}
            }
            Record { key, sequence: *sequence, kind, value }
        })
        .collect()
}

fn random_key(rng: &mut Rng) -> Vec<u8> {
    let mut key = match rng.u8(..40) {
        0 => Vec::new(),
        1 => vec![0xff; rng.usize(1..4)],
        2 => vec![b'k'; rng.usize(1..300)],
        _ => format!("key{:03}", rng.u32(..300)).into_bytes(),
    };
    if rng.u8(..4) == 0 {
        key.extend((0..rng.usize(..4)).map(|_| rng.u8(..3)));
    }
    key
}

fn random_value(rng: &mut Rng) -> Vec<u8> {
    let length = match rng.u8(..50) {
        0 => rng.usize(..20_000),
        1..5 => rng.usize(..1000),
        _ => rng.usize(..60),
    };
    // Half of the values are compressible.
    let letters = if rng.bool() { 2 } else { 255 };
    (0..length).map(|_| rng.u8(..letters)).collect()
}

/// Returns the keys and values that reads must find after these records, in key order. A merge
/// joins the operands with commas.
pub(crate) fn live(records: &[Record], comparator: &Comparator) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut versions: BTreeMap<&[u8], Vec<&Record>> = BTreeMap::new();
    let (ranges, points): (Vec<&Record>, Vec<&Record>) =
        records.iter().partition(|record| record.kind == ValueType::RangeDeletion);
    for record in points {
        versions.entry(&record.key).or_default().push(record);
    }
    let mut live: Vec<(Vec<u8>, Vec<u8>)> = versions
        .into_iter()
        .filter_map(|(key, mut versions)| {
            let covers = |range: &&&Record| {
                comparator.compare(&range.key, key).is_le()
                    && comparator.compare(key, &range.value).is_lt()
            };
            let deleted = ranges.iter().filter(covers).map(|range| range.sequence).max();
            versions.retain(|record| Some(record.sequence) > deleted);
            versions.sort_by_key(|record| std::cmp::Reverse(record.sequence));
            Some((key.to_vec(), folded(&versions)?))
        })
        .collect();
    live.sort_by(|(a, _), (b, _)| comparator.compare(a, b));
    live
}

/// Returns the value that results from all versions of one key, newest first, or `None` if the key
/// is deleted.
fn folded(versions: &[&Record]) -> Option<Vec<u8>> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for record in versions {
        match record.kind {
            ValueType::Merge => parts.push(&record.value),
            ValueType::Value => {
                parts.push(&record.value);
                break;
            }
            _ => break,
        }
    }
    parts.reverse();
    (!parts.is_empty()).then(|| parts.join(&b','))
}
