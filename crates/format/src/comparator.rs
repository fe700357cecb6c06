//! The order of user keys.
//!
//! A database's order is part of its format. The order's name is in the MANIFEST and in every
//! table. A database cannot be opened with an order of another name. The two built-in orders are
//! variants of [`Comparator`], so that comparisons in a loop are inlined. A user-defined order is a
//! trait object or, if a program in another language defines it, a function.

use std::any::Any;
use std::cmp::Ordering;
use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicPtr};

use crate::user_code;

/// An order of user keys that is not built in.
///
/// # Keys that are equal but not the same bytes
///
/// An order may treat different bytes as the same key, as a case-insensitive order or one that
/// ignores trailing zeros does. Filters and the hash indexes of data blocks identify keys by their
/// bytes. An order that treats different bytes as the same key must therefore declare this with
/// [`can_keys_with_different_byte_contents_be_equal`]:
///
/// | declared | filters | hash indexes of data blocks |
/// |---|---|---|
/// | `Some(true)` | neither built nor consulted | neither built nor consulted |
/// | `Some(false)` | by `filter_policy` | by `data_block_index_type` |
/// | `None`, the default | by `filter_policy` | neither built nor consulted |
///
/// Filters and hash indexes that already exist, because they were built by RocksDB or under an
/// earlier declaration, are ignored where the table above says that they are not consulted.
///
/// `None` behaves like RocksDB, which assumes by default that different bytes can be equal keys,
/// but considers this only for hash indexes and not for filters. Suppose that an order treats
/// different bytes as the same key, does not declare so, and has a `filter_policy`. Then a get,
/// multi-get or prefix seek may wrongly find nothing if the bytes of its key differ from the bytes
/// that were written.
///
/// If a key was written in different bytes, iterators return the bytes of its newest visible
/// version.
///
/// [`can_keys_with_different_byte_contents_be_equal`]:
///     CustomComparator::can_keys_with_different_byte_contents_be_equal
///
/// ```
/// use std::cmp::Ordering;
/// use std::sync::Arc;
/// use tailwater_format::Comparator;
/// use tailwater_format::comparator::CustomComparator;
///
/// /// Shorter keys first.
/// struct ByLength;
///
/// impl CustomComparator for ByLength {
///     fn name(&self) -> &str {
///         "example.ByLength"
///     }
///
///     fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
///         a.len().cmp(&b.len()).then_with(|| a.cmp(b))
///     }
///
///     fn can_keys_with_different_byte_contents_be_equal(&self) -> Option<bool> {
///         Some(false)
///     }
/// }
///
/// // `tailwater::OpenOptions::add_comparator` takes it.
/// let comparator = Comparator::Custom(Arc::new(ByLength));
/// assert_eq!(comparator.compare(b"b", b"aa"), Ordering::Less);
/// ```
pub trait CustomComparator: Send + Sync {
    /// Returns the name that the MANIFEST records. It must change whenever the order does.
    fn name(&self) -> &str;

    /// Compares two keys in a total order. Keys for which this returns `Equal` are the same key.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// Returns whether keys that are not the same bytes can compare equal; `None` if that is not
    /// declared, see [above](CustomComparator#keys-that-are-equal-but-not-the-same-bytes). It must
    /// always return the same value. RocksDB's `CanKeysWithDifferentByteContentsBeEqual`.
    fn can_keys_with_different_byte_contents_be_equal(&self) -> Option<bool> {
        None
    }

    /// Replaces `start` with a short key at or after `start` and before `limit`. Leaving it
    /// unchanged is always correct.
    fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let _ = (start, limit);
    }

    /// Replaces `key` with a short key at or after `key`. Leaving it unchanged is always correct.
    fn find_short_successor(&self, key: &mut Vec<u8>) {
        let _ = key;
    }
}

/// The comparison of an order that a program in another language defines. Its arguments are the
/// program's state, and two keys, each with its length. Returns a negative number, 0 or a positive
/// number, as `memcmp` does.
pub type ForeignCompare =
    extern "C-unwind" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;

/// An order of user keys that a program in another language defines. A comparison costs one
/// indirect call. Otherwise like a [`CustomComparator`] that defines nothing but its name and its
/// comparison.
///
/// ```
/// use std::cmp::Ordering;
/// use std::ffi::{c_char, c_int, c_void};
/// use std::sync::Arc;
/// use tailwater_format::Comparator;
/// use tailwater_format::comparator::ForeignComparator;
///
/// extern "C-unwind" fn shorter_first(
///     _state: *mut c_void,
///     _a: *const c_char,
///     a_length: usize,
///     _b: *const c_char,
///     b_length: usize,
/// ) -> c_int {
///     a_length as c_int - b_length as c_int
/// }
///
/// let by_length = ForeignComparator::new("by length", shorter_first, std::ptr::null_mut(), ());
/// let comparator = Comparator::Foreign(Arc::new(by_length));
/// assert_eq!(comparator.compare(b"b", b"aa"), Ordering::Less);
/// ```
pub struct ForeignComparator {
    compare: ForeignCompare,
    /// The program's state. Atomic only because any thread may use the pointer.
    state: AtomicPtr<c_void>,
    name: String,
    _owner: Box<dyn Any + Send + Sync>,
}

impl ForeignComparator {
    /// Creates an order. Any thread may call `compare`, with `state`, until `owner` is dropped.
    pub fn new(
        name: impl Into<String>,
        compare: ForeignCompare,
        state: *mut c_void,
        owner: impl Any + Send + Sync,
    ) -> Self {
        Self { compare, state: AtomicPtr::new(state), name: name.into(), _owner: Box::new(owner) }
    }

    /// Compares two keys. Not inlined, for the reason that [`compare_by`] gives.
    #[inline(never)]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let state = self.state.load(atomic::Ordering::Relaxed);
        let call = || (self.compare)(state, a.as_ptr().cast(), a.len(), b.as_ptr().cast(), b.len());
        user_code::call("comparator", || self.name.as_str(), call).cmp(&0)
    }
}

impl fmt::Debug for ForeignComparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignComparator").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The order of a column family's user keys.
///
/// ```
/// use std::cmp::Ordering;
/// use tailwater_format::Comparator;
///
/// let reverse = Comparator::built_in("rocksdb.ReverseBytewiseComparator").expect("built in");
/// assert_eq!(reverse.compare(b"a", b"b"), Ordering::Greater);
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Comparator {
    /// Lexicographic by unsigned bytes: `leveldb.BytewiseComparator`.
    #[default]
    Bytewise,
    /// The opposite of [`Comparator::Bytewise`]: `rocksdb.ReverseBytewiseComparator`.
    ReverseBytewise,
    /// A user-defined order.
    Custom(Arc<dyn CustomComparator>),
    /// An order that a program in another language defines.
    Foreign(Arc<ForeignComparator>),
}

impl Comparator {
    /// Returns the built-in order with this name.
    pub fn built_in(name: &str) -> Option<Self> {
        match name {
            "leveldb.BytewiseComparator" | "rocksdb.BytewiseComparator" => Some(Self::Bytewise),
            "rocksdb.ReverseBytewiseComparator" => Some(Self::ReverseBytewise),
            _ => None,
        }
    }

    /// Returns the name that the MANIFEST and tables record.
    pub fn name(&self) -> &str {
        match self {
            Self::Bytewise => "leveldb.BytewiseComparator",
            Self::ReverseBytewise => "rocksdb.ReverseBytewiseComparator",
            Self::Custom(custom) => custom.name(),
            Self::Foreign(foreign) => &foreign.name,
        }
    }

    /// Compares two user keys.
    #[inline(always)]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytewise => a.cmp(b),
            Self::ReverseBytewise => b.cmp(a),
            Self::Custom(custom) => compare_by(&**custom, a, b),
            Self::Foreign(foreign) => foreign.compare(a, b),
        }
    }

    /// Returns a number that sorts like the user key, but may be the same for different keys: the
    /// key's first eight bytes, padded with zeros, as a big-endian number, which is inverted for
    /// the reverse order. For other orders, it is 0 for all keys.
    #[inline(always)]
    pub fn leading_word(&self, user_key: &[u8]) -> u64 {
        match self {
            Self::Bytewise => first_bytes(user_key),
            Self::ReverseBytewise => !first_bytes(user_key),
            _ => 0,
        }
    }

    /// Returns whether keys that are not the same bytes can compare equal; `None` if that is not
    /// declared.
    fn equates_other_bytes(&self) -> Option<bool> {
        match self {
            Self::Bytewise | Self::ReverseBytewise => Some(false),
            Self::Custom(custom) => {
                called(&**custom, |custom| custom.can_keys_with_different_byte_contents_be_equal())
            }
            Self::Foreign(_) => None,
        }
    }

    /// Returns whether the order declares that keys of different bytes can be equal. If so, nothing
    /// may rely on the bytes of keys or on their hashes.
    pub fn equates_different_bytes(&self) -> bool {
        self.equates_other_bytes() == Some(true)
    }

    /// Returns whether the order declares that keys are equal only if they are the same bytes.
    #[inline]
    pub fn distinguishes_all_bytes(&self) -> bool {
        self.equates_other_bytes() == Some(false)
    }

    /// Shortens `start` to a key in `[start, limit)`, for an index entry between two blocks.
    pub fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        match self {
            Self::Bytewise => bytewise_separator(start, limit),
            Self::ReverseBytewise => reverse_bytewise_separator(start, limit),
            Self::Custom(custom) => {
                called(&**custom, |custom| custom.find_shortest_separator(start, limit));
            }
            Self::Foreign(_) => {}
        }
    }

    /// Shortens `key` to one that is at least `key`, for the last index entry of a table.
    pub fn find_short_successor(&self, key: &mut Vec<u8>) {
        match self {
            Self::Bytewise => {
                if let Some(at) = key.iter().position(|&byte| byte != 0xff) {
                    key.truncate(at + 1);
                    if let Some(last) = key.last_mut() {
                        *last += 1;
                    }
                }
            }
            // For the reverse bytewise order, RocksDB does not shorten keys.
            Self::ReverseBytewise | Self::Foreign(_) => {}
            Self::Custom(custom) => called(&**custom, |custom| custom.find_short_successor(key)),
        }
    }
}

impl fmt::Debug for Comparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Compares in a user-defined order. It is not inlined because user code may panic: its unwinding
/// paths would slow down callers that use a built-in order.
#[inline(never)]
fn compare_by(custom: &dyn CustomComparator, a: &[u8], b: &[u8]) -> Ordering {
    called(custom, |custom| custom.compare(a, b))
}

#[inline]
fn called<R>(custom: &dyn CustomComparator, call: impl FnOnce(&dyn CustomComparator) -> R) -> R {
    user_code::call("comparator", || custom.name(), || call(custom))
}

/// Returns the first eight bytes of a key, padded with zeros, as a number that sorts like these
/// bytes.
#[inline(always)]
fn first_bytes(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => key.iter().rev().fold(0, |number, &byte| (number >> 8) | (u64::from(byte) << 56)),
    }
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn bytewise_separator(start: &mut Vec<u8>, limit: &[u8]) {
    let shared = common_prefix(start, limit);
    let (Some(&low), Some(&high)) = (start.get(shared), limit.get(shared)) else { return };
    if low >= high {
        return;
    }
    if shared + 1 < limit.len() || low + 1 < high {
        start.truncate(shared + 1);
        if let Some(last) = start.last_mut() {
            *last += 1;
        }
        return;
    }
    // `limit` is the shared prefix followed by the byte low + 1. So no key of the same length as
    // `limit` lies between `start` and `limit`. Increment the first byte of `start` after these
    // that can be incremented.
    let after = start.iter().skip(shared + 1).position(|&byte| byte < 0xff);
    if let Some(at) = after.map(|at| at + shared + 1) {
        start.truncate(at + 1);
        if let Some(last) = start.last_mut() {
            *last += 1;
        }
    }
}

fn reverse_bytewise_separator(start: &mut Vec<u8>, limit: &[u8]) {
    let shared = common_prefix(start, limit);
    // In reverse order, a prefix of `start` sorts after `start`. It sorts before `limit` if its
    // last byte is above the byte of `limit` at the same position.
    let (Some(&high), Some(&low)) = (start.get(shared), limit.get(shared)) else { return };
    if high > low && shared + 1 < start.len() {
        start.truncate(shared + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_lie_between_their_keys() {
        let keys: Vec<Vec<u8>> = (0..4u32.pow(4))
            .flat_map(|n| {
                let full: Vec<u8> =
                    (0..4).map(|i| [0u8, 1, 0xfe, 0xff][(n >> (2 * i)) as usize & 3]).collect();
                (1..=4).map(move |length| full[..length].to_vec())
            })
            .step_by(3)
            .collect();
        for comparator in [Comparator::Bytewise, Comparator::ReverseBytewise] {
            for start in &keys {
                let mut successor = start.clone();
                comparator.find_short_successor(&mut successor);
                assert_ne!(comparator.compare(&successor, start), Ordering::Less);
                for limit in &keys {
                    if comparator.compare(start, limit) != Ordering::Less {
                        continue;
                    }
                    let mut separator = start.clone();
                    comparator.find_shortest_separator(&mut separator, limit);
                    assert!(separator.len() <= start.len());
                    assert_ne!(comparator.compare(&separator, start), Ordering::Less);
                    assert_eq!(comparator.compare(&separator, limit), Ordering::Less);
                }
            }
        }
    }
}
