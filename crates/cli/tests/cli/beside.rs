//! What a run does beside another process that works on the same database.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use crate::support::{db, program, read};

/// Makes a pipe with a name.
fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo");
    assert!(made.success());
}

/// Waits until the process sleeps in opening a pipe that nobody writes to.
fn wait_until_it_opens_a_pipe(child: &mut Child) {
    let wait_channel = Path::new("/proc").join(child.id().to_string()).join("wchan");
    while !read(&wait_channel).ends_with(b"wait_for_partner") {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The options were read before the lock was taken: what another process set in between was undone,
/// and a column family that it made with a merge operator could not be read any more.
#[test]
#[expect(clippy::disallowed_methods, reason = "a pipe, no database's file")]
fn options_that_another_process_sets_meanwhile_stay() {
    let scratch = tempfile::tempdir().expect("a directory");
    let home = scratch.path().join("db");
    assert_eq!(db("put", &home, ["k", "1"]).code, 0);
    // What is read after the OPTIONS file: the program waits there.
    let (own_options, aside) = (home.join("TAILWATER-OPTIONS"), scratch.path().join("pipe"));
    make_pipe(&own_options);
    let mut child = program();
    let mut child = child.args(["db", "put"]).arg(&home).args(["k2", "2"]).spawn().expect("a run");
    wait_until_it_opens_a_pipe(&mut child);
    std::fs::rename(&own_options, &aside).expect("a pipe with another name");
    let set = db("set-options", &home, ["write_buffer_size=12345678"]);
    let with_operator = ["counters", "--options", "merge_operator=uint64add"];
    let made = db("create-column-family", &home, with_operator);
    // The program goes on.
    drop(std::fs::write(&aside, ""));
    assert!(child.wait().expect("a child").success());
    if set.code == 0 {
        let options = db("options", &home, []).well().output;
        assert!(options.contains("12345678"), "acknowledged options are gone: {options}");
    } else {
        set.ended(1, "another process has the database open");
    }
    if made.code == 0 {
        let counter = ["--column-family", "counters", "--hex", "6b", "0100000000000000"];
        db("merge", &home, counter).well();
        db("get", &home, ["--column-family", "counters", "--hex", "6b"]).well();
    } else {
        made.ended(1, "another process has the database open");
    }
    assert_eq!(db("get", &home, ["k2"]).well().output, "2\n");
}

/// Of a process that may open no more files it was said that the database changes too fast.
#[test]
fn too_few_descriptors_are_named() {
    let scratch = tempfile::tempdir().expect("a directory");
    let home = scratch.path().join("db");
    for key in ["a", "b", "c"] {
        assert_eq!(db("put", &home, [key, "1"]).code, 0);
    }
    let mut refused = 0;
    for limit in 4..24 {
        for verb in ["get", "scan", "properties", "verify", "table", "wal"] {
            let mut command = Command::new("sh");
            let script = format!("ulimit -n {limit} && exec \"$@\"");
            command.args(["-c", &script, "sh"]).arg(program().get_program());
            command.args(["db", verb]).arg(&home).args((verb == "get").then_some("a"));
            let ended = command.output().expect("a shell");
            let mut said = String::from_utf8(ended.stderr).expect("text");
            said.push_str(&String::from_utf8(ended.stdout).expect("text"));
            if !ended.status.success() {
                refused += 1;
                assert!(said.contains("Too many open files"), "{limit} {verb}: {said}");
                assert!(!said.contains("DAMAGED"), "{limit} {verb}: {said}");
            }
        }
    }
    assert!(refused > 0);
}
