//! Random writes, and the expected results of reads.

use fastrand::Rng;
use tailwater_format::key::{Sequence, ValueType};
use tailwater_format::wide_column::{self, WideColumn};

use super::scene::Record;
use crate::merge_operator::MergeOperator;

/// A sequence of writes, ordered by their sequence numbers. The first ones may be ingested records
/// of different keys, which have sequence number 0. The writes after them begin at sequence number
/// 1.
pub(super) struct History {
    pub(super) records: Vec<Record>,
    operator: MergeOperator,
    /// Whether the history contains entities and values with a preferred sequence number.
    has_rare: bool,
    /// Whether all kinds of writes are made to all keys. This breaks the contract of single
    /// deletions.
    is_mixed: bool,
    /// For each key, whether it has a value; only maintained for the keys that are removed by
    /// single deletions.
    put_once: Vec<bool>,
}

impl History {
    /// Creates a history of random writes to a few keys.
    pub(super) fn random(rng: &mut Rng, count: usize, operator: MergeOperator) -> Self {
        let ingested = if rng.bool() { rng.usize(1..8) } else { 0 };
        Self::of(rng, (ingested, count), 24, operator, (true, false))
    }

    /// Creates a history of random writes of all kinds to a few keys. It breaks the contract of
    /// single deletions.
    pub(super) fn mixed(rng: &mut Rng, count: usize, operator: MergeOperator) -> Self {
        let ingested = if rng.bool() { rng.usize(1..5) } else { 0 };
        Self::of(rng, (ingested, count), 8, operator, (true, true))
    }

    /// Creates a history of random writes to `keys` keys, without entities and without values that
    /// have a preferred sequence number.
    pub(super) fn plain(rng: &mut Rng, count: usize, keys: usize, operator: MergeOperator) -> Self {
        Self::of(rng, (0, count), keys, operator, (false, false))
    }

    fn of(
        rng: &mut Rng,
        (ingested, count): (usize, usize),
        keys: usize,
        operator: MergeOperator,
        (has_rare, is_mixed): (bool, bool),
    ) -> Self {
        let put_once = vec![false; keys];
        let mut history = Self { records: Vec::new(), operator, has_rare, is_mixed, put_once };
        let mut numbers: Vec<usize> = (0..keys).collect();
        rng.shuffle(&mut numbers);
        for &number in numbers.iter().take(ingested) {
            let record = history.write(rng, 0, number);
            history.records.push(record);
        }
        for sequence in 1..=count as u64 {
            let record = history.next(rng, sequence);
            history.records.push(record);
        }
        history
    }

    /// Returns the highest sequence number.
    pub(super) fn newest(&self) -> Sequence {
        self.records.last().map_or(0, |record| record.sequence)
    }

    fn next(&mut self, rng: &mut Rng, sequence: Sequence) -> Record {
        let keys = self.put_once.len();
        let number = rng.usize(..keys);
        if rng.u8(..100) < 7 {
            let end = number + rng.usize(1..=8);
            self.put_once[number..end.min(keys)].fill(false);
            let (key, value) = (key(number), key(end));
            return Record { key, sequence, kind: ValueType::RangeDeletion, value };
        }
        self.write(rng, sequence, number)
    }

    /// Returns a random write to the key with this number.
    fn write(&mut self, rng: &mut Rng, sequence: Sequence, number: usize) -> Record {
        let (key, value) = (key(number), random_value(rng));
        let record = |kind, value| Record { key: key.clone(), sequence, kind, value };
        if self.is_mixed && rng.u8(..4) == 0 {
            return record(ValueType::SingleDeletion, Vec::new());
        }
        if number.is_multiple_of(4) && !self.is_mixed {
            // This key is removed by single deletions, so there must be a single deletion between
            // two puts.
            let has_value = &mut self.put_once[number];
            let kind = if *has_value { ValueType::SingleDeletion } else { ValueType::Value };
            *has_value = !*has_value;
            let value = if *has_value { value } else { Vec::new() };
            return record(kind, value);
        }
        match rng.u8(..100) {
            0..20 => record(ValueType::Deletion, Vec::new()),
            20..50 => record(ValueType::Merge, value),
            50..56 if self.has_rare => {
                let mut entity = Vec::new();
                let columns = [WideColumn::new(b"", &value), WideColumn::new(b"column", b"other")];
                wide_column::encode(&columns[rng.usize(..2)..], &mut entity).unwrap();
                record(ValueType::WideColumnEntity, entity)
            }
            56..62 if self.has_rare && sequence > 0 => {
                let mut packed = value;
                packed.extend_from_slice(&rng.u64(..sequence).to_le_bytes());
                record(ValueType::ValuePreferredSequence, packed)
            }
            _ => record(ValueType::Value, value),
        }
    }

    /// Returns all keys that may exist, in order.
    pub(super) fn keys(&self) -> Vec<Vec<u8>> {
        (0..self.put_once.len()).map(key).collect()
    }

    /// Returns the expected result of a read at a sequence number.
    pub(super) fn get(&self, key: &[u8], at: Sequence) -> Option<Vec<u8>> {
        let mut operands: Vec<&[u8]> = Vec::new();
        let mut base = None;
        let visible = self.records.iter().rev().filter(|record| record.sequence <= at);
        for record in visible {
            if record.kind == ValueType::RangeDeletion {
                if record.key[..] <= *key && *key < record.value[..] {
                    break;
                }
                continue;
            }
            if record.key != key {
                continue;
            }
            match record.kind {
                ValueType::Merge => {
                    operands.push(&record.value);
                    continue;
                }
                ValueType::Value => base = Some(record.value.clone()),
                ValueType::ValuePreferredSequence => {
                    base = Some(record.value[..record.value.len() - 8].to_vec());
                }
                ValueType::WideColumnEntity => {
                    let column = wide_column::default_column(&record.value).unwrap();
                    base = Some(column.map_or(Vec::new(), |column| column.value.to_vec()));
                }
                _ => {}
            }
            break;
        }
        if operands.is_empty() {
            return base;
        }
        operands.reverse();
        self.operator.full_merge(key, base.as_deref(), &operands)
    }

    /// Returns all keys and values visible at a sequence number.
    pub(super) fn all(&self, at: Sequence) -> Vec<(Vec<u8>, Vec<u8>)> {
        let found = |key: Vec<u8>| self.get(&key, at).map(|value| (key, value));
        self.keys().into_iter().filter_map(found).collect()
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("key{number:03}").into_bytes()
}

fn random_value(rng: &mut Rng) -> Vec<u8> {
    let length = if rng.bool() { 8 } else { rng.usize(..40) };
    (0..length).map(|_| rng.u8(b'a'..=b'z')).collect()
}
