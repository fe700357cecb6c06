//! Functions that are not implemented: a list for each group.
//!
//! All of them exist, because programs are linked with immediate binding. A line of a list is the
//! rule that a function follows, and its signature:
//!
//! | rule | the function |
//! |---|---|
//! | `refuse` | fails with NotSupported and its name, through `errptr` |
//! | `refuse_each(count, values, errors)` | the same for each item of arrays |
//! | `mark(object)` | makes the next call with an `errptr` that uses the object fail |
//! | `mark_if(object, pointer)` | the same, unless the pointer is null |
//! | `mark_while(object, pointer)` | the same, until it is called with null |
//! | `note(object)` | has no effect; the next database that uses the object notes it in its LOG |
//! | `note_if(object, pointer)` | the same, unless the pointer is null |
//! | `store(object, value, name, default, effect)` | stores a setting, see `marks::Effect` |
//! | `fetch(object, name, default)` | returns a stored setting |
//! | `stand_in` | returns an object that is accepted wherever null is |
//! | `release(object)` | destroys such an object |
//! | `inert`, `inert(length)` | does nothing, and returns 0 or null |
//! | `empty_copy`, `empty_text` | returns an empty text: the caller's, or a static one |

#![expect(unused_variables, reason = "the functions do nothing with their parameters")]

mod backup;
mod call_options;
mod families_and_files;
mod listeners;
mod more;
mod opening;
mod remote_compaction;
mod shared_resources;
mod table_properties;
mod timestamps;
mod tracing;
mod transactions;
mod types;

use std::sync::Arc;

pub(crate) use types::*;

use crate::boundary::Failure;
use crate::comparator::rocksdb_comparator_t;
use crate::env::rocksdb_env_t;
use crate::iterator::rocksdb_iterator_t;
use crate::live_files::rocksdb_livefiles_t;
use crate::marks::Marks;

/// An object that a function without implementation returns.
pub(crate) trait StandIn {
    /// Returns an object that does nothing, or that names the function `function` in the failure
    /// of the next call that uses it.
    fn stand_in(function: &'static str) -> Self;
}

impl StandIn for rocksdb_iterator_t {
    fn stand_in(function: &'static str) -> Self {
        Self::failed(Failure::missing(function))
    }
}

impl StandIn for rocksdb_livefiles_t {
    fn stand_in(_function: &'static str) -> Self {
        Self::empty()
    }
}

impl StandIn for rocksdb_env_t {
    fn stand_in(function: &'static str) -> Self {
        Self { marks: refused(function) }
    }
}

impl StandIn for rocksdb_comparator_t {
    fn stand_in(function: &'static str) -> Self {
        Self { comparator: Arc::new(tailwater::Comparator::Bytewise), marks: refused(function) }
    }
}

/// Returns the marks of an object that makes the next call that uses it fail.
fn refused(function: &'static str) -> Marks {
    let marks = Marks::default();
    marks.refuse(function);
    marks
}

/// Declares functions without implementation; see the module documentation.
macro_rules! missing {
    ($(
        $rule:ident $(($($argument:tt)*))?
        fn $name:ident ($($parameters:tt)*) $(-> $return:ty)?;
    )*) => {
        $($crate::missing::missing_function! {
            $rule [$($($argument)*)?] $name [$($parameters)*] [$($return)?]
        })*
    };
}

/// Declares one function.
macro_rules! missing_function {
    (refuse [] $name:ident [$($p:tt)*] [$($return:ty)?]) => {
        entry! {
            fn $name($($p)*) $(-> $return)? {
                Err(Failure::missing(stringify!($name)))
            }
        }
    };
    (
        refuse_each [$count:ident, $values:ident, $errors:ident]
        $name:ident [$($p:tt)*] []
    ) => {
        entry! {
            fn $name($($p)*) {
                let failure = Failure::missing(stringify!($name)).to_string();
                for at in 0..$count {
                    // SAFETY: the caller passes arrays of this length.
                    unsafe {
                        Out::new($values.add(at)).set(ptr::null_mut());
                        Out::new($errors.add(at)).set(copy_text(&failure));
                    }
                }
                Ok(())
            }
        }
    };
    (mark [$object:ident] $name:ident [$($p:tt)*] [$($return:ty)?]) => {
        entry! {
            fn $name($($p)*) $(-> $return)? {
                $object.marks().refuse(stringify!($name));
                Err(Failure::missing(stringify!($name)))
            }
        }
    };
    (mark_if [$object:ident, $pointer:ident] $name:ident [$($p:tt)*] []) => {
        entry! {
            fn $name($($p)*) {
                if !$pointer.is_null() {
                    $object.marks().refuse(stringify!($name));
                }
                Ok(())
            }
        }
    };
    (mark_while [$object:ident, $pointer:ident] $name:ident [$($p:tt)*] []) => {
        entry! {
            fn $name($($p)*) {
                let (name, is_set) = (stringify!($name), u64::from(!$pointer.is_null()));
                $object.marks().store(name, name, is_set, 0, Effect::Refuse);
                Ok(())
            }
        }
    };
    (note [$object:ident] $name:ident [$($p:tt)*] [$($return:ty)?]) => {
        entry! {
            fn $name($($p)*) $(-> $return)? {
                $object.marks().note(stringify!($name));
                Ok(Returned::AFTER_FAILURE)
            }
        }
    };
    (note_if [$object:ident, $pointer:ident] $name:ident [$($p:tt)*] []) => {
        entry! {
            fn $name($($p)*) {
                if !$pointer.is_null() {
                    $object.marks().note(stringify!($name));
                }
                Ok(())
            }
        }
    };
    (
        store [$object:ident, $value:ident, $setting:ident, $default:expr, $effect:ident]
        $name:ident [$($p:tt)*] []
    ) => {
        entry! {
            fn $name($($p)*) {
                store(
                    $object.marks(),
                    [stringify!($name), stringify!($setting)],
                    $value,
                    $default,
                    Effect::$effect,
                );
                Ok(())
            }
        }
    };
    (
        fetch [$object:ident, $setting:ident, $default:expr]
        $name:ident [$($p:tt)*] [$return:ty]
    ) => {
        entry! {
            fn $name($($p)*) -> $return {
                Ok(fetch($object.marks(), stringify!($setting), $default))
            }
        }
    };
    (stand_in [] $name:ident [$($p:tt)*] [$return:ty]) => {
        entry! {
            fn $name($($p)*) -> $return {
                Ok(give(StandIn::stand_in(stringify!($name))))
            }
        }
    };
    (release [$object:ident] $name:ident [$($p:tt)*] []) => {
        entry! {
            fn $name($($p)*) {
                drop($object);
                Ok(())
            }
        }
    };
    (inert [$($length:ident)?] $name:ident [$($p:tt)*] [$($return:ty)?]) => {
        entry! {
            fn $name($($p)*) $(-> $return)? {
                $($length.set(0);)?
                Ok(Returned::AFTER_FAILURE)
            }
        }
    };
    (empty_copy [$($length:ident)?] $name:ident [$($p:tt)*] [$return:ty]) => {
        entry! {
            fn $name($($p)*) -> $return {
                $($length.set(0);)?
                Ok(copy_text(""))
            }
        }
    };
    (empty_text [$($length:ident)?] $name:ident [$($p:tt)*] [$return:ty]) => {
        entry! {
            fn $name($($p)*) -> $return {
                $($length.set(0);)?
                Ok(c"".as_ptr())
            }
        }
    };
}

use {missing, missing_function};

/// What the lists use.
mod prelude {
    pub(super) use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};
    pub(super) use std::ptr;

    pub(super) use super::{StandIn, missing, types::*};
    pub(super) use crate::batch::rocksdb_writebatch_t;
    pub(super) use crate::block_based_options::rocksdb_block_based_table_options_t;
    pub(super) use crate::boundary::{Failure, Out, Returned, copy_text, entry, give};
    pub(super) use crate::cache::*;
    pub(super) use crate::checkpoint::rocksdb_checkpoint_t;
    pub(super) use crate::compaction::rocksdb_compactoptions_t;
    pub(super) use crate::compaction_filter::rocksdb_compactionfilter_t;
    pub(super) use crate::comparator::rocksdb_comparator_t;
    pub(super) use crate::database::rocksdb_t;
    pub(super) use crate::env::rocksdb_env_t;
    pub(super) use crate::env_options::rocksdb_envoptions_t;
    pub(super) use crate::families::rocksdb_column_family_handle_t;
    pub(super) use crate::flush::rocksdb_flushoptions_t;
    pub(super) use crate::ingestion::rocksdb_ingestexternalfileoptions_t;
    pub(super) use crate::iterator::{rocksdb_iterator_t, rocksdb_slice_t};
    pub(super) use crate::live_files::rocksdb_livefiles_t;
    pub(super) use crate::marks::{Effect, Marked, fetch, store};
    pub(super) use crate::merge_operator::rocksdb_mergeoperator_t;
    pub(super) use crate::options::*;
    pub(super) use crate::pinned_value::rocksdb_pinnableslice_t;
    pub(super) use crate::rate_limiter::rocksdb_ratelimiter_t;
    pub(super) use crate::read_options::rocksdb_readoptions_t;
    pub(super) use crate::slice_transform::rocksdb_slicetransform_t;
    pub(super) use crate::snapshot::rocksdb_snapshot_t;
    pub(super) use crate::sst_file_writer::rocksdb_sstfilewriter_t;
    pub(super) use crate::write_options::rocksdb_writeoptions_t;
}
