//! Preallocated space for direct logs: files of zeros that are on the device before a log needs
//! them.
//!
//! A synced write over bytes that were written before is one write of the device. Over space that
//! is only allocated, or past the end of the file, it also waits for the filesystem's metadata. So
//! a direct log begins in a file of zeros, a *spare*, and when that is used up, the next log begins
//! in another. A thread makes the next spare meanwhile; without the thread, the beginning of a log
//! makes it.
//!
//! Zeros are never added to a file that is already a log: its writers would wait for the metadata
//! of the zeros. Measured (docs/benchmarks.md).
//!
//! # Order
//!
//! 1. A spare is created under a temporary name, zeroed and synced. Its length follows that of
//!    recent logs.
//! 2. A log begins by renaming a spare and syncing the directory ([`super::log_file`]).
//! 3. When the log ends, the remaining zeros are cut off.
//!
//! A crash at any step leaves a temporary file, which the next opening removes, or a log with zeros
//! at its end, which replay skips.
//!
//! The file of an unneeded log is removed like any other, not zeroed and reused: a read-only opener
//! may be reading it. Only `recycle_log_file_num` reuses log files, as in RocksDB, and those do not
//! use this module.
//!
//! Where there is no disk space for zeros, or they are used up before the next spare is ready, logs
//! are appended to, and each sync includes metadata.

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

/// Maximum number of zeros written in one request, in bytes.
const PIECE_MAX: u64 = 64 << 10;
/// A log has used its space up when less is left than 1/LEFT_OVER_PARTS of it and than
/// LEFT_OVER_MAX bytes: a group that exceeds the space waits for metadata.
const LEFT_OVER_PARTS: u64 = 16;
const LEFT_OVER_MAX: u64 = 64 << 10;
/// Length of a new spare, as a multiple of the last log's length, if that log used up its space.
const GROWTH: u64 = 4;

/// Callbacks about the thread that makes space.
pub(crate) struct SpaceListener {
    /// Called when the way logs become durable was chosen.
    pub(crate) chosen: Box<dyn Fn(&LogDurability) + Send>,
    /// Called when the thread panics.
    pub(crate) panicked: Box<dyn Fn(Error) + Send>,
}

/// Makes space for the logs of one database.
pub(super) struct LogSpace {
    shared: Arc<SpareMaker>,
    thread: Option<Thread>,
}

struct SpareMaker {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    numbers: FileNumbers,
    /// Spares are multiples of this length in bytes, which is not 0.
    block: u64,
    /// Chosen when the thread starts.
    durability: Arc<LogDurability>,
    clock: Arc<dyn Clock>,
    work: Mutex<Work>,
    /// Notified when there is work.
    wanted: Condvar,
}

#[derive(Default)]
struct Work {
    /// A finished spare, under a temporary name.
    spare: Option<PathBuf>,
    /// A spare that is being zeroed.
    making: Option<Making>,
    /// Current length of new spares, in bytes.
    length: u64,
    /// Whether to begin another spare.
    is_wanted: bool,
    /// Whether the thread was started.
    has_thread: bool,
    is_closed: bool,
}

impl Work {
    /// Notes that a spare did not fit on the disk. If it had the minimum length, the next attempt
    /// is made when a log begins.
    fn want_less(&mut self, block: u64) {
        self.is_wanted = self.length > block;
        self.length = block;
    }
}

/// An unfinished spare.
struct Making {
    path: PathBuf,
    file: Box<dyn WriteFile>,
    zeros: AlignedBuffer,
    zeroed: u64,
    length: u64,
}

/// How the previous log ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ended {
    /// Its length in bytes.
    pub(super) length: u64,
    /// Whether it ended because its zeros were used up.
    pub(super) is_used_up: bool,
}

impl LogSpace {
    /// Creates space for logs in `directory`, in multiples of `block` bytes.
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        directory: PathBuf,
        numbers: FileNumbers,
        block: u64,
        durability: Arc<LogDurability>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let shared = SpareMaker {
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

    /// Starts the thread, which first measures how logs are best made durable and then makes space.
    /// If it panics there are no spares, as if the disk were full.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub(super) fn start(&mut self, listener: SpaceListener) -> Result<()> {
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

    /// Takes a spare to begin a log in; `None` if there is no disk space for one. The log `before`
    /// determines the length of the next spare: at least a block, otherwise at most `max` bytes.
    pub(super) fn take(&self, before: Ended, max: u64) -> Option<PathBuf> {
        let shared = &self.shared;
        let mut work = shared.work.lock();
        let spare = work.spare.take();
        // Grows fast until a spare is long enough, and shrinks slowly: logs differ.
        let length = match before.is_used_up {
            true => before.length * GROWTH,
            false => before.length.max(work.length / 8 * 7),
        };
        work.length = length.min(max).next_multiple_of(shared.block).max(shared.block);
        work.is_wanted = true;
        drop(work);
        shared.wanted.notify_all();
        spare.or_else(|| shared.make(shared.block).ok())
    }

    /// Whether a spare can be taken without a long wait.
    pub(super) fn has_spare(&self) -> bool {
        let work = self.shared.work.lock();
        work.spare.is_some() || !work.has_thread
    }

    /// Returns the space of a log whose file was already written up to `end`, in bytes.
    pub(super) fn room(&self, end: u64) -> Room {
        Room { shared: Arc::clone(&self.shared), end }
    }

    /// Ends the thread and removes unused spares.
    pub(super) fn close(&mut self) {
        self.shared.work.lock().is_closed = true;
        self.shared.wanted.notify_all();
        drop(self.thread.take());
        self.shared.remove_spares();
    }
}

impl Drop for LogSpace {
    fn drop(&mut self) {
        self.close();
    }
}

/// The space of one log.
pub(super) struct Room {
    shared: Arc<SpareMaker>,
    /// Length of the file that was written before the log began, in bytes.
    end: u64,
}

impl Room {
    /// Whether the space extends to `end`, in bytes.
    pub(super) fn reaches(&self, end: u64) -> bool {
        end <= self.end
    }

    /// Whether a log of `length` bytes has used it up, or nearly so. Empty space is never used up.
    pub(super) fn is_used_up(&self, length: u64) -> bool {
        length + (self.end / LEFT_OVER_PARTS).min(LEFT_OVER_MAX) > self.end && self.end > 0
    }

    /// Whether writes to it are best made durable by flushes.
    pub(super) fn is_by_flush(&self) -> bool {
        self.shared.durability.is_by_flush()
    }
}

impl SpareMaker {
    /// Measures how logs are best made durable. If that fails, the default stays.
    fn choose_durability(&self, listener: &SpaceListener) {
        let path = self.temporary();
        let _ = listener.guard(|| {
            let _ = self.durability.try_both(&*self.storage, &*self.clock, &path);
            (listener.chosen)(&self.durability);
            Ok(())
        });
    }

    /// The thread's loop, one piece of work at a time.
    fn serve(&self, listener: &SpaceListener) {
        let mut work = self.work.lock();
        while !work.is_closed {
            if let Some(making) = work.making.take() {
                drop(work);
                let made = listener.guard(|| self.make_more(making));
                work = self.work.lock();
                match made {
                    Ok(making) if making.zeroed < making.length => work.making = Some(making),
                    Ok(making) => work.spare = Some(making.path),
                    Err(_) => work.want_less(self.block),
                }
            } else if work.spare.is_none() && work.is_wanted {
                work.is_wanted = false;
                let length = work.length;
                drop(work);
                let begun = listener.guard(|| self.begin_making(length));
                work = self.work.lock();
                match begun {
                    Ok(making) => work.making = Some(making),
                    Err(_) => work.want_less(self.block),
                }
            } else {
                work = self.wanted.wait(work);
            }
        }
    }

    /// Removes unused spares.
    fn remove_spares(&self) {
        let mut work = self.work.lock();
        let paths = [work.spare.take(), work.making.take().map(|making| making.path)];
        drop(work);
        for path in paths.into_iter().flatten() {
            // A file that stays is removed by the next open.
            let _ = self.storage.remove(&path);
        }
    }

    /// Makes a spare at once.
    fn make(&self, length: u64) -> Result<PathBuf> {
        let mut making = self.begin_making(length)?;
        while making.zeroed < making.length {
            making = self.make_more(making)?;
        }
        Ok(making.path)
    }

    /// Returns an unused temporary name.
    fn temporary(&self) -> PathBuf {
        self.directory.join(FileKind::Temporary(self.numbers.take()).to_string())
    }

    fn begin_making(&self, length: u64) -> Result<Making> {
        let path = self.temporary();
        let mut file = self.storage.create(&path, Create::New, IoMode::Direct, Purpose::Wal)?;
        let piece = length.min(PIECE_MAX) as usize;
        let mut zeros = AlignedBuffer::with_capacity(piece);
        zeros.set_length(piece);
        match file.allocate(0, length) {
            Ok(()) => Ok(Making { path, file, zeros, zeroed: 0, length }),
            Err(error) => self.give_up(&path, error),
        }
    }

    /// Writes one piece of a spare; after the last one the spare is synced.
    fn make_more(&self, making: Making) -> Result<Making> {
        let Making { path, mut file, mut zeros, zeroed, length } = making;
        let end = length.min(zeroed + PIECE_MAX);
        zeros.set_length((end - zeroed) as usize);
        let mut written = file.write_all_at(&zeros, zeroed, Purpose::Wal);
        if end == length {
            written = written.and_then(|()| file.sync_data(Purpose::Wal));
        }
        match written {
            Ok(()) => Ok(Making { path, file, zeros, zeroed: end, length }),
            Err(error) => self.give_up(&path, error),
        }
    }

    fn give_up<T>(&self, path: &Path, error: tailwater_io::Error) -> Result<T> {
        // A file that stays is removed by the next open.
        let _ = self.storage.remove(path);
        Err(error.into())
    }
}

impl SpaceListener {
    /// Runs a piece of the thread's work, and reports a panic.
    fn guard<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        let done = panics::catch("making space for logs", work);
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

    fn space(disk: &SimStorage) -> LogSpace {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let (durability, clock) = (Arc::default(), disk.clock());
        let numbers = FileNumbers::starting_at(7);
        LogSpace::new(storage, "/".into(), numbers, BLOCK, durability, clock)
    }

    fn nobody() -> SpaceListener {
        SpaceListener { chosen: Box::new(|_| ()), panicked: Box::new(|error| panic!("{error}")) }
    }

    fn names(disk: &SimStorage) -> Vec<String> {
        let entries = disk.list("/".as_ref()).unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    }

    fn length(disk: &SimStorage, path: &Path) -> u64 {
        disk.metadata(path).unwrap().length
    }

    #[test]
    fn a_spare_is_zeros_on_the_device() {
        let disk = SimStorage::new(1);
        let spare = space(&disk).take(Ended::default(), MAX).unwrap();
        assert_eq!(names(&disk), ["000007.dbtmp"]);
        disk.sync_directory("/".as_ref()).unwrap();
        for seed in 0..20 {
            assert_eq!(length(&disk.crash_image(seed), &spare), BLOCK, "seed {seed}");
        }
    }

    /// Takes a spare once the thread has made it.
    fn take_made(space: &LogSpace, before: Ended) -> PathBuf {
        while space.shared.work.lock().spare.is_none() {
            std::thread::yield_now();
        }
        assert!(space.has_spare());
        space.take(before, MAX).unwrap()
    }

    fn ended(length: u64, is_used_up: bool) -> Ended {
        Ended { length, is_used_up }
    }

    #[test]
    fn spares_become_as_long_as_logs() {
        let disk = SimStorage::new(1);
        let mut space = space(&disk);
        space.start(nobody()).unwrap();
        let first = space.take(ended(3 * BLOCK - 1, false), MAX).unwrap();
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
            lengths.push(length(&disk, &take_made(&space, before)) / BLOCK);
        }
        assert_eq!(lengths, [3, 12, 16, 14, 13, 16], "a spare is of the log before");
        space.close();
        assert_eq!(names(&disk).len(), 7, "only those that were taken are left");
    }

    #[test]
    fn space_is_used_up_before_its_end() {
        let disk = SimStorage::new(1);
        let space = space(&disk);
        for (end, from) in [(BLOCK, BLOCK - 4096), (16 << 20, (16 << 20) - LEFT_OVER_MAX)] {
            let room = space.room(end);
            assert!(room.reaches(end) && !room.reaches(end + 1));
            assert!(!room.is_used_up(from) && room.is_used_up(from + 1));
        }
        assert!(!space.room(0).is_used_up(0), "else each log would be followed by another at once");
    }

    #[test]
    fn where_no_long_spare_fits_a_short_one_is_made() {
        let disk = SimStorage::new(1);
        let mut space = space(&disk);
        space.take(ended(MAX, false), MAX).unwrap();
        let full = FaultRule::new(Fault::NoSpace).operation(Operation::Allocate).at(0);
        disk.set_faults(FaultPlan::none().with(full));
        space.start(nobody()).unwrap();
        let short = take_made(&space, Ended::default());
        assert_eq!(length(&disk, &short), BLOCK);
    }

    #[test]
    fn without_room_there_is_no_spare() {
        for has_thread in [false, true] {
            let disk = SimStorage::new(1);
            let mut space = space(&disk);
            let full = FaultRule::new(Fault::NoSpace).operation(Operation::Write).from(0);
            disk.set_faults(FaultPlan::none().with(full));
            if has_thread {
                space.start(nobody()).unwrap();
            }
            assert!(space.take(ended(4 * BLOCK, false), MAX).is_none());
            while has_thread && space.shared.work.lock().is_wanted {
                std::thread::yield_now();
            }
            assert!(space.take(ended(4 * BLOCK, false), MAX).is_none());
            space.close();
            assert_eq!(names(&disk), [""; 0], "nothing half made is left");
        }
    }
}
