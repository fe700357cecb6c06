//! Keys to which single deletions and other writes are applied in ways that both engines forbid.

use tailwater::{Db, OpenOptions, ReadOptions, WriteOptions};
use tailwater_testkit::oracle::Script;

use crate::laboratory::{Laboratory, in_laboratory};

/// Returns options without automatic compactions. If a test enables them later, they run in the
/// calling thread.
fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    let text = "num_levels=4;disable_auto_compactions=true;level0_file_num_compaction_trigger=2;\
                level_compaction_dynamic_level_bytes=false;merge_operator=stringappend";
    options.set_from_string(text).expect("options");
    options.set_inline_background(true);
    options
}

/// A write to the key between its first put and its single deletion.
#[derive(Debug, Clone, Copy)]
enum Write {
    Put(&'static str),
    Merge(&'static str),
    Delete,
}

/// Tests keys that are put, written again in a way that forbids a single deletion, and then deleted
/// by a single deletion. In RocksDB the first value reappears after a flush. In Tailwater the key
/// stays deleted.
#[test]
fn a_forbidden_single_deletion_deletes_in_tailwater_but_not_in_rocksdb() {
    in_laboratory("single deletions mixed with others", |laboratory| {
        for writes in [
            &[Write::Delete, Write::Put("second")][..],
            &[Write::Put("second"), Write::Put("third")],
            &[Write::Merge("operand")],
        ] {
            check_mixed(laboratory, writes);
        }
    });
}

fn check_mixed(laboratory: &mut Laboratory, writes: &[Write]) {
    let family = [("default", "num_levels=4;merge_operator=stringappend")];
    let place = laboratory.next_place();
    let mut script = Script::open(&place.database(), "", &family);
    script.put("default", b"key", b"first");
    script.line(&[&"compact-to", &"default", &"3"]);
    for write in writes {
        match write {
            Write::Put(value) => script.put("default", b"key", value.as_bytes()),
            Write::Merge(operand) => script.merge("default", b"key", operand.as_bytes()),
            Write::Delete => script.delete("default", b"key"),
        }
    }
    script.single_delete("default", b"key");
    script.flush("default");
    let context = format!("{}, {writes:?}", laboratory.context);
    let found = laboratory.oracle.dump(script);
    let found = found.unwrap_or_else(|error| panic!("{context}: RocksDB says {error}"));
    let values: Vec<&[u8]> = found.iter().map(|entry| &entry.value[..]).collect();
    assert_eq!(values, [b"first"], "{context}");

    // Makes the writes above again, in a new database. This time, RocksDB makes only the first
    // put, and Tailwater makes the other writes.
    let place = laboratory.next_place();
    let mut script = Script::open(&place.database(), "", &family);
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
    for change in writes {
        match change {
            Write::Put(value) => db.put_cf_opt(&family, b"key", value, &write),
            Write::Merge(operand) => db.merge_cf_opt(&family, b"key", operand, &write),
            Write::Delete => db.delete_cf_opt(&family, b"key", &write),
        }
        .expect("a write");
    }
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
}
