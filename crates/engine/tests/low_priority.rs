//! Tests which compactions run in low-priority threads, and that these threads share no lock with
//! user calls.
#![cfg(not(loom))]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tailwater::{
    ColumnFamily, CompactionFilter, CustomCompactionFilter, Db, FilterContext, FilterDecision,
    FilteredValue, OpenOptions, ReadOptions, WriteOptions,
};
use tailwater_testkit::filesystem::say;

/// Options for tables so small that there are many compactions and subcompactions.
const OPTIONS: &str = "create_if_missing=true;compaction_filter=Watch;write_buffer_size=64k;\
    target_file_size_base=64k;max_bytes_for_level_base=256k;compression=kNoCompression;\
    max_background_jobs=4;max_subcompactions=2;level0_slowdown_writes_trigger=8;\
    block_based_table_factory={block_cache=256k}";
/// The scheduling policy `SCHED_IDLE`, as the kernel prints it.
const IDLE: &str = "5";

/// A compaction filter that records the scheduling policy of the threads that call it.
#[derive(Default)]
struct Watch(Mutex<Vec<String>>);

impl CustomCompactionFilter for Watch {
    fn name(&self) -> &str {
        "Watch"
    }

    fn filter(&self, _: &FilterContext, _: &[u8], _: FilteredValue<'_>) -> FilterDecision {
        let policy = policy_of_this_thread();
        let mut seen = self.0.lock().expect("no panic while it is held");
        if seen.last() != Some(&policy) {
            seen.push(policy);
        }
        FilterDecision::Keep
    }
}

/// Returns the scheduling policy of this thread, as the kernel prints it.
#[expect(clippy::disallowed_methods, reason = "the kernel's reports are not a database's files")]
fn policy_of_this_thread() -> String {
    // The policy is field 41. The name in parentheses, which may contain spaces, is field 2, so the
    // text after it begins with field 3.
    let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().nth(38).unwrap_or("unknown").to_owned()
}

struct Scene {
    db: Db,
    family: ColumnFamily,
    watch: Arc<Watch>,
}

impl Scene {
    fn new(directory: &Path, text: &str) -> Self {
        let watch = Arc::new(Watch::default());
        let mut options = OpenOptions::default();
        options.set_from_string(&format!("{OPTIONS};{text}")).expect("options");
        options.add_compaction_filter(CompactionFilter::Custom(watch.clone()));
        let db = Db::open(directory, &options).expect("a database");
        let family = db.cf_handle("default").expect("the default column family");
        Self { db, family, watch }
    }

    fn put(&self, key: u64, round: u64) {
        let key = format!("{:08}", key.wrapping_mul(7919) % 5000);
        let value = format!("{round:08}").repeat(16);
        let options = WriteOptions::default();
        self.db
            .put_cf_opt(&self.family, key.as_bytes(), value.as_bytes(), &options)
            .expect("a put");
    }

    fn get(&self, key: u64) -> Option<Vec<u8>> {
        let key = format!("{key:08}");
        self.db.get_cf_opt(&self.family, key.as_bytes(), &ReadOptions::default()).expect("a get")
    }

    fn settle(&self) {
        self.db.flush_cf(&self.family).expect("a flush");
        while self.db.needs_compaction_cf(&self.family).expect("its column family")
            || self.db.running_compactions() > 0
        {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    fn policies(&self) -> Vec<String> {
        self.watch.0.lock().expect("no panic while it is held").clone()
    }
}

#[test]
fn low_priority_compactions_yield_until_a_stall_is_near() {
    if policy_of_this_thread() == "unknown" {
        return say("LEFT OUT: the kernel does not report how threads are scheduled");
    }
    for (text, is_low_priority) in [("low_priority_compactions=true", true), ("", false)] {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let scene = Scene::new(directory.path(), text);
        for round in 0..6 {
            (0..2000).for_each(|key| scene.put(key, round));
            scene.settle();
        }
        let policies = scene.policies();
        assert!(!policies.is_empty());
        assert_eq!(
            policies.iter().any(|policy| policy == IDLE),
            is_low_priority,
            "{text}: {policies:?}"
        );
    }
    // Tables accumulate in level 0 while compactions are paused. The first compaction after the
    // pause is urgent, and must not run at low priority.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let scene = Scene::new(directory.path(), "low_priority_compactions=true");
    let pause = scene.db.pause_compactions().expect("a pause");
    for round in 0..7 {
        (0..500).for_each(|key| scene.put(key, round));
        scene.db.flush_cf(&scene.family).expect("a flush");
    }
    drop(pause);
    scene.settle();
    let policies = scene.policies();
    assert!(policies.first().is_some_and(|policy| policy != IDLE), "{policies:?}");
}

#[test]
#[cfg(debug_assertions)]
fn low_priority_threads_take_no_lock_that_users_take() {
    use tailwater_io::sync::{in_foreground, locks_shared_with_low_priority_threads};
    use tailwater_testkit::filesystem::writes_directly;

    let is_reported = policy_of_this_thread() != "unknown";
    if !is_reported {
        say("LEFT OUT: whether compactions had low priority: the kernel does not report it");
    }
    let never_urgent = "low_priority_compactions=true;max_open_files=4;\
                        level0_slowdown_writes_trigger=1000;level0_stop_writes_trigger=1000";
    for text in ["", "use_direct_io_for_compaction_reads=true;compaction_write_io_mode=direct"] {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        if !text.is_empty() && !writes_directly(directory.path(), "locks of direct compactions") {
            continue;
        }
        let scene = Scene::new(directory.path(), &format!("{never_urgent};{text}"));
        let is_any_low = || {
            let is_low = |policy: &String| policy == IDLE || !is_reported;
            scene.policies().iter().any(is_low)
        };
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut key = 0;
                while !ended.load(Ordering::Relaxed) {
                    key = (key + 1) % 5000;
                    in_foreground(|| scene.get(key));
                }
            });
            for round in 0..20 {
                (0..1000).for_each(|key| in_foreground(|| scene.put(key, round)));
            }
            scene.settle();
            // On a busy machine all compactions may have been urgent so far, so that none ran at
            // low priority. Writes more until one did.
            for round in 20..100 {
                if is_any_low() {
                    break;
                }
                (0..1000).for_each(|key| in_foreground(|| scene.put(key, round)));
                scene.settle();
            }
            ended.store(true, Ordering::Relaxed);
        });
        assert!(is_any_low());
        let shared = locks_shared_with_low_priority_threads();
        assert!(shared.is_empty(), "{text}: {shared:#?}");
    }
}
