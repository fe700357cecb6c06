//! `tailwater log bench open` measures how long opening a log takes, and how much it reads.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use tailwater_io::Purpose;
use tailwater_io::kernel::System;
use tailwater_io::posix::PosixStorage;
use tailwater_log::{Durability, Log, LogOptions, TailMemory, TopicOptions};

use super::scratch::{self, LogDirectory};
use crate::experiment::{Finished, Place, Table};
use crate::failure::Failure;
use crate::memory_limit::evict;
use crate::parsing::at_least_one;

/// Size at which a segment is sealed, in bytes. It is the smallest size that a topic accepts, so
/// that a log with many segments needs little data.
const SEGMENT_BYTES: u64 = 64 << 10;
/// Payload length in bytes of the one message in each segment. The next message does not fit into
/// the same segment.
const MESSAGE_BYTES: usize = 60 << 10;
/// Number of persister threads of the log while it is filled.
const PERSISTERS: usize = 16;
/// The purposes for which opening a log reads.
const PURPOSES: [Purpose; 4] =
    [Purpose::LogRead, Purpose::LogIndex, Purpose::LogJournal, Purpose::Metadata];

/// Arguments of the experiment.
#[derive(Debug, Clone, Args)]
pub struct OpenArguments {
    /// Number of partitions
    #[arg(long, default_value_t = 1000, value_parser = at_least_one)]
    partitions: usize,
    /// Number of segments per partition
    #[arg(long, default_value_t = 10, value_parser = at_least_one)]
    segments: usize,
    /// Number of times to open the log
    #[arg(long, default_value_t = 5, value_parser = at_least_one)]
    runs: usize,
    /// Parent directory of the log, on the disk to measure; the log is removed afterwards
    #[arg(long, default_value = "tailwater-log-open")]
    directory: PathBuf,
}

/// Duration of opening a log, and how much it read.
#[derive(Debug, Serialize)]
struct Opening {
    seconds: f64,
    /// Number of reads, and bytes read, for each of [`PURPOSES`].
    read: [(u64, u64); PURPOSES.len()],
}

/// Fills a log and opens it several times.
pub(super) fn run(arguments: &OpenArguments) -> Result<Finished, Failure> {
    let place = Place::take(&arguments.directory)?;
    let directory = LogDirectory::create(&place)?;
    say!("filling {} partitions of {} segments", arguments.partitions, arguments.segments);
    fill(arguments, directory.path())?;
    let columns = PURPOSES.map(|purpose| format!("|{}>20", purpose.name())).concat();
    let mut table = Table::new(&format!("run<6|seconds>10|reads>10|bytes read>12{columns}"));
    let mut runs = Vec::new();
    for run in 1..=arguments.runs {
        // Opening must read from the device, so evict the log's pages from the page cache.
        evict(&System::default(), &[directory.path()])?;
        let Opening { seconds, read } = open(directory.path())?;
        let (reads, bytes) = read.iter().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        let all = [run.to_string(), format!("{seconds:.3}"), reads.to_string(), bytes.to_string()];
        let by_purpose = read.map(|(reads, bytes)| format!("{reads}/{bytes}"));
        table.row(all.into_iter().chain(by_purpose));
        runs.push(Opening { seconds, read });
    }
    let text = format!(
        "Opening {} partitions of {} segments each\n\n{table}\n\
         Each run begins with an empty page cache. Columns of purposes: reads/bytes.\n",
        arguments.partitions, arguments.segments
    );
    Finished::new(text, &runs)
}

fn open(directory: &Path) -> Result<Opening, Failure> {
    let options = LogOptions::new()
        .with_create_if_missing(false)
        .with_storage(Arc::new(PosixStorage::new()))
        .with_tail_memory(TailMemory::Private);
    let began = Instant::now();
    let log = Log::open(directory, &options)?;
    let seconds = began.elapsed().as_secs_f64();
    let statistics = log.storage().statistics();
    let read = PURPOSES.map(|purpose| {
        let figures = statistics.snapshot(purpose);
        (figures.reads.count, figures.read_bytes)
    });
    log.close()?;
    Ok(Opening { seconds, read })
}

fn fill(arguments: &OpenArguments, directory: &Path) -> Result<(), Failure> {
    let options =
        LogOptions::new().with_tail_memory(TailMemory::Private).with_persisters(PERSISTERS);
    let topic =
        TopicOptions::new().with_durability(Durability::Memory).with_segment_bytes(SEGMENT_BYTES);
    let (log, partitions) = scratch::create(directory, &options, &topic, arguments.partitions)?;
    let batch = scratch::batch(0, 1, &[b'x'; MESSAGE_BYTES])?;
    for _ in 0..arguments.segments {
        // Append one batch to each partition. Each batch starts a new segment.
        for partition in &partitions {
            drop(partition.append(&batch)?);
        }
    }
    drop(partitions);
    Ok(log.close()?)
}
