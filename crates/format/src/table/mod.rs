//! The parts of a block-based table (SST) that are not data or index blocks.
//!
//! ```text
//! data blocks | filter | index | compression dictionary | range deletions | properties
//!             | metaindex | footer
//! ```
//!
//! Each block is followed by a [trailer]. The metaindex names the [meta blocks](meta), the footer
//! locates the metaindex. A reader locates everything else through these two, and does not rely on
//! the order.

pub mod footer;
pub mod meta;
pub mod properties;
pub mod sequence_times;
pub mod trailer;
pub mod unique_id;

pub use footer::{BlockHandle, Footer};
pub use properties::{IndexType, Properties};
pub use trailer::{BLOCK_TRAILER_LENGTH, BlockChecksum};
pub use unique_id::UniqueId;
