//! Verification of write-ahead logs.
//!
//! A recycled log ends where bytes of the file's earlier use begin. These bytes may have any value,
//! so an error in them is damage only if records of this log follow. Likewise, an error in a record
//! whose sectors were only partly written before a crash is damage only if records follow.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::batch::BatchReader;
use tailwater_format::file_name::FileKind;
use tailwater_format::record_log::{Event, PredecessorWal, Record};
use tailwater_io::{IoMode, Purpose, ReadFile};

use super::{Family, Severity, Verification};
use crate::error::Result;
use crate::record_log;
use crate::version::manifest::DatabaseState;
use crate::version::synced_logs;
use crate::wal::batch::Refusal;
use crate::wal::findings::{Finding, PossibleEnd, Problem};
use crate::wal::replay::list_logs;
use crate::wal::{batch, unwritten};

/// The state while logs are read in order.
struct LogProgress<'a> {
    manifest: &'a DatabaseState,
    /// The sequence number that follows the last batch read; `None` before the first batch.
    next_sequence: Option<u64>,
    /// The positions at which the log may end, and after which no record was found so far.
    possible_ends: Vec<PossibleEnd>,
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
    /// Whether the log ends inside a record. If not, it ends at bytes that remain from an older log
    /// in the same file, or that may do so.
    torn: bool,
}

/// A log that is being read.
struct Log<'a> {
    path: &'a Path,
    number: u64,
    file: Arc<dyn ReadFile>,
    /// Where the previous log ended, if that is before the end of its file.
    before: Option<Ending>,
    /// Whether a record of the log was found.
    has_begun: bool,
    is_first_batch: bool,
    /// Offset of the first unwritten space (zeros) after which no batch was found, if any.
    unwritten_from: Option<u64>,
}

impl Log<'_> {
    /// Describes the end of this log at `offset`.
    fn ending(&self, offset: u64, message: String, torn: bool) -> Ending {
        Ending { path: self.path.to_owned(), log_number: self.number, offset, message, torn }
    }
}

/// Whether to continue reading a log.
#[derive(PartialEq, Eq)]
enum Flow {
    Continue,
    EndOfLog,
}

impl Verification<'_> {
    /// Reads every log that a column family still needs.
    pub(super) fn check_logs(&mut self, manifest: &DatabaseState, families: &[Family]) {
        let directory = self.options.wal_directory(self.directory);
        let logs = match list_logs(&*self.storage, &directory) {
            Ok(logs) => logs,
            Err(error) => return self.report.error(&directory, &error),
        };
        let length_of = |number| synced_logs::length_of(&*self.storage, &directory, number);
        for loss in synced_logs::losses(manifest, &directory, length_of) {
            self.report.error(&directory, &loss);
        }
        let mut state = LogProgress {
            manifest,
            next_sequence: None,
            possible_ends: Vec::new(),
            ending: None,
            previous: None,
        };
        for number in logs.into_iter().filter(|&number| number >= manifest.oldest_needed_log) {
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
        let Ending { path, log_number, offset, message, torn } = ending;
        let is_ahead = |family: &&Family| {
            family.log_number > log_number && family.version.files().next().is_some()
        };
        if let Some(Family { name, .. }) = families.iter().find(is_ahead) {
            let message =
                format!("{message}, but tables of column family '{name}' hold later writes");
            self.report.damage_at(&path, offset, message);
        } else if torn {
            self.report.add(Severity::TornTail, &path, Some(offset), message);
        }
    }

    fn check_log(&mut self, path: &Path, number: u64, state: &mut LogProgress<'_>) -> Result<()> {
        let file = self.storage.open(path, IoMode::Buffered, Purpose::Verification)?;
        let length = file.length()?;
        self.report.logs += 1;
        self.report.bytes += length;
        let mut reader = record_log::reader(Arc::clone(&file), number, Purpose::Verification);
        let before = state.ending.take();
        let mut log = Log {
            path,
            number,
            file,
            before,
            has_begun: false,
            is_first_batch: true,
            unwritten_from: None,
        };
        loop {
            let event = reader.next_event()?;
            log.has_begun |= matches!(event, Event::Record(_) | Event::Predecessor(_));
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
        let mut ends = std::mem::take(&mut state.possible_ends);
        if !ends.is_empty() {
            let torn = ends.iter().position(|end| end.at_end.is_some());
            let PossibleEnd { missing, at_end, .. } = ends.swap_remove(torn.unwrap_or(0));
            let Problem { offset, reason, .. } = at_end.unwrap_or(missing);
            state.ending = Some(log.ending(offset, reason, torn.is_some()));
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
            state.ending = Some(log.ending(from, message, true));
            return Flow::EndOfLog;
        }
        for PossibleEnd { missing, .. } in state.possible_ends.drain(..) {
            self.report.damage_at(log.path, missing.offset, missing.reason);
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
        let may_be_stale = log.has_begun || self.options.database().recycle_log_file_num > 0;
        let possible_end = match Finding::of(event, may_be_stale) {
            Finding::Nothing => return Ok(Flow::Continue),
            Finding::PossibleEnd(possible_end) => possible_end,
            Finding::Problem(problem) => match event {
                Event::Damage(damage) => {
                    let is_torn =
                        log.unwritten_from.is_some() || unwritten::explains(&*log.file, damage)?;
                    let reason = format!("{}: {} bytes are lost", problem.reason, problem.bytes);
                    if !is_torn {
                        self.report.damage_at(log.path, problem.offset, reason);
                        return Ok(Flow::Continue);
                    }
                    PossibleEnd::inside_record(Problem { reason, torn: true, ..problem })
                }
                Event::Torn(_) => {
                    let reason =
                        format!("{}: {} bytes are left out", problem.reason, problem.bytes);
                    PossibleEnd::inside_record(Problem { reason, ..problem })
                }
                _ => {
                    let Problem { offset, reason, .. } = problem;
                    self.report.damage_at(log.path, offset, &reason);
                    state.ending = Some(log.ending(offset, reason, false));
                    return Ok(Flow::EndOfLog);
                }
            },
        };
        if possible_end.missing.torn {
            log.unwritten_from.get_or_insert(possible_end.missing.offset);
        }
        match &possible_end.at_end {
            Some(problem) if !problem.torn => {
                self.report.damage_at(log.path, problem.offset, &problem.reason);
            }
            None if !possible_end.ends_early => {}
            _ => state.possible_ends.push(possible_end),
        }
        Ok(Flow::Continue)
    }

    /// Checks what a log records about the log before it.
    fn check_predecessor(
        &mut self,
        path: &Path,
        predecessor: &PredecessorWal,
        state: &LogProgress<'_>,
    ) {
        let PredecessorWal { log_number, size, .. } = *predecessor;
        if log_number < state.manifest.oldest_needed_log {
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
        let Ending { path: ended, offset, message, torn, .. } = before;
        if sequence(record) != state.next_sequence {
            let message =
                format!("{message}, and batches before those of the next log are missing");
            self.report.damage_at(ended, *offset, message);
        } else if *torn {
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
