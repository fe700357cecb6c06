//! The write path: writes a batch to the log and the memtables, and makes it visible to readers.
//!
//! # Order
//!
//! 1. A writer joins the [`queue`]. The leader takes waiting writers into its group.
//! 2. The leader waits while writes are stalled, and switches full memtables and logs.
//! 3. The leader assigns sequence numbers to the group's operations, appends the batches to the
//!    log's buffer, and writes the buffer in one system call. If any member requested a sync, the
//!    leader syncs the logs once, the oldest first. If the log is written with direct I/O, a synced
//!    group may be put in flight: while its leader writes it, the next leader may begin this step
//!    for its own group. A group begins step 4 only after every group ahead of it has failed or has
//!    completed step 5.
//! 4. The batches are inserted into the memtables: small ones by the leader, large ones by their
//!    own writers.
//! 5. The group's last sequence number is published; from then on readers see the group.
//! 6. The members get the result. The next writer leads, and its group includes the writers that
//!    arrived during these steps.
//!
//! # Invariants
//!
//! - Groups are ordered: sequence numbers are published in ascending order, without gaps.
//! - No sequence number is published before its batch is in the log, unless the batch is unlogged.
//! - No synced write is acknowledged before its own log and every older one are synced.
//! - A leader switches memtables and logs only when no group is in flight. So a sealed memtable
//!   gets no more entries, and the log that ends when a memtable is sealed holds no entry of the
//!   next memtable.
//!
//! # A crash
//!
//! Before the end of step 3 the group may be in the log completely, in part, or not at all. A batch
//! is a single record, so each batch is there completely or not at all. After step 3 the group
//! survives a crash of the process, and, if it was synced, a crash of the machine. A group in
//! flight may be on the device while a group ahead of it is not. Neither group was acknowledged,
//! and recovery ends at the gap that the missing group leaves in the log.

mod commit;
mod counts;
mod flush_request;
mod memory;
mod memtables;
mod options;
mod path;
pub(crate) mod queue;
mod wal_options;
mod wal_switch;

pub(crate) use commit::no_merge_operator;
pub use options::WriteOptions;
pub(crate) use path::WritePath;
pub(crate) use wal_options::wal_options;
