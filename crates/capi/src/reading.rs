//! Gets of one key.

use std::cell::Cell;
use std::ffi::{c_char, c_uchar};
use std::ptr;

use tailwater::{ColumnFamily, PinnedValue};

use crate::boundary::{Out, Outcome, copy_bytes, entry, give};
use crate::database::rocksdb_t;
use crate::families::rocksdb_column_family_handle_t;
use crate::pinned_value::rocksdb_pinnableslice_t;
use crate::read_options::rocksdb_readoptions_t;

/// A value that is pinned in its block.
pub(crate) struct rocksdb_pinnable_handle_t {
    value: PinnedValue,
}

impl rocksdb_pinnable_handle_t {
    /// Gives a value to the caller; null for none.
    fn give(value: Option<PinnedValue>) -> *mut Self {
        value.map_or(ptr::null_mut(), |value| give(Self { value }))
    }
}

/// Maximum capacity, in bytes, of the buffer that a thread keeps between gets.
const KEPT_CAPACITY: usize = 1 << 20;

thread_local! {
    /// The buffer for values on their way to memory from `malloc`.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Gets a value, and calls `take` with it.
fn get_with<R>(
    db: &rocksdb_t,
    options: &rocksdb_readoptions_t,
    family: &ColumnFamily,
    key: &[u8],
    take: impl FnOnce(&[u8]) -> R,
) -> Outcome<Option<R>> {
    options.with(db, |options| {
        // While the thread exits, it has no buffer.
        let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
        let found = db.db.get_into_cf_opt(family, key, options, &mut buffer);
        let taken = found.map(|found| found.then(|| take(&buffer)));
        if buffer.capacity() <= KEPT_CAPACITY {
            let _ = BUFFER.try_with(|kept| kept.set(buffer));
        }
        Ok(taken?)
    })
}

fn get(
    db: &rocksdb_t,
    options: &rocksdb_readoptions_t,
    family: &ColumnFamily,
    key: &[u8],
    length: &Out<usize>,
) -> Outcome<*mut c_char> {
    length.set(0);
    let value = get_with(db, options, family, key, |value| {
        length.set(value.len());
        copy_bytes(value)
    })?;
    Ok(value.unwrap_or(ptr::null_mut()))
}

entry! {
    fn rocksdb_get(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        key: bytes[keylen],
        vallen: out usize,
        errptr,
    ) -> *mut c_char {
        get(db, options, db.db.default_cf(), key, &vallen)
    }
}

entry! {
    fn rocksdb_get_cf(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        column_family: shared rocksdb_column_family_handle_t,
        key: bytes[keylen],
        vallen: out usize,
        errptr,
    ) -> *mut c_char {
        get(db, options, &column_family.family, key, &vallen)
    }
}

#[inline(always)]
fn get_pinned(
    db: &rocksdb_t,
    options: &rocksdb_readoptions_t,
    family: &ColumnFamily,
    key: &[u8],
) -> Outcome<Option<PinnedValue>> {
    options.with(db, |options| Ok(db.db.get_pinned_cf_opt(family, key, options)?))
}

entry! {
    fn rocksdb_get_pinned(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        key: bytes[keylen],
        errptr,
    ) -> *mut rocksdb_pinnableslice_t {
        Ok(rocksdb_pinnableslice_t::give(get_pinned(db, options, db.db.default_cf(), key)?))
    }
}

entry! {
    fn rocksdb_get_pinned_cf(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        column_family: shared rocksdb_column_family_handle_t,
        key: bytes[keylen],
        errptr,
    ) -> *mut rocksdb_pinnableslice_t {
        Ok(rocksdb_pinnableslice_t::give(get_pinned(db, options, &column_family.family, key)?))
    }
}

entry! {
    fn rocksdb_get_pinned_v2(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        key: bytes[keylen],
        errptr,
    ) -> *mut rocksdb_pinnable_handle_t {
        Ok(rocksdb_pinnable_handle_t::give(get_pinned(db, options, db.db.default_cf(), key)?))
    }
}

entry! {
    fn rocksdb_get_pinned_cf_v2(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        column_family: shared rocksdb_column_family_handle_t,
        key: bytes[keylen],
        errptr,
    ) -> *mut rocksdb_pinnable_handle_t {
        Ok(rocksdb_pinnable_handle_t::give(get_pinned(db, options, &column_family.family, key)?))
    }
}

entry! {
    fn rocksdb_pinnable_handle_destroy(handle: own rocksdb_pinnable_handle_t) {
        drop(handle);
        Ok(())
    }
}

entry! {
    fn rocksdb_pinnable_handle_get_value(
        handle: maybe_const rocksdb_pinnable_handle_t,
        vallen: out usize,
    ) -> *const c_char {
        vallen.set(handle.map_or(0, |handle| handle.value.len()));
        Ok(handle.map_or(ptr::null(), |handle| handle.value.as_ptr().cast()))
    }
}

/// The caller's buffer for a value, and the places for the result.
struct Buffer {
    memory: *mut c_char,
    size: usize,
    length: Out<usize>,
    found: Out<c_uchar>,
}

impl Buffer {
    /// Gets a value into the buffer. Returns 1 if the value was found and fits.
    fn get(
        &self,
        db: &rocksdb_t,
        options: &rocksdb_readoptions_t,
        family: &ColumnFamily,
        key: &[u8],
    ) -> Outcome<c_uchar> {
        self.found.set(0);
        self.length.set(0);
        let fits = get_with(db, options, family, key, |value| {
            self.found.set(1);
            self.length.set(value.len());
            if value.len() > self.size {
                return 0;
            }
            if !value.is_empty() {
                // SAFETY: the caller's buffer has this size, and is not the thread's buffer.
                unsafe {
                    ptr::copy_nonoverlapping(value.as_ptr().cast(), self.memory, value.len());
                }
            }
            1
        })?;
        Ok(fits.unwrap_or(0))
    }
}

entry! {
    fn rocksdb_get_into_buffer(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        key: bytes[keylen],
        buffer: *mut c_char,
        buffer_size: usize,
        vallen: out usize,
        found: out c_uchar,
        errptr,
    ) -> c_uchar {
        let buffer = Buffer { memory: buffer, size: buffer_size, length: vallen, found };
        buffer.get(db, options, db.db.default_cf(), key)
    }
}

entry! {
    fn rocksdb_get_into_buffer_cf(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        column_family: shared rocksdb_column_family_handle_t,
        key: bytes[keylen],
        buffer: *mut c_char,
        buffer_size: usize,
        vallen: out usize,
        found: out c_uchar,
        errptr,
    ) -> c_uchar {
        let buffer = Buffer { memory: buffer, size: buffer_size, length: vallen, found };
        buffer.get(db, options, &column_family.family, key)
    }
}
