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

/// Declares functions, each of which calls the method of the manager before it.
macro_rules! calls {
    ($(
        $sfm:ident.$method:ident($($value:ident)?)
        fn $name:ident($($parameters:tt)*) $(-> $return:ty)?;
    )*) => {$(
        entry! {
            fn $name($($parameters)*) $(-> $return)? {
                Ok($sfm.manager.$method($($value)?))
            }
        }
    )*};
}

calls! {
    sfm.set_max_allowed_space_usage(max_allowed_space)
    fn rocksdb_sst_file_manager_set_max_allowed_space_usage(
        sfm: shared rocksdb_sst_file_manager_t,
        max_allowed_space: u64,
    );
    sfm.set_compaction_buffer_size(compaction_buffer_size)
    fn rocksdb_sst_file_manager_set_compaction_buffer_size(
        sfm: shared rocksdb_sst_file_manager_t,
        compaction_buffer_size: u64,
    );
    sfm.is_max_allowed_space_reached()
    fn rocksdb_sst_file_manager_is_max_allowed_space_reached(
        sfm: shared rocksdb_sst_file_manager_t,
    ) -> bool;
    sfm.is_max_allowed_space_reached_including_compactions()
    fn rocksdb_sst_file_manager_is_max_allowed_space_reached_including_compactions(
        sfm: shared rocksdb_sst_file_manager_t,
    ) -> bool;
    sfm.total_size()
    fn rocksdb_sst_file_manager_get_total_size(sfm: shared rocksdb_sst_file_manager_t) -> u64;
    sfm.delete_rate_bytes_per_second()
    fn rocksdb_sst_file_manager_get_delete_rate_bytes_per_second(
        sfm: shared rocksdb_sst_file_manager_t,
    ) -> i64;
    sfm.set_delete_rate_bytes_per_second(delete_rate)
    fn rocksdb_sst_file_manager_set_delete_rate_bytes_per_second(
        sfm: shared rocksdb_sst_file_manager_t,
        delete_rate: i64,
    );
    sfm.max_trash_db_ratio()
    fn rocksdb_sst_file_manager_get_max_trash_db_ratio(
        sfm: shared rocksdb_sst_file_manager_t,
    ) -> f64;
    sfm.set_max_trash_db_ratio(ratio)
    fn rocksdb_sst_file_manager_set_max_trash_db_ratio(
        sfm: shared rocksdb_sst_file_manager_t,
        ratio: f64,
    );
    sfm.total_trash_size()
    fn rocksdb_sst_file_manager_get_total_trash_size(
        sfm: shared rocksdb_sst_file_manager_t,
    ) -> u64;
}
