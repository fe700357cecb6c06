//! An output table.

use std::path::PathBuf;
use std::sync::Arc;

use tailwater_format::checksum::crc32c_extend;
use tailwater_format::key;
use tailwater_format::version_edit::NewFile;
use tailwater_io::Purpose;
use tailwater_io::pace::Priority;

use crate::compaction::job_state::{JobState, Part};
use crate::error::{Error, Result};
use crate::handover::{TableHandover, Warmth};
use crate::options::ColumnFamilyOptions;
use crate::table::builder::Origin;
use crate::table::{Builder, FileMetadata, StoredBlock};

/// A table that is being written.
pub(super) struct OutputTable {
    builder: Builder,
    path: PathBuf,
    /// Count and checksum of the records added so far; `None` if the table will not be read back.
    entries: Option<WrittenEntries>,
}

/// A table that is complete and synced.
#[derive(Debug)]
pub(crate) struct WrittenTable {
    pub(crate) file: NewFile,
    /// Number of records, range tombstones included.
    pub(crate) records: u64,
    entries: Option<WrittenEntries>,
    /// Puts blocks of this table into a cache if users read the same data in the compaction's
    /// inputs (warm handover).
    pub(crate) table_handover: Option<TableHandover>,
}

/// Count and checksum of a table's records, to compare what was written with what is read back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WrittenEntries {
    count: u64,
    checksum: u32,
}

impl OutputTable {
    /// Creates the file of the next output of a part.
    pub(super) fn begin(shared: &Arc<JobState>, part: &Part) -> Result<Self> {
        let (number, path) = shared.take_output()?;
        let expected_bytes = shared.compaction.max_output_file_bytes;
        let tables = shared.reading.readers.tables.context();
        let table_handover =
            tables.handover.as_ref().and_then(|handover| handover.of_compaction(number));
        let (files, purpose) = (shared.new_files(), Purpose::CompactionWrite);
        let warm = table_handover.as_ref();
        let priority = shared.environment.pressure.priority(Priority::Low);
        let writer = files.create(&path, purpose, priority, expected_bytes, warm)?;
        shared.output_created(&path);
        let origin = origin(shared, part, number);
        let format = Arc::clone(&shared.writing.format);
        let mut builder = Builder::new(format, &shared.writing.compression, origin, &path, writer)?
            .with_handover(table_handover)
            .with_filter_charge(tables.charges.filters.as_ref())
            .with_times(shared.times.clone());
        if shared.compaction.is_bottommost && shared.environment.options.optimize_filters_for_hits {
            builder = builder.without_filter();
        }
        let entries = reads_back(&shared.environment.options).then(WrittenEntries::default);
        Ok(Self { builder, path, entries })
    }

    /// Returns the size of the table so far, in bytes, which decides whether the output has reached
    /// its target size.
    pub(super) fn size(&self, options: &ColumnFamilyOptions) -> u64 {
        if options.target_file_size_is_upper_bound {
            self.builder.size_estimate()
        } else {
            self.builder.size()
        }
    }

    /// Whether the table's index has room for a record with this internal key.
    pub(super) fn has_index_room(&self, internal_key: &[u8]) -> bool {
        self.builder.has_index_room(internal_key.len())
    }

    /// Whether the table's index would be more than half full with a record with this internal key.
    #[inline]
    pub(super) fn is_index_half_full(&self, internal_key: &[u8]) -> bool {
        self.builder.is_index_half_full(internal_key.len())
    }

    #[inline]
    pub(super) fn add<'i>(
        &mut self,
        internal_key: &[u8],
        value: &[u8],
        warmth: Warmth,
        input: impl FnOnce() -> Option<StoredBlock<'i>>,
    ) -> Result<()> {
        if let Some(entries) = &mut self.entries {
            entries.add(internal_key, value);
        }
        self.builder.add_warm(internal_key, value, warmth, input)
    }

    pub(super) fn add_range_tombstone(
        &mut self,
        start: &[u8],
        end: &[u8],
        smallest: &[u8],
        largest: &[u8],
    ) -> Result<()> {
        self.builder.add_range_tombstone_within(start, end, smallest, largest)
    }

    /// Completes and syncs the table. If it is empty, removes the file and returns `None`.
    pub(super) fn finish(self, shared: &JobState) -> Result<Option<WrittenTable>> {
        if self.builder.is_empty() {
            self.builder.abandon();
            shared.environment.storage.remove(&self.path)?;
            return Ok(None);
        }
        let (table, mut writer) = self.builder.finish()?;
        writer.sync()?;
        writer.close()?;
        shared.environment.files.added(&self.path, table.size);
        shared.environment.files.check_space()?;
        let file = table.new_file(shared.compaction.output_level as u32);
        let oldest_ancestor_time_s = shared
            .oldest_ancestor_time_s(Some(&file.smallest), Some(&file.largest))
            .unwrap_or(file.oldest_ancestor_time_s);
        let file = NewFile {
            path_id: shared.writing.path_id,
            epoch_number: shared.epoch_number(),
            oldest_ancestor_time_s,
            ..file
        };
        Ok(Some(WrittenTable {
            file,
            records: table.properties.num_entries,
            entries: self.entries,
            table_handover: table.table_handover,
        }))
    }
}

/// Whether the compaction reads its outputs back after writing them. This is so if
/// `paranoid_file_checks` is set, or if `verify_output_flags` has flags that request it for
/// compactions. The flags are those of `VerifyOutputFlags` in `include/rocksdb/advanced_options.h`.
fn reads_back(options: &ColumnFamilyOptions) -> bool {
    const BLOCK_CHECKSUMS: u32 = 1 << 0;
    const ENTRIES: u32 = 1 << 1;
    const OF_COMPACTIONS: u32 = 1 << 10;
    let flags = options.verify_output_flags;
    let is_flagged = flags & OF_COMPACTIONS != 0 && flags & (BLOCK_CHECKSUMS | ENTRIES) != 0;
    options.paranoid_file_checks || is_flagged
}

/// Returns the origin that an output records in its properties. The output's key range is not known
/// yet, so the origin's times are derived from all inputs that overlap the part of the compaction.
/// The times in the MANIFEST are more exact: they are derived from the inputs that overlap the
/// finished output.
fn origin(shared: &JobState, part: &Part, number: u64) -> Origin {
    let bound = |user_key: &Vec<u8>| super::exclusive_bound(user_key);
    let (begin, end) = (part.begin.as_ref().map(bound), part.end.as_ref().map(bound));
    let (begin, end) = (begin.as_deref(), end.as_deref());
    Origin {
        file_number: number,
        oldest_ancestor_time_s: shared.oldest_ancestor_time_s(begin, end).unwrap_or(shared.now_s),
        creation_time_s: shared.now_s,
        oldest_key_time_s: 0,
        newest_key_time_s: shared.newest_key_time_s(begin, end),
        external: false,
        ..shared.writing.origin.clone()
    }
}

impl WrittenEntries {
    fn add(&mut self, internal_key: &[u8], value: &[u8]) {
        self.count += 1;
        for part in [&(internal_key.len() as u64).to_le_bytes(), internal_key, value] {
            self.checksum = crc32c_extend(self.checksum, part);
        }
    }

    /// Reads a table back and compares it with what was written.
    ///
    /// # Errors
    /// Corruption, if it differs.
    pub(super) fn read_back(shared: &JobState, written: &WrittenTable) -> Result<()> {
        let Some(expected) = &written.entries else { return Ok(()) };
        let file = Arc::new(FileMetadata::new(written.file.clone()));
        let mut iterator = shared.inputs.reread(&file, &shared.reading.open_budget)?;
        let mut found = Self::default();
        iterator.seek_to_first()?;
        let mut last = Vec::new();
        while iterator.valid() {
            let is_first = found.count == 0;
            let order = key::compare_internal(shared.comparator(), &last, iterator.key());
            if !is_first && order.is_ge() {
                let key = key::user_key(iterator.key()).escape_ascii();
                let message = format!("read back out of order at key '{key}'");
                return Err(Error::corruption(iterator.table().file().path(), message));
            }
            last.clear();
            last.extend_from_slice(iterator.key());
            found.add(iterator.key(), iterator.value());
            iterator.next()?;
        }
        if found == *expected {
            return Ok(());
        }
        let message = format!(
            "{} records with checksum {:#010x} were written, but {} with {:#010x} were read back",
            expected.count, expected.checksum, found.count, found.checksum
        );
        Err(Error::corruption(iterator.table().file().path(), message))
    }
}
