//! The exact effects of iterators on the statistics.

use tailwater::ReadOptions;

use crate::support::{Counted, tickers};

#[test]
fn seeks_and_steps_count_the_keys_and_bytes_they_return() {
    let counted = Counted::new("");
    for (key, value) in [("a", "1"), ("b", "22"), ("c", "333")] {
        counted.put(key, value);
    }
    counted.moved();
    let mut iterator = counted
        .db
        .raw_iterator_cf_opt(&counted.family(), &ReadOptions::default())
        .expect("an iterator");
    assert_eq!(counted.property("tailwater.num-iterators"), "1");
    assert_eq!(counted.moved(), tickers([("num.iterator.created", 1)]));
    iterator.seek(b"b").expect("a seek");
    iterator.seek(b"z").expect("a seek");
    iterator.seek_for_prev(b"z").expect("a seek");
    iterator.seek_to_last().expect("a seek");
    iterator.seek_to_first().expect("a seek");
    assert_eq!(counted.measured("db.seek.micros").0, 5);
    let seeks =
        [("number.db.seek", 5), ("number.db.seek.found", 4), ("db.iter.bytes.read", 3 + 4 + 4 + 2)];
    assert_eq!(counted.moved(), tickers(seeks));
    iterator.next().expect("a step");
    iterator.prev().expect("a step");
    iterator.next().expect("a step");
    iterator.next().expect("a step");
    iterator.next().expect("a step behind the end");
    assert!(!iterator.valid());
    iterator.next().expect("no step");
    assert_eq!(counted.moved(), tickers([]), "steps count when the iterator goes");
    drop(iterator);
    let steps = [
        ("number.db.next", 4),
        ("number.db.next.found", 3),
        ("number.db.prev", 1),
        ("number.db.prev.found", 1),
        ("db.iter.bytes.read", 3 + 2 + 3 + 4),
        ("num.iterator.deleted", 1),
    ];
    assert_eq!(counted.moved(), tickers(steps));
    assert_eq!(counted.property("tailwater.num-iterators"), "0");
}

#[test]
fn a_reseek_past_many_versions_is_counted() {
    let counted = Counted::new("max_sequential_skip_in_iterations=3");
    for version in 0..10 {
        counted.put("a", &version.to_string());
    }
    counted.put("b", "1");
    counted.moved();
    let mut iterator = counted
        .db
        .raw_iterator_cf_opt(&counted.family(), &ReadOptions::default())
        .expect("an iterator");
    iterator.seek_to_first().expect("a seek");
    iterator.next().expect("a step");
    assert_eq!(iterator.key(), b"b");
    assert_eq!(counted.moved().get("number.reseeks.iteration"), Some(&1));
}

#[test]
fn readahead_is_counted_and_charged() {
    let counted = Counted::new("compression=kNoCompression");
    for key in 0..1000 {
        counted.put(&format!("{key:04}"), &"v".repeat(100));
    }
    counted.flush();
    counted.moved();
    let options = ReadOptions::new().with_readahead_size(64 << 10);
    let mut iterator =
        counted.db.raw_iterator_cf_opt(&counted.family(), &options).expect("an iterator");
    iterator.seek_to_first().expect("a seek");
    assert_eq!(counted.property("tailwater.iterator-read-ahead-memory"), "65536");
    assert_eq!(counted.moved().get("prefetch.bytes"), Some(&65536));
    while iterator.valid() {
        iterator.next().expect("a step");
    }
    let moved = counted.moved();
    let (added, hits) = (moved["block.cache.data.add"], moved["prefetch.hits"]);
    let fills = moved["prefetch.bytes"].div_ceil(65536);
    assert_eq!(added, hits + fills, "{moved:?}");
    drop(iterator);
    assert_eq!(counted.property("tailwater.iterator-read-ahead-memory"), "0");
}
