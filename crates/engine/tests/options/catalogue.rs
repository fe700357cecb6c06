//! The list of all options. Each option must have a verdict: it is honoured, has no effect, or is
//! refused. For each honoured option there must be a test that shows its effect. `docs/options.md`
//! must agree with the list.
//!
//! `TAILWATER_REWRITE=1 cargo test -p tailwater --test options` regenerates the document.

mod page;
mod topics;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tailwater::options::{
    BlockBasedTableOptions, CacheUsageOptions, ColumnFamilyOptions, CompressionOptions, DbOptions,
    FifoCompactionOptions, FileTemperatureAge, MetadataCacheOptions, Mutability, OptionTable,
    TailwaterOptions, UniversalCompactionOptions, Verdict,
};
use tailwater_format::options_text::{Document, SectionKind, parse_option_string};
use tailwater_testkit::golden;

use crate::effects;

/// An option. If it belongs to a group, its name begins with the name of the group and a dot.
struct Row {
    name: String,
    about: &'static str,
    default: String,
    mutability: Mutability,
    verdict: Verdict,
}

/// Options that are groups of other options. Each option of a group has its own verdict: whether
/// Tailwater honours, ignores or refuses it.
const GROUPS: [&str; 5] = [
    "table_factory",
    "compression_opts",
    "metadata_cache_options",
    "cache_usage_options",
    "compaction_options_universal",
];

/// Tests outside this crate's `tests/options/effects` that fail if an option is ignored. Each entry
/// is the option, the file and the test.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    (
        "slow_read_threshold_us",
        "tests/slow_reads/main.rs",
        "the_threshold_can_be_changed_and_is_kept",
    ),
    ("slow_read_keys", "tests/slow_reads/main.rs", "the_threshold_can_be_changed_and_is_kept"),
    (
        "low_priority_compactions",
        "tests/low_priority.rs",
        "low_priority_compactions_yield_until_a_stall_is_near",
    ),
    ("user_blob_read_io_mode", "tests/io_modes.rs", "blob_reads_use_the_io_mode_of_the_reader"),
    (
        "compaction_blob_read_io_mode",
        "tests/io_modes.rs",
        "blob_reads_use_the_io_mode_of_the_reader",
    ),
    ("stats_dump_period_sec", "tests/statistics/dumps.rs", "the_log_gets_statistics_every_period"),
    (
        "enforce_single_del_contracts",
        "src/compaction/tests/rules.rs",
        "a_deletion_below_a_single_deletion_breaks_the_contract",
    ),
    (
        "verify_sst_unique_id_in_manifest",
        "tests/by_hand/reads.rs",
        "a_unique_id_mismatch_is_damage_unless_verification_is_off",
    ),
    (
        "compaction_verify_record_count",
        "src/compaction/tests/faults.rs",
        "a_wrong_record_count_names_the_tables",
    ),
    (
        "rate_limiter_bytes_per_sec",
        "tests/writing/changed_options.rs",
        "a_rate_limiter_can_be_added_and_removed_at_runtime",
    ),
    (
        "verify_compression",
        "tests/allocations.rs",
        "written_blocks_and_filters_are_verified_if_the_options_ask_for_it",
    ),
    (
        "detect_filter_construct_corruption",
        "tests/allocations.rs",
        "written_blocks_and_filters_are_verified_if_the_options_ask_for_it",
    ),
    (
        "bottommost_file_compaction_delay",
        "src/compaction/picker/tests/cases/marked.txt",
        "the_picker_matches_the_case_files",
    ),
    ("ttl", "src/compaction/picker/tests/cases/marked.txt", "the_picker_matches_the_case_files"),
    (
        "max_subcompactions",
        "src/compaction/picker/tests/cases/leveled.txt",
        "the_picker_matches_the_case_files",
    ),
    (
        "max_compaction_bytes",
        "src/compaction/picker/tests/cases/leveled.txt",
        "the_picker_matches_the_case_files",
    ),
    (
        "compaction_pri",
        "src/compaction/picker/tests/cases/priority.txt",
        "the_picker_matches_the_case_files",
    ),
];

fn rows_of<T: OptionTable + Default>(prefix: &str) -> Vec<Row> {
    let defaults = T::default();
    let rows = T::table().iter().map(|info| Row {
        name: format!("{prefix}{}", info.name),
        about: info.about,
        default: info.value_in(&defaults),
        mutability: info.mutability,
        verdict: info.verdict,
    });
    rows.collect()
}

fn rows() -> Vec<Row> {
    [
        rows_of::<DbOptions>(""),
        rows_of::<TailwaterOptions>(""),
        rows_of::<ColumnFamilyOptions>(""),
        rows_of::<BlockBasedTableOptions>(""),
        rows_of::<MetadataCacheOptions>("metadata_cache_options."),
        rows_of::<CacheUsageOptions>("cache_usage_options."),
        rows_of::<CompressionOptions>("compression_opts."),
        rows_of::<UniversalCompactionOptions>("compaction_options_universal."),
        rows_of::<FifoCompactionOptions>("compaction_options_fifo."),
        rows_of::<FileTemperatureAge>("compaction_options_fifo.file_temperature_age_thresholds."),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns all tests that show the effect of an option. Each item is the option, the file and the
/// test.
fn shown() -> Vec<(&'static str, String, &'static str)> {
    let here = [
        ("caches", effects::caches::SHOWN),
        ("database", effects::database::SHOWN),
        ("io_modes", effects::io_modes::SHOWN),
        ("logs", effects::logs::SHOWN),
        ("memtables", effects::memtables::SHOWN),
        ("trees", effects::trees::SHOWN),
        ("tables", effects::tables::SHOWN),
        ("reads", effects::reads::SHOWN),
    ];
    let here = here.into_iter().flat_map(|(file, tests)| {
        tests.iter().flat_map(move |&(test, options)| {
            let path = format!("tests/options/effects/{file}.rs");
            options.iter().map(move |&option| (option, path.clone(), test))
        })
    });
    let elsewhere = ELSEWHERE.iter().map(|&(option, file, test)| (option, file.to_owned(), test));
    here.chain(elsewhere).collect()
}

#[test]
fn every_honoured_option_has_a_test_of_its_effect() {
    let rows = rows();
    let honoured = rows.iter().filter(|row| row.verdict == Verdict::Honoured);
    let honoured: BTreeSet<&str> =
        honoured.map(|row| row.name.as_str()).filter(|name| !GROUPS.contains(name)).collect();
    let shown: BTreeSet<&str> = shown().iter().map(|(option, ..)| *option).collect();
    let unshown: Vec<_> = honoured.difference(&shown).collect();
    assert!(unshown.is_empty(), "honoured, but no test shows it: {unshown:?}");
    let stale: Vec<_> = shown.difference(&honoured).collect();
    assert!(stale.is_empty(), "shown, but not honoured: {stale:?}");
}

#[test]
fn the_tests_listed_for_options_exist() {
    for (option, file, test) in ELSEWHERE {
        let text = read(&engine().join(file));
        let names_it = text.contains(option) || file.ends_with("reads.rs");
        assert!(names_it, "{file} does not name {option}");
        let tests = match file.strip_suffix(".txt") {
            Some(_) => read(&engine().join("src/compaction/picker/tests/case_files.rs")),
            None => text,
        };
        assert!(tests.contains(&format!("fn {test}(")), "{file} has no test {test}");
    }
}

/// Whether the options of type `T` include this name, or `T` lists this name as retired. A name
/// that is included has a verdict: honoured, without effect or refused.
fn has_verdict<T: OptionTable>(name: &str) -> bool {
    T::table().iter().any(|info| info.name == name)
        || T::other_names().iter().any(|other| other.name == name)
        || T::retired_names().contains(&name)
}

/// Whether each option in a group has a verdict or is retired. `option` is the name of the group,
/// and `value` has the options of the group in braces.
fn parts_have_verdicts(option: &str, value: &str) -> bool {
    let known: fn(&str) -> bool = match option {
        "compression_opts" | "bottommost_compression_opts" | "blob_compression_opts" => {
            has_verdict::<CompressionOptions>
        }
        "compaction_options_universal" => has_verdict::<UniversalCompactionOptions>,
        "compaction_options_fifo" => has_verdict::<FifoCompactionOptions>,
        "metadata_cache_options" => has_verdict::<MetadataCacheOptions>,
        "cache_usage_options" => has_verdict::<CacheUsageOptions>,
        _ => return true,
    };
    let parts = parse_option_string(value).expect("an option string");
    parts.iter().all(|part| known(part.name))
}

#[test]
fn every_option_in_the_golden_databases_has_a_verdict() {
    let mut names = 0;
    for fixture in golden::names() {
        let files = golden::files(fixture);
        let files: Vec<_> = files.iter().filter(|(name, _)| name.contains("OPTIONS-")).collect();
        assert!(!files.is_empty(), "{fixture} has no OPTIONS file");
        for (name, bytes) in files {
            let document = Document::parse(std::str::from_utf8(bytes).expect("text"));
            for section in &document.expect("an OPTIONS file").sections {
                let known: fn(&str) -> bool = match section.kind {
                    SectionKind::Version => continue,
                    SectionKind::Database => has_verdict::<DbOptions>,
                    SectionKind::ColumnFamily(_) => has_verdict::<ColumnFamilyOptions>,
                    SectionKind::Table { .. } => has_verdict::<BlockBasedTableOptions>,
                };
                for entry in &section.entries {
                    names += 1;
                    let has_verdict =
                        known(&entry.name) && parts_have_verdicts(&entry.name, &entry.value);
                    assert!(has_verdict, "{fixture}/{name}: {} has no verdict", entry.name);
                }
            }
        }
    }
    assert!(names > 2000, "only {names} names");
}

#[test]
fn the_list_of_options_is_up_to_date() {
    let path = engine().join("../../docs/options.md");
    let rows = rows();
    let page = page::page(&rows, &shown());
    for row in &rows {
        let line = format!("\n| `{}` |", row.name);
        assert_eq!(page.matches(&line).count(), 1, "{} is in one chapter", row.name);
    }
    for other in DbOptions::other_names() {
        assert!(page.contains(&format!("`{}`", other.name)), "{} is not mentioned", other.name);
    }
    if std::env::var_os("TAILWATER_REWRITE").is_some() {
        write(&path, &page);
        return;
    }
    let found = read(&path);
    for (line, (found, expected)) in found.lines().zip(page.lines()).enumerate() {
        assert_eq!(found, expected, "docs/options.md, line {}; TAILWATER_REWRITE=1", line + 1);
    }
    assert_eq!(found, page, "docs/options.md; TAILWATER_REWRITE=1 writes it anew");
}

/// Returns the directory of the engine's crate.
fn engine() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

#[expect(clippy::disallowed_methods, reason = "sources and documents do not belong to a database")]
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[expect(clippy::disallowed_methods, reason = "sources and documents do not belong to a database")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a document");
}
