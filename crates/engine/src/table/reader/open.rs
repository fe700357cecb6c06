//! Opening a table: from a file to a [`TableReader`].

use std::sync::Arc;

use tailwater_format::block::IndexFormat;
use tailwater_format::compress::DecompressionDictionary;
use tailwater_format::filter::COMPATIBILITY_NAME;
use tailwater_format::key::{self, Sequence};
use tailwater_format::table::footer::FOOTER_LENGTH;
use tailwater_format::table::meta::MetaBlock as MetaName;
use tailwater_format::table::{
    BLOCK_TRAILER_LENGTH, BlockHandle, Footer, IndexType, Properties, UniqueId,
};
use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::{Purpose, ReadFile};

use crate::block_cache::{Block, BlockKind};
use crate::cache::{Cached, OutsideCharge};
use crate::error::{Error, ErrorKind, Result};
use crate::memory_counters::{Consumer, Counted};
use crate::prefix_extractor::PrefixExtractor;
use crate::range_tombstone::{FragmentedRangeTombstones, RangeTombstone};
use crate::table::reader::index::prepare_index;
use crate::table::reader::{
    BlockFile, Filter, FilterKind, Index, Kept, MetaBlock, MetaBlockPlacement, TableContext,
    TableReader,
};

/// Size of the first read at a file's end, in bytes, if the MANIFEST does not record the length of
/// the table's tail.
const DEFAULT_TAIL_LENGTH: u64 = 64 << 10;

/// Facts about a table from the MANIFEST that its reader needs. By default, all are unknown.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TableIdentity {
    /// Identifies the table's file. The block-cache key of each of the table's blocks begins with
    /// this id.
    pub(crate) cache_id: u64,
    /// The largest sequence number in the table; `None` if unknown.
    pub(crate) largest_sequence: Option<Sequence>,
    /// The table's expected unique id; `None` if it is not checked.
    pub(crate) unique_id: Option<[u64; 2]>,
    /// The length of everything after the data blocks, in bytes; 0 if unknown.
    pub(crate) tail_length: u64,
    /// The table's level; `None` outside a database.
    pub(crate) level: Option<u32>,
    /// When the table was added, in nanoseconds of the system's monotonic clock; `None` if that was
    /// before the database was opened.
    pub(crate) added_ns: Option<u64>,
}

/// The end of a file, read in one request. It contains all parts of a table that opening needs.
struct Tail {
    bytes: Vec<u8>,
    start: u64,
}

/// The locations of the blocks that a metaindex names.
#[derive(Default)]
struct MetaIndex {
    properties: Option<BlockHandle>,
    index: Option<BlockHandle>,
    range_deletions: Option<BlockHandle>,
    dictionary: Option<BlockHandle>,
    full_filter: Option<BlockHandle>,
    partitioned_filter: Option<BlockHandle>,
}

/// The state of opening a table.
struct Opening<'a> {
    file: &'a BlockFile,
    tail: Tail,
    purpose: Purpose,
    level_0: bool,
}

impl TableReader {
    /// Opens a table.
    ///
    /// # Errors
    /// Corruption, if a part is damaged or contradicts `identity`; not supported, for tables that
    /// use an unsupported feature.
    pub(crate) fn open(
        file: Arc<dyn ReadFile>,
        context: Arc<TableContext>,
        identity: &TableIdentity,
        purpose: Purpose,
    ) -> Result<Self> {
        let length = file.length()?;
        let tail = Tail::read(&*file, length, identity.tail_length, purpose)?;
        let footer = tail.footer(&*file)?;
        let file = BlockFile::new(file, length, footer.block_checksum());
        let opening = Opening { file: &file, tail, purpose, level_0: identity.level == Some(0) };

        let names = opening.meta_index(footer.metaindex)?;
        let properties = opening.properties(&names)?;
        properties
            .check_supported()
            .map_err(|error| Error::decoding(file.path(), 0, error).in_file(file.path()))?;
        check_compressions(&file, &properties, footer.format_version)?;
        if context.verifies_unique_ids {
            check_unique_id(&file, &properties, identity.unique_id)?;
        }
        let global_sequence = global_sequence(&file, &properties, identity.largest_sequence)?;
        let range_tombstones = opening.range_tombstones(&names, &context, global_sequence)?;
        let dictionary = opening.dictionary(&names)?;
        let index = opening.index(&names, &footer, &properties, &context)?;
        let filter = opening.filter(&names, &properties, &context)?;
        let mut table = Self {
            context,
            cache_id: identity.cache_id,
            level: identity.level.unwrap_or(0),
            added_ns: identity.added_ns,
            file,
            footer,
            properties,
            index,
            filter,
            dictionary,
            range_deletions: names.range_deletions,
            range_tombstones: Arc::new(range_tombstones),
            global_sequence,
            charge: None,
            counted: Counted::new(Consumer::Tables, 0),
            permit: None,
            hot_regions: None,
        };
        table.counted = Counted::new(Consumer::Tables, table.memory());
        table.charge = table.charge_memory(purpose)?;
        Ok(table)
    }

    /// Charges the memory of the table to the block cache, if the options say so.
    ///
    /// # Errors
    /// Memory limit, if a cache with a strict capacity limit has no room for the table. A
    /// compaction's reader is not charged then: compactions never fail for lack of room.
    fn charge_memory(&self, purpose: Purpose) -> Result<Option<OutsideCharge>> {
        let Some(cache) = &self.context.charges.readers else { return Ok(None) };
        if purpose == Purpose::CompactionRead {
            return Ok(cache.blocks.charge_without_lock(self.memory()));
        }
        // The message is RocksDB's.
        let message = "Can't allocate BlockBasedTableReader due to memory limit based on cache \
                       capacity for memory allocation";
        let charge = cache.blocks.charge_or_wait(self.memory());
        charge.map(Some).ok_or_else(|| Error::new(ErrorKind::MemoryLimit, message))
    }

    /// Calls `entry` with the internal start key and the end key of every range tombstone, as
    /// stored in the file.
    pub(crate) fn for_each_range_tombstone(
        &self,
        mut entry: impl FnMut(&[u8], &[u8]) -> tailwater_format::Result<()>,
    ) -> Result<()> {
        let Some(handle) = self.range_deletions else { return Ok(()) };
        let bytes = self.file.read(handle, None, true, Purpose::Verification)?;
        let damaged = |error| self.damaged(handle, error);
        let block = Block::parse(bytes, BlockKind::Index).map_err(damaged)?;
        block.walk(damaged, |cursor| {
            entry(cursor.key(), cursor.value(block.bytes())).map_err(damaged)
        })
    }
}

impl Tail {
    fn read(file: &dyn ReadFile, length: u64, tail_length: u64, purpose: Purpose) -> Result<Self> {
        let wanted = match tail_length {
            0 => DEFAULT_TAIL_LENGTH,
            known => known.saturating_add(FOOTER_LENGTH as u64),
        };
        let start = length.saturating_sub(wanted);
        let length = (length - start) as usize;
        let mut buffer = AlignedBuffer::with_capacity(length);
        let bytes = file.read_span(&mut buffer, start, length, purpose)?.to_vec();
        Ok(Self { bytes, start })
    }

    fn footer(&self, file: &dyn ReadFile) -> Result<Footer> {
        let end = self.start + self.bytes.len() as u64;
        let footer_start = end.saturating_sub(FOOTER_LENGTH as u64);
        Footer::decode(&self.bytes, self.start)
            .map_err(|error| Error::decoding(file.path(), footer_start, error))
    }

    /// Returns a block and its trailer, if both lie completely in the last part of the file, which
    /// this object holds.
    fn block(&self, handle: BlockHandle) -> Option<&[u8]> {
        let start = usize::try_from(handle.offset.checked_sub(self.start)?).ok()?;
        let length = usize::try_from(handle.size).ok()?.checked_add(BLOCK_TRAILER_LENGTH)?;
        self.bytes.get(start..start.checked_add(length)?)
    }
}

impl Opening<'_> {
    fn read(&self, handle: BlockHandle) -> Result<Vec<u8>> {
        self.file.length_with_trailer(handle)?;
        match self.tail.block(handle) {
            Some(raw) => self.file.unpack_block(raw, handle, None, true),
            None => self.file.read(handle, None, true, self.purpose),
        }
    }

    fn parse(&self, handle: BlockHandle, kind: BlockKind) -> Result<Block> {
        Block::parse(self.read(handle)?, kind)
            .map_err(|error| Error::decoding(self.file.path(), handle.offset, error))
    }

    /// Calls `entry` with every key and value of a meta block.
    fn for_each_entry(
        &self,
        handle: BlockHandle,
        mut entry: impl FnMut(&[u8], &[u8]) -> tailwater_format::Result<()>,
    ) -> Result<()> {
        let block = self.parse(handle, BlockKind::Index)?;
        let damaged = |error| Error::decoding(self.file.path(), handle.offset, error);
        block.walk(damaged, |cursor| {
            entry(cursor.key(), cursor.value(block.bytes())).map_err(damaged)
        })
    }

    fn meta_index(&self, handle: BlockHandle) -> Result<MetaIndex> {
        let mut names = MetaIndex::default();
        self.for_each_entry(handle, |name, value| {
            let handle = BlockHandle::decode(&mut tailwater_format::varint::Reader::new(value))?;
            match MetaName::from_name(name) {
                Some(MetaName::Properties) => names.properties = Some(handle),
                Some(MetaName::Index) => names.index = Some(handle),
                Some(MetaName::RangeDeletions) => names.range_deletions = Some(handle),
                Some(MetaName::CompressionDictionary) => names.dictionary = Some(handle),
                Some(MetaName::FullFilter(COMPATIBILITY_NAME)) => names.full_filter = Some(handle),
                Some(MetaName::PartitionedFilter(COMPATIBILITY_NAME)) => {
                    names.partitioned_filter = Some(handle);
                }
                // Other meta blocks are never needed for a correct result: hash indexes,
                // user-defined indexes, filters of unknown policies and obsolete blocks.
                _ => {}
            }
            Ok(())
        })?;
        Ok(names)
    }

    fn properties(&self, names: &MetaIndex) -> Result<Properties> {
        let handle = names
            .properties
            .ok_or_else(|| Error::corruption(self.file.path(), "the table has no properties"))?;
        let mut entries = Vec::new();
        self.for_each_entry(handle, |name, value| {
            entries.push((name.to_vec(), value.to_vec()));
            Ok(())
        })?;
        Properties::from_entries(entries.iter().map(|(name, value)| (&name[..], &value[..])))
            .map_err(|error| Error::decoding(self.file.path(), handle.offset, error))
    }

    fn range_tombstones(
        &self,
        names: &MetaIndex,
        context: &TableContext,
        global_sequence: Option<Sequence>,
    ) -> Result<FragmentedRangeTombstones> {
        let mut entries = Vec::new();
        if let Some(handle) = names.range_deletions {
            self.for_each_entry(handle, |start, end| {
                RangeTombstone::from_entry(start, end)?;
                entries.push((start.to_vec(), end.to_vec()));
                Ok(())
            })?;
        }
        let tombstones = entries.iter().filter_map(|(start, end)| {
            let tombstone = RangeTombstone::from_entry(start, end).ok()?;
            let sequence = global_sequence.unwrap_or(tombstone.sequence);
            Some(RangeTombstone { sequence, ..tombstone })
        });
        Ok(FragmentedRangeTombstones::build(&context.comparator, tombstones))
    }

    fn dictionary(&self, names: &MetaIndex) -> Result<Option<DecompressionDictionary>> {
        let Some(handle) = names.dictionary else { return Ok(None) };
        let dictionary = DecompressionDictionary::new(self.read(handle)?)
            .map_err(|error| Error::decoding(self.file.path(), handle.offset, error))?;
        Ok(Some(dictionary))
    }

    fn index(
        &self,
        names: &MetaIndex,
        footer: &Footer,
        properties: &Properties,
        context: &TableContext,
    ) -> Result<Index> {
        let handle = names
            .index
            .or(footer.index)
            .ok_or_else(|| Error::corruption(self.file.path(), "the table has no index"))?;
        let index_type = properties.index_type;
        let partitioned = index_type == Some(IndexType::TwoLevelIndexSearch);
        let format = IndexFormat {
            delta_values: properties.index_value_is_delta_encoded,
            first_keys: index_type == Some(IndexType::BinarySearchWithFirstKey),
        };
        let user_keys = properties.index_key_is_user_key;
        let root =
            self.kept_or_cached(handle, BlockKind::Index, partitioned, context, |block| {
                prepare_index(block, &context.comparator, format, user_keys)
            })?;
        Ok(Index { root, format, user_keys, partitioned })
    }

    fn filter(
        &self,
        names: &MetaIndex,
        properties: &Properties,
        context: &TableContext,
    ) -> Result<Filter> {
        let kind = match (names.full_filter, names.partitioned_filter) {
            _ if !context.uses_filters || context.comparator.equates_different_bytes() => {
                FilterKind::None
            }
            (_, Some(handle)) => FilterKind::Partitioned(self.kept_or_cached(
                handle,
                BlockKind::Index,
                true,
                context,
                Ok,
            )?),
            (Some(handle), None) => {
                let kind = BlockKind::Filter;
                FilterKind::Full(self.kept_or_cached(handle, kind, false, context, Ok)?)
            }
            (None, None) => FilterKind::None,
        };
        let prefixes = if properties.prefix_filtering {
            prefix_extractor(&properties.prefix_extractor_name, context)
        } else {
            None
        };
        Ok(Filter { kind, whole_keys: properties.whole_key_filtering, prefixes })
    }

    fn kept_or_cached(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        is_root: bool,
        context: &TableContext,
        prepare: impl FnOnce(Block) -> tailwater_format::Result<Block>,
    ) -> Result<MetaBlock> {
        let MetaBlockPlacement { roots, whole, .. } = context.meta_blocks;
        let kept = match if is_root { roots } else { whole } {
            Kept::Never => false,
            Kept::InLevel0 => self.level_0,
            Kept::Always => true,
        };
        if !kept && context.block_cache.is_some() {
            self.file.length_with_trailer(handle)?;
            return Ok(MetaBlock { handle, kept: None });
        }
        let block = prepare(self.parse(handle, kind)?)
            .map_err(|error| Error::decoding(self.file.path(), handle.offset, error))?;
        Ok(MetaBlock { handle, kept: Some(Arc::new(Cached::standalone(block))) })
    }
}

/// Returns the extractor of the prefixes in a table's filter. The table records the extractor's
/// name. If the column family's extractor has this name, it is returned, otherwise the built-in
/// extractor with this name, if there is one. Without an extractor, lookups do not use the filter's
/// prefixes.
fn prefix_extractor(name: &[u8], context: &TableContext) -> Option<PrefixExtractor> {
    let name = str::from_utf8(name).ok()?;
    match &context.prefix_extractor {
        Some(extractor) if extractor.name() == name => Some(extractor.clone()),
        _ => PrefixExtractor::built_in(name),
    }
}

/// Refuses a table whose properties name a user-defined compression manager. If the property is
/// invalid in another way, it is ignored, since each block records its own compression.
fn check_compressions(
    file: &BlockFile,
    properties: &Properties,
    format_version: u32,
) -> Result<()> {
    match properties.compressions(format_version) {
        Err(error @ tailwater_format::Error::Unsupported { .. }) => {
            Err(Error::decoding(file.path(), 0, error).in_file(file.path()))
        }
        _ => Ok(()),
    }
}

fn check_unique_id(
    file: &BlockFile,
    properties: &Properties,
    expected: Option<[u64; 2]>,
) -> Result<()> {
    let Some(expected) = expected else { return Ok(()) };
    let Properties { db_id, db_session_id, original_file_number, .. } = properties;
    let found = UniqueId::forced(db_id, db_session_id, *original_file_number).words();
    if found == expected {
        return Ok(());
    }
    let [a, b, c, d] = [expected[0], expected[1], found[0], found[1]];
    let message = format!(
        "unique id mismatch: the MANIFEST has {a:016x}{b:016x}, the table {c:016x}{d:016x}"
    );
    Err(Error::corruption(file.path(), message))
}

/// Returns the global sequence number of an ingested table; `None` for other tables. The properties
/// of an ingested table mark it as external, and its records store sequence number 0.
fn global_sequence(
    file: &BlockFile,
    properties: &Properties,
    largest: Option<Sequence>,
) -> Result<Option<Sequence>> {
    let damaged = |message: String| Err(Error::corruption(file.path(), message));
    let stored = properties.external_global_sequence;
    match properties.external_version {
        None | Some(1) => match stored {
            None => Ok(None),
            Some(sequence) => {
                damaged(format!("global sequence number {sequence} in a table that has none"))
            }
        },
        Some(2) => match (stored.unwrap_or(0), largest) {
            (0, Some(largest)) => Ok(Some(largest)),
            (stored, Some(largest)) if stored != largest => damaged(format!(
                "global sequence number mismatch: the MANIFEST has {largest}, the table {stored}"
            )),
            (stored, _) if stored > key::MAX_SEQUENCE => {
                damaged(format!("global sequence number {stored} is above the highest"))
            }
            (stored, _) => Ok(Some(stored)),
        },
        Some(version) => damaged(format!("unknown version {version} of an external table")),
    }
}
