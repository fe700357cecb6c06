//! Comparators.

use std::cmp::Ordering;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use tailwater::{Comparator, CustomComparator};

use crate::boundary::{Failure, entry, give};
use crate::callback::{Destructor, Name, State};
use crate::marks::Marks;

type Compare =
    unsafe extern "C-unwind" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;

/// A comparator of the program, which stays the owner: options and databases share it.
pub(crate) struct rocksdb_comparator_t {
    pub(crate) comparator: Comparator,
    pub(crate) marks: Marks,
}

struct UserComparator {
    state: State,
    compare: Compare,
    name: String,
}

impl CustomComparator for UserComparator {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        // SAFETY: the function belongs to this state, and only reads the keys.
        let order = unsafe {
            (self.compare)(
                self.state.pointer(),
                a.as_ptr().cast(),
                a.len(),
                b.as_ptr().cast(),
                b.len(),
            )
        };
        order.cmp(&0)
    }
}

entry! {
    fn rocksdb_comparator_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C-unwind" fn(state: *mut c_void)>,
        compare: Option<unsafe extern "C-unwind" fn(
            state: *mut c_void,
            a: *const c_char,
            alen: usize,
            b: *const c_char,
            blen: usize,
        ) -> c_int>,
        name: Option<unsafe extern "C-unwind" fn(state: *mut c_void) -> *const c_char>,
    ) -> *mut rocksdb_comparator_t {
        let (destructor, name): (Destructor, Name) = (destructor, name);
        let compare = compare.ok_or_else(|| Failure::invalid("argument compare is NULL"))?;
        let state = State::new(state, destructor);
        let name = state.name(name);
        let comparator = Comparator::Custom(Arc::new(UserComparator { state, compare, name }));
        Ok(give(rocksdb_comparator_t { comparator, marks: Marks::default() }))
    }
}

entry! {
    fn rocksdb_comparator_destroy(comparator: own rocksdb_comparator_t) {
        drop(comparator);
        Ok(())
    }
}
