//! What happened between two snapshots.

use super::disk::DiskStats;
use super::page_cache::PageCache;
use super::snapshot::{Scope, Snapshot};

/// Milliseconds of a device's time are counted in 32 bits.
const MILLISECONDS_WRAP: u64 = 1 << 32;

/// What the kernel did in an interval, per second of it. `None` is what this system does not tell,
/// or what has no value: the mean time of reads where there was none.
///
/// Page cache and reclaim are the group's where the target has one, and the machine's otherwise;
/// `page_cache_of` says which. What is made dirty and written is always the machine's, since no
/// group counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    /// How long the interval was, in seconds.
    pub seconds: f64,
    /// Whose page cache it is.
    pub page_cache_of: Option<Scope>,
    /// Whose stalls they are.
    pub stalls_of: Option<Scope>,
    /// Who fetched the missed pages.
    pub missed_of: Option<Scope>,
    /// Pages made dirty, of the machine.
    pub dirtied_pages_per_second: Option<f64>,
    /// Pages written back, of the machine.
    pub written_pages_per_second: Option<f64>,
    /// Pages of files read again soon after they had to go.
    pub refaulted_pages_per_second: Option<f64>,
    /// Those of them that had been in use.
    pub activated_pages_per_second: Option<f64>,
    /// What reads had to bring in: bytes fetched from devices, in pages, read-ahead included. They
    /// are those in `/proc/PID/io` of the process, else those in `io.stat` of the group, else the
    /// sectors that the device read. Direct reads are in there until
    /// [`Self::without_direct_reads`] takes them out: the kernel does not tell them apart.
    pub missed_pages_per_second: Option<f64>,
    /// Pages looked at by allocations that had to free memory themselves. `None` for a group in
    /// cgroup v1.
    pub direct_reclaim_pages_per_second: Option<f64>,
    /// How often the group came to its limit. `None` for a group in cgroup v1.
    pub limit_hits_per_second: Option<f64>,
    /// How many processes of the group were killed for want of memory, in the whole interval.
    pub out_of_memory_kills: Option<f64>,
    /// The mean of pages of files in memory.
    pub cached_pages: Option<f64>,
    /// The mean of pages that waited to be written or were being written.
    pub dirty_pages: Option<f64>,
    /// The mean of pages on the list of what was used repeatedly.
    pub active_file_pages: Option<f64>,
    /// The mean of pages on the list of what goes first.
    pub inactive_file_pages: Option<f64>,
    /// For how long some task waited for memory, in microseconds.
    pub memory_stall_us_per_second: Option<f64>,
    /// For how long all tasks did.
    pub memory_full_stall_us_per_second: Option<f64>,
    /// For how long some task waited for a device.
    pub io_stall_us_per_second: Option<f64>,
    /// The mean time of a read at the device, queueing included, in milliseconds.
    pub r_await_ms: Option<f64>,
    /// The mean time of a write. A flush counts as a write, too.
    pub w_await_ms: Option<f64>,
    /// The mean time of a flush.
    pub flush_await_ms: Option<f64>,
    /// How many requests were under way at the device, on average.
    pub queue_depth: Option<f64>,
    /// The share of the time in which at least one was: 0 to 1.
    pub utilisation: Option<f64>,
    /// Reads at the device.
    pub device_reads_per_second: Option<f64>,
    /// Writes at the device.
    pub device_writes_per_second: Option<f64>,
    /// Flushes of the device.
    pub device_flushes_per_second: Option<f64>,
    /// Bytes read from the device.
    pub device_read_bytes_per_second: Option<f64>,
    /// Bytes written to the device.
    pub device_write_bytes_per_second: Option<f64>,
    /// For how long threads of the process could have run and waited for a processor, all together,
    /// in microseconds.
    pub run_delay_us_per_second: Option<f64>,
    /// For how long they ran, all together.
    pub running_us_per_second: Option<f64>,
}

impl Snapshot {
    /// What happened since an earlier snapshot of the same target. Levels are the mean of the two.
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

/// Figures, each with its name in reports.
pub type Named = Vec<(&'static str, Option<f64>)>;

impl Figures {
    /// Takes direct reads out of the missed pages: `bytes` is what the process read past the page
    /// cache in the interval, as it counts itself.
    #[must_use]
    pub fn without_direct_reads(mut self, bytes: u64) -> Self {
        let direct = bytes as f64 / page_bytes() / self.seconds;
        // What the process counts and what the kernel counts differ by what is under way.
        self.missed_pages_per_second =
            self.missed_pages_per_second.map(|missed| (missed - direct).max(0.0));
        self
    }

    /// All figures, in the order of reports.
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
        // A device that went and came back counts from zero.
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

/// Means of what goes up and down.
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

/// Two values of the same scope.
fn same<T>(later: Option<(Scope, T)>, earlier: Option<(Scope, T)>) -> Option<(Scope, T, T)> {
    let ((scope, now), (before, then)) = (later?, earlier?);
    (scope == before).then_some((scope, now, then))
}

/// The milliseconds that came to a counter of 32 bits, which may have started anew once.
fn milliseconds(now: u64, then: u64) -> Option<u64> {
    now.checked_sub(then).or_else(|| (now + MILLISECONDS_WRAP).checked_sub(then))
}

fn mean_ms(now: u64, then: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| Some(milliseconds(now, then)? as f64 / count as f64))?
}

fn page_bytes() -> f64 {
    rustix::param::page_size() as f64
}
