//! The records of a compaction's inputs, in order, with a count of the records read.

use std::path::Path;

use tailwater_format::Comparator;
use tailwater_format::key::{self, MAX_SEQUENCE, ParsedKey, Sequence, ValueType, pack_trailer};

use super::blob_garbage::BlobGarbage;
use crate::error::{Error, Result};
use crate::handover::Warmth;
use crate::iterator::MergingIterator;
use crate::table::StoredBlock;

/// An iterator over the records of all inputs, in internal key order. It may cover only a range of
/// keys, that of a subcompaction.
pub(crate) struct Source {
    comparator: Comparator,
    merged: MergingIterator,
    /// The user key before which the iterator ends; `None` if it has no upper bound.
    end: Option<Vec<u8>>,
    is_valid: bool,
    records: u64,
    /// Whether the iterator has skipped records by seeking. `records` does not count skipped
    /// records.
    has_skipped: bool,
    /// Counts of blob references; `None` if no input refers to a blob file.
    garbage: Option<BlobGarbage>,
}

impl Source {
    /// Creates an iterator at the first record at or after the user key `begin`. The iterator ends
    /// before the user key `end`.
    pub(crate) fn begin(
        comparator: Comparator,
        merged: MergingIterator,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        garbage: Option<BlobGarbage>,
    ) -> Result<Self> {
        let end = end.map(<[u8]>::to_vec);
        let mut source = Self {
            comparator,
            merged,
            end,
            is_valid: false,
            records: 0,
            has_skipped: false,
            garbage,
        };
        match begin {
            Some(begin) => source.merged.seek(&before(begin))?,
            None => source.merged.seek_to_first()?,
        }
        source.arrive()?;
        Ok(source)
    }

    /// Whether the iterator is on a record.
    #[inline]
    pub(super) fn valid(&self) -> bool {
        self.is_valid
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.merged.key()
    }

    #[inline]
    pub(super) fn user_key(&self) -> &[u8] {
        key::user_key(self.merged.key())
    }

    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        self.merged.value()
    }

    #[inline]
    pub(super) fn warmth(&self) -> Warmth {
        self.merged.warmth()
    }

    /// Returns the sequence number and type of the current record.
    #[inline]
    pub(super) fn version(&self) -> Result<(Sequence, ValueType)> {
        let parsed = ParsedKey::parse(self.merged.key());
        match parsed {
            Ok(key) => Ok((key.sequence, key.value_type)),
            Err(error) => Err(self.damaged(error)),
        }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<()> {
        self.merged.next()?;
        self.arrive()
    }

    /// Skips to the first record at or after a user key.
    pub(super) fn skip_until(&mut self, user_key: &[u8]) -> Result<()> {
        if self.garbage.is_none() {
            self.has_skipped = true;
            self.merged.seek(&before(user_key))?;
            return self.arrive();
        }
        // Skipped records may refer to blobs, which then become garbage. So the records are read
        // one by one, and their references are counted.
        while self.is_valid && self.comparator.compare(self.user_key(), user_key).is_lt() {
            self.next()?;
        }
        Ok(())
    }

    fn arrive(&mut self) -> Result<()> {
        self.is_valid = self.merged.valid()
            && self.end.as_ref().is_none_or(|end| {
                self.comparator.compare(key::user_key(self.merged.key()), end).is_lt()
            });
        if self.is_valid {
            self.records += 1;
            if let Some(garbage) = &mut self.garbage {
                let counted = garbage.flow_in(self.merged.key(), self.merged.value());
                counted.map_err(|error| self.named(error))?;
            }
        }
        Ok(())
    }

    /// Notes that the current record is written to an output with this internal key, so that the
    /// record's blobs do not count as garbage.
    #[inline]
    pub(super) fn note_output(&mut self, internal_key: &[u8]) -> Result<()> {
        match &mut self.garbage {
            Some(garbage) => garbage.flow_out(internal_key, self.merged.value()),
            None => Ok(()),
        }
    }

    /// Like [`Source::note_output`], for a record that is written with `value` instead of the
    /// current record's value.
    pub(super) fn note_output_of(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        match &mut self.garbage {
            Some(garbage) => garbage.flow_out(internal_key, value),
            None => Ok(()),
        }
    }

    /// Returns the number of records read so far.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Whether the iterator has skipped records by seeking. [`Source::records`] does not count
    /// skipped records.
    pub(crate) fn has_skipped(&self) -> bool {
        self.has_skipped
    }

    /// Returns the counts of references to blobs that were read but not written; `None` if no input
    /// refers to a blob file.
    pub(crate) fn garbage(&self) -> Option<&BlobGarbage> {
        self.garbage.as_ref()
    }

    /// Adds the current record's table to an error about the record, unless the error names a file.
    #[cold]
    pub(super) fn named(&self, error: Error) -> Error {
        match self.path() {
            Some(path) => error.in_file(path),
            None => error,
        }
    }

    /// Adds the current record's table to the error of an output that refused the record, because
    /// the record is damaged. That error names the output, which does not remain.
    #[cold]
    pub(crate) fn blamed(&self, error: Error) -> Error {
        match self.path().filter(|_| error.is_corruption()) {
            Some(path) => error.while_doing(format_args!("a record of {}", path.display())),
            None => error,
        }
    }

    /// Returns the data block that the merge left last in the current record's table, if its stored
    /// bytes are in memory.
    pub(crate) fn left_block(&self) -> Option<StoredBlock<'_>> {
        self.merged.left_block()
    }

    /// Returns the path of the current record's table.
    pub(super) fn path(&self) -> Option<&Path> {
        self.merged.path()
    }

    /// Returns the error for a current record whose key does not decode.
    #[cold]
    pub(super) fn damaged(&self, error: tailwater_format::Error) -> Error {
        Error::decoding(self.path().unwrap_or(Path::new("")), 0, error)
    }
}

/// Returns the internal key that sorts before all versions of a user key.
fn before(user_key: &[u8]) -> Vec<u8> {
    let mut target = Vec::new();
    let trailer = pack_trailer(MAX_SEQUENCE, ValueType::FOR_SEEK);
    key::put_internal_key(&mut target, user_key, trailer);
    target
}
