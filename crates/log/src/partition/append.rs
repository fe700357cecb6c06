//! Appending batches of messages to a partition.

use tailwater_format::message::batch::{Batch, HEADER_BYTES, Header};

use super::Partition;
use crate::ticket::Ticket;
use crate::{Error, ErrorKind, Result};

/// An accepted append.
#[derive(Debug)]
#[non_exhaustive]
pub struct Appended {
    /// Offset of the batch's first message.
    pub base_offset: u64,
    /// Time of the append, in microseconds since 1970.
    pub timestamp_us: u64,
    /// The acknowledgement: this ticket completes when the batch is as durable as the topic
    /// requires.
    pub ticket: Ticket,
}

/// The bytes of a batch whose checksums and lengths are valid. `B` owns or borrows the bytes.
#[derive(Debug)]
pub struct VerifiedBatch<B>(B);

impl<B: AsRef<[u8]>> VerifiedBatch<B> {
    /// Returns the batch, without verifying it again.
    fn batch(&self) -> Result<Batch<'_>> {
        let bytes = self.0.as_ref();
        let messages = bytes.get(HEADER_BYTES..).unwrap_or_default();
        let batch = Header::decode(bytes).and_then(|header| Batch::from_parts(header, messages));
        batch.map_err(|error| Error::invalid(error.to_string()))
    }
}

/// Delay after which a waiting append is retried if the operating system refused memory, in
/// nanoseconds.
const REFUSED_RETRY_NS: u64 = 100_000_000;

impl Partition {
    /// Appends a producer's batch ([`Batch`]) without waiting.
    ///
    /// Its messages get the next offsets. They become readable immediately or, on topics that
    /// acknowledge only persisted appends, once they are persisted.
    ///
    /// # Errors
    /// Full, if there is no memory now, or while a command such as a purge or truncation is
    /// pending. Then nothing was appended, and [`Self::try_append_or`] notifies the caller when it
    /// can retry. Invalid argument, if the batch is damaged or too large; no space or I/O, if an
    /// earlier write to a segment failed; I/O, if the log's LOCK was removed or replaced; closed;
    /// not found, if the partition was deleted.
    pub fn try_append(&self, batch: &[u8]) -> Result<Appended> {
        self.try_append_verified(&self.verify(batch)?)
    }

    /// Like [`Self::try_append`], for a batch from [`Self::verify`].
    ///
    /// # Errors
    /// The errors of [`Self::try_append`].
    pub fn try_append_verified<B: AsRef<[u8]>>(
        &self,
        batch: &VerifiedBatch<B>,
    ) -> Result<Appended> {
        self.env.lock.check_if_due(&*self.env.clock).map_err(|lost| {
            // A closed log has released the lock.
            self.owner.lock().health.error(self.id).unwrap_or_else(|| lost.into())
        })?;
        let batch = batch.batch()?;
        let now = self.env.timestamps.now(&*self.env.clock);
        let mut owner = self.owner.lock();
        let taken = match owner.append(&self.env, &batch, now) {
            Ok(taken) => taken,
            Err(error) => {
                drop(owner);
                if error.kind() == ErrorKind::Full {
                    self.request_memory();
                }
                return Err(error);
            }
        };
        if taken.has_new_chunk {
            self.publish(&mut owner, |_| ());
        }
        self.publish_end(&owner);
        self.schedule(owner);
        Ok(Appended {
            base_offset: taken.base_offset,
            timestamp_us: taken.timestamp_us,
            ticket: taken.ticket,
        })
    }

    /// If an append was refused for lack of memory, makes other partitions release theirs.
    fn request_memory(&self) {
        if !self.env.memory.is_tight() {
            return;
        }
        // Waking all partitions persists their batches, which may otherwise not be due for a long
        // time.
        self.env.scheduler.wake_all();
        if self.env.memory.is_refused() {
            let at_ns = self.env.clock.monotonic_ns() + REFUSED_RETRY_NS;
            self.env.scheduler.wake_at(at_ns, self.me.clone());
        }
    }

    /// Appends a batch. While an append would be refused as full, waits and tries again.
    ///
    /// # Errors
    /// The errors of [`Self::try_append`], except `Full`.
    pub fn append(&self, batch: &[u8]) -> Result<Appended> {
        let batch = self.verify(batch)?;
        loop {
            let changes = self.env.backpressure.changes();
            match self.try_append_verified(&batch) {
                Err(error) if error.kind() == ErrorKind::Full => {
                    self.env.backpressure.wait_after(changes)
                }
                appended => return appended,
            }
        }
    }

    /// Tries to append a batch from [`Self::verify`]. If this fails with [`ErrorKind::Full`],
    /// nothing is appended, and `wake` is called when an append may be possible again. The log may
    /// hold locks while it calls `wake`, so `wake` must neither call the log nor drop its
    /// last handle; it may only notify another thread.
    ///
    /// # Errors
    /// The errors of [`Self::try_append`].
    pub fn try_append_or<B: AsRef<[u8]>>(
        &self,
        batch: &VerifiedBatch<B>,
        wake: impl FnOnce() + Send + 'static,
    ) -> Result<Appended> {
        let changes = self.env.backpressure.changes();
        let appended = self.try_append_verified(batch);
        if appended.as_ref().is_err_and(|error| error.kind() == ErrorKind::Full) {
            self.env.backpressure.on_change_after(changes, Box::new(wake));
        }
        appended
    }

    /// Verifies a producer's batch. The result can be used for any number of attempts to append the
    /// batch.
    ///
    /// # Errors
    /// Invalid argument, for a batch that is damaged or too large.
    pub fn verify<B: AsRef<[u8]>>(&self, batch: B) -> Result<VerifiedBatch<B>> {
        let bytes = batch.as_ref();
        let most = self.env.batch_bytes_max;
        if bytes.len() > most {
            let length = bytes.len();
            return Err(Error::invalid(format!(
                "the batch has {length} bytes; the maximum is {most}"
            )));
        }
        let verified = Batch::decode_verified(bytes)
            .and_then(|batch| batch.check_deltas().map(|()| batch))
            .map_err(|error| Error::invalid(error.to_string()))?;
        let length = verified.header().length;
        if length != bytes.len() as u64 {
            let more = bytes.len() as u64 - length;
            return Err(Error::invalid(format!(
                "a batch of {length} bytes is followed by {more} more bytes"
            )));
        }
        Ok(VerifiedBatch(batch))
    }
}
