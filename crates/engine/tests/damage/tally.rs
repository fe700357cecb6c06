//! Counts the outcomes of all cases of damage.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::database::Small;

/// The outcome of one case of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// The database could not be opened.
    Refused { has_offset: bool },
    /// A read failed.
    Failed { has_offset: bool },
    /// Part of a log or MANIFEST was left out, and the database reports that.
    LeftOut,
    /// Reads show an earlier state of the database. The database does not report this, but
    /// verification finds the damage.
    Older,
    /// All reads are correct, and verification finds the damage.
    Verified,
    /// Neither reads nor verification report the damage.
    Unnoticed,
}

/// The number of cases of one kind of damage, by kind of file and by outcome.
pub(crate) struct Tally {
    /// Describes the kind of damage in messages.
    pub(crate) what: &'static str,
    counts: BTreeMap<(&'static str, Outcome), u32>,
    unnoticed: BTreeSet<(String, usize)>,
}

impl Tally {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, counts: BTreeMap::new(), unnoticed: BTreeSet::new() }
    }

    pub(crate) fn note(&mut self, small: &Small, file: &str, offset: usize, outcome: Outcome) {
        *self.counts.entry((kind(small, file, offset), outcome)).or_default() += 1;
        if outcome == Outcome::Unnoticed {
            self.unnoticed.insert((file.to_owned(), offset));
        }
    }

    /// Returns the damaged files and offsets whose damage was not detected.
    pub(crate) fn unnoticed(&self) -> impl Iterator<Item = (&str, usize)> {
        self.unnoticed.iter().map(|(file, offset)| (file.as_str(), *offset))
    }

    pub(crate) fn print(&self, small: &Small) {
        println!("{}, {}:", small.name, self.what);
        for ((kind, outcome), count) in &self.counts {
            println!("  {kind:12} {:40} {count:6}", describe(*outcome));
        }
        let mut places: BTreeMap<&str, Vec<RangeInclusive<usize>>> = BTreeMap::new();
        for (file, offset) in self.unnoticed() {
            let ranges = places.entry(file).or_default();
            match ranges.last_mut() {
                Some(last) if *last.end() + 1 == offset => *last = *last.start()..=offset,
                _ => ranges.push(offset..=offset),
            }
        }
        for (file, ranges) in places {
            let length = small.files[file].len();
            println!("  nobody notices, in {file} of {length} bytes: {ranges:?}");
        }
    }
}

fn kind(small: &Small, file: &str, offset: usize) -> &'static str {
    match file.rsplit_once('.') {
        Some((_, "sst")) if small.files[file].len() - offset <= 53 => "table footer",
        Some((_, "sst")) => "table",
        Some((_, "blob")) => "blob file",
        Some((_, "log")) => "log",
        _ if file.starts_with("MANIFEST") => "MANIFEST",
        _ => "CURRENT",
    }
}

fn describe(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Refused { has_offset: true } => "not opened, file and offset named",
        Outcome::Refused { has_offset: false } => "not opened, file named",
        Outcome::Failed { has_offset: true } => "not read, file and offset named",
        Outcome::Failed { has_offset: false } => "not read, file named",
        Outcome::LeftOut => "left out and reported",
        Outcome::Older => "older answers, found by verification",
        Outcome::Verified => "right answers, found by verification",
        Outcome::Unnoticed => "right answers, not found",
    }
}
