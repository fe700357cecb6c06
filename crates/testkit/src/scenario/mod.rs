//! The scenarios in `docs/directories.md`. The tables of that document are executed as tests.
//!
//! The document describes the notation of steps. Here, steps are parsed ([`all`]) and executed
//! ([`Runner`]) on a [`Target`], which is an engine with a filesystem for its databases. The
//! engine's tests run the library on a simulated disk and on a real filesystem. The tests of the
//! `tailwater` program run the program. [`RocksDb`] runs the real RocksDB, for the column of
//! RocksDB.
//!
//! The runner also checks a rule that the rows do not state: all files must stay unchanged, except
//! for LOG and LOCK files, if Tailwater fails to open or destroy a database, or opens it for
//! reading only.

mod files;
mod parse;
mod rocksdb;
mod runner;
mod step;
mod target;

pub use files::{Files, Node, RealFiles};
pub use rocksdb::{RocksDb, RocksDbTarget, SharedRocksDb};
pub use runner::{Runner, run_all};
pub use step::{Action, Contents, Engine, Expected, Step, Work};
pub use target::{Answer, Job, Target};

/// The document whose tables contain the scenarios.
const DOCUMENT: &str = include_str!("../../../../docs/directories.md");

/// A scenario: one row of a table in `docs/directories.md`.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The heading above the scenario's table, followed by the description in the scenario's row.
    pub name: String,
    /// Number of the row's line in the document, counted from 1.
    pub line: usize,
    /// Steps of the setup. All of them must succeed, whichever engine executes them.
    pub made_by: Vec<Step>,
    /// Steps for Tailwater, and their expected results.
    pub tailwater: Vec<Step>,
    /// Steps for RocksDB, and their expected results. The list is empty if RocksDB cannot run the
    /// scenario.
    pub rocksdb: Vec<Step>,
}

/// A column of the tables in `docs/directories.md`. Its steps are executed after those of the
/// setup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// The column with the steps for Tailwater.
    Tailwater,
    /// The column with the steps for RocksDB.
    RocksDb,
}

impl Scenario {
    /// Returns the steps of a column.
    pub fn steps(&self, column: Column) -> &[Step] {
        match column {
            Column::Tailwater => &self.tailwater,
            Column::RocksDb => &self.rocksdb,
        }
    }

    /// Returns whether RocksDB executes any of the steps in a column or in the setup.
    pub fn needs_rocksdb(&self, column: Column) -> bool {
        let mut steps = self.made_by.iter().chain(self.steps(column));
        steps.any(|step| step.engine == Engine::RocksDb)
    }
}

/// Returns all scenarios in the order of the document.
///
/// # Panics
/// If the document contains an invalid row or step. The message names it and says why it is
/// invalid.
pub fn all() -> Vec<Scenario> {
    parse::document(DOCUMENT).unwrap_or_else(|error| panic!("docs/directories.md: {error}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Action, Expected, all};

    #[test]
    fn every_scenario_has_a_name_of_its_own_and_an_outcome() {
        let scenarios = all();
        let names: BTreeSet<&str> = scenarios.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names.len(), scenarios.len(), "two scenarios have the same name");
        for scenario in &scenarios {
            let tells = |step: &super::Step| match step.action {
                Action::There(_) | Action::Gone(_) | Action::Kept(_) => true,
                _ => step.expected != Expected::default(),
            };
            assert!(scenario.tailwater.iter().any(tells), "'{}' expects nothing", scenario.name);
        }
    }

    /// Checks that the scenarios expect many successes and many failures. Otherwise, an engine that
    /// rejects everything could pass the scenarios, and so could an engine that rejects nothing.
    #[test]
    fn the_scenarios_expect_successes_and_failures() {
        let (mut data, mut failures) = (0, 0);
        for step in all().iter().flat_map(|scenario| &scenario.tailwater) {
            data += usize::from(step.expected.contents.as_ref().is_some_and(|it| !it.is_empty()));
            failures += usize::from(!step.expected.fails.is_empty());
        }
        assert!(data > 40 && failures > 40, "{data} with data, {failures} failures");
    }
}
