//! The metadata that a table builder is given, and the metadata that it reports about the finished
//! table.

use std::path::Path;
use std::sync::Arc;

use tailwater::for_tests::Builder;
use tailwater::for_tests::{Origin, TableCompression};

use tailwater_format::Comparator;
use tailwater_format::blob::{BlobIndex, BlobLocation};
use tailwater_format::compress::Compression;
use tailwater_format::key::{MAX_SEQUENCE, ValueType};
use tailwater_format::version_edit::NewFile;
use tailwater_io::posix::PosixStorage;
use tailwater_io::sim::SimStorage;
use tailwater_testkit::dump::Entry;
use tailwater_testkit::oracle::{Oracle, Script};

use crate::database::{Cut, Database, add, family_options, format, writer};
use crate::faults;
use crate::records::{self, Record};

fn record(key: &str, sequence: u64, kind: ValueType, value: &[u8]) -> Record {
    Record { key: key.into(), sequence, kind, value: value.to_vec() }
}

fn blob(file_number: u64, expiration: Option<u64>) -> Vec<u8> {
    let location = BlobLocation {
        file_number,
        offset: 30,
        size: 9,
        compression: Compression::None,
        expiration,
    };
    let mut bytes = Vec::new();
    BlobIndex::Blob(location).encode(&mut bytes);
    bytes
}

#[test]
fn the_oldest_blob_file_is_reported() {
    let storage = SimStorage::new(1);
    let mut builder = faults::builder(&storage, "");
    let records = [
        record("a", 1, ValueType::BlobIndex, &blob(20, None)),
        record("b", 2, ValueType::BlobIndex, &blob(12, None)),
        // A blob index with an expiration time does not count towards the oldest blob file: only
        // RocksDB's old stacked BlobDB wrote such indexes, and it tracked its files itself.
        record("c", 3, ValueType::BlobIndex, &blob(5, Some(1))),
        record("d", 4, ValueType::BlobIndex, &blob(17, None)),
    ];
    add(&mut builder, &records, &Comparator::Bytewise);
    let (finished, _) = builder.finish().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(finished.oldest_blob_file_number, Some(12));
    assert_eq!(finished.new_file(3).oldest_blob_file_number, Some(12));
    // A unique ID is computed from the database ID and the session ID. Without these the table has
    // none.
    assert_eq!((finished.unique_id, finished.new_file(3).level), ([0; 2], 3));
}

#[test]
fn tombstones_do_not_extend_the_bounds_of_their_table() {
    let storage = SimStorage::new(1);
    let mut builder = faults::builder(&storage, "");
    let start = record("c", 9, ValueType::RangeDeletion, b"").internal_key();
    let smallest = record("f", 9, ValueType::RangeDeletion, b"").internal_key();
    let largest = record("m", 4, ValueType::Value, b"").internal_key();
    builder
        .add_range_tombstone_within(&start, b"z", &smallest, &largest)
        .unwrap_or_else(|error| panic!("{error}"));
    let entry = record("g", 7, ValueType::Merge, b"").internal_key();
    builder.add(&entry, b"operand").unwrap_or_else(|error| panic!("{error}"));
    let (finished, _) = builder.finish().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((&finished.smallest, &finished.largest), (&smallest, &largest));
    assert_eq!((finished.smallest_sequence, finished.largest_sequence), (7, 9));
}

/// Returns the compression algorithm, and whether its parameters come from
/// `bottommost_compression_opts`, the options for the last level of the database.
fn chosen(compression: &TableCompression) -> (Compression, bool) {
    (compression.kind, compression.options.enabled)
}

#[test]
fn a_builder_can_go_to_another_thread() {
    fn sent<T: Send>(it: T) -> T {
        it
    }
    for kind in ["kNoCompression", "kSnappyCompression", "kLZ4HCCompression", "kZSTD"] {
        let storage = SimStorage::new(1);
        let builder = sent(faults::builder(&storage, &format!("compression={kind}")));
        std::thread::scope(|scope| scope.spawn(|| builder.abandon()).join().expect("no panic"));
    }
}

#[test]
fn compression_is_chosen_by_level() {
    use Compression::{Lz4, None, Snappy, Zlib, Zstd};

    let plain = family_options("compression=kSnappyCompression");
    assert_eq!(chosen(&TableCompression::for_flush(&plain)), (Snappy, false));
    assert_eq!(chosen(&TableCompression::for_level(&plain, 6, 1, true)), (Snappy, false));

    let mut by_level = family_options(
        "compression=kSnappyCompression;bottommost_compression=kZSTD;\
         compression_per_level=kNoCompression:kLZ4Compression:kZlibCompression",
    );
    by_level.bottommost_compression_opts.enabled = true;
    assert_eq!(chosen(&TableCompression::for_flush(&by_level)), (None, false));
    for (level, base_level, bottommost, kind) in [
        (0, 1, false, None),
        (1, 1, false, Lz4),
        (2, 1, false, Zlib),
        (3, 1, false, Zlib),
        (5, 5, false, Lz4),
        (6, 5, false, Zlib),
        (6, 5, true, Zstd),
        (0, 1, true, Zstd),
    ] {
        let compression = TableCompression::for_level(&by_level, level, base_level, bottommost);
        assert_eq!(chosen(&compression), (kind, bottommost), "level {level} over {base_level}");
    }
    let spared = family_options(
        "compaction_style=kCompactionStyleUniversal;\
         compaction_options_universal={compression_size_percent=80}",
    );
    assert_eq!(chosen(&TableCompression::for_flush(&spared)), (None, false));
}

#[test]
fn adjacent_tables_share_a_truncated_tombstone() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut database = Database::new(directory.path().join("db"), 5);
    let put = |key: &str, sequence| record(key, sequence, ValueType::Value, b"value");
    let tombstone = record("c", 20, ValueType::RangeDeletion, b"t");
    // The range deletion is truncated at "m", where the first table ends and the second begins.
    let cut = |from: &str, to: &str| Cut {
        start: record(from, 20, ValueType::RangeDeletion, b"").internal_key(),
        end: b"t".to_vec(),
        smallest: record(from, 20, ValueType::RangeDeletion, b"").internal_key(),
        largest: record(to, MAX_SEQUENCE, ValueType::RangeDeletion, b"").internal_key(),
    };
    let below = [put("a", 1), put("d", 2), put("l", 3), put("m", 4), put("s", 5), put("u", 6)];
    database.add_levels(
        "family",
        "disable_auto_compactions=true",
        &[
            (6, below[..3].to_vec(), vec![]),
            (6, below[3..].to_vec(), vec![]),
            (5, vec![put("b", 30)], vec![cut("c", "m")]),
            (5, vec![put("o", 31)], vec![cut("m", "t")]),
        ],
    );
    let mut all = below.to_vec();
    all.extend([tombstone, put("b", 30), put("o", 31)]);
    let live = records::live(&all, &Comparator::Bytewise);
    assert_eq!(live.len(), 4, "a, b, o and u");
    database.dump = live
        .into_iter()
        .map(|(key, value)| Entry { family: "family".to_owned(), key, value })
        .collect();
    database.sequence = 31;
    database.finish();

    let db = tailwater::Db::open_read_only(&database.path, &database.options)
        .unwrap_or_else(|error| panic!("{error}"));
    crate::check::holds(&db, &database.dump, "neighbours");
    let report = tailwater::verify::verify(&database.path, &database.options);
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    let Some(mut oracle) = Oracle::start("RocksDB reads neighbours") else { return };
    for compacts in [false, true] {
        let mut script = Script::open(&database.path, "", &database.families());
        script.line(&[&"verify"]);
        if compacts {
            script.compact("family");
        }
        assert_eq!(oracle.dump(script), Ok(database.dump.clone()), "compacts: {compacts}");
    }
}

#[test]
fn rocksdb_ingests_a_table() {
    let Some(mut oracle) = Oracle::start("RocksDB ingests our table") else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("external.sst");
    let options = family_options("");
    let origin = Origin { external: true, ..Origin::default() };
    let compression = TableCompression::for_flush(&options);
    let writer = writer(&PosixStorage::new(), &path);
    let format = format(&options, None);
    let mut builder = Builder::new(Arc::clone(&format), &compression, origin, &path, writer)
        .unwrap_or_else(|error| panic!("{error}"));
    let mut expected = Vec::new();
    for number in 0..500 {
        let key = format!("key{number:05}");
        let value = format!("value {number}").into_bytes();
        let entry = record(&key, 0, ValueType::Value, &value);
        builder.add(&entry.internal_key(), &value).unwrap_or_else(|error| panic!("{error}"));
        expected.push(Entry { family: "default".to_owned(), key: key.into_bytes(), value });
    }
    let (_, mut writer) = builder.finish().unwrap_or_else(|error| panic!("{error}"));
    writer.sync().unwrap_or_else(|error| panic!("{error}"));
    writer.close().unwrap_or_else(|error| panic!("{error}"));

    let database: &Path = &directory.path().join("db");
    let mut script = Script::open(database, "", &[]);
    script.put("default", b"key00007", b"older");
    script.line(&[&"snapshot"]);
    script.line(&[&"ingest", &"default", &"copy", &path.display()]);
    script.line(&[&"verify"]);
    assert_eq!(oracle.dump(script), Ok(expected.clone()));
    let mut script = Script::open(database, "", &[]);
    script.compact("default");
    assert_eq!(oracle.dump(script), Ok(expected));
}

#[test]
fn records_of_every_kind_are_counted() {
    let storage = SimStorage::new(1);
    let mut builder = faults::builder(&storage, "");
    let kinds = [
        ValueType::Value,
        ValueType::Deletion,
        ValueType::SingleDeletion,
        ValueType::Merge,
        ValueType::RangeDeletion,
    ];
    // Each kind of record occurs a different number of times: 1 value, 2 deletions, 3 single
    // deletions, and so on.
    let mut records = Vec::new();
    for (kind, count) in kinds.into_iter().zip(1..) {
        for _ in 0..count {
            let sequence = records.len() as u64 + 10;
            records.push(record(&format!("key{sequence}"), sequence, kind, b"limit"));
        }
    }
    add(&mut builder, &records, &Comparator::Bytewise);
    let (finished, _) = builder.finish().unwrap_or_else(|error| panic!("{error}"));
    let properties = finished.properties;
    assert_eq!(properties.num_entries, 15);
    assert_eq!(properties.num_deletions, 2 + 3 + 5);
    assert_eq!(properties.num_merge_operands, 4);
    assert_eq!(properties.num_range_deletions, 5);
    assert_eq!((properties.raw_key_size, properties.raw_value_size), (15 * 13, 15 * 5));
    assert_eq!((properties.smallest_sequence, properties.largest_sequence), (Some(10), Some(24)));
}

#[test]
fn a_table_can_be_built_without_the_configured_filter() {
    let options = "block_based_table_factory={filter_policy=bloomfilter:10}";
    let records = [record("a", 8, ValueType::Value, b"")];
    for filtered in [true, false] {
        let storage = SimStorage::new(1);
        let mut builder = faults::builder(&storage, options);
        if !filtered {
            builder = builder.without_filter();
        }
        add(&mut builder, &records, &Comparator::Bytewise);
        let (finished, _) = builder.finish().unwrap_or_else(|error| panic!("{error}"));
        let properties = finished.properties;
        assert_eq!(properties.num_filter_entries, u64::from(filtered));
        assert_eq!(properties.filter_size > 0, filtered);
        assert_eq!(properties.filter_policy_name, b"bloomfilter");
    }
}

#[test]
fn fields_unknown_to_the_builder_stay_zero() {
    let storage = SimStorage::new(1);
    let mut builder = faults::builder(&storage, "");
    add(&mut builder, &[record("a", 8, ValueType::Value, b"")], &Comparator::Bytewise);
    let (finished, _) = builder.finish().unwrap_or_else(|error| panic!("{error}"));
    let NewFile { epoch_number, path_id, compensated_range_deletion_size, number, size, .. } =
        finished.new_file(0);
    assert_eq!((epoch_number, path_id, compensated_range_deletion_size), (0, 0, 0));
    assert_eq!((number, size), (7, finished.size));
}
