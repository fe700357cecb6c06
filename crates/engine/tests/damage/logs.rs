//! What each recovery mode recovers from a damaged log.

use std::path::Path;

use tailwater::Db;
use tailwater_testkit::golden;

use crate::database::{BATCHES, DIRECTORY, Damaged, Small, batch_of, iterate};
use crate::mask;

/// Returns the numbers of those batches of the log that a database shows. Both column families must
/// show the same batches.
fn batches(db: &Db, damaged: &Damaged<'_>) -> Vec<u32> {
    let families = db.column_families();
    let of_families = families.iter().map(|family| {
        let entries = iterate(db, family, true).expect("whole tables");
        let mut batches: Vec<u32> = entries.iter().filter_map(|(key, _)| batch_of(key)).collect();
        batches.sort_unstable();
        batches
    });
    let mut of_families: Vec<_> = of_families.collect();
    of_families.dedup();
    assert_eq!(of_families.len(), 1, "{damaged}: half a batch was replayed");
    of_families.remove(0)
}

/// Opens a database with a damaged log in the recovery mode `mode`. Checks that it shows no batch
/// in part and reports that batches are missing. Returns the numbers of the recovered batches, or
/// `None` if the mode refuses to open the database.
fn open(damaged: &Damaged<'_>, mode: &str) -> Option<Vec<u32>> {
    let mut options = damaged.options();
    options.set_from_string(&format!("wal_recovery_mode={mode}")).expect("a mode");
    let db = match Db::open_read_only(Path::new(DIRECTORY), &options) {
        Ok(db) => db,
        Err(error) => {
            let names_log = error.path().is_some_and(|path| path.ends_with(damaged.file));
            assert!(names_log && error.offset().is_some(), "{damaged}, {mode}: {error}");
            return None;
        }
    };
    let batches = batches(&db, damaged);
    if batches.len() < BATCHES as usize {
        assert!(!db.left_out().is_empty(), "{damaged}, {mode}: batches are missing in silence");
    }
    Some(batches)
}

fn is_prefix(batches: &[u32]) -> bool {
    batches.iter().copied().eq(1..=batches.len() as u32)
}

#[test]
fn recovery_modes_with_a_changed_byte() {
    for name in golden::small_names() {
        let small = Small::load(name);
        let (file, log) =
            small.damageable().find(|(file, _)| file.ends_with(".log")).expect("a log");
        for offset in 0..log.len() {
            let mut contents = log.clone();
            contents[offset] ^= mask(offset, 0);
            let damaged = Damaged { small: &small, file, contents };

            let tolerant = open(&damaged, "kTolerateCorruptedTailRecords");
            assert!(tolerant.is_none_or(|batches| is_prefix(&batches)), "{damaged}");

            let strict = open(&damaged, "kAbsoluteConsistency");
            assert_eq!(strict, None, "{damaged}");

            let point_in_time = open(&damaged, "kPointInTimeRecovery");
            let point_in_time = point_in_time.expect("it opens whatever the damage");
            assert!(is_prefix(&point_in_time), "{damaged}");

            let all =
                open(&damaged, "kSkipAnyCorruptedRecords").expect("it opens whatever the damage");
            let kept = point_in_time.iter().all(|batch| all.contains(batch));
            assert!(kept, "{damaged}: skipping keeps less than stopping");
            assert!(all.len() < BATCHES as usize, "{damaged}: nothing was skipped");
        }
    }
}
