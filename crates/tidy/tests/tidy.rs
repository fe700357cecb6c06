//! The repository's rules that no compiler checks: links in documents are valid, comment lines are
//! not too long, modules have headers, and `unsafe` stays where CONTRIBUTING allows it.

#![expect(clippy::disallowed_methods, reason = "reads the checkout, not a database")]

use std::fs;
use std::path::{Path, PathBuf};

/// Where code may be `unsafe`, as CONTRIBUTING.md says.
const UNSAFE_ALLOWED: [&str; 8] = [
    "crates/io/src/",
    "crates/engine/src/epoch/",
    "crates/engine/src/cache/",
    "crates/engine/src/memtable/",
    "crates/engine/src/write/queue/loom.rs",
    "crates/format/src/compress/lz4.rs",
    "crates/bench-peers/src/lmdb.rs",
    "crates/bench-peers/src/rocksdb_scans.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The files below the repository whose names end so, as paths from its root, with their text.
fn files(ending: &str) -> Vec<(String, String)> {
    let root = root();
    let mut found = Vec::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory") {
            let entry = entry.expect("an entry");
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if path.is_dir() {
                let skipped = name.starts_with('.') && name != ".ci";
                if !skipped && !matches!(&*name, "target" | "corpus" | "artifacts") {
                    directories.push(path);
                }
            } else if name.ends_with(ending) {
                let relative = path.strip_prefix(&root).expect("a path below the root");
                let text = fs::read_to_string(&path).expect("text");
                found.push((relative.to_string_lossy().into_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "no file ends with {ending}");
    found
}

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn links_lead_somewhere() {
    let mut dead = Vec::new();
    for (path, text) in files(".md") {
        let directory = root().join(&path).parent().expect("a directory").to_owned();
        for link in text.split("](").skip(1) {
            let target = link.split(')').next().unwrap_or_default();
            let file = target.split('#').next().unwrap_or_default();
            let elsewhere = target.starts_with("http") || file.is_empty();
            if !elsewhere && !directory.join(file).exists() {
                dead.push(format!("{path}: {target}"));
            }
        }
    }
    assert_none("links that lead nowhere", &dead);
}

#[test]
fn lines_have_at_most_100_columns() {
    let mut long = Vec::new();
    for (path, text) in files(".rs") {
        for (number, line) in text.lines().enumerate() {
            // Text that a program prints or compares cannot always be broken.
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

#[test]
fn unsafe_code_stays_where_it_is_allowed() {
    let outside = files(".rs").into_iter().filter(|(path, text)| {
        let allows = text.contains("expect(unsafe_code") || text.contains("allow(unsafe_code");
        let listed = UNSAFE_ALLOWED.iter().any(|allowed| {
            // A folder may be allowed by the file of its module.
            path.starts_with(allowed) || *path == format!("{}.rs", allowed.trim_end_matches('/'))
        });
        let is_source = path.contains("/src/");
        allows && is_source && !listed
    });
    let outside: Vec<_> = outside.map(|(path, _)| path).collect();
    assert_none("files that allow unsafe code", &outside);
}
