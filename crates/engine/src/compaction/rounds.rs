//! Rounds of compaction: picks compactions, runs them and installs their results.
//!
//! No storage is accessed while the version lock is held. The output tables are opened before the
//! thread waits for its turn to install a change of the versions. The MANIFEST is written during
//! that turn, but without the lock ([`crate::version::Versions`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::LowPriority;
use super::claim::Claim;
use super::installation::moved;
use super::job::{Job, LevelFiles, Outcome, Statistics};
use super::job_state::{Environment, InputSettings, OutputSettings};
use super::picker::{self, LevelTargets};
use super::scheduler::CompactionScheduler;
use crate::background::{Attempt, FailedPart, Running, WorkingThread};
use crate::column_family::ColumnFamily;
use crate::error::{Error, ErrorKind, Result};
use crate::options::DbOptions;
use crate::panics;
use crate::stats::LevelFigures;
use crate::table::builder::TableCompression;
use crate::table::table_buffers;
use crate::version::{Compaction, CompactionKind, Reason};

/// Number of attempts at a compaction whose outputs could not be written. Each attempt writes new
/// files.
const TRIES: usize = 2;

/// Minimum value of `max_compaction_trigger_wakeup_seconds` at which each check leaves a line in
/// the LOG.
const LOGGED_S: u64 = 60;

/// The outcome of a compaction round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// There was nothing to do, or compactions are stopped.
    Idle,
    /// Another compaction may be due.
    GoesOn,
    /// Disk space or file descriptors ran out. The compaction is retried later.
    Short,
}

impl CompactionScheduler {
    /// Runs one compaction in a background job, if one is due.
    pub(crate) fn run_one(self: &Arc<Self>) {
        if let Some(running) = self.context.background.begin_own_compaction() {
            self.compaction_round(running);
        }
    }

    /// Runs due compactions: in background jobs, or in the calling thread if there are none.
    pub(crate) fn compact_soon(self: &Arc<Self>) {
        if !self.context.options.is_inline() {
            self.context.background.compact_soon();
            return;
        }
        while let Ok(running) = self.context.background.begin_compaction() {
            if self.compaction_round(running) != Ended::GoesOn {
                break;
            }
        }
        self.context.clean_soon(self.versions.obsolete());
    }

    /// Requests a compaction if one may have become due although no table was added: a table has
    /// reached an age at which it is due, or the release of a snapshot has changed which obsolete
    /// records of the last level can be dropped. Also requests one if no job has looked for a
    /// compaction for `max_compaction_trigger_wakeup_seconds`.
    pub(crate) fn wake_if_due(&self) {
        let oldest = self.context.shared.snapshots.oldest_at_release();
        let is_released = self.oldest_snapshot.swap(oldest, Ordering::Relaxed) != oldest;
        let is_due = self.context.now_s() >= self.next_due_s.load(Ordering::Relaxed);
        if is_released || is_due || self.is_check_due() {
            self.context.background.compact_soon();
        }
    }

    /// Whether no thread has looked for a compaction for `max_compaction_trigger_wakeup_seconds`.
    fn is_check_due(&self) -> bool {
        let longest_s = self.context.options.now().max_compaction_trigger_wakeup_seconds;
        let now_ns = self.context.clock.monotonic_ns();
        let since_ns = now_ns.saturating_sub(self.last_check_ns.load(Ordering::Relaxed));
        let is_due = since_ns >= longest_s.saturating_mul(1_000_000_000);
        if is_due {
            self.last_check_ns.store(now_ns, Ordering::Relaxed);
            if longest_s >= LOGGED_S {
                self.context.info_log.info(format_args!(
                    "looking for due compactions, {longest_s} seconds after the last time"
                ));
            }
        }
        is_due
    }

    /// Resumes compactions in the column families in which they stopped because of damaged tables.
    /// These tables may have been restored.
    pub(crate) fn resume(self: &Arc<Self>) {
        if self.context.errors.allow_compactions() {
            self.compact_soon();
        }
    }

    /// Runs one compaction, if one is due. One into the last level runs in the threads that the
    /// environment has for these, if there are any.
    fn compaction_round(self: &Arc<Self>, running: Running) -> Ended {
        if self.context.errors.failure().is_some() {
            return Ended::Idle;
        }
        let attempt = self.context.background.compaction_retries().begin();
        let claim = || self.claim_next();
        let claimed = self.context.round(FailedPart::Compaction, "picking a compaction", claim);
        let Ok(Some(claim)) = claimed else { return Ended::Idle };
        // Another compaction may be due.
        self.context.background.compact_soon();
        let into_last_level = is_into_last_level(&claim);
        let scheduler = Arc::clone(self);
        let compact = move || scheduler.compact_claimed(claim, attempt, running);
        let here = match into_last_level {
            true => self.context.background.run_at_bottom(compact),
            false => Some(compact),
        };
        here.map_or(Ended::GoesOn, |compact| compact())
    }

    /// Runs a claimed compaction. `_running` counts it until then.
    fn compact_claimed(&self, claim: Claim, attempt: Attempt, _running: Running) -> Ended {
        let round = || {
            let compacted = self.compact(&claim);
            let family = claim.family.clone();
            drop(claim);
            match compacted {
                Ok(()) => Ended::GoesOn,
                Err(error) => self.compaction_failed(&family, attempt, error),
            }
        };
        let ended = self.context.round(FailedPart::Compaction, "a compaction", round);
        // Even after a shortage, other column families may be compacted.
        self.context.background.compact_soon();
        ended.unwrap_or(Ended::Idle)
    }

    /// Runs a compaction and installs its result.
    pub(super) fn compact(&self, claim: &Claim) -> Result<()> {
        let _own = WorkingThread::begin(self.context.shared.opening);
        match claim.compaction.kind {
            CompactionKind::Move => self.move_tables(claim)?,
            CompactionKind::Merge => self.merge_tables(claim)?,
            CompactionKind::Drop => {
                self.install_compaction(claim, Vec::new(), 0, Vec::new(), Vec::new())?;
            }
        }
        if self.context.background.compaction_retries().succeeded(claim.family.id()) {
            let name = claim.family.name();
            self.context.info_log.info(format_args!("compactions of '{name}' succeed again"));
        }
        Ok(())
    }

    fn move_tables(&self, claim: &Claim) -> Result<()> {
        let outputs = moved(&claim.compaction);
        let bytes = outputs.iter().map(|output| output.size).sum();
        self.install_compaction(claim, outputs, 0, Vec::new(), Vec::new())?;
        claim.family.statistics().levels.record_move(claim.compaction.output_level, bytes);
        Ok(())
    }

    fn merge_tables(&self, claim: &Claim) -> Result<()> {
        let input_bytes = claim.compaction.files().map(|file| file.size()).sum();
        let _space = self.context.files.reserve(input_bytes)?;
        let begun_ns = self.context.clock.monotonic_ns();
        self.context.generations.pass(begun_ns);
        let mut tries_left = TRIES;
        let outcome = loop {
            tries_left -= 1;
            let what = format!("a compaction of '{}'", claim.family.name());
            match panics::catch(what, || self.run_job(claim)) {
                Err(error)
                    if error.kind() == ErrorKind::Io
                        && !error.is_out_of_descriptors()
                        && tries_left > 0 =>
                {
                    self.context
                        .info_log
                        .warn(format_args!("retrying a compaction after an error: {error}"));
                }
                Err(error) if error.kind() == ErrorKind::SpaceLimit => {
                    self.context.shared.activity.background_errors.add(1);
                    self.context.latch(FailedPart::Compaction, &error);
                    return Err(error);
                }
                ended => break ended?,
            }
        };
        let Outcome {
            outputs,
            table_handovers,
            blob_garbage,
            settled_through,
            violations,
            statistics,
        } = outcome;
        self.install_compaction(claim, outputs, settled_through, blob_garbage, table_handovers)?;
        self.context.report_violations(&claim.family, "a compaction", &violations);
        let micros = self.context.clock.since_ns(begun_ns) / 1000;
        self.count_compaction(claim, &statistics, micros);
        Ok(())
    }

    fn count_compaction(&self, claim: &Claim, done: &Statistics, micros: u64) {
        let output_level = claim.compaction.output_level;
        let (within, above): (Vec<_>, Vec<_>) =
            done.read.iter().partition(|read| read.level == output_level);
        let bytes = |of: &[&LevelFiles]| of.iter().map(|files| files.bytes).sum();
        let figures = LevelFigures {
            micros,
            count: 1,
            bytes_read_above: bytes(&above),
            bytes_read_in_level: bytes(&within),
            bytes_written: done.written.bytes,
            files_read: done.read.iter().map(|files| files.files).sum(),
            files_written: done.written.files,
            records_read: done.records_in,
            records_dropped: done.records_in.saturating_sub(done.records_out),
            ..LevelFigures::default()
        };
        let statistics = self.context.shared.statistics.as_deref();
        claim.family.statistics().levels.record_compaction(output_level, &figures, statistics);
    }

    fn run_job(&self, claim: &Claim) -> Result<Outcome> {
        let Claim { family, settings, .. } = claim;
        let options = &*settings.options;
        let output_level = claim.compaction.output_level;
        let path_id = picker::output_path(options, output_level);
        let directory = settings.readers.tables.directory(path_id).to_owned();
        let is_bottommost = claim.compaction.is_bottommost;
        let low_priority = self
            .may_be_low_priority(claim)
            .then(|| Arc::new(LowPriority::new(self.context.stall.pressure())));
        let environment = Environment {
            opening: self.context.shared.opening,
            storage: Arc::clone(&self.context.storage),
            files: Arc::clone(&self.context.files),
            io_modes: Arc::clone(&self.context.shared.io_modes),
            options: options.clone(),
            database: DbOptions::clone(&self.context.options.now()),
            snapshots: self.context.shared.snapshots.sequences(),
            filter: self.context.options.open().compaction_filter(family.name()),
            clock: Arc::clone(&self.context.clock),
            pressure: Arc::clone(self.context.stall.pressure()),
            cancelled: self.cancelled(claim),
            low_priority,
        };
        let open_budget = Arc::clone(&self.context.open_files.compactions);
        let reading = InputSettings {
            readers: Arc::new(settings.readers.for_compaction(&open_budget)),
            open_budget,
            workers: self.input_readers.upgrade(),
        };
        let base_level = LevelTargets::new(&claim.version, options).base_level;
        let writing = OutputSettings {
            directory,
            path_id,
            numbers: self.context.numbers.clone(),
            format: Arc::clone(&settings.table_format),
            compression: TableCompression::for_level(
                options,
                output_level,
                base_level,
                is_bottommost,
            ),
            origin: self.context.origin(family),
            rate_limiter: self.context.rate_limiter(),
            buffers: table_buffers(
                &self.context.options.now(),
                claim.compaction.max_subcompactions,
            ),
            workers: self.writers(),
        };
        let (compaction, version) =
            (Compaction::clone(&claim.compaction), Arc::clone(&claim.version));
        Job { compaction, version, environment, reading, writing }.run()
    }

    /// Returns the flags of which each cancels a compaction.
    fn cancelled(&self, claim: &Claim) -> Vec<Arc<AtomicBool>> {
        let background = &self.context.background;
        let mut flags = vec![Arc::clone(background.cancelling())];
        if claim.compaction.reason == Reason::ManualCompaction {
            flags.push(Arc::clone(background.manual().disabled()));
        }
        flags
    }

    /// Whether a compaction may run at low priority: not if a caller waits for the compaction, nor
    /// if a rate limiter is set, since flushes share it and could wait there for the low-priority
    /// thread.
    fn may_be_low_priority(&self, claim: &Claim) -> bool {
        self.context.options.fixed().tailwater.low_priority_compactions
            && self.context.options.rate_limiter().is_none()
            && claim.compaction.reason != Reason::ManualCompaction
            && !self.context.options.is_inline()
    }

    /// Handles a failed compaction according to its error.
    fn compaction_failed(&self, family: &ColumnFamily, attempt: Attempt, error: Error) -> Ended {
        let name = family.name();
        let retries = self.context.background.compaction_retries();
        match error.kind() {
            _ if self.context.background.is_closing()
                || self.context.errors.failure().is_some() =>
            {
                Ended::Idle
            }
            ErrorKind::Cancelled => Ended::GoesOn,
            kind if error.is_shortage() || kind == ErrorKind::CompactionTooLarge => {
                self.context.shared.activity.background_errors.add(1);
                let pause = retries.failed(attempt, [(family.id(), error.clone())]);
                self.context.info_log.warn(format_args!(
                    "a compaction of '{name}' found no {} and will be retried in {pause:?}: \
                     {error}",
                    error.lacking()
                ));
                self.context.stall.wake();
                Ended::Short
            }
            ErrorKind::Corruption | ErrorKind::NotSupported => {
                self.context.info_log.error(format_args!(
                    "compactions of '{name}' are stopped, its tables are unchanged: {error}"
                ));
                self.context.shared.activity.background_errors.add(1);
                self.context.errors.stop_compactions(family.id(), error);
                retries.retain(|id| id != family.id());
                self.context.stall.wake();
                Ended::GoesOn
            }
            _ => {
                self.context.shared.activity.background_errors.add(1);
                self.context.latch(FailedPart::Compaction, &error);
                Ended::Idle
            }
        }
    }
}

/// Whether a compaction merges tables into the last level. It contributes little to stalls, so it
/// can wait longer than others.
fn is_into_last_level(claim: &Claim) -> bool {
    let Compaction { kind, output_level, .. } = &*claim.compaction;
    *kind == CompactionKind::Merge
        && *output_level > 0
        && output_level + 1 == claim.version.levels().len()
}
