//! Verbs that change a database: `put`, `delete` and the like, column families, `checkpoint`,
//! `destroy`, and the locks they need.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use tailwater_testkit::{directory, golden};

use crate::support::{change, db, hex_dump, hex_lines, manifest, program, read, write};

/// Creates a scratch directory, and returns it with the path of a database to create in it.
fn new() -> (tempfile::TempDir, std::path::PathBuf) {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("database");
    (scratch, path)
}

fn families(path: &Path) -> Vec<String> {
    db("column-families", path, []).well().output.lines().map(str::to_owned).collect()
}

#[test]
fn what_is_put_is_there_until_it_is_deleted() {
    let (_scratch, path) = new();
    db("put", &path, ["a", "1\\t2", "--create"]).ended(0, "a new one was created");
    db("put", &path, ["--hex", "62ff", "0x00", "--sync"]).well();
    db("put", &path, ["--key-hex", "63", "63"]).well();
    db("put", &path, ["d", ""]).well();
    let expected = "default\t61\t310932\ndefault\t62ff\t00\ndefault\t63\t3633\ndefault\t64\t\n";
    assert_eq!(hex_dump(&path), expected);

    db("put", &path, ["a", "3"]).well();
    db("delete", &path, ["c", "--sync"]).well();
    db("delete", &path, ["never there"]).well();
    db("single-delete", &path, ["d"]).well();
    assert_eq!(hex_dump(&path), "default\t61\t33\ndefault\t62ff\t00\n");
    db("delete-range", &path, ["--hex", "61", "62ff"]).well();
    assert_eq!(hex_dump(&path), "default\t62ff\t00\n");
    db("verify", &path, []).well();
}

#[test]
fn a_directory_that_is_there_and_empty_gets_a_database() {
    let scratch = tempfile::tempdir().expect("a directory");
    db("put", scratch.path(), ["a", "1", "--create"]).ended(0, "no database in");
    assert_eq!(hex_dump(scratch.path()), "default\t61\t31\n");
}

#[test]
fn a_new_database_gets_the_options_and_the_column_family_that_are_given() {
    let (_scratch, path) = new();
    let given = ["--create", "--options", "compression=kNoCompression", "--column-family", "users"];
    db("put", &path, ["a", "1"].into_iter().chain(given)).ended(0, "a new one was created");
    assert_eq!(hex_dump(&path), "users\t61\t31\n");
    db("put", &path, ["a", "1", "--column-family", "nope"])
        .ended(1, "there is no column family 'nope'; there are: default, users");
}

#[test]
fn operands_are_merged_where_there_is_an_operator() {
    let (_scratch, path) = new();
    let operator = ["--options", "merge_operator=stringappend"];
    db("merge", &path, ["a", "1", "--create"].into_iter().chain(operator))
        .ended(0, "a new one was created");
    db("merge", &path, ["a", "2"].into_iter().chain(operator)).well();
    let value = db("get", &path, ["a"].into_iter().chain(operator)).well().output;
    assert_eq!(value, "1,2\n");

    // The merge operator of the column family `counters` is in the database's OPTIONS file.
    let counters = golden::unpack("records");
    let family = ["--column-family", "counters", "--hex", "6e6577"];
    for _ in 0..2 {
        let operand = family.into_iter().chain(["0200000000000000"]);
        db("merge", counters.path(), operand).well();
    }
    let value = db("get", counters.path(), family).well().output;
    assert_eq!(value, "0400000000000000\n");
}

/// Regression test: options of column families went to every column family, and were recorded
/// there. Another merge operator cannot read the operands that are stored.
#[test]
fn options_of_the_command_line_go_to_the_named_column_family() {
    let (_scratch, path) = new();
    let created = |name: &'static str, operator: &'static str| {
        db("create-column-family", &path, [name, "--create", "--options", operator])
    };
    created("counters", "merge_operator=uint64add").ended(0, "a new one was created");
    created("logs", "merge_operator=stringappend;write_buffer_size=1m").well();
    let operator_of = |name: &'static str| {
        let options = db("options", &path, ["--json"]).well().json();
        let is_it = |section: &&serde_json::Value| {
            section["kind"] == "column_family" && section["column_family"] == name
        };
        let sections = options["sections"].as_array().expect("sections");
        let section = sections.iter().find(is_it).expect("the column family");
        section["options"]["merge_operator"]["value"].as_str().expect("a text").to_owned()
    };
    let operators = || ["default", "counters", "logs"].map(operator_of);
    let expected = ["nullptr", "uint64add", "stringappend"];
    assert_eq!(operators(), expected);
    let count = ["--column-family", "counters", "--hex", "6b", "0100000000000000"];
    db("merge", &path, count).well();

    // A wrong operator is refused, and so is one for all column families.
    let wrong = ["--column-family", "counters", "k", "v", "--options", "merge_operator=max"];
    let words = "column family 'counters': option merge_operator is recorded as 'uint64add'";
    db("merge", &path, wrong).ended(1, words);
    db("flush", &path, ["--options", "merge_operator=stringappend"]).ended(1, words);
    // The operator's other name is no other operator.
    let same = ["--column-family", "counters", "--options", "merge_operator=UInt64AddOperator"];
    db("flush", &path, same).well();
    db("put", &path, ["k", "v", "--options", "merge_operator=stringappend"]).well();
    assert_eq!(operators(), ["stringappend", "UInt64AddOperator", "stringappend"]);
    let value = db("get", &path, ["--column-family", "counters", "--hex", "6b"]).well().output;
    assert_eq!(value, "0100000000000000\n");
}

#[test]
fn databases_written_by_rocksdb_can_be_changed() {
    for name in golden::names() {
        let database = golden::unpack(name);
        let mut expected = golden::dump(name);
        expected[0].value = b"changed".to_vec();
        let changed = &expected[0];
        let key: String = changed.key.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let put = [&key, "changed", "--column-family", &changed.family];
        let answer = db("put", database.path(), put);
        assert_eq!(answer.code, 0, "{name}: {}", answer.complaints);
        let without_effect = db("options", database.path(), ["--without-effect"]).well().output;
        let is_count =
            |line: &&str| line.contains(" have no effect: ") || line.contains(" has no effect: ");
        let counts: Vec<&str> = answer.complaints.lines().filter(is_count).collect();
        let count = without_effect.lines().count();
        assert_eq!(counts.len(), usize::from(count > 0), "{name}: {counts:#?}");
        assert!(counts.iter().all(|line| line.contains(&format!(" {count} option"))), "{name}");
        // Warnings about requested features that the engine can read but not write.
        let expected_warnings: Vec<&str> = match *name {
            "blobs" => {
                vec!["enable_blob_files=true of 'default' has no effect: new values are stored"]
            }
            "fifo" => vec!["'default' is compacted manually only"],
            "formats" => vec![
                "index_type=kTwoLevelIndexSearch of the tables of",
                "format_version=2 of the tables of",
            ],
            "small-2" | "small-5" | "small-6" | "small-7" => {
                vec!["Ribbon filters for the tables of"]
            }
            "small-blobs" => vec!["enable_blob_files=true"],
            "universal" => vec!["'default' is compacted manually only"],
            _ => vec![],
        };
        let complaints = answer.complaints.lines().filter(|line| !is_count(line));
        let warnings: Vec<&str> = complaints
            .map(|line| line.strip_prefix("tailwater: warning: ").expect("only warnings"))
            .chain(without_effect.lines())
            .collect();
        assert_eq!(warnings.is_empty(), expected_warnings.is_empty(), "{name}: {warnings:#?}");
        for words in expected_warnings {
            assert!(warnings.iter().any(|it| it.contains(words)), "{name}: {warnings:#?}");
        }
        assert!(hex_dump(database.path()) == hex_lines(&expected), "{name}");
        assert_eq!(db("verify", database.path(), []).code, 0, "{name}");
        assert_eq!(db("flush", database.path(), []).code, 0, "{name}");
        assert!(hex_dump(database.path()) == hex_lines(&expected), "{name} flushed");
        assert_eq!(db("verify", database.path(), []).code, 0, "{name} flushed");
    }
}

#[test]
fn flush_moves_writes_from_logs_into_tables() {
    let tables = |path: &Path| {
        let state = db("properties", path, ["--json"]).well().json();
        let families = state["column_families"].as_array().expect("column families").clone();
        let count = |family: &serde_json::Value| family["table_count"].as_u64().expect("a count");
        families.iter().map(count).collect::<Vec<u64>>()
    };
    // A database whose last process ended without closing it.
    let (scratch, path) = new();
    db("create-column-family", &path, ["users", "--create"]).ended(0, "a new one was created");
    db("put", &path, ["a", "1"]).well();
    let unflushed = "avoid_flush_during_recovery=true";
    for family in ["default", "users"] {
        let arguments = ["b", "2", "--column-family", family, "--options", unflushed];
        db("put", &path, arguments).well();
    }
    let before = tables(&path);
    db("flush", &path, ["--column-family", "users", "--options", unflushed]).well();
    let users = tables(&path);
    assert!(users[1] > before[1], "{before:?} {users:?}");
    db("flush", &path, []).well();
    assert!(tables(&path)[0] > 0);
    let expected = "default\t61\t31\ndefault\t62\t32\nusers\t62\t32\n";
    assert_eq!(hex_dump(&path), expected);
    db("flush", &path, ["--column-family", "nope"]).ended(1, "no column family 'nope'");
    drop(scratch);
}

#[test]
fn column_families_come_and_go() {
    let database = golden::unpack("records");
    let path = database.path();
    assert_eq!(families(path), ["default", "counters", "ranges", "singles"]);
    let documents = db("column-families", path, ["--json"]).well().json_lines();
    assert_eq!(documents[1]["name"], "counters");
    assert_eq!(documents[1]["comparator"], "leveldb.BytewiseComparator");

    db("drop-column-family", path, ["counters"]).well();
    assert_eq!(families(path), ["default", "ranges", "singles"]);
    db("create-column-family", path, ["more"]).well();
    assert_eq!(families(path), ["default", "ranges", "singles", "more"]);
    db("put", path, ["a", "1", "--column-family", "more"]).well();
    let mut expected = golden::dump("records");
    expected.retain(|entry| entry.family != "counters");
    assert_eq!(hex_dump(path), hex_lines(&expected) + "more\t61\t31\n");

    db("create-column-family", path, ["more"]).ended(1, "more");
    db("drop-column-family", path, ["counters"]).ended(1, "no column family 'counters'");
    db("drop-column-family", path, ["default"]).ended(1, "default");
    db("create-column-family", path, ["counters"]).well();
    assert_eq!(db("scan", path, ["--column-family", "counters", "--count"]).well().output, "0\n");
    db("verify", path, []).well();
}

#[test]
fn options_of_missing_column_families_are_ignored() {
    let database = golden::unpack("packages");
    let options = directory::snapshot(database.path())
        .into_keys()
        .filter(|path| path.to_string_lossy().contains("OPTIONS-"))
        .max()
        .expect("an OPTIONS file");
    // The OPTIONS file gets a second copy of the sections of the column family `depends`, under the
    // name `gone`. There is no column family `gone`.
    let text = String::from_utf8(read(&options)).expect("text");
    let at = text.find("[CFOptions \"depends\"]").expect("a section of `depends`");
    let more = text[at..].replace("\"depends\"", "\"gone\"");
    write(&options, format!("{text}\n{more}").as_bytes());
    db("put", database.path(), ["a", "1"]).well();
    assert_eq!(families(database.path()), ["default", "depends"]);
}

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let database = golden::unpack("packages");
    let (_scratch, copy) = new();
    let target = copy.to_str().expect("a path in UTF-8");
    let before = hex_dump(database.path());
    db("checkpoint", database.path(), [target]).well();
    assert!(hex_dump(&copy) == before);
    db("put", &copy, ["only here", ""]).well();
    db("delete-range", database.path(), ["a", "z"]).well();
    assert_eq!(hex_dump(&copy).lines().count(), before.lines().count() + 1);
    for path in [database.path(), &copy] {
        db("verify", path, []).well();
    }
    let answer = db("checkpoint", database.path(), [target]);
    assert_eq!(answer.code, 1, "{}", answer.complaints);
    assert!(answer.complaints.contains(target), "{}", answer.complaints);
}

#[test]
fn destroy_removes_the_database_and_nothing_else() {
    let database = golden::unpack("blobs");
    let path = database.path();
    let own = path.join("mine.txt");
    write(&own, b"not the database's");
    db("destroy", path, []).ended(2, "confirm with --yes");
    db("dump", path, []).well();
    db("destroy", path, ["--yes"]).well();
    let left: Vec<_> = directory::snapshot(path).into_keys().collect();
    assert_eq!(left, [own]);
    db("dump", path, []).ended(1, "there is no database here");
}

#[test]
fn a_directory_that_lost_its_current_is_not_overwritten() {
    let database = golden::unpack("basic");
    let current = database.path().join("CURRENT");
    let hidden = database.path().join("CURRENT.hidden");
    let bytes = read(&current);
    #[expect(clippy::disallowed_methods, reason = "damages a database from outside")]
    std::fs::rename(&current, hidden).expect("a file that can be renamed");
    let before = directory::snapshot(database.path());
    for create in [&[][..], &["--create"]] {
        let put = ["a", "1"].iter().chain(create);
        db("put", database.path(), put.copied()).ended(1, "there is no CURRENT");
        let load = ["--format", "tsv", "-"].iter().chain(create);
        db("load", database.path(), load.copied()).ended(1, "there is no CURRENT");
    }
    directory::assert_unchanged(database.path(), &before);
    write(&current, &bytes);
    db("put", database.path(), ["a", "1"]).well();
}

#[test]
fn a_torn_tail_is_reported_once_by_the_next_write() {
    let database = golden::unpack("basic");
    let log = crate::support::file(database.path(), ".log");
    crate::support::change(&log, |bytes| bytes.truncate(bytes.len() - 3));
    db("put", database.path(), ["a", "1"]).ended(0, "(torn tail)");
    db("get", database.path(), ["a"]).well();
}

#[test]
fn an_open_database_keeps_other_processes_from_writing() {
    let (scratch, path) = new();
    let acknowledgements = scratch.path().join("loaded");
    let mut holder = program()
        .args(["db", "load"])
        .arg(&path)
        .args(["-", "--create", "--format", "tsv", "--batch", "1", "--ack"])
        .arg(&acknowledgements)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    let mut input = holder.stdin.take().expect("standard input");
    input.write_all(b"a\t1\n").expect("the process reads");
    while !acknowledgements.exists() || read(&acknowledgements).is_empty() {
        assert_eq!(holder.try_wait().expect("a state"), None, "it ended");
        std::thread::yield_now();
    }
    for (verb, arguments) in [("put", &["b", "2"][..]), ("flush", &[]), ("destroy", &["--yes"])] {
        db(verb, &path, arguments.iter().copied())
            .ended(1, "another process has the database open");
    }
    // Read-only verbs need no lock.
    assert_eq!(hex_dump(&path), "default\t61\t31\n");
    drop(input);
    assert!(holder.wait().expect("the process ends").success());
    db("put", &path, ["b", "2"]).well();
    assert_eq!(hex_dump(&path), "default\t61\t31\ndefault\t62\t32\n");
}

/// Creates a database with its logs in another directory.
fn with_logs_elsewhere() -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
    let scratch = tempfile::tempdir().expect("a directory");
    let (home, logs) = (scratch.path().join("db"), scratch.path().join("logs"));
    let options = format!("wal_dir={}", logs.display());
    assert_eq!(db("put", &home, ["key", "value", "--create", "--options", &options]).code, 0);
    assert!(logs.exists());
    (scratch, home, logs)
}

/// Regression test: a destruction that had failed halfway could not be finished, because the
/// database no longer existed.
#[test]
#[expect(clippy::disallowed_methods, reason = "the remains of a failed destruction")]
fn a_destruction_that_failed_half_way_is_finished() {
    for gone in [&["CURRENT"][..], &["CURRENT", "IDENTITY"]] {
        let (_scratch, home, logs) = with_logs_elsewhere();
        for name in gone {
            std::fs::remove_file(home.join(name)).expect("a file to remove");
        }
        db("destroy", &home, []).ended(2, "--yes");
        db("destroy", &home, ["--yes"]).well();
        assert!(!home.exists() && !logs.exists());
        db("destroy", &home, ["--yes"]).ended(1, "there is no database here");
    }
}

/// Regression test: a database with a damaged MANIFEST or OPTIONS file could not be removed.
#[test]
fn a_damaged_database_can_be_destroyed() {
    let (_scratch, home, logs) = with_logs_elsewhere();
    change(&manifest(&home), |bytes| bytes[3..10].fill(b'x'));
    db("destroy", &home, ["--yes"]).well();
    assert!(!home.exists() && !logs.exists());

    let (_scratch, home, logs) = with_logs_elsewhere();
    let options = tailwater_testkit::directory::snapshot(&home).into_keys();
    for file in options.filter(|path| path.to_string_lossy().contains("OPTIONS-")) {
        write(&home.join(file), b"nonsense");
    }
    db("destroy", &home, ["--yes"]).ended(1, "--options takes its place");
    let given = format!("wal_dir={}", logs.display());
    assert_eq!(db("destroy", &home, ["--yes", "--options", &given]).code, 0);
    assert!(!home.exists() && !logs.exists());
}

#[test]
fn a_directory_without_a_database_is_not_destroyed() {
    let scratch = tempfile::tempdir().expect("a directory");
    for name in ["LOCK", "LOG", "000007.sst", "mine"] {
        write(&scratch.path().join(name), b"mine");
    }
    let before = tailwater_testkit::directory::snapshot(scratch.path());
    db("destroy", scratch.path(), ["--yes"]).ended(1, "there is no database here");
    tailwater_testkit::directory::assert_unchanged(scratch.path(), &before);
}
