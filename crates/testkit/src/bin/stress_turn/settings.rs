//! The options with which the program opens the database. The first round uses the options of the
//! database's OPTIONS file; later rounds override some of them. No override changes the contents of
//! the database.

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;

use tailwater::{CustomMergeOperator, Db, MergeOperator, OpenOptions};

use crate::extra::EXTRA_FAMILY;
use crate::text;

/// Overrides of the options of the database. Each line is a list of alternatives, from which a
/// round chooses one at random. An empty alternative overrides nothing.
const OF_DATABASE: [&[&str]; 19] = [
    &["", "max_open_files=-1", "max_open_files=50"],
    &["", "max_background_jobs=1", "max_background_jobs=4"],
    &["", "max_background_flushes=1", "max_background_flushes=4"],
    &["", "max_subcompactions=1", "max_subcompactions=4"],
    &["", "avoid_flush_during_recovery=true", "avoid_flush_during_recovery=false"],
    &["", "avoid_flush_during_shutdown=true", "avoid_flush_during_shutdown=false"],
    &["", "", "atomic_flush=true;enable_pipelined_write=false;unordered_write=false"],
    &["", "manual_wal_flush=true", "manual_wal_flush=false"],
    &["", "wal_compression=kZSTD", "wal_compression=kNoCompression"],
    &["", "", "recycle_log_file_num=2"],
    &["", "", "track_and_verify_wals=true"],
    &["", "max_total_wal_size=100000"],
    &["", "max_manifest_file_size=1000;max_manifest_space_amp_pct=0"],
    &["", "db_write_buffer_size=200000"],
    &["", "use_direct_reads=true;allow_mmap_reads=false"],
    &["", "use_direct_io_for_compaction_reads=true;allow_mmap_reads=false"],
    &["", "use_direct_io_for_flush_and_compaction=true"],
    &["", "wal_io_mode=buffered", "wal_io_mode=direct", "wal_io_mode=auto"],
    &["", "wal_preallocation_block_size=0", "wal_preallocation_block_size=65536"],
];

/// Overrides of the options of all column families, in the form of [`OF_DATABASE`].
const OF_FAMILY: [&[&str]; 12] = [
    &["", "write_buffer_size=65536", "write_buffer_size=1000000"],
    &["", "level0_file_num_compaction_trigger=1", "level0_file_num_compaction_trigger=3"],
    &["", "target_file_size_base=20000", "target_file_size_base=1000000"],
    &["", "max_bytes_for_level_base=100000", "max_bytes_for_level_base=1000000"],
    &[
        "",
        "level_compaction_dynamic_level_bytes=true",
        "level_compaction_dynamic_level_bytes=false",
    ],
    &["", "compression=kNoCompression", "compression=kSnappyCompression", "compression=kZSTD"],
    &[
        "",
        "compression=kLZ4Compression",
        "compression=kLZ4HCCompression",
        "compression=kZlibCompression",
    ],
    &["", "bottommost_compression=kZSTD", "bottommost_compression=kNoCompression"],
    &["", "compression_opts={level=1}", "compression_opts={level=9}"],
    &["", "memtable_max_range_deletions=3"],
    &["", "min_write_buffer_number_to_merge=2;max_write_buffer_number=5"],
    &["", "paranoid_file_checks=true"],
];

/// Overrides of the options of tables, in the form of [`OF_DATABASE`].
const OF_TABLE: [&[&str]; 9] = [
    &["format_version=5", "format_version=6", "format_version=7"],
    &["", "block_size=1000", "block_size=16384"],
    &["", "block_restart_interval=1", "block_restart_interval=16"],
    &["", "index_block_restart_interval=4"],
    &["", "checksum=kCRC32c", "checksum=kxxHash64", "checksum=kXXH3"],
    &[
        "",
        "filter_policy=nullptr",
        "filter_policy=bloomfilter:10:false",
        "filter_policy=ribbonfilter:10",
    ],
    &["", "data_block_index_type=kDataBlockBinaryAndHash"],
    &["", "index_shortening=kNoShortening", "index_shortening=kShortenSeparatorsAndSuccessor"],
    &[
        "",
        "cache_index_and_filter_blocks=true;no_block_cache=false",
        "no_block_cache=true;cache_index_and_filter_blocks=false",
    ],
];

/// Options of a column family to change while the database is open, with their possible values. The
/// values of `level0_file_num_compaction_trigger` are at most 4, because a value above
/// `max_read_amp` is rejected, and 4 is the smallest `max_read_amp` that db_crashtest.py chooses.
const WHILE_OPEN: [(&str, &[&str]); 7] = [
    ("write_buffer_size", &["65536", "300000", "4000000"]),
    ("level0_file_num_compaction_trigger", &["1", "2", "4"]),
    ("target_file_size_base", &["20000", "2000000"]),
    ("max_bytes_for_level_base", &["100000", "10000000"]),
    ("compression", &["kNoCompression", "kLZ4Compression", "kZSTD"]),
    ("disable_auto_compactions", &["true", "false", "false"]),
    ("block_based_table_factory", &["{format_version=5}", "{format_version=7;block_size=2000}"]),
];

/// The merge operator of `db_stress` for databases with entities: the newest operand replaces the
/// value or entity. RocksDB's operator also converts some operands to entities, but `db_stress`
/// never merges such operands.
struct NewestOperand;

impl CustomMergeOperator for NewestOperand {
    fn name(&self) -> &str {
        "DBStressWideMergeOperator"
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        operands.last().map(|operand| operand.to_vec())
    }

    fn keeps_entity_columns(&self) -> bool {
        false
    }
}

/// Returns the options of a database's OPTIONS file, overridden by the option string `given`.
pub(crate) fn of_directory(directory: &Path, given: Option<&str>) -> Result<OpenOptions, String> {
    let mut options = OpenOptions::load(directory).map_err(text("reading the options"))?;
    options.add_merge_operator(MergeOperator::Custom(Arc::new(NewestOperand)));
    let mut names = Db::list_cf(directory, &options)
        .map_err(text("reading the names of the column families"))?;
    // A killed run may have left the extra family, which has no options here. The first round drops
    // it.
    names.retain(|name| name != EXTRA_FAMILY);
    let recorded: Vec<String> = options.column_families().map(str::to_owned).collect();
    for name in recorded.iter().filter(|name| !names.contains(name)) {
        options.remove_column_family(name);
    }
    let database = options.database_mut();
    database.create_if_missing = false;
    database.error_if_exists = false;
    database.create_missing_column_families = false;
    // db_stress may change `block_size` to any number in an open database with aligned blocks.
    // RocksDB records the new size. After that, neither RocksDB nor Tailwater opens the database
    // with the recorded options, because the size of an aligned block must be a power of two.
    for name in &names {
        let mut family = options.column_family(name).clone();
        let table = &mut family.table_factory;
        if table.block_align && !table.block_size.is_power_of_two() {
            table.block_align = false;
            options.set_column_family(name, family);
        }
    }
    if let Some(given) = given {
        options.set_from_string(given).map_err(text(given))?;
    }
    Ok(options)
}

/// Returns whether any column family aligns blocks. Aligned blocks cannot be compressed, and their
/// size must be a power of two.
fn aligns_blocks(options: &OpenOptions) -> bool {
    let mut families = options.column_families().map(|name| options.column_family(name));
    families.any(|family| family.table_factory.block_align)
}

/// Returns the options `own` with random overrides, and the overrides as text. The overrides always
/// turn off `block_align`, because one of them may turn on compression.
pub(crate) fn other(own: &OpenOptions, rng: &mut Rng) -> Result<(OpenOptions, String), String> {
    let tables = choose(&OF_TABLE, rng);
    let text = format!(
        "{};{};block_based_table_factory={{{tables};block_align=false}}",
        choose(&OF_DATABASE, rng),
        choose(&OF_FAMILY, rng)
    );
    let mut options = own.clone();
    options.set_from_string(&text).map_err(|error| format!("setting {text}: {error}"))?;
    Ok((options, text))
}

/// Returns the name and the value of an option to change in a column family while the database is
/// open with `options`.
pub(crate) fn change(options: &OpenOptions, rng: &mut Rng) -> (&'static str, &'static str) {
    let is_of_blocks = |name| matches!(name, "compression" | "block_based_table_factory");
    loop {
        let (name, values) = WHILE_OPEN[rng.usize(..WHILE_OPEN.len())];
        if !(is_of_blocks(name) && aligns_blocks(options)) {
            return (name, values[rng.usize(..values.len())]);
        }
    }
}

/// Returns one random alternative of each line, all joined to one option string.
fn choose(lines: &[&[&str]], rng: &mut Rng) -> String {
    let choices = lines.iter().map(|choices| choices[rng.usize(..choices.len())]);
    choices.filter(|choice| !choice.is_empty()).collect::<Vec<_>>().join(";")
}
