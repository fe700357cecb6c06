//! Warnings about settings that a database does not follow. They go to the LOG and to the caller of
//! `open`.
//!
//! Such settings are options that have no effect, objects that the OPTIONS file names but that are
//! not registered, and compaction styles that are not implemented, whose compactions run only on
//! request. The database works nevertheless, and its OPTIONS file keeps the settings.

use tailwater_format::compress::{Compression, CompressorOptions};
use tailwater_io::Purpose;

use crate::column_family::ColumnFamily;
use crate::open_options::{ObjectKind, OpenOptions};
use crate::options::{
    ColumnFamilyOptions, CompactionStyle, CompressionOptions, CompressionType, DbOptions,
    FifoCompactionOptions, FilterPolicy, IoModeChoice, OptionTable, TailwaterOptions,
    UniversalCompactionOptions,
};

/// A setting that is not put into effect. The fields are the parts of the warning before and after
/// the names of the column families that have this setting.
#[derive(Debug, PartialEq, Eq)]
struct Unmet {
    before: String,
    after: String,
}

impl Unmet {
    fn option(name: &str, value: &str, of: &str, why: &str) -> Self {
        let before = format!("option {name}={value}{of}");
        Self { before, after: format!("has no effect: {why}") }
    }
}

/// Returns warnings about database options that were set and have no effect.
pub(crate) fn of_database(options: &DbOptions) -> Vec<String> {
    let mut unmet = Vec::new();
    without_effect(&mut unmet, "", "", options, &DbOptions::default());
    without_effect(&mut unmet, "", "", &options.tailwater, &TailwaterOptions::default());
    unmet.into_iter().map(|unmet| format!("{} {}", unmet.before, unmet.after)).collect()
}

/// Returns warnings about the options for direct reads: about an option that has no effect, and
/// about one that makes compactions slow.
pub(super) fn of_direct_reads(options: &DbOptions) -> Vec<String> {
    let mut harms = Vec::new();
    if options.use_direct_reads && options.use_direct_io_for_compaction_reads {
        let why = "use_direct_reads is on";
        harms.push(format!("option use_direct_io_for_compaction_reads=true has no effect: {why}"));
    }
    let asked = options.io_mode(Purpose::CompactionRead).choice;
    let is_direct = matches!(asked, IoModeChoice::Direct | IoModeChoice::Auto);
    if is_direct && options.compaction_readahead_size == 0 {
        harms.push(
            "compactions read past the page cache but compaction_readahead_size is 0: no read is \
             in flight while they work, so they will be slow"
                .to_owned(),
        );
    }
    harms
}

/// Returns warnings about column family settings that are not put into effect. `all` has the user's
/// objects (such as comparators) that options name. If several column families have the same
/// warning, one sentence names all of them.
pub(crate) fn of_families<'a>(
    all: &OpenOptions,
    families: impl Iterator<Item = &'a ColumnFamily>,
) -> Vec<String> {
    let mut common: Vec<(Unmet, Vec<&str>)> = Vec::new();
    for family in families {
        let set = all.as_set().column_family(family.name());
        for unmet in of_family(all, set, &family.options()) {
            match common.iter_mut().find(|(other, _)| *other == unmet) {
                Some((_, names)) => names.push(family.name()),
                None => common.push((unmet, vec![family.name()])),
            }
        }
    }
    let sentence = |(unmet, names): (Unmet, Vec<&str>)| {
        [unmet.before, list(&names), unmet.after].join(" ").trim_start().to_owned()
    };
    common.into_iter().map(sentence).collect()
}

/// Returns the names in quotation marks, joined as in "'a', 'b' and 'c'".
fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => quoted.join(""),
    }
}

/// Returns the settings of a column family that are not put into effect. `set` are its options as
/// they were set, `options` those in effect.
fn of_family(
    all: &OpenOptions,
    set: &ColumnFamilyOptions,
    options: &ColumnFamilyOptions,
) -> Vec<Unmet> {
    let mut unmet = Vec::new();
    let mut defaults = ColumnFamilyOptions::default();
    // The FIFO options are copied to the defaults, so that the comparison with the defaults does
    // not report them. If the compaction style is FIFO, function `style` checks them.
    defaults.compaction_options_fifo.clone_from(&set.compaction_options_fifo);
    without_effect(&mut unmet, "", " of", set, &defaults);
    let (table, table_defaults) = (&set.table_factory, &defaults.table_factory);
    without_effect(&mut unmet, "", " of the tables of", table, table_defaults);
    let (own, by_default) = (&table.metadata_cache_options, &table_defaults.metadata_cache_options);
    without_effect(&mut unmet, "metadata_cache_options.", " of the tables of", own, by_default);
    compression(&mut unmet, options);
    tables(&mut unmet, options);
    objects(&mut unmet, all, options);
    style(&mut unmet, options);
    unmet
}

fn without_effect<T: OptionTable>(
    unmet: &mut Vec<Unmet>,
    group: &str,
    of: &str,
    options: &T,
    defaults: &T,
) {
    let ignored = options.without_effect(defaults);
    unmet.extend(
        ignored.map(|(name, value, why)| Unmet::option(&format!("{group}{name}"), &value, of, why)),
    );
}

/// Adds warnings about compression options that have no effect.
fn compression(unmet: &mut Vec<Unmet>, options: &ColumnFamilyOptions) {
    let own = &options.compression_opts;
    let of_last = Some(&options.bottommost_compression_opts).filter(|last| last.enabled);
    let defaults = CompressionOptions::default();
    without_effect(unmet, "compression_opts.", " of", own, &defaults);
    if let Some(last) = of_last {
        without_effect(unmet, "bottommost_compression_opts.", " of", last, &defaults);
    }
    let is_zlib = |kind: &CompressionType| *kind == CompressionType::Zlib;
    let last_is_zlib = is_zlib(&options.bottommost_compression);
    let is_used = match options.compression_per_level.as_slice() {
        [] => is_zlib(&options.compression),
        levels => levels.iter().any(is_zlib),
    };
    let uses = [
        ("compression_opts.level", Some(own), is_used || (last_is_zlib && of_last.is_none())),
        ("bottommost_compression_opts.level", of_last, last_is_zlib || is_used),
    ];
    for (name, options, is_used) in uses {
        let Some(options) = options.filter(|_| is_used) else { continue };
        let level = CompressorOptions { level: options.level, ..CompressorOptions::default() };
        if !level.has_level(Compression::Zlib) {
            let why =
                "zlib has levels from -1 to 9; with another level, blocks are stored uncompressed";
            unmet.push(Unmet::option(name, &options.level.to_string(), " of", why));
        }
    }
}

/// Adds warnings about table options that have no effect.
fn tables(unmet: &mut Vec<Unmet>, options: &ColumnFamilyOptions) {
    let table = &options.table_factory;
    if table.format_version < 5 {
        let (version, why) = (table.format_version.to_string(), "tables are written in version 5");
        unmet.push(Unmet::option("format_version", &version, " of the tables of", why));
    }
    let (before, after) = match &table.filter_policy {
        FilterPolicy::Ribbon { .. } => (
            "Ribbon filters for the tables of".to_owned(),
            "are not written: the tables get Bloom filters of as many bits per key",
        ),
        FilterPolicy::ReadOnly(name) if !FilterPolicy::is_built_in(name) => (
            format!("filter policy '{name}' of the tables of"),
            "is not built in: new tables get no filters",
        ),
        _ => return,
    };
    unmet.push(Unmet { before, after: after.to_owned() });
}

/// Adds warnings about objects, such as a merge operator, that the OPTIONS file names but the user
/// did not register.
fn objects(unmet: &mut Vec<Unmet>, all: &OpenOptions, options: &ColumnFamilyOptions) {
    for (kind, name) in all.missing_objects(options) {
        let outcome = match kind {
            ObjectKind::MergeOperator => {
                "merges are refused, and so are reads of keys that have merge operands"
            }
            ObjectKind::CompactionFilter => {
                "compactions keep the records that it would drop or change"
            }
            ObjectKind::PrefixExtractor => {
                "filters neither contain prefixes nor are searched for them"
            }
        };
        let before = format!("{kind} '{name}' of");
        unmet.push(Unmet { before, after: format!("is not registered: {outcome}") });
    }
}

/// If the compaction style is not implemented, adds a warning that states the consequences.
fn style(unmet: &mut Vec<Unmet>, options: &ColumnFamilyOptions) {
    let what = match options.compaction_style {
        _ if options.disable_auto_compactions => return,
        CompactionStyle::Level | CompactionStyle::None => return,
        CompactionStyle::Universal => {
            let (own, defaults) =
                (&options.compaction_options_universal, UniversalCompactionOptions::default());
            without_effect(unmet, "compaction_options_universal.", " of", own, &defaults);
            format!(
                "writes are slowed down at {} sorted runs and stopped at {} until a manual \
                 compaction",
                options.level0_slowdown_writes_trigger, options.level0_stop_writes_trigger
            )
        }
        CompactionStyle::Fifo => {
            let (own, defaults) =
                (&options.compaction_options_fifo, FifoCompactionOptions::default());
            without_effect(unmet, "compaction_options_fifo.", " of", own, &defaults);
            format!(
                "nothing is dropped, and bytes above max_table_files_size stall writes like \
                 pending compaction bytes, from {} bytes on",
                options.soft_pending_compaction_bytes_limit
            )
        }
    };
    let after =
        format!("is compacted manually only: its compaction_style is not implemented; {what}");
    unmet.push(Unmet { before: String::new(), after });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names_are_quoted_and_joined() {
        assert_eq!(list(&["a"]), "'a'");
        assert_eq!(list(&["a", "b"]), "'a' and 'b'");
        assert_eq!(list(&["a", "b", "c"]), "'a', 'b' and 'c'");
    }
}
