//! Injected delays of each kind: nearly all of the time of the read must be attributed to the kind.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tailwater::{CustomMergeOperator, Db, MergeOperator, OpenOptions, ReadOptions};
use tailwater_io::attribution::{self, Section};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Error, IoMode, Operation, Purpose, ReadFile, Result, Storage};

use tailwater_testkit::filesystem::say;

use super::lines::{Line, recent, text_of};
use super::{key, set};

/// Duration of an injected delay, in milliseconds.
const DELAY_MS: u64 = 40;

/// The part of a read's time, at least, that must be attributed to the injected delay, or to the
/// wait for a processor, which may add to any time.
const SHARE: f64 = 0.9;

/// A simulated disk on which openings and reads of tables take a while, as on a device.
#[derive(Debug, Clone)]
struct SlowDisk {
    disk: SimStorage,
    delay_ms: Arc<AtomicU64>,
    fails: Arc<AtomicBool>,
}

#[derive(Debug)]
struct SlowFile {
    file: Arc<dyn ReadFile>,
    delay_ms: Arc<AtomicU64>,
    /// Whether reads fail after the delay.
    fails: Arc<AtomicBool>,
}

fn wait(delay_ms: &AtomicU64) {
    let _waiting = attribution::enter(Section::Device);
    std::thread::sleep(Duration::from_millis(delay_ms.load(Relaxed)));
}

impl Storage for SlowDisk {
    tailwater_io::forward_storage!(
        disk: create, rename, remove, remove_directory, link, list, create_directory, metadata,
        identity, canonical_path, capabilities, resident_pages, sync_directory, lock, statistics,
    );

    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>> {
        let (delay_ms, fails) = (Arc::clone(&self.delay_ms), Arc::clone(&self.fails));
        if path.extension().is_some_and(|extension| extension == "sst") {
            wait(&delay_ms);
        }
        let file = self.disk.open(path, mode, purpose)?;
        Ok(Arc::new(SlowFile { file, delay_ms, fails }))
    }
}

impl ReadFile for SlowFile {
    tailwater_io::forward_read_file!(file: length, path, mode, alignment);

    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        wait(&self.delay_ms);
        if self.fails.load(Relaxed) {
            return Err(Error::at(Operation::Read, self.path(), offset, ErrorKind::Other));
        }
        self.file.read_at(buffer, offset, purpose)
    }
}

/// A merge operator that computes, or sleeps, for as long as a delay takes.
struct SlowMerge {
    sleeps: bool,
}

impl CustomMergeOperator for SlowMerge {
    fn name(&self) -> &str {
        "slow"
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
        if self.sleeps {
            std::thread::sleep(Duration::from_millis(DELAY_MS));
        } else {
            compute();
        }
        Some(b"merged".to_vec())
    }
}

/// Uses the processor for the time of a delay, as the thread's own clock measures it.
fn compute() {
    let running = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    };
    let end = running() + DELAY_MS as i64 * 1_000_000;
    while running() < end {
        std::hint::spin_loop();
    }
}

struct Scene {
    db: Db,
    delay_ms: Arc<AtomicU64>,
    fails: Arc<AtomicBool>,
}

impl Scene {
    /// Returns a database without a block cache, whose table is not open.
    fn new(text: &str) -> Self {
        Self::with_merge(text, false)
    }

    fn with_merge(text: &str, sleeps: bool) -> Self {
        let (delay_ms, fails) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let disk = SlowDisk {
            disk: SimStorage::new(1),
            delay_ms: Arc::clone(&delay_ms),
            fails: Arc::clone(&fails),
        };
        let mut options = OpenOptions::with_storage(Arc::new(disk));
        options.add_merge_operator(MergeOperator::Custom(Arc::new(SlowMerge { sleeps })));
        options
            .set_from_string(&format!(
                "create_if_missing=true;disable_auto_compactions=true;max_open_files=100;\
                 merge_operator=slow;{text};\
                 block_based_table_factory={{no_block_cache=true}}"
            ))
            .expect("options");
        let db = Db::open("/db", &options).expect("a database");
        for number in 0..1000 {
            db.put(key(number), "x".repeat(100)).expect("a put");
        }
        db.flush().expect("a flush");
        drop(db);
        let db = Db::open("/db", &options).expect("the database again");
        set(&db, &[("slow_read_threshold_us", "10000")]);
        Self { db, delay_ms, fails }
    }

    fn delay(&self, ms: u64) {
        self.delay_ms.store(ms, Relaxed);
    }

    /// Returns the only slow read, which must be due to this cause.
    fn only_due_to(&self, cause: &str) -> Line {
        let mut reads = recent(&self.db);
        assert_eq!(reads.len(), 1, "{reads:?}");
        let read = reads.pop().expect("a read");
        let share = read.share(cause) + read.share("processor");
        assert!(share >= SHARE, "{share} of {read:?}");
        read
    }
}

#[test]
fn a_slow_device() {
    let scene = Scene::new("compression=kNoCompression");
    scene.delay(DELAY_MS);
    scene.db.get(key(500)).expect("a get").expect("a value");
    let read = scene.only_due_to("device");
    assert_eq!((read.figure("tables_opened"), read.blocks(0, "data")), (1.0, 1.0), "{read:?}");
    // The open, the end of the table, and the block.
    assert!(read.figure("device_us") >= 2.9 * DELAY_MS as f64 * 1000.0 * 0.99, "{read:?}");
}

#[test]
fn a_slow_device_of_reads_in_flight() {
    let scene = Scene::new("compression=kNoCompression");
    scene.delay(DELAY_MS);
    let family = scene.db.default_cf();
    let keys: Vec<_> = (0..1000).step_by(300).map(key).collect();
    for value in scene.db.batched_multi_get_cf_opt(family, &keys, &ReadOptions::default()) {
        value.expect("a get").expect("a value");
    }
    let read = scene.only_due_to("device");
    assert_eq!(read.blocks(0, "data"), 4.0, "{read:?}");
}

#[test]
fn a_slow_read_that_fails() {
    let scene = Scene::new("compression=kNoCompression");
    let mut iterator = scene.db.raw_iterator().expect("an iterator");
    scene.delay(DELAY_MS);
    scene.fails.store(true, Relaxed);
    assert!(iterator.seek(key(3)).is_err());
    let read = scene.only_due_to("device");
    assert_eq!((read.text("operation"), read.blocks(0, "data")), ("seek", 0.0), "{read:?}");
}

#[test]
fn a_table_that_another_thread_opens() {
    let scene = Scene::new("compression=kNoCompression");
    // Long enough that the second thread comes while the first one waits, on any machine.
    let delay_ms = 10 * DELAY_MS;
    scene.delay(delay_ms);
    let (db, begun) = (&scene.db, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            begun.store(true, Relaxed);
            db.get(key(1)).expect("a get").expect("a value");
        });
        while !begun.load(Relaxed) {
            std::hint::spin_loop();
        }
        std::thread::sleep(Duration::from_millis(delay_ms / 4));
        db.get(key(2)).expect("a get").expect("a value");
        first.join().expect("the other thread");
    });
    let reads = recent(db);
    let waited = reads.iter().find(|read| read.figure("tables_opened") == 0.0);
    let waited = waited.expect("the thread that did not open the table");
    // It waited for the open and the end of the table, and then read its block.
    let (lock, device) = (waited.figure("lock_us"), waited.figure("device_us"));
    assert!(lock > 0.0 && device >= delay_ms as f64 * 990.0, "{waited:?}");
    assert!(waited.share("unexplained") < 1.0 - SHARE, "{waited:?}");
}

#[test]
fn slow_work() {
    let scene = Scene::new("compression=kNoCompression");
    scene.db.merge(key(1), "operand").expect("a merge");
    scene.db.get(key(1)).expect("a get").expect("a value");
    scene.only_due_to("work");
}

#[test]
fn a_wait_for_nothing_that_is_known() {
    let scene = Scene::with_merge("compression=kNoCompression", true);
    scene.db.merge(key(1), "operand").expect("a merge");
    scene.db.get(key(1)).expect("a get").expect("a value");
    scene.only_due_to("unexplained");
}

#[test]
fn slow_unpacking() {
    let scene = Scene::new("compression=kZlibCompression");
    // So many zeros take longer to decompress than everything else.
    scene.db.put("large", vec![0; 64 << 20]).expect("a put");
    scene.db.flush().expect("a flush");
    let mut value = Vec::with_capacity(64 << 20);
    value.resize(64 << 20, 1);
    let family = scene.db.default_cf();
    let options = ReadOptions::default();
    assert!(scene.db.get_into_cf_opt(family, "large", &options, &mut value).expect("a get"));
    let read = recent(&scene.db).pop().expect("a slow read");
    assert!(read.share("unpacking") > read.share("work"), "{read:?}");
    assert!(read.share("unexplained") < 1.0 - SHARE, "{read:?}");
}

#[test]
fn a_busy_processor() {
    let scene = Scene::new("compression=kNoCompression");
    if !Path::new("/proc/thread-self/schedstat").exists() {
        say("skipped: this kernel has no schedstat, so the wait for a processor is unknown");
        return;
    }
    scene.db.merge(key(1), "operand").expect("a merge");
    let (is_over, threads) = (AtomicBool::new(false), 4 * processors());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        for _ in 0..3 {
            scene.db.get(key(1)).expect("a get").expect("a value");
        }
        is_over.store(true, Relaxed);
    });
    let totals = scene.db.slow_reads();
    let share = |cause| totals.share(cause);
    use tailwater::SlowReadCause::{Processor, Unexplained, Work};
    assert!(
        share(Processor) > share(Unexplained),
        "{}",
        text_of(&scene.db, "tailwater.slow-reads")
    );
    assert!(share(Processor) + share(Work) >= SHARE, "{totals}");
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
