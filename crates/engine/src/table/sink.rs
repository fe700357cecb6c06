//! Destinations for the value that a get found.

use std::cell::RefCell;
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

    /// Calls `read` with the value that this sink received.
    fn with_value(&self, read: impl FnOnce(&[u8]));
}

impl<S: Sink> Sink for &mut S {
    #[inline(always)]
    fn put(&mut self, value: &[u8], owner: Owner<'_>) {
        (**self).put(value, owner);
    }

    #[inline(always)]
    fn put_owned(&mut self, value: Vec<u8>) {
        (**self).put_owned(value);
    }

    #[inline(always)]
    fn length(&self) -> usize {
        (**self).length()
    }

    fn with_value(&self, read: impl FnOnce(&[u8])) {
        (**self).with_value(read);
    }
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

    fn with_value(&self, read: impl FnOnce(&[u8])) {
        read(self);
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
    /// A part of a block that several values of a batch share.
    Shared(Arc<SharedBlock>, Range<usize>),
}

/// A reference to a block that the values of a batch share. So a batch changes the block's
/// reference count, which threads contend for, only once.
struct SharedBlock(Arc<Cached<Block>>);

impl Deref for PinnedValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Pin::Owned(value) => value,
            Pin::Block(block, range) => block.bytes().get(range.clone()).unwrap_or_default(),
            Pin::Shared(block, range) => block.0.bytes().get(range.clone()).unwrap_or_default(),
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
            Pin::Block(..) | Pin::Shared(..) => value.to_vec(),
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

impl Pin {
    /// Pins a value. `pin_block` pins the value's block, of which the value is this range.
    fn of(
        value: &[u8],
        owner: Owner<'_>,
        pin_block: impl FnOnce(&BlockRef<'_>, Range<usize>) -> Self,
    ) -> Self {
        match owner {
            Owner::MemTable => Self::Owned(value.to_vec()),
            Owner::Block(block) => match subslice_range(block.bytes(), value) {
                Some(range) => pin_block(block, range),
                // For an entity without a default column, the value is an empty slice that is not
                // in any block.
                None => Self::Owned(value.to_vec()),
            },
        }
    }
}

impl Sink for Option<PinnedValue> {
    fn put(&mut self, value: &[u8], owner: Owner<'_>) {
        let pin = Pin::of(value, owner, |block, range| Pin::Block(block.to_arc(), range));
        *self = Some(PinnedValue(pin));
    }

    fn put_owned(&mut self, value: Vec<u8>) {
        *self = Some(PinnedValue(Pin::Owned(value)));
    }

    fn length(&self) -> usize {
        self.as_ref().map_or(0, |value| value.len())
    }

    fn with_value(&self, read: impl FnOnce(&[u8])) {
        read(self.as_deref().unwrap_or_default());
    }
}

/// The block that a batch pinned last. The keys of a batch are in order, so those of one block
/// follow each other.
#[derive(Default)]
pub(crate) struct LastPinned(RefCell<Option<Arc<SharedBlock>>>);

/// A sink for a value of a batch, which shares its block with the batch's other values.
pub(crate) struct BatchPinned<'b> {
    last: &'b LastPinned,
    pub(crate) value: Option<PinnedValue>,
}

impl<'b> BatchPinned<'b> {
    /// Creates a sink that has no value yet.
    pub(crate) fn new(last: &'b LastPinned) -> Self {
        Self { last, value: None }
    }
}

impl Sink for BatchPinned<'_> {
    fn put(&mut self, value: &[u8], owner: Owner<'_>) {
        let pin = Pin::of(value, owner, |block, range| {
            let mut last = self.last.0.borrow_mut();
            let shared = last.take().filter(|last| last.0.address() == block.address());
            let shared = shared.unwrap_or_else(|| Arc::new(SharedBlock(block.to_arc())));
            *last = Some(Arc::clone(&shared));
            Pin::Shared(shared, range)
        });
        self.value = Some(PinnedValue(pin));
    }

    fn put_owned(&mut self, value: Vec<u8>) {
        self.value.put_owned(value);
    }

    fn length(&self) -> usize {
        self.value.length()
    }

    fn with_value(&self, read: impl FnOnce(&[u8])) {
        self.value.with_value(read);
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
    #[test]
    fn the_values_of_a_batch_share_one_reference_to_their_block() {
        // A block ends with the number of its restarts, here one.
        let bytes = [vec![0; 96], vec![1, 0, 0, 0]].concat();
        let block = Block::parse(bytes, BlockKind::Data).expect("a block");
        let cached = Arc::new(Cached::standalone(block));
        let block = BlockRef::Owned(Arc::clone(&cached));
        let last = LastPinned::default();
        let values: Vec<_> = (0..10)
            .map(|at| {
                let mut sink = BatchPinned::new(&last);
                sink.put(&cached.bytes()[at..at + 5], Owner::Block(&block));
                sink.value
            })
            .collect();
        assert_eq!(Arc::strong_count(&cached), 3, "this test has two of them");
        drop((last, block));
        assert!(values.iter().all(|value| value.as_deref() == Some(&[0; 5][..])));
        drop(values);
        assert_eq!(Arc::strong_count(&cached), 1);
    }
}
