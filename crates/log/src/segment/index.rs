//! The index of a segment, which maps some offsets and timestamps to positions. It is read when
//! first needed, and rebuilt from the segment if it is missing or wrong.

use std::sync::Arc;

use tailwater_format::message::index::{self, Entry};
use tailwater_format::message::name::Kind;
use tailwater_io::{Create, IoMode, Purpose};

use super::Segment;
use super::files::{ReadAccess, SegmentFiles};
use crate::Result;
use crate::patience::patiently;

/// Minimum distance between the batches of two consecutive entries, in bytes of the segment.
const INTERVAL: u64 = 64 << 10;

/// Adds an entry to an index, unless its batch is too near to that of the last entry.
pub(super) fn add_entry(entries: &mut Vec<Entry>, entry: Entry) {
    if entries.last().is_none_or(|last| entry.position >= last.position + INTERVAL) {
        entries.push(entry);
    }
}

impl Segment {
    /// Returns the index. The first call reads it from its file, or rebuilds it.
    pub(super) fn entries(&self, access: &mut ReadAccess<'_>) -> Result<Arc<Vec<Entry>>> {
        if let Some(entries) = &*self.index.lock() {
            return Ok(Arc::clone(entries));
        }
        let entries = self.read_index(access.files)?;
        if entries.is_empty() && self.length() > INTERVAL {
            return self.rebuild_index(access);
        }
        let entries = Arc::new(entries);
        *self.index.lock() = Some(Arc::clone(&entries));
        Ok(entries)
    }

    /// Reads the index from its file. Returns no entries if the file does not exist.
    pub(crate) fn read_index(&self, files: &SegmentFiles) -> Result<Vec<Entry>> {
        let path = self.path(Kind::Index);
        let read = || files.storage.read_if_exists(&path, u64::MAX, Purpose::LogIndex);
        let Some(bytes) = patiently(read)? else { return Ok(Vec::new()) };
        let mut entries = index::decode(&bytes, self.seed());
        let length = self.length();
        entries.retain(|entry| entry.position < length);
        Ok(entries)
    }

    /// Adds batches, in ascending order, to the index of the segment that is being written.
    pub(crate) fn add_entries(&self, added: impl Iterator<Item = Entry>) {
        let mut index = self.index.lock();
        let entries = Arc::make_mut(index.get_or_insert_default());
        added.for_each(|entry| add_entry(entries, entry));
    }

    /// Removes the entries at and beyond `position`, because the segment was truncated there.
    pub(crate) fn forget_entries_from(&self, position: u64) {
        if let Some(entries) = &mut *self.index.lock() {
            Arc::make_mut(entries).retain(|entry| entry.position < position);
        }
    }

    /// Replaces the index in memory.
    pub(crate) fn set_entries(&self, entries: Vec<Entry>) {
        *self.index.lock() = Some(Arc::new(entries));
    }

    /// Rebuilds the index by scanning the segment, and writes it to its file. If writing fails, the
    /// index is rebuilt again when it is needed after the log is reopened.
    pub(super) fn rebuild_index(&self, access: &mut ReadAccess<'_>) -> Result<Arc<Vec<Entry>>> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut scanner = self.scan(access, 0)?;
        while let Some((position, header)) = scanner.peek()? {
            add_entry(&mut entries, Entry::new(&header, position));
            scanner.skip();
        }
        drop(scanner);
        let entries = Arc::new(entries);
        *self.index.lock() = Some(Arc::clone(&entries));
        // Ignore an error: without the file, the index is rebuilt after the log is reopened.
        let _ = self.write_index(access.files);
        Ok(entries)
    }

    /// Writes the index to its file, but does not sync it.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn write_index(&self, files: &SegmentFiles) -> Result<()> {
        let entries = self.index.lock().clone().unwrap_or_default();
        let seed = self.seed();
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.encode(seed)).collect();
        let path = self.path(Kind::Index);
        let mode = IoMode::Buffered;
        let mut file = files.storage.create(&path, Create::Truncate, mode, Purpose::LogIndex)?;
        file.write_all_at(&bytes, 0, Purpose::LogIndex)?;
        Ok(())
    }
}
