//! The calls that differ between systems.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "sync_file_range has no safe wrapper in rustix")
)]

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::purpose::IoMode;
use crate::storage::DirectIo;

/// Files are readable by all and writable by their owner, as far as the process's mask lets them.
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);

#[cfg(target_os = "linux")]
const DIRECT: Option<OFlags> = Some(OFlags::DIRECT);
#[cfg(not(target_os = "linux"))]
const DIRECT: Option<OFlags> = None;

/// Opens `path`. Direct I/O that is refused is an error of kind `Unsupported` that names the
/// filesystem.
pub(super) fn open(path: &Path, flags: OFlags, mode: IoMode) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    if mode == IoMode::Buffered {
        return Ok(retry_on_intr(|| rustix::fs::open(path, flags, FILE_MODE))?);
    }
    let Some(direct) = DIRECT else {
        return Err(direct_refused(path));
    };
    match retry_on_intr(|| rustix::fs::open(path, flags | direct, FILE_MODE)) {
        Ok(descriptor) => Ok(descriptor),
        Err(Errno::INVAL) => {
            // Linux makes the file before it looks whether the filesystem can do direct I/O. O_EXCL
            // says that the file was not there before. Where removing it fails too, the refusal is
            // still what matters.
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

/// What the filesystem of a file says of direct I/O (`STATX_DIOALIGN`, Linux 6.1).
#[cfg(target_os = "linux")]
pub(super) fn direct_io(path: &Path) -> io::Result<DirectIo> {
    use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
    let wanted = StatxFlags::TYPE | StatxFlags::DIOALIGN;
    let status = statx(CWD, path, AtFlags::empty(), wanted)?;
    let is_file = FileType::from_raw_mode(status.stx_mode.into()) == FileType::RegularFile;
    let said = StatxFlags::from_bits_retain(status.stx_mask).contains(StatxFlags::DIOALIGN);
    Ok(match status.stx_dio_mem_align.max(status.stx_dio_offset_align) {
        _ if !is_file || !said => DirectIo::Unknown,
        0 => DirectIo::Refused,
        alignment => DirectIo::Aligned(alignment),
    })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn direct_io(_path: &Path) -> io::Result<DirectIo> {
    Ok(DirectIo::Unknown)
}

/// The filesystem's name as `mount` prints it. Numbers are from Linux's
/// `include/uapi/linux/magic.h`.
#[cfg(target_os = "linux")]
pub(super) fn filesystem_name(path: &Path) -> String {
    let there = rustix::fs::statfs(path).or_else(|error| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => rustix::fs::statfs(parent),
        Some(_) => rustix::fs::statfs("."),
        None => Err(error),
    });
    let Ok(there) = there else { return "the filesystem".to_owned() };
    let name = match there.f_type as u32 {
        0xEF53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683E => "btrfs",
        0x2FC1_2FC1 => "zfs",
        0xF2F5_2010 => "f2fs",
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

#[cfg(not(target_os = "linux"))]
pub(super) fn filesystem_name(_path: &Path) -> String {
    "this system".to_owned()
}

/// Makes a file's bytes durable, and of its metadata what it takes to read them.
#[cfg(target_os = "linux")]
pub(super) fn sync_data(descriptor: BorrowedFd<'_>) -> rustix::io::Result<()> {
    rustix::fs::fdatasync(descriptor)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn sync_data(descriptor: BorrowedFd<'_>) -> rustix::io::Result<()> {
    sync_all(descriptor)
}

/// Makes a file's bytes and metadata durable.
#[cfg(not(target_vendor = "apple"))]
pub(super) fn sync_all(descriptor: BorrowedFd<'_>) -> rustix::io::Result<()> {
    rustix::fs::fsync(descriptor)
}

/// Makes a file's bytes and metadata durable: there, fsync alone leaves them in the device's cache.
#[cfg(target_vendor = "apple")]
pub(super) fn sync_all(descriptor: BorrowedFd<'_>) -> rustix::io::Result<()> {
    rustix::fs::fcntl_fullfsync(descriptor)
}

/// Reserves blocks without changing the file's length. A filesystem that cannot is left as it is.
#[cfg(target_os = "linux")]
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

#[cfg(not(target_os = "linux"))]
pub(super) fn allocate(_descriptor: BorrowedFd<'_>, _offset: u64, _length: u64) -> io::Result<()> {
    Ok(())
}

/// Starts writing back dirty pages of a span.
#[cfg(target_os = "linux")]
pub(super) fn start_writeback(
    descriptor: BorrowedFd<'_>,
    offset: u64,
    length: u64,
) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // The kernel takes a length of zero for "to the end of the file".
    if length == 0 {
        return Ok(());
    }
    let out_of_range = |_| io::Error::from(Errno::INVAL);
    let offset = i64::try_from(offset).map_err(out_of_range)?;
    let length = i64::try_from(length).map_err(out_of_range)?;
    loop {
        // SAFETY: the call takes no memory of ours, and the borrowed descriptor is open for as long
        // as it lasts.
        let answer = unsafe {
            libc::sync_file_range(
                descriptor.as_raw_fd(),
                offset,
                length,
                libc::SYNC_FILE_RANGE_WRITE,
            )
        };
        if answer == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn start_writeback(
    _descriptor: BorrowedFd<'_>,
    _offset: u64,
    _length: u64,
) -> io::Result<()> {
    Ok(())
}
