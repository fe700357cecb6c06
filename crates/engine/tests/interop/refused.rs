//! Tests that databases with features that Tailwater does not support are refused, with an error
//! that names the feature.

use crate::{Laboratory, in_laboratory};
use tailwater::{Db, Error, ErrorKind, OpenOptions, ReadOptions};
use tailwater_testkit::oracle::Script;

/// Lets RocksDB create a database with these options for the database and for its column family
/// `odd`. Returns the errors of two attempts to open it with Tailwater and read a key of `odd`: one
/// with the options of the OPTIONS file, and one with the default options.
fn refusals(laboratory: &mut Laboratory, database: &str, options: &str, put: bool) -> [Error; 2] {
    let path = laboratory.next_directory();
    let mut script = Script::open(&path, database, &[("odd", options)]);
    if put {
        script.put("odd", b"key00000", b"value");
        script.flush("odd");
    }
    script.line(&[&"close"]);
    let context = laboratory.context.clone();
    laboratory.oracle.run(&script).unwrap_or_else(|error| panic!("{context}: {error}"));
    [OpenOptions::load(&path), Ok(OpenOptions::default())].map(|options| {
        let read = options.and_then(|options| {
            let db = Db::open_read_only(&path, &options)?;
            let family = db.cf_handle("odd")?;
            db.get_cf_opt(&family, b"key00000", &ReadOptions::default())
        });
        read.expect_err("it is not refused")
    })
}

#[test]
fn keys_with_timestamps() {
    in_laboratory("keys with timestamps", |laboratory| {
        let options = "comparator=leveldb.BytewiseComparator.u64ts";
        for error in refusals(laboratory, "", options, false) {
            assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
            assert!(error.message().contains("timestamps"), "{error}");
        }
    });
}

#[test]
fn plain_tables() {
    in_laboratory("plain tables", |laboratory| {
        let options = "table_factory={id=PlainTable;user_key_len=8};prefix_extractor=fixed:4";
        for error in refusals(laboratory, "allow_mmap_reads=true", options, true) {
            assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
            assert!(error.message().to_lowercase().contains("plain"), "{error}");
        }
    });
}
