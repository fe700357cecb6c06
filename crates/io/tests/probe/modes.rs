//! Tests of what each I/O mode does on several real filesystems and on the simulated one.

use std::path::Path;
use std::time::Duration;

use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::buffer::MAX_ALIGNMENT;
use tailwater_io::posix::PosixStorage;
use tailwater_io::probe::{Access, Answer, DeviceProbe, DurableFile, Probe, probe};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Create, IoMode, Operation, Purpose, Storage};
use tailwater_testkit::filesystem::{Mounted, say};

/// Size of the test files, in bytes. It is larger than the part of a file that
/// [`IoMode::DropBehind`] leaves in the page cache.
const BYTES: usize = 16 << 20;
/// Size of one read or write, in bytes.
const STEP: usize = 1 << 20;

fn answer(directory: &Path, mode: IoMode, access: Access) -> Probe {
    let found = probe(&PosixStorage::new(), directory, mode, access);
    let found = found.expect("the directory can be written");
    let left = PosixStorage::new().list(directory).expect("the directory");
    assert!(left.iter().all(|entry| !entry.name.ends_with("dbtmp")), "the trial file stayed");
    found
}

/// Returns whether the kernel and the filesystem of a directory support `RWF_DONTCACHE`.
fn has_uncached(directory: &Path) -> bool {
    answer(directory, IoMode::Uncached, Access::Write).answer == Answer::Works
}

/// Writes a file in a mode and reads it back in the same mode. Returns the number of its pages that
/// were in the page cache after writing, and after reading.
fn pages_left(directory: &Path, mode: IoMode) -> (u64, u64) {
    let storage = PosixStorage::new();
    let path = directory.join(format!("file-{}", mode.name()));
    let purpose = Purpose::CompactionWrite;
    let mut buffer = AlignedBuffer::with_capacity(STEP);
    buffer.set_length(STEP);
    let mut file = storage.create(&path, Create::New, mode, purpose).expect("a file");
    for step in 0..BYTES / STEP {
        buffer.fill(step as u8 + 1);
        file.write_all_at(&buffer, (step * STEP) as u64, purpose).expect("room");
    }
    file.sync_data(purpose).expect("a sync");
    drop(file);
    let pages = || storage.resident_pages(&path).expect("a file").unwrap_or(0);
    let written = pages();
    let file = storage.open(&path, mode, Purpose::CompactionRead).expect("the file");
    for step in 0..BYTES / STEP {
        let count = file
            .read_full_at(&mut buffer, (step * STEP) as u64, Purpose::CompactionRead)
            .expect("a read");
        assert_eq!(count, STEP);
        assert!(buffer.iter().all(|byte| *byte == step as u8 + 1));
    }
    drop(file);
    let read = pages();
    storage.remove(&path).expect("the file");
    (written, read)
}

/// Checks how many pages each mode leaves in the page cache, on a filesystem that accepts direct
/// I/O.
fn check_modes(directory: &Path) {
    let probed = answer(directory, IoMode::Direct, Access::Write);
    if probed.resident_pages.is_none() {
        return say("LEFT OUT: what modes leave in the page cache: no cachestat");
    }
    let all = (BYTES / 4096) as u64;
    let (written, read) = pages_left(directory, IoMode::Buffered);
    assert!(written > all / 2 && read > all / 2, "buffered: {written}, {read} of {all} pages");
    if probed.answer == Answer::Works {
        assert_eq!(pages_left(directory, IoMode::Direct), (0, 0));
    } else {
        let (filesystem, answer) = (probed.filesystem, probed.answer);
        say(&format!(
            "LEFT OUT: what direct I/O leaves in the page cache of {filesystem}: {answer}"
        ));
    }
    let (written, read) = pages_left(directory, IoMode::DropBehind);
    assert!(written < all / 20 && read < all / 20, "fadvise: {written}, {read} of {all} pages");
    if has_uncached(directory) {
        let (written, read) = pages_left(directory, IoMode::Uncached);
        assert!(written < all / 20 && read < all / 20, "uncached: {written}, {read} of {all}");
    } else {
        say("LEFT OUT: uncached I/O: this kernel or filesystem does not have it");
    }
}

#[test]
fn ext4_honours_io_modes() {
    let Some(disk) = Mounted::new("ext4", 64 << 20, "modes on ext4") else { return };
    let probed = answer(&disk.path(), IoMode::Direct, Access::Write);
    assert_eq!((probed.filesystem.as_str(), &probed.answer), ("ext4", &Answer::Works));
    assert_eq!(probed.alignment % 4096, 0);
    check_modes(&disk.path());
}

#[test]
fn xfs_honours_io_modes() {
    let Some(disk) = Mounted::new("xfs", 512 << 20, "modes on XFS") else { return };
    let probed = answer(&disk.path(), IoMode::Direct, Access::Write);
    assert_eq!((probed.filesystem.as_str(), &probed.answer), ("xfs", &Answer::Works));
    check_modes(&disk.path());
}

#[test]
fn btrfs_may_buffer_direct_writes() {
    let Some(disk) = Mounted::new("btrfs", 256 << 20, "modes on btrfs") else { return };
    let probed = answer(&disk.path(), IoMode::Direct, Access::Write);
    assert_eq!(probed.filesystem, "btrfs");
    // If data checksums are enabled, Linux 6.14 and later sends direct writes on btrfs through the
    // page cache.
    assert!(matches!(probed.answer, Answer::Works | Answer::Cached), "{}", probed.answer);
    // Direct reads on btrfs bypass the page cache, even if direct writes do not.
    let probed = answer(&disk.path(), IoMode::Direct, Access::Read);
    assert_eq!(probed.answer, Answer::Works, "{probed:?}");
    check_modes(&disk.path());
}

#[test]
fn tmpfs_accepts_direct_io_but_buffers_it() {
    let memory = Path::new("/dev/shm");
    let Ok(directory) = tempfile::tempdir_in(memory) else {
        return say("LEFT OUT: modes on tmpfs: there is no /dev/shm");
    };
    for access in [Access::Read, Access::Write] {
        let probed = answer(directory.path(), IoMode::Direct, access);
        if probed.filesystem != "tmpfs" {
            return say("LEFT OUT: modes on tmpfs: /dev/shm is not one");
        }
        assert_ne!(probed.answer, Answer::Works, "{access:?}");
    }
}

#[test]
fn the_probe_reports_a_directory_that_refuses_direct_io() {
    let storage = SimStorage::new(1);
    for name in ["/takes", "/refuses"] {
        storage.create_directory(Path::new(name)).expect("a directory");
    }
    storage.refuse_direct(Path::new("/refuses"));
    let answer = |directory: &str, mode| {
        let probed = probe(&storage, Path::new(directory), mode, Access::Write);
        probed.expect("the directory can be written").answer
    };
    assert_eq!(answer("/takes", IoMode::Direct), Answer::Works);
    assert_eq!(answer("/refuses", IoMode::Buffered), Answer::Works);
    match answer("/refuses", IoMode::Direct) {
        Answer::Refused(why) => assert!(why.contains("refuses direct I/O"), "{why}"),
        other => panic!("{other}"),
    }
    assert!(probe(&storage, Path::new("/missing"), IoMode::Direct, Access::Write).is_err());
}

/// Regression test: on a full disk, a mode counted as working although the filesystem refuses it.
#[test]
fn a_full_disk_does_not_hide_that_a_mode_is_refused() {
    let storage = SimStorage::new(1);
    for name in ["/takes", "/refuses"] {
        storage.create_directory(Path::new(name)).expect("a directory");
    }
    storage.set_alignment(16 << 10);
    storage.refuse_direct(Path::new("/refuses"));
    for access in [Access::Read, Access::Write] {
        let answer = |directory: &str| {
            let probed = probe(&storage, Path::new(directory), IoMode::Direct, access);
            probed.expect("the directory exists")
        };
        let full = |operation| FaultRule::new(Fault::NoSpace).operation(operation).from(0);
        for operation in [Operation::Write, Operation::Sync] {
            storage.set_faults(FaultPlan::none().with(full(operation)));
            let takes = answer("/takes");
            assert_eq!((takes.answer, takes.alignment), (Answer::Works, 16 << 10));
            assert!(matches!(answer("/refuses").answer, Answer::Refused(_)), "{access:?}");
        }
        storage.set_faults(FaultPlan::none().with(full(Operation::Create)));
        assert_eq!(answer("/takes").answer, Answer::Untried);
        storage.set_faults(FaultPlan::none());
    }
}

#[test]
fn the_probe_uses_the_devices_alignment() {
    for alignment in [4096, 16 << 10, MAX_ALIGNMENT] {
        let storage = SimStorage::new(1);
        storage.set_alignment(alignment);
        for access in [Access::Read, Access::Write] {
            let probed = probe(&storage, Path::new("/"), IoMode::Direct, access);
            let probed = probed.expect("the directory can be written");
            assert_eq!((probed.answer, probed.alignment), (Answer::Works, alignment));
        }
    }
}

/// Regression test: trying a mode replaced, and then removed, a file that had the trial file's
/// name, for example a preallocated log of another database.
#[test]
fn the_files_of_others_stay() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let storage = PosixStorage::new();
    let others = [1, std::process::id()].map(|number| directory.join(format!("{number:06}.dbtmp")));
    for other in &others {
        let mut file = storage
            .create(other, Create::New, IoMode::Buffered, Purpose::Metadata)
            .expect("a file");
        file.write_all_at(b"other", 0, Purpose::Metadata).expect("a write");
    }
    for access in [Access::Read, Access::Write] {
        probe(&storage, directory, IoMode::Buffered, access).expect("the directory can be written");
    }
    let probe = DeviceProbe { bytes: 1 << 20, duration: Duration::from_millis(1) };
    let unless_refused = |result: tailwater_io::Result<()>| match result {
        Err(error) if error.is_unsupported() => say("LEFT OUT: the device, without direct I/O"),
        result => result.expect("figures"),
    };
    unless_refused(probe.run(&storage, directory).map(drop));
    unless_refused(DurableFile::create(directory, 1).map(drop));
    for other in &others {
        assert_eq!(storage.metadata(other).expect("it stays").length, 5);
    }
    assert_eq!(storage.list(directory).expect("the directory").len(), others.len());
}
