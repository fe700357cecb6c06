//! The stored offsets of consumers and groups, in one small journal for all partitions of a log.
//!
//! A stored offset is visible in memory immediately. The caller that stored it gets a ticket. The
//! ticket completes when the journal contains the offset and, if the topic's option
//! `are_offsets_durable` is set, has been synced. All offsets that are waiting are written with one
//! write and at most one sync. An entry in the journal contains the incarnation of its partition,
//! so that a purge of the partition makes the entry obsolete.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tailwater_io::Storage;

use crate::catalog::PartitionId;
use crate::journal::{self, Journal};
use crate::panics;
use crate::sync::{Condvar, Mutex};
use crate::ticket::{Completer, Ticket};
use crate::{Error, Result};

/// Name of the journal of consumers' offsets. The names of the journal's files begin with it.
const NAME: &str = "offsets";
/// Length of an entry in a record of the journal, in bytes.
const ENTRY_BYTES: usize = 34;

/// Who has stored an offset in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Consumer {
    /// A single consumer with this id.
    Single(u32),
    /// A consumer group with this id.
    Group(u32),
}

/// What identifies a stored offset: the partition, its incarnation, and the consumer.
type Key = (PartitionId, u64, Consumer);

/// The stored offsets of an open log. Safe to use from any thread.
pub(crate) struct Offsets {
    state: Mutex<State>,
    /// Locked while queued offsets are written to the journal. Must be locked before `state`.
    journal: Mutex<Journal>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    offsets: BTreeMap<Key, u64>,
    pending: Vec<u8>,
    waiting: Vec<Completer>,
    is_durable: bool,
    is_closed: bool,
    is_abandoned: bool,
}

impl State {
    /// Sets an offset, or deletes it if `offset` is `None`, and queues the change for the journal.
    fn set(&mut self, key: Key, offset: Option<u64>, is_durable: bool) -> Ticket {
        match offset {
            Some(offset) => self.offsets.insert(key, offset),
            None => self.offsets.remove(&key),
        };
        encode(&mut self.pending, key, offset);
        let (completer, ticket) = Ticket::pending();
        self.waiting.push(completer);
        self.is_durable |= is_durable;
        ticket
    }
}

impl Offsets {
    /// Opens the offsets in a log's directory, and creates their journal if it does not exist.
    /// `end_of` returns the offset after the last message of a partition's incarnation, or `None`
    /// if the incarnation does not exist. A stored offset beyond the last message is lowered to the
    /// offset of the last message.
    ///
    /// # Errors
    /// Corruption; I/O errors.
    pub(crate) fn open(
        storage: &Arc<dyn Storage>,
        directory: &Path,
        end_of: impl Fn(PartitionId, u64) -> Option<u64>,
    ) -> Result<Self> {
        let (mut journal, contents) = Journal::open(storage, directory, NAME, || Ok(Vec::new()))?;
        let mut offsets = BTreeMap::new();
        for record in contents.iter().flat_map(|contents| contents.records()) {
            replay(record, journal.path(), &mut offsets)?;
        }
        let stored = offsets.clone();
        offsets.retain(|(id, incarnation, _), offset| {
            let last = end_of(*id, *incarnation).and_then(|end| end.checked_sub(1));
            last.is_some_and(|last| {
                *offset = (*offset).min(last);
                true
            })
        });
        if offsets != stored {
            // Store the lowered offsets. Otherwise the journal would still contain offsets beyond
            // the end, which would become valid again when the partition has grown.
            journal.rewrite(&encode_all(&offsets))?;
        }
        let state = State { offsets, ..State::default() };
        Ok(Self { state: Mutex::new(state), journal: Mutex::new(journal), changed: Condvar::new() })
    }

    /// Returns a consumer's stored offset; `None` if there is none.
    pub(crate) fn get(&self, id: PartitionId, incarnation: u64, consumer: Consumer) -> Option<u64> {
        self.state.lock().offsets.get(&(id, incarnation, consumer)).copied()
    }

    /// Returns all offsets stored for one incarnation of a partition.
    pub(crate) fn all(&self, id: PartitionId, incarnation: u64) -> Vec<(Consumer, u64)> {
        let state = self.state.lock();
        let of_it = state.offsets.iter().filter(|((of, at, _), _)| (*of, *at) == (id, incarnation));
        of_it.map(|((_, _, consumer), offset)| (*consumer, *offset)).collect()
    }

    /// Stores an offset, which must be below the end of its partition. `end` returns the
    /// partition's incarnation and end, and is called while this state is locked. A truncation
    /// first lowers the end and then calls [`Self::clamp`]. So either this call sees the lower end
    /// and fails, or `clamp` sees the stored offset.
    ///
    /// With `incarnation`, the offset is that of a poll: does nothing if the partition has another
    /// incarnation, and does not lower a stored offset.
    ///
    /// # Errors
    /// Invalid argument, if the offset is at or above the end.
    pub(crate) fn store(
        &self,
        id: PartitionId,
        consumer: Consumer,
        offset: u64,
        is_durable: bool,
        incarnation: Option<u64>,
        end: impl FnOnce() -> (u64, u64),
    ) -> Result<Ticket> {
        let mut state = self.state.lock();
        let (current, end) = end();
        if incarnation.is_some_and(|incarnation| incarnation != current) {
            return Ok(Ticket::complete(Ok(())));
        }
        let (is_polled, incarnation) = (incarnation.is_some(), current);
        if offset >= end {
            return Err(Error::invalid(format!(
                "offset {offset} is not below {end}, the end of {id}"
            )));
        }
        if state.is_closed {
            return Ok(Ticket::complete(Err(Error::closed("the log"))));
        }
        let key = (id, incarnation, consumer);
        let stored = state.offsets.get(&key).copied().filter(|_| is_polled);
        let ticket = state.set(key, stored.max(Some(offset)), is_durable);
        drop(state);
        self.changed.notify_one();
        Ok(ticket)
    }

    /// Deletes a stored offset. Returns `None` if it does not exist.
    pub(crate) fn delete(
        &self,
        id: PartitionId,
        incarnation: u64,
        consumer: Consumer,
        is_durable: bool,
    ) -> Option<Ticket> {
        let mut state = self.state.lock();
        let key = (id, incarnation, consumer);
        if !state.offsets.contains_key(&key) {
            return None;
        }
        if state.is_closed {
            return Some(Ticket::complete(Err(Error::closed("the log"))));
        }
        let ticket = state.set(key, None, is_durable);
        drop(state);
        self.changed.notify_one();
        Some(ticket)
    }

    /// After a truncation, lowers stored offsets at or above `end` to `end - 1`, or deletes them if
    /// `end` is 0. The change is durable on return.
    ///
    /// # Errors
    /// Errors from the journal.
    pub(crate) fn clamp(&self, id: PartitionId, incarnation: u64, end: u64) -> Result<()> {
        let tickets: Vec<Ticket> = {
            let mut state = self.state.lock();
            let is_beyond = |((of, at, _), offset): &(&Key, &u64)| {
                (*of, *at) == (id, incarnation) && **offset >= end
            };
            let keys: Vec<Key> = state.offsets.iter().filter(is_beyond).map(|it| *it.0).collect();
            keys.into_iter().map(|key| state.set(key, end.checked_sub(1), true)).collect()
        };
        if !tickets.is_empty() {
            self.write_pending();
        }
        tickets.into_iter().try_for_each(Ticket::wait)
    }

    /// Drops from memory the offsets of those incarnations of a partition that are older than
    /// `incarnation`.
    pub(crate) fn forget(&self, id: PartitionId, incarnation: u64) {
        let is_gone = |(of, at, _): &Key| *of == id && *at < incarnation;
        self.state.lock().offsets.retain(|key, _| !is_gone(key));
    }

    /// Writes the queued offsets to the journal and completes their tickets. Returns false if none
    /// were queued.
    pub(crate) fn write_pending(&self) -> bool {
        let mut journal = self.journal.lock();
        let (pending, waiting, is_durable) = {
            let mut state = self.state.lock();
            let pending = std::mem::take(&mut state.pending);
            let is_durable = std::mem::take(&mut state.is_durable);
            (pending, std::mem::take(&mut state.waiting), is_durable)
        };
        if waiting.is_empty() {
            return false;
        }
        let append = || journal.append(&pending, is_durable, || Ok(self.snapshot()));
        let outcome = panics::catch("storing offsets", append);
        if let Err(error) = &outcome {
            // If the append panicked, it is unknown what the file contains, so make the next append
            // begin a new file.
            journal.fail(error);
        }
        drop(journal);
        for completer in waiting {
            completer.complete(outcome.clone());
        }
        true
    }

    /// Encodes all offsets as one record.
    fn snapshot(&self) -> Vec<u8> {
        encode_all(&self.state.lock().offsets)
    }

    /// Runs the thread that writes queued offsets to the journal, until the log is closed or
    /// abandoned.
    pub(crate) fn work(&self) {
        loop {
            if self.write_pending() {
                continue;
            }
            let state = self.state.lock();
            if !state.waiting.is_empty() {
                continue;
            }
            if state.is_closed || state.is_abandoned {
                return;
            }
            drop(self.changed.wait(state));
        }
    }

    /// Makes later changes fail, and ends [`Self::work`].
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Ends [`Self::work`], so that its thread closes the log.
    pub(crate) fn abandon(&self) {
        self.state.lock().is_abandoned = true;
        self.changed.notify_all();
    }

    /// Writes the waiting offsets and makes all offsets durable.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn sync(&self) -> Result<()> {
        self.write_pending();
        self.journal.lock().sync()
    }
}

fn encode_all(offsets: &BTreeMap<Key, u64>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(offsets.len() * ENTRY_BYTES);
    for (key, offset) in offsets {
        encode(&mut bytes, *key, Some(*offset));
    }
    bytes
}

fn encode(bytes: &mut Vec<u8>, key: Key, offset: Option<u64>) {
    let (id, incarnation, consumer) = key;
    let (kind, consumer) = match consumer {
        Consumer::Single(id) => (1, id),
        Consumer::Group(id) => (2, id),
    };
    bytes.extend_from_slice(&id.stream.to_le_bytes());
    bytes.extend_from_slice(&id.topic.to_le_bytes());
    bytes.extend_from_slice(&id.partition.to_le_bytes());
    bytes.extend_from_slice(&incarnation.to_le_bytes());
    bytes.push(kind);
    bytes.extend_from_slice(&consumer.to_le_bytes());
    bytes.push(u8::from(offset.is_some()));
    bytes.extend_from_slice(&offset.unwrap_or(0).to_le_bytes());
}

fn replay(record: &[u8], path: &Path, offsets: &mut BTreeMap<Key, u64>) -> Result<()> {
    let damaged = || Error::corruption(path, 0, "a record of offsets is not a sequence of entries");
    if !record.len().is_multiple_of(ENTRY_BYTES) {
        return Err(damaged());
    }
    for entry in record.chunks_exact(ENTRY_BYTES) {
        let (key, offset) = decode(entry).ok_or_else(damaged)?;
        match offset {
            Some(offset) => offsets.insert(key, offset),
            None => offsets.remove(&key),
        };
    }
    Ok(())
}

fn decode(entry: &[u8]) -> Option<(Key, Option<u64>)> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(*entry.get(at..)?.first_chunk()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(*entry.get(at..)?.first_chunk()?));
    let id = PartitionId { stream: u32_at(0)?, topic: u32_at(4)?, partition: u32_at(8)? };
    let consumer = match entry.get(20)? {
        1 => Consumer::Single(u32_at(21)?),
        2 => Consumer::Group(u32_at(21)?),
        _ => return None,
    };
    let offset = match entry.get(25)? {
        0 => None,
        1 => Some(u64_at(26)?),
        _ => return None,
    };
    Some(((id, u64_at(12)?, consumer), offset))
}

/// Reads the stored offsets of a log that need not be open.
///
/// # Errors
/// Corruption; I/O errors.
pub(crate) fn read(
    storage: &dyn Storage,
    directory: &Path,
) -> Result<BTreeMap<(PartitionId, u64, Consumer), u64>> {
    let mut offsets = BTreeMap::new();
    if let Some(contents) = journal::read(storage, directory, NAME)? {
        for record in contents.records() {
            replay(record, &contents.path, &mut offsets)?;
        }
    }
    Ok(offsets)
}

impl fmt::Debug for Offsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Offsets({})", self.state.lock().offsets.len())
    }
}
