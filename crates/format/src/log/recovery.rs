//! What a recovery mode makes of what a reader finds.

use super::event::{DamageReason, Event, Stale};

/// How much damage a database accepts in its write-ahead logs when it opens: `wal_recovery_mode`.
///
/// A MANIFEST is read under [`RecoveryMode::TolerateCorruptedTailRecords`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RecoveryMode {
    /// A log may end before its last record is complete; anything else is an error.
    TolerateCorruptedTailRecords,
    /// Nothing may be wrong, not even at the end.
    AbsoluteConsistency,
    /// Everything before the first thing that is wrong is recovered, nothing after it.
    #[default]
    PointInTime,
    /// Every record that can be read is recovered, whatever lies between.
    SkipAnyCorruptedRecords,
}

/// What is to be done after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Take the event and read on.
    Continue,
    /// This log ends here as it may; the next one follows.
    End,
    /// Replay ends here. Later logs are left out, but for one whose first batch has the very next
    /// sequence number: then nothing is missing, and replay goes on with it.
    StopReplay,
    /// The database cannot be opened in this mode.
    Fail,
}

impl RecoveryMode {
    /// What this mode does after `event`, the first of its log that is not answered by
    /// [`Verdict::Continue`].
    pub fn verdict(self, event: &Event<'_>) -> Verdict {
        match event {
            Event::Record(_)
            | Event::TimestampSizes(_)
            | Event::Predecessor(_)
            | Event::Skipped(_) => Verdict::Continue,
            Event::End => Verdict::End,
            Event::Torn(_) => self.torn(),
            Event::Stale(stale) => self.stale(*stale),
            Event::Damage(damage) => {
                let may_be_stale = damage.recycled
                    && matches!(
                        damage.reason,
                        DamageReason::Checksum { .. } | DamageReason::Length { .. }
                    );
                match self {
                    Self::SkipAnyCorruptedRecords => Verdict::Continue,
                    Self::TolerateCorruptedTailRecords if may_be_stale => Verdict::End,
                    Self::PointInTime => Verdict::StopReplay,
                    Self::TolerateCorruptedTailRecords | Self::AbsoluteConsistency => Verdict::Fail,
                }
            }
        }
    }

    /// The log ends too early: what a crash leaves behind, but also a hole if a later log has
    /// records.
    fn torn(self) -> Verdict {
        match self {
            Self::TolerateCorruptedTailRecords | Self::SkipAnyCorruptedRecords => Verdict::End,
            Self::AbsoluteConsistency => Verdict::Fail,
            Self::PointInTime => Verdict::StopReplay,
        }
    }

    /// The log ends before what an earlier use of its file left behind.
    fn stale(self, stale: Stale) -> Verdict {
        match self {
            Self::SkipAnyCorruptedRecords => Verdict::Continue,
            Self::TolerateCorruptedTailRecords => Verdict::End,
            Self::AbsoluteConsistency if stale.in_record => Verdict::Fail,
            Self::AbsoluteConsistency => Verdict::End,
            Self::PointInTime => Verdict::StopReplay,
        }
    }
}
