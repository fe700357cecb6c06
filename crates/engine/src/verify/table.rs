//! Verification of tables: the length and checksum of each table's file, and everything in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::checksum::crc32c_extend;
use tailwater_format::version_edit::NewFile;
use tailwater_io::buffer::BufferPool;
use tailwater_io::stream::{ReaderOptions, SequentialReader, Workers};
use tailwater_io::{IoMode, Purpose, ReadFile};

use super::table_blocks::TableCheck;
use super::table_contents::Contents;
use super::{Family, Severity, Verification};
use crate::blob::{BlobCache, OpenBlobFiles};
use crate::error::{Error, Result};
use crate::io_modes::IoModes;
use crate::options::DbOptions;
use crate::table::{
    FileMetadata, OpenTables, TableCache, TableContext, TableIdentity, TableReader,
};

/// Size of one read of a table, in bytes.
const REQUEST_BYTES: usize = 512 << 10;
/// Number of read requests in flight ahead of the data that is being verified.
const REQUESTS_AHEAD: usize = 3;
/// Maximum number of open blob files while the tables of a column family are read.
const OPEN_BLOB_FILES: usize = 64;
/// Name of the supported file checksum function: the CRC32C of the whole file, big-endian.
const CRC32C_FUNCTION: &str = "FileChecksumCrc32c";

impl Verification<'_> {
    /// Reads and checks every table of a column family.
    pub(super) fn check_tables(&mut self, family: &Family) {
        let extractor = self.options.prefix_extractor(&family.name);
        let context = TableContext::standalone(family.comparator.clone(), extractor);
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
            if let Err(error) = self.check_file(&tables, file, &blobs, &mut references) {
                self.report.error(&path, &error);
            }
        }
        self.check_garbage(family, &references);
    }

    /// Reads and checks a table that the MANIFEST lists.
    pub(super) fn check_file(
        &mut self,
        tables: &TableCache,
        file: &FileMetadata,
        blobs: &BlobCache,
        references: &mut BTreeMap<u64, u64>,
    ) -> Result<()> {
        let path = tables.path(file);
        let table = tables.open_uncached(file, Purpose::Verification)?;
        let (length, known) = (table.file().length(), file.size());
        if length != known {
            let message = format!("it has {length} bytes, the MANIFEST says {known}");
            self.report.damage(&path, message);
        }
        self.check_table(&path, &table, Some(file.added()), blobs, references)?;
        self.check_file_checksum(&path, file)
    }

    fn blob_cache(&self, directory: PathBuf) -> BlobCache {
        let io_modes = Arc::new(IoModes::new(&DbOptions::default()));
        let open = Arc::new(OpenBlobFiles::new(Some(OPEN_BLOB_FILES)));
        BlobCache::new(Arc::clone(&self.storage), directory, io_modes, open)
    }

    /// Opens, reads and checks a table about which no MANIFEST gives any information.
    pub(super) fn check_lone_table(&mut self, path: &Path) {
        let context = TableContext::standalone(Comparator::default(), None);
        let identity = TableIdentity::default();
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
                self.check_unlisted_table(path, &table)
            });
        if let Err(error) = checked {
            self.report.error(path, &error);
        }
    }

    /// Reads and checks a table that no MANIFEST lists.
    pub(super) fn check_unlisted_table(&mut self, path: &Path, table: &TableReader) -> Result<()> {
        let blobs = self.blob_cache(self.directory.to_owned());
        self.check_table(path, table, None, &blobs, &mut BTreeMap::new())
    }

    fn check_table(
        &mut self,
        path: &Path,
        table: &TableReader,
        listed: Option<&NewFile>,
        blobs: &BlobCache,
        references: &mut BTreeMap<u64, u64>,
    ) -> Result<()> {
        self.report.tables += 1;
        self.report.bytes += table.file().length();
        let stream = self.stream(Arc::clone(table.file().handle()), table.file().length())?;
        let (report, spans) = (&mut self.report, BTreeMap::new());
        let contents = Contents::default();
        let mut check =
            TableCheck { path, table, listed, blobs, references, report, stream, spans, contents };
        let checked = check.run();
        self.stream = Some(check.stream);
        checked
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
