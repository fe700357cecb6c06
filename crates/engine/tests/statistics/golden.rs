//! Statistics and properties of golden databases that Tailwater opens read-only. They must be the
//! same text as RocksDB 11.8.1 reports.

use tailwater::SizeOptions;

use crate::support::{golden, property};

#[test]
fn reports_read_as_rocksdb_s() {
    let (_directory, db) = golden("basic");
    let expected = [
        ("aggregated-table-properties", include_str!("data/aggregated-table-properties.txt")),
        ("cfstats-no-file-histogram", include_str!("data/cfstats-no-file-histogram.txt")),
        ("dbstats", include_str!("data/dbstats.txt")),
        ("cf-write-stall-stats", include_str!("data/cf-write-stall-stats.txt")),
    ];
    for (name, expected) in expected {
        let found = property(&db, "default", &format!("rocksdb.{name}")).expect(name);
        assert_eq!(found, expected, "{name}");
    }
    let parts =
        [include_str!("data/cfstats-no-file-histogram.txt"), include_str!("data/dbstats.txt")];
    assert_eq!(property(&db, "default", "rocksdb.stats"), Some(parts.concat()));
    let numbers = [
        ("current-super-version-number", "1"),
        ("num-live-versions", "1"),
        ("is-file-deletions-enabled", "1"),
        ("oldest-snapshot-time", "0"),
        ("background-errors", "0"),
        ("estimate-pending-compaction-bytes", "0"),
        ("obsolete-sst-files-size", "0"),
    ];
    for (name, expected) in numbers {
        let found = property(&db, "default", &format!("rocksdb.{name}"));
        assert_eq!(found.as_deref(), Some(expected), "{name}");
    }
}

/// The key ranges for [`Sizes`]. The first one covers all keys.
const RANGES: [(&[u8], &[u8]); 6] = [
    (b"", b"~"),
    (b"0000000000000100", b"0000000000005000"),
    (b"0000000000004000", b"0000000000004500"),
    (b"0000000000009000", b"0000000000015000"),
    (b"000000000001999", b"zz"),
    (b"a", b"b"),
];

/// The name of a golden database, the name of one of its column families, and its expected sizes:
/// the bytes of tables in each of the [`RANGES`], and the number and bytes of the memtable entries
/// in the first range. RocksDB only estimates the memtable entries in smaller ranges, by random
/// sampling, so these are not compared.
type Sizes = (&'static str, &'static str, [u64; 6], (u64, u64));

const SIZES: [Sizes; 5] = [
    ("basic", "default", [992812, 240577, 23642, 296649, 1671, 0], (1500, 174000)),
    ("records", "counters", [46917, 46917, 0, 0, 0, 0], (1533, 50589)),
    ("records", "singles", [55586, 39702, 7941, 0, 0, 0], (600, 31200)),
    ("formats", "fv2", [385783, 377652, 0, 0, 0, 0], (100, 13100)),
    ("formats", "fv5", [139569, 136696, 0, 0, 0, 0], (0, 0)),
];

#[test]
fn range_sizes_match_those_of_rocksdb() {
    for (name, family, tables, memtables) in SIZES {
        let (_directory, db) = golden(name);
        let family = db.cf_handle(family).expect("a column family");
        let found = db.approximate_sizes_cf_opt(&family, &RANGES, &SizeOptions::default());
        assert_eq!(found.expect("sizes"), tables, "{name}/{}", family.name());
        let (begin, end) = RANGES[0];
        let found = db.approximate_memtable_stats_cf(&family, begin, end).expect("figures");
        assert_eq!((found.entries, found.bytes), memtables, "{name}/{}", family.name());
    }
}
