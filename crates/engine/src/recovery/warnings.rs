//! Warnings about settings that a database does not follow. They go to the LOG and to the caller of
//! `open`.
//!
//! Such settings are objects that the OPTIONS file names but that are not registered, filter
//! policies that are not implemented, and compaction styles that are not implemented, whose
//! compactions run only on request. The database works nevertheless, and its OPTIONS file keeps the
//! settings. Options without effect are not among them: there may be many, so `open` only returns
//! their number, see [`OptionWithoutEffect`](crate::open_options::OptionWithoutEffect).

use tailwater_io::Purpose;

use crate::column_family::ColumnFamily;
use crate::left_out::LeftOut;
use crate::open_options::{ObjectKind, OpenOptions, listed};
use crate::options::{ColumnFamilyOptions, CompactionStyle, DbOptions, FilterPolicy, IoModeChoice};
use crate::stats::InfoLog;

/// Writes to the LOG which parts of the database's files were left out.
pub(super) fn report_left_out(info_log: &InfoLog, parts: &[LeftOut]) {
    for LeftOut { path, offset, bytes, reason, .. } in parts {
        let path = path.display();
        info_log
            .warn(format_args!("{path}, offset {offset}: {bytes} bytes were left out: {reason}"));
    }
}

/// A setting that is not put into effect. The fields are the parts of the warning before and after
/// the names of the column families that have this setting.
#[derive(Debug, PartialEq, Eq)]
struct Unmet {
    before: String,
    after: String,
}

/// Returns a warning about an option for direct reads that makes compactions slow.
pub(super) fn of_direct_reads(options: &DbOptions) -> Option<String> {
    let requested = options.io_mode(Purpose::CompactionRead).choice;
    let is_direct = matches!(requested, IoModeChoice::Direct | IoModeChoice::Auto);
    (is_direct && options.compaction_readahead_size == 0).then(|| {
        "compactions read past the page cache but compaction_readahead_size is 0: no read is in \
         flight while they work, so they will be slow"
            .to_owned()
    })
}

/// Returns warnings about column family settings that are not put into effect, except options
/// without effect. `all` has the user's objects (such as comparators) that options name. If several
/// column families have the same warning, one sentence names all of them.
pub(crate) fn of_families<'a>(
    all: &OpenOptions,
    families: impl Iterator<Item = &'a ColumnFamily>,
) -> Vec<String> {
    let mut common: Vec<(Unmet, Vec<&str>)> = Vec::new();
    for family in families {
        for unmet in of_family(all, family.name(), &family.options()) {
            match common.iter_mut().find(|(other, _)| *other == unmet) {
                Some((_, names)) => names.push(family.name()),
                None => common.push((unmet, vec![family.name()])),
            }
        }
    }
    let sentence = |(unmet, names): (Unmet, Vec<&str>)| {
        [unmet.before, listed(&names), unmet.after].join(" ").trim_start().to_owned()
    };
    common.into_iter().map(sentence).collect()
}

/// Returns the settings of a column family that are not put into effect, except options without
/// effect.
fn of_family(all: &OpenOptions, name: &str, options: &ColumnFamilyOptions) -> Vec<Unmet> {
    let mut unmet = Vec::new();
    filters(&mut unmet, options);
    objects(&mut unmet, all, name, options);
    style(&mut unmet, options);
    unmet
}

/// Adds warnings about filter policies that are not implemented.
fn filters(unmet: &mut Vec<Unmet>, options: &ColumnFamilyOptions) {
    let table = &options.table_factory;
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
fn objects(unmet: &mut Vec<Unmet>, all: &OpenOptions, family: &str, options: &ColumnFamilyOptions) {
    for (kind, name) in all.missing_objects(family, options) {
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
            format!(
                "writes are slowed down at {} sorted runs and stopped at {} until a manual \
                 compaction",
                options.level0_slowdown_writes_trigger, options.level0_stop_writes_trigger
            )
        }
        CompactionStyle::Fifo => {
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
