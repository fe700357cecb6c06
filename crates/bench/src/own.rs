//! Directories that are made, filled and removed here: never one that somebody else made.
//!
//! A directory is created exclusively, and a mark is written into it before anything else. Only a
//! directory with the mark, or an empty one, is removed; what stands in the place of one and has no
//! mark is refused by name. Symbolic links are never followed.
//!
//! A directory is renamed before it is removed, so that threads which are still making files in it
//! cannot go on, and its mark is the last that goes.
//!
//! A crash is safe at each step: an empty directory, a marked one, and what is left of one under
//! the name for removals are removed by whoever next makes a directory there.

use std::ffi::OsString;
use std::fs::symlink_metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::memory_limit::interrupt::{Guard, on_interrupt};
use crate::store::Failure;

/// The file that says that a directory was made here.
pub(crate) const MARK: &str = "MADE-BY-TAILWATER";
/// What it says.
const MARK_TEXT: &str =
    "This directory and all that is in it is removed when it is needed no more.\n";
/// What a directory's name ends with while it is removed.
const REMOVED: &str = ".removed";

/// A directory that was made here and is removed at the end: when this is dropped, or at an
/// interruption.
#[derive(Debug)]
pub(crate) struct OwnDirectory {
    path: PathBuf,
    /// Whether it stays.
    is_kept: bool,
    _on_interrupt: Guard,
}

impl OwnDirectory {
    /// Makes a directory, after removing an earlier one that was made here.
    ///
    /// # Errors
    /// What is there was made by somebody else; those of the filesystem.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let own = Self::at(path)?;
        remove_own(path)?;
        create_marked(path)?;
        Ok(own)
    }

    /// Has a directory removed at the end that is still to be made, if it is one made here.
    ///
    /// # Errors
    /// That something else in this process answers to interruptions.
    pub(crate) fn at(path: &Path) -> Result<Self, Failure> {
        let interrupted = path.to_owned();
        let _on_interrupt = on_interrupt(move || {
            let _ = remove_own(&interrupted);
        })?;
        Ok(Self { path: path.to_owned(), is_kept: false, _on_interrupt })
    }

    /// Leaves the directory.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }

    /// Removes the directory.
    ///
    /// # Errors
    /// Those of the filesystem.
    pub(crate) fn remove(mut self) -> Result<(), Failure> {
        self.is_kept = true;
        remove_own(&self.path)
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        if !self.is_kept {
            // What has failed says why already.
            let _ = remove_own(&self.path);
        }
    }
}

/// Removes a directory that was made here, if it is there.
///
/// # Errors
/// It was made by somebody else, and stays; those of the filesystem.
pub(crate) fn remove_own(path: &Path) -> Result<(), Failure> {
    let removed = for_removal(path);
    // What an earlier removal has left.
    if is_own(&removed)? {
        remove_whole(&removed)?;
    }
    if is_own(path)? {
        rename(path, &removed)?;
        remove_whole(&removed)?;
    }
    Ok(())
}

/// The name of a directory while it is removed.
fn for_removal(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(REMOVED);
    PathBuf::from(name)
}

/// Whether a directory is there, which was made here.
///
/// # Errors
/// Something else is there.
#[expect(clippy::disallowed_methods, reason = "no database's directory")]
fn is_own(path: &Path) -> Result<bool, Failure> {
    let named = |error| format!("{}: {error}", path.display());
    let metadata = match symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        metadata => metadata.map_err(named)?,
    };
    let is_own = metadata.is_dir()
        && (symlink_metadata(path.join(MARK)).is_ok_and(|mark| mark.is_file())
            // A crash may have come before the mark, or after its removal.
            || std::fs::read_dir(path).map_err(named)?.next().is_none());
    if is_own {
        return Ok(true);
    }
    let path = path.display();
    Err(format!(
        "{path} would have to be removed, and was not made by this program: move it away, or choose \
         another directory"
    )
    .into())
}

#[expect(clippy::disallowed_methods, reason = "no database's directory")]
fn create_marked(path: &Path) -> Result<(), Failure> {
    let made = std::fs::create_dir(path);
    let marked = made.and_then(|()| std::fs::write(path.join(MARK), MARK_TEXT));
    marked.map_err(|error| format!("{}: {error}", path.display()).into())
}

#[expect(clippy::disallowed_methods, reason = "a directory that was made here")]
fn rename(from: &Path, to: &Path) -> Result<(), Failure> {
    std::fs::rename(from, to).map_err(|error| format!("{}: {error}", from.display()).into())
}

/// Removes a directory with all that is in it, the mark last.
#[expect(clippy::disallowed_methods, reason = "a directory that was made here")]
fn remove_whole(path: &Path) -> Result<(), Failure> {
    let removed = || -> std::io::Result<()> {
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_name() == MARK {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => std::fs::remove_dir_all(entry.path())?,
                false => std::fs::remove_file(entry.path())?,
            }
        }
        match std::fs::remove_file(path.join(MARK)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::fs::remove_dir(path)
    };
    removed().map_err(|error| format!("{}: {error}", path.display()).into())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "makes what is to be left alone")]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_here_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("copy");
        let own = OwnDirectory::create(&path).unwrap();
        std::fs::create_dir(path.join("deeper")).unwrap();
        std::fs::write(path.join("deeper/file"), "1").unwrap();
        drop(own);
        assert!(!path.exists());
        // Kept, it is there until another one is made in its place.
        OwnDirectory::create(&path).unwrap().keep();
        std::fs::write(path.join("file"), "1").unwrap();
        let again = OwnDirectory::create(&path).unwrap();
        assert!(path.join(MARK).exists() && !path.join("file").exists());
        again.remove().unwrap();
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_crash_left_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, removed) = (scratch.path().join("copy"), scratch.path().join("copy.removed"));
        std::fs::create_dir(&path).unwrap();
        std::fs::create_dir(&removed).unwrap();
        std::fs::write(removed.join(MARK), "").unwrap();
        std::fs::write(removed.join("file"), "1").unwrap();
        OwnDirectory::create(&path).unwrap().remove().unwrap();
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    /// Whatever stood in the place of a directory was removed with all that was in it.
    #[test]
    fn what_somebody_else_made_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let theirs = scratch.path().join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(theirs.join("thesis"), "1").unwrap();
        std::fs::write(theirs.join(MARK), "").unwrap();
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&theirs, &link).unwrap();
        let file = scratch.path().join("file");
        std::fs::write(&file, "1").unwrap();
        let unmarked = scratch.path().join("unmarked");
        std::fs::create_dir(&unmarked).unwrap();
        std::fs::write(unmarked.join("thesis"), "1").unwrap();
        // Under the name for removals, too.
        let taken = scratch.path().join("taken");
        std::fs::create_dir(&taken).unwrap();
        std::fs::rename(&unmarked, for_removal(&taken)).unwrap();
        for path in [&link, &file, &for_removal(&taken), &taken] {
            let error = OwnDirectory::create(path).unwrap_err().to_string();
            assert!(error.contains(&*path.to_string_lossy()), "{error}");
        }
        assert!(theirs.join("thesis").exists() && link.exists() && file.exists());
        assert!(for_removal(&taken).join("thesis").exists());
    }
}
