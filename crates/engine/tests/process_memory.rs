//! Tests the memory of all databases of the process. All are in one test, because other databases
//! of the process would count.
#![cfg(not(loom))]

use std::path::Path;
use std::sync::Arc;

use tailwater::{BlockCache, Db, OpenOptions, ProcessMemory, WriteBufferManager};

const MIB: usize = 1 << 20;
const MEMTABLES: &str = "memtables";
const CACHES: &str = "caches";
const TABLES: &str = "open_tables";

fn part(name: &str) -> usize {
    let memory = ProcessMemory::now();
    let (_, bytes) = memory.parts().find(|(part, _)| *part == name).expect("a part");
    bytes as usize
}

/// Checks that the memory of a part is freed. Without an open database, nothing frees what was
/// retired, so this opens and closes another one.
fn check_freed(name: &str, directory: &Path) {
    for _ in 0..100 {
        if part(name) == 0 {
            return;
        }
        drop(Db::open_default(directory.join("another")).expect("a database"));
    }
    panic!("{name}: {} bytes are left\n{}", part(name), ProcessMemory::now());
}

fn fill(db: &Db) {
    for number in 0..2000_u64 {
        db.put(number.to_be_bytes(), vec![number as u8; 1000]).expect("a put");
    }
}

fn read(db: &Db) {
    for number in 0..2000_u64 {
        assert!(db.get(number.to_be_bytes()).expect("a get").is_some());
    }
}

#[test]
fn shared_memory_counts_once_and_until_it_is_freed() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let cache = Arc::new(BlockCache::new(16 * MIB));
    let rows = Arc::new(BlockCache::new(MIB));
    let manager = Arc::new(WriteBufferManager::with_cache(8 * MIB, Arc::clone(&cache), true));
    assert_eq!((part(MEMTABLES), part(CACHES), part(TABLES)), (0, 0, 0));

    let mut options = OpenOptions::default();
    options.create_if_missing(true);
    options.set_block_cache(Arc::clone(&cache)).set_row_cache(Arc::clone(&rows));
    options.set_write_buffer_manager(Arc::clone(&manager));
    let open = |name| Db::open(directory.path().join(name), &options).expect("a database");
    let (first, second) = (open("first"), open("second"));
    fill(&first);
    fill(&second);
    assert_eq!(part(MEMTABLES), manager.memory_usage());
    assert!(part(MEMTABLES) > 4 * MIB);
    assert!(cache.usage() > 4 * MIB, "charged to the cache");
    assert_eq!(part(CACHES), 0, "what memtables charge is not counted twice");

    let iterator = first.raw_iterator().expect("an iterator");
    let of_first = part(MEMTABLES) / 2;
    first.flush().expect("a flush");
    second.flush().expect("a flush");
    read(&first);
    read(&second);
    let charged = manager.dummy_entries_in_cache_usage();
    assert_eq!(part(CACHES), cache.usage() - charged + rows.usage());
    assert!(part(CACHES) > 3 * MIB);
    let open_tables = part(TABLES);
    assert!(open_tables > 0);

    // A property of either database reports the whole process.
    let sum = |db: &Db| db.property_int_value("tailwater.process-memory-sum").expect("a property");
    let expected = ProcessMemory::now().sum();
    assert_eq!((sum(&first), sum(&second)), (Some(expected), Some(expected)));
    let text = second.property_value("tailwater.process-memory").expect("a property");
    assert!(
        text.expect("a text")
            .contains(&format!("open tables, beside the block caches {open_tables:>29}\n"))
    );
    let metrics = first.property_value("tailwater.process-memory-prometheus").expect("a property");
    let line = format!("tailwater_process_memory_bytes{{part=\"open_tables\"}} {open_tables}\n");
    assert!(metrics.expect("metrics").contains(&line));

    // The iterator keeps the memtable of a closed database.
    first.close().expect("closed");
    second.close().expect("closed");
    drop((first, second));
    assert!(part(MEMTABLES) >= of_first, "{} of {of_first}", part(MEMTABLES));
    drop(iterator);
    check_freed(MEMTABLES, directory.path());
    check_freed(TABLES, directory.path());
    assert!(part(CACHES) > 3 * MIB, "the caches are still there");
    drop((options, manager, cache, rows));
    check_freed(CACHES, directory.path());
}
