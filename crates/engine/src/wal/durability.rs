//! How what is written to direct logs becomes durable: by a flag of each write (`RWF_DSYNC`), or by
//! a flush behind it (`fdatasync`).
//!
//! A device that forces single writes through its cache, or has none that forgets, is quicker with
//! the flag. Without such a device the kernel makes two requests of the flag, and some are quicker
//! with a flush, which also serves several writes at once. Which is so is found out by trying both,
//! beside the first writes; until then it is the flag.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tailwater_io::buffer::{ALIGNMENT, AlignedBuffer};
use tailwater_io::sync::Mutex;
use tailwater_io::{Clock, Create, IoMode, Purpose, Result, Storage, WriteFile};

/// How often each is tried.
const ROUNDS: u64 = 5;

/// Which way direct logs of a database become durable. Any thread may ask.
#[derive(Debug, Default)]
pub(crate) struct LogDurability {
    is_by_flush: AtomicBool,
    tried: Mutex<Option<Tried>>,
}

/// How long each way took, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Tried {
    durable_ns: u64,
    flushed_ns: u64,
}

impl Tried {
    /// A change of the way is worth a tenth.
    fn is_flush_quicker(self) -> bool {
        self.flushed_ns * 10 < self.durable_ns * 9
    }
}

impl LogDurability {
    /// Whether a flush behind a write is quicker than a durable write.
    pub(super) fn is_by_flush(&self) -> bool {
        self.is_by_flush.load(Ordering::Relaxed)
    }

    /// Finds out which way is quicker, by overwriting a file at `path`, which is made for it and
    /// removed.
    ///
    /// # Errors
    /// Those of the calls. Nothing is changed then.
    pub(super) fn try_both(
        &self,
        storage: &dyn Storage,
        clock: &dyn Clock,
        path: &Path,
    ) -> Result<()> {
        let tried = storage
            .create(path, Create::New, IoMode::Direct, Purpose::Wal)
            .and_then(|mut file| medians(&mut *file, clock));
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
        let (quicker, other) = match tried.is_flush_quicker() {
            true => (flush, flag),
            false => (flag, flush),
        };
        let (durable_us, flushed_us) = (tried.durable_ns / 1000, tried.flushed_ns / 1000);
        write!(
            f,
            "synced by {quicker} rather than {other}: a durable write took {durable_us} us, a write \
             and a flush {flushed_us} us"
        )
    }
}

/// How long each way takes, as medians.
fn medians(file: &mut dyn WriteFile, clock: &dyn Clock) -> Result<Tried> {
    let block = ALIGNMENT as u64;
    let mut bytes = AlignedBuffer::with_capacity(2 * ROUNDS as usize * ALIGNMENT);
    bytes.set_length(bytes.capacity());
    file.write_durably_at(&bytes, 0, Purpose::Wal)?;
    let bytes = &bytes[..ALIGNMENT];
    let (mut durable, mut flushed) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let started = clock.monotonic_ns();
        file.write_durably_at(bytes, 2 * round * block, Purpose::Wal)?;
        durable.push(clock.monotonic_ns() - started);
        let started = clock.monotonic_ns();
        file.write_all_at(bytes, (2 * round + 1) * block, Purpose::Wal)?;
        file.sync_data(Purpose::Wal)?;
        flushed.push(clock.monotonic_ns() - started);
    }
    let median = |mut times: Vec<u64>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    Ok(Tried { durable_ns: median(durable), flushed_ns: median(flushed) })
}
