//! Rate limiters.

use std::ffi::c_int;
use std::sync::Arc;

use tailwater::RateLimiter;

use crate::boundary::{entry, give};
use crate::marks::Marks;

/// RocksDB's mode in which only writes are limited.
const WRITES_ONLY: c_int = 1;

/// A rate limiter, which databases share.
pub(crate) struct rocksdb_ratelimiter_t {
    pub(crate) limiter: Arc<RateLimiter>,
    pub(crate) marks: Marks,
}

impl rocksdb_ratelimiter_t {
    fn new(bytes_per_second: i64, refill_period_us: i64, fairness: i32) -> Self {
        let limiter = RateLimiter::new(u64::try_from(bytes_per_second).unwrap_or(1))
            .with_refill_period(u64::try_from(refill_period_us).unwrap_or(1))
            .with_fairness(u32::try_from(fairness).unwrap_or(1));
        Self { limiter: Arc::new(limiter), marks: Marks::default() }
    }
}

entry! {
    fn rocksdb_ratelimiter_create(
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
    ) -> *mut rocksdb_ratelimiter_t {
        Ok(give(rocksdb_ratelimiter_t::new(rate_bytes_per_sec, refill_period_us, fairness)))
    }
}

entry! {
    /// The rate stays the given one, which is the upper bound of a tuned rate.
    fn rocksdb_ratelimiter_create_auto_tuned(
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
    ) -> *mut rocksdb_ratelimiter_t {
        let limiter = rocksdb_ratelimiter_t::new(rate_bytes_per_sec, refill_period_us, fairness);
        limiter.marks.note("rocksdb_ratelimiter_create_auto_tuned: the tuning");
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
        let limiter = rocksdb_ratelimiter_t::new(rate_bytes_per_sec, refill_period_us, fairness);
        if mode != WRITES_ONLY {
            limiter.marks.note("rocksdb_ratelimiter_create_with_mode: the mode");
        }
        if auto_tuned {
            limiter.marks.note("rocksdb_ratelimiter_create_with_mode: the tuning");
        }
        Ok(give(limiter))
    }
}

entry! {
    fn rocksdb_ratelimiter_destroy(limiter: own rocksdb_ratelimiter_t) {
        drop(limiter);
        Ok(())
    }
}
