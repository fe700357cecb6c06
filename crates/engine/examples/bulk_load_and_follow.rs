//! Loads a table in bulk, and copies the database with a checkpoint. Later writes to the database
//! are then applied to the copy, too.
//!
//! ```sh
//! cargo run -p tailwater --example bulk_load_and_follow
//! ```

use tailwater::{Db, IngestOptions, OpenOptions, Result, SstFileWriter};

fn main() -> Result<()> {
    let path = |name: &str| std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    let (original, copy, file) = (path("original"), path("copy"), path("bulk.sst"));
    let mut options = OpenOptions::default();
    options.database_mut().create_if_missing = true;
    let db = Db::open(&original, &options)?;

    // The table is written outside the database, in the order of its keys. It then becomes part of
    // the database without passing through the log and the memtables.
    let mut writer = SstFileWriter::new(&options, "default")?;
    writer.open(&file)?;
    for number in 0..10_000_u32 {
        writer.put(number.to_be_bytes(), "loaded")?;
    }
    let written = writer.finish()?;
    let move_it = IngestOptions::new().with_move_files(true);
    for ingested in db.ingest_external_file_opts(&[&file], &move_it)? {
        assert_eq!(ingested.entries, written.num_entries);
        println!("{} entries ingested into level {}", ingested.entries, ingested.level);
    }

    // On a filesystem with hard links, the copy shares its tables with the original. On any other
    // filesystem, the tables are copied.
    db.checkpoint(&copy)?;
    let follower = Db::open(&copy, &options)?;

    db.put(7_u32.to_be_bytes(), "changed")?;
    db.delete_range(100_u32.to_be_bytes(), 200_u32.to_be_bytes())?;

    // The original's logs hold all batches written since the checkpoint. Applying each batch to the
    // copy gives the copy the same sequence numbers as the original.
    let mut updates = db.updates_since(follower.latest_sequence_number() + 1)?;
    for batch in &mut updates {
        let mut batch = batch?;
        println!("batch {} has {} operations", batch.sequence(), batch.len());
        follower.write(&mut batch)?;
    }
    assert_eq!(follower.latest_sequence_number(), db.latest_sequence_number());
    assert_eq!(follower.get(7_u32.to_be_bytes())?.as_deref(), Some(&b"changed"[..]));
    assert_eq!(follower.range(..).count(), 9_900);

    // `updates` has reached its end. It continues when more has been written.
    db.put("last", "written")?;
    if let Some(batch) = updates.next() {
        follower.write(&mut batch?)?;
    }
    assert!(follower.get("last")?.is_some());

    for (db, directory) in [(db, original), (follower, copy)] {
        db.close()?;
        Db::destroy(directory, &options)?;
    }
    Ok(())
}
