//! Runs an experiment: builds the source database, measures all runs and writes the report.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::calibration;
use super::child::{Assignment, ConcurrentWork};
use super::copy::{check_free_space, copy_database};
use super::document::{document, headline_of};
use super::environment::{Environment, probe_device};
use super::figures::{Figures, Phase};
use super::launch::{Launch, Measured};
use super::plan::{Kind, Plan, Row};
use super::report::Report;
use super::results::{Results, Run};
use super::source::Source;
use super::table::Table;
use super::{summary, tables};
use crate::experiment::{Finished, Place};
use crate::failure::Failure;
use crate::files::write_text;
use crate::own::OwnDirectory;
use crate::report::ReportFiles;

/// Maximum duration of the measurement of a baseline.
const BASELINE: Duration = Duration::from_secs(10);
/// Duration of the measurement of a baseline, as a share of the duration of a run.
const BASELINE_SHARE: f64 = 0.3;

/// An experiment: its plan, its source database and the way to launch its runs.
pub(super) struct Experiment<'a> {
    plan: Plan,
    source: Source,
    launch: &'a dyn Launch,
}

impl<'a> Experiment<'a> {
    /// Creates an experiment, but does not run it.
    pub(super) fn new(mut plan: Plan, launch: &'a dyn Launch) -> Self {
        plan.parameters.limited_by = launch.limited_by().to_owned();
        let source = Source::new(&plan.parameters);
        Self { plan, source, launch }
    }

    /// Runs the whole experiment.
    ///
    /// # Errors
    /// The errors of [`Place::take`]; errors of the engines and of the filesystem; too little free
    /// space.
    pub(super) fn run(mut self) -> Result<Finished, Failure> {
        let start = Instant::now();
        let _place = Place::take(&self.plan.directory)?;
        let results = Results::open(&mut self.plan)?;
        // The source database is removed at the end only if this experiment builds it.
        let directory = &self.plan.directory;
        let is_ours_alone = !self.plan.keep_source && !self.source.is_there(directory);
        let source = is_ours_alone.then(|| OwnDirectory::at(&self.source.path(directory)));
        let source = source.transpose()?;
        self.prepare()?;
        let parameters = &self.plan.parameters;
        if parameters.kind == Kind::Overwriting && parameters.write_bytes_per_second.is_none() {
            let measure = |row, duration| {
                let run =
                    self.measure_row(row, 0, "calibrating", duration, ConcurrentWork::Writing);
                run.map(|run| run.figures)
            };
            let rate = calibration::sustained_rate(&self.plan, measure)?;
            self.plan.parameters.write_bytes_per_second = Some(rate);
            results.save_parameters(&self.plan.parameters)?;
        }
        self.measure(&results)?;
        let finished = self.report(&results)?;
        source.map_or(Ok(()), OwnDirectory::remove)?;
        say!("done in {:.0} s", start.elapsed().as_secs_f64());
        Ok(finished)
    }

    /// Builds the source database if it does not exist. Before that, checks that there is enough
    /// space for the source database and for its copies.
    fn prepare(&self) -> Result<(), Failure> {
        let Plan { directory, parameters, .. } = &self.plan;
        let size = self.source.bytes();
        let is_there = self.source.is_there(directory);
        // During a run, a copy grows by its write-ahead logs and by data that is not yet compacted.
        // In the experiment with one compaction it grows by the size of the whole database, since
        // inputs and outputs exist at the same time.
        let growth = match parameters.kind {
            Kind::Overwriting => (size / 4).max(256 << 20),
            Kind::Merging => size + (size / 20),
        };
        let copies = if self.plan.keep_copies { self.plan.rows.len() as u64 } else { 1 };
        let missing = if is_there { 0 } else { size };
        let why = "the source database, a copy of it, and the writes of a run";
        check_free_space(directory, missing + copies * (size + growth), why)?;
        match is_there {
            true => {
                let path = self.source.path(directory);
                say!("the source database exists: {}", path.display());
            }
            false => self.source.build(directory)?,
        }
        debug_assert_eq!(parameters.database_bytes(), size);
        Ok(())
    }

    /// Measures all runs that have no stored result yet.
    fn measure(&self, results: &Results) -> Result<(), Failure> {
        let count = self.plan.rows.len() * self.plan.runs;
        let mut number = 0;
        for run in 1..=self.plan.runs {
            for row in self.plan.order(run - 1) {
                number += 1;
                let name = format!("{} {}", row.engine.name(), row.label());
                let head = format!("[{number}/{count}] run {run}: {name}");
                if results.get(row, run)?.is_some() {
                    say!("{head}: measured before");
                    continue;
                }
                let measured = self
                    .measure_row(
                        row,
                        run,
                        &head,
                        self.plan.parameters.duration(),
                        self.concurrent_work(row),
                    )
                    .map_err(|error| format!("{name}: {error}"))?;
                let Figures { reads_per_second, ref latencies, reads_kept, .. } = measured.figures;
                let kept = reads_kept
                    .map(|share| format!(", {:.0} % of the reads without writes", 100.0 * share));
                say!(
                    "{head}: {reads_per_second:.0} reads/s, p99.9 {:.2} ms{}",
                    latencies.p999_us / 1000.0,
                    kept.unwrap_or_default(),
                );
                results.put(row, &measured)?;
            }
        }
        Ok(())
    }

    fn concurrent_work(&self, row: Row) -> ConcurrentWork {
        let parameters = &self.plan.parameters;
        match (parameters.kind, parameters.write_bytes_per_second) {
            _ if !row.configuration.disturbs() => ConcurrentWork::Nothing,
            (Kind::Merging, _) => ConcurrentWork::Merging,
            (Kind::Overwriting, Some(rate)) => ConcurrentWork::PacedWriting(rate),
            (Kind::Overwriting, None) => ConcurrentWork::Writing,
        }
    }

    /// Copies the source database and measures one run on the copy: the baseline, if the run has
    /// one, and the reads during other work, each in a process of its own that begins with an empty
    /// page cache.
    fn measure_row(
        &self,
        row: Row,
        run: usize,
        head: &str,
        duration: Duration,
        concurrent_work: ConcurrentWork,
    ) -> Result<Run, Failure> {
        let source = self.source.path(&self.plan.directory);
        let copy = self.copy_of(row);
        let own = OwnDirectory::create(&copy)?;
        copy_database(&source, &copy)?;
        let assignment = self.assignment(row, &copy, run, duration, concurrent_work);
        let direct_bytes = |figures: &Figures| row.direct_bytes(figures);
        let measure = |assignment: &Assignment, head: &str| {
            let resident_pages = self.launch.evict(&[&source, &copy])?;
            let phases = self.launch.run(assignment, head, &direct_bytes)?;
            Ok::<_, Failure>((resident_pages, phases))
        };
        let phase = |Measured { figures, .. }: &Measured| {
            Phase::of(figures, row.fetched_pages_per_second(figures))
        };
        let baseline = match baseline_of(&assignment) {
            Some(baseline) => {
                let (_, phases) = measure(&baseline, &format!("{head}, without writes"))?;
                phases.first().map(phase)
            }
            None => None,
        };
        let (resident_pages, mut phases) = measure(&assignment, head)?;
        if self.plan.keep_copies {
            own.keep()
        } else {
            own.remove()?
        }
        let (before, after) = match &phases[..] {
            [before, _, after] => (Some(phase(before)), Some(phase(after))),
            [_] => (None, None),
            _ => return Err("the process of the run reported no measurements".into()),
        };
        let Measured { mut figures, timeline } = phases.swap_remove(phases.len() / 2);
        if row.configuration.reads_of_users_are_direct() {
            figures.caches.page_cache_hit_ratio = None;
        }
        figures.resident_before_pages = resident_pages.map(|pages| pages as f64);
        if let Some(alone) = baseline.as_ref().or(before.as_ref()) {
            figures.compare_with(alone);
        }
        (figures.baseline, figures.before_compaction) = (baseline, before);
        figures.after_compaction = after;
        Ok(Run { run, figures, timeline })
    }

    fn assignment(
        &self,
        row: Row,
        copy: &Path,
        run: usize,
        duration: Duration,
        concurrent_work: ConcurrentWork,
    ) -> Assignment {
        let parameters = &self.plan.parameters;
        Assignment {
            engine: row.engine,
            directory: copy.to_owned(),
            options: parameters.options_of(row),
            load: parameters.load,
            batch_load: parameters.batch_load,
            concurrent_work,
            duration,
            seed: run as u64,
            warms: parameters.is_warm,
            // Only calibration runs have an unthrottled writer. No incident is caused in a
            // calibration run.
            incident: parameters.incident.filter(|_| concurrent_work != ConcurrentWork::Writing),
            block_bytes: parameters.block_bytes(),
            slow_read_threshold_us: parameters.slow_read_threshold_us,
            catch_up: None,
        }
    }

    /// Returns the path of the database copy that a row is measured on.
    fn copy_of(&self, row: Row) -> PathBuf {
        let Plan { directory, keep_copies, .. } = &self.plan;
        if *keep_copies { directory.join(row.file_name()) } else { directory.join("copy") }
    }

    /// Writes `report.json`, `report.html`, its picture and `table.txt`.
    fn report(&self, results: &Results) -> Result<Finished, Failure> {
        let Plan { directory, out, .. } = &self.plan;
        let environment = Environment::of(directory, self.launch.memory_limit());
        let device = probe_device(self.launch.device_probe(), directory)?;
        let report = Report::new(&self.plan, results, environment, device)?;
        let mut table = format!("{}\n{}", Table(&report), tables::kernel(&report)?);
        table.push_str(&tables::caches(&report)?);
        table.push_str(&tables::slow_reads(&report)?);
        table.push_str(&tables::before_and_after(&report)?);
        table.push_str(&tables::batches(&report)?);
        if self.plan.reports_means {
            table.push_str(&tables::means(&report)?);
        }
        write_text(&out.join("table.txt"), &table)?;
        let mut text = format!("\n{table}\n");
        let headline = headline_of(&serde_json::to_value(&report)?, self.plan.parameters.kind)?;
        text.push_str(&format!("{}\n\n", summary::wrapped(&headline)));
        if self.plan.reports_observations
            && let Some(sentences) = summary::sentences(&report)
        {
            text.push_str(&format!("{sentences}\n\n"));
        }
        let files = ReportFiles::claimed(out.join("report.json"));
        Finished::recorded(text, &report, &files, document)
    }
}

/// Returns the assignment that measures the baseline of a run with a paced writer: the same reads
/// without a writer and other clients, of a hot set that is in memory.
fn baseline_of(assignment: &Assignment) -> Option<Assignment> {
    matches!(assignment.concurrent_work, ConcurrentWork::PacedWriting(_)).then(|| Assignment {
        batch_load: None,
        concurrent_work: ConcurrentWork::Nothing,
        duration: assignment.duration.mul_f64(BASELINE_SHARE).min(BASELINE),
        warms: true,
        incident: None,
        ..assignment.clone()
    })
}
