//! Tests of the parsers of the kernel's files. The input comes from string constants, from a
//! directory tree that imitates `/proc` and `/sys`, and from this machine.

mod devices;
mod figures;
mod memory;
mod parsers;
mod real_kernel;

/// Writes a file at `path` below `root`, a directory that imitates the root of the filesystem.
#[expect(clippy::disallowed_methods, reason = "imitates the kernel's files")]
fn put(root: &std::path::Path, absolute: &str, text: &str) {
    let path = root.join(absolute.trim_start_matches('/'));
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    std::fs::write(path, text).expect("a file");
}
