//! Rules of the repository that no compiler checks: READMEs show the tested program, packages are
//! complete, comments are not too wide, modules have headers, prose avoids phrases that a reader
//! must decode, and `unsafe` is only where CONTRIBUTING allows it.

#![expect(clippy::disallowed_methods, reason = "reads the checkout, not a database")]

mod common;

use std::fs;

use common::{assert_none, files, root};

/// Paths where code may be `unsafe`, according to CONTRIBUTING.md.
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

/// Phrases that comments and documents must not contain, in lower case, each with better phrases.
const REJECTED_PHRASES: &[(&str, &str)] = &[
    ("also after", "even after, including after"),
    ("are told", "are notified, are reported"),
    ("at one moment", "at a point in time"),
    ("by the same hand", "by the same thread, under one lock"),
    ("carried along", "preserved"),
    ("come by", "obtain"),
    ("comes by", "obtains"),
    ("comes to an end", "ends, terminates"),
    ("drives out", "evicts"),
    ("errors of the system", "I/O errors"),
    ("gives it away", "reveals it"),
    ("go along", "join"),
    ("goes along", "joins"),
    ("holds good", "is valid, holds"),
    ("if anybody asked", "on request"),
    ("in the making", "being built"),
    ("in vain", "has no effect"),
    ("is told", "is notified, is reported"),
    ("it is looked whether", "it is checked whether"),
    ("leap over", "skip"),
    ("milliards", "billions"),
    ("no user gets", "not shared with users"),
    ("nobody's business", "ignored"),
    ("nothing comes of it", "has no effect"),
    ("of one moment", "as of a point in time"),
    ("push out", "evict"),
    ("pushed out", "evicted"),
    ("pushes out", "evicts"),
    ("put into words", "formatted, reported"),
    ("put on the device", "synced"),
    ("puts on the device", "syncs"),
    ("so many", "this many, COUNT"),
    ("so often", "COUNT times"),
    ("stand still", "quiesce"),
    ("stands for", "denotes, represents"),
    ("stands still", "is quiesced"),
    ("takes the place", "replaces"),
    ("to and fro", "back and forth"),
    ("told apart", "distinguished"),
    ("told by", "identified by, reported by"),
    ("unless said otherwise", "by default"),
    ("was told", "was notified, was reported"),
    ("what can be typed", "arguments"),
    ("what is asked of", "arguments of"),
    ("what is said of", "the description of"),
    ("whoever comes", "the next thread"),
    ("with commas between", "comma-separated"),
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

/// Returns the words of a file's prose, in lower case and without punctuation, each with its line
/// number. In source code, only lines that consist of a comment are prose. An empty word marks the
/// end of a comment or paragraph.
fn words_of_prose(path: &str, text: &str) -> Vec<(usize, String)> {
    let marker = match path.rsplit('.').next() {
        Some("md") => "",
        Some("rs") => "//",
        _ => "#",
    };
    let mut words = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let prose = line.trim_start().strip_prefix(marker).unwrap_or_default();
        if prose.trim().is_empty() {
            words.push((number + 1, String::new()));
        }
        for word in prose.trim_start_matches(['/', '!']).split_whitespace() {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
            words.push((number + 1, word));
        }
    }
    words
}

/// Returns a message for each rejected phrase in the prose of a file, with its line number. A
/// phrase may continue on the next line.
fn rejected_phrases(path: &str, text: &str) -> Vec<String> {
    let words = words_of_prose(path, text);
    let mut found = Vec::new();
    for (phrase, replacement) in REJECTED_PHRASES {
        let phrase_words: Vec<&str> = phrase.split(' ').collect();
        for window in words.windows(phrase_words.len()) {
            if window.iter().map(|(_, word)| word.as_str()).eq(phrase_words.iter().copied()) {
                let line = window.first().map_or(0, |(number, _)| *number);
                found.push(format!("{path}:{line}: \"{phrase}\" (better: {replacement})"));
            }
        }
    }
    found
}

#[test]
fn prose_avoids_rejected_phrases() {
    let mut found = Vec::new();
    for ending in [".rs", ".md", ".sh", ".py", ".toml", ".txt"] {
        for (path, text) in files(ending) {
            found.extend(rejected_phrases(&path, &text));
        }
    }
    assert_none("phrases that a reader must decode", &found);
}

#[test]
fn rejected_phrases_are_found_in_prose_alone() {
    for (phrase, _) in REJECTED_PHRASES {
        let (first, rest) = phrase.split_once(' ').unwrap_or((phrase, ""));
        for (path, text) in [
            ("a.md", format!("Text that {phrase}.")),
            ("a.md", format!("Text that {first}\n{rest}, and more.")),
            ("a.rs", format!("    /// Text that **{}**", phrase.to_uppercase())),
            ("a.rs", format!("//! Text that {first}\n//! {rest}.")),
            ("a.sh", format!("# Text that {phrase}")),
        ] {
            let found = rejected_phrases(path, &text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(
                found.iter().all(|place| place.starts_with(&format!("{path}:1: "))),
                "{found:?}"
            );
        }
        let mut accepted = vec![
            ("a.md", format!("Text that un{phrase}.")),
            ("a.rs", format!("let text = \"{phrase}\";")),
            ("a.sh", format!("echo {phrase}")),
        ];
        if !rest.is_empty() {
            accepted.push(("a.md", format!("Text that {first}\n\n{rest}.")));
            accepted.push(("a.rs", format!("// {first}\nlet code = 1;\n// {rest}")));
        }
        for (path, text) in accepted {
            assert_eq!(rejected_phrases(path, &text), Vec::<String>::new(), "{text}");
        }
    }
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
