//! Opens a database, writes, reads a snapshot, and iterates.

use tailwater::{Db, OpenOptions, ReadOptions, WriteBatch};

fn main() -> tailwater::Result<()> {
    let directory = std::env::temp_dir().join(format!("fruit-{}", std::process::id()));
    let db = Db::open_default(&directory)?;
    db.put("apple", "red")?;
    assert_eq!(db.get("apple")?.as_deref(), Some(&b"red"[..]));

    let before = db.snapshot();
    let mut batch = WriteBatch::new();
    batch.delete("apple")?;
    batch.put("banana", "yellow")?;
    db.write(&mut batch)?;

    for entry in db.range(..) {
        let (key, value) = entry?;
        println!("{} is {}", key.escape_ascii(), value.escape_ascii());
    }
    let as_before = ReadOptions::new().with_snapshot(before);
    assert!(db.get_opt("apple", &as_before)?.is_some());

    db.close()?;
    Db::destroy(&directory, &OpenOptions::default())
}
