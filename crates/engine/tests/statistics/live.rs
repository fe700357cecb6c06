//! Reports about live files, approximate sizes, and pinned memory.

use tailwater::{ErrorKind, ReadOptions, SizeOptions};

use crate::support::{Counted, golden};

/// The tables of the golden database `basic` as RocksDB 11.8.1 reports them: file number, level,
/// size in bytes, smallest key, largest key, and number of entries.
const BASIC: [(u64, usize, u64, &str, &str, u64); 4] = [
    (80, 6, 266431, "0000000000000001", "0000000000005414", 4341),
    (81, 6, 266556, "0000000000005415", "0000000000010780", 4341),
    (82, 6, 266548, "0000000000010781", "0000000000016149", 4341),
    (83, 6, 193277, "0000000000016152", "0000000000019999", 3142),
];

#[test]
fn live_files_are_those_that_rocksdb_lists() {
    let (directory, db) = golden("basic");
    let files = db.live_files_with_counts().expect("tables");
    assert_eq!(files.len(), BASIC.len());
    for (file, (number, level, size, smallest, largest, entries)) in files.iter().zip(BASIC) {
        assert_eq!((file.number, file.level, file.size), (number, level, size));
        assert_eq!(
            (&*file.smallest_key, &*file.largest_key),
            (smallest.as_bytes(), largest.as_bytes())
        );
        assert_eq!((file.entries, file.deletions), (Some(entries), Some(0)));
        assert_eq!((file.smallest_sequence, file.largest_sequence), (0, 0));
        assert_eq!(file.path, directory.path().join(format!("{number:06}.sst")));
        assert_eq!((file.column_family.as_str(), file.being_compacted), ("default", false));
    }
}

#[test]
fn approximate_sizes_cover_the_requested_sources() {
    let counted = Counted::new("compression=kNoCompression");
    for key in 0..1000 {
        counted.put(&format!("{key:04}"), &"v".repeat(100));
    }
    let family = counted.family();
    let all: [(&[u8], &[u8]); 2] = [(b"", b"x"), (b"0250", b"0750")];
    let sizes = |include_files, include_memtables| {
        let options = SizeOptions::new()
            .with_include_files(include_files)
            .with_include_memtables(include_memtables);
        counted.db.approximate_sizes_cf_opt(&family, &all, &options).expect("sizes")
    };
    assert_eq!((sizes(true, false), sizes(false, true)), (vec![0, 0], vec![114_000, 57_000]));
    counted.flush();
    let file = counted.db.live_files()[0].size;
    assert_eq!((sizes(true, false)[0], sizes(false, true)), (file, vec![0, 0]));
    let half = sizes(true, true)[1];
    assert!(half.abs_diff(file / 2) < file / 20, "{half} of {file}");
    let nothing = SizeOptions::new().with_include_files(false);
    let refused =
        counted.db.approximate_sizes_cf_opt(&family, &all, &nothing).expect_err("nothing");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let backward: [(&[u8], &[u8]); 1] = [(b"b", b"a")];
    let refused = counted.db.approximate_sizes_cf_opt(&family, &backward, &SizeOptions::default());
    assert_eq!(refused.expect_err("backward").kind(), ErrorKind::InvalidArgument);
}

#[test]
fn data_pinned_by_readers_is_reported() {
    let counted = Counted::new("");
    let number = |name: &str| counted.property(name).parse::<u64>().expect("a number");
    counted.put("a", "1");
    let before = number("rocksdb.current-super-version-number");
    let mut iterator = counted
        .db
        .raw_iterator_cf_opt(&counted.family(), &ReadOptions::default())
        .expect("an iterator");
    counted.flush();
    assert!(number("rocksdb.current-super-version-number") > before);
    assert_eq!(number("rocksdb.num-live-versions"), 2, "the iterator has the previous one");
    iterator.seek_to_first().expect("a seek");
    drop(iterator);
    counted.put("b", "1");
    counted.flush();
    assert_eq!(number("rocksdb.num-live-versions"), 1);
    assert_eq!(
        number("rocksdb.total-sst-files-size"),
        counted.db.live_files().iter().map(|file| file.size).sum::<u64>()
    );
    assert!(number("rocksdb.min-log-number-to-keep") > 0);
    assert_eq!(number("rocksdb.mem-table-flush-pending"), 0);
    let memory = counted.property("tailwater.memory");
    assert!(memory.starts_with("memtables "), "{memory}");
    let process = memory.lines().last().and_then(|line| line.split_whitespace().last());
    let process_bytes = process.and_then(|bytes| bytes.parse::<u64>().ok()).expect("a number");
    assert!(process_bytes > number("rocksdb.cur-size-all-mem-tables"), "{memory}");
    let input_output = counted.property("tailwater.io-stats");
    assert!(input_output.contains("\nflush_write "), "{input_output}");
}

#[test]
fn the_time_of_the_oldest_snapshot_is_reported() {
    let counted = Counted::new("");
    let clock = counted.disk.clock();
    let now_s = || tailwater_io::Clock::wall_us(&*clock) / 1_000_000;
    let property = || counted.property("rocksdb.oldest-snapshot-time");
    assert_eq!(property(), "0");
    counted.put("a", "1");
    let first_s = now_s();
    let first = counted.db.snapshot();
    clock.advance(10_000_000_000);
    let same_sequence = counted.db.snapshot();
    assert_eq!((property(), first_s + 10), (first_s.to_string(), now_s()));
    drop(first);
    assert_eq!(property(), now_s().to_string());
    assert_eq!(counted.property("rocksdb.num-snapshots"), "1");
    drop(same_sequence);
    assert_eq!(property(), "0");
}
