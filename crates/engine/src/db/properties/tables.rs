//! Database properties about tables: the tables' sizes, the sums of the tables' properties, and
//! lists of tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use tailwater_format::{Comparator, key};
use tailwater_io::Purpose;

use super::blobs::blob_file_text;
use super::{hex, saturating_sum};
use crate::column_family::{ColumnFamily, SuperVersion};
use crate::error::Result;
use crate::options::CompactionStyle;
use crate::table::FileMetadata;
use crate::version::{BlobFileMetadata, Level, Version};

/// Returns a numeric property for which no table need be read.
pub(super) fn number(source: &SuperVersion, family: &ColumnFamily, name: &str) -> Option<u64> {
    let version = source.version();
    Some(match name {
        "num-live-versions" => family.live_versions().len() as u64,
        "current-super-version-number" => family.super_version().number(),
        "estimate-live-data-size" => live_data_size(version, source.tables().comparator()),
        "total-sst-files-size" => total_table_bytes(family),
        "live-sst-files-size" => saturating_sum(version.files().map(|(_, file)| file.size())),
        _ => return None,
    })
}

/// Returns the total size of all tables that are in a version still in use.
fn total_table_bytes(family: &ColumnFamily) -> u64 {
    let versions = family.live_versions();
    let files = versions.iter().flat_map(|version| version.files());
    let sizes: BTreeMap<u64, u64> = files.map(|(_, file)| (file.number(), file.size())).collect();
    saturating_sum(sizes.into_values())
}

/// Returns the time when the oldest key was written, in seconds since 1970. Returns `None` unless
/// the column family uses FIFO compaction without merging: tables made by compactions do not record
/// that time.
pub(super) fn estimated_oldest_key_time_s(
    source: &SuperVersion,
    family: &ColumnFamily,
) -> Result<Option<u64>> {
    let options = family.options();
    let is_known = options.compaction_style == CompactionStyle::Fifo
        && !options.compaction_options_fifo.allow_compaction;
    if !is_known {
        return Ok(None);
    }
    let mut oldest = u64::MAX;
    for (_, file) in source.version().files() {
        let table = source.tables().open(file, Purpose::UserRead)?;
        oldest = oldest.min(table.properties().oldest_key_time);
    }
    let written = source.memtables().iter().filter_map(|memtable| memtable.oldest_key_time_s());
    let oldest = written.fold(oldest, u64::min);
    Ok(Some(oldest).filter(|&oldest| oldest > 0 && oldest < u64::MAX))
}

/// Lists each level's number of tables and size in megabytes.
pub(super) fn level_stats(version: &Version) -> String {
    let mut text = String::from("Level Files Size(MB)\n--------------------\n");
    for (number, level) in version.levels().iter().enumerate() {
        let bytes = saturating_sum(level.files().iter().map(|file| file.size()));
        let megabytes = bytes as f64 / f64::from(1 << 20);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{number:3} {:8} {megabytes:8.0}", level.files().len());
    }
    text
}

/// Lists every table with its bounds and every blob file. RocksDB's format includes the number of
/// the version; Tailwater does not number versions and always writes 1.
pub(super) fn sstables(version: &Version) -> String {
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

pub(super) fn open_table_bytes(version: &Version) -> u64 {
    let open = version.files().filter_map(|(_, file)| file.reader.get());
    open.map(|table| table.memory() as u64).sum()
}

/// Returns the size of keys and values before compression, divided by the file size; -1 for a level
/// without keys and values.
pub(super) fn compression_ratio(source: &SuperVersion, level: &Level) -> Result<f64> {
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

/// Returns the estimated number of keys: the number of entries that are not deletions, minus one
/// for every deletion. Overwritten keys and merge operands count as keys.
pub(super) fn estimated_keys(source: &SuperVersion) -> Result<u64> {
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

/// Returns the estimated size of live data: the size of non-overlapping tables, chosen from the
/// last level up, and of blobs that are not garbage.
pub(super) fn live_data_size(version: &Version, comparator: &Comparator) -> u64 {
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
