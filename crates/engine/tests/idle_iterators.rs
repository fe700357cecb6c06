//! Iterators that read ahead with `async_io` and are then left idle. A test of its own, because it
//! counts the descriptors of the process.

use std::path::Path;

use tailwater::{Db, OpenOptions, ReadOptions};
use tailwater_io::Storage;
use tailwater_io::posix::PosixStorage;
use tailwater_testkit::filesystem::say;

const ITERATORS: usize = 100;
const ENTRIES: u32 = 20_000;
/// Number of io_uring instances that may be open. A request may still be in flight when the next
/// iterator needs one, so it is more than one.
const FEW: usize = 8;

fn open_descriptors() -> usize {
    PosixStorage::new().list(Path::new("/proc/self/fd")).expect("a list").len()
}

fn key(number: u32) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

#[test]
fn idle_iterators_keep_few_rings() {
    if !PosixStorage::new().uses_io_uring() {
        return say("LEFT OUT: rings of idle iterators: io_uring is not allowed here");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = OpenOptions::default();
    let text = "create_if_missing=true;compression=kNoCompression;disable_auto_compactions=true;\
                block_based_table_factory={no_block_cache=true}";
    options.set_from_string(text).expect("options");
    let db = Db::open(directory.path(), &options).expect("a database");
    for number in 0..ENTRIES {
        db.put(key(number), vec![b'x'; 500]).expect("a put");
    }
    db.flush().expect("a flush");
    assert!(db.get(key(0)).expect("a get").is_some(), "this opens the table");
    let before = open_descriptors();
    let options = ReadOptions::new().with_async_io(true);
    let mut iterators: Vec<_> =
        (0..ITERATORS).map(|_| db.raw_iterator_opt(&options).expect("an iterator")).collect();
    for iterator in &mut iterators {
        iterator.seek_to_first().expect("a seek");
        for _ in 0..200 {
            iterator.next().expect("a step");
        }
    }
    let rings = open_descriptors() - before;
    assert!((1..=FEW).contains(&rings), "{rings} rings of {ITERATORS} idle iterators");
    for iterator in &mut iterators {
        for number in 200..1000 {
            assert_eq!(iterator.key(), key(number));
            iterator.next().expect("a step");
        }
    }
    let rings = open_descriptors() - before;
    assert!((1..=FEW).contains(&rings), "{rings} rings of {ITERATORS} idle iterators");
    drop(iterators);
    let text = db.property_value("tailwater.memory").expect("a property").expect("the memory");
    let line = text.lines().find(|line| line.contains("users' reads in flight"));
    let in_use = line.and_then(|line| line.split_whitespace().last());
    assert_eq!(in_use, Some("0"), "{text}");
}
