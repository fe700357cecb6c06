//! The contents of a database after some of its batches. A reopened database is compared with this
//! model.
//!
//! A batch consists of parts, one for each column family that it changes. Every part leaves
//! evidence: a key whose presence or absence shows whether a reopened database contains this part,
//! since no other part causes it.

use std::collections::BTreeMap;
use std::fmt;

use tailwater_format::Comparator;

pub(crate) use crate::change::{Change, Table};

/// The contents of a database, by the names of its column families.
pub(crate) type State = BTreeMap<String, Table>;

/// The column family that every database has.
pub(crate) const DEFAULT: &str = "default";

/// The evidence that a database contains a part.
#[derive(Debug, Clone)]
pub(crate) enum Evidence {
    /// This key exists. No other part puts or deletes it.
    Present(Vec<u8>),
    /// This key does not exist, because the part deletes it and no other part does. `base` is the
    /// evidence of the part that put the key. If `base` is missing, too, it is unknown whether the
    /// database contains the deleting part.
    Absent { key: Vec<u8>, base: Vec<u8> },
}

/// The effect of a batch on one column family.
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
    /// Whether `table`, the contents of the part's column family, contains the part; `None` if that
    /// is unknown.
    pub(crate) fn is_in(&self, table: &Table) -> Option<bool> {
        match &self.evidence {
            Evidence::Present(key) => Some(table.contains_key(key)),
            Evidence::Absent { key, base } => {
                table.contains_key(base).then(|| !table.contains_key(key))
            }
        }
    }
}

/// The kinds of crash that an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The write survives no crash until it is flushed.
    Unlogged,
    /// The write survives a crash of the process once its log is written to the system.
    Logged,
    /// The write survives a crash of the machine.
    Synced,
    /// The write consists of ingested files. It survives a crash of the machine even if earlier
    /// writes are lost.
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
    /// Applies those parts to a state that `chosen` selects. Parts for column families that the
    /// state lacks are skipped.
    pub(crate) fn apply(&self, state: &mut State, chosen: impl Fn(&Part) -> bool) {
        for part in self.parts.iter().filter(|part| chosen(part)) {
            if let Some(table) = state.get_mut(&part.family) {
                part.changes.iter().for_each(|change| change.apply(table, &Comparator::Bytewise));
            }
        }
    }
}

/// Returns the first difference, for a message.
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
