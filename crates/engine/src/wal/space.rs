//! Space for direct logs: zeros that are on the device before a log needs them.
//!
//! A synced write into space that was written before is one write of the device. Into space that is
//! only allocated, or behind the end of the file, it waits for the filesystem's metadata, too. So a
//! direct log begins in a file of zeros, a *spare*, and has more zeros put behind them before it
//! comes to their end. A thread does both; where there is none, whoever comes to the end does.
//!
//! # Order
//!
//! 1. A spare is made under a temporary name, zeroed and synced. It is as long as the log before
//!    became.
//! 2. A log begins by giving a spare its name and syncing the directory ([`super::log_file`]).
//! 3. The log's file gets space allocated and becomes longer, and then zeros are written in pieces,
//!    each durable before the log counts on it.
//! 4. When the log ends, that stops, and what zeros are left are cut off.
//!
//! A crash at any of these leaves a temporary file, which the next opening removes, or a log with
//! zeros at its end, which replay passes over.
//!
//! The file of a log that nobody needs any more is removed like any other and not zeroed to be used
//! again: somebody who opened the database to read it may be reading it. Only
//! `recycle_log_file_num` has files written over, as it has in RocksDB, and for those this module
//! has no use.
//!
//! Where there is no room for zeros, logs go on without, and with the spare's: they are appended
//! to, and each sync includes metadata.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tailwater_format::file_name::FileKind;
use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::sync::{Condvar, Mutex};
use tailwater_io::thread::{Thread, spawn};
use tailwater_io::{Create, IoMode, Purpose, Storage, WriteFile};

use super::quicker;
use crate::version::FileNumbers;
use crate::{Error, ErrorKind, Result};

/// The most zeros that are written in one request, in bytes.
const PIECE_MAX: u64 = 2 << 20;
/// A log grows by half of what it has, and at most by so many blocks at a time.
const GROWTH_BLOCKS_MAX: u64 = 8;

/// Makes space for the logs of one database.
pub(super) struct LogSpace {
    shared: Arc<Shared>,
    thread: Option<Thread>,
}

struct Shared {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    numbers: FileNumbers,
    /// Space is made in multiples of so many bytes, which is not 0.
    block: u64,
    /// Whether the device is quicker to write and flush than to write durably.
    is_flush_quicker: AtomicBool,
    work: Mutex<Work>,
    /// Something is to be done, or was.
    changed: Condvar,
}

#[derive(Default)]
struct Work {
    /// A file of zeros, under a temporary name, that a log may begin in.
    spare: Option<PathBuf>,
    /// One that is being zeroed.
    making: Option<Making>,
    /// How long the next spare is to be, in bytes; 0 if none is wanted.
    wanted: u64,
    /// The log that wants more zeros, and up to where.
    growth: Option<(Arc<Zeros>, u64)>,
    /// Whether a piece is being written right now.
    is_busy: bool,
    /// Whether there is a thread that does all this.
    has_thread: bool,
    is_closed: bool,
}

/// A spare on its way.
struct Making {
    path: PathBuf,
    file: Box<dyn WriteFile>,
    zeroed: u64,
    length: u64,
}

/// The zeros of one log.
struct Zeros {
    path: PathBuf,
    /// Up to where the file is zeros, or was before the log came, in bytes.
    end: AtomicU64,
    /// Whether there will be no more.
    is_exhausted: AtomicBool,
}

impl Zeros {
    /// Whether there are zeros up to `to`, or no more to come.
    fn is_done(&self, to: u64) -> bool {
        self.end.load(Ordering::Acquire) >= to || self.is_exhausted.load(Ordering::Relaxed)
    }
}

impl LogSpace {
    /// Space for logs in `directory`, in multiples of `block` bytes.
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        directory: PathBuf,
        numbers: FileNumbers,
        block: u64,
    ) -> Self {
        let shared = Shared {
            storage,
            directory,
            numbers,
            block,
            is_flush_quicker: AtomicBool::new(false),
            work: Mutex::default(),
            changed: Condvar::new(),
        };
        Self { shared: Arc::new(shared), thread: None }
    }

    /// Has a thread make space from here on.
    ///
    /// # Errors
    /// The system's, where it has no room for another thread.
    pub(super) fn start(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = spawn("tailwater-wal", move || shared.serve()).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot start a thread of tailwater-wal: {error}"))
        })?;
        self.shared.work.lock().has_thread = true;
        self.thread = Some(thread);
        Ok(())
    }

    /// A file of zeros to begin a log in; `None` where there is no room for one. `length` is how
    /// long the log before became, in bytes: the next spare will be as long.
    pub(super) fn take(&self, length: u64) -> Option<PathBuf> {
        let shared = &self.shared;
        let mut work = shared.work.lock();
        let spare = work.spare.take();
        work.wanted = length.next_multiple_of(shared.block).max(shared.block);
        drop(work);
        shared.changed.notify_all();
        spare.or_else(|| shared.make(shared.block).ok())
    }

    /// The space of the log at `path`, of which `end` bytes were written before.
    pub(super) fn room(&self, path: &Path, end: u64) -> Room {
        let zeros = Zeros {
            path: path.to_owned(),
            end: AtomicU64::new(end),
            is_exhausted: AtomicBool::new(false),
        };
        Room { shared: Arc::clone(&self.shared), zeros: Arc::new(zeros) }
    }

    /// Ends the thread and removes what it has made.
    pub(super) fn close(&mut self) {
        self.shared.work.lock().is_closed = true;
        self.shared.changed.notify_all();
        drop(self.thread.take());
        self.shared.remove_spares();
    }
}

impl Drop for LogSpace {
    fn drop(&mut self) {
        self.close();
    }
}

/// The space of one log. Dropping it ends that no more is made.
pub(super) struct Room {
    shared: Arc<Shared>,
    zeros: Arc<Zeros>,
}

impl Room {
    /// Whether the log's space reaches to `end`, in bytes. Asks for more where it will not for
    /// long, and waits where it does not.
    pub(super) fn reaches(&self, end: u64) -> bool {
        let (shared, zeros) = (&*self.shared, &*self.zeros);
        let there = zeros.end.load(Ordering::Acquire);
        if end + shared.block <= there || zeros.is_exhausted.load(Ordering::Relaxed) {
            return end <= there;
        }
        let mut work = shared.work.lock();
        let growth = (there / 2).clamp(shared.block, GROWTH_BLOCKS_MAX * shared.block);
        let to = (there.max(end) + growth).next_multiple_of(shared.block);
        work.growth = Some((Arc::clone(&self.zeros), to));
        shared.changed.notify_all();
        while !zeros.is_done(end) && !work.is_closed {
            if work.has_thread {
                work = shared.changed.wait(work);
            } else {
                drop(work);
                shared.grow(zeros, to);
                work = shared.work.lock();
            }
        }
        end <= zeros.end.load(Ordering::Acquire)
    }

    /// Whether the device is quicker to write and flush than to write durably. That is found out
    /// when the thread starts, and assumed not to be so before.
    pub(super) fn is_flush_quicker(&self) -> bool {
        self.shared.is_flush_quicker.load(Ordering::Relaxed)
    }

    /// Has nothing more appended to the log's file, and waits until nothing is.
    pub(super) fn close(&self) {
        let mut work = self.shared.work.lock();
        self.zeros.is_exhausted.store(true, Ordering::Relaxed);
        let is_own = |growth: &mut (Arc<Zeros>, u64)| Arc::ptr_eq(&growth.0, &self.zeros);
        work.growth.take_if(is_own);
        while work.is_busy {
            work = self.shared.changed.wait(work);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// What the thread does: a piece at a time, and first what a log waits for.
    fn serve(&self) {
        let path = self.temporary();
        // Where it cannot be found out there is nothing to choose.
        let is_flush = quicker::is_flush(&*self.storage, &path).unwrap_or(false);
        self.is_flush_quicker.store(is_flush, Ordering::Relaxed);
        let mut work = self.work.lock();
        while !work.is_closed {
            if let Some((zeros, to)) = work.growth.clone() {
                work.is_busy = true;
                drop(work);
                self.grow(&zeros, to);
                work = self.work.lock();
                work.is_busy = false;
                // More may have been asked for meanwhile.
                work.growth.take_if(|growth| growth.0.is_done(growth.1));
                self.changed.notify_all();
            } else if let Some(making) = work.making.take() {
                drop(work);
                let made = self.make_more(making);
                work = self.work.lock();
                match made {
                    Ok(making) if making.zeroed < making.length => work.making = Some(making),
                    Ok(making) => work.spare = Some(making.path),
                    // There is no room for it; the next log that begins asks again.
                    Err(_) => {}
                }
            } else if work.spare.is_none() && work.wanted > 0 {
                let length = std::mem::take(&mut work.wanted);
                drop(work);
                let begun = self.begin_making(length);
                work = self.work.lock();
                work.making = begun.ok();
            } else {
                work = self.changed.wait(work);
            }
        }
    }

    /// Puts one piece of zeros behind those of a log, at most up to `to`.
    fn grow(&self, zeros: &Zeros, to: u64) {
        let begin = zeros.end.load(Ordering::Acquire);
        let end = to.min(begin + PIECE_MAX);
        let storage = &*self.storage;
        let opened = storage.create(&zeros.path, Create::Existing, IoMode::Direct, Purpose::Wal);
        let grown = opened.and_then(|mut file| {
            if file.length()? < to {
                // Filesystems let nobody else write a file while one write makes it longer. What
                // is allocated and within its length is written beside others.
                file.allocate(begin, to - begin)?;
                file.truncate(to)?;
            }
            put_zeros(&mut *file, begin, end)
        });
        match grown {
            Ok(()) => zeros.end.store(end, Ordering::Release),
            Err(_) => {
                zeros.is_exhausted.store(true, Ordering::Relaxed);
                self.remove_spares();
            }
        }
    }

    /// Leaves the space of spares to what is written.
    fn remove_spares(&self) {
        let mut work = self.work.lock();
        let paths = [work.spare.take(), work.making.take().map(|making| making.path)];
        drop(work);
        for path in paths.into_iter().flatten() {
            // What stays is removed by the next open.
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

    /// A name that nobody has.
    fn temporary(&self) -> PathBuf {
        self.directory.join(FileKind::Temporary(self.numbers.take()).to_string())
    }

    fn begin_making(&self, length: u64) -> Result<Making> {
        let path = self.temporary();
        let mut file = self.storage.create(&path, Create::New, IoMode::Direct, Purpose::Wal)?;
        match file.allocate(0, length) {
            Ok(()) => Ok(Making { path, file, zeroed: 0, length }),
            Err(error) => self.give_up(&path, error),
        }
    }

    fn make_more(&self, mut making: Making) -> Result<Making> {
        let end = making.length.min(making.zeroed + PIECE_MAX);
        match put_zeros(&mut *making.file, making.zeroed, end) {
            Ok(()) => Ok(Making { zeroed: end, ..making }),
            Err(error) => self.give_up(&making.path, error),
        }
    }

    fn give_up<T>(&self, path: &Path, error: tailwater_io::Error) -> Result<T> {
        // What stays is removed by the next open.
        let _ = self.storage.remove(path);
        Err(error.into())
    }
}

/// Writes zeros, durably. Both ends are multiples of the alignment, and not far apart.
fn put_zeros(file: &mut dyn WriteFile, begin: u64, end: u64) -> tailwater_io::Result<()> {
    let length = (end - begin) as usize;
    let mut zeros = AlignedBuffer::with_capacity(length);
    zeros.set_length(length);
    file.write_durably_at(&zeros, begin, Purpose::Wal)
}

#[cfg(test)]
mod tests {
    use tailwater_io::Operation;
    use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};

    use super::*;

    const BLOCK: u64 = 64 << 10;

    fn space(disk: &SimStorage) -> LogSpace {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        LogSpace::new(storage, "/".into(), FileNumbers::starting_at(7), BLOCK)
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
        let spare = space(&disk).take(0).unwrap();
        assert_eq!(names(&disk), ["000007.dbtmp"]);
        disk.sync_directory("/".as_ref()).unwrap();
        for seed in 0..20 {
            assert_eq!(length(&disk.crash_image(seed), &spare), BLOCK, "seed {seed}");
        }
    }

    #[test]
    fn a_thread_makes_the_next_spare_as_long_as_the_log_before() {
        let disk = SimStorage::new(1);
        let mut space = space(&disk);
        space.start().unwrap();
        let first = space.take(3 * BLOCK - 1).unwrap();
        assert_eq!(length(&disk, &first), BLOCK);
        while space.shared.work.lock().spare.is_none() {
            std::thread::yield_now();
        }
        assert_eq!(length(&disk, &space.take(0).unwrap()), 3 * BLOCK);
        space.close();
        assert_eq!(names(&disk).len(), 2, "only those that were taken are left");
    }

    #[test]
    fn a_log_grows_with_a_thread_and_without() {
        for has_thread in [false, true] {
            let disk = SimStorage::new(1);
            let mut space = space(&disk);
            if has_thread {
                space.start().unwrap();
            }
            let spare = space.take(0).unwrap();
            let room = space.room(&spare, BLOCK);
            assert!(room.reaches(BLOCK / 2));
            assert!(room.reaches(5 * BLOCK + 4096));
            assert!(length(&disk, &spare) >= 5 * BLOCK + 4096);
            room.close();
            let grown = length(&disk, &spare);
            assert!(!room.reaches(grown + 1), "it is closed");
            assert_eq!(length(&disk, &spare), grown);
        }
    }

    /// A log that asked for more zeros while the thread made those that it had asked for before was
    /// forgotten, and waited for ever.
    #[test]
    fn what_is_asked_for_meanwhile_is_made() {
        let disk = SimStorage::new(1);
        let mut space = space(&disk);
        space.start().unwrap();
        for _ in 0..20 {
            let spare = space.take(0).unwrap();
            let room = space.room(&spare, BLOCK);
            for end in (BLOCK..40 * BLOCK).step_by(4096) {
                assert!(room.reaches(end));
            }
        }
    }

    #[test]
    fn what_is_written_gets_the_room_of_a_spare() {
        let disk = SimStorage::new(1);
        let mut space = space(&disk);
        space.start().unwrap();
        let log = space.take(0).unwrap();
        while space.shared.work.lock().spare.is_none() {
            std::thread::yield_now();
        }
        assert_eq!(names(&disk).len(), 2);
        let full = FaultRule::new(Fault::NoSpace).operation(Operation::Write).from(0);
        disk.set_faults(FaultPlan::none().with(full));
        assert!(!space.room(&log, BLOCK).reaches(BLOCK + 4096));
        assert_eq!(names(&disk).len(), 1);
    }

    #[test]
    fn without_room_there_is_no_spare_and_no_growth() {
        let disk = SimStorage::new(1);
        let space = space(&disk);
        let spare = space.take(0).unwrap();
        let room = space.room(&spare, BLOCK);
        let full = FaultRule::new(Fault::NoSpace).operation(Operation::Write).from(0);
        disk.set_faults(FaultPlan::none().with(full));
        assert!(room.reaches(BLOCK));
        assert!(!room.reaches(BLOCK + 4096));
        assert!(space.take(0).is_none());
        assert_eq!(names(&disk), ["000007.dbtmp"], "nothing half made is left");
    }
}
