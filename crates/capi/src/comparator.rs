//! Comparators.

use std::ffi::{c_char, c_int, c_void};
use std::mem;
use std::sync::Arc;

use tailwater::{Comparator, ForeignComparator, ForeignCompare};

use crate::boundary::{Failure, entry, give};
use crate::callback::{Destructor, Name, State};
use crate::marks::Marks;

type Compare =
    unsafe extern "C-unwind" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;

/// A comparator of the program, which stays the owner. Options refer to it, and databases share it
/// while they are open.
pub(crate) struct rocksdb_comparator_t {
    pub(crate) comparator: Arc<Comparator>,
    pub(crate) marks: Marks,
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
        // SAFETY: the types differ only in that the program's function may be called by unsafe code
        // alone. The engine calls it as it demands: with the state, while that lives, and with
        // pointers to keys, each followed by its length.
        let compare = unsafe { mem::transmute::<Compare, ForeignCompare>(compare) };
        let pointer = state.pointer();
        let comparator = Arc::new(ForeignComparator::new(name, compare, pointer, state));
        let comparator = Arc::new(Comparator::Foreign(comparator));
        Ok(give(rocksdb_comparator_t { comparator, marks: Marks::default() }))
    }
}

entry! {
    fn rocksdb_comparator_destroy(comparator: own rocksdb_comparator_t) {
        drop(comparator);
        Ok(())
    }
}
