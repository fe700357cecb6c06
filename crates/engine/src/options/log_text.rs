//! The text of options in the LOG, in the form in which RocksDB writes them, for the programs and
//! people that look there: `Options.ttl: 86400` or, for a table's options,
//! `cache_index_and_filter_blocks: 0`. Truth values are 0 and 1.
//!
//! Source: `ImmutableDBOptions::Dump` and `MutableDBOptions::Dump` in `options/db_options.cc`,
//! `ColumnFamilyOptions::Dump` in `options/options.cc`, `GetPrintableOptions` in
//! `table/block_based/block_based_table_factory.cc`.

use std::fmt::Write as _;

use tailwater_format::compress::Compression;
use tailwater_format::options_text::parse_option_string;

use super::choice::CompressionType;
use super::column_family::ColumnFamilyOptions;
use super::database::DbOptions;
use super::schema::{OptionInfo, OptionTable};
use super::tailwater::TailwaterOptions;
use super::value::{OptionValue as _, ValueKind};

const PREFIX: &str = "Options.";

const COMPRESSIONS: &[&str] = match CompressionType::KIND {
    ValueKind::Enum(names) => names,
    _ => &[],
};

/// Returns what this build and this processor support, one item a line.
pub(crate) fn support() -> String {
    let mut text = "Compression algorithms supported:\n".to_owned();
    for compression in Compression::BUILT_IN.into_iter().filter(|it| *it != Compression::None) {
        let (name, supported) = (compression.option_name(), u8::from(compression.is_readable()));
        let _ = writeln!(text, "  {name} supported: {supported}");
    }
    let _ = writeln!(text, "Fast CRC32 supported: {}", fast_crc32c());
    let _ = writeln!(text, "Jemalloc supported: 0");
    text
}

#[cfg(target_arch = "x86_64")]
fn fast_crc32c() -> &'static str {
    if is_x86_feature_detected!("sse4.2") { "Supported on x86" } else { "Not supported on x86" }
}

#[cfg(not(target_arch = "x86_64"))]
fn fast_crc32c() -> &'static str {
    "unknown"
}

/// Returns the options of a database, one a line; Tailwater's own come last.
pub(crate) fn database(options: &DbOptions) -> String {
    let mut text = String::new();
    for info in DbOptions::table() {
        push(&mut text, PREFIX, info, options, Choices::ByNumber);
    }
    for info in TailwaterOptions::table() {
        push(&mut text, PREFIX, info, &options.tailwater, Choices::ByName);
    }
    text
}

/// Returns the options of a column family, one a line. With `other`, only those that differ from
/// its options.
pub(crate) fn family(options: &ColumnFamilyOptions, other: Option<&ColumnFamilyOptions>) -> String {
    let mut text = String::new();
    for info in changed(&options.table_factory, other.map(|other| &other.table_factory)) {
        push(&mut text, "", info, &options.table_factory, Choices::ByNumber);
    }
    for info in changed(options, other).filter(|info| info.name != "table_factory") {
        push(&mut text, PREFIX, info, options, Choices::ByName);
    }
    text
}

/// How the value of an option with a fixed list of values is written.
#[derive(Clone, Copy)]
enum Choices {
    ByName,
    /// The position in the list, which is the number of the value in RocksDB.
    ByNumber,
}

fn changed<'a, T: OptionTable>(
    options: &'a T,
    other: Option<&'a T>,
) -> impl Iterator<Item = &'static OptionInfo<T>> + use<'a, T> {
    let is_same = |info: &OptionInfo<T>, other| info.value_in(options) == info.value_in(other);
    T::table().iter().filter(move |info| !other.is_some_and(|other| is_same(info, other)))
}

fn push<T>(text: &mut String, prefix: &str, info: &OptionInfo<T>, options: &T, choices: Choices) {
    let (name, value) = (info.name, info.value_in(options));
    let shown = match (info.kind, choices) {
        (ValueKind::Bool, _) => u8::from(value == "true").to_string(),
        (ValueKind::Enum(names), _) if names == COMPRESSIONS => {
            Compression::from_option_name(&value)
                .map_or_else(|| "Disabled".to_owned(), |named| named.property_name().into_owned())
        }
        (ValueKind::Enum(names), Choices::ByNumber) => {
            let at = names.iter().position(|&name| name == value);
            at.map_or_else(|| value.clone(), |at| at.to_string())
        }
        (ValueKind::Float, _) => {
            value.parse::<f64>().map_or_else(|_| value.clone(), |value| format!("{value:.6}"))
        }
        (ValueKind::Group, _) => {
            for part in parse_option_string(&value).unwrap_or_default() {
                let _ = writeln!(text, "  {prefix}{name}.{}: {}", part.name, part.value);
            }
            return;
        }
        _ => value,
    };
    let _ = writeln!(text, "  {prefix}{name}: {shown}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{FilterPolicy, set_from_string};

    fn parsed(text: &str) -> (DbOptions, ColumnFamilyOptions) {
        let (mut database, mut family) = Default::default();
        set_from_string(&mut database, &mut family, text).expect("valid options");
        (database, family)
    }

    fn assert_lines(text: &str, expected: &[&str]) {
        for line in expected {
            assert!(text.lines().any(|found| found == *line), "no line {line:?} in\n{text}");
        }
    }

    /// The expected lines are RocksDB's, without their indentation.
    #[test]
    fn options_are_written_in_rocksdbs_words() {
        let (of_database, of_family) = parsed(
            "max_open_files=123;wal_recovery_mode=kAbsoluteConsistency;ttl=86400;\
             compression=kSnappyCompression;experimental_mempurge_threshold=1;\
             block_based_table_factory={cache_index_and_filter_blocks=true;\
             data_block_index_type=kDataBlockBinaryAndHash;data_block_hash_table_util_ratio=0.35}",
        );
        assert_lines(
            &database(&of_database),
            &[
                "  Options.max_open_files: 123",
                "  Options.wal_recovery_mode: 1",
                "  Options.create_if_missing: 0",
            ],
        );
        assert_lines(
            &family(&of_family, None),
            &[
                "  Options.ttl: 86400",
                "  Options.compression: Snappy",
                "  Options.bottommost_compression: Disabled",
                "  Options.compaction_style: kCompactionStyleLevel",
                "  Options.compression_opts.level: 32767",
                "  Options.experimental_mempurge_threshold: 1.000000",
                "  cache_index_and_filter_blocks: 1",
                "  data_block_index_type: 1",
                "  checksum: 4",
                "  index_shortening: 1",
                "  data_block_hash_table_util_ratio: 0.350000",
                "  format_version: 7",
            ],
        );
    }

    #[test]
    fn only_what_differs_can_be_written() {
        let default = ColumnFamilyOptions::default();
        let mut other = default.clone();
        other.num_levels = 5;
        other.table_factory.filter_policy = FilterPolicy::Bloom { bits_per_key: 10.0 };
        let text = family(&other, Some(&default));
        assert_lines(&text, &["  filter_policy: bloomfilter:10:false", "  Options.num_levels: 5"]);
        assert_eq!(text.lines().count(), 2);
        assert_eq!(family(&default, Some(&default)), "");
    }
}
