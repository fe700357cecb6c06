//! Figures for reports, computed from the difference between two snapshots of the kernel's
//! counters.

use super::disk::DiskStats;
use super::page_cache::PageCache;
use super::snapshot::{Scope, Snapshot};

/// Modulus of a device's time counters, in milliseconds: they have 32 bits.
const MILLISECONDS_WRAP: u64 = 1 << 32;

/// The kernel's activity in an interval, mostly as rates per second. A figure is `None` if the
/// system does not report it, or if it is not defined: without reads, for example, there is no mean
/// time of a read.
///
/// If the target of the snapshots includes a memory cgroup, the figures of the page cache and of
/// reclaim are those of the group, otherwise those of the machine; see `page_cache_of`. The numbers
/// of dirtied and written pages are always those of the machine, because the kernel does not count
/// them for groups.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    /// Length of the interval between the two snapshots, in seconds.
    pub seconds: f64,
    /// Whether the figures of the page cache and of reclaim are those of the cgroup or the machine.
    pub page_cache_of: Option<Scope>,
    /// Whether the stall figures are those of the cgroup or the machine.
    pub stalls_of: Option<Scope>,
    /// Whether `missed_pages_per_second` is that of the process, the cgroup or the machine.
    pub missed_of: Option<Scope>,
    /// Number of pages of the whole machine that were dirtied, per second.
    pub dirtied_pages_per_second: Option<f64>,
    /// Number of pages of the whole machine that were written back, per second.
    pub written_pages_per_second: Option<f64>,
    /// Number of refaults per second: file pages that were read again soon after their eviction.
    pub refaulted_pages_per_second: Option<f64>,
    /// Number of pages per second that were refaulted and had been in use before their eviction.
    pub activated_pages_per_second: Option<f64>,
    /// Number of pages per second that were read from devices, read-ahead included. The source is
    /// `/proc/PID/io` of the process, or else `io.stat` of the cgroup, or else the number of
    /// sectors read from the device. The kernel does not distinguish direct reads, so they are
    /// included until [`Self::without_direct_reads`] subtracts them.
    pub missed_pages_per_second: Option<f64>,
    /// Number of pages per second that allocating threads scanned because they had to reclaim
    /// memory themselves. `None` for a group in cgroup v1.
    pub direct_reclaim_pages_per_second: Option<f64>,
    /// Number of times per second that the cgroup reached its memory limit. `None` for a group in
    /// cgroup v1.
    pub limit_hits_per_second: Option<f64>,
    /// Number of processes of the cgroup that were killed because memory ran out. This is the
    /// number in the interval, not a rate.
    pub out_of_memory_kills: Option<f64>,
    /// Mean number of file pages in memory, over the snapshots of the interval.
    pub cached_pages: Option<f64>,
    /// Mean number of pages that were dirty or under writeback.
    pub dirty_pages: Option<f64>,
    /// Mean length of the active list, in pages. It contains file pages that were used repeatedly.
    pub active_file_pages: Option<f64>,
    /// Mean length of the inactive list, in pages. It contains the file pages that are evicted
    /// first.
    pub inactive_file_pages: Option<f64>,
    /// Time per second during which at least one task was stalled on memory, in microseconds.
    pub memory_stall_us_per_second: Option<f64>,
    /// Time per second during which all tasks were stalled on memory, in microseconds.
    pub memory_full_stall_us_per_second: Option<f64>,
    /// Time per second during which at least one task was stalled on a device, in microseconds.
    pub io_stall_us_per_second: Option<f64>,
    /// Mean time of a read at the device, queueing included, in milliseconds.
    pub r_await_ms: Option<f64>,
    /// Mean time of a write at the device, queueing included, in milliseconds. A flush also counts
    /// as a write.
    pub w_await_ms: Option<f64>,
    /// Mean time of a flush of the device, in milliseconds.
    pub flush_await_ms: Option<f64>,
    /// Mean number of requests in flight at the device.
    pub queue_depth: Option<f64>,
    /// Fraction of the interval during which at least one request was in flight at the device: 0 to
    /// 1.
    pub utilisation: Option<f64>,
    /// Number of reads that the device completed per second.
    pub device_reads_per_second: Option<f64>,
    /// Number of writes that the device completed per second.
    pub device_writes_per_second: Option<f64>,
    /// Number of flushes that the device completed per second.
    pub device_flushes_per_second: Option<f64>,
    /// Number of bytes per second that were read from the device.
    pub device_read_bytes_per_second: Option<f64>,
    /// Number of bytes per second that were written to the device.
    pub device_write_bytes_per_second: Option<f64>,
    /// Time per second that runnable threads of the process waited for a processor, in
    /// microseconds. It is summed over all threads.
    pub run_delay_us_per_second: Option<f64>,
    /// Time per second that threads of the process ran, in microseconds. It is summed over all
    /// threads.
    pub running_us_per_second: Option<f64>,
}

impl Snapshot {
    /// Returns the activity since `earlier`, a snapshot of the same target. A level, such as the
    /// number of dirty pages, is the mean of its values in the two snapshots.
    pub fn since(&self, earlier: &Self) -> Figures {
        let seconds = self.at_ns.saturating_sub(earlier.at_ns) as f64 / 1e9;
        let mut figures = Figures { seconds, ..Figures::default() };
        if seconds > 0.0 {
            figures.add_page_cache(self, earlier);
            figures.add_stalls(self, earlier);
            figures.add_disk(self.disk, earlier.disk);
            figures.add_process(self, earlier);
        }
        figures
    }
}

/// Values of figures, each with its name in reports.
pub type Named = Vec<(&'static str, Option<f64>)>;

impl Figures {
    /// Subtracts the pages that the process read with direct I/O from `missed_pages_per_second`.
    /// `bytes` is the number of bytes of these direct reads in the interval, as the process itself
    /// counted them.
    #[must_use]
    pub fn without_direct_reads(mut self, bytes: u64) -> Self {
        let direct = bytes as f64 / page_bytes() / self.seconds;
        // If a read is in flight when a snapshot is taken, only the process or only the kernel may
        // have counted it. So the number of direct reads may exceed the missed pages slightly.
        self.missed_pages_per_second =
            self.missed_pages_per_second.map(|missed| (missed - direct).max(0.0));
        self
    }

    /// Returns the names and values of all figures, in the order in which reports list them.
    pub fn named(&self) -> Named {
        vec![
            ("dirtied_pages_per_second", self.dirtied_pages_per_second),
            ("written_pages_per_second", self.written_pages_per_second),
            ("refaulted_pages_per_second", self.refaulted_pages_per_second),
            ("activated_pages_per_second", self.activated_pages_per_second),
            ("missed_pages_per_second", self.missed_pages_per_second),
            ("direct_reclaim_pages_per_second", self.direct_reclaim_pages_per_second),
            ("limit_hits_per_second", self.limit_hits_per_second),
            ("out_of_memory_kills", self.out_of_memory_kills),
            ("cached_pages", self.cached_pages),
            ("dirty_pages", self.dirty_pages),
            ("active_file_pages", self.active_file_pages),
            ("inactive_file_pages", self.inactive_file_pages),
            ("memory_stall_us_per_second", self.memory_stall_us_per_second),
            ("memory_full_stall_us_per_second", self.memory_full_stall_us_per_second),
            ("io_stall_us_per_second", self.io_stall_us_per_second),
            ("r_await_ms", self.r_await_ms),
            ("w_await_ms", self.w_await_ms),
            ("flush_await_ms", self.flush_await_ms),
            ("queue_depth", self.queue_depth),
            ("utilisation", self.utilisation),
            ("device_reads_per_second", self.device_reads_per_second),
            ("device_writes_per_second", self.device_writes_per_second),
            ("device_flushes_per_second", self.device_flushes_per_second),
            ("device_read_bytes_per_second", self.device_read_bytes_per_second),
            ("device_write_bytes_per_second", self.device_write_bytes_per_second),
            ("run_delay_us_per_second", self.run_delay_us_per_second),
            ("running_us_per_second", self.running_us_per_second),
        ]
    }

    fn rate(&self, later: Option<u64>, earlier: Option<u64>) -> Option<f64> {
        Some(later?.checked_sub(earlier?)? as f64 / self.seconds)
    }

    fn add_page_cache(&mut self, later: &Snapshot, earlier: &Snapshot) {
        if let (Some(now), Some(then)) = (later.machine, earlier.machine) {
            self.dirtied_pages_per_second = self.rate(now.dirtied, then.dirtied);
            self.written_pages_per_second = self.rate(now.written, then.written);
        }
        let (Some((scope, now)), Some((before, then))) = (later.page_cache(), earlier.page_cache())
        else {
            return;
        };
        if scope != before {
            return;
        }
        self.page_cache_of = Some(scope);
        self.refaulted_pages_per_second = self.rate(now.refaulted, then.refaulted);
        self.activated_pages_per_second = self.rate(now.activated, then.activated);
        self.direct_reclaim_pages_per_second =
            self.rate(now.scanned_directly, then.scanned_directly);
        self.limit_hits_per_second = self.rate(later.limit_hits, earlier.limit_hits);
        let kills = later.kills.zip(earlier.kills);
        self.out_of_memory_kills =
            kills.and_then(|(now, then)| Some(now.checked_sub(then)? as f64));
        let mut levels = Levels::default();
        levels.add(then);
        levels.add(now);
        self.set_levels(&levels);
    }

    fn add_stalls(&mut self, later: &Snapshot, earlier: &Snapshot) {
        if let Some((scope, now, then)) = same(later.memory_pressure, earlier.memory_pressure) {
            self.stalls_of = Some(scope);
            self.memory_stall_us_per_second = self.rate(now.some_us, then.some_us);
            self.memory_full_stall_us_per_second = self.rate(now.full_us, then.full_us);
        }
        if let Some((scope, now, then)) = same(later.io_pressure, earlier.io_pressure) {
            self.stalls_of = self.stalls_of.or(Some(scope));
            self.io_stall_us_per_second = self.rate(now.some_us, then.some_us);
        }
    }

    fn add_disk(&mut self, later: Option<DiskStats>, earlier: Option<DiskStats>) {
        let (Some(now), Some(then)) = (later, earlier) else { return };
        let came = |now: u64, then: u64| now.checked_sub(then);
        // If the device was removed and added again, its counters began at zero, so there are no
        // figures.
        let (Some(reads), Some(writes)) =
            (came(now.reads, then.reads), came(now.writes, then.writes))
        else {
            return;
        };
        self.r_await_ms = mean_ms(now.read_ms, then.read_ms, reads);
        self.w_await_ms = mean_ms(now.write_ms, then.write_ms, writes);
        if let (Some(flushes), Some(ms), Some(flushes_then), Some(ms_then)) =
            (now.flushes, now.flush_ms, then.flushes, then.flush_ms)
        {
            let flushes = flushes.saturating_sub(flushes_then);
            self.flush_await_ms = mean_ms(ms, ms_then, flushes);
            self.device_flushes_per_second = Some(flushes as f64 / self.seconds);
        }
        let share = |now, then| Some(milliseconds(now, then)? as f64 / (self.seconds * 1000.0));
        self.queue_depth = share(now.weighted_ms, then.weighted_ms);
        self.utilisation = share(now.busy_ms, then.busy_ms).map(|share| share.min(1.0));
        self.device_reads_per_second = Some(reads as f64 / self.seconds);
        self.device_writes_per_second = Some(writes as f64 / self.seconds);
        let bytes = |sectors: Option<f64>| sectors.map(|sectors| sectors * 512.0);
        self.device_read_bytes_per_second =
            bytes(self.rate(Some(now.sectors_read), Some(then.sectors_read)));
        self.device_write_bytes_per_second =
            bytes(self.rate(Some(now.sectors_written), Some(then.sectors_written)));
    }

    fn add_process(&mut self, later: &Snapshot, earlier: &Snapshot) {
        if let Some((scope, now, then)) = same(later.fetched, earlier.fetched) {
            self.missed_of = Some(scope);
            self.missed_pages_per_second =
                self.rate(Some(now), Some(then)).map(|bytes| bytes / page_bytes());
        }
        let (Some(now), Some(then)) = (&later.threads, &earlier.threads) else { return };
        let (mut running_ns, mut waiting_ns) = (0, 0);
        for (thread, run_queue) in now {
            let before = then.get(thread).copied().unwrap_or_default();
            let came = run_queue.since(before);
            running_ns += came.running_ns;
            waiting_ns += came.waiting_ns;
        }
        self.running_us_per_second = Some(running_ns as f64 / 1000.0 / self.seconds);
        self.run_delay_us_per_second = Some(waiting_ns as f64 / 1000.0 / self.seconds);
    }

    pub(super) fn set_levels(&mut self, levels: &Levels) {
        self.cached_pages = levels.cached.value();
        self.dirty_pages = levels.dirty.value();
        self.active_file_pages = levels.active_file.value();
        self.inactive_file_pages = levels.inactive_file.value();
    }
}

/// Averages over all added snapshots: the numbers of cached and dirty pages, and the lengths of the
/// page cache's lists.
#[derive(Debug, Default)]
pub(super) struct Levels {
    cached: Mean,
    dirty: Mean,
    active_file: Mean,
    inactive_file: Mean,
}

impl Levels {
    pub(super) fn add(&mut self, page_cache: &PageCache) {
        self.cached.add(page_cache.cached);
        self.dirty.add(page_cache.dirty);
        self.active_file.add(page_cache.active_file);
        self.inactive_file.add(page_cache.inactive_file);
    }
}

#[derive(Debug, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, level: Option<u64>) {
        if let Some(level) = level {
            self.sum += level as f64;
            self.count += 1;
        }
    }

    fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// Returns the scope and the two values, later and earlier, if both have the same scope.
fn same<T>(later: Option<(Scope, T)>, earlier: Option<(Scope, T)>) -> Option<(Scope, T, T)> {
    let ((scope, now), (before, then)) = (later?, earlier?);
    (scope == before).then_some((scope, now, then))
}

/// Returns the increase of a 32-bit counter of milliseconds. The counter may have wrapped once.
fn milliseconds(now: u64, then: u64) -> Option<u64> {
    now.checked_sub(then).or_else(|| (now + MILLISECONDS_WRAP).checked_sub(then))
}

fn mean_ms(now: u64, then: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| Some(milliseconds(now, then)? as f64 / count as f64))?
}

fn page_bytes() -> f64 {
    rustix::param::page_size() as f64
}
