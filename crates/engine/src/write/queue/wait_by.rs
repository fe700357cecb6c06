//! The ways in which a thread waits.

/// The action of a waiting thread before it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitBy {
    /// Spin for some microseconds, then yield for a while.
    Spins,
    /// Yield for a while.
    Yields,
    /// Nothing: it waits for a device, or behind many others.
    Sleeps,
}
