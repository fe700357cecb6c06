//! System calls of Linux.
#![expect(
    unsafe_code,
    reason = "rustix has no safe wrapper for sync_file_range, cachestat and F_OFD_SETLK"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::buffer::{ALIGNMENT, MAX_ALIGNMENT};
use crate::descriptors::with_relief;
use crate::purpose::IoMode;
use crate::storage::DirectIo;

// Numbers that identify the type of a filesystem in the result of `statfs`.
const EXT4: u32 = 0xEF53;
const XFS: u32 = 0x5846_5342;
const BTRFS: u32 = 0x9123_683E;
const F2FS: u32 = 0xF2F5_2010;

/// Opens the file at `path`. `permissions` are those of the file if it is created, from which the
/// process's umask is subtracted. If the filesystem refuses direct I/O, the error is of kind
/// `Unsupported` and names the filesystem.
pub(crate) fn open(
    path: &Path,
    flags: OFlags,
    mode: IoMode,
    permissions: Mode,
) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    if mode != IoMode::Direct {
        return Ok(with_relief(|| rustix::fs::open(path, flags, permissions))?);
    }
    match with_relief(|| rustix::fs::open(path, flags | OFlags::DIRECT, permissions)) {
        Ok(descriptor) => Ok(descriptor),
        Err(Errno::INVAL) => {
            // Linux creates a file before it checks whether the filesystem supports direct I/O.
            // With O_EXCL this call created the file, so the file can be removed. Even if the
            // removal fails, the error to return is that direct I/O is refused.
            if flags.contains(OFlags::EXCL) {
                let _ = rustix::fs::unlink(path);
            }
            Err(direct_refused(path))
        }
        Err(error) => Err(error.into()),
    }
}

#[cold]
fn direct_refused(path: &Path) -> io::Error {
    let filesystem = filesystem_name(path);
    let text = format!("{filesystem} refuses direct I/O (O_DIRECT); use buffered I/O there");
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// Returns what the filesystem reports about direct I/O on the file at `path`, from
/// `STATX_DIOALIGN` (Linux 6.1).
pub(super) fn direct_io(path: &Path) -> io::Result<DirectIo> {
    use rustix::fs::{AtFlags, CWD, statx};
    let status = statx(CWD, path, AtFlags::empty(), wanted_of_direct_io())?;
    Ok(said_of_direct_io(&status))
}

fn wanted_of_direct_io() -> rustix::fs::StatxFlags {
    rustix::fs::StatxFlags::TYPE | rustix::fs::StatxFlags::DIOALIGN
}

fn said_of_direct_io(status: &rustix::fs::Statx) -> DirectIo {
    use rustix::fs::{FileType, StatxFlags};
    let is_file = FileType::from_raw_mode(status.stx_mode.into()) == FileType::RegularFile;
    let said = StatxFlags::from_bits_retain(status.stx_mask).contains(StatxFlags::DIOALIGN);
    match status.stx_dio_mem_align.max(status.stx_dio_offset_align) {
        _ if !is_file || !said => DirectIo::Unknown,
        0 => DirectIo::Refused,
        alignment => DirectIo::Aligned(alignment),
    }
}

/// Returns the alignment of direct I/O on an open file, in bytes. If the file requires an alignment
/// that buffers cannot have, the error is of kind `Unsupported`.
pub(super) fn alignment(descriptor: BorrowedFd<'_>) -> io::Result<usize> {
    use rustix::fs::{AtFlags, statx};
    match statx(descriptor, "", AtFlags::EMPTY_PATH, wanted_of_direct_io()) {
        Ok(status) => usable_alignment(said_of_direct_io(&status)),
        // Some sandboxes forbid `statx`, because they know only older system calls.
        Err(_) => Ok(ALIGNMENT),
    }
}

fn usable_alignment(said: DirectIo) -> io::Result<usize> {
    // If the filesystem reports no alignment, the default is used: opening the file for direct I/O
    // succeeded, so direct I/O is supported.
    let DirectIo::Aligned(reported) = said else { return Ok(ALIGNMENT) };
    let reported = reported as usize;
    if reported > MAX_ALIGNMENT || !reported.is_power_of_two() {
        let text = format!("this filesystem requires {reported}-byte alignment for direct I/O");
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    Ok(reported.max(ALIGNMENT))
}

/// Returns the name of a filesystem type as `mount` prints it. The numbers come from Linux's
/// `include/uapi/linux/magic.h`.
pub(super) fn filesystem_name(path: &Path) -> String {
    let there = rustix::fs::statfs(path).or_else(|error| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => rustix::fs::statfs(parent),
        Some(_) => rustix::fs::statfs("."),
        None => Err(error),
    });
    let Ok(there) = there else { return "the filesystem".to_owned() };
    let name = match there.f_type as u32 {
        EXT4 => "ext4",
        XFS => "xfs",
        BTRFS => "btrfs",
        0x2FC1_2FC1 => "zfs",
        F2FS => "f2fs",
        0x0102_1994 => "tmpfs",
        0x8584_58F6 => "ramfs",
        0x794C_7630 => "overlay",
        0x6573_5546 => "fuse",
        0x0000_6969 => "nfs",
        0x0102_1997 => "9p",
        0x0000_9FA0 => "proc",
        number => return format!("the filesystem (type {number:#x})"),
    };
    name.to_owned()
}

/// Makes a file's bytes durable, and the metadata that is needed to read them, such as its length.
pub(crate) fn sync_data(descriptor: BorrowedFd<'_>) -> rustix::io::Result<()> {
    rustix::fs::fdatasync(descriptor)
}

/// Makes a file's bytes and all its metadata durable.
pub(super) fn sync_all(descriptor: BorrowedFd<'_>) -> rustix::io::Result<()> {
    rustix::fs::fsync(descriptor)
}

/// Reserves blocks for a span of a file without changing the file's length. Does nothing if the
/// filesystem does not support this.
pub(super) fn allocate(descriptor: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    if length == 0 {
        return Ok(());
    }
    match retry_on_intr(|| fallocate(descriptor, FallocateFlags::KEEP_SIZE, offset, length)) {
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Starts writeback of the dirty pages of a span of a file, without waiting.
pub(super) fn start_writeback(
    descriptor: BorrowedFd<'_>,
    offset: u64,
    length: u64,
) -> io::Result<()> {
    sync_span(descriptor, offset, length, libc::SYNC_FILE_RANGE_WRITE)
}

/// Writes back the dirty pages of a span of a file, and waits until they have been written. This is
/// not a sync: the device may still hold the bytes in its volatile cache.
pub(super) fn finish_writeback(
    descriptor: BorrowedFd<'_>,
    offset: u64,
    length: u64,
) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    sync_span(descriptor, offset, length, flags)
}

fn sync_span(
    descriptor: BorrowedFd<'_>,
    offset: u64,
    length: u64,
    flags: libc::c_uint,
) -> io::Result<()> {
    // To the kernel, a length of zero would mean "to the end of the file".
    if length == 0 {
        return Ok(());
    }
    let out_of_range = |_| io::Error::from(Errno::INVAL);
    let offset = i64::try_from(offset).map_err(out_of_range)?;
    let length = i64::try_from(length).map_err(out_of_range)?;
    loop {
        // SAFETY: the call accesses no memory of this process, and the borrowed descriptor is open
        // during the call.
        let answer =
            unsafe { libc::sync_file_range(descriptor.as_raw_fd(), offset, length, flags) };
        if answer == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Advises the kernel to drop the clean pages of a span from the page cache. A length of zero means
/// "to the end of the file". A failure is ignored.
pub(super) fn drop_pages(descriptor: BorrowedFd<'_>, offset: u64, length: u64) {
    use std::num::NonZeroU64;
    let advice = rustix::fs::Advice::DontNeed;
    let _ = rustix::fs::fadvise(descriptor, offset, NonZeroU64::new(length), advice);
}

/// Advises the kernel not to read ahead in a file.
pub(super) fn advise_random(descriptor: BorrowedFd<'_>) {
    let _ = rustix::fs::fadvise(descriptor, 0, None, rustix::fs::Advice::Random);
}

/// Flag for reads and writes of [`IoMode::Uncached`], since Linux 6.14 (`include/uapi/linux/fs.h`).
pub(crate) const RWF_DONTCACHE: u32 = 0x80;

const UNCACHED: rustix::io::ReadWriteFlags =
    rustix::io::ReadWriteFlags::from_bits_retain(RWF_DONTCACHE);

/// Returns an error for the offset -1, which `preadv2` and `pwritev2` interpret as the file's
/// current position.
fn refuse_no_offset(offset: u64) -> rustix::io::Result<()> {
    if offset == u64::MAX { Err(Errno::INVAL) } else { Ok(()) }
}

/// Reads bytes through the page cache. Pages that the read adds to the cache are dropped again.
pub(super) fn read_uncached(
    descriptor: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: u64,
) -> rustix::io::Result<usize> {
    let buffers = &mut [io::IoSliceMut::new(buffer)];
    refuse_no_offset(offset)?;
    rustix::io::preadv2(descriptor, buffers, offset, UNCACHED)
}

/// Writes bytes through the page cache. Pages that the write adds to the cache are dropped after
/// writeback.
pub(super) fn write_uncached(
    descriptor: BorrowedFd<'_>,
    bytes: &[u8],
    offset: u64,
) -> rustix::io::Result<usize> {
    refuse_no_offset(offset)?;
    rustix::io::pwritev2(descriptor, &[io::IoSlice::new(bytes)], offset, UNCACHED)
}

/// Takes the exclusive lock on the whole of an open file, without waiting.
pub(super) fn lock(descriptor: BorrowedFd<'_>) -> rustix::io::Result<()> {
    set_lock(descriptor, libc::F_WRLCK)
}

/// Releases the lock on an open file.
pub(super) fn unlock(descriptor: BorrowedFd<'_>) -> rustix::io::Result<()> {
    set_lock(descriptor, libc::F_UNLCK)
}

/// Returns whether another open file description or process has a lock on this file.
pub(super) fn is_locked(descriptor: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    let mut lock = whole_file(libc::F_WRLCK);
    lock_call(descriptor, libc::F_OFD_GETLK, &mut lock)?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

fn set_lock(descriptor: BorrowedFd<'_>, kind: libc::c_int) -> rustix::io::Result<()> {
    lock_call(descriptor, libc::F_OFD_SETLK, &mut whole_file(kind))
}

fn whole_file(kind: libc::c_int) -> libc::flock {
    // SAFETY: the struct is plain data, for which all zeros are a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

fn lock_call(
    descriptor: BorrowedFd<'_>,
    call: libc::c_int,
    lock: &mut libc::flock,
) -> rustix::io::Result<()> {
    // SAFETY: the struct and the borrowed descriptor live as long as the call.
    let answer = unsafe { libc::fcntl(descriptor.as_raw_fd(), call, std::ptr::from_mut(lock)) };
    match answer {
        -1 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(()),
    }
}

/// Returns whether the filesystem of a file is known to honour `RWF_DSYNC`. FUSE does not honour it
/// if the FUSE server requests direct I/O (`FOPEN_DIRECT_IO`): the write succeeds, but the flag
/// does not reach the server.
pub(super) fn has_durable_writes(descriptor: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(descriptor)
        .is_ok_and(|there| matches!(there.f_type as u32, EXT4 | XFS | BTRFS | F2FS))
}

/// Maximum number of buffers in one vectored write (`IOV_MAX`).
pub(super) const VECTOR_MAX: usize = 1024;

/// Writes `parts` one after the other to the file, beginning at `offset`. If `is_durable`, the
/// bytes are durable when the call returns. Returns the number of bytes written, which may be lower
/// than the total.
pub(super) fn write_vectored(
    descriptor: BorrowedFd<'_>,
    parts: &[io::IoSlice<'_>],
    offset: u64,
    is_durable: bool,
) -> rustix::io::Result<usize> {
    refuse_no_offset(offset)?;
    let flags = if is_durable {
        rustix::io::ReadWriteFlags::DSYNC
    } else {
        rustix::io::ReadWriteFlags::empty()
    };
    rustix::io::pwritev2(descriptor, parts, offset, flags)
}

/// Writes bytes that are durable when the call returns (`RWF_DSYNC`, Linux 4.7). Returns the number
/// of bytes written.
pub(super) fn write_durably(
    descriptor: BorrowedFd<'_>,
    bytes: &[u8],
    offset: u64,
) -> rustix::io::Result<usize> {
    refuse_no_offset(offset)?;
    let flags = rustix::io::ReadWriteFlags::DSYNC;
    rustix::io::pwritev2(descriptor, &[io::IoSlice::new(bytes)], offset, flags)
}

/// Returns the number of pages of a span of a file that are in the page cache (`cachestat`, Linux
/// 6.5). A length of zero means "to the end of the file". `None` if the kernel lacks or forbids the
/// call.
pub(super) fn resident_pages(
    descriptor: BorrowedFd<'_>,
    offset: u64,
    length: u64,
) -> io::Result<Option<u64>> {
    /// The number of the system call `cachestat`, which is the same on every architecture.
    const CACHESTAT: libc::c_long = 451;
    // The fields of `struct cachestat_range`.
    let range = [offset, length];
    // The fields of `struct cachestat`: the numbers of pages that are cached, dirty, under
    // writeback, evicted and recently evicted.
    let mut counts = [0_u64; 5];
    // SAFETY: both arrays have the sizes of the kernel's structs, and live as long as the call. So
    // does the borrowed descriptor.
    let answer = unsafe {
        libc::syscall(CACHESTAT, descriptor.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0)
    };
    if answer == 0 {
        return Ok(Some(counts[0]));
    }
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => Ok(None),
        error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        error => Err(error),
    }
}

/// Returns a reason if direct writes on this filesystem lose data under the running kernel. They do
/// on ext4 in Linux 6.1.64 and 6.1.65 (Debian bug 1057843).
pub(super) fn direct_write_fault(filesystem: &str) -> Option<&'static str> {
    let system = rustix::system::uname();
    let texts = [system.release(), system.version()].map(|text| text.to_str().unwrap_or_default());
    // Debian's kernel releases are named 6.1.0-N. The full version text also contains the number of
    // the Linux release.
    let mut words = texts.iter().flat_map(|text| text.split_whitespace());
    (filesystem == "ext4" && words.any(loses_direct_writes))
        .then_some("direct writes to ext4 lose data under Linux 6.1.64 and 6.1.65")
}

fn loses_direct_writes(word: &str) -> bool {
    let mut numbers = word.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(std::result::Result::ok);
    matches!((next(), next(), next()), (Some(6), Some(1), Some(64..66)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: on a FUSE mount whose server requests direct I/O, writes with `RWF_DSYNC`
    /// were taken to be durable, but were not.
    #[test]
    fn durable_writes_are_used_only_on_known_filesystems() {
        use std::os::fd::AsFd;
        let file =
            open(Path::new("/proc/self/stat"), OFlags::RDONLY, IoMode::Buffered, Mode::empty());
        let file = file.expect("a file");
        assert!(!has_durable_writes(file.as_fd()));
        let directory = tempfile::tempdir().expect("a directory");
        let file = tempfile::tempfile_in(directory.path()).expect("a file");
        let is_known =
            ["ext4", "xfs", "btrfs", "f2fs"].contains(&&*filesystem_name(directory.path()));
        assert_eq!(has_durable_writes(file.as_fd()), is_known);
    }

    #[test]
    fn kernels_that_lose_direct_writes_are_known() {
        for release in ["6.1.64", "6.1.65-1-amd64", "6.1.64+deb12"] {
            assert!(loses_direct_writes(release), "{release}");
        }
        for release in ["6.1.63", "6.1.66", "6.1.0-14-amd64", "6.18.5", "5.1.64", "#1", "SMP"] {
            assert!(!loses_direct_writes(release), "{release}");
        }
    }
    #[test]
    fn an_alignment_is_never_below_4096_and_one_that_no_buffer_has_is_refused() {
        let usable = |reported| usable_alignment(DirectIo::Aligned(reported)).ok();
        assert_eq!([512, 4096, 16_384, 65_536].map(usable), [4096, 4096, 16_384, 65_536].map(Some));
        assert_eq!([131_072, 12_288].map(usable), [None; 2]);
        assert_eq!(usable_alignment(DirectIo::Unknown).ok(), Some(4096));
    }
}
