//! The extent of a table: its ranges of keys and sequence numbers, and its oldest blob file.

use std::cmp::Ordering;

use tailwater_format::blob::{BlobIndex, for_each_blob_index};
use tailwater_format::key::{self, MAX_SEQUENCE, ParsedKey, Sequence, ValueType};
use tailwater_format::{Comparator, Error, Result, timed_value};

/// The ranges of a table's keys and sequence numbers, and its oldest blob file.
#[derive(Debug, Clone)]
pub(super) struct Extent {
    /// The internal key of the first entry. Empty if the table has no entries, even if it has range
    /// tombstones.
    first_key: Vec<u8>,
    /// The smallest internal key; empty in an empty table.
    pub(super) smallest: Vec<u8>,
    /// The largest internal key; empty in an empty table.
    pub(super) largest: Vec<u8>,
    pub(super) smallest_sequence: Sequence,
    pub(super) largest_sequence: Sequence,
    pub(super) oldest_blob_file_number: Option<u64>,
    /// The smallest preferred sequence number of the table's timed values; `Sequence::MAX` if there
    /// are none. A timed value was put with an explicit write time. Its preferred sequence number
    /// is derived from that time.
    pub(super) smallest_preferred_sequence: Sequence,
}

impl Extent {
    /// Returns the extent of an empty table.
    pub(super) fn empty() -> Self {
        Self {
            first_key: Vec::new(),
            smallest: Vec::new(),
            largest: Vec::new(),
            smallest_sequence: Sequence::MAX,
            largest_sequence: 0,
            oldest_blob_file_number: None,
            smallest_preferred_sequence: Sequence::MAX,
        }
    }

    /// Adds an entry whose internal key is above all previous ones. The last entry's key must also
    /// be passed to [`Extent::end`].
    #[inline]
    pub(super) fn add(
        &mut self,
        internal_key: &[u8],
        key: &ParsedKey<'_>,
        value: &[u8],
    ) -> Result<()> {
        if self.first_key.is_empty() {
            self.first_key.extend_from_slice(internal_key);
        }
        self.add_sequence(key.sequence);
        if key.value_type == ValueType::ValuePreferredSequence {
            return self.add_preferred(value);
        }
        for_each_blob_index(key.value_type, value, |index| self.add_blob(index))
    }

    /// Adds the range of all entries' keys to the extent, after the last entry. `last_key` is the
    /// internal key of the last entry. Called only if there are entries.
    pub(super) fn end(&mut self, comparator: &Comparator, last_key: &[u8]) {
        let first_key = std::mem::take(&mut self.first_key);
        self.add_range(comparator, &first_key, last_key);
    }

    /// Adds a range of internal keys, both bounds included.
    pub(super) fn add_range(&mut self, comparator: &Comparator, smallest: &[u8], largest: &[u8]) {
        let compare = |a: &[u8], b: &[u8]| key::compare_internal(comparator, a, b);
        if self.smallest.is_empty() || compare(smallest, &self.smallest) == Ordering::Less {
            self.smallest = smallest.to_vec();
        }
        if self.largest.is_empty() || compare(&self.largest, largest) == Ordering::Less {
            self.largest = largest.to_vec();
        }
    }

    #[inline]
    pub(super) fn add_sequence(&mut self, sequence: Sequence) {
        self.smallest_sequence = self.smallest_sequence.min(sequence);
        self.largest_sequence = self.largest_sequence.max(sequence);
    }

    fn add_preferred(&mut self, packed: &[u8]) -> Result<()> {
        let Some((_, preferred)) = timed_value::split(packed) else {
            return Err(Error::truncated("timed value", packed.len()));
        };
        self.smallest_preferred_sequence = self.smallest_preferred_sequence.min(preferred);
        Ok(())
    }

    fn add_blob(&mut self, index: &[u8]) -> Result<()> {
        if let BlobIndex::Blob(location) = BlobIndex::decode(index)?
            && location.expiration.is_none()
        {
            let number = location.file_number;
            let oldest = self.oldest_blob_file_number.map_or(number, |oldest| oldest.min(number));
            self.oldest_blob_file_number = Some(oldest);
        }
        Ok(())
    }
}

/// Returns the internal key for the end of a range tombstone whose exclusive end is `user_key`. The
/// internal key sorts before every record of `user_key`.
pub(super) fn tombstone_end(user_key: &[u8]) -> Vec<u8> {
    let mut end = Vec::new();
    let trailer = key::pack_trailer(MAX_SEQUENCE, ValueType::RangeDeletion as u8);
    key::put_internal_key(&mut end, user_key, trailer);
    end
}
