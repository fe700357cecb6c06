//! Appending.

use tailwater_format::message::batch::Batch;

use super::Partition;
use crate::ticket::Ticket;
use crate::{Error, ErrorKind, Result};

/// An accepted append.
#[derive(Debug)]
pub struct Appended {
    /// Offset of the batch's first message.
    pub base_offset: u64,
    /// Time of the append, in microseconds since 1970.
    pub timestamp_us: u64,
    /// Completed when the batch is as durable as the topic requires: the acknowledgement.
    pub ticket: Ticket,
}

impl Partition {
    /// Appends a producer's batch ([`Batch`]) without waiting.
    ///
    /// Its messages get the next offsets. They are readable at once, or on topics whose appends are
    /// acknowledged only once they are persisted, from then on.
    ///
    /// # Errors
    /// Full, where there is no room at this moment: nothing was appended, and
    /// [`Self::try_append_or`] notifies the caller when to try again. Invalid argument, for a batch
    /// that is damaged or too large. No space or I/O, where an earlier persist failed.
    pub fn try_append(&self, batch: &[u8]) -> Result<Appended> {
        let batch = self.check_batch(batch)?;
        let now_us = self.env.clock.wall_us();
        let mut owner = self.owner.lock();
        let taken = match owner.append(&self.env, &batch, now_us) {
            Ok(taken) => taken,
            Err(error) => {
                drop(owner);
                if error.kind() == ErrorKind::Full && self.env.memory.is_tight() {
                    // Other partitions may hold batches whose persist is not due for long.
                    self.env.scheduler.wake_all();
                }
                return Err(error);
            }
        };
        if taken.has_new_chunk {
            self.publish(&mut owner, |_| ());
        }
        self.show(&owner);
        self.schedule(owner);
        let ticket = match taken.signal {
            Some(signal) => Ticket::pending(signal),
            None => Ticket::complete(Ok(())),
        };
        Ok(Appended { base_offset: taken.base_offset, timestamp_us: taken.timestamp_us, ticket })
    }

    /// Appends a batch, after waiting for room if necessary.
    ///
    /// # Errors
    /// As [`Self::try_append`], but for full.
    pub fn append(&self, batch: &[u8]) -> Result<Appended> {
        loop {
            let moment = self.env.room.now();
            match self.try_append(batch) {
                Err(error) if error.kind() == crate::ErrorKind::Full => {
                    self.env.room.wait_after(moment);
                }
                appended => return appended,
            }
        }
    }

    /// Tries to append a batch. Where there is no room, nothing is appended, and `wake` is called
    /// once there may be room.
    ///
    /// # Errors
    /// As [`Self::try_append`].
    pub fn try_append_or(
        &self,
        batch: &[u8],
        wake: impl FnOnce() + Send + 'static,
    ) -> Result<Appended> {
        let moment = self.env.room.now();
        let appended = self.try_append(batch);
        if appended.as_ref().is_err_and(|error| error.kind() == crate::ErrorKind::Full) {
            self.env.room.on_change_after(moment, Box::new(wake));
        }
        appended
    }

    fn check_batch<'a>(&self, bytes: &'a [u8]) -> Result<Batch<'a>> {
        let most = self.env.batch_bytes_max;
        if bytes.len() > most {
            let length = bytes.len();
            return Err(Error::invalid(format!("a batch of {length} bytes; the most is {most}")));
        }
        let batch = Batch::decode_verified(bytes)
            .and_then(|batch| batch.check_deltas().map(|()| batch))
            .map_err(|error| Error::invalid(error.to_string()))?;
        if batch.header().length != bytes.len() as u64 {
            let message = format!(
                "a batch of {} bytes has {} behind it",
                batch.header().length,
                bytes.len() as u64 - batch.header().length
            );
            return Err(Error::invalid(message));
        }
        Ok(batch)
    }
}
