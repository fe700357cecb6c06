//! The values of a multi-get, copied into one buffer.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::table::{Owner, Sink};

/// The values of a multi-get, copied one after another into one buffer
/// ([`Db::multi_get_into`](crate::Db::multi_get_into)). If it is reused for the next call, that
/// allocates only if it needs more space.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = tailwater::Db::open_default(directory.path())?;
/// db.put("a", "1")?;
/// db.put("b", "22")?;
/// let mut values = tailwater::ValueBuffer::new();
/// db.multi_get_into(&["b", "none", "a"], &mut values);
/// assert_eq!(values.get(0)?, Some(&b"22"[..]));
/// assert_eq!(values.get(1)?, None);
/// assert_eq!(values.len(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct ValueBuffer {
    bytes: Vec<u8>,
    /// The place of each value in `bytes`, in the order of the keys.
    places: Vec<Place>,
}

#[derive(Debug, Clone)]
enum Place {
    Absent,
    At(Range<usize>),
    Failed(Box<Error>),
}

impl ValueBuffer {
    /// Creates an empty buffer.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), places: Vec::new() }
    }

    /// Returns the number of keys of the multi-get.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether the multi-get had no keys.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the value of the key with this index in the multi-get; `None` if the key has no
    /// value, or if there was no such key.
    ///
    /// # Errors
    /// The error of reading this key.
    #[inline]
    pub fn get(&self, at: usize) -> Result<Option<&[u8]>> {
        match self.places.get(at) {
            Some(Place::At(range)) => Ok(self.bytes.get(range.clone())),
            Some(Place::Failed(error)) => Err(Error::clone(error)),
            Some(Place::Absent) | None => Ok(None),
        }
    }

    /// Replaces the values by those of a multi-get of `keys` keys. `read` gets the shared buffer of
    /// the sinks, and a function that it calls with the index of each key and the result of reading
    /// it.
    pub(crate) fn fill(
        &mut self,
        keys: usize,
        read: impl FnOnce(&RefCell<Vec<u8>>, &mut dyn FnMut(usize, Result<Option<Range<usize>>>)),
    ) {
        self.bytes.clear();
        self.places.clear();
        self.places.resize(keys, Place::Absent);
        let shared = RefCell::new(std::mem::take(&mut self.bytes));
        read(&shared, &mut |at, result| {
            self.places[at] = match result {
                Ok(None) => Place::Absent,
                Ok(Some(range)) => Place::At(range),
                Err(error) => Place::Failed(Box::new(error)),
            }
        });
        self.bytes = shared.into_inner();
    }
}

impl fmt::Debug for ValueBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueBuffer").field("places", &self.places).finish_non_exhaustive()
    }
}

/// A sink that appends the value to a buffer that several sinks share.
pub(crate) struct CopiedValue<'b> {
    buffer: &'b RefCell<Vec<u8>>,
    /// The place of the value in the buffer.
    pub(crate) range: Range<usize>,
}

impl<'b> CopiedValue<'b> {
    /// Creates a sink that has no value yet.
    #[inline]
    pub(crate) fn new(buffer: &'b RefCell<Vec<u8>>) -> Self {
        Self { buffer, range: 0..0 }
    }
}

impl Sink for CopiedValue<'_> {
    #[inline]
    fn put(&mut self, value: &[u8], _owner: Owner<'_>) {
        let mut buffer = self.buffer.borrow_mut();
        let start = buffer.len();
        buffer.extend_from_slice(value);
        self.range = start..buffer.len();
    }

    fn put_owned(&mut self, value: Vec<u8>) {
        self.put(&value, Owner::MemTable);
    }

    fn length(&self) -> usize {
        self.range.len()
    }

    fn with_value(&self, read: impl FnOnce(&[u8])) {
        read(self.buffer.borrow().get(self.range.clone()).unwrap_or_default());
    }
}
