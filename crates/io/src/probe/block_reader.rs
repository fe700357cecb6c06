//! Reads blocks of existing files without an engine, several at a time: the highest rates at which
//! an engine could read these files.
//!
//! # Ownership
//! From its submission until its completion has been reaped, a request's buffer belongs to the
//! kernel, and nothing accesses its bytes. No method returns while a request is in flight. If the
//! kernel refuses to complete requests, the buffers are leaked, because it may still write to them.
#![expect(unsafe_code, reason = "the kernel gets the addresses of buffers")]

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use io_uring::{IoUring, opcode, types};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::buffer::AlignedBuffer;
use crate::posix::system;
use crate::{Error, IoMode, Operation, Result};

/// Reads blocks of files, with requests of the same length and up to a number of requests in
/// flight. The blocks of all files are numbered consecutively. Not for use by several threads.
pub struct BlockReader {
    ring: IoUring,
    files: Vec<BlockFile>,
    block_bytes: usize,
    /// One buffer for each request that may be in flight; none after an error of the ring.
    buffers: Vec<AlignedBuffer>,
    /// For each buffer, the block that is read into it, or was last.
    blocks: Vec<u64>,
    in_flight: usize,
}

struct BlockFile {
    descriptor: OwnedFd,
    path: PathBuf,
    bytes: u64,
    first_block: u64,
}

/// Where a block is.
struct Place<'f> {
    file: &'f BlockFile,
    offset: u64,
    /// Length of the block, which is shorter than others at the end of a file.
    length: usize,
}

impl BlockReader {
    /// Opens files, to read blocks of `block_bytes` bytes with up to `depth` requests in flight. In
    /// the mode [`IoMode::Direct`], `block_bytes` must be a multiple of the device's alignment;
    /// every other mode reads through the page cache.
    ///
    /// # Errors
    /// I/O errors. The error is of kind `Unsupported` if the filesystem refuses direct I/O, or if
    /// the kernel has no io_uring or does not allow it.
    pub fn open(paths: &[PathBuf], mode: IoMode, block_bytes: usize, depth: usize) -> Result<Self> {
        let mut files = Vec::new();
        let mut first_block = 0;
        for path in paths {
            let opened = || {
                let descriptor = system::open(path, OFlags::RDONLY, mode, Mode::empty())?;
                let bytes = rustix::fs::fstat(&descriptor)?.st_size as u64;
                Ok((descriptor, bytes))
            };
            let (descriptor, bytes) =
                opened().map_err(|error: io::Error| Error::new(Operation::Open, path, error))?;
            files.push(BlockFile { descriptor, path: path.clone(), bytes, first_block });
            first_block += bytes.div_ceil(block_bytes as u64);
        }
        let ring = build(depth).map_err(|error| {
            let path = paths.first().map_or_else(Default::default, PathBuf::clone);
            let text = format!("io_uring: {error}");
            Error::new(Operation::Read, &path, io::Error::new(io::ErrorKind::Unsupported, text))
        })?;
        let buffer = |_| {
            let mut buffer = AlignedBuffer::with_capacity(block_bytes);
            buffer.set_length(block_bytes);
            buffer
        };
        let buffers = (0..depth).map(buffer).collect();
        Ok(Self { ring, files, block_bytes, buffers, blocks: vec![0; depth], in_flight: 0 })
    }

    /// Returns the number of blocks in all files.
    pub fn blocks(&self) -> u64 {
        let last = self.files.last();
        last.map_or(0, |file| file.first_block + file.bytes.div_ceil(self.block_bytes as u64))
    }

    /// Reads one block with an ordinary read call.
    ///
    /// # Errors
    /// I/O errors, and a short read.
    ///
    /// # Panics
    /// If there is no block with this number.
    pub fn read_one(&mut self, block: u64) -> Result<()> {
        let place = place(&self.files, self.block_bytes, block);
        let Some(buffer) = self.buffers.first_mut() else { return Err(place.given_up()) };
        let read = rustix::io::retry_on_intr(|| {
            rustix::io::pread(&place.file.descriptor, &mut buffer[..], place.offset)
        });
        place.check(read)
    }

    /// Submits requests for several blocks, at most one for each request that may be in flight, and
    /// returns when all have been read.
    ///
    /// # Errors
    /// I/O errors, and short reads.
    ///
    /// # Panics
    /// If there is no block with one of these numbers, or if there are too many.
    pub fn read_batch(&mut self, blocks: &[u64]) -> Result<()> {
        // Everything that can fail is checked before the first request is made.
        for &block in blocks {
            let place = place(&self.files, self.block_bytes, block);
            if self.buffers.is_empty() {
                return Err(place.given_up());
            }
        }
        assert!(blocks.len() <= self.buffers.len(), "a batch of {} blocks", blocks.len());
        for (slot, &block) in blocks.iter().enumerate() {
            self.push(slot, block)?;
        }
        let mut result = Ok(());
        while self.in_flight > 0 {
            self.enter(self.in_flight)?;
            while let Some((_, read)) = self.reap() {
                result = result.and(read.map(|_| ()));
            }
        }
        result
    }

    /// Reads all blocks in order, with as many requests in flight as possible. Returns the number
    /// of bytes.
    ///
    /// # Errors
    /// I/O errors, and short reads.
    pub fn read_all(&mut self) -> Result<u64> {
        let mut left = 0..self.blocks();
        for slot in 0..self.buffers.len() {
            if let Some(block) = left.next() {
                self.push(slot, block)?;
            }
        }
        let mut result = Ok(0);
        while self.in_flight > 0 {
            self.enter(1)?;
            while let Some((slot, read)) = self.reap() {
                result = result.and_then(|bytes| Ok(bytes + read? as u64));
                // After an error, no more is submitted, but what is in flight must complete.
                if result.is_ok()
                    && let Some(block) = left.next()
                {
                    self.push(slot, block)?;
                }
            }
        }
        result
    }

    /// Returns the bytes that request number `slot` of the last batch read.
    ///
    /// # Panics
    /// If the batch had no such request.
    pub fn bytes(&self, slot: usize) -> &[u8] {
        let length = place(&self.files, self.block_bytes, self.blocks[slot]).length;
        &self.buffers[slot][..length]
    }

    /// Puts a request into the submission queue, which has space for one request per buffer.
    fn push(&mut self, slot: usize, block: u64) -> Result<()> {
        let place = place(&self.files, self.block_bytes, block);
        let Some(buffer) = self.buffers.get_mut(slot) else { return Err(place.given_up()) };
        let descriptor = types::Fd(place.file.descriptor.as_raw_fd());
        let entry = opcode::Read::new(descriptor, buffer.as_mut_ptr(), buffer.len() as u32)
            .offset(place.offset)
            .build()
            .user_data(slot as u64);
        // SAFETY: the memory is that of a buffer of `self.buffers`, which no other request uses:
        // callers use a slot again only after its completion has been reaped. The buffers and the
        // files stay until nothing is in flight, because no method returns before that, except
        // after an error of `enter`, which leaks the buffers.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            return Err(place.given_up());
        }
        self.blocks[slot] = block;
        self.in_flight += 1;
        Ok(())
    }

    /// Submits the requests in the submission queue, and waits until at least `count` have
    /// completed. After an error the reader is of no more use.
    fn enter(&mut self, count: usize) -> Result<()> {
        loop {
            let error = match self.ring.submit_and_wait(count) {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if Errno::from_io_error(&error) == Some(Errno::INTR) {
                continue;
            }
            // Requests may be in flight, into buffers that must never be freed.
            std::mem::forget(std::mem::take(&mut self.buffers));
            self.in_flight = 0;
            let path = self.files.first().map_or_else(Default::default, |file| file.path.clone());
            return Err(Error::new(Operation::Read, &path, error));
        }
    }

    /// Returns the buffer of a completed request, and how many bytes were read into it.
    fn reap(&mut self) -> Option<(usize, Result<usize>)> {
        let end = self.ring.completion().next()?;
        self.in_flight -= 1;
        let slot = end.user_data() as usize;
        let place = place(&self.files, self.block_bytes, self.blocks[slot]);
        let count = usize::try_from(end.result());
        let count = count.map_err(|_| Errno::from_raw_os_error(-end.result()));
        Some((slot, place.check(count).map(|()| place.length)))
    }
}

impl fmt::Debug for BlockReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<_> = self.files.iter().map(|file| &file.path).collect();
        f.debug_struct("BlockReader").field("files", &paths).finish_non_exhaustive()
    }
}

impl Place<'_> {
    fn check(&self, read: rustix::io::Result<usize>) -> Result<()> {
        let failed =
            |source: io::Error| Error::at(Operation::Read, &self.file.path, self.offset, source);
        match read {
            Ok(count) if count >= self.length => Ok(()),
            Ok(_) => Err(failed(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(failed(error.into())),
        }
    }

    fn given_up(&self) -> Error {
        let source = io::Error::other("the ring has no space, or was given up after an error");
        Error::at(Operation::Read, &self.file.path, self.offset, source)
    }
}

/// Returns where a block is.
///
/// # Panics
/// If there is no block with this number.
fn place(files: &[BlockFile], block_bytes: usize, block: u64) -> Place<'_> {
    let after = files.partition_point(|file| file.first_block <= block);
    let file = &files[after - 1];
    let offset = (block - file.first_block) * block_bytes as u64;
    assert!(offset < file.bytes, "no block {block}");
    let length = (file.bytes - offset).min(block_bytes as u64) as usize;
    Place { file, offset, length }
}

fn build(depth: usize) -> io::Result<IoUring> {
    let entries = depth as u32;
    match IoUring::builder().setup_coop_taskrun().build(entries) {
        // Linux before 5.19 does not have the flag.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => IoUring::new(entries),
        built => built,
    }
}
