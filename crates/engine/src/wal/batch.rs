//! Checks of a batch in a log, shared by replay and verification.
//!
//! A whole batch is checked before any of its operations is applied. Sequence numbers must not
//! decrease from batch to batch: the last number of a batch must be at least the last number of the
//! previous batch. A batch with the same numbers as the previous batch is accepted.

use tailwater_format::batch::{BatchReader, Record, RecordKind};
use tailwater_format::key::{MAX_SEQUENCE, Sequence};
use tailwater_format::record_log::{RecoveryMode, Verdict};

/// A batch that [`check`] accepted.
#[derive(Debug, Clone)]
pub(crate) struct CheckedBatch<'a> {
    /// The operations of the batch.
    pub(crate) records: BatchReader<'a>,
    /// The sequence number of the operation that would follow the batch's last operation.
    pub(crate) next_sequence: Sequence,
}

/// The reason why a batch is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The log's bytes are intact, but the batch in them does not decode, or its last sequence
    /// number is below that of the previous batch. No recovery mode accepts such a batch.
    Malformed(String),
    /// The record is not a batch, or the batch does not belong at this position. The recovery mode
    /// decides what happens.
    Rejected(String),
    /// The batch needs a feature that is not implemented.
    NotSupported(&'static str),
}

impl Refusal {
    /// Returns what recovery does in `mode` with a batch that is refused for this reason.
    /// Unsupported features are an error in every mode.
    pub(crate) fn verdict(&self, mode: RecoveryMode) -> Verdict {
        match (self, mode) {
            (Self::Rejected(_), RecoveryMode::SkipAnyCorruptedRecords) => Verdict::Continue,
            (Self::Rejected(_), RecoveryMode::PointInTime) => Verdict::StopReplay,
            _ => Verdict::Fail,
        }
    }

    /// Returns the reason why the batch is refused, worded as part of a sentence.
    pub fn reason(&self) -> &str {
        match self {
            Self::Malformed(reason) | Self::Rejected(reason) => reason,
            Self::NotSupported(feature) => feature,
        }
    }
}

/// Checks the batch that a record holds. `due` is the sequence number that follows the previous
/// batch.
pub(crate) fn check(
    payload: &[u8],
    due: Option<Sequence>,
) -> std::result::Result<CheckedBatch<'_>, Refusal> {
    let too_short = |_| Refusal::Rejected("a record too short for a batch".to_owned());
    let records = BatchReader::new(payload).map_err(too_short)?;
    let (first, count) = (records.sequence(), u64::from(records.record_count()));
    if first > MAX_SEQUENCE - count {
        return Err(Refusal::Rejected(format!("sequence number {first} is too high")));
    }
    if let Some(due) = due.filter(|&due| first + count < due) {
        return Err(Refusal::Malformed(format!(
            "sequence number {first} is below the expected {due}"
        )));
    }
    for record in records.clone() {
        let record = record.map_err(|error| Refusal::Malformed(error.to_string()))?;
        check_supported(&record)?;
        record.check().map_err(refusal)?;
    }
    Ok(CheckedBatch { records, next_sequence: first + count })
}

fn refusal(error: tailwater_format::Error) -> Refusal {
    match error {
        tailwater_format::Error::Unsupported { .. } => Refusal::NotSupported(
            "an entity or blob index in a log that refers to blobs in an unsupported form",
        ),
        malformed => Refusal::Malformed(malformed.to_string()),
    }
}

fn check_supported(record: &Record<'_>) -> std::result::Result<(), Refusal> {
    match record.kind {
        RecordKind::BeginPrepare
        | RecordKind::BeginPersistedPrepare
        | RecordKind::BeginUnprepare
        | RecordKind::EndPrepare
        | RecordKind::Commit
        | RecordKind::CommitWithTimestamp
        | RecordKind::Rollback => Err(Refusal::NotSupported("prepared transactions in a log")),
        _ => Ok(()),
    }
}
