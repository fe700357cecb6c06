//! Direct I/O by purpose. Compactions bypass the page cache; users' reads and flushes do not.
//!
//! For every purpose, the property `tailwater.io-modes` reports the mode in effect and the option
//! that requested it. Opening probes the directory, and fails if the filesystem refuses a mode that
//! an option requires. A filesystem that accepts direct I/O but does not perform it, such as tmpfs,
//! does not fail the opening; the mode in effect is then `buffered`.
//!
//! ```sh
//! cargo run -p tailwater --example direct_io -- DIRECTORY
//! ```

use std::path::{Path, PathBuf};

use tailwater::{Db, ErrorKind, OpenOptions, Result};

fn main() -> Result<()> {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    if !compacts_with_direct_io(&parent)? {
        println!("choose a directory on another filesystem");
    }
    Ok(())
}

/// Compacts a new database in a directory below `parent`. Returns whether the compaction bypassed
/// the page cache.
pub(crate) fn compacts_with_direct_io(parent: &Path) -> Result<bool> {
    let directory = parent.join(format!("direct-{}", std::process::id()));
    let mut options = OpenOptions::default();
    options.set_from_string(
        "create_if_missing=true;compaction_read_io_mode=direct;compaction_write_io_mode=direct",
    )?;
    let db = match Db::open(&directory, &options) {
        Ok(db) => db,
        Err(error) if error.kind() == ErrorKind::NotSupported => {
            println!("{error}");
            Db::destroy(&directory, &options)?;
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    for number in 0..1000_u32 {
        db.put(number.to_be_bytes(), vec![7; 1000])?;
    }
    db.flush()?;
    db.compact_range(None, None)?;

    let modes = db.property_value("tailwater.io-modes")?.unwrap_or_default();
    println!("{modes}");
    // A line names the mode that was asked for and the effective one, which may differ.
    let is_direct = |purpose: &str| {
        let mut lines = modes.lines();
        lines.any(|line| line.starts_with(purpose) && line.ends_with("effective direct"))
    };
    assert!(!is_direct("user_read"));
    let is_effective = is_direct("compaction_read:") && is_direct("compaction_write:");

    db.close()?;
    Db::destroy(&directory, &options)?;
    Ok(is_effective)
}
