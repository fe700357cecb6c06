//! Opens the files from which threads read their figures, within a bound.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::fs::{Mode, OFlags};

use crate::descriptors::{DescriptorBudget, Reservation, open_files_max};
use crate::sections;

/// The file of the calling thread's use of processors.
const PATH: &str = "/proc/thread-self/schedstat";

/// Share of the limit on open files that these files may use: one part of this many.
const DESCRIPTORS_PART: usize = 16;

/// Number of threads that have their file open.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The right to keep one file open. It is counted in the process's budget of descriptors.
struct Permit {
    #[expect(dead_code, reason = "returned when this is dropped")]
    reservation: Reservation,
}

impl Permit {
    fn new() -> Option<Self> {
        let limit = open_files_max() / DESCRIPTORS_PART;
        let taken = OPEN.fetch_update(Relaxed, Relaxed, |open| (open < limit).then_some(open + 1));
        taken.ok().map(|_| Self { reservation: DescriptorBudget::of_process().reserve(1) })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Relaxed);
    }
}

/// Opens the calling thread's file, unless too many threads have theirs open.
pub(super) fn open_for_this_thread() {
    let Some(permit) = Permit::new() else { return };
    if let Ok(file) = rustix::fs::open(PATH, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        sections::keep_file(file, Box::new(permit));
    }
}
