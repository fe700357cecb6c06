//! Rate limiters whose requests are counted.

use std::fmt;
use std::sync::Arc;

use super::{OpType, Priority, RateLimiter};

/// Counts requests to a rate limiter. Databases may share a limiter, but not their counts.
pub trait RequestCounts: fmt::Debug + Send + Sync {
    /// Counts a drain: the bytes of a refill are used up, and a request waits for the next one.
    /// Other requests that wait for the same refill are not counted.
    fn drained(&self);

    /// Counts a request that was granted, which waited for `waited_us` microseconds; `None` if it
    /// did not wait. A request that exceeds one burst counts once for each part.
    fn granted(&self, op_type: OpType, bytes: u64, waited_us: Option<u64>);
}

/// A rate limiter, together with what counts the requests that are made through this value.
#[derive(Debug, Clone)]
pub struct CountedLimiter {
    limiter: Arc<RateLimiter>,
    counts: Option<Arc<dyn RequestCounts>>,
}

impl CountedLimiter {
    /// Creates the value. With `None`, the requests are not counted.
    pub fn new(limiter: Arc<RateLimiter>, counts: Option<Arc<dyn RequestCounts>>) -> Self {
        Self { limiter, counts }
    }

    /// Like [`RateLimiter::request_of`], and counts the request.
    pub fn request(&self, op_type: OpType, bytes: u64, priority: Priority) {
        self.limiter.request_counted(op_type, bytes, priority, self.counts.as_deref());
    }
}
