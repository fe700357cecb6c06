//! Following a database by its logs: what was written since a sequence number, and what is being
//! written.
//!
//! # Order
//!
//! 1. What is due is compared with what is published. Where it is not published yet, nothing is
//!    read.
//! 2. The next batch is read up to the end of its log that is known; at that end, the end is looked
//!    up anew, and where the log is complete the next one follows.
//! 3. A batch that is not published is kept until it is. Where its log was given up after a failure
//!    it never will be, and is dropped.
//! 4. A batch whose number is not the one that is due ends it: sequence numbers are missing.
//!
//! What is published is always loaded before the end of the log, so that everything that is due
//! stands before the end, or is held back in memory, or is in no log.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tailwater_format::batch::WriteBatch;
use tailwater_format::key::Sequence;
use tailwater_io::Storage;

use super::followed::{Follower, Look};
use super::tail::{FoundBatch, LogTail};
use crate::db::Shared;
use crate::{Error, ErrorKind, Result};

/// The batches that were written to a database, in order, as its write-ahead logs have them: what
/// [`Db::updates_since`] answers, RocksDB's `TransactionLogIterator`.
///
/// As an iterator it gives whole batches with their sequence numbers ([`WriteBatch::sequence`]), a
/// batch of no operations too. `None` says that nothing more is published and in a log *yet*: after
/// further writes it goes on. With `manual_wal_flush` that is when they were handed to the system.
/// It never waits.
///
/// The batches follow one another without a gap. What no log holds, writes with `disable_wal` and
/// ingestions, takes sequence numbers too: a batch behind such a gap is an error of kind not found,
/// and so is one that the logs lack for another reason. Damage is one of kind corruption, with file
/// and offset. After an error the same error comes again; a new iterator may begin behind the gap.
///
/// While it lives the logs that it has yet to read are kept, whatever is flushed, and neither
/// removed nor written over; once it has passed them, or is dropped, they go with the next flush.
/// So an iterator that is not read on keeps disk space in use. When the database is closed it ends
/// with an error of kind invalid argument; what is to be followed to the end is read before.
///
/// Any thread may have it, one at a time; others write meanwhile, and are not held up.
///
/// [`Db::updates_since`]: crate::Db::updates_since
pub struct Updates {
    shared: Arc<Shared>,
    storage: Arc<dyn Storage>,
    /// Where the logs are.
    directory: PathBuf,
    follower: Follower,
    log: LogTail,
    /// What is known of that log.
    look: Look,
    /// The sequence number of the next batch; before the first, the one that it is to hold, or 0
    /// for any.
    due: Sequence,
    /// Whether a batch was found.
    is_started: bool,
    /// What is known to be published.
    published: Sequence,
    /// A batch that was read and is not yet published, or not yet looked at.
    read_ahead: Option<FoundBatch>,
    /// The first batch, which was sought when this was made.
    first: Option<WriteBatch>,
    failure: Option<Error>,
}

/// Where a database's logs are and what is published of them.
pub(crate) struct LogsOf {
    pub(crate) shared: Arc<Shared>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) directory: PathBuf,
    /// Whether a batch may be in memory that is in no file yet.
    pub(crate) holds_back: bool,
}

impl Updates {
    /// Seeks the batch that holds `sequence`, which is published; the oldest there is for 0.
    ///
    /// # Errors
    /// Not found, where no log has it; those of reading the logs.
    pub(crate) fn since(logs: LogsOf, follower: Follower, sequence: Sequence) -> Result<Self> {
        let LogsOf { shared, storage, directory, holds_back } = logs;
        let oldest = follower.logs().into_iter().next().unwrap_or_default();
        let log = LogTail::open(&*storage, &directory, oldest)?;
        let look = follower.look(oldest);
        let mut updates = Self {
            shared,
            storage,
            directory,
            follower,
            log,
            look,
            due: sequence,
            is_started: false,
            published: 0,
            read_ahead: None,
            first: None,
            failure: None,
        };
        updates.seek_log()?;
        updates.first = updates.advance()?;
        if updates.first.is_none() && sequence > 0 && !holds_back {
            let message = format!("sequence number {sequence} is in no log any more");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        Ok(updates)
    }

    /// Goes to the newest log that begins with the batch that is due or an earlier one.
    fn seek_log(&mut self) -> Result<()> {
        if self.due == 0 {
            return Ok(());
        }
        for number in self.follower.logs().into_iter().skip(1).rev() {
            let look = self.follower.look(number);
            let mut log = LogTail::open(&*self.storage, &self.directory, number)?;
            log.read_up_to(look.end);
            let last = look.last_sequence.min(self.due);
            let first = log.next_batch()?.filter(|first| first.batch.sequence() <= last);
            if let Some(first) = first {
                (self.log, self.look, self.read_ahead) = (log, look, Some(first));
                self.follower.move_to(number);
                return Ok(());
            }
        }
        Ok(())
    }

    /// The next batch that is published.
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
            if found.last_sequence() > self.look.last_sequence {
                // The rest of this log was never published, and never will be.
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

    /// The next batch of the logs, published or not.
    fn read(&mut self) -> Result<Option<FoundBatch>> {
        loop {
            if let Some(found) = self.read_ahead.take() {
                return Ok(Some(found));
            }
            self.read_ahead = self.log.next_batch()?;
            if self.read_ahead.is_none() {
                self.look = self.follower.look(self.log.number);
                if !self.log.read_up_to(self.look.end) && !self.next_log()? {
                    return Ok(None);
                }
            }
        }
    }

    /// Goes to the next log; false where there is none yet.
    fn next_log(&mut self) -> Result<bool> {
        let Some(next) = self.look.next else { return Ok(false) };
        self.log = LogTail::open(&*self.storage, &self.directory, next)?;
        self.follower.move_to(next);
        self.look = self.follower.look(next);
        Ok(true)
    }

    /// Whether a sequence number is published. What is known of the log is then at least as new as
    /// what is known to be published.
    fn is_published(&mut self, sequence: Sequence) -> bool {
        if sequence > self.published {
            self.published = self.shared.published.load(Ordering::Acquire);
            self.look = self.follower.look(self.log.number);
        }
        sequence <= self.published
    }

    /// Refuses a batch that does not begin with what is due; the first needs only hold it.
    fn check_order(&self, found: &FoundBatch) -> Result<()> {
        let (first, due) = (found.batch.sequence(), self.due);
        if first == due || !self.is_started && (first < due || due == 0) {
            return Ok(());
        }
        let path = self.log.path();
        if first < due {
            let message = format!("sequence number {first} goes back from {due}");
            return Err(Error::corruption_at(path, found.offset, message));
        }
        let message = match self.is_started {
            true => format!(
                "gap in sequence numbers: {due} to {} are in no log, the next batch begins with \
                 {first}",
                first - 1
            ),
            false => format!(
                "sequence number {due} is in no log any more, the oldest batch behind it begins \
                 with {first}"
            ),
        };
        Err(Error::new(ErrorKind::NotFound, message).in_file(path))
    }
}

impl Iterator for Updates {
    type Item = Result<WriteBatch>;

    /// The next batch; `None` while there is none.
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
