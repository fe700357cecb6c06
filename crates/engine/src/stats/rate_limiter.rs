//! Counts the requests of a database to its rate limiter.

use std::sync::Arc;

use tailwater_io::pace::{CountedLimiter, OpType, RateLimiter, RequestCounts};

use super::{Histogram, Statistics, Ticker};

impl Statistics {
    /// Returns a rate limiter that counts its requests in `statistics`.
    pub(crate) fn counting(
        limiter: Arc<RateLimiter>,
        statistics: Option<Arc<Self>>,
    ) -> CountedLimiter {
        CountedLimiter::new(limiter, statistics.map(|it| it as Arc<dyn RequestCounts>))
    }
}

impl RequestCounts for Statistics {
    fn drained(&self) {
        self.add(Ticker::RateLimiterDrains, 1);
    }

    fn granted(&self, op_type: OpType, bytes: u64, waited_us: Option<u64>) {
        let (requests, granted, delayed, waited, wait) = match op_type {
            OpType::Read => (
                Ticker::RateLimiterRequestsRead,
                Ticker::RateLimiterBytesRead,
                Ticker::RateLimiterDelayedRead,
                Ticker::RateLimiterWaitMicrosRead,
                Histogram::RateLimiterWaitRead,
            ),
            OpType::Write => (
                Ticker::RateLimiterRequestsWrite,
                Ticker::RateLimiterBytesWrite,
                Ticker::RateLimiterDelayedWrite,
                Ticker::RateLimiterWaitMicrosWrite,
                Histogram::RateLimiterWaitWrite,
            ),
        };
        let recorder = self.recorder();
        recorder.add(requests, 1);
        recorder.add(granted, bytes);
        if let Some(waited_us) = waited_us {
            recorder.add(delayed, 1);
            recorder.add(waited, waited_us);
            recorder.record(wait, waited_us);
        }
    }
}
