//! `tail`: the experiment, small and without a memory limit, in processes of its own.

use std::path::Path;

use serde_json::Value;

use crate::support::{Answer, read, run_with};

/// The experiment in a directory, with these arguments besides: 4 MiB, a quarter of it hot, and as
/// much memory as there is.
fn tail(directory: &Path, arguments: &[&str]) -> Answer {
    let place = ["tail", "--directory", directory.to_str().expect("a path in UTF-8")];
    let small = ["--limit", "none", "--size", "4M", "--hot", "1M", "--write-rate", "4M"];
    let short = ["--duration", "0.3", "--runs", "1", "--keep"];
    run_with(place.iter().chain(&small).chain(&short).chain(arguments))
}

fn report(directory: &Path) -> Value {
    let report = read(&directory.join("report/report.json"));
    serde_json::from_slice(&report).expect("a report")
}

#[test]
fn each_configuration_runs_in_a_process_of_its_own_and_is_reported() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let configurations = ["buffered", "direct_compaction_read_write", "tailwater"];
    let answer = tail(directory.path(), &["--configurations", &configurations.join(",")]);
    if answer.code != 0 && answer.complaints.contains("I/O is refused") {
        let path = directory.path().display();
        return println!("skipped: no direct I/O in {path}: {}", answer.complaints);
    }
    assert_eq!(answer.code, 0, "{}", answer.complaints);
    let report = report(directory.path());
    let found = report["configurations"].as_array().expect("configurations");
    assert_eq!(found.len(), configurations.len());
    for (configuration, name) in found.iter().zip(configurations) {
        assert_eq!(configuration["name"], name);
        assert!(answer.output.contains(name), "{}", answer.output);
        let figures = &configuration["median"];
        for field in ["reads_per_second", "p999_us", "write_mb_per_second"] {
            assert!(figures[field].as_f64() > Some(0.0), "{name}: {field}: {figures}");
        }
        // By the engine's own account the bytes of the writer went into the log.
        let log = &figures["kernel"]["bytes_per_purpose"]["wal"]["written_bytes"];
        assert!(log.as_f64() > Some(100_000.0), "{name}: {figures}");
    }
    assert_eq!(report["parameters"]["limited_by"], "none");
    // The databases that were kept are databases.
    let kept = directory.path().join("tailwater-direct_compaction_read_write");
    crate::support::db("verify", &kept, []).well();
}

#[test]
fn what_goes_another_way_than_its_name_says_is_told() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        return println!("skipped: there is no /dev/shm");
    };
    let direct = ["--configurations", "direct_compaction_read_write"];
    let answer = tail(directory.path(), &direct);
    assert_eq!(answer.code, 0, "{}", answer.complaints);
    let told = "NOT WHAT ITS NAME SAYS: tailwater direct_compaction_read_write: compaction_read: \
                asked direct";
    assert!(answer.output.contains(told), "{}", answer.output);
    let median = &report(directory.path())["configurations"][0]["median"];
    assert!(median["fallen_back"].as_str().is_some_and(|text| text.contains("flush_write")));
}

#[test]
fn what_cannot_be_done_is_said_before_anything_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().join("tail");
    for (arguments, words) in [
        (vec!["--hot", "100"], "--hot"),
        (vec!["--limit", "none"], "--size"),
        (vec!["--engine", "rocksdb"], "tailwater-peers"),
    ] {
        let place = ["tail", "--directory", place.to_str().expect("a path in UTF-8")];
        run_with(place.iter().chain(&arguments)).ended(2, words);
    }
    assert!(!place.exists());
}
