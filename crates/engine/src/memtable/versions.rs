//! The versions of one key, newest first.

use tailwater_format::key::{Sequence, ValueType};

use super::skiplist::{Node, SkipList};

/// One version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version<'a> {
    /// The sequence number of the write.
    pub(crate) sequence: Sequence,
    /// The type of the write.
    pub(crate) value_type: ValueType,
    /// The content of the record: a value, a merge operand, or other bytes, depending on the type.
    pub(crate) value: &'a [u8],
}

/// An iterator over the versions of one key, newest first; see
/// [`MemTable::versions`](super::MemTable::versions).
///
/// It neither allocates nor copies: values are borrowed from the memtable.
pub(crate) struct Versions<'a> {
    list: &'a SkipList,
    /// The version to return next. It is known to belong to the key.
    next: Option<Node<'a>>,
}

impl<'a> Versions<'a> {
    /// Creates an iterator over the visible versions of a user key. If there are any, `first` must
    /// be the node of the newest visible one. If `first` is `None` or belongs to another key, the
    /// iterator is empty.
    #[inline]
    pub(super) fn of(list: &'a SkipList, user_key: &[u8], first: Option<Node<'a>>) -> Self {
        let next = first.filter(|node| list.same_user_key(node.key_parts().0, user_key));
        Self { list, next }
    }
}

impl<'a> Versions<'a> {
    /// Returns the next version, and the user key as it was written with this version.
    #[inline]
    pub(crate) fn next_with_key(&mut self) -> Option<(&'a [u8], Version<'a>)> {
        let node = self.next?;
        let (user_key, trailer) = node.key_parts();
        self.next =
            node.next(0).filter(|older| self.list.same_user_key(older.key_parts().0, user_key));
        let value_type = ValueType::from_byte(trailer as u8)?;
        Some((user_key, Version { sequence: trailer >> 8, value_type, value: node.value() }))
    }
}

impl<'a> Iterator for Versions<'a> {
    type Item = Version<'a>;

    #[inline]
    fn next(&mut self) -> Option<Version<'a>> {
        self.next_with_key().map(|(_, version)| version)
    }
}
