//! Tests of the verb `load`, with package indexes and with keys and values as input.

use std::path::Path;

use tailwater_testkit::dump::Entry;
use tailwater_testkit::golden;

use crate::support::{
    Answer, db, db_with_input, escaped, hex_dump, hex_lines, read, run_with, write,
};

/// Loads text into a database, from standard input.
fn load(path: &Path, format: &str, arguments: &[&str], input: &[u8]) -> Answer {
    let arguments =
        ["--create", "--format", format, "-"].into_iter().chain(arguments.iter().copied());
    db_with_input("load", path, arguments, input)
}

/// Returns the stanzas of the package index that was loaded into the golden database `packages`.
pub(crate) fn package_index() -> Vec<Vec<u8>> {
    let packages = golden::dump("packages").into_iter().filter(|entry| entry.family == "default");
    packages.map(|entry| entry.value).collect()
}

#[test]
fn loaded_packages_equal_those_loaded_into_rocksdb() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("database");
    let index = package_index().join(&b'\n');
    let answer = load(&path, "packages", &[], &index).ended(0, "a new one was created");
    assert!(answer.output.starts_with("loaded 6000 packages ("), "{}", answer.output);
    assert!(hex_dump(&path) == hex_lines(&golden::dump("packages")));
    db("verify", &path, []).well();

    // The golden database was written by RocksDB from the same package index. Loading the index
    // into it changes nothing.
    let database = golden::unpack("packages");
    let file = scratch.path().join("Packages");
    write(&file, &index);
    let arguments = ["--format", "packages", "--batch", "100", "--json"];
    let document = {
        let file = file.to_str().expect("a path in UTF-8");
        db("load", database.path(), [file].into_iter().chain(arguments)).well().json()
    };
    assert_eq!(document["format"], "packages");
    assert_eq!(document["loaded"], 6000);
    assert_eq!(document["batches"], 60);
    assert_eq!(document["input_bytes"], index.len());
    assert!(document["entries"].as_u64().is_some_and(|entries| entries >= 31_223));
    assert!(hex_dump(database.path()) == hex_lines(&golden::dump("packages")));
}

#[test]
fn dumps_load_back_in_both_forms() {
    for name in golden::names() {
        let entries = golden::dump(name);
        let escaped_lines: String = entries
            .iter()
            .map(|Entry { family, key, value }| {
                format!("{}\t{}\t{}\n", escaped(family.as_bytes()), escaped(key), escaped(value))
            })
            .collect();
        let wanted = hex_lines(&entries);
        for (format, lines) in [("hex", &wanted), ("tsv", &escaped_lines)] {
            let scratch = tempfile::tempdir().expect("a directory");
            let path = scratch.path();
            let answer =
                load(path, format, &[], lines.as_bytes()).ended(0, "a new one was created");
            let count = format!("loaded {} lines (", entries.len());
            assert!(answer.output.starts_with(&count), "{name} {}", answer.output);
            assert!(hex_dump(path) == wanted, "{name} as {format}");
        }
    }
}

#[test]
fn lines_of_two_fields_go_into_the_given_column_family() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path();
    // A column family is created only when an entry is loaded into it.
    let text = b"a\\x09b\t1\nother\tk\t\\\\\n\t\nc\t\xc3\xa4\n";
    load(path, "tsv", &["--column-family", "users"], text).ended(0, "a new one was created");
    let expected = "users\t\t\nusers\t610962\t31\nusers\t63\tc3a4\nother\t6b\t5c\n";
    assert_eq!(hex_dump(path), expected);
    load(path, "hex", &["--hex"], b"00ff\t0x41\n").well();
    assert_eq!(hex_dump(path), format!("default\t00ff\t41\n{expected}"));
    let text = db("scan", path, ["--column-family", "users"]).well().output;
    load(path, "tsv", &["--column-family", "again"], text.as_bytes()).well();
    let users = expected.lines().take(3).map(|line| line.replace("users", "again") + "\n");
    let again: String = users.collect();
    assert!(hex_dump(path).ends_with(&again));
}

#[test]
fn empty_input_loads_nothing() {
    for format in ["packages", "tsv", "hex"] {
        let scratch = tempfile::tempdir().expect("a directory");
        let answer = load(scratch.path(), format, &[], b"").ended(0, "a new one was created");
        assert!(answer.output.starts_with("loaded 0 "), "{}", answer.output);
        assert_eq!(hex_dump(scratch.path()), "");
    }
}

#[test]
fn a_line_that_is_wrong_is_named_and_those_before_it_stay() {
    for (format, bad, words) in [
        ("tsv", "no tab here", "line 4: there is no tab"),
        ("tsv", "a\tb\tc\td", "line 4: there are more fields"),
        ("tsv", "a\tb\\", "line 4: the value has a backslash"),
        ("hex", "616\t", "line 4: the key is not hex"),
        ("hex", "61\t6x", "line 4: the value is not hex"),
    ] {
        let scratch = tempfile::tempdir().expect("a directory");
        let text = format!("61\t31\n62\t32\n63\t33\n{bad}\n64\t34\n");
        let answer = load(scratch.path(), format, &["--batch", "2"], text.as_bytes());
        let answer =
            answer.ended(1, words).ended(1, "standard input").ended(1, "3 lines were loaded");
        assert_eq!(answer.output, "");
        assert_eq!(hex_dump(scratch.path()).lines().count(), 3, "{bad}");
        db("verify", scratch.path(), []).well();
    }
}

/// Regression test: the last line of a truncated file was loaded with the rest of its value.
#[test]
fn a_last_line_without_its_end_is_not_loaded() {
    let words = "line 2: the input ends within this line";
    for (format, text) in [("tsv", "a\t1\nb\t23"), ("hex", "61\t31\n62\t3233")] {
        let scratch = tempfile::tempdir().expect("a directory");
        let answer = load(scratch.path(), format, &[], text.as_bytes());
        answer.ended(1, words).ended(1, "; 1 line was loaded");
        assert_eq!(hex_dump(scratch.path()), "default\t61\t31\n");
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let text = b"Package: a\nVersion: 1\n\nPackage: b\nVersion: 1.2";
    load(scratch.path(), "packages", &[], text)
        .ended(1, "line 5: the input ends within this line")
        .ended(1, "; 1 package was loaded");
}

#[test]
fn a_stanza_that_is_wrong_is_named_and_those_before_it_stay() {
    let good = "Package: a\nVersion: 1\nDepends: b, c\n";
    for (bad, words) in [
        ("Version: 1\nDepends: z\n", "Packages line 5: the stanza that begins here has no Package"),
        ("Depends: z\nPackage: z\n", "Packages line 5: the stanza that begins here has no Version"),
        ("Package: z\nVersion: 1\nDepends z\n", "Packages line 7: a name and a colon"),
        ("Package: z\nVersion: 1\nPackage: y\n", "Packages line 7: a second 'Package'"),
    ] {
        let scratch = tempfile::tempdir().expect("a directory");
        let (path, file) = (scratch.path().join("database"), scratch.path().join("Packages"));
        write(&file, format!("{good}\n{bad}\nPackage: d\nVersion: 1\n").as_bytes());
        let file = file.to_str().expect("a path in UTF-8");
        let answer = db("load", &path, ["--create", "--format", "packages", file]).ended(1, words);
        answer.ended(1, "; 1 package was loaded");
        let dump = db("dump", &path, ["--all"]).well().output;
        let lines: Vec<&str> = dump.lines().collect();
        let [package, first, second] = lines[..] else { panic!("{dump}") };
        assert!(package.starts_with("default\ta/1\tPackage: a\\x0a"), "{dump}");
        assert_eq!([first, second], ["depends\tb<-a\t1", "depends\tc<-a\t1"]);
    }
}

#[test]
fn a_file_that_cannot_be_read_makes_no_database() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("database");
    let missing = scratch.path().join("missing");
    let missing = missing.to_str().expect("a path in UTF-8");
    db("load", &path, ["--create", "--format", "tsv", missing]).ended(1, missing);
    let directory = scratch.path().to_str().expect("a path in UTF-8");
    db("load", &path, ["--create", "--format", "tsv", "-", "--ack", directory]).ended(1, directory);
    assert!(!path.exists());
    db("load", &path, ["--create", "--format", "tsv", directory]).ended(1, "Is a directory");
}

#[test]
fn each_batch_is_acknowledged_once_it_is_on_the_device() {
    let scratch = tempfile::tempdir().expect("a directory");
    let (path, ack) = (scratch.path().join("database"), scratch.path().join("loaded"));
    let arguments = ["--batch", "3", "--sync", "--ack", ack.to_str().expect("a path in UTF-8")];
    let text: String = (0..8).map(|number| format!("{number}\t\n")).collect();
    load(&path, "tsv", &arguments, text.as_bytes()).ended(0, "a new one was created");
    assert_eq!(read(&ack), b"3\n6\n8\n");
    load(&path, "tsv", &arguments, b"a\tb\nno tab\n").ended(1, "; 1 line was loaded");
    assert_eq!(read(&ack), b"3\n6\n8\n1\n");
}

#[test]
fn large_batches_are_written_before_they_are_full() {
    let scratch = tempfile::tempdir().expect("a directory");
    let value = "v".repeat(3 << 20);
    let text: String = (0..4).map(|number| format!("{number}\t{value}\n")).collect();
    let answer = load(scratch.path(), "tsv", &["--json"], text.as_bytes());
    let document = answer.ended(0, "a new one was created").json();
    assert_eq!((document["loaded"].as_u64(), document["batches"].as_u64()), (Some(4), Some(2)));
    let answer = db("get", scratch.path(), ["3"]).well();
    assert!(answer.output.trim_end() == value);
}

#[test]
fn help_describes_the_formats() {
    let help = run_with(["db", "load", "--help"]).well().output;
    for words in ["Package/Version", "KEY<TAB>VALUE", "--batch <N>", "--ack <FILE>"] {
        assert!(help.contains(words), "{words}: {help}");
    }
}
