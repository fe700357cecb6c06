//! Approximate sizes of key ranges.

use std::ffi::{c_char, c_int};

use tailwater::{ColumnFamily, SizeOptions};

use crate::boundary::{Out, Outcome, entry, give, list, slices};
use crate::database::rocksdb_t;
use crate::families::rocksdb_column_family_handle_t;
use crate::marks::Marks;

/// The flags of `rocksdb_approximate_sizes_cf_with_flags`.
const INCLUDE_MEMTABLE: u8 = 1;
const INCLUDE_FILES: u8 = 2;
const INCLUDE_BLOB_FILES: u8 = 4;

/// Options of an approximation of sizes.
#[derive(Default)]
pub(crate) struct rocksdb_size_approximation_options_t {
    pub(crate) options: SizeOptions,
    pub(crate) marks: Marks,
}

entry! {
    fn rocksdb_size_approximation_options_create()
        -> *mut rocksdb_size_approximation_options_t
    {
        Ok(give(rocksdb_size_approximation_options_t::default()))
    }
}

entry! {
    fn rocksdb_size_approximation_options_destroy(
        options: own rocksdb_size_approximation_options_t,
    ) {
        drop(options);
        Ok(())
    }
}

/// The key ranges of a call, and the place for their sizes, as parallel arrays.
struct Ranges {
    count: c_int,
    starts: (*const *const c_char, *const usize),
    limits: (*const *const c_char, *const usize),
    sizes: *mut u64,
}

impl Ranges {
    /// Stores the sizes of the ranges.
    ///
    /// # Safety
    /// The arrays have `count` items.
    unsafe fn measure(
        &self,
        db: &rocksdb_t,
        family: &ColumnFamily,
        options: &SizeOptions,
    ) -> Outcome<()> {
        let count = usize::try_from(self.count).unwrap_or(0);
        // SAFETY: see above.
        let (starts, limits) = unsafe {
            list(self.sizes.cast_const(), count, "sizes")?;
            (
                slices(self.starts.0, self.starts.1, count, "range_start_key")?,
                slices(self.limits.0, self.limits.1, count, "range_limit_key")?,
            )
        };
        let ranges: Vec<(&[u8], &[u8])> = starts.into_iter().zip(limits).collect();
        db.ready()?;
        let sizes = db.db.approximate_sizes_cf_opt(family, &ranges, options)?;
        for (at, size) in sizes.into_iter().enumerate() {
            // SAFETY: see above.
            unsafe { Out::new(self.sizes.add(at)) }.set(size);
        }
        Ok(())
    }
}

entry! {
    fn rocksdb_approximate_sizes(
        db: shared rocksdb_t,
        num_ranges: c_int,
        range_start_key: *const *const c_char,
        range_start_key_len: *const usize,
        range_limit_key: *const *const c_char,
        range_limit_key_len: *const usize,
        sizes: *mut u64,
        errptr,
    ) {
        let ranges = Ranges {
            count: num_ranges,
            starts: (range_start_key, range_start_key_len),
            limits: (range_limit_key, range_limit_key_len),
            sizes,
        };
        // SAFETY: the caller passes arrays of this length.
        unsafe { ranges.measure(db, db.db.default_cf(), &SizeOptions::default()) }
    }
}

entry! {
    fn rocksdb_approximate_sizes_cf(
        db: shared rocksdb_t,
        column_family: shared rocksdb_column_family_handle_t,
        num_ranges: c_int,
        range_start_key: *const *const c_char,
        range_start_key_len: *const usize,
        range_limit_key: *const *const c_char,
        range_limit_key_len: *const usize,
        sizes: *mut u64,
        errptr,
    ) {
        let ranges = Ranges {
            count: num_ranges,
            starts: (range_start_key, range_start_key_len),
            limits: (range_limit_key, range_limit_key_len),
            sizes,
        };
        // SAFETY: the caller passes arrays of this length.
        unsafe { ranges.measure(db, &column_family.family, &SizeOptions::default()) }
    }
}

entry! {
    fn rocksdb_approximate_sizes_cf_with_flags(
        db: shared rocksdb_t,
        column_family: shared rocksdb_column_family_handle_t,
        num_ranges: c_int,
        range_start_key: *const *const c_char,
        range_start_key_len: *const usize,
        range_limit_key: *const *const c_char,
        range_limit_key_len: *const usize,
        include_flags: u8,
        sizes: *mut u64,
        errptr,
    ) {
        let ranges = Ranges {
            count: num_ranges,
            starts: (range_start_key, range_start_key_len),
            limits: (range_limit_key, range_limit_key_len),
            sizes,
        };
        let mut options = SizeOptions::default();
        options.include_memtables = include_flags & INCLUDE_MEMTABLE != 0;
        options.include_files = include_flags & INCLUDE_FILES != 0;
        options.include_blob_files = include_flags & INCLUDE_BLOB_FILES != 0;
        // SAFETY: the caller passes arrays of this length.
        unsafe { ranges.measure(db, &column_family.family, &options) }
    }
}

/// Returns the options of a call; null means the default options.
fn options_of(options: Option<&rocksdb_size_approximation_options_t>) -> SizeOptions {
    options.map_or_else(SizeOptions::default, |options| options.options)
}

entry! {
    fn rocksdb_approximate_sizes_with_options(
        db: shared rocksdb_t,
        options: maybe_const rocksdb_size_approximation_options_t,
        num_ranges: c_int,
        range_start_key: *const *const c_char,
        range_start_key_len: *const usize,
        range_limit_key: *const *const c_char,
        range_limit_key_len: *const usize,
        sizes: *mut u64,
        errptr,
    ) {
        let ranges = Ranges {
            count: num_ranges,
            starts: (range_start_key, range_start_key_len),
            limits: (range_limit_key, range_limit_key_len),
            sizes,
        };
        // SAFETY: the caller passes arrays of this length.
        unsafe { ranges.measure(db, db.db.default_cf(), &options_of(options)) }
    }
}

entry! {
    fn rocksdb_approximate_sizes_cf_with_options(
        db: shared rocksdb_t,
        column_family: shared rocksdb_column_family_handle_t,
        options: maybe_const rocksdb_size_approximation_options_t,
        num_ranges: c_int,
        range_start_key: *const *const c_char,
        range_start_key_len: *const usize,
        range_limit_key: *const *const c_char,
        range_limit_key_len: *const usize,
        sizes: *mut u64,
        errptr,
    ) {
        let ranges = Ranges {
            count: num_ranges,
            starts: (range_start_key, range_start_key_len),
            limits: (range_limit_key, range_limit_key_len),
            sizes,
        };
        // SAFETY: the caller passes arrays of this length.
        unsafe { ranges.measure(db, &column_family.family, &options_of(options)) }
    }
}
