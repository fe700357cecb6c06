//! Memory that outlives the process that wrote it: files on a filesystem that is memory.
//!
//! What a process has written there is there for the next one, however it ended. It is lost with
//! the machine, and with the container where each has its own. A region is allocated in full when
//! it is made: where there is no room, that fails, and writing to it never does.
//!
//! The simulated one ([`SimSharedMemory`]) is kept while the simulated process dies.

mod posix;
mod sim;

use std::fmt::Debug;
use std::path::Path;

pub use posix::{PosixSharedMemory, Sibling, siblings};
pub use sim::SimSharedMemory;

use crate::Result;
use crate::buffer::Pages;

/// A place for regions of shared memory, by name. Safe to use from any thread.
pub trait SharedMemory: Debug + Send + Sync + 'static {
    /// Makes a region of `bytes`, which are zero. The name must not be taken.
    ///
    /// # Errors
    /// Those of the system: of kind `StorageFull` where there is no room.
    fn create(&self, name: &str, bytes: usize) -> Result<Pages>;

    /// Returns the names of all regions, sorted.
    ///
    /// # Errors
    /// Those of the system.
    fn list(&self) -> Result<Vec<String>>;

    /// Returns what a region holds.
    ///
    /// # Errors
    /// Those of the system.
    fn read(&self, name: &str) -> Result<Vec<u8>>;

    /// Removes a region. Who has mapped it keeps it until it is unmapped.
    ///
    /// # Errors
    /// Those of the system.
    fn remove(&self, name: &str) -> Result<()>;

    /// Removes the place itself if it has no regions. Nothing may be made there afterwards.
    fn remove_if_empty(&self) {}

    /// Returns the directory of the regions; `None` where they have none.
    fn directory(&self) -> Option<&Path> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(memory: &dyn SharedMemory) {
        assert_eq!(memory.list().unwrap(), [""; 0]);
        let pages = memory.create("one", 10_000).unwrap();
        assert_eq!(pages.length(), 12_288);
        assert_eq!(memory.read("one").unwrap(), vec![0; 12_288]);
        assert!(memory.create("one", 1).is_err());
        drop(memory.create("two", 1).unwrap());
        assert_eq!(memory.list().unwrap(), ["one", "two"]);
        memory.remove("one").unwrap();
        assert!(memory.remove("one").unwrap_err().is_not_found());
        assert!(memory.read("one").unwrap_err().is_not_found());
        assert_eq!(memory.list().unwrap(), ["two"]);
    }

    #[test]
    fn both_keep_regions_by_name() {
        check(&SimSharedMemory::new(usize::MAX));
        match PosixSharedMemory::open(Path::new("/dev/shm/tailwater-test-regions")) {
            Ok(memory) => {
                for name in memory.list().unwrap() {
                    memory.remove(&name).unwrap();
                }
                check(&memory);
                memory.set_owner(Path::new("/tmp")).unwrap();
                memory.set_owner(Path::new("/usr")).unwrap();
                assert_eq!(memory.list().unwrap(), ["two"], "the owner is no region");
                let found = siblings(Path::new("/dev/shm"), "tailwater-test-").unwrap();
                let found =
                    found.iter().find(|sibling| sibling.directory == memory.directory()).unwrap();
                assert_eq!((found.owner.as_path(), found.bytes), (Path::new("/usr"), 4096));
                memory.remove("two").unwrap();
                memory.remove_if_empty();
                assert!(memory.list().is_err());
            }
            Err(error) => eprintln!("skipped: {error}"),
        }
    }

    #[test]
    fn a_directory_on_a_disk_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        match PosixSharedMemory::open(&directory.path().join("tail")) {
            Err(error) => assert!(error.to_string().contains("tmpfs"), "{error}"),
            // The directory for temporary files may be memory.
            Ok(_) => eprintln!("skipped: {} is a tmpfs", directory.path().display()),
        }
    }

    #[test]
    fn where_there_is_no_room_no_region_is_made() {
        let memory = SimSharedMemory::new(8192);
        let _kept = memory.create("one", 8192).unwrap();
        assert!(memory.create("two", 1).unwrap_err().is_no_space());
        memory.remove("one").unwrap();
        memory.create("two", 1).unwrap();
    }
}
