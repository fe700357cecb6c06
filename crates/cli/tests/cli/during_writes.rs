//! Tests of runs of the program while another process uses the same database.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{change, db, file, program, read, write};

/// Creates a named pipe.
fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo");
    assert!(made.success());
}

/// Waits until the process blocks while opening a pipe. The process opens the pipe for reading, and
/// no process has it open for writing.
fn wait_until_it_opens_a_pipe(child: &mut Child) {
    let wait_channel = Path::new("/proc").join(child.id().to_string()).join("wchan");
    while !read(&wait_channel).ends_with(b"wait_for_partner") {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Regression test: the program read the options before it took the lock, and later wrote them
/// back. This undid changes that another process had made in between: a column family that the
/// other process had created with a merge operator became unreadable.
#[test]
#[expect(clippy::disallowed_methods, reason = "a pipe, not a database's file")]
fn options_set_concurrently_by_another_process_are_kept() {
    let scratch = tempfile::tempdir().expect("a directory");
    let home = scratch.path().join("db");
    assert_eq!(db("put", &home, ["k", "1", "--create"]).code, 0);
    // The program reads the OPTIONS file, and then blocks in reading this file, which is a pipe.
    let (own_options, aside) = (home.join("TAILWATER-OPTIONS"), scratch.path().join("pipe"));
    make_pipe(&own_options);
    let mut child = program();
    let mut child = child.args(["db", "put"]).arg(&home).args(["k2", "2"]).spawn().expect("a run");
    wait_until_it_opens_a_pipe(&mut child);
    std::fs::rename(&own_options, &aside).expect("a pipe with another name");
    let set = db("set-options", &home, ["write_buffer_size=12345678"]);
    let with_operator = ["counters", "--options", "merge_operator=uint64add"];
    let made = db("create-column-family", &home, with_operator);
    // Opening the pipe for writing lets the program continue.
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

/// Regression test: a process that had no free file descriptors reported that the database changes
/// too fast.
#[test]
fn too_few_descriptors_are_named() {
    let scratch = tempfile::tempdir().expect("a directory");
    let home = scratch.path().join("db");
    for key in ["a", "b", "c"] {
        assert_eq!(db("put", &home, [key, "1", "--create"]).code, 0);
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
                // The second text is the dynamic linker's, if the test inherited more descriptors.
                let is_named = said.contains("Too many open files") || said.contains("Error 24");
                assert!(is_named, "{limit} {verb}: {said}");
                assert!(!said.contains("DAMAGED"), "{limit} {verb}: {said}");
            }
        }
    }
    assert!(refused > 0);
}

/// Starts a process that has the database open and waits for its input.
fn with_the_lock(home: &Path) -> (Child, impl Write) {
    let (scratch, path) = (tempfile::tempdir().expect("a directory"), home.to_owned());
    let acknowledged = scratch.path().join("loaded");
    let mut command = program();
    command.args(["db", "load"]).arg(&path).args(["-", "--format", "tsv", "--batch", "1", "--ack"]);
    command.arg(&acknowledged).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut holder = command.spawn().expect("the program runs");
    let mut input = holder.stdin.take().expect("standard input");
    input.write_all(b"a\t1\n").expect("the process reads");
    while !acknowledged.exists() || read(&acknowledged).is_empty() {
        assert!(holder.try_wait().expect("a state").is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    (holder, input)
}

/// Regression test: files that another process was writing were reported as damaged.
#[test]
#[expect(clippy::disallowed_methods, reason = "creates an unfinished file of another process")]
fn what_is_being_written_is_not_called_damaged() {
    let scratch = tempfile::tempdir().expect("a directory");
    let home = scratch.path().join("db");
    assert_eq!(db("put", &home, ["k", "1", "--create"]).code, 0);
    db("flush", &home, []).well();
    let (mut holder, input) = with_the_lock(&home);
    for verb in ["verify", "table", "wal"] {
        db(verb, &home, []).well();
    }
    // An unfinished table, which no MANIFEST names, is not reported as damaged.
    let table = home.join("000999.sst");
    write(&table, b"the beginning of a table");
    db("table", &home, []).ended(5, "another process is writing it");
    std::fs::remove_file(&table).expect("a file to remove");
    // A damaged table of the database is reported even while another process has it open.
    let table = file(&home, ".sst");
    change(&table, |bytes| bytes[5] ^= 1);
    assert_eq!(db("verify", &home, []).code, 1);
    change(&table, |bytes| bytes[5] ^= 1);
    // A log whose last record is incomplete is not reported as damaged, because the other process
    // may be writing that record.
    let log = file(&home, ".log");
    change(&log, |bytes| bytes.truncate(bytes.len() - 1));
    db("wal", &home, []).ended(5, "another process is writing it");
    // The other process is killed before its input ends, because at the end of its input it would
    // write to the damaged database.
    holder.kill().expect("killed");
    holder.wait().expect("an end");
    drop(input);
    db("wal", &home, []).ended(3, "");
}

/// Regression test: verification during writes reported damage that did not exist.
#[test]
fn inspecting_during_writes_finds_no_damage() {
    let scratch = tempfile::tempdir().expect("a directory");
    let home = scratch.path().join("db");
    let options = ["--options", "write_buffer_size=65536;level0_file_num_compaction_trigger=2"];
    assert_eq!(db("put", &home, ["k", "1", "--create"].into_iter().chain(options)).code, 0);
    db("flush", &home, []).well();
    let mut command = program();
    command.args(["db", "load"]).arg(&home).args(["-", "--format", "tsv", "--batch", "1"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut writer = command.spawn().expect("the program runs");
    let mut input = writer.stdin.take().expect("standard input");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let value = "v".repeat(1000);
            for key in 0_u64.. {
                if stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Empty) {
                    break;
                }
                writeln!(input, "{}\t{value}", key.wrapping_mul(0x9e37_79b9) % 5000).expect("read");
            }
        });
        for _ in 0..25 {
            for verb in ["verify", "table", "wal", "scan", "options", "manifest"] {
                let answer = db(verb, &home, []);
                let said = &answer.complaints;
                let fine = answer.code == 0 || (answer.code == 5 && verb != "scan");
                let last = answer.output.lines().rev().take(12).collect::<Vec<_>>().join("\n");
                assert!(fine, "{verb}: {}: {said}\n{last}", answer.code);
            }
        }
        drop(stop);
    });
    assert!(writer.wait().expect("an end").success());
    assert!(db("verify", &home, []).well().output.contains("all is well"));
}
