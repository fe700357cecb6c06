//! Classifies what a log contains other than intact records: damage, remains of older logs, and
//! unwritten space. Replay and verification decide by this classification.

use tailwater_format::record_log::{Damage, Event, Skipped, SkippedReason, Stale, Torn};

use crate::wal::unwritten;

/// A deviation from what the writer of a log wrote.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) reason: String,
    /// Whether a crash can have caused this problem.
    pub(crate) torn: bool,
}

/// A position at which the log possibly ends. If a batch is found after the position, its sequence
/// number shows whether batches are missing in between.
#[derive(Debug, Clone)]
pub(crate) struct PossibleEnd {
    /// The problem to report if a batch is found after this position, and batches between this
    /// position and that batch are missing.
    pub(crate) missing: Problem,
    /// The problem to report if no batch is found after the possible end of the log; `None` if an
    /// intact log may end there.
    pub(crate) at_end: Option<Problem>,
    /// Whether replay may apply the batches after this position even in a recovery mode that stops
    /// at damage. Replay does so only if no batch is missing at this position.
    pub(crate) may_go_on: bool,
    /// Whether the log's file extends beyond the possible end. If the log does end there, replay
    /// continues with the next log only if that log begins with the next sequence number.
    pub(crate) ends_early: bool,
}

/// The meaning of an [`Event`] that the log reader returned instead of a record.
pub(crate) enum Finding {
    /// No problem: an intact log may contain this.
    Nothing,
    /// A problem: the log is damaged here, or a crash has cut a write off.
    Problem(Problem),
    /// The log may end here. What follows in the log decides whether this is a problem.
    PossibleEnd(PossibleEnd),
}

impl Problem {
    /// Extends the problem's byte range to `end`, the end of the log's file.
    pub(crate) fn up_to(self, end: u64) -> Self {
        Self { bytes: end.saturating_sub(self.offset), ..self }
    }
}

impl PossibleEnd {
    /// Creates the end of a log inside a record that a crash cut off.
    pub(crate) fn inside_record(missing: Problem) -> Self {
        let at_end = Some(missing.clone());
        Self { missing, at_end, may_go_on: false, ends_early: true }
    }
}

impl Finding {
    /// Classifies an event. A record of a log with a lower number counts as earlier content of a
    /// recycled file. A record of a log with a higher number counts as earlier content only if
    /// `may_be_stale`; otherwise it is a problem.
    pub(crate) fn of(event: &Event<'_>, may_be_stale: bool) -> Self {
        match event {
            Event::Skipped(skipped) => Self::of_skipped(skipped),
            Event::Damage(damage) => Self::of_damage(damage),
            Event::Torn(torn) => Self::of_torn(torn),
            // Even if logs are not recycled under the current options, they may have been recycled
            // under earlier options.
            Event::Stale(stale) if may_be_stale || stale.is_older => Self::of_stale(stale),
            Event::Stale(Stale { offset, dropped, .. }) => {
                let reason = "a record of a later log";
                Self::problem(*offset, *dropped, reason.to_owned(), false)
            }
            _ => Self::Nothing,
        }
    }

    /// Classifies bytes that the record reader silently skips. They are a finding only if they
    /// include a fragment, or are unwritten space followed by a record.
    fn of_skipped(skipped: &Skipped) -> Self {
        let Skipped { offset, dropped: bytes, lossy, reason } = *skipped;
        if !lossy && !unwritten::is_space(skipped) {
            return Self::Nothing;
        }
        let torn = reason == SkippedReason::Zeros;
        let missing = Problem { offset, bytes, reason: reason.to_string(), torn };
        let at_end = lossy.then(|| missing.clone());
        Self::PossibleEnd(PossibleEnd { missing, at_end, may_go_on: true, ends_early: lossy })
    }

    /// Classifies damage. In a recycled log, bytes that are not a fragment of a record may be where
    /// the log ends, and a broken fragment of this log may be a write that a crash cut off. In
    /// other logs, both are damage.
    fn of_damage(damage: &Damage) -> Self {
        let Damage { offset, dropped: bytes, own, reason, .. } = *damage;
        if !damage.may_end_log() {
            return Self::problem(offset, bytes, reason.to_string(), false);
        }
        let missing = Problem { offset, bytes, reason: reason.to_string(), torn: false };
        let at_end = own.then(|| Problem { torn: true, ..missing.clone() });
        Self::PossibleEnd(PossibleEnd { missing, at_end, may_go_on: !own, ends_early: true })
    }

    fn of_torn(torn: &Torn) -> Self {
        let Torn { offset, dropped: bytes, own, reason } = *torn;
        let problem = Problem { offset, bytes, reason: reason.to_string(), torn: true };
        match own {
            true => Self::Problem(problem),
            false => Self::PossibleEnd(PossibleEnd {
                missing: problem,
                at_end: None,
                may_go_on: true,
                ends_early: true,
            }),
        }
    }

    fn of_stale(stale: &Stale) -> Self {
        let Stale { offset, dropped: bytes, in_record, .. } = *stale;
        let reason = "a record of another log before the end of this one".to_owned();
        let missing = Problem { offset, bytes, reason, torn: false };
        let reason =
            "the log ends inside a record, before remains of an earlier use of the file".to_owned();
        let at_end = in_record.then(|| Problem { reason, torn: true, ..missing.clone() });
        Self::PossibleEnd(PossibleEnd { missing, at_end, may_go_on: !in_record, ends_early: true })
    }

    fn problem(offset: u64, bytes: u64, reason: String, torn: bool) -> Self {
        Self::Problem(Problem { offset, bytes, reason, torn })
    }
}
