//! Verification of databases with a block beyond the end of its file, with unreferenced files, with
//! tables of old versions of RocksDB, and with entities in blob files.

use tailwater::verify::{Finding, Severity};
use tailwater_format::blob::{
    BLOB_HEADER_LENGTH, BLOB_RECORD_HEADER_LENGTH, BlobFileFooter, BlobFileHeader, BlobIndex,
    BlobLocation, BlobRecordHeader,
};
use tailwater_format::compress::Compression;
use tailwater_format::key::{MAX_SEQUENCE, ValueType};
use tailwater_format::table::{BlockHandle, Properties};
use tailwater_format::version_edit::{BlobFileAddition, BlobFileGarbage, NewFile, VersionEdit};
use tailwater_format::wide_column::{self, WideColumn};

use crate::database::{Database, first_edit, new_file};
use crate::table::{table, table_of_records, typed_key};

#[test]
fn a_meta_block_beyond_the_end_of_its_file_is_reported() {
    // Regression test: if the recorded offset of a block was far beyond the end of the file,
    // verification tried to allocate a buffer up to that offset, and the process aborted.
    let far = BlockHandle { offset: 1 << 60, size: 10 };
    let file = table(&[(&[("a", 1, "v")], "b")], &[("far.away", far)]);
    let report = Database::new().with("000007.sst", &file).verify();
    let leaves = |message: &str| message.contains("extends beyond the end of the file");
    let found = report.findings.iter().any(|finding| {
        finding.severity == Severity::Damage
            && finding.path.ends_with("000007.sst")
            && leaves(&finding.message)
    });
    assert!(found, "{:?}", report.findings);
}

#[test]
fn unreferenced_files_are_reported_in_every_directory() {
    let stray = table(&[(&[("a", 1, "v")], "b")], &[]);
    let mut edit = first_edit();
    edit.log_number = Some(5);
    let database = Database::new()
        .with_manifest(&[edit])
        .with("000007.sst", &stray)
        .with("tables/000008.sst", &stray)
        .with("logs/000003.log", &[]);
    let report = database.verify_with("db_paths=/db/tables,1G;wal_dir=/db/logs");
    let mut left_over: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| finding.message.starts_with("left over"))
        .map(|finding| finding.path.to_string_lossy().into_owned())
        .collect();
    left_over.sort();
    assert_eq!(left_over, ["/db/000007.sst", "/db/logs/000003.log", "/db/tables/000008.sst"]);
}

/// Returns the findings about a database whose only table is `file`, with these smallest and
/// largest internal keys.
fn verified(file: &[u8], smallest: Vec<u8>, largest: Vec<u8>, edit: VersionEdit) -> Vec<Finding> {
    let oldest_blob_file_number = edit.blob_file_additions.first().map(|added| added.number);
    let new_file = NewFile { oldest_blob_file_number, ..new_file(7, file, smallest, largest) };
    let edit = VersionEdit { new_files: vec![new_file], ..edit };
    let blob_file = blob_file(&[("a", "first"), ("b", "second")]);
    let database = Database::new()
        .with_manifest(&[first_edit(), edit])
        .with("000007.sst", file)
        .with("000009.blob", &blob_file);
    let findings = database.verify().findings.into_iter();
    findings.filter(|finding| finding.severity > Severity::Note).collect()
}

/// Regression test: intact tables of RocksDB before version 6.0 counted as damaged if they had
/// range tombstones, because their numbers of entries and deletions do not include those.
#[test]
fn tables_of_old_versions_count_fewer_records() {
    let type_of = [ValueType::Value, ValueType::Deletion, ValueType::Merge];
    let records = |key: &str| (typed_key(key, 5, type_of[key.len() % 3]), b"v".to_vec());
    let tombstones = [("b", 6, "c"), ("d", 7, "e")];
    let findings = |change: fn(&mut Properties)| {
        let records = ["a", "bb", "ccc", "dddd"].map(records).to_vec();
        let smallest = records[0].0.clone();
        let file = table_of_records(records, &tombstones, change);
        let largest = typed_key("e", MAX_SEQUENCE, ValueType::RangeDeletion);
        verified(&file, smallest, largest, VersionEdit::default())
    };
    // RocksDB 6.0 and later.
    assert_eq!(findings(|_| {}), []);
    // RocksDB 5.18: a number of range tombstones, which are not counted as entries or deletions.
    let without = |table: &mut Properties| {
        table.num_entries -= table.num_range_deletions;
        table.num_deletions -= table.num_range_deletions;
    };
    assert_eq!(findings(without), []);
    // RocksDB before 5.15: range tombstones are entries, but their number is not recorded.
    let before = |table: &mut Properties| {
        table.num_deletions -= table.num_range_deletions;
        table.num_range_deletions = 0;
    };
    assert_eq!(findings(before), []);
    // No version counts more records than there are, or fewer than the records in data blocks.
    for wrong in [
        |table: &mut Properties| table.num_entries += 1,
        |table: &mut Properties| table.num_entries -= 1 + table.num_range_deletions,
        |table: &mut Properties| table.num_deletions += 1,
        |table: &mut Properties| table.num_range_deletions += 1,
        |table: &mut Properties| table.num_merge_operands += 1,
        |table: &mut Properties| table.raw_key_size += 1,
    ] {
        let findings = findings(wrong);
        assert!(matches!(&findings[..], [one] if one.severity == Severity::Damage), "{findings:?}");
    }
}

/// Returns a blob file with these keys and values.
fn blob_file(blobs: &[(&str, &str)]) -> Vec<u8> {
    let mut file = Vec::new();
    BlobFileHeader::new(0, Compression::None).encode(&mut file);
    for (key, value) in blobs {
        BlobRecordHeader::new(key.as_bytes(), value.as_bytes(), 0).encode(&mut file);
        file.extend_from_slice(key.as_bytes());
        file.extend_from_slice(value.as_bytes());
    }
    BlobFileFooter::new(blobs.len() as u64).encode(&mut file);
    file
}

/// Returns an entity of two columns. The value of one of them is in a blob file.
fn entity(file_number: u64, offset: usize, size: usize) -> Vec<u8> {
    let location = BlobLocation {
        file_number,
        offset: offset as u64,
        size: size as u64,
        compression: Compression::None,
        expiration: None,
    };
    let mut index = Vec::new();
    BlobIndex::Blob(location).encode(&mut index);
    let columns = [
        WideColumn::new(b"", b"inline"),
        WideColumn { name: b"large", value: &index, is_blob_index: true },
    ];
    let mut entity = Vec::new();
    wide_column::encode(&columns, &mut entity).expect("sorted columns");
    entity
}

/// Regression test: verification did not read the blobs of columns, and did not count them as used.
#[test]
fn columns_in_blob_files_are_verified() {
    let first_at = BLOB_HEADER_LENGTH + BLOB_RECORD_HEADER_LENGTH + 1;
    let second_at = first_at + 5 + BLOB_RECORD_HEADER_LENGTH + 1;
    let findings = |of_b: Vec<u8>, garbage: u64| {
        let typed = |key| typed_key(key, 5, ValueType::WideColumnEntity);
        let (smallest, largest) = (typed("a"), typed("b"));
        let records = vec![(smallest.clone(), entity(9, first_at, 5)), (largest.clone(), of_b)];
        let file = table_of_records(records, &[], |_| {});
        let mut added = BlobFileAddition::default();
        added.number = 9;
        added.blob_count = 2;
        added.blob_bytes = (second_at + 6 - BLOB_HEADER_LENGTH) as u64;
        let edit = VersionEdit {
            blob_file_additions: vec![added],
            blob_file_garbage: vec![BlobFileGarbage {
                number: 9,
                blob_count: garbage,
                blob_bytes: 0,
            }],
            ..VersionEdit::default()
        };
        let findings = verified(&file, smallest, largest, edit).into_iter();
        findings.map(|finding| finding.message).collect::<Vec<_>>()
    };
    let messages = findings(entity(9, second_at, 6), 0);
    assert_eq!(messages, [""; 0]);
    // Blob file 8 does not exist.
    let messages = findings(entity(8, second_at, 6), 0);
    assert_eq!(messages.len(), 1, "{messages:?}");
    // The blob belongs to another key.
    let messages = findings(entity(9, first_at, 5), 0);
    assert_eq!(messages.len(), 1, "{messages:?}");
    // One of the blobs that the MANIFEST calls garbage is used.
    let messages = findings(entity(9, second_at, 6), 1);
    let is_right = |one: &String| one.ends_with("2 are referred to and 1 are garbage");
    assert!(messages.len() == 1 && messages.iter().all(is_right), "{messages:?}");
    // An entity that does not decode.
    let messages = findings(b"\x02\x01".to_vec(), 0);
    assert_eq!(messages.len(), 1, "{messages:?}");
}
