//! A task: one kind of measurement with one number of writers. In each run, the task is performed
//! for every row of the report before the next task begins.

use serde::Serialize;

use super::arguments::{DurableArguments, Part};
use super::rows::Row;
use crate::workloads::puts::{Length, Order, Putting};

/// A part of the benchmark, such as synced puts, with one number of writers. In each run, the task
/// is measured for every row of the report before the next task begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Task {
    pub(super) part: Part,
    pub(super) writers: usize,
}

impl Task {
    /// Returns all requested tasks, each once.
    pub(super) fn all(arguments: &DurableArguments) -> Vec<Self> {
        let mut tasks = Vec::new();
        for &part in &arguments.parts {
            let writers = match part {
                Part::Synced => &arguments.writers[..],
                Part::FillSeq => &[1],
                Part::Unsynced => &arguments.unsynced_writers,
            };
            for &writers in writers {
                let task = Self { part, writers };
                if !tasks.contains(&task) {
                    tasks.push(task);
                }
            }
        }
        tasks
    }

    pub(super) fn has(self, row: &Row<'_>) -> bool {
        self.part == Part::Synced || !row.is_raw()
    }

    pub(super) fn putting(self, length: Length) -> Putting {
        let order = match self.part {
            Part::FillSeq => Order::Ascending,
            Part::Synced | Part::Unsynced => Order::ByChance,
        };
        Putting { writers: self.writers, length, order, is_synced: self.part != Part::Unsynced }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arguments::tests::typed;
    use super::*;

    #[test]
    fn everything_is_done_once_in_a_run() {
        let tasks = Task::all(&typed(&["--writers", "1,8,1"]).unwrap());
        let done: Vec<_> = tasks.iter().map(|task| (task.part.name(), task.writers)).collect();
        let expected =
            [("synced", 1), ("synced", 8), ("fillseq", 1), ("unsynced", 1), ("unsynced", 4)];
        assert_eq!(done, expected.map(|(part, writers)| (part.to_owned(), writers)));
        let tasks = Task::all(&typed(&["--parts", "fillseq"]).unwrap());
        let putting = tasks[0].putting(Length::Writes(3));
        assert_eq!((tasks.len(), putting.order, putting.is_synced), (1, Order::Ascending, true));
    }
}
