//! Tests of version edits. Every edit that RocksDB wrote must decode and encode to the same bytes.

use tailwater_format::record_log::{Event, RecordReader, SliceSource};
use tailwater_format::version_edit::{
    BlobFileAddition, BlobFileGarbage, CompactCursor, DeletedFile, FamilyOptions, FileChecksum,
    LevelProgress, NewFile, SubcompactionProgress, Temperature, VersionEdit, WalAddition,
};
use tailwater_format::{Error, Result};

use crate::support;

/// The MANIFESTs of ten fixtures, and of two databases with features that the fixtures lack. `rich`
/// has atomic flushes of three column families, round-robin compaction, file checksums,
/// temperatures, tracked logs, blob files and range tombstones. `paths` has files on two database
/// paths, and a dropped column family.
const MANIFESTS: [(&str, &[u8]); 12] = [
    ("basic", include_bytes!("data/manifests/basic")),
    ("blobs", include_bytes!("data/manifests/blobs")),
    ("fifo", include_bytes!("data/manifests/fifo")),
    ("formats", include_bytes!("data/manifests/formats")),
    ("packages", include_bytes!("data/manifests/packages")),
    ("records", include_bytes!("data/manifests/records")),
    ("universal", include_bytes!("data/manifests/universal")),
    ("wal", include_bytes!("data/manifests/wal")),
    ("wal-recycled", include_bytes!("data/manifests/wal-recycled")),
    ("wal-zstd", include_bytes!("data/manifests/wal-zstd")),
    ("rich", include_bytes!("data/manifests/rich")),
    ("paths", include_bytes!("data/manifests/paths")),
];

fn records(manifest: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = RecordReader::new(SliceSource::new(manifest), 0);
    let mut records = Vec::new();
    loop {
        match reader.next_event() {
            Ok(Event::Record(record)) => records.push(record.payload.to_vec()),
            Ok(Event::End) => return records,
            Ok(other) => panic!("{other:?}"),
        }
    }
}

fn edits(name: &str) -> Vec<VersionEdit> {
    let (_, manifest) = MANIFESTS.iter().find(|(manifest, _)| *manifest == name).unwrap();
    records(manifest).iter().map(|record| VersionEdit::decode(record).unwrap()).collect()
}

fn encode(edit: &VersionEdit) -> Vec<u8> {
    let mut out = Vec::new();
    edit.encode(&mut out).unwrap();
    out
}

#[test]
fn every_rocksdb_edit_round_trips_byte_for_byte() {
    for (name, manifest) in MANIFESTS {
        for record in records(manifest) {
            let edit = VersionEdit::decode(&record).unwrap();
            assert_eq!(encode(&edit), record, "{name}: {edit:?}");
        }
    }
}

#[test]
fn a_new_database_begins_with_its_id_and_counters() {
    let edits = edits("wal");
    let first = &edits[0];
    assert_eq!(first.database_id.as_ref().map(String::len), Some(36));
    let families: Vec<&str> = edits.iter().filter_map(|edit| edit.comparator.as_deref()).collect();
    assert_eq!(families, ["leveldb.BytewiseComparator"]);
    assert!(edits.iter().any(|edit| edit.next_file_number.is_some()));
    assert!(edits.iter().any(|edit| edit.last_sequence.is_some()));
}

#[test]
fn column_families_are_added_and_dropped_by_name() {
    let names: Vec<String> =
        edits("formats").into_iter().filter_map(|edit| edit.column_family_add).collect();
    assert_eq!(names, ["fv2", "fv3", "fv4", "fv5", "fv6", "fv7", "zstd-dictionary", "prefix"]);
    let edits = edits("paths");
    assert!(edits.iter().any(|edit| edit.column_family_add.as_deref() == Some("grüße")));
    assert!(edits.iter().any(|edit| edit.column_family_drop && edit.column_family == 1));
    assert!(edits.iter().flat_map(|edit| &edit.new_files).any(|file| file.path_id == 1));
}

#[test]
fn a_flushed_file_has_every_field_that_rocksdb_writes() {
    let files: Vec<NewFile> = edits("basic").into_iter().flat_map(|edit| edit.new_files).collect();
    for file in &files {
        assert!(file.size > 0 && file.tail_size > 0 && file.tail_size < file.size);
        assert!(file.smallest_sequence <= file.largest_sequence);
        assert!(file.epoch_number > 0 && file.creation_time_s > 1_700_000_000);
        assert_ne!(file.unique_id, [0; 2]);
        assert!(file.smallest.len() > 8 && file.smallest < file.largest);
    }
    assert!(files.iter().any(|file| file.level > 0));
}

#[test]
fn rare_fields_are_understood() {
    let edits = edits("rich");
    let files: Vec<&NewFile> = edits.iter().flat_map(|edit| &edit.new_files).collect();
    let checksum = files[0].checksum.as_ref().unwrap();
    assert_eq!((checksum.function.as_str(), checksum.value.len()), ("FileChecksumCrc32c", 4));
    for temperature in [Temperature::WARM, Temperature::COLD] {
        assert!(files.iter().any(|file| file.temperature == temperature), "{temperature:?}");
    }
    assert!(files.iter().any(|file| file.oldest_blob_file_number.is_some()));
    assert!(files.iter().any(|file| file.compensated_range_deletion_size > 0));
    assert!(edits.iter().any(|edit| !edit.compact_cursors.is_empty()));
    assert!(edits.iter().any(|edit| edit.atomic_group_remaining == Some(2)));
    assert!(edits.iter().any(|edit| edit.atomic_group_remaining == Some(0)));
    assert!(edits.iter().any(|edit| !edit.blob_file_additions.is_empty()));
    assert!(edits.iter().any(|edit| !edit.blob_file_garbage.is_empty()));
    assert!(edits.iter().any(|edit| edit.wal_deletion.is_some()));
    assert!(edits.iter().any(|edit| edit.min_log_number_to_keep.is_some()));
}

/// Returns an edit that has every field.
fn full() -> VersionEdit {
    let key = |text: &str| [text.as_bytes(), &[1, 7, 0, 0, 0, 0, 0, 0]].concat();
    let file = NewFile {
        level: 6,
        number: 300,
        path_id: 3,
        size: 1 << 40,
        smallest: key("a"),
        largest: key("b"),
        smallest_sequence: 1,
        largest_sequence: 900,
        oldest_ancestor_time_s: 5,
        creation_time_s: 6,
        epoch_number: 7,
        checksum: Some(FileChecksum { function: "f".into(), value: vec![1, 2] }),
        temperature: Temperature::ICE,
        marked_for_compaction: true,
        oldest_blob_file_number: Some(8),
        unique_id: [9, 10],
        compensated_range_deletion_size: 11,
        tail_size: 12,
        timestamps_persisted: false,
        min_timestamp: vec![13],
        max_timestamp: vec![14],
        open_metadata: vec![15],
    };
    let mut blob_file = BlobFileAddition::default();
    blob_file.number = 8;
    blob_file.blob_count = 2;
    blob_file.blob_bytes = 3;
    blob_file.checksum_function = "g".into();
    blob_file.checksum = vec![4];
    let level = LevelProgress { output_records: 4, output_files: vec![file.clone()] };
    VersionEdit {
        database_id: Some("id".into()),
        comparator: Some("order".into()),
        log_number: Some(1),
        previous_log_number: Some(0),
        next_file_number: Some(301),
        max_column_family: Some(9),
        min_log_number_to_keep: Some(2),
        last_sequence: Some(900),
        compact_cursors: vec![CompactCursor { level: 1, key: key("c") }],
        deleted_files: [(2, 7), (0, 9)].map(|(level, number)| DeletedFile { level, number }).into(),
        new_files: vec![file.clone(), NewFile { number: 301, ..file }],
        blob_file_additions: vec![blob_file],
        blob_file_garbage: vec![BlobFileGarbage { number: 8, blob_count: 1, blob_bytes: 2 }],
        wal_additions: vec![
            WalAddition { log_number: 3, synced_size: None },
            WalAddition { log_number: 3, synced_size: Some(100) },
        ],
        wal_deletion: Some(3),
        column_family: 4,
        column_family_add: Some("family".into()),
        column_family_drop: true,
        atomic_group_remaining: Some(3),
        full_history_timestamp_low: Some(vec![5]),
        persist_user_defined_timestamps: Some(false),
        subcompaction_progress: Some(SubcompactionProgress {
            next_key: key("d"),
            input_records: 5,
            output_level: level.clone(),
            proximal_level: level,
        }),
        last_compacted_manifest_length: Some(6),
        existing_logs: Some(vec![3, 300]),
        family_options: Some(FamilyOptions { options_number: 300, text: "text".into() }),
    }
}

#[test]
fn every_field_round_trips() {
    let edit = full();
    assert_eq!(VersionEdit::decode(&encode(&edit)), Ok(edit));
    assert_eq!(VersionEdit::decode(&[]), Ok(VersionEdit::default()));
    assert_eq!(encode(&VersionEdit::default()), []);
}

#[test]
fn older_forms_of_fields_are_read() {
    let key = b"k\x01\x02\0\0\0\0\0\0";
    let keys = [&[9][..], key, &[9], key].concat();
    let file = |head: &[u8], tail: &[u8]| {
        let bytes = [head, &[3, 5, 40], &keys, tail].concat();
        VersionEdit::decode(&bytes).unwrap().new_files.remove(0)
    };
    let expected = NewFile {
        level: 3,
        number: 5,
        size: 40,
        smallest: key.to_vec(),
        largest: key.to_vec(),
        ..NewFile::default()
    };
    assert_eq!(file(&[7], &[]), expected);
    let expected = NewFile { smallest_sequence: 2, largest_sequence: 4, ..expected };
    assert_eq!(file(&[100], &[2, 4]), expected);
    let bytes = [&[102, 3, 5, 1, 40][..], &keys, &[2, 4]].concat();
    let found = VersionEdit::decode(&bytes).unwrap().new_files.remove(0);
    assert_eq!(found, NewFile { path_id: 1, ..expected });
    // Fields about blob files and logs under the tags of older versions, 8194 to 8197.
    let bytes = [
        &[0x82, 0x40, 1, 2, 3, 0, 0, 0][..],
        &[0x83, 0x40, 1, 2, 3, 0],
        &[0x84, 0x40, 7, 2, 9, 1],
        &[0x85, 0x40, 6],
    ];
    let edit = VersionEdit::decode(&bytes.concat()).unwrap();
    assert_eq!(edit.blob_file_additions[0].blob_bytes, 3);
    assert_eq!(edit.blob_file_garbage[0].blob_count, 2);
    assert_eq!(edit.wal_additions, [WalAddition { log_number: 7, synced_size: Some(9) }]);
    assert_eq!(edit.wal_deletion, Some(6));
}

#[test]
fn unknown_fields_are_ignored_or_refused_by_name() {
    // Both tags are unknown. Tag 8292 may be ignored, tag 101 must not be.
    let edit = VersionEdit::decode(&[0xe4, 0x40, 3, 1, 2, 3, 2, 9]).unwrap();
    assert_eq!(edit, VersionEdit { log_number: Some(9), ..VersionEdit::default() });
    let refused = |bytes: &[u8]| match VersionEdit::decode(bytes) {
        Err(Error::Unsupported { feature }) => feature.into_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&[101, 0]), "version edit tag 101");
    let key = b"\x09k\x01\x02\0\0\0\0\0\0";
    let file = |custom: &[u8]| [&[103, 0, 5, 40][..], key, key, &[1, 2], custom].concat();
    assert_eq!(refused(&file(&[70, 1, 0, 1])), "custom field 70 of a new file");
    let ignored = VersionEdit::decode(&file(&[60, 2, 1, 1, 1])).unwrap();
    assert_eq!(ignored.new_files[0], VersionEdit::decode(&file(&[1])).unwrap().new_files[0]);
    assert_eq!(refused(&[201, 1, 1, 0xff]), "a column family name that is not UTF-8: '\\xff'");
    let blob = [0x90, 0x03, 1, 1, 1, 0, 0, 64, 0, 0];
    assert_eq!(refused(&blob), "custom field 64 of a blob file");
    assert_eq!(refused(&[0x87, 0x40, 2, 7, 5]), "tag 5 in the addition of a log");
}

#[test]
fn a_file_that_rocksdb_would_not_write_is_not_written() {
    for file in [
        NewFile { epoch_number: 0, ..full().new_files.remove(0) },
        NewFile { smallest: b"short".to_vec(), ..full().new_files.remove(0) },
    ] {
        let edit = VersionEdit { new_files: vec![file], ..VersionEdit::default() };
        assert!(edit.encode(&mut Vec::new()).is_err());
    }
}

#[test]
fn no_bytes_make_the_decoder_panic() {
    let decode = |bytes: &[u8]| -> Result<()> {
        let edit = VersionEdit::decode(bytes)?;
        // An edit that was decoded can be encoded, unless it has a file without an epoch number. If
        // it can, decoding and encoding it again must give the same bytes.
        let mut out = Vec::new();
        if edit.encode(&mut out).is_ok() {
            let again = VersionEdit::decode(&out).unwrap();
            let mut same = Vec::new();
            again.encode(&mut same).unwrap();
            assert_eq!(same, out);
        }
        Ok(())
    };
    support::damage(&encode(&full()), decode);
    for (_, manifest) in MANIFESTS {
        let records = records(manifest);
        for record in records.iter().take(12) {
            support::damage(record, decode);
        }
    }
}
