//! Reads a whole log, and checks properties that every log must have.

use tailwater_format::record_log::{Event, RecordReader, RecoveryMode, SliceSource, TornReason, Verdict};

/// All recovery modes.
pub const MODES: [RecoveryMode; 4] = [
    RecoveryMode::TolerateCorruptedTailRecords,
    RecoveryMode::AbsoluteConsistency,
    RecoveryMode::PointInTime,
    RecoveryMode::SkipAnyCorruptedRecords,
];

/// The contents of a log, as read by [`read_log`].
#[derive(Debug, Default)]
pub struct LogContents {
    /// The payloads of the records, in the order of the log.
    pub records: Vec<Vec<u8>>,
    /// Whether the reader reported any damage.
    pub damaged: bool,
    /// If the reader reported that the end of the log is torn: what is incomplete there.
    pub torn: Option<TornReason>,
}

/// Reads a log to its end.
///
/// # Panics
/// If the reader moves backward or beyond the end of the log, if it does not terminate, or if the
/// verdicts of the recovery modes contradict each other.
pub fn read_log(log: &[u8], log_number: u64) -> LogContents {
    let mut reader = RecordReader::new(SliceSource::new(log), log_number);
    let mut contents = LogContents::default();
    let (mut offset, mut record_end) = (0, 0);
    // The log's length limits the number of events before its end. Each fragment of the log has at
    // least one byte and causes at most two events: if the fragment interrupts a record, the reader
    // first reports the damage to that record, and then the fragment. Four more iterations leave
    // room for the events at the end of the log.
    for _ in 0..2 * log.len() + 4 {
        let Ok(event) = reader.next_event();
        check_verdicts(&event);
        match event {
            Event::Record(record) => {
                assert!(record.start >= record_end && record.start < record.end);
                record_end = record.end;
                contents.records.push(record.payload.to_vec());
            }
            Event::TimestampSizes(sizes) => assert!(sizes.iter().all(|(_, size)| size > 0)),
            Event::Damage(damage) => {
                assert!(damage.offset <= log.len() as u64, "{damage:?}");
                contents.damaged = true;
            }
            Event::Torn(torn) => {
                assert!(torn.offset <= log.len() as u64, "{torn:?}");
                contents.torn = Some(torn.reason);
            }
            Event::End => {
                assert_eq!(reader.offset(), log.len() as u64);
                assert_eq!(reader.next_event(), Ok(Event::End));
                return contents;
            }
            Event::Predecessor(_) | Event::Skipped(_) | Event::Stale(_) => {}
        }
        assert!(reader.offset() >= offset && reader.offset() <= log.len() as u64);
        offset = reader.offset();
    }
    panic!("the log does not end");
}

/// Checks that an event that the strictest recovery mode accepts is accepted by every mode, and
/// that the two most tolerant modes never fail.
fn check_verdicts(event: &Event<'_>) {
    if RecoveryMode::AbsoluteConsistency.verdict(event) == Verdict::Continue {
        for mode in MODES {
            assert_eq!(mode.verdict(event), Verdict::Continue);
        }
    }
    assert_ne!(RecoveryMode::SkipAnyCorruptedRecords.verdict(event), Verdict::Fail);
    assert_ne!(RecoveryMode::PointInTime.verdict(event), Verdict::Fail);
}
