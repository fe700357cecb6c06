//! Checks that `docs/cli.md` names every field of the JSON output, and that the help of `tail`
//! agrees with `docs/tail.md`.

use std::collections::BTreeSet;

use serde_json::Value;
use tailwater_testkit::golden;

use crate::support::{VERBS, WRITING_VERBS, change, db, external_table, file, manifest, run_with};

const DOCUMENT: &str = include_str!("../../../../docs/cli.md");

/// The description of the command `tail`.
const TAIL: &str = include_str!("../../../../docs/tail.md");

/// JSON objects whose field names come from the database, and so need not be documented: options,
/// properties and logs.
const OPEN: [&str; 3] = ["options", "properties", "synced_logs"];

fn collect(value: &Value, fields: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                fields.insert(name.clone());
                if !OPEN.contains(&name.as_str()) {
                    collect(value, fields);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, fields)),
        _ => {}
    }
}

#[test]
fn every_field_is_documented() {
    let mut fields = BTreeSet::new();
    for name in ["records", "blobs", "formats", "wal-recycled"] {
        let database = golden::unpack(name);
        for whole in [true, false] {
            if !whole {
                change(&file(database.path(), ".log"), |bytes| bytes.truncate(bytes.len() - 9));
                change(&manifest(database.path()), |bytes| bytes[700] ^= 1);
            }
            for (verb, arguments) in VERBS {
                let arguments = arguments.iter().copied().chain(["--json"]);
                let output = db(verb, database.path(), arguments).output;
                for value in serde_json::Deserializer::from_str(&output).into_iter() {
                    collect(&value.expect("JSON"), &mut fields);
                }
            }
        }
    }
    assert!(fields.len() > 100, "{fields:?}");
    assert_documented(&fields);
}

#[test]
fn every_field_of_what_changes_a_database_is_documented() {
    let scratch = tempfile::tempdir().expect("a directory");
    let (database, copy) = (scratch.path().join("database"), scratch.path().join("copy"));
    let copy = copy.to_str().expect("a path in UTF-8");
    let file = scratch.path().join("file.sst");
    external_table(&file, &["k"]);
    let file = file.to_str().expect("a path in UTF-8");
    let mut fields = BTreeSet::new();
    for (verb, arguments) in WRITING_VERBS {
        let arguments: &[&str] = match verb {
            "checkpoint" => &[copy],
            "ingest" => &[file],
            "put" => &["key", "value", "--create"],
            "merge" => &["key", "operand", "--options", "merge_operator=stringappend"],
            _ => arguments,
        };
        let arguments = arguments.iter().copied().chain(["--json"]);
        let answer = db(verb, &database, arguments);
        assert_eq!(answer.code, 0, "{verb}: {}", answer.complaints);
        let document = answer.json();
        assert_eq!(document["verb"], verb);
        collect(&document, &mut fields);
    }
    assert_documented(&fields);
}

/// Regression test: an example in the help of `tail` promised a shorter run than `docs/tail.md`.
#[test]
fn the_help_of_tail_gives_the_documented_duration() {
    let minutes = |text: &str| -> Vec<String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let pairs = words.windows(2).filter(|pair| pair[1].trim_end_matches(',') == "minutes");
        pairs.map(|pair| pair[0].to_owned()).collect()
    };
    let documented = TAIL.lines().find(|line| line.starts_with("tailwater tail --quick "));
    let documented = minutes(documented.expect("the first example"));
    let [documented] = &documented[..] else { panic!("one duration: {documented:?}") };
    let help = run_with(["tail", "--help"]).well().output;
    // The option and the example.
    assert_eq!(minutes(&help), [documented.as_str(); 2], "{help}");
}

#[test]
fn every_verb_is_documented() {
    for (verb, _) in VERBS.into_iter().chain(WRITING_VERBS) {
        assert!(DOCUMENT.contains(&format!("| `{verb} ")), "{verb} is not in the tables");
    }
}

fn assert_documented(fields: &BTreeSet<String>) {
    let is_missing = |field: &&String| {
        !DOCUMENT.contains(&format!("\"{field}\"")) && !DOCUMENT.contains(&format!("`{field}`"))
    };
    let missing: Vec<&String> = fields.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "not in docs/cli.md: {missing:?}");
}
