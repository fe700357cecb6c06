//! Runs whole experiments with small databases, in this process and without a memory limit.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tailwater_io::kernel::{Sampler, System, Target};
use tailwater_io::probe::DeviceProbe;
use tailwater_io::sync::Mutex;

use super::arguments::{Limit, Preset, TailArguments};
use super::batches::BatchForm;
use super::catch_up::CatchUpArguments;
use super::child::{Assignment, measure};
use super::configuration::Configuration;
use super::experiment::Experiment;
use super::figures::Figures;
use super::launch::{Launch, Measured};
use super::plan::Plan;
use super::tailwater::TAILWATER;
use super::units::{Bytes, HotSet, WriteRate};
use crate::experiment::Place;
use crate::failure::Failure;
use crate::files::read_json;

/// Measures runs in this process. If `fails_at` is set, that many runs succeed and all later ones
/// fail, as if the experiment were interrupted.
#[derive(Default)]
struct Here {
    /// The engine options of each run, in order.
    runs: RefCell<Vec<String>>,
    fails_at: Option<usize>,
    limited_by: &'static str,
}

impl Launch for Here {
    fn run(
        &self,
        assignment: &Assignment,
        _name: &str,
        direct_bytes: &dyn Fn(&Figures) -> Option<u64>,
    ) -> Result<Vec<Measured>, Failure> {
        if self.fails_at.is_some_and(|limit| self.runs.borrow().len() >= limit) {
            return Err("interrupted".into());
        }
        self.runs.borrow_mut().push(assignment.options.clone());
        let database = (TAILWATER.open)(&assignment.directory, &assignment.options)?;
        let measured = |phase: &Assignment| {
            let target = Target::new(&System::default(), &phase.directory);
            let sampler = Sampler::start(target, Duration::from_millis(100))?;
            let measured = Mutex::new(Measured::default());
            let figures = measure(&*database, phase, &|progress| {
                measured.lock().add(progress);
                Ok(())
            })?;
            assert!(direct_bytes(&figures).is_some());
            let mut measured = std::mem::take(&mut *measured.lock());
            measured.figures = figures;
            let sampled = sampler.stop().ok_or("no figures")?;
            measured.figures.kernel.add(&sampled.figures);
            measured.timeline.add_kernel(&sampled.seconds);
            Ok(measured)
        };
        assignment.phases().iter().map(measured).collect()
    }

    fn evict(&self, _directories: &[&Path]) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    fn device_probe(&self) -> DeviceProbe {
        DeviceProbe { bytes: 1 << 20, duration: Duration::from_millis(5) }
    }

    fn limited_by(&self) -> &'static str {
        self.limited_by
    }

    fn memory_limit(&self) -> (String, bool) {
        ("none".to_owned(), false)
    }
}

fn arguments(directory: &Path) -> TailArguments {
    TailArguments {
        limit: Some(Limit::None),
        size: Some(Bytes(4 << 20)),
        hot: Some(HotSet::Bytes(1 << 20)),
        write_rate: Some(WriteRate::BytesPerSecond(4 << 20)),
        duration: Some(0.2),
        runs: Some(2),
        configurations: vec![Configuration::Buffered, Configuration::DirectCompactionReadWrite],
        directory: Some(directory.to_owned()),
        ..TailArguments::default()
    }
}

fn experiment(arguments: &TailArguments, launch: &Here) -> Result<String, Failure> {
    Ok(Experiment::new(Plan::new(arguments)?, launch).run()?.text)
}

fn report(directory: &Path) -> Value {
    read_json(&directory.join("report/report.json")).unwrap().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "no database's file")]
fn read_text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_tiny_experiment_reports_every_field_of_the_schema() {
    let scratch = tempfile::tempdir().unwrap();
    let launch = Here::default();
    let mut arguments = arguments(scratch.path());
    arguments.no_compaction = true;
    let text = experiment(&arguments, &launch).unwrap();
    // Two rows have a baseline.
    assert_eq!(launch.runs.borrow().len(), 10);
    for part in ["direct_compaction_read_write", "1.00x", "closed loop", "report.json"] {
        assert!(text.contains(part), "{text}");
    }
    let report = report(scratch.path());
    let configurations = report["configurations"].as_array().unwrap();
    assert_eq!(configurations.len(), 3);
    for configuration in configurations {
        assert_eq!(configuration["engine"], "tailwater");
        let runs = configuration["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2);
        for figures in runs.iter().chain([&configuration["median"]]) {
            for field in [
                "reads_per_second",
                "write_mb_per_second",
                "p50_us",
                "p90_us",
                "p99_us",
                "p999_us",
                "p9999_us",
                "max_us",
                "mean_us",
                "stddev_us",
                "reads",
            ] {
                assert!(figures[field].is_number(), "{field}: {figures}");
            }
            assert!(figures["reads"].as_f64() > Some(0.0), "{figures}");
            assert!(figures["kernel"].is_object(), "{figures}");
        }
    }
    assert_eq!(configurations[0]["ratios_to_buffered"]["p99_us"], 1.0);
    assert!(configurations[0]["median"]["write_mb_per_second"].as_f64() > Some(0.0));
    assert_eq!(configurations[2]["name"], "no_compaction");
    assert_eq!(configurations[2]["median"]["write_mb_per_second"], 0.0);
    assert!(!scratch.path().join("copy").exists());
}

#[test]
fn every_field_of_the_report_is_documented() {
    let scratch = tempfile::tempdir().unwrap();
    let long = TailArguments {
        duration: Some(1.1),
        runs: Some(1),
        batch_readers: Some(1),
        slow_reads: Some(1),
        ..arguments(scratch.path())
    };
    experiment(&long, &Here::default()).unwrap();
    let timeline = &report(scratch.path())["configurations"][0]["runs"][0]["timeline"];
    for part in ["/latencies/reads/0/p50_us", "/engine/0/at_s", "/kernel/0/at_s"] {
        assert!(timeline.pointer(part).is_some_and(Value::is_number), "{part}: {timeline}");
    }
    let document = include_str!("../../../../docs/tail.md");
    let mut missing = Vec::new();
    let mut values = vec![report(scratch.path())];
    while let Some(value) = values.pop() {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if !document.contains(&format!("`{name}`")) {
                        missing.push(name.clone());
                    }
                    // The fields of this object are names of purposes, which are not documented one
                    // by one.
                    if name != "bytes_per_purpose" {
                        values.push(value);
                    }
                }
            }
            Value::Array(elements) => values.extend(elements),
            _ => {}
        }
    }
    missing.sort();
    missing.dedup();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn an_interrupted_experiment_goes_on() {
    let scratch = tempfile::tempdir().unwrap();
    let mut arguments = arguments(scratch.path());
    let first = Here { fails_at: Some(7), ..Here::default() };
    let error = experiment(&arguments, &first).unwrap_err();
    assert!(error.to_string().contains("interrupted"), "{error}");

    arguments.resume = true;
    let second = Here::default();
    experiment(&arguments, &second).unwrap();
    assert_eq!(second.runs.borrow().len(), 2);
    let configurations = &report(scratch.path())["configurations"];
    for index in 0..2 {
        assert_eq!(configurations[index]["runs"].as_array().unwrap().len(), 2);
    }

    arguments.duration = Some(0.3);
    let error = experiment(&arguments, &Here::default()).unwrap_err().to_string();
    assert!(error.contains("--resume") && error.contains("duration_seconds"), "{error}");

    arguments.duration = Some(0.2);
    let elsewhere = Here { limited_by: "systemd-run", ..Here::default() };
    let error = experiment(&arguments, &elsewhere).unwrap_err().to_string();
    assert!(error.contains("--resume") && error.contains("limited_by"), "{error}");

    arguments.resume = false;
    let anew = Here::default();
    experiment(&arguments, &anew).unwrap();
    assert_eq!(anew.runs.borrow().len(), 8);
}

#[test]
fn a_write_rate_is_calibrated_with_every_writing_configuration() {
    let scratch = tempfile::tempdir().unwrap();
    let mut arguments = arguments(scratch.path());
    arguments.write_rate = Some(WriteRate::Calibrate);
    arguments.runs = Some(1);
    let launch = Here::default();
    experiment(&arguments, &launch).unwrap();
    assert_eq!(launch.runs.borrow().len(), 6);
    let report = report(scratch.path());
    let rate = report["parameters"]["write_bytes_per_second"].as_u64().unwrap();
    assert!(rate > 0);

    arguments.resume = true;
    let again = Here::default();
    experiment(&arguments, &again).unwrap();
    assert_eq!(again.runs.borrow().len(), 0);
}

#[test]
fn reads_may_come_at_a_rate() {
    let scratch = tempfile::tempdir().unwrap();
    let mut arguments = arguments(scratch.path());
    arguments.read_rate = Some(500.0);
    arguments.readers = Some(2);
    let text = experiment(&arguments, &Here::default()).unwrap();
    assert!(text.contains("open loop: 500 reads/s"), "{text}");
    let reads = report(scratch.path())["configurations"][0]["median"]["reads"].as_f64().unwrap();
    assert!(reads <= 102.0, "{reads}");
}

#[test]
fn clients_get_batches_beside_the_reads() {
    for form in [BatchForm::MultiGet, BatchForm::SingleGets] {
        let scratch = tempfile::tempdir().unwrap();
        let arguments = TailArguments {
            batch_readers: Some(2),
            batch_size: Some(8),
            batch_form: Some(form),
            batch_rate: Some(200.0),
            duration: Some(1.1),
            runs: Some(1),
            configurations: vec![Configuration::Buffered],
            ..arguments(scratch.path())
        };
        let text = experiment(&arguments, &Here::default()).unwrap();
        let head = format!("2 clients getting batches of 8 keys of the whole database by {form:?}");
        let head = head.replace("MultiGet", "multi-get").replace("SingleGets", "single-gets");
        assert!(text.contains(&head), "{text}");
        let report = report(scratch.path());
        let row = &report["configurations"][0];
        let batches = &row["median"]["batches"];
        let figure = |name: &str| batches[name].as_f64().unwrap();
        let count = figure("count");
        assert!((1.0..=221.0).contains(&count), "{batches}");
        assert!(figure("batch_keys_per_second") > 0.0 && figure("p999_us") > 0.0, "{batches}");
        // The baseline is of reads alone.
        assert!(row["median"]["baseline"].get("batches").is_none(), "{row}");
        let timeline = &row["runs"][0]["timeline"]["latencies"]["batches"];
        assert!(timeline[0]["per_second"].as_f64() > Some(0.0), "{timeline}");
    }
}

#[test]
fn slow_reads_have_causes() {
    let scratch = tempfile::tempdir().unwrap();
    let arguments = TailArguments { slow_reads: Some(1), ..arguments(scratch.path()) };
    let text = experiment(&arguments, &Here::default()).unwrap();
    assert!(text.contains("Reads of at least 1 us"), "{text}");
    let median = &report(scratch.path())["configurations"][0]["median"];
    for (figures, name) in [(median, "with writes"), (&median["baseline"], "without")] {
        let slow = &figures["slow_reads"];
        // Each read takes longer than a microsecond, and no others are counted than those of the
        // phase.
        let per_second = slow["slow_reads_per_second"].as_f64().unwrap();
        let all = figures["reads_per_second"].as_f64().unwrap();
        assert!(per_second > 0.0 && per_second < all * 1.05, "{name}: {slow} of {all}");
        let shares = slow["time_shares"].as_object().unwrap();
        let sum: f64 = shares.values().filter_map(Value::as_f64).sum();
        // Sums are of whole microseconds of each read and cause.
        assert!(shares.len() == 6 && sum > 0.0 && sum < 1.01, "{name}: {slow}");
        for faults in ["minor_faults", "major_faults"] {
            assert!(slow[faults].is_number(), "{name}: {slow}");
        }
    }
    let html = scratch.path().join("report/report.html");
    let html = read_text(&html);
    assert!(html.contains("Causes of slow reads") && html.contains("unexplained"), "{html}");
}

#[test]
fn values_compress_in_a_compressed_database() {
    let scratch = tempfile::tempdir().unwrap();
    let arguments = TailArguments {
        options: Some("compression=kLZ4Compression".to_owned()),
        runs: Some(1),
        keep: true,
        ..arguments(scratch.path())
    };
    let text = experiment(&arguments, &Here::default()).unwrap();
    let head = "values compress to 0.5 of their size; compression=kLZ4Compression";
    assert!(text.contains(head), "{text}");
    let parameters = &report(scratch.path())["parameters"];
    assert_eq!(parameters["compression_ratio"], 0.5);
    // The source database is compressed, too: most reads of a run are of its tables.
    let source = scratch.path().join("source-1020x4096-0.5");
    let open = tailwater::OpenOptions::default();
    let db = tailwater::Db::open(&source, &open).unwrap();
    let family = db.cf_handle("default").unwrap();
    let size = db.property_int_value_cf(&family, "rocksdb.total-sst-files-size").unwrap();
    let share = size.unwrap() as f64 / (1020.0 * 4112.0);
    assert!((0.45..0.65).contains(&share), "{share}");
}

#[test]
fn two_experiments_do_not_share_a_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let held = Place::take(scratch.path()).unwrap();
    let error = experiment(&arguments(scratch.path()), &Here::default()).unwrap_err();
    assert!(error.to_string().contains("another experiment"), "{error}");
    let catch_up = CatchUpArguments {
        size: Bytes(1 << 20),
        limit: Bytes(64 << 20),
        readers: 1,
        read_rate: 100.0,
        duration: 0.1,
        runs: 1,
        directory: scratch.path().to_owned(),
        out: None,
    };
    let error = super::catch_up(&catch_up).unwrap_err();
    assert!(error.to_string().contains("another experiment"), "{error}");
    drop(held);
}

#[test]
fn one_compaction_merges_two_inputs_while_reads_come_at_a_rate() {
    let scratch = tempfile::tempdir().unwrap();
    let arguments = TailArguments {
        preset: Some(Preset::Cassandra),
        runs: Some(1),
        write_rate: None,
        read_rate: Some(200.0),
        readers: Some(2),
        configurations: vec![Configuration::Buffered, Configuration::NoCompaction],
        ..arguments(scratch.path())
    };
    let launch = Here::default();
    experiment(&arguments, &launch).unwrap();
    assert_eq!(launch.runs.borrow().len(), 4);
    let report = report(scratch.path());
    let configurations = report["configurations"].as_array().unwrap();
    for (index, rate) in [None, Some(128u64 << 20), Some(64 << 20), None].into_iter().enumerate() {
        let configuration = &configurations[index];
        assert_eq!(configuration["compaction_bytes_per_second"].as_u64(), rate);
        let moved = &configuration["median"]["kernel"]["bytes_per_purpose"];
        let read = moved["compaction_read"]["read_bytes"].as_f64().unwrap_or(0.0);
        // In the runs of the first three rows, a compaction reads both of its inputs completely. In
        // the runs of the last row, nothing is compacted.
        assert_eq!(read > (4 << 20) as f64, index < 3, "{index}: {read}");
        for phase in ["before_compaction", "after_compaction"] {
            let reads = &configuration["median"][phase]["reads_per_second"];
            // The rate of reads depends on other load on the machine, so check only that there were
            // more than one per second. The last row has neither phase: without a compaction, there
            // is no phase before or after it.
            assert_eq!(reads.as_f64() > Some(1.0), index < 3, "{index}: {reads}");
        }
    }
}
