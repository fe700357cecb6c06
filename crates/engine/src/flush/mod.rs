//! Flushing: from memtables to a table in level 0.
//!
//! # Order
//!
//! 1. The sealed memtables of a column family are merged into one table, without what no snapshot
//!    shows. Timed values get the sequence numbers that they prefer.
//! 2. The table is synced, then its directory.
//! 3. With several column families, the logs that are complete are synced: the table may hold
//!    writes of a log whose other writes are for another family, and a crash must not keep the one
//!    and lose the other.
//! 4. The table is opened, which only this flush knows of.
//! 5. The flush waits for its turn to change the versions. The MANIFEST gets the edit: the new
//!    table, and which logs are needed no more. With `atomic_flush` the edits of all families take
//!    effect together.
//! 6. Readers get the new version, and the memtables go.
//! 7. Logs that no family needs any more are removed or kept to be written over.
//!
//! # A crash
//!
//! Before the end of step 5 the table is left over, which the next open removes, and the logs still
//! hold everything. After it the table counts; logs that were not removed are left over.

mod contents;
mod job;
mod logs;
mod scheduler;
mod table;
mod timed_values;

pub(crate) use scheduler::FlushScheduler;
