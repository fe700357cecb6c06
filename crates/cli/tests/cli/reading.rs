//! The contents of databases: `get`, `scan`, `dump`.

use tailwater_testkit::dump::Entry;
use tailwater_testkit::golden;

use crate::support::{Answer, db, escaped, hex};

#[test]
fn dump_is_what_rocksdb_read() {
    for name in golden::names() {
        let directory = golden::unpack(name);
        let line = |entry: &Entry| {
            format!("{}\t{}\t{}\n", entry.family, hex(&entry.key), hex(&entry.value))
        };
        let expected: String = golden::dump(name).iter().map(line).collect();
        let answer = db("dump", directory.path(), ["--all", "--hex"]).well();
        assert!(answer.output == expected, "{name}");
    }
}

#[test]
fn dump_escapes_and_keeps_to_its_column_family() {
    let directory = golden::unpack("records");
    for family in ["default", "counters", "singles"] {
        let entries = golden::dump("records").into_iter().filter(|entry| entry.family == family);
        let expected: String = entries
            .map(|entry| format!("{family}\t{}\t{}\n", escaped(&entry.key), escaped(&entry.value)))
            .collect();
        let answer = db("dump", directory.path(), ["--column-family", family]).well();
        assert!(answer.output == expected, "{family}");
    }
}

#[test]
fn dump_as_json_has_the_same_entries() {
    let directory = golden::unpack("records");
    let documents = db("dump", directory.path(), ["--all", "--json"]).well().json_lines();
    let expected = golden::dump("records");
    assert_eq!(documents.len(), expected.len());
    for (document, entry) in documents.iter().zip(&expected) {
        assert_eq!(document["column_family"], entry.family);
        assert_eq!(document["key"], escaped(&entry.key));
        assert_eq!(document["value"], escaped(&entry.value));
    }
}

#[test]
fn get_finds_a_key_given_in_any_form() {
    let directory = golden::unpack("records");
    let path = directory.path();
    let entry = &golden::dump("records").into_iter().find(|entry| entry.family == "counters");
    let Entry { key, value, .. } = entry.as_ref().expect("an entry of the counters");
    let (text, key_hex) = (escaped(key), hex(key));
    let family = ["--column-family", "counters"];
    let get = |arguments: &[&str]| db("get", path, family.iter().chain(arguments).copied()).well();

    assert_eq!(get(&[&text]).output, escaped(value) + "\n");
    let all_escaped: String = key.iter().map(|byte| format!("\\x{byte:02X}")).collect();
    assert_eq!(get(&[&all_escaped]).output, escaped(value) + "\n");
    assert_eq!(get(&["--hex", &key_hex]).output, hex(value) + "\n");
    assert_eq!(get(&["--key-hex", &format!("0x{key_hex}")]).output, escaped(value) + "\n");

    let document = get(&["--json", "--hex", &key_hex]).json();
    assert_eq!(document["column_family"], "counters");
    assert_eq!(document["key"], key_hex);
    assert_eq!(document["found"], true);
    assert_eq!(document["value"], hex(value));
}

#[test]
fn get_reports_what_does_not_exist() {
    let directory = golden::unpack("records");
    db("get", directory.path(), ["no such key"]).ended(1, "no key 'no such key'");
    let answer = db("get", directory.path(), ["--json", "no such key"]);
    assert_eq!(answer.code, 1);
    assert_eq!(answer.json()["found"], false);
    assert!(answer.json()["value"].is_null());
    db("get", directory.path(), ["key", "--column-family", "nope"])
        .ended(1, "there are: default, counters, ranges, singles");
}

/// Returns the keys that a scan of the column family `family` must print: those for which `wanted`
/// returns true.
fn keys(family: &str, wanted: impl Fn(&[u8]) -> bool) -> Vec<String> {
    let entries = golden::dump("packages").into_iter();
    let entries = entries.filter(|entry| entry.family == family && wanted(&entry.key));
    entries.map(|entry| escaped(&entry.key)).collect()
}

#[test]
fn scan_shows_ranges_and_prefixes_both_ways() {
    let directory = golden::unpack("packages");
    let scan = |arguments: &[&str]| {
        let arguments = arguments.iter().chain(&["--keys-only"]).copied();
        let answer = db("scan", directory.path(), arguments).well();
        answer.output.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    let reversed = |mut keys: Vec<String>| {
        keys.reverse();
        keys
    };
    let prefixed = keys("default", |key| key.starts_with(b"ab"));
    let ranged = keys("default", |key| key >= b"ab" && key < b"ac");
    let both = keys("default", |key| key.starts_with(b"ab") && key >= b"abi");
    assert!(prefixed.len() > 10 && ranged == prefixed && both.len() < prefixed.len());

    assert_eq!(scan(&["--prefix", "ab"]), prefixed);
    assert_eq!(scan(&["--prefix", "ab", "--reverse"]), reversed(prefixed.clone()));
    assert_eq!(scan(&["--from", "ab", "--to", "ac"]), ranged);
    assert_eq!(scan(&["--from", "ab", "--to", "ac", "--reverse"]), reversed(ranged));
    assert_eq!(scan(&["--prefix", "ab", "--from", "abi"]), both);
    assert_eq!(scan(&["--prefix", "ab", "--from", "abi", "--reverse"]), reversed(both));
    assert_eq!(scan(&["--prefix", "6162", "--key-hex"]), prefixed);
    assert_eq!(scan(&["--prefix", "ab", "--limit", "3"]), prefixed[..3]);
    assert_eq!(scan(&["--prefix", "\\xff\\xff"]), Vec::<String>::new());
    assert_eq!(scan(&["--column-family", "depends"]), keys("depends", |_| true));
    let last = keys("default", |_| true).pop().expect("a last key");
    assert_eq!(scan(&["--reverse", "--limit", "1"]), [last]);
}

#[test]
fn scan_counts_and_prints_values() {
    let directory = golden::unpack("packages");
    let path = directory.path();
    let count = keys("default", |_| true).len();
    assert_eq!(db("scan", path, ["--count"]).well().output, format!("{count}\n"));
    let document = db("scan", path, ["--count", "--json"]).well().json();
    assert_eq!(document["count"], count);

    let first = &golden::dump("packages")[0];
    let answer = db("scan", path, ["--limit", "1"]).well();
    assert_eq!(answer.output, format!("{}\t{}\n", escaped(&first.key), escaped(&first.value)));
    let documents = db("scan", path, ["--limit", "2", "--json", "--hex"]).well().json_lines();
    assert_eq!(documents.len(), 2);
    assert_eq!(documents[0]["key"], hex(&first.key));
    assert_eq!(documents[0]["value"], hex(&first.value));
}

/// Regression test: `dump` and `scan` ended at the first key with operands of a merge operator that
/// is not built in.
#[test]
fn keys_whose_operands_cannot_be_merged_are_skipped_and_reported() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("db");
    let with = ["--options", "merge_operator=stringappend"];
    for (verb, arguments) in
        [("put", ["a", "1"]), ("merge", ["b", "2"]), ("merge", ["c", "3"]), ("put", ["d", "4"])]
    {
        let arguments = arguments.into_iter().chain(["--create"]).chain(with);
        db(verb, &path, arguments).ended(0, "");
    }
    for without in ["merge_operator=nullptr", "merge_operator=my.Operator"] {
        let read = |verb: &str, arguments: &[&str]| {
            db(verb, &path, arguments.iter().copied().chain(["--options", without]))
        };
        let reported = |answer: Answer| {
            answer
                .ended(1, "skipped in column family 'default': the key 'b': ")
                .ended(1, "skipped in column family 'default': the key 'c': ")
                .output
        };
        assert_eq!(reported(read("scan", &[])), "a\t1\nd\t4\n");
        assert_eq!(reported(read("scan", &["--reverse"])), "d\t4\na\t1\n");
        assert_eq!(reported(read("dump", &["--all"])), "default\ta\t1\ndefault\td\t4\n");
        // Keys alone need no merge operator.
        let keys = |arguments: &[&str]| {
            let arguments = [&["--keys-only"], arguments].concat();
            let answer = read("scan", &arguments);
            assert_eq!(answer.code, 0, "{}", answer.complaints);
            assert!(!answer.complaints.contains("skipped"), "{}", answer.complaints);
            answer.output
        };
        assert_eq!(keys(&[]), "a\nb\nc\nd\n");
        assert_eq!(keys(&["--reverse"]), "d\nc\nb\na\n");
        assert_eq!(keys(&["--limit", "2"]), "a\nb\n");
        assert_eq!(keys(&["--limit", "1", "--from", "b"]), "b\n");
        assert_eq!(keys(&["--prefix", "c"]), "c\n");
        assert_eq!(keys(&["--prefix", "c", "--json"]), "{\"key\":\"c\"}\n");
        assert_eq!(keys(&["--to", "c", "--reverse", "--count"]), "2\n");
    }
}
