//! Tests of memory limits. The kind of limit that this machine supports is tested on the real
//! kernel. For the other kinds, a directory tree and programs imitate `/proc`, `/sys` and systemd.
//! Each test prints which kind it used.
#![expect(clippy::disallowed_methods, reason = "imitates the kernel's files")]

mod interrupted;
mod real_kernel;
mod simulated_files;

use std::path::Path;

use tailwater_io::Storage as _;
use tailwater_io::posix::PosixStorage;

/// Returns whether files in a directory exist only in memory, as on tmpfs.
fn is_memory(directory: &Path) -> bool {
    let capabilities = PosixStorage::new().capabilities(directory).expect("a directory");
    capabilities.filesystem == "tmpfs"
}

/// Writes a kernel file at `absolute` below `root`, a directory that imitates the root of the
/// filesystem.
fn put(root: &Path, absolute: &str, text: &str) {
    let path = root.join(absolute.trim_start_matches('/'));
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    std::fs::write(path, text).expect("a file");
}
