//! A database's files, wherever they are, and copies of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The placeholder for the directory of a place in option strings.
const ROOT: &str = "$ROOT";
/// Number of times that a copy is tried while the files change.
const ATTEMPTS: usize = 2000;

/// A directory with all files of a database: the database in `db`, and next to it what its
/// options put elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    root: PathBuf,
}

impl Place {
    /// The place in a directory, which is made.
    #[expect(clippy::disallowed_methods, reason = "around a database, not in it")]
    pub(crate) fn new(root: PathBuf) -> Self {
        std::fs::create_dir_all(&root).expect("a directory");
        Self { root }
    }

    /// The directory that has all of them.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The database's directory.
    pub(crate) fn database(&self) -> PathBuf {
        self.root.join("db")
    }

    /// A text of options with the directories of this place in it.
    pub(crate) fn expand(&self, text: &str) -> String {
        text.replace(ROOT, &self.root.display().to_string())
    }

    /// Copies all files to a new place, as a process killed at one moment would leave them: the
    /// copy is repeated if anything changed meanwhile.
    ///
    /// # Panics
    /// If the files keep changing.
    pub(crate) fn copy_to(&self, root: PathBuf) -> Self {
        let copy = Self::new(root);
        for _ in 0..ATTEMPTS {
            std::fs::remove_dir_all(&copy.root).expect("a directory that can be removed");
            let before = self.files();
            if self.try_copy(&copy) && self.files() == before {
                return copy;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("the files of {} keep changing", self.root.display());
    }

    /// Whether everything that was there to be copied was there when its turn came.
    #[expect(clippy::disallowed_methods, reason = "around a database, not in it")]
    fn try_copy(&self, copy: &Self) -> bool {
        self.files().keys().all(|path| {
            let to = copy.root.join(path.strip_prefix(&self.root).expect("a path below"));
            std::fs::create_dir_all(to.parent().expect("a directory")).expect("a directory");
            std::fs::copy(path, to).is_ok()
        })
    }

    /// The lengths of all files that matter, and when they were last changed.
    #[expect(clippy::disallowed_methods, reason = "around a database, not in it")]
    fn files(&self) -> BTreeMap<PathBuf, (u64, SystemTime)> {
        let mut files = BTreeMap::new();
        let mut waiting = vec![self.root.clone()];
        while let Some(directory) = waiting.pop() {
            for entry in std::fs::read_dir(&directory).expect("a directory that can be listed") {
                let path = entry.expect("an entry of the directory").path();
                // A file may go between the two.
                let Ok(metadata) = std::fs::metadata(&path) else { continue };
                if metadata.is_dir() {
                    waiting.push(path);
                } else if matters(&path) {
                    let modified = metadata.modified().expect("a time of change");
                    files.insert(path, (metadata.len(), modified));
                }
            }
        }
        files
    }
}

/// Whether a file is part of what is copied: not the information logs, which change all the time,
/// and not the lock, which a process that opens and closes the file would lose.
fn matters(path: &Path) -> bool {
    let name = path.file_name().expect("a name").to_string_lossy();
    name != "LOCK" && name != "LOG" && !name.starts_with("LOG.old")
}
