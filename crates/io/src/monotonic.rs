//! The monotonic time, for modules below [`crate::clock`].

use std::sync::LazyLock;
use std::time::Instant;

/// Returns the nanoseconds since the first call in this process. Never decreases.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}
