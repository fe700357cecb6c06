//! Tests of write batches: batches that RocksDB wrote must be read correctly, and the builder must
//! produce the same bytes.

use tailwater_format::batch::{BatchReader, HEADER_LENGTH, Record, RecordKind, WriteBatch};
use tailwater_format::blob::{BlobIndex, BlobLocation};
use tailwater_format::compress::Compression;
use tailwater_format::wide_column::{self, WideColumn};
use tailwater_format::{Error, Result};

use crate::support;

const BATCHES: &str = include_str!("data/batches.hex");

fn read(bytes: &[u8]) -> Result<Vec<Record<'_>>> {
    BatchReader::new(bytes)?.collect()
}

/// Builds the batch that the fixture `every-kind` contains.
fn every_kind() -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put_cf(0, b"k1", b"value").unwrap();
    batch.put_cf(1, b"k2", [0; 200]).unwrap();
    for family in 0..2 {
        batch.delete_cf(family, b"k3").unwrap();
    }
    for family in 0..2 {
        batch.single_delete_cf(family, b"k4").unwrap();
    }
    for family in 0..2 {
        batch.delete_range_cf(family, b"a", b"b").unwrap();
    }
    for family in 0..2 {
        batch.merge_cf(family, b"m", b"op").unwrap();
    }
    batch.put_log_data(b"blob").unwrap();
    batch
}

#[test]
fn a_batch_is_built_byte_for_byte_as_rocksdb_builds_it() {
    let (name, golden) = support::named_bytes(BATCHES).remove(0);
    assert_eq!(name, "every-kind");
    let batch = every_kind();
    assert_eq!(batch.data(), golden);
    assert_eq!((batch.len(), batch.size_in_bytes()), (10, golden.len()));
    assert_eq!(WriteBatch::from_data(golden).unwrap(), batch);
}

#[test]
fn every_batch_of_rocksdb_reads_back() {
    let mut names = Vec::new();
    for (name, bytes) in support::named_bytes(BATCHES) {
        let reader = BatchReader::new(&bytes).unwrap();
        let count = reader.record_count() as usize;
        let records = reader.collect::<Result<Vec<_>>>().unwrap();
        let counted = records.iter().filter(|record| record.kind.value_type().is_some()).count();
        assert_eq!(counted, count);
        names.extend(records.iter().map(|record| (name, record.kind)));
    }
    use RecordKind as Kind;
    for kind in [Kind::BeginPrepare, Kind::EndPrepare, Kind::Commit, Kind::Rollback] {
        assert!(names.contains(&("committed", kind)), "{kind:?}");
    }
    assert!(names.contains(&("prepared", Kind::BeginPersistedPrepare)));
}

#[test]
fn a_prepared_transaction_ends_with_its_name() {
    let batches = support::named_bytes(BATCHES);
    let (_, bytes) = batches.iter().find(|(name, _)| *name == "committed").unwrap();
    let records = read(bytes).unwrap();
    let kinds: Vec<RecordKind> = records.iter().map(|record| record.kind).collect();
    use RecordKind as Kind;
    assert_eq!(kinds, [Kind::BeginPrepare, Kind::Put, Kind::Delete, Kind::EndPrepare]);
    assert_eq!(records[3].key, b"txn1");
    assert_eq!(records[1].offset, HEADER_LENGTH + 1);
}

#[test]
fn records_reach_both_column_families() {
    let batches = support::named_bytes(BATCHES);
    let (_, bytes) = batches.iter().find(|(name, _)| *name == "families").unwrap();
    let records = read(bytes).unwrap();
    assert_eq!(BatchReader::new(bytes).unwrap().sequence(), 30942);
    let families: Vec<u32> = records.iter().map(|record| record.column_family).collect();
    assert_eq!(families, [0, 1]);
    assert_eq!(records[0].key, b"astro-education/4.0");
}

/// Returns an encoded entity of one column, which is the value of a record in a batch.
fn entity() -> Vec<u8> {
    let mut entity = Vec::new();
    wide_column::encode(&[WideColumn::new(b"name", b"value")], &mut entity).unwrap();
    entity
}

/// Returns an encoded blob index, which is the value of a record in a batch.
fn blob_index() -> Vec<u8> {
    let location = BlobLocation {
        file_number: 7,
        offset: 100,
        size: 10,
        compression: Compression::None,
        expiration: None,
    };
    let mut index = Vec::new();
    BlobIndex::Blob(location).encode(&mut index);
    index
}

#[test]
fn record_kinds_unsupported_by_rocksdbs_java_library_round_trip() {
    let mut batch = WriteBatch::with_capacity_bytes(200);
    for family in [0, 3, 300, u32::MAX] {
        batch.put_entity_cf(family, b"e", entity()).unwrap();
        batch.put_blob_index_cf(family, b"b", blob_index()).unwrap();
        batch.timed_put_cf(family, b"t", b"value", 0x0102_0304).unwrap();
    }
    batch.set_sequence(77);
    let reader = batch.reader().unwrap();
    assert_eq!((reader.sequence(), batch.sequence(), reader.record_count()), (77, 77, 12));
    let records: Vec<Record<'_>> = reader.collect::<Result<_>>().unwrap();
    for (chunk, family) in records.chunks(3).zip([0, 3, 300, u32::MAX]) {
        assert!(chunk.iter().all(|record| record.column_family == family));
        assert_eq!((chunk[0].kind, chunk[0].value), (RecordKind::Entity, &entity()[..]));
        assert_eq!((chunk[1].kind, chunk[1].value), (RecordKind::BlobIndex, &blob_index()[..]));
        assert_eq!(chunk[2].kind, RecordKind::TimedPut);
        assert_eq!(chunk[2].value, b"value\x04\x03\x02\x01\0\0\0\0");
    }
    // The type bytes of the records. Records of the default column family and of other column
    // families have different type bytes.
    assert_eq!(batch.data()[HEADER_LENGTH], 0x16);
    let lengths = [3 + 1 + entity().len(), 3 + 1 + blob_index().len(), 17];
    assert_eq!(records[3].offset, HEADER_LENGTH + lengths.iter().sum::<usize>());
    let tag = |record: &Record<'_>| batch.data()[record.offset];
    let tags: Vec<u8> = records.iter().take(6).map(tag).collect();
    assert_eq!(tags, [0x16, 0x11, 0x18, 0x17, 0x10, 0x19]);
}

#[test]
fn appending_joins_records_and_counts() {
    let mut batch = every_kind();
    let other = every_kind();
    batch.append(&other).unwrap();
    assert_eq!(batch.len(), 20);
    assert_eq!(read(batch.data()).unwrap().len(), 22);
    batch.clear();
    assert!(batch.is_empty());
    assert_eq!(batch, WriteBatch::new());
    assert_eq!(read(batch.data()), Ok(Vec::new()));
}

#[test]
fn a_wrong_count_is_found_at_the_end() {
    let mut bytes = every_kind().data().to_vec();
    bytes[8] = 11;
    let records: Vec<Result<Record<'_>>> = BatchReader::new(&bytes).unwrap().collect();
    assert!(records[..11].iter().all(Result::is_ok));
    assert!(matches!(records[11], Err(Error::Corruption { offset: 8, .. })));
    assert_eq!(records.len(), 12);
    assert!(WriteBatch::from_data(bytes).is_err());
}

#[test]
fn damage_is_reported_with_its_offset() {
    let batch = every_kind();
    let length = batch.size_in_bytes();
    let error = read(&batch.data()[..length - 1]).unwrap_err();
    let Error::Corruption { offset, .. } = error else { panic!("{error}") };
    assert_eq!(offset as usize, length - 4);
    for tag in [0x14, 0x1A, 0x7F, 0x80, 0xFF] {
        let mut bytes = batch.data().to_vec();
        bytes[HEADER_LENGTH] = tag;
        let error = read(&bytes).unwrap_err();
        assert!(matches!(error, Error::Corruption { offset: 12, .. }), "{error}");
    }
}

/// Regression test: a batch was accepted although it had a value that no read could decode: a timed
/// put whose value was too short for its write time, or an invalid entity or blob index. After a
/// flush, the table with this value could not be compacted.
#[test]
fn values_that_do_not_decode_are_refused() {
    for kind in [RecordKind::TimedPut, RecordKind::Entity, RecordKind::BlobIndex] {
        for family in [0, 1] {
            let mut batch = WriteBatch::new();
            batch.put_cf(0, b"before", b"value").unwrap();
            let offset = batch.size_in_bytes();
            batch.put_cf(family, b"key", b"7bytes.").unwrap();
            let mut bytes = batch.data().to_vec();
            bytes[offset] = match (kind, family) {
                (RecordKind::TimedPut, 0) => 0x18,
                (RecordKind::TimedPut, _) => 0x19,
                (RecordKind::Entity, 0) => 0x16,
                (RecordKind::Entity, _) => 0x17,
                (_, 0) => 0x11,
                (_, _) => 0x10,
            };
            let error = WriteBatch::from_data(bytes).expect_err("a value that does not decode");
            let Error::Corruption { offset: found, .. } = &error else { panic!("{error}") };
            assert_eq!(*found as usize, offset, "{kind:?}: {error}");
        }
    }
    let mut shortest = WriteBatch::new();
    shortest.timed_put_cf(0, b"key", b"", 7).unwrap();
    assert_eq!(WriteBatch::from_data(shortest.data().to_vec()), Ok(shortest));
}

#[test]
fn no_bytes_make_the_reader_panic() {
    for (_, bytes) in support::named_bytes(BATCHES) {
        support::damage(&bytes, |bytes| read(bytes).map(|records| records.len()));
    }
}
