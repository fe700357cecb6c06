//! An array with a few bytes of the key of each restart of an index block, for faster binary
//! searches.
//!
//! A binary search in the block itself touches two cache lines at each step: one with the restart's
//! offset and one with its key. This array stores eight bytes of each restart's key, as a number.
//! They are the bytes after the prefix that all these keys share. A cache line holds eight such
//! numbers. A search compares keys only for restarts whose numbers equal the target's.

use std::cmp::Ordering;

use crate::block::layout::Layout;
use crate::block::position::restart_key;
use crate::block::restarts::Restarts;
use crate::{Result, key};

/// For each restart of an index block, the eight bytes of its key after the prefix that all these
/// keys share, as a number. The keys of the block must be in bytewise order.
#[derive(Debug, Clone)]
pub struct RestartPrefixes {
    /// The prefix that the keys of all restarts share.
    shared: Box<[u8]>,
    /// For each restart, the eight bytes of its key after the shared prefix, padded with zeros, as
    /// a big-endian number.
    words: Box<[u64]>,
}

impl RestartPrefixes {
    /// Collects eight bytes of the key of each restart of an index block. The block's keys must be
    /// in bytewise order. `delta_values` is the field of the block's [`super::IndexFormat`].
    /// `user_keys` states whether the keys are user keys, rather than internal keys.
    ///
    /// # Errors
    /// Corruption if a restart does not refer to a well-formed entry.
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

    /// Returns a range of restarts for a search of `user_key`. It contains the last restart whose
    /// key is not above `user_key` or, if there is none, only the first restart.
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

    /// Returns the heap memory that the array uses, in bytes.
    pub fn memory(&self) -> usize {
        self.shared.len() + size_of_val(&*self.words)
    }
}

/// Returns the first eight bytes as a big-endian number. Fewer bytes are padded with zeros.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => bytes.iter().rev().fold(0, |word, byte| word >> 8 | u64::from(*byte) << 56),
    }
}
