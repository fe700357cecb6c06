//! Replaying logs: from the write-ahead logs of a database to memtables.
//!
//! Logs are read in the order of their numbers. A log below a column family's log number holds
//! nothing of that family that its tables lack, so its records for it are passed by; one that is
//! below every family's is not read at all. A batch is checked whole before any of it goes into a
//! memtable: it is applied or left out, never half.
//!
//! What a bad byte does is the recovery mode's to say. Point-in-time, the default, takes everything
//! before it and leaves out everything after, unless a later log goes on with the very next
//! sequence number, which shows that nothing is missing. What was left out is told. Replay changes
//! no file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_format::key::Sequence;
use tailwater_format::log::{Event, Record as LogRecord, RecoveryMode, Verdict};
use tailwater_io::{IoMode, Purpose, ReadFile, Storage};

use crate::memtable::MemTable;
use crate::record_log;
use crate::wal::batch::{self, CheckedBatch, Refusal};
use crate::{Error, Result};

/// A column family that logs are replayed into.
#[derive(Debug)]
pub(crate) struct ReplayFamily {
    /// Its name, for messages.
    pub(crate) name: String,
    /// Logs with a lower number hold nothing for it that is not in tables.
    pub(crate) log_number: u64,
    /// Whether it has tables.
    pub(crate) has_tables: bool,
    /// Where its records go.
    pub(crate) memtable: Arc<MemTable>,
}

/// What of a log or MANIFEST was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The log or MANIFEST.
    pub path: PathBuf,
    /// Where what was left out begins, in bytes from the start of the file.
    pub offset: u64,
    /// How many bytes were left out, up to the end of the log or the next record that was taken.
    pub bytes: u64,
    /// Why.
    pub reason: String,
    /// Whether it is only a record, or a group of a MANIFEST's edits, that the end of the last file
    /// cuts short, as a crash leaves it.
    pub torn_tail: bool,
}

/// What replay made of the logs.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// The highest sequence number in tables or replayed records.
    pub(crate) last_sequence: Sequence,
    /// What was not replayed.
    pub(crate) left_out: Vec<LeftOut>,
}

/// The numbers of the write-ahead logs in a directory, in order.
pub(crate) fn list_logs(storage: &dyn Storage, directory: &Path) -> Result<Vec<u64>> {
    let entries = storage.list(directory)?;
    let mut numbers: Vec<u64> = entries
        .iter()
        .filter_map(|entry| match FileKind::parse(&entry.name) {
            Some(FileKind::Wal(number)) => Some(number),
            _ => None,
        })
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Replays the logs of `directory`. `last_sequence` is the highest sequence number in tables; logs
/// below `min_log_number`, which no column family needs, are not read.
///
/// # Errors
/// Corruption, with file and offset, for damage that the mode does not accept; not supported, for
/// logs of transactions or user-defined timestamps.
pub(crate) fn replay(
    storage: &dyn Storage,
    directory: &Path,
    mode: RecoveryMode,
    last_sequence: Sequence,
    min_log_number: u64,
    families: &BTreeMap<u32, ReplayFamily>,
) -> Result<Replayed> {
    let unflushed = families.values().map(|family| family.log_number).min().unwrap_or(0);
    let oldest_needed = unflushed.max(min_log_number);
    let replayed = Replayed { last_sequence, ..Replayed::default() };
    let mut replay = Replay { mode, families, next_sequence: None, stopped_at: None, replayed };
    for number in list_logs(storage, directory)? {
        if number >= oldest_needed {
            let path = directory.join(FileKind::Wal(number).to_string());
            let file = storage.open(&path, IoMode::Buffered, Purpose::Wal)?;
            let length = file.length()?;
            replay.read_log(&Log { path, number, length }, file)?;
        }
    }
    replay.finish()
}

/// A log that is being replayed.
struct Log {
    path: PathBuf,
    number: u64,
    /// The file's length in bytes.
    length: u64,
}

/// Replay on its way through the logs.
struct Replay<'a> {
    mode: RecoveryMode,
    families: &'a BTreeMap<u32, ReplayFamily>,
    /// The sequence number of the next batch if none is missing; `None` before the first.
    next_sequence: Option<Sequence>,
    /// The number of the log in which something ended replay, unless a later log showed that
    /// nothing is missing.
    stopped_at: Option<u64>,
    replayed: Replayed,
}

/// Whether a log goes on.
enum Flow {
    Continue,
    EndOfLog,
}

impl Replay<'_> {
    fn read_log(&mut self, log: &Log, file: Arc<dyn ReadFile>) -> Result<()> {
        let mut reader = record_log::reader(file, log.number, Purpose::Wal);
        loop {
            let event = reader.next_event()?;
            if let Flow::EndOfLog = self.event(log, &event)? {
                return Ok(());
            }
        }
    }

    fn event(&mut self, log: &Log, event: &Event<'_>) -> Result<Flow> {
        let trouble = Trouble::of(event);
        match self.mode.verdict(event) {
            Verdict::Continue => match (event, trouble) {
                (Event::Record(record), _) => self.record(log, record),
                (Event::TimestampSizes(_), _) => {
                    Err(Error::not_supported("user-defined timestamps").in_file(&log.path))
                }
                (_, Some(trouble)) => {
                    self.leave_out(log, trouble);
                    Ok(Flow::Continue)
                }
                (_, None) => Ok(Flow::Continue),
            },
            Verdict::End => {
                if let Some(trouble) = trouble {
                    self.leave_out(log, trouble.up_to_end_of(log));
                }
                Ok(Flow::EndOfLog)
            }
            Verdict::StopReplay => Ok(self.stop(log, trouble)),
            Verdict::Fail => Err(match trouble {
                Some(trouble) => Error::corruption_at(&log.path, trouble.offset, trouble.reason),
                None => Error::corruption(&log.path, "the log ends before its last record"),
            }),
        }
    }

    /// Takes a record, whose bytes are as they were written.
    fn record(&mut self, log: &Log, record: &LogRecord<'_>) -> Result<Flow> {
        let offset = record.start;
        let refusal = match batch::check(record.payload, self.next_sequence) {
            Ok(checked) if self.follows(&checked) => match self.apply(log, checked) {
                Ok(()) => return Ok(Flow::Continue),
                Err(refusal) => refusal,
            },
            Ok(_) => {
                let reason = "batches before this one are missing".to_owned();
                let trouble = Trouble { offset, bytes: 0, reason, torn: false };
                self.leave_out(log, trouble.up_to_end_of(log));
                return Ok(Flow::EndOfLog);
            }
            Err(Refusal::NotSupported(feature)) => {
                return Err(Error::not_supported(feature).in_file(&log.path));
            }
            Err(refusal) => refusal,
        };
        let reason = refusal.reason().to_owned();
        let trouble = Trouble { offset, bytes: record.end - offset, reason, torn: false };
        match refusal.verdict(self.mode) {
            Verdict::Continue => {
                self.leave_out(log, trouble);
                Ok(Flow::Continue)
            }
            Verdict::StopReplay => Ok(self.stop(log, Some(trouble))),
            Verdict::End | Verdict::Fail => {
                Err(Error::corruption_at(&log.path, offset, trouble.reason))
            }
        }
    }

    /// Whether no batch is missing before this one, where replay had stopped.
    fn follows(&mut self, checked: &CheckedBatch<'_>) -> bool {
        let follows =
            self.stopped_at.is_none() || self.next_sequence == Some(checked.records.sequence());
        if follows {
            self.stopped_at = None;
        }
        follows
    }

    /// Puts a batch into the memtables.
    fn apply(&mut self, log: &Log, checked: CheckedBatch<'_>) -> std::result::Result<(), Refusal> {
        let mut sequence = checked.records.sequence();
        for record in checked.records {
            let record = record.map_err(|error| Refusal::Malformed(error.to_string()))?;
            let Some(value_type) = record.kind.value_type() else { continue };
            let family = self.families.get(&record.column_family);
            if let Some(family) = family.filter(|family| family.log_number <= log.number) {
                family
                    .memtable
                    .add(sequence, value_type, record.key, record.value)
                    .map_err(|error| Refusal::Rejected(error.to_string()))?;
            }
            sequence += 1;
        }
        self.next_sequence = Some(checked.next_sequence);
        self.replayed.last_sequence = self.replayed.last_sequence.max(checked.next_sequence - 1);
        Ok(())
    }

    /// Ends replay in this log, unless a later one shows that nothing is missing.
    fn stop(&mut self, log: &Log, trouble: Option<Trouble>) -> Flow {
        if let Some(trouble) = trouble {
            self.leave_out(log, trouble.up_to_end_of(log));
        }
        self.stopped_at = Some(log.number);
        Flow::EndOfLog
    }

    fn leave_out(&mut self, log: &Log, trouble: Trouble) {
        self.replayed.left_out.push(LeftOut {
            path: log.path.clone(),
            offset: trouble.offset,
            bytes: trouble.bytes,
            reason: trouble.reason,
            torn_tail: trouble.torn,
        });
    }

    /// A family whose tables hold what comes after the place where replay ended would show later
    /// writes without earlier ones: then the database is not opened.
    fn finish(self) -> Result<Replayed> {
        let Some(stopped_at) = self.stopped_at else { return Ok(self.replayed) };
        let ahead = self
            .families
            .values()
            .find(|family| family.has_tables && family.log_number > stopped_at);
        match (ahead, self.replayed.left_out.last()) {
            (Some(family), Some(left_out)) => {
                let message = format!(
                    "replay ends here ({}), but tables of column family '{}' hold later writes",
                    left_out.reason, family.name
                );
                Err(Error::corruption_at(&left_out.path, left_out.offset, message))
            }
            _ => Ok(self.replayed),
        }
    }
}

/// Something in a log that is not as a writer left it.
struct Trouble {
    offset: u64,
    bytes: u64,
    reason: String,
    torn: bool,
}

impl Trouble {
    fn of(event: &Event<'_>) -> Option<Self> {
        Some(match event {
            Event::Damage(damage) => Self {
                offset: damage.offset,
                bytes: damage.dropped,
                reason: damage.reason.to_string(),
                torn: false,
            },
            Event::Torn(torn) => Self {
                offset: torn.offset,
                bytes: torn.dropped,
                reason: torn.reason.to_string(),
                torn: true,
            },
            Event::Stale(stale) if stale.in_record => Self {
                offset: stale.offset,
                bytes: stale.dropped,
                reason: "the log ends inside a record, before what the file held earlier"
                    .to_owned(),
                torn: true,
            },
            _ => return None,
        })
    }

    /// The same, with everything up to the end of the log left out too.
    fn up_to_end_of(self, log: &Log) -> Self {
        Self { bytes: log.length.saturating_sub(self.offset), ..self }
    }
}
