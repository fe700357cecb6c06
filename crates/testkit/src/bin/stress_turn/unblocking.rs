//! Requests manual compactions in databases with universal or FIFO compaction, where stopped writes
//! can resume only after a manual compaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tailwater::{CompactRangeOptions, Db, StallState};

/// Interval at which the thread checks whether writes are stopped, in milliseconds.
const INTERVAL_MS: u64 = 20;

/// When dropped, ends the compacting thread: after the work has returned or panicked.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` while a thread compacts all column families whenever writes are stopped.
pub(crate) fn while_unblocked<T>(
    db: &Db,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if let StallState::Stopped { .. } = db.stall_state() {
                    compact_all(db);
                }
                std::thread::sleep(Duration::from_millis(INTERVAL_MS));
            }
        });
        let _end = End(&is_over);
        work()
    })
}

/// Compacts all column families concurrently, because the flush of one family may wait for writes
/// that resume only after another family's compaction. Failures are only printed: a family may be
/// dropped, or compactions may be paused, at the same time. Any other failure also fails the
/// waiting writes.
fn compact_all(db: &Db) {
    std::thread::scope(|scope| {
        for family in db.column_families() {
            scope.spawn(move || {
                let all = CompactRangeOptions::default();
                if let Err(error) = db.compact_range_cf_opt(&family, None, None, &all) {
                    println!("not compacted: {error}");
                }
            });
        }
    });
}
