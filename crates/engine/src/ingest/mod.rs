//! Ingestion: tables that were made outside a database are taken in as they are.
//!
//! [`SstFileWriter`] makes such tables. All their records have sequence number 0; where they must
//! be newer than what a database holds, the MANIFEST gives the table another, which counts for all
//! its records.
//!
//! # Order
//!
//! 1. The files are examined where they are ([`external_file`]): whether each is a table that can
//!    be taken in, and from which key to which it reaches. Those that are tables of this database
//!    are not moved ([`own_tables`]). Nothing has been changed then.
//! 2. They get a second name in the database's directory, or are copied there ([`arrival`]), and
//!    are synced, and then the directory.
//! 3. What is in memory of the keys they reach over is flushed.
//! 4. Nobody writes any more: ingestion leads the write queue. What came into memory meanwhile is
//!    flushed.
//! 5. With several column families, the logs that are complete are synced, as before the edit of a
//!    flush: a file must not outlive what was logged before it, or its column family seems to have
//!    more than there are logs for.
//! 6. The turn to change the versions, in which no compaction begins. Each file gets the deepest
//!    level where nothing is in its way, and a sequence number if it hides anything ([`place`]).
//!    What tables hold was looked up before ([`overlap`]): it stays true. Then the files are
//!    opened.
//! 7. One group of edits makes them part of the database, those of several column families
//!    together. The sequence numbers are published, then readers get the new versions: a read takes
//!    its version first, and so sees all the files of a column family or none. No snapshot is taken
//!    in between, which would see them appear.
//! 8. Writes go on. With `move_files` the first names go.
//!
//! # A crash
//!
//! Before the end of step 7's sync nothing counts, and the next open removes what was brought into
//! the directory. After it everything counts. Before the end of step 8 the first names may still be
//! there.
//!
//! # An error
//!
//! What was brought into the directory is removed, unless the MANIFEST may name it: after a failed
//! write of the MANIFEST it is left to the next open.
//!
//! # Closing
//!
//! Closing waits for an ingestion to end, which gives up if it still brings files: nobody else may
//! open the database and give its numbers to other tables while it may remove its own.
//!
//! Source: `db/external_sst_file_ingestion_job.cc`, `table/sst_file_writer.cc`.

mod arrival;
mod external_file;
mod job;
mod options;
mod overlap;
mod own_tables;
mod place;
mod sst_file_writer;

pub use options::{ExternalFiles, IngestOptions, IngestedFile};
pub use sst_file_writer::{ExternalFileInfo, SstFileWriter};
