//! Other ways to open a database.

use super::prelude::*;

missing! {
    refuse fn rocksdb_create_column_family_with_ttl(
        db: *mut rocksdb_t,
        column_family_options: *const rocksdb_options_t,
        column_family_name: *const c_char,
        ttl: c_int,
        errptr,
    ) -> *mut rocksdb_column_family_handle_t;
    refuse fn rocksdb_open_as_secondary(
        options: *const rocksdb_options_t,
        name: *const c_char,
        secondary_path: *const c_char,
        errptr,
    ) -> *mut rocksdb_t;
    refuse fn rocksdb_open_as_secondary_column_families(
        options: *const rocksdb_options_t,
        name: *const c_char,
        secondary_path: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr,
    ) -> *mut rocksdb_t;
    refuse fn rocksdb_open_column_families_with_ttl(
        options: *const rocksdb_options_t,
        name: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        ttls: *const c_int,
        errptr,
    ) -> *mut rocksdb_t;
    refuse fn rocksdb_open_with_ttl(
        options: *const rocksdb_options_t,
        name: *const c_char,
        ttl: c_int,
        errptr,
    ) -> *mut rocksdb_t;
    refuse fn rocksdb_repair_db(options: *const rocksdb_options_t, name: *const c_char, errptr);
    refuse fn rocksdb_try_catch_up_with_primary(db: *mut rocksdb_t, errptr);
}
