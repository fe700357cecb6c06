//! Determines what an I/O mode does in a directory, by trying it.
//!
//! A filesystem may refuse a mode, or accept it and do something else: tmpfs opens files for direct
//! I/O and keeps them in memory, btrfs writes them through the page cache if it has checksums. So a
//! small file is written, synced and read back in the mode, and the kernel then reports how much of
//! it is in the page cache.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

use crate::buffer::{ALIGNMENT, AlignedBuffer};
use crate::storage::{Create, Storage};
use crate::sync::Mutex;
use crate::{Error, IoMode, Purpose, Result};

/// Held while a trial file exists, because its name contains only the process id: two threads that
/// try a directory would use the same file.
static TRYING: Mutex<()> = Mutex::new(());

/// What a mode is to be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Reading files, however they were written.
    Read,
    /// Writing files, and reading them.
    Write,
}

/// The result of trying a mode in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The filesystem's name: `ext4`, `xfs`.
    pub filesystem: String,
    /// Whether the mode works there, and how.
    pub answer: Answer,
    /// Alignment of the offsets, lengths and memory of direct transfers, in bytes.
    pub alignment: usize,
    /// Number of pages of the file in the page cache afterwards, if the kernel reports it.
    pub resident_pages: Option<u64>,
}

/// Whether a mode works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The mode does what its name says, according to the kernel.
    Works,
    /// The mode is accepted, but the bytes go through the page cache.
    Cached,
    /// The mode is refused, for this reason.
    Refused(String),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works => f.write_str("works"),
            Self::Cached => f.write_str("is accepted, but goes through the page cache"),
            Self::Refused(why) => write!(f, "is refused: {why}"),
        }
    }
}

/// Tries a mode in an existing, writable directory. A filesystem may write through the page cache
/// but read past it, so the result depends on `access`. If the disk is full, a mode that the
/// filesystem does not refuse counts as working.
///
/// # Errors
/// Errors from writing and reading a small file there that have nothing to do with the mode. Bytes
/// that read back differently than written are an error of kind `InvalidData`.
pub fn probe(
    storage: &dyn Storage,
    directory: &Path,
    mode: IoMode,
    access: Access,
) -> Result<Probe> {
    let capabilities = storage.capabilities(directory)?;
    // RocksDB also removes files with such names as leftovers.
    let path = directory.join(format!("{:06}.dbtmp", std::process::id()));
    let _trying = TRYING.lock();
    let mut probe = Probe {
        filesystem: capabilities.filesystem,
        answer: Answer::Works,
        alignment: ALIGNMENT,
        resident_pages: None,
    };
    if let (IoMode::Direct, Access::Write, Some(fault)) =
        (mode, access, capabilities.direct_write_fault)
    {
        probe.answer = Answer::Refused(fault.to_owned());
        return Ok(probe);
    }
    let tried = Trial { storage, path: &path, mode, access }.run(&mut probe);
    // A file may exist even if its creation failed.
    let removed = match storage.remove(&path) {
        Err(error) if error.is_not_found() => Ok(()),
        removed => removed,
    };
    match tried {
        Ok(()) => removed.map(|()| probe),
        Err(error) if error.is_unsupported() => {
            probe.answer = Answer::Refused(error.to_string());
            removed.map(|()| probe)
        }
        // A full disk says nothing about the mode.
        Err(error) if error.is_no_space() => removed.map(|()| probe),
        Err(error) => Err(error),
    }
}

struct Trial<'a> {
    storage: &'a dyn Storage,
    path: &'a Path,
    mode: IoMode,
    access: Access,
}

impl Trial<'_> {
    fn run(&self, probe: &mut Probe) -> Result<()> {
        let mode = match self.access {
            Access::Write => self.mode,
            // No page may stay in the page cache, because the reads would be served from it.
            Access::Read => IoMode::DropBehind,
        };
        let mut file = self.storage.create(self.path, Create::Truncate, mode, Purpose::Metadata)?;
        probe.alignment = file.alignment();
        let written = trial_bytes(2 * probe.alignment);
        file.write_all_at(&written, 0, Purpose::Metadata)?;
        file.sync_data(Purpose::Metadata)?;
        drop(file);
        let file = self.storage.open(self.path, self.mode, Purpose::Metadata)?;
        let mut read = AlignedBuffer::with_capacity(written.len());
        read.set_length(written.len());
        let count = file.read_full_at(&mut read, 0, Purpose::Metadata)?;
        if count != written.len() || read[..] != written[..] {
            return Err(Error::new(crate::Operation::Read, self.path, ErrorKind::InvalidData));
        }
        probe.resident_pages = self.storage.resident_pages(self.path)?;
        let drops = matches!(self.mode, IoMode::Direct);
        if drops && probe.resident_pages.is_some_and(|pages| pages > 0) {
            probe.answer = Answer::Cached;
        }
        Ok(())
    }
}

/// Returns bytes that neither a hole nor another file contains.
fn trial_bytes(length: usize) -> AlignedBuffer {
    let mut bytes = AlignedBuffer::with_capacity(length);
    bytes.set_length(length);
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = (index % 251) as u8;
    }
    bytes
}
