//! The summary of a log: what it contains, and where recovery would stop reading it.

use serde_json::json;
use tailwater::inspect::wal::{Irregularity, IrregularityKind, LogBatch, LogEnd, LogReader};
use tailwater_format::record_log::{HEADER_LENGTH, RecoveryMode, Verdict};

use crate::outcome::{Outcome, Result};
use crate::output::Output;
use crate::text::counted;

/// The figures of a log, updated for each item that is read.
#[derive(Default)]
pub(super) struct Summary {
    /// Number of complete batches that recovery accepts.
    batches: u64,
    /// Number of operations in the batches that `batches` counts.
    operations: u64,
    /// The lowest and the highest sequence number in the batches that `batches` counts.
    sequences: Option<(u64, u64)>,
    /// Number of groups of batches that are followed by padding. Direct I/O pads each group to a
    /// whole block.
    padded_groups: u64,
    /// Total length of the padding, in bytes.
    padding_bytes: u64,
    /// Number of bytes that were allocated and never written.
    unwritten_bytes: u64,
    /// The point before the log's end at which recovery stops, if any.
    end: Option<End>,
    /// The worst outcome so far.
    pub(super) outcome: Outcome,
}

/// The point at which recovery stops reading a log, and what is behind it.
struct End {
    at: LogEnd,
    /// Number of complete batches behind the point.
    batches_behind: u64,
    /// Whether the bytes behind the point seem to be left over from an earlier use of the file;
    /// `None` as long as none of these bytes were read.
    is_stale_behind: Option<bool>,
}

impl Summary {
    /// Creates the summary of a log that recovery stops reading at `end`.
    pub(super) fn new(end: Option<LogEnd>) -> Self {
        let end = end.map(|at| End { at, batches_behind: 0, is_stale_behind: None });
        Self { end, ..Self::default() }
    }

    /// Updates the figures for a complete batch.
    pub(super) fn count(&mut self, batch: &LogBatch<'_>) {
        if let Some(end) = self.end_before(batch.placement.offset) {
            end.batches_behind += 1;
            if end.is_stale_behind == Some(true) {
                // These bytes are not left over from an earlier use of the file after all, because
                // a valid batch of this log follows them. So they are damage.
                self.note(Outcome::Damage);
            }
            return;
        }
        self.batches += 1;
        self.operations += u64::from(batch.count);
        if batch.count > 0 {
            let last = batch.sequence.saturating_add(u64::from(batch.count) - 1);
            let (low, high) = self.sequences.unwrap_or((batch.sequence, last));
            self.sequences = Some((low.min(batch.sequence), high.max(last)));
        }
    }

    /// Counts padding and bytes that were never written.
    pub(super) fn count_empty(&mut self, irregularity: &Irregularity) {
        match irregularity.kind {
            IrregularityKind::Padding => {
                self.padded_groups += 1;
                self.padding_bytes += irregularity.length + HEADER_LENGTH as u64;
            }
            IrregularityKind::Unwritten => self.unwritten_bytes += irregularity.length,
            _ => {}
        }
    }

    /// Records an outcome; only the worst one is kept.
    pub(super) fn note(&mut self, outcome: Outcome) {
        self.outcome = self.outcome.and(outcome);
    }

    /// Notes whether the first bytes behind the point at which recovery stops seem to be left over
    /// from an earlier use of the file.
    pub(super) fn note_what_is_behind(&mut self, irregularity: &Irregularity) {
        let kind = irregularity.kind;
        if let Some(end) = self.end_before(irregularity.offset)
            && !matches!(kind, IrregularityKind::Unwritten | IrregularityKind::Padding)
        {
            end.is_stale_behind.get_or_insert(kind == IrregularityKind::Stale);
        }
    }

    /// Returns whether recovery stops at a point after which the file seems to hold data of an
    /// earlier use.
    pub(super) fn is_stale_behind(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.is_stale_behind == Some(true))
    }

    /// Returns what recovery does at `offset`.
    pub(super) fn verdict_at(&self, offset: u64) -> Verdict {
        match &self.end {
            Some(end) if end.at.offset <= offset => end.at.verdict,
            _ => Verdict::Continue,
        }
    }

    /// Returns the point at which recovery stops, if it is not behind `offset`.
    fn end_before(&mut self, offset: u64) -> Option<&mut End> {
        self.end.as_mut().filter(|end| end.at.offset <= offset)
    }

    /// Prints the summary, after the lines for the items of the log.
    pub(super) fn print(
        &self,
        name: &str,
        reader: &LogReader,
        mode: RecoveryMode,
        output: &mut Output,
    ) -> Result<()> {
        let (verdict, mode) = (self.verdict(), mode_name(mode));
        if output.is_json() {
            let end = self.end.as_ref();
            return output.json_line(&json!({
                "kind": "summary", "file": name, "bytes": reader.length(),
                "compression": reader.compression(), "batches": self.batches,
                "operations": self.operations,
                "sequences": self.sequences.map(|(low, high)| [low, high]),
                "padded_groups": self.padded_groups, "padding_bytes": self.padding_bytes,
                "unwritten_bytes": self.unwritten_bytes,
                "recovery_mode": mode, "verdict": verdict_name(verdict),
                "end": end.map(|end| end.at.offset),
                "batches_behind_end": end.map_or(0, |end| end.batches_behind),
            }));
        }
        output.line(format_args!("{:>12}{:>12}  end", reader.length(), ""))?;
        let sequences = self
            .sequences
            .map_or_else(String::new, |(low, high)| format!(", sequence numbers {low} to {high}"));
        let batches = counted(self.batches, "batch", "batches");
        let operations = counted(self.operations, "operation", "operations");
        output.line(format_args!("{batches}, {operations}{sequences}"))?;
        if self.padded_groups > 0 || self.unwritten_bytes > 0 {
            let groups = counted(self.padded_groups, "padded group", "padded groups");
            let Self { padding_bytes, unwritten_bytes, .. } = self;
            output.line(format_args!(
                "{groups}, {padding_bytes} bytes of padding, {unwritten_bytes} bytes never written"
            ))?;
        }
        let Some(End { at: LogEnd { offset, reason, .. }, batches_behind, .. }) = &self.end else {
            return output.line(format_args!("{mode} accepts the whole log"));
        };
        let behind = counted(*batches_behind, "batch", "batches");
        let what = match verdict {
            Verdict::StopReplay => "ends replay here, unless the next log continues without a gap",
            Verdict::End | Verdict::Continue => "ends the log here",
            _ => "does not open the database",
        };
        output.line(format_args!("{mode} {what}: at offset {offset}, {reason}; {behind} after it"))
    }

    fn verdict(&self) -> Verdict {
        self.end.as_ref().map_or(Verdict::End, |end| end.at.verdict)
    }
}

fn mode_name(mode: RecoveryMode) -> &'static str {
    match mode {
        RecoveryMode::TolerateCorruptedTailRecords => "kTolerateCorruptedTailRecords",
        RecoveryMode::AbsoluteConsistency => "kAbsoluteConsistency",
        RecoveryMode::PointInTime => "kPointInTimeRecovery",
        RecoveryMode::SkipAnyCorruptedRecords => "kSkipAnyCorruptedRecords",
    }
}

/// Returns the name by which JSON output denotes a verdict.
pub(super) fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Continue => "continue",
        Verdict::End => "end",
        Verdict::StopReplay => "stop_replay",
        _ => "fail",
    }
}
