//! Write batches. An operation that a batch refuses, because it is too long, leaves the batch
//! unchanged and is not reported, as in RocksDB.

use std::ffi::{c_char, c_int};

use tailwater::{FormatError, WriteBatch};

use crate::boundary::{Class, Failure, Outcome, entry, give, part_lists};
use crate::families::rocksdb_column_family_handle_t;
use crate::marks::{Marked, Marks};

/// A batch of writes.
#[derive(Default)]
pub(crate) struct rocksdb_writebatch_t {
    pub(crate) batch: WriteBatch,
    pub(crate) marks: Marks,
    /// Maximum size in bytes; 0 means no limit.
    max_bytes: usize,
}

impl Marked for rocksdb_writebatch_t {
    fn marks(&self) -> &Marks {
        &self.marks
    }
}

impl rocksdb_writebatch_t {
    pub(crate) fn new(batch: WriteBatch) -> Self {
        Self { batch, ..Self::default() }
    }

    /// Adds an operation, unless it makes the batch too large.
    #[inline]
    fn add(
        &mut self,
        operation: impl FnOnce(&mut WriteBatch) -> Result<(), FormatError>,
    ) -> Outcome<()> {
        if self.max_bytes == 0 {
            operation(&mut self.batch).map_err(tailwater::Error::from)?;
            return Ok(());
        }
        let mut added = WriteBatch::new();
        let header = added.size_in_bytes();
        operation(&mut added).map_err(tailwater::Error::from)?;
        if self.batch.size_in_bytes() + added.size_in_bytes() - header > self.max_bytes {
            return Err(Failure::new(Class::Aborted, "the batch is too large"));
        }
        Ok(self.batch.append(&added).map_err(tailwater::Error::from)?)
    }
}

entry! {
    fn rocksdb_writebatch_create() -> *mut rocksdb_writebatch_t {
        Ok(give(rocksdb_writebatch_t::default()))
    }
}

entry! {
    fn rocksdb_writebatch_create_from(rep: bytes[size]) -> *mut rocksdb_writebatch_t {
        let batch = match WriteBatch::from_data(rep.to_vec()) {
            Ok(batch) => rocksdb_writebatch_t::new(batch),
            // The write of the batch fails.
            Err(error) => {
                let batch = rocksdb_writebatch_t::default();
                batch.marks.invalid(Failure::new(Class::Corruption, error.to_string()));
                batch
            }
        };
        Ok(give(batch))
    }
}

entry! {
    fn rocksdb_writebatch_create_with_params(
        reserved_bytes: usize,
        max_bytes: usize,
        protection_bytes_per_key: usize,
        default_cf_ts_sz: usize,
    ) -> *mut rocksdb_writebatch_t {
        let batch = WriteBatch::with_capacity_bytes(reserved_bytes);
        let batch = rocksdb_writebatch_t { batch, max_bytes, ..rocksdb_writebatch_t::default() };
        if protection_bytes_per_key != 0 {
            batch.marks.note("rocksdb_writebatch_create_with_params: protection_bytes_per_key");
        }
        if default_cf_ts_sz != 0 {
            batch.marks.refuse("rocksdb_writebatch_create_with_params: default_cf_ts_sz");
        }
        Ok(give(batch))
    }
}

entry! {
    fn rocksdb_writebatch_destroy(b: own rocksdb_writebatch_t) {
        drop(b);
        Ok(())
    }
}

entry! {
    fn rocksdb_writebatch_clear(b: &mut rocksdb_writebatch_t) {
        b.batch.clear();
        b.marks.clear();
        Ok(())
    }
}

entry! {
    fn rocksdb_writebatch_count(b: shared rocksdb_writebatch_t) -> c_int {
        Ok(c_int::try_from(b.batch.len()).unwrap_or(c_int::MAX))
    }
}

entry! {
    fn rocksdb_writebatch_data(b: shared rocksdb_writebatch_t, size: out usize) -> *const c_char {
        let data = b.batch.data();
        size.set(data.len());
        Ok(data.as_ptr().cast())
    }
}

entry! {
    fn rocksdb_writebatch_put(
        b: &mut rocksdb_writebatch_t,
        key: bytes[klen],
        val: bytes[vlen],
    ) {
        b.add(|batch| batch.put(key, val))
    }
}

entry! {
    fn rocksdb_writebatch_put_cf(
        b: &mut rocksdb_writebatch_t,
        column_family: shared rocksdb_column_family_handle_t,
        key: bytes[klen],
        val: bytes[vlen],
    ) {
        b.add(|batch| batch.put_cf(&column_family.family, key, val))
    }
}

entry! {
    fn rocksdb_writebatch_delete(b: &mut rocksdb_writebatch_t, key: bytes[klen]) {
        b.add(|batch| batch.delete(key))
    }
}

entry! {
    fn rocksdb_writebatch_delete_cf(
        b: &mut rocksdb_writebatch_t,
        column_family: shared rocksdb_column_family_handle_t,
        key: bytes[klen],
    ) {
        b.add(|batch| batch.delete_cf(&column_family.family, key))
    }
}

entry! {
    fn rocksdb_writebatch_singledelete(b: &mut rocksdb_writebatch_t, key: bytes[klen]) {
        b.add(|batch| batch.single_delete(key))
    }
}

entry! {
    fn rocksdb_writebatch_singledelete_cf(
        b: &mut rocksdb_writebatch_t,
        column_family: shared rocksdb_column_family_handle_t,
        key: bytes[klen],
    ) {
        b.add(|batch| batch.single_delete_cf(&column_family.family, key))
    }
}

entry! {
    fn rocksdb_writebatch_merge(
        b: &mut rocksdb_writebatch_t,
        key: bytes[klen],
        val: bytes[vlen],
    ) {
        b.add(|batch| batch.merge(key, val))
    }
}

entry! {
    fn rocksdb_writebatch_merge_cf(
        b: &mut rocksdb_writebatch_t,
        column_family: shared rocksdb_column_family_handle_t,
        key: bytes[klen],
        val: bytes[vlen],
    ) {
        b.add(|batch| batch.merge_cf(&column_family.family, key, val))
    }
}

entry! {
    fn rocksdb_writebatch_delete_range(
        b: &mut rocksdb_writebatch_t,
        start_key: bytes[start_key_len],
        end_key: bytes[end_key_len],
    ) {
        b.add(|batch| batch.delete_range(start_key, end_key))
    }
}

entry! {
    fn rocksdb_writebatch_delete_range_cf(
        b: &mut rocksdb_writebatch_t,
        column_family: shared rocksdb_column_family_handle_t,
        start_key: bytes[start_key_len],
        end_key: bytes[end_key_len],
    ) {
        b.add(|batch| batch.delete_range_cf(&column_family.family, start_key, end_key))
    }
}

entry! {
    fn rocksdb_writebatch_put_log_data(b: &mut rocksdb_writebatch_t, blob: bytes[len]) {
        b.add(|batch| batch.put_log_data(blob))
    }
}

entry! {
    /// Puts one entry: its key and its value are given in parts.
    fn rocksdb_writebatch_putv(
        b: &mut rocksdb_writebatch_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: c_int,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    ) {
        // SAFETY: the caller passes arrays of these lengths.
        let (key, value) = unsafe {
            (
                part_lists(keys_list, keys_list_sizes, num_keys, "keys_list")?,
                part_lists(values_list, values_list_sizes, num_values, "values_list")?,
            )
        };
        b.add(|batch| batch.put(key, value))
    }
}

entry! {
    fn rocksdb_writebatch_putv_cf(
        b: &mut rocksdb_writebatch_t,
        column_family: shared rocksdb_column_family_handle_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: c_int,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    ) {
        // SAFETY: the caller passes arrays of these lengths.
        let (key, value) = unsafe {
            (
                part_lists(keys_list, keys_list_sizes, num_keys, "keys_list")?,
                part_lists(values_list, values_list_sizes, num_values, "values_list")?,
            )
        };
        b.add(|batch| batch.put_cf(&column_family.family, key, value))
    }
}

entry! {
    fn rocksdb_writebatch_mergev(
        b: &mut rocksdb_writebatch_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: c_int,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    ) {
        // SAFETY: the caller passes arrays of these lengths.
        let (key, value) = unsafe {
            (
                part_lists(keys_list, keys_list_sizes, num_keys, "keys_list")?,
                part_lists(values_list, values_list_sizes, num_values, "values_list")?,
            )
        };
        b.add(|batch| batch.merge(key, value))
    }
}

entry! {
    fn rocksdb_writebatch_mergev_cf(
        b: &mut rocksdb_writebatch_t,
        column_family: shared rocksdb_column_family_handle_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: c_int,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    ) {
        // SAFETY: the caller passes arrays of these lengths.
        let (key, value) = unsafe {
            (
                part_lists(keys_list, keys_list_sizes, num_keys, "keys_list")?,
                part_lists(values_list, values_list_sizes, num_values, "values_list")?,
            )
        };
        b.add(|batch| batch.merge_cf(&column_family.family, key, value))
    }
}

entry! {
    fn rocksdb_writebatch_deletev(
        b: &mut rocksdb_writebatch_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
    ) {
        // SAFETY: the caller passes arrays of this length.
        let key = unsafe { part_lists(keys_list, keys_list_sizes, num_keys, "keys_list")? };
        b.add(|batch| batch.delete(key))
    }
}

entry! {
    fn rocksdb_writebatch_deletev_cf(
        b: &mut rocksdb_writebatch_t,
        column_family: shared rocksdb_column_family_handle_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
    ) {
        // SAFETY: the caller passes arrays of this length.
        let key = unsafe { part_lists(keys_list, keys_list_sizes, num_keys, "keys_list")? };
        b.add(|batch| batch.delete_cf(&column_family.family, key))
    }
}

entry! {
    fn rocksdb_writebatch_delete_rangev(
        b: &mut rocksdb_writebatch_t,
        num_keys: c_int,
        start_keys_list: *const *const c_char,
        start_keys_list_sizes: *const usize,
        end_keys_list: *const *const c_char,
        end_keys_list_sizes: *const usize,
    ) {
        // SAFETY: the caller passes arrays of this length.
        let (start, end) = unsafe {
            (
                part_lists(start_keys_list, start_keys_list_sizes, num_keys, "start_keys_list")?,
                part_lists(end_keys_list, end_keys_list_sizes, num_keys, "end_keys_list")?,
            )
        };
        b.add(|batch| batch.delete_range(start, end))
    }
}

entry! {
    fn rocksdb_writebatch_delete_rangev_cf(
        b: &mut rocksdb_writebatch_t,
        column_family: shared rocksdb_column_family_handle_t,
        num_keys: c_int,
        start_keys_list: *const *const c_char,
        start_keys_list_sizes: *const usize,
        end_keys_list: *const *const c_char,
        end_keys_list_sizes: *const usize,
    ) {
        // SAFETY: the caller passes arrays of this length.
        let (start, end) = unsafe {
            (
                part_lists(start_keys_list, start_keys_list_sizes, num_keys, "start_keys_list")?,
                part_lists(end_keys_list, end_keys_list_sizes, num_keys, "end_keys_list")?,
            )
        };
        b.add(|batch| batch.delete_range_cf(&column_family.family, start, end))
    }
}
