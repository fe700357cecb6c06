//! Scans of a snapshot of a RocksDB database.
//!
//! This module calls RocksDB's C functions directly, because the crate `rocksdb` has no setter for
//! the read option `auto_refresh_iterator_with_snapshot`.
#![expect(unsafe_code, reason = "calls C functions that the crate does not wrap")]

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr;

use librocksdb_sys as c;
use tailwater_bench::snapshot_scans::{ScanEngine, ScanSubject, Scans};
use tailwater_bench::store::{Failure, Scanned};
use tailwater_latency::engine::Engine;

/// Values of RocksDB's enum `Tickers` for `rocksdb.block.cache.hit` and `rocksdb.block.cache.miss`.
const CACHE_HIT: u32 = 1;
const CACHE_MISS: u32 = 0;

/// RocksDB, opened with statistics, which count the hits and misses of the block cache.
pub(crate) const ENGINE: ScanEngine = Engine { name: "rocksdb", open };

fn open(directory: &Path, options: &str) -> Result<Box<dyn ScanSubject>, Failure> {
    let path = CString::new(directory.as_os_str().as_encoded_bytes())?;
    let text = CString::new(options)?;
    // SAFETY: all pointers refer to objects that were created here. RocksDB copies options instead
    // of keeping the pointer to them. `check` frees the error message.
    unsafe {
        let (defaults, options) = (c::rocksdb_options_create(), c::rocksdb_options_create());
        let mut error = ptr::null_mut();
        c::rocksdb_get_options_from_string(defaults, text.as_ptr(), options, &mut error);
        c::rocksdb_options_destroy(defaults);
        check(error)?;
        c::rocksdb_options_enable_statistics(options);
        let db = c::rocksdb_open(options, path.as_ptr(), &mut error);
        check(error)?;
        let writes = c::rocksdb_writeoptions_create();
        Ok(Box::new(Scanning { db, options, writes }))
    }
}

struct Scanning {
    db: *mut c::rocksdb_t,
    options: *mut c::rocksdb_options_t,
    writes: *mut c::rocksdb_writeoptions_t,
}

// SAFETY: threads may use a RocksDB database concurrently, and nothing changes the options after
// the database is opened.
unsafe impl Sync for Scanning {}

impl Scanning {
    /// Takes a snapshot, and calls `read` with options that read it.
    fn with_snapshot<T>(
        &self,
        refreshes: bool,
        read: impl FnOnce(*mut c::rocksdb_readoptions_t) -> T,
    ) -> T {
        // SAFETY: the database is open. The snapshot and the options are freed after their last
        // use.
        unsafe {
            let snapshot = c::rocksdb_create_snapshot(self.db);
            let options = c::rocksdb_readoptions_create();
            c::rocksdb_readoptions_set_snapshot(options, snapshot);
            let refreshes = u8::from(refreshes);
            c::rocksdb_readoptions_set_auto_refresh_iterator_with_snapshot(options, refreshes);
            let result = read(options);
            c::rocksdb_readoptions_destroy(options);
            c::rocksdb_release_snapshot(self.db, snapshot);
            result
        }
    }

    /// Creates an iterator, seeks `from` or the first key, and visits up to `limit` entries.
    fn iterate(
        &self,
        options: *const c::rocksdb_readoptions_t,
        from: Option<&[u8]>,
        limit: u64,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Failure> {
        let mut error = ptr::null_mut();
        // SAFETY: the database is open, and the caller guarantees that the options exist. Each
        // entry is used only before the iterator moves.
        unsafe {
            let iterator = c::rocksdb_create_iterator(self.db, options);
            match from {
                Some(key) => c::rocksdb_iter_seek(iterator, key.as_ptr().cast(), key.len()),
                None => c::rocksdb_iter_seek_to_first(iterator),
            }
            let mut visited = 0;
            while visited < limit && c::rocksdb_iter_valid(iterator) != 0 {
                let (key, value) = entry(iterator);
                visit(key, value);
                visited += 1;
                c::rocksdb_iter_next(iterator);
            }
            c::rocksdb_iter_get_error(iterator, &mut error);
            c::rocksdb_iter_destroy(iterator);
        }
        check(error)
    }
}

impl ScanSubject for Scanning {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut error = ptr::null_mut();
        // SAFETY: the database is open, and both slices are read during the call.
        unsafe {
            let (key, key_length) = (key.as_ptr().cast(), key.len());
            let (value, value_length) = (value.as_ptr().cast(), value.len());
            c::rocksdb_put(self.db, self.writes, key, key_length, value, value_length, &mut error);
        }
        check(error)
    }

    fn scan(&self, scans: &Scans) -> Result<Scanned, Failure> {
        let mut scanned = Scanned::default();
        self.with_snapshot(scans.refreshes, |options| {
            // SAFETY: the options exist during this call.
            unsafe { c::rocksdb_readoptions_set_async_io(options, u8::from(scans.async_io)) };
            scans.keys().try_for_each(|key| {
                let add = |key: &[u8], value: &[u8]| scanned.add(key, value);
                self.iterate(options, Some(&key), scans.steps, add)
            })
        })?;
        Ok(scanned)
    }

    fn walk(&self, refreshes: bool, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Failure> {
        self.with_snapshot(refreshes, |options| {
            // SAFETY: the options exist during this call.
            unsafe { c::rocksdb_readoptions_set_fill_cache(options, 0) };
            self.iterate(options, None, u64::MAX, visit)
        })
    }

    fn number(&self, property: &str) -> Result<u64, Failure> {
        let name = CString::new(property)?;
        let mut value = 0;
        // SAFETY: the database is open, and `value` has space for the number.
        let known = unsafe { c::rocksdb_property_int(self.db, name.as_ptr(), &mut value) };
        if known == 0 { Ok(value) } else { Err(format!("no property {property}").into()) }
    }

    fn settle(&self) -> Result<(), Failure> {
        let mut error = ptr::null_mut();
        // SAFETY: the database is open, and the options are freed after use.
        unsafe {
            let flush = c::rocksdb_flushoptions_create();
            c::rocksdb_flushoptions_set_wait(flush, 1);
            c::rocksdb_flush(self.db, flush, &mut error);
            c::rocksdb_flushoptions_destroy(flush);
            check(error)?;
            let wait = c::rocksdb_wait_for_compact_options_create();
            c::rocksdb_wait_for_compact(self.db, wait, &mut error);
            c::rocksdb_wait_for_compact_options_destroy(wait);
        }
        check(error)
    }

    fn take_snapshot(&self) -> Result<(), Failure> {
        // SAFETY: the database is open, and the snapshot belongs to it.
        unsafe {
            let snapshot = c::rocksdb_create_snapshot(self.db);
            c::rocksdb_release_snapshot(self.db, snapshot);
        }
        Ok(())
    }

    fn renew_version(&self) -> Result<(), Failure> {
        // Setting any option installs a new version of the column family. The option is set to the
        // value that it already has, so that nothing else changes.
        let key = c"max_sequential_skip_in_iterations".as_ptr();
        let value = c"8".as_ptr();
        let mut error = ptr::null_mut();
        // SAFETY: the database is open, and there is one key and one value.
        unsafe { c::rocksdb_set_options(self.db, 1, &key, &value, &mut error) };
        check(error)
    }

    fn block_cache_lookups(&self) -> Result<[u64; 2], Failure> {
        let count = |ticker| {
            // SAFETY: statistics were enabled in these options.
            unsafe { c::rocksdb_options_statistics_get_ticker_count(self.options, ticker) }
        };
        Ok([count(CACHE_HIT), count(CACHE_MISS)])
    }
}

impl Drop for Scanning {
    fn drop(&mut self) {
        // SAFETY: nothing uses the database any more.
        unsafe {
            c::rocksdb_close(self.db);
            c::rocksdb_writeoptions_destroy(self.writes);
            c::rocksdb_options_destroy(self.options);
        }
    }
}

/// Returns the entry at an iterator's position.
///
/// # Safety
/// The iterator must be valid, and must not move while the returned slices are used.
#[inline]
unsafe fn entry<'a>(iterator: *const c::rocksdb_iterator_t) -> (&'a [u8], &'a [u8]) {
    let (mut key_length, mut value_length) = (0, 0);
    // SAFETY: the caller guarantees that the iterator is valid.
    unsafe {
        let key = c::rocksdb_iter_key(iterator, &mut key_length);
        let value = c::rocksdb_iter_value(iterator, &mut value_length);
        (
            std::slice::from_raw_parts(key.cast(), key_length),
            std::slice::from_raw_parts(value.cast(), value_length),
        )
    }
}

/// Converts RocksDB's error message, if there is one, to an error, and frees it.
fn check(error: *mut c_char) -> Result<(), Failure> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: RocksDB's error messages end with a zero byte, and the caller owns them.
    unsafe {
        let message = CStr::from_ptr(error).to_string_lossy().into_owned();
        c::rocksdb_free(error.cast());
        Err(message.into())
    }
}
