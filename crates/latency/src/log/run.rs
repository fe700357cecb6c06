//! One run of the experiment: a single measurement for one row of the result table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tailwater_io::Clock as _;
use tailwater_io::clock::SystemClock;
use tailwater_io::kernel::{Sampler, System, Target};
use tailwater_log::{Log, Partition};

use super::LogBenchArguments;
use super::clients::{Schedule, consume, produce};
use super::event_loop::{self, Request};
use super::figures::{Figures, Side};
use super::report::Row;
use super::scratch::{self, LogDirectory};
use crate::experiment::Place;
use crate::experiment::timeline::{Collector, Timeline, every_second};
use crate::failure::Failure;
use crate::live::Live;
use crate::numbers::micros;

/// Duration of the warm-up, which is not measured, as a fraction of the duration of a run.
const WARM_UP: f64 = 0.1;
/// Interval between two samples of the kernel's counters.
const SAMPLED: Duration = Duration::from_millis(250);
/// The two kinds of clients, as in the report.
const SIDES: [&str; 2] = ["producers", "consumers"];

/// What all producers, or all consumers, have measured.
struct Measured {
    /// Number of messages sent or polled after the warm-up.
    messages: u64,
    latencies: Histogram<u64>,
}

/// Makes a single measurement for one row of the result table, on a new log. `name` is that of the
/// measurement, for the live view.
pub(super) fn run(
    arguments: &LogBenchArguments,
    place: &Place,
    row: &Row,
    name: &str,
) -> Result<Figures, Failure> {
    let directory = LogDirectory::create(place)?;
    let is_inline = row.mode.is_inline();
    let (options, topic) = row.mode.options();
    let options = options.with_persisters(if is_inline { 0 } else { arguments.persisters });
    let topic = topic
        .with_messages_required_to_save(row.messages_required_to_save)
        .with_size_of_messages_required_to_save(row.size_of_messages_required_to_save)
        .with_segment_bytes(arguments.segment_size.0);
    let (log, partitions) =
        scratch::create(directory.path(), &options, &topic, arguments.partitions)?;
    let sampler = Sampler::start(Target::new(&System::default(), directory.path()), SAMPLED)?;
    let live = Live::new(name, Some(Duration::from_secs_f64(arguments.duration)));
    let ([producers, consumers], mut timeline) =
        work(arguments, &log, &partitions, is_inline, &live)?;
    drop(live);
    let sampled = sampler.stop().unwrap_or_default();
    timeline.add_kernel(&sampled.seconds);
    drop(partitions);
    log.close()?;
    let side = |measured: &Measured| {
        let seconds = arguments.duration * (1.0 - WARM_UP);
        let bytes = measured.messages as f64 * f64::from(arguments.message_size);
        let batches = measured.messages as f64 / f64::from(arguments.batch);
        Side::new(&measured.latencies, batches, bytes / seconds)
    };
    let kernel = sampled.figures.named().into_iter();
    Ok(Figures {
        producers: side(&producers),
        consumers: side(&consumers),
        kernel: kernel.filter_map(|(name, figure)| Some((name.to_owned(), figure?))).collect(),
        timeline: Some(timeline),
    })
}

/// Runs event loops, producers and consumers to the end, and returns what the producers and what
/// the consumers measured, and the course of their latencies.
fn work(
    arguments: &LogBenchArguments,
    log: &Log,
    partitions: &[Arc<Partition>],
    is_inline: bool,
    live: &Live,
) -> Result<([Measured; 2], Timeline), Failure> {
    let (producers, produced) = Collector::new(arguments.clients, 0)?;
    let (consumers, consumed) = Collector::new(arguments.clients, 0)?;
    let start = Instant::now();
    let seconds = Duration::from_secs_f64;
    let schedule = Schedule {
        start,
        measured_from: start + seconds(arguments.duration * WARM_UP),
        end: start + seconds(arguments.duration),
    };
    let producers_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let (running, end) = channel();
        let observed = scope.spawn(move || observe([produced, consumed], &end, live));
        let mut loops = Vec::new();
        let mut serving = Vec::new();
        for _ in 0..arguments.loops {
            let (sender, requests) = channel::<Request>();
            loops.push(sender);
            serving.push(
                scope.spawn(move || event_loop::serve(log, partitions, &requests, is_inline)),
            );
        }
        let producing = producers.into_iter().enumerate().map(|(number, recorder)| {
            let loops = loops.clone();
            scope.spawn(move || produce(arguments, schedule, number, &loops, recorder))
        });
        let producing: Vec<_> = producing.collect();
        let consuming = consumers.into_iter().enumerate().map(|(number, recorder)| {
            let (loops, ended) = (loops.clone(), &producers_ended);
            scope.spawn(move || consume(arguments, schedule, number, &loops, ended, recorder))
        });
        let consuming: Vec<_> = consuming.collect();
        drop(loops);
        let produced = sum(producing);
        producers_ended.store(true, Ordering::Release);
        let consumed = sum(consuming);
        drop(running);
        for serving in serving {
            serving.join().map_err(|_| "an event loop panicked")??;
        }
        let ([of_producers, of_consumers], timeline) =
            observed.join().map_err(|_| "the observer panicked")??;
        let measured = [
            Measured { messages: produced?, latencies: of_producers.finish()? },
            Measured { messages: consumed?, latencies: of_consumers.finish()? },
        ];
        Ok((measured, timeline))
    })
}

fn sum(threads: Vec<ScopedJoinHandle<'_, Result<u64, Failure>>>) -> Result<u64, Failure> {
    let joined = threads.into_iter().map(|it| it.join().map_err(|_| "a client panicked")?);
    joined.sum()
}

/// Collects the latencies of producers and consumers once a second, until the sender of `end` is
/// dropped.
fn observe(
    mut collectors: [Collector; 2],
    end: &Receiver<()>,
    live: &Live,
) -> Result<([Collector; 2], Timeline), Failure> {
    let clock = SystemClock;
    let mut latencies: BTreeMap<String, Vec<_>> = BTreeMap::new();
    every_second(&clock, clock.monotonic_ns(), end, |at_s| {
        let mut state = Vec::new();
        for (side, collector) in SIDES.into_iter().zip(&mut collectors) {
            latencies.entry(side.to_owned()).or_default().push(collector.collect(at_s)?);
            let so_far = collector.total();
            let [p50, p99, p999] =
                [0.5, 0.99, 0.999].map(|at| micros(so_far.value_at_quantile(at) as f64 / 1000.0));
            state.push(format!("{side} p50 {p50}  p99 {p99}  p99.9 {p999} us"));
        }
        live.show(Duration::from_secs_f64(at_s), &state.join("  "));
        Ok(())
    })?;
    Ok((collectors, Timeline { latencies, ..Timeline::default() }))
}
