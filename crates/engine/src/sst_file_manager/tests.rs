//! Tests of the manager without a database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_io::clock::ManualClock;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Clock, Create, IoMode, Operation, Purpose, Storage};

use super::emptying::Pace;
use super::space::Space;
use super::{SstFileManager, TrackedFiles};

const SECOND_NS: u64 = 1_000_000_000;

/// Returns a manager that removes files slowly, whatever the size of the trash.
fn slow(rate: i64, clock: Arc<dyn Clock>) -> Arc<SstFileManager> {
    let manager = SstFileManager::with_clock(clock).with_bytes_max_delete_chunk(1000);
    manager.set_delete_rate_bytes_per_second(rate);
    manager.set_max_trash_db_ratio(f64::INFINITY);
    Arc::new(manager)
}

/// Returns the files of a database on the disk.
fn files(disk: &SimStorage, manager: &Arc<SstFileManager>, is_inline: bool) -> TrackedFiles {
    let manager = Some(Arc::clone(manager));
    TrackedFiles::new(Arc::new(disk.clone())).managed_by(manager, true, is_inline)
}

fn create(disk: &SimStorage, path: &str, bytes: u64) -> PathBuf {
    let path = PathBuf::from(path);
    let purpose = Purpose::FlushWrite;
    let mut file = disk.create(&path, Create::New, IoMode::Buffered, purpose).unwrap();
    file.truncate(bytes).unwrap();
    path
}

fn names(disk: &SimStorage, directory: &str) -> Vec<String> {
    let entries = disk.list(Path::new(directory)).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

fn length(disk: &SimStorage, path: &str) -> u64 {
    disk.metadata(Path::new(path)).unwrap().length
}

fn eventually(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

/// Returns the number of calls that cut a file, and of those that removed one.
fn removals(disk: &SimStorage) -> (usize, usize) {
    let calls = disk.calls();
    let count = |operation| calls.iter().filter(|call| call.operation == operation).count();
    (count(Operation::Truncate), count(Operation::Remove))
}

#[test]
fn the_total_is_the_sum_of_the_tracked_sizes() {
    let mut space = Space::default();
    let (one, two, trash) = (Path::new("/1.sst"), Path::new("/2.sst"), Path::new("/1.sst.trash"));
    space.track(one, 10, 7);
    space.track(one, 15, 7);
    space.track(two, 20, 8);
    assert_eq!(space.total(), 35);
    space.move_to_trash(one, trash, 7);
    assert!(space.is_trash(trash) && !space.is_trash(one) && space.total() == 35);
    space.leave(7);
    space.leave(8);
    assert_eq!(space.total(), 15, "trash stays");
    assert_eq!(space.untrack(trash), 15);
    assert_eq!((space.untrack(trash), space.total()), (0, 0));
    space.move_to_trash(Path::new("/1.log"), Path::new("/1.log.trash"), 7);
    assert_eq!(space.total(), 0, "logs are not tracked");
}

#[test]
fn the_limit_is_reached_at_its_value_and_0_is_no_limit() {
    let mut space = Space::default();
    space.track(Path::new("/1.sst"), 100, 0);
    assert!(!space.is_reached() && space.reserve(u64::MAX));
    space.release(u64::MAX);
    space.set_max_allowed(101);
    assert!(!space.is_reached());
    space.set_max_allowed(100);
    assert!(space.is_reached() && space.is_reached_including_compactions());
}

#[test]
fn a_compaction_must_fit_beside_the_files_and_other_compactions() {
    let mut space = Space::default();
    space.track(Path::new("/1.sst"), 100, 0);
    space.set_max_allowed(200);
    space.set_compaction_buffer(30);
    assert!(!space.reserve(71) && space.reserve(40) && space.reserve(30) && !space.reserve(1));
    assert!(!space.is_reached_including_compactions());
    space.set_max_allowed(170);
    assert!(space.is_reached_including_compactions() && !space.is_reached());
    space.set_max_allowed(200);
    space.release(40);
    assert!(space.reserve(40));
}

#[test]
fn what_was_removed_determines_when_more_may_be() {
    let mut pace = Pace::begin(1000, 5);
    assert_eq!(pace.due_ns(), 5);
    pace.add(500);
    assert_eq!(pace.due_ns(), 5 + SECOND_NS / 2);
    pace.add(1500);
    assert_eq!(pace.due_ns(), 5 + 2 * SECOND_NS);
    pace.add(u64::MAX);
    assert_eq!(pace.due_ns(), u64::MAX);
    for rate in [0, -1] {
        let mut pace = Pace::begin(rate, 5);
        pace.add(500);
        assert_eq!(pace.due_ns(), 5, "there is no limit");
    }
}

#[test]
fn files_are_removed_at_once_without_a_rate_or_with_too_much_trash() {
    let disk = SimStorage::new(1);
    let manager = slow(0, disk.clock());
    let files = files(&disk, &manager, false);
    for number in 1..=4 {
        let path = create(&disk, &format!("/00000{number}.sst"), 100);
        files.added(&path, 100);
    }
    files.remove(Path::new("/000001.sst")).unwrap();
    assert_eq!(names(&disk, "/"), ["000002.sst", "000003.sst", "000004.sst"]);
    manager.set_delete_rate_bytes_per_second(1);
    manager.set_max_trash_db_ratio(0.25);
    // The clock stands still. The thread removes this file, and then pauses.
    files.remove(Path::new("/000002.sst")).unwrap();
    eventually(|| (manager.total_size(), manager.total_trash_size()) == (200, 0));
    files.remove(Path::new("/000003.sst")).unwrap();
    assert_eq!(names(&disk, "/"), ["000003.sst.trash", "000004.sst"]);
    assert_eq!((manager.total_trash_size(), manager.total_size()), (100, 200));
    // The trash is half of the total size.
    files.remove(Path::new("/000004.sst")).unwrap();
    assert_eq!(names(&disk, "/"), ["000003.sst.trash"]);
    manager.set_delete_rate_bytes_per_second(0);
    manager.wait_for_empty_trash();
    assert_eq!(names(&disk, "/"), [""; 0]);
    assert_eq!((manager.total_trash_size(), manager.total_size()), (0, 0));
}

#[test]
fn trash_is_removed_in_chunks_at_the_rate() {
    let disk = SimStorage::new(1);
    let clock = Arc::new(ManualClock::new(0));
    let manager = slow(1000, Arc::clone(&clock) as Arc<dyn Clock>);
    let files = files(&disk, &manager, false);
    let path = create(&disk, "/000001.sst", 2500);
    files.added(&path, 2500);
    files.remove(&path).unwrap();
    let left = || match disk.metadata(Path::new("/000001.sst.trash")) {
        Ok(found) => found.length,
        Err(_) => 0,
    };
    eventually(|| left() == 1500);
    eventually(|| manager.total_trash_size() == 1500);
    assert_eq!(manager.total_size(), 2500, "the file is tracked until it is removed");
    clock.advance(SECOND_NS - 1);
    assert_eq!(left(), 1500);
    clock.advance(1);
    eventually(|| left() == 500);
    clock.advance(SECOND_NS);
    eventually(|| left() == 0);
    assert!(!manager.shared.trash.lock().is_empty(), "the last chunk is paid for, too");
    clock.advance(SECOND_NS / 2);
    manager.wait_for_empty_trash();
    assert_eq!((manager.total_trash_size(), manager.total_size()), (0, 0));
}

#[test]
fn a_new_rate_takes_effect_at_once_and_dropping_the_manager_ends_its_thread() {
    let disk = SimStorage::new(1);
    let manager = slow(1, disk.clock());
    let files = files(&disk, &manager, false);
    for number in 1..=2 {
        files.remove(&create(&disk, &format!("/00000{number}.blob"), 100)).unwrap();
    }
    eventually(|| names(&disk, "/") == ["000002.blob.trash"]);
    manager.set_delete_rate_bytes_per_second(i64::MAX);
    eventually(|| names(&disk, "/").is_empty());
    manager.set_delete_rate_bytes_per_second(1);
    for number in 3..=4 {
        files.remove(&create(&disk, &format!("/00000{number}.blob"), 100)).unwrap();
    }
    eventually(|| names(&disk, "/") == ["000004.blob.trash"]);
    drop(files);
    assert_eq!(Arc::strong_count(&manager), 1);
    drop(manager);
    assert_eq!(names(&disk, "/"), ["000004.blob.trash"]);
}

#[test]
fn a_trash_name_that_is_taken_is_not_used() {
    let disk = SimStorage::new(1);
    let manager = slow(1, disk.clock());
    let files = files(&disk, &manager, false);
    create(&disk, "/000009.sst.trash", 1);
    create(&disk, "/000009.sst0.trash", 2);
    let first = create(&disk, "/000001.sst", 100);
    files.remove(&first).unwrap();
    eventually(|| !names(&disk, "/").iter().any(|name| name.starts_with("000001")));
    files.remove(&create(&disk, "/000009.sst", 3)).unwrap();
    assert_eq!(names(&disk, "/"), ["000009.sst.trash", "000009.sst0.trash", "000009.sst1.trash"]);
    assert_eq!(length(&disk, "/000009.sst1.trash"), 3);
}

/// Tests that a file is never cut if a checkpoint shares it, or through a symbolic link.
#[test]
fn a_file_with_another_name_is_not_cut() {
    let disk = SimStorage::new(1);
    let manager = slow(1 << 40, disk.clock());
    let files = files(&disk, &manager, true);
    let linked = create(&disk, "/000001.sst", 5000);
    disk.link(&linked, Path::new("/copy")).unwrap();
    create(&disk, "/elsewhere", 5000);
    disk.create_symbolic_link(Path::new("/elsewhere"), Path::new("/000002.sst")).unwrap();
    let own = create(&disk, "/000003.sst", 5000);
    disk.start_recording();
    files.remove(&linked).unwrap();
    files.remove(Path::new("/000002.sst")).unwrap();
    assert_eq!(removals(&disk), (0, 2));
    assert_eq!(["/copy", "/elsewhere"].map(|path| length(&disk, path)), [5000; 2]);
    files.remove(&own).unwrap();
    assert_eq!(removals(&disk), (4, 3));
    assert_eq!(names(&disk, "/"), ["copy", "elsewhere"]);
}

#[test]
fn a_step_that_fails_is_replaced_by_the_removal_in_one_step() {
    for (operation, expected) in [
        (Operation::Rename, (0, 1)),
        // The call that fails, and the removal.
        (Operation::Truncate, (1, 1)),
    ] {
        let disk = SimStorage::new(1);
        let manager = slow(1 << 40, disk.clock());
        let files = files(&disk, &manager, true);
        let path = create(&disk, "/000001.sst", 5000);
        files.added(&path, 5000);
        disk.start_recording();
        let rule = FaultRule::new(Fault::InputOutput).operation(operation).from(0);
        disk.set_faults(FaultPlan::none().with(rule));
        files.remove(&path).unwrap();
        assert_eq!(removals(&disk), expected, "{operation}");
        assert_eq!(names(&disk, "/"), [""; 0], "{operation}");
        assert_eq!((manager.total_size(), manager.total_trash_size()), (0, 0), "{operation}");
    }
}

/// Returns a plan in which the first `count` removals of trash files fail.
fn failing_removals(count: u64) -> FaultPlan {
    let rule = FaultRule::new(Fault::InputOutput).operation(Operation::Remove);
    let rule = rule.path_containing(".trash");
    (0..count).fold(FaultPlan::none(), |plan, index| plan.with(rule.clone().at(index)))
}

#[test]
fn trash_that_cannot_be_removed_is_left_to_the_next_opening() {
    let disk = SimStorage::new(1);
    let manager = slow(1 << 40, disk.clock());
    let files = files(&disk, &manager, true);
    let path = create(&disk, "/000001.sst", 500);
    files.added(&path, 500);
    disk.set_faults(failing_removals(1));
    files.remove(&path).unwrap();
    assert_eq!(names(&disk, "/"), ["000001.sst.trash"]);
    assert_eq!((manager.total_size(), manager.total_trash_size()), (0, 0));
    files.remove_left_over(Path::new("/000001.sst.trash")).unwrap();
    assert_eq!(names(&disk, "/"), [""; 0]);
}

#[test]
fn trash_of_a_destroyed_database_that_cannot_be_removed_slowly_is_removed_at_once() {
    for is_inline in [false, true] {
        let disk = SimStorage::new(1);
        let manager = slow(1 << 40, disk.clock());
        let files = files(&disk, &manager, is_inline);
        let path = create(&disk, "/000001.sst", 500);
        let missing = PathBuf::from("/000002.sst");
        disk.set_faults(failing_removals(2));
        assert!(files.remove_destroyed([path, missing]).is_err(), "both attempts fail");
        assert_eq!(names(&disk, "/"), ["000001.sst.trash"]);
        disk.set_faults(failing_removals(1));
        files.remove_destroyed(["/000001.sst.trash".into()]).unwrap();
        assert_eq!(names(&disk, "/"), [""; 0]);
        assert_eq!((manager.total_size(), manager.total_trash_size()), (0, 0));
    }
}

/// Tests that files of other kinds are removed at once, as are logs in a directory of their own.
#[test]
fn only_data_is_removed_slowly() {
    let disk = SimStorage::new(1);
    let manager = slow(1, disk.clock());
    let own_logs = files(&disk, &manager, false);
    own_logs.remove(&create(&disk, "/000001.sst", 1000)).unwrap();
    eventually(|| names(&disk, "/").is_empty());
    for (name, is_slow) in
        [("000002.log", true), ("MANIFEST-000003", false), ("OPTIONS-000004", false)]
    {
        own_logs.remove(&create(&disk, &format!("/{name}"), 10)).unwrap();
        assert_eq!(names(&disk, "/") == [format!("{name}.trash")], is_slow, "{name}");
        let _ = disk.remove(Path::new(&format!("/{name}.trash")));
    }
    let elsewhere = TrackedFiles::new(Arc::new(disk.clone()));
    let elsewhere = elsewhere.managed_by(Some(Arc::clone(&manager)), false, false);
    elsewhere.remove(&create(&disk, "/000005.log", 10)).unwrap();
    assert_eq!(names(&disk, "/"), [""; 0]);
}

/// Tests that trash is scheduled only once if its database is opened again before it is removed.
#[test]
fn trash_of_an_earlier_opening_is_not_scheduled_twice() {
    let disk = SimStorage::new(1);
    let manager = slow(1, disk.clock());
    let first = files(&disk, &manager, false);
    for number in 1..=2 {
        let path = create(&disk, &format!("/00000{number}.sst"), 100);
        first.added(&path, 100);
        first.remove(&path).unwrap();
    }
    eventually(|| (manager.total_size(), manager.total_trash_size()) == (100, 100));
    first.close();
    assert_eq!((manager.total_size(), manager.total_trash_size()), (100, 100));
    let second = files(&disk, &manager, false);
    second.remove_left_over(Path::new("/000002.sst.trash")).unwrap();
    second.remove_left_over(&create(&disk, "/000003.sst.trash", 50)).unwrap();
    assert_eq!((manager.total_size(), manager.total_trash_size()), (150, 150));
    assert_eq!(names(&disk, "/"), ["000002.sst.trash", "000003.sst.trash"]);
    manager.set_delete_rate_bytes_per_second(0);
    manager.wait_for_empty_trash();
    assert_eq!((manager.total_size(), manager.total_trash_size()), (0, 0));
}
