//! Properties: figures of a column family, identified by RocksDB's names.
//!
//! Names, units and text formats are those of RocksDB (`db/internal_stats.cc`), so that tools made
//! for RocksDB can read them. An unknown name has no value. In a read-only handle, properties of
//! background work, such as flushes, have no value either. Properties that RocksDB does not have
//! begin with `tailwater.`.

mod aggregated;
mod blobs;
mod input_output;
mod memory;
mod report;
mod tables;
mod writing;

pub(super) use report::report_state;

use std::fmt::Write as _;
use std::sync::Arc;

use crate::column_family::ColumnFamily;
use crate::db::Db;
use crate::error::{Error, Result};
use crate::stats::{ProcessMemory, SlowReadTotals};
use crate::version::{Level, Version};

/// Prefix of RocksDB's names.
const PREFIX: &str = "rocksdb.";

/// The properties whose names do not end in a level's number, in the order in which they are
/// listed.
pub const PROPERTY_NAMES: [&str; 68] = [
    "rocksdb.stats",
    "rocksdb.cfstats",
    "rocksdb.cfstats-no-file-histogram",
    "rocksdb.cf-write-stall-stats",
    "rocksdb.dbstats",
    "rocksdb.db-write-stall-stats",
    "rocksdb.levelstats",
    "rocksdb.sstables",
    "rocksdb.aggregated-table-properties",
    "rocksdb.blob-stats",
    "rocksdb.options-statistics",
    "rocksdb.num-immutable-mem-table",
    "rocksdb.num-immutable-mem-table-flushed",
    "rocksdb.mem-table-flush-pending",
    "rocksdb.compaction-pending",
    "rocksdb.background-errors",
    "rocksdb.is-write-stopped",
    "rocksdb.actual-delayed-write-rate",
    "rocksdb.num-snapshots",
    "rocksdb.oldest-snapshot-sequence",
    "rocksdb.oldest-snapshot-time",
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
    "rocksdb.estimate-oldest-key-time",
    "rocksdb.estimate-pending-compaction-bytes",
    "rocksdb.is-file-deletions-enabled",
    "rocksdb.num-live-versions",
    "rocksdb.current-super-version-number",
    "rocksdb.min-log-number-to-keep",
    "rocksdb.base-level",
    "rocksdb.total-sst-files-size",
    "rocksdb.live-sst-files-size",
    "rocksdb.obsolete-sst-files-size",
    "rocksdb.num-running-compactions",
    "rocksdb.num-running-flushes",
    "rocksdb.block-cache-capacity",
    "rocksdb.block-cache-usage",
    "rocksdb.block-cache-pinned-usage",
    "rocksdb.num-blob-files",
    "rocksdb.total-blob-file-size",
    "rocksdb.live-blob-file-size",
    "rocksdb.live-blob-file-garbage-size",
    "tailwater.io-modes",
    "tailwater.io-stats",
    "tailwater.memory",
    "tailwater.process-memory",
    "tailwater.process-memory-sum",
    "tailwater.process-memory-prometheus",
    "tailwater.write-buffer-manager",
    "tailwater.write-buffer-manager-prometheus",
    "tailwater.block-cache-size",
    "tailwater.num-iterators",
    "tailwater.iterator-read-ahead-memory",
    "tailwater.num-pinned-mem-tables",
    "tailwater.pinned-mem-tables-size",
    "tailwater.num-obsolete-files",
    "tailwater.contract-violations",
    "tailwater.slow-reads",
    "tailwater.slow-reads-prometheus",
    "tailwater.recent-slow-reads",
];

/// The properties whose names end in the number of a level.
pub const LEVEL_PROPERTY_NAMES: [&str; 3] = [
    "rocksdb.num-files-at-level",
    "rocksdb.compression-ratio-at-level",
    "rocksdb.aggregated-table-properties-at-level",
];

impl Db {
    /// Returns a property of a column family, such as `rocksdb.num-files-at-level0`, as a number;
    /// `None` if the property is unknown. Sizes are in bytes.
    ///
    /// Like [`Db::property_value_cf`], but parses the text as a number.
    ///
    /// # Errors
    /// The errors of [`Db::property_value_cf`]; invalid argument, for a property that is not a
    /// number.
    pub fn property_int_value_cf(&self, family: &ColumnFamily, name: &str) -> Result<Option<u64>> {
        let Some(text) = self.property_value_cf(family, name)? else { return Ok(None) };
        let number = text
            .parse()
            .map_err(|_| Error::invalid_argument(format!("property '{name}' is not a number")))?;
        Ok(Some(number))
    }

    /// Returns a property of a column family by RocksDB's name, such as `rocksdb.levelstats` or
    /// `rocksdb.num-files-at-level0`. Returns `None` for an unknown name, for a level that the
    /// column family does not have, and if the value is unknown.
    ///
    /// Sizes are in bytes unless the text of the property states another unit.
    ///
    /// # Errors
    /// Errors from opening tables, for properties derived from tables' properties; invalid
    /// argument, for a column family that was not obtained from this `Db` or a clone of it.
    pub fn property_value_cf(&self, family: &ColumnFamily, name: &str) -> Result<Option<String>> {
        self.check_family(family)?;
        let Some(name) = name.strip_prefix(PREFIX) else {
            return Ok(self.own_property(family, name));
        };
        if let Some(text) = self.text_property(family, name)? {
            return Ok(Some(text));
        }
        let source = family.super_version();
        let number = self
            .writing_number(family, name)
            .or_else(|| memory::number(family, &source, name))
            .or_else(|| tables::number(&source, family, name))
            .or_else(|| blobs::number(family, source.version(), name));
        let number = match (number, name) {
            (None, "estimate-num-keys") => Some(tables::estimated_keys(&source)?),
            (None, "estimate-oldest-key-time") => {
                tables::estimated_oldest_key_time_s(&source, family)?
            }
            (number, _) => number,
        };
        Ok(number.map(|number| number.to_string()))
    }

    /// Returns where the time of slow reads went since the database was opened. A read is slow if
    /// it takes at least `slow_read_threshold_us`; by default none is.
    pub fn slow_reads(&self) -> SlowReadTotals {
        self.inner.shared.slow_reads.totals()
    }

    /// Returns a property as text.
    fn text_property(&self, family: &ColumnFamily, name: &str) -> Result<Option<String>> {
        let source = family.super_version();
        let version = source.version();
        if let Some((_, level)) = level_of(version, name, "num-files-at-level") {
            return Ok(Some(level.files().len().to_string()));
        }
        if let Some((_, level)) = level_of(version, name, "compression-ratio-at-level") {
            return Ok(Some(format!("{:.6}", tables::compression_ratio(&source, level)?)));
        }
        if let Some((number, _)) = level_of(version, name, "aggregated-table-properties-at-level") {
            return aggregated::text(&source, Some(number)).map(Some);
        }
        Ok(Some(match name {
            "aggregated-table-properties" => aggregated::text(&source, None)?,
            "levelstats" => tables::level_stats(version),
            "sstables" => tables::sstables(version),
            "blob-stats" => blobs::blob_stats(version),
            _ => return Ok(self.report(family, name)),
        }))
    }

    /// Returns a property that RocksDB does not have.
    fn own_property(&self, family: &ColumnFamily, name: &str) -> Option<String> {
        let source = family.super_version();
        let readers = &source.tables().context().reader_memory;
        Some(match name {
            "tailwater.io-modes" => self.inner.shared.io_modes.text(),
            "tailwater.io-stats" => input_output::text(self.storage().statistics()),
            "tailwater.memory" => memory::text(family, &source),
            "tailwater.process-memory" => ProcessMemory::now().to_string(),
            "tailwater.process-memory-sum" => ProcessMemory::now().sum().to_string(),
            "tailwater.process-memory-prometheus" => ProcessMemory::now().to_prometheus(),
            "tailwater.write-buffer-manager" => family.write_buffer_manager()?.report(),
            "tailwater.write-buffer-manager-prometheus" => {
                family.write_buffer_manager()?.to_prometheus()
            }
            "tailwater.block-cache-size" => memory::block_cache_size(&source)?,
            "tailwater.num-iterators" => readers.iterators().to_string(),
            "tailwater.iterator-read-ahead-memory" => readers.read_ahead_bytes().to_string(),
            "tailwater.num-pinned-mem-tables" => family.pinned_memtables().len().to_string(),
            "tailwater.pinned-mem-tables-size" => memory::pinned_bytes(family).to_string(),
            "tailwater.num-obsolete-files" => self.obsolete_files().to_string(),
            "tailwater.contract-violations" => {
                family.statistics().contract_violations.get().to_string()
            }
            "tailwater.slow-reads" => self.slow_reads().to_string(),
            "tailwater.slow-reads-prometheus" => self.slow_reads().to_prometheus(),
            "tailwater.recent-slow-reads" => self.inner.shared.slow_reads.recent_text(),
            _ => return None,
        })
    }
}

/// If `name` is `prefix` followed by the number of an existing level, returns the number and the
/// level.
fn level_of<'a>(version: &'a Version, name: &str, prefix: &str) -> Option<(usize, &'a Level)> {
    let digits = name.strip_prefix(prefix)?;
    let only_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: usize = digits.parse().ok().filter(|_| only_digits)?;
    Some((number, version.levels().get(number).map(Arc::as_ref)?))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

/// Adds sizes that come from a MANIFEST and may therefore be arbitrary numbers.
fn saturating_sum(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}
