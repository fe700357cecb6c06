//! The sum of the properties of several tables, in the format of RocksDB's
//! `TableProperties::ToString`.
//!
//! Only numeric properties are added up. The other entries have the values that RocksDB shows for a
//! table without these properties.

use std::fmt::{Display, Write as _};

use tailwater_format::table::Properties;
use tailwater_io::Purpose;

use crate::column_family::SuperVersion;
use crate::error::Result;

/// The entries that follow the numeric ones in the text of the aggregated table properties. Each
/// has the value that RocksDB shows for a table that lacks the property named by the entry. The
/// values of the entries `SLOW` and `FAST` are replaced by sums over the tables.
const NOTHING: [(&str, &str); 24] = [
    ("filter policy name", "N/A"),
    ("prefix extractor name", "N/A"),
    ("column family ID", "N/A"),
    ("column family name", "N/A"),
    ("comparator name", "N/A"),
    ("user defined timestamps persisted", "true"),
    ("largest sequence number in file", "18446744073709551615"),
    ("smallest sequence number in file", "18446744073709551615"),
    ("merge operator name", "N/A"),
    ("property collectors names", "N/A"),
    ("SST file compression algo", "N/A"),
    ("SST file compression options", "N/A"),
    ("creation time", "0"),
    ("time stamp of earliest key", "0"),
    ("time stamp of newest key", "0"),
    ("file creation time", "0"),
    (SLOW, ""),
    (FAST, ""),
    ("DB identity", ""),
    ("DB session identity", ""),
    ("DB host id", ""),
    ("original file number", "0"),
    ("unique ID", "N/A"),
    ("Sequence number to time mapping", ""),
];
/// `SLOW` and `FAST` are names of entries of [`NOTHING`]. In the text of the aggregated properties,
/// the values of these two entries are sums over the tables.
const SLOW: &str = "slow compression estimated data size";
const FAST: &str = "fast compression estimated data size";

/// Returns the sum of the properties of the tables of `level`, or of all tables if `level` is
/// `None`.
pub(super) fn text(source: &SuperVersion, level: Option<usize>) -> Result<String> {
    let mut sum = Sum::default();
    for (number, file) in source.version().files() {
        if level.is_none_or(|level| level == number) {
            sum.add(source.tables().open(file, Purpose::UserRead)?.properties());
        }
    }
    Ok(sum.text())
}

/// The sums of the numeric properties of tables.
#[derive(Default)]
struct Sum {
    numbers: Properties,
    user_keys: u64,
    delta_values: u64,
}

impl Sum {
    fn add(&mut self, other: &Properties) {
        self.user_keys += u64::from(other.index_key_is_user_key);
        self.delta_values += u64::from(other.index_value_is_delta_encoded);
        let own = &mut self.numbers;
        let pairs = [
            (&mut own.data_size, other.data_size),
            (&mut own.index_size, other.index_size),
            (&mut own.index_partitions, other.index_partitions),
            (&mut own.top_level_index_size, other.top_level_index_size),
            (&mut own.filter_size, other.filter_size),
            (&mut own.raw_key_size, other.raw_key_size),
            (&mut own.raw_value_size, other.raw_value_size),
            (&mut own.num_data_blocks, other.num_data_blocks),
            (
                &mut own.num_data_blocks_compression_rejected,
                other.num_data_blocks_compression_rejected,
            ),
            (
                &mut own.num_data_blocks_compression_bypassed,
                other.num_data_blocks_compression_bypassed,
            ),
            (&mut own.num_uniform_blocks, other.num_uniform_blocks),
            (&mut own.num_entries, other.num_entries),
            (&mut own.num_filter_entries, other.num_filter_entries),
            (&mut own.num_deletions, other.num_deletions),
            (&mut own.num_merge_operands, other.num_merge_operands),
            (&mut own.num_range_deletions, other.num_range_deletions),
            (
                &mut own.slow_compression_estimated_data_size,
                other.slow_compression_estimated_data_size,
            ),
            (
                &mut own.fast_compression_estimated_data_size,
                other.fast_compression_estimated_data_size,
            ),
        ];
        for (own, other) in pairs {
            *own = own.saturating_add(other);
        }
    }

    fn text(&self) -> String {
        let sum = &self.numbers;
        let average = |bytes: u64| match sum.num_entries {
            0 => 0.0,
            entries => bytes as f64 / entries as f64,
        };
        let mut text = String::new();
        let mut put = |name: &str, value: &dyn Display| {
            // Writing to a string does not fail.
            let _ = write!(text, "{name}={value}; ");
        };
        put("# data blocks", &sum.num_data_blocks);
        put("# data blocks compression rejected", &sum.num_data_blocks_compression_rejected);
        put("# data blocks compression bypassed", &sum.num_data_blocks_compression_bypassed);
        put("# uniform blocks", &sum.num_uniform_blocks);
        put("# entries", &sum.num_entries);
        put("# deletions", &sum.num_deletions);
        put("# merge operands", &sum.num_merge_operands);
        put("# range deletions", &sum.num_range_deletions);
        put("raw key size", &sum.raw_key_size);
        put("raw average key size", &format!("{:.6}", average(sum.raw_key_size)));
        put("raw value size", &sum.raw_value_size);
        put("raw average value size", &format!("{:.6}", average(sum.raw_value_size)));
        put("data block size", &sum.data_size);
        // Always 0: RocksDB knows this size only for tables that it has just written; no table
        // records it.
        put("data uncompressed size", &0);
        let index = format!(
            "index block size (user-key? {}, delta-value? {})",
            self.user_keys, self.delta_values
        );
        put(&index, &sum.index_size);
        if sum.index_partitions > 0 {
            put("# index partitions", &sum.index_partitions);
            put("top-level index size", &sum.top_level_index_size);
        }
        put("filter block size", &sum.filter_size);
        put("# entries for filter", &sum.num_filter_entries);
        put("(estimated) table size", &(sum.data_size + sum.index_size + sum.filter_size));
        for (name, value) in NOTHING {
            match name {
                SLOW => put(name, &sum.slow_compression_estimated_data_size),
                FAST => put(name, &sum.fast_compression_estimated_data_size),
                _ => put(name, &value),
            }
        }
        text
    }
}
