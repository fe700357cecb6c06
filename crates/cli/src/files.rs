//! The files of a database, by their names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_io::Storage;
use tailwater_io::posix::PosixStorage;

use crate::outcome::{Failure, Result};

/// Returns the file system.
pub(crate) fn storage() -> Arc<dyn Storage> {
    Arc::new(PosixStorage::new())
}

/// Returns the path itself if it is a directory, and the directory of a file.
pub(crate) fn directory_of(path: &Path) -> Result<&Path> {
    if storage().metadata(path)?.is_directory {
        return Ok(path);
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(parent.unwrap_or(Path::new(".")))
}

/// Returns the files of one kind in a directory, with their numbers and paths, in the order of
/// their numbers. `number_of` returns the number of a file of that kind, and `None` for any other
/// file.
pub(crate) fn numbered_files(
    directory: &Path,
    number_of: fn(FileKind) -> Option<u64>,
) -> Result<Vec<(u64, PathBuf)>> {
    let entries = storage().list(directory)?;
    let mut files: Vec<(u64, PathBuf)> = entries
        .iter()
        .filter_map(|entry| {
            let number = number_of(FileKind::parse(&entry.name)?)?;
            Some((number, directory.join(&entry.name)))
        })
        .collect();
    files.sort_unstable();
    Ok(files)
}

/// Returns the path itself if it is a file. If it is a directory, returns its files of one kind:
/// the file with the given number, or all of them. `what` names the kind in messages; `number_of`
/// returns the number of a file of that kind, and `None` for any other file.
pub(crate) fn files_at(
    path: &Path,
    number: Option<u64>,
    what: &str,
    number_of: fn(FileKind) -> Option<u64>,
) -> Result<Vec<PathBuf>> {
    if !storage().metadata(path)?.is_directory {
        return match number {
            None => Ok(vec![path.to_owned()]),
            Some(_) => Err(Failure::Usage(format!(
                "{} is a file: a number requires a directory",
                path.display()
            ))),
        };
    }
    let files = numbered_files(path, number_of)?;
    let wanted =
        files.into_iter().filter(|(found, _)| number.is_none_or(|wanted| wanted == *found));
    let wanted: Vec<PathBuf> = wanted.map(|(_, path)| path).collect();
    if !wanted.is_empty() {
        return Ok(wanted);
    }
    let which = number.map_or_else(String::new, |number| format!(" with number {number}"));
    Err(Failure::NotFound(format!("no {what}{which} in {}", path.display())))
}
