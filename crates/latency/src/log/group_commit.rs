//! `tailwater log bench group-commit` measures how many appends one durable write acknowledges,
//! depending on how many partitions are appended to concurrently.
//!
//! Every partition has a fixed number of appends in flight. Each acknowledgement triggers the next
//! append. While a write of a partition is in flight, further appends to that partition wait, and
//! the next write persists and acknowledges all of them. Writes of different partitions are in
//! flight concurrently, and the kernel can merge their flush requests.

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use clap::Args;
use serde::{Deserialize, Serialize};
use tailwater_io::Purpose;
use tailwater_io::kernel::{Sampler, System, Target};
use tailwater_log::{Durability, IoModeChoice, LogOptions, TailMemory, TopicOptions};

use super::scratch::{self, BATCH_BYTES_MAX, LogDirectory};
use crate::experiment::{Finished, Place, Table, in_turn};
use crate::failure::Failure;
use crate::parsing::{at_least_one, seconds};

/// Interval between two samples of the kernel's counters.
const SAMPLED: Duration = Duration::from_millis(250);
/// Duration of the warm-up before each measurement, as a fraction of the duration of the
/// measurement. The warm-up is not counted.
const WARM_UP: f64 = 0.1;

/// Arguments of the experiment.
#[derive(Debug, Clone, Args)]
pub struct GroupCommitArguments {
    /// Number of partitions with concurrent appends; one row for each value
    #[arg(long, value_delimiter = ',', default_value = "1,16,256", value_parser = at_least_one)]
    partitions: Vec<usize>,
    /// Number of persister threads; one row for each value
    #[arg(long, value_delimiter = ',', default_value = "2,16", value_parser = at_least_one)]
    persisters: Vec<usize>,
    /// Number of appends in flight per partition; one row for each value
    #[arg(long, value_delimiter = ',', default_value = "1,8", value_parser = at_least_one)]
    in_flight: Vec<usize>,
    /// Number of messages per batch
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Payload length of a message, in bytes
    #[arg(
        long, default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(BATCH_BYTES_MAX))
    )]
    message_size: u32,
    /// Duration of the measurement for each row of the table, in seconds
    #[arg(long, default_value_t = 10.0, value_parser = seconds, allow_negative_numbers = true)]
    duration: f64,
    /// Parent directory of the log, on the disk to measure; the log is removed afterwards
    #[arg(long, default_value = "tailwater-log-commit")]
    directory: PathBuf,
}

/// A row of the table.
#[derive(Debug, Serialize)]
struct Row {
    partitions: usize,
    persisters: usize,
    in_flight: usize,
}

/// The figures of a row, per second: acknowledged appends, syncs of segments, and flush requests
/// that the device completed.
#[derive(Debug, Serialize, Deserialize)]
struct Figures {
    appends: f64,
    syncs: f64,
    flushes: Option<f64>,
}

/// Measures each row once.
pub(super) fn run(arguments: &GroupCommitArguments) -> Result<Finished, Failure> {
    let mut rows = Vec::new();
    for &partitions in &arguments.partitions {
        for &persisters in &arguments.persisters {
            for &in_flight in &arguments.in_flight {
                rows.push(Row { partitions, persisters, in_flight });
            }
        }
    }
    let place = Place::take(&arguments.directory)?;
    let measured = in_turn(rows, 1, |_, row| {
        let Row { partitions, persisters, in_flight } = row;
        say!("{partitions} partitions, {persisters} persisters, {in_flight} in flight");
        measure(arguments, &place, row)
    })?;
    let mut table = Table::new(
        "partitions>10|persisters>10|in flight>9|appends/s>10|syncs/s>10|appends/sync>12|\
         flushes/s>10|MB/s>8",
    );
    for row in &measured {
        let (Row { partitions, persisters, in_flight }, figures) = (&row.row, &row.median);
        let bytes = f64::from(arguments.batch) * f64::from(arguments.message_size);
        table.row([
            partitions.to_string(),
            persisters.to_string(),
            in_flight.to_string(),
            format!("{:.0}", figures.appends),
            format!("{:.0}", figures.syncs),
            format!("{:.1}", figures.appends / figures.syncs),
            figures.flushes.map_or("-".to_owned(), |flushes| format!("{flushes:.0}")),
            format!("{:.1}", figures.appends * bytes / 1e6),
        ]);
    }
    let text = format!(
        "Appends of {} messages of {} bytes to topics with durability disk, {} s each\n\n{table}\n\
         Syncs: durable writes to segments (O_DSYNC) and syncs of them. Flushes: requests that \
         the device completed,\nafter the kernel merged concurrent ones.\n",
        arguments.batch, arguments.message_size, arguments.duration,
    );
    Finished::new(text, &measured)
}

fn measure(arguments: &GroupCommitArguments, place: &Place, row: &Row) -> Result<Figures, Failure> {
    let directory = LogDirectory::create(place)?;
    let options = LogOptions::new()
        .with_append_io_mode(IoModeChoice::Direct)
        .with_tail_memory(TailMemory::Private)
        .with_persisters(row.persisters);
    let topic = TopicOptions::new().with_durability(Durability::Disk);
    let (log, partitions) = scratch::create(directory.path(), &options, &topic, row.partitions)?;
    let payload = vec![b'x'; arguments.message_size as usize];
    let batch = scratch::batch(0, arguments.batch, &payload)?;

    let (acknowledged, acknowledgements) = channel();
    let append = |partition: usize| -> Result<(), Failure> {
        let acknowledged = acknowledged.clone();
        let appended = partitions[partition].append(&batch)?;
        appended.ticket.on_complete(move |outcome| {
            // The send fails if the measurement of this row has ended.
            let _ = acknowledged.send((partition, outcome));
        });
        Ok(())
    };
    for _ in 0..row.in_flight {
        (0..partitions.len()).try_for_each(&append)?;
    }
    // Durable writes are counted as syncs in the statistics of the storage.
    let syncs = || log.storage().statistics().snapshot(Purpose::LogAppend).syncs.count;
    let start = Instant::now();
    let counted_from = start + Duration::from_secs_f64(arguments.duration * WARM_UP);
    let end = start + Duration::from_secs_f64(arguments.duration);
    let (mut appends, mut before, mut sampler) = (0_u64, 0, None);
    loop {
        let now = Instant::now();
        if now >= end {
            break;
        }
        if sampler.is_none() && now >= counted_from {
            (appends, before) = (0, syncs());
            let target = Target::new(&System::default(), directory.path());
            sampler = Some(Sampler::start(target, SAMPLED)?);
        }
        let (partition, outcome) = acknowledgements.recv()?;
        outcome?;
        appends += 1;
        append(partition)?;
    }
    let seconds = counted_from.elapsed().as_secs_f64();
    let syncs = (syncs() - before) as f64 / seconds;
    let sampled = sampler.and_then(Sampler::stop);
    drop(partitions);
    log.close()?;
    Ok(Figures {
        appends: appends as f64 / seconds,
        syncs,
        flushes: sampled.and_then(|sampled| sampled.figures.device_flushes_per_second),
    })
}
