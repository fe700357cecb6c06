//! Log replay: reads the write-ahead logs of a database into memtables.
//!
//! Logs are read in the order of their numbers. All writes to a column family in logs below its log
//! number are in its tables, so the records of these logs are skipped for that family; a log below
//! every family's log number is not read at all. A batch is checked as a whole before any of it
//! goes into a memtable: it is applied completely or left out.
//!
//! The recovery mode decides what damage does. Point-in-time, the default, applies everything
//! before the damage and leaves out everything after it, unless a later log continues with the very
//! next sequence number, which shows that nothing is missing. Everything left out is reported.
//! Replay changes no file.
//!
//! A direct log that was not closed has zeros after its end, which are ignored. A crash of the
//! machine may also have left zeros in the space of a group that was in flight when a later group
//! had already reached the device. So a record after zeros is applied only if no batch is missing
//! before it. Zeros inside a fragment are the missing part of an unfinished write.
//!
//! The end of a recycled log is followed by earlier content of its file, which may be arbitrary
//! bytes. So every log is read to the end of its file, even if the log seems to end earlier: a
//! record of this log found later shows that the apparent end is damage.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tailwater_format::blob::{BlobIndex, for_each_blob_index};
use tailwater_format::key::Sequence;
use tailwater_format::record_log::{
    Damage, Event, PredecessorWal, Record as LogRecord, RecordReader, RecoveryMode, Torn,
    TornReason, Verdict,
};
use tailwater_io::Purpose;

use crate::error::{Error, ErrorKind, Result};
use crate::left_out::LeftOut;
use crate::memtable::MemTable;
use crate::record_log::FileSource;
use crate::wal::batch::{self, CheckedBatch, Refusal};
use crate::wal::findings::{Finding, PossibleEnd, Problem};
use crate::wal::unwritten;

mod logs;

pub(crate) use logs::{Log, list_logs};

/// A column family during replay. Replay inserts the family's records into the family's memtable.
#[derive(Debug)]
pub(crate) struct ReplayFamily {
    /// The name of the family, for messages.
    pub(crate) name: String,
    /// The family's writes in logs with a lower number than this are already in its tables.
    pub(crate) log_number: u64,
    /// Whether the family has tables.
    pub(crate) has_tables: bool,
    /// The memtable into which the family's records are inserted; `None` if they are only checked.
    pub(crate) memtable: Option<Arc<MemTable>>,
}

/// The column families of a replay, by ID.
pub(crate) type ReplayFamilies = BTreeMap<u32, ReplayFamily>;

/// Called after each batch that was replayed, with the size of the batch in bytes. May replace the
/// families' memtables. An error ends the replay.
pub(crate) type AfterBatch<'a> = dyn FnMut(&mut ReplayFamilies, usize) -> Result<()> + 'a;

/// The result of replay.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// The highest sequence number in tables or replayed records.
    pub(crate) last_sequence: Sequence,
    /// The parts of the logs that were not replayed.
    pub(crate) left_out: Vec<LeftOut>,
    /// The logs that were read, in order.
    pub(crate) logs: Vec<ReplayedLog>,
    /// The blob files to which replayed records refer, by column family and number.
    pub(crate) blob_files: BTreeSet<(u32, u64)>,
}

/// A log that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplayedLog {
    /// The description of this log that the next log must record.
    pub(crate) as_predecessor: PredecessorWal,
    /// Whether replay skipped a part of the log for a reason that is not the result of a crash.
    pub(crate) damaged: bool,
    /// Whether the log is intact: no problem was found in it, and after its last record the file
    /// contains at most zeros.
    pub(crate) whole: bool,
    /// Whether the log has the form of a recycled log, whose file may be overwritten with a later
    /// log.
    pub(crate) recycled: bool,
}

impl ReplayedLog {
    /// Returns the number of the log.
    pub(crate) fn number(&self) -> u64 {
        self.as_predecessor.log_number
    }
}

/// The rules that decide which logs and records are replayed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplayRules {
    /// The recovery mode.
    pub(crate) mode: RecoveryMode,
    /// Logs with a lower number are not needed by any column family, and are not read.
    pub(crate) min_log_number: u64,
    /// Whether each log's description of its predecessor must match the predecessor: option
    /// `track_and_verify_wals`.
    pub(crate) verifies_predecessors: bool,
    /// Whether log files are recycled, in which case a log without a record of its own may begin
    /// with records of an older log.
    pub(crate) recycles: bool,
}

/// Replays logs, which are given in ascending order. Logs that no column family needs must have
/// been left out. `last_sequence` is the highest sequence number in tables.
///
/// # Errors
/// Corruption, with file and offset, for damage that the recovery mode does not accept; not
/// supported, for a log that contains transactions or user-defined timestamps; an error that
/// `after_batch` returns.
pub(crate) fn replay(
    logs: impl Iterator<Item = Result<Log>>,
    rules: ReplayRules,
    last_sequence: Sequence,
    families: &mut ReplayFamilies,
    after_batch: &mut AfterBatch<'_>,
) -> Result<Replayed> {
    let mut replay = Replay::new(rules, last_sequence, families, after_batch);
    for log in logs {
        let log = log?;
        let recycled = replay.read_log(&log)?;
        let LogState { last_batch: last_sequence, is_damaged: damaged, is_whole: whole, .. } =
            std::mem::take(&mut replay.current);
        let as_predecessor =
            PredecessorWal { log_number: log.number, size: log.length, last_sequence };
        replay.log_before = Some(as_predecessor);
        replay.replayed.logs.push(ReplayedLog { as_predecessor, damaged, whole, recycled });
    }
    replay.finish()
}

/// The point at which replay ends a log before the end of the log's file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogEnd {
    /// Whether the database opens, and whether replay continues with the next log. Never
    /// [`Verdict::Continue`].
    pub verdict: Verdict,
    /// The offset in the log, in bytes.
    pub offset: u64,
    /// A text for human readers that says why the log ends there.
    pub reason: String,
}

/// Finds the point at which replay ends a log, if the database has no other log and `mode` and
/// `recycles` are as in [`ReplayRules`]. Returns `None` if replay reads the whole log.
///
/// # Errors
/// I/O errors.
pub(crate) fn end_of_log(log: &Log, mode: RecoveryMode, recycles: bool) -> Result<Option<LogEnd>> {
    // The log's description of its predecessor is ignored.
    let rules =
        ReplayRules { mode, recycles, min_log_number: u64::MAX, verifies_predecessors: false };
    let (mut families, mut after_batch) = (BTreeMap::new(), |_: &mut ReplayFamilies, _| Ok(()));
    let mut replay = Replay::new(rules, 0, &mut families, &mut after_batch);
    match replay.read_log(log) {
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotSupported) => {
            let offset = error.offset().unwrap_or(replay.current.position);
            let reason = error.message().to_owned();
            return Ok(Some(LogEnd { verdict: Verdict::Fail, offset, reason }));
        }
        Err(error) => return Err(error),
    }
    let is_stopped = replay.stopped_at.is_some();
    let verdict = if is_stopped { Verdict::StopReplay } else { Verdict::End };
    let ended = replay.current.ended_at;
    Ok(ended.map(|(offset, reason)| LogEnd { verdict, offset, reason }))
}

/// Replay in progress.
struct Replay<'a> {
    rules: ReplayRules,
    families: &'a mut ReplayFamilies,
    after_batch: &'a mut AfterBatch<'a>,
    /// The sequence number of the next batch if none is missing; `None` before the first batch.
    next_sequence: Option<Sequence>,
    /// The description of the previous log. The current log is expected to have recorded the same
    /// description.
    log_before: Option<PredecessorWal>,
    /// The state of the log that is being read.
    current: LogState,
    /// The point at which replay stopped, unless a later log showed that no batch is missing.
    stopped_at: Option<Stop>,
    replayed: Replayed,
}

/// What is known of a log while it is read.
struct LogState {
    /// The offset up to which the log has been read.
    position: u64,
    /// The sequence number of the log's last batch; 0 before its first batch.
    last_batch: Sequence,
    /// Whether a record of the log was found.
    has_begun: bool,
    /// Whether replay skipped a part of the log for a reason that is not the result of a crash.
    is_damaged: bool,
    /// Whether no problem was found so far.
    is_whole: bool,
    /// The first position at which the log may have ended; `None` if there is none, or if a batch
    /// was found after it.
    possible_end: Option<PossibleEnd>,
    /// The offset at which the log ended before the end of its file, and the reason.
    ended_at: Option<(u64, String)>,
}

impl Default for LogState {
    fn default() -> Self {
        Self {
            position: 0,
            last_batch: 0,
            has_begun: false,
            is_damaged: false,
            is_whole: true,
            possible_end: None,
            ended_at: None,
        }
    }
}

/// The point at which replay stopped before the end of the logs.
struct Stop {
    log_number: u64,
    path: PathBuf,
    offset: u64,
    reason: String,
    /// Whether a crash can have caused the problem at which replay stopped.
    torn: bool,
}

/// A difference between a log and the description of it in the next log.
struct Contradiction {
    reason: String,
    /// Whether the log before this one, or the end of that log, is missing.
    is_gap: bool,
}

/// Whether reading a log continues.
#[derive(PartialEq, Eq)]
enum Flow {
    Continue,
    EndOfLog,
}

impl<'a> Replay<'a> {
    fn new(
        rules: ReplayRules,
        last_sequence: Sequence,
        families: &'a mut ReplayFamilies,
        after_batch: &'a mut AfterBatch<'a>,
    ) -> Self {
        Self {
            rules,
            families,
            after_batch,
            next_sequence: None,
            log_before: None,
            current: LogState::default(),
            stopped_at: None,
            replayed: Replayed { last_sequence, ..Replayed::default() },
        }
    }

    /// Replays a log. Returns whether it has the form of a recycled log.
    fn read_log(&mut self, log: &Log) -> Result<bool> {
        let source = FileSource::new(Arc::clone(&log.file), Purpose::Wal, 0..log.length);
        let mut reader = RecordReader::new(source, log.number);
        loop {
            self.current.position = reader.offset();
            let event = match reader.next_event()? {
                Event::Damage(damage)
                    if !damage.recycled && self.is_unfinished(log, &damage)? =>
                {
                    let (Damage { offset, dropped, own, .. }, reason) =
                        (damage, TornReason::Unwritten);
                    Event::Torn(Torn { offset, dropped, own, reason })
                }
                event => event,
            };
            if let Flow::EndOfLog = self.event(log, &event)? {
                return Ok(reader.is_recycled());
            }
        }
    }

    /// Whether damage is an unfinished write that a crash of the machine cut off. Always false in
    /// modes other than point-in-time: like RocksDB, they treat such a write as damage.
    fn is_unfinished(&self, log: &Log, damage: &Damage) -> Result<bool> {
        let asks = self.rules.mode == RecoveryMode::PointInTime;
        let is_behind_zeros = self
            .current
            .possible_end
            .as_ref()
            .is_some_and(|possible_end| possible_end.missing.torn);
        Ok(asks && (is_behind_zeros || unwritten::explains(&*log.file, damage)?))
    }

    fn event(&mut self, log: &Log, event: &Event<'_>) -> Result<Flow> {
        if let Event::Predecessor(recorded) = event
            && let Some(contradiction) = self.contradiction(recorded)
        {
            self.current.is_whole = false;
            if self.is_relevant(&contradiction) {
                return self.contradicted(log, recorded.log_number, contradiction);
            }
        }
        self.current.has_begun |= matches!(event, Event::Record(_) | Event::Predecessor(_));
        let verdict = self.rules.mode.verdict(event);
        let problem = match (event, Finding::of(event, self.may_be_stale())) {
            (Event::Record(record), _) => return self.record(log, record),
            (Event::TimestampSizes(_), _) => {
                return Err(Error::not_supported("user-defined timestamps").in_file(&log.path));
            }
            (Event::End, _) => return self.end(log),
            (_, Finding::Nothing) => return Ok(Flow::Continue),
            (_, Finding::PossibleEnd(possible_end)) if verdict != Verdict::Fail => {
                self.raise(possible_end);
                return Ok(Flow::Continue);
            }
            (_, Finding::PossibleEnd(PossibleEnd { missing, .. })) => missing,
            (_, Finding::Problem(problem)) => problem,
        };
        self.current.is_whole = false;
        // The event shows that the log continues up to here. So the log did not end at an earlier
        // position where it seemed to end.
        let possible_end =
            self.current.possible_end.take_if(|possible_end| possible_end.ends_early);
        let problem = match possible_end.map(|end| end.at_end.unwrap_or(end.missing)) {
            Some(earlier) if verdict == Verdict::Continue => {
                self.leave_out(log, earlier);
                problem
            }
            Some(earlier) => earlier,
            None => problem,
        };
        match verdict {
            Verdict::Continue => {
                self.leave_out(log, problem);
                Ok(Flow::Continue)
            }
            // Only a torn record ends a log; other damage is an error, even where the verdict is
            // `End`.
            Verdict::End if problem.torn => Ok(self.leave_out_rest(log, problem)),
            Verdict::StopReplay => Ok(self.stop(log, problem)),
            // `Verdict::Fail`, and `Verdict::End` if the record is not torn.
            _ => Err(Error::corruption_at(&log.path, problem.offset, problem.reason)),
        }
    }

    /// Whether a mismatch between the previous log and its description in the current log matters.
    ///
    /// A crash of the machine can leave the end of the previous log missing, or the whole log, if a
    /// later log reached the device first. Point-in-time mode does not continue past such a gap,
    /// even if the options do not request the check.
    fn is_relevant(&self, contradiction: &Contradiction) -> bool {
        let may_matter = match self.rules.mode {
            RecoveryMode::SkipAnyCorruptedRecords => false,
            RecoveryMode::PointInTime if contradiction.is_gap => true,
            _ => self.rules.verifies_predecessors,
        };
        may_matter && self.stopped_at.is_none()
    }

    /// Compares the previous log with its description, which the current log recorded.
    fn contradiction(&self, recorded: &PredecessorWal) -> Option<Contradiction> {
        let PredecessorWal { log_number, size, last_sequence } = *recorded;
        match &self.log_before {
            None if log_number < self.rules.min_log_number => None,
            Some(before) if before == recorded => None,
            Some(before) if before.log_number >= log_number => Some(Contradiction {
                is_gap: before.log_number == log_number
                    && (before.size < size || before.last_sequence < last_sequence),
                reason: format!(
                    "log {log_number} was before this one ({size} bytes, last batch at sequence \
                     number {last_sequence}), but log {} was found ({} bytes, last batch at {})",
                    before.log_number, before.size, before.last_sequence
                ),
            }),
            _ if log_number < self.rules.min_log_number => None,
            _ => Some(Contradiction {
                is_gap: true,
                reason: format!("log {log_number} before this one is missing"),
            }),
        }
    }

    /// Handles a `log` that begins with a wrong description of the log with the number `before`.
    /// Point-in-time mode stops replay at the start of `log`. The other modes fail.
    fn contradicted(
        &mut self,
        log: &Log,
        before: u64,
        contradiction: Contradiction,
    ) -> Result<Flow> {
        let Contradiction { reason, is_gap } = contradiction;
        if self.rules.mode != RecoveryMode::PointInTime {
            return Err(Error::corruption(&log.path, reason));
        }
        let problem = Problem { offset: 0, bytes: 0, reason, torn: is_gap };
        let flow = self.stop(log, problem);
        // Intact records from here on are not replayed, so the log counts as damaged even if a
        // crash caused the contradiction between the logs.
        self.current.is_damaged = true;
        if let Some(stop) = &mut self.stopped_at {
            // The gap is in the previous log, not in this one.
            stop.log_number = before;
        }
        Ok(flow)
    }

    /// Handles a record whose checksum was verified.
    fn record(&mut self, log: &Log, record: &LogRecord<'_>) -> Result<Flow> {
        let offset = record.start;
        let refusal = match batch::check(record.payload, self.next_sequence) {
            Ok(checked) if self.dispel(log, &checked, offset)? == Flow::EndOfLog => {
                return Ok(Flow::EndOfLog);
            }
            Ok(checked) if self.follows(&checked) => match self.apply(log, checked) {
                Ok(()) => {
                    (self.after_batch)(self.families, record.payload.len())?;
                    return Ok(Flow::Continue);
                }
                Err(refusal) => refusal,
            },
            Ok(_) => {
                let reason = "batches before this one are missing".to_owned();
                // This intact record is not replayed, so the log counts as damaged even if a crash
                // is the reason why earlier batches are missing.
                self.current.is_damaged = true;
                let torn = self.stopped_at.as_ref().is_some_and(|stop| stop.torn);
                let problem = Problem { offset, bytes: 0, reason, torn };
                return Ok(self.leave_out_rest(log, problem));
            }
            Err(Refusal::NotSupported(feature)) => {
                return Err(Error::not_supported(feature).in_file(&log.path));
            }
            Err(refusal) => refusal,
        };
        let (bytes, reason) = (record.end - offset, refusal.reason().to_owned());
        let problem = Problem { offset, bytes, reason, torn: false };
        match refusal.verdict(self.rules.mode) {
            Verdict::Continue => {
                self.leave_out(log, problem);
                Ok(Flow::Continue)
            }
            Verdict::StopReplay => Ok(self.stop(log, problem)),
            // `Verdict::Fail` and `Verdict::End`: only a torn record ends a log.
            _ => Err(Error::corruption_at(&log.path, offset, problem.reason)),
        }
    }

    /// Whether, at this position, a record that carries a higher log number than the log being read
    /// is treated as earlier content of a recycled file. If not, the record is damage. A record
    /// with a lower log number is always treated as earlier content. The strict modes do not
    /// recycle logs, but may read logs that were recycled under other options.
    fn may_be_stale(&self) -> bool {
        let is_strict = matches!(
            self.rules.mode,
            RecoveryMode::TolerateCorruptedTailRecords | RecoveryMode::AbsoluteConsistency
        );
        self.current.has_begun || self.rules.recycles || is_strict
    }

    /// Notes a position at which the log may end.
    fn raise(&mut self, possible_end: PossibleEnd) {
        self.current.is_whole &= !possible_end.ends_early;
        match &mut self.current.possible_end {
            None => self.current.possible_end = Some(possible_end),
            // The log may end at an earlier position, `first`, or at this one. The problems to
            // report are those of the earlier position, if any. The boolean fields of both
            // positions are combined.
            Some(first) => {
                first.at_end = first.at_end.take().or(possible_end.at_end);
                first.missing.torn &= possible_end.missing.torn;
                first.may_go_on &= possible_end.may_go_on;
                first.ends_early |= possible_end.ends_early;
            }
        }
    }

    /// Called when the batch at `offset` was found after a possible end of the log. If no batch is
    /// missing between the possible end and that batch, replay may continue; otherwise the recovery
    /// mode decides whether replay stops, continues or fails.
    fn dispel(&mut self, log: &Log, checked: &CheckedBatch<'_>, offset: u64) -> Result<Flow> {
        let Some(possible_end) = self.current.possible_end.take() else {
            return Ok(Flow::Continue);
        };
        let follows = self.next_sequence == Some(checked.records.sequence());
        let goes_on =
            possible_end.may_go_on || self.rules.mode == RecoveryMode::SkipAnyCorruptedRecords;
        if follows && goes_on {
            return Ok(Flow::Continue);
        }
        self.current.is_whole = false;
        let Problem { offset: from, reason, torn, .. } = possible_end.missing;
        let reason = if torn {
            format!("batches before the one at offset {offset} were never written")
        } else {
            reason
        };
        let problem = Problem { offset: from, bytes: offset - from, reason, torn };
        match self.rules.mode {
            RecoveryMode::TolerateCorruptedTailRecords | RecoveryMode::AbsoluteConsistency => {
                Err(Error::corruption_at(&log.path, from, problem.reason))
            }
            RecoveryMode::PointInTime => Ok(self.stop(log, problem)),
            RecoveryMode::SkipAnyCorruptedRecords => {
                self.leave_out(log, problem);
                Ok(Flow::Continue)
            }
        }
    }

    /// Handles the end of the log's file.
    fn end(&mut self, log: &Log) -> Result<Flow> {
        let Some(possible_end) = self.current.possible_end.take() else {
            return Ok(Flow::EndOfLog);
        };
        let is_point_in_time = self.rules.mode == RecoveryMode::PointInTime;
        match possible_end.at_end {
            Some(Problem { offset, reason, .. })
                if self.rules.mode == RecoveryMode::AbsoluteConsistency =>
            {
                return Err(Error::corruption_at(&log.path, offset, reason));
            }
            Some(problem) if is_point_in_time => return Ok(self.stop(log, problem)),
            Some(problem) => return Ok(self.leave_out_rest(log, problem)),
            None if possible_end.ends_early => {
                let Problem { offset, .. } = possible_end.missing;
                let reason = "the log ends before remains of an earlier use of the file".to_owned();
                if is_point_in_time {
                    self.stop_at(log, offset, reason.clone(), true);
                }
                self.current.ended_at = Some((offset, reason));
            }
            None => {}
        }
        Ok(Flow::EndOfLog)
    }

    /// Whether a batch may be applied. If replay has stopped in an earlier log, replay resumes only
    /// if the batch's sequence number follows directly after the last replayed batch, which shows
    /// that no batch is missing.
    fn follows(&mut self, checked: &CheckedBatch<'_>) -> bool {
        let follows =
            self.stopped_at.is_none() || self.next_sequence == Some(checked.records.sequence());
        if follows {
            self.stopped_at = None;
        }
        follows
    }

    /// Inserts a batch into the memtables, if there are any.
    fn apply(&mut self, log: &Log, checked: CheckedBatch<'_>) -> std::result::Result<(), Refusal> {
        let batch_sequence = checked.records.sequence();
        let mut sequence = batch_sequence;
        for record in checked.records {
            let record = record.map_err(|error| Refusal::Malformed(error.to_string()))?;
            let Some(value_type) = record.kind.value_type() else { continue };
            let family = self.families.get(&record.column_family);
            if let Some(family) = family.filter(|family| family.log_number <= log.number) {
                if let Some(memtable) = &family.memtable {
                    memtable
                        .add(sequence, value_type, record.key, record.value)
                        .map_err(|error| Refusal::Rejected(error.to_string()))?;
                }
                for_each_blob_index(value_type, record.value, |index| {
                    if let BlobIndex::Blob(location) = BlobIndex::decode(index)? {
                        let file = (record.column_family, location.file_number);
                        self.replayed.blob_files.insert(file);
                    }
                    Ok(())
                })
                .map_err(|error| Refusal::Malformed(error.to_string()))?;
            }
            sequence += 1;
        }
        self.current.last_batch = batch_sequence;
        self.next_sequence = Some(checked.next_sequence);
        // An empty batch may have sequence number 0.
        let last = checked.next_sequence.saturating_sub(1);
        self.replayed.last_sequence = self.replayed.last_sequence.max(last);
        Ok(())
    }

    /// Stops replay in this log and leaves out the rest of the log. If a later log shows that no
    /// batch is missing, replay continues there.
    fn stop(&mut self, log: &Log, problem: Problem) -> Flow {
        self.stop_at(log, problem.offset, problem.reason.clone(), problem.torn);
        self.leave_out_rest(log, problem)
    }

    fn stop_at(&mut self, log: &Log, offset: u64, reason: String, torn: bool) {
        let path = log.path.clone();
        self.stopped_at = Some(Stop { log_number: log.number, path, offset, reason, torn });
    }

    /// Ends the log at a problem: leaves out the rest of the log.
    fn leave_out_rest(&mut self, log: &Log, problem: Problem) -> Flow {
        self.current.ended_at = Some((problem.offset, problem.reason.clone()));
        self.leave_out(log, problem.up_to(log.length));
        Flow::EndOfLog
    }

    fn leave_out(&mut self, log: &Log, problem: Problem) {
        self.current.is_damaged |= !problem.torn;
        self.replayed.left_out.push(LeftOut {
            path: log.path.clone(),
            offset: problem.offset,
            bytes: problem.bytes,
            reason: problem.reason,
            torn_tail: problem.torn,
        });
    }

    /// Fails if a family's tables hold writes from after the point at which replay stopped: the
    /// database would show later writes without earlier ones.
    fn finish(self) -> Result<Replayed> {
        let Some(stop) = self.stopped_at else { return Ok(self.replayed) };
        let ahead = self
            .families
            .values()
            .find(|family| family.has_tables && family.log_number > stop.log_number);
        match ahead {
            Some(family) => {
                let message = format!(
                    "replay ends here ({}), but tables of column family '{}' hold later writes",
                    stop.reason, family.name
                );
                Err(Error::corruption_at(&stop.path, stop.offset, message))
            }
            None => Ok(self.replayed),
        }
    }
}
