//! What an I/O mode comes to in a directory: found out by trying it.
//!
//! A filesystem may refuse a mode, and it may also take it and do something else: tmpfs opens files
//! for direct I/O and keeps them in memory, btrfs writes them through the page cache where it has
//! checksums. So a small file is written, synced and read back in the mode, and then the kernel is
//! asked how much of it is in the page cache.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

use crate::buffer::{ALIGNMENT, AlignedBuffer};
use crate::storage::{Create, Storage};
use crate::sync::Mutex;
use crate::{Error, IoMode, Purpose, Result};

/// Held while a file is tried with: its name is this process's.
static TRYING: Mutex<()> = Mutex::new(());

/// What a mode is to be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Reading files, however they were written.
    Read,
    /// Writing files, and reading them.
    Write,
}

/// What a mode comes to in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The filesystem's name: `ext4`, `xfs`.
    pub filesystem: String,
    /// Whether the mode works there, and how.
    pub answer: Answer,
    /// What offsets, lengths and memory of direct transfers must be multiples of, in bytes.
    pub alignment: usize,
    /// How many pages of the file were in the page cache afterwards, if the kernel tells.
    pub resident_pages: Option<u64>,
}

/// Whether a mode works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It does what its name says, as far as the kernel tells.
    Works,
    /// It is taken, and the bytes go through the page cache all the same.
    Cached,
    /// It is refused, for this reason.
    Refused(String),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works => f.write_str("works"),
            Self::Cached => f.write_str("is taken, but goes through the page cache"),
            Self::Refused(why) => write!(f, "is refused: {why}"),
        }
    }
}

/// Tries a mode in a directory that is there and can be written. A filesystem may write through the
/// page cache what it reads past it, so what the mode is for makes a difference. Where the disk is
/// full, a mode that the filesystem does not refuse counts as working.
///
/// # Errors
/// Those of writing and reading a small file there that have nothing to do with the mode; bytes
/// that come back other than they were written are an error of kind `InvalidData`.
pub fn probe(
    storage: &dyn Storage,
    directory: &Path,
    mode: IoMode,
    access: Access,
) -> Result<Probe> {
    let capabilities = storage.capabilities(directory)?;
    // RocksDB, too, takes such a name for a leftover and removes it.
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
    // A file that was refused at its making may be there, too.
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
        // A full disk says nothing about the mode, which the file may be opened with.
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
            // Nothing of it stays in the page cache, where reading would find it.
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

/// Something that no hole and no other file reads as.
fn trial_bytes(length: usize) -> AlignedBuffer {
    let mut bytes = AlignedBuffer::with_capacity(length);
    bytes.set_length(length);
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = (index % 251) as u8;
    }
    bytes
}
