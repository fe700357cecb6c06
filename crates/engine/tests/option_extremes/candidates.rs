//! The values to try for each option.

use tailwater::options::{
    BlockBasedTableOptions, CacheUsageOptions, ColumnFamilyOptions, CompressionOptions, DbOptions,
    FifoCompactionOptions, MetadataCacheOptions, OptionTable, Problem, TailwaterOptions,
    UniversalCompactionOptions, Verdict,
};

/// Integers to try: the limits of each integer type, the numbers next to them, and other large
/// numbers.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "7",
    "100",
    "-1",
    "-2",
    "-2147483648",
    "-9223372036854775808",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "1t",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551614",
    "18446744073709551615",
    "18446744073709551616",
];

const FRACTIONS: &[&str] = &[
    "0", "1", "-1", "0.5", "1.5", "1e-300", "1e-9", "100", "1e9", "1e19", "1e300", "-1e300", "nan",
    "inf", "-inf",
];

/// Options that are not tried, since they decide whether the database must exist or is created.
const ABOUT_BEING_THERE: &[&str] =
    &["create_if_missing", "error_if_exists", "disallow_memtable_writes"];

/// Options whose value is a text or a list, each with the values to try.
const OTHERS: &[(&str, &[&str])] = &[
    ("daily_offpeak_time_utc", &["", "00:00-23:59", "24:00-25:00", "99999999999:0-1:1", "-"]),
    ("db_host_id", &["", "x", "__hostname__"]),
    ("db_log_dir", &["", "logs", "a/b/c"]),
    ("wal_dir", &["", "logs", "a/b/c", "/"]),
    ("compression_per_level", &["", "kZSTD", "kNoCompression:kLZ4Compression:kZSTD"]),
    (
        "max_bytes_for_level_multiplier_additional",
        &["", "0", "-1", "2147483647", "0:0:0", "2147483647:2147483647:2147483647:2147483647", "1"],
    ),
    (
        "prefix_extractor",
        &[
            "nullptr",
            "fixed:0",
            "fixed:1",
            "fixed:18446744073709551615",
            "fixed:18446744073709551616",
            "capped:0",
            "capped:18446744073709551615",
            "rocksdb.Noop",
        ],
    ),
    ("memtable_insert_with_hint_prefix_extractor", &["fixed:0", "fixed:18446744073709551615"]),
    (
        "filter_policy",
        &[
            "nullptr",
            "bloomfilter:0",
            "bloomfilter:-1",
            "bloomfilter:0.4",
            "bloomfilter:0.5",
            "bloomfilter:1",
            "bloomfilter:99",
            "bloomfilter:100",
            "bloomfilter:1000",
            "bloomfilter:1e9",
            "bloomfilter:1e300",
            "bloomfilter:-1e300",
            "bloomfilter:nan",
            "bloomfilter:inf",
            "ribbonfilter:0",
            "ribbonfilter:1e300",
            "ribbonfilter:10:2147483647",
            "ribbonfilter:10:-2147483648",
            "ribbonfilter:10:9223372036854775807",
        ],
    ),
    ("block_cache", &["0", "1", "100", "64m", "1t", "18446744073709551615", "-1", "auto"]),
    ("blob_cache", &["0", "18446744073709551615"]),
    ("comparator", &["leveldb.BytewiseComparator", "rocksdb.ReverseBytewiseComparator"]),
    ("merge_operator", &["nullptr", "stringappend", "{id=stringappend;delimiter=}", "uint64add"]),
];

/// A value to try for one option.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    /// The name of the option, preceded by the names of the groups that contain it, if any. The
    /// names are separated by dots.
    pub(crate) option: String,
    /// The option string that sets the option to the value.
    pub(crate) text: String,
    /// Whether Tailwater ignores the option, so that the test can only check that it is accepted.
    pub(crate) is_ignored: bool,
}

/// Returns all values to try, for all options.
pub(crate) fn all() -> Vec<Candidate> {
    let mut all = Vec::new();
    of::<DbOptions>(&mut all, "", ("", ""));
    of::<TailwaterOptions>(&mut all, "", ("", ""));
    of::<ColumnFamilyOptions>(&mut all, "", ("", ""));
    of::<BlockBasedTableOptions>(
        &mut all,
        "block_based_table_factory.",
        ("block_based_table_factory={", "}"),
    );
    of::<MetadataCacheOptions>(
        &mut all,
        "block_based_table_factory.metadata_cache_options.",
        (
            "block_based_table_factory={cache_index_and_filter_blocks=true;metadata_cache_options={",
            "}}",
        ),
    );
    of::<CacheUsageOptions>(
        &mut all,
        "block_based_table_factory.cache_usage_options.",
        ("block_based_table_factory={cache_usage_options={", "}}"),
    );
    compression(&mut all);
    let style = "compaction_style=kCompactionStyleUniversal;compaction_options_universal={";
    of::<UniversalCompactionOptions>(&mut all, "compaction_options_universal.", (style, "}"));
    let style = "compaction_style=kCompactionStyleFIFO;compaction_options_fifo={";
    of::<FifoCompactionOptions>(&mut all, "compaction_options_fifo.", (style, "}"));
    all
}

/// Adds values of the compression options: of `level` for each algorithm, and of the other options
/// for ZSTD only.
fn compression(all: &mut Vec<Candidate>) {
    const KINDS: [&str; 6] = [
        "kSnappyCompression",
        "kZlibCompression",
        "kBZip2Compression",
        "kLZ4Compression",
        "kLZ4HCCompression",
        "kZSTD",
    ];
    for kind in KINDS {
        let levels =
            around("compression_opts.", &format!("compression={kind};compression_opts={{"));
        let last =
            format!("bottommost_compression={kind};bottommost_compression_opts={{enabled=true;");
        let of_last = around("bottommost_compression_opts.", &last);
        for candidate in levels.into_iter().chain(of_last) {
            if kind == "kZSTD" || candidate.option.ends_with(".level") {
                all.push(candidate);
            }
        }
    }
}

/// Returns the values to try for all compression options. In reports, `prefix` precedes the name of
/// each option. In the option string, `before` precedes each assignment `name=value`.
fn around(prefix: &str, before: &str) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    of::<CompressionOptions>(&mut candidates, prefix, (before, "}"));
    candidates
}

/// Adds the values to try for every option of `T`. `prefix` precedes the name of each option in
/// reports. In the option string, `around.0` precedes each assignment `name=value`, and `around.1`
/// follows it.
fn of<T: OptionTable + Default>(all: &mut Vec<Candidate>, prefix: &str, around: (&str, &str)) {
    let defaults = T::default();
    for info in T::table() {
        if ABOUT_BEING_THERE.contains(&info.name) {
            continue;
        }
        let default = info.value_in(&defaults);
        for value in values(info.name, &default, &mut T::default()) {
            all.push(Candidate {
                option: format!("{prefix}{}", info.name),
                text: format!("{}{}={value}{}", around.0, info.name, around.1),
                is_ignored: matches!(info.verdict, Verdict::NoEffect(_)),
            });
        }
    }
}

/// Returns the values to try for one option, whose default is `default`.
fn values<T: OptionTable>(name: &str, default: &str, options: &mut T) -> Vec<String> {
    let owned = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect();
    if let Some((_, values)) = OTHERS.iter().find(|(other, _)| *other == name) {
        return owned(values);
    }
    if default == "true" || default == "false" {
        return owned(&["true", "false"]);
    }
    if default.parse::<i128>().is_ok() {
        return owned(NUMBERS);
    }
    if default.parse::<f64>().is_ok() {
        return owned(FRACTIONS);
    }
    // If the option accepts a fixed set of names, the error about an invalid value lists them.
    let refused = options.set_option(name, "no such value").err().map(|error| error.problem);
    if let Some(Problem::Malformed { expected, .. }) = refused
        && let Some(names) = expected.strip_prefix("one of ")
    {
        return names.split(", ").map(str::to_owned).collect();
    }
    // The only value to try is the default. The option is an object, or it is a group, whose
    // options are tried one by one elsewhere.
    vec![default.to_owned()]
}
