//! Random operations with keys of the maximum length, compared with a model. Tables end where their
//! index or their range tombstones are too long, often in the range of a tombstone or between
//! versions of a key that snapshots see.

use std::collections::BTreeMap;

use fastrand::Rng;
use tailwater::for_tests::EntryLimit;
use tailwater::{Db, OpenOptions, ReadOptions};
use tailwater_io::sim::SimStorage;
use tailwater_testkit::seed;

use crate::support::{ENTRY, PATH, close_and_verify, compact, long_key, simulated};

/// Number of different keys. Their separators do not fit an index block.
const KEYS: usize = 300;

/// The values by the numbers of their keys.
type Model = BTreeMap<usize, Vec<u8>>;

/// A snapshot and the values that it must show.
type Held = (ReadOptions, Model);

fn options(disk: &SimStorage) -> OpenOptions {
    let text = "write_buffer_size=1G;level0_file_num_compaction_trigger=4;max_subcompactions=2;\
                merge_operator=stringappend;max_bytes_for_level_base=4M;\
                target_file_size_base=2M;num_levels=4;compression=kZSTD";
    simulated(disk, text)
}

fn write(db: &Db, model: &mut Model, rng: &mut Rng) {
    let number = rng.usize(..KEYS);
    let key = long_key(number);
    match rng.u8(..10) {
        0..5 => {
            let value = format!("value {}", rng.u16(..)).into_bytes();
            db.put(&key, &value).expect("a put");
            model.insert(number, value);
        }
        5 => {
            db.delete(&key).expect("a deletion");
            model.remove(&number);
        }
        6 => {
            let end = (number + rng.usize(1..60)).min(KEYS);
            db.delete_range(&key, long_key(end)).expect("a deletion");
            model.retain(|at, _| !(number..end).contains(at));
        }
        _ => {
            let operand = rng.u8(..).to_string().into_bytes();
            db.merge(&key, &operand).expect("a merge");
            let value = model.entry(number).or_default();
            if !value.is_empty() {
                value.push(b',');
            }
            value.extend_from_slice(&operand);
        }
    }
}

fn check(db: &Db, options: &ReadOptions, model: &Model, rng: &mut Rng) {
    let mut cursor = db.raw_iterator_opt(options).expect("an iterator");
    cursor.seek_to_first().expect("a seek");
    for (number, value) in model {
        assert!(cursor.item() == Some((&long_key(*number)[..], value)), "forward at {number}");
        cursor.next().expect("a step");
    }
    assert!(!cursor.valid());
    cursor.seek_to_last().expect("a seek");
    for (number, value) in model.iter().rev() {
        assert!(cursor.item() == Some((&long_key(*number)[..], value)), "backward at {number}");
        cursor.prev().expect("a step");
    }
    assert!(!cursor.valid());
    for _ in 0..20 {
        let number = rng.usize(..KEYS);
        let found = db.get_opt(long_key(number), options).expect("a get");
        assert_eq!(found.as_ref(), model.get(&number), "{number}");
    }
}

fn check_all(db: &Db, model: &Model, held: &[Held], rng: &mut Rng) {
    check(db, &ReadOptions::new(), model, rng);
    held.iter().for_each(|(options, model)| check(db, options, model, rng));
}

fn play(rng: &mut Rng) -> usize {
    let mut disk = SimStorage::new(1);
    let mut db = Db::open(PATH, &options(&disk)).expect("a database");
    let mut model = Model::new();
    let mut held: Vec<Held> = Vec::new();
    let mut tables_max = 0;
    for _ in 0..8 {
        for _ in 0..rng.usize(50..500) {
            write(&db, &mut model, rng);
            if rng.u8(..60) == 0 {
                held.push((ReadOptions::new().with_snapshot(db.snapshot()), model.clone()));
            }
        }
        if held.len() > 4 {
            held.remove(rng.usize(..held.len()));
        }
        match rng.u8(..6) {
            0 => {
                // Recovery from the log.
                held.clear();
                let crashed = disk.process_crash_image(rng.u64(..));
                (db, disk) = (Db::open(PATH, &options(&crashed)).expect("a database"), crashed);
            }
            1 => compact(&db),
            2 => {
                let (begin, end) = (long_key(rng.usize(..KEYS)), long_key(rng.usize(..KEYS)));
                db.compact_range(Some(&begin), Some(&end)).expect("a compaction");
            }
            _ => {
                let before = db.live_files().len();
                db.flush().expect("a flush");
                tables_max = tables_max.max(db.live_files().len().saturating_sub(before));
                // After a power cut, everything is in tables.
                let image = disk.crash_image(rng.u64(..));
                let again = Db::open(PATH, &options(&image)).expect("a database");
                check(&again, &ReadOptions::new(), &model, rng);
            }
        }
        check_all(&db, &model, &held, rng);
    }
    held.clear();
    close_and_verify(db, &options(&disk));
    tables_max
}

#[test]
fn long_keys_agree_with_a_model() {
    // An index block has room for about 64 of the keys.
    let _limit = EntryLimit::of(ENTRY);
    let mut seed = seed::rng();
    let mut tables_max = 0;
    for round in 0..6 * seed::rounds() {
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play(&mut seed.rng)));
        match played {
            Ok(tables) => tables_max = tables_max.max(tables),
            Err(panic) => {
                eprintln!("round {round}: TAILWATER_SEED={}", seed.value());
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(tables_max > 1, "no flush wrote several tables");
}
