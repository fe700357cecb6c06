//! Rules of the repository that no compiler checks: READMEs show the tested program, packages are
//! complete, comments are not too wide, modules have headers, tests say what they leave out, and
//! `unsafe` is only where CONTRIBUTING allows it.

#![expect(clippy::disallowed_methods, reason = "reads the checkout, not a database")]

mod common;

use std::fs;

use common::{assert_none, files, root};

/// Paths where code may be `unsafe`, according to CONTRIBUTING.md.
const UNSAFE_ALLOWED: [&str; 11] = [
    "crates/capi/",
    "crates/io/src/",
    "crates/engine/src/epoch/",
    "crates/engine/src/cache/",
    "crates/engine/src/memtable/",
    "crates/engine/src/prefetch.rs",
    "crates/engine/src/flush/loom.rs",
    "crates/engine/src/write/queue/loom.rs",
    "crates/format/src/compress/lz4.rs",
    "crates/bench-peers/src/lmdb.rs",
    "crates/bench-peers/src/rocksdb_scans.rs",
];

#[test]
fn readmes_show_the_first_program() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("text");
    let program = read("crates/engine/examples/first_program.rs");
    for readme in ["README.md", "crates/engine/README.md"] {
        let text = read(readme);
        let shown = text.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
        assert_eq!(shown, Some(program.as_str()), "{readme} shows another program");
    }
}

#[test]
fn packages_have_what_a_registry_shows() {
    let license = fs::read_to_string(root().join("LICENSE")).expect("text");
    let mut incomplete = Vec::new();
    for (path, text) in files("Cargo.toml") {
        let Some(directory) = path.strip_suffix("/Cargo.toml") else { continue };
        if !directory.starts_with("crates/") || text.contains("publish = false") {
            continue;
        }
        for field in ["description = ", "license.workspace = true", "readme = ", "include = "] {
            if !text.contains(field) {
                incomplete.push(format!("{path}: {field}"));
            }
        }
        let own = fs::read_to_string(root().join(directory).join("LICENSE"));
        if own.ok().as_ref() != Some(&license) {
            incomplete.push(format!("{directory}/LICENSE"));
        }
    }
    assert_none("incomplete packages", &incomplete);
}

#[test]
fn lines_have_at_most_100_columns() {
    let mut long = Vec::new();
    for (path, text) in files(".rs") {
        for (number, line) in text.lines().enumerate() {
            // Only lines that consist of a comment are checked, because a long string cannot always
            // be broken.
            if line.chars().count() > 100 && line.trim_start().starts_with("//") {
                long.push(format!("{path}:{}", number + 1));
            }
        }
    }
    assert_none("comments of more than 100 columns", &long);
}

#[test]
fn modules_say_what_they_are_for() {
    let bare = files(".rs").into_iter().filter(|(_, text)| {
        let first = text.lines().find(|line| !line.starts_with("#!"));
        !first.is_some_and(|line| line.starts_with("//!"))
    });
    assert_none("files without a header", &bare.map(|(path, _)| path).collect::<Vec<_>>());
}

/// The test harness hides what a passing test prints with `println!` and `eprintln!`, so a test
/// that leaves something out must say so with `tailwater_testkit::filesystem::say`.
#[test]
fn tests_say_visibly_what_they_leave_out() {
    let mut hidden = Vec::new();
    for (path, text) in files(".rs") {
        let is_test = path.contains("/tests/") || path.ends_with("tests.rs");
        for (number, line) in text.lines().enumerate().filter(|_| is_test) {
            let prints = line.contains("println!(\"");
            if prints && (line.contains("!(\"skipped") || line.contains("!(\"LEFT OUT")) {
                hidden.push(format!("{path}:{}", number + 1));
            }
        }
    }
    assert_none("messages that the test harness hides", &hidden);
}

#[test]
fn unsafe_code_stays_where_it_is_allowed() {
    let outside = files(".rs").into_iter().filter(|(path, text)| {
        let allows = text.contains("expect(unsafe_code") || text.contains("allow(unsafe_code");
        let listed = UNSAFE_ALLOWED.iter().any(|allowed| {
            // The element `a/` of the list allows the folder `a/`, and also the file `a.rs` of the
            // same module.
            path.starts_with(allowed) || *path == format!("{}.rs", allowed.trim_end_matches('/'))
        });
        let is_source = path.contains("/src/");
        allows && is_source && !listed
    });
    let outside: Vec<_> = outside.map(|(path, _)| path).collect();
    assert_none("files that allow unsafe code", &outside);
}
