//! Measures a device directly, without an engine: by direct reads and synced writes for a few
//! seconds.
//!
//! All measurements use one scratch file. Its name is removed before anything is written, so its
//! space is freed even if the process crashes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::scratch;
use crate::buffer::AlignedBuffer;
use crate::clock::monotonic_ns;
use crate::storage::{ReadFile, Storage, WriteFile};
use crate::{Error, IoMode, Operation, Purpose, Result};

/// Length of a random read or a durable write, in bytes.
const BLOCK_BYTES: usize = 4096;
/// Length of a sequential read, in bytes.
const CHUNK_BYTES: usize = 1 << 20;
/// Duration of a durable write, in nanoseconds, above which it counts in
/// [`SyncLatency::over_3_ms`]. A delay of this length usually has another cause than the device.
const SLOW_SYNC_NS: u64 = 3_000_000;
/// Number of concurrent threads in the second measurement of sequential reads.
const STREAMS: u64 = 4;

/// The parameters of the measurements: the size of the scratch file, and the duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceProbe {
    /// Length of the scratch file in bytes. It is rounded up to whole MiB.
    pub bytes: u64,
    /// Duration of each measurement. There is one measurement for each field of [`DeviceFigures`].
    pub duration: Duration,
}

/// Latencies of reads.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReadLatency {
    /// Median duration of a read, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the durations of reads, in microseconds.
    pub p99_us: f64,
}

/// Latencies of durable writes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SyncLatency {
    /// Median duration of a durable write, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the durations of durable writes, in microseconds.
    pub p99_us: f64,
    /// Fraction of writes that took more than 3 ms: 0 to 1.
    pub over_3_ms: f64,
}

/// The results of the device probe, with one field for each of the four measurements.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DeviceFigures {
    /// Latency of direct reads of 4 KiB at random offsets, made one at a time.
    pub random_read: ReadLatency,
    /// Throughput of sequential direct reads of 1 MiB, made one at a time, in bytes per second.
    pub sequential_read_bytes_per_second: f64,
    /// Total throughput of sequential direct reads of 1 MiB by four threads, in bytes per second.
    pub sequential_read_4_bytes_per_second: f64,
    /// Latency of direct writes of 4 KiB, each followed by a sync, at random offsets of a file that
    /// was written in full before.
    pub durable_write: SyncLatency,
}

impl DeviceFigures {
    /// Returns all results, each with its name in reports.
    pub fn named(&self) -> [(&'static str, f64); 7] {
        [
            ("random_read_p50_us", self.random_read.p50_us),
            ("random_read_p99_us", self.random_read.p99_us),
            ("sequential_read_bytes_per_second", self.sequential_read_bytes_per_second),
            ("sequential_read_4_bytes_per_second", self.sequential_read_4_bytes_per_second),
            ("durable_write_p50_us", self.durable_write.p50_us),
            ("durable_write_p99_us", self.durable_write.p99_us),
            ("durable_write_over_3_ms", self.durable_write.over_3_ms),
        ]
    }
}

impl DeviceProbe {
    /// Runs the measurements in an existing directory. The storage's statistics count their bytes
    /// as [`Purpose::Metadata`].
    ///
    /// # Errors
    /// Errors from the storage. The error is of kind `Unsupported` if the filesystem refuses direct
    /// I/O.
    pub fn run(&self, storage: &dyn Storage, directory: &Path) -> Result<DeviceFigures> {
        let mut scratch = Scratch::new(storage, directory, self.bytes)?;
        let reader = Arc::clone(&scratch.reader);
        let measured = Measurement { duration: self.duration, chunks: scratch.chunks };
        Ok(DeviceFigures {
            random_read: measured.random_reads(&*reader)?,
            sequential_read_bytes_per_second: measured.sequential_reads(&*reader, 1)?,
            sequential_read_4_bytes_per_second: measured.sequential_reads(&*reader, STREAMS)?,
            durable_write: measured.durable_writes(&mut *scratch.writer)?,
        })
    }
}

/// A file without a name that has been filled with `chunks` chunks of [`CHUNK_BYTES`] bytes.
struct Scratch {
    writer: Box<dyn WriteFile>,
    reader: Arc<dyn ReadFile>,
    chunks: u64,
}

impl Scratch {
    fn new(storage: &dyn Storage, directory: &Path, bytes: u64) -> Result<Self> {
        let (direct, purpose) = (IoMode::Direct, Purpose::Metadata);
        let (path, mut writer) = scratch::create(storage, directory, direct)?;
        let reader = storage.open(&path, direct, purpose);
        // Remove the file now, while it is open and empty. Only a crash before this line leaves a
        // file.
        storage.remove(&path)?;
        let reader = reader?;
        let chunks = bytes.div_ceil(CHUNK_BYTES as u64).max(1);
        let buffer = random_bytes(CHUNK_BYTES);
        for chunk in 0..chunks {
            writer.write_all_at(&buffer, chunk * CHUNK_BYTES as u64, purpose)?;
        }
        writer.sync_all(purpose)?;
        Ok(Self { writer, reader, chunks })
    }
}

/// Returns random bytes, which a device cannot compress.
fn random_bytes(length: usize) -> AlignedBuffer {
    let mut buffer = zeros(length);
    fastrand::fill(&mut buffer);
    buffer
}

fn zeros(length: usize) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::with_capacity(length);
    buffer.set_length(length);
    buffer
}

struct Measurement {
    duration: Duration,
    chunks: u64,
}

impl Measurement {
    fn random_reads(&self, file: &dyn ReadFile) -> Result<ReadLatency> {
        let mut buffer = zeros(BLOCK_BYTES);
        let latencies = self.repeat(|offset| read_whole(file, &mut buffer, offset))?;
        Ok(ReadLatency { p50_us: latencies.percentile_us(50), p99_us: latencies.percentile_us(99) })
    }

    fn durable_writes(&self, file: &mut dyn WriteFile) -> Result<SyncLatency> {
        let buffer = random_bytes(BLOCK_BYTES);
        let latencies = self.repeat(|offset| {
            file.write_all_at(&buffer, offset, Purpose::Metadata)?;
            file.sync_data(Purpose::Metadata)
        })?;
        Ok(SyncLatency {
            p50_us: latencies.percentile_us(50),
            p99_us: latencies.percentile_us(99),
            over_3_ms: latencies.share_over(SLOW_SYNC_NS),
        })
    }

    /// Calls `work` with the offsets of random blocks until the duration is over, but at least
    /// once, and returns how long each call took.
    fn repeat(&self, mut work: impl FnMut(u64) -> Result<()>) -> Result<Latencies> {
        let blocks = self.chunks * (CHUNK_BYTES / BLOCK_BYTES) as u64;
        let end = monotonic_ns() + self.duration.as_nanos() as u64;
        let mut latencies = Vec::new();
        loop {
            let offset = fastrand::u64(..blocks) * BLOCK_BYTES as u64;
            let started = monotonic_ns();
            work(offset)?;
            let ended = monotonic_ns();
            latencies.push(ended - started);
            if ended >= end {
                latencies.sort_unstable();
                return Ok(Latencies(latencies));
            }
        }
    }

    /// Reads chunks in sequence with `streams` threads until the duration is over. Returns the
    /// total throughput in bytes per second.
    fn sequential_reads(&self, file: &dyn ReadFile, streams: u64) -> Result<f64> {
        let next = AtomicU64::new(0);
        let started = monotonic_ns();
        let end = started + self.duration.as_nanos() as u64;
        let stream = || -> Result<u64> {
            let mut buffer = zeros(CHUNK_BYTES);
            let mut bytes = 0;
            loop {
                let chunk = next.fetch_add(1, Relaxed) % self.chunks;
                read_whole(file, &mut buffer, chunk * CHUNK_BYTES as u64)?;
                bytes += CHUNK_BYTES as u64;
                if monotonic_ns() >= end {
                    return Ok(bytes);
                }
            }
        };
        let bytes = std::thread::scope(|scope| {
            let others: Vec<_> = (1..streams).map(|_| scope.spawn(stream)).collect();
            let mut total = stream()?;
            for other in others {
                total += other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok::<u64, Error>(total)
        })?;
        Ok(bytes as f64 / ((monotonic_ns() - started).max(1) as f64 / 1e9))
    }
}

fn read_whole(file: &dyn ReadFile, buffer: &mut AlignedBuffer, offset: u64) -> Result<()> {
    let length = buffer.len();
    let count = file.read_full_at(buffer, offset, Purpose::Metadata)?;
    if count == length {
        return Ok(());
    }
    let source = std::io::ErrorKind::UnexpectedEof;
    Err(Error::at(Operation::Read, file.path(), offset + count as u64, source))
}

/// Sorted durations in nanoseconds. There is at least one.
struct Latencies(Vec<u64>);

impl Latencies {
    fn percentile_us(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0[rank - 1] as f64 / 1000.0
    }

    fn share_over(&self, limit_ns: u64) -> f64 {
        let within = self.0.partition_point(|&latency_ns| latency_ns <= limit_ns);
        (self.0.len() - within) as f64 / self.0.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Latencies;

    #[test]
    fn percentiles_are_of_the_latencies_that_were_seen() {
        let latencies = Latencies((1..=200).map(|us| us * 1000).collect());
        assert_eq!(latencies.percentile_us(50), 100.0);
        assert_eq!(latencies.percentile_us(99), 198.0);
        assert_eq!(Latencies(vec![7000]).percentile_us(50), 7.0);
        assert_eq!(latencies.share_over(150_000), 0.25);
        assert_eq!(latencies.share_over(200_000), 0.0);
    }
}
