//! Checks the layers of each crate. The list of a crate's modules is ordered, and a module may use
//! only modules that come after it in the list. The root of the crate, which is its public facade,
//! may use every module.
//!
//! Add a new module to the list of its crate, after every module that uses it.

#![expect(clippy::disallowed_methods, reason = "reads the checkout, not a database")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of each crate, from the highest layer to the lowest.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "engine",
        &[
            "for_tests",
            "db",
            "ingest",
            "verify",
            "recovery",
            "write",
            "file_copy",
            "inspect",
            "flush",
            "compaction",
            "context",
            "directory",
            "iterator",
            "read",
            "column_family",
            "open_options",
            "version",
            "compaction_filter",
            "blob",
            "table",
            "sequence_times",
            "merge_operator",
            "handover",
            "sst_file_manager",
            "stats",
            "io_modes",
            "wal",
            "panics",
            "contracts",
            "file_numbers",
            "incomplete_file",
            "left_out",
            "skipped_damage",
            "memtable",
            "write_buffer_manager",
            "block_cache",
            "cache",
            "range_tombstone",
            "memory_counters",
            "prefix_extractor",
            "prefetch",
            "record_log",
            "background",
            "stall",
            "env",
            "epoch",
            "opening",
            "error",
            "options",
            "storage",
            "setters",
        ],
    ),
    (
        "log",
        &[
            "log",
            "inspect",
            "partition",
            "offsets",
            "ticket",
            "env",
            "identity",
            "timestamps",
            "last_opening",
            "layout",
            "scheduler",
            "segment",
            "tail",
            "catalog",
            "journal",
            "options",
            "workers",
            "backpressure",
            "panics",
            "patience",
            "guard",
            "error",
            "storage",
            "sync",
        ],
    ),
    (
        "server",
        &[
            "server",
            "tls",
            "import",
            "http",
            "listener",
            "places",
            "error",
            "connection",
            "command",
            "prometheus",
            "state",
            "users",
            "groups",
            "descriptors",
            "config",
            "session",
            "protocol",
            "metrics",
            "consumers",
            "status",
            "in_flight",
            "balancer",
            "host",
        ],
    ),
    (
        "format",
        &[
            "options_text",
            "version_edit",
            "message",
            "record_log",
            "filter",
            "file_name",
            "claim",
            "block",
            "table",
            "hash",
            "xxph3",
            "batch",
            "blob",
            "compress",
            "checksum",
            "timed_value",
            "wide_column",
            "key",
            "comparator",
            "user_code",
            "varint",
            "limits",
            "error",
        ],
    ),
    (
        "io",
        &[
            "forward",
            "stream",
            "in_flight",
            "probe",
            "posix",
            "sim",
            "limited_reads",
            "storage",
            "statistics",
            "foreground",
            "shards",
            "charged_reads",
            "pace",
            "shared_memory",
            "error",
            "rings",
            "attribution",
            "descriptors",
            "sizing",
            "host",
            "kernel",
            "thread",
            "buffer",
            "clock",
            "sync",
            "sections",
            "monotonic",
            "purpose",
            "histogram",
        ],
    ),
];

/// Returns all Rust source files in a directory and its subdirectories.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Returns the text of a file without comments and without its test module.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the identifier at the beginning of a text.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.split_at(end).0
}

/// Returns the first identifier after each occurrence of `root`, which is a path to the root of the
/// crate, such as `crate::`. For `crate::{a, b::c}`, the result is `a` and `b`.
fn names_after<'a>(root: &str, code: &'a str) -> Vec<&'a str> {
    let mut names = Vec::new();
    for rest in code.split(root).skip(1) {
        let Some(group) = rest.strip_prefix('{') else {
            names.push(identifier(rest));
            continue;
        };
        let mut depth = 0;
        let group = group.split(|c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth < 0
        });
        let mut depth = 0;
        let items = group.take(1).flat_map(|group| {
            group.split(move |c: char| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                c == ',' && depth == 0
            })
        });
        names.extend(items.map(|item| identifier(item.trim())).filter(|name| !name.is_empty()));
    }
    names
}

/// Returns the names of the items that the root of a crate re-exports, each with the name of the
/// module that defines it.
fn reexports(root: &str) -> BTreeMap<&str, &str> {
    let mut found = BTreeMap::new();
    for item in root.split("use ").skip(1) {
        let item = item.split(';').next().unwrap_or_default();
        let module = identifier(item);
        let words = item.split(|c: char| !c.is_alphanumeric() && c != '_');
        found.extend(words.filter(|word| *word != module).map(|word| (word, module)));
    }
    found
}

/// Returns a message for each file that uses a module of a higher layer. Also returns a message for
/// each file whose module is missing in `layers`.
fn upward_uses(source: &Path, layers: &[&str]) -> Vec<String> {
    let root = code(&fs::read_to_string(source.join("lib.rs")).expect("a root"));
    let reexports = reexports(&root);
    let rank = |module: &str| layers.iter().position(|layer| *layer == module);
    let mut found = BTreeSet::new();
    for path in sources(source) {
        let relative = path.strip_prefix(source).expect("a path below the source").to_owned();
        let first = relative.iter().next().expect("a name").to_string_lossy();
        let module = first.trim_end_matches(".rs").to_owned();
        let is_test = relative.iter().any(|part| part == "tests" || part == "tests.rs");
        if module == "lib" || is_test {
            continue;
        }
        let Some(own) = rank(&module) else {
            found.insert(format!("{}: its module is in no layer", path.display()));
            continue;
        };
        let code = code(&fs::read_to_string(&path).expect("text"));
        let depth = relative.iter().count() - usize::from(relative.ends_with("mod.rs"));
        // Only imports at the top of the file are considered. In a nested module, the same number
        // of `super::` does not lead to the root of the crate.
        let through_parents = format!("\nuse {}", "super::".repeat(depth));
        let names = names_after("crate::", &code).into_iter();
        for name in names.chain(names_after(&through_parents, &code)) {
            let used = reexports.get(name).copied().unwrap_or(name);
            if used != module && rank(used).is_some_and(|used| used < own) {
                found.insert(format!("{}: {module} uses {used}", path.display()));
            }
        }
    }
    found.into_iter().collect()
}

#[test]
fn modules_use_only_modules_below_them() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, layers) in LAYERS {
        let source = crates.join(name).join("src");
        for layer in *layers {
            let exists =
                source.join(layer).is_dir() || source.join(format!("{layer}.rs")).is_file();
            assert!(exists, "{name} has no module {layer}");
        }
        let upward = upward_uses(&source, layers);
        assert!(upward.is_empty(), "uses that run upward:\n{}", upward.join("\n"));
    }
}

#[test]
fn upward_uses_are_found() {
    let directory = std::env::temp_dir().join(format!("tailwater-layers-{}", std::process::id()));
    fs::create_dir_all(directory.join("low")).expect("a directory");
    let write = |name: &str, text: &str| fs::write(directory.join(name), text).expect("a file");
    write("lib.rs", "mod high;\nmod low;\npub use high::{One, Two};\n");
    write("high.rs", "use crate::low::Three;\n");
    write("low/mod.rs", "// crate::high is mentioned only.\nuse crate::low::{self, Three};\n");
    let found = || upward_uses(&directory, &["high", "low"]);
    assert_eq!(found(), Vec::<String>::new());
    let uses = [
        "use crate::high::Four;",
        "fn f(_: crate::Two) {}",
        "use crate::{low, high::X};",
        "use super::super::high::Four;",
    ];
    for text in uses {
        write("low/part.rs", &format!("\n{text}"));
        let upward = found();
        assert!(matches!(&upward[..], [one] if one.ends_with("low uses high")), "{upward:?}");
    }
    write("low/part.rs", "use crate::low::Three;\n#[cfg(test)]\nmod tests {\nuse crate::high;\n}");
    assert_eq!(found(), Vec::<String>::new());
    write("new.rs", "");
    assert_eq!(found().len(), 1);
    fs::remove_dir_all(directory).expect("a directory that is removed");
}
