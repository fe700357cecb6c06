//! Logs for measurements: each has one topic.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::message::batch::Builder;
use tailwater_io::Storage as _;
use tailwater_io::posix::PosixStorage;
use tailwater_log::{Log, LogOptions, Partition, TopicOptions};
use tempfile::TempDir;

use crate::failure::Failure;
use crate::tail::Bytes;

/// Creates a temporary directory in `parent`, which is created if it does not exist.
pub(super) fn directory(parent: &Path) -> Result<TempDir, Failure> {
    PosixStorage::new().create_directory(parent)?;
    Ok(tempfile::Builder::new().prefix("log-").tempdir_in(parent)?)
}

/// Creates a log with one topic, and returns its partitions in the order of their ids. They must be
/// dropped before the log is closed.
pub(crate) fn create(
    directory: &Path,
    options: &LogOptions,
    topic: &TopicOptions,
    partitions: usize,
) -> Result<(Log, Vec<Arc<Partition>>), Failure> {
    let log = Log::open(directory, options)?;
    let stream = log.create_stream(None, "bench")?;
    log.create_topic(stream, None, "bench", topic, u32::try_from(partitions)?)?;
    let partitions = log.partitions();
    Ok((log, partitions))
}

/// Size of the largest batch that a log accepts by default, in bytes.
pub(super) const BATCH_BYTES_MAX: u32 = 64 << 20;

/// Returns a batch of `messages` messages with the same payload.
///
/// # Errors
/// If no log accepts so large a batch.
pub(crate) fn batch(timestamp_us: u64, messages: u32, payload: &[u8]) -> Result<Vec<u8>, Failure> {
    let bytes = u64::from(messages) * payload.len() as u64;
    if bytes > u64::from(BATCH_BYTES_MAX) {
        let [bytes, most] = [bytes, BATCH_BYTES_MAX.into()].map(Bytes);
        return Err(format!(
            "--batch, --message-size: a batch would have {bytes}, and has at most {most}"
        )
        .into());
    }
    let mut builder = Builder::new(timestamp_us);
    for number in 0..messages {
        builder.push(u128::from(number), 0, payload, b"")?;
    }
    Ok(builder.finish())
}
