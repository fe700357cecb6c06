//! Tests the functions that inspect files record by record, and report the contents and the damage.
//!
//! Intact files come from the golden databases, which RocksDB wrote. If no golden database has a
//! feature, the tests write a file with this feature.

use std::path::{Path, PathBuf};

use tailwater::inspect::blob::{BlobFileReader, BlobItem};
use tailwater::inspect::manifest::{self, ManifestItem, ManifestReader};
use tailwater::inspect::table::TableFile;
use tailwater::inspect::wal::{IrregularityKind, LogItem, LogReader};
use tailwater::options::DbOptions;
use tailwater_format::batch::{RecordKind, WriteBatch};
use tailwater_format::record_log::{PredecessorWal, RecoveryMode, Verdict, Writer};
use tailwater_format::version_edit::{NewFile, VersionEdit};
use tailwater_io::posix::PosixStorage;
use tailwater_testkit::golden;

#[expect(clippy::disallowed_methods, reason = "test data, not a database's files")]
fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("a file that can be written");
}

#[expect(clippy::disallowed_methods, reason = "test data, not a database's files")]
fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("a file that can be read")
}

/// Returns default options with this recovery mode.
fn in_mode(mode: RecoveryMode) -> DbOptions {
    let mut options = DbOptions::default();
    options.wal_recovery_mode = mode;
    options
}

fn batch(sequence: u64, value_length: usize) -> Vec<u8> {
    let mut batch = WriteBatch::new();
    batch.put_cf(0, b"key", vec![b'v'; value_length]).expect("a batch with room");
    batch.set_sequence(sequence);
    batch.data().to_vec()
}

/// Returns the items that a `LogReader` finds in a log, each as text.
fn walk(path: &Path) -> Vec<String> {
    let mut reader = LogReader::open(&PosixStorage::new(), path).expect("a log");
    let mut found = Vec::new();
    while let Some(item) = reader.next_item().expect("the next item") {
        found.push(match item {
            LogItem::Batch(batch) => {
                let at = batch.placement;
                assert_eq!(batch.operations().count() as u32, batch.count);
                format!(
                    "batch {}+{} at {}+{} in {} recyclable {} compressed {}",
                    batch.sequence,
                    batch.count,
                    at.offset,
                    at.length,
                    at.fragments,
                    at.recyclable,
                    at.compressed
                )
            }
            LogItem::TimestampSizes { offset, sizes } => format!("sizes {sizes:?} at {offset}"),
            LogItem::Predecessor { offset, predecessor } => {
                format!("predecessor {} at {offset}", predecessor.log_number)
            }
            LogItem::Irregularity(irregularity) => format!(
                "{} at {}+{}",
                irregularity.kind.name(),
                irregularity.offset,
                irregularity.length
            ),
            item => panic!("{item:?}"),
        });
    }
    found
}

fn log(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("000007.log");
    write(&path, bytes);
    (directory, path)
}

#[test]
fn inspection_reports_the_offset_of_every_part_of_a_log() {
    let mut writer = Writer::new(7, false);
    let mut bytes = Vec::new();
    let predecessor = PredecessorWal { log_number: 5, size: 100, last_sequence: 9 };
    writer.add_predecessor(predecessor, &mut bytes);
    writer.add_record(&batch(10, 100), &mut bytes).unwrap();
    writer.pad(&mut bytes);
    writer.add_record(&batch(11, 70_000), &mut bytes).unwrap();
    let end = bytes.len();
    bytes.resize(end + 100_000, 0);
    let (_directory, path) = log(&bytes);

    let found = walk(&path);
    // The record about the previous log has a header of 7 bytes and a body of 24 bytes. The record
    // of the batch has 125 bytes: a header of 7 bytes and the batch. The batch is a header of 12
    // bytes, a tag of 1 byte, the length and the bytes of the key (1 + 3 bytes), the length of the
    // value (1 byte), and the value (100 bytes).
    assert_eq!(found[0], "predecessor 5 at 0");
    assert_eq!(found[1], "batch 10+1 at 31+125 in 1 recyclable false compressed false");
    assert_eq!(found[2], "padding at 156+3933");
    let long = format!("batch 11+1 at 4096+{} in 3 recyclable false compressed false", end - 4096);
    assert_eq!(found[3], long);
    assert!(found[4..].iter().all(|item| item.starts_with("unwritten")), "{found:?}");
    assert_eq!(found.len(), 4 + 100_000_usize.div_ceil(32 << 10));
}

#[test]
fn unwritten_space_is_one_span() {
    let mut bytes = Vec::new();
    Writer::new(7, false).add_record(&batch(1, 10), &mut bytes).unwrap();
    let end = bytes.len() as u64;
    bytes.resize(200_000, 0);
    let (_directory, path) = log(&bytes);
    let mut reader = LogReader::open(&PosixStorage::new(), &path).unwrap();
    assert!(matches!(reader.next_item().unwrap(), Some(LogItem::Batch(_))));
    let Some(LogItem::Irregularity(mut span)) = reader.next_item().unwrap() else {
        panic!("unwritten space")
    };
    while let Some(LogItem::Irregularity(next)) = reader.next_item().unwrap() {
        assert!(span.merge(&next));
    }
    assert_eq!((span.kind, span.offset), (IrregularityKind::Unwritten, end));
    assert_eq!(span.offset + span.length, 200_000);
    assert!(!span.loses_data);
    assert_eq!(reader.recovery_end(&in_mode(RecoveryMode::AbsoluteConsistency)).unwrap(), None);
}

#[test]
fn inspection_continues_after_damage_in_a_log() {
    let mut writer = Writer::new(7, false);
    let mut bytes = Vec::new();
    let mut ends = Vec::new();
    for sequence in 1..=4 {
        writer.add_record(&batch(sequence, 20_000), &mut bytes).unwrap();
        ends.push(bytes.len());
    }
    // Damages the first record. The reader then drops the rest of the block, in which the second
    // record begins.
    bytes[100] ^= 1;
    bytes.truncate(ends[3] - 1);
    let (_directory, path) = log(&bytes);
    let mut reader = LogReader::open(&PosixStorage::new(), &path).unwrap();
    let (mut sequences, mut kinds) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            LogItem::Batch(batch) => sequences.push(batch.sequence),
            LogItem::Irregularity(irregularity) => {
                assert!(irregularity.loses_data);
                kinds.push(irregularity.kind);
            }
            item => panic!("{item:?}"),
        }
    }
    assert_eq!(sequences, [3]);
    assert_eq!(kinds, [IrregularityKind::Damage, IrregularityKind::Damage, IrregularityKind::Torn]);
    for (mode, expected) in [
        (RecoveryMode::PointInTime, (Verdict::StopReplay, 0)),
        (RecoveryMode::TolerateCorruptedTailRecords, (Verdict::Fail, 0)),
        (RecoveryMode::AbsoluteConsistency, (Verdict::Fail, 0)),
        (RecoveryMode::SkipAnyCorruptedRecords, (Verdict::End, 2 * 32768)),
    ] {
        let end = reader.recovery_end(&in_mode(mode)).unwrap().expect("the log is torn");
        assert_eq!((end.verdict, end.offset), expected, "{mode:?}");
    }
}

#[test]
fn a_batch_that_does_not_decode_says_why() {
    let mut writer = Writer::new(7, false);
    let mut bytes = Vec::new();
    writer.add_record(b"short", &mut bytes).unwrap();
    let mut wrong_count = batch(5, 3);
    wrong_count[8] = 2;
    writer.add_record(&wrong_count, &mut bytes).unwrap();
    let (_directory, path) = log(&bytes);
    let mut reader = LogReader::open(&PosixStorage::new(), &path).unwrap();
    for (sequence, operations) in [(0, 0), (5, 1)] {
        let Some(LogItem::Batch(batch)) = reader.next_item().unwrap() else { panic!("a batch") };
        assert!(batch.problem.is_some());
        assert_eq!(batch.sequence, sequence);
        assert_eq!(batch.operations().count(), operations);
    }
    assert!(reader.next_item().unwrap().is_none());
}

#[test]
fn logs_of_rocksdb_are_inspected_completely() {
    for (name, recyclable, compression) in
        [("wal", false, None), ("wal-recycled", true, None), ("wal-zstd", false, Some(7))]
    {
        let directory = golden::unpack(name);
        let files = golden::files(name);
        let last = files.keys().rfind(|file| file.ends_with(".log")).unwrap();
        let path = directory.path().join(last);
        let mut reader = LogReader::open(&PosixStorage::new(), &path).unwrap();
        assert_eq!(reader.compression(), compression);
        assert_eq!(reader.length(), files[last].len() as u64);
        let mut next = None;
        let mut end = if compression.is_some() { 11 } else { 0 };
        while let Some(item) = reader.next_item().unwrap() {
            let LogItem::Batch(batch) = item else { panic!("{name}: {item:?}") };
            assert!(batch.problem.is_none());
            assert_eq!(batch.placement.recyclable, recyclable);
            assert_eq!(batch.placement.compressed, compression.is_some());
            assert!(batch.placement.offset >= end);
            assert!(batch.operations().all(|operation| operation.kind != RecordKind::Noop));
            assert_eq!(next.unwrap_or(batch.sequence), batch.sequence);
            next = Some(batch.sequence + u64::from(batch.count));
            end = batch.placement.offset + batch.placement.length;
        }
        assert_eq!(end, reader.length());
    }
}

#[test]
fn a_manifest_names_exactly_the_existing_files() {
    let storage = PosixStorage::new();
    for name in golden::names() {
        let directory = golden::unpack(name);
        let number = manifest::current(&storage, directory.path()).unwrap();
        let state = manifest::state(&storage, directory.path(), number).unwrap();
        let mut reader = ManifestReader::open(&storage, &state.path).unwrap();
        let mut records = 0;
        while let Some(item) = reader.next_item().unwrap() {
            let ManifestItem::Edit { number, edit, .. } = item else { panic!("{item:?}") };
            assert_eq!(number, records);
            edit.unwrap();
            records += 1;
        }
        assert_eq!(records, state.records);
        assert_eq!((state.torn, state.unfinished_edits), (None, 0));
        let files = golden::files(name);
        for family in &state.column_families {
            assert!(family.levels.len() >= 7);
            for table in family.levels.iter().flatten() {
                let file = &files[&format!("{:06}.sst", table.number)];
                assert_eq!(file.len() as u64, table.size);
            }
            for blobs in &family.blob_files {
                let file = &files[&format!("{:06}.blob", blobs.added.number)];
                assert_eq!(file.len() as u64, blobs.added.blob_bytes + 62);
            }
        }
        let tables: usize = state.column_families.iter().map(|family| family.table_count()).sum();
        assert_eq!(tables, files.keys().filter(|file| file.ends_with(".sst")).count(), "{name}");
    }
}

#[test]
fn a_manifest_with_an_unknown_comparator_is_shown() {
    let table = |number, smallest: &[u8]| NewFile {
        level: 1,
        number,
        size: 100,
        // In bytewise order, the smallest key of table 8, `z`, would be above its largest key, `m`.
        // The key ranges are valid only in the order of the unknown comparator `somebody.Order`.
        smallest: [smallest, &[1, 0, 0, 0, 0, 0, 0, 0]].concat(),
        largest: b"m\x01\0\0\0\0\0\0\0".to_vec(),
        epoch_number: 1,
        ..NewFile::default()
    };
    let edit = VersionEdit {
        comparator: Some("somebody.Order".to_owned()),
        log_number: Some(3),
        next_file_number: Some(12),
        last_sequence: Some(5),
        new_files: vec![table(9, b"k"), table(8, b"z")],
        ..VersionEdit::default()
    };
    let (mut record, mut bytes) = (Vec::new(), Vec::new());
    edit.encode(&mut record).unwrap();
    Writer::new(4, false).add_record(&record, &mut bytes).unwrap();
    let directory = tempfile::tempdir().unwrap();
    write(&directory.path().join("MANIFEST-000004"), &bytes);
    let state = manifest::state(&PosixStorage::new(), directory.path(), 4).unwrap();
    let [family] = &state.column_families[..] else { panic!("one column family") };
    assert_eq!(family.comparator, "somebody.Order");
    let numbers: Vec<u64> = family.levels[1].iter().map(|file| file.number).collect();
    assert_eq!(numbers, [8, 9]);
    assert_eq!((family.table_count(), family.table_bytes()), (2, 200));
}

#[test]
fn tables_match_their_properties() {
    let storage = PosixStorage::new();
    for name in ["formats", "records", "packages"] {
        let directory = golden::unpack(name);
        for file in golden::files(name).keys().filter(|file| file.ends_with(".sst")) {
            let table = TableFile::open(&storage, directory.path().join(file)).unwrap();
            assert!(table.damage().is_empty());
            let properties = table.properties().as_ref().unwrap();
            let index = table.index().unwrap();
            assert!(index.damage.is_empty());
            assert_eq!(index.partitions.len() as u64, properties.index_partitions);
            let mut entries = 0;
            for entry in &index.entries {
                let report = table.data_block(entry.handle).unwrap();
                assert!(report.checksum_holds());
                entries += report.contents.unwrap().for_each(&mut |_| Ok(())).unwrap();
            }
            let mut ends = Vec::new();
            let tombstones = table.range_tombstones(&mut |tombstone| {
                ends.push(tombstone.user_key < tombstone.value);
                Ok(())
            });
            assert_eq!(tombstones.unwrap(), properties.num_range_deletions);
            assert!(ends.iter().all(|&in_order| in_order));
            assert_eq!(entries + properties.num_range_deletions, properties.num_entries);
            let filter = table.filter().unwrap();
            assert_eq!(filter.is_some(), properties.filter_size > 0, "{file} of {name}");
        }
    }
}

#[test]
fn inspection_skips_damage_to_the_next_whole_blob_record() {
    let directory = golden::unpack("blobs");
    let path = directory.path().join("000010.blob");
    let storage = PosixStorage::new();
    let walk = || {
        let mut reader = BlobFileReader::open(&storage, &path).unwrap();
        let (mut records, mut damage) = (Vec::new(), Vec::new());
        while let Some(item) = reader.next_item().unwrap() {
            match item {
                BlobItem::Record(record) => {
                    assert!(record.value_length.is_ok());
                    records.push((record.offset, record.length));
                }
                BlobItem::Damage { offset, length, error } => {
                    assert!(error.is_corruption());
                    damage.push((offset, length));
                }
                item => panic!("{item:?}"),
            }
        }
        (records, damage)
    };
    let (whole, damage) = walk();
    assert_eq!((whole.len(), damage.len()), (83, 0));
    let bytes = read(&path);
    for at in [0, 40, 82] {
        let (offset, length) = whole[at];
        let mut changed = bytes.clone();
        changed[offset as usize + 3] ^= 0x80;
        write(&path, &changed);
        let (records, damage) = walk();
        assert_eq!(damage, [(offset, length)]);
        assert_eq!(records.len(), 82);
        assert_eq!(records[..at], whole[..at]);
        assert_eq!(records[at..], whole[at + 1..]);
    }
}
