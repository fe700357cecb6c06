//! Read options of ranges and prefixes. Each test compares the reads with those of a scan without
//! the option, so that it fails if the option is ignored.

use tailwater::{Entries, ReadOptions};
use tailwater_io::Purpose;
use tailwater_io::sim::SimStorage;

use crate::recorder::Recorder;
use crate::seeks::{ENTRIES, TABLES, overlapping};
use crate::{Tables, key};

fn count(entries: Entries) -> u64 {
    entries.inspect(|entry| assert!(entry.is_ok(), "{entry:?}")).count() as u64
}

#[test]
fn ranges_and_prefixes_read_as_iterators_with_the_same_options() {
    let options = ReadOptions::new();
    let cases = [
        options.clone().with_readahead_size(100_000),
        options.clone().with_adaptive_readahead(true),
        options.clone().with_async_io(true),
        options.clone().with_async_io(true).with_readahead_size(100_000),
    ];
    let tables = Tables::new(10, 1000);
    let usual = tables.scan(&options);
    for options in cases {
        let expected = tables.scan(&options);
        assert_ne!(usual, expected, "{options:?} would not be noticed");
        let bounded = options.clone().with_iterate_lower_bound(key(0));
        assert_eq!(
            tables.measured(|db| count(db.range_opt(.., &bounded))),
            expected,
            "{options:?}"
        );
        let range = tables.measured(|db| count(db.range_opt(key(0).., &options)));
        assert_eq!(range, expected, "{options:?}");
        let prefix = tables.measured(|db| count(db.prefix_opt("key", &options)));
        assert_eq!(prefix, expected, "{options:?}");
        let family = tables.db.default_cf();
        let at_snapshot = options.clone().with_snapshot(tables.db.snapshot());
        let range = tables.measured(|db| count(db.range_cf_opt(family, key(0).., &at_snapshot)));
        assert_eq!(range, expected, "{options:?}");
    }
}

/// Regression test: the readahead of a range with an inclusive end did not end there.
#[test]
fn the_readahead_of_a_range_ends_at_its_end() {
    let tables = Tables::new(1, 5000);
    let scans: [fn(&Tables, &ReadOptions) -> Entries; 4] = [
        |tables, options| tables.db.range_opt(key(0)..key(100), options),
        |tables, options| tables.db.range_opt(key(0)..=key(99), options),
        |tables, options| tables.db.prefix_opt("key0000", options),
        |tables, options| {
            let options = options.clone().with_iterate_upper_bound(key(100));
            tables.db.range_opt(..=key(4000), &options)
        },
    ];
    for (at, scan) in scans.into_iter().enumerate() {
        for async_io in [false, true] {
            let options = ReadOptions::new().with_readahead_size(200_000).with_async_io(async_io);
            let bytes = |ends| {
                let options = options.clone().with_auto_readahead_size(ends);
                let (entries, _, bytes) = tables.measured(|_| count(scan(&tables, &options)));
                assert_eq!(entries, 100, "scan {at}");
                bytes
            };
            let (bytes, more) = (bytes(true), bytes(false));
            assert!(bytes < 20_000, "scan {at}: {bytes} bytes, async_io={async_io}");
            assert!(more > 2 * bytes, "scan {at}: {more} bytes, async_io={async_io}");
        }
    }
}

#[test]
fn both_ends_of_a_range_read_together_what_they_lack() {
    let recorder = Recorder::new(SimStorage::new(1));
    let db = overlapping(&recorder, "");
    for async_io in [false, true] {
        let options = ReadOptions::new().with_async_io(async_io).with_fill_cache(false);
        let mut entries = db.range_opt(key(700)..key(ENTRIES - 700), &options);
        for from_front in [true, false] {
            let mut entry = None;
            let take = || entry = if from_front { entries.next() } else { entries.next_back() };
            let (batches, _) = recorder.record(Purpose::UserRead, take);
            let (found, _) = entry.expect("an entry").expect("no error");
            assert_eq!(*found, key(if from_front { 700 } else { ENTRIES - 701 }));
            match async_io {
                true => assert_eq!(batches[..2], [TABLES as usize; 2]),
                false => assert!(batches.is_empty(), "{batches:?}"),
            }
        }
    }
}
