//! Translates a program that uses crate `rocksdb`, call by call. `docs/migrating.md` lists all
//! calls and the differences. The translated program needs that crate's feature
//! `multi-threaded-cf`.
//!
//! ```sh
//! cargo run -p tailwater --example migrating_from_rocksdb
//! ```

use tailwater::options::ColumnFamilyOptions;
use tailwater::{Db, OpenOptions, ReadOptions, Result, WriteBatch, WriteOptions};

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("migrating-{}", std::process::id()));

    // A comment with `rocksdb:` is a call of crate `rocksdb`. The code below it does the same.
    // rocksdb: let mut opts = Options::default();
    let mut opts = OpenOptions::default();
    // rocksdb: opts.create_if_missing(true);
    // rocksdb: opts.set_write_buffer_size(1 << 20);
    opts.set_from_string("create_if_missing=true;write_buffer_size=1M")?;
    // rocksdb: let db = DB::open(&opts, &path)?;
    let db = Db::open(&path, &opts)?;

    // rocksdb: db.put(b"key", b"value")?;
    db.put(b"key", b"value")?;
    // rocksdb: db.get(b"key")?;
    assert!(db.get(b"key")?.is_some());
    // rocksdb: db.get_pinned(b"key")?;
    assert_eq!(db.get_pinned(b"key")?.as_deref(), Some(&b"value"[..]));

    // rocksdb: db.create_cf("cf", &Options::default())?;
    db.create_cf("cf", &ColumnFamilyOptions::default())?;
    // rocksdb: let cf = db.cf_handle("cf").unwrap();
    let cf = db.cf_handle("cf")?;

    // rocksdb: let mut write = WriteOptions::default();
    // rocksdb: write.set_sync(true);
    let write = WriteOptions::new().with_sync(true);
    // rocksdb: db.put_cf_opt(&cf, b"a", b"1", &write)?;
    db.put_cf_opt(&cf, b"a", b"1", &write)?;

    // rocksdb: let mut batch = WriteBatch::default();
    let mut batch = WriteBatch::default();
    // rocksdb: batch.put_cf(&cf, b"b", b"2");
    batch.put_cf(&cf, b"b", b"2")?;
    // rocksdb: batch.delete(b"key");
    batch.delete(b"key")?;
    // rocksdb: db.write(batch)?;
    db.write(&mut batch)?;

    // rocksdb: let mut read = ReadOptions::default();
    // rocksdb: let snapshot = db.snapshot();
    // rocksdb: read.set_snapshot(&snapshot);
    let read = ReadOptions::new().with_snapshot(db.snapshot());
    // rocksdb: db.get_cf_opt(&cf, b"a", &read)?;
    assert!(db.get_cf_opt(&cf, b"a", &read)?.is_some());

    // rocksdb: for item in db.iterator_cf(&cf, IteratorMode::Start) {
    for item in db.range_cf(&cf, ..) {
        let (key, value) = item?;
        println!("{} = {}", key.escape_ascii(), value.escape_ascii());
    }
    // rocksdb: let last = db.iterator_cf(&cf, IteratorMode::End).next();
    let last = db.range_cf(&cf, ..).next_back();
    assert!(last.is_some_and(|item| item.is_ok_and(|(key, _)| *key == *b"b")));

    // rocksdb: let mut iterator = db.raw_iterator_cf(&cf);
    let mut iterator = db.raw_iterator_cf(&cf)?;
    // rocksdb: iterator.seek(b"b");
    iterator.seek(b"b")?;
    // rocksdb: while iterator.valid() { iterator.next(); } iterator.status()?;
    while iterator.valid() {
        iterator.next()?;
    }

    // rocksdb: db.property_value("rocksdb.levelstats")?;
    println!("{}", db.property_value("rocksdb.levelstats")?.unwrap_or_default());
    // rocksdb: db.flush_cf(&cf)?;
    db.flush_cf(&cf)?;
    // rocksdb: db.compact_range_cf(&cf, None::<&[u8]>, None::<&[u8]>);
    db.compact_range_cf(&cf, None, None)?;
    // rocksdb: db.drop_cf("cf")?;
    db.drop_cf(&cf)?;

    // rocksdb: drop((snapshot, iterator, cf));
    // rocksdb: drop(db);
    db.close()?;
    // rocksdb: DB::destroy(&opts, &path)?;
    Db::destroy(&path, &opts)
}
