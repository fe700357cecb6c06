//! How each recovery mode treats the events that a log reader returns: records, damage and the end
//! of the log.

use super::event::{DamageReason, Event, Stale};

/// The damage that a database accepts in its write-ahead logs when it is opened:
/// `wal_recovery_mode`.
///
/// A MANIFEST is read under [`RecoveryMode::TolerateCorruptedTailRecords`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RecoveryMode {
    /// A log may end inside its last record. Any other problem is an error.
    TolerateCorruptedTailRecords,
    /// Any problem is an error, even an incomplete record at the end of a log.
    AbsoluteConsistency,
    /// Every record before the first problem is recovered, and no record after it.
    #[default]
    PointInTime,
    /// Every readable record is recovered, even if there is damage before it.
    SkipAnyCorruptedRecords,
}

/// The action to take after an event. A program treats a verdict that it does not know as
/// [`Verdict::Fail`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Accept the event and continue reading.
    Continue,
    /// This log ends here, which is permitted. Replay continues with the next log.
    End,
    /// Replay ends at this event, and later logs are ignored. There is one exception: if the first
    /// batch of a later log has the next sequence number, nothing is missing, and replay continues
    /// with that log.
    StopReplay,
    /// The database cannot be opened in this mode.
    Fail,
}

impl RecoveryMode {
    /// Returns what RocksDB does in this mode after `event`, judged by that event alone. RocksDB
    /// reads a log up to the first event whose verdict is not [`Verdict::Continue`]. A reader that
    /// also considers what follows in the log may accept or refuse more.
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

    /// Returns the verdict on a log that ends inside a record. A crash can leave such a log; but if
    /// a later log has records, data is missing.
    fn torn(self) -> Verdict {
        match self {
            Self::TolerateCorruptedTailRecords | Self::SkipAnyCorruptedRecords => Verdict::End,
            Self::AbsoluteConsistency => Verdict::Fail,
            Self::PointInTime => Verdict::StopReplay,
        }
    }

    /// Returns the verdict on a log that is followed by fragments of an earlier log in the same
    /// file.
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
