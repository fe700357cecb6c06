//! The plan of an experiment, which is derived from its arguments.

use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tailwater_io::Purpose;

use super::arguments::{Engines, Limit, Preset, TailArguments};
use super::batches::BatchLoad;
use super::compression;
use super::configuration::Configuration;
use super::engine::EngineName;
use super::figures::Figures;
use super::incident::Incident;
use super::tree_options::TreeOptions;
use super::units::{Bytes, HotSet, WriteRate};
use super::workload::Load;
use crate::entries::KEY_BYTES;
use crate::experiment::turns;

/// Length of values, in bytes.
const VALUE_BYTES: usize = 4096;
/// Share of their size to which values compress in runs with compression, as in `db_bench`.
const COMPRESSION_RATIO: f64 = 0.5;
/// Number of keys in the database per byte of the memory limit, as in the published experiment of
/// RocksDB.
const KEYS_PER_BYTE: f64 = 3_500_000.0 / (1u64 << 30) as f64;
/// Additional options in the experiment with one compaction: two levels, and compactions only on
/// request.
const MERGING: &str = "num_levels=2;disable_auto_compactions=true";
/// The rates, in bytes per second, to which the compaction is limited in the experiment with one
/// compaction: no limit, twice Cassandra's default, and Cassandra's default.
const MERGING_RATES: [Option<u64>; 3] = [None, Some(128 << 20), Some(64 << 20)];
/// The sizes of the hot set in RocksDB's published experiment, in keys.
const ROCKSDB_14743_HOT_KEYS: [u64; 2] = [7_500, 100_000];
/// The size of the hot set in the experiment of its commit message, in keys.
pub(super) const ROCKSDB_14743_COMMIT_HOT_KEYS: u64 = 2_000;
/// A database with fewer bytes of keys and values than this uses `TreeOptions::SMALL`. Its tables
/// are smaller, so that a small database has about as many tables as a large one.
const SMALL_DATABASE: u64 = 4 << 30;

/// The kind of experiment, which determines the work that runs concurrently with the reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// A writer overwrites random keys, so that compactions run all the time.
    Overwriting,
    /// One compaction merges two sorted sets of tables, each with half of the keys. The reads are
    /// measured before, during and after it.
    Merging,
}

/// The parameters of an experiment. An experiment can be resumed only if all of its parameters are
/// equal to those of the interrupted one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Parameters {
    pub(super) kind: Kind,
    /// Tailwater's version.
    #[serde(default)]
    pub(super) version: String,
    /// The memory limit of a run, in bytes; `None` for no limit.
    pub(super) limit_bytes: Option<u64>,
    /// The kind of memory limit (`MemoryLimit::kind`); empty until the limit has been set.
    #[serde(default)]
    pub(super) limited_by: String,
    #[serde(flatten)]
    pub(super) load: Load,
    /// The clients that get batches beside the readers; `None` without such clients.
    #[serde(default)]
    pub(super) batch_load: Option<BatchLoad>,
    /// Bytes of keys and values written per second; `None` until the rate has been calibrated.
    pub(super) write_bytes_per_second: Option<u64>,
    pub(super) duration_seconds: f64,
    #[serde(rename = "shape")]
    pub(super) tree_options: TreeOptions,
    /// Size of the block cache in the configurations that have a large block cache, in bytes.
    #[serde(default)]
    pub(super) block_cache_bytes: u64,
    /// Additional options for all rows (`--options`), as an option string.
    #[serde(default)]
    pub(super) more_options: String,
    /// Additional options for Tailwater's rows, as an option string.
    #[serde(default)]
    pub(super) tailwater_options: String,
    /// Whether the whole hot set is read once before the measurement.
    #[serde(default)]
    pub(super) is_warm: bool,
    /// The incident that is caused in each run: a disturbance, such as a reduced memory limit, that
    /// tests how the caches cope with change.
    pub(super) incident: Option<Incident>,
    /// Duration from which on a read is slow, in microseconds; `None` if slow reads are not
    /// attributed to causes.
    #[serde(default)]
    pub(super) slow_read_threshold_us: Option<u64>,
}

impl Parameters {
    pub(super) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.duration_seconds)
    }

    /// Returns all options with which a row's engine is opened, as one option string.
    pub(super) fn options_of(&self, row: Row) -> String {
        let merging = if self.kind == Kind::Merging { MERGING } else { "" };
        let table = row.configuration.table_options(row.engine, self.block_cache_bytes);
        let table = table.map(|table| format!("block_based_table_factory={{{table}}}"));
        let is_tailwater = row.engine == EngineName::Tailwater;
        joined(&[
            &self.tree_options.options(),
            merging,
            &self.more_options,
            &row.options(),
            &table.unwrap_or_default(),
            if is_tailwater { &self.tailwater_options } else { "" },
        ])
    }

    /// Returns those of the additional options that concern compression, as an option string that
    /// ends with a separator if it is not empty.
    pub(super) fn compression(&self) -> String {
        compression::options(&[&self.more_options, &self.tailwater_options])
    }

    /// Returns the mean size of a data block on the device, in bytes, if blocks have the default
    /// size, so that each has one entry; `None` otherwise.
    pub(super) fn block_bytes(&self) -> Option<f64> {
        if [&self.more_options, &self.tailwater_options].iter().any(|it| it.contains("block_size="))
        {
            return None;
        }
        let Load { key_bytes, value_bytes, compression_ratio, .. } = self.load;
        let is_compressed = compression::is_on(&self.compression());
        let ratio = if is_compressed { compression_ratio } else { 1.0 };
        Some(key_bytes as f64 + value_bytes as f64 * ratio + BLOCK_OVERHEAD)
    }

    /// Returns the total size of all keys and values in the database, in bytes.
    pub(super) fn database_bytes(&self) -> u64 {
        self.load.keys * (self.load.key_bytes + self.load.value_bytes) as u64
    }

    /// Returns the total size of all values in the hot set, in bytes.
    pub(super) fn hot_bytes(&self) -> u64 {
        self.load.hot_keys * self.load.value_bytes as u64
    }
}

/// Joins option strings. The engines reject two consecutive separators, so empty parts are left
/// out.
fn joined(parts: &[&str]) -> String {
    let parts = parts.iter().copied().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(";")
}

/// A row of the report: an engine in one configuration, possibly with a limit on its compactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) engine: EngineName,
    #[serde(rename = "name")]
    pub(super) configuration: Configuration,
    /// Rate to which the engine's compactions are limited, in bytes per second; `None` for no
    /// limit.
    pub(super) compaction_bytes_per_second: Option<u64>,
}

impl Row {
    /// Returns the options in which this row differs from other rows, as an option string.
    pub(super) fn options(self) -> String {
        let rate = self.compaction_bytes_per_second;
        let rate = rate.map(|rate| format!("rate_limiter_bytes_per_sec={rate}"));
        joined(&[self.configuration.options(), &rate.unwrap_or_default()])
    }

    /// Returns the name of the row without its engine: the configuration, followed by the
    /// compaction rate if it is limited.
    pub(super) fn label(self) -> String {
        match self.compaction_bytes_per_second {
            Some(rate) => format!("{} {}M", self.configuration.name(), rate >> 20),
            None => self.configuration.name(),
        }
    }

    /// Returns a name for the row's files and directories.
    pub(super) fn file_name(self) -> String {
        format!("{}-{}", self.engine.name(), self.label().replace(' ', "-"))
    }

    /// Returns how many bytes the process of this row read with direct I/O; `None` if that is
    /// unknown, because users' reads use direct I/O and the engine does not count their bytes.
    pub(super) fn direct_bytes(self, figures: &Figures) -> Option<u64> {
        let counted = &figures.kernel.bytes_per_purpose;
        let direct = self.configuration.direct_reads();
        if self.configuration.reads_of_users_are_direct() && self.engine != EngineName::Tailwater {
            return None;
        }
        let bytes = |purpose: &Purpose| counted.get(purpose.name()).map_or(0.0, |it| it.read_bytes);
        Some(direct.iter().map(bytes).sum::<f64>() as u64)
    }

    /// Returns the number of pages per second that users' reads fetched from the device; `None` if
    /// unknown. The result is valid only for a phase in which nothing else read through the page
    /// cache.
    pub(super) fn fetched_pages_per_second(self, figures: &Figures) -> Option<f64> {
        if !self.configuration.reads_of_users_are_direct() {
            return figures.kernel.figure("missed_pages_per_second");
        }
        let read = figures.kernel.bytes_per_purpose.get(Purpose::UserRead.name());
        (self.engine == EngineName::Tailwater)
            .then(|| read.map_or(0.0, |it| it.read_bytes / PAGE_BYTES / figures.seconds))
    }
}

/// Bytes of a block of one entry besides its key and value: the trailer of the key, the lengths,
/// the restart points, and the trailer of the block.
const BLOCK_OVERHEAD: f64 = 25.0;

/// Size of a page in bytes, the unit in which fetched bytes are reported.
const PAGE_BYTES: f64 = 4096.0;

/// The plan of an experiment.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) parameters: Parameters,
    pub(super) rows: Vec<Row>,
    pub(super) runs: usize,
    pub(super) directory: PathBuf,
    pub(super) out: PathBuf,
    pub(super) resume: bool,
    pub(super) keep_copies: bool,
    pub(super) keep_source: bool,
    pub(super) reports_observations: bool,
    pub(super) reports_means: bool,
}

/// The values of arguments that are not given.
struct Defaults {
    kind: Kind,
    limit: u64,
    keys_per_byte: f64,
    hot: HotSet,
    write_rate: WriteRate,
    duration: f64,
    configurations: &'static [Configuration],
    reads_per_second: Option<f64>,
    readers: usize,
    runs: usize,
    is_warm: bool,
}

impl Defaults {
    fn of(arguments: &TailArguments) -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        let published = Self {
            kind: Kind::Overwriting,
            limit: 1 << 30,
            keys_per_byte: KEYS_PER_BYTE,
            hot: HotSet::Percent(40.0),
            write_rate: WriteRate::BytesPerSecond(40_000_000),
            duration: 60.0,
            configurations: &Configuration::DEFAULT,
            reads_per_second: None,
            readers: processors.saturating_sub(1).max(1),
            runs: 3,
            is_warm: false,
        };
        match arguments.preset {
            _ if arguments.quick => Self {
                limit: 128 << 20,
                duration: 8.0,
                write_rate: WriteRate::BytesPerSecond(20_000_000),
                configurations: &Configuration::QUICK,
                is_warm: true,
                ..published
            },
            Some(Preset::Rocksdb14743Commit) => Self {
                hot: HotSet::Bytes(ROCKSDB_14743_COMMIT_HOT_KEYS * VALUE_BYTES as u64),
                readers: 4,
                write_rate: WriteRate::BytesPerSecond(100 << 20),
                duration: 180.0,
                ..published
            },
            Some(Preset::Rocksdb14743) => Self {
                hot: HotSet::Bytes(ROCKSDB_14743_HOT_KEYS[1] * VALUE_BYTES as u64),
                write_rate: WriteRate::BytesPerSecond(200 << 20),
                duration: 120.0,
                readers: 4,
                runs: 5,
                configurations: &Configuration::ROCKSDB_14743,
                ..published
            },
            Some(Preset::Cassandra) => Self {
                kind: Kind::Merging,
                is_warm: true,
                keys_per_byte: 10.0 / (KEY_BYTES + VALUE_BYTES) as f64,
                hot: HotSet::Percent(100.0 / 12.0),
                configurations: &Configuration::MERGING,
                reads_per_second: Some(10_000.0),
                // With this many readers, some are almost always free to start a read that is due,
                // even if others wait for the disk.
                readers: 16,
                runs: 1,
                ..published
            },
            None => published,
        }
    }
}

impl Plan {
    /// Creates the plan for the arguments.
    ///
    /// # Errors
    /// If the arguments cannot be satisfied. The message names the argument.
    pub(super) fn new(arguments: &TailArguments) -> Result<Self, String> {
        let defaults = Defaults::of(arguments);
        let directory = arguments.directory.clone().unwrap_or_else(|| "tailwater-tail".into());
        Ok(Self {
            parameters: parameters(arguments, &defaults)?,
            rows: rows(arguments, &defaults)?,
            runs: arguments.runs.unwrap_or(defaults.runs),
            out: arguments.out.clone().unwrap_or_else(|| directory.join("report")),
            directory,
            resume: arguments.resume,
            keep_copies: arguments.keep,
            keep_source: arguments.keep || !arguments.quick,
            reports_observations: arguments.quick,
            reports_means: arguments.mean,
        })
    }

    /// Returns the plans for the arguments. If the preset has several hot sets and the arguments do
    /// not choose one, there is one plan for each hot set. Otherwise there is one plan.
    pub(super) fn all(arguments: &TailArguments) -> Result<Vec<Self>, String> {
        if arguments.preset != Some(Preset::Rocksdb14743) || arguments.hot.is_some() {
            return Ok(vec![Self::new(arguments)?]);
        }
        let of_hot_set = |keys| {
            let hot = HotSet::Bytes(keys * VALUE_BYTES as u64);
            let mut plan = Self::new(&TailArguments { hot: Some(hot), ..arguments.clone() })?;
            plan.out.push(format!("{keys}-hot-keys"));
            Ok(plan)
        };
        ROCKSDB_14743_HOT_KEYS.into_iter().map(of_hot_set).collect()
    }

    /// Returns the rows in the order in which run `run` measures them. Each run starts with a
    /// different row.
    pub(super) fn order(&self, run: usize) -> impl Iterator<Item = Row> {
        turns(self.rows.len(), run).map(move |row| self.rows[row])
    }
}

fn parameters(arguments: &TailArguments, defaults: &Defaults) -> Result<Parameters, String> {
    let limit_bytes = match arguments.limit.unwrap_or(Limit::Bytes(defaults.limit)) {
        Limit::None => None,
        Limit::Bytes(bytes) => Some(bytes),
    };
    if limit_bytes.is_none() && arguments.incident.is_some_and(Incident::needs_limit) {
        return Err("--incident: this incident needs a --limit".into());
    }
    if arguments.unlimited_only && defaults.kind == Kind::Overwriting {
        return Err("--unlimited-only: only with --preset cassandra".into());
    }
    if arguments.incident.is_some() && defaults.kind == Kind::Merging {
        return Err("--incident: not supported with this preset".into());
    }
    let entry_bytes = (KEY_BYTES + VALUE_BYTES) as f64;
    let keys = match (arguments.size, arguments.ratio, limit_bytes) {
        (Some(Bytes(bytes)), _, _) => bytes as f64 / entry_bytes,
        (None, Some(ratio), Some(limit)) => ratio * limit as f64 / entry_bytes,
        (None, None, Some(limit)) => defaults.keys_per_byte * limit as f64,
        (None, _, None) => return Err("--limit none needs --size".into()),
    };
    let hot = arguments.hot.unwrap_or(defaults.hot);
    let hot_bytes = match (hot, limit_bytes) {
        (HotSet::Percent(_), None) => {
            return Err("--hot: a percentage needs a --limit".into());
        }
        (hot, limit) => hot.bytes(limit.unwrap_or(0)),
    };
    let (keys, hot_keys) = (keys as u64, hot_bytes / VALUE_BYTES as u64);
    if hot_keys == 0 {
        return Err(format!("--hot: {} are less than one value", Bytes(hot_bytes)));
    }
    if hot_keys > keys {
        let database = Bytes(keys * VALUE_BYTES as u64);
        let hot = Bytes(hot_bytes);
        return Err(format!("--hot: {hot} are more than the database, {database} (--size)"));
    }
    // The cache is 1.5 times as large as the hot set. It also holds the overhead of blocks, and
    // outdated blocks (of overwritten values and compacted tables) that are not evicted yet. With
    // more than three fifths of the limit, the process is killed for lack of memory.
    let largest_cache = limit_bytes.map_or(u64::MAX, |limit| limit / 5 * 3);
    let block_cache = (hot_keys * VALUE_BYTES as u64 / 2 * 3).min(largest_cache);
    let more_options = arguments.options.clone().unwrap_or_default();
    let tailwater_options = arguments.tailwater_options.clone().unwrap_or_default();
    let is_compressed =
        compression::is_on(&compression::options(&[&more_options, &tailwater_options]));
    let default_ratio = if is_compressed { COMPRESSION_RATIO } else { 1.0 };
    Ok(Parameters {
        kind: defaults.kind,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        limit_bytes,
        limited_by: String::new(),
        load: Load {
            keys,
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
            compression_ratio: arguments.compression_ratio.unwrap_or(default_ratio),
            hot_keys,
            readers: arguments.readers.unwrap_or(defaults.readers),
            reads_per_second: arguments.read_rate.or(defaults.reads_per_second),
        },
        batch_load: BatchLoad::of(arguments),
        write_bytes_per_second: write_rate(arguments, defaults),
        duration_seconds: arguments.duration.unwrap_or(defaults.duration),
        more_options,
        tailwater_options,
        is_warm: arguments.warm || defaults.is_warm,
        incident: arguments.incident,
        slow_read_threshold_us: arguments.slow_reads,
        block_cache_bytes: arguments.block_cache.map_or(block_cache, |Bytes(bytes)| bytes),
        tree_options: match keys * (KEY_BYTES + VALUE_BYTES) as u64 {
            bytes if bytes < SMALL_DATABASE => TreeOptions::SMALL,
            _ => TreeOptions::PUBLISHED,
        },
    })
}

/// Returns the writer's rate, in bytes per second; `None` if it is still to be calibrated, or if
/// there is no writer.
fn write_rate(arguments: &TailArguments, defaults: &Defaults) -> Option<u64> {
    match arguments.write_rate.unwrap_or(defaults.write_rate) {
        WriteRate::BytesPerSecond(rate) if defaults.kind == Kind::Overwriting => Some(rate),
        WriteRate::BytesPerSecond(_) | WriteRate::Calibrate => None,
    }
}

fn rows(arguments: &TailArguments, defaults: &Defaults) -> Result<Vec<Row>, String> {
    if arguments.write_rate.is_some() && defaults.kind == Kind::Merging {
        return Err("--write-rate: this preset writes nothing".into());
    }
    let mut configurations = match &arguments.configurations[..] {
        [] => defaults.configurations.to_vec(),
        chosen => chosen.to_vec(),
    };
    if arguments.no_compaction {
        configurations.push(Configuration::NoCompaction);
    }
    let mut rows = Vec::new();
    for &engine in arguments.engine.unwrap_or(Engines::Tailwater).names() {
        for &configuration in &configurations {
            let can = engine == EngineName::Tailwater || !configuration.is_of_tailwater_only();
            let rates: &[_] = match defaults.kind {
                Kind::Merging if configuration.disturbs() && !arguments.unlimited_only => {
                    &MERGING_RATES
                }
                Kind::Merging | Kind::Overwriting => &[None],
            };
            for &compaction_bytes_per_second in rates {
                let row = Row { engine, configuration, compaction_bytes_per_second };
                if can && !rows.contains(&row) {
                    rows.push(row);
                }
            }
        }
    }
    if rows.is_empty() {
        Err("--configurations: RocksDB supports none of these".into())
    } else {
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        arguments: TailArguments,
    }

    fn plan(typed: &str) -> Result<Plan, String> {
        let words = std::iter::once("tail").chain(typed.split_whitespace());
        let typed = Typed::try_parse_from(words).map_err(|error| error.to_string())?;
        Plan::new(&typed.arguments)
    }

    #[test]
    fn the_default_is_the_published_experiment() {
        let plan = plan("").unwrap();
        let parameters = &plan.parameters;
        assert_eq!((parameters.limit_bytes, parameters.load.keys), (Some(1 << 30), 3_500_000));
        assert_eq!(parameters.load.hot_keys, (1 << 30) * 4 / 10 / 4096);
        assert_eq!(parameters.tree_options, TreeOptions::PUBLISHED);
        assert_eq!((plan.rows.len(), plan.runs), (6, 3));
        assert!(plan.keep_source);
    }

    #[test]
    fn the_preset_of_rocksdb_has_its_parameters() {
        let typed = Typed::try_parse_from(["tail", "--preset", "rocksdb-14743"]).unwrap();
        let plans = Plan::all(&typed.arguments).unwrap();
        let hot_keys: Vec<_> = plans.iter().map(|plan| plan.parameters.load.hot_keys).collect();
        assert_eq!(hot_keys, [7_500, 100_000]);
        assert_ne!(plans[0].out, plans[1].out);
        for Plan { parameters, runs, rows, .. } in &plans {
            assert_eq!((parameters.load.keys, parameters.load.readers), (3_500_000, 4));
            assert_eq!(parameters.write_bytes_per_second, Some(209_715_200));
            assert_eq!((parameters.duration_seconds, *runs, rows.len()), (120.0, 5, 5));
        }
        let line = ["tail", "--preset", "rocksdb-14743", "--hot", "20%"];
        let typed = Typed::try_parse_from(line).unwrap();
        assert_eq!(Plan::all(&typed.arguments).unwrap().len(), 1);
    }

    #[test]
    fn the_database_grows_with_the_limit_unless_its_size_is_given() {
        assert_eq!(plan("--limit 2G").unwrap().parameters.load.keys, 7_000_000);
        assert_eq!(plan("--limit 2G --ratio 2").unwrap().parameters.load.keys, (4u64 << 30) / 4112);
        let small = plan("--limit 64M --size 1G --hot 100%").unwrap().parameters;
        assert_eq!(
            (small.load.keys, small.load.hot_keys),
            ((1u64 << 30) / 4112, (64 << 20) / 4096)
        );
        assert_eq!(small.tree_options, TreeOptions::SMALL);
    }

    #[test]
    fn the_preset_of_rocksdbs_commit_has_its_parameters() {
        let parameters = plan("--preset rocksdb-14743-commit --warm").unwrap().parameters;
        assert!(parameters.is_warm);
        let load = &parameters.load;
        assert_eq!((load.hot_keys, load.readers), (2000, 4));
        assert_eq!(parameters.duration_seconds, 180.0);
        assert_eq!(parameters.write_bytes_per_second, Some(100 << 20));
    }

    #[test]
    fn cassandras_experiment_has_three_rates_and_a_row_without_compaction() {
        let plan = plan("--preset cassandra").unwrap();
        let parameters = &plan.parameters;
        assert_eq!(
            (parameters.kind, parameters.load.reads_per_second),
            (Kind::Merging, Some(10_000.0))
        );
        assert!(parameters.is_warm);
        assert_eq!(parameters.load.hot_keys, (1 << 30) / 12 / 4096);
        let labels: Vec<_> = plan.rows.iter().map(|row| row.label()).collect();
        assert_eq!(labels.len(), 10);
        assert_eq!(labels[..3], ["buffered", "buffered 128M", "buffered 64M"]);
        assert_eq!(labels[9], "no_compaction");
        assert_eq!(plan.rows[1].options(), "rate_limiter_bytes_per_sec=134217728");
        let plan = self::plan("--preset cassandra --unlimited-only").unwrap();
        let labels: Vec<_> = plan.rows.iter().map(|row| row.label()).collect();
        assert_eq!(labels[..2], ["buffered", "direct_compaction_writes_only"]);
    }

    #[test]
    fn the_recommended_cache_sizes_itself_in_tailwater_only() {
        let plan = plan("--engine both --configurations recommended --block-cache 64M").unwrap();
        let [ours, theirs] = [0, 1].map(|row| plan.parameters.options_of(plan.rows[row]));
        let table =
            "block_based_table_factory={block_cache=auto;filter_policy=bloomfilter:10:false}";
        assert!(ours.ends_with(table), "{ours}");
        assert_eq!(ours.replace("block_cache=auto", "block_cache=67108864"), theirs);
    }

    #[test]
    fn the_block_cache_fits_into_the_memory_limit() {
        let bytes = |line: &str| plan(line).unwrap().parameters.block_cache_bytes;
        assert_eq!(bytes("--limit 100M --size 1G --hot 20M"), 30 << 20);
        assert_eq!(bytes("--limit 100M --size 1G --hot 120%"), 60 << 20);
        assert_eq!(bytes("--limit none --size 1G --hot 120M"), 180 << 20);
    }

    #[test]
    fn engines_have_options_in_common_and_of_their_own() {
        let plan = plan(
            "--engine both --configurations direct_all_block_cache --block-cache 64M \
             --options bytes_per_sync=0 --tailwater-options warm_handover=false",
        )
        .unwrap();
        let [ours, theirs] = [0, 1].map(|row| plan.parameters.options_of(plan.rows[row]));
        assert_eq!(ours, format!("{theirs};warm_handover=false"));
        let own = "use_direct_reads=true;use_direct_io_for_flush_and_compaction=true;\
                   block_based_table_factory={block_cache=67108864}";
        assert!(theirs.contains(";bytes_per_sync=0;") && theirs.ends_with(own), "{theirs}");
        let plan = self::plan("--configurations buffered --tailwater-options warm_handover=false")
            .unwrap();
        let buffered = plan.parameters.options_of(plan.rows[0]);
        assert!(buffered.ends_with(";warm_handover=false"), "{buffered}");
        assert!(!buffered.contains(";;"), "an option without a name: {buffered}");
    }

    #[test]
    fn values_compress_if_compression_is_on_or_if_asked_for() {
        for (typed, ratio, compression) in [
            ("", 1.0, ""),
            ("--options bytes_per_sync=0", 1.0, ""),
            ("--options compression=kNoCompression", 1.0, "compression=kNoCompression;"),
            ("--options compression=kZSTD", 0.5, "compression=kZSTD;"),
            (
                "--tailwater-options compression=kLZ4Compression",
                0.5,
                "compression=kLZ4Compression;",
            ),
            ("--options compression=kZSTD --compression-ratio 0.25", 0.25, "compression=kZSTD;"),
            ("--compression-ratio 0.5", 0.5, ""),
        ] {
            let parameters = plan(typed).unwrap().parameters;
            assert_eq!(parameters.load.compression_ratio, ratio, "{typed}");
            assert_eq!(parameters.compression(), compression, "{typed}");
            let block_bytes = if compression.contains("kZSTD") || compression.contains("kLZ4") {
                4096.0 * ratio + 41.0
            } else {
                4137.0
            };
            assert_eq!(parameters.block_bytes(), Some(block_bytes), "{typed}");
        }
        let large = "--options block_based_table_factory={block_size=65536}";
        assert_eq!(plan(large).unwrap().parameters.block_bytes(), None);
    }

    #[test]
    fn errors_name_the_argument() {
        for (typed, name) in [
            ("--limit 1M", "--limit"),
            ("--limit none", "--size"),
            ("--limit none --size 1G", "--hot"),
            ("--hot 2000%", "--hot"),
            ("--hot 100", "--hot"),
            ("--size 10 --ratio 3", "--ratio"),
            ("--ratio 0", "--ratio"),
            ("--readers 0", "--readers"),
            ("--runs none", "--runs"),
            ("--duration=-3", "--duration"),
            ("--duration -3", "--duration"),
            ("--duration NaN", "--duration"),
            ("--duration 1e300", "--duration"),
            ("--read-rate 0", "--read-rate"),
            ("--slow-reads 0", "--slow-reads"),
            ("--compression-ratio 1.5", "--compression-ratio"),
            ("--compression-ratio 0", "--compression-ratio"),
            ("--batch-readers 1 --batch-size 0", "--batch-size"),
            ("--batch-readers 1 --batch-form pinned", "--batch-form"),
            ("--batch-form single-gets", "--batch-readers"),
            ("--write-rate 1X", "--write-rate"),
            ("--configurations buffered,fast", "--configurations"),
            ("--limit none --size 1G --hot 1M --incident neighbour", "--incident"),
            ("--preset cassandra --incident scan", "--incident"),
            ("--quick --unlimited-only", "--unlimited-only"),
            ("--configurations uncached --engine rocksdb", "--configurations"),
            ("--engine leveldb", "--engine"),
            ("--quick --preset rocksdb-14743-commit", "--preset"),
            ("--preset cassandra --write-rate 1M", "--write-rate"),
        ] {
            let error = plan(typed).expect_err(typed);
            assert!(error.contains(name), "{typed}: {error}");
        }
    }

    #[test]
    fn engines_take_turns_and_each_row_is_first_once() {
        let plan =
            plan("--engine both --configurations buffered,uncached --no-compaction").unwrap();
        assert_eq!(plan.rows.len(), 5);
        let firsts: Vec<Row> = (0..5).filter_map(|run| plan.order(run).next()).collect();
        assert_eq!(firsts, plan.rows);
        assert_eq!(plan.order(3).count(), 5);
    }
}
