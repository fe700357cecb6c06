//! Warm handover during the installation of new tables: blocks that users read stay cached.
//!
//! # Order
//!
//! 1. [`WarmInstallation::begin`] copies the staged blocks, that is, the warm blocks of the new
//!    tables, into the memory of the block cache. This happens before the thread gets its turn to
//!    change the versions.
//! 2. New tables are opened in [`WarmInstallation::opening_order`].
//! 3. [`WarmInstallation::install`] inserts the blocks, after the MANIFEST has the tables and
//!    before readers see them.
//! 4. [`HandedOver::forget`] erases the blocks of the replaced tables, after readers see the new
//!    tables.

use std::collections::HashSet;
use std::sync::Arc;

use tailwater_io::Purpose;

use crate::block_cache::BlockCache;
use crate::cache::Key;
use crate::handover::TableHandover;
use crate::table::{FileMetadata, ReadProfile};

/// The blocks to keep in memory for each table that is being installed.
#[derive(Debug)]
pub(crate) struct WarmInstallation {
    handovers: Vec<TableHandover>,
}

/// The last step of an installation. It is due as soon as readers see the new tables.
#[must_use]
#[derive(Debug)]
pub(crate) struct HandedOver {
    had_staged_blocks: bool,
}

impl WarmInstallation {
    /// Prepares the installation of new tables. The calling thread must not have its turn to change
    /// the versions yet, because copying takes time and other installations would wait. It must not
    /// be a low-priority thread, because this call takes a lock that users' reads take.
    pub(crate) fn begin(mut handovers: Vec<TableHandover>) -> Self {
        handovers.iter_mut().for_each(TableHandover::copy_into_cache);
        Self { handovers }
    }

    /// Returns new tables in the order in which to open them: those with warm blocks first.
    pub(crate) fn opening_order(&self, added: &[Arc<FileMetadata>]) -> Vec<Arc<FileMetadata>> {
        let warm = self.handovers.iter().filter(|handover| handover.is_warm());
        let warm: HashSet<u64> = warm.map(TableHandover::number).collect();
        let mut files = added.to_vec();
        files.sort_by_key(|file| !warm.contains(&file.number()));
        files
    }

    /// Inserts the warm blocks of the `added` tables into the cache, right before readers see these
    /// tables in place of the `replaced` ones.
    pub(crate) fn install<'f>(
        self,
        added: &[Arc<FileMetadata>],
        replaced: impl Iterator<Item = &'f Arc<FileMetadata>>,
    ) -> HandedOver {
        let staged_bytes = self.handovers.iter().map(TableHandover::staged_bytes).sum();
        self.make_room(staged_bytes, replaced);
        for handover in self.handovers {
            if let Some(file) = added.iter().find(|file| file.number() == handover.number()) {
                let hot_regions = file.hot_regions(&handover.handover().generations);
                handover.install(file.cache_id(), hot_regions);
            }
        }
        HandedOver { had_staged_blocks: staged_bytes > 0 }
    }

    /// If the staged blocks do not fit into the block cache, marks the blocks of the tables that
    /// are about to be replaced as the first to evict. Otherwise the staged blocks would evict each
    /// other.
    fn make_room<'f>(
        &self,
        staged_bytes: usize,
        replaced: impl Iterator<Item = &'f Arc<FileMetadata>>,
    ) {
        let handover = self.handovers.first().map(TableHandover::handover);
        let Some(cache) = handover.and_then(|handover| handover.cache.as_ref()) else { return };
        if staged_bytes > 0 && cache.usage() + staged_bytes > cache.capacity() {
            replaced.for_each(|file| for_each_block(file, |cache, key| cache.blocks.chill(key)));
        }
    }
}

impl HandedOver {
    /// Erases the blocks of replaced tables from the block cache, if blocks of the new tables were
    /// put into the cache before the new tables were installed (staged blocks).
    pub(crate) fn forget<'f>(self, replaced: impl Iterator<Item = &'f Arc<FileMetadata>>) {
        if self.had_staged_blocks {
            replaced.for_each(|file| {
                for_each_block(file, |cache, key| {
                    cache.blocks.erase(key);
                });
            });
        }
    }
}

/// Calls `visit` with the cache keys of a table's data blocks.
fn for_each_block(file: &FileMetadata, visit: impl Fn(&BlockCache, Key)) {
    // If finding the data blocks could require reading index blocks from the file, they are left in
    // the cache until the table is deleted.
    let table = file.reader.get().filter(|table| !table.index_may_need_reads());
    let Some(table) = table else { return };
    let Some(cache) = table.handover().and_then(|handover| handover.cache.as_ref()) else { return };
    let cache_id = file.cache_id();
    let profile = ReadProfile::new(Purpose::CompactionRead, false);
    let _ = table.for_each_data_block(&profile, |_, handle| {
        visit(cache, Key { file: cache_id, offset: handle.offset });
    });
}
