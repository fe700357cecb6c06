//! A storage that counts syncs which include all metadata of a file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Result, Storage, WriteFile};

/// Returns a storage that forwards all calls to `disk`, and the number of its syncs that include
/// all metadata of a file (`fsync` rather than `fdatasync`).
pub(super) fn watched(disk: &SimStorage) -> (Arc<dyn Storage>, Arc<AtomicU64>) {
    let full_syncs = Arc::new(AtomicU64::new(0));
    let watched = Watched { disk: disk.clone(), full_syncs: Arc::clone(&full_syncs) };
    (Arc::new(watched), full_syncs)
}

#[derive(Debug)]
struct Watched {
    disk: SimStorage,
    full_syncs: Arc<AtomicU64>,
}

#[derive(Debug)]
struct WatchedFile {
    file: Box<dyn WriteFile>,
    full_syncs: Arc<AtomicU64>,
}

impl Storage for Watched {
    tailwater_io::forward_storage!(
        disk: open, rename, remove, remove_directory, link, list, create_directory, metadata,
        identity, canonical_path, capabilities, resident_pages, sync_directory, lock, statistics,
    );

    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>> {
        let file = self.disk.create(path, create, mode, purpose)?;
        Ok(Box::new(WatchedFile { file, full_syncs: Arc::clone(&self.full_syncs) }))
    }
}

impl WriteFile for WatchedFile {
    tailwater_io::forward_write_file!(
        file: write_at, sync_data, truncate, allocate, start_writeback, length, path, mode,
    );

    fn sync_all(&mut self, purpose: Purpose) -> Result<()> {
        self.full_syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync_all(purpose)
    }
}
