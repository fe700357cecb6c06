//! The first bytes of a block's keys in one array, so that a search touches few cache lines.
//!
//! A binary search over an index block reads two cache lines at each step: that of the restart and
//! that of its key. This array holds, as numbers, the eight bytes of each restart's key after the
//! prefix that all these keys share: eight restarts to a line. Keys are compared only where the
//! numbers are equal.

use std::cmp::Ordering;

use crate::block::layout::Layout;
use crate::block::position::restart_key;
use crate::block::restarts::Restarts;
use crate::{Result, key};

/// The first bytes of the restarts' keys of an index block in bytewise order.
#[derive(Debug, Clone)]
pub struct RestartPrefixes {
    /// Common prefix of all keys.
    shared: Box<[u8]>,
    /// The eight bytes after the common prefix of each restart's key as a big-endian number, padded
    /// with zeros.
    words: Box<[u64]>,
}

impl RestartPrefixes {
    /// Collects the prefixes of an index block. `delta_values` is the field of its
    /// [`super::IndexFormat`]; `user_keys` states whether its keys lack trailers. The keys must be
    /// in bytewise order.
    ///
    /// # Errors
    /// Corruption, for a restart that refers to no entry, and a key that is too short.
    pub fn build(
        block: &[u8],
        layout: &Layout,
        delta_values: bool,
        user_keys: bool,
    ) -> Result<Self> {
        let user_key = |restart: u32| {
            let key = if delta_values {
                restart_key::<false>(block, layout, restart)?
            } else {
                restart_key::<true>(block, layout, restart)?
            };
            Ok(if user_keys { key } else { key::user_key(key) })
        };
        let Restarts { first, last } = Restarts::all(layout);
        if layout.is_empty() {
            return Ok(Self { shared: Box::default(), words: Box::default() });
        }
        let (first, last) = (user_key(first)?, user_key(last)?);
        let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let words = (0..layout.restart_count)
            .map(|restart| Ok(word(user_key(restart)?.get(shared..).unwrap_or_default())))
            .collect::<Result<_>>()?;
        Ok(Self { shared: first.get(..shared).unwrap_or_default().into(), words })
    }

    /// Returns a range of restarts that contains the last one whose key is not above `user_key`; if
    /// there is none, only the first.
    #[inline]
    pub fn narrow(&self, user_key: &[u8]) -> Restarts {
        let end = self.words.len().saturating_sub(1) as u32;
        let head = user_key.get(..self.shared.len()).unwrap_or(user_key);
        let word = match head.cmp(&self.shared) {
            Ordering::Less => return Restarts { first: 0, last: 0 },
            Ordering::Greater => return Restarts { first: end, last: end },
            Ordering::Equal => word(user_key.get(self.shared.len()..).unwrap_or_default()),
        };
        let below = self.words.partition_point(|&key| key < word);
        let equal = match self.words.get(below..) {
            Some([first, rest @ ..]) if *first == word => {
                1 + rest.partition_point(|&key| key == word)
            }
            _ => 0,
        };
        Restarts {
            first: below.saturating_sub(1) as u32,
            last: (below + equal).saturating_sub(1) as u32,
        }
    }

    /// Returns the heap memory in use, in bytes.
    pub fn memory(&self) -> usize {
        self.shared.len() + size_of_val(&*self.words)
    }
}

/// Returns the first eight bytes as a big-endian number, padded with zeros.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => bytes.iter().rev().fold(0, |word, byte| word >> 8 | u64::from(*byte) << 56),
    }
}
