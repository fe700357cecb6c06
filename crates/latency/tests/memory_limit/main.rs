//! Tests of memory limits: real ones where this machine supports them, otherwise with a directory
//! that imitates `/proc`, `/sys` and systemd. The kind used is printed.
#![expect(clippy::disallowed_methods, reason = "imitates the kernel's files")]

mod here;
mod interrupted;
mod played;

use std::path::Path;

use tailwater_io::Storage as _;
use tailwater_io::posix::PosixStorage;

/// Returns whether the files in a directory are always in memory, as on tmpfs.
fn is_memory(directory: &Path) -> bool {
    let capabilities = PosixStorage::new().capabilities(directory).expect("a directory");
    capabilities.filesystem == "tmpfs"
}

/// Writes a file of the kernel below a directory that imitates its root.
fn put(root: &Path, absolute: &str, text: &str) {
    let path = root.join(absolute.trim_start_matches('/'));
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    std::fs::write(path, text).expect("a file");
}
