//! Databases that another version or engine wrote, with entries that this version does not write.

use tailwater::for_tests::EntryLimit;
use tailwater::{Db, ErrorKind, WriteOptions};
use tailwater_format::limits::{ENTRY_LENGTH_MAX, block_length_max};
use tailwater_io::sim::SimStorage;

use crate::support::{ENTRY, KEY, PATH, close_and_verify, compact, failure, simulated};

const OPTIONS: &str = "write_buffer_size=64M";

/// Writes entries that are longer than the lowered maximum, and closes the database without a
/// flush. Returns the entries.
fn write_long(limit: &EntryLimit, disk: &SimStorage, value: usize) -> [(Vec<u8>, Vec<u8>); 2] {
    limit.set(ENTRY_LENGTH_MAX);
    let db = Db::open(PATH, &simulated(disk, OPTIONS)).expect("a database");
    let entries = [(vec![b'k'; KEY * 2], vec![b'v'; 10]), (b"value".to_vec(), vec![b'w'; value])];
    for (key, value) in &entries {
        db.put_opt(key, value, &WriteOptions::new().with_sync(true)).expect("a put");
    }
    drop(db);
    entries
}

fn check(db: &Db, entries: &[(Vec<u8>, Vec<u8>)]) {
    for (key, value) in entries {
        assert!(db.get(key).expect("a get").as_ref() == Some(value));
    }
    let found: Vec<_> = db.range(..).map(|entry| entry.expect("an entry")).collect();
    assert_eq!(found.len(), entries.len());
}

/// RocksDB limits key and value separately, so its logs and tables may have entries that are longer
/// than those that Tailwater writes. As long as a block can have them, they are not refused.
#[test]
fn longer_entries_of_a_log_that_fit_a_block_are_stored() {
    let limit = EntryLimit::of(ENTRY);
    let disk = SimStorage::new(1);
    let entries = write_long(&limit, &disk, ENTRY * 2);
    limit.set(ENTRY);
    let options = simulated(&disk, OPTIONS);
    check(&Db::open_read_only(PATH, &options).expect("a reader"), &entries);
    let db = Db::open(PATH, &options).expect("a database");
    check(&db, &entries);
    compact(&db);
    check(&db, &entries);
    close_and_verify(db, &options);
}

/// RocksDB cannot read such a log without damage to its memory: the length of an entry in a
/// memtable has 32 bits.
#[test]
fn entries_of_a_log_that_fit_no_block_can_be_read_but_not_recovered() {
    let limit = EntryLimit::of(ENTRY);
    let disk = SimStorage::new(1);
    let entries = write_long(&limit, &disk, 2 << 20);
    limit.set(ENTRY);
    assert!(2 << 20 > block_length_max());
    let options = simulated(&disk, OPTIONS);
    for _ in 0..2 {
        let (kind, text) = failure(Db::open(PATH, &options));
        assert_eq!(kind, ErrorKind::NotSupported, "{text}");
        assert!(text.contains("a key of 5 and a value of 2097152 bytes"), "{text}");
    }
    check(&Db::open_read_only(PATH, &options).expect("a reader"), &entries);
    // Nothing was lost.
    limit.set(ENTRY_LENGTH_MAX);
    let db = Db::open(PATH, &options).expect("a database");
    check(&db, &entries);
    close_and_verify(db, &options);
}
