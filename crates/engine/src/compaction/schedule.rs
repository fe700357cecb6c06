//! Which compaction runs when, and what follows.
//!
//! Inputs are claimed under the lock of the versions, under the same lock under which they were
//! picked, so that no two compactions take one table or write to one place. A claim ends when its
//! compaction is installed or given up; until then the lock may come and go. No call to storage is
//! made under it: outputs are opened before the turn to install them, and the MANIFEST is written
//! in that turn ([`crate::version::Versions`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tailwater_format::version_edit::{
    BlobFileGarbage, CompactCursor, DeletedFile, NewFile, VersionEdit,
};

use super::job::{Job, LevelFiles, Needs, Outcome, Statistics};
use super::picker::{self, CompactCursors, LevelTargets, PickContext};
use super::{Compaction, LowPriority, Reason};
use crate::background::{Backoff, Running, WorkingThread};
use crate::db::errors::FailedPart;
use crate::db::{ColumnFamily, FamilySettings, Writer};
use crate::handover::{self, TableHandover};
use crate::options::DbOptions;
use crate::panics;
use crate::stats::LevelFigures;
use crate::table::builder::TableCompression;
use crate::table::table_buffers;
use crate::version::{FileMetadata, Version, VersionSet};
use crate::{Error, ErrorKind, Result};

/// How often a compaction whose outputs could not be written is tried, on new files each time.
const TRIES: usize = 2;

/// What the compactions of a column family have in common. It stands beside its version, under the
/// same lock.
#[derive(Debug, Default)]
pub(crate) struct CompactionState {
    /// Those that are under way.
    running: Vec<Arc<Compaction>>,
    /// Where round robin goes on.
    cursors: CompactCursors,
    /// Why nothing is compacted any more, if that is so.
    stopped: Option<Error>,
}

/// How a round of compacting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// There was nothing to do, or nothing is to be done.
    Idle,
    /// There may be more to do.
    GoesOn,
    /// There was no space, or no descriptor left. It is to be tried again later.
    Short,
}

/// A compaction that was picked, and what round robin makes of it.
pub(super) struct Picked {
    compaction: Compaction,
    cursor: Option<CompactCursor>,
}

/// A compaction whose inputs no other takes. Dropping it gives them back.
pub(super) struct Claim<'w> {
    writer: &'w Writer,
    pub(super) family: ColumnFamily,
    pub(super) compaction: Arc<Compaction>,
    /// What it was picked from.
    version: Arc<Version>,
    /// What the column family went by then.
    settings: Arc<FamilySettings>,
    /// Where round robin goes on when it is done.
    cursor: Option<CompactCursor>,
}

impl CompactionState {
    /// Compactions that go on where the MANIFEST says.
    pub(crate) fn new(cursors: CompactCursors) -> Self {
        Self { cursors, ..Self::default() }
    }

    /// Those that are under way.
    pub(crate) fn running(&self) -> &[Arc<Compaction>] {
        &self.running
    }

    /// Where round robin goes on.
    pub(crate) fn cursors(&self) -> &CompactCursors {
        &self.cursors
    }

    /// Lets compactions begin again after an error.
    pub(crate) fn resume(&mut self) {
        self.stopped = None;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut versions = self.writer.versions();
        self.compaction.mark_inputs(false);
        if let Some(state) = versions.compactions(self.family.id()) {
            state.running.retain(|running| !Arc::ptr_eq(running, &self.compaction));
        }
    }
}

impl Writer {
    /// What compacting thread `number`, counted from 0, does until the database is closed.
    pub(crate) fn run_compactions(&self, number: usize) {
        let period =
            || Duration::from_secs(self.database.now().max_compaction_trigger_wakeup_seconds);
        let interval_us = self.database.fixed().bgerror_resume_retry_interval;
        let mut backoff = Backoff::new(interval_us);
        while let Some(running) = self.background.next_compaction(number, period()) {
            let asked = self.background.asked();
            let ended = self.compaction_round(&running);
            drop(running);
            match ended {
                Ended::Short => {
                    self.background.rest_compactions(backoff.next_pause(), asked);
                    if self.background.asked().was_resumed_since(asked) {
                        backoff.restart();
                    }
                }
                Ended::Idle | Ended::GoesOn => backoff.restart(),
            }
        }
    }

    /// Has what is due compacted: by the threads for it, or here and now where there are none.
    pub(crate) fn compact_soon(&self) {
        if !self.options().inline_background() {
            self.background.compact_soon();
            return;
        }
        while let Ok(running) = self.background.begin_compaction() {
            if self.compaction_round(&running) != Ended::GoesOn {
                break;
            }
        }
        self.clean_here();
    }

    /// Compacts once, if anything is due.
    fn compaction_round(&self, _running: &Running<'_>) -> Ended {
        if self.errors.failure().is_some() {
            return Ended::Idle;
        }
        let round = || {
            let Some(claim) = self.claim_next() else { return Ended::Idle };
            // There may be something for another thread, too.
            self.background.compact_soon();
            let compacted = self.compact(&claim);
            let family = claim.family.clone();
            drop(claim);
            let ended = match compacted {
                Ok(()) => Ended::GoesOn,
                Err(error) => self.compaction_failed(&family, error),
            };
            if ended == Ended::GoesOn {
                self.background.compact_soon();
            }
            ended
        };
        self.round(FailedPart::Compaction, "a compaction", round).unwrap_or(Ended::Idle)
    }

    /// Whether something should be compacted of a column family, even if it cannot be yet.
    pub(crate) fn needs_compaction(&self, family: &ColumnFamily) -> bool {
        let versions = self.versions();
        self.with_context(&versions, family, picker::needs_compaction).unwrap_or(false)
    }

    /// Claims the next compaction that is due: the column families take turns.
    fn claim_next(&self) -> Option<Claim<'_>> {
        let families = self.shared.family_set();
        let count = families.iter().count();
        let first = self.next_compacted.fetch_add(1, Ordering::Relaxed);
        let mut versions = self.versions.lock_to_claim();
        for turn in 0..count {
            let Some(family) = families.iter().nth((first + turn) % count.max(1)) else { continue };
            if !family.compacts_by_itself() {
                continue;
            }
            let picked = self.with_context(&versions, family, |context| {
                picker::pick(context).map(|compaction| Picked::new(context, compaction))
            });
            if let Some(picked) = picked.flatten() {
                return self.claim(&mut versions, family, picked);
            }
        }
        None
    }

    /// Claims a compaction that was picked while the versions were locked.
    pub(super) fn claim(
        &self,
        versions: &mut VersionSet,
        family: &ColumnFamily,
        picked: Picked,
    ) -> Option<Claim<'_>> {
        let Picked { compaction, cursor } = picked;
        let version = Arc::clone(&versions.families().get(&family.id())?.version);
        let compaction = Arc::new(compaction);
        compaction.mark_inputs(true);
        let state = versions.compactions(family.id())?;
        state.running.push(Arc::clone(&compaction));
        let settings = family.settings();
        Some(Claim { writer: self, family: family.clone(), compaction, version, settings, cursor })
    }

    /// Calls `call` with what a picker looks at. `None` for a column family that was dropped, and
    /// one that is not compacted any more after an error.
    pub(super) fn with_context<T>(
        &self,
        versions: &VersionSet,
        family: &ColumnFamily,
        call: impl FnOnce(&PickContext<'_>) -> T,
    ) -> Option<T> {
        let known = versions.families().get(&family.id())?;
        if known.compactions.stopped.is_some() {
            return None;
        }
        Some(call(&PickContext {
            version: &known.version,
            options: &family.options(),
            database: &self.database.now(),
            comparator: family.comparator(),
            now_s: self.clock.wall_us() / 1_000_000,
            oldest_snapshot: self.shared.snapshots.oldest_at_release(),
            cursors: &known.compactions.cursors,
            running: &known.compactions.running,
            level_0_fan_in: self.level_0_fan_in(family),
        }))
    }

    /// How many tables of level 0 a compaction takes: all of them are open at once.
    fn level_0_fan_in(&self, family: &ColumnFamily) -> usize {
        let reads_ahead = family.readers().tables.compactions_read_otherwise();
        let options = self.database.now();
        let parts = options.subcompactions_max();
        self.readers.open_budget().fan_in(options.compactions_max() * parts, reads_ahead)
    }

    /// Carries out a compaction and installs what came of it.
    pub(super) fn compact(&self, claim: &Claim<'_>) -> Result<()> {
        let _working = WorkingThread::begin(self.shared.opening);
        if claim.compaction.is_move {
            let outputs = moved(&claim.compaction);
            let bytes = outputs.iter().map(|output| output.size).sum();
            self.install_compaction(claim, outputs, Vec::new(), Vec::new())?;
            let levels = &claim.family.statistics().levels;
            levels.record_move(claim.compaction.output_level, bytes);
            return Ok(());
        }
        let begun_ns = self.clock.monotonic_ns();
        self.readers.generations().pass(begun_ns);
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
                    self.info_log.warn(format_args!("a compaction is tried again: {error}"));
                }
                ended => break ended?,
            }
        };
        let Outcome { outputs, table_handovers, blob_garbage, statistics } = outcome;
        self.install_compaction(claim, outputs, blob_garbage, table_handovers)?;
        let micros = (self.clock.monotonic_ns() - begun_ns) / 1000;
        self.count_compaction(claim, &statistics, micros);
        Ok(())
    }

    fn count_compaction(&self, claim: &Claim<'_>, done: &Statistics, micros: u64) {
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
        let statistics = self.shared.statistics.as_deref();
        claim.family.statistics().levels.record_compaction(output_level, &figures, statistics);
    }

    fn run_job(&self, claim: &Claim<'_>) -> Result<Outcome> {
        let Claim { family, settings, .. } = claim;
        let options = &*settings.options;
        let output_level = claim.compaction.output_level;
        let path_id = picker::output_path(options, output_level);
        let directory = settings.readers.tables.directory(path_id).to_owned();
        let is_bottommost = claim.compaction.is_bottommost;
        let low_priority = self
            .may_be_low_priority(claim)
            .then(|| Arc::new(LowPriority::new(self.stall.pressure())));
        let needs = Needs {
            opening: self.shared.opening,
            storage: Arc::clone(&self.storage),
            directory,
            path_id,
            numbers: self.numbers.clone(),
            readers: Arc::new(settings.readers.for_compaction(self.readers.open_budget())),
            io_modes: Arc::clone(self.readers.io_modes()),
            open_budget: Arc::clone(self.readers.open_budget()),
            options: options.clone(),
            database: DbOptions::clone(&self.database.now()),
            format: Arc::clone(&settings.table_format),
            compression: TableCompression::for_level(
                options,
                output_level,
                LevelTargets::new(&claim.version, options).base_level,
                is_bottommost,
            ),
            origin: self.origin(family),
            snapshots: self.shared.snapshots.sequences(),
            filter: self.options().compaction_filter(family.name()),
            clock: Arc::clone(&self.clock),
            rate_limiter: self.rate_limiter.load_arc(),
            buffers: table_buffers(&self.database.now(), claim.compaction.max_subcompactions),
            workers: self.compaction_writers.clone(),
            input_readers: self.input_readers.clone(),
            cancelled: Arc::clone(self.background.cancelling()),
            low_priority,
        };
        let compaction = Compaction::clone(&claim.compaction);
        Job { compaction, version: Arc::clone(&claim.version), needs }.run()
    }

    /// Whether a compaction may have low weight: not one that somebody waits for, and not where it
    /// shares a rate limiter with flushes, which would wait for it there.
    fn may_be_low_priority(&self, claim: &Claim<'_>) -> bool {
        self.database.fixed().tailwater.low_priority_compactions
            && self.rate_limiter.load_arc().is_none()
            && claim.compaction.reason != Reason::ManualCompaction
            && !self.options().inline_background()
    }

    /// Puts the outputs in the place of the inputs.
    fn install_compaction(
        &self,
        claim: &Claim<'_>,
        outputs: Vec<NewFile>,
        blob_garbage: Vec<BlobFileGarbage>,
        mut table_handovers: Vec<(u64, TableHandover)>,
    ) -> Result<()> {
        let Claim { family, compaction, .. } = claim;
        let edit = edit(claim, outputs.clone(), blob_garbage);
        table_handovers.iter_mut().for_each(|(_, table_handover)| table_handover.copy_into_cache());
        let files = new_tables(compaction, &outputs);
        let opened = self.open_new_tables(family, &handover::by_warmth(&files, &table_handovers));
        if let Err(error) = opened {
            self.remove_outputs(claim, &files);
            return Err(error);
        }
        let install = || self.install_outputs(claim, edit, files, table_handovers);
        let has_staged_blocks = self.halfway("a compaction", install)?;
        if has_staged_blocks {
            compaction.files().for_each(|file| handover::erase_cached_blocks(file));
        }
        if !compaction.is_move {
            self.retire_files(family, compaction.files());
        }
        self.log_compaction(claim, &outputs);
        self.update_stall(&[family]);
        Ok(())
    }

    /// Tells the MANIFEST, and lets readers see the outputs. Returns whether they fill the cache.
    fn install_outputs(
        &self,
        claim: &Claim<'_>,
        edit: VersionEdit,
        outputs: Vec<Arc<FileMetadata>>,
        table_handovers: Vec<(u64, TableHandover)>,
    ) -> Result<bool> {
        let Claim { family, compaction, .. } = claim;
        let installation = self.versions.begin_installation();
        if family.is_dropped() || self.background.is_closing() {
            drop(installation);
            self.remove_outputs(claim, &outputs);
            let message = "the column family or the database is gone";
            return Err(Error::new(ErrorKind::Cancelled, message));
        }
        let written = self.write_edits(installation, vec![edit], &outputs)?;
        let has_staged_blocks = handover::has_staged_blocks(&table_handovers);
        handover::mark_replaced_for_eviction(compaction.files(), &table_handovers);
        if let Some(version) = written.version(family.id()) {
            handover::install(version, table_handovers);
        }
        let mut installed = written.install();
        if let (Some(state), Some(cursor)) = (installed.compactions(family.id()), &claim.cursor) {
            state.cursors.set(cursor);
        }
        match installed.families().get(&family.id()) {
            Some(known) => family.install(Arc::clone(&known.version), &[]),
            None => return Err(Error::internal("a column family lost its version")),
        }
        Ok(has_staged_blocks)
    }

    /// Removes outputs that no version will have. What stays is removed by the next open.
    fn remove_outputs(&self, claim: &Claim<'_>, outputs: &[Arc<FileMetadata>]) {
        if claim.compaction.is_move {
            return;
        }
        let tables = &claim.settings.readers.tables;
        for output in outputs {
            let _ = self.remove_new_table(tables, output);
        }
    }

    /// What a failed compaction leads to, by its error.
    fn compaction_failed(&self, family: &ColumnFamily, error: Error) -> Ended {
        let name = family.name();
        match error.kind() {
            _ if self.background.is_closing() || self.errors.failure().is_some() => Ended::Idle,
            ErrorKind::Cancelled => Ended::GoesOn,
            _ if error.is_shortage() => {
                self.info_log.warn(format_args!(
                    "a compaction of '{name}' found no {} and is retried later: {error}",
                    error.lacking()
                ));
                Ended::Short
            }
            ErrorKind::Corruption | ErrorKind::UserCode | ErrorKind::NotSupported => {
                self.info_log.error(format_args!(
                    "'{name}' is not compacted any more; nothing of it was changed: {error}"
                ));
                self.errors.set_stopped_compaction(Some(error.clone()));
                if let Some(state) = self.versions().compactions(family.id()) {
                    state.stopped = Some(error);
                }
                self.stall.wake();
                Ended::GoesOn
            }
            _ => {
                self.latch(FailedPart::Compaction, &error);
                Ended::Idle
            }
        }
    }

    fn log_compaction(&self, claim: &Claim<'_>, outputs: &[NewFile]) {
        let Claim { family, compaction, .. } = claim;
        let inputs: Vec<String> = compaction
            .inputs
            .iter()
            .map(|input| format!("{} of level {}", input.files.len(), input.level))
            .collect();
        let bytes: u64 = outputs.iter().map(|output| output.size).sum();
        self.info_log.info(format_args!(
            "{} tables of '{}' ({:?}): {} became {} of level {}, {bytes} bytes",
            if compaction.is_move { "moved" } else { "compacted" },
            family.name(),
            compaction.reason,
            inputs.join(" and "),
            outputs.len(),
            compaction.output_level,
        ));
    }
}

impl Picked {
    /// A compaction that was picked with this context.
    pub(super) fn new(context: &PickContext<'_>, compaction: Compaction) -> Self {
        let cursor = picker::next_cursor(context, &compaction);
        Self { compaction, cursor }
    }
}

/// Returns the MANIFEST edit of a compaction.
fn edit(
    claim: &Claim<'_>,
    outputs: Vec<NewFile>,
    blob_file_garbage: Vec<BlobFileGarbage>,
) -> VersionEdit {
    let deleted = claim.compaction.inputs.iter().flat_map(|input| {
        let level = input.level as u32;
        input.files.iter().map(move |file| DeletedFile { level, number: file.number() })
    });
    VersionEdit {
        column_family: claim.family.id(),
        deleted_files: deleted.collect(),
        new_files: outputs,
        blob_file_garbage,
        compact_cursors: claim.cursor.clone().into_iter().collect(),
        ..VersionEdit::default()
    }
}

/// The outputs of a compaction as versions are to have them. Those of a move are its inputs, in the
/// order of [`moved`].
fn new_tables(compaction: &Compaction, outputs: &[NewFile]) -> Vec<Arc<FileMetadata>> {
    if !compaction.is_move {
        return outputs.iter().map(|output| Arc::new(FileMetadata::new(output.clone()))).collect();
    }
    let moved = compaction.files().zip(outputs);
    moved.map(|(from, output)| Arc::new(FileMetadata::moved(from, output.clone()))).collect()
}

/// The tables of a move, in the output level.
fn moved(compaction: &Compaction) -> Vec<NewFile> {
    let level = compaction.output_level as u32;
    compaction.files().map(|file| NewFile { level, ..file.added().clone() }).collect()
}
