//! Ingestion adds tables that were written outside a database, without rewriting them.
//!
//! [`SstFileWriter`] writes such tables. All their records have sequence number 0; if a table must
//! be newer than the database's data, the MANIFEST assigns the table a global sequence number,
//! which applies to all its records.
//!
//! # Order
//!
//! 1. The files to be ingested are examined at their original paths ([`external_file`]): whether
//!    each is a table that can be ingested, and its key range. With `move_files`, a file that
//!    already is a table of this database is refused ([`own_tables`]). This step changes nothing.
//! 2. The files are linked or copied into the database's directory ([`arrival`]) and synced, and
//!    then the directory is synced.
//! 3. Memtables with records in the files' key ranges are flushed.
//! 4. The ingestion leads the write queue, so that writes wait. Records written in the key ranges
//!    since step 3 are flushed.
//! 5. With several column families, all logs but the current one are synced. Otherwise a crash
//!    could keep the ingested files of one family and lose older writes of another. A flush does
//!    the same before it writes its edit.
//! 6. The ingestion waits for its turn to install. No compaction begins during this turn. Each file
//!    is assigned the deepest possible level, and a sequence number if the file hides anything
//!    ([`place`]). The overlaps with tables were looked up before this step ([`overlap`]), and stay
//!    valid since tables are immutable. Then the files are opened.
//! 7. One atomic group of edits adds the files of all column families. Then the sequence numbers
//!    are published, and after them the new versions. A read takes its version before its sequence
//!    number, and so sees all the files of a column family or none. No snapshot is taken between
//!    these two publications, since the files would appear in it later.
//! 8. Writes continue. With `move_files` the original names are removed.
//!
//! # A crash
//!
//! Before the edits of step 7 are synced, nothing is ingested, and the next open removes the files
//! from the directory. After that sync, everything is ingested; until the end of step 8, original
//! names may remain.
//!
//! # An error
//!
//! The files in the directory are removed, unless the MANIFEST may name them: after a failed write
//! of the MANIFEST they are left to the next open.
//!
//! # Closing
//!
//! Closing waits for an ingestion to end. An ingestion that still links or copies files is
//! cancelled. If closing did not wait, another process could open the database and reuse the
//! numbers of files that the ingestion may yet remove.
//!
//! Source: `db/external_sst_file_ingestion_job.cc`, `table/sst_file_writer.cc`.

mod arrival;
mod external_file;
mod ingester;
mod job;
mod options;
mod overlap;
mod own_tables;
mod place;
mod sst_file_writer;

pub(crate) use ingester::Ingester;
pub use options::{ExternalFiles, IngestOptions, IngestedFile};
pub use sst_file_writer::{ExternalFileInfo, SstFileWriter};
