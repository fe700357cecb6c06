//! Flushing: writes memtables to a table in level 0, or to several if one would have too long a
//! block.
//!
//! # Order
//!
//! 1. The sealed memtables of a column family are merged into one table, without records that no
//!    reader can see. Timed values get their preferred sequence numbers.
//! 2. The table is synced, then its directory.
//! 3. With several column families, all logs but the current one are synced. The reason is that the
//!    table may hold one part of a batch whose other part is in another family's memtable. A crash
//!    must not keep only one of the two parts.
//! 4. When the table is the next of its column family to be installed, it is opened. No other
//!    thread knows of it yet.
//! 5. The flush waits for its turn to install. It appends its edit to the MANIFEST: the new table,
//!    and the logs that are no longer needed. With `atomic_flush` the edits of all families take
//!    effect together.
//! 6. Readers get the new version, and the memtables are released.
//! 7. Logs that no family needs any more are removed or kept for recycling.
//!
//! Several flushes run at a time, also of one column family. [`jobs`] describes their order.
//!
//! # A crash
//!
//! Before the end of step 5 no MANIFEST names the table, and the next open removes it; the logs
//! still hold everything. So do they if another flush was installed meanwhile: it released no log
//! with entries that are not in installed tables. After step 5 the table is part of the database,
//! and logs that were not removed are obsolete.

mod due;
mod job;
mod jobs;
#[cfg(all(loom, test))]
mod loom;
mod needed_wals;
mod scheduler;
mod sync;
mod table;
mod tables;
mod timed_values;

pub(crate) use job::in_epochs;
pub(crate) use scheduler::FlushScheduler;
