//! By which call a device makes a write durable sooner: the write itself, or a flush behind it.

use std::path::Path;
use std::time::{Duration, Instant};

use tailwater_io::buffer::{ALIGNMENT, AlignedBuffer};
use tailwater_io::{Create, IoMode, Purpose, Result, Storage, WriteFile};

/// How often each is tried.
const ROUNDS: u64 = 5;

/// Whether writing and then flushing takes less time than a durable write, by a tenth at least:
/// found out by overwriting a file at `path`, which is made for it and removed.
///
/// # Errors
/// Those of the calls.
pub(super) fn is_flush(storage: &dyn Storage, path: &Path) -> Result<bool> {
    let tried = storage
        .create(path, Create::New, IoMode::Direct, Purpose::Wal)
        .and_then(|mut file| medians(&mut *file));
    storage.remove(path)?;
    let (durable, flushed) = tried?;
    Ok(flushed * 10 < durable * 9)
}

/// How long a durable write takes, and a write with a flush.
fn medians(file: &mut dyn WriteFile) -> Result<(Duration, Duration)> {
    let block = ALIGNMENT as u64;
    let mut bytes = AlignedBuffer::with_capacity(2 * ROUNDS as usize * ALIGNMENT);
    bytes.set_length(bytes.capacity());
    file.write_durably_at(&bytes, 0, Purpose::Wal)?;
    let bytes = &bytes[..ALIGNMENT];
    let (mut durable, mut flushed) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let started = Instant::now();
        file.write_durably_at(bytes, 2 * round * block, Purpose::Wal)?;
        durable.push(started.elapsed());
        let started = Instant::now();
        file.write_all_at(bytes, (2 * round + 1) * block, Purpose::Wal)?;
        file.sync_data(Purpose::Wal)?;
        flushed.push(started.elapsed());
    }
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    Ok((median(durable), median(flushed)))
}
