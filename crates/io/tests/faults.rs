//! Checks that each fault of the simulated disk strikes at exactly the calls that its fault plan
//! selects.

use std::io::IoSlice;
use std::path::Path;

use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Create, IoMode, Operation, Purpose, Result, Storage};

const MODE: IoMode = IoMode::Buffered;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Makes 20 calls, at least one of every kind, and stops at the first failure.
fn workload(storage: &dyn Storage) -> Result<()> {
    let [directory, log, table, renamed, linked] =
        ["/db", "/db/000001.log", "/db/000002.sst", "/db/000003.sst", "/db/link"].map(Path::new);
    storage.create_directory(directory)?;
    let _lock = storage.lock(Path::new("/db/LOCK"))?;
    let mut file = storage.create(log, Create::New, MODE, Purpose::Wal)?;
    file.allocate(0, 100_000)?;
    file.write_all_at(&[1; 5000], 0, Purpose::Wal)?;
    file.start_writeback(0, 5000)?;
    file.sync_data(Purpose::Wal)?;
    file.truncate(4000)?;
    let mut file = storage.create(table, Create::Truncate, MODE, Purpose::FlushWrite)?;
    file.write_all_at(&[2; 3000], 0, Purpose::FlushWrite)?;
    file.sync_all(Purpose::FlushWrite)?;
    assert_eq!(file.length()?, 3000);
    storage.rename(table, renamed)?;
    storage.link(renamed, linked)?;
    storage.sync_directory(directory)?;
    assert_eq!(storage.list(directory)?.len(), 4);
    assert_eq!(storage.metadata(log)?.length, 4000);
    let file = storage.open(renamed, MODE, Purpose::UserRead)?;
    let mut buffer = [0; 2000];
    assert_eq!(file.read_full_at(&mut buffer, 500, Purpose::UserRead)?, 2000);
    assert_eq!(buffer, [2; 2000]);
    storage.remove(linked)
}

fn run(plan: FaultPlan) -> (SimStorage, Result<()>) {
    let storage = SimStorage::new(3);
    storage.start_recording();
    storage.set_faults(plan);
    let answer = workload(&storage);
    (storage, answer)
}

#[test]
fn every_call_can_fail() {
    let (whole, answer) = run(FaultPlan::none());
    answer.unwrap();
    assert_eq!(whole.call_count(), 20);
    for number in 0..whole.call_count() {
        for (fault, code) in [(Fault::InputOutput, EIO), (Fault::NoSpace, ENOSPC)] {
            let (storage, answer) = run(FaultPlan::at(number, fault));
            let error = answer.unwrap_err();
            let call = whole.calls()[number as usize].clone();
            assert_eq!((error.operation, error.path.as_path()), (call.operation, &*call.path));
            assert_eq!(
                storage.call_count(),
                number + 1,
                "the workload ends with the first failure"
            );
            assert_eq!(error.source.raw_os_error(), Some(code));
            assert_eq!(error.is_no_space(), fault == Fault::NoSpace);
        }
    }
    let (storage, answer) = run(FaultPlan::at(20, Fault::InputOutput));
    answer.unwrap();
    storage.metadata(Path::new("/db")).unwrap_err();
    storage.metadata(Path::new("/db")).unwrap();
}

#[test]
fn all_calls_fail_from_a_given_one_on() {
    let (storage, answer) = run(FaultPlan::from(7, Fault::InputOutput));
    answer.unwrap_err();
    for _ in 0..3 {
        storage.metadata(Path::new("/db")).unwrap_err();
    }
    storage.set_faults(FaultPlan::none());
    storage.metadata(Path::new("/db")).unwrap();
}

#[test]
fn a_power_cut_freezes_the_disk() {
    let (whole, _) = run(FaultPlan::none());
    let names = |storage: &SimStorage| ["/", "/db"].map(|path| storage.list(Path::new(path)).ok());
    for number in 0..whole.call_count() {
        let (storage, answer) = run(FaultPlan::at(number, Fault::PowerCut));
        answer.unwrap_err();
        storage.set_faults(FaultPlan::none());
        storage.create_directory(Path::new("/later")).unwrap_err();
        storage.list(Path::new("/")).unwrap_err();
        for seed in 0..5 {
            let (frozen, expected) =
                (storage.crash_image(seed), whole.crash_image_at(number, seed));
            assert_eq!(names(&frozen), names(&expected), "call {number}");
        }
    }
}

#[test]
fn rules_count_only_matching_calls() {
    let plan = FaultPlan::none()
        .with(FaultRule::new(Fault::NoSpace).operation(Operation::Write).at(1))
        .with(FaultRule::new(Fault::InputOutput).purpose(Purpose::UserRead).at(1));
    let error = run(plan.clone()).1.unwrap_err();
    assert_eq!(
        (error.operation, error.path.as_path()),
        (Operation::Write, Path::new("/db/000002.sst"))
    );
    let reads = FaultRule::new(Fault::InputOutput).purpose(Purpose::UserRead).at(1);
    let error = run(FaultPlan::none().with(reads)).1.unwrap_err();
    assert_eq!((error.operation, error.offset), (Operation::Read, Some(500)));
    let logs = FaultRule::new(Fault::InputOutput).path_containing(".log").from(4);
    let error = run(FaultPlan::none().with(logs)).1.unwrap_err();
    assert_eq!(error.operation, Operation::Sync);
}

#[test]
fn short_transfers_are_resumed() {
    for from in 0..20 {
        let (storage, answer) = run(FaultPlan::from(from, Fault::Short));
        answer.unwrap_or_else(|error| panic!("short from {from}: {error}"));
        assert!(storage.call_count() >= 20);
    }
    let (storage, _) = run(FaultPlan::from(0, Fault::Short));
    assert!(storage.call_count() > 25, "transfers were cut short");
}

#[test]
fn short_direct_transfers_are_resumed_at_a_block() {
    for seed in 0..50 {
        let storage = SimStorage::new(seed);
        let path = Path::new("/a");
        storage.set_faults(FaultPlan::from(0, Fault::Short));
        let mut bytes = AlignedBuffer::with_capacity(16 * 4096);
        for block in 0..16 {
            bytes.append(&[block; 4096]);
        }
        let mut file =
            storage.create(path, Create::New, IoMode::Direct, Purpose::FlushWrite).unwrap();
        file.write_all_at(&bytes, 0, Purpose::FlushWrite).unwrap();
        file.truncate(60_000).unwrap();
        let file = storage.open(path, IoMode::Direct, Purpose::CompactionRead).unwrap();
        let mut back = AlignedBuffer::with_capacity(32 * 4096);
        back.set_length(32 * 4096);
        let count = file.read_full_at(&mut back, 0, Purpose::CompactionRead).unwrap();
        assert_eq!(count, 60_000, "seed {seed}");
        assert_eq!(back[..count], bytes[..count]);
    }
}

#[test]
fn a_failed_write_may_have_written_a_part() {
    let mut parts = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let storage = SimStorage::new(seed);
        let path = Path::new("/a");
        let mut file = storage.create(path, Create::New, MODE, Purpose::Wal).unwrap();
        storage.set_faults(FaultPlan::at(0, Fault::InputOutput));
        file.write_at(&[1; 100], 0, Purpose::Wal).unwrap_err();
        parts.insert(file.length().unwrap());
        let before = file.length().unwrap();
        storage.set_faults(FaultPlan::at(0, Fault::NoSpace));
        file.write_at(&[1; 100], 500, Purpose::Wal).unwrap_err();
        assert_eq!(file.length().unwrap(), before, "a full disk accepts nothing");
    }
    assert!(parts.len() > 10, "{parts:?}");
}

#[test]
fn coverage_counts_kinds_of_calls() {
    let (storage, _) = run(FaultPlan::none());
    let coverage = storage.coverage();
    let count = |operation, purpose, class: &str| {
        coverage.get(&(operation, purpose, class.to_owned())).copied()
    };
    assert_eq!(count(Operation::Sync, Some(Purpose::Wal), "#.log"), Some(1));
    assert_eq!(count(Operation::Write, Some(Purpose::FlushWrite), "#.sst"), Some(1));
    assert_eq!(count(Operation::Rename, None, "#.sst"), Some(1));
    assert_eq!(count(Operation::Write, Some(Purpose::Manifest), "#.sst"), None);
    assert_eq!(coverage.values().sum::<u64>(), 20);
    let kinds: std::collections::BTreeSet<_> = coverage.keys().map(|key| key.0).collect();
    assert_eq!(kinds.len(), 16, "every operation");
    let wal = storage.statistics().snapshot(Purpose::Wal);
    assert_eq!((wal.opens, wal.written_bytes, wal.syncs.count), (1, 5000, 1));
}

#[test]
fn overwriting_an_acknowledged_block_is_reported() {
    let storage = SimStorage::new(1);
    let path = Path::new("/000001.log");
    let mut file = storage.create(path, Create::New, MODE, Purpose::Wal).unwrap();
    file.write_all_at(&[0; 5 * 4096], 0, Purpose::Wal).unwrap();
    storage.acknowledge(path, 4096..4097).unwrap();
    storage.acknowledge(path, 9000..12_288).unwrap();
    file.write_all_at(&[1; 4096], 0, Purpose::Wal).unwrap();
    file.write_all_at(&[1; 8192], 12_288, Purpose::Wal).unwrap();
    assert!(storage.overwrites().is_empty());
    file.write_all_at(&[1; 2], 4095, Purpose::Wal).unwrap();
    file.write_all_at(&[1; 1], 8192, Purpose::Wal).unwrap();
    let found = storage.overwrites();
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].offset, found[0].length, found[0].block), (4095, 2, 4096));
    assert_eq!((found[1].block, found[1].path.as_path()), (8192, path));
    assert_eq!(found[1].call, storage.call_count() - 1);
    // Acknowledged bytes belong to the file, so they stay acknowledged when the file is renamed.
    // They stop being acknowledged when a truncation of the file removes their block.
    let renamed = Path::new("/000002.log");
    storage.rename(path, renamed).unwrap();
    file.truncate(8192).unwrap();
    file.write_all_at(&[1; 4096], 8192, Purpose::Wal).unwrap();
    assert_eq!(storage.overwrites().len(), 2);
    storage.release(renamed).unwrap();
    file.write_all_at(&[1; 4096], 4096, Purpose::Wal).unwrap();
    assert_eq!(storage.overwrites().len(), 2);
    assert!(storage.acknowledge(path, 0..1).unwrap_err().is_not_found());
}

#[test]
fn direct_io_is_refused_where_asked() {
    let storage = SimStorage::new(1);
    storage.create_directory(Path::new("/slow/db")).unwrap();
    storage.refuse_direct(Path::new("/slow"));
    let refused = Path::new("/slow/db/a");
    let create =
        |path, mode| storage.create(path, Create::New, mode, Purpose::CompactionWrite).map(drop);
    let error = create(refused, IoMode::Direct).unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("O_DIRECT"), "{error}");
    assert!(storage.metadata(refused).unwrap_err().is_not_found());
    create(refused, IoMode::Buffered).unwrap();
    create(Path::new("/slower"), IoMode::Direct).unwrap();
    let image = storage.process_crash_image(1);
    assert!(image.open(refused, IoMode::Direct, Purpose::UserRead).unwrap_err().is_unsupported());
}

#[test]
fn openings_and_writes_are_recorded_with_mode_and_durability() {
    let storage = SimStorage::new(1);
    storage.start_recording();
    let path = Path::new("/a");
    let mut block = AlignedBuffer::with_capacity(4096);
    block.set_length(4096);
    let parts = [IoSlice::new(&block), IoSlice::new(&block)];
    let purpose = Purpose::LogAppend;
    let mut file = storage.create(path, Create::New, IoMode::Direct, purpose).unwrap();
    file.write_all_at(&block, 0, purpose).unwrap();
    file.write_vectored_at(&parts, 4096, false, purpose).unwrap();
    file.write_vectored_at(&parts, 4096, true, purpose).unwrap();
    file.sync_data(purpose).unwrap();
    let mut file = storage.create(path, Create::Existing, IoMode::Buffered, purpose).unwrap();
    file.write_durably_at(b"bytes", 7, Purpose::Metadata).unwrap();
    let modes: Vec<_> = storage.openings().iter().map(|opening| opening.mode).collect();
    assert_eq!(modes, [IoMode::Direct, IoMode::Buffered]);
    let writes: Vec<_> = storage
        .writes()
        .into_iter()
        .map(|it| (it.mode, it.purpose, it.offset, it.length, it.is_durable))
        .collect();
    assert_eq!(
        writes,
        [
            (IoMode::Direct, purpose, 0, 4096, false),
            (IoMode::Direct, purpose, 4096, 8192, false),
            (IoMode::Direct, purpose, 4096, 8192, true),
            (IoMode::Buffered, Purpose::Metadata, 7, 5, true),
        ]
    );
}
