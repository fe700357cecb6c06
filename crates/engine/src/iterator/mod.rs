//! Iterators, in layers: from the sources of a column family at the bottom to the keys that users
//! see at the top.
//!
//! ```text
//! DbIterator          the user's view: one value per key, at one snapshot, within bounds
//!   MergingIterator   every record of every source, in internal key order
//!     Leaf            one source: a memtable, a table of level 0, or the tables of another level
//!     Tombstones      the range tombstones of each source that cover the position
//! ```
//!
//! Leaves and comparators are enums, so that a step makes no virtual call. Buffers are reused from
//! step to step, so that a step allocates no memory.

mod leaf;
mod level;
mod merging;
mod tombstones;
mod user;

pub(crate) use leaf::Leaf;
pub(crate) use level::LevelIterator;
pub(crate) use merging::MergingIterator;
pub use user::DbIterator;
pub(crate) use user::Origin;

pub(crate) use crate::table::Direction;
