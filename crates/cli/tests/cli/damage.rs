//! Damaged files: checks that the program always ends with one of its exit codes, and names the
//! damaged file and position.

use std::path::Path;

use serde_json::Value;
use tailwater_testkit::{directory, golden, seed};

use crate::support::{VERBS, change, db, db_with_input, file, manifest, write};

/// Number of damaged databases that every verb reads.
const ROUNDS: usize = 12;

/// Runs every read-only verb, and checks that each ends with one of the program's exit codes.
fn every_verb_ends(path: &Path, what: &str) {
    for (verb, arguments) in VERBS {
        let answer = db(verb, path, arguments.iter().copied());
        let sane = matches!(answer.code, 0 | 1 | 3) && !answer.complaints.contains("panicked");
        assert!(sane, "{verb} after {what}: {} {}", answer.code, answer.complaints);
    }
}

#[test]
fn no_verb_panics_on_damage() {
    let mut seed = seed::rng();
    for round in 0..ROUNDS * seed::rounds() {
        let name = ["blobs", "wal-zstd", "records", "wal-recycled"][round % 4];
        let database = golden::unpack(name);
        let files: Vec<_> = directory::snapshot(database.path()).into_iter().collect();
        for (path, before) in &files {
            if before.contents.is_empty() {
                continue;
            }
            change(path, |bytes| {
                if seed.rng.u8(..) < 64 {
                    bytes.truncate(seed.rng.usize(..bytes.len()));
                }
                for _ in 0..seed.rng.usize(..4) {
                    if !bytes.is_empty() {
                        let at = seed.rng.usize(..bytes.len());
                        bytes[at] ^= 1 << seed.rng.u8(..8);
                    }
                }
            });
        }
        let what = format!("TAILWATER_SEED={} round {round} of {name}", seed.value());
        every_verb_ends(database.path(), &what);
        // One damaged file in an otherwise intact database.
        let (path, _) = &files[seed.rng.usize(..files.len())];
        let damaged = crate::support::read(path);
        for (path, before) in &files {
            write(path, &before.contents);
        }
        write(path, &damaged);
        every_verb_ends(database.path(), &format!("{what}, only {}", path.display()));
    }
}

#[test]
fn no_verb_panics_on_files_of_zeros_or_noise() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut seed = seed::rng();
    for length in [0, 1, 6, 7, 53, 64, 40_000, 100_000] {
        for noise in [false, true] {
            let mut bytes = vec![0; length];
            if noise {
                seed.rng.fill(&mut bytes);
            }
            for name in ["000001.log", "000002.sst", "000003.blob", "MANIFEST-000004"] {
                write(&directory.path().join(name), &bytes);
            }
            write(&directory.path().join("CURRENT"), b"MANIFEST-000004\n");
            let what = format!("TAILWATER_SEED={} {length} bytes", seed.value());
            every_verb_ends(directory.path(), &what);
        }
    }
}

#[test]
fn other_column_families_stay_readable() {
    let database = golden::unpack("records");
    // The oldest table of the column family `counters`.
    change(&file(database.path(), "000009.sst"), |bytes| bytes[100] ^= 1);
    let answer = db("dump", database.path(), ["--all"])
        .ended(1, "skipped in column family 'counters'")
        .ended(1, "000009.sst");
    let expected = golden::dump("records");
    for family in ["default", "ranges", "singles"] {
        let wanted = expected.iter().filter(|entry| entry.family == family).count();
        let prefix = format!("{family}\t");
        let found = answer.output.lines().filter(|line| line.starts_with(&prefix)).count();
        assert_eq!(found, wanted, "{family}");
    }
    db("dump", database.path(), ["--column-family", "singles"]).well();
}

/// Regression test: `dump` and `scan` ended at the first damaged block, although everything after
/// it could be read.
#[test]
fn the_entries_after_a_damaged_block_are_printed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("db");
    let lines: Vec<String> = (0..5000).map(|number| format!("k{number:05}\tv{number}")).collect();
    let input = lines.join("\n") + "\n";
    let arguments = ["--format", "tsv", "--create", "--options", "compression=kNoCompression", "-"];
    db_with_input("load", &path, arguments, input.as_bytes()).ended(0, "");
    db("flush", &path, []).well();
    change(&file(&path, ".sst"), |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    });

    let scanned = db("scan", &path, []).ended(1, "skipped in column family 'default'");
    assert!(scanned.complaints.contains(".sst") && scanned.complaints.contains("offset"));
    let printed: Vec<&str> = scanned.output.lines().collect();
    assert!((4500..5000).contains(&printed.len()), "{} entries", printed.len());
    // One range of keys is missing, and it is inside the range that is reported.
    let missing: Vec<&String> =
        lines.iter().filter(|line| printed.binary_search(&line.as_str()).is_err()).collect();
    assert_eq!(missing.len() + printed.len(), lines.len());
    let quoted: Vec<&str> = scanned.complaints.split('\'').collect();
    let [_, _, _, from, _, to, ..] = quoted[..] else { panic!("{}", scanned.complaints) };
    let is_reported = |line: &&String| {
        let (key, _) = line.split_once('\t').expect("a key and a value");
        (from..=to).contains(&key)
    };
    assert!(missing.iter().all(is_reported), "from {from} to {to}: {missing:?}");

    let reverse = db("scan", &path, ["--reverse"]).ended(1, "skipped");
    assert!(reverse.output.lines().rev().eq(printed.iter().copied()));
    let count = db("scan", &path, ["--count"]).ended(1, "skipped");
    assert_eq!(count.output.trim(), printed.len().to_string());
    let dumped = db("dump", &path, ["--all"]).ended(1, "skipped in column family 'default'");
    assert!(dumped.output.lines().eq(printed.iter().map(|line| format!("default\t{line}"))));
    // Nothing is reported about a block that is not needed.
    db("scan", &path, ["--to", "k00100"]).well();
}

#[test]
fn a_damaged_block_is_named_and_the_others_are_shown() {
    let database = golden::unpack("basic");
    let table = file(database.path(), "000080.sst");
    let whole = db("table", &table, ["--blocks", "--json"]).well().json_lines();
    change(&table, |bytes| bytes[1000] ^= 1);
    let answer = db("table", &table, ["--blocks", "--json"]);
    assert_eq!(answer.code, 1);
    let damaged = answer.json_lines();
    assert_eq!(damaged.len(), whole.len());
    let bad: Vec<&Value> =
        damaged.iter().filter(|document| document["checksum_holds"] == false).collect();
    assert_eq!(bad.len(), 1);
    assert_eq!(bad[0]["offset"], 0);
    let text = db("table", &table, ["--blocks"]);
    assert_eq!(text.output.matches("DAMAGED").count(), 1);
}

#[test]
fn a_damaged_part_of_a_table_is_named() {
    let database = golden::unpack("basic");
    let table = file(database.path(), "000080.sst");
    let documents = db("table", &table, ["--json"]).well().json_lines();
    let place = |value: &Value| value["offset"].as_u64().expect("an offset") as usize;
    let mut parts = vec![place(&documents[0]["footer"]["metaindex"])];
    let meta_blocks = documents[0]["meta_blocks"].as_array().expect("meta blocks");
    parts.extend(meta_blocks.iter().map(|entry| place(&entry["block"])));
    assert_eq!(parts.len(), 3);
    for offset in parts {
        change(&table, |bytes| bytes[offset + 10] ^= 1);
        db("table", &table, []).ended(1, &format!("at offset {offset}"));
        change(&table, |bytes| bytes[offset + 10] ^= 1);
    }
    change(&table, |bytes| {
        let length = bytes.len();
        bytes[length - 1] ^= 1;
    });
    db("table", &table, []).ended(1, "corrupt footer");
}

#[test]
fn blobs_after_damage_are_found() {
    let database = golden::unpack("blobs");
    let blobs = file(database.path(), "000010.blob");
    let whole = db("blob", &blobs, ["--json"]).well().json_lines();
    let records: Vec<&Value> =
        whole.iter().filter(|document| document["kind"] == "record").collect();
    assert_eq!(records.len(), 83);
    let place = |value: &Value| value.as_u64().expect("an offset") as usize;
    // Damages the header of the third record, so that its length is unknown, and the value of the
    // fifth.
    let (third, fifth) = (place(&records[2]["offset"]), place(&records[4]["value_offset"]));
    change(&blobs, |bytes| {
        bytes[third + 8] ^= 1;
        bytes[fifth + 1] ^= 1;
    });
    let answer = db("blob", &blobs, ["--json"]);
    assert_eq!(answer.code, 1);
    let documents = answer.json_lines();
    assert_eq!(documents.len(), whole.len());
    assert_eq!(documents[3]["kind"], "damage");
    assert_eq!(documents[3]["offset"], records[2]["offset"]);
    assert_eq!(documents[3]["length"], records[2]["length"]);
    assert_eq!(documents[4], *records[3]);
    assert!(documents[5]["problem"].as_str().is_some_and(|what| what.contains("checksum")));
    assert_eq!(documents[6], *records[5]);
    let footer = documents.last().expect("a footer");
    assert_eq!((&footer["records"], &footer["damaged"]), (&Value::from(82), &Value::from(2)));

    change(&blobs, |bytes| bytes.truncate(bytes.len() - 1));
    let answer = db("blob", &blobs, []);
    assert_eq!(answer.code, 1);
    assert!(answer.output.contains("no footer"));
}

#[test]
fn contradictory_edits_are_reported() {
    let database = golden::unpack("basic");
    let manifest = manifest(database.path());
    // Appends a copy of the last record. The copy deletes tables that the first occurrence already
    // deleted, so it is inconsistent.
    change(&manifest, |bytes| bytes.extend_from_within(5792..));
    let answer = db("manifest", database.path(), []);
    assert_eq!(answer.code, 1);
    assert!(answer.output.contains("cannot be opened"), "{}", answer.output);
    assert!(answer.output.contains("at offset 6223"), "{}", answer.output);
}
