//! Counts the cases of a test, and the kinds of storage calls at which it crashed the database or
//! injected faults.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

use tailwater_io::sim::{Call, path_class};
use tailwater_io::{Operation, Purpose};

/// A kind of storage call: the operation, its purpose, and the class of its file. The class is the
/// file's name with each number replaced by `#`.
pub(crate) type Site = (Operation, Option<Purpose>, String);

/// Returns the operation, the purpose and the file class of a call.
pub(crate) fn site(call: &Call) -> Site {
    (call.operation, call.purpose, path_class(&call.path))
}

/// Whether a call syncs a file or a directory.
pub(crate) fn is_sync(call: &Call) -> bool {
    matches!(call.operation, Operation::Sync | Operation::SyncDirectory)
}

/// Counts the cases, the storage calls, and the crashes and injected faults of one test.
#[derive(Debug)]
pub(crate) struct Tally {
    name: &'static str,
    seed: u64,
    cases: BTreeMap<&'static str, usize>,
    /// Number of times that each kind of call was made.
    calls: BTreeMap<Site, usize>,
    /// Number of crashes and injected faults at each kind of call.
    struck: BTreeMap<Site, usize>,
    notes: BTreeMap<&'static str, usize>,
}

impl Tally {
    /// Creates an empty tally for a test with this name.
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

    /// Adds these calls to the counts of calls.
    pub(crate) fn add_calls(&mut self, calls: &[Call]) {
        for call in calls {
            *self.calls.entry(site(call)).or_default() += 1;
        }
    }

    /// Counts a case that passed; `kind` names its count in the output.
    pub(crate) fn add_case(&mut self, kind: &'static str) {
        *self.cases.entry(kind).or_default() += 1;
    }

    /// Counts a crash or an injected fault at this call.
    pub(crate) fn strike(&mut self, call: &Call) {
        *self.struck.entry(site(call)).or_default() += 1;
    }

    /// Adds `count` to the counter with the name `what`. `finish` prints these counters after the
    /// numbers of cases.
    pub(crate) fn note(&mut self, what: &'static str, count: usize) {
        *self.notes.entry(what).or_default() += count;
    }

    /// Whether the test crashed or injected a fault at a call of this kind.
    pub(crate) fn was_struck(&self, call: &Call) -> bool {
        self.struck.contains_key(&site(call))
    }

    /// Checks that the test crashed or injected a fault at each of these kinds of calls.
    ///
    /// # Panics
    /// Panics if it did not at some kind: the random work then does not cover what it should.
    pub(crate) fn must_have(&self, sites: &[(Operation, Option<Purpose>, &str)]) {
        for &(operation, purpose, class) in sites {
            let site = (operation, purpose, class.to_owned());
            assert!(self.struck.contains_key(&site), "nothing went wrong at {site:?}");
        }
    }

    /// Returns the number of cases.
    pub(crate) fn case_count(&self) -> usize {
        self.cases.values().sum()
    }

    /// Prints all counts.
    ///
    /// # Panics
    /// Panics if there were fewer than `least` cases. Also panics if calls of some kind were made,
    /// but the test neither crashed nor injected a fault at any of them.
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
        // Writes to stderr directly, since the test harness shows the output of `println!` and
        // `eprintln!` only if the test fails.
        let _ = std::io::stderr().write_all(text.as_bytes());
        let left: Vec<&Site> =
            self.calls.keys().filter(|site| !self.struck.contains_key(*site)).collect();
        assert!(left.is_empty(), "nothing went wrong at {left:?}");
        assert!(self.case_count() >= least, "only {} cases", self.case_count());
    }
}
