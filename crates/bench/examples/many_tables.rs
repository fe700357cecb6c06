//! Measures the time and memory to open a database of very many tables.
//!
//! ```sh
//! cargo run --release -p tailwater-bench --example many_tables -- make DIR 123000
//! cargo run --release -p tailwater-bench --example many_tables -- read DIR
//! cargo run --release -p tailwater-bench --example many_tables -- write DIR
//! ```
//!
//! `make` creates a database in which each table holds one entry. `read` and `write` open the
//! database for reading or for writing, with `max_open_files` set to the number that follows DIR,
//! 1000 by default. They print the time taken and the peak resident memory.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use tailwater::{BottommostRewrite, CompactRangeOptions, Db, OpenOptions, WriteOptions};

/// The options of the database: a table is full after its first entry.
const OPTIONS: &str = "create_if_missing=true;disable_auto_compactions=true;\
     target_file_size_base=1;target_file_size_is_upper_bound=true;write_buffer_size=256M;compression=kNoCompression;\
     max_compaction_bytes=1G;level_compaction_dynamic_level_bytes=false";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments.as_slice() {
        ["make", directory, tables] => make(Path::new(directory), tables.parse()?),
        [how @ ("read" | "write"), directory, ref rest @ ..] => {
            let max_open_files = rest.first().unwrap_or(&"1000");
            open(Path::new(directory), how == "write", max_open_files)
        }
        _ => Err("usage: many_tables make DIR TABLES | (read | write) DIR [MAX_OPEN_FILES]".into()),
    }
}

fn make(directory: &Path, tables: u64) -> Result<(), Box<dyn Error>> {
    let mut options = OpenOptions::default();
    options.set_from_string(OPTIONS)?;
    options.set_from_string("max_open_files=1000")?;
    let db = Db::open(directory, &options)?;
    let family = db.cf_handle("default")?;
    let write_options = WriteOptions::new().with_disable_wal(true);
    for key in 0..tables {
        db.put_cf_opt(&family, format!("key{key:016}").as_bytes(), b"value", &write_options)?;
    }
    db.flush_cf(&family)?;
    // Without `Force`, a compaction of a single table would only move the table to the last level.
    let rewrite =
        CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
    db.compact_range_cf_opt(&family, None, None, &rewrite)?;
    db.close()?;
    Ok(())
}

fn open(directory: &Path, for_writing: bool, max_open_files: &str) -> Result<(), Box<dyn Error>> {
    let mut options = OpenOptions::load(directory)?;
    options.set_from_string(&format!("max_open_files={max_open_files}"))?;
    let begun = Instant::now();
    let db = if for_writing {
        Db::open(directory, &options)?
    } else {
        Db::open_read_only(directory, &options)?
    };
    let ms = begun.elapsed().as_millis();
    println!("opened in {ms} ms, {} MiB resident at most", peak_resident_kib()? / 1024);
    drop(db);
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "asks the system how much memory is resident")]
fn peak_resident_kib() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmHWM")?;
    Ok(kib.parse()?)
}
