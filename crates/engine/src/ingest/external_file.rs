//! Inspection of a file to be ingested, at its original path.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::key::{self, MAX_SEQUENCE, ParsedKey, Sequence, ValueType, pack_trailer};
use tailwater_format::table::properties::UNKNOWN_COLUMN_FAMILY_ID;
use tailwater_format::table::{Properties, UniqueId};
use tailwater_format::version_edit::NewFile;
use tailwater_io::{IoMode, Purpose, Storage};

use crate::column_family::ColumnFamily;
use crate::compaction::compare_bounds;
use crate::error::{Error, Result};
use crate::table::{
    ReadPlan, ReadProfile, TableContext, TableIdentity, TableIterator, TableReader,
};
use crate::verify;

/// The supported version of the format of tables written for ingestion, as recorded in their
/// properties.
const VERSION: u32 = 2;
/// Parameters of reads of external tables.
const PROFILE: ReadProfile = ReadProfile::new(Purpose::Ingestion, false);

/// A file to be ingested.
#[derive(Debug, Clone, Default)]
pub(super) struct ExternalFile {
    /// The file's original path.
    pub(super) path: PathBuf,
    /// Length of the file, in bytes.
    pub(super) size: u64,
    /// The smallest internal key, range tombstones included, with sequence number 0.
    pub(super) smallest: Vec<u8>,
    /// The largest internal key, range tombstones included.
    pub(super) largest: Vec<u8>,
    /// Number of records in the file, range tombstones included.
    pub(super) entries: u64,
    /// Number of range tombstones in the file.
    pub(super) range_deletions: u64,
    /// The table's unique id, as in RocksDB; `[0, 0]` if it has none.
    pub(super) unique_id: [u64; 2],
    /// Length of everything after the data blocks, in bytes; 0 if unknown.
    pub(super) tail_size: u64,
}

/// The smallest and the largest internal key of files, range tombstones included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds<'a> {
    pub(super) smallest: &'a [u8],
    pub(super) largest: &'a [u8],
}

impl ExternalFile {
    /// Examines a file to be ingested into `family`. With `verifies`, the whole file is read and
    /// checked.
    ///
    /// # Errors
    /// Not found; corruption, for a file that is not a table or is damaged; invalid argument, for a
    /// table that was not written for ingestion into this family. Each names the file.
    pub(super) fn examine(
        storage: &Arc<dyn Storage>,
        path: &Path,
        family: &ColumnFamily,
        verifies: bool,
    ) -> Result<Self> {
        let file = storage.open(path, IoMode::Buffered, Purpose::Ingestion)?;
        let size = file.length()?;
        let identity = TableIdentity::default();
        let extractor = family.readers().tables.context().prefix_extractor.clone();
        let context = TableContext::standalone(family.comparator().clone(), extractor);
        let opened = TableReader::open(file, context, &identity, Purpose::Ingestion);
        let table = Arc::new(opened.map_err(|error| error.in_file(path))?);
        let properties = table.properties();
        check_properties(path, properties, family)?;
        if verifies {
            verify::check_table(storage, path, &table)?;
        }
        let (smallest, largest) = bounds(path, &table)?;
        let Properties { db_id, db_session_id, original_file_number, .. } = properties;
        let unique_id = UniqueId::new(db_id, db_session_id, *original_file_number);
        Ok(Self {
            path: path.to_owned(),
            size,
            smallest,
            largest,
            entries: properties.num_entries.max(properties.num_range_deletions),
            range_deletions: properties.num_range_deletions,
            unique_id: unique_id.map_or([0; 2], |id| id.words()),
            tail_size: match properties.tail_start_offset {
                0 => 0,
                start => size.saturating_sub(start),
            },
        })
    }

    /// Returns the file's smallest and largest internal key.
    pub(super) fn bounds(&self) -> Bounds<'_> {
        Bounds { smallest: &self.smallest, largest: &self.largest }
    }

    /// Returns the smallest user key of the file.
    pub(super) fn begin(&self) -> &[u8] {
        key::user_key(&self.smallest)
    }

    /// Returns the largest user key of the file. If it is the exclusive end of a range tombstone,
    /// callers treat it as inclusive nevertheless.
    pub(super) fn end(&self) -> &[u8] {
        key::user_key(&self.largest)
    }

    /// Returns the metadata with which a version edit adds the file as table `number` in `level`.
    /// All its records get the sequence number `sequence`. `now_s` is the time of the ingestion, in
    /// seconds since 1970.
    pub(super) fn new_file(
        &self,
        number: u64,
        level: usize,
        sequence: Sequence,
        now_s: u64,
    ) -> NewFile {
        NewFile {
            level: level as u32,
            number,
            size: self.size,
            smallest: at_sequence(&self.smallest, sequence),
            largest: at_sequence(&self.largest, sequence),
            smallest_sequence: sequence,
            largest_sequence: sequence,
            oldest_ancestor_time_s: now_s,
            creation_time_s: now_s,
            // A table with a single range tombstone and no other record only serves to delete data.
            // It is marked, so that a compaction soon deletes that data.
            marked_for_compaction: self.range_deletions == 1 && self.entries == 1,
            unique_id: self.unique_id,
            tail_size: self.tail_size,
            ..NewFile::default()
        }
    }
}

/// Refuses a table that was not written for ingestion. Also refuses a table that was written for
/// another column family.
fn check_properties(path: &Path, properties: &Properties, family: &ColumnFamily) -> Result<()> {
    let refused = |message: String| Err(Error::invalid_argument(message).in_file(path));
    let known = family.comparator().name();
    let found = &properties.comparator_name;
    if !found.is_empty() && found != known.as_bytes() {
        let found = found.escape_ascii();
        return refused(format!("the table's comparator is '{found}', the database's '{known}'"));
    }
    match properties.external_version {
        None => return Err(Error::corruption(path, "the table was not made to be ingested")),
        Some(VERSION) => {}
        Some(version) => return refused(format!("an external table of version {version}")),
    }
    match (properties.external_global_sequence, properties.largest_sequence) {
        (None, _) => {
            let message = "an external table without a global sequence number property";
            return Err(Error::corruption(path, message));
        }
        (Some(stored), _) if stored > 0 => {
            return refused(format!("it was ingested before, with sequence number {stored}"));
        }
        (_, Some(largest)) if largest > 0 => {
            let message = format!("a record of an external table has sequence number {largest}");
            return Err(Error::corruption(path, message));
        }
        _ => {}
    }
    let id = properties.column_family_id;
    if id != UNKNOWN_COLUMN_FAMILY_ID && id != u64::from(family.id()) {
        let (made_for, name) = (properties.column_family_name.escape_ascii(), family.name());
        return refused(format!(
            "the table was made for column family '{made_for}' of id {id}, not for '{name}' of \
             id {}",
            family.id()
        ));
    }
    if properties.num_entries == 0 && properties.num_range_deletions == 0 {
        return refused("the table has no entries".to_owned());
    }
    Ok(())
}

/// Returns the smallest and the largest internal key of a table.
fn bounds(path: &Path, table: &Arc<TableReader>) -> Result<(Vec<u8>, Vec<u8>)> {
    let comparator = table.comparator();
    let mut iterator = TableIterator::new(Arc::clone(table), PROFILE, &ReadPlan::growing());
    let mut bounds: Option<(Vec<u8>, Vec<u8>)> = None;
    iterator.seek_to_first()?;
    if iterator.valid() {
        let first = checked(path, iterator.key())?;
        iterator.seek_to_last()?;
        let last = checked(path, iterator.key())?;
        if key::compare_internal(comparator, &first, &last).is_gt() {
            return Err(Error::corruption(path, "the last key comes before the first"));
        }
        bounds = Some((first, last));
    }
    table.for_each_range_tombstone(|start, end| {
        let begin = ParsedKey::parse(start)?;
        let mut limit = Vec::new();
        let exclusive = pack_trailer(MAX_SEQUENCE, ValueType::RangeDeletion as u8);
        key::put_internal_key(&mut limit, end, exclusive);
        let begin = ParsedKey { sequence: 0, ..begin }.to_vec();
        match &mut bounds {
            None => bounds = Some((begin, limit)),
            Some((smallest, largest)) => {
                if compare_bounds(comparator, &begin, smallest).is_lt() {
                    *smallest = begin;
                }
                if compare_bounds(comparator, &limit, largest).is_gt() {
                    *largest = limit;
                }
            }
        }
        Ok(())
    })?;
    bounds.ok_or_else(|| {
        Error::corruption(path, "the properties count entries, but the table has none")
    })
}

/// Checks an internal key. Returns the key with its sequence number replaced by 0.
fn checked(path: &Path, internal_key: &[u8]) -> Result<Vec<u8>> {
    let parsed = ParsedKey::parse(internal_key).map_err(|error| Error::decoding(path, 0, error))?;
    Ok(ParsedKey { sequence: 0, ..parsed }.to_vec())
}

/// Returns `bound`, the smallest or largest key of a file, with its sequence number replaced by
/// `sequence`, the number assigned to the file. A bound that is the end of a range tombstone is
/// returned unchanged.
fn at_sequence(bound: &[u8], sequence: Sequence) -> Vec<u8> {
    match ParsedKey::parse(bound) {
        Ok(parsed) if parsed.sequence == 0 => ParsedKey { sequence, ..parsed }.to_vec(),
        _ => bound.to_vec(),
    }
}
