//! Causes of slow reads.

use tailwater_io::attribution::Spent;

/// What the time of a slow read went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlowReadCause {
    /// Waiting for a processor.
    Processor,
    /// Reading from files.
    Device,
    /// Waiting for locks, and for other threads.
    Lock,
    /// Checking and decompressing blocks and blobs.
    Unpacking,
    /// All other computing: searching memtables and tables, stepping over old versions and
    /// deletions, merging, copying.
    Work,
    /// None of the other causes: for example, a hypervisor ran something else.
    Unexplained,
}

impl SlowReadCause {
    /// All causes.
    pub const ALL: [Self; 6] =
        [Self::Processor, Self::Device, Self::Lock, Self::Unpacking, Self::Work, Self::Unexplained];

    /// Returns the cause's name in properties and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Processor => "processor",
            Self::Device => "device",
            Self::Lock => "lock",
            Self::Unpacking => "unpacking",
            Self::Work => "work",
            Self::Unexplained => "unexplained",
        }
    }

    /// Returns the time that went to this cause, in nanoseconds.
    pub(super) fn of(self, spent: &Spent) -> u64 {
        match self {
            Self::Processor => spent.processor_ns,
            Self::Device => spent.device_ns,
            Self::Lock => spent.lock_ns,
            Self::Unpacking => spent.unpacking_ns,
            Self::Work => spent.work_ns,
            Self::Unexplained => spent.unexplained_ns(),
        }
    }
}
