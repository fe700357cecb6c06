//! Repeats calls that fail because no file descriptor is left at this moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tailwater_io::Result;

/// Pauses before the repetitions of a call, in milliseconds. Together about a quarter of a second.
const PAUSES_MS: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Pause of [`Patience`], in milliseconds.
const PAUSE_MS: u64 = 10;
/// Maximum total duration of the pauses of one [`Patience`], in milliseconds.
const PATIENCE_MS: u64 = 1000;

/// A limited number of pauses, for several callers together.
#[derive(Debug, Default)]
pub(crate) struct Patience(AtomicU64);

impl Patience {
    /// Pauses for a moment. Returns false, without a pause, if the pauses are used up.
    pub(crate) fn pause(&self) -> bool {
        let is_left = self.0.fetch_add(PAUSE_MS, Ordering::Relaxed) < PATIENCE_MS;
        if is_left {
            std::thread::sleep(Duration::from_millis(PAUSE_MS));
        }
        is_left
    }
}

/// Makes a call that opens a file or a directory. If no descriptor is left, repeats the call after
/// increasing pauses. For calls whose failure would be costly; a persist is repeated later instead,
/// because a persister that waits could delay other partitions.
///
/// # Errors
/// The error of the last call.
pub(crate) fn patiently<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    for pause_ms in PAUSES_MS {
        match call() {
            Err(error) if error.is_out_of_descriptors() => {
                std::thread::sleep(Duration::from_millis(pause_ms));
            }
            made => return made,
        }
    }
    call()
}
