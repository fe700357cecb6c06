//! One slow read.

use std::fmt::Write as _;

use tailwater_io::attribution::Spent;

use super::cause::SlowReadCause;
use super::counts::Counts;
use crate::block_cache::BlockKind;

/// The kinds of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Get,
    MultiGet,
    /// The creation of an iterator, which opens tables.
    Iterator,
    /// A move of an iterator to a key, or to the first or last one.
    Seek,
    /// A move of an iterator to the next or previous key.
    Step,
    /// A read of a value that an iterator had deferred.
    Value,
    /// A move of an iterator to another state of the database.
    Refresh,
}

impl Operation {
    pub(super) const ALL: [Self; 7] = [
        Self::Get,
        Self::MultiGet,
        Self::Iterator,
        Self::Seek,
        Self::Step,
        Self::Value,
        Self::Refresh,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::MultiGet => "multi_get",
            Self::Iterator => "iterator",
            Self::Seek => "seek",
            Self::Step => "step",
            Self::Value => "value",
            Self::Refresh => "refresh",
        }
    }
}

/// How much a read had to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SearchCounts {
    /// Memtables searched.
    pub(crate) memtables: u64,
    /// Tables searched: their filters at least.
    pub(crate) tables: u64,
    /// Records skipped because a newer one of the key is visible, or because they are newer than
    /// the snapshot.
    pub(crate) versions: u64,
    /// Deletions skipped, and range tombstones that hid records.
    pub(crate) tombstones: u64,
}

impl SearchCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.memtables += other.memtables;
        self.tables += other.tables;
        self.versions += other.versions;
        self.tombstones += other.tombstones;
    }
}

/// A slow read: what was asked for, where its time went, and what it did.
#[derive(Debug, Clone)]
pub(crate) struct SlowRead {
    /// When it ended, in microseconds since 1970.
    pub(super) at_us: u64,
    pub(super) operation: Operation,
    pub(super) family: String,
    pub(super) key: Option<Box<[u8]>>,
    pub(super) keys: usize,
    pub(super) searched: SearchCounts,
    pub(super) spent: Spent,
    pub(super) counts: Counts,
}

impl SlowRead {
    /// Appends the read as a JSON object without line breaks.
    pub(super) fn write_json(&self, out: &mut String) {
        let Self { spent, counts, searched, .. } = self;
        // Writing to a string does not fail.
        let _ = write!(out, "{{\"at_us\":{},\"operation\":\"", self.at_us);
        out.push_str(self.operation.name());
        out.push_str("\",\"family\":");
        write_json_string(out, &self.family);
        if let Some(key) = &self.key {
            out.push_str(",\"key\":");
            write_json_string(out, &key.escape_ascii().to_string());
        }
        let _ = write!(out, ",\"keys\":{},\"total_us\":{}", self.keys, us(spent.total_ns));
        for cause in SlowReadCause::ALL {
            let _ = write!(out, ",\"{}_us\":{}", cause.name(), us(cause.of(spent)));
        }
        out.push_str(",\"blocks\":[");
        let mut is_first = true;
        for (level, kinds) in counts.blocks.iter().enumerate() {
            for (kind, &count) in BlockKind::ALL.iter().zip(kinds) {
                if count > 0 {
                    let (kind, comma) =
                        (kind.name(), if std::mem::take(&mut is_first) { "" } else { "," });
                    let _ = write!(
                        out,
                        "{comma}{{\"level\":{level},\"kind\":\"{kind}\",\"count\":{count}}}"
                    );
                }
            }
        }
        let figures = [
            ("blocks_of_new_tables", u64::from(counts.of_new_tables)),
            ("blocks_read_by_others", u64::from(counts.read_by_others)),
            ("blobs", u64::from(counts.blobs)),
            ("tables_opened", u64::from(counts.tables_opened)),
            ("memtables", searched.memtables),
            ("tables", searched.tables),
            ("versions", searched.versions),
            ("tombstones", searched.tombstones),
            ("minor_faults", spent.minor_faults),
            ("major_faults", spent.major_faults),
        ];
        out.push(']');
        for (name, figure) in figures {
            let _ = write!(out, ",\"{name}\":{figure}");
        }
        out.push('}');
    }
}

fn us(ns: u64) -> f64 {
    (ns / 100) as f64 / 10.0
}

fn write_json_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
