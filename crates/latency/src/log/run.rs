//! One run of the experiment: a single measurement for one row of the result table.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use tailwater_io::kernel::{Sampler, System, Target};
use tailwater_log::{Log, Partition};

use super::clients::{Measured, Schedule, consume, produce};
use super::event_loop::{self, Request};
use super::figures::{Figures, Side};
use super::report::Row;
use super::{LogBenchArguments, scratch};
use crate::failure::Failure;

/// Duration of the warm-up, which is not measured, as a fraction of the duration of a run.
const WARM_UP: f64 = 0.1;
/// Interval between two samples of the kernel's counters.
const SAMPLED: Duration = Duration::from_millis(250);

/// Makes a single measurement for one row of the result table, on a new log.
pub(super) fn run(arguments: &LogBenchArguments, row: &Row) -> Result<Figures, Failure> {
    let directory = scratch::directory(&arguments.directory)?;
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
    let (producers, consumers) = work(arguments, &log, &partitions, is_inline)?;
    let kernel = sampler.stop().map(|figures| figures.named()).unwrap_or_default();
    drop(partitions);
    log.close()?;
    let side = |measured: &Measured| {
        let seconds = arguments.duration * (1.0 - WARM_UP);
        let bytes = measured.messages as f64 * f64::from(arguments.message_size);
        let batches = measured.messages as f64 / f64::from(arguments.batch);
        Side::new(&measured.latencies, batches, bytes / seconds)
    };
    Ok(Figures {
        producers: side(&producers),
        consumers: side(&consumers),
        kernel: kernel
            .into_iter()
            .filter_map(|(name, figure)| Some((name.to_owned(), figure?)))
            .collect(),
    })
}

/// Runs event loops, producers and consumers to the end, and returns what the producers and what
/// the consumers measured.
fn work(
    arguments: &LogBenchArguments,
    log: &Log,
    partitions: &[Arc<Partition>],
    is_inline: bool,
) -> Result<(Measured, Measured), Failure> {
    let start = Instant::now();
    let seconds = Duration::from_secs_f64;
    let schedule = Schedule {
        start,
        measured_from: start + seconds(arguments.duration * WARM_UP),
        end: start + seconds(arguments.duration),
    };
    let producers_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut loops = Vec::new();
        let mut serving = Vec::new();
        for _ in 0..arguments.loops {
            let (sender, requests) = channel::<Request>();
            loops.push(sender);
            serving.push(
                scope.spawn(move || event_loop::serve(log, partitions, &requests, is_inline)),
            );
        }
        let producing: Vec<_> = (0..arguments.clients)
            .map(|number| {
                let loops = loops.clone();
                scope.spawn(move || produce(arguments, schedule, number, &loops))
            })
            .collect();
        let consuming: Vec<_> = (0..arguments.clients)
            .map(|number| {
                let (loops, ended) = (loops.clone(), &producers_ended);
                scope.spawn(move || consume(arguments, schedule, number, &loops, ended))
            })
            .collect();
        drop(loops);
        let produced = sum(producing);
        producers_ended.store(true, Ordering::Release);
        let consumed = sum(consuming);
        for serving in serving {
            serving.join().map_err(|_| "an event loop panicked")??;
        }
        Ok((produced?, consumed?))
    })
}

fn sum(
    threads: Vec<thread::ScopedJoinHandle<'_, Result<Measured, Failure>>>,
) -> Result<Measured, Failure> {
    let mut all = Measured::new()?;
    for thread in threads {
        all.add(&thread.join().map_err(|_| "a client panicked")??)?;
    }
    Ok(all)
}
