//! Tests of the command `tail`. They run its experiment with a small database and without a memory
//! limit.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tailwater_testkit::filesystem::say;
use tailwater_testkit::{directory, golden};

use crate::support::{Answer, program, read, run_with, write};

/// Runs the experiment in a directory, with additional arguments. The database has 4 MiB, of which
/// a quarter is the hot set, and there is no memory limit.
fn tail(directory: &Path, arguments: &[&str]) -> Answer {
    let place = ["tail", "--directory", directory.to_str().expect("a path in UTF-8")];
    let small = ["--limit", "none", "--size", "4M", "--hot", "1M", "--write-rate", "4M"];
    let short = ["--duration", "1.2", "--runs", "1", "--keep"];
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
        return say(&format!("LEFT OUT: tail: no direct I/O in {path}: {}", answer.complaints));
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
        // According to the engine's counters, the writer's bytes went to the log.
        let log = &figures["kernel"]["bytes_per_purpose"]["wal"]["written_bytes"];
        assert!(log.as_f64() > Some(100_000.0), "{name}: {figures}");
    }
    assert_eq!(report["parameters"]["limited_by"], "none");
    let html = |name: &str| {
        let html = read(&directory.path().join("report").join(name));
        String::from_utf8(html).expect("UTF-8")
    };
    let rows = configurations.map(|name| vec!["tailwater".to_owned(), name.to_owned()]);
    tailwater_testkit::report::check(&html("report.html"), &rows);
    // The report can be made again from the JSON alone, and two can be compared.
    let json = directory.path().join("report/report.json");
    let json = json.to_str().expect("a path in UTF-8");
    let made = html("report.html");
    write(&directory.path().join("report/report.html"), b"lost");
    run_with(["tail", "--render", json]).well();
    assert!(html("report.html") == made, "another report");
    run_with(["tail", "--compare", json, json]).well();
    let rows = configurations.map(|name| vec![name.to_owned(), "reads/s".to_owned()]);
    tailwater_testkit::report::check(&html("compare.html"), &rows);
    // Checks that a database that was kept can be opened.
    let kept = directory.path().join("tailwater-direct_compaction_read_write");
    crate::support::db("verify", &kept, []).well();
}

#[test]
fn a_configuration_that_falls_back_is_reported() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        return say("LEFT OUT: a configuration that falls back: there is no /dev/shm");
    };
    let direct = ["--configurations", "direct_compaction_read_write"];
    let answer = tail(directory.path(), &direct);
    assert_eq!(answer.code, 0, "{}", answer.complaints);
    let expected = "FALLBACK: tailwater direct_compaction_read_write: compaction_read: \
                asked direct";
    assert!(answer.output.contains(expected), "{}", answer.output);
    let median = &report(directory.path())["configurations"][0]["median"];
    assert!(median["fallen_back"].as_str().is_some_and(|text| text.contains("flush_write")));
}

#[test]
fn impossible_experiments_are_refused_before_anything_is_created() {
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

/// Regression test: with the directory of a database, the experiment held the database's lock.
#[test]
fn the_directory_of_a_database_is_refused() {
    let database = golden::unpack("basic");
    let before = directory::snapshot(database.path());
    let refused = tail(database.path(), &[]).ended(1, "CURRENT");
    assert!(refused.complaints.contains("--directory"), "{}", refused.complaints);
    directory::assert_unchanged(database.path(), &before);
}

/// Returns the command of an experiment without `--keep`, so that all directories except the
/// results are removed at the end.
fn passing(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = program();
    command.args(["tail", "--quick", "--directory"]).arg(directory);
    command.args(["--limit", "none", "--size", "4M", "--hot", "1M", "--write-rate", "4M"]);
    command.args(["--configurations", "buffered", "--runs", "1"]).args(arguments);
    command
}

#[track_caller]
fn assert_only_results_are_left(directory: &Path) {
    let mut left = names(directory);
    left.sort();
    assert_eq!(left, ["LOCK-OF-TAILWATER-EXPERIMENT", "report"]);
}

#[expect(clippy::disallowed_methods, reason = "the experiment's directory")]
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    entries.map(|entry| name(entry.expect("an entry"))).collect()
}

/// Regression test: user directories named `copy` and `runs` were removed with their contents, and
/// files with the names of results were overwritten.
#[test]
#[expect(clippy::disallowed_methods, reason = "the user's files")]
fn files_of_the_user_in_the_experiments_directories_stay() {
    for file in [
        "disk/copy/thesis",
        "disk/source-1020x4096/thesis",
        "results/runs/march.csv",
        "results/parameters.json",
        "results/report.json",
        "results/table.txt",
        "results/table.unfinished",
    ] {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
        write(&path, b"mine");
        let results = scratch.path().join("results");
        let out = ["--duration", "0.1", "--out", results.to_str().expect("a path in UTF-8")];
        let ended = passing(&scratch.path().join("disk"), &out).output().expect("a run");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{file}: {said}");
        let kept = Path::new(file).iter().take(2).collect::<PathBuf>();
        assert!(said.contains(&*kept.to_string_lossy()), "{file}: {said}");
        assert_eq!(read(&path), b"mine", "{file}");
    }
}

#[test]
fn an_experiment_takes_the_place_of_an_earlier_one_and_of_nothing_else() {
    let scratch = tempfile::tempdir().expect("a directory");
    for round in 0..2 {
        let ended = passing(scratch.path(), &["--duration", "0.1"]).output().expect("a run");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(0), "{said}");
        assert_only_results_are_left(scratch.path());
        // A file of the user in a directory that the experiment created.
        let own = scratch.path().join("report/runs/march.csv");
        if round == 0 {
            write(&own, b"mine");
        }
        assert_eq!(read(&own), b"mine");
    }
}

/// Regression test: when its output pipe was closed, the program panicked and did not remove its
/// databases.
#[test]
fn closed_output_pipes_do_not_stop_the_experiment() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut command = passing(scratch.path(), &["--duration", "0.1"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().expect("an end").code(), Some(0));
    assert_only_results_are_left(scratch.path());
}

/// Regression test: after a failure the experiment did not remove its source database.
#[test]
fn a_failure_leaves_no_database() {
    let scratch = tempfile::tempdir().expect("a directory");
    let wrong = ["--duration", "0.1", "--tailwater-options", "comparator=nobodys"];
    let ended = passing(scratch.path(), &wrong).output().expect("a run");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("building the source database"), "{said}");
    assert_only_results_are_left(scratch.path());
}

#[test]
fn an_interruption_leaves_no_database() {
    for signal in ["INT", "TERM", "HUP"] {
        let scratch = tempfile::tempdir().expect("a directory");
        let mut command = passing(scratch.path(), &["--duration", "1000"]);
        let mut child = command.stderr(Stdio::null()).spawn().expect("the program runs");
        let log = scratch.path().join("copy/LOG");
        while !log.exists() {
            assert!(child.try_wait().expect("a state").is_none(), "it ended");
            std::thread::sleep(Duration::from_millis(5));
        }
        let killed = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(killed.expect("kill").success());
        assert_eq!(child.wait().expect("an end").code(), Some(130), "{signal}");
        assert_only_results_are_left(scratch.path());
    }
}
