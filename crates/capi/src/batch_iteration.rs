//! Iteration over the operations of a batch.
//!
//! As in RocksDB, an iteration stops silently at an operation for which the program has no
//! callback: a range deletion, an entity and, without callbacks for column families, an operation
//! of another family than the default one. Single deletions and, without a callback, merges are
//! passed over in the default family.

use std::ffi::{c_char, c_void};

use tailwater::batch::{DEFAULT_FAMILY, RecordKind};

use crate::batch::rocksdb_writebatch_t;
use crate::boundary::{Failure, Outcome, entry};

type OnEntry =
    Option<unsafe extern "C-unwind" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>;
type OnKey = Option<unsafe extern "C-unwind" fn(*mut c_void, *const c_char, usize)>;
type OnFamilyEntry = Option<
    unsafe extern "C-unwind" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize),
>;
type OnFamilyKey = Option<unsafe extern "C-unwind" fn(*mut c_void, u32, *const c_char, usize)>;

/// The program's callbacks for a batch without column families.
struct Callbacks {
    put: OnEntry,
    deleted: OnKey,
    log_data: OnKey,
}

/// The program's callbacks for a batch with column families.
struct FamilyCallbacks {
    put: OnFamilyEntry,
    deleted: OnFamilyKey,
    merge: OnFamilyEntry,
    log_data: OnKey,
}

/// An operation, with the pointers that callbacks receive.
struct Operation {
    kind: RecordKind,
    family: u32,
    key: (*const c_char, usize),
    value: (*const c_char, usize),
}

/// Calls `visit` for each operation until it returns false.
fn walk(batch: &rocksdb_writebatch_t, mut visit: impl FnMut(Operation) -> bool) -> Outcome<()> {
    let reader = batch.batch.reader().map_err(tailwater::Error::from)?;
    for record in reader {
        let record = record.map_err(tailwater::Error::from)?;
        let pointer = |bytes: &[u8]| (bytes.as_ptr().cast(), bytes.len());
        let operation = Operation {
            kind: record.kind,
            family: record.column_family,
            key: pointer(record.key),
            value: pointer(record.value),
        };
        if !visit(operation) {
            break;
        }
    }
    Ok(())
}

fn iterate(batch: &rocksdb_writebatch_t, state: *mut c_void, callbacks: &Callbacks) -> Outcome<()> {
    walk(batch, |operation| {
        let Operation { kind, family, key, value } = operation;
        match (kind, callbacks) {
            (RecordKind::LogData, Callbacks { log_data, .. }) => {
                if let Some(log_data) = log_data {
                    // SAFETY: the program's callback gets its state, and only reads the bytes.
                    unsafe { log_data(state, value.0, value.1) };
                }
                true
            }
            _ if family != DEFAULT_FAMILY => false,
            (RecordKind::Put, Callbacks { put: Some(put), .. }) => {
                // SAFETY: see above.
                unsafe { put(state, key.0, key.1, value.0, value.1) };
                true
            }
            (RecordKind::Delete, Callbacks { deleted: Some(deleted), .. }) => {
                // SAFETY: see above.
                unsafe { deleted(state, key.0, key.1) };
                true
            }
            (RecordKind::SingleDelete | RecordKind::Merge | RecordKind::Noop, _) => true,
            _ => false,
        }
    })
}

fn iterate_families(
    batch: &rocksdb_writebatch_t,
    state: *mut c_void,
    callbacks: &FamilyCallbacks,
) -> Outcome<()> {
    walk(batch, |operation| {
        let Operation { kind, family, key, value } = operation;
        match (kind, callbacks) {
            (RecordKind::LogData, FamilyCallbacks { log_data, .. }) => {
                if let Some(log_data) = log_data {
                    // SAFETY: the program's callback gets its state, and only reads the bytes.
                    unsafe { log_data(state, value.0, value.1) };
                }
                true
            }
            (RecordKind::Put, FamilyCallbacks { put: Some(put), .. }) => {
                // SAFETY: see above.
                unsafe { put(state, family, key.0, key.1, value.0, value.1) };
                true
            }
            (RecordKind::Delete, FamilyCallbacks { deleted: Some(deleted), .. }) => {
                // SAFETY: see above.
                unsafe { deleted(state, family, key.0, key.1) };
                true
            }
            (RecordKind::Merge, FamilyCallbacks { merge: Some(merge), .. }) => {
                // SAFETY: see above.
                unsafe { merge(state, family, key.0, key.1, value.0, value.1) };
                true
            }
            (RecordKind::SingleDelete, _) => family == DEFAULT_FAMILY,
            (RecordKind::Noop, _) => true,
            _ => false,
        }
    })
}

fn need<T>(callback: Option<T>) -> Outcome<Option<T>> {
    if callback.is_some() { Ok(callback) } else { Err(Failure::invalid("a callback is NULL")) }
}

entry! {
    fn rocksdb_writebatch_iterate(
        b: shared rocksdb_writebatch_t,
        state: *mut c_void,
        put: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void, k: *const c_char, klen: usize, v: *const c_char, vlen: usize,
        )>,
        deleted: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void, k: *const c_char, klen: usize,
        )>,
    ) {
        let callbacks = Callbacks { put: need(put)?, deleted: need(deleted)?, log_data: None };
        iterate(b, state, &callbacks)
    }
}

entry! {
    fn rocksdb_writebatch_iterate_ld(
        b: shared rocksdb_writebatch_t,
        state: *mut c_void,
        put: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void, k: *const c_char, klen: usize, v: *const c_char, vlen: usize,
        )>,
        deleted: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void, k: *const c_char, klen: usize,
        )>,
        log_data: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void, blob: *const c_char, blob_len: usize,
        )>,
    ) {
        let callbacks = Callbacks { put: need(put)?, deleted: need(deleted)?, log_data };
        iterate(b, state, &callbacks)
    }
}

entry! {
    fn rocksdb_writebatch_iterate_cf(
        b: shared rocksdb_writebatch_t,
        state: *mut c_void,
        put_cf: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void,
            cfid: u32,
            k: *const c_char,
            klen: usize,
            v: *const c_char,
            vlen: usize,
        )>,
        deleted_cf: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void, cfid: u32, k: *const c_char, klen: usize,
        )>,
        merge_cf: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void,
            cfid: u32,
            k: *const c_char,
            klen: usize,
            v: *const c_char,
            vlen: usize,
        )>,
    ) {
        let (put, deleted, merge) = (need(put_cf)?, need(deleted_cf)?, need(merge_cf)?);
        iterate_families(b, state, &FamilyCallbacks { put, deleted, merge, log_data: None })
    }
}

entry! {
    fn rocksdb_writebatch_iterate_cf_ld(
        b: shared rocksdb_writebatch_t,
        state: *mut c_void,
        put_cf: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void,
            cfid: u32,
            k: *const c_char,
            klen: usize,
            v: *const c_char,
            vlen: usize,
        )>,
        deleted_cf: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void, cfid: u32, k: *const c_char, klen: usize,
        )>,
        merge_cf: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void,
            cfid: u32,
            k: *const c_char,
            klen: usize,
            v: *const c_char,
            vlen: usize,
        )>,
        log_data: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void, blob: *const c_char, blob_len: usize,
        )>,
    ) {
        let (put, deleted, merge) = (need(put_cf)?, need(deleted_cf)?, need(merge_cf)?);
        iterate_families(b, state, &FamilyCallbacks { put, deleted, merge, log_data })
    }
}
