//! Options of file accesses by a writer of tables. They have no effect.

use crate::boundary::{entry, give};
use crate::marks::Marks;
use crate::rate_limiter::rocksdb_ratelimiter_t;

/// Options of file accesses.
#[derive(Clone)]
pub(crate) struct rocksdb_envoptions_t {
    pub(crate) allow_fallocate: bool,
    pub(crate) bytes_per_sync: u64,
    pub(crate) compaction_readahead_size: usize,
    pub(crate) fallocate_with_keep_size: bool,
    pub(crate) fd_cloexec: bool,
    pub(crate) strict_bytes_per_sync: bool,
    pub(crate) use_direct_reads: bool,
    pub(crate) use_direct_writes: bool,
    pub(crate) use_mmap_reads: bool,
    pub(crate) use_mmap_writes: bool,
    pub(crate) writable_file_max_buffer_size: usize,
    pub(crate) marks: Marks,
}

impl Default for rocksdb_envoptions_t {
    fn default() -> Self {
        Self {
            allow_fallocate: true,
            bytes_per_sync: 0,
            compaction_readahead_size: 2 << 20,
            fallocate_with_keep_size: true,
            fd_cloexec: true,
            strict_bytes_per_sync: false,
            use_direct_reads: false,
            use_direct_writes: false,
            use_mmap_reads: false,
            use_mmap_writes: false,
            writable_file_max_buffer_size: 1 << 20,
            marks: Marks::default(),
        }
    }
}

entry! {
    fn rocksdb_envoptions_create() -> *mut rocksdb_envoptions_t {
        Ok(give(rocksdb_envoptions_t::default()))
    }
}

entry! {
    fn rocksdb_envoptions_destroy(opt: own rocksdb_envoptions_t) {
        drop(opt);
        Ok(())
    }
}

entry! {
    fn rocksdb_envoptions_set_rate_limiter(
        opt: shared rocksdb_envoptions_t,
        rate_limiter: maybe rocksdb_ratelimiter_t,
    ) {
        if rate_limiter.is_some() {
            opt.marks.note("rocksdb_envoptions_set_rate_limiter");
        }
        Ok(())
    }
}
