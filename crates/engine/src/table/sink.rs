//! Destinations for the value that a get found.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::block_cache::{Block, BlockRef};
use crate::cache::Cached;

/// The owner of the memory of a found value.
#[derive(Clone, Copy)]
pub(crate) enum Owner<'a> {
    /// A memtable.
    MemTable,
    /// A block of a table.
    Block(&'a BlockRef<'a>),
}

/// The destination of the value that a get found.
pub(crate) trait Sink {
    /// Receives a value that is part of a memory area. `owner` keeps this memory alive.
    fn put(&mut self, value: &[u8], owner: Owner<'_>);

    /// Receives a value made for this get, that is, read from a blob file or merged from operands.
    fn put_owned(&mut self, value: Vec<u8>);

    /// Returns the length of the value that this sink received, in bytes.
    fn length(&self) -> usize;
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, value: &[u8], _owner: Owner<'_>) {
        self.clear();
        self.extend_from_slice(value);
    }

    fn put_owned(&mut self, value: Vec<u8>) {
        *self = value;
    }

    fn length(&self) -> usize {
        self.len()
    }
}

/// A value that was read without a copy: its block stays in memory while this lives.
///
/// It keeps only the value's block in memory; compactions and flushes continue. A value that comes
/// from a memtable or blob file, or was merged from operands, is a copy.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = tailwater::Db::open_default(directory.path())?;
/// db.put("key", "value")?;
/// db.flush()?;
/// let value = db.get_pinned("key")?.expect("a value");
///
/// // It derefs to bytes, which stay valid whatever happens to the key.
/// db.delete("key")?;
/// db.compact_range(None, None)?;
/// assert_eq!(&*value, b"value");
/// # Ok(())
/// # }
/// ```
pub struct PinnedValue(Pin);

enum Pin {
    Owned(Vec<u8>),
    Block(Arc<Cached<Block>>, Range<usize>),
}

impl Deref for PinnedValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Pin::Owned(value) => value,
            Pin::Block(block, range) => block.bytes().get(range.clone()).unwrap_or_default(),
        }
    }
}

impl AsRef<[u8]> for PinnedValue {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<PinnedValue> for Vec<u8> {
    /// Copies the value, unless it is not in a block.
    fn from(value: PinnedValue) -> Self {
        match value.0 {
            Pin::Owned(bytes) => bytes,
            Pin::Block(..) => value.to_vec(),
        }
    }
}

impl fmt::Debug for PinnedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

/// Returns the range of `part` in `whole`, if `part` is a slice of it.
fn subslice_range(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let range = start..start.checked_add(part.len())?;
    (range.end <= whole.len()).then_some(range)
}

impl Sink for Option<PinnedValue> {
    fn put(&mut self, value: &[u8], owner: Owner<'_>) {
        let pin = match owner {
            Owner::MemTable => Pin::Owned(value.to_vec()),
            Owner::Block(block) => {
                let block = block.to_arc();
                match subslice_range(block.bytes(), value) {
                    Some(range) => Pin::Block(block, range),
                    // For an entity without a default column, the value is an empty slice that is
                    // not in any block.
                    None => Pin::Owned(value.to_vec()),
                }
            }
        };
        *self = Some(PinnedValue(pin));
    }

    fn put_owned(&mut self, value: Vec<u8>) {
        *self = Some(PinnedValue(Pin::Owned(value)));
    }

    fn length(&self) -> usize {
        self.as_ref().map_or(0, |value| value.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_cache::BlockKind;

    #[test]
    fn an_empty_value_outside_its_block_can_be_pinned() {
        let block = Block::parse(vec![0; 4], BlockKind::Data).expect("an empty block");
        let block = BlockRef::Owned(Arc::new(Cached::standalone(block)));
        let mut sink: Option<PinnedValue> = None;
        // The result of `plain_value` for an entity without a default column.
        let none: Option<&[u8]> = None;
        sink.put(none.map_or(&[], |value| value), Owner::Block(&block));
        assert_eq!(sink.as_deref(), Some(&b""[..]));
    }
}
