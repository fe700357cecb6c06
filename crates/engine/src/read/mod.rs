//! Point reads: from a key to its value.
//!
//! A get asks its sources newest first: the active memtable, the immutable ones, the tables of
//! level 0, then one table of each further level. It first goes as far as memory allows, under an
//! epoch: no lock, no reference count, no allocation. Only where a block or table has to come from
//! the file does it take references to what it reads, leave the epoch, and go on from the source it
//! had reached.

mod get;
mod lookup;
mod multi_get;
mod sink;

pub(crate) use get::get;
pub(crate) use lookup::{Lookup, PlainValue, Step, fold, plain_value};
pub(crate) use multi_get::multi_get;
pub use sink::PinnedValue;
pub(crate) use sink::{Owner, Sink};
