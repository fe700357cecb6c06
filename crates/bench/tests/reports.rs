//! Runs the benchmarks that write a report, with little work, and checks what they write.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tailwater_io::kernel::System;
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
