//! Converts timed values from their form in memtables to that in tables. A timed value is a value
//! that was put together with a time at which it counts as written (RocksDB's `TimedPut`).
//!
//! In a memtable, a timed value is stored with its write time. In a table, it is stored with its
//! preferred sequence number: the last sequence number known to have been written by that time. A
//! plain value is stored instead if write times of sequence numbers are not recorded, or if the
//! preferred number is not below the record's own. Source: `BuildTable` in `db/builder.cc`.

use tailwater_format::key::{self, Sequence, ValueType, pack_trailer};
use tailwater_format::timed_value;

use crate::error::{Error, ErrorKind, Result};
use crate::sequence_times::SequenceTimes;

/// Converts records of memtables to records of tables, with reused buffers.
pub(super) struct TimedValues<'t> {
    /// The write times of sequence numbers, if known.
    times: Option<&'t SequenceTimes>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'t> TimedValues<'t> {
    pub(super) fn new(times: Option<&'t SequenceTimes>) -> Self {
        Self { times, key: Vec::new(), value: Vec::new() }
    }

    /// Converts a record of a memtable to its form in a table. Returns the internal key and the
    /// value.
    ///
    /// # Errors
    /// Corruption, for a timed value that is too short to contain its time.
    #[inline]
    pub(super) fn convert<'a>(
        &'a mut self,
        internal_key: &'a [u8],
        value: &'a [u8],
    ) -> Result<(&'a [u8], &'a [u8])> {
        match key::split(internal_key) {
            Some((user_key, trailer))
                if trailer as u8 == ValueType::ValuePreferredSequence as u8 =>
            {
                self.convert_timed(internal_key, user_key, trailer >> 8, value)
            }
            _ => Ok((internal_key, value)),
        }
    }

    #[cold]
    fn convert_timed<'a>(
        &'a mut self,
        internal_key: &'a [u8],
        user_key: &[u8],
        sequence: Sequence,
        packed: &'a [u8],
    ) -> Result<(&'a [u8], &'a [u8])> {
        let Some((value, time_s)) = timed_value::split(packed) else {
            let key = user_key.escape_ascii();
            let message = format!("key '{key}' has a timed value of less than 8 bytes in memory");
            return Err(Error::new(ErrorKind::Corruption, message));
        };
        let preferred = self.times.map(|times| times.sequence_at(time_s).unwrap_or(0));
        match preferred.filter(|&preferred| preferred < sequence) {
            Some(preferred) => {
                self.value.clear();
                timed_value::put(&mut self.value, value, preferred);
                Ok((internal_key, &self.value))
            }
            None => {
                self.key.clear();
                let trailer = pack_trailer(sequence, ValueType::Value as u8);
                key::put_internal_key(&mut self.key, user_key, trailer);
                Ok((&self.key, value))
            }
        }
    }
}
