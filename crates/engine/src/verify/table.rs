//! Verification of tables: the length and checksum of a table's file, its meta blocks, its data
//! blocks, and the gaps between blocks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::block::Cursor;
use tailwater_format::checksum::crc32c_extend;
use tailwater_format::table::BlockHandle;
use tailwater_format::table::footer::FOOTER_LENGTH;
use tailwater_format::varint::Reader;
use tailwater_io::buffer::BufferPool;
use tailwater_io::stream::{ReaderOptions, SequentialReader, Workers};
use tailwater_io::{IoMode, Purpose, ReadFile};

use super::table_blocks::{BlockStream, Spans, note};
use super::table_contents::{Bounds, Contents, PROFILE};
use super::{Family, Severity, Verification};
use crate::blob::{BlobCache, OpenBlobFiles};
use crate::block_cache::{Block, BlockCache, BlockKind};
use crate::error::{Error, Result};
use crate::io_modes::IoModes;
use crate::options::DbOptions;
use crate::table::{
    AutoReadAhead, FileMetadata, MetaBlockPlacement, OpenTables, TableCache, TableContext,
    TableIdentity, TableReader,
};

/// Size of one read of a table, in bytes.
const REQUEST_BYTES: usize = 512 << 10;
/// Number of read requests in flight ahead of the data that is being verified.
const REQUESTS_AHEAD: usize = 3;
/// Size of the cache of index and filter partitions while tables are read, in bytes.
const PARTITION_CACHE: usize = 16 << 20;
/// Maximum number of open blob files while the tables of a column family are read.
const OPEN_BLOB_FILES: usize = 64;
/// Size of one read of a gap between blocks, in bytes.
const GAP_PIECE: usize = 4096;
/// Name of the supported file checksum function: the CRC32C of the whole file, big-endian.
const CRC32C_FUNCTION: &str = "FileChecksumCrc32c";

impl Verification<'_> {
    /// Reads and checks every table of a column family.
    pub(super) fn check_tables(&mut self, family: &Family) {
        let context = Arc::new(TableContext {
            comparator: family.comparator.clone(),
            prefix_extractor: self.options.prefix_extractor(&family.name),
            block_cache: Some(Arc::new(BlockCache::new(PARTITION_CACHE))),
            uses_filters: true,
            verifies_unique_ids: true,
            meta_blocks: MetaBlockPlacement::WITH_TABLE,
            auto_read_ahead: AutoReadAhead::NONE,
            advises_random: false,
            statistics: None,
            reader_memory: Arc::default(),
            handover: None,
        });
        let directories = self.options.table_directories(self.directory, &family.name);
        let storage = Arc::clone(&self.storage);
        let io_modes = Arc::new(IoModes::new(&DbOptions::default()));
        let open = Arc::new(OpenTables::default());
        let tables = TableCache::new(storage, directories, io_modes, context, open);
        let blobs = self.blob_cache(self.options.blob_directory(self.directory, &family.name));
        let mut references: BTreeMap<u64, u64> = BTreeMap::new();
        for (_, file) in family.version.files() {
            let path = tables.path(file);
            self.begin(&path);
            let checked = tables.open_uncached(file, Purpose::Verification).and_then(|table| {
                self.check_length(&path, file, table.file().length());
                let bounds = Bounds::of(file);
                self.check_table(&path, &Arc::new(table), Some(&bounds), &blobs, &mut references)?;
                self.check_file_checksum(&path, file)
            });
            if let Err(error) = checked {
                self.report.error(&path, &error);
            }
        }
        self.check_garbage(family, &references);
    }

    fn blob_cache(&self, directory: PathBuf) -> BlobCache {
        let io_modes = Arc::new(IoModes::new(&DbOptions::default()));
        let open = Arc::new(OpenBlobFiles::new(Some(OPEN_BLOB_FILES)));
        BlobCache::new(Arc::clone(&self.storage), directory, io_modes, open)
    }

    /// Reads and checks a table about which no MANIFEST gives any information.
    pub(super) fn check_lone_table(&mut self, path: &Path) {
        let context = Arc::new(TableContext {
            comparator: Comparator::default(),
            prefix_extractor: None,
            block_cache: Some(Arc::new(BlockCache::new(PARTITION_CACHE))),
            uses_filters: true,
            verifies_unique_ids: true,
            meta_blocks: MetaBlockPlacement::WITH_TABLE,
            auto_read_ahead: AutoReadAhead::NONE,
            advises_random: false,
            statistics: None,
            reader_memory: Arc::default(),
            handover: None,
        });
        let identity = TableIdentity::unknown();
        let blobs = self.blob_cache(self.directory.to_owned());
        let checked = self
            .storage
            .open(path, IoMode::Buffered, Purpose::Verification)
            .map_err(Error::from)
            .and_then(|file| TableReader::open(file, context, &identity, Purpose::Verification))
            .and_then(|table| {
                let comparator = &table.properties().comparator_name;
                if comparator != Comparator::default().name().as_bytes() {
                    let name = comparator.escape_ascii();
                    let message = format!(
                        "not verified: the table uses comparator '{name}', and there is no MANIFEST"
                    );
                    self.report.add(Severity::Note, path, None, message);
                    return Ok(());
                }
                self.check_table(path, &Arc::new(table), None, &blobs, &mut BTreeMap::new())
            });
        if let Err(error) = checked {
            self.report.error(path, &error);
        }
    }

    /// Reads and checks a table before its ingestion.
    pub(super) fn check_external_table(
        &mut self,
        path: &Path,
        table: &Arc<TableReader>,
    ) -> Result<()> {
        let blobs = self.blob_cache(self.directory.to_owned());
        self.check_table(path, table, None, &blobs, &mut BTreeMap::new())
    }

    fn check_length(&mut self, path: &Path, file: &FileMetadata, length: u64) {
        if length != file.size() {
            let known = file.size();
            self.report.damage(path, format!("it has {length} bytes, the MANIFEST says {known}"));
        }
    }

    fn check_table(
        &mut self,
        path: &Path,
        table: &Arc<TableReader>,
        bounds: Option<&Bounds<'_>>,
        blobs: &BlobCache,
        references: &mut BTreeMap<u64, u64>,
    ) -> Result<()> {
        self.report.tables += 1;
        self.report.bytes += table.file().length();
        let mut spans = Spans::new();
        self.check_meta_blocks(path, table, &mut spans)?;
        for handle in table.filter_partitions(&PROFILE)? {
            note(&mut spans, handle, "filter partition");
            if let Err(error) = table.load(handle, BlockKind::Filter, &PROFILE) {
                self.report.error(path, &error);
            }
        }
        let file = Arc::clone(table.file().handle());
        let mut stream = BlockStream { stream: self.stream(file, table.file().length())? };
        let mut contents = Contents::new(path, table, blobs, references, &mut self.report);
        let checked = contents.check(bounds, &mut stream, &mut spans);
        let entries = contents.entries();
        self.stream = Some(stream.stream);
        checked?;
        self.report.entries += entries;
        self.check_gaps(path, table, &spans)
    }

    /// Checks the footer, the metaindex, and every block that the metaindex names.
    fn check_meta_blocks(
        &mut self,
        path: &Path,
        table: &TableReader,
        spans: &mut Spans,
    ) -> Result<()> {
        let file = table.file();
        let footer = table.footer();
        let footer_at = file.length().saturating_sub(FOOTER_LENGTH as u64);
        spans.insert(footer_at, (FOOTER_LENGTH as u64, "footer"));
        note(spans, footer.metaindex, "metaindex");
        if let Some(index) = footer.index {
            note(spans, index, "index");
        }
        let bytes = file.read(footer.metaindex, None, true, Purpose::Verification)?;
        let damaged = |error| Error::decoding(path, footer.metaindex.offset, error);
        let block = Block::parse(bytes, BlockKind::Index).map_err(damaged)?;
        let mut cursor = Cursor::default();
        cursor.seek_to_first(block.bytes(), block.layout()).map_err(damaged)?;
        while cursor.valid() {
            let mut value = Reader::new(cursor.value(block.bytes()));
            let handle = BlockHandle::decode(&mut value).map_err(damaged)?;
            note(spans, handle, "meta block");
            if let Err(error) = file.read(handle, None, true, Purpose::Verification) {
                let name = cursor.key().escape_ascii();
                self.report.error(path, &error.while_doing(format!("meta block '{name}'")));
            }
            cursor.next(block.bytes(), block.layout()).map_err(damaged)?;
        }
        Ok(())
    }

    /// Checks that all bytes outside blocks are zeros, which are alignment padding, and that blocks
    /// do not overlap.
    fn check_gaps(&mut self, path: &Path, table: &TableReader, spans: &Spans) -> Result<()> {
        let mut end = 0;
        for (&offset, &(length, what)) in spans {
            if offset < end {
                let message = format!("the {what} here begins inside the block before");
                self.report.damage_at(path, offset, message);
            }
            // A block that extends past the end of the file was reported when it was read.
            self.check_zeros(path, table, end..offset.min(table.file().length()))?;
            end = end.max(offset + length);
        }
        Ok(())
    }

    fn check_zeros(&mut self, path: &Path, table: &TableReader, gap: Range<u64>) -> Result<()> {
        let file = table.file().handle();
        let mut piece = [0; GAP_PIECE];
        let mut at = gap.start;
        while at < gap.end {
            let wanted = (gap.end - at).min(GAP_PIECE as u64) as usize;
            let count = file.read_full_at(&mut piece[..wanted], at, Purpose::Verification)?;
            if let Some(place) = piece[..count].iter().position(|&byte| byte != 0) {
                let message = "a byte between blocks that is not zero";
                self.report.damage_at(path, at + place as u64, message);
                return Ok(());
            }
            // The read returns fewer than `wanted` bytes only if the file was truncated during
            // verification.
            at += wanted as u64;
        }
        Ok(())
    }

    /// Checks the checksum of the whole file, if the MANIFEST records one and the function that
    /// computed it is supported.
    fn check_file_checksum(&mut self, path: &Path, file: &FileMetadata) -> Result<()> {
        let Some(known) = &file.added().checksum else { return Ok(()) };
        if known.function != CRC32C_FUNCTION {
            return Ok(());
        }
        let opened = self.storage.open(path, IoMode::Buffered, Purpose::Verification)?;
        let length = opened.length()?;
        let mut stream = self.stream(opened, length)?;
        let crc = checksum_of(&mut stream, length);
        self.stream = Some(stream);
        let crc = crc?;
        if known.value != crc.to_be_bytes() {
            let stored = known.value.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let message = format!("file checksum mismatch: stored {stored}, computed {crc:08x}");
            self.report.damage(path, message);
        }
        Ok(())
    }

    /// Returns a stream over a file. All files share one stream, since its threads and buffers cost
    /// more than reading a small table. The caller puts the stream back into `self.stream`
    /// afterwards.
    fn stream(&mut self, file: Arc<dyn ReadFile>, length: u64) -> Result<SequentialReader> {
        if let Some(mut stream) = self.stream.take() {
            stream.restart(file, 0..length)?;
            return Ok(stream);
        }
        let options = ReaderOptions {
            request_bytes: REQUEST_BYTES,
            depth: REQUESTS_AHEAD,
            first: REQUESTS_AHEAD,
            purpose: Purpose::Verification,
        };
        let pool = BufferPool::new((REQUESTS_AHEAD + 1) * REQUEST_BYTES);
        let workers = Workers::new("verify", REQUESTS_AHEAD).map_err(Error::no_thread)?;
        Ok(SequentialReader::new(file, 0..length, options, &pool, Some(&Arc::new(workers)))?)
    }

    /// Checks that the referenced blobs and the garbage blobs of a file together do not exceed its
    /// number of blobs.
    fn check_garbage(&mut self, family: &Family, references: &BTreeMap<u64, u64>) {
        for (number, known) in family.version.blob_files() {
            let used = references.get(number).copied().unwrap_or(0);
            let (total, garbage) = (known.added.blob_count, known.garbage_count);
            if used.saturating_add(garbage) > total {
                let message = format!(
                    "blob file {number} of column family '{}' has {total} blobs, but {used} are \
                     referred to and {garbage} are garbage",
                    family.name
                );
                self.report.damage(self.directory, message);
            }
        }
    }
}

/// Returns the CRC32C of the `length` bytes of a file.
fn checksum_of(stream: &mut SequentialReader, length: u64) -> Result<u32> {
    let (mut crc, mut at) = (0, 0);
    while at < length {
        let bytes = stream.read(at, REQUEST_BYTES)?;
        crc = crc32c_extend(crc, bytes);
        at += bytes.len() as u64;
    }
    Ok(crc)
}
