//! Serves the disk as the only file of a FUSE filesystem, for use by a loop device.
//!
//! The file is opened with direct I/O. When a write of the loop device completes, this process has
//! therefore received it. A flush of the loop device arrives as a sync of the file.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    WriteFlags,
};

use super::power::{Powered, Refused};

/// Name of the file that is the disk.
pub(super) const NAME: &str = "disk";
const FILE: INodeNo = INodeNo(2);
/// Time for which the kernel may cache attributes, which never change.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// The FUSE filesystem with the disk as its only file.
pub(super) struct OneFile(pub(super) Arc<Powered>);

impl OneFile {
    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0),
            FILE => (FileType::RegularFile, 0o600, self.0.size()),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for OneFile {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Some(attributes) if parent == INodeNo::ROOT && name == NAME => {
                reply.entry(&FOREVER, &attributes, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&FOREVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.0.read(offset, length as usize) {
            Ok(bytes) => reply.data(&bytes),
            Err(Refused::PastTheEnd) => reply.data(&[]),
            Err(Refused::NoPower) => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.write(offset, data) {
            // The length fits into a `u32`, because the kernel writes less than 4 GiB at a time.
            Ok(()) => reply.written(data.len() as u32),
            Err(Refused::PastTheEnd) => reply.error(Errno::EFBIG),
            Err(Refused::NoPower) => reply.error(Errno::EIO),
        }
    }

    /// FUSE calls this when a file descriptor is closed. Closing makes nothing durable.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.0.flush() {
            Ok(()) => reply.ok(),
            Err(_) => reply.error(Errno::EIO),
        }
    }
}
