//! Random options for a database. They must not affect the results of any read.

use std::sync::Arc;

use fastrand::Rng;
use tailwater::options::{BlockBasedTableOptions, ColumnFamilyOptions, DbOptions, OptionTable};
use tailwater::{
    CompactionFilter, CustomCompactionFilter, FilterContext, FilterDecision, FilteredValue,
    OpenOptions,
};
use tailwater_format::Comparator;
use tailwater_io::sim::SimStorage;

use crate::history::{FAMILIES, History};
use crate::io_modes::{self, Disk, IoModes};
use crate::shared::{Room, SharedObjects};

/// The options that every database and every column family has. With these, no write waits for a
/// compaction. The wait could last forever, since the tests may pause or disable compactions.
const DATABASE: &str = "create_if_missing=true;create_missing_column_families=true";
const FAMILY: &str = "merge_operator=StringAppendOperator;write_buffer_size=65536;\
    level0_slowdown_writes_trigger=1000000;level0_stop_writes_trigger=1000000;\
    soft_pending_compaction_bytes_limit=0;hard_pending_compaction_bytes_limit=0";

/// Options of a database. One string of each inner list is chosen at random. In this and the
/// following lists, an empty string leaves the options at their defaults.
const OF_DATABASE: [&[&str]; 14] = [
    &["max_open_files=-1", "max_open_files=20"],
    &["max_background_jobs=1", "max_background_jobs=2", "max_background_jobs=4"],
    &["max_subcompactions=1", "max_subcompactions=2", "max_subcompactions=4"],
    &["", "max_background_flushes=2", "max_background_flushes=4"],
    &["", "avoid_flush_during_recovery=true"],
    &["", "", "avoid_flush_during_shutdown=true"],
    &["", "", "atomic_flush=true"],
    &["", "", "manual_wal_flush=true"],
    &["", "", "wal_compression=kZSTD"],
    &["", "", "recycle_log_file_num=2"],
    &["", "max_total_wal_size=8000"],
    &["", "max_manifest_file_size=1000;max_manifest_space_amp_pct=0"],
    &["", "", "db_write_buffer_size=40000"],
    &["", "", "enable_pipelined_write=false;allow_concurrent_memtable_write=false"],
];

/// Options of a column family. One string of each inner list is chosen at random.
const OF_FAMILY: [&[&str]; 28] = [
    &[
        "level0_file_num_compaction_trigger=1",
        "level0_file_num_compaction_trigger=2",
        "level0_file_num_compaction_trigger=4",
    ],
    &["target_file_size_base=500", "target_file_size_base=3000", "target_file_size_base=100000"],
    &["", "target_file_size_multiplier=3"],
    &["", "target_file_size_is_upper_bound=true"],
    &[
        "max_bytes_for_level_base=2000",
        "max_bytes_for_level_base=10000",
        "max_bytes_for_level_base=1000000",
    ],
    &["max_bytes_for_level_multiplier=2", "max_bytes_for_level_multiplier=10"],
    &["", "max_compaction_bytes=4000"],
    &["level_compaction_dynamic_level_bytes=true", "level_compaction_dynamic_level_bytes=false"],
    &[
        "compaction_pri=kMinOverlappingRatio",
        "compaction_pri=kByCompensatedSize",
        "compaction_pri=kOldestLargestSeqFirst",
        "compaction_pri=kOldestSmallestSeqFirst",
        "compaction_pri=kRoundRobin",
    ],
    &["", "", "", "disable_auto_compactions=true"],
    &["", "", "min_write_buffer_number_to_merge=3;max_write_buffer_number=6"],
    &["", "memtable_max_range_deletions=1", "memtable_max_range_deletions=3"],
    &[
        "",
        "memtable_prefix_bloom_size_ratio=0.1",
        "memtable_prefix_bloom_size_ratio=0.1;memtable_whole_key_filtering=true",
    ],
    &["", "prefix_extractor=fixed:4", "prefix_extractor=capped:5", "prefix_extractor=rocksdb.Noop"],
    &["", "optimize_filters_for_hits=true"],
    &["", "max_sequential_skip_in_iterations=0", "max_sequential_skip_in_iterations=1"],
    &["", "paranoid_file_checks=true"],
    &["", "bottommost_file_compaction_delay=100"],
    &["", "compaction_options_universal={allow_trivial_move=true}"],
    &[
        "compression=kNoCompression",
        "compression=kSnappyCompression",
        "compression=kLZ4Compression",
        "compression=kZSTD",
    ],
    &["", "bottommost_compression=kZSTD", "bottommost_compression=kNoCompression"],
    &["", "", "compression_per_level=kNoCompression:kSnappyCompression:kLZ4Compression"],
    &["arena_block_size=4096", "arena_block_size=16384"],
    &["", "memtable_huge_page_size=0", "report_bg_io_stats=true"],
    &["", "force_consistency_checks=false"],
    &["", "max_bytes_for_level_multiplier_additional=1:2:1"],
    &["", "", "compaction_filter=KeepsAll"],
    &["", "preserve_internal_time_seconds=300", "preserve_internal_time_seconds=5000"],
];

/// Directories in which a simulated disk may refuse direct I/O: everywhere, only in the home, or
/// only in the second directory for tables.
const DIRECTORIES: [&str; 3] = ["/", "/database", "/deeper"];

/// Two directories for tables. The first has a target size of only 3000 bytes.
const PATHS: &str = "cf_paths={/database,3000:/deeper}";

/// Ages in seconds at which a table is compacted. They are not used with FIFO compaction, which
/// would drop a table at that age.
const AGES: [&[&str]; 2] = [
    &["ttl=0", "ttl=50", "ttl=5000"],
    &["periodic_compaction_seconds=0", "periodic_compaction_seconds=700"],
];

/// Options of tables. One string of each inner list is chosen at random.
const OF_TABLE: [&[&str]; 12] = [
    &["block_size=64", "block_size=300", "block_size=4096"],
    &["block_restart_interval=1", "block_restart_interval=4", ""],
    &["", "index_block_restart_interval=3"],
    &["", "format_version=5", "format_version=6"],
    &["checksum=kNoChecksum", "checksum=kCRC32c", "checksum=kxxHash64", ""],
    &["", "filter_policy=bloomfilter:10:false", "filter_policy=ribbonfilter:10"],
    &["", "whole_key_filtering=false"],
    &["", "data_block_index_type=kDataBlockBinaryAndHash"],
    &["", "index_shortening=kNoShortening", "index_shortening=kShortenSeparatorsAndSuccessor"],
    &[
        "no_block_cache=true",
        "block_cache=3000",
        "block_cache=20000;cache_index_and_filter_blocks=true",
        "block_cache=1000000",
    ],
    &["", "use_delta_encoding=false"],
    &["", "enable_index_compression=false"],
];

/// A change of options while the database is open.
#[derive(Debug)]
pub(crate) enum OptionChange {
    OfDatabase(Vec<(&'static str, &'static str)>),
    OfFamily(Vec<(&'static str, &'static str)>),
}

impl OptionChange {
    /// Returns a random option change: one of the option strings in the lists above. All options in
    /// the string can be changed while a database is open.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        loop {
            let of_database = rng.u8(..4) == 0;
            let sizes = rng.u8(..3) == 0;
            let group: &[&[&str]] = match of_database {
                true if sizes => &io_modes::SIZES,
                true => &OF_DATABASE,
                false => &OF_FAMILY,
            };
            let of_table = !of_database && rng.u8(..3) == 0;
            let group = if of_table { &OF_TABLE } else { group };
            let choices = *rng.choice(group).expect("there are some");
            let text = *rng.choice(choices).expect("there are some");
            let changes: Vec<_> = text.split(';').filter_map(|it| it.split_once('=')).collect();
            let is_mutable = |(name, _): &(&str, &str)| match (of_database, of_table) {
                (true, _) => is_mutable::<DbOptions>(name),
                (_, true) => is_mutable::<BlockBasedTableOptions>(name),
                _ => is_mutable::<ColumnFamilyOptions>(name),
            };
            // With this option, closing the database would lose unlogged writes, which an earlier
            // step may have made.
            let loses = text.contains("avoid_flush_during_shutdown");
            if loses || changes.is_empty() || !changes.iter().all(is_mutable) {
                continue;
            }
            return match (of_database, of_table) {
                (true, _) => Self::OfDatabase(changes),
                (_, true) => Self::OfFamily(vec![("table_factory", text)]),
                _ => Self::OfFamily(changes),
            };
        }
    }
}

fn is_mutable<T: OptionTable>(name: &str) -> bool {
    T::table().iter().any(|info| info.name == name && info.mutability.is_mutable())
}

/// The compaction style of a column family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Level,
    Universal,
    Fifo,
}

impl Style {
    fn name(self) -> &'static str {
        match self {
            Self::Level => "kCompactionStyleLevel",
            Self::Universal => "kCompactionStyleUniversal",
            Self::Fifo => "kCompactionStyleFIFO",
        }
    }
}

/// A compaction filter that keeps every entry unchanged.
struct KeepsAll;

impl CustomCompactionFilter for KeepsAll {
    fn name(&self) -> &str {
        "KeepsAll"
    }

    fn filter(&self, _: &FilterContext, _: &[u8], _: FilteredValue<'_>) -> FilterDecision {
        FilterDecision::Keep
    }
}

/// The options with which a column family is opened.
#[derive(Debug, Clone)]
struct FamilySetup {
    text: String,
    style: Style,
    levels: u32,
    /// Whether `cf_paths` names several directories. Later openings must name the same directories,
    /// since tables may be in them.
    has_paths: bool,
}

/// The options with which a database is opened.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    database: String,
    /// The I/O modes with which the database is opened. `disk` supports them.
    io_modes: IoModes,
    disk: Disk,
    families: Vec<FamilySetup>,
    shared: SharedObjects,
    /// Whether flushes and compactions run in background threads, rather than in the calling
    /// thread.
    pub(crate) has_threads: bool,
}

impl Setup {
    /// Returns random options for a history. `before` is the setup with which the database was last
    /// opened, if any; the returned options can then open that database.
    pub(crate) fn random(rng: &mut Rng, history: &History, before: Option<&Self>) -> Self {
        let families = history.orders.iter().enumerate().map(|(at, order)| {
            let before = before.map(|setup| &setup.families[at]);
            FamilySetup::random(rng, order, before)
        });
        let families = families.collect();
        let database = format!("{DATABASE};{}", choose(&OF_DATABASE, rng));
        let disk = before.map_or_else(|| Disk::random(rng, &DIRECTORIES), |before| before.disk);
        let io_modes = IoModes::random(rng, disk);
        let shared = SharedObjects::random(rng, history.deletes_ranges);
        Self { database, io_modes, disk, families, shared, has_threads: rng.u8(..5) == 0 }
    }

    /// Configures a new simulated disk to have the properties in `disk`.
    pub(crate) fn set_up_disk(&self, storage: &SimStorage) {
        self.disk.set_up(storage);
    }

    /// Whether the run may make unlogged writes. It may not if closing the database would lose
    /// them. It may not if logs are recycled either: unlogged writes leave gaps in the sequence
    /// numbers of the logs, which recovery of recycled logs does not accept.
    pub(crate) fn may_skip_log(&self) -> bool {
        !self.database.contains("avoid_flush_during_shutdown")
            && !self.database.contains("recycle_log_file_num")
    }

    /// Returns the options with which to open the database.
    pub(crate) fn options(&self, storage: &SimStorage) -> OpenOptions {
        let new = || OpenOptions::with_storage(Arc::new(storage.clone()));
        let mut options = new();
        set(&mut options, &self.database);
        set(&mut options, &self.io_modes.to_string());
        for (name, family) in FAMILIES.iter().zip(&self.families) {
            let mut of_family = new();
            set(&mut of_family, &family.text);
            options.set_column_family(name, of_family.column_family(name).clone());
        }
        options.add_compaction_filter(CompactionFilter::Custom(Arc::new(KeepsAll)));
        self.shared.add_to(&mut options);
        options.set_inline_background(!self.has_threads);
        options.set_clock(storage.clock());
        options
    }

    /// Whether reads may fail because a cache has a strict limit.
    pub(crate) fn limits_reads(&self) -> bool {
        self.shared.limits_reads()
    }

    /// See [`SharedObjects::room`].
    pub(crate) fn room(&self) -> Room {
        self.shared.room()
    }

    /// Returns the options as text for a message.
    pub(crate) fn text(&self) -> String {
        let families = FAMILIES.iter().zip(&self.families);
        let Self { database, io_modes, disk, has_threads, .. } = self;
        let mut text = format!("{database}; {io_modes}; on {disk:?}; threads: {has_threads}; ");
        text += &self.shared.text();
        for (name, family) in families {
            let own = family.text.strip_prefix(FAMILY).unwrap_or(&family.text);
            text += &format!("\n    {name}: {own}");
        }
        text
    }
}

impl FamilySetup {
    fn random(rng: &mut Rng, order: &Comparator, before: Option<&Self>) -> Self {
        let style = match rng.u8(..10) {
            // A database that had another style before may have tables below level 0, which FIFO
            // compaction does not support.
            0 if before.is_none_or(|before| before.style == Style::Fifo) => Style::Fifo,
            1 | 2 => Style::Universal,
            _ => Style::Level,
        };
        let levels = rng.u32(1..8).max(before.map_or(0, |before| before.levels));
        let levels = if style == Style::Level { levels.max(2) } else { levels };
        let ages = match style {
            Style::Fifo => "ttl=0;periodic_compaction_seconds=0".to_owned(),
            Style::Level | Style::Universal => choose(&AGES, rng),
        };
        let has_paths = before.is_some_and(|before| before.has_paths)
            || (style != Style::Fifo && rng.u8(..5) == 0);
        let paths = if has_paths { PATHS } else { "cf_paths=" };
        let text = format!(
            "{FAMILY};comparator={};compaction_style={};num_levels={levels};{ages};{paths};{};\
             block_based_table_factory={{{}}}",
            order.name(),
            style.name(),
            choose(&OF_FAMILY, rng),
            choose(&OF_TABLE, rng),
        );
        Self { text, style, levels, has_paths }
    }
}

/// Returns an option string that joins one random text of each list in `factors`.
fn choose(factors: &[&[&str]], rng: &mut Rng) -> String {
    let values = factors.iter().map(|values| values[rng.usize(..values.len())]);
    values.filter(|value| !value.is_empty()).collect::<Vec<_>>().join(";")
}

fn set(options: &mut OpenOptions, text: &str) {
    options.set_from_string(text).unwrap_or_else(|error| panic!("{text}: {error}"));
}
