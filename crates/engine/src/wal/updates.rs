//! Follows a database through its logs: reads batches since a sequence number, including those
//! being written.
//!
//! # Order
//!
//! 1. The due sequence number, which the next batch must begin with, is compared with the last
//!    published number. If the due number is not yet published, nothing is read.
//! 2. The next batch is read, up to the known end of its log. When that end is reached, the current
//!    end is looked up, and if the log is complete, reading continues with the next log.
//! 3. A batch that is not published is kept until it is. If its log was abandoned after a failure,
//!    the batch will never be published, and is dropped.
//! 4. A batch that does not begin with the due number is an error: sequence numbers are missing.
//!
//! The last published number is always loaded first, and the known end of the log afterwards. So
//! every batch up to this number lies before this end in the log, or is still buffered in memory,
//! or is in no log.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tailwater_format::batch::WriteBatch;
use tailwater_format::key::Sequence;
use tailwater_io::Storage;

use super::followed::{Follower, LogState};
use super::tail::{FoundBatch, LogTail};
use crate::error::{Error, ErrorKind, Result};

/// An iterator over the batches in a database's write-ahead logs, in order: returned by
/// [`Db::updates_since`] and [`Db::updates_since_or_after`], and equivalent to RocksDB's
/// `TransactionLogIterator`.
///
/// The iterator yields whole batches with their sequence numbers ([`WriteBatch::sequence`]),
/// including batches without operations. `None` means that there is no next batch *yet* that is
/// both published and in a log: after further writes the iterator continues. With
/// `manual_wal_flush` it continues once these writes are flushed to the file. The iterator never
/// blocks.
///
/// The batches are consecutive. Writes with `disable_wal` and ingestions take sequence numbers but
/// are in no log. A batch after such a gap, or after a gap of any other cause, is an error of kind
/// not found. Damage is an error of kind corruption, with file and offset. After an error the
/// iterator returns the same error again; a new iterator may begin after the gap.
///
/// While the iterator lives, the logs that it has yet to read are neither removed nor overwritten,
/// even if their contents are flushed. Once the iterator has passed a log, or is dropped, the log
/// is released with the next flush. So an iterator that is not advanced keeps disk space in use.
/// After the database is closed, the iterator returns an error of kind closed, so read all batches
/// before closing it.
///
/// The iterator can be sent between threads. It does not delay writers.
///
/// [`Db::updates_since`]: crate::Db::updates_since
/// [`Db::updates_since_or_after`]: crate::Db::updates_since_or_after
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = tailwater::Db::open_default(directory.path())?;
/// use tailwater::batch::RecordKind;
///
/// db.put("apple", "red")?;
/// let mut updates = db.updates_since(db.latest_sequence_number())?;
/// let batch = updates.next().expect("a batch")?;
/// assert_eq!((batch.sequence(), batch.len()), (db.latest_sequence_number(), 1));
/// assert!(updates.next().is_none(), "nothing more has been written");
///
/// // The iterator continues with later writes.
/// db.delete("apple")?;
/// for batch in &mut updates {
///     let batch = batch?;
///     for record in batch.reader()? {
///         let record = record?;
///         match record.kind {
///             RecordKind::Put => println!("put {}", record.key.escape_ascii()),
///             RecordKind::Delete => println!("delete {}", record.key.escape_ascii()),
///             kind => println!("{kind:?}"),
///         }
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Updates {
    /// Returns the last sequence number that reads see.
    published_now: Box<dyn Fn() -> Sequence + Send + Sync>,
    storage: Arc<dyn Storage>,
    /// The directory of the logs.
    directory: PathBuf,
    follower: Follower,
    log: LogTail,
    /// The last known state of `log`.
    state: LogState,
    /// The sequence number with which the next batch must begin. Before the first batch: a number
    /// that the batch must contain, or 0 if any batch will do; see also `may_be_later`.
    due: Sequence,
    /// Whether the first batch was found.
    is_started: bool,
    /// Whether the first batch may begin after `due`.
    may_be_later: bool,
    /// The last sequence number known to be published.
    published: Sequence,
    /// A batch that was read but is not yet known to be published.
    read_ahead: Option<FoundBatch>,
    /// The first batch, which was found when the iterator was created and is not yet returned.
    first: Option<WriteBatch>,
    failure: Option<Error>,
}

/// A database's logs, and its published sequence number.
pub(crate) struct LogsOf {
    /// Returns the last sequence number that reads see.
    pub(crate) published: Box<dyn Fn() -> Sequence + Send + Sync>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) directory: PathBuf,
    /// Whether memory may hold a batch that is not yet in a file.
    pub(crate) holds_back: bool,
}

impl Updates {
    /// Seeks the batch that contains `sequence`, which must be published; if `sequence` is 0, the
    /// oldest batch. If no log contains it and `may_be_later`, seeks the first batch after it.
    ///
    /// # Errors
    /// Not found, if there is no such batch; errors from reading the logs.
    pub(crate) fn since(
        logs: LogsOf,
        follower: Follower,
        sequence: Sequence,
        may_be_later: bool,
    ) -> Result<Self> {
        let LogsOf { published, storage, directory, holds_back } = logs;
        let oldest = follower.logs().into_iter().next().unwrap_or_default();
        let log = LogTail::open(&*storage, &directory, oldest)?;
        let state = follower.state_of(oldest);
        let mut updates = Self {
            published_now: published,
            storage,
            directory,
            follower,
            log,
            state,
            due: sequence,
            is_started: false,
            may_be_later,
            published: 0,
            read_ahead: None,
            first: None,
            failure: None,
        };
        updates.seek_log()?;
        updates.first = updates.advance()?;
        if updates.first.is_none() && sequence > 0 && !holds_back && !may_be_later {
            let message = format!("sequence number {sequence} is in no log");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        Ok(updates)
    }

    /// Moves to the newest log whose first batch begins at or before `due`, the sequence number
    /// that is expected next.
    fn seek_log(&mut self) -> Result<()> {
        if self.due == 0 {
            return Ok(());
        }
        for number in self.follower.logs().into_iter().skip(1).rev() {
            let state = self.follower.state_of(number);
            let mut log = LogTail::open(&*self.storage, &self.directory, number)?;
            log.read_up_to(state.end);
            let last = state.last_sequence.min(self.due);
            let first = log.next_batch()?.filter(|first| first.batch.sequence() <= last);
            if let Some(first) = first {
                (self.log, self.state, self.read_ahead) = (log, state, Some(first));
                self.follower.move_to(number);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the next published batch.
    fn advance(&mut self) -> Result<Option<WriteBatch>> {
        self.follower.check()?;
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        loop {
            if !self.is_published(self.due) {
                return Ok(None);
            }
            let Some(found) = self.read()? else { return Ok(None) };
            let is_published = self.is_published(found.last_sequence());
            if found.last_sequence() > self.state.last_sequence {
                // The rest of this log was never published, because the log was abandoned after a
                // failure.
                if !self.next_log()? {
                    return Ok(None);
                }
            } else if !is_published {
                self.read_ahead = Some(found);
                return Ok(None);
            } else if self.is_started || found.next_sequence > self.due {
                self.check_order(&found)?;
                (self.due, self.is_started) = (found.next_sequence, true);
                return Ok(Some(found.batch));
            }
        }
    }

    /// Returns the next batch of the logs, published or not.
    fn read(&mut self) -> Result<Option<FoundBatch>> {
        loop {
            if let Some(found) = self.read_ahead.take() {
                return Ok(Some(found));
            }
            self.read_ahead = self.log.next_batch()?;
            if self.read_ahead.is_none() {
                self.state = self.follower.state_of(self.log.number);
                if !self.log.read_up_to(self.state.end) && !self.next_log()? {
                    return Ok(None);
                }
            }
        }
    }

    /// Moves to the next log. Returns whether there is one.
    fn next_log(&mut self) -> Result<bool> {
        let Some(next) = self.state.next else { return Ok(false) };
        self.log = LogTail::open(&*self.storage, &self.directory, next)?;
        self.follower.move_to(next);
        self.state = self.follower.state_of(next);
        Ok(true)
    }

    /// Whether a sequence number is published. If `self.published` is lower, reloads it, and
    /// afterwards reloads `self.state`, the state of the log. In this order, the end of the log in
    /// `look` is behind every batch up to `published`.
    fn is_published(&mut self, sequence: Sequence) -> bool {
        if sequence > self.published {
            self.published = (self.published_now)();
            self.state = self.follower.state_of(self.log.number);
        }
        sequence <= self.published
    }

    /// Returns an error for a batch that does not begin with `due`, the sequence number that is
    /// expected next. The first batch that the iterator finds may also begin below `due` and
    /// contain it.
    fn check_order(&self, found: &FoundBatch) -> Result<()> {
        let (first, due) = (found.batch.sequence(), self.due);
        let may_differ = first < due || due == 0 || self.may_be_later;
        if first == due || !self.is_started && may_differ {
            return Ok(());
        }
        let path = self.log.path();
        if first < due {
            let message = format!("sequence number {first} is below the expected {due}");
            return Err(Error::corruption_at(path, found.offset, message));
        }
        let message = match self.is_started {
            true => format!(
                "gap in sequence numbers: {due} to {} are in no log, the next batch begins with \
                 {first}",
                first - 1
            ),
            false => format!(
                "sequence number {due} is in no log, the oldest batch after it begins \
                 with {first}"
            ),
        };
        Err(Error::new(ErrorKind::NotFound, message).in_file(path))
    }
}

impl Iterator for Updates {
    type Item = Result<WriteBatch>;

    /// Returns the next batch, or `None` while no further batch is available.
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(failure) = &self.failure {
            return Some(Err(failure.clone()));
        }
        let advanced = self.advance();
        if let Err(error) = &advanced {
            self.failure = Some(error.clone());
        }
        advanced.transpose()
    }
}

impl fmt::Debug for Updates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Updates")
            .field("log", &self.log.path())
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}
