//! Properties: what a handle can tell of a column family, by RocksDB's names.
//!
//! Names, units and the form of the texts are those of RocksDB (`db/internal_stats.cc`), so that
//! what reads them there reads them here. A name that RocksDB does not have, and one about work
//! that a handle for reading never does, has no value.

use std::fmt::Write as _;
use std::sync::Arc;

use tailwater_format::blob::{BLOB_FOOTER_LENGTH, BLOB_HEADER_LENGTH};
use tailwater_format::{Comparator, key};
use tailwater_io::Purpose;

use crate::Result;
use crate::db::{ColumnFamily, Db, SuperVersion};
use crate::memtable::Counters;
use crate::version::{BlobFileMetadata, FileMetadata, Level, Version};
use crate::write::StallState;

/// What every name begins with.
const PREFIX: &str = "rocksdb.";

/// The properties without a level in their names, as they are listed for people.
pub const PROPERTY_NAMES: [&str; 31] = [
    "rocksdb.levelstats",
    "rocksdb.sstables",
    "rocksdb.blob-stats",
    "rocksdb.num-immutable-mem-table",
    "rocksdb.background-errors",
    "rocksdb.is-write-stopped",
    "rocksdb.actual-delayed-write-rate",
    "rocksdb.num-snapshots",
    "rocksdb.oldest-snapshot-sequence",
    "rocksdb.cur-size-active-mem-table",
    "rocksdb.cur-size-all-mem-tables",
    "rocksdb.size-all-mem-tables",
    "rocksdb.num-entries-active-mem-table",
    "rocksdb.num-entries-imm-mem-tables",
    "rocksdb.num-deletes-active-mem-table",
    "rocksdb.num-deletes-imm-mem-tables",
    "rocksdb.estimate-num-keys",
    "rocksdb.estimate-table-readers-mem",
    "rocksdb.estimate-live-data-size",
    "rocksdb.num-live-versions",
    "rocksdb.total-sst-files-size",
    "rocksdb.live-sst-files-size",
    "rocksdb.num-running-compactions",
    "rocksdb.num-running-flushes",
    "rocksdb.block-cache-capacity",
    "rocksdb.block-cache-usage",
    "rocksdb.block-cache-pinned-usage",
    "rocksdb.num-blob-files",
    "rocksdb.total-blob-file-size",
    "rocksdb.live-blob-file-size",
    "rocksdb.live-blob-file-garbage-size",
];

/// The properties whose names end in the number of a level.
pub const LEVEL_PROPERTY_NAMES: [&str; 2] =
    ["rocksdb.num-files-at-level", "rocksdb.compression-ratio-at-level"];

impl Db {
    /// A property of a column family by RocksDB's name, such as `rocksdb.levelstats` or
    /// `rocksdb.num-files-at-level0`; `None` for a name that is not known and for a level that the
    /// column family does not have.
    ///
    /// Sizes are in bytes unless the property's text says otherwise.
    ///
    /// # Errors
    /// Those of opening tables, for properties that are made of the tables' own.
    pub fn property(&self, family: &ColumnFamily, name: &str) -> Result<Option<String>> {
        let Some(name) = name.strip_prefix(PREFIX) else { return Ok(None) };
        let source = family.super_version();
        let version = source.version();
        if let Some(level) = level_of(version, name, "num-files-at-level") {
            return Ok(Some(level.files().len().to_string()));
        }
        if let Some(level) = level_of(version, name, "compression-ratio-at-level") {
            return Ok(Some(format!("{:.6}", compression_ratio(&source, level)?)));
        }
        if let Some(number) = self.writing_number(name) {
            return Ok(Some(number.to_string()));
        }
        Ok(match name {
            "levelstats" => Some(level_stats(version)),
            "sstables" => Some(sstables(version)),
            "blob-stats" => Some(blob_stats(version)),
            "estimate-num-keys" => Some(estimated_keys(&source)?.to_string()),
            _ => number(&source, name).map(|number| number.to_string()),
        })
    }
}

impl Db {
    /// A property about writes and snapshots, which all column families share.
    fn writing_number(&self, name: &str) -> Option<u64> {
        let stall = || self.stall_state();
        Some(match name {
            "background-errors" => u64::from(self.background_error().is_some()),
            "is-write-stopped" => u64::from(matches!(stall(), StallState::Stopped { .. })),
            "actual-delayed-write-rate" => match stall() {
                StallState::Delayed { bytes_per_second, .. } => bytes_per_second,
                _ => 0,
            },
            "num-snapshots" => self.snapshots().count() as u64,
            "oldest-snapshot-sequence" => {
                self.snapshots().sequences().first().copied().unwrap_or(0)
            }
            _ => return None,
        })
    }
}

/// The level whose number follows `prefix` in `name`.
fn level_of<'a>(version: &'a Version, name: &str, prefix: &str) -> Option<&'a Level> {
    let digits = name.strip_prefix(prefix)?;
    let only_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: usize = digits.parse().ok().filter(|_| only_digits)?;
    version.levels().get(number).map(Arc::as_ref)
}

/// A property that is one number and asks no table.
fn number(source: &SuperVersion, name: &str) -> Option<u64> {
    let version = source.version();
    let (active, immutable) = source.memtables().split_first()?;
    let sum = |what: fn(&Counters) -> u64| {
        saturating_sum(immutable.iter().map(|memtable| what(&memtable.counters())))
    };
    let memtable_bytes =
        || source.memtables().iter().map(|memtable| memtable.memory_usage() as u64).sum();
    let cache = || source.tables().context().block_cache.as_deref();
    Some(match name {
        "num-immutable-mem-table" => immutable.len() as u64,
        "num-running-compactions" | "num-running-flushes" => 0,
        "num-live-versions" => 1,
        "cur-size-active-mem-table" => active.memory_usage() as u64,
        "cur-size-all-mem-tables" | "size-all-mem-tables" => memtable_bytes(),
        "num-entries-active-mem-table" => active.counters().entries,
        "num-entries-imm-mem-tables" => sum(|counters| counters.entries),
        "num-deletes-active-mem-table" => active.counters().deletions,
        "num-deletes-imm-mem-tables" => sum(|counters| counters.deletions),
        "estimate-table-readers-mem" => open_table_bytes(version),
        "estimate-live-data-size" => live_data_size(version, source.tables().comparator()),
        "total-sst-files-size" | "live-sst-files-size" => {
            saturating_sum(version.files().map(|(_, file)| file.size()))
        }
        "block-cache-capacity" => cache().map_or(0, |cache| cache.capacity() as u64),
        "block-cache-usage" => cache().map_or(0, |cache| cache.usage() as u64),
        "block-cache-pinned-usage" => cache().map_or(0, |cache| cache.pinned_usage() as u64),
        "num-blob-files" => version.blob_files().len() as u64,
        "total-blob-file-size" | "live-blob-file-size" => blob_file_bytes(version),
        "live-blob-file-garbage-size" => blob_garbage_bytes(version),
        _ => return None,
    })
}

fn level_stats(version: &Version) -> String {
    let mut text = String::from("Level Files Size(MB)\n--------------------\n");
    for (number, level) in version.levels().iter().enumerate() {
        let bytes = saturating_sum(level.files().iter().map(|file| file.size()));
        let megabytes = bytes as f64 / f64::from(1 << 20);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{number:3} {:8} {megabytes:8.0}", level.files().len());
    }
    text
}

/// Every table with its bounds. A handle for reading has one version, number 1.
fn sstables(version: &Version) -> String {
    let mut text = String::new();
    for (number, level) in version.levels().iter().enumerate() {
        let _ = writeln!(text, "--- level {number} --- version# 1 ---");
        for file in level.files() {
            let added = file.added();
            let _ = write!(
                text,
                " {}:{}[{} .. {}][{} .. {}]",
                added.number,
                added.size,
                added.smallest_sequence,
                added.largest_sequence,
                key_text(&added.smallest),
                key_text(&added.largest)
            );
            if let Some(number) = added.oldest_blob_file_number {
                let _ = write!(text, " blob_file:{number}");
            }
            text.push_str("(0)\n");
        }
    }
    if !version.blob_files().is_empty() {
        text.push_str("--- blob files --- version# 1 ---\n");
    }
    for file in version.blob_files().values() {
        let _ = writeln!(text, "{}", blob_file_text(version, file));
    }
    text
}

fn key_text(internal_key: &[u8]) -> String {
    let (user_key, trailer) = key::split(internal_key).unwrap_or((internal_key, 0));
    format!("'{}' seq:{}, type:{}", hex(user_key), trailer >> 8, trailer as u8)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

fn blob_file_text(version: &Version, file: &BlobFileMetadata) -> String {
    let added = &file.added;
    let mut linked: Vec<u64> = version
        .files()
        .filter(|(_, table)| table.added().oldest_blob_file_number == Some(added.number))
        .map(|(_, table)| table.number())
        .collect();
    linked.sort_unstable();
    let linked: String = linked.iter().map(|number| format!(" {number}")).collect();
    format!(
        "blob_file_number: {} total_blob_count: {} total_blob_bytes: {} checksum_method: {} \
         checksum_value: {} linked_ssts: {{{linked} }} garbage_blob_count: {} \
         garbage_blob_bytes: {}",
        added.number,
        added.blob_count,
        added.blob_bytes,
        added.checksum_function,
        hex(&added.checksum),
        file.garbage_count,
        file.garbage_bytes
    )
}

fn blob_stats(version: &Version) -> String {
    let (total, garbage) = (blob_file_bytes(version), blob_garbage_bytes(version));
    let amplification = if total > garbage { total as f64 / (total - garbage) as f64 } else { 0.0 };
    format!(
        "Number of blob files: {}\nTotal size of blob files: {total}\n\
         Total size of garbage in blob files: {garbage}\nBlob file space amplification: {}\n",
        version.blob_files().len(),
        six_digits(amplification)
    )
}

/// A number of at least 1, or 0, with six significant digits at most.
fn six_digits(number: f64) -> String {
    let whole_digits = (number.max(1.0).log10() as usize) + 1;
    let text = format!("{number:.*}", 6usize.saturating_sub(whole_digits));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn blob_file_bytes(version: &Version) -> u64 {
    let around = (BLOB_HEADER_LENGTH + BLOB_FOOTER_LENGTH) as u64;
    let files = version.blob_files().values();
    saturating_sum(files.map(|file| file.added.blob_bytes.saturating_add(around)))
}

fn blob_garbage_bytes(version: &Version) -> u64 {
    saturating_sum(version.blob_files().values().map(|file| file.garbage_bytes))
}

fn open_table_bytes(version: &Version) -> u64 {
    let open = version.files().filter_map(|(_, file)| file.table.load_arc());
    open.map(|table| table.memory() as u64).sum()
}

/// Keys and values before compression over the size of the files; -1 for a level without any.
fn compression_ratio(source: &SuperVersion, level: &Level) -> Result<f64> {
    let (mut raw_bytes, mut file_bytes) = (0, 0);
    for file in level.files() {
        let table = source.tables().open(file, Purpose::UserRead)?;
        let properties = table.properties();
        let raw = properties.raw_key_size.saturating_add(properties.raw_value_size);
        if raw > 0 {
            raw_bytes = raw.saturating_add(raw_bytes);
            file_bytes = file.size().saturating_add(file_bytes);
        }
    }
    Ok(if file_bytes == 0 { -1.0 } else { raw_bytes as f64 / file_bytes as f64 })
}

/// Entries that are no deletions, less one for every deletion: in memtables the deletion itself is
/// among the entries. Overwritten keys and merge operands count as keys.
fn estimated_keys(source: &SuperVersion) -> Result<u64> {
    let (mut entries, mut deletions) = (0u64, 0u64);
    for (_, file) in source.version().files() {
        let table = source.tables().open(file, Purpose::UserRead)?;
        entries = entries.saturating_add(table.properties().num_entries);
        deletions = deletions.saturating_add(table.properties().num_deletions);
    }
    let in_tables = entries.saturating_sub(deletions.saturating_mul(2));
    let counters = source.memtables().iter().map(|memtable| memtable.counters());
    let (entries, deletions) = counters.fold((in_tables, 0), |(entries, deletions), counters| {
        (counters.entries.saturating_add(entries), deletions + counters.deletions)
    });
    Ok(entries.saturating_sub(2 * deletions))
}

/// The size of tables none of which overlaps another, from the last level up, and of the blobs that
/// are no garbage.
fn live_data_size(version: &Version, comparator: &Comparator) -> u64 {
    let mut taken: Vec<&Arc<FileMetadata>> = Vec::new();
    for level in version.levels().iter().rev() {
        for file in level.files() {
            let at = taken.partition_point(|taken| {
                key::compare_internal(comparator, taken.largest(), file.smallest()).is_lt()
            });
            let is_free = taken.get(at).is_none_or(|next| {
                key::compare_internal(comparator, file.largest(), next.smallest()).is_lt()
            });
            if is_free {
                taken.insert(at, file);
            }
        }
    }
    let tables = saturating_sum(taken.iter().map(|file| file.size()));
    let live = |file: &BlobFileMetadata| file.added.blob_bytes.saturating_sub(file.garbage_bytes);
    tables.saturating_add(saturating_sum(version.blob_files().values().map(live)))
}

/// A sum of sizes that a MANIFEST says, which may be anything.
fn saturating_sum(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}
