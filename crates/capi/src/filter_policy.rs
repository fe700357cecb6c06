//! Filter policies.

use std::ffi::c_int;

use tailwater::options::FilterPolicy;

use crate::boundary::{entry, give};

/// A filter policy. The options that it is given to own it.
pub(crate) struct rocksdb_filterpolicy_t {
    pub(crate) policy: FilterPolicy,
}

entry! {
    fn rocksdb_filterpolicy_create_bloom(bits_per_key: f64) -> *mut rocksdb_filterpolicy_t {
        Ok(give(rocksdb_filterpolicy_t { policy: FilterPolicy::Bloom { bits_per_key } }))
    }
}

entry! {
    fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> *mut rocksdb_filterpolicy_t {
        Ok(give(rocksdb_filterpolicy_t { policy: FilterPolicy::Bloom { bits_per_key } }))
    }
}

/// Returns a policy for Ribbon filters.
fn ribbon(bloom_equivalent_bits_per_key: f64, bloom_before_level: i32) -> rocksdb_filterpolicy_t {
    let policy = FilterPolicy::Ribbon { bloom_equivalent_bits_per_key, bloom_before_level };
    rocksdb_filterpolicy_t { policy }
}

entry! {
    fn rocksdb_filterpolicy_create_ribbon(
        bloom_equivalent_bits_per_key: f64,
    ) -> *mut rocksdb_filterpolicy_t {
        // -1: no level gets Bloom filters.
        Ok(give(ribbon(bloom_equivalent_bits_per_key, -1)))
    }
}

entry! {
    fn rocksdb_filterpolicy_create_ribbon_hybrid(
        bloom_equivalent_bits_per_key: f64,
        bloom_before_level: c_int,
    ) -> *mut rocksdb_filterpolicy_t {
        Ok(give(ribbon(bloom_equivalent_bits_per_key, bloom_before_level)))
    }
}

entry! {
    fn rocksdb_filterpolicy_destroy(filter_policy: own rocksdb_filterpolicy_t) {
        drop(filter_policy);
        Ok(())
    }
}
