//! Following a database by its logs.

use std::sync::Arc;

use tailwater_format::key::Sequence;

use super::Db;
use crate::wal::{LogsOf, Updates};
use crate::{Error, ErrorKind, Result};

impl Db {
    /// The batches that were written since `sequence`, from the one that holds it, as the
    /// write-ahead logs have them: RocksDB's `GetUpdatesSince`. With 0, from the oldest that a log
    /// still has. What [`Updates`] says of gaps counts.
    ///
    /// A log is kept until all that it holds is in tables, and while somebody follows it; opening a
    /// database puts everything into tables, unless `avoid_flush_during_recovery` is set.
    ///
    /// # Errors
    /// Not found, where `sequence` is not yet written, and, other than in RocksDB, which then
    /// begins with what is left, where no log has it any more; not supported, for a handle that was
    /// opened for reading; closed, for one that was closed; those of reading the logs.
    pub fn updates_since(&self, sequence: Sequence) -> Result<Updates> {
        let Some(writing) = &self.inner.writing else {
            let what = "updates_since in a database that was opened for reading only";
            return Err(Error::not_supported(what));
        };
        let published = self.latest_sequence();
        if sequence > published {
            let message =
                format!("sequence number {sequence} is not yet written, the last is {published}");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let logs = writing.writer.logs();
        let follower = logs.follow()?;
        let of = LogsOf {
            shared: Arc::clone(&self.inner.shared),
            storage: Arc::clone(&self.inner.storage),
            directory: logs.directory().to_owned(),
            holds_back: logs.holds_back(),
        };
        drop(logs);
        Updates::since(of, follower, sequence)
    }
}
