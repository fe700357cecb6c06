//! A list of storage calls, with which tests count the kinds of calls that they have covered.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::error::Operation;
use crate::purpose::{IoMode, Purpose};

/// One call to the storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The number of the call. The first call to the storage has number 0.
    pub number: u64,
    /// The operation.
    pub operation: Operation,
    /// The purpose of the call or, if the call itself has none, that for which its file was opened.
    /// `None` for calls on paths, such as a rename.
    pub purpose: Option<Purpose>,
    /// The path of the file or directory.
    pub path: Arc<Path>,
}

/// A file that was opened or created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The path of the file.
    pub path: Arc<Path>,
    /// The I/O mode of the open file.
    pub mode: IoMode,
    /// The purpose for which the file was opened.
    pub purpose: Purpose,
}

/// A write to a file: what the caller asked for, whether or not the write succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteCall {
    /// The number of the call, as in [`Call`].
    pub number: u64,
    /// The path of the file.
    pub path: Arc<Path>,
    /// The I/O mode of the open file.
    pub mode: IoMode,
    /// The purpose of the write.
    pub purpose: Purpose,
    /// Position of the first byte, in bytes.
    pub offset: u64,
    /// Number of bytes to write.
    pub length: u64,
    /// Whether the bytes are durable when the write returns (`RWF_DSYNC`).
    pub is_durable: bool,
}

/// Number of calls of each kind. A kind is an operation, a purpose and a class of paths
/// ([`path_class`]).
pub type Coverage = BTreeMap<(Operation, Option<Purpose>, String), u64>;

/// Returns the last part of a path with each run of digits replaced by `#`: `000012.sst` and
/// `000007.sst` both become `#.sst`.
pub fn path_class(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut class = String::with_capacity(name.len());
    for letter in name.chars() {
        if !letter.is_ascii_digit() {
            class.push(letter);
        } else if !class.ends_with('#') {
            class.push('#');
        }
    }
    class
}

/// Counts calls by their kind.
pub(super) fn coverage(calls: &[Call]) -> Coverage {
    let mut coverage = Coverage::new();
    for call in calls {
        let kind = (call.operation, call.purpose, path_class(&call.path));
        *coverage.entry(kind).or_default() += 1;
    }
    coverage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_paths() {
        let classes = ["/db/000012.sst", "/db/MANIFEST-000005", "/db/LOCK", "/", "a1b22"]
            .map(|path| path_class(Path::new(path)));
        assert_eq!(classes, ["#.sst", "MANIFEST-#", "LOCK", "", "a#b#"]);
    }
}
