//! The history of writes, and followers of it.

use tailwater::{Db, ErrorKind, Updates, WriteBatch};

/// All batches that were written, in order.
#[derive(Debug, Default)]
pub(crate) struct History {
    batches: Vec<WriteBatch>,
    /// Number of batches that may be in tables and no longer in logs.
    flushed: usize,
    /// Number of batches that were written to the log's file.
    handed_on: usize,
}

/// A follower of the database.
pub(crate) struct Follower {
    updates: Updates,
    /// Index of the next expected batch; `None` before the first one if any batch may come.
    at: Option<usize>,
    /// Whether no log may have the first batch any more.
    may_be_gone: bool,
}

impl History {
    pub(crate) fn add(&mut self, batch: WriteBatch) {
        self.batches.push(batch);
    }

    /// Returns the number of batches.
    pub(crate) fn len(&self) -> usize {
        self.batches.len()
    }

    /// Records that all batches are in the logs' files.
    pub(crate) fn hand_on(&mut self) {
        self.handed_on = self.batches.len();
    }

    /// Records that all batches may be in tables.
    pub(crate) fn flush(&mut self) {
        self.flushed = self.batches.len();
    }

    /// Returns the sequence number of the last operation.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.batches.iter().map(|batch| u64::from(batch.count())).sum()
    }

    /// Returns the index of the batch with a sequence number.
    fn holder(&self, sequence: u64) -> usize {
        let holds = |batch: &WriteBatch| batch.sequence() + u64::from(batch.count()) > sequence;
        self.batches.iter().position(holds).expect("a batch that holds it")
    }

    /// Returns the number of batches that must be returned. An empty batch need not be returned
    /// before another batch follows it.
    fn visible(&self) -> usize {
        let mut handed_on = self.batches[..self.handed_on].iter();
        handed_on.rposition(|batch| batch.count() > 0).map_or(0, |last| last + 1)
    }

    /// Starts following at a sequence number; with 0, at any.
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
    /// Takes this many batches, or all that exist. Returns false if no log has the first one.
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
        let same = |known: &WriteBatch| known.as_bytes() == batch.as_bytes();
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
