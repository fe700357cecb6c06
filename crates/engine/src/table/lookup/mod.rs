//! A point lookup in progress. It searches from the newest source to older ones, and holds the
//! result so far.

mod row;

use tailwater_format::key::{self, ParsedKey, Sequence, ValueType};
use tailwater_format::limits::TooLong;
use tailwater_format::{timed_value, wide_column};

use crate::error::{Error, ErrorKind, Result, key_text};
use crate::merge_operator::{FamilyMergeOperator, MergeOperator, Merged};
use crate::table::sink::{Owner, Sink};

/// Whether a point lookup must continue to search older sources (memtables and tables).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The result is undecided: the lookup continues with older sources.
    Continue,
    /// The result is final.
    Done,
}

/// The result of a lookup, as far as the records that it has read decide it.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// Undecided: none of the records read so far decides the result.
    Open,
    /// The key is deleted.
    Deleted,
    /// The value was passed to `Lookup::sink`, which receives the result.
    Delivered,
    /// A copy of the value on which the merge operands are based.
    Base(Vec<u8>),
    /// The value, or the base of the merge operands, is in a blob file.
    Blob {
        /// The key as stored in the record. Its bytes may differ from the sought key's if the
        /// comparator treats the two keys as equal.
        user_key: Vec<u8>,
        /// The blob index.
        index: Vec<u8>,
    },
}

/// A point lookup of one key at one sequence number.
pub(crate) struct Lookup<'a, S> {
    /// The key.
    pub(crate) user_key: &'a [u8],
    /// Records above this sequence number are invisible.
    pub(crate) snapshot: Sequence,
    /// Whether the table being searched has records of the key; set by that table.
    pub(crate) met_key: bool,
    /// Number of records of the key that were skipped because they are newer than the snapshot.
    pub(crate) versions_skipped: u32,
    sink: S,
    /// The sequence number of the newest range tombstone that covers the key in the sources
    /// searched so far; 0 if there is none.
    covering: Sequence,
    /// Merge operands, newest first.
    operands: Vec<Vec<u8>>,
    answer: Answer,
}

impl<'a, S: Sink> Lookup<'a, S> {
    /// Creates a lookup that has searched nothing yet.
    pub(crate) fn new(user_key: &'a [u8], snapshot: Sequence, sink: S) -> Self {
        Self {
            user_key,
            snapshot,
            met_key: false,
            versions_skipped: 0,
            sink,
            covering: 0,
            operands: Vec::new(),
            answer: Answer::Open,
        }
    }

    /// Returns the trailer with which to seek: it sorts before those of all visible records of the
    /// key.
    #[inline]
    pub(crate) fn seek_trailer(&self) -> u64 {
        key::pack_trailer(self.snapshot, ValueType::FOR_SEEK)
    }

    /// Notes that a range tombstone with this sequence number covers the key. `None` means that no
    /// range tombstone does.
    #[inline]
    pub(crate) fn cover(&mut self, sequence: Option<Sequence>) {
        self.covering = self.covering.max(sequence.unwrap_or(0));
    }

    /// Whether a range tombstone that covers the key was found. Such a tombstone deletes all
    /// records of the key in older sources.
    #[inline]
    pub(crate) fn is_covered(&self) -> bool {
        self.covering > 0
    }

    /// Whether the value, or the base of the merge operands, is in a blob file.
    #[inline]
    pub(crate) fn needs_blob(&self) -> bool {
        matches!(self.answer, Answer::Blob { .. })
    }

    /// Returns the key and the encoded blob index of the value, or of the base of the merge
    /// operands, if it is in a blob file.
    pub(crate) fn blob(&self) -> Option<(&[u8], &[u8])> {
        match &self.answer {
            Answer::Blob { user_key, index } => Some((user_key, index)),
            _ => None,
        }
    }

    /// Whether the result is complete: the sink has the value, or the key has none. Otherwise a
    /// blob file must be read, or operands merged.
    #[inline]
    pub(crate) fn is_delivered(&self) -> bool {
        self.operands.is_empty() && !self.needs_blob()
    }

    /// Returns the number of operands so far, to which [`Lookup::rewind`] can return.
    pub(crate) fn mark(&self) -> usize {
        self.operands.len()
    }

    /// Drops the operands added since `mark`, because their source will be searched again.
    pub(crate) fn rewind(&mut self, mark: usize) {
        self.operands.truncate(mark);
    }

    /// Adds the next older record of the key to the result.
    #[inline]
    pub(crate) fn accept(
        &mut self,
        record: &ParsedKey<'_>,
        value: &[u8],
        owner: Owner<'_>,
    ) -> Result<Step> {
        let is_covered = record.sequence < self.covering;
        let value_type = if is_covered { ValueType::RangeDeletion } else { record.value_type };
        match value_type {
            ValueType::Value => self.take_value(value, owner),
            ValueType::Merge => {
                self.operands.push(value.to_vec());
                return Ok(Step::Continue);
            }
            ValueType::Deletion | ValueType::SingleDeletion | ValueType::RangeDeletion => {
                self.answer = Answer::Deleted;
            }
            _ => match plain_value(value_type, value)? {
                PlainValue::Here(value) => self.take_value(value, owner),
                PlainValue::Blob(index) => {
                    let (user_key, index) = (record.user_key.to_vec(), index.to_vec());
                    self.answer = Answer::Blob { user_key, index };
                }
            },
        }
        Ok(Step::Done)
    }

    #[inline]
    fn take_value(&mut self, value: &[u8], owner: Owner<'_>) {
        if self.operands.is_empty() {
            self.sink.put(value, owner);
            self.answer = Answer::Delivered;
        } else {
            self.answer = Answer::Base(value.to_vec());
        }
    }

    /// Whether the key was found to have a value. Merge operands without a base do not count.
    #[inline]
    pub(crate) fn found_value(&self) -> bool {
        !matches!(self.answer, Answer::Open | Answer::Deleted)
    }

    /// Completes the lookup: if the value is in a blob file, calls `read_blob` with the key and the
    /// blob index; then merges the operands. Returns whether the key has a value, which the sink
    /// then holds.
    pub(crate) fn finish(
        &mut self,
        merge_operator: &FamilyMergeOperator,
        read_blob: impl FnOnce(&[u8], &[u8]) -> Result<Vec<u8>>,
    ) -> Result<bool> {
        let base = match std::mem::replace(&mut self.answer, Answer::Open) {
            Answer::Delivered => return Ok(true),
            Answer::Open | Answer::Deleted if self.operands.is_empty() => return Ok(false),
            Answer::Open | Answer::Deleted => None,
            Answer::Base(value) => Some(value),
            Answer::Blob { user_key, index } => Some(read_blob(&user_key, &index)?),
        };
        let value = match base {
            Some(value) if self.operands.is_empty() => value,
            base => {
                let operands: Vec<&[u8]> = self.operands.iter().rev().map(Vec::as_slice).collect();
                fold(merge_operator, self.user_key, base.as_deref(), &operands)?
            }
        };
        self.sink.put_owned(value);
        Ok(true)
    }

    /// Returns the sink, which holds the value if [`Self::finish`] found one.
    #[inline]
    pub(crate) fn into_sink(self) -> S {
        self.sink
    }
}

/// The location of a record's value.
pub(crate) enum PlainValue<'a> {
    /// The record itself contains the value.
    Here(&'a [u8]),
    /// A blob file contains the value. The field is the encoded blob index.
    Blob(&'a [u8]),
}

/// Returns the value of a record, which must not be a deletion or merge operand: the default column
/// of an entity, a timed value without its time, or the location in a blob file.
///
/// # Errors
/// Not supported, for keys with timestamps; corruption, for an entity or timed value that does not
/// decode.
pub(crate) fn plain_value(value_type: ValueType, value: &[u8]) -> Result<PlainValue<'_>> {
    let here = match value_type {
        ValueType::BlobIndex => return Ok(PlainValue::Blob(value)),
        ValueType::WideColumnEntity => {
            let column = wide_column::default_column(value)
                .map_err(|error| Error::new(ErrorKind::Corruption, error.to_string()))?;
            match column {
                Some(column) if column.is_blob_index => return Ok(PlainValue::Blob(column.value)),
                column => column.map_or(&[][..], |column| column.value),
            }
        }
        ValueType::ValuePreferredSequence => match timed_value::split(value) {
            Some((value, _)) => value,
            None => {
                let message = "a timed value of less than 8 bytes";
                return Err(Error::new(ErrorKind::Corruption, message));
            }
        },
        ValueType::DeletionWithTimestamp => {
            return Err(Error::not_supported("user-defined timestamps"));
        }
        _ => value,
    };
    Ok(PlainValue::Here(here))
}

/// Merges operands, oldest first, into a base value.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`], if the merge operator is not known; [`ErrorKind::UserCode`], if
/// the merge operator fails; [`ErrorKind::LimitReached`], if the result is longer than an entry may
/// be.
pub(crate) fn fold(
    merge_operator: &FamilyMergeOperator,
    user_key: &[u8],
    base: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<Vec<u8>> {
    let key = user_key.escape_ascii();
    match merge_operator {
        FamilyMergeOperator::Known(operator) => {
            let mut value = Vec::new();
            let operands = operands.iter().copied();
            match operator.full_merge_into(user_key, base, operands, &mut value) {
                Merged::Done => Ok(value),
                Merged::Failed => {
                    let message =
                        format!("merge operator '{}' failed on key '{key}'", operator.name());
                    Err(Error::new(ErrorKind::UserCode, message))
                }
                Merged::TooLong(entry) => Err(too_long(operator, user_key, entry)),
            }
        }
        FamilyMergeOperator::Unknown(name) => Err(Error::invalid_argument(format!(
            "key '{key}' has merge operands, and merge operator '{name}' is neither built in nor \
             registered"
        ))),
        FamilyMergeOperator::None => Err(Error::invalid_argument(format!(
            "key '{key}' has merge operands, but its column family was opened without a merge \
             operator"
        ))),
    }
}

#[cold]
fn too_long(operator: &MergeOperator, user_key: &[u8], entry: TooLong) -> Error {
    let (name, key) = (operator.name(), key_text(user_key));
    let message =
        format!("merge operator '{name}' merges the operands of key '{key}' into {entry}");
    Error::new(ErrorKind::LimitReached, message)
}
