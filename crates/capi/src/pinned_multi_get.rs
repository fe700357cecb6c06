//! Gets of several keys with one owner for all results. These functions came after version 11.8.

use std::ffi::{CString, c_char, c_int, c_uchar};

use tailwater::PinnedValue;

use crate::boundary::{Out, Outcome, bytes, entry, give, list};
use crate::database::rocksdb_t;
use crate::families::rocksdb_column_family_handle_t;
use crate::iterator::rocksdb_slice_t;
use crate::read_options::rocksdb_readoptions_t;

/// The states of a result.
const NOT_FOUND: c_int = 0;
const FOUND: c_int = 1;
const ERROR: c_int = 2;
const OUT_OF_BOUNDS: c_int = 3;

/// The results of a get of several keys, in the order of the keys.
pub(crate) struct rocksdb_pinnable_multi_get_t {
    results: Vec<Result<Option<PinnedValue>, CString>>,
}

fn get(
    db: &rocksdb_t,
    options: &rocksdb_readoptions_t,
    handle: &rocksdb_column_family_handle_t,
    keys: Outcome<Vec<&[u8]>>,
) -> Outcome<Vec<tailwater::Result<Option<PinnedValue>>>> {
    let keys = keys?;
    options.with(db, |options| Ok(db.db.batched_multi_get_cf_opt(&handle.family, &keys, options)))
}

fn message(failure: impl std::fmt::Display) -> CString {
    CString::new(failure.to_string().replace('\0', " ")).unwrap_or_default()
}

entry! {
    fn rocksdb_batched_multi_get_pinned_cf(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        column_family: shared rocksdb_column_family_handle_t,
        num_keys: usize,
        keys: *const rocksdb_slice_t,
        sorted_input: c_uchar,
    ) -> *mut rocksdb_pinnable_multi_get_t {
        let _ = sorted_input;
        // SAFETY: the caller passes an array of slices of bytes.
        let keys = unsafe {
            list(keys, num_keys, "keys").and_then(|keys| {
                keys.iter().map(|key| bytes(key.data, key.size, "keys")).collect()
            })
        };
        let results = match get(db, options, column_family, keys) {
            Ok(results) => {
                let failed = |error| message(crate::boundary::Failure::from(error));
                results.into_iter().map(|result| result.map_err(failed)).collect()
            }
            Err(failure) => (0..num_keys).map(|_| Err(message(&failure))).collect(),
        };
        Ok(give(rocksdb_pinnable_multi_get_t { results }))
    }
}

entry! {
    fn rocksdb_pinnable_multi_get_count(multi_get: &rocksdb_pinnable_multi_get_t) -> usize {
        Ok(multi_get.results.len())
    }
}

/// Stores a byte string.
fn set(value: &Out<*const c_char>, size: &Out<usize>, bytes: &[u8]) {
    value.set(bytes.as_ptr().cast());
    size.set(bytes.len());
}

entry! {
    fn rocksdb_pinnable_multi_get_result(
        multi_get: &rocksdb_pinnable_multi_get_t,
        index: usize,
        value: out *const c_char,
        value_size: out usize,
        error: out *const c_char,
        error_size: out usize,
    ) -> c_int {
        value.set(std::ptr::null());
        value_size.set(0);
        error.set(std::ptr::null());
        error_size.set(0);
        Ok(match multi_get.results.get(index) {
            None => OUT_OF_BOUNDS,
            Some(Ok(None)) => NOT_FOUND,
            Some(Ok(Some(found))) => {
                set(&value, &value_size, found);
                FOUND
            }
            Some(Err(failure)) => {
                set(&error, &error_size, failure.as_bytes());
                ERROR
            }
        })
    }
}

entry! {
    fn rocksdb_pinnable_multi_get_destroy(multi_get: own rocksdb_pinnable_multi_get_t) {
        drop(multi_get);
        Ok(())
    }
}
