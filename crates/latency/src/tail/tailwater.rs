//! Tailwater as one of the engines that are measured.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tailwater::{
    ColumnFamily, CompactRangeOptions, Db, OpenOptions, ReadOptions, SlowReadCause, SlowReadTotals,
    Statistics, ValueBuffer, WriteOptions,
};
use tailwater_io::Purpose;

use super::engine::{Activity, Moved, TailDatabase, TailEngine};
use super::slow_reads::SlowReads;
use crate::engine::Engine;
use crate::failure::Failure;

thread_local! {
    /// A multi-get copies its values into this buffer.
    static VALUES: RefCell<ValueBuffer> = const { RefCell::new(ValueBuffer::new()) };
}

/// Tailwater, opened with statistics, from which the engine's activity is read.
pub const TAILWATER: TailEngine = Engine {
    name: "tailwater",
    open: |directory, options| {
        Ok(Box::new(Tailwater::open(directory, options, Some(Statistics::new()))?))
    },
};

/// An open Tailwater database.
#[derive(Debug)]
pub struct Tailwater {
    /// The database.
    pub db: Db,
    /// The default column family.
    pub family: ColumnFamily,
    /// The statistics with which the database was opened.
    pub statistics: Option<Arc<Statistics>>,
    /// The options of reads.
    pub reads: ReadOptions,
    /// The options of writes.
    pub writes: WriteOptions,
}

impl Tailwater {
    /// Opens the database in a directory. `options` is an option string in RocksDB's format.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn open(
        directory: &Path,
        options: &str,
        statistics: Option<Statistics>,
    ) -> Result<Self, Failure> {
        let mut open = OpenOptions::default();
        open.set_from_string(options)?;
        let statistics = statistics.map(Arc::new);
        if let Some(statistics) = &statistics {
            open.set_statistics(Arc::clone(statistics));
        }
        let db = Db::open(directory, &open)?;
        let family = db.cf_handle("default")?;
        let (reads, writes) = (ReadOptions::default(), WriteOptions::default());
        Ok(Self { db, family, statistics, reads, writes })
    }
}

impl TailDatabase for Tailwater {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Failure> {
        Ok(self.db.get_into_cf_opt(&self.family, key, &self.reads, value)?)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<usize, Failure> {
        VALUES.with_borrow_mut(|values| {
            self.db.multi_get_into_cf_opt(&self.family, keys, &self.reads, values);
            let mut found = 0;
            for at in 0..values.len() {
                found += usize::from(std::hint::black_box(values.get(at)?).is_some());
            }
            Ok(found)
        })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.db.put_cf_opt(&self.family, key, value, &self.writes)?)
    }

    fn compact(&self) -> Result<(), Failure> {
        Ok(self.db.compact_range_cf_opt(
            &self.family,
            None,
            None,
            &CompactRangeOptions::default(),
        )?)
    }

    fn scan(&self, is_over: &dyn Fn() -> bool) -> Result<(), Failure> {
        let mut iterator = self.db.raw_iterator_cf_opt(&self.family, &self.reads)?;
        iterator.seek_to_first()?;
        while !is_over()
            && let Some(entry) = iterator.item()
        {
            std::hint::black_box(entry);
            iterator.next()?;
        }
        Ok(())
    }

    fn attribute_slow_reads(&self, threshold_us: u64) -> Result<(), Failure> {
        let threshold_us = threshold_us.to_string();
        Ok(self.db.set_database_options(&[("slow_read_threshold_us", &threshold_us)])?)
    }

    fn activity(&self) -> Result<Activity, Failure> {
        let io = self.db.storage().statistics();
        let moved = |purpose: Purpose| {
            let figures = io.snapshot(purpose);
            let (read_bytes, written_bytes) = (figures.read_bytes, figures.written_bytes);
            let moved =
                Moved { read_bytes: read_bytes as f64, written_bytes: written_bytes as f64 };
            (purpose.name().to_owned(), moved)
        };
        let purposes: BTreeMap<_, _> = Purpose::ALL.into_iter().map(moved).collect();
        let statistics = self.statistics.as_ref();
        let ticker = |name| statistics.and_then(|it| it.ticker(name)).unwrap_or(0);
        let number = |name| -> Result<u64, Failure> {
            Ok(self.db.property_int_value_cf(&self.family, name)?.unwrap_or(0))
        };
        Ok(Activity {
            purposes,
            stalled: Duration::from_micros(ticker("rocksdb.stall.micros")),
            pending_compaction_bytes: number("rocksdb.estimate-pending-compaction-bytes")?,
            running_compactions: number("rocksdb.num-running-compactions")?,
            running_flushes: number("rocksdb.num-running-flushes")?,
            block_cache_bytes: number("rocksdb.block-cache-capacity")?,
            held_back: Some(io.foreground().held_back()),
            user_reads: Some(io.snapshot(Purpose::UserRead).reads),
            block_cache_hits: ticker("rocksdb.block.cache.data.hit"),
            block_cache_misses: ticker("rocksdb.block.cache.data.miss"),
            slow_reads: slow_reads(&self.db.slow_reads()),
        })
    }

    fn fallen_back(&self) -> Result<Option<String>, Failure> {
        let modes =
            self.db.property_value_cf(&self.family, "tailwater.io-modes")?.unwrap_or_default();
        let lines: Vec<&str> = modes.lines().filter(|line| is_fallen_back(line)).collect();
        Ok((!lines.is_empty()).then(|| lines.join("; ")))
    }
}

fn slow_reads(totals: &SlowReadTotals) -> Option<SlowReads> {
    let cause_us = |cause: SlowReadCause| (cause.name(), totals.cause(cause).sum);
    (totals.threshold_us > 0).then(|| SlowReads {
        count: totals.durations.count,
        time_us: totals.durations.sum,
        causes_us: SlowReadCause::ALL.map(cause_us).into(),
        blocks: totals.blocks,
        blocks_of_new_tables: Some(totals.blocks_of_new_tables),
        blocks_read_by_others: Some(totals.blocks_read_by_others),
        minor_faults: Some(totals.minor_faults),
        major_faults: Some(totals.major_faults),
    })
}

/// Returns whether a line of the property `tailwater.io-modes` reports an effective mode that is
/// not the requested one. If `auto` was requested, any mode other than direct counts as a fallback.
fn is_fallen_back(line: &str) -> bool {
    let Some((requested, effective)) = line.split_once(", effective ") else { return false };
    let requested = requested.split_once(": asked ").and_then(|(_, mode)| mode.split(' ').next());
    match requested {
        Some("auto") => effective != "direct",
        requested => requested != Some(effective),
    }
}

#[cfg(test)]
mod tests {
    use super::is_fallen_back;

    #[test]
    fn only_fallbacks_are_reported() {
        for (line, expected) in [
            ("user_read: asked buffered by default, effective buffered", false),
            ("compaction_read: asked direct by use_direct_reads, effective direct", false),
            ("compaction_read: asked auto by compaction_read_io_mode, effective direct", false),
            ("compaction_read: asked auto by compaction_read_io_mode, effective buffered", true),
            ("flush_write: asked uncached by flush_write_io_mode, effective buffered", true),
            ("user_read: asked direct by use_direct_reads, effective direct, buffered in /b", true),
        ] {
            assert_eq!(is_fallen_back(line), expected, "{line}");
        }
    }
}
