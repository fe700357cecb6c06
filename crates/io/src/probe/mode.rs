//! Determines whether an I/O mode works in a directory, by trying it.
//!
//! A filesystem may refuse a mode. It may also accept a mode and do something else: tmpfs accepts
//! direct I/O although its files are in memory, and btrfs makes direct writes through the page
//! cache if checksums are enabled. So a small file is written, synced and read back in the mode.
//! The kernel then reports how many of its pages are in the page cache.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

use super::scratch;
use crate::buffer::{ALIGNMENT, AlignedBuffer};
use crate::storage::{Storage, WriteFile};
use crate::{Error, IoMode, Purpose, Result};

/// The kind of access for which a mode is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Reading files that may have been written in any mode.
    Read,
    /// Writing files, and reading the files so written.
    Write,
}

/// The result of trying a mode in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The filesystem's name: `ext4`, `xfs`.
    pub filesystem: String,
    /// Whether the mode works in the directory.
    pub answer: Answer,
    /// Required alignment of the offset, the length and the memory of direct reads and writes, in
    /// bytes.
    pub alignment: usize,
    /// Number of pages of the file that were in the page cache after it was read; `None` if the
    /// kernel does not report it.
    pub resident_pages: Option<u64>,
}

/// Whether an I/O mode works for the files in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The mode is accepted, and the kernel reports nothing that contradicts it.
    Works,
    /// Direct I/O is accepted, but the bytes go through the page cache.
    Cached,
    /// The mode is refused, for this reason.
    Refused(String),
    /// The disk is so full that no file could be created to try the mode.
    Untried,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works => f.write_str("works"),
            Self::Cached => f.write_str("is accepted, but goes through the page cache"),
            Self::Refused(why) => write!(f, "is refused: {why}"),
            Self::Untried => f.write_str("could not be tried, because the disk is full"),
        }
    }
}

/// Tries a mode in an existing, writable directory. A filesystem may make writes through the page
/// cache but reads past it, so the result depends on `access`. If the disk is full, a mode works if
/// an empty file can be opened in it.
///
/// # Errors
/// Errors from writing and reading a small file in the directory that do not depend on the mode. If
/// the file's contents differ from what was written, the error is of kind `InvalidData`.
pub fn probe(
    storage: &dyn Storage,
    directory: &Path,
    mode: IoMode,
    access: Access,
) -> Result<Probe> {
    let capabilities = storage.capabilities(directory)?;
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
    let write_mode = match access {
        Access::Write => mode,
        // Written pages must not stay in the page cache: they would still be there after the
        // reads, even if these did not use the cache.
        Access::Read => IoMode::DropBehind,
    };
    let (tried, removed) = match scratch::create(storage, directory, write_mode) {
        Err(error) if error.is_no_space() => {
            probe.answer = Answer::Untried;
            return Ok(probe);
        }
        Err(error) => (Err(error), Ok(())),
        Ok((path, file)) => {
            let tried = Trial { storage, path: &path, mode }.run(file, &mut probe);
            (tried, storage.remove(&path))
        }
    };
    match tried {
        Ok(()) => removed.map(|()| probe),
        Err(error) if error.is_unsupported() => {
            probe.answer = Answer::Refused(error.to_string());
            removed.map(|()| probe)
        }
        Err(error) => Err(error),
    }
}

struct Trial<'a> {
    storage: &'a dyn Storage,
    path: &'a Path,
    mode: IoMode,
}

impl Trial<'_> {
    /// Writes to the new file, and reads it back.
    fn run(&self, mut file: Box<dyn WriteFile>, probe: &mut Probe) -> Result<()> {
        probe.alignment = file.alignment();
        let written = trial_bytes(2 * probe.alignment);
        let wrote = file
            .write_all_at(&written, 0, Purpose::Metadata)
            .and_then(|()| file.sync_data(Purpose::Metadata));
        drop(file);
        let file = self.storage.open(self.path, self.mode, Purpose::Metadata)?;
        match wrote {
            Err(error) if error.is_no_space() => return Ok(()),
            wrote => wrote?,
        }
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

/// Returns bytes that are unlikely to be in another file, and that are not all zero as in a hole.
fn trial_bytes(length: usize) -> AlignedBuffer {
    let mut bytes = AlignedBuffer::with_capacity(length);
    bytes.set_length(length);
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = (index % 251) as u8;
    }
    bytes
}
