//! Starts manual compactions while writes are stopped. With universal or FIFO compaction, stopped
//! writes may resume only after a manual compaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tailwater::{CompactRangeOptions, Db, StallState};

/// Interval at which the compacting thread checks whether writes are stopped, in milliseconds.
const INTERVAL_MS: u64 = 20;

/// When this guard is dropped, the compacting thread ends. The guard of [`while_unblocked`] is
/// dropped when `work` returns or panics.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work`. Meanwhile, another thread compacts all column families whenever writes are stopped.
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

/// Compacts all column families concurrently. Compacting them one after another could block
/// forever. A compaction first flushes its family, the flush may wait for stopped writes, and the
/// writes may resume only after another family is compacted.
///
/// Failures are only printed. Some are expected, because another thread may drop a family or pause
/// compactions. Any other failure also makes the waiting writes fail, which is then reported.
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
