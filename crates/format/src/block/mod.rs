//! Blocks: sorted entries with shared key prefixes, as stored in data, index and meta blocks.
//!
//! ```text
//! entry*                     shared | unshared | value length | [value offset] | key bytes | value
//! [values]                   only if values are separate from keys
//! restart*  fixed32          offsets of the entries that share nothing with the previous one
//! [bucket*  u8, count u16]   hash index: user key hash -> restart
//! [values offset fixed32]    only if values are separate
//! footer    fixed32          bits 0-27 restarts, 28 values apart, 29 keys uniform, 31 hash index
//! ```
//!
//! `shared`, `unshared`, `value length` and `value offset` are 32-bit varints; `value offset` is
//! only present at restarts and only if values are separate, and counts from the start of the
//! values. Index blocks of format_version 4 and later omit `value length`, because their values are
//! self-delimiting. Source: `table/block_based/block_builder.cc`, `data_block_footer.cc`,
//! `data_block_hash_index.cc`.
//!
//! A [`Layout`] is the parsed and validated footer. A [`Cursor`] or [`IndexCursor`] holds a
//! position and borrows the block's bytes only during a call, so that an owner can keep both
//! together. A [`Builder`] or [`IndexBuilder`] produces the same blocks from the same entries as
//! RocksDB, byte for byte.

mod builder;
#[cfg(test)]
mod builder_tests;
mod bytewise;
mod cursor;
mod encoder;
#[cfg(test)]
mod golden;
mod hash_index;
mod index;
mod index_builder;
mod layout;
mod position;
mod restart_prefixes;
mod restarts;
mod target;
#[cfg(test)]
mod tests;

pub use builder::{Builder, BuilderOptions};
pub use cursor::Cursor;
pub use hash_index::HashIndexAnswer;
pub use index::{IndexCursor, IndexFormat};
pub use index_builder::{IndexBuilder, IndexBuilderOptions, IndexShortening};
pub use layout::Layout;
pub use restart_prefixes::RestartPrefixes;
pub use restarts::Restarts;
pub use target::Target;
