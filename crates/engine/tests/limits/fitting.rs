//! Entries of exactly the maximum length pass through every step of the database.

use tailwater::for_tests::EntryLimit;
use tailwater::{Db, OpenOptions, ReadOptions, SstFileWriter};
use tailwater_io::sim::SimStorage;

use crate::database::synced;
use crate::support::{ENTRY, KEY, PATH, close_and_verify, compact, simulated};

/// The entries at the limit: number of bytes of the key, first byte of the key.
const ENTRIES: [(usize, u8); 4] = [(1, b'a'), (KEY, b'b'), (KEY / 2, b'c'), (KEY, b'd')];

/// Returns an entry of the maximum length.
fn entry((length, first): (usize, u8)) -> (Vec<u8>, Vec<u8>) {
    let key = vec![first; length];
    let mut rng = fastrand::Rng::with_seed(length as u64);
    let value = (0..ENTRY - length).map(|at| if at % 3 == 0 { rng.u8(..) } else { first });
    (key, value.collect())
}

fn options(disk: &SimStorage, more: &str) -> OpenOptions {
    simulated(disk, &format!("merge_operator=put;write_buffer_size=16K;{more}"))
}

fn check(db: &Db) {
    for at in ENTRIES {
        let (key, value) = entry(at);
        assert!(db.get(&key).expect("a get") == Some(value.clone()), "{at:?}");
        let mut cursor = db.raw_iterator().expect("an iterator");
        cursor.seek(&key).expect("a seek");
        assert!(cursor.item() == Some((&key[..], &value[..])), "{at:?}");
    }
    let mut cursor = db.raw_iterator().expect("an iterator");
    cursor.seek_to_last().expect("a seek");
    for at in ENTRIES.into_iter().rev() {
        assert!(cursor.item().expect("an entry") == (&*entry(at).0, &*entry(at).1), "{at:?}");
        cursor.prev().expect("a step backward");
    }
    assert!(!cursor.valid());
    let keys: Vec<Vec<u8>> = ENTRIES.iter().map(|&at| entry(at).0).collect();
    for (value, at) in db.multi_get(&keys).into_iter().zip(ENTRIES) {
        assert!(value.expect("a get").as_deref() == Some(&entry(at).1[..]), "{at:?}");
    }
}

#[test]
fn entries_of_the_maximum_length_are_kept_through_every_step() {
    let _limit = EntryLimit::of(ENTRY);
    for more in ["", "compression=kNoCompression", "compression=kZSTD;wal_compression=kZSTD"] {
        let disk = SimStorage::new(1);
        let db = Db::open(PATH, &options(&disk, more)).expect("a database");
        for (number, at) in ENTRIES.into_iter().enumerate() {
            let (key, value) = entry(at);
            let written = match number % 2 {
                0 => db.put_opt(&key, &value, &synced()),
                _ => db.merge_opt(&key, &value, &synced()),
            };
            written.expect("an entry of the maximum length");
        }
        check(&db);
        // Recovery from the log.
        let disk = disk.crash_image(1);
        let db = Db::open(PATH, &options(&disk, more)).expect("a database");
        check(&db);
        db.flush().expect("a flush");
        check(&db);
        db.compact_range(None, None).expect("a compaction");
        check(&db);
        close_and_verify(db, &options(&disk, more));
        check(&Db::open(PATH, &options(&disk, more)).expect("a database"));
    }
}

#[test]
fn entries_of_the_maximum_length_are_ingested() {
    let _limit = EntryLimit::of(ENTRY);
    let disk = SimStorage::new(1);
    let options = options(&disk, "");
    let mut writer = SstFileWriter::new(&options, "default").expect("a writer");
    writer.open("/file.sst").expect("a table");
    for at in ENTRIES {
        let (key, value) = entry(at);
        writer.put(&key, &value).expect("an entry of the maximum length");
    }
    writer.finish().expect("a table");
    let db = Db::open(PATH, &options).expect("a database");
    db.ingest_external_file(&["/file.sst"]).expect("an ingestion");
    check(&db);
    compact(&db);
    check(&db);
    close_and_verify(db, &options);
}

#[test]
fn ranges_with_bounds_of_the_maximum_length_are_deleted() {
    let _limit = EntryLimit::of(ENTRY);
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &options(&disk, "")).expect("a database");
    let (begin, end) = (vec![b'b'; KEY], vec![b'd'; KEY]);
    for key in [&b"a"[..], b"c", &begin, &end] {
        db.put(key, "value").expect("a put");
    }
    let before = ReadOptions::new().with_snapshot(db.snapshot());
    db.delete_range(&begin, &end).expect("a deletion");
    let check = |db: &Db| {
        let found = |key: &[u8]| db.get(key).expect("a get").is_some();
        assert!(found(b"a") && found(&end) && !found(b"c") && !found(&begin));
        assert!(db.get_opt("c", &before).expect("a get").is_some());
    };
    check(&db);
    db.flush().expect("a flush");
    check(&db);
    db.compact_range(None, None).expect("a compaction");
    check(&db);
    drop(before);
    close_and_verify(db, &options(&disk, ""));
}
