//! Checks that each recovery mode recovers the same number of records from damaged logs as RocksDB.
//!
//! `data/recovery-modes.txt` contains the results of RocksDB 11.8.1, which opened a database with
//! each of these logs in each mode. A result is the number of recovered records, or the fact that
//! RocksDB refused to open the database.

use std::collections::BTreeMap;

use tailwater_format::batch::WriteBatch;
use tailwater_format::record_log::{RecoveryMode, Verdict, Writer};

use crate::log::{PLAIN, STALE, STALE_UNALIGNED, STALE_ZSTD, fragment, recover, value};

const OUTCOMES: &str = include_str!("data/recovery-modes.txt");

const MODES: [RecoveryMode; 4] = [
    RecoveryMode::TolerateCorruptedTailRecords,
    RecoveryMode::AbsoluteConsistency,
    RecoveryMode::PointInTime,
    RecoveryMode::SkipAnyCorruptedRecords,
];

/// The log number of all cases except [`STALE`], [`STALE_UNALIGNED`] and [`STALE_ZSTD`]. The log
/// number of these is 10.
const LOG_NUMBER: u32 = 4;

/// Returns the batch that is record `number` (from 0) of a log. The batch contains one put, whose
/// value has `length` bytes.
fn put(number: u64, length: usize) -> Vec<u8> {
    let mut batch = WriteBatch::new();
    batch.put_cf(0, format!("k{number:03}").as_bytes(), value(number, length)).unwrap();
    batch.set_sequence(number + 1);
    batch.data().to_vec()
}

/// The records from which logs are composed: three that are whole fragments, and the payload of a
/// long one that is split into several fragments.
struct Parts {
    full: [Vec<u8>; 3],
    long: Vec<u8>,
}

impl Parts {
    fn new(full_kind: u8) -> Self {
        let full = [0, 1, 2].map(|number| fragment(full_kind, &put(number, 20), LOG_NUMBER));
        Self { full, long: put(3, 400) }
    }

    /// Returns a fragment of type `kind` with the bytes `begin..end` of the long record.
    fn part(&self, kind: u8, begin: usize, end: usize) -> Vec<u8> {
        fragment(kind, &self.long[begin..end], LOG_NUMBER)
    }
}

type Cases = BTreeMap<String, Vec<u8>>;

/// Adds cases with truncations, flipped bits and zeros in a log that RocksDB wrote.
fn damaged_bytes(cases: &mut Cases) {
    let length = PLAIN.len();
    cases.insert("whole".into(), PLAIN.to_vec());
    for cut in [3, 7, 20, 32700, 32768, 32769, 32774, 32775, 32790, 33000, length - 1, length - 300]
    {
        cases.insert(format!("cut{cut}"), PLAIN[..cut].to_vec());
    }
    for at in [2, 20, 40, 100, 32768, 32800, length - 1, length - 305, length - 320] {
        let mut bytes = PLAIN.to_vec();
        bytes[at] ^= 1;
        cases.insert(format!("flip{at}"), bytes);
    }
    for zeros in [1, 3, 6, 7, 8, 1000, 40000] {
        let mut bytes = PLAIN.to_vec();
        bytes.resize(length + zeros, 0);
        cases.insert(format!("zeros{zeros}"), bytes);
    }
    let mut bytes = PLAIN[..32768].to_vec();
    bytes.resize(length, 0);
    cases.insert("zerosecond".into(), bytes.clone());
    bytes.resize(65536 + 100, 0);
    cases.insert("zerosecondmore".into(), bytes);
}

/// Adds cases whose fragments are intact, but have types or an order that no writer produces.
fn odd_fragments(cases: &mut Cases) {
    let parts = Parts::new(1);
    let [first, second, third] = &parts.full;
    let length = parts.long.len();
    let mut add = |name: &str, fragments: &[&[u8]]| {
        cases.insert(name.into(), fragments.concat());
    };
    for kind in [0, 12, 50, 127, 128, 200, 254, 255] {
        add(&format!("type{kind}"), &[first, &fragment(kind, b"hello", LOG_NUMBER), second]);
    }
    add("type0len0", &[first, &fragment(0, b"", LOG_NUMBER), second]);
    let begin = parts.part(2, 0, 100);
    let end = parts.part(4, 100, length);
    add("padinside", &[first, &begin, &fragment(254, b"", LOG_NUMBER), &end, second]);
    add("nostart", &[first, &end, second]);
    add("nostartmid", &[first, &parts.part(3, 100, length), second]);
    add("noend", &[first, &begin, second, third]);
    add("noend2", &[first, &begin, &begin, &end]);
    add("emptyfirst", &[first, &parts.part(2, 0, 0), second, third]);
    add("endsinfrag", &[first, &begin]);
    add("endsinfragthenheader", &[first, &begin, &[1, 2, 3]]);
    add("endsinfragthenzeros", &[first, &begin, &[0; 3]]);
    add("endsinfragthenzeros20", &[first, &begin, &[0; 20]]);
    add("comprnotfirst", &[first, &fragment(9, &[7, 0, 0, 0], LOG_NUMBER)]);
    add("compr4", &[&fragment(9, &[4, 0, 0, 0], LOG_NUMBER), first]);
    add("pred", &[&fragment(130, &[0; 24], LOG_NUMBER), first]);
    add("predshort", &[&fragment(130, &[0; 20], LOG_NUMBER), first, second]);
    let mut bytes = [first.as_slice(), second].concat();
    bytes[first.len() + 4] = 0xff;
    bytes[first.len() + 5] = 0x7f;
    add("overrun_eof", &[&bytes]);
    bytes.resize(32768, 1);
    add("overrun_exactblock", &[&bytes]);
    add("overrun", &[&bytes, third]);
}

/// Adds cases with recyclable logs, most of them followed by fragments of an earlier log in the
/// same file.
fn recyclable(cases: &mut Cases) {
    let parts = Parts::new(5);
    let [first, second, third] = &parts.full;
    let old = fragment(5, &put(1, 20), 3);
    let begin = parts.part(6, 0, 100);
    let mut add = |name: &str, fragments: &[&[u8]]| {
        cases.insert(name.into(), fragments.concat());
    };
    add("rec", &[first, second]);
    add("recold", &[first, &old, third]);
    add("recoldall", &[&old, &old]);
    add("recoldinfrag", &[first, &begin, &old, third]);
    add("rectail8", &[first, &second[..8]]);
    add("rectail12", &[first, &second[..12]]);
    add("plainafterrec", &[first, &Parts::new(1).full[1]]);
    let mut flipped = second.clone();
    flipped[20] ^= 1;
    add("recfliptail", &[first, &flipped]);
    let mut block = [first, &flipped[..], third].concat();
    block.resize(32768, 0);
    add("recflip", &[&block, &fragment(5, &put(4, 20), LOG_NUMBER)]);
    let mut overrun = second.clone();
    overrun[5] = 0x7f;
    let mut bytes = [&first[..], &overrun].concat();
    bytes.resize(40000, 1);
    add("recoverrun", &[&bytes]);
}

/// Adds cases with compressed logs, some of which contain fragments that zstd cannot decompress.
fn compressed(cases: &mut Cases) {
    for (name, recyclable) in [("z", false), ("rz", true)] {
        let base = if recyclable { 4 } else { 0 };
        let mut bytes = Vec::new();
        let mut writer = Writer::new_compressed(LOG_NUMBER.into(), recyclable, &mut bytes).unwrap();
        for number in 0..3 {
            writer.add_record(&put(number, 50), &mut bytes).unwrap();
        }
        let three = bytes.clone();
        writer.add_record(&put(3, 40000), &mut bytes).unwrap();
        writer.add_record(&put(4, 10), &mut bytes).unwrap();
        cases.insert(format!("{name}whole"), bytes.clone());
        cases.insert(format!("{name}cut-tail"), bytes[..bytes.len() - 1].to_vec());
        cases.insert(format!("{name}cut-long"), bytes[..33000].to_vec());
        cases.insert(format!("{name}cut-header"), bytes[..three.len() + 3].to_vec());
        bytes[three.len() + 30] ^= 1;
        cases.insert(format!("{name}flip"), bytes.clone());
        let noise = b"notzstdatallhere";
        let mut add = |case: &str, fragments: &[(u8, &[u8])]| {
            let mut bytes = three.clone();
            for (kind, payload) in fragments {
                bytes.extend(fragment(*kind, payload, LOG_NUMBER));
            }
            cases.insert(format!("{name}{case}"), bytes);
        };
        add("badpad", &[(254, &[0; 100]), (base + 1, b"")]);
        add("emptypad", &[(254, b"")]);
        add("notzstd", &[(base + 1, noise)]);
        add("notzstdfrag", &[(base + 2, noise), (base + 4, noise)]);
    }
}

#[test]
fn every_mode_recovers_what_rocksdb_recovers() {
    let mut cases = Cases::new();
    damaged_bytes(&mut cases);
    odd_fragments(&mut cases);
    recyclable(&mut cases);
    compressed(&mut cases);
    let mut found = String::new();
    let stale = [("stale", STALE), ("staleun", STALE_UNALIGNED), ("stalez", STALE_ZSTD)];
    let cases = cases.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice(), LOG_NUMBER));
    for (name, bytes, log_number) in cases.chain(stale.map(|(name, bytes)| (name, bytes, 10))) {
        found.push_str(name);
        for mode in MODES {
            match recover(bytes, log_number.into(), mode) {
                (_, Verdict::Fail) => found.push_str(" refused"),
                (records, _) => found.push_str(&format!(" {records}")),
            }
        }
        found.push('\n');
    }
    let expected: Vec<&str> = OUTCOMES.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
}
