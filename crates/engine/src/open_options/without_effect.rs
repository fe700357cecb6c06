//! Options that are set and have no effect. The database works without them, and its OPTIONS file
//! keeps them.

use std::fmt;
use std::path::Path;

use tailwater_format::compress::{Compression, CompressorOptions};

use super::OpenOptions;
use crate::options::{
    ColumnFamilyOptions, CompactionStyle, CompressionOptions, CompressionType, DbOptions,
    FifoCompactionOptions, OptionTable, TailwaterOptions, UniversalCompactionOptions,
};

/// An option that is set to another value than its default, and has no effect.
///
/// [`OpenOptions::without_effect`] and [`Db::options_without_effect`](crate::Db) return them. Its
/// [`Display`](fmt::Display) form is a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptionWithoutEffect {
    /// The name. A part of an option has a dot, as in `compression_opts.level`.
    pub name: String,
    /// The value, as in an option string.
    pub value: String,
    /// Whether the option is one of tables, which is set within `block_based_table_factory`.
    pub is_of_tables: bool,
    /// The column families that have this value; empty for an option of the database.
    pub column_families: Vec<String>,
    /// Why the option has no effect.
    pub reason: &'static str,
}

impl OptionWithoutEffect {
    fn new(name: &str, value: &str, reason: &'static str) -> Self {
        let (name, value) = (name.to_owned(), value.to_owned());
        Self { name, value, is_of_tables: false, column_families: Vec::new(), reason }
    }

    fn of_tables(self) -> Self {
        Self { is_of_tables: true, ..self }
    }

    /// Whether `other` differs at most in the column families.
    fn is_same(&self, other: &Self) -> bool {
        let parts = |it: &Self| (it.is_of_tables, it.reason);
        self.name == other.name && self.value == other.value && parts(self) == parts(other)
    }
}

impl fmt::Display for OptionWithoutEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, is_of_tables, column_families, reason } = self;
        write!(f, "option {name}={value} ")?;
        if !column_families.is_empty() {
            let whose = if *is_of_tables { "of the tables of" } else { "of" };
            write!(f, "{whose} {} ", listed(column_families))?;
        }
        write!(f, "has no effect: {reason}")
    }
}

/// Returns the names in quotation marks, joined as in "'a', 'b' and 'c'".
pub(crate) fn listed<T: AsRef<str>>(names: &[T]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{}'", name.as_ref())).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => quoted.join(""),
    }
}

impl OpenOptions {
    /// Returns the options that are set here and have no effect in a database that is opened with
    /// them for writing: those of the database, of the column families that have options of their
    /// own, and of `default`.
    pub fn without_effect(&self) -> Vec<OptionWithoutEffect> {
        let sanitized = self.sanitized(Path::new(""), false);
        let mut names: Vec<&str> = self.column_families().collect();
        if !names.contains(&"default") {
            names.push("default");
        }
        let mut found = database_options_without_effect(sanitized.database());
        found.extend(sanitized.of_families_without_effect(names));
        found
    }

    /// Returns the options of the named column families that are set and have no effect. An option
    /// that several column families set to the same value is returned once.
    pub(crate) fn of_families_without_effect<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Vec<OptionWithoutEffect> {
        let mut common: Vec<OptionWithoutEffect> = Vec::new();
        for name in names {
            for option in of_family(self.as_set().column_family(name)) {
                match common.iter_mut().find(|known| known.is_same(&option)) {
                    Some(known) => known.column_families.push(name.to_owned()),
                    None => common.push(OptionWithoutEffect {
                        column_families: vec![name.to_owned()],
                        ..option
                    }),
                }
            }
        }
        common
    }
}

/// Returns the database options that are set and have no effect.
pub(crate) fn database_options_without_effect(options: &DbOptions) -> Vec<OptionWithoutEffect> {
    let mut found = Vec::new();
    add(&mut found, "", options, &DbOptions::default());
    add(&mut found, "", &options.tailwater, &TailwaterOptions::default());
    if options.use_direct_reads && options.use_direct_io_for_compaction_reads {
        let (name, reason) = ("use_direct_io_for_compaction_reads", "use_direct_reads is on");
        found.push(OptionWithoutEffect::new(name, "true", reason));
    }
    found
}

fn of_family(options: &ColumnFamilyOptions) -> Vec<OptionWithoutEffect> {
    let mut found = Vec::new();
    let mut defaults = ColumnFamilyOptions::default();
    // The FIFO options are copied to the defaults, so that the comparison with the defaults does
    // not find them. They matter only if the compaction style is FIFO.
    defaults.compaction_options_fifo.clone_from(&options.compaction_options_fifo);
    add(&mut found, "", options, &defaults);
    found.extend(of_tables(options));
    add_compression(&mut found, options);
    match options.compaction_style {
        _ if options.disable_auto_compactions => {}
        CompactionStyle::Universal => {
            let (own, by_default) =
                (&options.compaction_options_universal, UniversalCompactionOptions::default());
            add(&mut found, "compaction_options_universal.", own, &by_default);
        }
        CompactionStyle::Fifo => {
            let (own, by_default) =
                (&options.compaction_options_fifo, FifoCompactionOptions::default());
            add(&mut found, "compaction_options_fifo.", own, &by_default);
        }
        CompactionStyle::Level | CompactionStyle::None => {}
    }
    found
}

fn of_tables(options: &ColumnFamilyOptions) -> impl Iterator<Item = OptionWithoutEffect> {
    let mut found = Vec::new();
    let (table, defaults) = (&options.table_factory, ColumnFamilyOptions::default().table_factory);
    add(&mut found, "", table, &defaults);
    let (own, by_default) = (&table.metadata_cache_options, &defaults.metadata_cache_options);
    add(&mut found, "metadata_cache_options.", own, by_default);
    let (own, by_default) = (&table.cache_usage_options, &defaults.cache_usage_options);
    add(&mut found, "cache_usage_options.", own, by_default);
    if table.format_version < 5 {
        let (version, reason) =
            (table.format_version.to_string(), "tables are written in version 5");
        found.push(OptionWithoutEffect::new("format_version", &version, reason));
    }
    found.into_iter().map(OptionWithoutEffect::of_tables)
}

fn add<T: OptionTable>(
    found: &mut Vec<OptionWithoutEffect>,
    group: &str,
    options: &T,
    defaults: &T,
) {
    let without = options.without_effect(defaults);
    found.extend(without.map(|(name, value, reason)| {
        OptionWithoutEffect::new(&format!("{group}{name}"), &value, reason)
    }));
}

/// Adds compression options that have no effect.
fn add_compression(found: &mut Vec<OptionWithoutEffect>, options: &ColumnFamilyOptions) {
    let own = &options.compression_opts;
    let of_last = Some(&options.bottommost_compression_opts).filter(|last| last.enabled);
    let defaults = CompressionOptions::default();
    add(found, "compression_opts.", own, &defaults);
    if let Some(last) = of_last {
        add(found, "bottommost_compression_opts.", last, &defaults);
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
            let reason =
                "zlib has levels from -1 to 9; with another level, blocks are stored uncompressed";
            found.push(OptionWithoutEffect::new(name, &options.level.to_string(), reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names_are_quoted_and_joined() {
        assert_eq!(listed(&["a"]), "'a'");
        assert_eq!(listed(&["a", "b"]), "'a' and 'b'");
        assert_eq!(listed(&["a", "b", "c"]), "'a', 'b' and 'c'");
    }
}
