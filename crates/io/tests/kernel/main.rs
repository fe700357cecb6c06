//! Parses the kernel's files: from texts, from a directory that imitates `/proc` and `/sys`, and
//! from this machine.

mod devices;
mod figures;
mod here;
mod memory;
mod parsers;

/// Writes a kernel file below a directory that imitates the root.
#[expect(clippy::disallowed_methods, reason = "imitates the kernel's files")]
fn put(root: &std::path::Path, absolute: &str, text: &str) {
    let path = root.join(absolute.trim_start_matches('/'));
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    std::fs::write(path, text).expect("a file");
}
