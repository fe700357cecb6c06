//! The scenarios of `docs/directories.md`, whose tables are executed as tests.
//!
//! That document describes the steps of scenarios. Here they are parsed ([`all`]) and executed
//! ([`Runner`]) on a [`Target`]: an engine, with a filesystem for its databases. The engine's tests
//! run the library on a simulated disk and on a real filesystem, and the program's tests run the
//! program. [`RocksDb`] runs the real RocksDB, for the column of RocksDB.
//!
//! In addition to the expectations of a row, the runner checks that every failed opening or
//! destruction by Tailwater, and every opening for reading only, leaves all files unchanged, except
//! for the LOG and the LOCK.

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

/// The document with the tables.
const DOCUMENT: &str = include_str!("../../../../docs/directories.md");

/// A row of a table.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The heading above the row's table, and the row's description.
    pub name: String,
    /// Number of the row's line in the document, from 1.
    pub line: usize,
    /// Steps that set the scenario up. All must succeed, with either engine.
    pub made_by: Vec<Step>,
    /// Steps with Tailwater, and their expected results.
    pub tailwater: Vec<Step>,
    /// Steps with RocksDB; empty if RocksDB cannot run them.
    pub rocksdb: Vec<Step>,
}

/// The column of steps to execute after the steps that set the scenario up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// The steps of Tailwater.
    Tailwater,
    /// The steps of RocksDB.
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

    /// Returns whether RocksDB must execute any of the steps, including the setup.
    pub fn needs_rocksdb(&self, column: Column) -> bool {
        let mut steps = self.made_by.iter().chain(self.steps(column));
        steps.any(|step| step.engine == Engine::RocksDb)
    }
}

/// Returns all scenarios of the document, in its order.
///
/// # Panics
/// If the document has an invalid row or step: the message says which and why.
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

    /// The scenarios expect enough successes and failures that an engine that rejects everything,
    /// or nothing, cannot pass them.
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
