//! The logs that hold what is not in tables: one that is written, and older ones.
//!
//! Each log begins with how the one before it ended, so that replay does not go on behind a gap
//! that a crash of the machine left between two that were not synced.
//!
//! A log is switched when a memtable is sealed, so that a memtable's log holds nothing of an older
//! one, when it has grown to its bound, and when the space is used up that was made for it
//! ([`super::space`]). What is synced is synced oldest first: a synced write is acknowledged only
//! when every log before it is on the device, too, or a crash could keep it and lose an earlier
//! one. Before anything is in a log that is written past the page cache, or that follows such a
//! one, all before it is on the device, also what nobody synced.
//!
//! Logs are written through the page cache or past it ([`LogMode`]); each keeps to the way in which
//! it began. Where the options leave the choice, groups are counted, and when most of the last ones
//! suit the other way, the log is switched.
//!
//! A failed write or sync latches: what the device has of the log's end is not known then, and
//! nothing more is acknowledged until the log is given up ([`LogSet::start_over`]) with everything
//! in it flushed to tables.
//!
//! Who follows the logs ([`super::updates`]) is told how far they are written, and holds back those
//! that it has yet to read: they stay until a later release, or until closing.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::batch::WriteBatch;
use tailwater_format::file_name::FileKind;
use tailwater_format::key::{MAX_SEQUENCE, Sequence};
use tailwater_format::log::PredecessorWal;
use tailwater_io::{Clock, Storage};

use super::durability::LogDurability;
use super::flight::LogFlight;
use super::followed::{Followed, Follower};
use super::log_file::{Beginning, LogFile, Way};
use super::space::{Ended, LogSpace, SpaceListener};
use super::suited_mode::SuitedMode;
use crate::version::FileNumbers;
use crate::{Error, Result};

/// Which logs are written past the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogMode {
    /// None.
    Buffered,
    /// All.
    Direct,
    /// Those that begin while most groups are synced.
    Auto,
}

/// How logs are written.
#[derive(Debug, Clone)]
pub(crate) struct LogOptions {
    /// Where they are.
    pub(crate) directory: PathBuf,
    pub(crate) mode: LogMode,
    /// The unit, in bytes, in which direct logs get space of zeros; 0 if they are appended to.
    pub(crate) space_block: u64,
    /// How many logs that nothing needs are kept to be written over.
    pub(crate) recycle: usize,
    /// Whether records are compressed.
    pub(crate) compressed: bool,
    /// How many bytes are reserved for a new log that is written through the page cache.
    pub(crate) preallocate: u64,
    /// After how many bytes write-back is started; 0 leaves it to the system.
    pub(crate) bytes_per_sync: u64,
    /// How large a log becomes before it is switched, in bytes.
    pub(crate) max_bytes: u64,
    /// How many bytes are held back at most where nobody asks for them to be written.
    pub(crate) max_buffered: usize,
    /// Whether a log's name is put on the device when it is begun.
    pub(crate) sync_names: bool,
    /// Whether syncs include all metadata.
    pub(crate) full_sync: bool,
    /// Logs with a lower number stay when nothing needs them any more: whether they are the
    /// database's own is not certain yet.
    pub(crate) first_removable: u64,
    /// How direct logs become durable, once that is known.
    pub(crate) durability: Arc<LogDurability>,
    /// By which that is found out.
    pub(crate) clock: Arc<dyn Clock>,
}

/// A log that may still be needed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveLog {
    pub(crate) number: u64,
    /// Its length in bytes when it was closed; 0 while it is written.
    pub(crate) bytes: u64,
    /// Whether it was padded to be written past the page cache.
    pub(crate) is_padded: bool,
}

/// The logs that hold what is not in tables.
pub(crate) struct LogSet {
    storage: Arc<dyn Storage>,
    options: LogOptions,
    current: LogFile,
    /// Where direct logs get their zeros; `None` where none do.
    space: Option<LogSpace>,
    suited: SuitedMode,
    /// Logs that are complete but not known to be on the device, oldest first.
    closed: VecDeque<LogFile>,
    /// All logs that may be needed, oldest first, the current one last.
    live: VecDeque<LiveLog>,
    /// How long those of them are that are complete, in bytes.
    closed_bytes: u64,
    /// Logs that nothing needs but those who follow the logs, oldest first.
    held: VecDeque<u64>,
    followed: Arc<Followed>,
    /// Logs that nothing needs and whose files can be written over.
    recyclable: VecDeque<u64>,
    /// Logs with a lower number were not written for their files to be written over.
    first_recyclable: u64,
    failure: Option<Error>,
    /// Whether nothing is in the current log, and the failure is none of its own.
    is_unwritten: bool,
}

impl LogSet {
    /// Begins with a new log of number `number`. `older` are logs that are still needed, oldest
    /// first, and on the device; `predecessor` is the last that was written before.
    pub(crate) fn begin(
        storage: Arc<dyn Storage>,
        options: LogOptions,
        numbers: &FileNumbers,
        number: u64,
        older: impl IntoIterator<Item = LiveLog>,
        predecessor: Option<PredecessorWal>,
    ) -> Result<Self> {
        let has_space = options.mode != LogMode::Buffered && options.space_block > 0;
        let space = has_space.then(|| {
            let (storage, directory) = (Arc::clone(&storage), options.directory.clone());
            let (durability, clock) = (Arc::clone(&options.durability), Arc::clone(&options.clock));
            let (numbers, block) = (numbers.clone(), options.space_block);
            LogSpace::new(storage, directory, numbers, block, durability, clock)
        });
        let suited = SuitedMode::new(options.mode);
        let place = Place { storage: &*storage, options: &options, space: space.as_ref() };
        let current =
            place.begin(number, None, predecessor, suited.is_direct(), Ended::default())?;
        let mut live: VecDeque<LiveLog> = older.into_iter().collect();
        let closed_bytes = live.iter().map(|log| log.bytes).sum();
        let followed = Followed::new(live.iter().map(|log| (log.number, log.bytes)), number);
        live.push_back(current.as_live());
        Ok(Self {
            storage,
            options,
            current,
            space,
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

    /// Has a thread make space for direct logs from here on, if there are any. `listener` is told
    /// how they become durable, once that is known, and of a panic of the thread.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub(crate) fn start_making_space(&mut self, listener: SpaceListener) -> Result<()> {
        self.space.as_mut().map_or(Ok(()), |space| space.start(listener))
    }

    /// Goes by other options: of the log that is written, by those that do not depend on how it
    /// began.
    pub(crate) fn set_options(&mut self, options: LogOptions) {
        let first_removable = self.options.first_removable;
        self.options = LogOptions { first_removable, ..options };
    }

    /// The number of the log that is written.
    pub(crate) fn current_number(&self) -> u64 {
        self.current.number
    }

    /// The number of the oldest log that may be needed.
    pub(crate) fn oldest_number(&self) -> u64 {
        self.live.front().map_or(self.current.number, |oldest| oldest.number)
    }

    /// The numbers of the logs that may be needed, in ascending order.
    pub(crate) fn live_numbers(&self) -> Vec<u64> {
        self.live.iter().map(|log| log.number).collect()
    }

    /// Whether the log that is written has no batch in it.
    pub(crate) fn current_is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// Whether the log that is written has grown to its bound or used its space up, or another
    /// would be written in another way.
    pub(crate) fn is_due(&self) -> bool {
        self.current.length() >= self.options.max_bytes
            || self.current.is_direct() != self.suited.is_direct()
            || self.is_another_quicker()
    }

    /// Whether there is space for another log, and none left of this one's.
    fn is_another_quicker(&self) -> bool {
        let has_spare = || self.space.as_ref().is_some_and(LogSpace::has_spare);
        self.current.as_ended().is_used_up && has_spare()
    }

    /// Whether any log that may be needed is longer than what it holds.
    pub(crate) fn are_padded(&self) -> bool {
        self.live.iter().any(|log| log.is_padded)
    }

    /// How long all logs are that may be needed, in bytes.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.current.length() + self.closed_bytes
    }

    /// Appends a batch, in memory; what there is too much of there is handed to the system.
    pub(crate) fn append(&mut self, batch: &WriteBatch) -> Result<()> {
        self.check()?;
        let appended = self.current.append(batch);
        self.latch(appended)?;
        if self.current.buffered() > self.options.max_buffered { self.hand_over() } else { Ok(()) }
    }

    /// Hands a group that was appended to the system.
    pub(crate) fn write_out(&mut self) -> Result<()> {
        self.suited.count(false);
        self.hand_over()
    }

    fn hand_over(&mut self) -> Result<()> {
        self.check()?;
        if self.current.is_in_flight() {
            // What is in memory belongs to a group whose leader is about to let it take off.
            return Ok(());
        }
        let written = self.current.write_out(self.options.bytes_per_sync);
        if written.is_ok() {
            self.followed.grow(self.current.written());
        }
        self.latch(written)
    }

    /// Lets a group that was appended be written beside others, durably; `None` where it has to be
    /// alone. They are to be brought back in their order.
    ///
    /// Nothing else may have been in memory before the group.
    pub(crate) fn take_off(&mut self) -> Option<LogFlight> {
        if self.options.full_sync || !self.closed.is_empty() || self.failure.is_some() {
            return None;
        }
        let flight = self.current.take_off(&*self.storage)?;
        self.suited.count(true);
        Some(flight)
    }

    /// Takes back a group, when it was written or could not be.
    pub(crate) fn land(&mut self, flight: LogFlight, written: Result<()>) -> Result<()> {
        self.check()?;
        if written.is_ok() {
            self.current.land(flight);
            self.followed.grow(self.current.written());
        }
        self.latch(written)
    }

    /// Puts every log on the device, the oldest first, and a group that was appended with them.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.sync_closed()?;
        if self.current.is_in_flight() {
            // All that was published is on the device: groups take off only when it is.
            return Ok(());
        }
        self.suited.count(true);
        let synced = self.current.sync(&*self.storage, self.options.full_sync);
        if synced.is_ok() {
            self.followed.grow(self.current.written());
        }
        self.latch(synced)
    }

    /// Puts the logs that are complete on the device, the oldest first.
    pub(crate) fn sync_closed(&mut self) -> Result<()> {
        self.check()?;
        while let Some(log) = self.closed.front_mut() {
            let synced = log.sync(&*self.storage, self.options.full_sync);
            self.latch(synced)?;
            self.closed.pop_front();
        }
        Ok(())
    }

    /// Closes the log that is written and begins another.
    pub(crate) fn switch(&mut self, number: u64) -> Result<()> {
        self.hand_over()?;
        // A recycled file may be short, too.
        let recycled = if self.is_another_quicker() { None } else { self.recyclable.pop_front() };
        let predecessor = Some(self.current.as_predecessor());
        let (is_direct, ended) = (self.suited.is_direct(), self.current.as_ended());
        // If this fails, the log that is written is as it was.
        let next = self.place().begin(number, recycled, predecessor, is_direct, ended)?;
        let mut closed = std::mem::replace(&mut self.current, next);
        if let Some(last) = self.live.back_mut() {
            last.bytes = closed.length();
            self.closed_bytes += last.bytes;
        }
        self.live.push_back(self.current.as_live());
        self.followed.begin(number, MAX_SEQUENCE);
        // Also what an older log left there: replay must not take it for the place where the logs
        // end, behind which tables may hold more.
        let given_back = if closed.may_be_longer() { closed.cut_off() } else { Ok(()) };
        let is_any_direct = closed.is_direct() || self.current.is_direct();
        if closed.is_dirty() {
            self.closed.push_back(closed);
        }
        self.latch(given_back)?;
        // What is written past the page cache may be on the device at once, and before it must be
        // all that older logs hold.
        if is_any_direct { self.sync_closed() } else { Ok(()) }
    }

    /// Gives up all logs and begins another, after a failure: everything in them is in memtables
    /// still, and is put into tables before anybody writes again. What they hold behind
    /// `last_sequence`, the last that was published, does not count. Returns its number.
    pub(crate) fn start_over(
        &mut self,
        numbers: &FileNumbers,
        last_sequence: Sequence,
    ) -> Result<u64> {
        if std::mem::take(&mut self.is_unwritten) {
            self.failure = None;
            return Ok(self.current.number);
        }
        let number = numbers.take();
        let is_direct = self.suited.is_direct();
        self.current = self.place().begin(number, None, None, is_direct, Ended::default())?;
        self.followed.begin(number, last_sequence);
        self.closed.clear();
        self.live.push_back(self.current.as_live());
        self.first_recyclable = number;
        self.failure = None;
        Ok(number)
    }

    /// Refuses everything from now on, in a log that [`LogSet::start_over`] has just begun; the
    /// next call of that goes on with it.
    pub(crate) fn fail_unwritten(&mut self, error: Error) {
        self.is_unwritten = self.failure.is_none();
        self.fail(error);
    }

    /// Refuses everything from now on, as after a failure of its own.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// Lets go of the logs below `number`, which nothing needs any more. Answers those whose files
    /// are to be removed.
    pub(crate) fn release(&mut self, number: u64) -> Vec<PathBuf> {
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
            let is_recyclable = number >= self.first_recyclable;
            if !self.followed.let_go(number) {
                self.held.push_back(number);
            } else if is_recyclable && self.recyclable.len() < self.options.recycle {
                self.recyclable.push_back(number);
            } else {
                unneeded.push(number);
            }
        }
        self.removable(unneeded)
    }

    /// The files of those logs that may be removed.
    fn removable(&self, numbers: impl IntoIterator<Item = u64>) -> Vec<PathBuf> {
        let numbers = numbers.into_iter().filter(|&number| number >= self.options.first_removable);
        numbers.map(|number| self.path(number)).collect()
    }

    /// Begins to follow the logs, from the oldest there is.
    ///
    /// # Errors
    /// Closed, after [`LogSet::end_following`].
    pub(crate) fn follow(&self) -> Result<Follower> {
        self.followed.follow()
    }

    /// Lets nobody follow the logs any more.
    pub(crate) fn end_following(&self) {
        self.followed.close();
    }

    /// Where the logs are.
    pub(crate) fn directory(&self) -> &Path {
        &self.options.directory
    }

    /// Whether a batch may be in memory that is not yet in a file.
    pub(crate) fn holds_back(&self) -> bool {
        self.current.buffered() > 0 && !self.current.is_empty()
    }

    /// Whether everything is refused after a failure.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Ends the log that is written as a clean close leaves it: whole, and without anything behind
    /// its end.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.hand_over()?;
        let cut = self.current.cut_off();
        self.latch(cut)
    }

    /// Has no more space made, removes what there is, and answers the files of logs that were kept
    /// to be written over, or for those who followed the logs, for removal.
    pub(crate) fn take_unneeded(&mut self) -> Vec<PathBuf> {
        if let Some(space) = &mut self.space {
            space.close();
        }
        let recyclable = std::mem::take(&mut self.recyclable);
        let held = std::mem::take(&mut self.held);
        self.removable(recyclable.into_iter().chain(held))
    }

    fn place(&self) -> Place<'_> {
        Place { storage: &*self.storage, options: &self.options, space: self.space.as_ref() }
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

/// Where logs begin, and how.
struct Place<'a> {
    storage: &'a dyn Storage,
    options: &'a LogOptions,
    space: Option<&'a LogSpace>,
}

impl Place<'_> {
    /// Begins a log. `before` is how the one before ended.
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
        let way = match is_direct {
            true => Way::Direct { space: self.space, before, max: options.max_bytes },
            false => Way::Buffered { preallocate: options.preallocate },
        };
        LogFile::begin(
            self.storage,
            Beginning {
                number,
                path: path(number),
                way,
                recycled: recycled.as_deref(),
                recyclable: options.recycle > 0,
                compressed: options.compressed,
                predecessor,
                sync_name: options.sync_names,
            },
        )
    }
}
