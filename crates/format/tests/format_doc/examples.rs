//! For each worked example in docs/format.md, a function that decodes and encodes it. The functions
//! for small examples are in this file.

use tailwater_format::blob::{BlobFileFooter, BlobFileHeader, BlobIndex, BlobRecordHeader};
use tailwater_format::file_name::{format_current, parse_current};
use tailwater_format::key::ParsedKey;
use tailwater_format::varint::{decode_varint64, put_varint64};
use tailwater_format::wide_column;

use super::document::Example;
use super::fields::quoted;
use super::{logs, tables};

/// The result of decoding an example.
pub(crate) struct Answer {
    /// The decoded values, formatted like the lines that begin with `=` in the format document.
    pub(crate) says: Vec<String>,
    /// The bytes that the encoder produces from the decoded values; `None` if the example is only a
    /// part of what the encoder produces.
    pub(crate) encoded: Option<Vec<u8>>,
}

type Check = fn(&Example) -> Answer;

/// The function that checks each example, by the example's name.
pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("varint", varint),
    ("internal-key", internal_key),
    ("data-block", tables::data_block),
    ("data-block-hash-index", tables::hash_index_block),
    ("data-block-values-apart", tables::values_apart_block),
    ("index-block-whole", tables::index_block),
    ("index-block-delta", tables::index_block),
    ("index-block-first-key", tables::index_block),
    ("trailer-crc32c", tables::trailer),
    ("trailer-xxhash64", tables::trailer),
    ("trailer-xxh3", tables::trailer),
    ("trailer-xxhash-context", tables::trailer),
    ("trailer-xxh3-context", tables::trailer),
    ("trailer-none-context", tables::trailer),
    ("footer-2", tables::footer),
    ("footer-5", tables::footer),
    ("footer-7", tables::footer),
    ("metaindex-block", tables::metaindex_block),
    ("properties", tables::properties),
    ("filter-bloom", tables::bloom_filter),
    ("filter-ribbon-end", tables::filter_end),
    ("filter-legacy-end", tables::filter_end),
    ("filter-partitions", tables::filter_partitions),
    ("range-deletions", tables::range_deletions),
    ("unique-id", tables::unique_id),
    ("log-record", logs::log_record),
    ("log-predecessor", logs::log_predecessor),
    ("log-fragments", logs::log_fragments),
    ("log-recyclable", logs::log_start),
    ("log-compressed", logs::log_start),
    ("write-batch", logs::write_batch),
    ("edit-first", logs::version_edit),
    ("edit-column-family", logs::version_edit),
    ("edit-log-synced", logs::version_edit),
    ("edit-logs-deleted", logs::version_edit),
    ("edit-new-file", logs::version_edit),
    ("edit-blob-file", logs::version_edit),
    ("current", current),
    ("identity", identity),
    ("blob-header", blob_header),
    ("blob-record", blob_record),
    ("blob-footer", blob_footer),
    ("blob-index", blob_index),
    ("entity-1", entity),
    ("entity-2", entity),
];

/// Returns the result of decoding an example: one line of text, and the bytes to which the decoded
/// value is encoded again.
pub(crate) fn answer(says: impl Into<String>, encoded: Vec<u8>) -> Answer {
    Answer { says: vec![says.into()], encoded: Some(encoded) }
}

fn varint(example: &Example) -> Answer {
    let (value, length) = decode_varint64(&example.bytes).unwrap();
    assert_eq!(length, example.bytes.len());
    let mut encoded = Vec::new();
    put_varint64(&mut encoded, value);
    answer(value.to_string(), encoded)
}

fn internal_key(example: &Example) -> Answer {
    let key = ParsedKey::parse(&example.bytes).unwrap();
    answer(format!("{key:?}"), key.to_vec())
}

fn current(example: &Example) -> Answer {
    let number = parse_current(&example.bytes).unwrap();
    answer(format!("MANIFEST number {number}"), format_current(number).into_bytes())
}

fn identity(example: &Example) -> Answer {
    assert_eq!(example.bytes, example.whole_file());
    answer("the whole file, without a newline", example.bytes.clone())
}

fn blob_header(example: &Example) -> Answer {
    let header = BlobFileHeader::decode(&example.bytes).unwrap();
    let mut encoded = Vec::new();
    header.encode(&mut encoded);
    let (family, compression) = (header.column_family_id, header.compression);
    answer(format!("column family {family}, compression {compression:?}"), encoded)
}

fn blob_record(example: &Example) -> Answer {
    let header = BlobRecordHeader::decode(&example.bytes).unwrap();
    let (key, value) = example.bytes[32..].split_at(header.key_length as usize);
    header.verify(key, value).unwrap();
    assert_eq!(header.record_length(), example.bytes.len() as u64);
    let mut encoded = Vec::new();
    BlobRecordHeader::new(key, value, header.expiration).encode(&mut encoded);
    encoded.extend_from_slice(&example.bytes[32..]);
    answer(format!("{} -> {}, both checksums right", quoted(key), quoted(value)), encoded)
}

fn blob_footer(example: &Example) -> Answer {
    let footer = BlobFileFooter::decode(&example.bytes).unwrap();
    let mut encoded = Vec::new();
    footer.encode(&mut encoded);
    answer(format!("{} blob, checksum right", footer.blob_count), encoded)
}

fn blob_index(example: &Example) -> Answer {
    let index = BlobIndex::decode(&example.bytes).unwrap();
    let BlobIndex::Blob(location) = index else { panic!("{index:?}") };
    let mut encoded = Vec::new();
    index.encode(&mut encoded);
    let (size, offset, file) = (location.size, location.offset, location.file_number);
    answer(format!("{size} bytes at {offset} of blob file {file}"), encoded)
}

fn entity(example: &Example) -> Answer {
    let columns = wide_column::decode(&example.bytes).unwrap();
    let mut encoded = Vec::new();
    wide_column::encode(&columns, &mut encoded).unwrap();
    let says = columns.iter().map(|column| {
        let kind = if column.is_blob_index { "blob index" } else { "value" };
        format!("{} -> {kind} {}", quoted(column.name), quoted(column.value))
    });
    Answer { says: says.collect(), encoded: Some(encoded) }
}
