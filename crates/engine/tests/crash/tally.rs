//! Counts cases and the call sites at which faults were injected, and prints them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

use tailwater_io::sim::{Call, path_class};
use tailwater_io::{Operation, Purpose};

/// A kind of call: what is done, why, and to which class of file.
pub(crate) type Site = (Operation, Option<Purpose>, String);

/// The kind of a call.
pub(crate) fn site(call: &Call) -> Site {
    // The simulator's directories are few, and each is a place of its own.
    (call.operation, call.purpose, path_class(&call.path))
}

/// Whether a call makes something durable.
pub(crate) fn is_sync(call: &Call) -> bool {
    matches!(call.operation, Operation::Sync | Operation::SyncDirectory)
}

/// The operations of a test.
#[derive(Debug)]
pub(crate) struct Tally {
    name: &'static str,
    seed: u64,
    cases: BTreeMap<&'static str, usize>,
    /// Number of times that each kind of call was made.
    calls: BTreeMap<Site, usize>,
    /// Number of times that something went wrong there.
    struck: BTreeMap<Site, usize>,
    notes: BTreeMap<&'static str, usize>,
}

impl Tally {
    /// Nothing yet, of a test by that name.
    pub(crate) fn new(name: &'static str, seed: u64) -> Self {
        Self {
            name,
            seed,
            cases: BTreeMap::new(),
            calls: BTreeMap::new(),
            struck: BTreeMap::new(),
            notes: BTreeMap::new(),
        }
    }

    /// These calls were made.
    pub(crate) fn add_calls(&mut self, calls: &[Call]) {
        for call in calls {
            *self.calls.entry(site(call)).or_default() += 1;
        }
    }

    /// A case of a kind came out well.
    pub(crate) fn add_case(&mut self, kind: &'static str) {
        *self.cases.entry(kind).or_default() += 1;
    }

    /// Something went wrong, on purpose, at this call.
    pub(crate) fn strike(&mut self, call: &Call) {
        *self.struck.entry(site(call)).or_default() += 1;
    }

    /// Something worth counting happened.
    pub(crate) fn note(&mut self, what: &'static str, count: usize) {
        *self.notes.entry(what).or_default() += count;
    }

    /// Whether anything went wrong at calls of this kind.
    pub(crate) fn was_struck(&self, call: &Call) -> bool {
        self.struck.contains_key(&site(call))
    }

    /// # Panics
    /// If nothing went wrong at one of these kinds of calls: then the work is not what it was made
    /// for.
    pub(crate) fn must_have(&self, sites: &[(Operation, Option<Purpose>, &str)]) {
        for &(operation, purpose, class) in sites {
            let site = (operation, purpose, class.to_owned());
            assert!(self.struck.contains_key(&site), "nothing went wrong at {site:?}");
        }
    }

    /// Number of cases.
    pub(crate) fn case_count(&self) -> usize {
        self.cases.values().sum()
    }

    /// Prints everything.
    ///
    /// # Panics
    /// If there were fewer cases than `least`, or calls of a kind at which nothing went wrong.
    pub(crate) fn finish(&self, least: usize) {
        let mut text = format!("{}: {} cases, seed {}\n", self.name, self.case_count(), self.seed);
        for (kind, count) in self.cases.iter().chain(&self.notes) {
            let _ = writeln!(text, "  {count:>6} {kind}");
        }
        let _ = writeln!(text, "  {} of {} call sites:", self.struck.len(), self.calls.len());
        for (site, count) in &self.calls {
            let (operation, purpose, class) = site;
            let purpose = purpose.map_or("-", Purpose::name);
            let struck = self.struck.get(site).copied().unwrap_or(0);
            let _ = writeln!(
                text,
                "    {:<20} {purpose:<12} {class:<24} {struck:>6} of {count} calls",
                operation.to_string()
            );
        }
        // Not by a macro: what those print is only shown for tests that fail.
        let _ = std::io::stderr().write_all(text.as_bytes());
        let left: Vec<&Site> =
            self.calls.keys().filter(|site| !self.struck.contains_key(*site)).collect();
        assert!(left.is_empty(), "nothing went wrong at {left:?}");
        assert!(self.case_count() >= least, "only {} cases", self.case_count());
    }
}
