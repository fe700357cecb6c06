//! Groups of options. Each group is the value of a single column-family option, such as
//! `compression_opts`.

use tailwater_format::version_edit::Temperature;

use super::choice::StopStyle;
use super::error::{Error, Result};
use super::schema::OptionTable;

const NO_DICTIONARIES: &str = "tables are written without dictionaries";
const NO_TIERS: &str = "files are not sorted by temperature";
const NOTHING_DROPPED: &str = "nothing is dropped, and a larger size stalls writes";
/// Reason why options of universal and FIFO compaction have no effect.
pub(super) const ONLY_BY_HAND: &str = "databases of this style are only compacted manually";

option_table! {
    /// Compression parameters of blocks.
    pub struct CompressionOptions {
        /// Adds a checksum to zstd frames.
        checksum: bool = false, Mutable, Honoured;
        /// Maximum amount of data buffered to build a dictionary, in bytes; 0 derives it from the
        /// table's size.
        max_dict_buffer_bytes: u64 = 0, Mutable, NoEffect(NO_DICTIONARIES);
        /// For the last level: these options apply there, instead of those for all levels.
        enabled: bool = false, Mutable, Honoured;
        /// Maximum size of a table's dictionary, in bytes; 0 means no dictionary.
        max_dict_bytes: u32 = 0, Mutable, NoEffect(NO_DICTIONARIES);
        /// Maximum size of a compressed block, in bytes per KiB of uncompressed data; blocks that
        /// would be larger are stored uncompressed.
        max_compressed_bytes_per_kb: i32 = 896, Mutable, Honoured;
        /// Number of threads that compress the blocks of one table.
        parallel_threads: u32 = 1, Mutable,
            NoEffect("a table's blocks are compressed one at a time");
        /// Amount of training data for zstd's dictionary trainer, in bytes; 0 makes the dictionary
        /// from raw samples.
        zstd_max_train_bytes: u32 = 0, Mutable, NoEffect(NO_DICTIONARIES);
        /// Compression level; 32767 is the algorithm's default. If the level is outside zlib's
        /// range (-1 to 9), zlib's blocks are stored uncompressed; zstd and LZ4 use the nearest
        /// level.
        level: i32 = 32_767, Mutable, Honoured;
        /// Builds the dictionary with zstd's trainer, instead of `ZDICT_finalizeDictionary`.
        use_zstd_dict_trainer: bool = true, Mutable, NoEffect(NO_DICTIONARIES);
        /// zlib's strategy.
        strategy: i32 = 0, Mutable, NoEffect("zlib's default strategy is used");
        /// zlib's window size, as a power of two; a negative number omits zlib's header.
        window_bits: i32 = -14, Mutable, NoEffect("zlib's window has 14 bits, without a header");
    }
    elsewhere {}
    other_names {}
    retired {}
}

group_value!(CompressionOptions, set_without_names);

/// Parses RocksDB's older form of the option, in which values have no names. They are separated by
/// colons, in this order: window bits, level, strategy, and then optionally dictionary bytes,
/// training bytes, threads, `enabled`, buffer bytes, trainer. If there are exactly six values, the
/// sixth is `enabled`, because the threads are omitted.
fn set_without_names(options: &mut CompressionOptions, text: &str) -> Result<()> {
    let malformed = || Error::malformed(text, "3 to 9 values separated by colons");
    let values: Vec<&str> = text.split(':').collect();
    let mut names =
        vec!["window_bits", "level", "strategy", "max_dict_bytes", "zstd_max_train_bytes"];
    if values.len() != 6 {
        names.push("parallel_threads");
    }
    names.extend(["enabled", "max_dict_buffer_bytes", "use_zstd_dict_trainer"]);
    if values.len() < 3 || values.len() > names.len() {
        return Err(malformed());
    }
    for (name, value) in names.iter().zip(values) {
        if let Some(info) = CompressionOptions::table().iter().find(|info| info.name == *name) {
            (info.set)(options, value)?;
        }
    }
    Ok(())
}

option_table! {
    /// The age from which files get a temperature.
    pub struct FileTemperatureAge {
        /// The age in seconds.
        age: u64 = 0, Mutable, NoEffect(NO_TIERS);
        /// The temperature.
        temperature: Temperature = Temperature::UNKNOWN, Mutable, NoEffect(NO_TIERS);
    }
    elsewhere {}
    other_names {}
    retired {}
}

group_value!(FileTemperatureAge, |_, text| Err(Error::malformed(text, "a group of options")));

option_table! {
    /// Options of FIFO compaction, which drops the oldest tables.
    pub struct FifoCompactionOptions {
        /// Derives table sizes from the ratio of keys to blobs in the data.
        use_kv_ratio_compaction: bool = false, Mutable, NoEffect(ONLY_BY_HAND);
        /// Maximum total size of tables and blob files, in bytes; 0 limits tables only.
        max_data_files_size: u64 = 0, Mutable, NoEffect(NOTHING_DROPPED);
        /// Size of the buffer for copying a file, in bytes.
        trivial_copy_buffer_size: u64 = 4096, Mutable, NoEffect(ONLY_BY_HAND);
        /// Copies files whose temperature changes, without rewriting their contents.
        allow_trivial_copy_when_change_temperature: bool = false, Mutable, NoEffect(ONLY_BY_HAND);
        /// Ages from which files get a given temperature.
        file_temperature_age_thresholds: Vec<FileTemperatureAge> = Vec::new(), Mutable,
            NoEffect(NO_TIERS);
        /// Compacts small tables of level 0 into larger ones.
        allow_compaction: bool = false, Mutable, NoEffect(ONLY_BY_HAND);
        /// Age from which older versions of RocksDB regard files as warm, in seconds; 0 means
        /// never.
        age_for_warm: u64 = 0, Mutable, NoEffect("file_temperature_age_thresholds replaces it");
        /// Total size of tables above which the oldest is dropped, in bytes.
        max_table_files_size: u64 = 1 << 30, Mutable, NoEffect(NOTHING_DROPPED);
    }
    elsewhere {}
    other_names {}
    retired { "ttl" }
}

group_value!(FifoCompactionOptions, |options, text| { options.max_table_files_size.set(text) });

option_table! {
    /// Options of universal compaction, which merges sorted runs of similar size.
    pub struct UniversalCompactionOptions {
        /// Locks only the files that a compaction reads.
        reduce_file_locking: bool = true, Mutable, NoEffect(ONLY_BY_HAND);
        /// Compacts the runs incrementally.
        incremental: bool = false, Mutable, NoEffect(ONLY_BY_HAND);
        /// Share of the data that is compressed, in percent, starting from the oldest; -1 means
        /// all.
        compression_size_percent: i32 = -1, Mutable, Honoured;
        /// Moves tables that do not overlap, instead of rewriting them.
        allow_trivial_move: bool = false, Mutable, NoEffect(ONLY_BY_HAND);
        /// Size of all other runs relative to the oldest run, in percent, above which all are
        /// merged.
        max_size_amplification_percent: u32 = 200, Mutable, NoEffect(ONLY_BY_HAND);
        /// Maximum number of runs merged at a time.
        max_merge_width: u32 = u32::MAX, Mutable, NoEffect(ONLY_BY_HAND);
        /// Criterion for adding no more runs to a merge.
        stop_style: StopStyle = StopStyle::TotalSize, Mutable, NoEffect(ONLY_BY_HAND);
        /// Minimum number of runs merged at a time.
        min_merge_width: u32 = 2, Mutable, NoEffect(ONLY_BY_HAND);
        /// Maximum number of runs; -1 means `level0_file_num_compaction_trigger`, 0 means no limit.
        max_read_amp: i32 = -1, Mutable, NoEffect(ONLY_BY_HAND);
        /// Tolerance within which the next run counts as similar in size, in percent.
        size_ratio: u32 = 1, Mutable, NoEffect(ONLY_BY_HAND);
    }
    elsewhere {}
    other_names {}
    retired {}
}

group_value!(UniversalCompactionOptions, |_, text| {
    Err(Error::malformed(text, "a group of options"))
});
