//! Keys to which both single deletions and plain deletions are applied.

use tailwater::{Db, OpenOptions, ReadOptions, WriteOptions};
use tailwater_testkit::oracle::Script;

use crate::laboratory::in_laboratory;

/// Returns options without automatic compactions. If a test enables them later, they run in the
/// calling thread.
fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    let text = "num_levels=4;disable_auto_compactions=true;level0_file_num_compaction_trigger=2;\
                level_compaction_dynamic_level_bytes=false";
    options.set_from_string(text).expect("options");
    options.set_inline_background(true);
    options
}

/// Tests a key that is put, deleted, put again and deleted by a single deletion. Both engines
/// forbid the use of plain and single deletions on the same key. If it is done nevertheless, the
/// first value reappears after a flush in RocksDB. In Tailwater the key stays deleted.
#[test]
fn a_deletion_below_a_single_deletion_applies_in_tailwater_but_not_in_rocksdb() {
    in_laboratory("single deletions mixed with others", |laboratory| {
        let place = laboratory.next_place();
        let mut script = Script::open(&place.database(), "", &[("default", "num_levels=4")]);
        script.put("default", b"key", b"first");
        script.line(&[&"compact-to", &"default", &"3"]);
        script.delete("default", b"key");
        script.put("default", b"key", b"second");
        script.single_delete("default", b"key");
        script.flush("default");
        let context = laboratory.context.clone();
        let found = laboratory.oracle.dump(script);
        let found = found.unwrap_or_else(|error| panic!("{context}: RocksDB says {error}"));
        let values: Vec<&[u8]> = found.iter().map(|entry| &entry.value[..]).collect();
        assert_eq!(values, [b"first"], "{context}");

        // Makes the writes above again, in a new database. This time, RocksDB makes only the first
        // put, and Tailwater makes the other writes.
        let place = laboratory.next_place();
        let mut script = Script::open(&place.database(), "", &[("default", "num_levels=4")]);
        script.put("default", b"key", b"first");
        script.line(&[&"compact-to", &"default", &"3"]);
        script.line(&[&"close"]);
        laboratory.rocksdb_does(&script, &context);
        let db = Db::open(place.database(), &options()).expect("RocksDB's database");
        let family = db.cf_handle("default").expect("the default family");
        let write = WriteOptions::default();
        // The key range of this table overlaps that of the next table. Otherwise the compaction
        // would only move the two tables, and not merge them.
        db.put_cf_opt(&family, b"a", b"", &write).expect("a put");
        db.put_cf_opt(&family, b"z", b"", &write).expect("a put");
        db.flush_cf(&family).expect("a flush");
        db.delete_cf_opt(&family, b"key", &write).expect("a deletion");
        db.put_cf_opt(&family, b"key", b"second", &write).expect("a put");
        db.single_delete_cf_opt(&family, b"key", &write).expect("a single deletion");
        db.flush_cf(&family).expect("a flush");
        let levels = || db.live_files().iter().map(|file| file.level).collect::<Vec<_>>();
        assert_eq!(levels(), [0, 0, 3], "{context}");
        // This change enables automatic compactions and so starts one from level 0 into level 1.
        // The first value of the key is in level 3, below the output of that compaction.
        db.set_options_cf(&family, &[("disable_auto_compactions", "false")]).expect("options");
        assert_eq!(levels(), [1, 3], "{context}");
        let found = db.get_cf_opt(&family, b"key", &ReadOptions::default()).expect("a get");
        assert_eq!(found, None, "{context}");
    });
}
