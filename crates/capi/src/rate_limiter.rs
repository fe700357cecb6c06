//! Rate limiters.

use std::ffi::c_int;
use std::sync::Arc;

use tailwater::{RateLimiter, RateLimiterMode};

use crate::boundary::{entry, give};

/// A rate limiter, which databases share.
pub(crate) struct rocksdb_ratelimiter_t {
    pub(crate) limiter: Arc<RateLimiter>,
}

impl rocksdb_ratelimiter_t {
    fn new(
        bytes_per_second: i64,
        refill_period_us: i64,
        fairness: i32,
        mode: RateLimiterMode,
        is_auto_tuned: bool,
    ) -> Self {
        let limiter = RateLimiter::new(u64::try_from(bytes_per_second).unwrap_or(1))
            .with_refill_period(u64::try_from(refill_period_us).unwrap_or(1))
            .with_fairness(u32::try_from(fairness).unwrap_or(1))
            .with_mode(mode);
        let limiter = if is_auto_tuned { limiter.with_auto_tuning() } else { limiter };
        Self { limiter: Arc::new(limiter) }
    }
}

entry! {
    fn rocksdb_ratelimiter_create(
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
    ) -> *mut rocksdb_ratelimiter_t {
        let mode = RateLimiterMode::WritesOnly;
        let limiter =
            rocksdb_ratelimiter_t::new(rate_bytes_per_sec, refill_period_us, fairness, mode, false);
        Ok(give(limiter))
    }
}

entry! {
    fn rocksdb_ratelimiter_create_auto_tuned(
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
    ) -> *mut rocksdb_ratelimiter_t {
        let mode = RateLimiterMode::WritesOnly;
        let limiter =
            rocksdb_ratelimiter_t::new(rate_bytes_per_sec, refill_period_us, fairness, mode, true);
        Ok(give(limiter))
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
        let mode = match mode {
            0 => RateLimiterMode::ReadsOnly,
            1 => RateLimiterMode::WritesOnly,
            // As in RocksDB, a mode that does not exist excludes nothing.
            _ => RateLimiterMode::AllIo,
        };
        let limiter = rocksdb_ratelimiter_t::new(
            rate_bytes_per_sec,
            refill_period_us,
            fairness,
            mode,
            auto_tuned,
        );
        Ok(give(limiter))
    }
}

entry! {
    fn rocksdb_ratelimiter_destroy(limiter: own rocksdb_ratelimiter_t) {
        drop(limiter);
        Ok(())
    }
}
