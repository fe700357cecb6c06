//! Slice transforms: prefix extractors.

use std::ffi::{c_char, c_uchar, c_void};
use std::slice;
use std::sync::Arc;

use tailwater::{CustomPrefixExtractor, PrefixExtractor};

use crate::boundary::{Failure, entry, give};
use crate::callback::State;

type Transform =
    unsafe extern "C-unwind" fn(*mut c_void, *const c_char, usize, *mut usize) -> *mut c_char;
type InDomain = unsafe extern "C-unwind" fn(*mut c_void, *const c_char, usize) -> c_uchar;

/// A prefix extractor. The options that it is given to own it.
pub(crate) struct rocksdb_slicetransform_t {
    pub(crate) extractor: PrefixExtractor,
}

struct UserTransform {
    state: State,
    transform: Transform,
    in_domain: InDomain,
    name: String,
}

impl CustomPrefixExtractor for UserTransform {
    fn name(&self) -> &str {
        &self.name
    }

    fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        let (state, at) = (self.state.pointer(), key.as_ptr().cast());
        // SAFETY: the function belongs to this state, and only reads the key.
        if unsafe { (self.in_domain)(state, at, key.len()) } == 0 {
            return None;
        }
        let mut length = 0;
        // SAFETY: see above.
        let found = unsafe { (self.transform)(state, at, key.len(), &raw mut length) };
        let prefix = key.get(..length)?;
        if found.cast_const().cast() == key.as_ptr() || length == 0 {
            return Some(prefix);
        }
        if found.is_null() {
            return None;
        }
        // SAFETY: the function returned a pointer to this number of bytes.
        let copy = unsafe { slice::from_raw_parts(found.cast_const().cast::<u8>(), length) };
        // What is not the beginning of the key cannot be used as its prefix.
        (copy == prefix).then_some(prefix)
    }
}

entry! {
    /// Before 11.0, there was a fifth parameter, which nobody called and everybody set to null,
    /// and the name came sixth.
    fn rocksdb_slicetransform_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C-unwind" fn(state: *mut c_void)>,
        transform: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void,
            key: *const c_char,
            length: usize,
            dst_length: *mut usize,
        ) -> *mut c_char>,
        in_domain: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void,
            key: *const c_char,
            length: usize,
        ) -> c_uchar>,
        name: Option<unsafe extern "C-unwind" fn(state: *mut c_void) -> *const c_char>,
        older_name: Option<unsafe extern "C-unwind" fn(state: *mut c_void) -> *const c_char>,
    ) -> *mut rocksdb_slicetransform_t {
        let absent = || Failure::invalid("a function is NULL");
        let transform = transform.ok_or_else(absent)?;
        let in_domain = in_domain.ok_or_else(absent)?;
        let state = State::new(state, destructor);
        let name = state.name(name.or(older_name));
        let extractor = UserTransform { state, transform, in_domain, name };
        let extractor = PrefixExtractor::Custom(Arc::new(extractor));
        Ok(give(rocksdb_slicetransform_t { extractor }))
    }
}

entry! {
    fn rocksdb_slicetransform_create_fixed_prefix(
        prefix_length: usize,
    ) -> *mut rocksdb_slicetransform_t {
        Ok(give(rocksdb_slicetransform_t { extractor: PrefixExtractor::Fixed(prefix_length) }))
    }
}

entry! {
    fn rocksdb_slicetransform_create_noop() -> *mut rocksdb_slicetransform_t {
        Ok(give(rocksdb_slicetransform_t { extractor: PrefixExtractor::Noop }))
    }
}

entry! {
    fn rocksdb_slicetransform_destroy(slice_transform: own rocksdb_slicetransform_t) {
        drop(slice_transform);
        Ok(())
    }
}
