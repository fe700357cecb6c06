//! The location of a database's files in the filesystem, and copies of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The placeholder in option strings for the root directory of a place.
const ROOT: &str = "$ROOT";
/// Maximum number of attempts to copy files while they change.
const ATTEMPTS: usize = 2000;

/// A directory that holds all files of a database: the subdirectory `db` is the database's home,
/// and the directories that its options name are next to `db`.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    root: PathBuf,
}

impl Place {
    /// Creates the directory `root`, which will hold all files of a database.
    #[expect(clippy::disallowed_methods, reason = "files around a database, not of it")]
    pub(crate) fn new(root: PathBuf) -> Self {
        std::fs::create_dir_all(&root).expect("a directory");
        Self { root }
    }

    /// Returns the root directory, which holds all files.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the database's home, the directory `db`.
    pub(crate) fn database(&self) -> PathBuf {
        self.root.join("db")
    }

    /// Returns the option string `text`, in which `$ROOT` is replaced by this place's root
    /// directory.
    pub(crate) fn expand(&self, text: &str) -> String {
        text.replace(ROOT, &self.root.display().to_string())
    }

    /// Copies all files to a new place. The copy is the state that a killed process would leave: if
    /// any file changes while the files are copied, everything is copied again.
    ///
    /// # Panics
    /// Panics if the files keep changing.
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

    /// Copies the files of this place to `copy`. Returns false if one of them was removed during
    /// the copy.
    #[expect(clippy::disallowed_methods, reason = "files around a database, not of it")]
    fn try_copy(&self, copy: &Self) -> bool {
        self.files().keys().all(|path| {
            let to = copy.root.join(path.strip_prefix(&self.root).expect("a path below"));
            std::fs::create_dir_all(to.parent().expect("a directory")).expect("a directory");
            std::fs::copy(path, to).is_ok()
        })
    }

    /// Returns the lengths and modification times of the files that [`Self::copy_to`] copies.
    #[expect(clippy::disallowed_methods, reason = "files around a database, not of it")]
    fn files(&self) -> BTreeMap<PathBuf, (u64, SystemTime)> {
        let mut files = BTreeMap::new();
        let mut waiting = vec![self.root.clone()];
        while let Some(directory) = waiting.pop() {
            for entry in std::fs::read_dir(&directory).expect("a directory that can be listed") {
                let path = entry.expect("an entry of the directory").path();
                // A file may be removed between listing and reading.
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

/// Whether a file is to be copied. Information logs are not copied, since they change all the time.
/// LOCK is not copied, since a process that opens and closes the file loses its own lock.
fn matters(path: &Path) -> bool {
    let name = path.file_name().expect("a name").to_string_lossy();
    name != "LOCK" && name != "LOG" && !name.starts_with("LOG.old")
}
