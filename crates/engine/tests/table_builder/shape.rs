//! The options with which the tables are written.

use fastrand::Rng;

use crate::pairwise;

/// Whether an option belongs to the column family itself or to its table format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Family,
    Table,
}

use Scope::{Family, Table};

/// The scope of each option and its values to try. An empty text leaves the option at its default.
const FACTORS: [(Scope, &[&str]); 20] = [
    (
        Family,
        &[
            "compression=kNoCompression",
            "compression=kSnappyCompression",
            "compression=kZlibCompression",
            "compression=kBZip2Compression",
            "compression=kLZ4Compression",
            "compression=kLZ4Compression;compression_opts={level=-7}",
            "compression=kLZ4HCCompression",
            "compression=kZSTD",
            "compression=kZSTD;compression_opts={level=7;checksum=true}",
            "compression=kZSTD;compression_opts={max_compressed_bytes_per_kb=300}",
            "compression=kZSTD;compression_opts={max_compressed_bytes_per_kb=0}",
        ],
    ),
    (Family, &["", "comparator=rocksdb.ReverseBytewiseComparator"]),
    (
        Family,
        &[
            "",
            "prefix_extractor=fixed:4",
            "prefix_extractor=capped:5",
            "prefix_extractor=rocksdb.Noop",
        ],
    ),
    (
        Table,
        &["checksum=kNoChecksum", "checksum=kCRC32c", "checksum=kxxHash", "checksum=kxxHash64", ""],
    ),
    (
        Table,
        &[
            "",
            "filter_policy=bloomfilter:10",
            "filter_policy=bloomfilter:3.5",
            "filter_policy=bloomfilter:0.3",
            "filter_policy=ribbonfilter:10",
            "filter_policy=rocksdb.BuiltinBloomFilter",
        ],
    ),
    (Table, &["", "whole_key_filtering=false"]),
    (Table, &["", "detect_filter_construct_corruption=true"]),
    (
        Table,
        &["", "index_shortening=kNoShortening", "index_shortening=kShortenSeparatorsAndSuccessor"],
    ),
    (
        Table,
        &[
            "",
            "block_restart_interval=1",
            "block_restart_interval=2",
            "block_restart_interval=7",
            "block_restart_interval=300",
        ],
    ),
    (Table, &["", "index_block_restart_interval=3", "index_block_restart_interval=16"]),
    (Table, &["format_version=5", "format_version=6", "format_version=7"]),
    (Table, &["", "data_block_index_type=kDataBlockBinaryAndHash"]),
    (Table, &["", "data_block_hash_table_util_ratio=0.4"]),
    (Table, &["block_size=64", "block_size=1024", "block_size=4096", "block_size=65536"]),
    (Table, &["", "block_size_deviation=0", "block_size_deviation=60", "block_size_deviation=100"]),
    (Table, &["", "block_align=true"]),
    (Table, &["", "use_delta_encoding=false"]),
    (Table, &["", "enable_index_compression=false"]),
    (Table, &["", "verify_compression=true"]),
    (Table, &["", "decouple_partitioned_filters=false"]),
];

/// Returns option strings for column families. For every two options, each pair of their values
/// occurs in some string.
pub(crate) fn all(rng: &mut Rng) -> Vec<String> {
    let sizes: Vec<usize> = FACTORS.iter().map(|(_, values)| values.len()).collect();
    pairwise::combinations(&sizes, rng).iter().map(|choice| family_options(choice)).collect()
}

/// Returns the options of a column family. `choice` has the index of the chosen value for each
/// entry of [`FACTORS`]. A chosen option that contradicts another one is replaced or left out.
fn family_options(choice: &[usize]) -> String {
    let chosen = |scope: Scope| -> Vec<&str> {
        let values = FACTORS.iter().zip(choice).filter(|((of, _), _)| *of == scope);
        values.map(|((_, values), &at)| values[at]).filter(|value| !value.is_empty()).collect()
    };
    let (mut family, table) = (chosen(Family), chosen(Table));
    if table.contains(&"block_align=true") {
        family.retain(|option| !option.starts_with("compression="));
        family.push("compression=kNoCompression");
    }
    format!(
        "{};merge_operator=stringappend;disable_auto_compactions=true;\
         block_based_table_factory={{{};block_cache=1000000}}",
        family.join(";"),
        table.join(";")
    )
}
