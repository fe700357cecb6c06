//! Access to the kernel's files below `/proc` and `/sys`.

use std::path::{Path, PathBuf};

/// The directory that contains `/proc` and `/sys`. It is `/`, or in tests a directory with recorded
/// files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    root: PathBuf,
}

impl Default for System {
    /// Returns a [`System`] that reads the real `/proc` and `/sys`.
    fn default() -> Self {
        Self { root: PathBuf::from("/") }
    }
}

impl System {
    /// Creates a system whose kernel files are below the directory `root`, such as
    /// `root/proc/vmstat`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the path at which a file of `/proc` or `/sys` is read. `absolute` is the file's
    /// usual path. The result is below the directory with which this [`System`] was created.
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let absolute = absolute.as_ref();
        self.root.join(absolute.strip_prefix("/").unwrap_or(absolute))
    }

    /// Returns the text of the kernel's file with the path `absolute`; `None` if it cannot be read.
    #[expect(clippy::disallowed_methods, reason = "the kernel's files are not a database's")]
    pub fn read(&self, absolute: impl AsRef<Path>) -> Option<String> {
        let bytes = std::fs::read(self.path(absolute)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the bytes of the kernel's file with the path `absolute`; `None` if it cannot be
    /// read.
    #[expect(clippy::disallowed_methods, reason = "the kernel's files are not a database's")]
    pub(super) fn bytes(&self, absolute: impl AsRef<Path>) -> Option<Vec<u8>> {
        std::fs::read(self.path(absolute)).ok()
    }

    /// Returns the trimmed text of the kernel's file `absolute`; `None` if it cannot be read or is
    /// empty.
    pub fn word(&self, absolute: impl AsRef<Path>) -> Option<String> {
        let text = self.read(absolute)?;
        let word = text.trim();
        (!word.is_empty()).then(|| word.to_owned())
    }

    /// Returns the number that the kernel's file `absolute` contains; `None` if it does not contain
    /// one.
    pub fn number(&self, absolute: impl AsRef<Path>) -> Option<u64> {
        self.word(absolute)?.parse().ok()
    }

    /// Returns the sorted names of the entries of a directory. If the directory cannot be read, the
    /// list is empty.
    #[expect(clippy::disallowed_methods, reason = "the kernel's files are not a database's")]
    pub fn names(&self, absolute: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(absolute)) else { return Vec::new() };
        let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
        let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Returns whether the kernel's file with the path `absolute`, such as `/proc/vmstat`, exists.
    pub fn has(&self, absolute: impl AsRef<Path>) -> bool {
        self.path(absolute).exists()
    }
}
