//! Compactions of databases that take no writes until somebody asks for one: those of universal and
//! FIFO compaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tailwater::{CompactRangeOptions, Db, StallState};

/// How often the thread looks whether writes are stopped, in milliseconds.
const INTERVAL_MS: u64 = 20;

/// Ends the thread when the work ends, or panics.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does `work` while a thread compacts all column families whenever writes are stopped.
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

/// Compacts what can be compacted, all column families at once: one may be dropped meanwhile, or
/// compactions paused, or its flush may wait for the writes that another's compaction lets go on.
/// Where it fails otherwise, the writes fail that wait for it.
fn compact_all(db: &Db) {
    std::thread::scope(|scope| {
        for family in db.column_families() {
            scope.spawn(move || {
                let all = CompactRangeOptions::default();
                if let Err(error) = db.compact_range(&family, None, None, &all) {
                    println!("not compacted: {error}");
                }
            });
        }
    });
}
