//! The boundary between C and Rust.
//!
//! Every function of the interface is declared with [`entry!`]. It converts the parameters,
//! catches panics, and turns a failure into an error string of the caller. In debug builds, it
//! checks that the caller's objects exist ([`live`]).

mod convert;
mod entry;
mod failure;
mod live;
mod memory;

pub(crate) use convert::{
    Out, bytes, list, optional, optional_bytes, owned, part_lists, path, pointers, reference,
    reference_mut, slices, text, texts,
};
pub(crate) use entry::{Returned, enter, entry, entry_with, give, give_box};
pub(crate) use failure::{Class, Failure, Outcome, replace_error};
pub(crate) use memory::{copy_bytes, copy_list, copy_text, release};
