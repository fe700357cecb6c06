//! The expected contents of a database after some of its batches; tests compare a reopened database
//! with them.
//!
//! A batch consists of parts, one for each column family that it changes. For every part there is a
//! key whose presence or absence shows whether the reopened database contains that part. No other
//! part puts or deletes that key, so it is called the part's evidence.

use std::collections::BTreeMap;
use std::fmt;

use tailwater_format::Comparator;

pub(crate) use crate::change::{Change, Table};

/// The contents of a database: the name of each column family, and its contents.
pub(crate) type State = BTreeMap<String, Table>;

/// The column family that every database has.
pub(crate) const DEFAULT: &str = "default";

/// How the keys in a column family show whether a part of a batch was applied. A part is the
/// batch's changes to one column family.
#[derive(Debug, Clone)]
pub(crate) enum Evidence {
    /// A key that one part of a batch puts and that no other part puts or deletes. If this key
    /// exists, the part was applied.
    Present(Vec<u8>),
    /// A part of a batch deletes `key`. No other part deletes `key`, and an earlier part put both
    /// `base` and `key`. If `key` is missing but `base` exists, the deleting part was applied. If
    /// both are missing, it is unknown whether the deleting part was applied.
    Absent { key: Vec<u8>, base: Vec<u8> },
}

/// The changes of a batch to one column family.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) family: String,
    pub(crate) changes: Vec<Change>,
    pub(crate) evidence: Evidence,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.family, self.changes)
    }
}

impl Part {
    /// Whether this part of a batch was applied to `table`, the contents of the part's column
    /// family. `None` if the contents do not show it.
    pub(crate) fn is_in(&self, table: &Table) -> Option<bool> {
        match &self.evidence {
            Evidence::Present(key) => Some(table.contains_key(key)),
            Evidence::Absent { key, base } => {
                table.contains_key(base).then(|| !table.contains_key(key))
            }
        }
    }
}

/// Which crashes an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The write survives no crash, not even of the process, until it is flushed to a table.
    Unlogged,
    /// The write survives a crash of the process once its log has been passed to the operating
    /// system.
    Logged,
    /// The write also survives a power cut.
    Synced,
    /// The write is an ingestion of files. It survives a power cut, even if earlier writes are
    /// lost.
    Ingested,
}

/// One atomic write.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    /// The parts of the write, at most one for each column family.
    pub(crate) parts: Vec<Part>,
    pub(crate) durability: Durability,
}

impl Batch {
    /// Applies the parts that `chosen` selects to `state`. Skips parts for column families that are
    /// not in `state`.
    pub(crate) fn apply(&self, state: &mut State, chosen: impl Fn(&Part) -> bool) {
        for part in self.parts.iter().filter(|part| chosen(part)) {
            if let Some(table) = state.get_mut(&part.family) {
                part.changes.iter().for_each(|change| change.apply(table, &Comparator::Bytewise));
            }
        }
    }
}

/// Returns a description of the first difference, or `None` if the contents are equal.
pub(crate) fn difference(expected: &State, found: &State) -> Option<String> {
    let names = |state: &State| state.keys().cloned().collect::<Vec<_>>();
    if names(expected) != names(found) {
        return Some(format!(
            "column families {:?} were expected, but found are {:?}",
            names(expected),
            names(found)
        ));
    }
    for (family, expected) in expected {
        let found = &found[family];
        let keys = expected.keys().chain(found.keys());
        if let Some(key) = keys.into_iter().find(|key| expected.get(*key) != found.get(*key)) {
            return Some(format!(
                "column family {family}, key '{}': expected {}, found {}",
                key.escape_ascii(),
                describe(expected.get(key)),
                describe(found.get(key))
            ));
        }
    }
    None
}

/// Returns a value as text for a message.
fn describe(value: Option<&Vec<u8>>) -> String {
    match value {
        Some(value) if value.len() > 40 => {
            format!("'{}...' of {} bytes", value[..40].escape_ascii(), value.len())
        }
        Some(value) => format!("'{}'", value.escape_ascii()),
        None => "nothing".to_owned(),
    }
}
