//! The ways in which a thread waits.

/// What a waiting thread does before it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitBy {
    /// Spin for some microseconds, then yield for a while.
    Spins,
    /// Yield for a while.
    Yields,
    /// Nothing: it sleeps immediately, because it waits for a device, or because many other threads
    /// are ahead of it.
    Sleeps,
}
