//! Merge operators.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::ptr;
use std::slice;
use std::sync::Arc;

use tailwater::{CustomMergeOperator, MergeOperator};

use crate::boundary::{Failure, Outcome, entry, give, release};
use crate::callback::State;

type FullMerge = unsafe extern "C-unwind" fn(
    *mut c_void,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    c_int,
    *mut c_uchar,
    *mut usize,
) -> *mut c_char;
type PartialMerge = unsafe extern "C-unwind" fn(
    *mut c_void,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    c_int,
    *mut c_uchar,
    *mut usize,
) -> *mut c_char;
type DeleteValue = unsafe extern "C-unwind" fn(*mut c_void, *const c_char, usize);

/// A merge operator. The options that it is given to own it.
pub(crate) struct rocksdb_mergeoperator_t {
    pub(crate) operator: MergeOperator,
}

struct UserMergeOperator {
    state: State,
    full_merge: FullMerge,
    partial_merge: Option<PartialMerge>,
    delete_value: Option<DeleteValue>,
    name: String,
}

/// The operands of a merge, as two arrays.
struct Operands {
    pointers: Vec<*const c_char>,
    lengths: Vec<usize>,
    count: c_int,
}

impl Operands {
    fn new(operands: &[&[u8]]) -> Option<Self> {
        Some(Self {
            pointers: operands.iter().map(|operand| operand.as_ptr().cast()).collect(),
            lengths: operands.iter().map(|operand| operand.len()).collect(),
            count: c_int::try_from(operands.len()).ok()?,
        })
    }
}

impl UserMergeOperator {
    /// Copies the value that a callback returned, and gives it back. `None` if the callback failed.
    fn take(&self, value: *mut c_char, length: usize, success: c_uchar) -> Option<Vec<u8>> {
        let copy = (success != 0).then(|| match value.is_null() {
            true => Vec::new(),
            // SAFETY: the callback returned a value of this length.
            false => unsafe { slice::from_raw_parts(value.cast::<u8>(), length) }.to_vec(),
        });
        match self.delete_value {
            // SAFETY: the function belongs to this state; it may get null after a failure.
            Some(delete) => unsafe { delete(self.state.pointer(), value, length) },
            // SAFETY: without a function for it, the value comes from `malloc`.
            None => unsafe { release(value.cast()) },
        }
        copy
    }
}

impl CustomMergeOperator for UserMergeOperator {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let operands = Operands::new(operands)?;
        let (mut success, mut length) = (1, 0);
        // SAFETY: the function belongs to this state, and only reads the arguments.
        let value = unsafe {
            (self.full_merge)(
                self.state.pointer(),
                key.as_ptr().cast(),
                key.len(),
                existing.map_or(ptr::null(), |existing| existing.as_ptr().cast()),
                existing.map_or(0, <[u8]>::len),
                operands.pointers.as_ptr(),
                operands.lengths.as_ptr(),
                operands.count,
                &raw mut success,
                &raw mut length,
            )
        };
        self.take(value, length, success)
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let partial_merge = self.partial_merge?;
        let operands = Operands::new(operands)?;
        let (mut success, mut length) = (1, 0);
        // SAFETY: the function belongs to this state, and only reads the arguments.
        let value = unsafe {
            partial_merge(
                self.state.pointer(),
                key.as_ptr().cast(),
                key.len(),
                operands.pointers.as_ptr(),
                operands.lengths.as_ptr(),
                operands.count,
                &raw mut success,
                &raw mut length,
            )
        };
        self.take(value, length, success)
    }
}

entry! {
    fn rocksdb_mergeoperator_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C-unwind" fn(state: *mut c_void)>,
        full_merge: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void,
            key: *const c_char,
            key_length: usize,
            existing_value: *const c_char,
            existing_value_length: usize,
            operands_list: *const *const c_char,
            operands_list_length: *const usize,
            num_operands: c_int,
            success: *mut c_uchar,
            new_value_length: *mut usize,
        ) -> *mut c_char>,
        partial_merge: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void,
            key: *const c_char,
            key_length: usize,
            operands_list: *const *const c_char,
            operands_list_length: *const usize,
            num_operands: c_int,
            success: *mut c_uchar,
            new_value_length: *mut usize,
        ) -> *mut c_char>,
        delete_value: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void,
            value: *const c_char,
            value_length: usize,
        )>,
        name: Option<unsafe extern "C-unwind" fn(state: *mut c_void) -> *const c_char>,
    ) -> *mut rocksdb_mergeoperator_t {
        let full_merge =
            full_merge.ok_or_else(|| Failure::invalid("argument full_merge is NULL"))?;
        let state = State::new(state, destructor);
        let name = state.name(name);
        let operator = UserMergeOperator { state, full_merge, partial_merge, delete_value, name };
        let operator = MergeOperator::Custom(Arc::new(operator));
        Ok(give(rocksdb_mergeoperator_t { operator }))
    }
}

entry! {
    fn rocksdb_mergeoperator_destroy(merge_operator: own rocksdb_mergeoperator_t) {
        drop(merge_operator);
        Outcome::Ok(())
    }
}
