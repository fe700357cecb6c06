//! The maximum length of an entry. Everything that bounds the length of a key, a value or a block
//! takes the bound from here.
//!
//! An entry is a key and its value, as stored: the value may be a merge operand, an entity with all
//! its columns, or a value followed by its write time. An acknowledged entry must fit every later
//! step of both engines, because either may write the next log or table. [`ENTRY_LENGTH_MAX`] is
//! derived from these steps, for a key of K bytes and a value of V bytes:
//!
//! | step | what has a length of 32 bits | its length |
//! |---|---|---|
//! | batch, log | the key; the value | K; V |
//! | memtable | the internal key; the value | K + 8; V |
//! | RocksDB's memtable | the encoded entry | K + V + 26 |
//! | data block, block of range tombstones | a block with this entry alone | K + V + 31 |
//! | index block | a block with one entry, for a data block that ends with K | K + 51 |
//! | MANIFEST | a bound of a table | K + 8 |
//!
//! For a deleted range, V is the end of the range, which is also a bound of a table. RocksDB's
//! memtable adds two lengths of 5 bytes, a trailer of 8 and up to 8 bytes of checksum. A block adds
//! the trailer, three lengths, a restart and the footer, an index block also a handle of 20 bytes.
//! [`ENTRY_OVERHEAD`] is more than any step adds. In addition, RocksDB adds an entry of any length
//! to a data block that is shorter than the option `block_size`. [`ENTRY_LENGTH_MAX`] therefore
//! leaves room for other entries of 1 MiB in the same block.
//!
//! No other length limits an entry: batches, log records, version edits, block handles and blob
//! records have lengths of 64 bits, and a block of 2 GiB or more is stored uncompressed.
//!
//! Keys have a lower limit. The index of a table may have the last key of each data block, and all
//! versions of a key are normally in one table. A flush has about twenty copies of a key in memory:
//! in the memtable, in the builders of blocks, as bounds of the table and in the MANIFEST.
//!
//! A block with many entries ends, or its table ends, before the block is longer than
//! [`block_length_max`].

use std::fmt;

/// Maximum length of a key and its value together, in bytes: 1 MiB below 4 GiB.
pub const ENTRY_LENGTH_MAX: usize = u32::MAX as usize - BLOCK_ROOM;

/// Maximum length of a key, in bytes: an eighth of [`ENTRY_LENGTH_MAX`].
pub const KEY_LENGTH_MAX: usize = ENTRY_LENGTH_MAX / KEY_SHARE;

/// Upper bound of the number of bytes that a block needs for one entry in addition to its key and
/// value.
pub const ENTRY_OVERHEAD: usize = 64;

/// Difference between the maximum lengths of a block and an entry, in bytes.
const BLOCK_ROOM: usize = (1 << 20) - 1;

/// Maximum length of a key, as a fraction of that of an entry: 1/KEY_SHARE.
const KEY_SHARE: usize = 8;

/// Returns the maximum length of a key and its value together: [`ENTRY_LENGTH_MAX`], unless a test
/// has lowered it.
#[inline]
pub fn entry_length_max() -> usize {
    #[cfg(feature = "for-tests")]
    return lowered::ENTRY_LENGTH_MAX.load(std::sync::atomic::Ordering::Relaxed);
    #[cfg(not(feature = "for-tests"))]
    ENTRY_LENGTH_MAX
}

/// Returns the maximum length of a key, in bytes.
#[inline]
pub fn key_length_max() -> usize {
    entry_length_max() / KEY_SHARE
}

/// Returns the maximum length of a block that is written, in bytes: 4 GiB minus one byte, unless a
/// test has lowered the maximum length of an entry.
#[inline]
pub fn block_length_max() -> usize {
    entry_length_max() + BLOCK_ROOM
}

/// Checks the length of an entry.
///
/// # Errors
/// The key alone, or the key and the value together, are longer than the maximum.
#[inline]
pub fn check_entry(key_length: usize, value_length: usize) -> Result<(), TooLong> {
    check_key(key_length)?;
    check_value(key_length, value_length)
}

/// Checks the length of a value that was computed for an existing key, whose own length is not
/// checked again.
///
/// # Errors
/// The key and the value together are longer than the maximum.
#[inline]
pub fn check_value(key_length: usize, value_length: usize) -> Result<(), TooLong> {
    let max = entry_length_max();
    if key_length + value_length <= max {
        return Ok(());
    }
    Err(TooLong { key_length, value_length: Some(value_length), max })
}

/// Checks the length of a key.
///
/// # Errors
/// The key is longer than the maximum.
#[inline]
pub fn check_key(key_length: usize) -> Result<(), TooLong> {
    let max = key_length_max();
    if key_length <= max {
        return Ok(());
    }
    Err(TooLong { key_length, value_length: None, max })
}

/// A key that is too long, or a key and a value that are too long together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong {
    key_length: usize,
    /// The length of the value; `None` if the key alone is too long.
    value_length: Option<usize>,
    max: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key_length, value_length, max } = *self;
        match value_length {
            Some(value_length) => write!(
                f,
                "a key of {key_length} and a value of {value_length} bytes, together more than the \
                 maximum of {max}"
            ),
            None => write!(f, "a key of {key_length} bytes, more than the maximum of {max}"),
        }
    }
}

impl std::error::Error for TooLong {}

/// The limit that tests lower, because entries of real size need too much memory.
#[cfg(feature = "for-tests")]
pub mod lowered {
    use std::sync::atomic::{AtomicUsize, Ordering};

    pub(super) static ENTRY_LENGTH_MAX: AtomicUsize = AtomicUsize::new(super::ENTRY_LENGTH_MAX);

    /// Sets the maximum length of a key and its value together, for the whole process. Returns the
    /// previous maximum.
    pub fn set_entry_length_max(bytes: usize) -> usize {
        ENTRY_LENGTH_MAX.swap(bytes, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_at_the_limit_fits_every_number_of_32_bits() {
        assert_eq!(ENTRY_LENGTH_MAX, (4 << 30) - (1 << 20));
        assert_eq!(block_length_max(), u32::MAX as usize);
        let largest_of_each_row = ENTRY_LENGTH_MAX + 51;
        assert!(largest_of_each_row <= ENTRY_LENGTH_MAX + ENTRY_OVERHEAD);
        assert!(ENTRY_LENGTH_MAX + ENTRY_OVERHEAD <= block_length_max());
    }

    #[test]
    fn the_error_names_what_is_too_long_and_the_limit() {
        assert_eq!(check_entry(KEY_LENGTH_MAX, ENTRY_LENGTH_MAX - KEY_LENGTH_MAX), Ok(()));
        let text = |result: Result<(), TooLong>| result.unwrap_err().to_string();
        assert_eq!(
            text(check_entry(1, ENTRY_LENGTH_MAX)),
            "a key of 1 and a value of 4293918720 bytes, together more than the maximum of 4293918720"
        );
        assert_eq!(
            text(check_entry(KEY_LENGTH_MAX + 1, 0)),
            "a key of 536739841 bytes, more than the maximum of 536739840"
        );
    }
}
