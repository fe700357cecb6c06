//! Verification of write-ahead logs.
//!
//! A recycled log ends where bytes of the file's earlier use begin. These bytes may have any value,
//! so an error in them is damage only if records of this log follow. Likewise, an error in a record
//! whose sectors were only partly written before a crash is damage only if records follow.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::batch::BatchReader;
use tailwater_format::file_name::FileKind;
use tailwater_format::record_log::{Event, PredecessorWal, Record, SkippedReason};
use tailwater_io::{IoMode, Purpose, ReadFile};

use super::{Family, Severity, Verification};
use crate::error::Result;
use crate::record_log;
use crate::version::manifest::Manifest;
use crate::wal::batch::Refusal;
use crate::wal::replay::list_logs;
use crate::wal::{batch, unwritten};

/// The state while logs are read in order.
struct LogProgress<'a> {
    manifest: &'a Manifest,
    /// Number of the oldest log that a column family needs.
    oldest_log: u64,
    /// The sequence number that follows the last batch read; `None` before the first batch.
    next_sequence: Option<u64>,
    /// Irregularities in the log: offset, message and ending kind. If records of the log follow an
    /// irregularity, it is damage. If none follow, the log ends there with the given kind.
    doubtful: Vec<(u64, String, EndingKind)>,
    /// Where the previous log ended, if that is before the end of its file.
    ending: Option<Ending>,
    /// The number of the previous log and its length in bytes.
    previous: Option<(u64, u64)>,
}

/// The position at which a log ends, inside a record or before the end of its file.
struct Ending {
    path: PathBuf,
    log_number: u64,
    offset: u64,
    message: String,
    kind: EndingKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EndingKind {
    /// The log ends inside a record.
    Torn,
    /// The log ends at bytes that either remain from an older log in the same file or belong to a
    /// damaged record of this log.
    Doubtful,
    /// The log ends at bytes that remain from an older log in the same file.
    Recycled,
}

/// A log that is being read.
struct Log<'a> {
    path: &'a Path,
    number: u64,
    file: Arc<dyn ReadFile>,
    /// Where the previous log ended, if that is before the end of its file.
    before: Option<Ending>,
    is_first_batch: bool,
    /// Offset of the first unwritten space (zeros) after which no batch was found, if any.
    unwritten_from: Option<u64>,
}

impl Log<'_> {
    /// Describes the end of this log at `offset`.
    fn ending(&self, offset: u64, message: String, kind: EndingKind) -> Ending {
        Ending { path: self.path.to_owned(), log_number: self.number, offset, message, kind }
    }
}

/// Whether to continue reading a log.
#[derive(PartialEq, Eq)]
enum Flow {
    Continue,
    EndOfLog,
}

impl Verification<'_> {
    /// Reads every log that a column family still needs: the log `oldest_log` and all later ones.
    pub(super) fn check_logs(&mut self, manifest: &Manifest, oldest_log: u64, families: &[Family]) {
        let directory = self.options.wal_directory(self.directory);
        let logs = match list_logs(&*self.storage, &directory) {
            Ok(logs) => logs,
            Err(error) => return self.report.error(&directory, &error),
        };
        for (&number, &size) in manifest.synced_logs.range(oldest_log..) {
            let path = directory.join(FileKind::Wal(number).to_string());
            match self.storage.metadata(&path) {
                Ok(metadata) if metadata.length >= size => {}
                Ok(metadata) => {
                    let length = metadata.length;
                    let message = format!("{size} bytes were synced, but it has {length}");
                    self.report.damage(&path, message);
                }
                Err(error) => self.report.error(&path, &error.into()),
            }
        }
        let mut state = LogProgress {
            manifest,
            oldest_log,
            next_sequence: None,
            doubtful: Vec::new(),
            ending: None,
            previous: None,
        };
        for number in logs.into_iter().filter(|&number| number >= oldest_log) {
            let path = directory.join(FileKind::Wal(number).to_string());
            self.begin(&path);
            if let Err(error) = self.check_log(&path, number, &mut state) {
                self.report.error(&path, &error);
            }
        }
        if let Some(ending) = state.ending.take() {
            self.check_last(ending, families);
        }
    }

    /// Checks the last log's end, which is inside a record or before the end of the file. A crash
    /// may have cut the log off there, unless tables hold later writes.
    fn check_last(&mut self, ending: Ending, families: &[Family]) {
        let Ending { path, log_number, offset, message, kind } = ending;
        let is_ahead = |family: &&Family| {
            family.log_number > log_number && family.version.files().next().is_some()
        };
        match (kind, families.iter().find(is_ahead)) {
            (EndingKind::Recycled | EndingKind::Doubtful, None) => {}
            (EndingKind::Torn, None) => {
                self.report.add(Severity::TornTail, &path, Some(offset), message);
            }
            (_, Some(family)) => {
                let name = &family.name;
                let message =
                    format!("{message}, but tables of column family '{name}' hold later writes");
                self.report.damage_at(&path, offset, message);
            }
        }
    }

    fn check_log(&mut self, path: &Path, number: u64, state: &mut LogProgress<'_>) -> Result<()> {
        let file = self.storage.open(path, IoMode::Buffered, Purpose::Verification)?;
        let length = file.length()?;
        self.report.logs += 1;
        self.report.bytes += length;
        let mut reader = record_log::reader(Arc::clone(&file), number, Purpose::Verification);
        let before = state.ending.take();
        let mut log =
            Log { path, number, file, before, is_first_batch: true, unwritten_from: None };
        loop {
            let event = reader.next_event()?;
            if let Some(offset) = unwritten::begins_with(&event) {
                log.unwritten_from.get_or_insert(offset);
            }
            let flow = match event {
                Event::End => Flow::EndOfLog,
                Event::Record(record) => self.check_record(&mut log, &record, state),
                Event::Predecessor(predecessor) => {
                    self.check_predecessor(path, &predecessor, state);
                    Flow::Continue
                }
                Event::TimestampSizes(_) => {
                    self.report.unsupported(path, None, "user-defined timestamps");
                    Flow::Continue
                }
                event => self.check_irregularity(&mut log, &event, state)?,
            };
            if flow == Flow::EndOfLog {
                break;
            }
        }
        state.previous = Some((number, length));
        let doubts = std::mem::take(&mut state.doubtful);
        let worst = doubts.iter().find(|(.., kind)| *kind == EndingKind::Torn).or(doubts.first());
        if let Some((offset, message, kind)) = worst {
            state.ending = Some(log.ending(*offset, message.clone(), *kind));
        }
        if log.is_first_batch
            && let Some(before) = log.before
        {
            // A log without a batch does not show whether the previous log lost any batches.
            let log_number = state.ending.as_ref().map_or(before.log_number, |_| number);
            state.ending = Some(Ending { log_number, ..before });
        }
        Ok(())
    }

    fn check_record(
        &mut self,
        log: &mut Log<'_>,
        record: &Record<'_>,
        state: &mut LogProgress<'_>,
    ) -> Flow {
        if let Some(from) = log.unwritten_from.take()
            && sequence(record) != state.next_sequence
        {
            let at = record.start;
            let message = format!("batches before the one at offset {at} were not written");
            state.ending = Some(log.ending(from, message, EndingKind::Torn));
            return Flow::EndOfLog;
        }
        for (offset, message, _) in state.doubtful.drain(..) {
            self.report.damage_at(log.path, offset, message);
        }
        if std::mem::take(&mut log.is_first_batch)
            && let Some(before) = &log.before
        {
            self.check_continues(log.path, record, before, state);
        }
        self.check_batch(log.path, record, state);
        Flow::Continue
    }

    /// Handles an event other than a record.
    fn check_irregularity(
        &mut self,
        log: &mut Log<'_>,
        event: &Event<'_>,
        state: &mut LogProgress<'_>,
    ) -> Result<Flow> {
        let (offset, message, kind) = match event {
            Event::Damage(damage) if damage.may_end_log() => {
                let kind = if damage.own { EndingKind::Torn } else { EndingKind::Doubtful };
                (damage.offset, damage.reason.to_string(), kind)
            }
            Event::Damage(damage) => {
                let message = format!("{}: {} bytes are lost", damage.reason, damage.dropped);
                let is_torn =
                    log.unwritten_from.is_some() || unwritten::explains(&*log.file, damage)?;
                if !is_torn {
                    self.report.damage_at(log.path, damage.offset, message);
                    return Ok(Flow::Continue);
                }
                log.unwritten_from.get_or_insert(damage.offset);
                (damage.offset, message, EndingKind::Torn)
            }
            Event::Torn(torn) => {
                let message = format!("{}: {} bytes are left out", torn.reason, torn.dropped);
                let kind = if torn.own { EndingKind::Torn } else { EndingKind::Recycled };
                (torn.offset, message, kind)
            }
            Event::Stale(stale)
                if log.is_first_batch && !stale.is_older && self.stale_is_damage() =>
            {
                let message = "a record of a later log";
                self.report.damage_at(log.path, stale.offset, message);
                let ending = log.ending(stale.offset, message.to_owned(), EndingKind::Recycled);
                state.ending = Some(ending);
                return Ok(Flow::EndOfLog);
            }
            Event::Stale(stale) => {
                if stale.in_record {
                    (stale.offset, "the log ends inside a record".to_owned(), EndingKind::Torn)
                } else {
                    (stale.offset, "the log ends here".to_owned(), EndingKind::Recycled)
                }
            }
            Event::Skipped(skipped) if skipped.lossy => {
                let (offset, message) = (skipped.offset, skipped.reason.to_string());
                if skipped.reason != SkippedReason::Zeros {
                    self.report.damage_at(log.path, offset, message);
                    return Ok(Flow::Continue);
                }
                log.unwritten_from.get_or_insert(offset);
                (offset, message, EndingKind::Torn)
            }
            _ => return Ok(Flow::Continue),
        };
        state.doubtful.push((offset, message, kind));
        Ok(Flow::Continue)
    }

    /// Whether a log that begins with a record of another log is damaged. Such a log is not damaged
    /// if logs are recycled.
    fn stale_is_damage(&self) -> bool {
        self.options.database().recycle_log_file_num == 0
    }

    /// Checks what a log records about the log before it.
    fn check_predecessor(
        &mut self,
        path: &Path,
        predecessor: &PredecessorWal,
        state: &LogProgress<'_>,
    ) {
        let PredecessorWal { log_number, size, .. } = *predecessor;
        if log_number < state.oldest_log {
            return;
        }
        let message = match state.previous {
            Some((number, length)) if number == log_number && length >= size => return,
            Some((number, length)) if number == log_number => {
                format!("it says that log {log_number} had {size} bytes, but that log has {length}")
            }
            _ => format!("it names log {log_number} as its predecessor, which is missing"),
        };
        // Unsynced logs may reach the device in any order, so a crash can explain that the earlier
        // log is incomplete or missing.
        self.report.add(Severity::TornTail, path, None, message);
    }

    /// Checks `record`, the first batch of a log. The previous log ended at `before`, inside a
    /// record or before the end of its file. If the batch has the next sequence number, no batch of
    /// the previous log is missing.
    fn check_continues(
        &mut self,
        path: &Path,
        record: &Record<'_>,
        before: &Ending,
        state: &LogProgress<'_>,
    ) {
        let Ending { path: ended, offset, message, kind, .. } = before;
        if sequence(record) != state.next_sequence {
            let message =
                format!("{message}, and batches before those of the next log are missing");
            self.report.damage_at(ended, *offset, message);
        } else if *kind == EndingKind::Torn {
            let message = format!("{message}; nothing is missing, {} continues", path.display());
            self.report.add(Severity::Note, ended, Some(*offset), message);
        }
    }

    fn check_batch(&mut self, path: &Path, record: &Record<'_>, state: &mut LogProgress<'_>) {
        self.report.batches += 1;
        let checked = match batch::check(record.payload, state.next_sequence) {
            Ok(checked) => checked,
            Err(Refusal::NotSupported(feature)) => {
                return self.report.unsupported(path, Some(record.start), feature);
            }
            Err(refusal) => {
                return self.report.damage_at(path, record.start, refusal.reason());
            }
        };
        state.next_sequence = Some(checked.next_sequence);
        let highest = state.manifest.max_column_family;
        let problem = checked.records.into_iter().find_map(|operation| match operation {
            Ok(operation) if operation.column_family <= highest => None,
            Ok(operation) => {
                let family = operation.column_family;
                Some(format!("a write to column family {family}, which never existed"))
            }
            Err(error) => Some(error.to_string()),
        });
        if let Some(message) = problem {
            self.report.damage_at(path, record.start, message);
        }
    }
}

/// Returns the sequence number of a record's batch, if it has a valid header.
fn sequence(record: &Record<'_>) -> Option<u64> {
    BatchReader::new(record.payload).map(|batch| batch.sequence()).ok()
}
