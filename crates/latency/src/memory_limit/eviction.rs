//! Empties the page cache before a measurement.

use std::io;
use std::path::Path;

use rustix::fs::{Advice, Mode, OFlags};
use tailwater_io::Storage;
use tailwater_io::kernel::System;
use tailwater_io::posix::PosixStorage;

use super::files;

const DROP: &str = "/proc/sys/vm/drop_caches";

/// The result of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evicted {
    /// Whether the caches of the whole machine were dropped. Otherwise the kernel was advised that
    /// the files are not needed, which it may have ignored.
    pub machine: bool,
    /// Number of the files' pages that are still in memory, if the kernel reports it.
    pub resident_pages: Option<u64>,
}

/// Evicts the files below some directories from memory: drops all caches of the machine if
/// permitted (as root, outside most containers), otherwise only the files' pages.
///
/// # Errors
/// Errors from listing and opening the files.
pub fn evict(system: &System, directories: &[&Path]) -> io::Result<Evicted> {
    // Dirty pages cannot be evicted.
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
