//! Runs benchmarks with little work, and checks what they write.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tailwater_io::Storage as _;
use tailwater_io::kernel::System;
use tailwater_io::posix::PosixStorage;
use tailwater_testkit::filesystem::say;
use tailwater_testkit::report::check;

/// Runs a benchmark, makes its report again, and returns its JSON and the report.
fn run(command: &str, arguments: &[&str]) -> (Value, String) {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let out = scratch.path().join("out");
    let program = |arguments: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_tailwater-bench"));
        let ended = program.arg(command).args(arguments).output().expect("it runs");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).expect("UTF-8")
    };
    let text = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    let places = ["--directory", &text(scratch.path()), "--out", &text(&out)];
    let printed = program(&[&places, arguments].concat());
    let report = out.join("report.html");
    assert!(printed.trim_end().ends_with(&format!("Report: {}", report.display())), "{printed}");
    let read = |name: &str| System::default().read(out.join(name)).expect("a file");
    let (json, html) = (read("report.json"), read("report.html"));
    program(&["--render", &text(&out.join("report.json"))]);
    assert!(read("report.html") == html, "another report");
    assert!(read("report.svg").contains("prefers-color-scheme"));
    (serde_json::from_str(&json).expect("JSON"), html)
}

#[test]
fn cold_reads_are_compared_with_raw_reads() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut program = Command::new(env!("CARGO_BIN_EXE_tailwater-bench"));
    program.args(["cold", "--gigabytes", "0.008", "--batch-size", "4", "--reads", "3"]);
    let ended = program.args(["--rounds", "2", "--directory"]).arg(scratch.path()).output();
    let ended = ended.expect("it runs");
    let [printed, errors] = [ended.stdout, ended.stderr].map(|it| String::from_utf8(it).unwrap());
    if !ended.status.success() && (errors.contains("O_DIRECT") || errors.contains("io_uring")) {
        say(&format!("no cold reads: {errors}"));
        return;
    }
    assert!(ended.status.success(), "{errors}");
    for title in [
        "Cold keys one by one, buffered",
        "Cold keys one by one, direct",
        "Batches of 4 cold keys, direct",
        "Cold scans with direct reads, values of 100 bytes",
        "Cold scans with direct reads, values of 4096 bytes",
        "Seeks over 6 cold levels, buffered",
    ] {
        let (_, part) = printed.split_once(title).unwrap_or_else(|| panic!("{title}: {printed}"));
        let part = part.split("\nCold").next().unwrap_or_default();
        for row in ["| raw", "| tailwater |", "- tailwater: "] {
            assert!(part.contains(row), "{title}: {row}: {printed}");
        }
    }
    assert!(printed.contains("| tailwater from the page cache |"), "{printed}");
    assert!(PosixStorage::new().list(scratch.path()).expect("a list").is_empty());
}

fn cell(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[test]
fn the_basket_writes_a_report() {
    let arguments = ["--num", "2000", "--reads", "500", "--rounds", "2"];
    let (json, html) = run("basket", &arguments);
    let workloads = json["workloads"].as_array().expect("workloads");
    assert_eq!(workloads.len(), 9);
    let rows: Vec<_> = workloads.iter().map(|row| vec![cell(&row["workload"])]).collect();
    check(&html, &rows);
}

#[test]
fn durable_writes_a_report() {
    let arguments = ["--writers", "1,2", "--puts", "40", "--num", "40", "--runs", "2"];
    let (json, html) = run("durable", &arguments);
    let measurements = json["measurements"].as_array().expect("measurements");
    assert!(measurements.len() >= 6, "{json}");
    let row = |row: &Value| ["part", "writers", "label"].map(|name| cell(&row[name])).to_vec();
    check(&html, &measurements.iter().map(row).collect::<Vec<_>>());
    assert!(html.contains("14116"));
}

#[test]
fn the_memory_of_databases_is_sampled() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut program = Command::new(env!("CARGO_BIN_EXE_tailwater-bench"));
    program.args(["memory", "--seconds", "1", "--data", "4", "--memtables", "4", "--cache", "16"]);
    let ended = program.arg("--charge").arg("--directory").arg(scratch.path()).output();
    let ended = ended.expect("it runs");
    let [printed, errors] = [ended.stdout, ended.stderr].map(|it| String::from_utf8(it).unwrap());
    assert!(ended.status.success(), "{errors}");
    for part in ["configured sum 16 MiB", "| tailwater |", "- at the maximum, after", "memtables"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(!printed.contains("- error"), "{printed}");
    assert!(PosixStorage::new().list(scratch.path()).expect("a list").is_empty());
}

#[test]
fn bursts_to_families_are_measured() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut program = Command::new(env!("CARGO_BIN_EXE_tailwater-bench"));
    program.args(["family-bursts", "--families", "5", "--periods", "1", "--runs", "1"]);
    let ended = program.arg("--directory").arg(scratch.path()).output().expect("it runs");
    let [printed, errors] = [ended.stdout, ended.stderr].map(|it| String::from_utf8(it).unwrap());
    assert!(ended.status.success(), "{errors}");
    for row in ["Bursts to 5 column families", "| tailwater | 1 |", "| tailwater | 4 |"] {
        assert!(printed.contains(row), "{row}: {printed}");
    }
    assert!(PosixStorage::new().list(scratch.path()).expect("a list").is_empty());
}
