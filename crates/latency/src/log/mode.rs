//! The modes of persisting that the experiment compares.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;
use tailwater_log::{Durability, IoModeChoice, PartialBlocks, TailMemory};

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

    pub(super) fn io_mode(self) -> IoModeChoice {
        match self {
            Self::Buffered => IoModeChoice::Buffered,
            _ => IoModeChoice::Direct,
        }
    }

    /// Returns whether each write to a segment is made durable, although the topic's durability
    /// does not require it.
    pub(super) fn is_synced(self) -> bool {
        matches!(self, Self::DirectInline | Self::DirectDeferred | Self::DirectDeferredCarry)
    }

    pub(super) fn durability(self) -> Durability {
        match self {
            Self::Memory | Self::Buffered | Self::DirectInlineUnsynced => Durability::Memory,
            Self::DirectInline | Self::DirectDeferred | Self::DirectDeferredCarry => {
                Durability::Memory
            }
            Self::ProcessShared | Self::ProcessWritten => Durability::Process,
            Self::Disk => Durability::Disk,
        }
    }

    pub(super) fn tail_memory(self) -> TailMemory {
        match self {
            Self::ProcessShared => TailMemory::Automatic,
            _ => TailMemory::Private,
        }
    }

    pub(super) fn partial_blocks(self) -> PartialBlocks {
        match self {
            Self::DirectDeferredCarry => PartialBlocks::Carry,
            _ => PartialBlocks::Pad,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_possible_value() {
            Some(value) => f.write_str(value.get_name()),
            None => Ok(()),
        }
    }
}
