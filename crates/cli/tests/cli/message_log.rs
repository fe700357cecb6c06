//! `tailwater log`: its output for intact, damaged and padded logs, and for logs open elsewhere.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tailwater_format::message::batch::Builder;
use tailwater_log::{Consumer, Log, LogOptions, TopicId, TopicOptions};

use crate::support::{Answer, change, file, program, read, run, run_with, write};

fn batch(numbers: std::ops::Range<u64>) -> Vec<u8> {
    let mut builder = Builder::new(1_000_000);
    for number in numbers {
        let payload = format!("message {number}");
        builder.push(u128::from(number), 3, payload.as_bytes(), b"h").expect("a message");
    }
    builder.finish()
}

/// Creates a log with one topic. Its partition has several segments, and each flush leaves a
/// padding gap in them.
fn filled(directory: &Path) -> Log {
    let log = Log::open(directory, &LogOptions::default()).expect("the log opens");
    let stream = log.create_stream(None, "shop").expect("a stream");
    let options =
        TopicOptions::new().with_segment_bytes(64 << 10).with_messages_required_to_save(1);
    let topic = log.create_topic(stream, None, "orders", &options, 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("the partition");
    for round in 0..40 {
        drop(partition.append(&batch(round * 5..round * 5 + 5)).expect("an append"));
        partition.flush(false).wait().expect("a flush");
    }
    let stored = log.store_offset(partition.id(), Consumer::Group(4), 17);
    stored.expect("an offset").wait().expect("a stored offset");
    log
}

fn log(verb: &str, directory: &Path, arguments: &[&str]) -> Answer {
    let directory = directory.to_str().expect("a path in UTF-8");
    run_with(["log", verb, directory].iter().chain(arguments))
}

#[test]
fn a_log_is_shown_while_it_is_open_and_closed() {
    let scratch = tempfile::tempdir().expect("a directory");
    let open = filled(scratch.path());
    for open in [Some(open), None] {
        let stat = log("stat", scratch.path(), &["--json"]).well().json();
        let partition = &stat["partitions"][0];
        assert_eq!(partition["start_offset"], 0);
        assert_eq!(partition["end_offset"], 200);
        assert_eq!(partition["consumers"][0]["offset"], 17);
        assert_eq!(stat["streams"]["0"]["topics"]["0"]["name"], "orders");
        let text = log("stat", scratch.path(), &[]).well().output;
        assert!(text.contains("topic 0 'orders'") && text.contains("group 4"), "{text}");
        let verified = log("verify", scratch.path(), &["--json"]).well().json();
        assert_eq!((&verified["verdict"], &verified["messages"]), (&"well".into(), &200.into()));
        if let Some(open) = open {
            let refused = log("compact", scratch.path(), &[]);
            refused.ended(1, "its owner rewrites padded segments itself");
            open.close().expect("the log closes");
        }
    }
}

#[test]
fn messages_are_dumped_from_any_offset() {
    let scratch = tempfile::tempdir().expect("a directory");
    filled(scratch.path()).close().expect("the log closes");
    let named = ["--stream", "shop", "--topic", "0", "--from", "7", "--limit", "2"];
    let text = log("dump", scratch.path(), &named).well().output;
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!((lines[0][0], lines[0][2]), ("7", "message 7"));
    assert_eq!((lines[1][0], lines[1][2], lines.len()), ("8", "message 8", 2));
    let json = log("dump", scratch.path(), &[&named[..], &["--json"]].concat()).well();
    let message = &json.json_lines()[0];
    assert_eq!((&message["offset"], &message["payload"]), (&7.into(), &"message 7".into()));
    assert_eq!((&message["origin_timestamp_us"], &message["id"]), (&1_000_003.into(), &"7".into()));
    let all = log("dump", scratch.path(), &["--stream", "0", "--topic", "orders"]).well();
    assert_eq!(all.output.lines().count(), 200);
    log("dump", scratch.path(), &["--stream", "no", "--topic", "0"]).ended(1, "no stream 'no'");
}

#[test]
fn damage_is_named_and_other_directories_are_refused() {
    let scratch = tempfile::tempdir().expect("a directory");
    filled(scratch.path()).close().expect("the log closes");
    change(&file(scratch.path(), ".log"), |bytes| bytes[300] ^= 1);
    let verified = log("verify", scratch.path(), &["--json"]);
    assert_eq!(verified.code, 1);
    let finding = &verified.json()["findings"][0];
    assert_eq!(finding["severity"], "damage");
    assert!(finding["file"].as_str().is_some_and(|file| file.ends_with(".log")), "{finding}");
    let text = log("verify", scratch.path(), &[]);
    assert_eq!(text.code, 1);
    assert!(text.output.ends_with("DAMAGED\n"), "{}", text.output);
    // The damaged segment is the last one. The messages of the others are printed.
    let dump = log("dump", scratch.path(), &["--stream", "shop", "--topic", "orders"]);
    assert!(dump.output.starts_with("0\t"), "{}", dump.output);
    dump.ended(1, ".log at offset");
    let other = tempfile::tempdir().expect("a directory");
    for verb in ["stat", "verify", "compact"] {
        log(verb, other.path(), &[]).ended(1, "has no message log");
        log(verb, &other.path().join("missing"), &[]).ended(1, "has no message log");
    }
}

#[test]
fn compacting_leaves_no_gaps_and_every_message() {
    let scratch = tempfile::tempdir().expect("a directory");
    let topic = TopicId { stream: 0, topic: 0 };
    filled(scratch.path()).close().expect("the log closes");
    log("compact", scratch.path(), &[]).well();
    let again = log("compact", scratch.path(), &["--json"]).well().json();
    assert_eq!(again["segments"], 0);
    log("verify", scratch.path(), &[]).well();
    let opened = Log::open(scratch.path(), &LogOptions::default()).expect("the log opens");
    let stats = opened.partition(topic.partition(0)).expect("the partition").stats();
    assert_eq!((stats.start_offset, stats.end_offset), (0, 200));
}

#[test]
fn the_benchmark_prints_its_tables_and_writes_a_report() {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path().join("bench");
    let directory = directory.to_str().expect("a path in UTF-8");
    let answer = run_with([
        "log",
        "bench",
        "--directory",
        directory,
        "--rate",
        "2MB",
        "--duration",
        "1",
        "--runs",
        "1",
        "--modes",
        "buffered,direct_inline_unsynced,direct_deferred,process_shared,disk",
        "--segment-size",
        "1M",
    ]);
    assert_eq!(answer.code, 0, "{}", answer.complaints);
    let columns = ["MB/s", "p90", "p99.99", "stddev"];
    for words in ["producers", "consumers", "kernel", "process_shared"].iter().chain(&columns) {
        assert!(answer.output.contains(words), "{}", answer.output);
    }
    let report = read(&scratch.path().join("bench/report.json"));
    let report: serde_json::Value = serde_json::from_slice(&report).expect("a report");
    let configurations = report["configurations"].as_array().expect("a list");
    assert_eq!(configurations.len(), 5);
    assert_eq!(configurations[0]["mode"], "buffered");
    assert_eq!(configurations[1]["mode"], "direct_inline_unsynced");
    // A run of one second has too few operations for percentiles.
    for configuration in configurations {
        let producers = &configuration["median"]["producers"];
        for figure in ["bytes_per_second", "max_us", "stddev_us"] {
            assert!(producers[figure].is_number(), "{producers}");
        }
    }
    let html = read(&scratch.path().join("bench/report.html"));
    let modes = configurations.iter().map(|row| row["mode"].as_str().expect("a mode").to_owned());
    let rows: Vec<_> = modes.map(|mode| vec![mode]).collect();
    tailwater_testkit::report::check(&String::from_utf8(html).expect("UTF-8"), &rows);
}

/// Arguments of a benchmark with little work.
const BRIEF: [&str; 10] =
    ["--rate", "10MB", "--batch", "10", "--duration", "0.2", "--runs", "1", "--modes", "buffered"];

/// Regression test: a benchmark overwrote files with the names of its report, and found out only
/// after the measurement that the report could not be written.
#[test]
#[expect(clippy::disallowed_methods, reason = "the user's files")]
fn a_benchmark_replaces_only_its_own_report() {
    let bench = |scratch: &Path, experiment: &[&str]| {
        let [directory, out] = ["disk", "out/today.json"].map(|name| scratch.join(name));
        let mut command = program();
        command.args(["log", "bench"]).args(experiment);
        command.arg("--directory").arg(directory).arg("--out").arg(out);
        run(command)
    };
    let catch_up = ["catch-up", "--size", "1MB", "--limit", "64M", "--runs", "1"];
    for theirs in ["out/today.json", "out/today.html", "out/today.svg", "out"] {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join(theirs);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
        write(&path, b"mine");
        for experiment in [&BRIEF[..], &catch_up] {
            let refused = bench(scratch.path(), experiment).ended(1, &path.to_string_lossy());
            assert!(!refused.complaints.contains("run 1 of 1"), "{}", refused.complaints);
            assert_eq!(read(&path), b"mine", "{theirs}");
        }
    }
    let scratch = tempfile::tempdir().expect("a directory");
    for _ in 0..2 {
        assert_eq!(bench(scratch.path(), &BRIEF).code, 0);
        let report = read(&scratch.path().join("out/today.json"));
        serde_json::from_slice::<serde_json::Value>(&report).expect("a report");
    }
}

/// Regression test: with some of these values, a benchmark panicked or never ended.
#[test]
fn impossible_benchmarks_are_refused() {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path().join("bench");
    let bench = |experiment: &str, arguments: &[&str]| {
        let mut command = program();
        command.args(["log", "bench"]).args(experiment.split_whitespace());
        command.arg("--directory").arg(&directory).args(arguments);
        run(command)
    };
    for (experiment, option, values, bounds) in [
        ("", "--rate", &["0", "0.1", "NaN", "inf"][..], ""),
        ("", "--batch", &["0"], "1..="),
        ("", "--message-size", &["0", "7", "67108865"], "8..=67108864"),
        ("", "--duration", &["-1", "0", "NaN", "inf", "1e300"], "from 0.001 to 1000000"),
        ("", "--runs", &["0"], "at least 1"),
        ("", "--clients", &["0"], "at least 1"),
        ("", "--partitions", &["0"], "at least 1"),
        ("", "--messages-required-to-save", &["0", "1,0"], "1..="),
        ("", "--size-of-messages-required-to-save", &["0"], "above 0"),
        ("", "--segment-size", &["0", "1K", "2T"], "64K to 1T"),
        ("open", "--segments", &["0"], "at least 1"),
        ("group-commit", "--batch", &["0"], "1..="),
        ("group-commit", "--message-size", &["0"], "1..="),
        ("group-commit", "--duration", &["-1", "1e300"], "from 0.001 to 1000000"),
        ("catch-up", "--size", &["0"], "above 0"),
        ("catch-up", "--limit", &["0", "1M"], "at least 16M"),
        ("catch-up", "--duration", &["-1", "NaN"], "from 0.001 to 1000000"),
    ] {
        for &value in values {
            let refused = bench(experiment, &[option, value]).ended(2, option);
            assert!(refused.complaints.contains(bounds), "{}", refused.complaints);
        }
    }
    assert!(!directory.exists());
    let large =
        ["--batch", "4000000000", "--duration", "0.2", "--runs", "1", "--modes", "buffered"];
    bench("", &large).ended(1, "--batch");
}

/// Starts a benchmark in this directory, and waits until it has created both partitions of its log.
fn started(directory: &Path, experiment: &[&str]) -> Child {
    let mut command = program();
    command.args(["log", "bench"]).args(experiment).arg("--directory").arg(directory);
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = quiet.spawn().expect("the program runs");
    let partitions = directory.join("bench-log/log/streams/0/topics/0/partitions");
    while partitions.read_dir().map_or(0, |entries| entries.count()) < 2 {
        assert!(child.try_wait().expect("a state").is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// A benchmark that does not end by itself.
const ENDLESS: [&str; 8] =
    ["--modes", "buffered", "--partitions", "2", "--rate", "1MB", "--duration", "1000000"];

/// Regression test: an interrupted benchmark left its log.
#[test]
fn an_interruption_leaves_no_log() {
    for (signal, experiment) in [
        ("INT", &ENDLESS[..]),
        ("TERM", &["group-commit", "--partitions", "2", "--duration", "1000000"]),
        ("HUP", &["open", "--partitions", "2", "--segments", "1000000"]),
    ] {
        let scratch = tempfile::tempdir().expect("a directory");
        let mut child = started(scratch.path(), experiment);
        let killed = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(killed.expect("kill").success());
        assert_eq!(child.wait().expect("an end").code(), Some(130), "{signal}");
        for name in ["bench-log", "bench-log.removed"] {
            assert!(!scratch.path().join(name).exists(), "{signal}: {name}");
        }
    }
}

#[test]
fn a_benchmark_removes_the_log_of_one_that_was_killed_and_no_other() {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path().to_str().expect("a path in UTF-8");
    let brief = || run_with(["log", "bench", "--directory", directory].iter().chain(&BRIEF));
    let mut child = started(scratch.path(), &ENDLESS);
    brief().ended(1, "another experiment");
    child.kill().expect("a running process");
    child.wait().expect("an end");
    let log = scratch.path().join("bench-log");
    assert!(log.exists());
    assert_eq!(brief().code, 0);
    assert!(!log.exists());
    #[expect(clippy::disallowed_methods, reason = "the user's directory")]
    std::fs::create_dir(&log).expect("a new directory");
    write(&log.join("thesis"), b"mine");
    brief().ended(1, &log.to_string_lossy());
    assert_eq!(read(&log.join("thesis")), b"mine");
}

#[test]
fn the_other_experiments_print_a_row_for_each_case() {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path().to_str().expect("a path in UTF-8");
    let bench = |experiment: &str, arguments: &[&str]| {
        let all = ["log", "bench", experiment, "--directory", directory];
        let answer = run_with(all.iter().chain(arguments));
        assert_eq!(answer.code, 0, "{}", answer.complaints);
        answer.output
    };
    let open = bench("open", &["--partitions", "4", "--segments", "3", "--runs", "2"]);
    assert_eq!(open.lines().filter(|line| line.starts_with(['1', '2'])).count(), 2, "{open}");
    let arguments =
        ["--partitions", "1,3", "--persisters", "2", "--in-flight", "2", "--duration", "0.3"];
    let commit = bench("group-commit", &arguments);
    let rows = commit.lines().filter(|line| line.split_whitespace().count() == 8);
    assert!(rows.count() >= 2, "{commit}");
    let arguments =
        ["--size", "10MB", "--limit", "64M", "--runs", "1", "--duration", "0.5", "--readers", "1"];
    let caught_up = bench("catch-up", &arguments);
    for mode in ["no consumer", "buffered", "direct"] {
        assert!(caught_up.lines().any(|line| line.starts_with(mode)), "{caught_up}");
    }
}
