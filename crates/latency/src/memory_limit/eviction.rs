//! Evicts files from the page cache before a measurement.

use std::io;
use std::path::Path;

use rustix::fs::{Advice, Mode, OFlags};
use tailwater_io::Storage;
use tailwater_io::kernel::System;
use tailwater_io::posix::PosixStorage;

use crate::files;

const DROP: &str = "/proc/sys/vm/drop_caches";

/// The result of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evicted {
    /// Whether the page cache of the whole machine was dropped. If not, the kernel was only advised
    /// that the pages of the files are not needed, which it may ignore.
    pub machine: bool,
    /// How many pages of the files to evict are still in the page cache; `None` if the kernel does
    /// not report this number.
    pub resident_pages: Option<u64>,
}

/// Evicts the files below some directories from the page cache. This drops the page cache of the
/// whole machine if that is permitted (to root, outside most containers), and otherwise only the
/// pages of these files.
///
/// # Errors
/// Errors from listing and opening the files.
pub fn evict(system: &System, directories: &[&Path]) -> io::Result<Evicted> {
    // Write dirty pages back first, because they cannot be evicted.
    rustix::fs::sync();
    let machine = system.has(DROP) && files::write_setting(&system.path(DROP), "3").is_ok();
    let resident_pages = if machine { resident(directories)? } else { evict_files(directories)? };
    Ok(Evicted { machine, resident_pages })
}

/// Advises the kernel to drop the pages of the files below some directories from the page cache,
/// and returns how many are left; `None` if the kernel does not report this number. The rest of the
/// page cache stays as it is.
///
/// # Errors
/// Errors from listing and opening the files.
pub fn evict_files(directories: &[&Path]) -> io::Result<Option<u64>> {
    for directory in directories {
        for path in files::all_below(directory)? {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let file = rustix::fs::open(&path, flags, Mode::empty())?;
            // Dirty pages are not dropped.
            rustix::fs::fdatasync(&file)?;
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    resident(directories)
}

/// Returns how many pages of the files below some directories are in the page cache; `None` if the
/// kernel does not report this number.
fn resident(directories: &[&Path]) -> io::Result<Option<u64>> {
    let storage = PosixStorage::new();
    let mut resident_pages = Some(0);
    for directory in directories {
        for path in files::all_below(directory)? {
            let pages = storage.resident_pages(&path).ok().flatten();
            resident_pages = resident_pages.zip(pages).map(|(sum, pages)| sum + pages);
        }
    }
    Ok(resident_pages)
}
