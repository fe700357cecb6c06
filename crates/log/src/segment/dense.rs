//! Rewriting a sealed segment without the gaps between its groups.
//!
//! # Order
//!
//! 1. The batches are copied into a new file under a temporary name, past the page cache, and
//!    synced.
//! 2. The owner renames it to the name of the next generation and syncs the directory: from here on
//!    it is the segment, and the old file is obsolete.
//! 3. The new segment is published, log and index together. Readers that pinned the old one
//!    continue with it.
//! 4. The old files are removed.
//!
//! A crash before step 2 leaves the temporary file, a later one the old generation: recovery
//! removes either. Steps 2 to 4 are a command of the owner, so that nothing else removes or
//! replaces the segment meanwhile.

use std::path::PathBuf;
use std::sync::Arc;

use tailwater_format::message::index::Entry;
use tailwater_format::message::name::{Kind, TEMPORARY};
use tailwater_io::stream::{SequentialWriter, WriterOptions};
use tailwater_io::{Create, Purpose};

use super::Segment;
use super::index::INTERVAL;
use crate::Result;
use crate::env::Env;

/// A rewritten segment that is not installed yet.
#[derive(Debug)]
pub(crate) struct Rewritten {
    /// The segment that it replaces.
    pub(crate) old: Arc<Segment>,
    /// The new segment.
    pub(crate) new: Arc<Segment>,
    temporary: PathBuf,
}

/// Copies the batches of a sealed segment (step 1).
///
/// # Errors
/// Corruption, where the segment is damaged: it stays as it is; those of the system.
pub(crate) fn rewrite(env: &Env, old: &Arc<Segment>) -> Result<Rewritten> {
    let new =
        Segment::new(old.directory(), old.start(), old.generation() + 1, old.incarnation(), 0);
    let mut temporary = new.path(Kind::Log).into_os_string();
    temporary.push(TEMPORARY);
    let temporary = PathBuf::from(temporary);
    let copied = copy(env, old, &temporary);
    if copied.is_err() {
        let _ = env.storage.remove(&temporary);
    }
    let (length, entries) = copied?;
    new.set_length(length);
    new.set_entries(entries);
    Ok(Rewritten { old: Arc::clone(old), new: Arc::new(new), temporary })
}

fn copy(env: &Env, old: &Segment, to: &std::path::Path) -> Result<(u64, Vec<Entry>)> {
    let file = env.storage.create(to, Create::Truncate, env.append_mode, Purpose::LogAppend)?;
    let options = WriterOptions::new(Purpose::LogAppend);
    let mut writer = SequentialWriter::new(file, options, &env.read_buffers, None)?;
    let mut scanner = old.scan(env, 0)?;
    let mut entries: Vec<Entry> = Vec::new();
    let mut position = 0;
    while let Some(scanned) = scanner.read_verified()? {
        if entries.last().is_none_or(|last| position >= last.position + INTERVAL) {
            entries.push(Entry {
                offset: scanned.header.base_offset,
                timestamp_us: scanned.header.base_timestamp_us,
                position,
            });
        }
        writer.append(&scanned.header.encode())?;
        writer.append(scanned.messages)?;
        position += scanned.header.length;
    }
    writer.sync()?;
    writer.close()?;
    Ok((position, entries))
}

impl Rewritten {
    /// Installs it (step 2), and writes its index.
    ///
    /// # Errors
    /// Those of the system. Then either segment may be found after a crash; both contain the same
    /// batches.
    pub(crate) fn install(&self, env: &Env) -> Result<()> {
        env.storage.rename(&self.temporary, &self.new.path(Kind::Log))?;
        env.storage.sync_directory(self.new.directory())?;
        let _ = self.new.write_index(env);
        Ok(())
    }

    /// Removes it.
    pub(crate) fn discard(&self, env: &Env) {
        let _ = env.storage.remove(&self.temporary);
    }

    /// Removes the segment that it replaced (step 4). Recovery removes it otherwise.
    pub(crate) fn remove_old(&self, env: &Env) {
        for kind in [Kind::Index, Kind::Log] {
            let _ = env.storage.remove(&self.old.path(kind));
        }
    }
}
