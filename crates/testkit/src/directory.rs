//! Snapshots of a directory, to verify that nothing changed it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A file as it was at a point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Time of the last modification of the file.
    pub modified: SystemTime,
    /// The file's bytes.
    pub contents: Vec<u8>,
}

/// Returns all files in a directory and its subdirectories, by path.
///
/// # Panics
/// If a file cannot be read.
#[expect(clippy::disallowed_methods, reason = "reads a directory from outside the engine")]
pub fn snapshot(directory: &Path) -> BTreeMap<PathBuf, File> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory that can be listed") {
            let path = entry.expect("an entry of the directory").path();
            let metadata = std::fs::metadata(&path).expect("a file's metadata");
            if metadata.is_dir() {
                waiting.push(path);
                continue;
            }
            let modified = metadata.modified().expect("a time of change");
            let contents = std::fs::read(&path).expect("a file's bytes");
            files.insert(path, File { modified, contents });
        }
    }
    files
}

/// Asserts that a directory still contains the files in `before`, and no others.
///
/// # Panics
/// If a file was created, removed, modified, or written with the same bytes. The message names it.
pub fn assert_unchanged(directory: &Path, before: &BTreeMap<PathBuf, File>) {
    let after = snapshot(directory);
    for (path, file) in before {
        let found = after.get(path).unwrap_or_else(|| panic!("{} is gone", path.display()));
        assert_eq!(found.modified, file.modified, "{} was written to", path.display());
        assert!(found.contents == file.contents, "{} has other bytes", path.display());
    }
    for path in after.keys() {
        assert!(before.contains_key(path), "{} was made", path.display());
    }
}
