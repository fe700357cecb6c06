//! Compaction: merges tables of one or more levels into tables of a deeper one.
//!
//! # Order
//!
//! 1. If a compaction is due, the picker selects the inputs from a version. The picker has no side
//!    effects.
//! 2. The inputs are claimed, so that no other compaction takes them.
//! 3. A job merges the inputs into new tables, without the records that no reader can see, and
//!    syncs the tables.
//! 4. The outputs are opened. No other thread knows of them yet.
//! 5. The compaction waits for its turn to install. One edit of the MANIFEST replaces the inputs
//!    with the outputs.
//! 6. Readers get the new version. The inputs are deleted when no reader uses them.
//!
//! # A crash
//!
//! If a crash happens before the end of step 5, the next open removes the outputs, which no
//! MANIFEST names. If it happens later, the next open removes the inputs.

mod claim;
mod installation;
mod job;
mod job_state;
mod low_priority;
mod manual;
pub(crate) mod merge;
mod output;
mod picker;
mod rounds;
mod scheduler;
mod stalls;
mod subcompaction;
#[cfg(test)]
mod tests;

pub(crate) use low_priority::LowPriority;
pub use manual::CompactRangeOptions;
pub use picker::BottommostRewrite;
pub(crate) use picker::{
    LevelTargets, compare_bounds, is_behind, level_scores, pending_compaction_bytes,
};
pub(crate) use scheduler::CompactionScheduler;
pub(crate) use stalls::{stall_conditions, update_all_stalls, update_stalls};
