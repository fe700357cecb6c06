//! An array with a few bytes of the key of each restart of an index block, for faster binary
//! searches.
//!
//! A binary search in the block itself touches two cache lines at each step: one with the restart's
//! offset and one with its key. This array stores eight bytes of each restart's key, as a number.
//! They are the bytes after the prefix that all these keys share. A search compares keys only for
//! restarts whose numbers equal the target's.
//!
//! A cache line holds a group of five such numbers, with the offsets of their restarts' entries.
//! The first number of each group is also in an array of its own, which is small enough for the
//! processor's caches. So a search finds the group there, and then reads one cache line.

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
    /// The first number of each group.
    firsts: Box<[u64]>,
    groups: Box<[Group]>,
    /// Number of restarts.
    count: usize,
}

/// Number of restarts in a group.
const GROUP: usize = 5;

/// Some successive restarts. The last group of a block is filled up with the highest number.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Group {
    /// For each restart, the eight bytes of its key after the shared prefix, padded with zeros, as
    /// a big-endian number.
    words: [u64; GROUP],
    /// For each restart, the offset of its entry in the block.
    offsets: [u32; GROUP],
}

/// The struct `Group` fills exactly one cache line.
const _: () = assert!(size_of::<Group>() == 64);

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
        let Restarts { first, last, .. } = Restarts::all(layout);
        if layout.is_empty() {
            return Ok(Self::of(&[], &[]));
        }
        let (first, last) = (user_key(first)?, user_key(last)?);
        let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let restarts = (0..layout.restart_count)
            .map(|restart| {
                let rest = user_key(restart)?.get(shared..).unwrap_or_default();
                Ok((word(rest), layout.restart_offset(block, restart)?))
            })
            .collect::<Result<Vec<(u64, u32)>>>()?;
        Ok(Self::of(first.get(..shared).unwrap_or_default(), &restarts))
    }

    fn of(shared: &[u8], restarts: &[(u64, u32)]) -> Self {
        let groups = restarts.chunks(GROUP).map(|restarts| {
            let mut group = Group { words: [u64::MAX; GROUP], offsets: [0; GROUP] };
            let places = group.words.iter_mut().zip(&mut group.offsets);
            places.zip(restarts).for_each(|(place, &(word, offset))| {
                (*place.0, *place.1) = (word, offset);
            });
            group
        });
        Self {
            shared: shared.into(),
            firsts: restarts.iter().map(|(word, _)| *word).step_by(GROUP).collect(),
            groups: groups.collect(),
            count: restarts.len(),
        }
    }

    /// Returns a range of restarts for a search of `user_key`. It contains the last restart whose
    /// key is not above `user_key` or, if there is none, only the first restart.
    #[inline]
    pub fn narrow(&self, user_key: &[u8]) -> Restarts {
        let end = self.count.saturating_sub(1);
        let head = user_key.get(..self.shared.len()).unwrap_or(user_key);
        let word = match head.cmp(&self.shared) {
            Ordering::Less => return self.restarts(0, 0),
            Ordering::Greater => return self.restarts(end, end),
            Ordering::Equal => word(user_key.get(self.shared.len()..).unwrap_or_default()),
        };
        let below = self.count_while(|number| number < word);
        let until = match self.group_of(below) {
            Some((group, at)) if group.words.get(at) == Some(&word) => {
                self.count_while(|number| number <= word)
            }
            _ => below,
        };
        self.restarts(below.saturating_sub(1), until.saturating_sub(1))
    }

    #[inline]
    fn restarts(&self, first: usize, last: usize) -> Restarts {
        let offset = self.group_of(first).and_then(|(group, at)| group.offsets.get(at).copied());
        Restarts { first: first as u32, last: last as u32, offset }
    }

    /// Returns how many restarts, from the first, have numbers for which `is_counted` is true. It
    /// must be true for all numbers below some limit, and false for the others.
    #[inline(always)]
    fn count_while(&self, is_counted: impl Fn(u64) -> bool) -> usize {
        let groups = self.firsts.partition_point(|&first| is_counted(first));
        let Some(group) = groups.checked_sub(1) else { return 0 };
        let Some(Group { words, .. }) = self.groups.get(group) else { return 0 };
        let counted = words.iter().filter(|&&number| is_counted(number)).count();
        (group * GROUP + counted).min(self.count)
    }

    /// Returns the group of a restart, and the restart's index in it.
    #[inline(always)]
    fn group_of(&self, restart: usize) -> Option<(&Group, usize)> {
        let group = self.groups.get(restart / GROUP).filter(|_| restart < self.count)?;
        Some((group, restart % GROUP))
    }

    /// Returns the heap memory that the array uses, in bytes.
    pub fn memory(&self) -> usize {
        self.shared.len() + size_of_val(&*self.firsts) + size_of_val(&*self.groups)
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
