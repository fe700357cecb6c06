//! Write batches. Checks that a batch that can be read can be built again from its records.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::batch::{BatchReader, HEADER_LENGTH, Record, RecordKind, WriteBatch};

const COUNT_AT: usize = 8;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    if bytes.len() >= HEADER_LENGTH {
        check(&with_count(bytes));
    }
});

/// Returns the batch with the correct number of records in its header.
fn with_count(bytes: &[u8]) -> Vec<u8> {
    let reader = BatchReader::new(bytes).expect("a batch has a header");
    let count = reader
        .filter(|record| record.as_ref().is_ok_and(|record| record.kind.value_type().is_some()))
        .count();
    let mut bytes = bytes.to_vec();
    bytes[COUNT_AT..HEADER_LENGTH].copy_from_slice(&(count as u32).to_le_bytes());
    bytes
}

fn check(bytes: &[u8]) {
    let Ok(reader) = BatchReader::new(bytes) else { return };
    let count = reader.record_count();
    let records: Result<Vec<Record<'_>>, _> = reader.clone().map(checked).collect();
    let batch = WriteBatch::from_data(bytes.to_vec());
    assert_eq!(records.as_ref().err(), batch.as_ref().err());
    let (Ok(records), Ok(batch)) = (records, batch) else { return };
    assert_eq!((batch.data(), batch.len()), (bytes, count as usize));
    assert!(records.windows(2).all(|pair| pair[0].offset < pair[1].offset));
    check_rebuilt(reader.sequence(), &records);
}

fn checked(record: tailwater_format::Result<Record<'_>>) -> tailwater_format::Result<Record<'_>> {
    record.and_then(|record| record.check().map(|()| record))
}

fn check_rebuilt(sequence: u64, records: &[Record<'_>]) {
    let mut batch = WriteBatch::new();
    batch.set_sequence(sequence);
    let mut added = Vec::new();
    for record in records {
        if add(&mut batch, record) {
            added.push(parts(record));
        }
    }
    assert_eq!(batch.sequence(), sequence);
    let reader = batch.reader().expect("a batch has a header");
    let read: Result<Vec<Record<'_>>, _> = reader.collect();
    let read = read.expect("an assembled batch is complete");
    assert_eq!(read.iter().map(parts).collect::<Vec<_>>(), added);
}

fn parts<'a>(record: &Record<'a>) -> (u32, RecordKind, &'a [u8], &'a [u8]) {
    (record.column_family, record.kind, record.key, record.value)
}

/// Adds a record to a batch. Returns false for a kind of record that a batch cannot add, such as
/// those of transactions.
fn add(batch: &mut WriteBatch, record: &Record<'_>) -> bool {
    let Record { column_family: family, key, value, .. } = *record;
    let added = match record.kind {
        RecordKind::Put => batch.put_cf(family, key, value),
        RecordKind::Delete => batch.delete_cf(family, key),
        RecordKind::SingleDelete => batch.single_delete_cf(family, key),
        RecordKind::DeleteRange => batch.delete_range_cf(family, key, value),
        RecordKind::Merge => batch.merge_cf(family, key, value),
        RecordKind::BlobIndex => batch.put_blob_index_cf(family, key, value),
        RecordKind::Entity => batch.put_entity_cf(family, key, value),
        RecordKind::LogData => batch.put_log_data(value),
        RecordKind::TimedPut => {
            let Some((value, time)) = value.split_last_chunk::<8>() else { return false };
            batch.timed_put_cf(family, key, value, u64::from_le_bytes(*time))
        }
        _ => return false,
    };
    assert_eq!(added, Ok(()));
    true
}
