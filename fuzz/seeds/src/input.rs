//! The input of a fuzz target: choices, followed by the data to decode.
//!
//! The first byte is the number of bytes of choices that follow it. If the fuzzer mutates the data,
//! the choices therefore do not change, and vice versa. A block of a real table becomes a seed if
//! choices are put before it.

/// The choices of a fuzz input: bytes that select what the target does. They are taken one after
/// another. When none are left, every choice is 0.
#[derive(Debug, Clone)]
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Splits a fuzz input into the choices at its beginning and the data after them.
    pub fn split(input: &'a [u8]) -> (Self, &'a [u8]) {
        let Some((&count, rest)) = input.split_first() else { return (Self::new(&[]), &[]) };
        let (bytes, data) = rest.split_at(usize::from(count).min(rest.len()));
        (Self::new(bytes), data)
    }

    /// Treats all of `bytes` as choices.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns whether all bytes of the choices have been taken.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the next byte, or 0 if none is left.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        first
    }

    /// Returns the next choice as a number less than `count`; 0 if `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        match count {
            0 | 1 => 0,
            2..=256 => usize::from(self.byte()) % count,
            _ => self.number(4) as usize % count,
        }
    }

    /// Returns the next choice as a boolean.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    /// Returns the element of `values` that the next choice selects.
    ///
    /// # Panics
    /// If `values` is empty.
    pub fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }

    /// Returns the next `length` bytes, at most 8, as a little-endian number.
    pub fn number(&mut self, length: usize) -> u64 {
        (0..length).fold(0, |number, place| number | u64::from(self.byte()) << (8 * place))
    }

    /// Returns the next `length` bytes, or fewer if fewer are left.
    pub fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (head, rest) = self.bytes.split_at(length.min(self.bytes.len()));
        self.bytes = rest;
        head
    }

    /// Returns a byte string of up to 255 bytes. The next byte is its length, and the string
    /// follows.
    pub fn string(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte());
        self.bytes(length)
    }
}

/// Returns an input that consists of these choices, cut to 255 bytes, and this data.
pub fn join(choices: &[u8], data: &[u8]) -> Vec<u8> {
    let choices = &choices[..choices.len().min(255)];
    let mut input = vec![choices.len() as u8];
    input.extend_from_slice(choices);
    input.extend_from_slice(data);
    input
}
