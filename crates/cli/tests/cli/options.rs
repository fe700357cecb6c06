//! Tests of the verb `options` and of the argument `--options`.

use tailwater_testkit::golden;

use crate::support::{VERBS, WRITING_VERBS, db, file, write};

#[test]
fn options_are_shown_with_their_source() {
    let directory = golden::unpack("records");
    let given = "write_buffer_size=1048576;block_based_table_factory={block_size=8192}";
    let text = db("options", directory.path(), ["--options", given]).well().output;
    let value = |name: &str| {
        let lines = text.lines().filter(|line| line.split_whitespace().next() == Some(name));
        lines.map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    assert_eq!(value("write_buffer_size"), vec![["1048576", "(--options)"]; 4]);
    assert_eq!(value("block_size"), vec![["8192", "(--options)"]; 4]);
    assert_eq!(value("wal_recovery_mode"), [["kPointInTimeRecovery"]]);
    assert!(text.contains("column family 'counters'"));

    let document = db("options", directory.path(), ["--json", "--options", given]).well().json();
    assert!(document["file"].as_str().is_some_and(|file| file.contains("OPTIONS-")));
    assert_eq!(document["rocksdb_version"], "11.9.0");
    let sections = document["sections"].as_array().expect("sections");
    assert_eq!(sections.len(), 10);
    let counters = |kind: &str| {
        let is_it = |section: &&serde_json::Value| {
            section["kind"] == kind && section["column_family"] == "counters"
        };
        &sections.iter().find(is_it).expect("a section of the counters")["options"]
    };
    let column_family = counters("column_family");
    assert_eq!(column_family["write_buffer_size"]["value"], "1048576");
    assert_eq!(column_family["write_buffer_size"]["from"], "--options");
    assert_eq!(column_family["merge_operator"]["from"], "file");
    assert_eq!(counters("table")["block_size"]["from"], "--options");
    assert_eq!(counters("table")["checksum"]["from"], "file");
}

#[test]
fn tailwater_options_are_shown_with_their_source() {
    let directory = golden::unpack("records");
    let text = "compaction_read_io_mode=direct\nflush_write_io_mode=fadvise\n";
    write(&directory.path().join("TAILWATER-OPTIONS"), text.as_bytes());
    let given = ["--options", "flush_write_io_mode=buffered"];
    let document =
        db("options", directory.path(), ["--json"].into_iter().chain(given)).well().json();
    let sections = document["sections"].as_array().expect("sections");
    let own = sections.iter().find(|section| section["kind"] == "tailwater").expect("our own");
    for (name, value, from) in [
        ("compaction_read_io_mode", "direct", "file"),
        ("flush_write_io_mode", "buffered", "--options"),
        ("direct_request_size", "1048576", "default"),
    ] {
        let option = &own["options"][name];
        assert_eq!((&option["value"], &option["from"]), (&value.into(), &from.into()), "{name}");
    }
    let text = db("options", directory.path(), given).well().output;
    assert!(text.contains("\nTailwater's own\n"), "{text}");
}

#[test]
fn options_of_one_column_family() {
    let directory = golden::unpack("records");
    let text = db("options", directory.path(), ["--column-family", "counters"]).well().output;
    assert!(text.starts_with("column family 'counters'\n"), "{text}");
    assert!(!text.contains("'default'") && !text.contains("\ndatabase"));
    db("options", directory.path(), ["--column-family", "nope"]).ended(1, "column family 'nope'");
}

#[test]
fn every_verb_refuses_invalid_options() {
    let directory = golden::unpack("blobs");
    let before = tailwater_testkit::directory::snapshot(directory.path());
    for (verb, arguments) in VERBS.into_iter().chain(WRITING_VERBS) {
        for (text, words) in [
            ("write_bufer_size=1", "unknown option write_bufer_size; is it write_buffer_size?"),
            ("write_buffer_size=many", "write_buffer_size"),
            ("write_buffer_size", "is not followed by '='"),
        ] {
            let arguments = arguments.iter().copied().chain(["--options", text]);
            let answer = db(verb, directory.path(), arguments).ended(2, words);
            assert_eq!(answer.output, "", "{verb}");
        }
    }
    tailwater_testkit::directory::assert_unchanged(directory.path(), &before);
}

#[test]
fn given_options_override_those_of_the_file() {
    let directory = golden::unpack("records");
    let log = file(directory.path(), ".log");
    let mut bytes = crate::support::read(&log);
    bytes.truncate(bytes.len() - 1);
    write(&log, &bytes);
    let strict = ["--options", "wal_recovery_mode=kAbsoluteConsistency"];
    db("scan", directory.path(), ["--count"]).ended(3, "torn tail");
    db("scan", directory.path(), ["--count"].into_iter().chain(strict)).ended(1, "000032.log");
}

/// Regression test: after `set-options write_buffer_size=...` every verb warned about an
/// `arena_block_size` that nobody had set. RocksDB records a value for it that it derives from
/// `write_buffer_size`.
#[test]
fn a_changed_option_changes_those_that_are_derived_from_it() {
    let recorded_by_rocksdb = golden::unpack("records");
    let scratch = tempfile::tempdir().expect("a directory");
    let own = scratch.path().join("db");
    db("put", &own, ["k", "1", "--create"]).ended(0, "a new one was created");
    for path in [recorded_by_rocksdb.path(), &own] {
        for (size, blocks) in [("1048576", "131072"), ("2097152", "262144")] {
            db("set-options", path, [&*format!("write_buffer_size={size}")]).well();
            db("flush", path, []).well();
            let output = db("options", path, ["--column-family", "default"]).well().output;
            let is_there = output
                .lines()
                .any(|line| line.split_whitespace().take(2).eq(["arena_block_size", blocks]));
            assert!(is_there, "{output}");
        }
    }
}

#[test]
fn options_that_are_set_stay_set() {
    let directory = golden::unpack("records");
    let path = directory.path();
    let set = |arguments: &[&str]| db("set-options", path, arguments.iter().copied());
    set(&["write_buffer_size=1m", "max_background_jobs=5", "table_factory.block_size=8k"]).well();
    let is_effective = |name: &str, value: &str| {
        let output = db("options", path, []).well().output;
        output.lines().any(|line| line.split_whitespace().take(2).eq([name, value]))
    };
    assert!(is_effective("write_buffer_size", "1048576"));
    assert!(is_effective("max_background_jobs", "5"));
    assert!(is_effective("block_size", "8192"));
    for (wrong, words) in [
        ("write_buffer_size", "is not of the form NAME=VALUE"),
        ("num_levels=3", "option num_levels cannot be changed while the database is open"),
        ("write_bufer_size=3", "unknown option write_bufer_size; is it write_buffer_size?"),
        ("ttl=soon", "'soon' is not a whole number"),
        ("memtable_protection_bytes_per_key=3", "it must be 0, 1, 2, 4 or 8"),
    ] {
        set(&["write_buffer_size=2m", wrong]).ended(2, words);
    }
    assert!(is_effective("write_buffer_size", "1048576"), "nothing else was changed");
    set(&["ttl=1", "--column-family", "nope"]).ended(1, "no column family 'nope'");
}

/// Regression test: `set-options` did not know Tailwater's own options, and nothing said how to
/// change an option that can be set only when a database is opened.
#[test]
fn options_that_are_fixed_while_open_are_refused_with_the_way_to_change_them() {
    let directory = golden::unpack("records");
    let path = directory.path();
    for (assignment, family) in [
        ("flush_write_io_mode=fadvise", ""),
        ("use_direct_reads=true", ""),
        ("quiet_background=true", ""),
        ("num_levels=8", " --column-family 'default'"),
    ] {
        let directory = path.display();
        let way = format!("`tailwater db flush {directory}{family} --options '{assignment}'`");
        db("set-options", path, [assignment])
            .ended(2, "cannot be changed while the database is open")
            .ended(2, &way);
    }
    let recorded = |name: &str| {
        let output = db("options", path, []).well().output;
        let mut lines = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.find(|words| words.first() == Some(&name)).expect("an option")[1].to_owned()
    };
    let mode = "flush_write_io_mode";
    db(
        "flush",
        path,
        ["--options", "flush_write_io_mode=fadvise;avoid_flush_during_recovery=true"],
    )
    .well();
    assert_eq!((&*recorded(mode), &*recorded("avoid_flush_during_recovery")), ("fadvise", "true"));
    db("flush", path, ["--options", "flush_write_io_mode=default"]).well();
    assert_eq!(recorded(mode), "default");
    // A verb that only reads records nothing.
    db("scan", path, ["--count", "--options", "flush_write_io_mode=fadvise"]).well();
    assert_eq!(recorded(mode), "default");
}
