//! The scenarios of `docs/directories.md`, performed with the library on a simulated disk.

use std::sync::Arc;

use tailwater::OpenOptions;
use tailwater_io::Storage;
use tailwater_io::sim::SimStorage;
use tailwater_testkit::scenario::{self, Answer, Column, Files, Job, Target};

use crate::library::Library;
use crate::sim_files::SimFiles;

/// The library on a simulated disk, without background threads.
struct Simulated {
    files: SimFiles,
    library: Library,
}

impl Simulated {
    fn new() -> Self {
        let disk = SimStorage::new(1);
        let begin = |storage: &Arc<dyn Storage>| {
            let mut options = OpenOptions::with_storage(Arc::clone(storage));
            options.set_inline_background(true);
            options
        };
        let library = Library { storage: Arc::new(disk.clone()), begin };
        Self { files: SimFiles::new(disk), library }
    }
}

impl Target for Simulated {
    fn files(&mut self) -> &mut dyn Files {
        &mut self.files
    }

    fn work(&mut self, job: &Job<'_>) -> Result<Answer, String> {
        self.library.work(job).map_err(|error| error.to_string())
    }
}

#[test]
fn documented_directory_scenarios_hold_on_a_simulated_disk() {
    scenario::run_all(Column::Tailwater, None, || Box::new(Simulated::new()));
}
