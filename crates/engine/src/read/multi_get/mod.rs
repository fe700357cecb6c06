//! Gets of several keys at one sequence number.
//!
//! The keys are sorted, and searched in batches, in stages: each stage is done for all keys of a
//! batch before the next one. At first only what is in memory is searched, in an epoch and without
//! changing a reference count, as by a single get. What each key lacks there, whatever its level,
//! is then loaded together, with several reads in flight, and the search goes on where it stopped.
//! Last, the values that are in blob files are read together.

mod batch;
mod blobs;
mod load;
mod values;

use std::cell::Cell;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::Sequence;
use tailwater_io::attribution::Attribution;

use crate::column_family::SuperVersion;
use crate::epoch::{self, FullEpochCell};
use crate::error::Result;
use crate::read::get::with_cursors;
use crate::stats::slow_reads::{Operation, Request, SearchCounts, SlowReads};
use crate::stats::{Histogram, Started, Statistics, Ticker};
use crate::table::{GetCursors, Loaded, ReadProfile, Resident, Sink};

use batch::{Batch, State};
use blobs::Blobs;
use load::{Searched, load_missing};
pub(crate) use values::CopiedValue;
pub use values::ValueBuffer;

/// Number of keys that are searched in one epoch. While a thread is in an epoch, no thread frees
/// memory, so a longer list of keys takes a reference to its sources.
const KEYS_PER_EPOCH: usize = 1024;

/// Maximum number of batches of several column families that are searched together.
const BATCHES_TOGETHER: usize = 4;

/// Maximum capacity of the list that a thread keeps to sort the keys of its next multi-get.
const ORDER_KEPT: usize = 16 << 10;

/// What the keys of a multi-get have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MultiGetProfile<'a> {
    pub(crate) read: ReadProfile,
    /// Whether blocks of different levels are read together.
    pub(crate) levels_together: bool,
    /// Whether the receiver of the values is code of the user, which may do anything. It then runs
    /// outside the epoch.
    pub(crate) receiver_is_foreign: bool,
    pub(crate) statistics: Option<&'a Statistics>,
    pub(crate) slow_reads: &'a SlowReads,
    /// The name of the column family; empty for several.
    pub(crate) family: &'a str,
}

/// Reads the values of several keys of a column family. For each key, `receive` gets the key's
/// index in `keys`, and the result: a sink that holds the value, made by `sink`, or `None` if the
/// key has no value.
///
/// `snapshot` returns the sequence number to read at. It is called after the sources are pinned, so
/// that the sources hold everything that is visible at this sequence number.
pub(crate) fn multi_get<S: Sink>(
    current: &FullEpochCell<SuperVersion>,
    keys: &[impl AsRef<[u8]>],
    snapshot: impl FnOnce() -> Sequence,
    profile: &MultiGetProfile<'_>,
    mut sink: impl FnMut() -> S,
    receive: impl FnMut(usize, Result<Option<S>>),
) {
    let first = keys.first().map(AsRef::as_ref);
    let mut results = Results::new(profile, receive);
    with_cursors(|cursors| {
        with_order(keys.len(), |order| {
            let mut batch = Batch::with_capacity(keys.len());
            let (mut next, sequence, source);
            {
                let guard = epoch::pin();
                let held = current.load(&guard);
                sequence = snapshot();
                let comparator = held.get().tables().comparator();
                sort(order, |at| keys[at].as_ref(), comparator);
                next = order.iter().map(|&at| (at, keys[at].as_ref()));
                loop {
                    batch.take(&mut next, sequence, &mut sink);
                    let resident = Resident::new(&guard);
                    batch.search(held.get(), &resident, cursors, profile.levels_together);
                    profile.count(&resident);
                    if !batch.is_complete() || profile.receiver_is_foreign {
                        break;
                    }
                    results.deliver(&mut batch, held.get());
                    if next.len() == 0 {
                        return;
                    }
                    if keys.len() - next.len() >= KEYS_PER_EPOCH {
                        break;
                    }
                }
                source = held.to_arc();
            }
            let mut searched = Searched { source, batch, loaded: Loaded::default() };
            loop {
                complete(std::slice::from_mut(&mut searched), profile, cursors);
                results.deliver(&mut searched.batch, &searched.source);
                if next.len() == 0 {
                    return;
                }
                searched.loaded = Loaded::default();
                searched.batch.take(&mut next, sequence, &mut sink);
            }
        });
    });
    results.count(first);
}

/// Keys of one column family, each with its index in the caller's list.
pub(crate) struct FamilyKeys<'k> {
    pub(crate) source: Arc<SuperVersion>,
    pub(crate) keys: Vec<(usize, &'k [u8])>,
}

/// Reads the values of keys of several column families at `snapshot`, like [`multi_get`]. What keys
/// of different families lack in memory is loaded together.
pub(crate) fn multi_get_of_families<S: Sink>(
    families: Vec<FamilyKeys<'_>>,
    snapshot: Sequence,
    profile: &MultiGetProfile<'_>,
    mut sink: impl FnMut() -> S,
    receive: impl FnMut(usize, Result<Option<S>>),
) {
    let mut results = Results::new(profile, receive);
    let mut batches = Vec::new();
    for FamilyKeys { source, mut keys } in families {
        let comparator = source.tables().comparator();
        keys.sort_by(|(_, a), (_, b)| comparator.compare(a, b));
        let mut next = keys.into_iter();
        while next.len() > 0 {
            let mut batch = Batch::with_capacity(next.len());
            batch.take(&mut next, snapshot, &mut sink);
            let (source, loaded) = (Arc::clone(&source), Loaded::default());
            batches.push(Searched { source, batch, loaded });
        }
    }
    with_cursors(|cursors| {
        for some in batches.chunks_mut(BATCHES_TOGETHER) {
            complete(some, profile, cursors);
            for Searched { source, batch, loaded } in some {
                results.deliver(batch, source);
                *loaded = Loaded::default();
            }
        }
    });
    results.count(None);
}

/// Searches for all keys of some batches, and loads what they lack in memory, until the search for
/// each key has ended.
fn complete<S: Sink>(
    batches: &mut [Searched<'_, S>],
    profile: &MultiGetProfile<'_>,
    cursors: &mut GetCursors,
) {
    loop {
        for Searched { source, batch, loaded } in &mut *batches {
            let guard = epoch::pin();
            let resident = Resident::with_loaded(&guard, loaded);
            batch.search(source, &resident, cursors, profile.levels_together);
            profile.count(&resident);
        }
        if !batches.iter().any(|searched| searched.batch.is_waiting()) {
            return;
        }
        load_missing(batches, &profile.read, cursors);
    }
}

impl MultiGetProfile<'_> {
    fn count(&self, resident: &Resident<'_>) {
        if let Some(statistics) = self.statistics {
            resident.add_to(statistics);
        }
    }
}

/// Passes on the results, and counts them for the statistics.
struct Results<'a, R> {
    profile: &'a MultiGetProfile<'a>,
    receive: R,
    started: Option<Started>,
    reading: Option<Attribution>,
    searched: SearchCounts,
    keys: u64,
    values: u64,
    bytes: u64,
}

impl<'a, R> Results<'a, R> {
    fn new(profile: &'a MultiGetProfile<'a>, receive: R) -> Self {
        let reading = profile.slow_reads.begin();
        let started = profile.statistics.map(Statistics::start);
        let searched = SearchCounts::default();
        Self { profile, receive, started, reading, searched, keys: 0, values: 0, bytes: 0 }
    }

    /// Completes the keys of a batch, whose search has ended, and passes on their results.
    /// Afterwards the batch is empty.
    fn deliver<S: Sink>(&mut self, batch: &mut Batch<'_, S>, source: &SuperVersion)
    where
        R: FnMut(usize, Result<Option<S>>),
    {
        let recorder = self.profile.statistics.map(Statistics::recorder);
        self.keys += batch.sought.len() as u64;
        let mut keys = batch.sought.drain(..);
        let mut blobs = Blobs::default();
        loop {
            blobs.load(keys.as_slice(), source, &self.profile.read);
            let Some(mut sought) = keys.next() else { return };
            if let Some(recorder) = &recorder {
                sought.outcome(source).count_sources(recorder);
            }
            if self.reading.is_some() {
                self.searched.add(&sought.searched(source));
            }
            let found = match sought.state {
                State::Failed(error) => Err(error),
                _ => sought.lookup.finish(source.merge_operator(), |_, _| blobs.take()),
            };
            let sink = sought.lookup.into_sink();
            if let Ok(true) = found {
                self.values += 1;
                self.bytes += sink.length() as u64;
            }
            (self.receive)(sought.at, found.map(|has_value| has_value.then_some(sink)));
        }
    }

    /// Adds the call, whose first key is `first`, to the statistics.
    fn count(self, first: Option<&[u8]>) {
        if let Some(reading) = self.reading {
            self.profile.slow_reads.end(reading, || Request {
                operation: Operation::MultiGet,
                family: self.profile.family,
                key: first,
                keys: self.keys as usize,
                searched: self.searched,
            });
        }
        let (Some(statistics), Some(started)) = (self.profile.statistics, self.started) else {
            return;
        };
        let recorder = statistics.recorder();
        recorder.add(Ticker::MultigetCalls, 1);
        recorder.add(Ticker::MultigetKeysRead, self.keys);
        recorder.add(Ticker::MultigetKeysFound, self.values);
        recorder.add(Ticker::MultigetBytesRead, self.bytes);
        recorder.record(Histogram::BytesPerMultiget, self.bytes);
        statistics.record_since(Histogram::DbMultiget, started);
    }
}

thread_local! {
    /// The list that this thread's last multi-get sorted, kept for the next one.
    static ORDER: Cell<Vec<usize>> = const { Cell::new(Vec::new()) };
}

/// Calls `work` with the numbers below `count`, in ascending order.
fn with_order(count: usize, work: impl FnOnce(&mut [usize])) {
    // While the thread exits, the list may already have been dropped. Then a new one is used.
    let mut order = ORDER.try_with(Cell::take).unwrap_or_default();
    order.clear();
    order.extend(0..count);
    work(&mut order);
    if order.capacity() <= ORDER_KEPT {
        let _ = ORDER.try_with(|kept| kept.set(order));
    }
}

/// Sorts indices by the keys that they stand for, unless these are in order.
fn sort<'k>(order: &mut [usize], key: impl Fn(usize) -> &'k [u8], comparator: &Comparator) {
    if !order.is_sorted_by(|&a, &b| comparator.compare(key(a), key(b)).is_le()) {
        order.sort_unstable_by(|&a, &b| comparator.compare(key(a), key(b)));
    }
}
