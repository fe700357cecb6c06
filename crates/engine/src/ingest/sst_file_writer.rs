//! Writing of tables outside a database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::key::{ValueType, pack_trailer, put_internal_key};
use tailwater_format::limits::{self, TooLong};
use tailwater_format::table::unique_id::encode_session_id;
use tailwater_io::buffer::BufferPool;
use tailwater_io::pace::Priority;
use tailwater_io::{FileIdentity, Purpose, Storage};

use crate::column_family::ColumnFamily;
use crate::directory::{host_id, sync_parent};
use crate::error::{Error, ErrorKind, Result};
use crate::incomplete_file::IncompleteFile;
use crate::io_modes::IoModes;
use crate::open_options::OpenOptions;
use crate::options::{DbOptions, check_column_family};
use crate::table::builder::{Builder, Format, Origin, TableCompression};
use crate::table::{NewFiles, table_buffers};

/// The database id recorded in tables written outside a database, the same as in RocksDB.
const DATABASE_ID: &str = "SST Writer";

/// Writes tables outside a database, one after another, for ingestion with
/// [`Db::ingest_external_file`] or into RocksDB. It is the counterpart of RocksDB's
/// `SstFileWriter`.
///
/// A table is started by [`SstFileWriter::open`] and completed by [`SstFileWriter::finish`]. Keys
/// are added in the column family's order, each once; range deletions may be added at any time, and
/// hide no key of the table itself. A writer is used by one thread at a time.
///
/// [`Db::ingest_external_file`]: crate::Db::ingest_external_file
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use tailwater::{Db, OpenOptions, SstFileWriter};
///
/// let db = Db::open_default(directory.join("db"))?;
/// let file = directory.join("bulk.sst");
/// let mut writer = SstFileWriter::new(&OpenOptions::default(), "default")?;
/// writer.open(&file)?;
/// for number in 0..1000_u32 {
///     // Keys are added in their order.
///     writer.put(number.to_be_bytes(), "value")?;
/// }
/// let info = writer.finish()?;
/// assert_eq!(info.num_entries, 1000);
///
/// db.ingest_external_file(&[file])?;
/// assert!(db.get(7_u32.to_be_bytes())?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SstFileWriter {
    storage: Arc<dyn Storage>,
    database: DbOptions,
    io_modes: IoModes,
    buffers: BufferPool,
    format: Arc<Format>,
    compression: TableCompression,
    /// The origin that tables record: the session and host ids, and a file number. Opening a table
    /// increments the file number.
    origin: Origin,
    open: Option<OpenTable>,
}

/// The table that is being written.
#[derive(Debug)]
struct OpenTable {
    builder: Builder,
    /// The identity of the file, which another writer may replace at the same path.
    identity: FileIdentity,
    info: ExternalFileInfo,
    /// Buffer for the internal key that is being added.
    key: Vec<u8>,
}

/// A summary of a table written outside a database. Keys are user keys, and empty if there are
/// none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExternalFileInfo {
    /// The path of the file.
    pub file_path: PathBuf,
    /// The first key, ignoring range deletions.
    pub smallest_key: Vec<u8>,
    /// The last key, ignoring range deletions.
    pub largest_key: Vec<u8>,
    /// The smallest key at which a range deletion begins, inclusive.
    pub smallest_range_del_key: Vec<u8>,
    /// The largest key at which a range deletion ends, exclusive.
    pub largest_range_del_key: Vec<u8>,
    /// Length of the file, in bytes. While the file is being written, the length of its complete
    /// blocks.
    pub file_size: u64,
    /// Number of entries, without range deletions.
    pub num_entries: u64,
    /// Number of range deletions.
    pub num_range_del_entries: u64,
    /// The format version of tables written outside a database.
    pub version: u32,
}

impl SstFileWriter {
    /// Creates a writer. Its tables have the format in which a database with `options` writes the
    /// tables of column family `family`. The format includes the order of keys, the blocks and
    /// filters, and the compression of the last level. The tables can be ingested into any column
    /// family with the same order of keys.
    ///
    /// # Errors
    /// Invalid argument, with the option's name, for contradictory or unsupported options and an
    /// unknown comparator.
    pub fn new(options: &OpenOptions, family: &str) -> Result<Self> {
        let options = options.sanitized(Path::new(""), false);
        let of_family = options.column_family(family);
        check_column_family(of_family, options.database())?;
        let format = Format::new(
            of_family,
            options.comparator(family, "")?,
            options.prefix_extractor(family),
            options.merge_operator(family).name(),
        );
        let origin = Origin {
            db_id: DATABASE_ID.to_owned(),
            session_id: encode_session_id(fastrand::u64(..), fastrand::u64(..)),
            host_id: host_id(options.database()),
            external: true,
            ..Origin::default()
        };
        Ok(Self {
            storage: Arc::clone(options.storage()),
            database: options.database().clone(),
            io_modes: IoModes::new(options.database()),
            buffers: table_buffers(options.database(), 1),
            format: Arc::new(format),
            compression: TableCompression::for_external(of_family),
            origin,
            open: None,
        })
    }

    /// Records the column family in the tables. They can then be ingested into this column family
    /// only.
    #[must_use]
    pub fn for_column_family(mut self, family: &ColumnFamily) -> Self {
        self.origin.column_family_id = Some(family.id());
        family.name().clone_into(&mut self.origin.column_family_name);
        self
    }

    /// Starts a table. An existing file or symbolic link is replaced. A database into which that
    /// file was ingested by a hard link keeps it.
    ///
    /// # Errors
    /// Invalid argument, while another table is open; not supported, for an unsupported
    /// compression, and for an I/O mode that the filesystem refuses; errors from creating the file.
    pub fn open(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.create(path.as_ref())
    }

    fn create(&mut self, path: &Path) -> Result<()> {
        if let Some(open) = &self.open {
            let message = "the previous table is not yet finished";
            return Err(Error::invalid_argument(message).in_file(&open.info.file_path));
        }
        let directory = path.parent().unwrap_or(path);
        // Warnings are ignored, since a writer has no LOG.
        self.io_modes.try_in(&*self.storage, directory, &[Purpose::Ingestion])?;
        let files = NewFiles {
            storage: &*self.storage,
            database: &self.database,
            io_modes: &self.io_modes,
            buffers: &self.buffers,
            workers: None,
            rate_limiter: None,
        };
        let (purpose, priority) = (Purpose::Ingestion, Priority::Low);
        match self.storage.remove(path) {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        let writer = files.create_cold(path, purpose, priority, 0)?;
        let incomplete = IncompleteFile::created(&*self.storage, path);
        let identity = self.storage.identity(path)?;
        self.origin.file_number += 1;
        let format = Arc::clone(&self.format);
        let origin = self.origin.clone();
        let builder = Builder::new(format, &self.compression, origin, path, writer)?;
        incomplete.complete();
        let info = ExternalFileInfo::of(path);
        self.open = Some(OpenTable { builder, identity, info, key: Vec::new() });
        Ok(())
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// - Invalid argument: no table is open, `key` is not above the previous key, or the key or
    ///   value is longer than [`Db::put_cf_opt`] accepts. The table is unchanged.
    /// - Limit reached: keys of extreme length have filled the table's index. The table is
    ///   unchanged, and can be finished; the key fits another table.
    /// - Errors from writing the file. The table then accepts nothing more.
    ///
    /// [`Db::put_cf_opt`]: crate::Db::put_cf_opt
    #[inline]
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(ValueType::Value, key.as_ref(), value.as_ref())
    }

    /// Adds a merge operand to `key`.
    ///
    /// # Errors
    /// The errors of [`SstFileWriter::put`].
    #[inline]
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.add(ValueType::Merge, key.as_ref(), operand.as_ref())
    }

    /// Deletes `key`.
    ///
    /// # Errors
    /// The errors of [`SstFileWriter::put`].
    #[inline]
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(ValueType::Deletion, key.as_ref(), &[])
    }

    /// Deletes every key from `begin` to `end`, exclusive, that the database holds when it ingests
    /// the table. Keys of the table itself are not deleted. If `begin` and `end` are equal, nothing
    /// is deleted.
    ///
    /// # Errors
    /// The errors of [`SstFileWriter::put`]; invalid argument, if `end` comes before `begin`.
    #[inline]
    pub fn delete_range(&mut self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.add_range_deletion(begin.as_ref(), end.as_ref())
    }

    fn add_range_deletion(&mut self, begin: &[u8], end: &[u8]) -> Result<()> {
        let comparator = self.format.comparator();
        let open = self.open.as_mut().ok_or_else(no_table)?;
        let checked = limits::check_key(begin.len()).and_then(|()| limits::check_key(end.len()));
        checked.map_err(|error| open.too_long(error))?;
        let order = comparator.compare(begin, end);
        if order.is_gt() {
            let message = "a range deletion ends before it begins";
            return Err(Error::invalid_argument(message).in_file(&open.info.file_path));
        }
        if order.is_eq() {
            return Ok(());
        }
        if !open.builder.has_tombstone_room(1, begin.len() + end.len()) {
            return Err(open.is_full("range deletions"));
        }
        open.set_key(begin, ValueType::RangeDeletion);
        open.builder.add_range_tombstone(&open.key, end)?;
        let info = &mut open.info;
        let is_first = info.num_range_del_entries == 0;
        if is_first || comparator.compare(begin, &info.smallest_range_del_key).is_lt() {
            info.smallest_range_del_key = begin.to_vec();
        }
        if is_first || comparator.compare(end, &info.largest_range_del_key).is_gt() {
            info.largest_range_del_key = end.to_vec();
        }
        info.num_range_del_entries += 1;
        info.file_size = open.builder.size();
        Ok(())
    }

    /// Returns the length of the open table's complete blocks, in bytes; 0 if no table is open.
    pub fn file_size(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.info.file_size)
    }

    /// Completes the table, and syncs it and its directory.
    ///
    /// # Errors
    /// Invalid argument, if no table is open, or if the table is empty; the table then stays open.
    /// Errors from writing the file, which is then removed.
    pub fn finish(&mut self) -> Result<ExternalFileInfo> {
        let open = self.open.take().ok_or_else(no_table)?;
        if open.builder.is_empty() {
            let error = Error::invalid_argument("a table without entries is not written")
                .in_file(&open.info.file_path);
            self.open = Some(open);
            return Err(error);
        }
        let OpenTable { builder, identity, mut info, .. } = open;
        let finished = builder.finish().and_then(|(table, mut writer)| {
            writer.sync()?;
            writer.close()?;
            sync_parent(&*self.storage, &info.file_path)?;
            Ok(table)
        });
        match finished {
            Ok(table) => {
                info.file_size = table.size;
                Ok(info)
            }
            Err(error) => {
                // The incomplete file is removed. The error that the caller gets is the one from
                // writing.
                remove(&*self.storage, &info.file_path, identity);
                Err(error)
            }
        }
    }

    fn add(&mut self, value_type: ValueType, key: &[u8], value: &[u8]) -> Result<()> {
        let comparator = self.format.comparator();
        let open = self.open.as_mut().ok_or_else(no_table)?;
        limits::check_entry(key.len(), value.len()).map_err(|error| open.too_long(error))?;
        let info = &open.info;
        if info.num_entries > 0 && comparator.compare(key, &info.largest_key).is_le() {
            let (shown, before) = (key.escape_ascii(), info.largest_key.escape_ascii());
            let message = format!("key '{shown}' is not above the previous key, '{before}'");
            return Err(Error::invalid_argument(message).in_file(&info.file_path));
        }
        if !open.builder.has_index_room(key.len()) {
            return Err(open.is_full("index entries"));
        }
        open.set_key(key, value_type);
        open.builder.add(&open.key, value)?;
        let info = &mut open.info;
        if info.num_entries == 0 {
            info.smallest_key = key.to_vec();
        }
        info.largest_key.clear();
        info.largest_key.extend_from_slice(key);
        info.num_entries += 1;
        info.file_size = open.builder.size();
        Ok(())
    }
}

impl Drop for SstFileWriter {
    /// Removes a table that was not finished.
    fn drop(&mut self) {
        if let Some(OpenTable { builder, identity, info, .. }) = self.open.take() {
            remove(&*self.storage, &info.file_path, identity);
            builder.abandon();
        }
    }
}

/// Removes a table that is not finished, unless its path leads to another file now.
fn remove(storage: &dyn Storage, path: &Path, identity: FileIdentity) {
    if storage.identity(path).is_ok_and(|found| found == identity) {
        // What is left of the table is harmless.
        let _ = storage.remove(path);
    }
}

impl OpenTable {
    /// Sets the internal key to be added, with sequence number 0.
    fn set_key(&mut self, user_key: &[u8], value_type: ValueType) {
        self.key.clear();
        put_internal_key(&mut self.key, user_key, pack_trailer(0, value_type as u8));
    }

    #[cold]
    fn too_long(&self, error: TooLong) -> Error {
        Error::invalid_argument(error.to_string()).in_file(&self.info.file_path)
    }

    /// Returns the error for an addition to a part of the table that is full.
    #[cold]
    fn is_full(&self, part: &str) -> Error {
        let message = format!("the table's {part} have no room for more: finish the table");
        Error::new(ErrorKind::LimitReached, message).in_file(&self.info.file_path)
    }
}

impl ExternalFileInfo {
    /// Returns the summary of an empty table.
    fn of(path: &Path) -> Self {
        Self {
            file_path: path.to_owned(),
            smallest_key: Vec::new(),
            largest_key: Vec::new(),
            smallest_range_del_key: Vec::new(),
            largest_range_del_key: Vec::new(),
            file_size: 0,
            num_entries: 0,
            num_range_del_entries: 0,
            version: 2,
        }
    }
}

fn no_table() -> Error {
    Error::invalid_argument("no table is open")
}
