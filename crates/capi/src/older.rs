//! Functions that earlier versions of the library had, for programs that were linked with them.

use std::ffi::{c_int, c_uchar};

use crate::block_based_options::rocksdb_block_based_table_options_t;
use crate::boundary::{Failure, entry};
use crate::cache::rocksdb_cache_t;
use crate::database::rocksdb_t;
use crate::options::rocksdb_options_t;
use crate::read_options::rocksdb_readoptions_t;

entry! {
    fn rocksdb_block_based_options_set_block_cache_compressed(
        options: maybe rocksdb_block_based_table_options_t,
        block_cache_compressed: maybe rocksdb_cache_t,
    ) {
        let _ = (options, block_cache_compressed);
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_access_hint_on_compaction_start(
        opt: maybe rocksdb_options_t,
        v: c_int,
    ) {
        let _ = (opt, v);
        Ok(())
    }
}

entry! {
    fn rocksdb_options_get_access_hint_on_compaction_start(
        opt: maybe rocksdb_options_t,
    ) -> c_int {
        let _ = opt;
        Ok(1)
    }
}

entry! {
    fn rocksdb_options_set_max_write_buffer_number_to_maintain(
        opt: maybe rocksdb_options_t,
        v: c_int,
    ) {
        let _ = (opt, v);
        Ok(())
    }
}

entry! {
    fn rocksdb_options_get_max_write_buffer_number_to_maintain(
        opt: maybe rocksdb_options_t,
    ) -> c_int {
        let _ = opt;
        Ok(0)
    }
}

entry! {
    fn rocksdb_options_set_skip_checking_sst_file_sizes_on_db_open(
        opt: maybe rocksdb_options_t,
        v: c_uchar,
    ) {
        let _ = (opt, v);
        Ok(())
    }
}

entry! {
    fn rocksdb_options_get_skip_checking_sst_file_sizes_on_db_open(
        opt: maybe rocksdb_options_t,
    ) -> c_uchar {
        let _ = opt;
        Ok(0)
    }
}

entry! {
    fn rocksdb_readoptions_set_managed(opt: maybe rocksdb_readoptions_t, v: c_uchar) {
        let _ = (opt, v);
        Ok(())
    }
}

entry! {
    /// Refused: without an error pointer, the next call on the database fails.
    fn rocksdb_delete_file(db: shared rocksdb_t, name: text) {
        let _ = name;
        db.marks.refuse("rocksdb_delete_file");
        Err(Failure::missing("rocksdb_delete_file"))
    }
}
