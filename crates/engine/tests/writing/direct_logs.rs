//! Logs that the database writes with direct I/O.

use std::path::{Path, PathBuf};

use tailwater::inspect::wal::{LogItem, LogReader};
use tailwater::{Db, ErrorKind, WriteBatch, WriteOptions};
use tailwater_io::sim::{DeviceTimes, Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{IoMode, Operation, Purpose, Storage};
use tailwater_testkit::filesystem::{say, writes_directly};

use crate::support::{
    self, default_family, failure, findings, get, names, options, property, put, simulated, synced,
    unlogged,
};

const PATH: &str = "/db";
/// Values of `wal_preallocation_block_size` to try, in bytes; 0 disables preallocation.
const SPACE: [u64; 6] = [0, 4096, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
const DIRECT: &str = "wal_io_mode=direct";

fn open(disk: &SimStorage, text: &str) -> Db {
    Db::open(PATH, &simulated(disk, text)).expect("a database")
}

fn logs(disk: &SimStorage) -> Vec<PathBuf> {
    let names = support::logs(disk, PATH.as_ref()).into_iter();
    names.map(|name| Path::new(PATH).join(name)).collect()
}

fn newest_log(disk: &SimStorage) -> PathBuf {
    logs(disk).pop().expect("a log")
}

fn length(disk: &SimStorage, path: &Path) -> u64 {
    disk.metadata(path).expect("a file").length
}

/// Returns the offset just after the last batch in a log. If padding follows the batch, returns an
/// offset inside the padding.
fn end_of(disk: &SimStorage, log: &Path) -> u64 {
    let mut reader = LogReader::open(disk, log).expect("a log");
    let mut end = 0;
    while let Some(item) = reader.next_item().expect("a log that can be read") {
        match item {
            LogItem::Batch(batch) => end = batch.placement.offset + batch.placement.length,
            LogItem::Irregularity(it) if it.kind.name() == "padding" => end = it.offset + 1,
            _ => {}
        }
    }
    end
}

/// Whether the database has opened its newest log for direct I/O.
fn is_direct(disk: &SimStorage) -> bool {
    disk.openings()
        .iter()
        .rev()
        .find(|opening| opening.purpose == Purpose::Wal)
        .is_some_and(|opening| opening.mode == IoMode::Direct)
}

/// Returns lengths of values for batches that end at a block boundary, or up to 40 bytes before or
/// after one, and for batches that exceed the preallocated space.
fn lengths(space: u64) -> Vec<usize> {
    let around = |length: usize| (length.saturating_sub(40)..length + 40).step_by(7);
    let mut lengths: Vec<usize> = [4096, 8192, 32 << 10].into_iter().flat_map(around).collect();
    lengths.extend([0, 1, 100, space as usize, space as usize * 2 + 5000, 100_000]);
    lengths
}

fn put_synced(db: &Db, key: &str, value: &str) -> tailwater::Result<()> {
    db.put_cf_opt(&default_family(db), key.as_bytes(), value.as_bytes(), &synced())
}

#[test]
fn synced_writes_survive_and_their_blocks_are_never_overwritten() {
    for more in ["", ";wal_compression=kZSTD", ";recycle_log_file_num=2", ";use_fsync=true"] {
        for space in SPACE {
            let disk = SimStorage::new(space + 1);
            let text = format!("{DIRECT};wal_preallocation_block_size={space}{more}");
            let db = open(&disk, &text);
            let mut expected = Vec::new();
            for (number, length) in lengths(space).into_iter().enumerate() {
                let (key, value) = (format!("{number:03}"), "v".repeat(length));
                if number % 3 == 2 {
                    put(&db, &format!("{key} not synced"), &value).expect("a put");
                }
                put_synced(&db, &key, &value).expect("a put");
                let log = newest_log(&disk);
                let end = end_of(&disk, &log);
                disk.acknowledge(&log, 0..end).expect("the log");
                expected.push((key, value));
                if number % 10 == 9 {
                    let image = open(&disk.crash_image(number as u64), &text);
                    assert!(image.left_out().iter().all(|it| it.torn_tail), "{text}");
                    for (key, value) in &expected {
                        let found = get(&image, key);
                        assert!(found.as_deref() == Some(value), "{text}: {key} is not there");
                    }
                }
                if number % 25 == 24 {
                    for log in logs(&disk) {
                        disk.release(&log).expect("a log");
                    }
                    db.flush_all().expect("a flush");
                }
            }
            assert_eq!(disk.overwrites(), [], "{text}");
        }
    }
}

/// Shows that the test above can detect overwritten blocks: a log that is written through the page
/// cache does overwrite its last block.
#[test]
fn a_buffered_log_overwrites_its_last_block() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    put_synced(&db, "a", "1").expect("a put");
    let log = newest_log(&disk);
    disk.acknowledge(&log, 0..end_of(&disk, &log)).expect("the log");
    put_synced(&db, "b", "1").expect("a put");
    assert_eq!(disk.overwrites().len(), 1);
}

#[test]
fn a_log_is_cut_to_its_length_when_it_is_switched_and_closed() {
    for space in SPACE {
        let disk = SimStorage::new(1);
        let text = format!("{DIRECT};wal_preallocation_block_size={space}");
        let db = open(&disk, &text);
        put_synced(&db, "a", "1").expect("a put");
        let first = newest_log(&disk);
        assert_eq!(length(&disk, &first), space.max(4096), "zeros follow the log");
        let family = db.create_cf("other", &Default::default()).expect("a family");
        db.put_cf_opt(&family, b"b", b"1", &WriteOptions::default()).expect("a put");
        if space == 4096 {
            assert_eq!(length(&disk, &first), 4096, "the second group has a log of its own");
        }
        db.flush_cf(&default_family(&db)).expect("a flush");
        if space != 4096 {
            assert_eq!(length(&disk, &first), 8192, "two groups");
        }
        put_synced(&db, "c", "1").expect("a put");
        let second = newest_log(&disk);
        db.close().expect("closing");
        assert_eq!(length(&disk, &second), 4096);
        assert!(names(&disk, Path::new(PATH)).iter().all(|name| !name.ends_with(".dbtmp")));
        let image = disk.crash_image(3);
        let db = open(&image, &format!("{text};track_and_verify_wals=true"));
        assert_eq!((get(&db, "a").as_deref(), get(&db, "c").as_deref()), (Some("1"), Some("1")));
        assert_eq!(findings(PATH.as_ref(), &simulated(&image, "")), []);
    }
}

#[test]
fn every_recovery_mode_accepts_zeros_after_the_end() {
    let disk = SimStorage::new(1);
    let db = open(&disk, DIRECT);
    put(&db, "a", "1").expect("a put");
    put_synced(&db, "b", "2").expect("a put");
    db.put_cf_opt(&default_family(&db), b"unlogged", b"3", &unlogged()).expect("a put");
    put_synced(&db, "c", "3").expect("a put");
    for mode in [
        "kTolerateCorruptedTailRecords",
        "kAbsoluteConsistency",
        "kPointInTimeRecovery",
        "kSkipAnyCorruptedRecords",
    ] {
        let image = disk.crash_image(1);
        assert_eq!(findings(PATH.as_ref(), &simulated(&image, "")), []);
        let db = open(&image, &format!("wal_recovery_mode={mode}"));
        assert_eq!(db.left_out(), [], "{mode}");
        let found = ["a", "b", "unlogged", "c"].map(|key| get(&db, key));
        assert_eq!(found.map(|it| it.is_some()), [true, true, false, true], "{mode}");
    }
}

#[test]
fn a_partially_written_group_is_a_torn_tail_not_damage() {
    let disk = SimStorage::new(1);
    let db = open(&disk, DIRECT);
    put_synced(&db, "synced", "1").expect("a put");
    for number in 0..20 {
        put(&db, &format!("{number:02}"), &"v".repeat(3000 + 700 * number)).expect("a put");
    }
    let mut torn = 0;
    for seed in 0..200 {
        let image = disk.crash_image(seed);
        let found = findings(PATH.as_ref(), &simulated(&image, ""));
        let is_torn =
            |it: &tailwater::verify::Finding| it.severity == tailwater::verify::Severity::TornTail;
        assert!(found.iter().all(is_torn), "seed {seed}: {found:?}");
        let db = open(&image, "");
        assert!(db.left_out().iter().all(|it| it.torn_tail), "seed {seed}: {:?}", db.left_out());
        assert!(!names(&image, Path::new(PATH)).contains(&"lost".to_owned()), "seed {seed}");
        assert!(get(&db, "synced").is_some(), "seed {seed}");
        // A later batch must not survive if an earlier one is lost.
        let count = (0..20).take_while(|it| get(&db, &format!("{it:02}")).is_some()).count();
        let rest = (count..20).filter(|it| get(&db, &format!("{it:02}")).is_some()).count();
        assert_eq!(rest, 0, "seed {seed}: something follows what is missing");
        torn += usize::from(!db.left_out().is_empty());
    }
    assert!(torn > 20, "only {torn} of 200 images have anything torn");
}

/// Regression test: a power cut left gaps in a log. In the recovery mode that skips missing
/// records, with `avoid_flush_during_recovery`, recovery kept that log. Verification then reported
/// it as damaged.
#[test]
fn a_log_with_a_gap_is_not_kept() {
    let disk = SimStorage::new(1);
    let db = open(&disk, DIRECT);
    for number in 0..20 {
        put(&db, &format!("{number:02}"), &"v".repeat(9000)).expect("a put");
    }
    let modes = "wal_recovery_mode=kSkipAnyCorruptedRecords;avoid_flush_during_recovery=true";
    let mut holes = 0;
    for seed in 0..100 {
        let image = disk.crash_image(seed);
        let db = open(&image, modes);
        holes += usize::from(!db.left_out().is_empty());
        put_synced(&db, "later", "1").expect("a put");
        db.close().expect("closing");
        assert_eq!(findings(PATH.as_ref(), &simulated(&image, "")), [], "seed {seed}");
    }
    assert!(holes > 10, "only {holes} of 100 images have a hole");
}

#[test]
fn a_log_that_exhausts_its_preallocated_space_is_switched() {
    for more in ["", ";wal_compression=kZSTD", ";recycle_log_file_num=2"] {
        let disk = SimStorage::new(1);
        let text = format!("{DIRECT};wal_preallocation_block_size=65536{more}");
        let db = open(&disk, &text);
        // Even without syncs, a log must be on the device before any part of the next log is. This
        // recovery mode refuses a log that ends within a record. It would not notice that whole
        // records at the end of the first log are missing, so the test checks the keys.
        let tolerant = format!("wal_recovery_mode=kTolerateCorruptedTailRecords{more}");
        let mut opened = 0;
        for number in 0..60 {
            put(&db, &format!("{number:02}"), &"v".repeat(5000)).expect("a put");
            let image = disk.crash_image(number);
            let Ok(db) = Db::open(PATH, &simulated(&image, &tolerant)) else { continue };
            let there = |number: &u64| get(&db, &format!("{number:02}")).is_some();
            let is_missing = (0..60).skip_while(there).any(|number| there(&number));
            assert!(!is_missing, "'{more}', after put {number}: one is there without those before");
            opened += 1;
        }
        assert!(opened > 10, "'{more}': {opened} images could be opened");
        let lengths: Vec<u64> = logs(&disk).iter().map(|log| length(&disk, log)).collect();
        assert!(lengths.len() > 2, "'{more}': {lengths:?}");
        assert!(lengths.iter().all(|&length| length <= 65536), "'{more}': {lengths:?}");
    }
}

#[test]
fn failed_preallocation_stops_no_write() {
    let disk = SimStorage::new(1);
    let text = format!("{DIRECT};wal_preallocation_block_size=65536");
    let db = open(&disk, &text);
    put_synced(&db, "a", "1").expect("a put");
    // The next puts exceed the log's preallocated space. The disk has no space for preallocating
    // another log, whose temporary file ends in `.dbtmp`.
    let full = FaultRule::new(Fault::NoSpace).operation(Operation::Write).path_containing(".dbtmp");
    disk.set_faults(FaultPlan::none().with(full));
    put_synced(&db, "b", &"v".repeat(100_000)).expect("a put");
    put_synced(&db, "c", &"v".repeat(100_000)).expect("a put");
    put_synced(&db, "d", "1").expect("a put");
    assert_eq!(logs(&disk).len(), 2, "without zeros no other log is started");
    let image = open(&disk.crash_image(1), &text);
    assert!(["a", "b", "c", "d"].iter().all(|key| get(&image, key).is_some()));
    // Makes the creation of the next log file fail once.
    let full = FaultRule::new(Fault::NoSpace).operation(Operation::Create).at(0);
    disk.set_faults(FaultPlan::none().with(full));
    db.flush_all().expect("a flush");
    // From now on every storage call fails because the disk is full.
    disk.set_faults(FaultPlan::none().with(FaultRule::new(Fault::NoSpace)));
    let (kind, message) = failure(put_synced(&db, "e", "1"));
    assert!(kind == ErrorKind::NoSpace && message.contains(".log"), "{message}");
    disk.set_faults(FaultPlan::none());
    db.resume().expect("there is room again");
    put_synced(&db, "f", "1").expect("a put");
    let image = open(&disk.crash_image(1), &text);
    assert!(["a", "b", "c", "d", "f"].iter().all(|key| get(&image, key).is_some()));
}

#[test]
fn automatic_logs_use_the_mode_that_suits_most_writes() {
    let disk = SimStorage::new(1);
    disk.start_recording();
    let db = open(&disk, "wal_io_mode=auto;wal_preallocation_block_size=65536");
    let modes = property(&db, "tailwater.io-modes");
    assert!(modes.contains("direct while most writes are synced"), "{modes}");
    assert!(!is_direct(&disk));
    for number in 0..100 {
        put_synced(&db, &format!("{number:03}"), "1").expect("a put");
    }
    assert!(is_direct(&disk));
    for number in 100..400 {
        put(&db, &format!("{number:03}"), "1").expect("a put");
    }
    assert!(!is_direct(&disk));
    db.flush_wal(true).expect("a sync of the log");
    let image = open(&disk.crash_image(1), "");
    assert!((0..400).all(|number| get(&image, &format!("{number:03}")).is_some()));
}

#[test]
fn padding_counts_toward_max_total_wal_size() {
    let disk = SimStorage::new(1);
    let sizes = "max_total_wal_size=1000000;write_buffer_size=1000000";
    let db = open(&disk, &format!("{DIRECT};{sizes};disable_auto_compactions=true"));
    for number in 0..2000 {
        put_synced(&db, &format!("{number:04}"), "1").expect("a put");
    }
    let total: u64 = logs(&disk).iter().map(|log| length(&disk, log)).sum();
    assert!(total < 5_000_000, "{total} bytes of logs");
    assert!(support::level_0(&db) >= 4);
}

#[test]
fn an_error_names_the_option_that_asks_for_an_unsupported_mode() {
    let disk = SimStorage::new(1);
    disk.refuse_direct(Path::new("/logs"));
    let refused = |text: &str| {
        let text = format!("wal_dir=/logs;{text}");
        failure(Db::open(PATH, &simulated(&disk, &text)))
    };
    let (kind, message) = refused(DIRECT);
    assert!(kind == ErrorKind::NotSupported, "{message}");
    assert!(message.contains("wal_io_mode") && message.contains("/logs"), "{message}");
    let (_, message) = refused("use_direct_io_for_wal=true");
    assert!(message.contains("use_direct_io_for_wal"), "{message}");
    let (kind, message) = refused("wal_io_mode=fadvise");
    assert!(kind == ErrorKind::InvalidArgument && message.contains("wal_io_mode"), "{message}");
    let db = open(&disk, "wal_dir=/logs;wal_io_mode=auto");
    let modes = property(&db, "tailwater.io-modes");
    assert!(modes.contains("wal: asked auto by wal_io_mode, effective buffered"), "{modes}");
    drop(db);
    let disk = SimStorage::new(1);
    disk.set_alignment(16 << 10);
    let (kind, message) = failure(Db::open(PATH, &simulated(&disk, DIRECT)));
    assert!(kind == ErrorKind::NotSupported && message.contains("16384"), "{message}");
}

/// Returns the text of the database's LOG.
fn info_log(disk: &SimStorage) -> String {
    let file = disk.open(&Path::new(PATH).join("LOG"), IoMode::Buffered, Purpose::Metadata);
    let file = file.expect("a LOG");
    let mut bytes = vec![0; file.length().expect("its length") as usize];
    let count = file.read_full_at(&mut bytes, 0, Purpose::Metadata).expect("its bytes");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

/// Regression test: the database used direct writes on kernels that are known to lose them, and did
/// not report that.
#[test]
fn direct_writes_are_refused_or_buffered_on_kernels_that_lose_them() {
    let fault = "direct writes to ext4 lose data under Linux 6.1.64 and 6.1.65";
    let disk = SimStorage::new(1);
    disk.set_direct_write_fault(fault);
    for text in
        [DIRECT, "use_direct_io_for_wal=true", "use_direct_io_for_flush_and_compaction=true"]
    {
        let (kind, message) = failure(Db::open(PATH, &simulated(&disk, text)));
        let option = text.split('=').next().expect("a name");
        assert_eq!(kind, ErrorKind::NotSupported, "{message}");
        assert!(message.contains(fault) && message.contains(option), "{message}");
    }
    let db = open(&disk, "use_direct_reads=true;wal_io_mode=auto;flush_write_io_mode=auto");
    let modes = property(&db, "tailwater.io-modes");
    for line in [
        "user_read: asked direct by use_direct_reads, effective direct",
        "wal: asked auto by wal_io_mode, effective buffered",
        "flush_write: asked auto by flush_write_io_mode, effective buffered",
    ] {
        assert!(modes.lines().any(|found| found == line), "{line}: {modes}");
    }
    assert!(!modes.contains("direct logs:"), "{modes}");
    let log = info_log(&disk);
    let warned = log.lines().any(|line| line.contains(" WARN ") && line.contains(fault));
    assert!(warned, "{log}");
    for number in 0..200 {
        put_synced(&db, &format!("{number}"), "1").expect("a put");
    }
    assert!(!is_direct(&disk.clone()));
}

/// Regression test: the database did not report whether it syncs logs by durable writes or by
/// flushes of the device, and no test used a device on which it chooses flushes.
#[test]
fn the_faster_way_to_sync_logs_is_used_and_reported() {
    let us = |write: u64, durable: u64, sync: u64| DeviceTimes {
        write_ns: write * 1000,
        durable_write_ns: durable * 1000,
        sync_ns: sync * 1000,
    };
    for (times, words, syncs) in [
        (us(50, 90, 70), "durable writes (RWF_DSYNC) rather than flushes", 0),
        (us(50, 130, 70), "durable writes (RWF_DSYNC) rather than flushes", 0),
        (us(50, 8000, 4000), "flushes (fdatasync) rather than durable writes", 1),
    ] {
        let disk = SimStorage::new(1);
        disk.set_times(times);
        let mut options = simulated(&disk, DIRECT);
        options.set_inline_background(false);
        let db = Db::open(PATH, &options).expect("a database");
        while property(&db, "tailwater.io-modes").contains("were not tried") {
            std::thread::yield_now();
        }
        let modes = property(&db, "tailwater.io-modes");
        let line = modes.lines().find(|line| line.starts_with("direct logs: ")).expect("a line");
        assert!(line.contains(words), "{line}");
        put_synced(&db, "first", "1").expect("a put");
        let log = newest_log(&disk);
        disk.start_recording();
        put_synced(&db, "second", "1").expect("a put");
        let calls = disk.calls();
        let of_log = calls.iter().filter(|call| *call.path == *log);
        let found = of_log.filter(|call| call.operation == Operation::Sync).count();
        assert_eq!(found, syncs, "{line}");
        for seed in 0..30 {
            let image = open(&disk.crash_image(seed), DIRECT);
            assert_eq!(get(&image, "second").as_deref(), Some("1"), "image {seed}: {line}");
        }
        drop(db);
        let log = info_log(&disk);
        assert!(log.contains(line), "{line}: {log}");
    }
}

/// Tests what the database reports before it has measured the device: the default way to sync logs.
#[test]
fn the_default_way_to_sync_logs_is_reported_before_the_measurement() {
    let disk = SimStorage::new(1);
    let db = open(&disk, DIRECT);
    let modes = property(&db, "tailwater.io-modes");
    assert!(modes.contains("direct logs: synced by durable writes (RWF_DSYNC); "), "{modes}");
    assert!(modes.contains("flushes (fdatasync) were not tried"), "{modes}");
}

/// Tests that no preallocated file remains if the database is closed or dropped while a background
/// thread preallocates a log. Memtables are flushed and logs are switched meanwhile.
#[test]
fn closing_or_dropping_during_preallocation_leaves_no_files() {
    let directory = tempfile::tempdir().expect("a directory");
    if !writes_directly(directory.path(), "closing during preallocation") {
        return;
    }
    for round in 0..12 {
        let text = "wal_io_mode=auto;use_direct_io_for_wal=true;write_buffer_size=65536";
        let text = match round % 3 {
            0 => format!("{text};wal_io_mode=direct;wal_preallocation_block_size=65536"),
            1 => format!("{text};wal_io_mode=direct"),
            _ => text.to_owned(),
        };
        let db = match Db::open(directory.path(), &options(&text)) {
            Ok(db) => db,
            Err(error) => return say(&format!("LEFT OUT: preallocation on a disk: {error}")),
        };
        for number in 0..20 * round {
            let key = format!("{round:02}-{number:03}");
            put(&db, &key, &"v".repeat(5000)).expect("a put");
        }
        put_synced(&db, &format!("{round:02} is done"), "1").expect("a put");
        if round % 2 == 0 {
            db.close().expect("closing");
        }
        drop(db);
        let there = names(&tailwater_io::posix::PosixStorage::new(), directory.path());
        assert!(there.iter().all(|name| !name.ends_with(".dbtmp")), "{there:?}");
    }
    let db = Db::open(directory.path(), &options("")).expect("a database");
    for round in 0..12 {
        assert!(get(&db, &format!("{round:02} is done")).is_some(), "round {round}");
        let last = 20 * round - i32::from(round > 0);
        let key = format!("{round:02}-{last:03}");
        assert_eq!(get(&db, &key).is_some(), round > 0, "{key}");
    }
}

/// Tests that a synced empty batch syncs earlier unsynced writes and adds no record to the log.
#[test]
fn a_synced_empty_batch_syncs_a_direct_log() {
    for space in SPACE {
        let disk = SimStorage::new(1);
        let text = format!("{DIRECT};wal_preallocation_block_size={space}");
        let db = open(&disk, &text);
        for round in 0..3 {
            let key = format!("{round}");
            put(&db, &key, "not synced").expect("a put");
            let sequence = db.latest_sequence_number();
            for _ in 0..2 {
                db.write_opt(&mut WriteBatch::new(), &synced()).expect("an empty batch");
                for seed in 0..20 {
                    let image = open(&disk.crash_image(seed), &text);
                    assert_eq!(get(&image, &key).as_deref(), Some("not synced"), "{text}, {seed}");
                }
            }
            assert_eq!(db.latest_sequence_number(), sequence);
        }
    }
}
