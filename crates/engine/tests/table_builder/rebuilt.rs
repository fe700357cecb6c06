//! Rebuilds tables that RocksDB wrote, from their entries.
//!
//! With the same options, the same entries must result in the same table: every block, its
//! location, and every property. There are three exceptions:
//!
//! - The base context of the checksums is random.
//! - With `optimize_filters_for_memory`, RocksDB fits the size of a filter to its memory allocator.
//! - If RocksDB compressed the blocks with another library, the compressed blocks and all locations
//!   may differ.

use std::collections::BTreeMap;
use std::path::Path;

use tailwater::for_tests::Builder;
use tailwater::for_tests::check_column_family;
use tailwater::for_tests::{FinishedTable, Origin, TableCompression};
use tailwater::inspect::manifest;
use tailwater::options::{ColumnFamilyOptions, CompressionOptions, DbOptions};
use tailwater_format::block::{Cursor, IndexCursor, IndexFormat, Layout};
use tailwater_format::compress::{Compression, Decompressor};
use tailwater_format::filter::COMPATIBILITY_NAME;
use tailwater_format::table::meta::{self, MetaBlock};
use tailwater_format::table::properties::UNKNOWN_COLUMN_FAMILY_ID;
use tailwater_format::table::{BlockHandle, Footer, Properties};
use tailwater_format::varint::Reader;
use tailwater_format::version_edit::NewFile;
use tailwater_io::posix::PosixStorage;
use tailwater_io::sim::SimStorage;
use tailwater_io::{IoMode, Purpose, Storage};

use crate::database;

/// The parts of a table that are compared.
struct Table {
    footer: Footer,
    /// The name and the location of each block that the metaindex lists, in the order of the
    /// metaindex. If the footer refers to the index, the index is the last element.
    meta: Vec<(String, BlockHandle)>,
    properties: Properties,
    /// The data blocks as stored: the handle, the compression and the bytes of each.
    data: Vec<(BlockHandle, Compression, Vec<u8>)>,
    bytes: Vec<u8>,
}

/// Numbers of tables, by the result of the comparison of the rebuilt table with the original.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Tables that were not rebuilt, since Tailwater does not write tables with their features.
    pub(crate) left_out: usize,
    /// Tables whose stored data blocks and index have the same bytes as those of the original.
    pub(crate) same: usize,
    /// Tables whose stored blocks differ from those of the original, but are the same after
    /// decompression.
    pub(crate) compressed_otherwise: usize,
}

/// Returns the name of the column family and the file number that a table's properties record.
pub(crate) fn family_and_number(bytes: &[u8]) -> (String, u64) {
    let properties = Table::parse(bytes.to_vec()).properties;
    let family = String::from_utf8(properties.column_family_name).expect("a name");
    (family, properties.original_file_number)
}

/// Returns what a database's MANIFEST records about each table, by file number.
pub(crate) fn known(directory: &Path) -> BTreeMap<u64, NewFile> {
    let storage = PosixStorage::new();
    let state = manifest::current(&storage, directory)
        .and_then(|number| manifest::state(&storage, directory, number))
        .unwrap_or_else(|error| panic!("{error}"));
    let families = state.column_families.into_iter();
    let files = families.flat_map(|family| family.levels.into_iter().flatten());
    files.map(|file| (file.number, file)).collect()
}

/// Rebuilds a table and compares it with the original. `known` is what the MANIFEST records about
/// the table, and `options` are those of its column family. `other_codecs` are the codecs for which
/// RocksDB used another library or version, so that compressed blocks may differ.
pub(crate) fn check(
    bytes: Vec<u8>,
    known: &NewFile,
    options: &ColumnFamilyOptions,
    other_codecs: &[Compression],
    compared: &mut Compared,
    context: &str,
) {
    let table = Table::parse(bytes);
    let has_dictionary = table.meta.iter().any(|(name, _)| name == meta::COMPRESSION_DICTIONARY);
    if check_column_family(options, &DbOptions::default()).is_err()
        || options.table_factory.format_version < 5
        || table.data.is_empty() && table.properties.num_range_deletions == 0
        || has_dictionary
        || table.properties.separate_key_value_in_data_block
        || table.properties.external_version.is_some()
    {
        compared.left_out += 1;
        return;
    }
    let (finished, again) = table.build_again(options);
    assert_eq!(finished.size as usize, again.bytes.len(), "{context}");
    assert_eq!(finished.properties, again.properties, "{context}");
    let same = table.compressible().eq(again.compressible());
    if same {
        compared.same += 1;
        if !options.table_factory.optimize_filters_for_memory || table.properties.filter_size == 0 {
            check_same(&table, &again, context);
        }
    } else {
        compared.compressed_otherwise += 1;
        // The stored blocks of the two tables may differ only because of a codec in `other_codecs`.
        // One of the tables must use such a codec. The other table may have stored the block
        // uncompressed, because the block did not compress well enough.
        let mut kinds = table.compressible().chain(again.compressible()).map(|(kind, _)| kind);
        assert!(kinds.any(|kind| other_codecs.contains(&kind)), "{context}: other blocks");
    }
    let blocks = |table: &Table| -> Vec<Vec<u8>> {
        table.data.iter().map(|(_, kind, bytes)| decompressed(*kind, bytes)).collect()
    };
    assert!(blocks(&table) == blocks(&again), "{context}: other data blocks, uncompressed");
    let filter = MetaBlock::FullFilter(COMPATIBILITY_NAME).name();
    for name in [meta::RANGE_DELETIONS, &filter] {
        let (before, after) = (table.meta_block(name), again.meta_block(name));
        let may_differ = name == filter && options.table_factory.optimize_filters_for_memory;
        assert_eq!(before.is_some(), after.is_some(), "{context}: {name}");
        assert!(before == after || may_differ, "{context}: another {name}");
    }
    check_reported(&table, &finished, known, same, context);
    let before = comparable(&table.properties, same, options);
    assert_eq!(comparable(&again.properties, same, options), before, "{context}");
}

/// Checks that two tables have the same blocks at the same locations, the same footer and the same
/// length. Ignores the random base context of the checksums.
fn check_same(table: &Table, again: &Table, context: &str) {
    assert_eq!(again.meta, table.meta, "{context}: other places");
    for (name, handle) in &table.meta {
        assert_eq!(again.stored(*handle), table.stored(*handle), "{context}: another {name}");
    }
    assert_eq!(again.bytes.len(), table.bytes.len(), "{context}: another length");
    let chance = |table: &Table| Footer { base_context: 0, ..table.footer };
    assert_eq!(chance(again), chance(table), "{context}: another footer");
    if table.footer.format_version < 6 {
        assert!(again.bytes == table.bytes, "{context}: other bytes");
    }
}

/// Returns the properties of a table, with zero in place of those in which a rebuilt table may
/// differ from the original. The size of a filter may differ if it is fitted to an allocator. The
/// properties that depend on compression may differ unless the two tables have the `same` stored
/// blocks.
fn comparable(properties: &Properties, same: bool, options: &ColumnFamilyOptions) -> Properties {
    let mut properties = properties.clone();
    if options.table_factory.optimize_filters_for_memory {
        properties.filter_size = 0;
    }
    if !same {
        properties.data_size = 0;
        properties.index_size = 0;
        properties.tail_start_offset = 0;
        properties.num_data_blocks_compression_rejected = 0;
    }
    properties
}

/// Checks that the table builder reports the same about the rebuilt table as RocksDB recorded in
/// its MANIFEST.
fn check_reported(
    table: &Table,
    finished: &FinishedTable,
    known: &NewFile,
    same: bool,
    context: &str,
) {
    let reported = finished.new_file(known.level);
    let mut known = NewFile {
        path_id: reported.path_id,
        epoch_number: reported.epoch_number,
        compensated_range_deletion_size: reported.compensated_range_deletion_size,
        ..known.clone()
    };
    if !same || table.properties.filter_size != finished.properties.filter_size {
        (known.size, known.tail_size) = (reported.size, reported.tail_size);
    }
    if known.level > 0 && table.properties.num_range_deletions > 0 {
        // The bounds of this table depend on where a compaction truncated its range deletions. The
        // entries of the table do not show that.
        (known.smallest, known.largest) = (reported.smallest.clone(), reported.largest.clone());
    }
    assert_eq!(reported, known, "{context}");
}

impl Table {
    fn parse(bytes: Vec<u8>) -> Self {
        let footer = Footer::decode(&bytes, 0).expect("a footer");
        let mut table = Self {
            footer,
            meta: Vec::new(),
            properties: Properties::default(),
            data: Vec::new(),
            bytes,
        };
        for (name, value) in entries(&table.plain(footer.metaindex)) {
            let handle = BlockHandle::decode(&mut Reader::new(&value)).expect("a handle");
            table.meta.push((String::from_utf8(name).expect("a name"), handle));
        }
        table.meta.extend(footer.index.map(|index| (meta::INDEX.to_owned(), index)));
        let properties = table.meta_block(meta::PROPERTIES).expect("properties");
        table.properties = Properties::from_entries(entries(&properties)).expect("properties");
        table.data = table.data_blocks();
        table
    }

    /// Returns the compression and the stored bytes of a block, after verifying its checksum.
    fn stored(&self, handle: BlockHandle) -> (Compression, Vec<u8>) {
        let end = handle.end() as usize;
        let (block, kind) = self
            .footer
            .block_checksum()
            .verify(handle.offset, &self.bytes[handle.offset as usize..end])
            .expect("a checksum that holds");
        (Compression::from_byte(kind).expect("a compression"), block.to_vec())
    }

    /// Returns the data blocks and the index as stored. Other blocks are never compressed.
    fn compressible(&self) -> impl Iterator<Item = (Compression, Vec<u8>)> {
        let index = self.meta.iter().filter(|(name, _)| name == meta::INDEX);
        let data = self.data.iter().map(|(_, kind, bytes)| (*kind, bytes.clone()));
        data.chain(index.map(|(_, handle)| self.stored(*handle)))
    }

    fn plain(&self, handle: BlockHandle) -> Vec<u8> {
        let (kind, bytes) = self.stored(handle);
        decompressed(kind, &bytes)
    }

    fn meta_block(&self, name: &str) -> Option<Vec<u8>> {
        let (_, handle) = self.meta.iter().find(|(known, _)| known == name)?;
        Some(self.plain(*handle))
    }

    fn data_blocks(&self) -> Vec<(BlockHandle, Compression, Vec<u8>)> {
        let index = self.meta_block(meta::INDEX).expect("an index");
        let layout = Layout::parse(&index).expect("an index block");
        let format = IndexFormat {
            delta_values: self.properties.index_value_is_delta_encoded,
            first_keys: false,
        };
        if self.properties.index_type != Some(tailwater_format::table::IndexType::BinarySearch) {
            return Vec::new();
        }
        let mut cursor = IndexCursor::default();
        let mut blocks = Vec::new();
        cursor.seek_to_first(&index, &layout, format).expect("an index block");
        while cursor.valid() {
            let (kind, bytes) = self.stored(cursor.handle());
            blocks.push((cursor.handle(), kind, bytes));
            cursor.next(&index, &layout, format).expect("an index block");
        }
        blocks
    }

    /// Builds a table from the entries of this one. The compression and the origin are those that
    /// the properties of this table record.
    fn build_again(&self, options: &ColumnFamilyOptions) -> (FinishedTable, Self) {
        let storage = SimStorage::new(1);
        let path = Path::new("/rebuilt.sst");
        let compression = compression(&self.properties);
        let operator = String::from_utf8_lossy(&self.properties.merge_operator_name);
        let operator = Some(operator.as_ref()).filter(|name| *name != "nullptr");
        let format = database::format(options, operator);
        let mut builder = Builder::new(
            format,
            &compression,
            origin(&self.properties),
            path,
            database::writer(&storage, path),
        )
        .unwrap_or_else(|error| panic!("{error}"));
        for (_, kind, block) in &self.data {
            for (key, value) in entries(&decompressed(*kind, block)) {
                builder.add(&key, &value).unwrap_or_else(|error| panic!("{error}"));
            }
        }
        let tombstones = self.meta_block(meta::RANGE_DELETIONS);
        let tombstones = tombstones.map_or_else(Vec::new, |block| entries(&block));
        // Adds the range deletions in reverse order, since any order must be accepted.
        for (start, end) in tombstones.into_iter().rev() {
            builder.add_range_tombstone(&start, &end).unwrap_or_else(|error| panic!("{error}"));
        }
        let (finished, writer) = builder.finish().unwrap_or_else(|error| panic!("{error}"));
        writer.close().unwrap_or_else(|error| panic!("{error}"));
        let file = storage.open(path, IoMode::Buffered, Purpose::Verification).expect("a file");
        let mut bytes = vec![0; file.length().expect("a length") as usize];
        file.read_full_at(&mut bytes, 0, Purpose::Verification).expect("its bytes");
        (finished, Self::parse(bytes))
    }
}

/// Returns the origin of a table (such as the database ID and the file number), as recorded in its
/// properties.
fn origin(properties: &Properties) -> Origin {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let id = properties.column_family_id;
    Origin {
        file_number: properties.original_file_number,
        db_id: text(&properties.db_id),
        session_id: text(&properties.db_session_id),
        host_id: text(&properties.db_host_id),
        column_family_id: (id != UNKNOWN_COLUMN_FAMILY_ID).then_some(id as u32),
        column_family_name: text(&properties.column_family_name),
        oldest_ancestor_time_s: properties.creation_time,
        creation_time_s: properties.file_creation_time,
        oldest_key_time_s: properties.oldest_key_time,
        newest_key_time_s: properties.newest_key_time,
        external: false,
    }
}

/// Returns the compression of a table, as recorded in its properties.
fn compression(properties: &Properties) -> TableCompression {
    let text = String::from_utf8_lossy(&properties.compression_options);
    let value = |name: &str| {
        let mut settings = text.split("; ").filter_map(|setting| setting.split_once('='));
        let (_, value) = settings.find(|(known, _)| *known == name)?;
        value.parse::<i64>().ok()
    };
    let kind = value("_type").expect("a configured compression") as u8;
    let share = value("max_compressed_bytes_per_kb").expect("a share");
    let mut options = CompressionOptions::default();
    options.level = value("level").expect("a level") as i32;
    options.max_compressed_bytes_per_kb = share as i32;
    options.checksum = value("checksum") == Some(1);
    options.enabled = value("enabled") == Some(1);
    TableCompression { kind: Compression::from_byte(kind).expect("a compression"), options }
}

fn decompressed(kind: Compression, bytes: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    Decompressor::new()
        .decompress(kind, bytes, None, &mut output)
        .expect("a block that decompresses");
    output
}

/// Returns the keys and values of an uncompressed block.
fn entries(block: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let layout = Layout::parse(block).expect("a block");
    let (mut cursor, mut entries) = (Cursor::default(), Vec::new());
    cursor.seek_to_first(block, &layout).expect("a block");
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.value(block).to_vec()));
        cursor.next(block, &layout).expect("a block");
    }
    entries
}
