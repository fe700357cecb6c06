//! The parts of a compaction (subcompactions), which run concurrently.
//!
//! A part is the range of the inputs between two user keys. The user keys are chosen from keys that
//! divide each input table into pieces of similar size, so that parts are of similar size, and at
//! least as large as the target size of an output. Source:
//! `CompactionJob::GenSubcompactionBoundaries` in `db/compaction/compaction_job.cc`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tailwater_format::version_edit::BlobFileGarbage;
use tailwater_io::sync::Mutex;
use tailwater_io::thread::{self, Thread, Weight};

use crate::background::WorkingThread;
use crate::compaction::job_state::{JobState, Part};
use crate::compaction::merge::{BlobGarbage, Dropped, Merge, Rules, Source, Stop};
use crate::compaction::output::{Outputs, WrittenTable, target_bytes};
use crate::contracts::Violations;
use crate::error::{Error, ErrorKind, Result};
use crate::panics;

/// Name of the threads that run parts of a compaction.
const THREAD: &str = "subcompaction";

/// The result of a part of a compaction.
#[derive(Debug)]
pub(crate) struct PartOutcome {
    pub(crate) written: Vec<WrittenTable>,
    pub(crate) blob_garbage: Vec<BlobFileGarbage>,
    pub(crate) records_in: u64,
    /// Whether `records_in` counts every record of this part of the compaction. False if records
    /// were skipped.
    pub(crate) is_exact: bool,
    pub(crate) dropped: Dropped,
    pub(crate) violations: Violations,
}

/// Runs all parts of a compaction concurrently. If one part fails, the others are cancelled.
///
/// If the job may run at low priority, each part runs on a low-priority thread. When the job must
/// continue at normal priority, each part pauses between two records and continues on a thread of
/// normal priority. If the job may not run at low priority, the first part runs on the caller's
/// thread, and each of the others on its own thread.
///
/// # Errors
/// The error from a part that failed.
pub(crate) fn run_all(shared: &Arc<JobState>) -> Result<Vec<PartOutcome>> {
    let parts = parts(shared);
    let outcomes = match shared.environment.is_low_priority() {
        true => run_at_low_priority(shared, parts),
        false => run_at_once(parts.into_iter().map(|part| {
            let shared = Arc::clone(shared);
            move || run_part(&shared, || Running::begin(&shared, &part, Weight::Background))
        })),
    };
    let outcomes: Vec<Result<PartOutcome>> = outcomes
        .into_iter()
        .map(|outcome| match outcome? {
            Step::Done(outcome) => Ok(outcome),
            Step::Stopped(_) => Err(failed("a part stopped")),
        })
        .collect();
    // When a part fails, the other parts are cancelled. The failure is reported, not the
    // cancellations.
    let failure = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    match failure.min_by_key(|error| error.kind() == ErrorKind::Cancelled) {
        Some(failure) => Err(failure.clone()),
        None => outcomes.into_iter().collect(),
    }
}

/// The result of running a part of a compaction until it ends or pauses.
enum Step {
    Done(PartOutcome),
    /// The part of the compaction ran at low priority and has paused between two records. The job
    /// continues the part at normal priority.
    Stopped(Box<Running>),
}

type Outcomes = Vec<Result<Step>>;

/// Runs the first work item on the calling thread, and each of the others on its own thread.
fn run_at_once<W: FnOnce() -> Result<Step> + Send + 'static>(
    mut works: impl Iterator<Item = W>,
) -> Outcomes {
    let Some(first) = works.next() else { return Vec::new() };
    let threads: Vec<_> = works.map(|work| Started::new(Weight::Background, work)).collect();
    let first = first();
    std::iter::once(first).chain(threads.into_iter().map(Started::join)).collect()
}

/// Runs each part on a low-priority thread, then finishes paused parts at normal priority.
fn run_at_low_priority(shared: &Arc<JobState>, parts: Vec<Part>) -> Outcomes {
    let threads: Vec<_> = parts
        .into_iter()
        .map(|part| {
            let shared = Arc::clone(shared);
            Started::new(Weight::LowPriority, move || {
                run_part(&shared, || Running::begin(&shared, &part, Weight::LowPriority))
            })
        })
        .collect();
    let outcomes: Outcomes = threads.into_iter().map(Started::join).collect();
    let (mut done, mut stopped) = (Vec::new(), Vec::new());
    for (place, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(Step::Stopped(running)) => stopped.push((place, running)),
            outcome => done.push((place, outcome)),
        }
    }
    let (places, stopped): (Vec<_>, Vec<_>) = stopped.into_iter().unzip();
    let works = stopped.into_iter().map(|running| {
        let shared = Arc::clone(shared);
        move || run_part(&shared, || Ok(*running))
    });
    done.extend(places.into_iter().zip(run_at_once(works)));
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Work that runs on its own thread. If the system cannot start a thread, the caller of `join` runs
/// the work.
enum Started<W> {
    There(Thread<Option<Result<Step>>>),
    Here(Arc<Mutex<Option<W>>>),
}

impl<W: FnOnce() -> Result<Step> + Send + 'static> Started<W> {
    fn new(weight: Weight, work: W) -> Self {
        let here = Arc::new(Mutex::new(Some(work)));
        let there = Arc::clone(&here);
        let take = |work: &Mutex<Option<W>>| work.lock().take();
        match thread::spawn_with(weight, THREAD, move || take(&there).map(|work| work())) {
            Ok(thread) => Self::There(thread),
            Err(_) => Self::Here(here),
        }
    }

    fn join(self) -> Result<Step> {
        let outcome = match self {
            Self::There(thread) => {
                thread.join().unwrap_or_else(|_| Some(Err(panics::unwinding("a part"))))
            }
            Self::Here(work) => {
                let work = work.lock().take();
                work.map(|work| work())
            }
        };
        outcome.unwrap_or_else(|| Err(failed("a part had nothing to do")))
    }
}

#[cold]
fn failed(how: &str) -> Error {
    Error::internal(format!("a compaction failed: {how}"))
}

/// Runs a part of a compaction until it ends or pauses. If it fails or panics, the other parts of
/// the compaction are cancelled.
fn run_part(shared: &JobState, running: impl FnOnce() -> Result<Running>) -> Result<Step> {
    let _own = WorkingThread::begin(shared.environment.opening);
    let step =
        panics::catch("a part of a compaction", || running().and_then(Running::run_until_pause));
    step.inspect_err(|_| shared.has_failed.store(true, Ordering::Relaxed))
}

/// A part of a compaction. The part is running or has paused.
struct Running {
    merge: Merge,
    outputs: Outputs,
}

impl Running {
    fn begin(shared: &Arc<JobState>, part: &Part, weight: Weight) -> Result<Self> {
        let outputs = Outputs::new(shared, part);
        let merge = merge(shared, part, weight, outputs.divide_tombstones())?;
        Ok(Self { merge, outputs })
    }

    fn run_until_pause(mut self) -> Result<Step> {
        loop {
            match self.merge.advance()? {
                Stop::End => return self.end().map(Step::Done),
                Stop::Pause => return Ok(Step::Stopped(Box::new(self))),
                stop => {
                    let Self { merge, outputs } = &mut self;
                    let (key, value, source) = (merge.key(stop), merge.value(), merge.source());
                    outputs
                        .add(stop, key, value, merge.warmth(), || source.left_block())
                        .map_err(|error| source.blamed(error))?;
                }
            }
        }
    }

    fn end(mut self) -> Result<PartOutcome> {
        let violations = self.merge.take_violations();
        let (written, dropped_tombstones) = self.outputs.finish()?;
        let mut dropped = self.merge.dropped();
        dropped.obsolete += dropped_tombstones;
        let source = self.merge.source();
        Ok(PartOutcome {
            written,
            blob_garbage: source.garbage().into_iter().flat_map(BlobGarbage::garbage).collect(),
            records_in: source.records(),
            is_exact: !source.has_skipped(),
            dropped,
            violations,
        })
    }
}

/// Creates the merge of a part. With `divides_tombstones`, it stops at the starts of range
/// tombstones even if no deeper level overlaps the outputs.
fn merge(
    shared: &JobState,
    part: &Part,
    weight: Weight,
    divides_tombstones: bool,
) -> Result<Merge> {
    let Part { begin, end } = part;
    let (begin, end) = (begin.as_deref(), end.as_deref());
    let (environment, inputs) = (&shared.environment, &shared.inputs);
    let comparator = shared.comparator().clone();
    let merged = inputs.merged(begin, end, &shared.read_plan(end))?;
    let garbage = inputs.refer_to_blobs().then(BlobGarbage::default);
    let source = Source::begin(comparator.clone(), merged, begin, end, garbage)?;
    let is_bottommost = shared.compaction.is_bottommost;
    let starts = match is_bottommost && !divides_tombstones {
        // No deeper level overlaps the outputs, so they need not be cut at starts of tombstones.
        true => Vec::new(),
        false => inputs.tombstones().starts(&comparator, begin, end),
    };
    let rules = Rules {
        comparator,
        snapshots: Arc::clone(&shared.snapshots),
        is_flush: false,
        is_bottommost,
        preserve_after: shared.preserve_after,
        reports_single_deletions: environment.database.enforce_single_del_contracts,
        level: shared.compaction.inputs.first().map_or(0, |input| input.level),
        filter: environment.filter.clone(),
        readers: Arc::clone(&shared.reading.readers),
        cancelled: [&environment.cancelled[..], &[Arc::clone(&shared.has_failed)]].concat(),
        low_priority: environment.low_priority.clone().filter(|_| weight == Weight::LowPriority),
    };
    let tombstones = Arc::clone(inputs.tombstones());
    Ok(Merge::new(rules, source, tombstones, shared.deeper_levels(), starts))
}

/// Returns the parts of a compaction, in key order.
fn parts(shared: &JobState) -> Vec<Part> {
    let mut parts = vec![Part::default()];
    for boundary in boundaries(shared) {
        if let Some(last) = parts.last_mut() {
            last.end = Some(boundary.clone());
        }
        parts.push(Part { begin: Some(boundary), end: None });
    }
    parts
}

/// Returns the user keys that separate the parts of the compaction.
fn boundaries(shared: &JobState) -> Vec<Vec<u8>> {
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
