//! `rocksdb_key_may_exist`: reads the key, so that its answer is exact.

use std::ffi::{c_char, c_uchar};

use tailwater::{ColumnFamily, ReadOptions};

use crate::boundary::{Out, copy_bytes, entry};
use crate::database::rocksdb_t;
use crate::families::rocksdb_column_family_handle_t;
use crate::read_options::rocksdb_readoptions_t;

/// The answer that makes the program read the key.
const MAY_EXIST: c_uchar = 1;

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
) -> c_uchar {
    to.is_found.set(0);
    if timestamp.is_some() {
        db.marks.refuse("rocksdb_key_may_exist with a timestamp");
        return MAY_EXIST;
    }
    // What cannot be read may exist.
    let read = |options: &ReadOptions| Ok(db.db.get_pinned_cf_opt(family, key, options)?);
    match options.with(db, read) {
        Ok(None) => 0,
        Ok(Some(value)) => {
            if !to.is_found.is_null() && !to.value.is_null() {
                to.is_found.set(1);
                to.length.set(value.len());
                to.value.set(copy_bytes(&value));
            }
            MAY_EXIST
        }
        Err(_) => MAY_EXIST,
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
        Ok(key_may_exist(db, options, db.db.default_cf(), key, timestamp, &to))
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
        Ok(key_may_exist(db, options, &column_family.family, key, timestamp, &to))
    }
}
