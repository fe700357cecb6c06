//! Tables assembled by hand. They have no checksums, so that no content is rejected because of a
//! wrong checksum.

use tailwater_format::checksum::ChecksumType;
use tailwater_format::key::{ValueType, pack_trailer, put_internal_key};
use tailwater_format::table::{BlockHandle, Footer, Properties, meta};
use tailwater_format::table::{IndexType, properties};
use tailwater_format::varint::{put_fixed32, put_varint32};

/// Table format version. In this old version the footer has no checksum, and contains the handle of
/// the index block.
const FORMAT_VERSION: u32 = 3;
/// The trailer of a block: the bytes for "no compression" and "no checksum".
const TRAILER: [u8; 5] = [0; 5];

/// A key, a sequence number and a value.
pub(crate) type Put<'a> = (&'a str, u64, &'a str);

/// An internal key and a value.
pub(crate) type Record = (Vec<u8>, Vec<u8>);

/// Returns a table with these data blocks in the given order, each with its key in the index.
/// `other_meta` are additional entries of the metaindex block.
pub(crate) fn table(blocks: &[(&[Put<'_>], &str)], other_meta: &[(&str, BlockHandle)]) -> Vec<u8> {
    table_with_tombstones(blocks, &[], other_meta)
}

/// Like [`table`], with range tombstones, each given as start, sequence number and end.
pub(crate) fn table_with_tombstones(
    blocks: &[(&[Put<'_>], &str)],
    tombstones: &[(&str, u64, &str)],
    other_meta: &[(&str, BlockHandle)],
) -> Vec<u8> {
    let blocks = blocks.iter().map(|(puts, index_key)| {
        let records = puts.iter().map(|(key, sequence, value)| {
            (internal_key(key, *sequence), value.as_bytes().to_vec())
        });
        (records.collect(), *index_key)
    });
    assemble(blocks.collect(), tombstones, other_meta, |_| {})
}

/// Returns a table with one data block. Its records are given as internal keys and values. `change`
/// changes the properties, which are those of a table written with the newest format version.
pub(crate) fn table_of_records(
    records: Vec<Record>,
    tombstones: &[(&str, u64, &str)],
    change: impl FnOnce(&mut Properties),
) -> Vec<u8> {
    assemble(vec![(records, "z")], tombstones, &[], change)
}

fn assemble(
    blocks: Vec<(Vec<Record>, &str)>,
    tombstones: &[(&str, u64, &str)],
    other_meta: &[(&str, BlockHandle)],
    change: impl FnOnce(&mut Properties),
) -> Vec<u8> {
    let mut file = Vec::new();
    let mut index = Vec::new();
    let tombstones: Vec<Record> = tombstones
        .iter()
        .map(|(start, sequence, end)| {
            let key = typed_key(start, *sequence, ValueType::RangeDeletion);
            (key, end.as_bytes().to_vec())
        })
        .collect();
    let mut properties = table_properties(&blocks, &tombstones);
    for (records, index_key) in blocks {
        let handle = append(&mut file, &block(records));
        index.push((internal_key(index_key, 0), encoded(handle)));
    }
    properties.data_size = file.len() as u64;
    change(&mut properties);
    let properties = append(&mut file, &block(properties.to_entries()));
    let mut names: Vec<(Vec<u8>, Vec<u8>)> =
        vec![(meta::PROPERTIES.as_bytes().to_vec(), encoded(properties))];
    if !tombstones.is_empty() {
        let handle = append(&mut file, &block(tombstones));
        names.push((meta::RANGE_DELETIONS.as_bytes().to_vec(), encoded(handle)));
    }
    names.extend(other_meta.iter().map(|(name, at)| (name.as_bytes().to_vec(), encoded(*at))));
    names.sort();
    let metaindex = append(&mut file, &block(names));
    let index = append(&mut file, &block(index));
    let footer = Footer {
        format_version: FORMAT_VERSION,
        checksum_type: ChecksumType::None,
        base_context: 0,
        metaindex,
        index: Some(index),
    };
    let footer = footer.encode(file.len() as u64).expect("the footer is that of its version");
    file.extend_from_slice(&footer);
    file
}

fn table_properties(blocks: &[(Vec<Record>, &str)], tombstones: &[Record]) -> Properties {
    let records = || blocks.iter().flat_map(|(records, _)| records);
    let of_type = |wanted: ValueType| {
        let types = records().filter_map(|(key, _)| key.get(key.len() - 8));
        types.filter(|&&value_type| value_type == wanted as u8).count() as u64
    };
    let all = || records().chain(tombstones);
    let mut table = Properties::default();
    table.num_entries = all().count() as u64;
    table.num_deletions = of_type(ValueType::Deletion) + tombstones.len() as u64;
    table.num_merge_operands = of_type(ValueType::Merge);
    table.num_range_deletions = tombstones.len() as u64;
    table.raw_key_size = all().map(|(key, _)| key.len() as u64).sum();
    table.raw_value_size = all().map(|(_, value)| value.len() as u64).sum();
    table.num_data_blocks = blocks.len() as u64;
    table.column_family_id = properties::UNKNOWN_COLUMN_FAMILY_ID;
    table.comparator_name = b"leveldb.BytewiseComparator".to_vec();
    table.index_type = Some(IndexType::BinarySearch);
    table
}

/// Returns the internal key of a put.
pub(crate) fn internal_key(user_key: &str, sequence: u64) -> Vec<u8> {
    typed_key(user_key, sequence, ValueType::Value)
}

/// Returns the internal key of a record of this type.
pub(crate) fn typed_key(user_key: &str, sequence: u64, value_type: ValueType) -> Vec<u8> {
    let mut key = Vec::new();
    put_internal_key(&mut key, user_key.as_bytes(), pack_trailer(sequence, value_type as u8));
    key
}

fn encoded(handle: BlockHandle) -> Vec<u8> {
    let mut bytes = Vec::new();
    handle.encode(&mut bytes);
    bytes
}

/// Returns a block in which every entry is a restart point, and so stores its whole key.
fn block(entries: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> Vec<u8> {
    let (mut block, mut restarts) = (Vec::new(), Vec::new());
    for (key, value) in entries {
        restarts.push(block.len() as u32);
        for length in [0, key.len(), value.len()] {
            put_varint32(&mut block, length as u32);
        }
        block.extend_from_slice(&key);
        block.extend_from_slice(&value);
    }
    for &restart in &restarts {
        put_fixed32(&mut block, restart);
    }
    put_fixed32(&mut block, restarts.len() as u32);
    block
}

fn append(file: &mut Vec<u8>, block: &[u8]) -> BlockHandle {
    let handle = BlockHandle { offset: file.len() as u64, size: block.len() as u64 };
    file.extend_from_slice(block);
    file.extend_from_slice(&TRAILER);
    handle
}
