//! Managers of tables and blob files.

use std::sync::Arc;

use tailwater::SstFileManager;

use crate::boundary::{entry, give};
use crate::env::rocksdb_env_t;
use crate::options::rocksdb_options_t;

/// A manager of tables and blob files, which databases share.
pub(crate) struct rocksdb_sst_file_manager_t {
    manager: Arc<SstFileManager>,
}

entry! {
    fn rocksdb_sst_file_manager_create(
        env: maybe rocksdb_env_t,
    ) -> *mut rocksdb_sst_file_manager_t {
        let _ = env;
        Ok(give(rocksdb_sst_file_manager_t { manager: Arc::default() }))
    }
}

entry! {
    fn rocksdb_sst_file_manager_destroy(sfm: own rocksdb_sst_file_manager_t) {
        drop(sfm);
        Ok(())
    }
}

entry! {
    fn rocksdb_options_set_sst_file_manager(
        opt: &mut rocksdb_options_t,
        sfm: shared rocksdb_sst_file_manager_t,
    ) {
        opt.sst_file_manager = Some(Arc::clone(&sfm.manager));
        Ok(())
    }
}

entry! {
    fn rocksdb_sst_file_manager_set_max_allowed_space_usage(
        sfm: shared rocksdb_sst_file_manager_t,
        max_allowed_space: u64,
    ) {
        sfm.manager.set_max_allowed_space_usage(max_allowed_space);
        Ok(())
    }
}

entry! {
    fn rocksdb_sst_file_manager_set_compaction_buffer_size(
        sfm: shared rocksdb_sst_file_manager_t,
        compaction_buffer_size: u64,
    ) {
        sfm.manager.set_compaction_buffer_size(compaction_buffer_size);
        Ok(())
    }
}

entry! {
    fn rocksdb_sst_file_manager_is_max_allowed_space_reached(
        sfm: shared rocksdb_sst_file_manager_t,
    ) -> bool {
        Ok(sfm.manager.is_max_allowed_space_reached())
    }
}

entry! {
    fn rocksdb_sst_file_manager_is_max_allowed_space_reached_including_compactions(
        sfm: shared rocksdb_sst_file_manager_t,
    ) -> bool {
        Ok(sfm.manager.is_max_allowed_space_reached_including_compactions())
    }
}

entry! {
    fn rocksdb_sst_file_manager_get_total_size(sfm: shared rocksdb_sst_file_manager_t) -> u64 {
        Ok(sfm.manager.total_size())
    }
}

entry! {
    fn rocksdb_sst_file_manager_get_delete_rate_bytes_per_second(
        sfm: shared rocksdb_sst_file_manager_t,
    ) -> i64 {
        Ok(sfm.manager.delete_rate_bytes_per_second())
    }
}

entry! {
    fn rocksdb_sst_file_manager_set_delete_rate_bytes_per_second(
        sfm: shared rocksdb_sst_file_manager_t,
        delete_rate: i64,
    ) {
        sfm.manager.set_delete_rate_bytes_per_second(delete_rate);
        Ok(())
    }
}

entry! {
    fn rocksdb_sst_file_manager_get_max_trash_db_ratio(
        sfm: shared rocksdb_sst_file_manager_t,
    ) -> f64 {
        Ok(sfm.manager.max_trash_db_ratio())
    }
}

entry! {
    fn rocksdb_sst_file_manager_set_max_trash_db_ratio(
        sfm: shared rocksdb_sst_file_manager_t,
        ratio: f64,
    ) {
        sfm.manager.set_max_trash_db_ratio(ratio);
        Ok(())
    }
}

entry! {
    fn rocksdb_sst_file_manager_get_total_trash_size(
        sfm: shared rocksdb_sst_file_manager_t,
    ) -> u64 {
        Ok(sfm.manager.total_trash_size())
    }
}
