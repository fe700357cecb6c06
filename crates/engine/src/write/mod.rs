//! The write path: takes a batch to the log and the memtables, and makes it visible to readers.
//!
//! # Order
//!
//! 1. A writer joins the [`queue`]. The leader takes waiting writers into its group.
//! 2. The leader waits while writes are stalled, and switches full memtables and logs.
//! 3. It assigns sequence numbers to the group's operations, appends the batches to the log's
//!    buffer, writes the buffer in one system call, and, if any member requested it, syncs the logs
//!    once, the oldest first. A synced group of a direct log may be written in flight: the next
//!    leader then starts this step, and this group takes the steps below after the groups ahead
//!    have taken them.
//! 4. The batches go into the memtables: the leader inserts small ones, large ones are inserted by
//!    their own writers.
//! 5. The group's last sequence number is published; readers see the group.
//! 6. The members get the result, and the next writer leads with those that arrived during these
//!    steps.
//!
//! # Invariants
//!
//! - Groups are ordered: sequence numbers are published in ascending order, without gaps.
//! - No sequence number is published before its batch is in the log, unless the batch is unlogged.
//! - No synced write is acknowledged before its own log and every older one are synced.
//! - A leader switches memtables and logs only when no group is in flight. A sealed memtable thus
//!   gets no more entries, and the log switched with it holds no entry of the next memtable.
//!
//! # A crash
//!
//! Before the end of step 3 the group may be in the log, in part or not at all; a batch is one
//! record, so no batch is there in part. After step 3 the group survives a crash of the process,
//! and, if it was synced, of the machine. A group in flight may be on the device while one ahead of
//! it is not: neither was acknowledged, and recovery ends at the hole.

mod commit;
mod counts;
mod flush_request;
mod log_options;
mod logs;
mod memtables;
mod options;
mod path;
pub(crate) mod queue;

pub(crate) use log_options::log_options;
pub use options::WriteOptions;
pub(crate) use path::WritePath;
