//! Following a database's writes through its logs.

use std::sync::Arc;

use tailwater_format::key::Sequence;

use super::Db;
use crate::error::{Error, ErrorKind, Result};
use crate::wal::{LogsOf, Updates};

impl Db {
    /// Returns the batches written since `sequence` from the write-ahead logs, starting with the
    /// batch that contains `sequence`: RocksDB's `GetUpdatesSince`. If `sequence` is 0, starts with
    /// the oldest batch that is still in a log. See [`Updates`] on gaps.
    ///
    /// A log is kept while any of its contents are not in tables yet, or while an [`Updates`] still
    /// has to read it. Opening a database flushes everything to tables, unless
    /// `avoid_flush_during_recovery` is set.
    ///
    /// # Errors
    /// Not found, if `sequence` is not yet written, or is no longer in a log; read-only, for a
    /// handle that was opened for reading; closed, for a handle that was closed; errors from
    /// reading the logs.
    pub fn updates_since(&self, sequence: Sequence) -> Result<Updates> {
        self.follow_logs(sequence, false)
    }

    /// Like [`Db::updates_since`], but if `sequence` is in no log, starts with the first batch
    /// after it, as RocksDB does: a follower does not notice which batches it has missed. If there
    /// is none yet, the iterator starts with the next one that is written.
    ///
    /// # Errors
    /// The errors of [`Db::updates_since`]; not found only if `sequence` is not yet written.
    pub fn updates_since_or_after(&self, sequence: Sequence) -> Result<Updates> {
        self.follow_logs(sequence, true)
    }

    fn follow_logs(&self, sequence: Sequence, may_be_later: bool) -> Result<Updates> {
        let database = self.database().map_err(|error| error.while_doing("updates_since"))?;
        let published = self.latest_sequence_number();
        if sequence > published {
            let message =
                format!("sequence number {sequence} is not yet written, the last is {published}");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let logs = database.writes.logs();
        let follower = logs.follow()?;
        let shared = Arc::clone(&self.inner.shared);
        let of = LogsOf {
            published: Box::new(move || shared.published()),
            storage: Arc::clone(&self.inner.storage),
            directory: logs.directory().to_owned(),
            holds_back: logs.holds_back(),
        };
        drop(logs);
        Updates::since(of, follower, sequence, may_be_later)
    }
}
