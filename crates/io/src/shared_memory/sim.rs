//! Simulated shared memory. It outlives the simulated process, but not a restart of the simulated
//! machine.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

use super::SharedMemory;
use super::posix::allocate_and_map;
use crate::buffer::{Pages, page_size};
use crate::sync::Mutex;
use crate::{Error, Operation, Result};

/// Shared memory regions as anonymous memory files (`memfd_create`). A clone refers to the same
/// regions.
#[derive(Debug, Clone)]
pub struct SimSharedMemory {
    shared: Arc<Mutex<Regions>>,
}

#[derive(Debug)]
struct Regions {
    limit: usize,
    used: usize,
    /// Whether calls that need a file descriptor fail (EMFILE).
    has_no_descriptor: bool,
    regions: BTreeMap<String, (OwnedFd, usize)>,
}

impl SimSharedMemory {
    /// Creates a store with a capacity of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        let regions =
            Regions { limit, used: 0, has_no_descriptor: false, regions: BTreeMap::new() };
        Self { shared: Arc::new(Mutex::new(regions)) }
    }

    /// Changes the capacity, in bytes. Regions that exist are kept, even if they exceed it.
    pub fn set_limit(&self, limit: usize) {
        self.shared.lock().limit = limit;
    }

    /// Sets whether calls that need a file descriptor fail, as if none were left (EMFILE).
    pub fn refuse_descriptors(&self, are_refused: bool) {
        self.shared.lock().has_no_descriptor = are_refused;
    }

    /// Returns a copy of all regions with their current contents, as a process that is started now
    /// would find them.
    ///
    /// # Errors
    /// I/O errors.
    pub fn snapshot(&self) -> Result<Self> {
        let copy = Self::new(self.shared.lock().limit);
        for name in self.list()? {
            let bytes = self.read(&name)?;
            if bytes.is_empty() {
                copy.create_empty(&name)?;
                continue;
            }
            drop(copy.create(&name, bytes.len())?);
            let regions = copy.shared.lock();
            if let Some((file, _)) = regions.regions.get(&name) {
                let mut done = 0;
                while done < bytes.len() {
                    done += rustix::io::pwrite(file, &bytes[done..], done as u64)
                        .map_err(|error| failed(Operation::Write, &name, error))?;
                }
            }
        }
        Ok(copy)
    }
}

impl Regions {
    fn check_descriptor(&self, operation: Operation, name: &str) -> Result<()> {
        match self.has_no_descriptor {
            true => Err(failed(operation, name, Errno::MFILE)),
            false => Ok(()),
        }
    }

    fn check_new(&self, name: &str) -> Result<()> {
        self.check_descriptor(Operation::Create, name)?;
        match self.regions.contains_key(name) {
            true => Err(failed(Operation::Create, name, Errno::EXIST)),
            false => Ok(()),
        }
    }
}

fn failed(operation: Operation, name: &str, error: Errno) -> Error {
    Error::new(operation, &Path::new("/shared-memory").join(name), error)
}

impl SharedMemory for SimSharedMemory {
    fn create(&self, name: &str, bytes: usize) -> Result<Pages> {
        let mut regions = self.shared.lock();
        regions.check_new(name)?;
        let bytes = bytes.max(1).next_multiple_of(page_size());
        if regions.used.saturating_add(bytes) > regions.limit {
            return Err(failed(Operation::Create, name, Errno::NOSPC));
        }
        let made = memfd_create("tailwater-sim", MemfdFlags::CLOEXEC)
            .and_then(|file| allocate_and_map(&file, bytes).map(|pages| (file, pages)));
        let (file, pages) = made.map_err(|error| failed(Operation::Create, name, error))?;
        regions.used += bytes;
        regions.regions.insert(name.to_owned(), (file, bytes));
        Ok(pages)
    }

    fn create_empty(&self, name: &str) -> Result<()> {
        let mut regions = self.shared.lock();
        regions.check_new(name)?;
        let file = memfd_create("tailwater-sim", MemfdFlags::CLOEXEC)
            .map_err(|error| failed(Operation::Create, name, error))?;
        regions.regions.insert(name.to_owned(), (file, 0));
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>> {
        let regions = self.shared.lock();
        regions.check_descriptor(Operation::List, "")?;
        Ok(regions.regions.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let regions = self.shared.lock();
        regions.check_descriptor(Operation::Open, name)?;
        let (file, length) =
            regions.regions.get(name).ok_or_else(|| failed(Operation::Read, name, Errno::NOENT))?;
        let mut bytes = vec![0; *length];
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pread(file, &mut bytes[done..], done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) => return Err(failed(Operation::Read, name, error)),
            }
        }
        Ok(bytes)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut regions = self.shared.lock();
        match regions.regions.remove(name) {
            Some((_, bytes)) => {
                regions.used -= bytes;
                Ok(())
            }
            None => Err(failed(Operation::Remove, name, Errno::NOENT)),
        }
    }
}
