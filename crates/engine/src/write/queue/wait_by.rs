//! The ways in which a thread waits.

/// What a waiting thread does before it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitBy {
    /// Spin for some microseconds, then yield for a while.
    Spins,
    /// Yield for a while.
    Yields,
    /// Sleep immediately, because the thread waits for a device, or because many other threads are
    /// ahead of it.
    Sleeps,
}
