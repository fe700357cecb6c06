//! The files of the repository, for tests that read them.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the root directory of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Returns all files in the repository whose names end with `ending`: their paths relative to the
/// root of the repository, and their text.
pub(crate) fn files(ending: &str) -> Vec<(String, String)> {
    let root = root();
    let mut found = Vec::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory") {
            let entry = entry.expect("an entry");
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if path.is_dir() {
                let skipped = name.starts_with('.') && name != ".ci";
                if !skipped && !matches!(&*name, "target" | "corpus" | "artifacts") {
                    directories.push(path);
                }
            } else if name.ends_with(ending) {
                let relative = path.strip_prefix(&root).expect("a path below the root");
                let text = fs::read_to_string(&path).expect("text");
                found.push((relative.to_string_lossy().into_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "no file ends with {ending}");
    found
}

/// Fails, with a line for each element, unless `found` is empty.
pub(crate) fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}
