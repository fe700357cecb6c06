//! Checks of the worked examples that come from tables.

use tailwater_format::block::{
    Builder, BuilderOptions, Cursor, IndexBuilder, IndexBuilderOptions, IndexCursor, IndexFormat,
    Layout,
};
use tailwater_format::filter::{FilterKey, FilterPolicy, FilterReader};
use tailwater_format::key::{ParsedKey, user_key};
use tailwater_format::table::meta::{self, MetaBlock};
use tailwater_format::table::{BLOCK_TRAILER_LENGTH, BlockHandle, Footer, Properties, UniqueId};
use tailwater_format::varint::Reader;

use super::document::{Example, golden};
use super::examples::{Answer, answer};
use super::fields::quoted;

/// Returns the keys and values of a data block or meta block.
fn entries(block: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let layout = Layout::parse(block).unwrap();
    let mut cursor = Cursor::default();
    let mut entries = Vec::new();
    cursor.seek_to_first(block, &layout).unwrap();
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.value(block).to_vec()));
        cursor.next(block, &layout).unwrap();
    }
    entries
}

fn build(options: BuilderOptions, entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut builder = Builder::new(options);
    for (key, value) in entries {
        builder.add(key, value);
    }
    let mut block = Vec::new();
    builder.finish(&mut block).unwrap();
    block
}

fn handle(value: &[u8]) -> BlockHandle {
    BlockHandle::decode(&mut Reader::new(value)).unwrap()
}

fn place(handle: BlockHandle) -> String {
    format!("{} bytes at {}", handle.size, handle.offset)
}

/// Returns the meta block that has this name in a table's metaindex.
fn meta_block(file: &[u8], name: &str) -> Vec<u8> {
    let footer = Footer::decode(file, 0).unwrap();
    let block = |handle: BlockHandle| {
        let length = handle.size as usize + BLOCK_TRAILER_LENGTH;
        let bytes = &file[handle.offset as usize..][..length];
        footer.block_checksum().verify(handle.offset, bytes).unwrap().0.to_vec()
    };
    let metaindex = entries(&block(footer.metaindex));
    let (_, value) = metaindex.iter().find(|(key, _)| key == name.as_bytes()).unwrap();
    block(handle(value))
}

fn properties_of(file: &[u8]) -> Properties {
    Properties::from_entries(entries(&meta_block(file, meta::PROPERTIES))).unwrap()
}

fn record(key: &[u8], value: &[u8]) -> String {
    format!("{:?} -> {}", ParsedKey::parse(key).unwrap(), quoted(value))
}

fn built_block(example: &Example, options: BuilderOptions) -> Answer {
    let entries = entries(&example.bytes);
    let says = entries.iter().map(|(key, value)| record(key, value)).collect();
    Answer { says, encoded: Some(build(options, &entries)) }
}

pub(crate) fn data_block(example: &Example) -> Answer {
    built_block(example, BuilderOptions::default())
}

pub(crate) fn hash_index_block(example: &Example) -> Answer {
    assert!(Layout::parse(&example.bytes).unwrap().has_hash_index());
    let hash_index_utilization = Some(0.75);
    let defaults = BuilderOptions::default();
    let options = BuilderOptions { restart_interval: 2, hash_index_utilization, ..defaults };
    built_block(example, options)
}

pub(crate) fn values_apart_block(example: &Example) -> Answer {
    assert!(Layout::parse(&example.bytes).unwrap().values_apart());
    let defaults = BuilderOptions::default();
    let options = BuilderOptions { restart_interval: 2, values_apart: true, ..defaults };
    built_block(example, options)
}

pub(crate) fn range_deletions(example: &Example) -> Answer {
    built_block(example, BuilderOptions::META)
}

pub(crate) fn index_block(example: &Example) -> Answer {
    let properties = properties_of(&example.whole_file());
    let options = IndexBuilderOptions {
        restart_interval: properties.index_block_restart_interval as u32,
        format: IndexFormat {
            delta_values: properties.index_value_is_delta_encoded,
            first_keys: example.name == "index-block-first-key",
        },
        internal_keys: !properties.index_key_is_user_key,
    };
    index(&example.bytes, options)
}

pub(crate) fn filter_partitions(example: &Example) -> Answer {
    let format = IndexFormat { delta_values: true, first_keys: false };
    index(&example.bytes, IndexBuilderOptions { restart_interval: 1, format, internal_keys: false })
}

fn index(block: &[u8], options: IndexBuilderOptions) -> Answer {
    let layout = Layout::parse(block).unwrap();
    let mut builder = IndexBuilder::new(options);
    let (mut cursor, mut says, mut encoded) = (IndexCursor::default(), Vec::new(), Vec::new());
    cursor.seek_to_first(block, &layout, options.format).unwrap();
    while cursor.valid() {
        let first_key = cursor.first_key(block);
        let mut separator = cursor.key().to_vec();
        let mut line = if options.internal_keys {
            format!("{:?}", ParsedKey::parse(&separator).unwrap())
        } else {
            quoted(&separator)
        };
        line += &format!(" -> {}", place(cursor.handle()));
        if options.format.first_keys {
            line += &format!(", from {:?}", ParsedKey::parse(first_key).unwrap());
        }
        says.push(line);
        if !options.internal_keys {
            separator.extend_from_slice(&[0; 8]);
        }
        builder.add(&separator, cursor.handle(), first_key);
        cursor.next(block, &layout, options.format).unwrap();
    }
    builder.finish(&mut encoded).unwrap();
    Answer { says, encoded: Some(encoded) }
}

pub(crate) fn trailer(example: &Example) -> Answer {
    let file = example.whole_file();
    let checksum = Footer::decode(&file, 0).unwrap().block_checksum();
    let start = example.block.unwrap();
    let bytes = &file[start..example.offset + BLOCK_TRAILER_LENGTH];
    let (block, compression) = checksum.verify(start as u64, bytes).unwrap();
    let encoded = checksum.trailer(start as u64, block, compression).to_vec();
    let (length, kind, base) = (block.len(), checksum.checksum_type, checksum.base_context);
    answer(format!("{kind:?} of {length} bytes at {start}, base context {base:#010x}"), encoded)
}

pub(crate) fn footer(example: &Example) -> Answer {
    let footer = Footer::decode(&example.bytes, example.offset as u64).unwrap();
    let encoded = footer.encode(example.offset as u64).unwrap().to_vec();
    let mut says = vec![
        format!("format_version {}, {:?}", footer.format_version, footer.checksum_type),
        format!("metaindex {}", place(footer.metaindex)),
    ];
    says.extend(footer.index.map(|index| format!("index {}", place(index))));
    Answer { says, encoded: Some(encoded) }
}

pub(crate) fn metaindex_block(example: &Example) -> Answer {
    let entries = entries(&example.bytes);
    let says = entries.iter().map(|(name, value)| {
        let name = MetaBlock::from_name(name).unwrap();
        format!("{name:?} -> {}", place(handle(value)))
    });
    Answer { says: says.collect(), encoded: Some(build(BuilderOptions::META, &entries)) }
}

/// Checks an example that is the beginning of a properties block.
pub(crate) fn properties(example: &Example) -> Answer {
    let block = meta_block(&example.whole_file(), meta::PROPERTIES);
    assert!(block.starts_with(&example.bytes));
    let layout = Layout::parse(&block).unwrap();
    let mut cursor = Cursor::default();
    cursor.seek_to_first(&block, &layout).unwrap();
    let mut says = Vec::new();
    while (cursor.entry_offset() as usize) < example.bytes.len() {
        says.push(format!("{} -> {}", quoted(cursor.key()), quoted(cursor.value(&block))));
        cursor.next(&block, &layout).unwrap();
    }
    let properties = Properties::from_entries(entries(&block)).unwrap();
    let mut encoded = build(BuilderOptions::PROPERTIES, &properties.to_entries());
    assert_eq!(encoded, block);
    encoded.truncate(example.bytes.len());
    Answer { says, encoded: Some(encoded) }
}

pub(crate) fn bloom_filter(example: &Example) -> Answer {
    let file = example.whole_file();
    let mut builder = FilterPolicy::bloom(10.0).bloom_builder().unwrap();
    let filter = FilterReader::parse(&example.bytes);
    let mut says = Vec::new();
    // The table has one data block. It is at the beginning of the file, directly before the filter.
    let data = &file[..example.offset - BLOCK_TRAILER_LENGTH];
    let mut keys: Vec<Vec<u8>> =
        entries(data).into_iter().map(|(key, _)| user_key(&key).to_vec()).collect();
    keys.iter().for_each(|key| builder.add(key));
    keys.push(b"elderberry".to_vec());
    for key in keys {
        let may = filter.may_contain(&FilterKey::new(&key));
        says.push(format!("{}: {}", quoted(&key), if may { "maybe" } else { "no" }));
    }
    Answer { says, encoded: Some(builder.finish()) }
}

/// Checks an example that is the metadata at the end of a filter block.
pub(crate) fn filter_end(example: &Example) -> Answer {
    let file = golden(&example.file);
    assert!(file.ends_with(&example.bytes));
    let layout = format!("{:?}", FilterReader::parse(&file).layout());
    let (_, parameters) = layout.rsplit_once('(').unwrap();
    Answer { says: vec![parameters.trim_end_matches(')').to_string()], encoded: None }
}

/// Checks the unique id of a table in a MANIFEST. It must match the id that the table's properties
/// yield.
pub(crate) fn unique_id(example: &Example) -> Answer {
    // The example comes from this MANIFEST, in which table 9 is the first table.
    assert_eq!(example.file, "tour/MANIFEST-000005");
    let properties = properties_of(&golden("tour/000009.sst"));
    let (db_id, session_id) = (&properties.db_id, &properties.db_session_id);
    let id = UniqueId::new(db_id, session_id, properties.original_file_number).unwrap();
    let says = vec![
        format!("database id {}", quoted(db_id)),
        format!("session id {}", quoted(session_id)),
        format!("original file number {}", properties.original_file_number),
        format!("unique id {id:?}"),
    ];
    Answer { says, encoded: Some(id.manifest_bytes().to_vec()) }
}
