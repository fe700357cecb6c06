//! Injected delays of each kind: nearly all of the time of the read must be attributed to the kind.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use tailwater::{CustomMergeOperator, Db, MergeOperator, OpenOptions, ReadOptions, SlowReadCause};
use tailwater_format::compress::{Compression, Compressor, CompressorOptions, Decompressor};
use tailwater_io::attribution::{self, Section};
use tailwater_io::kernel::RunQueue;
use tailwater_io::sim::SimStorage;
use tailwater_io::sync::Mutex;
use tailwater_io::{Error, IoMode, Operation, Purpose, ReadFile, Result, Storage};

use tailwater_testkit::filesystem::say;

use super::lines::{Line, recent, text_of};
use super::{key, set};

/// Duration of an injected delay, in milliseconds.
const DELAY_MS: u64 = 100;

/// Duration from which on a read is slow, in microseconds: less than an injected delay.
const THRESHOLD_US: &str = "10000";

/// The part of an injected delay, at least, that must be attributed to its cause. Also the part of
/// a read's time, at least, that must be attributed to that, or to the wait for a processor, which
/// may add to any time.
const SHARE: f64 = 0.9;

/// Length of a value that takes longer to decompress than everything else, in bytes.
const LARGE: usize = 64 << 20;

const NO_CACHE: &str = "no_block_cache=true";

/// How a disk delays openings and reads of tables.
#[derive(Debug, Default)]
struct Delays {
    ms: AtomicU64,
    /// Whether reads fail after the delay.
    fail: AtomicBool,
    /// Where the next delays begin, one barrier for each.
    meetings: Mutex<Vec<Arc<Barrier>>>,
}

impl Delays {
    fn wait(&self) {
        let _waiting = attribution::enter(Section::Device);
        let meeting = self.meetings.lock().pop();
        if let Some(meeting) = meeting {
            meeting.wait();
        }
        std::thread::sleep(Duration::from_millis(self.ms.load(Relaxed)));
    }

    /// Returns a barrier for two, at which each of the next `count` delays begins.
    fn meet(&self, count: usize) -> Arc<Barrier> {
        let meeting = Arc::new(Barrier::new(2));
        self.meetings.lock().extend((0..count).map(|_| Arc::clone(&meeting)));
        meeting
    }
}

/// A simulated disk on which openings and reads of tables take a while, as on a device.
#[derive(Debug, Clone)]
struct SlowDisk {
    disk: SimStorage,
    delays: Arc<Delays>,
}

#[derive(Debug)]
struct SlowFile {
    file: Arc<dyn ReadFile>,
    delays: Arc<Delays>,
}

impl Storage for SlowDisk {
    tailwater_io::forward_storage!(
        disk: create, rename, remove, remove_directory, link, list, create_directory, metadata,
        identity, canonical_path, capabilities, resident_pages, sync_directory, lock, statistics,
    );

    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>> {
        if path.extension().is_some_and(|extension| extension == "sst") {
            self.delays.wait();
        }
        let file = self.disk.open(path, mode, purpose)?;
        Ok(Arc::new(SlowFile { file, delays: Arc::clone(&self.delays) }))
    }
}

impl ReadFile for SlowFile {
    tailwater_io::forward_read_file!(file: length, path, mode, alignment);

    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        self.delays.wait();
        if self.delays.fail.load(Relaxed) {
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

/// Returns the time for which the calling thread has used a processor, in nanoseconds.
fn running_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Uses the processor for the time of a delay, as the thread's own clock measures it.
fn compute() {
    let end = running_ns() + DELAY_MS as i64 * 1_000_000;
    while running_ns() < end {
        std::hint::spin_loop();
    }
}

struct Scene {
    db: Db,
    delays: Arc<Delays>,
}

impl Scene {
    /// Returns a database without a block cache, whose table is not open.
    fn new(text: &str) -> Self {
        Self::with(text, NO_CACHE, false)
    }

    /// Returns a database with these options of tables, whose table is not open. Merges sleep, or
    /// compute.
    fn with(text: &str, of_tables: &str, sleeps: bool) -> Self {
        let delays = Arc::<Delays>::default();
        let disk = SlowDisk { disk: SimStorage::new(1), delays: Arc::clone(&delays) };
        let mut options = OpenOptions::with_storage(Arc::new(disk));
        options.add_merge_operator(MergeOperator::Custom(Arc::new(SlowMerge { sleeps })));
        options
            .set_from_string(&format!(
                "create_if_missing=true;disable_auto_compactions=true;max_open_files=100;\
                 merge_operator=slow;{text};\
                 block_based_table_factory={{{of_tables}}}"
            ))
            .expect("options");
        let db = Db::open("/db", &options).expect("a database");
        for number in 0..1000 {
            db.put(key(number), "x".repeat(100)).expect("a put");
        }
        db.flush().expect("a flush");
        drop(db);
        let db = Db::open("/db", &options).expect("the database again");
        set(&db, &[("slow_read_threshold_us", THRESHOLD_US)]);
        Self { db, delays }
    }

    fn delay(&self, ms: u64) {
        self.delays.ms.store(ms, Relaxed);
    }

    /// Returns the only slow read, which must be due to a delay that was injected.
    fn only_due_to(&self, cause: &str, injected_ms: u64) -> Line {
        let mut reads = recent(&self.db);
        assert_eq!(reads.len(), 1, "{reads:?}");
        let read = reads.pop().expect("a read");
        check_injected(&read, cause, injected_ms);
        check_nothing_else(&read, cause);
        read
    }

    fn metrics(&self) -> String {
        text_of(&self.db, "tailwater.slow-reads-prometheus")
    }
}

/// Checks that a delay was attributed to its cause. A wait for a processor lengthens a delay, and
/// is not part of it.
fn check_injected(read: &Line, cause: &str, injected_ms: u64) {
    let us = read.figure(&format!("{cause}_us"));
    let least = SHARE * (injected_ms * 1000) as f64;
    assert!(us >= least, "{us} us of {least} or more for {cause}: {read:?}");
}

/// Checks that hardly any time was attributed to other causes, except for waits for a processor.
fn check_nothing_else(read: &Line, cause: &str) {
    let share = read.share(cause) + read.share("processor");
    assert!(share >= SHARE, "{share} of {read:?}");
}

/// Returns the read with the smallest share of unexplained time. If a hypervisor takes the
/// processor from a computing thread, that is unexplained, but it does not do so in every read.
fn least_unexplained(reads: &[Line]) -> &Line {
    let share = |read: &Line| read.share("unexplained");
    reads.iter().min_by(|a, b| share(a).total_cmp(&share(b))).expect("a read")
}

#[test]
fn a_slow_device() {
    let scene = Scene::new("compression=kNoCompression");
    scene.delay(DELAY_MS);
    scene.db.get(key(500)).expect("a get").expect("a value");
    // The open, the end of the table, and the block.
    let read = scene.only_due_to("device", 3 * DELAY_MS);
    assert_eq!((read.figure("tables_opened"), read.blocks(0, "data")), (1.0, 1.0), "{read:?}");
    let (metrics, expected) =
        (scene.metrics(), "tailwater_slow_reads_cause_seconds_count{cause=\"device\"} 1\n");
    assert!(metrics.contains(expected), "{expected} is not in\n{metrics}");
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
    // The open, the end of the table, and the blocks, which may be read at the same time.
    let read = scene.only_due_to("device", 3 * DELAY_MS);
    assert_eq!(read.blocks(0, "data"), 4.0, "{read:?}");
}

#[test]
fn a_slow_read_that_fails() {
    let scene = Scene::new("compression=kNoCompression");
    // The creation of the iterator is not attributed: on a busy machine, it may be slow, too.
    set(&scene.db, &[("slow_read_threshold_us", "0")]);
    let mut iterator = scene.db.raw_iterator().expect("an iterator");
    set(&scene.db, &[("slow_read_threshold_us", THRESHOLD_US)]);
    scene.delay(DELAY_MS);
    scene.delays.fail.store(true, Relaxed);
    assert!(iterator.seek(key(3)).is_err());
    let read = scene.only_due_to("device", DELAY_MS);
    assert_eq!((read.text("operation"), read.blocks(0, "data")), ("seek", 0.0), "{read:?}");
}

#[test]
fn a_table_that_another_thread_opens() {
    let scene = Scene::new("compression=kNoCompression");
    let delay_ms = 4 * DELAY_MS;
    scene.delay(delay_ms);
    let (db, opening) = (&scene.db, scene.delays.meet(1));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| db.get(key(1)).expect("a get").expect("a value"));
        opening.wait();
        db.get(key(2)).expect("a get").expect("a value");
        first.join().expect("the other thread");
    });
    let reads = recent(db);
    let waited = reads.iter().find(|read| read.figure("tables_opened") == 0.0);
    let waited = waited.expect("the thread that did not open the table");
    // It waited for the open and the end of the table, and then read its block. On a busy machine
    // it may be late for the open.
    check_injected(waited, "lock", delay_ms);
    check_injected(waited, "device", delay_ms);
    assert!(waited.share("unexplained") < 1.0 - SHARE, "{waited:?}");
}

#[test]
fn a_block_that_another_thread_reads() {
    let scene = Scene::with("compression=kNoCompression", "block_cache=1M", false);
    let db = &scene.db;
    // Opens the table, and reads another block.
    db.get(key(900)).expect("a get").expect("a value");
    scene.delay(DELAY_MS);
    scene.delays.meet(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| db.get(key(1)).expect("a get").expect("a value"));
        }
    });
    let mut reads = recent(db);
    // On a busy machine, the get that opened the table may be slow, too.
    reads.retain(|read| read.figure("tables_opened") == 0.0);
    assert_eq!(reads.len(), 2, "{reads:?}");
    for read in &reads {
        check_injected(read, "device", DELAY_MS);
        assert_eq!(read.blocks(0, "data"), 1.0, "{read:?}");
    }
    let by_others = reads.iter().map(|read| read.figure("blocks_read_by_others"));
    assert_eq!(by_others.sum::<f64>(), 1.0, "{reads:?}");
    assert_eq!(db.slow_reads().blocks_read_by_others, 1);
    let (metrics, expected) = (scene.metrics(), "tailwater_slow_reads_repeated_blocks_total 1\n");
    assert!(metrics.contains(expected), "{expected} is not in\n{metrics}");
}

#[test]
fn slow_work() {
    let scene = Scene::new("compression=kNoCompression");
    scene.db.merge(key(1), "operand").expect("a merge");
    for _ in 0..5 {
        scene.db.get(key(1)).expect("a get").expect("a value");
    }
    let reads = recent(&scene.db);
    assert_eq!(reads.len(), 5, "{reads:?}");
    reads.iter().for_each(|read| check_injected(read, "work", DELAY_MS));
    check_nothing_else(least_unexplained(&reads), "work");
}

#[test]
fn a_wait_for_nothing_that_is_known() {
    let scene = Scene::with("compression=kNoCompression", NO_CACHE, true);
    scene.db.merge(key(1), "operand").expect("a merge");
    scene.db.get(key(1)).expect("a get").expect("a value");
    scene.only_due_to("unexplained", DELAY_MS);
}

/// Returns the processor time in which this thread decompresses a value of zeros, in microseconds:
/// the shortest of a few times.
fn time_to_unpack_us(packed: &[u8]) -> f64 {
    let time_us = || {
        let began_ns = running_ns();
        let mut value = Vec::new();
        let mut decompressor = Decompressor::new();
        decompressor.decompress(Compression::Zlib, packed, None, &mut value).expect("zeros");
        assert_eq!(value.len(), LARGE);
        (running_ns() - began_ns) as f64 / 1000.0
    };
    (0..3).map(|_| time_us()).fold(f64::INFINITY, f64::min)
}

#[test]
fn slow_unpacking() {
    let scene = Scene::new("compression=kZlibCompression");
    let (zeros, mut packed) = (vec![0_u8; LARGE], Vec::new());
    let mut compressor = Compressor::new(Compression::Zlib, &CompressorOptions::default(), &[])
        .expect("a compressor");
    compressor.compress_always(&zeros, &mut packed).expect("zeros");
    scene.db.put("large", &zeros).expect("a put");
    scene.db.flush().expect("a flush");
    let mut value = vec![1_u8; LARGE];
    let (family, options) = (scene.db.default_cf(), ReadOptions::default());
    let before_us = time_to_unpack_us(&packed);
    for _ in 0..3 {
        assert!(scene.db.get_into_cf_opt(family, "large", &options, &mut value).expect("a get"));
    }
    let alone_us = time_to_unpack_us(&packed).min(before_us);
    let reads = recent(&scene.db);
    assert_eq!(reads.len(), 3, "{reads:?}");
    for read in &reads {
        // The processor may be up to twice as fast at one time as at another.
        assert!(read.figure("unpacking_us") >= alone_us / 2.0, "{alone_us} us alone: {read:?}");
        // The decompressed block is in new memory.
        assert!(read.figure("minor_faults") > 0.0, "{read:?}");
    }
    let read = least_unexplained(&reads);
    assert!(read.share("unexplained") < 1.0 - SHARE, "{read:?}");

    let faults = |name: &str| reads.iter().map(|read| read.figure(name)).sum::<f64>();
    let (minor, major) = (faults("minor_faults"), faults("major_faults"));
    let totals = scene.db.slow_reads();
    assert_eq!((totals.minor_faults as f64, totals.major_faults as f64), (minor, major));
    let metrics = scene.metrics();
    for (kind, count) in [("minor", minor), ("major", major)] {
        let expected =
            format!("tailwater_slow_reads_page_faults_total{{kind=\"{kind}\"}} {count}\n");
        assert!(metrics.contains(&expected), "{expected} is not in\n{metrics}");
    }
}

/// Returns the first of the processors on which this thread may run.
fn one_processor() -> CpuSet {
    let allowed = sched_getaffinity(None).expect("the processors");
    let first = (0..CpuSet::MAX_CPU).find(|&processor| allowed.is_set(processor));
    let mut one = CpuSet::new();
    one.set(first.expect("a processor"));
    one
}

/// Gets a value until the kernel's figures say that this thread has waited for a processor for `ms`
/// milliseconds during the gets. Returns the waits in microseconds.
fn get_until_waited(db: &Db, ms: u64) -> f64 {
    let figures = || RunQueue::of_this_thread().expect("figures");
    let mut waited_ns = 0;
    while waited_ns < ms * 1_000_000 {
        let before = figures();
        db.get(key(1)).expect("a get").expect("a value");
        waited_ns += figures().since(before).waiting_ns;
    }
    waited_ns as f64 / 1000.0
}

#[test]
fn a_busy_processor() {
    let scene = Scene::new("compression=kNoCompression");
    if RunQueue::of_this_thread().is_none() {
        say("skipped: this kernel has no schedstat, so the wait for a processor is unknown");
        return;
    }
    scene.db.merge(key(1), "operand").expect("a merge");
    let (db, processor, is_over) = (&scene.db, one_processor(), AtomicBool::new(false));
    let share_processor = || sched_setaffinity(None, &processor).expect("a processor");
    let waited_us = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                share_processor();
                while !is_over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let reader = scope.spawn(|| {
            share_processor();
            get_until_waited(db, 10 * DELAY_MS)
        });
        let waited_us = reader.join();
        is_over.store(true, Relaxed);
        waited_us.expect("the reads")
    });
    recent(db).iter().for_each(|read| check_injected(read, "work", DELAY_MS));
    let totals = db.slow_reads();
    let processor_us = totals.cause(SlowReadCause::Processor).sum as f64;
    assert!(processor_us >= SHARE * waited_us, "{processor_us} of {waited_us} us\n{totals}");
    let share = totals.share(SlowReadCause::Processor) + totals.share(SlowReadCause::Work);
    assert!(share >= SHARE, "{share} of\n{totals}");
}
