//! Selects the method by which writes to direct logs are made durable: a flag of each write
//! (`RWF_DSYNC`), or a flush after it (`fdatasync`).
//!
//! The flag is faster on devices that have no volatile cache, or that can write a single request
//! through the cache (forced unit access). For other devices the kernel turns a flagged write into
//! two requests, the write and a flush of the cache. Some of these devices are faster with a flush,
//! which can also serve several writes. Both methods are measured while the first writes proceed;
//! until the measurement ends, the flag is used.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tailwater_io::buffer::{ALIGNMENT, AlignedBuffer};
use tailwater_io::sync::Mutex;
use tailwater_io::{Clock, Create, IoMode, Purpose, Result, Storage, WriteFile};

/// Number of measurements of each method.
const ROUNDS: u64 = 5;

/// The method by which a database makes writes to direct logs durable. Thread-safe.
#[derive(Debug, Default)]
pub(crate) struct LogDurability {
    is_by_flush: AtomicBool,
    tried: Mutex<Option<Medians>>,
}

/// Median times, in nanoseconds, of a write that a flag makes durable and of a write with a flush
/// after it.
#[derive(Debug, Clone, Copy)]
struct Medians {
    durable_ns: u64,
    flushed_ns: u64,
}

impl Medians {
    /// Whether a write followed by a flush (`fdatasync`) takes less than nine tenths of the time of
    /// a flagged write (`RWF_DSYNC`). If it saves less time, the flag stays in use.
    fn is_flush_quicker(self) -> bool {
        self.flushed_ns * 10 < self.durable_ns * 9
    }
}

impl LogDurability {
    /// Whether log writes should be made durable by a flush (`fdatasync`) after the write, rather
    /// than by a flag of the write (`RWF_DSYNC`).
    pub(super) fn is_by_flush(&self) -> bool {
        self.is_by_flush.load(Ordering::Relaxed)
    }

    /// Measures a flagged write, and a write with a flush after it, and chooses the faster method.
    /// The measurement overwrites a file at `path`, which this function creates and removes.
    ///
    /// # Errors
    /// I/O errors, after which the chosen method is unchanged.
    pub(super) fn try_both(
        &self,
        storage: &dyn Storage,
        clock: &dyn Clock,
        path: &Path,
    ) -> Result<()> {
        let mut file = storage.create(path, Create::New, IoMode::Direct, Purpose::Wal)?;
        let tried = medians(&mut *file, clock);
        storage.remove(path)?;
        let tried = tried?;
        *self.tried.lock() = Some(tried);
        self.is_by_flush.store(tried.is_flush_quicker(), Ordering::Relaxed);
        Ok(())
    }
}

impl fmt::Display for LogDurability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (flag, flush) = ("durable writes (RWF_DSYNC)", "flushes (fdatasync)");
        let Some(tried) = *self.tried.lock() else {
            return write!(f, "synced by {flag}; {flush} were not tried");
        };
        let (quicker, other) = if tried.is_flush_quicker() { (flush, flag) } else { (flag, flush) };
        let (durable_us, flushed_us) = (tried.durable_ns / 1000, tried.flushed_ns / 1000);
        write!(
            f,
            "synced by {quicker} rather than {other}: a durable write took {durable_us} us, a \
             write and a flush {flushed_us} us"
        )
    }
}

/// Returns the median times of a write that a flag makes durable and of a write with a flush after
/// it.
fn medians(file: &mut dyn WriteFile, clock: &dyn Clock) -> Result<Medians> {
    let block = ALIGNMENT as u64;
    let mut bytes = AlignedBuffer::with_capacity(2 * ROUNDS as usize * ALIGNMENT);
    bytes.set_length(bytes.capacity());
    file.write_durably_at(&bytes, 0, Purpose::Wal)?;
    let bytes = &bytes[..ALIGNMENT];
    let (mut durable, mut flushed) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let started = clock.monotonic_ns();
        file.write_durably_at(bytes, 2 * round * block, Purpose::Wal)?;
        durable.push(clock.since_ns(started));
        let started = clock.monotonic_ns();
        file.write_all_at(bytes, (2 * round + 1) * block, Purpose::Wal)?;
        file.sync_data(Purpose::Wal)?;
        flushed.push(clock.since_ns(started));
    }
    let median = |mut times: Vec<u64>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    Ok(Medians { durable_ns: median(durable), flushed_ns: median(flushed) })
}
