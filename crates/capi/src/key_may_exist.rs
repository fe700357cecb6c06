//! `rocksdb_key_may_exist`: reads the key, so that its answer is exact.

use std::ffi::{c_char, c_uchar};

use tailwater::ColumnFamily;

use crate::boundary::{Failure, Out, Outcome, copy_bytes, entry};
use crate::database::rocksdb_t;
use crate::families::rocksdb_column_family_handle_t;
use crate::read_options::rocksdb_readoptions_t;

/// The places for the value.
struct Place {
    value: Out<*mut c_char>,
    length: Out<usize>,
    is_found: Out<c_uchar>,
}

fn key_may_exist(
    db: &rocksdb_t,
    options: &rocksdb_readoptions_t,
    family: &ColumnFamily,
    key: &[u8],
    timestamp: Option<&[u8]>,
    to: &Place,
) -> Outcome<c_uchar> {
    to.is_found.set(0);
    if timestamp.is_some() {
        return Err(Failure::missing("rocksdb_key_may_exist with a timestamp"));
    }
    match db.db.get_pinned_cf_opt(family, key, &*options.ready(db)?) {
        Ok(None) => Ok(0),
        Ok(Some(value)) => {
            if !to.is_found.is_null() {
                to.is_found.set(1);
                to.length.set(value.len());
                to.value.set(copy_bytes(&value));
            }
            Ok(1)
        }
        // What cannot be read may exist.
        Err(_) => Ok(1),
    }
}

entry! {
    fn rocksdb_key_may_exist(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        key: bytes[key_len],
        value: out *mut c_char,
        val_len: out usize,
        timestamp: option[timestamp_len],
        value_found: out c_uchar,
    ) -> c_uchar {
        let to = Place { value, length: val_len, is_found: value_found };
        key_may_exist(db, options, db.db.default_cf(), key, timestamp, &to)
    }
}

entry! {
    fn rocksdb_key_may_exist_cf(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        column_family: shared rocksdb_column_family_handle_t,
        key: bytes[key_len],
        value: out *mut c_char,
        val_len: out usize,
        timestamp: option[timestamp_len],
        value_found: out c_uchar,
    ) -> c_uchar {
        let to = Place { value, length: val_len, is_found: value_found };
        key_may_exist(db, options, &column_family.family, key, timestamp, &to)
    }
}
