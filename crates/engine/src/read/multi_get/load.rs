//! Loading what several batches lack, together.

use std::sync::Arc;

use super::batch::{Batch, State};
use crate::block_cache::Block;
use crate::cache::Cached;
use crate::column_family::SuperVersion;
use crate::error::Result;
use crate::table::{
    GetCursors, Loaded, Loading, Missing, ReadProfile, Sink, Wanted, load_together,
};

/// A batch and what it searches.
pub(super) struct Searched<'k, S> {
    pub(super) source: Arc<SuperVersion>,
    pub(super) batch: Batch<'k, S>,
    /// What was opened and loaded for the batch.
    pub(super) loaded: Loaded,
}

/// A key that waits for a block.
struct Waiter {
    /// Index of the key's batch, and of the key in the batch.
    batch: usize,
    key: usize,
    /// Index of the block among those that are loaded.
    block: usize,
}

/// Opens the tables and loads the blocks that keys wait for. Afterwards no key waits. A block that
/// several keys need is loaded once.
pub(super) fn load_missing<S: Sink>(
    searched: &mut [Searched<'_, S>],
    profile: &ReadProfile,
    cursors: &mut GetCursors,
) {
    let (mut wanted, mut waiters) = (Vec::<Wanted>::new(), Vec::new());
    for (batch, Searched { source, batch: keys, loaded }) in searched.iter_mut().enumerate() {
        for (key, sought) in keys.sought.iter_mut().enumerate() {
            let state = match sought.state {
                State::Waiting(_) | State::Continuing(_) => {
                    std::mem::replace(&mut sought.state, State::Searching)
                }
                _ => continue,
            };
            let Some(file) = sought.table(source) else { continue };
            let known = loaded.table(file.cache_id()).cloned();
            let table = match known.map_or_else(|| source.tables().open(file, profile.purpose), Ok)
            {
                Ok(table) => table,
                Err(error) => {
                    sought.state = State::Failed(error);
                    continue;
                }
            };
            loaded.add_table(&table);
            let (handle, kind) = match state {
                State::Waiting(Missing::Block(handle, kind)) => (handle, kind),
                State::Continuing(passed) => {
                    let access = Loading(profile);
                    match table.get_passed(&access, &mut sought.lookup, cursors, passed) {
                        Ok(step) => sought.leave_table(step, source.tables().rows()),
                        Err(error) => sought.state = State::Failed(error),
                    }
                    continue;
                }
                _ => continue,
            };
            let is_same =
                |other: &Wanted| other.handle == handle && Arc::ptr_eq(&other.table, &table);
            let block = wanted.iter().rposition(is_same).unwrap_or_else(|| {
                wanted.push(Wanted { table, handle, kind, is_absent: false });
                wanted.len() - 1
            });
            waiters.push(Waiter { batch, key, block });
        }
    }
    let mut results: Vec<Option<Result<Arc<Cached<Block>>>>> =
        wanted.iter().map(|_| None).collect();
    load_together(&wanted, profile, |at, block| results[at] = Some(block));
    for Waiter { batch, key, block } in waiters {
        let Searched { batch, loaded, .. } = &mut searched[batch];
        match &results[block] {
            Some(Ok(found)) => loaded.add(&wanted[block].table, wanted[block].handle, found),
            Some(Err(error)) => batch.sought[key].state = State::Failed(error.clone()),
            None => unreachable!("each wanted block has a result"),
        }
    }
}
