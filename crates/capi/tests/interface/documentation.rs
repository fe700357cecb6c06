//! The list of functions in `docs/c-api.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use tailwater::options::Verdict;

use crate::accessors::accessors;
use crate::signatures::{Function, functions, root};

/// The line after which the list begins.
const MARKER: &str = "<!-- The rest of this file is generated. -->\n";

/// Files of the sources whose functions store what has no effect.
const STORED_FILES: [&str; 2] = ["env_options.rs", "older.rs"];

/// Setters of what makes the next ingestion fail.
const REFUSED_IF_SET: [&str; 3] = [
    "rocksdb_ingestexternalfileoptions_set_allow_db_generated_files",
    "rocksdb_ingestexternalfileoptions_set_ingest_behind",
    "rocksdb_ingestexternalfileoptions_set_write_global_seqno",
];

/// Other functions, without accessors, whose effect is only that a value is stored.
const STORED: [&str; 28] = [
    "rocksdb_compactoptions_get_exclusive_manual_compaction",
    "rocksdb_compactoptions_set_exclusive_manual_compaction",
    "rocksdb_flushoptions_get_wait",
    "rocksdb_flushoptions_set_wait",
    "rocksdb_hyper_clock_cache_options_set_estimated_entry_charge",
    "rocksdb_hyper_clock_cache_options_set_memory_allocator",
    "rocksdb_hyper_clock_cache_options_set_num_shard_bits",
    "rocksdb_lru_cache_options_set_memory_allocator",
    "rocksdb_lru_cache_options_set_num_shard_bits",
    "rocksdb_options_calculate_sst_write_lifetime_hint_set_add",
    "rocksdb_options_calculate_sst_write_lifetime_hint_set_clear",
    "rocksdb_options_calculate_sst_write_lifetime_hint_set_contains",
    "rocksdb_options_calculate_sst_write_lifetime_hint_set_count",
    "rocksdb_options_calculate_sst_write_lifetime_hint_set_remove",
    "rocksdb_options_checksum_handoff_file_types_add",
    "rocksdb_options_checksum_handoff_file_types_clear",
    "rocksdb_options_checksum_handoff_file_types_contains",
    "rocksdb_options_checksum_handoff_file_types_count",
    "rocksdb_options_checksum_handoff_file_types_remove",
    "rocksdb_options_get_statistics_level",
    "rocksdb_options_set_hash_link_list_rep",
    "rocksdb_options_set_hash_skip_list_rep",
    "rocksdb_options_set_memtable_vector_rep",
    "rocksdb_options_set_statistics_level",
    "rocksdb_wait_for_compact_options_get_abort_on_pause",
    "rocksdb_wait_for_compact_options_get_wait_for_purge",
    "rocksdb_wait_for_compact_options_set_abort_on_pause",
    "rocksdb_wait_for_compact_options_set_wait_for_purge",
];

/// Returns the verdicts on the options of accessors.
pub(crate) fn verdicts() -> BTreeMap<String, Verdict> {
    accessors()
        .into_iter()
        .filter_map(|accessor| Some((accessor.function.clone(), accessor.verdict()?)))
        .collect()
}

/// The state of a function: 1 to 4.
pub(crate) fn state(function: &Function, verdicts: &BTreeMap<String, Verdict>) -> u8 {
    let Function { name, file, rule, .. } = function;
    match (rule, verdicts.get(name)) {
        (Some(rule), _) if rule.starts_with("refuse") => 3,
        (Some(rule), _) if rule.starts_with("fetch") || rule.contains("Nothing") => 2,
        (Some(_), _) => 4,
        (None, Some(Verdict::NoEffect(_))) => 2,
        _ if name == "rocksdb_delete_file" || REFUSED_IF_SET.contains(&name.as_str()) => 4,
        _ if STORED_FILES.contains(&file.as_str()) || STORED.contains(&name.as_str()) => 2,
        _ if name.starts_with("rocksdb_envoptions_") => 2,
        _ => 1,
    }
}

/// Returns what a function of state 3 or 4 does.
fn note(rule: &str) -> &'static str {
    match rule.split('(').next().unwrap_or_default() {
        "refuse" | "refuse_each" => "fails",
        "mark" | "mark_if" | "mark_while" => "the next call that uses the object fails",
        "note" | "note_if" => "no effect, a line in the LOG",
        "store" if rule.contains("Refuse") => "the next call that uses the object fails",
        "store" if rule.contains("Note") => "no effect, a line in the LOG",
        "store" | "fetch" => "stored",
        "stand_in" => "returns an object that does nothing, or with which the next call fails",
        "release" => "destroys such an object",
        "empty_copy" | "empty_text" => "returns an empty text",
        _ => "does nothing",
    }
}

#[test]
fn the_list_is_up_to_date() {
    let verdicts = verdicts();
    let functions = functions();
    let mut list = String::new();
    let count =
        |wanted| functions.iter().filter(|function| state(function, &verdicts) == wanted).count();
    let _ = writeln!(
        list,
        "{} functions: {} of state 1, {} of state 2, {} of state 3, {} of state 4.\n\n\
         | function | state | |\n|---|---|---|",
        functions.len(),
        count(1),
        count(2),
        count(3),
        count(4)
    );
    for function in &functions {
        let state = state(function, &verdicts);
        let note = match function.rule.as_deref() {
            Some(rule) => note(rule),
            None if REFUSED_IF_SET.contains(&function.name.as_str()) => {
                "with 1, the next ingestion fails"
            }
            None => "",
        };
        let _ = writeln!(list, "| `{}` | {state} | {note} |", function.name);
    }
    let path = root().join("../../docs/c-api.md");
    let text = fs::read_to_string(path).expect("docs/c-api.md");
    let (prose, _) = text.split_once(MARKER).expect("the marker");
    crate::files::check("../../docs/c-api.md", &format!("{prose}{MARKER}\n{list}"));
}
