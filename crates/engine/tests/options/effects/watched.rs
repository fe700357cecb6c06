//! A storage that counts how files are synced.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tailwater_io::sim::SimStorage;
use tailwater_io::{
    Capabilities, Create, DirectoryEntry, FileIdentity, FileLock, FileMetadata, IoMode, Purpose,
    ReadFile, Result, Statistics, Storage, WriteFile,
};

/// A disk on which each sync of a file and all its metadata is counted.
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
    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>> {
        self.disk.open(path, mode, purpose)
    }

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

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path)
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        self.disk.remove_directory(path)
    }

    fn link(&self, existing: &Path, new: &Path) -> Result<()> {
        self.disk.link(existing, new)
    }

    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>> {
        self.disk.list(directory)
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        self.disk.create_directory(path)
    }

    fn metadata(&self, path: &Path) -> Result<FileMetadata> {
        self.disk.metadata(path)
    }

    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        self.disk.identity(path)
    }

    fn canonical_path(&self, path: &Path) -> Result<PathBuf> {
        self.disk.canonical_path(path)
    }

    fn capabilities(&self, path: &Path) -> Result<Capabilities> {
        self.disk.capabilities(path)
    }

    fn resident_pages(&self, path: &Path) -> Result<Option<u64>> {
        self.disk.resident_pages(path)
    }

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        self.disk.sync_directory(directory)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.disk.lock(path)
    }

    fn statistics(&self) -> &Statistics {
        self.disk.statistics()
    }
}

impl WriteFile for WatchedFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<usize> {
        self.file.write_at(bytes, offset, purpose)
    }

    fn sync_data(&mut self, purpose: Purpose) -> Result<()> {
        self.file.sync_data(purpose)
    }

    fn sync_all(&mut self, purpose: Purpose) -> Result<()> {
        self.full_syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync_all(purpose)
    }

    fn truncate(&mut self, length: u64) -> Result<()> {
        self.file.truncate(length)
    }

    fn allocate(&mut self, offset: u64, length: u64) -> Result<()> {
        self.file.allocate(offset, length)
    }

    fn start_writeback(&mut self, offset: u64, length: u64) -> Result<()> {
        self.file.start_writeback(offset, length)
    }

    fn length(&self) -> Result<u64> {
        self.file.length()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }

    fn mode(&self) -> IoMode {
        self.file.mode()
    }
}
