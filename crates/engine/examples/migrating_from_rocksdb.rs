//! Translates a program that uses crate `rocksdb`, call by call. `docs/migrating.md` lists all
//! calls and the differences.
//!
//! ```sh
//! cargo run -p tailwater --example migrating_from_rocksdb
//! ```

use tailwater::options::ColumnFamilyOptions;
use tailwater::{Db, OpenOptions, ReadOptions, Result, WriteBatch, WriteOptions};

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("migrating-{}", std::process::id()));

    // crate rocksdb                                 // crate tailwater
    // let mut opts = Options::default();
    let mut opts = OpenOptions::default();
    // opts.create_if_missing(true);
    // opts.set_write_buffer_size(1 << 20);
    opts.set_options("create_if_missing=true;write_buffer_size=1M")?;
    // let db = DB::open(&opts, &path)?;
    let db = Db::open(&path, &opts)?;

    // db.put(b"key", b"value")?;
    db.put(b"key", b"value")?;
    // db.get(b"key")?;
    assert!(db.get(b"key")?.is_some());
    // db.get_pinned(b"key")?;
    assert_eq!(db.get_pinned(b"key")?.as_deref(), Some(&b"value"[..]));

    // db.create_cf("cf", &Options::default())?;
    db.create_cf("cf", &ColumnFamilyOptions::default())?;
    // let cf = db.cf_handle("cf").unwrap();
    let cf = db.cf_handle("cf")?;

    // let mut write = WriteOptions::default();
    // write.set_sync(true);
    let write = WriteOptions { sync: true, ..WriteOptions::default() };
    // db.put_cf_opt(&cf, b"a", b"1", &write)?;
    db.put_cf_opt(&cf, b"a", b"1", &write)?;

    // let mut batch = WriteBatch::default();
    let mut batch = WriteBatch::default();
    // batch.put_cf(&cf, b"b", b"2");
    batch.put_cf(&cf, b"b", b"2")?;
    // batch.delete(b"key");
    batch.delete(b"key")?;
    // db.write(batch)?;
    db.write(&mut batch)?;

    // let mut read = ReadOptions::default();
    // read.set_snapshot(&db.snapshot());
    let read = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    // db.get_cf_opt(&cf, b"a", &read)?;
    assert!(db.get_cf_opt(&cf, b"a", &read)?.is_some());

    // for item in db.iterator_cf(&cf, IteratorMode::Start) {
    for item in db.range_cf(&cf, ..) {
        let (key, value) = item?;
        println!("{} = {}", key.escape_ascii(), value.escape_ascii());
    }
    // let last = db.iterator_cf(&cf, IteratorMode::End).next();
    let last = db.range_cf(&cf, ..).next_back();
    assert!(last.is_some_and(|item| item.is_ok_and(|(key, _)| *key == *b"b")));

    // let mut iterator = db.raw_iterator_cf(&cf);
    let mut iterator = db.raw_iterator_cf(&cf)?;
    // iterator.seek(b"b");
    iterator.seek(b"b")?;
    // while iterator.valid() { iterator.next(); } iterator.status()?;
    while iterator.valid() {
        iterator.next()?;
    }

    // db.property_value("rocksdb.levelstats")?;
    println!("{}", db.property_value("rocksdb.levelstats")?.unwrap_or_default());
    // db.flush_cf(&cf)?;
    db.flush_cf(&cf)?;
    // db.compact_range_cf(&cf, None::<&[u8]>, None::<&[u8]>);
    db.compact_range_cf(&cf, None, None)?;
    // db.drop_cf("cf")?;
    db.drop_cf(&cf)?;

    // drop(db);
    db.close()?;
    // DB::destroy(&opts, &path)?;
    Db::destroy(&path, &opts)
}
