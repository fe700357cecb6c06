//! Reduces a failing history to fewer steps.

use std::collections::BTreeMap;

use crate::change::Change;
use crate::history::{History, Step, Write};
use crate::run::Run;

/// Maximum number of runs that the reduction of one history may take.
const TRIES: usize = 400;

/// Removes steps from a history for as long as the run with this seed still fails. Returns the
/// remaining steps and their failure as text. If the run does not fail again, as may happen with
/// background threads, returns all steps.
pub(crate) fn report(mut history: History, seed: u64) -> String {
    let Err(mut failure) = Run::play(&history, seed) else {
        return format!("it does not fail again; its steps are {:#?}", history.steps);
    };
    let mut tries_left = TRIES;
    let mut length = history.steps.len() / 2;
    while length > 0 {
        let mut at = 0;
        while at < history.steps.len() && tries_left > 0 {
            tries_left -= 1;
            let mut smaller = history.clone();
            smaller.steps.drain(at..(at + length).min(history.steps.len()));
            let played = keeps_contract(&smaller).then(|| Run::play(&smaller, seed));
            match played {
                Some(Err(error)) => (history, failure) = (smaller, error),
                None | Some(Ok(_)) => at += length,
            }
        }
        length /= 2;
    }
    let steps: Vec<String> = history.steps.iter().map(|(_, step)| format!("{step:?}")).collect();
    format!("after {} steps: {failure}\n  {}", steps.len(), steps.join("\n  "))
}

/// Whether the history keeps the contract of single deletions: before each single deletion, its key
/// was put exactly once since the previous single deletion of the key.
fn keeps_contract(history: &History) -> bool {
    let mut puts: BTreeMap<(usize, &[u8]), usize> = BTreeMap::new();
    let writes = history.steps.iter().filter_map(|(_, step)| match step {
        Step::Write(writes) => Some(writes),
        _ => None,
    });
    writes.flatten().all(|Write { family, change }| match change {
        Change::Put { key, .. } => {
            *puts.entry((*family, key)).or_default() += 1;
            true
        }
        Change::SingleDelete { key } => puts.remove(&(*family, key)).is_some_and(|puts| puts == 1),
        Change::TimedPut { .. }
        | Change::Delete { .. }
        | Change::DeleteRange { .. }
        | Change::Merge { .. } => true,
    })
}
