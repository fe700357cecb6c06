//! Direct compactions of more inputs than their buffers were shared out to.
#![cfg(all(target_os = "linux", not(loom)))]

use tailwater::{CompactRangeOptions, Db, OpenOptions, WriteOptions};

fn compact(files: usize, more: &str) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut options = OpenOptions::default();
    let text = format!(
        "create_if_missing=true;disable_auto_compactions=true;compression=kNoCompression;\
         level0_slowdown_writes_trigger=1000;level0_stop_writes_trigger=1000;\
         use_direct_io_for_compaction_reads=true;{more}"
    );
    options.set_options(&text).expect("options");
    let db = Db::open(directory.path(), &options).expect("a database");
    let family = db.column_family("default").expect("a family");
    for file in 0..files {
        for key in 0..20 {
            let key = format!("{key:04}");
            let value = format!("{file}").repeat(100);
            db.put(&family, key.as_bytes(), value.as_bytes(), &WriteOptions::default())
                .expect("a write");
        }
        db.flush(&family).expect("a flush");
    }
    let compacted = db.compact_range(&family, None, None, &CompactRangeOptions::default());
    compacted.expect("a compaction");
    db.put(&family, b"a", b"b", &WriteOptions::default()).expect("a write after it");
}

/// Where the process may have 4000 files open: with fewer, fewer tables are taken at once.
#[test]
fn two_hundred_tables_of_level_0_are_merged() {
    compact(200, "");
}

#[test]
fn forty_tables_are_merged_in_requests_of_1_mib() {
    compact(40, "direct_request_size=1048576");
}

/// The same by itself: what fails here is latched, and writes are refused.
#[test]
fn forty_tables_are_merged_by_themselves() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let always = "create_if_missing=true;compression=kNoCompression;\
                  level0_slowdown_writes_trigger=1000;level0_stop_writes_trigger=1000;\
                  use_direct_io_for_compaction_reads=true;direct_request_size=1048576";
    for round in 0..2 {
        let mut options = OpenOptions::default();
        let is_off = round == 0;
        let text = format!("{always};disable_auto_compactions={is_off}");
        options.set_options(&text).expect("options");
        let db = Db::open(directory.path(), &options).expect("a database");
        let family = db.column_family("default").expect("a family");
        for file in 0..if is_off { 40 } else { 1 } {
            for key in 0..20 {
                let key = format!("{key:04}");
                let value = format!("{file}").repeat(100);
                db.put(&family, key.as_bytes(), value.as_bytes(), &WriteOptions::default())
                    .expect("a write");
            }
            db.flush(&family).expect("a flush");
        }
        if !is_off {
            std::thread::sleep(std::time::Duration::from_secs(2));
            db.put(&family, b"a", b"b", &WriteOptions::default()).expect("a write after it");
        }
    }
}

#[test]
fn six_tables_are_merged_that_are_read_16_mib_ahead() {
    compact(6, "compaction_readahead_size=16777216");
}

#[test]
fn as_many_are_merged_through_the_page_cache() {
    compact(200, "use_direct_io_for_compaction_reads=false");
}

#[test]
fn mapped_writes_are_refused_with_direct_ones_of_our_own_name() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut options = OpenOptions::default();
    options
        .set_options(
            "create_if_missing=true;allow_mmap_writes=true;compaction_write_io_mode=direct",
        )
        .expect("options");
    assert!(Db::open(directory.path(), &options).is_err());
}
