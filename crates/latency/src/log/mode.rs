//! The modes of persisting that the experiment compares.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;
use tailwater_log::{
    Durability, IoModeChoice, LogOptions, PartialBlocks, TailMemory, TopicOptions,
};

use crate::parsing;

/// A mode of persisting: the threads that persist, the kind of I/O, and the failure that an
/// acknowledged send survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Mode {
    /// The event loop writes through the page cache
    Buffered,
    /// The event loop writes with direct I/O; no write is durable
    DirectInlineUnsynced,
    /// The event loop writes with direct I/O, each write durable
    DirectInline,
    /// Separate threads persist batches with direct I/O, each write durable
    DirectDeferred,
    /// Like direct_deferred, but a partial last block does not stay padded: it is written again
    /// with the batches that follow
    DirectDeferredCarry,
    /// Separate threads persist batches; acknowledged sends may be lost when the process ends
    Memory,
    /// Separate threads persist batches; acknowledged sends are in shared memory and survive the
    /// end of the process
    ProcessShared,
    /// Separate threads persist batches; a send is acknowledged once it is written to the segment,
    /// so it survives the end of the process
    ProcessWritten,
    /// Separate threads persist batches; a send is acknowledged once it is durable, so it survives
    /// a power cut
    Disk,
}

impl Mode {
    /// The modes that are compared if none are given on the command line.
    pub(super) const DEFAULT: [Self; 4] =
        [Self::Buffered, Self::DirectInlineUnsynced, Self::DirectInline, Self::DirectDeferred];

    /// Returns whether the event loop persists messages, instead of separate threads.
    pub(super) fn is_inline(self) -> bool {
        matches!(self, Self::Buffered | Self::DirectInlineUnsynced | Self::DirectInline)
    }

    /// Returns the options of the log and of its topic.
    pub(super) fn options(self) -> (LogOptions, TopicOptions) {
        let io_mode = match self {
            Self::Buffered => IoModeChoice::Buffered,
            _ => IoModeChoice::Direct,
        };
        let log = LogOptions::new()
            .with_append_io_mode(io_mode)
            .with_read_io_mode(io_mode)
            .with_tail_memory(TailMemory::Private);
        let topic = TopicOptions::new().with_durability(Durability::Memory);
        match self {
            Self::Buffered | Self::DirectInlineUnsynced | Self::Memory => (log, topic),
            // Each write is durable, although the topic's durability does not require it.
            Self::DirectInline | Self::DirectDeferred => (log.with_syncs_appends(true), topic),
            Self::DirectDeferredCarry => {
                (log.with_syncs_appends(true), topic.with_partial_blocks(PartialBlocks::Carry))
            }
            Self::ProcessShared => (
                log.with_tail_memory(TailMemory::Automatic),
                topic.with_durability(Durability::Process),
            ),
            Self::ProcessWritten => (log, topic.with_durability(Durability::Process)),
            Self::Disk => (log, topic.with_durability(Durability::Disk)),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&parsing::name(self))
    }
}
