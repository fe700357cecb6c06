//! Groups of options that stand in one option of a column family.

use tailwater_format::version_edit::Temperature;

use super::choice::StopStyle;
use super::error::{Error, Result};
use super::value::OptionValue;

const NO_DICTIONARIES: &str = "tables are written without dictionaries";
const NO_TIERS: &str = "files are not sorted by temperature";
const NOTHING_DROPPED: &str = "nothing is dropped, and what is above it stalls writes";
/// Of styles other than leveled.
pub(super) const ONLY_BY_HAND: &str = "databases of this style are compacted only by hand";

option_table! {
    /// How blocks are compressed.
    pub struct CompressionOptions {
        /// Puts a checksum into zstd's frames.
        checksum: bool = false, Mutable, Honoured;
        /// How many bytes of data are held back to make a dictionary of; 0 goes by the table's
        /// size.
        max_dict_buffer_bytes: u64 = 0, Mutable, NoEffect(NO_DICTIONARIES);
        /// For the last level: these options count there, instead of those for all levels.
        enabled: bool = false, Mutable, Honoured;
        /// How large a table's dictionary may be, in bytes; 0 means none is made.
        max_dict_bytes: u32 = 0, Mutable, NoEffect(NO_DICTIONARIES);
        /// How large a compressed block may be, in bytes for each KiB before; larger ones are not
        /// compressed.
        max_compressed_bytes_per_kb: i32 = 896, Mutable, Honoured;
        /// How many threads compress the blocks of one table.
        parallel_threads: u32 = 1, Mutable,
            NoEffect("a table's blocks are compressed one after the other");
        /// How much data zstd's trainer sees, in bytes; 0 makes the dictionary of samples as they
        /// are.
        zstd_max_train_bytes: u32 = 0, Mutable, NoEffect(NO_DICTIONARIES);
        /// The level of effort; 32767 is the algorithm's own default. With a level that zlib does
        /// not have (-1 to 9) blocks are stored as they are; zstd and LZ4 take the nearest.
        level: i32 = 32_767, Mutable, Honoured;
        /// Lets zstd's trainer make the dictionary, instead of its finisher.
        use_zstd_dict_trainer: bool = true, Mutable, NoEffect(NO_DICTIONARIES);
        /// zlib's strategy.
        strategy: i32 = 0, Mutable, NoEffect("zlib's own strategy is taken");
        /// zlib's window, as a power of two; negative means without zlib's head.
        window_bits: i32 = -14, Mutable, NoEffect("zlib's window has 14 bits, without a head");
    }
    elsewhere {}
    other_names {}
    retired {}
}

group_value!(CompressionOptions, set_without_names);

/// The older form, values in a fixed order with colons between them: window bits, level, strategy,
/// then from none to all of dictionary bytes, training bytes, threads, whether enabled, buffer
/// bytes, trainer. Threads are left out where enabled is the last.
fn set_without_names(options: &mut CompressionOptions, text: &str) -> Result<()> {
    let malformed = || Error::malformed(text, "3 to 9 values with colons between them");
    let values: Vec<&str> = text.split(':').collect();
    let mut targets: Vec<&mut dyn OptionValue> = vec![
        &mut options.window_bits,
        &mut options.level,
        &mut options.strategy,
        &mut options.max_dict_bytes,
        &mut options.zstd_max_train_bytes,
    ];
    if values.len() != 6 {
        targets.push(&mut options.parallel_threads);
    }
    targets.extend([
        &mut options.enabled as &mut dyn OptionValue,
        &mut options.max_dict_buffer_bytes,
        &mut options.use_zstd_dict_trainer,
    ]);
    if values.len() < 3 || values.len() > targets.len() {
        return Err(malformed());
    }
    for (target, value) in targets.into_iter().zip(values) {
        target.set(value)?;
    }
    Ok(())
}

option_table! {
    /// From which age on files get a temperature.
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
    /// How FIFO compaction drops tables.
    pub struct FifoCompactionOptions {
        /// Chooses how large tables become by the share of blobs in the data.
        use_kv_ratio_compaction: bool = false, Mutable, NoEffect(ONLY_BY_HAND);
        /// How many bytes tables and blob files may take together; 0 goes by tables alone.
        max_data_files_size: u64 = 0, Mutable, NoEffect(NOTHING_DROPPED);
        /// The buffer for copying a file, in bytes.
        trivial_copy_buffer_size: u64 = 4096, Mutable, NoEffect(ONLY_BY_HAND);
        /// Copies files whose temperature changes as they are.
        allow_trivial_copy_when_change_temperature: bool = false, Mutable, NoEffect(ONLY_BY_HAND);
        /// From which ages on files get which temperatures.
        file_temperature_age_thresholds: Vec<FileTemperatureAge> = Vec::new(), Mutable,
            NoEffect(NO_TIERS);
        /// Compacts small tables of level 0 into larger ones.
        allow_compaction: bool = false, Mutable, NoEffect(ONLY_BY_HAND);
        /// The age in seconds from which files were once made warm; 0 means none.
        age_for_warm: u64 = 0, Mutable, NoEffect("ages and temperatures stand in their own list");
        /// How many bytes tables may take before the oldest is dropped.
        max_table_files_size: u64 = 1 << 30, Mutable, NoEffect(NOTHING_DROPPED);
    }
    elsewhere {}
    other_names {}
    retired { "ttl" }
}

group_value!(FifoCompactionOptions, |options, text| { options.max_table_files_size.set(text) });

option_table! {
    /// How universal compaction chooses sorted runs.
    pub struct UniversalCompactionOptions {
        /// Locks only the files that a compaction reads.
        reduce_file_locking: bool = true, Mutable, NoEffect(ONLY_BY_HAND);
        /// Compacts a part of the runs at a time.
        incremental: bool = false, Mutable, NoEffect(ONLY_BY_HAND);
        /// How much of the data is compressed, in percent from the oldest on; -1 means all.
        compression_size_percent: i32 = -1, Mutable, Honoured;
        /// Moves tables that overlap with nothing, instead of writing them anew.
        allow_trivial_move: bool = false, Mutable, NoEffect(ONLY_BY_HAND);
        /// How much larger than the oldest run all others may become, in percent, before all are
        /// merged.
        max_size_amplification_percent: u32 = 200, Mutable, NoEffect(ONLY_BY_HAND);
        /// How many runs are merged at a time, at most.
        max_merge_width: u32 = u32::MAX, Mutable, NoEffect(ONLY_BY_HAND);
        /// When no more runs are added to a merge.
        stop_style: StopStyle = StopStyle::TotalSize, Mutable, NoEffect(ONLY_BY_HAND);
        /// How many runs are merged at a time, at least.
        min_merge_width: u32 = 2, Mutable, NoEffect(ONLY_BY_HAND);
        /// How many runs there may be; -1 goes by the trigger of level 0, 0 means any number.
        max_read_amp: i32 = -1, Mutable, NoEffect(ONLY_BY_HAND);
        /// How much larger the next run may be to be of similar size, in percent.
        size_ratio: u32 = 1, Mutable, NoEffect(ONLY_BY_HAND);
    }
    elsewhere {}
    other_names {}
    retired {}
}

group_value!(UniversalCompactionOptions, |_, text| {
    Err(Error::malformed(text, "a group of options"))
});
