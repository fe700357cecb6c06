//! Emptying the page cache before a measurement.

use std::io;
use std::path::Path;

use rustix::fs::{Advice, Mode, OFlags};
use tailwater_io::Storage;
use tailwater_io::kernel::System;
use tailwater_io::posix::PosixStorage;

use super::files;

const DROP: &str = "/proc/sys/vm/drop_caches";

/// What was done, and what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evicted {
    /// Whether the caches of the whole machine were dropped. Otherwise the kernel was advised that
    /// the files are not needed, and may not have followed.
    pub machine: bool,
    /// How many pages of the files are in memory all the same, if the kernel tells.
    pub resident_pages: Option<u64>,
}

/// Puts the files in some directories, and in those below them, out of memory: all caches of the
/// machine are dropped where that is allowed (to root, outside most containers), else the files'
/// pages alone.
///
/// # Errors
/// Those of listing and opening the files.
pub fn evict(system: &System, directories: &[&Path]) -> io::Result<Evicted> {
    // What is dirty stays.
    rustix::fs::sync();
    let machine = files::write_existing(&system.path(DROP), "3").is_ok();
    let storage = PosixStorage::new();
    let mut resident_pages = Some(0);
    for directory in directories {
        for path in files::all_below(directory)? {
            if !machine {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let file = rustix::fs::open(&path, flags, Mode::empty())?;
                rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
            }
            let pages = storage.resident_pages(&path).ok().flatten();
            resident_pages = resident_pages.zip(pages).map(|(sum, pages)| sum + pages);
        }
    }
    Ok(Evicted { machine, resident_pages })
}
