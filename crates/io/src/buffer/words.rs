//! A large array of atomic words that is zero without being written.
#![expect(unsafe_code, reason = "views mapped memory as atomic words")]

use std::ops::Deref;
use std::slice;
use std::sync::atomic::AtomicU64;

use super::Pages;

/// Atomic words that are zero at first. Creating them takes a constant time: the system allocates
/// and clears a page when it is touched first.
#[derive(Debug)]
pub struct ZeroedWords {
    memory: Memory,
    count: usize,
}

#[derive(Debug)]
enum Memory {
    Mapped(Pages),
    /// Used if the process has too many mappings.
    Allocated(Box<[AtomicU64]>),
}

impl ZeroedWords {
    /// Creates `count` words. They begin at a page, unless the process has too many mappings.
    pub fn new(count: usize) -> Self {
        let pages = count.checked_mul(size_of::<AtomicU64>()).filter(|&bytes| bytes > 0);
        let memory = match pages.and_then(|bytes| Pages::map(bytes, 1)) {
            Some(pages) => Memory::Mapped(pages),
            None => Memory::Allocated((0..count).map(|_| AtomicU64::new(0)).collect()),
        };
        Self { memory, count }
    }
}

impl Deref for ZeroedWords {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        match &self.memory {
            // SAFETY: the pages have at least `count` words, begin at a page, and live as long as
            // the result. Their bytes are zeros, or what was stored in the words, and they are
            // accessed only through the result.
            Memory::Mapped(pages) => unsafe {
                slice::from_raw_parts(pages.start().as_ptr().cast(), self.count)
            },
            Memory::Allocated(words) => words,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn words_are_zero_until_they_are_written() {
        for count in [0, 1, 511, 513, 100_000] {
            let words = ZeroedWords::new(count);
            assert_eq!(words.len(), count);
            assert!(words.iter().all(|word| word.load(Relaxed) == 0));
            words.iter().zip(1..).for_each(|(word, value)| word.store(value, Relaxed));
            assert_eq!(
                words.iter().map(|word| word.load(Relaxed)).max().unwrap_or(0),
                count as u64
            );
        }
    }
}
