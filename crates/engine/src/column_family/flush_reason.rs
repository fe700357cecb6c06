//! The reasons why memtables are sealed and flushed.

use crate::stats::Ticker;

/// The reason why a memtable was sealed, and is flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushReason {
    /// A memtable has reached `write_buffer_size`.
    WriteBufferFull,
    /// A memtable has reached `memtable_max_range_deletions`.
    RangeDeletions,
    /// Memtables come near the limit of the write buffer manager.
    WriteBufferManager,
    /// Any other reason, such as a call that requests a flush, or the limit of the logs.
    Other,
}

impl FlushReason {
    /// Whether the memtable is flushed immediately, even if its family has fewer than
    /// `min_write_buffer_number_to_merge` sealed ones.
    pub(crate) fn is_urgent(self) -> bool {
        matches!(self, Self::WriteBufferManager | Self::Other)
    }

    /// Returns the ticker that counts flushes for this reason.
    pub(crate) fn ticker(self) -> Option<Ticker> {
        match self {
            Self::WriteBufferFull => Some(Ticker::FlushReasonWriteBufferFull),
            Self::RangeDeletions => Some(Ticker::FlushReasonRangeDeletions),
            Self::WriteBufferManager => Some(Ticker::FlushReasonWriteBufferManager),
            Self::Other => None,
        }
    }

    /// Returns the ticker that counts atomic flushes that were requested for this reason.
    pub(crate) fn atomic_request_ticker(self) -> Ticker {
        match self {
            Self::WriteBufferFull => Ticker::AtomicFlushRequestWriteBufferFull,
            Self::RangeDeletions => Ticker::AtomicFlushRequestRangeDeletions,
            Self::WriteBufferManager => Ticker::AtomicFlushRequestWriteBufferManager,
            Self::Other => Ticker::AtomicFlushRequestOther,
        }
    }
}
