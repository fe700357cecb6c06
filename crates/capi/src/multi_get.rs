//! Gets of several keys.

use std::ffi::c_char;
use std::ptr;

use tailwater::{ColumnFamily, PinnedValue};

use crate::boundary::{
    Failure, Outcome, bytes, copy_bytes, copy_text, entry, list, pointers, slices,
};
use crate::database::rocksdb_t;
use crate::families::rocksdb_column_family_handle_t;
use crate::iterator::rocksdb_slice_t;
use crate::pinned_value::rocksdb_pinnableslice_t;
use crate::read_options::rocksdb_readoptions_t;

/// The arrays of a call of `rocksdb_multi_get`.
struct Values {
    values: *mut *mut c_char,
    lengths: *mut usize,
    errors: *mut *mut c_char,
}

impl Values {
    /// Stores the result of one key.
    ///
    /// # Safety
    /// The arrays have more than `at` items.
    unsafe fn set(&self, at: usize, result: Outcome<Option<PinnedValue>>) {
        let (value, length, error) = match result {
            Ok(Some(value)) => (copy_bytes(&value), value.len(), ptr::null_mut()),
            Ok(None) => (ptr::null_mut(), 0, ptr::null_mut()),
            Err(failure) => (ptr::null_mut(), 0, copy_text(&failure.to_string())),
        };
        // SAFETY: see above.
        unsafe {
            self.values.add(at).write(value);
            self.lengths.add(at).write(length);
            self.errors.add(at).write(error);
        }
    }
}

/// The keys of the call, with their column families.
type Keys<'a> = Vec<(&'a ColumnFamily, &'a [u8])>;

/// Gets keys, and stores the results.
///
/// # Safety
/// The arrays in `to` have `count` items.
unsafe fn multi_get(
    db: &rocksdb_t,
    options: &rocksdb_readoptions_t,
    count: usize,
    keys: Outcome<Keys<'_>>,
    to: &Values,
) {
    let got = keys
        .and_then(|keys| options.with(db, |options| Ok(db.db.multi_get_cf_opt(&keys, options))));
    match got {
        Ok(results) => {
            for (at, result) in results.into_iter().enumerate() {
                // SAFETY: see above.
                unsafe { to.set(at, result.map_err(Failure::from)) };
            }
        }
        Err(failure) => {
            for at in 0..count {
                // SAFETY: see above.
                unsafe { to.set(at, Err(failure.clone())) };
            }
        }
    }
}

entry! {
    fn rocksdb_multi_get(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    ) {
        let to = Values { values: values_list, lengths: values_list_sizes, errors: errs };
        // SAFETY: the caller passes arrays of this length.
        let keys = unsafe { slices(keys_list, keys_list_sizes, num_keys, "keys_list") };
        let family = db.db.default_cf();
        let keys = keys.map(|keys| keys.into_iter().map(|key| (family, key)).collect());
        // SAFETY: the caller passes arrays of this length.
        unsafe { multi_get(db, options, num_keys, keys, &to) };
        Ok(())
    }
}

entry! {
    fn rocksdb_multi_get_cf(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        column_families: *const *const rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    ) {
        let to = Values { values: values_list, lengths: values_list_sizes, errors: errs };
        // SAFETY: the caller passes arrays of this length.
        let keys = unsafe {
            pointers(column_families, num_keys, "column_families").and_then(|families| {
                let keys = slices(keys_list, keys_list_sizes, num_keys, "keys_list")?;
                Ok(families.into_iter().map(|handle| &handle.family).zip(keys).collect())
            })
        };
        // SAFETY: the caller passes arrays of this length.
        unsafe { multi_get(db, options, num_keys, keys, &to) };
        Ok(())
    }
}

/// Gets keys of one column family, and stores the pinned values and the errors.
///
/// # Safety
/// The arrays `values` and `errors` have `count` items.
unsafe fn batched_multi_get(
    db: &rocksdb_t,
    options: &rocksdb_readoptions_t,
    family: &ColumnFamily,
    count: usize,
    keys: Outcome<Vec<&[u8]>>,
    (values, errors): (*mut *mut rocksdb_pinnableslice_t, *mut *mut c_char),
) {
    let set = |at: usize, result: Outcome<Option<PinnedValue>>| {
        let (value, error) = match result {
            Ok(value) => (rocksdb_pinnableslice_t::give(value), ptr::null_mut()),
            Err(failure) => (ptr::null_mut(), copy_text(&failure.to_string())),
        };
        // SAFETY: see above.
        unsafe {
            values.add(at).write(value);
            errors.add(at).write(error);
        }
    };
    let got = keys.and_then(|keys| {
        options.with(db, |options| {
            let receive = |at, result: tailwater::Result<_>| set(at, result.map_err(Failure::from));
            db.db.batched_multi_get_with_cf_opt(family, &keys, options, receive);
            Ok(())
        })
    });
    if let Err(failure) = got {
        (0..count).for_each(|at| set(at, Err(failure.clone())));
    }
}

entry! {
    fn rocksdb_batched_multi_get_cf(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        column_family: shared rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values: *mut *mut rocksdb_pinnableslice_t,
        errs: *mut *mut c_char,
        sorted_input: bool,
    ) {
        let _ = sorted_input;
        // SAFETY: the caller passes arrays of this length.
        unsafe {
            let keys = slices(keys_list, keys_list_sizes, num_keys, "keys_list");
            let family = &column_family.family;
            batched_multi_get(db, options, family, num_keys, keys, (values, errs));
        }
        Ok(())
    }
}

entry! {
    fn rocksdb_batched_multi_get_cf_slice(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        column_family: shared rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const rocksdb_slice_t,
        values: *mut *mut rocksdb_pinnableslice_t,
        errs: *mut *mut c_char,
        sorted_input: bool,
    ) {
        let _ = sorted_input;
        // SAFETY: the caller passes arrays of this length, and slices of bytes.
        unsafe {
            let keys = list(keys_list, num_keys, "keys_list").and_then(|keys| {
                keys.iter().map(|key| bytes(key.data, key.size, "keys_list")).collect()
            });
            let family = &column_family.family;
            batched_multi_get(db, options, family, num_keys, keys, (values, errs));
        }
        Ok(())
    }
}
