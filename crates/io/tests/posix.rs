//! Tests of what only the real disk does, and the simulated disk does not: locks between processes,
//! refused direct I/O, and statistics with measured durations.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::posix::PosixStorage;
use tailwater_io::{Create, IoMode, Operation, Purpose, Storage};
use tailwater_testkit::filesystem::say;

/// Environment variable that tells the child process the path to lock.
const LOCK_PATH: &str = "TAILWATER_TEST_LOCK_PATH";
/// Environment variable that tells the child process whether to expect the lock to be free (`yes`
/// or `no`).
const LOCK_FREE: &str = "TAILWATER_TEST_LOCK_FREE";

/// Starts this test binary again as a child process that runs only [`child_takes_the_lock`]. The
/// child fails unless it finds the lock as expected: free or held.
fn assert_seen_by_another_process(path: &Path, free: bool) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_takes_the_lock", "--nocapture"])
        .env(LOCK_PATH, path)
        .env(LOCK_FREE, if free { "yes" } else { "no" })
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "expected free = {free}: {text}");
    assert!(text.contains("the child has looked"), "the child did not run: {text}");
}

#[test]
fn child_takes_the_lock() {
    let Some(path) = std::env::var_os(LOCK_PATH).map(PathBuf::from) else { return };
    // Lock the file as RocksDB does.
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let operation = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    let is_free = rustix::fs::fcntl_lock(&file, operation).is_ok();
    assert_eq!(is_free, std::env::var(LOCK_FREE).unwrap() == "yes");
    drop(file);
    assert_eq!(PosixStorage::new().is_locked(&path).unwrap(), !is_free);
    match PosixStorage::new().lock(&path) {
        Ok(_) => assert_eq!(std::env::var(LOCK_FREE).unwrap(), "yes"),
        Err(error) => {
            assert_eq!(std::env::var(LOCK_FREE).unwrap(), "no", "{error}");
            assert_eq!(error.source.kind(), ErrorKind::WouldBlock);
        }
    }
    println!("the child has looked");
}

#[test]
fn a_lock_keeps_out_this_process_and_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("LOCK");
    let storage = PosixStorage::new();
    assert!(!storage.is_locked(&path).unwrap() && !path.exists());
    let lock = storage.lock(&path).unwrap();
    // `is_locked` opens and closes the file. That must not release the lock, which the child
    // process below must still see.
    assert!(storage.is_locked(&path).unwrap());
    assert_seen_by_another_process(&path, false);
    for storage in [storage.clone(), PosixStorage::new()] {
        let refused = storage.lock(&path).unwrap_err();
        assert_eq!(refused.operation, Operation::Lock);
        assert_eq!(refused.source.kind(), ErrorKind::WouldBlock);
    }
    // The refused attempts above opened and closed the file. The lock must still be held.
    assert_seen_by_another_process(&path, false);
    drop(lock);
    assert_seen_by_another_process(&path, true);
    drop(storage.lock(&path).unwrap());
}

#[test]
fn a_locked_file_is_known_by_any_path() {
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::new();
    let path = directory.path().join("LOCK");
    let _lock = storage.lock(&path).unwrap();
    let second = directory.path().join("second");
    storage.link(&path, &second).unwrap();
    assert_eq!(storage.lock(&second).unwrap_err().source.kind(), ErrorKind::WouldBlock);
    let roundabout = directory.path().join(".").join("LOCK");
    assert_eq!(storage.lock(&roundabout).unwrap_err().source.kind(), ErrorKind::WouldBlock);
    assert_seen_by_another_process(&path, false);
}

/// Regression test: hard-linking a symbolic link gave the second name to the link itself, so the
/// name dangled after the link's target was removed.
#[test]
fn a_second_name_by_a_symbolic_link_is_that_of_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::new();
    let [file, link, second] = ["file", "link", "second"].map(|name| directory.path().join(name));
    drop(storage.create(&file, Create::New, IoMode::Buffered, Purpose::Metadata).unwrap());
    std::os::unix::fs::symlink(&file, &link).unwrap();
    storage.link(&link, &second).unwrap();
    storage.remove(&file).unwrap();
    storage.open(&second, IoMode::Buffered, Purpose::Metadata).unwrap();
    let dangling = storage.link(&link, &directory.path().join("third")).unwrap_err();
    assert_eq!(dangling.source.kind(), ErrorKind::NotFound);
}

/// Regression test: the lock belonged to the process (`fcntl`), as RocksDB's does, so it was
/// released when any code in the process closed the file after reading it.
#[test]
fn opening_a_locked_file_keeps_the_lock() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("LOCK");
    let storage = PosixStorage::new();
    let lock = storage.lock(&path).unwrap();
    drop(storage.open(&path, IoMode::Buffered, Purpose::Metadata).unwrap());
    assert_seen_by_another_process(&path, false);
    drop(lock);
    assert_seen_by_another_process(&path, true);
}

#[test]
fn refused_direct_io_names_the_path_and_the_filesystem() {
    let storage = PosixStorage::new();
    let path = Path::new("/proc/self/status");
    let error = storage.open(path, IoMode::Direct, Purpose::CompactionRead).unwrap_err();
    assert!(error.is_unsupported());
    let text = error.to_string();
    assert!(text.contains("/proc/self/status: proc refuses direct I/O (O_DIRECT)"), "{text}");
    storage.open(path, IoMode::Buffered, Purpose::CompactionRead).unwrap();
    let missing = storage.open(Path::new("/proc/nothing"), IoMode::Direct, Purpose::UserRead);
    assert!(missing.unwrap_err().is_not_found());
}

#[test]
fn statistics_are_kept_by_purpose() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("000012.log");
    let storage = PosixStorage::new();
    let mut file = storage.create(&path, Create::New, IoMode::Buffered, Purpose::Wal).unwrap();
    file.write_all_at(&[1; 1000], 0, Purpose::Wal).unwrap();
    file.write_all_at(&[1; 500], 1000, Purpose::Wal).unwrap();
    file.sync_data(Purpose::Wal).unwrap();
    let file = storage.open(&path, IoMode::Buffered, Purpose::Verification).unwrap();
    let mut buffer = [0; 4096];
    assert_eq!(file.read_full_at(&mut buffer, 0, Purpose::Verification).unwrap(), 1500);
    let log = storage.statistics().snapshot(Purpose::Wal);
    assert_eq!((log.opens, log.writes.count, log.written_bytes, log.syncs.count), (1, 2, 1500, 1));
    assert!(log.syncs.max_ns > 0 && log.syncs.percentile_ns(50.0) <= log.syncs.max_ns);
    let check = storage.statistics().snapshot(Purpose::Verification);
    // `read_full_at` made two reads: one that returned the bytes, and one that found the end of the
    // file.
    assert_eq!((check.opens, check.reads.count, check.read_bytes), (1, 2, 1500));
    assert_eq!(storage.statistics().snapshot(Purpose::Manifest).opens, 0);
}

#[test]
fn direct_transfers_if_the_filesystem_supports_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("direct");
    let storage = PosixStorage::new();
    let mut file = match storage.create(&path, Create::New, IoMode::Direct, Purpose::FlushWrite) {
        Ok(file) => file,
        Err(error) => {
            assert!(error.is_unsupported(), "{error}");
            assert!(storage.metadata(&path).unwrap_err().is_not_found());
            return say(&format!("LEFT OUT: direct transfers: {error}"));
        }
    };
    let mut buffer = AlignedBuffer::with_capacity(8192);
    buffer.append(&[9; 8192]);
    file.allocate(0, 1 << 20).unwrap();
    assert_eq!(file.length().unwrap(), 0);
    file.write_all_at(&buffer, 0, Purpose::FlushWrite).unwrap();
    file.truncate(5000).unwrap();
    file.sync_all(Purpose::FlushWrite).unwrap();
    let file = storage.open(&path, IoMode::Direct, Purpose::CompactionRead).unwrap();
    buffer.fill(0);
    assert_eq!(file.read_full_at(&mut buffer, 0, Purpose::CompactionRead).unwrap(), 5000);
    assert!(buffer[..5000].iter().all(|&byte| byte == 9));
    assert_eq!(file.read_full_at(&mut buffer, 8192, Purpose::CompactionRead).unwrap(), 0);
}

#[test]
fn a_file_gets_the_owner_and_the_permissions_of_another() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::private();
    let [from, to, missing] = ["from", "to", "missing"].map(|name| directory.path().join(name));
    for path in [&from, &to] {
        storage.create(path, Create::New, IoMode::Buffered, Purpose::Metadata).unwrap();
    }
    std::fs::set_permissions(&from, std::fs::Permissions::from_mode(0o640)).unwrap();
    let own = from.metadata().unwrap();
    if chown(&from, Some(own.uid() + 1), Some(own.gid() + 2)).is_err() {
        say("LEFT OUT: a file of another owner, which only root can make");
    }
    storage.copy_ownership(&from, &to).unwrap();
    let [wanted, found] = [&from, &to].map(|path| {
        let metadata = path.metadata().unwrap();
        (metadata.mode() & 0o7777, metadata.uid(), metadata.gid())
    });
    assert_eq!(found, wanted);
    assert_eq!(found.0, 0o640);
    let error = storage.copy_ownership(&missing, &to).unwrap_err();
    assert!(error.is_not_found() && error.path == missing, "{error}");
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&to, &link).unwrap();
    let error = storage.copy_ownership(&from, &link).unwrap_err();
    assert!(error.operation == Operation::ChangeOwner && error.path == link, "{error}");
}

/// A process may have any umask, so the test only looks for access that should not be there, and
/// for what a private storage must not add.
#[test]
fn only_the_owner_has_access_to_what_a_private_storage_creates() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::private();
    let [below, file, direct, lock] =
        ["a/b", "a/b/file", "a/b/direct", "a/b/LOCK"].map(|name| directory.path().join(name));
    storage.create_directory(&below).unwrap();
    storage.create(&file, Create::New, IoMode::Buffered, Purpose::Metadata).unwrap();
    let _lock = storage.lock(&lock).unwrap();
    let mut paths = vec![directory.path().join("a"), below, file, lock];
    match storage.create(&direct, Create::New, IoMode::Direct, Purpose::Metadata) {
        Ok(_) => paths.push(direct),
        Err(error) => {
            assert!(error.is_unsupported(), "{error}");
            say(&format!("LEFT OUT: access to a file for direct I/O: {error}"));
        }
    }
    for path in paths {
        let metadata = path.metadata().unwrap();
        assert_eq!(metadata.permissions().mode() & 0o077, 0, "{}", path.display());
    }
}
