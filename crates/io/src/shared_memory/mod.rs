//! Memory that outlives the process that wrote it: files on an in-memory filesystem.
//!
//! The next process finds what the previous one wrote, even if that process crashed. The memory is
//! lost when the machine restarts, and also when a container ends that has its own in-memory
//! filesystem. All memory of a region is allocated when the region is created. Creation fails if
//! there is too little space, but writing to a region never does.
//!
//! With the feature `sim`, `SimSharedMemory` replaces it in simulations. It survives a crash of the
//! simulated process.

mod posix;
#[cfg(any(test, feature = "sim"))]
mod sim;

use std::fmt::Debug;
use std::path::Path;

pub use posix::{PosixSharedMemory, Sibling, siblings};
#[cfg(any(test, feature = "sim"))]
pub use sim::SimSharedMemory;

use crate::Result;
use crate::buffer::Pages;

/// A store of named regions of shared memory. Safe to use from any thread.
pub trait SharedMemory: Debug + Send + Sync + 'static {
    /// Creates and maps a region of `bytes` zeros. No region of this name may exist.
    ///
    /// # Errors
    /// I/O errors. The error is of kind `StorageFull` if there is too little space.
    fn create(&self, name: &str, bytes: usize) -> Result<Pages>;

    /// Creates a region without bytes, which needs no memory. No region of this name may exist.
    ///
    /// # Errors
    /// I/O errors.
    fn create_empty(&self, name: &str) -> Result<()>;

    /// Returns the names of all regions, sorted.
    ///
    /// # Errors
    /// I/O errors.
    fn list(&self) -> Result<Vec<String>>;

    /// Returns the contents of a region.
    ///
    /// # Errors
    /// I/O errors.
    fn read(&self, name: &str) -> Result<Vec<u8>>;

    /// Removes the region with this name. Existing mappings of it stay valid until they are
    /// unmapped.
    ///
    /// # Errors
    /// I/O errors.
    fn remove(&self, name: &str) -> Result<()>;

    /// Removes the store itself if it has no regions. Afterwards no regions may be created in it.
    fn remove_if_empty(&self) {}

    /// Returns the directory that contains the regions; `None` if they are not in a directory.
    fn directory(&self) -> Option<&Path> {
        None
    }
}

#[cfg(test)]
mod tests {
    use tailwater_testkit::filesystem::say;

    use super::*;

    fn check(memory: &dyn SharedMemory) {
        assert_eq!(memory.list().unwrap(), [""; 0]);
        let pages = memory.create("one", 10_000).unwrap();
        assert_eq!(pages.length(), 12_288);
        assert_eq!(memory.read("one").unwrap(), vec![0; 12_288]);
        assert!(memory.create("one", 1).is_err());
        drop(memory.create("two", 1).unwrap());
        assert_eq!(memory.list().unwrap(), ["one", "two"]);
        memory.create_empty("empty").unwrap();
        assert!(memory.create_empty("empty").is_err());
        assert_eq!(memory.list().unwrap(), ["empty", "one", "two"]);
        assert_eq!(memory.read("empty").unwrap(), [0; 0]);
        memory.remove("empty").unwrap();
        memory.remove("one").unwrap();
        assert!(memory.remove("one").unwrap_err().is_not_found());
        assert!(memory.read("one").unwrap_err().is_not_found());
        assert_eq!(memory.list().unwrap(), ["two"]);
    }

    #[test]
    fn both_implementations_keep_regions_by_name() {
        check(&SimSharedMemory::new(usize::MAX));
        match PosixSharedMemory::open(Path::new("/dev/shm/tailwater-test-regions")) {
            Ok(memory) => {
                for name in memory.list().unwrap() {
                    memory.remove(&name).unwrap();
                }
                check(&memory);
                memory.set_owner(Path::new("/tmp")).unwrap();
                memory.set_owner(Path::new("/usr")).unwrap();
                assert_eq!(memory.list().unwrap(), ["two"], "the owner is not a region");
                let found = siblings(Path::new("/dev/shm"), "tailwater-test-").unwrap();
                let found =
                    found.iter().find(|sibling| sibling.directory == memory.directory()).unwrap();
                assert_eq!((found.owner.as_path(), found.bytes), (Path::new("/usr"), 4096));
                memory.remove("two").unwrap();
                memory.remove_if_empty();
                assert!(memory.list().is_err());
            }
            Err(error) => say(&format!("LEFT OUT: shared memory: {error}")),
        }
    }

    #[test]
    fn a_directory_on_a_disk_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        match PosixSharedMemory::open(&directory.path().join("tail")) {
            Err(error) => assert!(error.to_string().contains("tmpfs"), "{error}"),
            // The shared memory could be opened, because the system's temporary directory is on a
            // tmpfs.
            Ok(_) => say("LEFT OUT: shared memory on a disk: the temporary directory is a tmpfs"),
        }
    }

    #[test]
    fn creating_a_region_beyond_the_limit_fails() {
        let memory = SimSharedMemory::new(8192);
        let _kept = memory.create("one", 8192).unwrap();
        assert!(memory.create("two", 1).unwrap_err().is_no_space());
        memory.create_empty("empty").unwrap();
        memory.remove("one").unwrap();
        memory.create("two", 1).unwrap();
    }
}
