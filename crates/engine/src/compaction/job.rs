//! Carrying out a compaction: from input tables to output tables on the device.
//!
//! # Order
//! 1. The inputs are looked at: their properties and range tombstones.
//! 2. The key space is cut into parts, which run at once.
//! 3. Each part merges what the inputs have there into tables, and syncs these.
//! 4. What was read is held against what the inputs' properties say.
//! 5. The directory is synced; where that is asked for, the tables are read back.
//!
//! Whoever runs the job then tells the MANIFEST, and removes the inputs.
//!
//! # Failure
//! The tables that were written are removed, and the inputs stay as they are.
//!
//! # A crash
//! No MANIFEST names the tables yet, and the next open removes them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tailwater_format::file_name::FileKind;
use tailwater_format::key::{MAX_SEQUENCE, Sequence};
use tailwater_format::version_edit::{BlobFileGarbage, NewFile};
use tailwater_format::{Comparator, key};
use tailwater_io::buffer::{ALIGNMENT, BufferPool, MAX_ALIGNMENT};
use tailwater_io::pace::RateLimiter;
use tailwater_io::stream::Workers;
use tailwater_io::sync::Mutex;
use tailwater_io::{Clock, IoMode, Storage};

use crate::compaction::merge::{DeeperLevels, Dropped, InputTable, Inputs, Snapshots};
use crate::compaction::output::{self, WrittenTable};
use crate::compaction::subcompaction::{self, PartOutcome};
use crate::compaction::urgency::Quiet;
use crate::compaction::{Compaction, CompactionFilter};
use crate::db::{FamilyReaders, OpeningId};
use crate::handover::Takeover;
use crate::io_modes::IoModes;
use crate::options::{ColumnFamilyOptions, CompactionStyle, DbOptions};
use crate::panics;
use crate::sequence_times::{Limits, SAMPLES_MAX, SequenceTimes};
use crate::table::builder::{Format, Origin, TableCompression};
use crate::table::{NewFiles, OpenBudget, ReadPlan, Streaming};
use crate::version::{FileNumbers, Version};
use crate::{Error, Result};

/// How much memory a part of a compaction may take to read its inputs ahead, in bytes, if that is
/// two requests for each.
const INPUT_BUFFERS: usize = 64 << 20;

/// A compaction that is to be carried out.
pub(crate) struct Job {
    pub(crate) compaction: Compaction,
    /// What the compaction was picked from.
    pub(crate) version: Arc<Version>,
    pub(crate) needs: Needs,
}

/// What a job needs of its database and column family.
pub(crate) struct Needs {
    /// The opening of the database that it works for.
    pub(crate) opening: OpeningId,
    pub(crate) storage: Arc<dyn Storage>,
    /// Where outputs go.
    pub(crate) directory: PathBuf,
    /// The place of that directory among those of the column family's tables.
    pub(crate) path_id: u8,
    pub(crate) numbers: FileNumbers,
    /// What reads of the column family go through.
    pub(crate) readers: Arc<FamilyReaders>,
    pub(crate) io_modes: Arc<IoModes>,
    /// What files that it opens for itself count against.
    pub(crate) open_budget: Arc<OpenBudget>,
    pub(crate) options: ColumnFamilyOptions,
    pub(crate) database: DbOptions,
    /// How outputs are written.
    pub(crate) format: Arc<Format>,
    pub(crate) compression: TableCompression,
    /// Where outputs come from; their numbers and times are the job's to say.
    pub(crate) origin: Origin,
    /// What snapshots show, in any order. One that is taken later shows all that the inputs have.
    pub(crate) snapshots: Vec<Sequence>,
    pub(crate) filter: Option<Arc<dyn CompactionFilter>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rate_limiter: Option<Arc<RateLimiter>>,
    /// The buffers of files that are being written.
    pub(crate) buffers: BufferPool,
    /// Write full buffers behind the back of who fills them.
    pub(crate) workers: Option<Arc<Workers>>,
    /// Read inputs ahead, where the system does not.
    pub(crate) input_readers: Option<Arc<Workers>>,
    /// Set when the job is to be given up.
    pub(crate) cancelled: Arc<AtomicBool>,
    /// Where the job may have low weight: whether it is to have normal weight all the same.
    pub(crate) quiet: Option<Arc<Quiet>>,
}

impl Needs {
    /// Whether the job has low weight, at this moment.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.as_ref().is_some_and(|quiet| !quiet.is_over())
    }
}

/// What came of a compaction.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The new tables, in the order of their keys.
    pub(crate) outputs: Vec<NewFile>,
    /// What they take over of what users read, by their numbers.
    pub(crate) takeovers: Vec<(u64, Takeover)>,
    /// What of blob files nothing refers to any more.
    pub(crate) blob_garbage: Vec<BlobFileGarbage>,
    pub(crate) statistics: Statistics,
}

/// What a compaction read and wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    /// How many tables of each level it took, and how many bytes these have.
    pub(crate) read: Vec<LevelFiles>,
    /// The same of its outputs.
    pub(crate) written: LevelFiles,
    /// How many records it read, range tombstones not counted, and wrote, with range tombstones.
    pub(crate) records_in: u64,
    pub(crate) records_out: u64,
    pub(crate) dropped: Dropped,
    /// How many parts ran at once.
    pub(crate) parts: usize,
}

/// So many tables of a level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LevelFiles {
    pub(crate) level: usize,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// The part of a compaction between two user keys, of which the second is not included; without one
/// it goes on to the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) begin: Option<Vec<u8>>,
    pub(crate) end: Option<Vec<u8>>,
}

/// What the parts of a job have in common.
pub(crate) struct Shared {
    pub(crate) compaction: Compaction,
    version: Arc<Version>,
    pub(crate) needs: Needs,
    pub(crate) inputs: Inputs,
    pub(crate) snapshots: Arc<Snapshots>,
    /// When sequence numbers of the inputs were written, where that is preserved.
    pub(crate) times: Option<Arc<SequenceTimes>>,
    /// Sequence numbers above this tell when their records were written, and are kept.
    pub(crate) timeless_through: Sequence,
    /// When the job began, in seconds since 1970.
    pub(crate) now_s: u64,
    /// The files that were created, for a failure to remove.
    created: Mutex<Vec<PathBuf>>,
    /// Set when a part has failed, so that the others need not go on.
    pub(crate) has_failed: Arc<AtomicBool>,
}

impl Job {
    /// Carries it out. Nothing refers to the outputs yet when it answers.
    ///
    /// # Errors
    /// Cancelled, where it was; corruption, for inputs that are damaged or hold other numbers of
    /// records than they say, and for outputs that read back otherwise; user code, for a merge
    /// operator that failed; panicked; those of the storage. None leaves a file.
    pub(crate) fn run(self) -> Result<Outcome> {
        let Self { compaction, version, mut needs } = self;
        let inputs = Inputs::survey(&compaction, &needs.readers.tables, &needs.open_budget)?;
        let snapshots = Arc::new(Snapshots::new(std::mem::take(&mut needs.snapshots)));
        let now_s = needs.clock.wall_us() / 1_000_000;
        let (times, timeless_through) = preserved_times(&inputs, &needs.options, now_s);
        let shared = Arc::new(Shared {
            compaction,
            version,
            needs,
            inputs,
            snapshots,
            times,
            timeless_through,
            now_s,
            created: Mutex::default(),
            has_failed: Arc::default(),
        });
        // A panic fails it, too, and leaves no file.
        let outcome = panics::catch("a compaction", || {
            subcompaction::run_all(&shared).and_then(|parts| shared.complete(parts))
        });
        if outcome.is_err() {
            shared.remove_outputs();
        }
        outcome
    }
}

impl Shared {
    pub(crate) fn comparator(&self) -> &Comparator {
        self.needs.format.comparator()
    }

    pub(crate) fn new_files(&self) -> NewFiles<'_> {
        NewFiles {
            storage: &*self.needs.storage,
            database: &self.needs.database,
            io_modes: &self.needs.io_modes,
            buffers: &self.needs.buffers,
            workers: self.needs.workers.as_ref(),
            rate_limiter: self.needs.rate_limiter.as_ref(),
        }
    }

    /// How a part that ends before a user key reads the inputs. Past the page cache nobody but we
    /// read ahead, and nobody bounds how much one request may be.
    pub(crate) fn read_plan(&self, end: Option<&[u8]>) -> ReadPlan {
        let read_ahead = self.needs.database.compaction_readahead_size;
        let read_ahead = read_ahead.min(INPUT_BUFFERS as u64) as usize;
        let tables = &self.needs.readers.tables;
        if tables.mode_of_inputs() != IoMode::Direct || read_ahead == 0 {
            let clamped = tables.request_bytes_max().map_or(read_ahead, |max| read_ahead.min(max));
            return ReadPlan::of_bytes(clamped);
        }
        let request_bytes = self.needs.database.direct_request_size();
        let request_bytes = request_bytes.min(read_ahead).max(1).next_multiple_of(ALIGNMENT);
        // However large their disk asks the requests to be.
        let buffer_bytes = request_bytes.next_multiple_of(MAX_ALIGNMENT);
        let streams = self.inputs.streams().max(1);
        let affordable = (INPUT_BUFFERS / streams / buffer_bytes).saturating_sub(1);
        let depth = read_ahead.div_ceil(request_bytes).min(affordable).max(1);
        ReadPlan::Streamed(Arc::new(Streaming {
            request_bytes,
            depth,
            // All that all of them can want, so that none comes too late.
            buffers: BufferPool::new(streams * (depth + 1) * buffer_bytes),
            workers: self.needs.input_readers.clone(),
            foreground: Arc::clone(self.needs.storage.statistics().foreground()),
            until: end.map(<[u8]>::to_vec),
        }))
    }

    /// The number and path of a new output.
    pub(crate) fn take_output(&self) -> (u64, PathBuf) {
        let number = self.needs.numbers.take();
        let path = self.needs.directory.join(FileKind::Table(number).to_string());
        self.created.lock().push(path.clone());
        (number, path)
    }

    /// The levels below the output's, before the first key.
    pub(crate) fn deeper_levels(&self) -> DeeperLevels {
        let Compaction { output_level, is_bottommost, .. } = self.compaction;
        let is_leveled = self.needs.options.compaction_style == CompactionStyle::Level;
        let comparator = self.comparator().clone();
        DeeperLevels::new(&self.version, comparator, output_level, is_bottommost, is_leveled)
    }

    /// The epoch of the outputs: the oldest of the inputs'.
    pub(crate) fn epoch_number(&self) -> u64 {
        let epochs = self.inputs.tables().iter().map(|table| table.file.added().epoch_number);
        // Files of old versions have none.
        epochs.filter(|&epoch| epoch > 0).min().unwrap_or(1)
    }

    /// When the oldest data was written of the inputs that overlap the space between two internal
    /// keys, in seconds since 1970; `None` where no input says.
    pub(crate) fn oldest_ancestor_time_s(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Option<u64> {
        let times = self.overlapping(begin, end).map(|table| table.oldest_ancestor_time_s);
        times.filter(|&time| time > 0).min()
    }

    /// When their newest key was written, in the same way; 0 where no input says.
    pub(crate) fn newest_key_time_s(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> u64 {
        let times = self.overlapping(begin, end).map(|table| table.newest_key_time_s);
        times.max().unwrap_or(0)
    }

    fn overlapping<'a>(
        &'a self,
        begin: Option<&'a [u8]>,
        end: Option<&'a [u8]>,
    ) -> impl Iterator<Item = &'a InputTable> {
        let compare = |a: &[u8], b: &[u8]| key::compare_internal(self.comparator(), a, b);
        self.inputs.tables().iter().filter(move |table| {
            begin.is_none_or(|begin| compare(table.file.largest(), begin).is_ge())
                && end.is_none_or(|end| compare(table.file.smallest(), end).is_le())
        })
    }

    /// Steps 4 and 5.
    fn complete(&self, parts: Vec<PartOutcome>) -> Result<Outcome> {
        self.check_record_count(&parts)?;
        let mut written: Vec<WrittenTable> = Vec::new();
        let mut statistics = self.statistics_of_inputs();
        statistics.parts = parts.len();
        let mut blob_garbage: Vec<BlobFileGarbage> = Vec::new();
        for part in parts {
            statistics.records_in += part.records_in;
            statistics.dropped += part.dropped;
            written.extend(part.written);
            part.blob_garbage.into_iter().for_each(|garbage| add(&mut blob_garbage, garbage));
        }
        if !written.is_empty() {
            self.needs.storage.sync_directory(&self.needs.directory)?;
        }
        output::verify(self, &written)?;
        statistics.written = LevelFiles {
            level: self.compaction.output_level,
            files: written.len() as u64,
            bytes: written.iter().map(|table| table.file.size).sum(),
        };
        statistics.records_out = written.iter().map(|table| table.records).sum();
        let (mut outputs, mut takeovers) = (Vec::new(), Vec::new());
        for WrittenTable { file, takeover, .. } in written {
            takeovers.extend(takeover.map(|takeover| (file.number, takeover)));
            outputs.push(file);
        }
        Ok(Outcome { outputs, takeovers, blob_garbage, statistics })
    }

    /// Whether the parts read as many records as the inputs say they have.
    fn check_record_count(&self, parts: &[PartOutcome]) -> Result<()> {
        let is_exact = parts.iter().all(|part| part.is_exact);
        let read: u64 = parts.iter().map(|part| part.records_in).sum();
        let Some(expected) = self.inputs.records().filter(|_| is_exact) else { return Ok(()) };
        if read == expected || !self.needs.database.compaction_verify_record_count {
            return Ok(());
        }
        let tables = self.inputs.tables().iter();
        let numbers: Vec<String> = tables.map(|table| table.file.number().to_string()).collect();
        let message = format!(
            "tables {} have {expected} records by their properties, and {read} were read",
            numbers.join(", ")
        );
        Err(Error::corruption(&self.needs.directory, message))
    }

    fn statistics_of_inputs(&self) -> Statistics {
        let read = self.compaction.inputs.iter().map(|input| LevelFiles {
            level: input.level,
            files: input.files.len() as u64,
            bytes: input.files.iter().map(|file| file.size()).sum(),
        });
        Statistics { read: read.collect(), ..Statistics::default() }
    }

    fn remove_outputs(&self) {
        let created = self.created.lock();
        for path in created.iter() {
            // Nothing refers to it, and it may never have come to be; if it stays, the next open
            // removes it.
            let _ = self.needs.storage.remove(path);
        }
    }
}

/// When sequence numbers of the inputs were written, where the options preserve that, and the last
/// that nobody asks about any more.
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
    let timeless_through = times.sequence_at(now_s.saturating_sub(window_s)).unwrap_or(0);
    times.set_limits(Limits { capacity: SAMPLES_MAX, window_s });
    (Some(Arc::new(times)), timeless_through)
}

/// Adds garbage of a file to what there is of that file.
fn add(all: &mut Vec<BlobFileGarbage>, garbage: BlobFileGarbage) {
    match all.iter_mut().find(|known| known.number == garbage.number) {
        Some(known) => {
            known.blob_count += garbage.blob_count;
            known.blob_bytes += garbage.blob_bytes;
        }
        None => all.push(garbage),
    }
}
