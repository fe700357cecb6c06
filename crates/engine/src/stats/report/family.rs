//! The text of property `rocksdb.cfstats`: the levels of a column family, with their flushes and
//! compactions.

use std::fmt::Write as _;

use super::database::SHORTEST_S;
use super::human::{Bytes, Count, gigabytes, megabytes};
use crate::stall::StallCause;
use crate::stats::families::{FamilyDone, FamilyStatistics, StallCounts};
use crate::stats::levels::{Figures, LevelFigures, Work};

/// Names of the columns that follow those for the level, files, size and score.
const COLUMNS: &str = "Read(GB)  Rn(GB) Rnp1(GB) Write(GB) WPreComp(GB) Wnew(GB) Moved(GB) W-Amp \
                       Rd(MB/s) Wr(MB/s) Comp(sec) CompMergeCPU(sec) Comp(cnt) Avg(sec) KeyIn \
                       KeyDrop Rblob(GB) Wblob(GB)";

/// The current state of a column family, as far as the report shows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FamilyState {
    pub(crate) name: String,
    /// The state of each level.
    pub(crate) levels: Vec<LevelState>,
    pub(crate) blob_files: usize,
    pub(crate) blob_bytes: u64,
    pub(crate) blob_garbage_bytes: u64,
    pub(crate) pending_compaction_bytes: u64,
    /// The time since the database was opened, in seconds.
    pub(crate) seconds: f64,
}

/// The current state of a level.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LevelState {
    pub(crate) files: usize,
    /// Number of files in this level that running compactions are reading.
    pub(crate) files_being_compacted: usize,
    pub(crate) bytes: u64,
    /// The compaction score; a level with a score of at least 1 needs compaction.
    pub(crate) score: f64,
}

/// Returns the current totals of a column family. The caller keeps them, as the beginning of the
/// next interval.
pub(crate) fn family_done(state: &FamilyState, statistics: &FamilyStatistics) -> FamilyDone {
    let figures = statistics.levels.figures();
    FamilyDone {
        seconds: state.seconds,
        bytes_flushed: figures.bytes_flushed,
        ingested: figures.ingested,
        figures: sum(&figures),
        stalls: statistics.stalls.all_delays() + statistics.stalls.all_stops(),
    }
}

/// Returns the report on a column family: its current state, its totals since the database was
/// opened, and its totals since statistics were last written to the LOG.
pub(crate) fn family_text(state: &FamilyState, statistics: &FamilyStatistics) -> String {
    let figures = statistics.levels.figures();
    let earlier = statistics.done_at_last_dump();
    let total = family_done(state, statistics);
    let mut text = header(&state.name, "Level");
    append_levels(&mut text, state, &figures);
    let interval = total.figures.since(&earlier.figures);
    let came_in = total.bytes_come_in() - earlier.bytes_come_in();
    let amplification = ratio(interval.all_bytes_written(), came_in + 1);
    append_line(&mut text, "Int", LevelState::default(), amplification, &interval);
    text.push_str(&header(&state.name, "Priority"));
    for (name, work) in [("Low", Work::Compaction), ("High", Work::Flush), ("User", Work::User)] {
        let figures = &figures.works[work as usize];
        if figures.micros > 0 {
            append_line(&mut text, name, LevelState::default(), 0.0, figures);
        }
    }
    append_totals(&mut text, state, &total, &earlier);
    text.push_str(&stall_text(&statistics.stalls, Some(earlier.stalls)));
    text
}

/// Returns the line with the counts of stalls. `earlier` is the total count at an earlier time. If
/// `earlier` is given and there were any stalls, adds a line with the number of stalls since that
/// time.
pub(crate) fn stall_text(stalls: &StallCounts, earlier: Option<u64>) -> String {
    // Of the delays and stops caused by level 0, RocksDB separately counts those during a
    // compaction of level 0. They are not counted separately here, so the first two counts are
    // always 0.
    let mut text = format!(
        "Write Stall (count): cf-l0-file-count-limit-delays-with-ongoing-compaction: 0, \
         cf-l0-file-count-limit-stops-with-ongoing-compaction: 0, \
         l0-file-count-limit-delays: {}, l0-file-count-limit-stops: {}, \
         memtable-limit-delays: {}, memtable-limit-stops: {}, \
         pending-compaction-bytes-delays: {}, pending-compaction-bytes-stops: {}, \
         total-delays: {}, total-stops: {}\n",
        stalls.delays(StallCause::Level0),
        stalls.stops(StallCause::Level0),
        stalls.delays(StallCause::MemTables),
        stalls.stops(StallCause::MemTables),
        stalls.delays(StallCause::PendingCompaction),
        stalls.stops(StallCause::PendingCompaction),
        stalls.all_delays(),
        stalls.all_stops()
    );
    let total = stalls.all_delays() + stalls.all_stops();
    if let (Some(earlier), 1..) = (earlier, total) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "interval: {} total count", total - earlier);
    }
    text
}

fn header(family: &str, rows: &str) -> String {
    let columns = format!("{rows}    Files   Size     Score {COLUMNS}");
    // The line of dashes below the column names is as long as the line above, including its
    // newline.
    let rule = "-".repeat(columns.len() + 1);
    format!("\n** Compaction Stats [{family}] **\n{columns}\n{rule}\n")
}

fn append_levels(text: &mut String, state: &FamilyState, figures: &Figures) {
    let mut sum_state = LevelState::default();
    for (number, (level, done)) in state.levels.iter().zip(&figures.levels).enumerate() {
        sum_state.files += level.files;
        sum_state.files_being_compacted += level.files_being_compacted;
        if level.files == 0 && done.micros == 0 && done.cpu_micros == 0 {
            continue;
        }
        sum_state.bytes = sum_state.bytes.saturating_add(level.bytes);
        let cached = match number {
            0 => figures.bytes_come_in(),
            _ => done.bytes_read_above + done.bytes_read_blob,
        };
        let amplification = ratio(done.all_bytes_written(), cached);
        append_line(text, &format!("L{number}"), *level, amplification, done);
    }
    let sum = sum(figures);
    let amplification = ratio(sum.all_bytes_written(), figures.bytes_come_in());
    append_line(text, "Sum", sum_state, amplification, &sum);
}

fn append_line(
    text: &mut String,
    name: &str,
    state: LevelState,
    amplification: f64,
    done: &LevelFigures,
) {
    let seconds = done.micros as f64 / 1e6;
    // One microsecond is added to avoid a division by zero.
    let elapsed = (done.micros + 1) as f64 / 1e6;
    let gigabytes_new = gigabytes(done.bytes_written) - gigabytes(done.bytes_read_in_level);
    let average = if done.count == 0 { 0.0 } else { seconds / done.count as f64 };
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "{name:>4} {:6}/{:<3} {:>10} {:5.1} ",
        state.files,
        state.files_being_compacted,
        Bytes(state.bytes),
        state.score
    );
    let _ = write!(
        text,
        "{:8.1} {:7.1} {:8.1} {:9.1} {:9.1} {gigabytes_new:8.1} {:9.1} {amplification:5.1} ",
        gigabytes(done.bytes_read()),
        gigabytes(done.bytes_read_above),
        gigabytes(done.bytes_read_in_level),
        gigabytes(done.bytes_written),
        gigabytes(done.bytes_written_uncompressed),
        gigabytes(done.bytes_moved)
    );
    let _ = writeln!(
        text,
        "{:8.1} {:8.1} {seconds:9.2} {:17.2} {:9} {average:8.3} {:>7} {:>6} {:9.1} {:9.1}",
        megabytes(done.bytes_read()) / elapsed,
        megabytes(done.all_bytes_written()) / elapsed,
        done.cpu_micros as f64 / 1e6,
        done.count,
        Count(done.records_read),
        Count(done.records_dropped),
        gigabytes(done.bytes_read_blob),
        gigabytes(done.bytes_written_blob)
    );
}

fn append_totals(text: &mut String, state: &FamilyState, total: &FamilyDone, earlier: &FamilyDone) {
    let live = state.blob_bytes.saturating_sub(state.blob_garbage_bytes);
    let seconds = total.seconds - earlier.seconds;
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "\nBlob file count: {}, total size: {:.1} GB, garbage size: {:.1} GB, space amp: {:.1}\n\n\
         Uptime(secs): {:.1} total, {seconds:.1} interval\n\
         Flush(GB): cumulative {:.3}, interval {:.3}\n\
         AddFile(GB): cumulative {:.3}, interval {:.3}\n\
         AddFile(Total Files): cumulative {}, interval {}\n\
         AddFile(L0 Files): cumulative {}, interval {}\n\
         AddFile(Keys): cumulative {}, interval {}\n",
        state.blob_files,
        gigabytes(state.blob_bytes),
        gigabytes(state.blob_garbage_bytes),
        ratio(state.blob_bytes, live),
        total.seconds,
        gigabytes(total.bytes_flushed),
        gigabytes(total.bytes_flushed - earlier.bytes_flushed),
        gigabytes(total.ingested.bytes),
        gigabytes(total.ingested.bytes - earlier.ingested.bytes),
        total.ingested.files,
        total.ingested.files - earlier.ingested.files,
        total.ingested.level_0_files,
        total.ingested.level_0_files - earlier.ingested.level_0_files,
        total.ingested.keys,
        total.ingested.keys - earlier.ingested.keys
    );
    let interval = total.figures.since(&earlier.figures);
    for (which, done, seconds) in
        [("Cumulative", &total.figures, total.seconds), ("Interval", &interval, seconds)]
    {
        let (read, written) = (done.bytes_read(), done.all_bytes_written());
        let seconds = seconds.max(SHORTEST_S);
        let _ = writeln!(
            text,
            "{which} compaction: {:.2} GB write, {:.2} MB/s write, {:.2} GB read, {:.2} MB/s \
             read, {:.1} seconds",
            gigabytes(written),
            megabytes(written) / seconds,
            gigabytes(read),
            megabytes(read) / seconds,
            done.micros as f64 / 1e6
        );
    }
    let pending = state.pending_compaction_bytes;
    let _ = writeln!(text, "Estimated pending compaction bytes: {pending}");
}

fn sum(figures: &Figures) -> LevelFigures {
    let mut sum = LevelFigures::default();
    figures.levels.iter().for_each(|level| sum.add(level));
    sum
}

/// Returns `part` divided by `whole`; 0 if `whole` is 0.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
