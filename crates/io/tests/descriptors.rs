//! A simulated disk on which the number of open files is limited.

use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use tailwater_io::descriptors::{DescriptorBudget, Exhausted, KeepsFilesOpen};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Create, IoMode, Operation, Purpose, ReadFile, Storage, WriteFile};

const PATH: &str = "/file";

fn create(storage: &SimStorage) -> tailwater_io::Result<Box<dyn WriteFile>> {
    storage.create(Path::new(PATH), Create::Truncate, IoMode::Buffered, Purpose::Wal)
}

fn open(storage: &SimStorage) -> tailwater_io::Result<Arc<dyn ReadFile>> {
    storage.open(Path::new(PATH), IoMode::Buffered, Purpose::UserRead)
}

/// Files that are open only for speed.
#[derive(Default)]
struct Cache(Mutex<Vec<Arc<dyn ReadFile>>>);

impl KeepsFilesOpen for Cache {
    fn close_some(&self, _: Exhausted) -> bool {
        // The last reference is dropped after the lock is released, as in real caches.
        let closed = self.0.lock().expect("no panic").pop();
        closed.is_some()
    }
}

#[test]
fn only_calls_that_open_something_need_a_descriptor() {
    let storage = SimStorage::new(1);
    let mut file = create(&storage).expect("a file");
    for exhausted in [Exhausted::Process, Exhausted::System] {
        storage.set_faults(FaultPlan::from(0, Fault::NoDescriptor(exhausted)));
        let refused = [
            create(&storage).map(drop),
            open(&storage).map(drop),
            storage.lock(Path::new("/LOCK")).map(drop),
            storage.list(Path::new("/")).map(drop),
            storage.sync_directory(Path::new("/")),
        ];
        for refused in refused {
            let error = refused.expect_err("no descriptor is left");
            assert!(error.is_out_of_descriptors(), "{error}");
        }
        file.write_all_at(b"bytes", 0, Purpose::Wal).expect("a write");
        file.sync_data(Purpose::Wal).expect("a sync");
        storage.rename(Path::new(PATH), Path::new("/other")).expect("a new name");
        storage.rename(Path::new("/other"), Path::new(PATH)).expect("the old name");
        assert_eq!(storage.metadata(Path::new(PATH)).expect("metadata").length, 5);
    }
}

#[test]
fn open_files_are_limited_and_a_cache_gives_way() {
    let storage = SimStorage::new(2);
    let (budget, cache) = (DescriptorBudget::new(3), Arc::new(Cache::default()));
    let keeper: Weak<Cache> = Arc::downgrade(&cache);
    budget.register(keeper);
    storage.limit_open_files(3, &budget);
    let _file = create(&storage).expect("a file");
    let kept = [open(&storage), open(&storage)].map(|file| file.expect("a file"));
    assert_eq!(storage.open_files(), 3);
    let error = storage.sync_directory(Path::new("/")).expect_err("three files are open");
    assert!(error.is_out_of_descriptors() && error.operation == Operation::SyncDirectory);
    cache.0.lock().expect("no panic").extend(kept);
    storage.sync_directory(Path::new("/")).expect("the cache closes a file");
    let third = open(&storage).expect("the third file");
    let _fourth = open(&storage).expect("the cache closes another file");
    assert_eq!((storage.open_files(), cache.0.lock().expect("no panic").len()), (3, 0));
    open(&storage).expect_err("the cache has no more");
    // An injected fault asks the cache as well.
    drop(third);
    cache.0.lock().expect("no panic").push(open(&storage).expect("a file"));
    let rule = FaultRule::new(Fault::NoDescriptor(Exhausted::System)).operation(Operation::Open);
    storage.set_faults(FaultPlan::none().with(rule.at(0)));
    open(&storage).expect("the second attempt");
    assert_eq!(cache.0.lock().expect("no panic").len(), 0);
}
