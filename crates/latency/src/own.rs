//! Directories that this program creates, fills and removes, and files that it overwrites. It never
//! removes or overwrites what it did not create.
//!
//! The first file written into a new directory is a mark file. The program removes a directory only
//! if it contains the mark or is empty. Before it creates a directory, it removes such a directory
//! at the same path. If anything else exists there, the result is an error that names the path.
//! Symbolic links are never followed.
//!
//! Before a directory is removed, it is renamed, so that threads that still create files at the old
//! path fail. The mark is removed last.
//!
//! A crash is safe at each step: the next run removes a directory that is marked or empty, and what
//! is left of a renamed one.
//!
//! Files that stay, such as reports, are in directories of the user. A mark file next to them,
//! which stands for a fixed set of names, is written before them. Without the mark, none of them
//! may exist ([`claim_files`]).

use std::ffi::OsString;
use std::fs::symlink_metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::files::{named, rename, unfinished, write_text};
use crate::memory_limit::interrupt::{Guard, on_interrupt, uninterrupted};

/// Name of the mark file in a directory that this program created.
pub(crate) const MARK: &str = "MADE-BY-TAILWATER";
/// Content of the mark file, for a user who finds it.
const MARK_TEXT: &str =
    "This directory and everything in it is removed when it is no longer needed.\n";
/// Suffix that a directory's name gets before its removal.
const REMOVED: &str = ".removed";
/// Number of attempts to remove a directory at an interruption, while threads may just be creating
/// files in it.
const REMOVALS: u32 = 100;

/// A directory created by this program, which is removed when the value is dropped or at an
/// interruption.
#[derive(Debug)]
pub(crate) struct OwnDirectory {
    path: PathBuf,
    /// Whether dropping the value leaves the directory in place.
    is_kept: bool,
    _on_interrupt: Guard,
}

impl OwnDirectory {
    /// Creates a directory. If this program created a directory at the same path earlier, that is
    /// removed first.
    ///
    /// # Errors
    /// If something exists at `path` that this program did not create; other errors of the
    /// filesystem.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let own = Self::at(path)?;
        uninterrupted(|| {
            remove_own(path)?;
            create_marked(path)
        })?;
        Ok(own)
    }

    /// Registers a path, so that the directory there is removed when the value is dropped or the
    /// program is interrupted. The directory need not exist yet. It is removed only if this program
    /// created it.
    ///
    /// # Errors
    /// If this process already has another interrupt handler.
    pub(crate) fn at(path: &Path) -> Result<Self, Failure> {
        let interrupted = path.to_owned();
        let _on_interrupt = on_interrupt(move || {
            let _ = (0..REMOVALS).find(|_| remove_own(&interrupted).is_ok());
        })?;
        Ok(Self { path: path.to_owned(), is_kept: false, _on_interrupt })
    }

    /// Keeps the directory instead of removing it on drop.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }

    /// Removes the directory now.
    pub(crate) fn remove(mut self) -> Result<(), Failure> {
        self.is_kept = true;
        uninterrupted(|| remove_own(&self.path))
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        if !self.is_kept {
            // Ignore errors. In particular, if the directory could not be created, that failure has
            // already been reported.
            let _ = uninterrupted(|| remove_own(&self.path));
        }
    }
}

/// Removes a directory that this program created. Does nothing if it does not exist.
///
/// # Errors
/// If this program did not create the directory, which is then left unchanged; other errors of the
/// filesystem.
pub(crate) fn remove_own(path: &Path) -> Result<(), Failure> {
    let removed = for_removal(path);
    // An earlier removal may have been interrupted after the rename, so remove its remains first.
    if is_own(&removed)? {
        remove_whole(&removed)?;
    }
    if is_own(path)? {
        rename(path, &removed)?;
        remove_whole(&removed)?;
    }
    Ok(())
}

/// Marks `files` as this program's with the mark file `mark`, which contains `text` for a user who
/// finds it. The mark is written even if it exists, so that a directory that cannot be written to
/// is found out before there are results.
///
/// # Errors
/// If there is no mark, and a file exists that would be overwritten; errors from writing the mark.
pub(crate) fn claim_files(mark: &Path, text: &str, files: &[PathBuf]) -> Result<(), Failure> {
    if !mark.exists() {
        let written = files.iter().flat_map(|file| [file.clone(), unfinished(file)]);
        let mut written = written.chain([unfinished(mark)]);
        // `symlink_metadata` also finds a dangling symbolic link, which must not be overwritten
        // either.
        if let Some(path) = written.find(|path| path.symlink_metadata().is_ok()) {
            return Err(format!(
                "{} would be overwritten, but was not created by this program: move it away, or \
                 write elsewhere with --out",
                path.display()
            )
            .into());
        }
    }
    write_text(mark, text)
}

/// Returns the path that a directory is renamed to before its removal.
fn for_removal(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(REMOVED);
    PathBuf::from(name)
}

/// Returns whether a directory exists at `path` that this program created.
///
/// # Errors
/// Something exists at `path` that this program did not create.
#[expect(clippy::disallowed_methods, reason = "not a database's directory")]
fn is_own(path: &Path) -> Result<bool, Failure> {
    let metadata = match symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        metadata => named(path, metadata)?,
    };
    let is_own = metadata.is_dir()
        && (symlink_metadata(path.join(MARK)).is_ok_and(|mark| mark.is_file())
            // If a crash happens before the mark file is written, or after it is removed, it leaves
            // an empty directory.
            || named(path, std::fs::read_dir(path))?.next().is_none());
    if is_own {
        return Ok(true);
    }
    let path = path.display();
    Err(format!(
        "{path} would be removed, but was not created by this program: move it away, or choose \
         another directory"
    )
    .into())
}

#[expect(clippy::disallowed_methods, reason = "no database's directory")]
fn create_marked(path: &Path) -> Result<(), Failure> {
    let made = std::fs::create_dir(path);
    let marked = made.and_then(|()| std::fs::write(path.join(MARK), MARK_TEXT));
    Ok(named(path, marked)?)
}

/// Removes a directory and everything in it. The file that marks it as created by this program is
/// removed last, so that an interrupted removal can be continued.
#[expect(clippy::disallowed_methods, reason = "a directory that was created here")]
fn remove_whole(path: &Path) -> Result<(), Failure> {
    let removed = || -> std::io::Result<()> {
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_name() == MARK {
                continue;
            }
            if entry.file_type()?.is_dir() {
                std::fs::remove_dir_all(entry.path())?
            } else {
                std::fs::remove_file(entry.path())?
            }
        }
        match std::fs::remove_file(path.join(MARK)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::fs::remove_dir(path)
    };
    Ok(named(path, removed())?)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "creates files that must not be removed")]
mod tests {
    use super::*;

    #[test]
    fn a_directory_created_here_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("copy");
        let own = OwnDirectory::create(&path).unwrap();
        std::fs::create_dir(path.join("deeper")).unwrap();
        std::fs::write(path.join("deeper/file"), "1").unwrap();
        drop(own);
        assert!(!path.exists());
        // A kept directory is still this program's own, so it is removed when another one is
        // created at its path.
        OwnDirectory::create(&path).unwrap().keep();
        std::fs::write(path.join("file"), "1").unwrap();
        let again = OwnDirectory::create(&path).unwrap();
        assert!(path.join(MARK).exists() && !path.join("file").exists());
        again.remove().unwrap();
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn remains_of_a_crash_are_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, removed) = (scratch.path().join("copy"), scratch.path().join("copy.removed"));
        std::fs::create_dir(&path).unwrap();
        std::fs::create_dir(&removed).unwrap();
        std::fs::write(removed.join(MARK), "").unwrap();
        std::fs::write(removed.join("file"), "1").unwrap();
        OwnDirectory::create(&path).unwrap().remove().unwrap();
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    /// Regression test: creating a directory first removed whatever existed at its path, even if
    /// this program had not created it.
    #[test]
    fn directories_of_others_are_not_removed() {
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
        // A removal first renames the directory `taken` to another path. At that path, the test
        // puts a directory that this program did not create. It must not be removed either.
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
