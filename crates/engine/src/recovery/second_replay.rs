//! Recovery of more data than the limit of the write buffer manager allows in memory.
//!
//! The first replay fills memtables before anything is written. If they exceed the limit, they are
//! dropped, and the rest of the replay only finds out what the logs hold. Later, when tables can be
//! written, the logs are replayed again. The memtables are then written to tables each time they
//! exceed the limit. All these tables become part of the database together with those of the last
//! memtables. So a crash before that leaves only files that nothing refers to.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tailwater_format::key::Sequence;
use tailwater_format::version_edit::NewFile;

use super::recovered::Recovered;
use super::wal_files::set_aside;
use super::warnings;
use crate::column_family::{ColumnFamily, FlushReason, SealedMemTable};
use crate::epoch::Garbage;
use crate::error::Result;
use crate::stats::Work;
use crate::wal::replay::{self, Log, ReplayFamilies, ReplayFamily, ReplayRules, ReplayedLog};
use crate::write_buffer_manager::WriteBufferManager;

/// Memtables are not flushed before data of this part of the limit was replayed. Otherwise, while
/// other databases use up the limit, every batch would make a table.
const LEAST_PART: usize = 64;

/// Decides when the memtables of a replay exceed the limit.
#[derive(Debug)]
pub(super) struct ReplayLimit {
    manager: Arc<WriteBufferManager>,
    /// Size of the batches that are in the memtables, in bytes.
    replayed: usize,
}

impl ReplayLimit {
    pub(super) fn new(manager: Arc<WriteBufferManager>) -> Self {
        Self { manager, replayed: 0 }
    }

    /// Adds the size of a batch. Returns whether the memtables now exceed the limit; the caller
    /// must then empty them.
    pub(super) fn is_exceeded_by(&mut self, batch_bytes: usize) -> bool {
        self.replayed = self.replayed.saturating_add(batch_bytes);
        let is_exceeded =
            self.replayed >= self.manager.buffer_size() / LEAST_PART && self.manager.should_flush();
        if is_exceeded {
            self.replayed = 0;
        }
        is_exceeded
    }
}

/// Drops the memtables of a column family. Their contents must be in the logs or in tables.
pub(super) fn empty_memtables<'f>(
    families: impl Iterator<Item = &'f ColumnFamily>,
    garbage: &Garbage,
    log_number: u64,
    sequence: Sequence,
) {
    for family in families {
        let version = Arc::clone(family.super_version().version());
        family.begin_anew(version, log_number, sequence);
    }
    garbage.collect();
    garbage.collect_heavy();
}

/// The logs that must be replayed again.
pub(super) struct SecondReplay {
    pub(super) limit: ReplayLimit,
    pub(super) rules: ReplayRules,
    /// The highest sequence number in tables.
    pub(super) last_sequence: Sequence,
    /// The column families, without memtables.
    pub(super) families: ReplayFamilies,
    pub(super) log_directory: PathBuf,
    /// The logs that the first replay read.
    pub(super) logs: Vec<ReplayedLog>,
}

impl SecondReplay {
    /// Replays the logs into the memtables of `recovered`, and from there into `tables`. What is
    /// left in the memtables is not in `tables` yet. `number` is the number of the new log.
    pub(super) fn run(
        self,
        recovered: &mut Recovered,
        number: u64,
        tables: &mut RecoveredTables,
    ) -> Result<()> {
        let Self { mut limit, rules, last_sequence, mut families, log_directory, logs } = self;
        let database = &*recovered;
        let storage = &database.context.storage;
        database.context.info_log.info(format_args!(
            "the logs are replayed again and flushed on the way, because their contents exceed the \
             limit of the write buffer manager, {} bytes",
            limit.manager.buffer_size()
        ));
        database.fill(&mut families);
        let opened = logs.iter().map(|log| Log::open(&**storage, &log_directory, log.number()));
        let replayed = replay::replay(
            opened,
            rules,
            last_sequence,
            &mut families,
            &mut |families: &mut ReplayFamilies, bytes| {
                if limit.is_exceeded_by(bytes) {
                    // Gives up the references of the replay, so that the memory is freed.
                    families.values_mut().for_each(|family| family.memtable = None);
                    tables.write_memtables(database, number)?;
                    let all = database.context.shared.family_set();
                    let (garbage, published) =
                        (&database.context.shared.garbage, database.context.published());
                    empty_memtables(all.iter(), garbage, number, published);
                    database.fill(families);
                }
                Ok(())
            },
        )?;
        // The first replay does not insert all batches, so it does not refuse every batch that this
        // one refuses.
        let is_found_now = |log: &&ReplayedLog| log.damaged && !logs.contains(log);
        let damaged: Vec<u64> =
            replayed.logs.iter().filter(is_found_now).map(ReplayedLog::number).collect();
        let context = Arc::clone(&recovered.context);
        set_aside(storage, &context.directory, &log_directory, &damaged, &context.info_log)?;
        let mut found = replayed.left_out;
        found.retain(|left_out| !recovered.left_out.contains(left_out));
        warnings::report_left_out(&context.info_log, &found);
        recovered.left_out.extend(found);
        Ok(())
    }
}

impl Recovered {
    /// Makes a replay insert into the current memtables.
    fn fill(&self, families: &mut ReplayFamilies) {
        for family in self.context.shared.family_set().iter() {
            if let Some(ReplayFamily { memtable, .. }) = families.get_mut(&family.id()) {
                *memtable = Some(family.active());
            }
        }
    }
}

/// The tables to which recovered memtables were written, by column family. Those of newer memtables
/// come first; those of one memtable are in key order, as [`in_epochs`](crate::flush::in_epochs)
/// expects.
#[derive(Debug, Default)]
pub(super) struct RecoveredTables(BTreeMap<u32, Vec<NewFile>>);

impl RecoveredTables {
    /// Writes the memtables of all column families. `number` is the number of the new log.
    pub(super) fn write_memtables(&mut self, recovered: &Recovered, number: u64) -> Result<()> {
        for family in recovered.context.shared.family_set().iter() {
            let (memtable, reason) = (family.active(), FlushReason::Other);
            let sealed = [SealedMemTable { memtable, next_log_number: number, reason }];
            let flushed = recovered.flushes.write_tables(family, &sealed, Work::User)?;
            let files = flushed.into_iter().map(|table| table.file);
            self.0.entry(family.id()).or_default().splice(0..0, files);
        }
        Ok(())
    }

    /// Takes the tables of a column family.
    pub(super) fn take(&mut self, family: u32) -> Vec<NewFile> {
        self.0.remove(&family).unwrap_or_default()
    }

    /// Returns the number of tables.
    pub(super) fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}
