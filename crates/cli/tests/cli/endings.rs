//! Tests of how runs of the program end: exit codes, readers that close the output early, full
//! disks.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use tailwater::{Db, OpenOptions, WriteOptions};
use tailwater_testkit::filesystem::writes_directly;
use tailwater_testkit::{directory, golden};

use crate::support::{
    VERBS, WRITING_VERBS, change, db, external_table, file, manifest, program, run_with, write,
};

#[test]
fn undamaged_databases_exit_with_success() {
    let directory = golden::unpack("blobs");
    for (verb, arguments) in VERBS {
        let answer = db(verb, directory.path(), arguments.iter().copied());
        // The key that `get` reads may not exist, so `get` may fail.
        if verb != "get" {
            answer.well();
        }
    }
}

#[test]
fn a_wrong_command_line_and_damage_have_different_exit_codes() {
    let none: [&str; 0] = [];
    assert_eq!(run_with(none).code, 2);
    assert_eq!(run_with(["db"]).code, 2);
    assert_eq!(run_with(["db", "frobnicate", "x"]).code, 2);
    assert_eq!(run_with(["db", "get", "x"]).code, 2);
    assert_eq!(run_with(["db", "scan", "x", "--limit", "many"]).code, 2);
    assert_eq!(run_with(["db", "dump", "x", "--all", "--column-family", "y"]).code, 2);
    let directory = golden::unpack("blobs");
    db("get", directory.path(), ["a\\q"]).ended(2, "backslash");
    db("get", directory.path(), ["--hex", "abc"]).ended(2, "not hex");
    db("scan", directory.path(), ["--from", "0g", "--key-hex"]).ended(2, "not hex");
    db("manifest", directory.path(), ["CURRENT"]).ended(2, "is not a MANIFEST");
    let table = file(directory.path(), ".sst");
    db("table", &table, ["7"]).ended(2, "a number requires a directory");
    let path = directory.path();
    db("put", path, ["key"]).ended(2, "<VALUE>");
    db("put", path, ["key", "\\q"]).ended(2, "value '\\q' has a backslash");
    db("put", path, ["--hex", "00", "0"]).ended(2, "value '0' is not hex");
    db("load", path, ["-"]).ended(2, "--format");
    db("load", path, ["-", "--format", "csv"]).ended(2, "csv");
    db("load", path, ["-", "--format", "tsv", "--batch", "0"]).ended(2, "--batch");
    db("load", path, ["-", "--format", "packages", "--column-family", "depends"])
        .ended(2, "is reserved for the packages' dependencies");
    db("destroy", path, []).ended(2, "--yes");
    db("dump", path, []).well();
}

#[test]
fn help_is_complete_and_exits_with_success() {
    for (verb, _) in VERBS.into_iter().chain(WRITING_VERBS) {
        let answer = run_with(["db", verb, "--help"]).well();
        for part in ["Usage:", "Examples:", "Exit codes:", "--options", "--json", "--hex"] {
            assert!(answer.output.contains(part), "{verb}: {part}");
        }
    }
    run_with(["--version"]).well();
}

#[test]
fn directories_without_a_database_are_reported() {
    let empty = tempfile::tempdir().expect("a directory");
    let missing = empty.path().join("missing");
    let verbs: Vec<_> = VERBS.into_iter().chain(WRITING_VERBS).collect();
    for path in [empty.path(), &missing] {
        for &(verb, arguments) in &verbs {
            let answer = db(verb, path, arguments.iter().copied());
            let complaints = answer.complaints + &answer.output;
            assert_eq!(answer.code, 1, "{verb}: {complaints}");
            assert!(complaints.contains(&*path.to_string_lossy()), "{verb}: {complaints}");
        }
    }
    db("get", empty.path(), ["key"]).ended(1, "there is no database here");
    db("delete", &missing, ["key"]).ended(1, "there is no database here");
    assert!(!missing.exists(), "a directory was created");
}

/// Regression test: `put` and `load` created a database in a directory whose name was mistyped.
#[test]
fn a_database_is_created_only_on_request() {
    let scratch = tempfile::tempdir().expect("a directory");
    let ack = scratch.path().join("ack");
    let ack = ack.to_str().expect("a path in UTF-8");
    let table = scratch.path().join("table.sst");
    external_table(&table, &["k"]);
    let table = table.to_str().expect("a path in UTF-8");
    let creating: [(&str, &[&str]); 5] = [
        ("put", &["key", "value"]),
        ("merge", &["key", "1", "--options", "merge_operator=stringappend"]),
        ("load", &["--format", "tsv", "-", "--ack", ack]),
        ("ingest", &[table]),
        ("create-column-family", &["more"]),
    ];
    for (at, (verb, arguments)) in creating.into_iter().enumerate() {
        let missing = scratch.path().join(format!("{at}/missing"));
        let empty = scratch.path().join(format!("{at}-empty"));
        #[expect(clippy::disallowed_methods, reason = "around databases")]
        std::fs::create_dir(&empty).expect("a new directory");
        for path in [&missing, &empty] {
            let before = directory::snapshot(scratch.path());
            db(verb, path, arguments.iter().copied())
                .ended(1, &format!("{}: there is no database here; --create", path.display()));
            directory::assert_unchanged(scratch.path(), &before);
            assert!(!missing.exists(), "{verb}");
        }
        for path in [&missing, &empty] {
            let arguments = || arguments.iter().copied().chain(["--create"]);
            db(verb, path, arguments()).ended(0, "a new one was created");
            assert_eq!(db("column-families", path, []).code, 0, "{verb}");
        }
    }
    for (verb, arguments) in WRITING_VERBS {
        if creating.iter().any(|(creating, _)| *creating == verb) {
            continue;
        }
        let missing = scratch.path().join("missing");
        db(verb, &missing, arguments.iter().copied().chain(["--create"])).ended(2, "--create");
        assert!(!missing.exists(), "{verb}");
    }
}

#[test]
fn a_log_that_a_crash_cut_short_is_a_torn_tail() {
    let directory = golden::unpack("basic");
    let log = file(directory.path(), ".log");
    change(&log, |bytes| bytes.truncate(bytes.len() - 3));
    for (verb, arguments) in [
        ("get", &["0000000000000001"][..]),
        ("scan", &["--count"]),
        ("dump", &["--all"]),
        ("verify", &[]),
        ("properties", &[]),
        ("properties", &["rocksdb.estimate-num-keys"]),
        ("wal", &[]),
        ("wal", &["--json"]),
    ] {
        let answer = db(verb, directory.path(), arguments.iter().copied());
        assert_eq!(answer.code, 3, "{verb}: {}", answer.complaints);
    }
    db("dump", directory.path(), []).ended(3, "000078.log at offset 192959");
    for (verb, arguments) in [("table", &["--blocks"][..]), ("manifest", &[]), ("options", &[])] {
        db(verb, directory.path(), arguments.iter().copied()).well();
    }
}

/// Regression test: unsupported features were reported as damage.
#[test]
fn what_is_not_supported_is_not_called_damaged() {
    let directory = golden::unpack("blobs");
    let table = file(directory.path(), ".sst");
    // The magic number in the footer of a plain table, a format that is not supported.
    let plain = 0x8242_2296_63bf_9564_u64.to_le_bytes();
    change(&table, |bytes| {
        let at = bytes.len() - plain.len();
        bytes[at..].copy_from_slice(&plain);
    });
    let answer = db("verify", directory.path(), []).ended(4, "");
    assert!(answer.output.contains("not supported: plain table"), "{}", answer.output);
    assert!(!answer.output.contains("DAMAGED"), "{}", answer.output);
    let document = db("verify", directory.path(), ["--json"]).json();
    assert_eq!(document["verdict"], "unsupported");
    assert_eq!(document["findings"][0]["severity"], "unsupported");
    // If a blob file is damaged, too, the exit code for damage takes precedence over the exit code
    // for an unsupported table.
    change(&file(directory.path(), ".blob"), |bytes| bytes[100] ^= 1);
    let answer = db("verify", directory.path(), []).ended(1, "");
    assert!(answer.output.contains("DAMAGED"), "{}", answer.output);
}

/// Creates a database with a recycled log, in the state that a killed process leaves: the last
/// record of the log is followed by the remains of older records in the same file. `lengths` are
/// the lengths of the old and the new values, in bytes.
fn killed_with_recycled_log(options: &str, lengths: [usize; 2]) -> tempfile::TempDir {
    let (home, copy) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir());
    let copy = copy.expect("a directory");
    let mut requested = OpenOptions::default();
    requested
        .set_from_string(&format!("create_if_missing=true;recycle_log_file_num=2;{options}"))
        .expect("options");
    let db = Db::open(home.path(), &requested).expect("a database");
    let family = db.cf_handle("default").expect("the default column family");
    let put = |key: String, length: usize| {
        let value = vec![b'v'; length];
        db.put_cf_opt(&family, key.as_bytes(), &value, &WriteOptions::default()).expect("a put");
    };
    for round in 0..3 {
        for key in 0..30 {
            put(format!("old {round} {key}"), lengths[0]);
        }
        db.flush_all().expect("a flush");
    }
    for key in 0..10 {
        put(format!("new {key}"), lengths[1]);
    }
    // The database is still open, so the files are as a killed process would leave them.
    for (path, file) in directory::snapshot(home.path()) {
        write(&copy.path().join(path.file_name().expect("a name")), &file.contents);
    }
    copy
}

#[test]
fn the_end_of_a_recycled_log_is_neither_damage_nor_reported() {
    writes_directly(&std::env::temp_dir(), "the end of a recycled direct log");
    for options in ["", "wal_compression=kZSTD", "wal_io_mode=direct"] {
        for lengths in [[100, 100], [100, 73], [51, 200], [3000, 100]] {
            let directory = killed_with_recycled_log(options, lengths);
            for (verb, arguments) in [
                ("scan", &["--count"][..]),
                ("dump", &["--all"]),
                ("get", &["new 9"]),
                ("verify", &[]),
                ("wal", &[]),
                ("put", &["later", "1"]),
            ] {
                let answer = db(verb, directory.path(), arguments.iter().copied());
                let said = (answer.code, answer.complaints.as_str());
                assert_eq!(said, (0, ""), "{verb}, '{options}', {lengths:?}: {}", answer.output);
                if verb == "scan" {
                    assert_eq!(answer.output.trim(), "100", "'{options}', {lengths:?}");
                }
            }
        }
    }
}

#[test]
fn a_manifest_that_a_crash_cut_short_is_a_torn_tail() {
    let directory = golden::unpack("basic");
    let manifest = manifest(directory.path());
    // The header of a record of 200 bytes, and the first ten bytes of the record.
    let torn = [&[1, 2, 3, 4, 200, 0, 1][..], &[0; 10]].concat();
    change(&manifest, |bytes| bytes.extend(&torn));
    for (verb, arguments) in
        [("get", &["0000000000000001"][..]), ("dump", &["--all"]), ("properties", &[])]
    {
        db(verb, directory.path(), arguments.iter().copied()).ended(3, "MANIFEST-000005");
    }
    assert_eq!(db("verify", directory.path(), []).code, 3);
    let answer = db("manifest", directory.path(), []).ended(3, "");
    assert!(answer.output.contains("torn at 6223, 17 bytes"), "{}", answer.output);
    let documents = db("manifest", directory.path(), ["--json"]).json_lines();
    let last = documents.last().expect("a state");
    assert_eq!(last["kind"], "state");
    assert_eq!(last["torn"]["offset"], 6223);
}

#[test]
fn damage_in_the_middle_is_damage() {
    let directory = golden::unpack("basic");
    change(&file(directory.path(), ".log"), |bytes| bytes[100_000] ^= 1);
    db("dump", directory.path(), []).ended(1, "000078.log at offset 99874");
    assert_eq!(db("verify", directory.path(), []).code, 1);
    let answer = db("wal", directory.path(), []);
    assert_eq!(answer.code, 1);
    assert!(answer.output.contains("damage  checksum mismatch"), "{}", answer.output);
    assert!(answer.output.contains("ends replay here"), "{}", answer.output);

    let directory = golden::unpack("basic");
    change(&manifest(directory.path()), |bytes| bytes[1000] ^= 1);
    db("dump", directory.path(), []).ended(1, "MANIFEST-000005 at offset 786");
    let answer = db("manifest", directory.path(), []);
    assert_eq!(answer.code, 1);
    assert!(
        answer.output.contains("a database in this state cannot be opened"),
        "{}",
        answer.output
    );
    let documents = db("manifest", directory.path(), ["--json"]).json_lines();
    assert!(documents.iter().any(|document| document["kind"] == "damage"));
    assert!(documents.last().expect("a state")["problem"].is_string());
}

#[test]
fn a_closed_output_pipe_ends_the_program_quietly() {
    let directory = golden::unpack("basic");
    for arguments in [&["dump", "--all"][..], &["table", "--entries"], &["wal", "--json"]] {
        let (verb, arguments) = arguments.split_first().expect("a verb");
        let mut child = program()
            .args(["db", verb])
            .arg(directory.path())
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut line = String::new();
        let output = child.stdout.take().expect("standard output");
        BufReader::with_capacity(64, output).read_line(&mut line).expect("a first line");
        let ended = child.wait_with_output().expect("the process ends");
        assert_eq!(ended.status.code(), Some(0), "{verb}");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{verb}");
    }
}

/// Regression test: the exit code was 0, whatever the verb had found, if nobody read its output.
#[test]
fn a_closed_output_pipe_does_not_hide_a_failure() {
    let directory = golden::unpack("basic");
    let table = file(directory.path(), "sst");
    change(&table, |bytes| bytes[10] ^= 1);
    for (verb, code) in [("verify", 1), ("compact", 1), ("flush", 0)] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = program();
        command.args(["db", verb]).arg(directory.path()).stdout(writer);
        let ended = command.output().expect("the program runs");
        assert_eq!(ended.status.code(), Some(code), "{verb}");
    }
}

#[test]
fn unwritable_output_is_reported() {
    let directory = golden::unpack("basic");
    #[expect(clippy::disallowed_types, reason = "a device to write to, not a database's file")]
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let ended = program()
        .args(["db", "dump"])
        .arg(directory.path())
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .expect("the program runs");
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("cannot write the output"));
}
