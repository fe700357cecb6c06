//! Writing: from a batch to the log, the memtables and the eyes of readers.
//!
//! # Order
//!
//! 1. A writer takes its place in the [`queue`]. Who leads takes others along into its group.
//! 2. The leader waits while writes are stalled, and switches memtables and logs that are full.
//! 3. It numbers the group's operations, appends the batches to the log's buffer, hands them to the
//!    system in one write, and, if any member asked for it, syncs the logs once, the oldest first.
//!    A synced group of a direct log may be written in flight: then the next leads from here on,
//!    and the steps that follow are taken when those of the groups ahead have been.
//! 4. The batches go into the memtables: by the leader, or, where they are large, each by its own
//!    writer.
//! 5. The group's last sequence number is published; now readers see it.
//! 6. The members are told, and the next leads. What came meanwhile is its group.
//!
//! # Invariants
//!
//! - Groups follow one another: sequence numbers are published in their order and without gaps in
//!   time.
//! - No number is published before its batch is in the log, or the batch is one that is not logged.
//! - No synced write is acknowledged before the sync has returned, of its log and of every older
//!   one.
//! - Memtables and logs are switched by a leader when nothing is in flight, so no write is under
//!   way then: a memtable that is sealed gets no more entries, and the log that was switched with
//!   it holds nothing of the next one.
//!
//! # A crash
//!
//! Before the end of step 3 the group may be in the log, in part or not at all; a batch is one
//! record, so none is half there. After it the group survives a crash of the process, and, if it
//! was synced, of the machine. Of groups in flight one may be on the device and one ahead of it
//! not: none of the two was acknowledged then, and recovery ends at the hole.

mod allowance;
mod commit;
mod counts;
mod delay_rate;
mod options;
pub(crate) mod queue;
mod stall;

pub use options::WriteOptions;
pub(crate) use stall::{FamilyLook, StallConditions, StallController};
pub use stall::{StallCause, StallState};
