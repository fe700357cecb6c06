//! Helpers of the tests in this folder.

use tailwater::inspect::table::{Entry, TableFile};
use tailwater::verify::{Severity, verify};
use tailwater::{BottommostRewrite, CompactRangeOptions, Db, OpenOptions};
use tailwater_format::key::ValueType;
use tailwater_io::Storage;

pub(crate) use crate::database::{failure, simulated};

pub(crate) const PATH: &str = "/db";

/// The lowered maximum length of a key and its value together, in bytes. A key may have an eighth.
pub(crate) const ENTRY: usize = 64 << 10;

/// The maximum length of a key, in bytes.
pub(crate) const KEY: usize = ENTRY / 8;

/// Returns a key of the maximum length. All these keys share a long prefix, so that no key that
/// separates two of them is short.
pub(crate) fn long_key(number: usize) -> Vec<u8> {
    let mut key = vec![b'k'; KEY];
    let end = format!("{number:08}");
    key[KEY - end.len()..].copy_from_slice(end.as_bytes());
    key
}

/// Returns the number of records of each kind that the database's tables have.
pub(crate) fn count(storage: &dyn Storage, db: &Db, counted: ValueType) -> usize {
    let mut count = 0;
    for file in db.live_files() {
        let table = TableFile::open(storage, &file.path).expect("a table");
        let mut take = |entry: &Entry<'_>| {
            count += usize::from(entry.value_type() == Some(counted));
            Ok(())
        };
        for block in table.index().expect("an index").entries {
            let report = table.data_block(block.handle).expect("a block");
            report.contents.expect("entries").for_each(&mut take).expect("whole entries");
        }
        table.range_tombstones(&mut take).expect("range tombstones");
    }
    count
}

/// Compacts all tables, those of the last level included.
pub(crate) fn compact(db: &Db) {
    let options =
        CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
    db.compact_range_opt(None, None, &options).expect("a compaction");
}

/// Panics if verification finds anything wrong in a closed database, or if the database has a
/// failure while it is open.
pub(crate) fn close_and_verify(db: Db, options: &OpenOptions) {
    assert!(db.background_error().is_none(), "{:?}", db.background_error());
    assert!(db.stopped_compactions().is_empty(), "{:?}", db.stopped_compactions());
    db.close().expect("closing");
    drop(db);
    let report = verify(PATH, options);
    let findings = report.findings.iter().filter(|finding| finding.severity > Severity::Note);
    assert_eq!(findings.count(), 0, "{:?}", report.findings);
}
