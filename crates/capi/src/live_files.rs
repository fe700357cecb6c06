//! The list of tables.

use std::ffi::{CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;

use tailwater::LiveFile;

use crate::boundary::{Failure, Outcome, entry, give};
use crate::database::rocksdb_t;

/// The tables of a database as of a point in time.
pub(crate) struct rocksdb_livefiles_t {
    files: Vec<File>,
}

struct File {
    file: LiveFile,
    column_family: CString,
    /// The file's name, after a slash.
    name: CString,
    directory: CString,
}

/// Returns a C string.
fn c_string(text: &[u8]) -> CString {
    CString::new(text).unwrap_or_default()
}

impl From<LiveFile> for File {
    fn from(file: LiveFile) -> Self {
        let name = file.path.file_name().map_or(&b""[..], OsStr::as_bytes);
        let directory = file.path.parent().map_or(&b""[..], |parent| parent.as_os_str().as_bytes());
        Self {
            column_family: c_string(file.column_family.as_bytes()),
            name: c_string(&[b"/", name].concat()),
            directory: c_string(directory),
            file,
        }
    }
}

impl rocksdb_livefiles_t {
    /// Returns an empty list.
    pub(crate) fn empty() -> Self {
        Self { files: Vec::new() }
    }

    fn at(&self, index: c_int) -> Outcome<&File> {
        let file = usize::try_from(index).ok().and_then(|index| self.files.get(index));
        file.ok_or_else(|| Failure::invalid(format!("there is no file {index}")))
    }
}

entry! {
    fn rocksdb_livefiles(db: shared rocksdb_t) -> *const rocksdb_livefiles_t {
        let files = db.db.live_files_with_counts()?.into_iter().map(File::from).collect();
        Ok(give(rocksdb_livefiles_t { files }).cast_const())
    }
}

entry! {
    fn rocksdb_livefiles_destroy(files: own_const rocksdb_livefiles_t) {
        drop(files);
        Ok(())
    }
}

entry! {
    fn rocksdb_livefiles_count(files: &rocksdb_livefiles_t) -> c_int {
        Ok(c_int::try_from(files.files.len()).unwrap_or(c_int::MAX))
    }
}

entry! {
    fn rocksdb_livefiles_column_family_name(
        files: &rocksdb_livefiles_t,
        index: c_int,
    ) -> *const c_char {
        Ok(files.at(index)?.column_family.as_ptr())
    }
}

entry! {
    fn rocksdb_livefiles_name(files: &rocksdb_livefiles_t, index: c_int) -> *const c_char {
        Ok(files.at(index)?.name.as_ptr())
    }
}

entry! {
    fn rocksdb_livefiles_directory(files: &rocksdb_livefiles_t, index: c_int) -> *const c_char {
        Ok(files.at(index)?.directory.as_ptr())
    }
}

entry! {
    fn rocksdb_livefiles_level(files: &rocksdb_livefiles_t, index: c_int) -> c_int {
        Ok(c_int::try_from(files.at(index)?.file.level).unwrap_or(c_int::MAX))
    }
}

entry! {
    fn rocksdb_livefiles_size(files: &rocksdb_livefiles_t, index: c_int) -> usize {
        Ok(usize::try_from(files.at(index)?.file.size).unwrap_or(usize::MAX))
    }
}

entry! {
    fn rocksdb_livefiles_smallestkey(
        files: &rocksdb_livefiles_t,
        index: c_int,
        size: out usize,
    ) -> *const c_char {
        let key = &files.at(index)?.file.smallest_key;
        size.set(key.len());
        Ok(key.as_ptr().cast())
    }
}

entry! {
    fn rocksdb_livefiles_largestkey(
        files: &rocksdb_livefiles_t,
        index: c_int,
        size: out usize,
    ) -> *const c_char {
        let key = &files.at(index)?.file.largest_key;
        size.set(key.len());
        Ok(key.as_ptr().cast())
    }
}

entry! {
    fn rocksdb_livefiles_smallest_seqno(files: &rocksdb_livefiles_t, index: c_int) -> u64 {
        Ok(files.at(index)?.file.smallest_sequence)
    }
}

entry! {
    fn rocksdb_livefiles_largest_seqno(files: &rocksdb_livefiles_t, index: c_int) -> u64 {
        Ok(files.at(index)?.file.largest_sequence)
    }
}

entry! {
    fn rocksdb_livefiles_entries(files: &rocksdb_livefiles_t, index: c_int) -> u64 {
        Ok(files.at(index)?.file.entries.unwrap_or(0))
    }
}

entry! {
    fn rocksdb_livefiles_deletions(files: &rocksdb_livefiles_t, index: c_int) -> u64 {
        Ok(files.at(index)?.file.deletions.unwrap_or(0))
    }
}
