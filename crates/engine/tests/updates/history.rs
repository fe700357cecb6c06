//! The history of the batches written to a database, and the followers that read these batches from
//! the logs.

use tailwater::{Db, ErrorKind, Updates, WriteBatch};

/// All batches that were written to the database, oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    batches: Vec<WriteBatch>,
    /// How many batches, counted from the oldest, may be in tables. The logs of these batches may
    /// have been removed.
    flushed: usize,
    /// How many batches, counted from the oldest, the database has written to its log files.
    /// Followers can see only these batches.
    handed_on: usize,
}

/// A follower, which reads the updates of the database. Its batches are compared with the history.
pub(crate) struct Follower {
    updates: Updates,
    /// Identifies the batch that the follower must return next, by its index in the history. `None`
    /// if the follower has not returned a batch yet and may begin with any batch.
    at: Option<usize>,
    /// Whether the log with the first batch that the follower must return may have been removed.
    may_be_gone: bool,
}

impl History {
    pub(crate) fn add(&mut self, batch: WriteBatch) {
        self.batches.push(batch);
    }

    /// Returns the number of batches in the history.
    pub(crate) fn len(&self) -> usize {
        self.batches.len()
    }

    /// Notes that the database has written all batches so far to its log files.
    pub(crate) fn hand_on(&mut self) {
        self.handed_on = self.batches.len();
    }

    /// Notes that all batches so far may be in tables now, and that their logs may have been
    /// removed.
    pub(crate) fn flush(&mut self) {
        self.flushed = self.batches.len();
    }

    /// Returns the sequence number of the last operation in the history.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.batches.iter().map(|batch| batch.len() as u64).sum()
    }

    /// Returns the index of the batch whose sequence numbers include `sequence`.
    fn holder(&self, sequence: u64) -> usize {
        let holds = |batch: &WriteBatch| batch.sequence() + batch.len() as u64 > sequence;
        self.batches.iter().position(holds).expect("a batch that holds it")
    }

    /// Returns how many batches a follower must have been able to read so far. The last batches do
    /// not count if they are empty: a follower may return them only when another batch follows.
    fn visible(&self) -> usize {
        let mut handed_on = self.batches[..self.handed_on].iter();
        handed_on.rposition(|batch| !batch.is_empty()).map_or(0, |last| last + 1)
    }

    /// Creates a follower that begins with the batch that contains `sequence`. With sequence number
    /// 0 it may begin with any batch. Returns `None` if no log has the requested batch.
    pub(crate) fn follow(
        &self,
        db: &Db,
        sequence: u64,
        others: &[Follower],
        context: &str,
    ) -> Option<Follower> {
        let at = (sequence > 0).then(|| self.holder(sequence));
        let is_held = |at: usize| {
            let mut others = others.iter().filter(|other| !other.may_be_gone);
            others.any(|other| other.at.is_some_and(|it| it <= at))
        };
        let may_be_gone = at.is_some_and(|at| at < self.flushed && !is_held(at));
        match db.updates_since(sequence) {
            Ok(updates) => Some(Follower { updates, at, may_be_gone }),
            Err(error) => {
                let is_expected = may_be_gone
                    && error.kind() == ErrorKind::NotFound
                    && error.message().contains("is in no log");
                assert!(is_expected, "{context}, from {sequence}: {error}");
                None
            }
        }
    }
}

impl Follower {
    /// Reads up to `count` of the batches that exist, and checks them. Returns false if no log has
    /// the batch that the follower must return next.
    pub(crate) fn advance(&mut self, count: usize, history: &History, context: &str) -> bool {
        for _ in 0..count {
            match self.updates.next() {
                Some(Ok(batch)) => self.take(&batch, history, context),
                Some(Err(error)) => {
                    let is_expected = self.may_be_gone && error.kind() == ErrorKind::NotFound;
                    assert!(is_expected, "{context}: {error}");
                    return false;
                }
                None => {
                    let seen = self.at.unwrap_or(history.flushed);
                    let missing = seen < history.visible() && !self.may_be_gone;
                    let visible = history.visible();
                    assert!(!missing, "{context}: batch {seen} of {visible} is missing");
                    return true;
                }
            }
        }
        true
    }

    fn take(&mut self, batch: &WriteBatch, history: &History, context: &str) {
        let same = |known: &WriteBatch| known.data() == batch.data();
        let at = self.at.unwrap_or_else(|| {
            history.batches.iter().position(same).unwrap_or_else(|| {
                panic!("{context}: nobody wrote the batch of {}", batch.sequence())
            })
        });
        let expected = history.batches.get(at);
        assert!(
            expected.is_some_and(same),
            "{context}: batch {at} must begin with {:?}, but the one found begins with {}",
            expected.map(WriteBatch::sequence),
            batch.sequence()
        );
        (self.at, self.may_be_gone) = (Some(at + 1), false);
    }
}
