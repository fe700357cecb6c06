//! Iterators that skip damage: they show everything that can be read, and record what they skip.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use tailwater::{
    ColumnFamily, CompactRangeOptions, Db, DbIterator, OpenOptions, ReadOptions, SkippedDamage,
    SkippedKeys, SkippedPart,
};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};
use tailwater_testkit::seed;

use crate::database::{DIRECTORY, Damaged, Small};

const DB: &str = "/db";

/// Number of keys that may exist.
const KEYS: u32 = 3000;

const OPTIONS: [&str; 3] = [
    "",
    "block_based_table_factory={index_type=kTwoLevelIndexSearch;metadata_block_size=64}",
    "comparator=rocksdb.ReverseBytewiseComparator",
];

/// The values that a key ever had, oldest first; `None` for a deletion.
type History = BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>;

fn key(number: u32) -> Vec<u8> {
    format!("k{number:05}").into_bytes()
}

fn options(disk: &SimStorage, text: &str) -> OpenOptions {
    let mut options = OpenOptions::with_storage(Arc::new(disk.clone()));
    options.set_clock(disk.clock());
    options.set_inline_background(true);
    let common = "create_if_missing=true;disable_auto_compactions=true;compression=kNoCompression;\
        target_file_size_base=40000";
    options.set_from_string(common).expect("options");
    options.set_from_string(text).expect("options");
    options
}

/// Writes a database with tables in the last level and in level 0.
fn write(options: &OpenOptions, rng: &mut Rng) -> History {
    let db = Db::open(DB, options).expect("a new database");
    let mut history = History::new();
    for round in 0..4 {
        for _ in 0..KEYS / 2 {
            let key = key(rng.u32(..KEYS));
            let value = (rng.u8(..4) > 0).then(|| vec![b'a' + round; rng.usize(..60)]);
            match &value {
                Some(value) => db.put(&key, value).expect("a put"),
                None => db.delete(&key).expect("a deletion"),
            }
            history.entry(key).or_default().push(value);
        }
        db.flush().expect("a flush");
        if round == 1 {
            let all = CompactRangeOptions::default();
            db.compact_range_opt(None, None, &all).expect("a compaction");
        }
    }
    db.close().expect("closed");
    history
}

fn tables(disk: &SimStorage) -> Vec<PathBuf> {
    let listed = disk.list(Path::new(DB)).expect("a directory");
    let paths = listed.into_iter().map(|entry| Path::new(DB).join(entry.name));
    paths.filter(|path| path.extension().is_some_and(|own| own == "sst")).collect()
}

/// Changes a byte outside of the footer.
fn damage(disk: &SimStorage, path: &Path, rng: &mut Rng) {
    let file = disk.open(path, IoMode::Buffered, Purpose::UserRead).expect("a file");
    let offset = rng.u64(..file.length().expect("a length") - 60);
    let mut byte = [0];
    file.read_full_at(&mut byte, offset, Purpose::UserRead).expect("a read");
    let mut file = disk
        .create(path, Create::Existing, IoMode::Buffered, Purpose::FlushWrite)
        .expect("the same file");
    file.write_all_at(&[byte[0] ^ 1], offset, Purpose::FlushWrite).expect("a write");
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn entries(
    mut iterator: DbIterator,
    first: fn(&mut DbIterator) -> tailwater::Result<()>,
    step: fn(&mut DbIterator) -> tailwater::Result<()>,
    what: &str,
) -> Entries {
    let mut entries = Entries::new();
    first(&mut iterator).unwrap_or_else(|error| panic!("{what}: {error}"));
    while let Some((key, value)) = iterator.item() {
        entries.push((key.to_vec(), value.to_vec()));
        step(&mut iterator).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    entries
}

/// Regression test: the first damaged block ended a dump, although everything after it could be
/// read.
#[test]
fn iterators_skip_damage_and_show_the_rest() {
    let mut seed = seed::rng();
    let (mut blocks, mut shown_in_all) = (0, 0);
    for round in 0..18 * seed::rounds() {
        let text = OPTIONS[round % OPTIONS.len()];
        let what = format!("TAILWATER_SEED={} round {round} with {text}", seed.value());
        let mut rng = seed.rng.fork();
        let disk = SimStorage::new(rng.u64(..));
        let options = options(&disk, text);
        let history = write(&options, &mut rng);
        let tables = tables(&disk);
        for _ in 0..rng.usize(1..6) {
            damage(&disk, rng.choice(&tables).expect("a table"), &mut rng);
        }

        let db = Db::open_read_only(DB, &options).expect("the database");
        let family = db.cf_handle("default").expect("the default column family");
        let (forward, parts) = both_ways(&db, &family, &what);

        let is_reverse = text.starts_with("comparator");
        let is_in = |key: &Vec<u8>, from: &Option<Vec<u8>>, to: &Option<Vec<u8>>| {
            let (from, to) = if is_reverse { (to, from) } else { (from, to) };
            from.as_ref().is_none_or(|from| from <= key) && to.as_ref().is_none_or(|to| key <= to)
        };
        let mut in_doubt = BTreeSet::new();
        for part in &parts {
            assert!(part.error.path().is_some(), "{what}: {}", part.error);
            match &part.keys {
                SkippedKeys::One(key) => panic!("{what}: {}", key.escape_ascii()),
                SkippedKeys::Range { from, to } => {
                    blocks += 1;
                    in_doubt.extend(history.keys().filter(|key| is_in(key, from, to)).cloned());
                }
            }
        }
        let shown: BTreeMap<_, _> = forward.iter().cloned().collect();
        assert_eq!(shown.len(), forward.len(), "{what}: a key is shown twice");
        shown_in_all += shown.len();
        for (key, values) in &history {
            let shown = shown.get(key);
            let name = key.escape_ascii();
            if in_doubt.contains(key) {
                let was = shown.is_none_or(|shown| values.iter().flatten().any(|v| v == shown));
                assert!(was, "{what}: {name} never had the value that is shown");
            } else {
                let newest = values.last().and_then(Option::as_ref);
                assert_eq!(shown, newest, "{what}: {name}, with {parts:?}");
            }
        }

        // A scan from the middle sees the same.
        let from = key(KEYS / 2);
        let read = ReadOptions::new().with_skipped_damage(SkippedDamage::default());
        let mut middle = db.raw_iterator_opt(&read).expect("an iterator");
        middle.seek(&from).unwrap_or_else(|error| panic!("{what}: {error}"));
        let expected = forward.iter().find(|(key, _)| is_in(key, &Some(from.clone()), &None));
        assert_eq!(middle.item().map(|(key, _)| key), expected.map(|(key, _)| &key[..]), "{what}");
    }
    assert!(blocks > 0 && shown_in_all > 0, "{blocks} blocks, {shown_in_all} entries");
}

/// The entries of a column family, forward and backward, and what was skipped.
fn both_ways(db: &Db, family: &ColumnFamily, what: &str) -> (Entries, Vec<SkippedPart>) {
    let skipped = SkippedDamage::default();
    let options = ReadOptions::new().with_skipped_damage(skipped.clone());
    let iterator = || db.raw_iterator_cf_opt(family, &options).expect("an iterator");
    let forward = entries(iterator(), DbIterator::seek_to_first, DbIterator::next, what);
    let parts = skipped.take();
    let mut backward = entries(iterator(), DbIterator::seek_to_last, DbIterator::prev, what);
    backward.reverse();
    assert_eq!(forward, backward, "{what}");
    assert!(skipped.take().is_empty(), "{what}: the same damage is reported again");
    (forward, parts)
}

/// Regression test: an iterator that skips damage ended at a key with operands of a merge operator
/// that this process does not have.
#[test]
fn keys_without_their_merge_operator_are_skipped() {
    let disk = SimStorage::new(1);
    let db = Db::open(DB, &options(&disk, "merge_operator=uint64add")).expect("a new database");
    for key in ["b", "c"] {
        db.merge(key, 1_u64.to_le_bytes()).expect("an operand");
    }
    for key in ["a", "d"] {
        db.put(key, "value").expect("a put");
    }
    db.close().expect("closed");
    for without in ["merge_operator=nullptr", "merge_operator=my.Operator"] {
        let db = Db::open_read_only(DB, &options(&disk, without)).expect("a database");
        let family = db.cf_handle("default").expect("a family");
        let (entries, parts) = both_ways(&db, &family, without);
        let shown: Vec<&[u8]> = entries.iter().map(|(key, _)| &key[..]).collect();
        assert_eq!(shown, [b"a", b"d"], "{without}");
        let keys: Vec<&SkippedKeys> = parts.iter().map(|part| &part.keys).collect();
        let one = |key: &str| SkippedKeys::One(key.as_bytes().to_vec());
        assert_eq!(keys, [&one("b"), &one("c")], "{without}");
        assert!(parts[0].error.message().contains("merge operands"), "{parts:?}");
    }
}

/// Regression test: an iterator that skips damage did not end if an entry of an index block could
/// not be decoded, which happens if no checksum finds the damage first.
#[test]
fn iterators_end_on_damage_that_no_checksum_finds() {
    let mut seed = seed::rng();
    let mut shown = 0;
    for round in 0..300 * seed::rounds() {
        let text = [
            "block_based_table_factory={checksum=kNoChecksum;block_size=512}",
            "block_based_table_factory={checksum=kNoChecksum;block_size=512;\
                index_type=kTwoLevelIndexSearch;metadata_block_size=64}",
        ][round % 2];
        let what = format!("TAILWATER_SEED={} round {round} with {text}", seed.value());
        println!("{what}");
        let mut rng = seed.rng.fork();
        let disk = SimStorage::new(rng.u64(..));
        let options = options(&disk, text);
        let db = Db::open(DB, &options).expect("a new database");
        for number in 0..200 {
            db.put(key(number), [b'v'; 30]).expect("a put");
        }
        db.flush().expect("a flush");
        db.close().expect("closed");
        let [table] = &tables(&disk)[..] else { panic!("{what}: not one table") };
        damage_last(&disk, table, &mut rng);
        let Ok(db) = Db::open_read_only(DB, &options) else { continue };
        let read = ReadOptions::new().with_skipped_damage(SkippedDamage::default());
        let Ok(mut iterator) = db.raw_iterator_opt(&read) else { continue };
        // Damaged keys may be out of order, and an error may be of a kind that is not skipped. But
        // every iteration must end.
        type Move = fn(&mut DbIterator) -> tailwater::Result<()>;
        let both: [(Move, Move); 2] = [
            (DbIterator::seek_to_first, DbIterator::next),
            (DbIterator::seek_to_last, DbIterator::prev),
        ];
        for (first, step) in both {
            let mut moved = first(&mut iterator);
            for _ in 0..1000 {
                if moved.is_err() || !iterator.valid() {
                    break;
                }
                shown += 1;
                moved = step(&mut iterator);
            }
            assert!(moved.is_err() || !iterator.valid(), "{what}: more entries than were written");
        }
        for number in (0..200).step_by(17) {
            let _ = iterator.seek(key(number));
            let _ = iterator.seek_for_prev(key(number));
        }
    }
    assert!(shown > 0);
}

/// Changes a byte in the last quarter of a file, where the index is.
fn damage_last(disk: &SimStorage, path: &Path, rng: &mut Rng) {
    let file = disk.open(path, IoMode::Buffered, Purpose::UserRead).expect("a file");
    let length = file.length().expect("a length");
    let offset = rng.u64(length * 3 / 4..length);
    let mut file = disk
        .create(path, Create::Existing, IoMode::Buffered, Purpose::FlushWrite)
        .expect("the same file");
    file.write_all_at(&[rng.u8(..)], offset, Purpose::FlushWrite).expect("a write");
}

#[test]
fn iterators_skip_keys_whose_values_are_damaged() {
    let small = Small::load("small-blobs");
    let whole = Damaged { small: &small, file: "", contents: Vec::new() };
    let whole = Db::open_read_only(DIRECTORY, &whole.options()).expect("the database");
    let blob_files: Vec<&String> =
        small.files.keys().filter(|file| file.ends_with(".blob")).collect();
    let mut skipped = 0;
    for file in blob_files {
        for offset in (0..small.files[file].len()).step_by(7) {
            let what = format!("{file} is damaged at {offset}");
            let mut contents = small.files[file].clone();
            contents[offset] ^= 1;
            let damaged = Damaged { small: &small, file, contents };
            // Damage to the header or footer of a blob file may prevent the opening.
            let Ok(db) = Db::open_read_only(DIRECTORY, &damaged.options()) else { continue };
            for family in db.column_families() {
                let of_whole = whole.cf_handle(family.name()).expect("the same family");
                let (mut expected, _) = both_ways(&whole, &of_whole, "the whole database");
                let (shown, parts) = both_ways(&db, &family, &what);
                for part in parts {
                    let SkippedKeys::One(key) = part.keys else { panic!("{what}: {part:?}") };
                    expected.retain(|(other, _)| *other != key);
                    skipped += 1;
                }
                assert_eq!(shown, expected, "{what}");
            }
        }
    }
    assert!(skipped > 0);
}
