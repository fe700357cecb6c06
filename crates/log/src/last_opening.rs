//! The record of a log's last opening: in which boot of the machine it was, and where its process
//! may have left acknowledged messages.
//!
//! The shared memory of an open log contains an empty region, its *mark*. The mark's name is
//! new for each opening and is part of the record. If the recorded mark is missing when the log is
//! opened the next time, the shared memory is gone, and with it what had not been persisted. A log
//! that was closed completely records that there is no mark.
//!
//! The file has the id of the boot in its first line. If there is a mark, its name and the number
//! of messages that closing the log left (`?` if it was not closed) are in the second line. The
//! rest is the directory of the shared memory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tailwater_io::{Create, IoMode, Purpose, SharedMemory, Storage};

use crate::Result;
use crate::layout::BOOT;
use crate::patience::patiently;

/// At most this many bytes are read of the file.
const LENGTH_MAX: u64 = 8192;
/// Prefix of the names of marks.
const MARK_PREFIX: &str = "mark-";

/// What is recorded when a log is opened, and changed when it is closed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LastOpening {
    /// The id of the boot in which the log was opened; empty if unknown.
    boot: String,
    /// The directory with the log's shared memory; `None` if it uses none.
    pub(crate) shared_memory: Option<PathBuf>,
    /// The mark of the shared memory; `None` if nothing can be left in shared memory.
    mark: Option<Mark>,
}

/// The mark of an opening.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    /// The name of a region of shared memory.
    region: String,
    /// The number of acknowledged messages that closing the log left in shared memory; `None` if
    /// the log was not closed.
    left: Option<u64>,
}

impl LastOpening {
    /// Creates the record of an opening of the log. `boot` is the id of the machine's boot during
    /// which the log is opened.
    pub(crate) fn new(boot: Option<&str>, shared_memory: Option<&Path>) -> Self {
        let boot = boot.unwrap_or_default().to_owned();
        Self { boot, shared_memory: shared_memory.map(Path::to_owned), mark: None }
    }

    /// Reads the record of the last opening in a log's directory. If there is none, the result has
    /// no boot id.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn read(storage: &dyn Storage, directory: &Path) -> Result<Self> {
        let path = directory.join(BOOT);
        let read = patiently(|| storage.read_if_exists(&path, LENGTH_MAX, Purpose::Metadata))?;
        Ok(read.map_or_else(Self::default, |bytes| Self::decode(&bytes)))
    }

    fn decode(bytes: &[u8]) -> Self {
        let (boot, rest) = line(bytes);
        let (second, after) = line(rest);
        let mark = Mark::decode(second);
        let path = if mark.is_some() { after } else { rest };
        Self {
            boot: String::from_utf8_lossy(boot).into_owned(),
            shared_memory: (!path.is_empty()).then(|| OsStr::from_bytes(path).into()),
            mark,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.boot.clone().into_bytes();
        if let Some(Mark { region, left }) = &self.mark {
            let left = left.map_or("?".to_owned(), |left| left.to_string());
            bytes.extend_from_slice(format!("\n{region} {left}").as_bytes());
        }
        if let Some(path) = &self.shared_memory {
            bytes.push(b'\n');
            bytes.extend_from_slice(path.as_os_str().as_bytes());
        }
        bytes
    }

    /// Returns whether both openings were in the same boot of the machine. An unknown boot equals
    /// no other.
    pub(crate) fn is_same_boot(&self, other: &Self) -> bool {
        !self.boot.is_empty() && self.boot == other.boot
    }

    /// Returns whether this shared memory has the mark of the opening, or the opening has none.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn is_marked(&self, shared: Option<&dyn SharedMemory>) -> Result<bool> {
        let Some(mark) = &self.mark else { return Ok(true) };
        let Some(shared) = shared else { return Ok(false) };
        Ok(patiently(|| shared.list())?.contains(&mark.region))
    }

    /// Returns a warning for the case that the shared memory of this opening is gone: says what may
    /// be lost.
    pub(crate) fn loss(&self) -> String {
        let left = match self.mark.as_ref().and_then(|mark| mark.left) {
            Some(left) => format!("{left} acknowledged messages are lost"),
            None => "those that were not yet in segments are lost".to_owned(),
        };
        let place = self.shared_memory.as_deref().map(|path| format!(" {}", path.display()));
        let place = place.unwrap_or_default();
        format!(
            "the shared memory{place} is gone, in which the process that last had this log open \
             kept messages of topics with durability 'process': {left}"
        )
    }

    /// Marks the shared memory as that of this opening.
    ///
    /// # Errors
    /// I/O errors. The error is of kind `NoSpace` if the shared memory is full.
    pub(crate) fn mark(&mut self, shared: &dyn SharedMemory, unique: u128) -> Result<()> {
        let region = format!("{MARK_PREFIX}{unique:032x}");
        patiently(|| shared.create_empty(&region))?;
        self.mark = Some(Mark { region, left: None });
        Ok(())
    }

    /// Removes the marks of other openings from the shared memory, and this opening's if it has
    /// none any more.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn remove_other_marks(&self, shared: &dyn SharedMemory) -> Result<()> {
        let own = self.mark.as_ref().map(|mark| mark.region.as_str());
        for name in patiently(|| shared.list())? {
            if name.starts_with(MARK_PREFIX) && Some(name.as_str()) != own {
                shared.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Returns the record for a log that was closed and left `left` messages in shared memory.
    pub(crate) fn closed(&self, left: u64) -> Self {
        let mark = self.mark.clone().filter(|_| left > 0);
        Self { mark: mark.map(|mark| Mark { left: Some(left), ..mark }), ..self.clone() }
    }

    /// Records this opening in the log's directory, durably. Must be called after all partitions
    /// are recovered. The file is replaced by a rename, so a crash or an error leaves the former
    /// record or this one. A temporary file that is left is overwritten by the next record.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn record(&self, storage: &dyn Storage, directory: &Path) -> Result<()> {
        if Self::read(storage, directory)? == *self {
            return Ok(());
        }
        let path = directory.join(BOOT);
        let temporary = directory.join(format!("{BOOT}.tmp"));
        let mode = IoMode::Buffered;
        let create = || storage.create(&temporary, Create::Truncate, mode, Purpose::Metadata);
        let mut file = patiently(create)?;
        file.write_all_at(&self.encode(), 0, Purpose::Metadata)?;
        file.sync_all(Purpose::Metadata)?;
        drop(file);
        storage.rename(&temporary, &path)?;
        Ok(patiently(|| storage.sync_directory(directory))?)
    }

    /// Takes the mark back, because the opening cannot be recorded.
    pub(crate) fn unmark(&mut self, shared: &dyn SharedMemory) {
        if let Some(mark) = self.mark.take() {
            // A region that stays is removed when the log is opened again.
            let _ = shared.remove(&mark.region);
        }
    }
}

impl Mark {
    fn decode(line: &[u8]) -> Option<Self> {
        let (region, left) = str::from_utf8(line).ok()?.split_once(' ')?;
        let region = region.strip_prefix(MARK_PREFIX).map(|_| region.to_owned())?;
        Some(Self { region, left: left.parse().ok() })
    }
}

/// Returns the first line of `bytes`, and the bytes after it.
fn line(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            (bytes.get(..end).unwrap_or_default(), bytes.get(end + 1..).unwrap_or_default())
        }
        None => (bytes, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_decoded_as_they_were_encoded() {
        let mark = |left| Some(Mark { region: "mark-01".to_owned(), left });
        for mark in [None, mark(None), mark(Some(7))] {
            for path in [None, Some(Path::new("/dev/shm/a\nmark-b 1"))] {
                let opening =
                    LastOpening { mark: mark.clone(), ..LastOpening::new(Some("b"), path) };
                assert_eq!(LastOpening::decode(&opening.encode()), opening);
            }
        }
    }
}
