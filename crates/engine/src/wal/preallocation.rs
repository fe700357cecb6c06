//! Preallocated files for direct logs: files of zeros, synced before a log needs them.
//!
//! A synced write over bytes that were written before is a single write of the device. A synced
//! write to space that is only allocated, or past the end of the file, also waits for the
//! filesystem's metadata. So a direct log begins in a preallocated file of zeros, and when its
//! zeros are used up, the next log begins in another such file. A thread prepares the next file
//! while a log is written; without the thread, a new log creates its own file.
//!
//! Zeros are never added to a file that is already a log: the log's writers would wait for the
//! metadata of the zeros (docs/appendix/measurements.md).
//!
//! # Order
//!
//! 1. A preallocated file is created under a temporary name, zeroed and synced. Its length follows
//!    that of recent logs.
//! 2. A log begins by renaming a preallocated file and syncing the directory ([`super::log_file`]).
//! 3. When the log ends, the remaining zeros are cut off.
//!
//! A crash at any step leaves a temporary file, which the next opening removes, or a log with zeros
//! at its end, which replay skips.
//!
//! The file of an unneeded log is removed like any other, not zeroed and reused: a process that
//! opened the database read-only may be reading it. Only `recycle_log_file_num` reuses log files,
//! as in RocksDB; recycled logs do not use this module.
//!
//! If there is no disk space for zeros, or the zeros are used up before the next preallocated file
//! is ready, logs are appended to, and each sync includes metadata.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::sync::{Condvar, Mutex};
use tailwater_io::thread::{Thread, spawn};
use tailwater_io::{Clock, Create, IoMode, Purpose, Storage, WriteFile};

use super::durability::LogDurability;
use crate::error::{Error, ErrorKind, Result};
use crate::file_numbers::FileNumbers;
use crate::panics;

/// Maximum number of bytes of zeros written by one request.
const PIECE_MAX: u64 = 64 << 10;
/// A log counts as full when less preallocated space is left than the smaller of 1/LEFT_OVER_PARTS
/// of the space and LEFT_OVER_MAX bytes. The next log then begins early, because a group that does
/// not fit into the preallocated space would wait for the filesystem's metadata.
const LEFT_OVER_PARTS: u64 = 16;
const LEFT_OVER_MAX: u64 = 64 << 10;
/// Length of the next preallocated file, as a multiple of the last log's length, if that log used
/// up its space.
const GROWTH: u64 = 4;

/// Callbacks for events of the preallocation thread.
pub(crate) struct PreallocationListener {
    /// Called when the durability method was chosen.
    pub(crate) chosen: Box<dyn Fn(&LogDurability) + Send>,
    /// Called when the thread panics.
    pub(crate) panicked: Box<dyn Fn(Error) + Send>,
}

/// Preallocates files for the logs of one database.
pub(super) struct Preallocator {
    shared: Arc<Shared>,
    thread: Option<Thread>,
}

struct Shared {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    numbers: FileNumbers,
    /// The lengths of preallocated files are multiples of this length in bytes, which is not 0.
    block: u64,
    /// The method by which writes to direct logs are made durable. When the preallocation thread
    /// starts, it measures the methods and chooses one.
    durability: Arc<LogDurability>,
    clock: Arc<dyn Clock>,
    work: Mutex<Work>,
    /// Notified when the thread has work to do.
    wanted: Condvar,
}

#[derive(Default)]
struct Work {
    /// A finished preallocated file that no log uses yet, under a temporary name.
    preallocated: Option<PathBuf>,
    /// A preallocated file that is being zeroed.
    unfinished: Option<Unfinished>,
    /// Length of the next preallocated file, in bytes.
    length: u64,
    /// Whether the preallocation thread should begin another file.
    is_next_wanted: bool,
    /// Whether the preallocation thread was started.
    has_thread: bool,
    is_closed: bool,
}

impl Work {
    /// Notes that the disk has no space for a preallocated file of the current length. The
    /// preallocation thread next tries the minimum length, `block` bytes. If the current length is
    /// already the minimum, the thread makes no further attempt until a log begins.
    fn want_shorter(&mut self, block: u64) {
        self.is_next_wanted = self.length > block;
        self.length = block;
    }
}

/// An unfinished preallocated file.
struct Unfinished {
    path: PathBuf,
    file: Box<dyn WriteFile>,
    zeros: AlignedBuffer,
    zeroed: u64,
    length: u64,
}

/// The length of a log, and whether the log has used up its preallocated space.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ended {
    /// The log's length in bytes.
    pub(super) length: u64,
    /// Whether the log has used up its preallocated space, completely or nearly.
    pub(super) is_used_up: bool,
}

impl Preallocator {
    /// Creates a preallocator for logs in `directory`. The lengths of preallocated files are
    /// multiples of `block` bytes.
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        directory: PathBuf,
        numbers: FileNumbers,
        block: u64,
        durability: Arc<LogDurability>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let shared = Shared {
            storage,
            directory,
            numbers,
            block,
            durability,
            clock,
            work: Mutex::default(),
            wanted: Condvar::new(),
        };
        Self { shared: Arc::new(shared), thread: None }
    }

    /// Starts the thread, which first measures by which method logs are made durable fastest, and
    /// then preallocates files. If the thread panics, no files are preallocated, as if the disk
    /// were full.
    ///
    /// # Errors
    /// Errors from starting a thread.
    pub(super) fn start(&mut self, listener: PreallocationListener) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let body = move || {
            shared.choose_durability(&listener);
            shared.serve(&listener);
        };
        let thread = spawn("tailwater-wal", body).map_err(Error::no_thread)?;
        self.shared.work.lock().has_thread = true;
        self.thread = Some(thread);
        Ok(())
    }

    /// Takes a preallocated file in which to begin a log; `None` if there is no disk space for it.
    /// `before` describes the previous log. It determines the length of the next preallocated file:
    /// at most `max` bytes, but at least one block.
    pub(super) fn take(&self, before: Ended, max: u64) -> Option<PathBuf> {
        let shared = &self.shared;
        let mut work = shared.work.lock();
        let preallocated = work.preallocated.take();
        // The length grows fast, to be large enough soon, and shrinks slowly, since the lengths of
        // logs vary.
        let length = if before.is_used_up {
            before.length * GROWTH
        } else {
            before.length.max(work.length / 8 * 7)
        };
        work.length = length.min(max).next_multiple_of(shared.block).max(shared.block);
        work.is_next_wanted = true;
        drop(work);
        shared.wanted.notify_all();
        preallocated.or_else(|| shared.make(shared.block).ok())
    }

    /// Whether a preallocated file can be taken without a long wait.
    pub(super) fn has_preallocated(&self) -> bool {
        let work = self.shared.work.lock();
        work.preallocated.is_some() || !work.has_thread
    }

    /// Returns the preallocated part of a log: the bytes from the start of its file up to `end`
    /// (exclusive), which are zeros when the log begins.
    pub(super) fn zeroed_span(&self, end: u64) -> ZeroedSpan {
        ZeroedSpan { shared: Arc::clone(&self.shared), end }
    }

    /// Ends the thread and removes unused preallocated files.
    pub(super) fn close(&mut self) {
        self.shared.work.lock().is_closed = true;
        self.shared.wanted.notify_all();
        drop(self.thread.take());
        self.shared.remove_preallocated();
    }
}

impl Drop for Preallocator {
    fn drop(&mut self) {
        self.close();
    }
}

/// The preallocated part of one log: zeros that the log overwrites.
pub(super) struct ZeroedSpan {
    shared: Arc<Shared>,
    /// Length of the file when the log began, in bytes: the log overwrites the file up to here.
    end: u64,
}

impl ZeroedSpan {
    /// Whether the log's preallocated zeros extend at least to the file offset `end`.
    pub(super) fn reaches(&self, end: u64) -> bool {
        end <= self.end
    }

    /// Whether a log of `length` bytes has used up its preallocated space, completely or nearly.
    /// Always false if nothing was preallocated.
    pub(super) fn is_used_up(&self, length: u64) -> bool {
        length + (self.end / LEFT_OVER_PARTS).min(LEFT_OVER_MAX) > self.end && self.end > 0
    }

    /// Whether writes over the preallocated zeros should be made durable by a flush (`fdatasync`)
    /// after the write, rather than by a flag of the write (`RWF_DSYNC`).
    pub(super) fn is_by_flush(&self) -> bool {
        self.shared.durability.is_by_flush()
    }
}

impl Shared {
    /// Measures by which method logs are made durable fastest. On failure, the default method is
    /// kept.
    fn choose_durability(&self, listener: &PreallocationListener) {
        let _ = listener.guard(|| {
            let path = self.temporary()?;
            let _ = self.durability.try_both(&*self.storage, &*self.clock, &path);
            (listener.chosen)(&self.durability);
            Ok(())
        });
    }

    /// Runs the thread's loop, one piece of work at a time.
    fn serve(&self, listener: &PreallocationListener) {
        let mut work = self.work.lock();
        while !work.is_closed {
            if let Some(unfinished) = work.unfinished.take() {
                drop(work);
                let made = listener.guard(|| self.zero_more(unfinished));
                work = self.work.lock();
                match made {
                    Ok(unfinished) if unfinished.zeroed < unfinished.length => {
                        work.unfinished = Some(unfinished)
                    }
                    Ok(unfinished) => work.preallocated = Some(unfinished.path),
                    Err(_) => work.want_shorter(self.block),
                }
            } else if work.preallocated.is_none() && work.is_next_wanted {
                work.is_next_wanted = false;
                let length = work.length;
                drop(work);
                let begun = listener.guard(|| self.begin_file(length));
                work = self.work.lock();
                match begun {
                    Ok(unfinished) => work.unfinished = Some(unfinished),
                    Err(_) => work.want_shorter(self.block),
                }
            } else {
                work = self.wanted.wait(work);
            }
        }
    }

    /// Removes unused preallocated files.
    fn remove_preallocated(&self) {
        let mut work = self.work.lock();
        let paths =
            [work.preallocated.take(), work.unfinished.take().map(|unfinished| unfinished.path)];
        drop(work);
        for path in paths.into_iter().flatten() {
            // If this removal fails, the file is removed when the database is next opened.
            let _ = self.storage.remove(&path);
        }
    }

    /// Creates a preallocated file on the calling thread, which waits until the file is complete.
    fn make(&self, length: u64) -> Result<PathBuf> {
        let mut unfinished = self.begin_file(length)?;
        while unfinished.zeroed < unfinished.length {
            unfinished = self.zero_more(unfinished)?;
        }
        Ok(unfinished.path)
    }

    /// Returns the path of a temporary file that does not exist.
    fn temporary(&self) -> Result<PathBuf> {
        let path = |number| self.directory.join(FileKind::Temporary(number).to_string());
        self.numbers.take_unused(&*self.storage, path).map(|(_, path)| path)
    }

    fn begin_file(&self, length: u64) -> Result<Unfinished> {
        let path = self.temporary()?;
        let mut file = self.storage.create(&path, Create::New, IoMode::Direct, Purpose::Wal)?;
        let piece = length.min(PIECE_MAX) as usize;
        let mut zeros = AlignedBuffer::with_capacity(piece);
        zeros.set_length(piece);
        match file.allocate(0, length) {
            Ok(()) => Ok(Unfinished { path, file, zeros, zeroed: 0, length }),
            Err(error) => self.give_up(&path, error),
        }
    }

    /// Writes zeros to a piece of a preallocated file. After the last piece the file is synced.
    fn zero_more(&self, unfinished: Unfinished) -> Result<Unfinished> {
        let Unfinished { path, mut file, mut zeros, zeroed, length } = unfinished;
        let end = length.min(zeroed + PIECE_MAX);
        zeros.set_length((end - zeroed) as usize);
        let mut written = file.write_all_at(&zeros, zeroed, Purpose::Wal);
        if end == length {
            written = written.and_then(|()| file.sync_data(Purpose::Wal));
        }
        match written {
            Ok(()) => Ok(Unfinished { path, file, zeros, zeroed: end, length }),
            Err(error) => self.give_up(&path, error),
        }
    }

    fn give_up<T>(&self, path: &Path, error: tailwater_io::Error) -> Result<T> {
        // If this removal fails, the file is removed when the database is next opened.
        let _ = self.storage.remove(path);
        Err(error.into())
    }
}

impl PreallocationListener {
    /// Runs a piece of the thread's work. A panic in it is reported and returned as an error.
    fn guard<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        let done = panics::catch("preallocating logs", work);
        if let Err(error) = &done
            && error.kind() == ErrorKind::Panicked
        {
            (self.panicked)(error.clone());
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use tailwater_io::Operation;
    use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};

    use super::*;

    const BLOCK: u64 = 64 << 10;
    const MAX: u64 = 16 * BLOCK;

    fn preallocator(disk: &SimStorage) -> Preallocator {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let (durability, clock) = (Arc::default(), disk.clock());
        let numbers = FileNumbers::starting_at(7);
        Preallocator::new(storage, "/".into(), numbers, BLOCK, durability, clock)
    }

    fn nobody() -> PreallocationListener {
        PreallocationListener {
            chosen: Box::new(|_| ()),
            panicked: Box::new(|error| panic!("{error}")),
        }
    }

    fn names(disk: &SimStorage) -> Vec<String> {
        let entries = disk.list("/".as_ref()).unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    }

    fn length(disk: &SimStorage, path: &Path) -> u64 {
        disk.metadata(path).unwrap().length
    }

    #[test]
    fn a_preallocated_file_is_zeros_on_the_device() {
        let disk = SimStorage::new(1);
        let preallocated = preallocator(&disk).take(Ended::default(), MAX).unwrap();
        assert_eq!(names(&disk), ["000007.dbtmp"]);
        disk.sync_directory("/".as_ref()).unwrap();
        for seed in 0..20 {
            assert_eq!(length(&disk.crash_image(seed), &preallocated), BLOCK, "seed {seed}");
        }
    }

    /// Waits until the thread has made a preallocated file, and takes the file.
    fn take_made(preallocator: &Preallocator, before: Ended) -> PathBuf {
        while preallocator.shared.work.lock().preallocated.is_none() {
            std::thread::yield_now();
        }
        assert!(preallocator.has_preallocated());
        preallocator.take(before, MAX).unwrap()
    }

    fn ended(length: u64, is_used_up: bool) -> Ended {
        Ended { length, is_used_up }
    }

    #[test]
    fn preallocated_lengths_follow_the_logs() {
        let disk = SimStorage::new(1);
        let mut preallocator = preallocator(&disk);
        preallocator.start(nobody()).unwrap();
        let first = preallocator.take(ended(3 * BLOCK - 1, false), MAX).unwrap();
        assert_eq!(length(&disk, &first), BLOCK);
        let mut lengths = Vec::new();
        for before in [
            ended(3 * BLOCK - 5, true),
            ended(6 * BLOCK - 5, true),
            ended(2 * BLOCK, false),
            ended(2 * BLOCK, false),
            ended(9 * BLOCK, true),
            ended(0, false),
        ] {
            lengths.push(length(&disk, &take_made(&preallocator, before)) / BLOCK);
        }
        assert_eq!(lengths, [3, 12, 16, 14, 13, 16], "the length follows the previous log");
        preallocator.close();
        assert_eq!(names(&disk).len(), 7, "only taken files remain");
    }

    #[test]
    fn a_span_counts_as_used_up_shortly_before_its_end() {
        let disk = SimStorage::new(1);
        let preallocator = preallocator(&disk);
        for (end, from) in [(BLOCK, BLOCK - 4096), (16 << 20, (16 << 20) - LEFT_OVER_MAX)] {
            let span = preallocator.zeroed_span(end);
            assert!(span.reaches(end) && !span.reaches(end + 1));
            assert!(!span.is_used_up(from) && span.is_used_up(from + 1));
        }
        assert!(
            !preallocator.zeroed_span(0).is_used_up(0),
            "otherwise each log would be switched immediately"
        );
    }

    #[test]
    fn a_full_disk_shortens_the_preallocated_file() {
        let disk = SimStorage::new(1);
        let mut preallocator = preallocator(&disk);
        preallocator.take(ended(MAX, false), MAX).unwrap();
        let full = FaultRule::new(Fault::NoSpace).operation(Operation::Allocate).at(0);
        disk.set_faults(FaultPlan::none().with(full));
        preallocator.start(nobody()).unwrap();
        let short = take_made(&preallocator, Ended::default());
        assert_eq!(length(&disk, &short), BLOCK);
    }

    #[test]
    fn without_space_no_file_is_preallocated() {
        for has_thread in [false, true] {
            let disk = SimStorage::new(1);
            let mut preallocator = preallocator(&disk);
            let full = FaultRule::new(Fault::NoSpace).operation(Operation::Write).from(0);
            disk.set_faults(FaultPlan::none().with(full));
            if has_thread {
                preallocator.start(nobody()).unwrap();
            }
            assert!(preallocator.take(ended(4 * BLOCK, false), MAX).is_none());
            while has_thread && preallocator.shared.work.lock().is_next_wanted {
                std::thread::yield_now();
            }
            assert!(preallocator.take(ended(4 * BLOCK, false), MAX).is_none());
            preallocator.close();
            assert_eq!(names(&disk), [""; 0], "no unfinished file remains");
        }
    }
}
