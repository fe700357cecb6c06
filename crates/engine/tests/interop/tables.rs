//! Tables with many combinations of options. For every two options, each pair of their values
//! occurs in some table.

use crate::workload::{self, Plan};
use crate::{in_laboratory, pairwise};
use tailwater_testkit::oracle::Script;

/// Whether an option is one of a database, of a column family, or of the tables of a column family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Family,
    Table,
}

use Scope::{Family, Table};

/// Options to combine: the scope of each, and its values to try. An empty text leaves the option at
/// RocksDB's default.
const FACTORS: [(Scope, &[&str]); 21] = [
    (
        Family,
        &[
            "compression=kNoCompression",
            "compression=kSnappyCompression",
            "compression=kZlibCompression",
            "compression=kBZip2Compression",
            "compression=kLZ4Compression",
            "compression=kLZ4HCCompression",
            "compression=kZSTD",
            "compression=kZSTD;compression_opts={max_dict_bytes=4096;zstd_max_train_bytes=65536}",
            "compression=kZSTD;compression_opts={max_dict_bytes=2048;use_zstd_dict_trainer=false}",
            "compression=kLZ4Compression;compression_opts={max_dict_bytes=4096}",
            "compression=kZlibCompression;compression_opts={max_dict_bytes=4096}",
        ],
    ),
    (Family, &["", "comparator=rocksdb.ReverseBytewiseComparator"]),
    (
        Family,
        &[
            "",
            "prefix_extractor=fixed:6",
            "prefix_extractor=capped:7",
            "prefix_extractor=rocksdb.Noop",
        ],
    ),
    (Family, &["", "compression_opts={parallel_threads=3}"]),
    (
        Table,
        &["checksum=kNoChecksum", "checksum=kCRC32c", "checksum=kxxHash", "checksum=kxxHash64", ""],
    ),
    (
        Table,
        &[
            "",
            "filter_policy=bloomfilter:10:false",
            "filter_policy=bloomfilter:3.5:false",
            "filter_policy=ribbonfilter:10",
            "filter_policy=bloomfilter:10;partition_filters=true;index_type=kTwoLevelIndexSearch",
            "filter_policy=ribbonfilter:8;partition_filters=true;index_type=kTwoLevelIndexSearch",
        ],
    ),
    (Table, &["", "whole_key_filtering=false"]),
    (Table, &["", "decouple_partitioned_filters=false"]),
    (Table, &["", "optimize_filters_for_memory=false"]),
    (
        Table,
        &[
            "",
            "index_type=kHashSearch",
            "index_type=kTwoLevelIndexSearch",
            "index_type=kBinarySearchWithFirstKey",
        ],
    ),
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
            "block_restart_interval=32",
        ],
    ),
    (Table, &["", "index_block_restart_interval=3", "index_block_restart_interval=16"]),
    (
        Table,
        &[
            "format_version=2",
            "format_version=3",
            "format_version=4",
            "format_version=5",
            "format_version=6",
            "format_version=7",
        ],
    ),
    (Table, &["", "data_block_index_type=kDataBlockBinaryAndHash"]),
    (Table, &["block_size=64", "block_size=1024", "block_size=4096", "block_size=65536"]),
    (Table, &["", "block_align=true", "super_block_alignment_size=16384"]),
    (Table, &["", "separate_key_value_in_data_block=true"]),
    (
        Table,
        &[
            "",
            "uniform_cv_threshold=0.5;index_block_search_type=kAuto",
            "uniform_cv_threshold=1000",
            "index_block_search_type=kInterpolation",
        ],
    ),
    (Table, &["", "use_delta_encoding=false", "enable_index_compression=false"]),
    (Table, &["metadata_block_size=128", ""]),
];

/// Number of column families in each database.
const FAMILIES: usize = 12;
/// Number of writes to each column family.
const WRITES: usize = 700;

/// Returns the options of a column family. `choice` has the index of the chosen value for each
/// entry of [`FACTORS`]. A chosen option that contradicts another one is replaced or left out.
fn family_options(choice: &[usize]) -> String {
    let chosen = |scope: Scope| -> Vec<&str> {
        let values = FACTORS.iter().zip(choice).filter(|((of, _), _)| *of == scope);
        values.map(|((_, values), &at)| values[at]).filter(|value| !value.is_empty()).collect()
    };
    let (mut family, mut table) = (chosen(Family), chosen(Table));
    let has = |options: &[&str], part: &str| options.iter().any(|option| option.contains(part));
    if has(&table, "partition_filters") {
        table.retain(|option| !option.starts_with("index_type"));
    }
    if has(&table, "kHashSearch") && !has(&family, "prefix_extractor") {
        family.push("prefix_extractor=fixed:6");
    }
    if has(&table, "kInterpolation") {
        family.retain(|option| !option.starts_with("comparator"));
    }
    if has(&table, "block_align") {
        family.retain(|option| !option.starts_with("compression="));
        family.push("compression=kNoCompression");
    }
    if has(&family, "compression_opts={max") {
        family.retain(|option| !option.contains("parallel_threads"));
    }
    table.push("block_cache=1000000");
    format!(
        "{};disable_auto_compactions=true;block_based_table_factory={{{}}}",
        family.join(";"),
        table.join(";")
    )
}

#[test]
fn tables_of_every_shape() {
    in_laboratory("tables of every shape", |laboratory| {
        let sizes: Vec<usize> = FACTORS.iter().map(|(_, values)| values.len()).collect();
        let choices = pairwise::combinations(&sizes, &mut laboratory.rng);
        let options: Vec<String> = choices.iter().map(|choice| family_options(choice)).collect();
        for group in options.chunks(FAMILIES) {
            let names: Vec<String> = (0..group.len()).map(|at| format!("shape{at}")).collect();
            let families: Vec<(&str, &str)> = names
                .iter()
                .zip(group)
                .map(|(name, options)| (name.as_str(), options.as_str()))
                .collect();
            let plans: Vec<Plan<'_>> =
                families.iter().map(|family| Plan { ranges: 4, ..Plan::new(*family) }).collect();
            let path = laboratory.next_directory();
            let mut script = Script::open(&path, "", &families);
            workload::write(&mut script, &mut laboratory.rng, &plans, WRITES * plans.len());
            for name in &names {
                script.flush(name);
            }
            laboratory.compare(&path, script, &format!("families {families:#?}"), |_| {});
        }
    });
}
