//! The logs with data that is not in tables: the current log, and older logs.
//!
//! Each log begins with a description of the end of the previous log, so that replay does not
//! continue past a gap that a crash of the machine left between two unsynced logs.
//!
//! A log is switched when a memtable is sealed, so that the log of the next memtable holds nothing
//! of an older memtable; when the log has reached its maximum length; when its preallocated space
//! ([`super::preallocation`]) is used up; and when another I/O mode suits better, as described
//! below. Logs are synced oldest first, and a synced write is acknowledged only when every earlier
//! log is on the device, too; otherwise a crash could keep that write and lose an earlier one.
//! Before anything is written to a direct log, or to the log after a direct log, all earlier logs
//! are synced, even if no writer requested a sync.
//!
//! Logs are buffered or direct ([`LogMode`]); each log keeps the mode in which it began. In mode
//! `Auto` synced and unsynced groups are counted, and when most of the recent groups suit the other
//! mode, the log is switched.
//!
//! A failed write or sync is latched, because it is then unknown how much of the log reached the
//! device. Nothing more is acknowledged until the log is abandoned ([`LogSet::start_over`]) and
//! everything in it is flushed to tables.
//!
//! Followers ([`super::updates`]) are notified how far the logs are written. Logs that followers
//! have yet to read are kept until a later call of [`LogSet::release`], or until the database is
//! closed.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::batch::WriteBatch;
use tailwater_format::file_name::FileKind;
use tailwater_format::key::{MAX_SEQUENCE, Sequence};
use tailwater_format::record_log::PredecessorWal;
use tailwater_io::sync::Mutex;
use tailwater_io::{Clock, Storage};

use super::durability::LogDurability;
use super::followed::{Followed, Follower};
use super::kept::KeptLogs;
use super::log_file::{Beginning, LogFile, Mode};
use super::pipelined::PipelinedWrite;
use super::preallocation::{Ended, PreallocationListener, Preallocator};
use super::suited_mode::{LogMode, SuitedMode};
use crate::error::{Error, Result};
use crate::file_numbers::FileNumbers;

/// The options of the logs.
#[derive(Debug, Clone)]
pub(crate) struct LogOptions {
    /// The directory of the logs.
    pub(crate) directory: PathBuf,
    pub(crate) mode: LogMode,
    /// Direct logs are preallocated in multiples of this number of bytes. 0 if they are not
    /// preallocated, so that each write extends the file.
    pub(crate) space_block: u64,
    /// Maximum number of unneeded logs kept for reuse.
    pub(crate) recycle: usize,
    /// Whether records are compressed.
    pub(crate) compressed: bool,
    /// Number of bytes reserved for a new buffered log.
    pub(crate) preallocate: u64,
    /// Number of bytes after which write-back is started; 0 leaves write-back to the system.
    pub(crate) bytes_per_sync: u64,
    /// Length at which a log is switched, in bytes.
    pub(crate) max_bytes: u64,
    /// Number of buffered bytes above which appending a batch writes the buffer out.
    pub(crate) max_buffered: usize,
    /// Whether a new log's directory entry is synced.
    pub(crate) sync_names: bool,
    /// Whether syncs also write metadata that is not needed to read the file (`fsync` rather than
    /// `fdatasync`).
    pub(crate) full_sync: bool,
    /// Logs with a number below this are never removed, because it is not yet certain that they
    /// belong to this database.
    pub(crate) first_removable: u64,
    /// The method by which writes to direct logs are made durable.
    pub(crate) durability: Arc<LogDurability>,
    /// The clock with which `durability` measures which method is faster.
    pub(crate) clock: Arc<dyn Clock>,
}

/// A log that recovery may still need, because not all of its data may be in tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveLog {
    pub(crate) number: u64,
    /// Length of the log when it was completed, in bytes; 0 for the current log.
    pub(crate) bytes: u64,
    /// Whether the log contains padding for direct I/O.
    pub(crate) is_padded: bool,
}

impl LiveLog {
    /// Describes `log`, which is the log that is being written.
    fn current(log: &LogFile) -> Self {
        Self { number: log.number, bytes: 0, is_padded: log.is_direct() }
    }
}

/// A log that is no longer written to, and is not known to be synced.
#[derive(Clone)]
struct ClosedLog {
    number: u64,
    /// This lock is held while the log is synced, so that another thread that needs the log to be
    /// durable waits for the sync.
    state: Arc<Mutex<ClosedState>>,
}

struct ClosedState {
    file: LogFile,
    /// The error of a failed sync. It must be kept: the system reports it only once, and a second
    /// sync would succeed.
    failure: Option<Error>,
}

impl ClosedLog {
    fn new(file: LogFile) -> Self {
        let number = file.number;
        Self { number, state: Arc::new(Mutex::new(ClosedState { file, failure: None })) }
    }

    /// Syncs the log, unless it is already synced. After a failed sync, every call fails.
    fn sync(&self, storage: &dyn Storage, full: bool) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let synced = state.file.sync(storage, full);
        state.failure = synced.as_ref().err().cloned();
        synced
    }
}

/// The logs with data that is not in tables.
pub(crate) struct LogSet {
    storage: Arc<dyn Storage>,
    options: LogOptions,
    current: LogFile,
    /// Source of preallocated files for direct logs; `None` if logs are not preallocated.
    preallocator: Option<Preallocator>,
    suited: SuitedMode,
    /// Complete logs that are not known to be on the device, oldest first.
    closed: VecDeque<ClosedLog>,
    /// All logs that recovery may need, oldest first. The last one is the current log.
    live: VecDeque<LiveLog>,
    /// Total length of all `live` logs except the current log, in bytes.
    closed_bytes: u64,
    /// Logs that recovery does not need but followers have yet to read, oldest first.
    held: VecDeque<u64>,
    followed: Arc<Followed>,
    /// Unneeded logs whose files can be reused.
    recyclable: VecDeque<u64>,
    /// Number of the first log whose file may be reused.
    first_recyclable: u64,
    failure: Option<Error>,
    /// Whether the current log is empty and was not the log that failed: `start_over` can reuse it.
    is_unwritten: bool,
}

impl LogSet {
    /// Begins with the new log `number`. `older` are the logs that are still needed, oldest first;
    /// their contents are already durable. `predecessor` describes the log that was written last
    /// before log `number`.
    pub(crate) fn begin(
        storage: Arc<dyn Storage>,
        options: LogOptions,
        numbers: &FileNumbers,
        number: u64,
        older: impl IntoIterator<Item = LiveLog>,
        predecessor: Option<PredecessorWal>,
    ) -> Result<Self> {
        let is_preallocated = options.mode != LogMode::Buffered && options.space_block > 0;
        let preallocator = is_preallocated.then(|| {
            let (storage, directory) = (Arc::clone(&storage), options.directory.clone());
            let (durability, clock) = (Arc::clone(&options.durability), Arc::clone(&options.clock));
            let (numbers, block) = (numbers.clone(), options.space_block);
            Preallocator::new(storage, directory, numbers, block, durability, clock)
        });
        let suited = SuitedMode::new(options.mode);
        let site =
            LogSite { storage: &*storage, options: &options, preallocator: preallocator.as_ref() };
        let current =
            site.begin(number, None, predecessor, suited.is_direct(), Ended::default())?;
        let mut live: VecDeque<LiveLog> = older.into_iter().collect();
        let closed_bytes = live.iter().map(|log| log.bytes).sum();
        let followed = Followed::new(live.iter().map(|log| (log.number, log.bytes)), number);
        live.push_back(LiveLog::current(&current));
        Ok(Self {
            storage,
            options,
            current,
            preallocator,
            suited,
            closed: VecDeque::new(),
            live,
            closed_bytes,
            held: VecDeque::new(),
            followed: Arc::new(followed),
            recyclable: VecDeque::new(),
            first_recyclable: number,
            failure: None,
            is_unwritten: false,
        })
    }

    /// If the options request preallocation of direct logs, starts the thread that preallocates
    /// them. `listener` is notified when the durability method is chosen, and if the thread panics.
    ///
    /// # Errors
    /// Errors from starting a thread.
    pub(crate) fn start_preallocating(&mut self, listener: PreallocationListener) -> Result<()> {
        self.preallocator.as_mut().map_or(Ok(()), |preallocator| preallocator.start(listener))
    }

    /// Changes the options. The current log keeps the options that apply only when a log begins.
    pub(crate) fn set_options(&mut self, options: LogOptions) {
        let first_removable = self.options.first_removable;
        self.options = LogOptions { first_removable, ..options };
    }

    /// Returns the number of the current log.
    pub(crate) fn current_number(&self) -> u64 {
        self.current.number
    }

    /// Returns the number of the oldest log that recovery may need.
    pub(crate) fn oldest_number(&self) -> u64 {
        self.live.front().map_or(self.current.number, |oldest| oldest.number)
    }

    /// Returns the numbers of the logs that recovery may need, in ascending order.
    pub(crate) fn live_numbers(&self) -> Vec<u64> {
        self.live.iter().map(|log| log.number).collect()
    }

    /// Whether the current log holds no operations.
    pub(crate) fn current_is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// Whether the current log should be switched: the log has reached its maximum length or used
    /// up its preallocated space, or the other I/O mode suits better.
    pub(crate) fn is_due(&self) -> bool {
        self.current.length() >= self.options.max_bytes
            || self.current.is_direct() != self.suited.is_direct()
            || self.is_another_quicker()
    }

    /// Whether another log would be faster: the current log's preallocated space is used up, and
    /// another preallocated file is ready.
    fn is_another_quicker(&self) -> bool {
        let has_preallocated =
            || self.preallocator.as_ref().is_some_and(Preallocator::has_preallocated);
        self.current.as_ended().is_used_up && has_preallocated()
    }

    /// Whether any log that recovery may need is padded.
    pub(crate) fn are_padded(&self) -> bool {
        self.live.iter().any(|log| log.is_padded)
    }

    /// Returns the total length of all logs that recovery may need, in bytes.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.current.length() + self.closed_bytes
    }

    /// Appends a batch, in memory. If the buffer then exceeds its limit, writes the buffer out.
    pub(crate) fn append(&mut self, batch: &WriteBatch) -> Result<()> {
        self.check()?;
        let appended = self.current.append(batch);
        self.latch(appended)?;
        if self.current.buffered() > self.options.max_buffered {
            self.write_buffered()
        } else {
            Ok(())
        }
    }

    /// Writes the buffered batches of a group to the current log's file.
    pub(crate) fn write_out(&mut self) -> Result<()> {
        self.suited.count(false);
        self.write_buffered()
    }

    fn write_buffered(&mut self) -> Result<()> {
        self.check()?;
        if self.current.is_in_flight() {
            // Earlier groups are still being written. The leader of the group in the buffer writes
            // it later: with [`LogSet::begin_pipelined`], or after the earlier groups have ended.
            return Ok(());
        }
        let written = self.current.write_out(self.options.bytes_per_sync);
        if written.is_ok() {
            self.followed.grow(self.current.written());
        }
        self.latch(written)
    }

    /// Prepares a durable write of the group in the buffer. Later groups may be written before this
    /// write ends. Returns `None` if that is not possible for this group. Every returned write must
    /// be passed to `end_pipelined`, in the order of the groups.
    ///
    /// The buffer must have been empty before the group was appended.
    pub(crate) fn begin_pipelined(&mut self) -> Option<PipelinedWrite> {
        if self.options.full_sync || !self.closed.is_empty() || self.failure.is_some() {
            return None;
        }
        let write = self.current.begin_pipelined(&*self.storage)?;
        self.suited.count(true);
        Some(write)
    }

    /// Completes a group in flight. `written` is the result of its write.
    pub(crate) fn end_pipelined(
        &mut self,
        write: PipelinedWrite,
        written: Result<()>,
    ) -> Result<()> {
        self.check()?;
        if written.is_ok() {
            self.current.end_pipelined(write);
            self.followed.grow(self.current.written());
        }
        self.latch(written)
    }

    /// Syncs every log, the oldest first. Batches of the current log that are still in memory are
    /// first written to its file.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.sync_closed()?;
        if self.current.is_in_flight() {
            // Everything in the log before the groups in flight is on the device. Published groups
            // are no longer in flight, so they are already on the device.
            return Ok(());
        }
        self.suited.count(true);
        let synced = self.current.sync(&*self.storage, self.options.full_sync);
        if synced.is_ok() {
            self.followed.grow(self.current.written());
        }
        self.latch(synced)
    }

    /// Syncs the complete logs, the oldest first.
    fn sync_closed(&mut self) -> Result<()> {
        self.check()?;
        while let Some(log) = self.closed.front() {
            let synced = log.sync(&*self.storage, self.options.full_sync);
            self.latch(synced)?;
            self.closed.pop_front();
        }
        Ok(())
    }

    /// Syncs the logs that are complete at this point, the oldest first. The lock is released
    /// during each sync, so that writes to the current log continue.
    pub(crate) fn sync_closed_beside_writes(logs: &Mutex<Self>) -> Result<()> {
        let last = logs.lock().closed.back().map(|log| log.number);
        loop {
            let (log, storage, is_full) = {
                let set = logs.lock();
                set.check()?;
                let oldest = set.closed.front().filter(|log| Some(log.number) <= last);
                let Some(log) = oldest.cloned() else { return Ok(()) };
                (log, Arc::clone(&set.storage), set.options.full_sync)
            };
            let synced = log.sync(&*storage, is_full);
            let mut set = logs.lock();
            // Another thread may have synced the log, or the logs may have been abandoned
            // meanwhile.
            if set.closed.front().is_some_and(|oldest| oldest.number == log.number) {
                set.latch(synced)?;
                set.closed.pop_front();
            }
        }
    }

    /// Closes the current log and begins another.
    pub(crate) fn switch(&mut self, numbers: &FileNumbers) -> Result<()> {
        self.write_buffered()?;
        let number = self.take_number(numbers)?;
        // If the current log has used up its preallocated space, that space was too short. A
        // recycled file may be just as short, so a preallocated file that is ready is used instead.
        let recycled = if self.is_another_quicker() { None } else { self.recyclable.pop_front() };
        let predecessor = Some(self.current.as_predecessor());
        let (is_direct, ended) = (self.suited.is_direct(), self.current.as_ended());
        // If this step fails, the current log is unchanged.
        let next = self.site().begin(number, recycled, predecessor, is_direct, ended)?;
        let mut closed = std::mem::replace(&mut self.current, next);
        if let Some(last) = self.live.back_mut() {
            last.bytes = closed.length();
            self.closed_bytes += last.bytes;
        }
        self.live.push_back(LiveLog::current(&self.current));
        self.followed.begin(number, MAX_SEQUENCE);
        // If the closed log's file was recycled, this cuts off the remains of the older log.
        // Otherwise replay could treat these remains as the end of all logs, and would then refuse
        // the database because tables have later data.
        let given_back = if closed.may_be_longer() { closed.cut_off() } else { Ok(()) };
        let is_any_direct = closed.is_direct() || self.current.is_direct();
        if closed.is_dirty() {
            self.closed.push_back(ClosedLog::new(closed));
        }
        self.latch(given_back)?;
        // Direct writes may reach the device immediately, so everything in older logs must be on
        // the device before them.
        if is_any_direct { self.sync_closed() } else { Ok(()) }
    }

    /// Abandons all logs after a failure and begins another log. Everything in the abandoned logs
    /// is still in memtables, which are flushed before the next write. Batches with numbers above
    /// `last_sequence`, the last published number, were never published; followers ignore them.
    /// Returns the new log's number.
    pub(crate) fn start_over(
        &mut self,
        numbers: &FileNumbers,
        last_sequence: Sequence,
    ) -> Result<u64> {
        if std::mem::take(&mut self.is_unwritten) {
            self.failure = None;
            return Ok(self.current.number);
        }
        let number = self.take_number(numbers)?;
        let is_direct = self.suited.is_direct();
        self.current = self.site().begin(number, None, None, is_direct, Ended::default())?;
        self.followed.begin(number, last_sequence);
        self.closed.clear();
        self.live.push_back(LiveLog::current(&self.current));
        self.first_recyclable = number;
        self.failure = None;
        Ok(number)
    }

    /// Returns the number of the next log.
    fn take_number(&self, numbers: &FileNumbers) -> Result<u64> {
        let path = |number| self.options.directory.join(FileKind::Wal(number).to_string());
        numbers.take_unused(&*self.storage, path).map(|(number, _)| number)
    }

    /// Refuses writes to the log that [`LogSet::start_over`] has just begun, as if a write to the
    /// log had failed with `error`. Must be called before anything is written to that log. The next
    /// `start_over` reuses the log.
    pub(crate) fn fail_unwritten(&mut self, error: Error) {
        self.is_unwritten = self.failure.is_none();
        self.fail(error);
    }

    /// Refuses all further writes and syncs, as if a write had failed with `error`.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// Releases the logs with numbers below `number`, which are no longer needed. If `recycles`, as
    /// many of them as the options request are kept for reuse. Returns the files to remove.
    pub(crate) fn release(&mut self, number: u64, recycles: bool) -> Vec<PathBuf> {
        let mut released = std::mem::take(&mut self.held);
        while let Some(&oldest) = self.live.front()
            && oldest.number < number
            && oldest.number != self.current.number
        {
            self.live.pop_front();
            self.closed_bytes -= oldest.bytes;
            self.closed.retain(|log| log.number != oldest.number);
            released.push_back(oldest.number);
        }
        let mut unneeded = Vec::new();
        for number in released {
            let is_recyclable = recycles && number >= self.first_recyclable;
            if !self.followed.release(number) {
                self.held.push_back(number);
            } else if is_recyclable && self.recyclable.len() < self.options.recycle {
                self.recyclable.push_back(number);
            } else {
                unneeded.push(number);
            }
        }
        self.removable(unneeded)
    }

    /// Whether logs that are no longer needed are kept for followers.
    pub(crate) fn keeps_for_followers(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns the files of the logs that may be removed.
    fn removable(&self, numbers: impl IntoIterator<Item = u64>) -> Vec<PathBuf> {
        let numbers = numbers.into_iter().filter(|&number| number >= self.options.first_removable);
        numbers.map(|number| self.path(number)).collect()
    }

    /// Creates a follower that begins with the oldest log.
    ///
    /// # Errors
    /// Closed, after [`LogSet::end_following`].
    pub(crate) fn follow(&self) -> Result<Follower> {
        self.followed.follow()
    }

    /// Keeps the logs that recovery may need as they are now. Everything in them must have been
    /// written out. Returns `None` if a log cannot be copied, because it has batches that were
    /// never published.
    ///
    /// # Errors
    /// Closed, after [`LogSet::end_following`].
    pub(crate) fn keep_live(&self) -> Result<Option<KeptLogs>> {
        Ok(KeptLogs::new(self.follow()?, self.directory(), &self.live_numbers()))
    }

    /// Stops all followers: each of them gets an error from now on.
    pub(crate) fn end_following(&self) {
        self.followed.close();
    }

    /// Returns the directory of the logs.
    pub(crate) fn directory(&self) -> &Path {
        &self.options.directory
    }

    /// Whether memory may hold a batch that is not yet in a file.
    pub(crate) fn holds_back(&self) -> bool {
        self.current.buffered() > 0 && !self.current.is_empty()
    }

    /// Whether a failure was latched, so that writes and syncs are refused.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Ends the current log for a clean close: writes the buffered part of the log, and truncates
    /// the file to the log's length.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.write_buffered()?;
        let cut = self.current.cut_off();
        self.latch(cut)
    }

    /// Stops preallocating and removes unused preallocated files. Returns the paths of the log
    /// files that were kept for reuse or for followers (readers of the logs). The caller removes
    /// these files.
    pub(crate) fn take_unneeded(&mut self) -> Vec<PathBuf> {
        if let Some(preallocator) = &mut self.preallocator {
            preallocator.close();
        }
        let recyclable = std::mem::take(&mut self.recyclable);
        let held = std::mem::take(&mut self.held);
        self.removable(recyclable.into_iter().chain(held))
    }

    fn site(&self) -> LogSite<'_> {
        LogSite {
            storage: &*self.storage,
            options: &self.options,
            preallocator: self.preallocator.as_ref(),
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.options.directory.join(FileKind::Wal(number).to_string())
    }

    fn check(&self) -> Result<()> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    fn latch(&mut self, result: Result<()>) -> Result<()> {
        if let Err(error) = &result {
            self.failure = Some(error.clone());
        }
        result
    }
}

/// The parameters that all new logs have in common.
struct LogSite<'a> {
    storage: &'a dyn Storage,
    options: &'a LogOptions,
    preallocator: Option<&'a Preallocator>,
}

impl LogSite<'_> {
    /// Begins a log. `before` describes the end of the previous log.
    fn begin(
        &self,
        number: u64,
        recycled: Option<u64>,
        predecessor: Option<PredecessorWal>,
        is_direct: bool,
        before: Ended,
    ) -> Result<LogFile> {
        let options = self.options;
        let path = |number| options.directory.join(FileKind::Wal(number).to_string());
        let recycled = recycled.map(path);
        let mode = match is_direct {
            true => {
                Mode::Direct { preallocator: self.preallocator, before, max: options.max_bytes }
            }
            false => Mode::Buffered { preallocate: options.preallocate },
        };
        LogFile::begin(
            self.storage,
            Beginning {
                number,
                path: path(number),
                mode,
                recycled: recycled.as_deref(),
                recyclable: options.recycle > 0,
                compressed: options.compressed,
                predecessor,
                sync_name: options.sync_names,
            },
        )
    }
}
