//! Merges and compaction filters whose results would be too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tailwater::for_tests::EntryLimit;
use tailwater::{
    CompactionFilter, CustomCompactionFilter, CustomMergeOperator, Db, ErrorKind, FilterContext,
    FilterDecision, FilteredValue, MergeOperator, OpenOptions, ReadOptions, WriteBatch,
};
use tailwater_format::key::ValueType;
use tailwater_format::wide_column::{self, WideColumn};
use tailwater_io::sim::SimStorage;

use crate::support::{ENTRY, PATH, close_and_verify, compact, count, failure, simulated};

/// Length of an operand, in bytes. Four of them are longer than an entry.
const OPERAND: usize = ENTRY / 4 + 1;

/// Joins operands, but does not merge them without a base value.
struct Join;

impl CustomMergeOperator for Join {
    fn name(&self) -> &str {
        "test.Join"
    }

    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let all: Vec<&[u8]> = existing.into_iter().chain(operands.iter().copied()).collect();
        Some(all.concat())
    }
}

/// The operators to test. Only the first merges operands without a base value.
const OPERATORS: [&str; 3] = ["stringappend", "stringappendtest", "test.Join"];

fn options(disk: &SimStorage, operator: &str) -> OpenOptions {
    let mut options = simulated(disk, "write_buffer_size=8M;level0_file_num_compaction_trigger=99");
    options.add_merge_operator(MergeOperator::Custom(Arc::new(Join)));
    options.set_from_string(&format!("merge_operator={operator}")).expect("options");
    options
}

fn operand(number: usize) -> Vec<u8> {
    vec![b'0' + number as u8; OPERAND]
}

/// Merges operands into `key` that are too long together.
fn merge_too_much(db: &Db, key: &str) {
    for number in 0..4 {
        db.merge(key, operand(number)).expect("a merge");
    }
}

/// Returns the number of violated contracts that compactions have reported.
fn violations(db: &Db) -> u64 {
    let value = db.property_value("tailwater.contract-violations").expect("a property");
    value.expect("a number").parse().expect("a number")
}

/// Panics unless reads of `key` fail because of the length of its value.
fn check_too_long(db: &Db, key: &str, options: &ReadOptions) {
    let check = |(kind, text): (ErrorKind, String)| {
        assert_eq!(kind, ErrorKind::LimitReached, "{text}");
        assert!(text.contains(&format!("key '{key}'")), "{text}");
        assert!(text.contains("merge operator '"), "{text}");
        assert!(text.contains(" bytes") && text.contains(&ENTRY.to_string()), "{text}");
    };
    check(failure(db.get_opt(key, options)));
    check(failure(db.get_pinned_opt(key, options)));
    check(failure(db.multi_get_opt(&[key], options).remove(0)));
    let mut cursor = db.raw_iterator_opt(options).expect("an iterator");
    check(failure(cursor.seek(key)));
    assert!(!cursor.valid());
    check(failure(cursor.seek_for_prev(key)));
    assert!(!cursor.valid());
}

/// Panics unless everything around the key `key`, which cannot be read, can be read.
fn check_others(db: &Db, options: &ReadOptions) {
    for key in ["a", "z"] {
        assert_eq!(db.get_opt(key, options).expect("a get").as_deref(), Some(&b"1,2"[..]), "{key}");
    }
    let mut cursor = db.raw_iterator_opt(options).expect("an iterator");
    cursor.seek_to_first().expect("a seek");
    assert_eq!(cursor.key(), b"a");
    cursor.next().expect_err("too long");
    cursor.seek("n").expect("a seek");
    assert_eq!(cursor.key(), b"z");
    cursor.prev().expect_err("too long");
    cursor.seek_for_prev("l").expect("a seek");
    assert_eq!(cursor.key(), b"a");
}

/// Regression test: the length of a merge's result was not limited. A compaction whose result had
/// 4 GiB failed, and with it all compactions of the column family; until then, reads returned a
/// value that could not be stored.
#[test]
fn operands_that_are_too_long_together_are_kept_and_fail_only_reads_of_their_key() {
    let _limit = EntryLimit::of(ENTRY);
    for operator in OPERATORS {
        for has_base in [false, true] {
            let disk = SimStorage::new(1);
            let open =
                |disk: &SimStorage| Db::open(PATH, &options(disk, operator)).expect("a database");
            let db = open(&disk);
            for key in ["a", "z"] {
                db.put(key, "1,2").expect("a put");
            }
            if has_base {
                db.put("m", "base").expect("a put");
            }
            let before = ReadOptions::new().with_snapshot(db.snapshot());
            merge_too_much(&db, "m");
            let check = |db: &Db| {
                check_too_long(db, "m", &ReadOptions::new());
                check_others(db, &ReadOptions::new());
            };
            let check_before = |db: &Db| {
                let base = has_base.then_some(&b"base"[..]);
                assert_eq!(db.get_opt("m", &before).expect("a get").as_deref(), base);
            };
            check(&db);
            check_before(&db);
            // Recovery from the log.
            let recovered = disk.process_crash_image(1);
            check(&open(&recovered));
            db.flush().expect("a flush");
            check(&db);
            assert_eq!(count(&disk, &db, ValueType::Merge), 4);
            assert_eq!(violations(&db), 0, "flushes do not merge");
            compact(&db);
            check(&db);
            check_before(&db);
            assert_eq!(count(&disk, &db, ValueType::Merge), 4);
            drop(before);
            let db = {
                drop(db);
                open(&disk)
            };
            let reported = violations(&db);
            compact(&db);
            compact(&db);
            check(&db);
            assert!(violations(&db) > reported);
            assert_eq!(count(&disk, &db, ValueType::Merge), 4);
            assert_eq!(count(&disk, &db, ValueType::Value), 2 + usize::from(has_base));
            // The key can be written.
            db.put("m", "short").expect("a put");
            db.merge("m", "2").expect("a merge");
            let joined = if operator == "test.Join" { &b"short2"[..] } else { b"short,2" };
            assert_eq!(db.get("m").expect("a get").as_deref(), Some(joined));
            compact(&db);
            assert_eq!(db.get("m").expect("a get").as_deref(), Some(joined));
            assert_eq!(count(&disk, &db, ValueType::Merge), 0);
            close_and_verify(db, &options(&disk, operator));
        }
    }
}

/// The name of the records below the operands, and a function that writes them.
type Base = (&'static str, fn(&Db));

/// Operands of a key above a range tombstone, a deletion, a timed value and older operands that a
/// snapshot sees.
#[test]
fn operands_that_are_kept_hide_what_merged_operands_hide() {
    let _limit = EntryLimit::of(ENTRY);
    let bases: [Base; 5] = [
        ("a range deletion", |db| {
            db.put("m", "covered").expect("a put");
            db.delete_range("l", "n").expect("a deletion");
        }),
        ("a deletion", |db| {
            db.put("m", "deleted").expect("a put");
            db.delete("m").expect("a deletion");
        }),
        ("a single deletion", |db| {
            db.put("m", "deleted").expect("a put");
            db.single_delete("m").expect("a deletion");
        }),
        ("a timed value", |db| {
            let mut batch = WriteBatch::new();
            batch.timed_put_cf(0, "m", "timed", 1).expect("a put");
            db.write(&mut batch).expect("a write");
        }),
        ("overwritten values", |db| {
            db.put("m", "1").expect("a put");
            db.put("m", "2").expect("a put");
            db.put("m", "3").expect("a put");
        }),
    ];
    for (name, base) in bases {
        for operator in OPERATORS {
            let disk = SimStorage::new(1);
            let db = Db::open(PATH, &options(&disk, operator)).expect("a database");
            base(&db);
            db.flush().expect("a flush");
            let expected = db.get("m").expect("a get");
            let before = ReadOptions::new().with_snapshot(db.snapshot());
            merge_too_much(&db, "m");
            for _ in 0..2 {
                compact(&db);
                assert_eq!(db.get_opt("m", &before).expect("a get"), expected, "{name}");
                check_too_long(&db, "m", &ReadOptions::new());
                assert_eq!(count(&disk, &db, ValueType::Merge), 4, "{name}");
            }
            drop(before);
            compact(&db);
            check_too_long(&db, "m", &ReadOptions::new());
            let values = usize::from(expected.is_some());
            assert_eq!(count(&disk, &db, ValueType::Merge), 4, "{name}");
            assert_eq!(count(&disk, &db, ValueType::Value), values, "{name}, {operator}");
            db.delete("m").expect("a deletion");
            assert_eq!(db.get("m").expect("a get"), None);
            compact(&db);
            assert_eq!(db.live_files().len(), 0, "{name}: nothing is left");
            close_and_verify(db, &options(&disk, operator));
        }
    }
}

/// The operands fit over the default column of an entity, but the whole entity would be too long.
#[test]
fn an_entity_that_would_be_too_long_keeps_its_operands() {
    let _limit = EntryLimit::of(ENTRY);
    let disk = SimStorage::new(1);
    let db = Db::open(PATH, &options(&disk, "stringappend")).expect("a database");
    let mut entity = Vec::new();
    let other = vec![b'o'; ENTRY / 2];
    let columns = [WideColumn::new(b"", b"base"), WideColumn::new(b"other", &other)];
    wide_column::encode(&columns, &mut entity).expect("an entity");
    let mut batch = WriteBatch::new();
    batch.put_entity_cf(0, "m", &entity).expect("an entity");
    db.write(&mut batch).expect("a write");
    db.merge("m", operand(0)).expect("a merge");
    db.merge("m", operand(1)).expect("a merge");
    let expected = [&b"base"[..], &operand(0), &operand(1)].join(&b","[..]);
    for _ in 0..2 {
        compact(&db);
        assert!(db.get("m").expect("a get") == Some(expected.clone()));
        assert_eq!(count(&disk, &db, ValueType::Merge), 2);
        assert_eq!(count(&disk, &db, ValueType::WideColumnEntity), 1);
    }
    close_and_verify(db, &options(&disk, "stringappend"));
}

/// Removes plain values or, with `change_to`, changes records to values of this length.
struct Filter {
    change_to: Option<usize>,
    /// Whether plain values are changed to entities with a single column, whose name is empty.
    makes_entities: bool,
    /// Number of calls for plain values.
    calls: AtomicUsize,
}

impl CustomCompactionFilter for Filter {
    fn name(&self) -> &str {
        "test.Filter"
    }

    fn filter(&self, _: &FilterContext, _: &[u8], value: FilteredValue<'_>) -> FilterDecision {
        let is_plain = matches!(value, FilteredValue::Plain(_));
        self.calls.fetch_add(usize::from(is_plain), Ordering::Relaxed);
        match self.change_to {
            Some(length) if is_plain && self.makes_entities => {
                FilterDecision::ChangeEntity(vec![(Vec::new(), vec![b'f'; length])])
            }
            Some(length) => FilterDecision::ChangeValue(vec![b'f'; length]),
            None if is_plain => FilterDecision::Remove,
            None => FilterDecision::Keep,
        }
    }
}

fn filtered(disk: &SimStorage, filter: Filter) -> (OpenOptions, Arc<Filter>) {
    let filter = Arc::new(filter);
    let mut options = options(disk, "stringappend");
    options.add_compaction_filter(CompactionFilter::Custom(Arc::clone(&filter) as _));
    options.set_from_string("compaction_filter=test.Filter").expect("options");
    (options, filter)
}

/// A compaction filter is called for the newest version of a key. A base value below operands is
/// not the newest version, whether or not the operands can be merged.
#[test]
fn a_base_value_below_kept_operands_is_not_filtered() {
    let _limit = EntryLimit::of(ENTRY);
    let disk = SimStorage::new(1);
    let filter = Filter { change_to: None, makes_entities: false, calls: AtomicUsize::new(0) };
    let (options, filter) = filtered(&disk, filter);
    let db = Db::open(PATH, &options).expect("a database");
    db.put("m", "base").expect("a put");
    merge_too_much(&db, "m");
    db.flush().expect("a flush");
    compact(&db);
    assert_eq!(count(&disk, &db, ValueType::Value), 1);
    assert_eq!(count(&disk, &db, ValueType::Merge), 4);
    assert_eq!(filter.calls.load(Ordering::Relaxed), 0);
    check_too_long(&db, "m", &ReadOptions::new());
    close_and_verify(db, &options);
}

/// Regression test: the length of the value to which a compaction filter changes a value was not
/// limited. A value of 4 GiB, which no table can have, stopped the compactions of its column
/// family.
#[test]
fn a_record_that_a_filter_would_make_too_long_is_kept() {
    let _limit = EntryLimit::of(ENTRY);
    // An entity has some bytes in addition to the value of its column.
    for (makes_entities, length, fits) in [
        (false, ENTRY - 1, true),
        (false, ENTRY, false),
        (true, ENTRY - 8, true),
        (true, ENTRY - 1, false),
    ] {
        let disk = SimStorage::new(1);
        let change_to = Some(length);
        let filter = Filter { change_to, makes_entities, calls: AtomicUsize::new(0) };
        let (options, _) = filtered(&disk, filter);
        let db = Db::open(PATH, &options).expect("a database");
        db.put("k", "value").expect("a put");
        db.flush().expect("a flush");
        compact(&db);
        let value = if fits { vec![b'f'; length] } else { b"value".to_vec() };
        assert!(db.get("k").expect("a get") == Some(value), "{length}");
        assert_eq!(violations(&db) > 0, !fits, "{length}");
        if !fits && !makes_entities {
            // The operand is kept, too.
            db.put("k", "more").expect("a put");
            db.merge("k", "operand").expect("a merge");
            db.flush().expect("a flush");
            compact(&db);
            assert_eq!(db.get("k").expect("a get").as_deref(), Some(&b"more,operand"[..]));
        }
        close_and_verify(db, &options);
    }
}
