//! Compaction filters.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::ptr;
use std::slice;
use std::sync::Arc;

use tailwater::{
    CompactionFilter, CustomCompactionFilter, FilterContext, FilterDecision, FilteredValue,
};

use crate::boundary::{Failure, entry, give};
use crate::callback::State;

type Filter = unsafe extern "C-unwind" fn(
    *mut c_void,
    c_int,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *mut *mut c_char,
    *mut usize,
    *mut c_uchar,
) -> c_uchar;

/// A compaction filter of the program, which stays the owner. Options refer to it, and databases
/// share it while they are open.
pub(crate) struct rocksdb_compactionfilter_t {
    pub(crate) filter: Arc<CompactionFilter>,
}

struct UserFilter {
    state: State,
    filter: Filter,
    name: String,
}

impl CustomCompactionFilter for UserFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn filter(
        &self,
        context: &FilterContext,
        key: &[u8],
        value: FilteredValue<'_>,
    ) -> FilterDecision {
        // The C interface shows neither merge operands nor entities to filters.
        let FilteredValue::Plain(value) = value else { return FilterDecision::Keep };
        let (mut new_value, mut length, mut is_changed) = (ptr::null_mut(), 0, 0);
        // SAFETY: the function belongs to this state, and only reads the key and the value.
        let removes = unsafe {
            (self.filter)(
                self.state.pointer(),
                c_int::try_from(context.level).unwrap_or(c_int::MAX),
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                &raw mut new_value,
                &raw mut length,
                &raw mut is_changed,
            )
        };
        if removes != 0 {
            FilterDecision::Remove
        } else if is_changed == 0 {
            FilterDecision::Keep
        } else if new_value.is_null() {
            FilterDecision::ChangeValue(Vec::new())
        } else {
            // The filter keeps the memory of the new value.
            // SAFETY: the function returned a value of this length.
            let new_value = unsafe { slice::from_raw_parts(new_value.cast::<u8>(), length) };
            FilterDecision::ChangeValue(new_value.to_vec())
        }
    }
}

entry! {
    fn rocksdb_compactionfilter_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C-unwind" fn(state: *mut c_void)>,
        filter: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void,
            level: c_int,
            key: *const c_char,
            key_length: usize,
            existing_value: *const c_char,
            value_length: usize,
            new_value: *mut *mut c_char,
            new_value_length: *mut usize,
            value_changed: *mut c_uchar,
        ) -> c_uchar>,
        name: Option<unsafe extern "C-unwind" fn(state: *mut c_void) -> *const c_char>,
    ) -> *mut rocksdb_compactionfilter_t {
        let filter = filter.ok_or_else(|| Failure::invalid("argument filter is NULL"))?;
        let state = State::new(state, destructor);
        let name = state.name(name);
        let filter = CompactionFilter::Custom(Arc::new(UserFilter { state, filter, name }));
        Ok(give(rocksdb_compactionfilter_t { filter: Arc::new(filter) }))
    }
}

entry! {
    fn rocksdb_compactionfilter_destroy(filter: own rocksdb_compactionfilter_t) {
        drop(filter);
        Ok(())
    }
}
