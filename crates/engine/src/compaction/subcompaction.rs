//! The parts of a compaction, which run at once.
//!
//! A part is what the inputs have between two user keys. The keys are chosen among those that cut
//! each input table into pieces of about the same length, so that parts come out about equal, and
//! no part is shorter than an output should be. Source: `CompactionJob::GenSubcompactionBoundaries`
//! in `db/compaction/compaction_job.cc`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tailwater_format::version_edit::BlobFileGarbage;
use tailwater_io::thread;

use crate::compaction::job::{Part, Shared};
use crate::compaction::merge::{BlobGarbage, Dropped, Merge, Rules, Source, Stop};
use crate::compaction::output::{Outputs, WrittenTable, target_bytes};
use crate::{Error, ErrorKind, Result};

/// What came of a part.
#[derive(Debug)]
pub(crate) struct PartOutcome {
    pub(crate) written: Vec<WrittenTable>,
    pub(crate) blob_garbage: Vec<BlobFileGarbage>,
    pub(crate) records_in: u64,
    /// Whether every record of the part was read.
    pub(crate) is_exact: bool,
    pub(crate) dropped: Dropped,
}

/// Runs all parts: the first on the caller's thread, each other one on a thread of its own. If one
/// fails the others are given up.
///
/// # Errors
/// The failure of a part.
pub(crate) fn run_all(shared: &Arc<Shared>) -> Result<Vec<PartOutcome>> {
    let mut parts = parts(shared).into_iter();
    let first = parts.next().unwrap_or_default();
    let threads: Vec<_> = parts
        .map(|part| {
            let shared = Arc::clone(shared);
            thread::spawn("subcompaction", move || run_or_give_up(&shared, &part))
        })
        .collect();
    let first = run_or_give_up(shared, &first);
    let others = threads.into_iter().map(|thread| match thread {
        Ok(thread) => thread.join().unwrap_or_else(|_| Err(failed("a part panicked"))),
        Err(error) => Err(failed(&format!("cannot start a thread: {error}"))),
    });
    let outcomes: Vec<_> = std::iter::once(first).chain(others).collect();
    // What failed is the reason why others were given up.
    let failure = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    match failure.min_by_key(|error| error.kind() == ErrorKind::Cancelled) {
        Some(failure) => Err(failure.clone()),
        None => outcomes.into_iter().collect(),
    }
}

#[cold]
fn failed(how: &str) -> Error {
    Error::new(ErrorKind::Io, format!("a compaction failed: {how}"))
}

fn run_or_give_up(shared: &Arc<Shared>, part: &Part) -> Result<PartOutcome> {
    run(shared, part).inspect_err(|_| shared.has_failed.store(true, Ordering::Relaxed))
}

/// Merges what the inputs have in a part into tables.
fn run(shared: &Arc<Shared>, part: &Part) -> Result<PartOutcome> {
    let mut merge = merge(shared, part)?;
    let mut outputs = Outputs::new(shared, part);
    loop {
        match merge.advance()? {
            Stop::End => break,
            stop => outputs.add(stop, merge.key(stop), merge.value())?,
        }
    }
    let (written, dropped_tombstones) = outputs.finish()?;
    let mut dropped = merge.dropped();
    dropped.obsolete += dropped_tombstones;
    let source = merge.source();
    Ok(PartOutcome {
        written,
        blob_garbage: source.garbage().into_iter().flat_map(BlobGarbage::garbage).collect(),
        records_in: source.records(),
        is_exact: !source.has_skipped(),
        dropped,
    })
}

fn merge(shared: &Shared, part: &Part) -> Result<Merge> {
    let Part { begin, end } = part;
    let (begin, end) = (begin.as_deref(), end.as_deref());
    let (needs, inputs) = (&shared.needs, &shared.inputs);
    let comparator = shared.comparator().clone();
    let merged = inputs.merged(begin, end, &shared.read_plan(end))?;
    let garbage = inputs.refer_to_blobs().then(BlobGarbage::default);
    let source = Source::begin(comparator.clone(), merged, begin, end, garbage)?;
    let is_bottommost = shared.compaction.is_bottommost;
    let starts = match is_bottommost {
        // There is nothing below for outputs to overlap, and tombstones may all go.
        true => Vec::new(),
        false => inputs.tombstones().starts(&comparator, begin, end),
    };
    let rules = Rules {
        comparator,
        snapshots: Arc::clone(&shared.snapshots),
        is_bottommost,
        enforces_single_deletions: needs.database.enforce_single_del_contracts,
        level: shared.compaction.inputs.first().map_or(0, |input| input.level),
        filter: needs.filter.clone(),
        readers: Arc::clone(&needs.readers),
        cancelled: [Arc::clone(&needs.cancelled), Arc::clone(&shared.has_failed)],
    };
    let tombstones = Arc::clone(inputs.tombstones());
    Ok(Merge::new(rules, source, tombstones, shared.deeper_levels(), starts))
}

/// The parts that a compaction is cut into, in the order of their keys.
fn parts(shared: &Shared) -> Vec<Part> {
    let mut parts = vec![Part::default()];
    for boundary in boundaries(shared) {
        if let Some(last) = parts.last_mut() {
            last.end = Some(boundary.clone());
        }
        parts.push(Part { begin: Some(boundary), end: None });
    }
    parts
}

/// The user keys that parts begin with, but for the first.
fn boundaries(shared: &Shared) -> Vec<Vec<u8>> {
    let count = shared.compaction.max_subcompactions;
    if count <= 1 || shared.compaction.output_level == 0 {
        return Vec::new();
    }
    let comparator = shared.comparator();
    let tables = shared.inputs.tables();
    let mut anchors: Vec<_> = tables.iter().flat_map(|table| &table.anchors).collect();
    let all: u64 = anchors.iter().map(|anchor| anchor.bytes).sum();
    anchors.sort_by(|a, b| comparator.compare(&a.user_key, &b.user_key));
    anchors.dedup_by(|a, b| comparator.compare(&a.user_key, &b.user_key).is_eq());

    let target = (all / count as u64).max(target_bytes(&shared.compaction));
    let (mut boundaries, mut passed, mut threshold) = (Vec::new(), 0, target);
    for anchor in anchors {
        passed += anchor.bytes;
        if passed > threshold && target < all && boundaries.len() + 1 < count {
            threshold += target;
            boundaries.push(anchor.user_key.clone());
        }
    }
    boundaries
}
