//! Execution of a compaction, from input tables to synced output tables.
//!
//! # Order
//! 1. The inputs' properties and range tombstones are read.
//! 2. The key space is divided into parts, which run concurrently.
//! 3. Each part merges its range of the inputs into tables, and syncs them.
//! 4. The number of records read is compared with the inputs' properties.
//! 5. The directory is synced; if an option requests it, the tables are read back.
//!
//! The caller then writes the MANIFEST and removes the inputs.
//!
//! # Failure
//! The tables written so far are removed. The inputs are unchanged.
//!
//! # A crash
//! No MANIFEST names the output tables yet, so the next open removes them.

use std::sync::Arc;

use tailwater_format::key::{MAX_SEQUENCE, Sequence};
use tailwater_format::version_edit::{BlobFileGarbage, NewFile};
use tailwater_io::sync::Mutex;

use crate::compaction::job_state::{Environment, InputSettings, JobState, OutputSettings};
use crate::compaction::merge::{Dropped, Inputs, Snapshots};
use crate::compaction::output::{self, WrittenTable};
use crate::compaction::subcompaction::{self, PartOutcome};
use crate::contracts::Violations;
use crate::error::{Error, Result};
use crate::handover::TableHandover;
use crate::options::ColumnFamilyOptions;
use crate::panics;
use crate::sequence_times::{Limits, SAMPLES_MAX, SequenceTimes};
use crate::version::{Compaction, Version};

/// A compaction to be executed.
pub(crate) struct Job {
    pub(crate) compaction: Compaction,
    /// The version from which the compaction was picked.
    pub(crate) version: Arc<Version>,
    pub(crate) environment: Environment,
    pub(crate) reading: InputSettings,
    pub(crate) writing: OutputSettings,
}

/// The result of a compaction.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The new tables, in the order of their keys.
    pub(crate) outputs: Vec<NewFile>,
    /// Which blocks of the outputs are kept in the caches because users read their data in the
    /// inputs (warm handover).
    pub(crate) table_handovers: Vec<TableHandover>,
    /// For each blob file, the blobs to which the outputs no longer refer although the inputs did.
    pub(crate) blob_garbage: Vec<BlobFileGarbage>,
    /// The highest sequence number of records that another compaction to the same level would write
    /// again as they are, since all snapshots see them and no deeper level has any of the keys. 0
    /// if there are no such records.
    pub(crate) settled_through: Sequence,
    pub(crate) violations: Violations,
    pub(crate) statistics: Statistics,
}

/// What a compaction read, wrote and dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    /// Number and size of the input tables of each level.
    pub(crate) read: Vec<LevelFiles>,
    /// Number and size of the outputs.
    pub(crate) written: LevelFiles,
    /// Number of records that were read, not counting range tombstones. The next field is the
    /// number of records that were written, counting range tombstones.
    pub(crate) records_in: u64,
    pub(crate) records_out: u64,
    pub(crate) dropped: Dropped,
    /// Number of subcompactions, which ran concurrently.
    pub(crate) parts: usize,
}

/// Number and size of tables of a level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LevelFiles {
    pub(crate) level: usize,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl Job {
    /// Executes the compaction. When this returns, nothing refers to the outputs yet.
    ///
    /// # Errors
    /// Cancelled; corruption, for inputs that are damaged or whose number of records contradicts
    /// their properties, and for outputs that differ when read back; panicked; storage errors.
    /// After an error, no output file remains.
    pub(crate) fn run(self) -> Result<Outcome> {
        let Self { compaction, version, mut environment, reading, writing } = self;
        let inputs = Inputs::survey(&compaction, &reading.readers.tables, &reading.open_budget)?;
        let snapshots = Arc::new(Snapshots::new(std::mem::take(&mut environment.snapshots)));
        let now_s = environment.clock.wall_us() / 1_000_000;
        let (times, preserve_after) = preserved_times(&inputs, &environment.options, now_s);
        let shared = Arc::new(JobState {
            compaction,
            version,
            environment,
            reading,
            writing,
            inputs,
            snapshots,
            times,
            preserve_after,
            now_s,
            created: Mutex::default(),
            has_failed: Arc::default(),
        });
        // A panic becomes an error, so that the outputs are removed after a panic as after any
        // other error.
        let outcome = panics::catch("a compaction", || {
            subcompaction::run_all(&shared).and_then(|parts| shared.complete(parts))
        });
        if outcome.is_err() {
            shared.remove_outputs();
        }
        outcome
    }
}

impl JobState {
    /// Performs steps 4 and 5 of the module's description: checks the number of records, syncs the
    /// directory, and reads the tables back if an option requests it.
    fn complete(&self, parts: Vec<PartOutcome>) -> Result<Outcome> {
        self.check_record_count(&parts)?;
        let mut written: Vec<WrittenTable> = Vec::new();
        let mut statistics = self.statistics_of_inputs();
        statistics.parts = parts.len();
        let mut blob_garbage: Vec<BlobFileGarbage> = Vec::new();
        let mut violations = Violations::default();
        for part in parts {
            violations.add(part.violations);
            statistics.records_in += part.records_in;
            statistics.dropped += part.dropped;
            written.extend(part.written);
            part.blob_garbage.into_iter().for_each(|garbage| add(&mut blob_garbage, garbage));
        }
        if !written.is_empty() {
            self.environment.storage.sync_directory(&self.writing.directory)?;
        }
        output::verify(self, &written)?;
        statistics.written = LevelFiles {
            level: self.compaction.output_level,
            files: written.len() as u64,
            bytes: written.iter().map(|table| table.file.size).sum(),
        };
        statistics.records_out = written.iter().map(|table| table.records).sum();
        let (mut outputs, mut table_handovers) = (Vec::new(), Vec::new());
        for WrittenTable { file, table_handover, .. } in written {
            table_handovers.extend(table_handover);
            outputs.push(file);
        }
        let settled_through = match self.compaction.is_bottommost {
            true => self.snapshots.earliest().min(self.preserve_after),
            false => 0,
        };
        Ok(Outcome {
            outputs,
            table_handovers,
            blob_garbage,
            settled_through,
            violations,
            statistics,
        })
    }

    /// Checks that the parts together read as many records as the inputs' properties state.
    fn check_record_count(&self, parts: &[PartOutcome]) -> Result<()> {
        let is_exact = parts.iter().all(|part| part.is_exact);
        let read: u64 = parts.iter().map(|part| part.records_in).sum();
        let Some(expected) = self.inputs.records().filter(|_| is_exact) else { return Ok(()) };
        if read == expected || !self.environment.database.compaction_verify_record_count {
            return Ok(());
        }
        let tables = self.inputs.tables().iter();
        let numbers: Vec<String> = tables.map(|table| table.file.number().to_string()).collect();
        let message = format!(
            "tables {} have {expected} records according to their properties, but {read} were read",
            numbers.join(", ")
        );
        Err(Error::corruption(&self.writing.directory, message))
    }

    fn statistics_of_inputs(&self) -> Statistics {
        let read = self.compaction.inputs.iter().map(|input| LevelFiles {
            level: input.level,
            files: input.files.len() as u64,
            bytes: input.files.iter().map(|file| file.size()).sum(),
        });
        Statistics { read: read.collect(), ..Statistics::default() }
    }
}

/// Returns the write times of the inputs' sequence numbers, and the last sequence number whose
/// write time need not be preserved. If the options preserve no times, returns `None` and the
/// maximum sequence number.
fn preserved_times(
    inputs: &Inputs,
    options: &ColumnFamilyOptions,
    now_s: u64,
) -> (Option<Arc<SequenceTimes>>, Sequence) {
    let window_s = options.preserved_seconds();
    if window_s == 0 {
        return (None, MAX_SEQUENCE);
    }
    let mut times = inputs.sequence_times(window_s, now_s);
    let preserve_after = times.sequence_at(now_s.saturating_sub(window_s)).unwrap_or(0);
    times.set_limits(Limits { capacity: SAMPLES_MAX, window_s });
    (Some(Arc::new(times)), preserve_after)
}

/// Adds garbage of a blob file to the total of that file in `all`.
fn add(all: &mut Vec<BlobFileGarbage>, garbage: BlobFileGarbage) {
    match all.iter_mut().find(|known| known.number == garbage.number) {
        Some(known) => {
            known.blob_count += garbage.blob_count;
            known.blob_bytes += garbage.blob_bytes;
        }
        None => all.push(garbage),
    }
}
