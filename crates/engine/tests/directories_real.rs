//! Performs the scenarios of `docs/directories.md` on a real filesystem. The library must behave as
//! the document says. The real RocksDB must behave as the document's column about RocksDB says.
//!
//! The library resolves relative paths against the working directory of the process. All threads
//! share the working directory, so only one test in this file may change it.

#[path = "common/scenario/library.rs"]
mod library;

use std::sync::Arc;

use tailwater::OpenOptions;
use tailwater_io::Storage;
use tailwater_io::posix::PosixStorage;
use tailwater_testkit::scenario::{
    self, Answer, Column, Files, Job, RealFiles, RocksDb, RocksDbTarget, Target,
};

use library::Library;

/// The library, which performs the scenarios on a real filesystem.
struct Real {
    files: RealFiles,
    library: Library,
}

impl Real {
    fn new(directory: &std::path::Path) -> Self {
        let begin = |storage: &Arc<dyn Storage>| OpenOptions::with_storage(Arc::clone(storage));
        let library = Library { storage: Arc::new(PosixStorage::new()), begin };
        Self { files: RealFiles::new(directory), library }
    }
}

impl Target for Real {
    fn files(&mut self) -> &mut dyn Files {
        &mut self.files
    }

    fn work(&mut self, job: &Job<'_>) -> Result<Answer, String> {
        std::env::set_current_dir(self.files.directory()).expect("a directory");
        self.library.work(job).map_err(|error| error.to_string())
    }
}

#[test]
fn documented_directory_scenarios_hold_on_a_real_filesystem() {
    let scratch = tempfile::tempdir().expect("a directory");
    let rocksdb = RocksDb::start("scenarios of databases that RocksDB makes");
    scenario::run_all(Column::Tailwater, rocksdb, || Box::new(Real::new(scratch.path())));
}

#[test]
fn documented_directory_scenarios_hold_for_rocksdb() {
    let scratch = tempfile::tempdir().expect("a directory");
    let Some(rocksdb) = RocksDb::start("what docs/directories.md says of RocksDB") else { return };
    scenario::run_all(Column::RocksDb, Some(rocksdb.clone()), || {
        Box::new(RocksDbTarget::new(&rocksdb, scratch.path()))
    });
}
