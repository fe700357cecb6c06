//! The OPTIONS file.
//!
//! ```text
//! # a comment, to the end of its line; \# does not begin one
//! [Version]
//!   rocksdb_version=11.9.0
//!   options_file_version=1.1
//!
//! [DBOptions]
//!   name=value
//!
//! [CFOptions "default"]
//!   name=value
//!
//! [TableOptions/BlockBasedTable "default"]
//!   name=value
//! ```
//!
//! A line is either the head of a section in brackets, or `name=value`. White space around names
//! and values is ignored. Only lines that end in a newline are read. There is one `DBOptions`
//! section. Each column family has one `CFOptions` section, the default column family first, and
//! its `TableOptions` section comes later in the file.

use std::fmt::Write as _;

use super::{TextError, TextLocation, escape, trim, unescape};

/// Comment at the start of the files that Tailwater writes.
const HEADER: &str = "# Options of a database, in RocksDB's format.\n\n";

/// Version of the file format that written files state.
const OPTIONS_FILE_VERSION: &str = "1.1";

/// The name of the column family that every database has.
const DEFAULT_COLUMN_FAMILY: &str = "default";

/// A version number of up to three parts. Parts that are not written are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first part of the version number.
    pub major: u32,
    /// The second part of the version number.
    pub minor: u32,
    /// The third part of the version number.
    pub patch: u32,
}

impl Version {
    /// Parses a dot-separated version of at most `parts_max` parts.
    fn parse(text: &str, parts_max: usize) -> Option<Self> {
        let parts: Option<Vec<u32>> = text
            .split('.')
            .map(|part| {
                part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
            })
            .collect();
        let parts = parts.filter(|parts| parts.len() <= parts_max)?;
        let part = |index: usize| parts.get(index).copied().unwrap_or(0);
        Some(Self { major: part(0), minor: part(1), patch: part(2) })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The object to which a section's options apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SectionKind {
    /// The section applies to no object. It contains the versions of the writer and of the file
    /// format.
    Version,
    /// The section has the options of the database.
    Database,
    /// The column family of this name.
    ColumnFamily(String),
    /// The section has the options for the tables of a column family.
    Table {
        /// The name of the table format: `BlockBasedTable`.
        factory: String,
        /// The column family's name.
        column_family: String,
    },
}

/// One `name=value` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The option's name.
    pub name: String,
    /// The value as in the file, escaped.
    pub value: String,
    /// The line number, from 1; 0 for an entry that was not read from a file.
    pub line: u32,
}

/// A section with its entries in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The kind of section, which states what its options apply to.
    pub kind: SectionKind,
    /// The line number of the section's head, from 1; 0 for a section that was not read from a
    /// file.
    pub line: u32,
    /// The options.
    pub entries: Vec<Entry>,
}

impl Section {
    /// Creates a section without entries.
    pub fn new(kind: SectionKind) -> Self {
        Self { kind, line: 0, entries: Vec::new() }
    }

    /// Adds an entry; `value` is escaped text.
    pub fn push(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.entries.push(Entry { name: name.into(), value: value.into(), line: 0 });
    }

    /// Returns the value of the option with this name, as in the file. If the name is repeated,
    /// returns the first value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.entries.iter().find(|entry| entry.name == name).map(|entry| entry.value.as_str())
    }
}

/// An OPTIONS file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The version of RocksDB that wrote the file, or whose options the file contains; 0.0.0 if not
    /// stated.
    pub rocksdb_version: Version,
    /// The sections in the order of the file, without the `Version` section.
    pub sections: Vec<Section>,
}

impl Document {
    /// Creates a document without sections, for the options of this version of RocksDB.
    pub fn new(rocksdb_version: Version) -> Self {
        Self { rocksdb_version, sections: Vec::new() }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// A line that is not a section's head, `name=value` or a comment; a section that is unknown,
    /// repeated or out of order; an invalid version; or a missing section for the database or the
    /// default column family.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let mut sections: Vec<Section> = Vec::new();
        for (line, number) in text.split_inclusive('\n').zip(1..) {
            let Some(line) = line.strip_suffix('\n') else { continue };
            let line = trim(without_comment(line));
            if line.is_empty() {
                continue;
            }
            let place = TextLocation::Line(number);
            if line.len() >= 2 && line.starts_with('[') && line.ends_with(']') {
                let kind = parse_head(line, place)?;
                check_order(&kind, &sections, place)?;
                sections.push(Section { kind, line: number, entries: Vec::new() });
                continue;
            }
            let Some(section) = sections.last_mut() else {
                return Err(TextError::new(place, "an option before any section"));
            };
            section.entries.push(parse_statement(line, number)?);
        }
        let rocksdb_version = parse_versions(&sections)?;
        sections.retain(|section| section.kind != SectionKind::Version);
        let document = Self { rocksdb_version, sections };
        if document.database().is_none() {
            return Err(TextError::new(TextLocation::Whole, "no section [DBOptions]"));
        }
        if document.column_family(DEFAULT_COLUMN_FAMILY).is_none() {
            return Err(TextError::new(TextLocation::Whole, "no section [CFOptions \"default\"]"));
        }
        Ok(document)
    }

    /// Returns the options of the database.
    pub fn database(&self) -> Option<&Section> {
        self.sections.iter().find(|section| section.kind == SectionKind::Database)
    }

    /// Returns the names of the column families, in the order of their sections.
    pub fn column_families(&self) -> impl Iterator<Item = &str> {
        self.sections.iter().filter_map(|section| match &section.kind {
            SectionKind::ColumnFamily(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Returns the options of the column family with this name.
    pub fn column_family(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(
            |section| matches!(&section.kind, SectionKind::ColumnFamily(family) if family == name),
        )
    }

    /// Returns the table format and the table options of the column family with this name. If it
    /// has several sections of table options, returns the last one.
    pub fn table(&self, name: &str) -> Option<(&str, &Section)> {
        self.sections.iter().rev().find_map(|section| match &section.kind {
            SectionKind::Table { factory, column_family } if column_family == name => {
                Some((factory.as_str(), section))
            }
            _ => None,
        })
    }

    /// Returns the file's text, laid out as RocksDB does.
    pub fn to_text(&self) -> String {
        let mut text = String::from(HEADER);
        let version = self.rocksdb_version;
        // Writing to a string does not fail.
        let _ = writeln!(text, "[Version]\n  rocksdb_version={version}");
        let _ = writeln!(text, "  options_file_version={OPTIONS_FILE_VERSION}");
        for section in &self.sections {
            let _ = match &section.kind {
                SectionKind::Version => continue,
                SectionKind::Database => writeln!(text, "\n[DBOptions]"),
                SectionKind::ColumnFamily(name) => {
                    writeln!(text, "\n[CFOptions \"{}\"]", escape(name))
                }
                SectionKind::Table { factory, column_family } => {
                    writeln!(text, "[TableOptions/{factory} \"{}\"]", escape(column_family))
                }
            };
            for entry in &section.entries {
                let _ = writeln!(text, "  {}={}", entry.name, entry.value);
            }
            text.push_str("  \n");
        }
        text
    }
}

/// Returns the part before the first `#` that is not escaped by a backslash.
fn without_comment(line: &str) -> &str {
    let bytes = line.as_bytes();
    let begins = |at: usize| match at.checked_sub(1).and_then(|before| bytes.get(before)) {
        Some(before) => *before != b'\\',
        None => true,
    };
    let end = line.match_indices('#').map(|(at, _)| at).find(|&at| begins(at));
    end.and_then(|end| line.get(..end)).unwrap_or(line)
}

/// Reads `[Title "argument"]`.
fn parse_head(line: &str, place: TextLocation) -> Result<SectionKind, TextError> {
    let inner = line.get(1..line.len() - 1).unwrap_or_default();
    let (title, argument) = match (inner.find('"'), inner.rfind('"')) {
        (Some(open), Some(close)) if open < close => (
            inner.get(..open).unwrap_or_default(),
            unescape(inner.get(open + 1..close).unwrap_or_default()),
        ),
        _ => (inner, String::new()),
    };
    match trim(title) {
        "Version" => Ok(SectionKind::Version),
        "DBOptions" => Ok(SectionKind::Database),
        "CFOptions" => Ok(SectionKind::ColumnFamily(argument)),
        title => match title.strip_prefix("TableOptions/") {
            Some(factory) if !factory.is_empty() => {
                Ok(SectionKind::Table { factory: factory.to_owned(), column_family: argument })
            }
            _ => Err(TextError::new(place, format!("unknown section {line}"))),
        },
    }
}

/// Rejects a section that is repeated or out of order.
fn check_order(
    kind: &SectionKind,
    before: &[Section],
    place: TextLocation,
) -> Result<(), TextError> {
    let has_family = |name: &str| {
        before.iter().any(|section| match &section.kind {
            SectionKind::ColumnFamily(family) => family == name,
            _ => false,
        })
    };
    let reason = match kind {
        SectionKind::Version | SectionKind::Database => {
            let repeated = before.iter().any(|section| section.kind == *kind);
            repeated.then(|| "a second section of that kind".to_owned())
        }
        SectionKind::ColumnFamily(name) if has_family(name) => {
            Some(format!("a second section for the column family '{name}'"))
        }
        SectionKind::ColumnFamily(name) => {
            let is_early = name != DEFAULT_COLUMN_FAMILY && !has_family(DEFAULT_COLUMN_FAMILY);
            is_early.then(|| format!("the column family '{name}' precedes the default one"))
        }
        SectionKind::Table { column_family, .. } => {
            let is_early = !has_family(column_family);
            is_early.then(|| format!("table options precede the column family '{column_family}'"))
        }
    };
    match reason {
        Some(reason) => Err(TextError::new(place, reason)),
        None => Ok(()),
    }
}

fn parse_statement(line: &str, number: u32) -> Result<Entry, TextError> {
    let place = TextLocation::Line(number);
    let Some((name, value)) = line.split_once('=') else {
        return Err(TextError::new(place, format!("'{line}' has no '='")));
    };
    let (name, value) = (trim(name), trim(value));
    if name.is_empty() {
        return Err(TextError::new(place, format!("'{line}' has no name before its '='")));
    }
    Ok(Entry { name: name.to_owned(), value: value.to_owned(), line: number })
}

/// Returns the version of RocksDB that the file states, and checks the stated version of the file
/// format.
fn parse_versions(sections: &[Section]) -> Result<Version, TextError> {
    let entries = sections
        .iter()
        .filter(|section| section.kind == SectionKind::Version)
        .flat_map(|section| &section.entries);
    let mut rocksdb_version = Version::default();
    for entry in entries {
        let bad = || {
            let reason = format!("{}: '{}' is not a version", entry.name, entry.value);
            TextError::new(TextLocation::Line(entry.line), reason)
        };
        match entry.name.as_str() {
            "rocksdb_version" => {
                rocksdb_version = Version::parse(&entry.value, 3).ok_or_else(bad)?;
            }
            "options_file_version" => {
                let version = Version::parse(&entry.value, 2).ok_or_else(bad)?;
                if version.major < 1 {
                    return Err(bad());
                }
            }
            _ => {}
        }
    }
    Ok(rocksdb_version)
}
