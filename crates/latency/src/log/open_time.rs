//! `tailwater log bench open` measures how long opening a log takes, and how much it reads.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use tailwater_format::message::batch::Builder;
use tailwater_io::Purpose;
use tailwater_io::kernel::System;
use tailwater_io::posix::PosixStorage;
use tailwater_log::{Durability, Log, LogOptions, TailMemory, TopicOptions};

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

/// Fills a log, opens it several times and returns a table.
///
/// # Errors
/// Errors of the log and the operating system.
pub(super) fn run(arguments: &OpenArguments) -> Result<String, Failure> {
    let parent = &arguments.directory;
    tailwater_io::Storage::create_directory(&PosixStorage::new(), parent)?;
    let directory = tempfile::Builder::new().prefix("log-").tempdir_in(parent)?;
    say!("filling {} partitions of {} segments", arguments.partitions, arguments.segments);
    fill(arguments, directory.path())?;
    let mut text = format!(
        "Opening {} partitions of {} segments each\n\n{:6} {:>10} {:>10} {:>12}",
        arguments.partitions, arguments.segments, "run", "seconds", "reads", "bytes read"
    );
    for purpose in PURPOSES {
        let _ = write!(text, " {:>20}", purpose.name());
    }
    text.push('\n');
    for run in 1..=arguments.runs {
        // Opening must read from the device, so evict the log's pages from the page cache.
        evict(&System::default(), &[directory.path()])?;
        let _ = writeln!(text, "{run:<6} {}", open(directory.path())?);
    }
    text.push_str(
        "\nEach run begins with an empty page cache. Columns of purposes: reads/bytes.\n",
    );
    Ok(text)
}

/// Opens the log and returns its row of the table.
fn open(directory: &Path) -> Result<String, Failure> {
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
    let (reads, bytes) = read.iter().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    let mut line = format!("{seconds:>10.3} {reads:>10} {bytes:>12}");
    for (reads, bytes) in read {
        let _ = write!(line, " {:>20}", format!("{reads}/{bytes}"));
    }
    log.close()?;
    Ok(line)
}

fn fill(arguments: &OpenArguments, directory: &Path) -> Result<(), Failure> {
    let options =
        LogOptions::new().with_tail_memory(TailMemory::Private).with_persisters(PERSISTERS);
    let log = Log::open(directory, &options)?;
    let stream = log.create_stream(None, "open")?;
    let topic =
        TopicOptions::new().with_durability(Durability::Memory).with_segment_bytes(SEGMENT_BYTES);
    let partitions = u32::try_from(arguments.partitions)?;
    let topic = log.create_topic(stream, None, "open", &topic, partitions)?;
    let mut batch = Builder::new(0);
    batch.push(0, 0, &vec![b'x'; MESSAGE_BYTES], b"")?;
    let batch = batch.finish();
    for _ in 0..arguments.segments {
        // Append one batch to each partition. Each batch starts a new segment.
        for partition in 0..partitions {
            drop(log.partition(topic.partition(partition))?.append(&batch)?);
        }
    }
    Ok(log.close()?)
}
