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
//! `shared` is the number of bytes that the key shares with the previous key, and `unshared` is the
//! number of other bytes, which follow as `key bytes`. A restart is an entry that stores its whole
//! key; searches begin at restarts. `shared`, `unshared`, `value length` and `value offset` are
//! 32-bit varints. An entry has a `value offset` only if it is a restart and values are separate
//! from keys; the offset counts from the start of the values. Entries of index blocks have no
//! `value length` in format_version 4 and later, because the encoding of their values determines
//! the length. Source: `table/block_based/block_builder.cc`, `data_block_footer.cc`,
//! `data_block_hash_index.cc`.
//!
//! A [`Layout`] is the parsed and validated footer of a block. A [`Cursor`] or [`IndexCursor`] is a
//! position in a block. It borrows the block's bytes only during a call, so one object can own both
//! the bytes and the cursor. A [`Builder`] or [`IndexBuilder`] produces the same bytes as RocksDB
//! from the same entries.

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
mod interval;
mod layout;
mod position;
mod quick;
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
pub use interval::Interval;
pub use layout::Layout;
pub use restart_prefixes::RestartPrefixes;
pub use restarts::Restarts;
pub use target::Target;
