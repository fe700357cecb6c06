//! Logs for measurements: each has one topic.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::message::batch::Builder;
use tailwater_log::{Log, LogOptions, Partition, TopicOptions};

use crate::experiment::Place;
use crate::failure::Failure;
use crate::own::OwnDirectory;
use crate::tail::Bytes;

/// The directory of a log, which is removed when the value is dropped or the program is
/// interrupted.
#[derive(Debug)]
pub(super) struct LogDirectory {
    path: PathBuf,
    _own: OwnDirectory,
}

impl LogDirectory {
    /// Makes room for a log. A place has one at a time, so what a killed benchmark left there is
    /// removed first.
    ///
    /// # Errors
    /// The errors of [`OwnDirectory::create`].
    pub(super) fn create(place: &Place) -> Result<Self, Failure> {
        let directory = place.path().join("bench-log");
        let _own = OwnDirectory::create(&directory)?;
        // A log is not created beside other files, such as the mark of the directory.
        Ok(Self { path: directory.join("log"), _own })
    }

    /// Returns the path at which the log is created.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
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
