//! Rate limiters.

use std::ffi::c_int;
use std::sync::Arc;

use tailwater::{RateLimiter, RateLimiterMode, RateLimiterPriority};

use crate::boundary::{entry, give};

/// A rate limiter, which databases share.
pub(crate) struct rocksdb_ratelimiter_t {
    pub(crate) limiter: Arc<RateLimiter>,
}

/// Creates a limiter at a fixed rate, in bytes per second. Negative values count as 1.
fn limiter(rate: i64, refill_period_us: i64, fairness: i32) -> RateLimiter {
    RateLimiter::new(u64::try_from(rate).unwrap_or(1))
        .with_refill_period(u64::try_from(refill_period_us).unwrap_or(1))
        .with_fairness(u32::try_from(fairness).unwrap_or(1))
}

fn give_limiter(limiter: RateLimiter) -> *mut rocksdb_ratelimiter_t {
    give(rocksdb_ratelimiter_t { limiter: Arc::new(limiter) })
}

/// A priority, as programs set it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IoPriority(pub(crate) c_int);

impl Default for IoPriority {
    /// `IO_TOTAL`: a call is not charged to the rate limiter.
    fn default() -> Self {
        Self(4)
    }
}

impl IoPriority {
    /// Returns the priority; `None` for `IO_TOTAL` and for numbers that RocksDB does not define.
    pub(crate) fn priority(self) -> Option<RateLimiterPriority> {
        match self.0 {
            0 => Some(RateLimiterPriority::Low),
            1 => Some(RateLimiterPriority::Mid),
            2 => Some(RateLimiterPriority::High),
            3 => Some(RateLimiterPriority::User),
            _ => None,
        }
    }

    /// Whether RocksDB defines the number.
    pub(crate) fn is_defined(self) -> bool {
        (0..=4).contains(&self.0)
    }
}

entry! {
    fn rocksdb_ratelimiter_create(
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
    ) -> *mut rocksdb_ratelimiter_t {
        Ok(give_limiter(limiter(rate_bytes_per_sec, refill_period_us, fairness)))
    }
}

entry! {
    fn rocksdb_ratelimiter_create_auto_tuned(
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
    ) -> *mut rocksdb_ratelimiter_t {
        let limiter = limiter(rate_bytes_per_sec, refill_period_us, fairness);
        Ok(give_limiter(limiter.with_auto_tuning()))
    }
}

entry! {
    fn rocksdb_ratelimiter_create_with_mode(
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
        mode: c_int,
        auto_tuned: bool,
    ) -> *mut rocksdb_ratelimiter_t {
        let limiter = limiter(rate_bytes_per_sec, refill_period_us, fairness);
        let limiter = limiter.with_mode(match mode {
            0 => RateLimiterMode::ReadsOnly,
            1 => RateLimiterMode::WritesOnly,
            // As in RocksDB, a mode that does not exist excludes nothing.
            _ => RateLimiterMode::AllIo,
        });
        Ok(give_limiter(if auto_tuned { limiter.with_auto_tuning() } else { limiter }))
    }
}

entry! {
    fn rocksdb_ratelimiter_destroy(limiter: own rocksdb_ratelimiter_t) {
        drop(limiter);
        Ok(())
    }
}
