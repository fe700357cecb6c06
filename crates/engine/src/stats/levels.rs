//! Statistics of the flushes and compactions of a column family, by level.

use std::sync::MutexGuard;

use tailwater_io::sync::Mutex;

use super::{Histogram, Statistics, Ticker};

/// Totals of the flushes and compactions that wrote to one level. The fields are those of RocksDB's
/// `InternalStats::CompactionStats` that its reports show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LevelFigures {
    /// Total duration of the flushes and compactions, in microseconds.
    pub(crate) micros: u64,
    /// CPU time that the merging of records took, in microseconds.
    pub(crate) cpu_micros: u64,
    /// Number of flushes and compactions.
    pub(crate) count: u64,
    /// Bytes of tables that were read from the levels above the output level.
    pub(crate) bytes_read_above: u64,
    /// Bytes of tables that were read from the output level itself.
    pub(crate) bytes_read_in_level: u64,
    /// Bytes of tables written.
    pub(crate) bytes_written: u64,
    /// Bytes of tables written, before compression.
    pub(crate) bytes_written_uncompressed: u64,
    /// Bytes of tables that were moved to this level without rewriting them.
    pub(crate) bytes_moved: u64,
    pub(crate) bytes_read_blob: u64,
    pub(crate) bytes_written_blob: u64,
    /// Number of tables that were read, from all levels.
    pub(crate) files_read: u64,
    /// Number of tables written.
    pub(crate) files_written: u64,
    /// Number of records that the flushes and compactions read.
    pub(crate) records_read: u64,
    /// Number of records that were read but not written to the output.
    pub(crate) records_dropped: u64,
}

impl LevelFigures {
    /// Adds the totals in `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        self.combine(other, u64::saturating_add);
    }

    /// Returns the difference between these totals and earlier ones.
    pub(crate) fn since(mut self, earlier: &Self) -> Self {
        self.combine(earlier, u64::saturating_sub);
        self
    }

    fn combine(&mut self, other: &Self, by: impl Fn(u64, u64) -> u64) {
        let pairs = [
            (&mut self.micros, other.micros),
            (&mut self.cpu_micros, other.cpu_micros),
            (&mut self.count, other.count),
            (&mut self.bytes_read_above, other.bytes_read_above),
            (&mut self.bytes_read_in_level, other.bytes_read_in_level),
            (&mut self.bytes_written, other.bytes_written),
            (&mut self.bytes_written_uncompressed, other.bytes_written_uncompressed),
            (&mut self.bytes_moved, other.bytes_moved),
            (&mut self.bytes_read_blob, other.bytes_read_blob),
            (&mut self.bytes_written_blob, other.bytes_written_blob),
            (&mut self.files_read, other.files_read),
            (&mut self.files_written, other.files_written),
            (&mut self.records_read, other.records_read),
            (&mut self.records_dropped, other.records_dropped),
        ];
        for (own, other) in pairs {
            *own = by(*own, other);
        }
    }

    /// Returns the number of bytes read from tables and blob files.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read_above + self.bytes_read_in_level + self.bytes_read_blob
    }

    /// Returns the number of bytes written to tables and blob files.
    pub(crate) fn all_bytes_written(&self) -> u64 {
        self.bytes_written + self.bytes_written_blob
    }
}

/// The kind of work. RocksDB does each kind in a thread pool of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Compactions, which RocksDB runs at low priority.
    Compaction,
    /// Flushes, which RocksDB runs at high priority.
    Flush,
    /// Work on a user's thread: ingestion, and the flush of recovered logs when a database is
    /// opened.
    User,
}

/// Totals of the flushes, compactions and ingestion of a column family. Any thread may add to them.
#[derive(Debug)]
pub(crate) struct LevelStatistics {
    inner: Mutex<Figures>,
}

/// A copy of the totals at a point in time.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    /// For each output level, the summed figures of the flushes and compactions that wrote to it.
    pub(crate) levels: Vec<LevelFigures>,
    /// For each kind of [`Work`], the totals of all flushes and compactions of this kind, over all
    /// levels.
    pub(crate) works: [LevelFigures; 3],
    /// Number of bytes that flushes wrote.
    pub(crate) bytes_flushed: u64,
    /// Total numbers of bytes, files and keys that were ingested.
    pub(crate) ingested: IngestedFigures,
}

impl Figures {
    /// Returns the number of bytes that flushes and ingestion have added to the column family.
    pub(crate) fn bytes_come_in(&self) -> u64 {
        self.bytes_flushed + self.ingested.bytes
    }
}

/// Total numbers of bytes, files and keys that were ingested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct IngestedFigures {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    /// Number of files that were ingested into level 0.
    pub(crate) level_0_files: u64,
    pub(crate) keys: u64,
}

/// The figures of the ingestion of one file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ingestion {
    /// Duration of the whole ingestion call, in microseconds.
    pub(crate) micros: u64,
    pub(crate) bytes: u64,
    pub(crate) keys: u64,
    /// Whether the file was copied. Otherwise it was linked.
    pub(crate) is_copy: bool,
}

impl LevelStatistics {
    /// Creates the totals of a column family that has `levels` levels.
    pub(crate) fn new(levels: usize) -> Self {
        let levels = vec![LevelFigures::default(); levels];
        let works = [LevelFigures::default(); 3];
        Self {
            inner: Mutex::new(Figures {
                levels,
                works,
                bytes_flushed: 0,
                ingested: IngestedFigures::default(),
            }),
        }
    }

    /// Records a flush, which writes to level 0.
    pub(crate) fn record_flush(
        &self,
        work: Work,
        figures: &LevelFigures,
        statistics: Option<&Statistics>,
    ) {
        let bytes = figures.all_bytes_written();
        self.record(0, work, figures);
        self.lock().bytes_flushed += bytes;
        if let Some(statistics) = statistics {
            let recorder = statistics.recorder();
            recorder.add(Ticker::FlushWriteBytes, bytes);
            recorder.record(Histogram::FlushTime, figures.micros);
        }
    }

    /// Records a compaction that wrote to `output_level`.
    pub(crate) fn record_compaction(
        &self,
        output_level: usize,
        figures: &LevelFigures,
        statistics: Option<&Statistics>,
    ) {
        self.record(output_level, Work::Compaction, figures);
        if let Some(statistics) = statistics {
            let recorder = statistics.recorder();
            recorder.add(Ticker::CompactReadBytes, figures.bytes_read());
            recorder.add(Ticker::CompactWriteBytes, figures.all_bytes_written());
            recorder.record(Histogram::CompactionTime, figures.micros);
            recorder.record(Histogram::FilesInCompaction, figures.files_read);
        }
    }

    /// Records that a compaction moved tables with `bytes` bytes into a level, without rewriting
    /// them.
    pub(crate) fn record_move(&self, output_level: usize, bytes: u64) {
        if let Some(level) = self.lock().levels.get_mut(output_level) {
            level.bytes_moved += bytes;
        }
    }

    /// Records a file that was ingested into a level.
    pub(crate) fn record_ingestion(&self, level: usize, done: &Ingestion) {
        let bytes = |counts: bool| if counts { done.bytes } else { 0 };
        let figures = LevelFigures {
            micros: done.micros,
            count: 1,
            bytes_written: bytes(done.is_copy),
            bytes_moved: bytes(!done.is_copy),
            files_written: 1,
            ..LevelFigures::default()
        };
        self.record(level, Work::User, &figures);
        let ingested = &mut self.lock().ingested;
        ingested.bytes += done.bytes;
        ingested.files += 1;
        ingested.level_0_files += u64::from(level == 0);
        ingested.keys += done.keys;
    }

    /// Returns a copy of the totals of flushes, compactions and ingestion.
    pub(crate) fn figures(&self) -> Figures {
        self.lock().clone()
    }

    fn record(&self, level: usize, work: Work, done: &LevelFigures) {
        let mut figures = self.lock();
        if let Some(level) = figures.levels.get_mut(level) {
            level.add(done);
        }
        figures.works[work as usize].add(done);
    }

    fn lock(&self) -> MutexGuard<'_, Figures> {
        self.inner.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compaction_counts_for_the_level_it_writes() {
        let statistics = Statistics::new();
        let levels = LevelStatistics::new(3);
        let done = LevelFigures {
            micros: 100,
            count: 1,
            bytes_read_above: 10,
            bytes_read_in_level: 20,
            bytes_written: 25,
            bytes_written_blob: 1,
            files_read: 4,
            records_read: 9,
            records_dropped: 2,
            ..LevelFigures::default()
        };
        levels.record_compaction(2, &done, Some(&statistics));
        levels.record_compaction(2, &done, Some(&statistics));
        levels.record_move(1, 7);
        let figures = levels.figures();
        assert_eq!(figures.levels[0], LevelFigures::default());
        assert_eq!(figures.levels[1].bytes_moved, 7);
        let twice = figures.levels[2];
        assert_eq!((twice.micros, twice.count, twice.bytes_read()), (200, 2, 60));
        assert_eq!((twice.all_bytes_written(), twice.records_dropped), (52, 4));
        assert_eq!(figures.works[Work::Compaction as usize], twice);
        assert_eq!(twice.since(&done), done);
        assert_eq!(statistics.ticker("rocksdb.compact.read.bytes"), Some(60));
        assert_eq!(statistics.ticker("rocksdb.compact.write.bytes"), Some(52));
        let files = statistics.histogram("rocksdb.numfiles.in.singlecompaction").expect("one");
        assert_eq!((files.count, files.sum, files.max), (2, 8, 4));
        let time = statistics.histogram("rocksdb.compaction.times.micros").expect("one");
        assert_eq!((time.count, time.sum), (2, 200));
    }
}
