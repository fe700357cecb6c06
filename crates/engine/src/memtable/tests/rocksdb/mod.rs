//! Compares a memtable with that of the real RocksDB (11.8.1, used through its Java binding) after
//! the same operations.
//!
//! The tests read these files, in which all keys and values are in hex:
//! - `operations.txt`: one write per line. The writes are in the order of their sequence numbers,
//!   which begin at 1. The writes are to two column families. One of them, `reverse`, has the
//!   reverse bytewise order.
//! - `survivors.txt`: the values that RocksDB read back after the writes.
//! - `fragments_*.txt`: the entries of the `rocksdb.range_del` block of the table to which RocksDB
//!   flushed the column family.

use tailwater_format::Comparator;
use tailwater_format::key::{MAX_SEQUENCE, ValueType, pack_trailer, put_internal_key};

use crate::memtable::{Account, MemTable};
use crate::range_tombstone::{Cursor, FragmentedRangeTombstones, RangeTombstone};

const OPERATIONS: &str = include_str!("operations.txt");
const SURVIVORS: &str = include_str!("survivors.txt");
const FAMILIES: [(&str, Comparator, &str); 2] = [
    ("default", Comparator::Bytewise, include_str!("fragments_default.txt")),
    ("reverse", Comparator::ReverseBytewise, include_str!("fragments_reverse.txt")),
];

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn filled(family: &str, comparator: &Comparator) -> MemTable {
    let memtable = MemTable::new(comparator.clone(), None, Account::default());
    for (sequence, line) in (1..).zip(OPERATIONS.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[1] != family {
            continue;
        }
        let value_type = match words[0] {
            "put" => ValueType::Value,
            "delete" => ValueType::Deletion,
            "range" => ValueType::RangeDeletion,
            other => panic!("unknown operation {other}"),
        };
        let value = words.get(3).map_or(Vec::new(), |hex| bytes(hex));
        memtable.add(sequence, value_type, &bytes(words[2]), &value).unwrap();
    }
    memtable
}

/// Returns the newest value of a key; `None` if the key, or a range that covers it, was deleted
/// later.
fn get<'a>(memtable: &'a MemTable, user_key: &[u8]) -> Option<&'a [u8]> {
    let newest = memtable.versions(user_key, MAX_SEQUENCE).next()?;
    let covering = memtable.covering_sequence(user_key, MAX_SEQUENCE);
    let is_live = newest.value_type == ValueType::Value
        && covering.is_none_or(|covering| covering < newest.sequence);
    is_live.then_some(newest.value)
}

#[test]
fn the_same_keys_survive_as_in_rocksdb() {
    for (family, comparator, _) in &FAMILIES {
        let memtable = filled(family, comparator);
        let mut keys: Vec<Vec<u8>> = OPERATIONS
            .lines()
            .filter(|line| line.split_whitespace().nth(1) == Some(family))
            .map(|line| bytes(line.split_whitespace().nth(2).unwrap()))
            .collect();
        keys.sort_by(|a, b| comparator.compare(a, b));
        keys.dedup();
        let found: Vec<(Vec<u8>, Vec<u8>)> = keys
            .into_iter()
            .filter_map(|key| get(&memtable, &key).map(<[u8]>::to_vec).map(|value| (key, value)))
            .collect();
        let expected: Vec<(Vec<u8>, Vec<u8>)> = SURVIVORS
            .lines()
            .filter_map(|line| line.strip_prefix(family)?.strip_prefix('\t')?.split_once('\t'))
            .map(|(key, value)| (bytes(key), bytes(value)))
            .collect();
        assert!(expected.len() > 20);
        assert_eq!(found, expected, "{family}");
    }
}

#[test]
fn fragments_are_cut_where_rocksdb_cuts_them() {
    for (family, comparator, fragments) in &FAMILIES {
        let memtable = filled(family, comparator);
        let layers = memtable.tombstones().unwrap();
        let built = FragmentedRangeTombstones::build(memtable.comparator(), layers.iter());
        let view = built.view();
        let mut cursor = Cursor::new(MAX_SEQUENCE);
        cursor.seek_to_first(view);
        for line in fragments.lines() {
            let (key, value) = line.split_once(' ').unwrap();
            let (key, value) = (bytes(key), bytes(value));
            let expected = RangeTombstone::from_entry(&key, &value).unwrap();
            assert!(cursor.valid());
            let (start, end) = (cursor.start(view).user_key, cursor.end(view).user_key);
            assert_eq!(RangeTombstone { start, end, sequence: cursor.sequence(view) }, expected);
            let mut written = Vec::new();
            let trailer = pack_trailer(cursor.sequence(view), ValueType::RangeDeletion as u8);
            put_internal_key(&mut written, start, trailer);
            assert_eq!(written, key);
            cursor.next(view);
        }
        assert!(!cursor.valid());
    }
}
