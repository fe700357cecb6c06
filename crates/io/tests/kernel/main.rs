//! Interpretation of the kernel's files: from texts, from a directory that imitates `/proc` and
//! `/sys`, and from this machine.

mod devices;
mod figures;
mod here;
mod memory;
mod parsers;

/// Writes a file of the kernel below a directory that plays its root.
#[expect(clippy::disallowed_methods, reason = "plays the kernel's files")]
fn put(root: &std::path::Path, absolute: &str, text: &str) {
    let path = root.join(absolute.trim_start_matches('/'));
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    std::fs::write(path, text).expect("a file");
}
