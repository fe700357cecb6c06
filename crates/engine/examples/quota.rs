//! A storage that limits the bytes written to a database: an implementation of `Storage` that
//! forwards every call to the system's files, and refuses writes once the quota is used up.

use std::error::Error;
use std::io::ErrorKind::StorageFull;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tailwater::storage::{
    self, Capabilities, Create, DirectoryEntry, FileLock, FileMetadata, Operation, ReadFile,
    Result, Statistics, WriteFile,
};
use tailwater::{Db, IoMode, OpenOptions, PosixStorage, Purpose, Storage};

/// The system's files, with a limit on the bytes written.
#[derive(Debug)]
struct QuotaStorage {
    files: PosixStorage,
    left: Arc<AtomicU64>,
}

impl Storage for QuotaStorage {
    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>> {
        let file = self.files.create(path, create, mode, purpose)?;
        Ok(Box::new(QuotaFile { file, left: Arc::clone(&self.left) }))
    }

    // The other calls are forwarded unchanged.

    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>> {
        self.files.open(path, mode, purpose)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.files.remove(path)
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        self.files.remove_directory(path)
    }

    fn link(&self, existing: &Path, new: &Path) -> Result<()> {
        self.files.link(existing, new)
    }

    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>> {
        self.files.list(directory)
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        self.files.create_directory(path)
    }

    fn metadata(&self, path: &Path) -> Result<FileMetadata> {
        self.files.metadata(path)
    }

    // Several paths can lead to one directory, so that the default is not sufficient.
    fn identity(&self, path: &Path) -> Result<storage::FileIdentity> {
        self.files.identity(path)
    }

    fn canonical_path(&self, path: &Path) -> Result<std::path::PathBuf> {
        self.files.canonical_path(path)
    }

    fn capabilities(&self, path: &Path) -> Result<Capabilities> {
        self.files.capabilities(path)
    }

    fn resident_pages(&self, path: &Path) -> Result<Option<u64>> {
        self.files.resident_pages(path)
    }

    fn sync_directory(&self, directory: &Path) -> Result<()> {
        self.files.sync_directory(directory)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.files.lock(path)
    }

    fn statistics(&self) -> &Statistics {
        self.files.statistics()
    }
}

/// A file whose written bytes count towards the quota.
#[derive(Debug)]
struct QuotaFile {
    file: Box<dyn WriteFile>,
    left: Arc<AtomicU64>,
}

impl WriteFile for QuotaFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<usize> {
        let length = bytes.len() as u64;
        let take = |left: u64| left.checked_sub(length);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            let (write, path) = (Operation::Write, self.file.path());
            return Err(storage::Error::at(write, path, offset, StorageFull));
        }
        self.file.write_at(bytes, offset, purpose)
    }

    fn sync_data(&mut self, purpose: Purpose) -> Result<()> {
        self.file.sync_data(purpose)
    }

    fn sync_all(&mut self, purpose: Purpose) -> Result<()> {
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

    fn alignment(&self) -> usize {
        self.file.alignment()
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let left = Arc::new(AtomicU64::new(4 << 20));
    let storage = QuotaStorage { files: PosixStorage::new(), left: Arc::clone(&left) };
    let mut options = OpenOptions::with_storage(Arc::new(storage));
    options.create_if_missing(true);

    let db = Db::open(directory.path(), &options)?;
    let refusal = (0_u32..).find_map(|number| db.put(number.to_be_bytes(), [0; 4096]).err());
    println!("after the quota: {}", refusal.ok_or("the quota was not enforced")?);
    println!("bytes left: {}", left.load(Ordering::Relaxed));

    // With a new quota, writing continues.
    left.store(64 << 20, Ordering::Relaxed);
    db.resume()?;
    db.put("key", "value")?;
    db.close()?;
    Ok(())
}
