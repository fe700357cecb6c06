//! The state that the parts of a compaction job share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tailwater_format::file_name::FileKind;
use tailwater_format::key::Sequence;
use tailwater_format::{Comparator, key};
use tailwater_io::buffer::{ALIGNMENT, BufferPool, MAX_ALIGNMENT};
use tailwater_io::pace::CountedLimiter;
use tailwater_io::stream::Workers;
use tailwater_io::sync::Mutex;
use tailwater_io::{Clock, IoMode, Storage};

use crate::column_family::FamilyReaders;
use crate::compaction::LowPriority;
use crate::compaction::merge::{DeeperLevels, InputTable, Inputs, Snapshots};
use crate::compaction_filter::CompactionFilter;
use crate::error::Result;
use crate::file_numbers::FileNumbers;
use crate::io_modes::IoModes;
use crate::opening::OpeningId;
use crate::options::{ColumnFamilyOptions, CompactionStyle, DbOptions};
use crate::sequence_times::SequenceTimes;
use crate::sst_file_manager::TrackedFiles;
use crate::stall::CompactionPressure;
use crate::table::builder::{Format, Origin, TableCompression};
use crate::table::{NewFiles, OpenBudget, ReadPlan, Streaming};
use crate::version::{Compaction, Version};

/// Maximum memory for the readahead of one part of a compaction, in bytes. It is exceeded if two
/// requests per input need more.
const INPUT_BUFFERS: usize = 64 << 20;

/// Size below which [`INPUT_BUFFERS`] does not reduce the readahead of an input that is read
/// through the page cache, in bytes.
const BUFFERED_REQUEST: usize = 128 << 10;

/// The objects of the database and column family that a job uses.
pub(crate) struct Environment {
    /// The opening of the database to which the job belongs.
    pub(crate) opening: OpeningId,
    pub(crate) storage: Arc<dyn Storage>,
    /// The database's files, to which the outputs are added.
    pub(crate) files: Arc<TrackedFiles>,
    pub(crate) io_modes: Arc<IoModes>,
    pub(crate) options: ColumnFamilyOptions,
    pub(crate) database: DbOptions,
    /// The sequence numbers of all snapshots when the job was created, in any order. A snapshot
    /// taken later sees all records of the inputs.
    pub(crate) snapshots: Vec<Sequence>,
    pub(crate) filter: Option<CompactionFilter>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Determines the priority of writes at a rate limiter.
    pub(crate) pressure: Arc<CompactionPressure>,
    /// The job must be cancelled as soon as one of these is true.
    pub(crate) cancelled: Vec<Arc<AtomicBool>>,
    /// Indicates when the job must switch to normal priority; `None` if the job always runs at
    /// normal priority.
    pub(crate) low_priority: Option<Arc<LowPriority>>,
}

/// How a job reads its inputs.
pub(crate) struct InputSettings {
    /// The readers of the column family's tables and blob files.
    pub(crate) readers: Arc<FamilyReaders>,
    /// Budget for the files that the job itself opens.
    pub(crate) open_budget: Arc<OpenBudget>,
    /// Threads that read ahead in the inputs. Used if the system has no asynchronous I/O.
    pub(crate) workers: Option<Arc<Workers>>,
}

/// The format of a job's outputs, and how they are written.
pub(crate) struct OutputSettings {
    /// Directory of the outputs.
    pub(crate) directory: PathBuf,
    /// The index of `directory` among the column family's paths, as stored in the MANIFEST.
    pub(crate) path_id: u8,
    pub(crate) numbers: FileNumbers,
    pub(crate) format: Arc<Format>,
    pub(crate) compression: TableCompression,
    /// The database, column family and host that are named as the creator in the properties of each
    /// output. The job sets the file number and the times of each output.
    pub(crate) origin: Origin,
    pub(crate) rate_limiter: Option<CountedLimiter>,
    /// The pool of buffers for writing outputs.
    pub(crate) buffers: BufferPool,
    /// Threads that write full buffers in the background.
    pub(crate) workers: Option<Arc<Workers>>,
}

impl Environment {
    /// Whether the job runs at low priority now.
    pub(crate) fn is_low_priority(&self) -> bool {
        self.low_priority.as_ref().is_some_and(|low_priority| !low_priority.is_over())
    }
}

/// A part of a compaction: all records with user keys from `begin`, inclusive, to `end`, exclusive.
/// `None` is unbounded. The parts of a job are executed concurrently.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) begin: Option<Vec<u8>>,
    pub(crate) end: Option<Vec<u8>>,
}

/// The state shared by the parts of a job.
pub(crate) struct JobState {
    pub(crate) compaction: Compaction,
    pub(super) version: Arc<Version>,
    pub(crate) environment: Environment,
    pub(crate) reading: InputSettings,
    pub(crate) writing: OutputSettings,
    pub(crate) inputs: Inputs,
    pub(crate) snapshots: Arc<Snapshots>,
    /// Write times of the inputs' sequence numbers; `None` if the options preserve no times.
    pub(crate) times: Option<Arc<SequenceTimes>>,
    /// The last sequence number whose write time need not be preserved. Records with higher
    /// sequence numbers keep these numbers, because write times are derived from sequence numbers.
    /// In other records the sequence number may be set to 0.
    pub(crate) preserve_after: Sequence,
    /// Start time of the job, in seconds since 1970.
    pub(crate) now_s: u64,
    /// The files that were created, to be removed after a failure.
    pub(super) created: Mutex<Vec<PathBuf>>,
    /// Set when a part has failed, to cancel the others.
    pub(crate) has_failed: Arc<AtomicBool>,
}

impl JobState {
    pub(crate) fn comparator(&self) -> &Comparator {
        self.writing.format.comparator()
    }

    pub(crate) fn new_files(&self) -> NewFiles<'_> {
        NewFiles {
            storage: &*self.environment.storage,
            database: &self.environment.database,
            io_modes: &self.environment.io_modes,
            buffers: &self.writing.buffers,
            workers: self.writing.workers.as_ref(),
            rate_limiter: self.writing.rate_limiter.as_ref(),
        }
    }

    /// Returns how much of the inputs is read ahead by the subcompaction that ends before the user
    /// key `end`. With direct I/O, the kernel does not read ahead, so the subcompaction itself
    /// does, in requests of limited size.
    pub(crate) fn read_plan(&self, end: Option<&[u8]>) -> ReadPlan {
        let read_ahead = self.environment.database.compaction_readahead_size;
        let read_ahead = read_ahead.min(INPUT_BUFFERS as u64) as usize;
        let tables = &self.reading.readers.tables;
        let streams = self.inputs.streams().max(1);
        if tables.mode_of_inputs() != IoMode::Direct || read_ahead == 0 {
            let affordable = (INPUT_BUFFERS / streams).max(BUFFERED_REQUEST);
            let useful = tables.request_bytes_max().unwrap_or(usize::MAX);
            return ReadPlan::of_bytes(read_ahead.min(affordable).min(useful));
        }
        let request_bytes = self.environment.database.direct_request_size();
        let request_bytes = request_bytes.min(read_ahead).max(1).next_multiple_of(ALIGNMENT);
        // The buffer is large enough for any alignment that a device may require.
        let buffer_bytes = request_bytes.next_multiple_of(MAX_ALIGNMENT);
        let affordable = (INPUT_BUFFERS / streams / buffer_bytes).saturating_sub(1);
        let depth = read_ahead.div_ceil(request_bytes).min(affordable).max(1);
        ReadPlan::Streamed(Arc::new(Streaming {
            request_bytes,
            depth,
            // The pool holds enough buffers for all streams at the same time, so that no stream
            // waits for a buffer.
            buffers: BufferPool::new(streams * (depth + 1) * buffer_bytes),
            workers: self.reading.workers.clone(),
            foreground: Some(Arc::clone(self.environment.storage.statistics().foreground())),
            until: end.map(Arc::from),
        }))
    }

    /// Returns the file number and the path of a new output.
    pub(crate) fn take_output(&self) -> Result<(u64, PathBuf)> {
        let path = |number| self.writing.directory.join(FileKind::Table(number).to_string());
        self.writing.numbers.take_unused(&*self.environment.storage, path)
    }

    /// To be called when the file of an output has been created. If the job fails, the file is
    /// removed.
    pub(crate) fn output_created(&self, path: &Path) {
        self.created.lock().push(path.to_owned());
    }

    /// Returns the levels below the output level, positioned before their first keys.
    pub(crate) fn deeper_levels(&self) -> DeeperLevels {
        let Compaction { output_level, is_bottommost, .. } = self.compaction;
        let is_leveled = self.environment.options.compaction_style == CompactionStyle::Level;
        let comparator = self.comparator().clone();
        DeeperLevels::new(&self.version, comparator, output_level, is_bottommost, is_leveled)
    }

    /// Returns the epoch number of the outputs: the lowest epoch number of the inputs.
    pub(crate) fn epoch_number(&self) -> u64 {
        let epochs = self.inputs.tables().iter().map(|table| table.file.added().epoch_number);
        // Files that old RocksDB releases wrote have no epoch number; it is read as 0.
        epochs.filter(|&epoch| epoch > 0).min().unwrap_or(1)
    }

    /// Looks at the input tables that overlap a range of internal keys, from `begin` to `end`, both
    /// inclusive. Returns the write time of the oldest data in these tables, in seconds since 1970;
    /// `None` if unknown.
    pub(crate) fn oldest_ancestor_time_s(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Option<u64> {
        let times = self.overlapping(begin, end).map(|table| table.oldest_ancestor_time_s);
        times.filter(|&time| time > 0).min()
    }

    /// Looks at the input tables that overlap a range of internal keys, from `begin` to `end`, both
    /// inclusive. Returns the write time of the newest key in these tables, in seconds since 1970;
    /// 0 if unknown.
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

    /// Removes all files that the job created, after a failure.
    pub(super) fn remove_outputs(&self) {
        let created = self.created.lock();
        for path in created.iter() {
            // Nothing refers to the file, and it may not exist. If it remains, the next open
            // removes it.
            let _ = self.environment.files.remove(path);
        }
    }
}
