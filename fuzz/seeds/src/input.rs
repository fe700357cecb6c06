//! The input of a target: choices first, then the bytes to be decoded.
//!
//! The first byte says how many bytes of choices follow. So a mutation of the data leaves the
//! choices alone and the other way round, and a real block becomes a seed by putting some choices
//! before it.

/// The choices of an input, taken one after the other; zeros where there are no more.
#[derive(Debug, Clone)]
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Splits an input into its choices and its data.
    pub fn split(input: &'a [u8]) -> (Self, &'a [u8]) {
        let Some((&count, rest)) = input.split_first() else { return (Self::new(&[]), &[]) };
        let (bytes, data) = rest.split_at(usize::from(count).min(rest.len()));
        (Self::new(bytes), data)
    }

    /// The choices that all of `bytes` are.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Whether none are left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        first
    }

    /// One of the numbers below `count`, or 0 where there is none.
    pub fn below(&mut self, count: usize) -> usize {
        match count {
            0 | 1 => 0,
            2..=256 => usize::from(self.byte()) % count,
            _ => self.number(4) as usize % count,
        }
    }

    /// True or false.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    /// One of some values.
    ///
    /// # Panics
    /// If `values` is empty.
    pub fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }

    /// A little-endian number of this many bytes, at most 8.
    pub fn number(&mut self, length: usize) -> u64 {
        (0..length).fold(0, |number, place| number | u64::from(self.byte()) << (8 * place))
    }

    /// Returns the next `length` bytes, fewer at the end.
    pub fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (head, rest) = self.bytes.split_at(length.min(self.bytes.len()));
        self.bytes = rest;
        head
    }

    /// Bytes that their length, one byte, precedes.
    pub fn string(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte());
        self.bytes(length)
    }
}

/// Returns the input of these choices, at most 255 bytes of them, and these data.
pub fn join(choices: &[u8], data: &[u8]) -> Vec<u8> {
    let choices = &choices[..choices.len().min(255)];
    let mut input = vec![choices.len() as u8];
    input.extend_from_slice(choices);
    input.extend_from_slice(data);
    input
}
