//! The target of a search in a block.

use std::cmp::Ordering;

use crate::comparator::Comparator;
use crate::key;

/// The internal key that a search looks for, split into its parts, and the comparator of its user
/// key.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The comparator of user keys.
    pub comparator: &'a Comparator,
    /// The user key.
    pub user_key: &'a [u8],
    /// The sequence number and the type, packed: among equal user keys, the higher trailer sorts
    /// first.
    pub trailer: u64,
}

impl Target<'_> {
    /// Compares the internal key `entry` with the target: `Less` if `entry` sorts before the
    /// target.
    #[inline(always)]
    pub fn compare(&self, entry: &[u8]) -> Ordering {
        let (user_key, trailer) = key::split(entry).unwrap_or((entry, 0));
        let order = self.comparator.compare(user_key, self.user_key);
        order.then_with(|| self.trailer.cmp(&trailer))
    }
}
