//! Starts child processes for tests: one that appends to a log until it is killed or its disk
//! fails, and one that reads what the log contains afterwards. Both run this test program, with
//! environment variables that select the task.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tailwater_io::thread::spawn;
use tailwater_log::{
    Durability, Log, LogOptions, PartialBlocks, Partition, Result, TailMemory, TopicId,
    TopicOptions,
};

use crate::common::{batch, read_all};

/// Environment variable with the task of a child process: `append` or `look`, a space, and the
/// directory of the log.
const TASK: &str = "TAILWATER_LOG_TASK";
/// Environment variable that makes a child process use no shared memory.
const PRIVATE: &str = "TAILWATER_LOG_PRIVATE";
/// Environment variable with the least number that the next message of the churned topic may have.
/// Numbers must never decrease, and after a purge the log may be empty, so that the last number
/// cannot be read from it.
const NEXT: &str = "TAILWATER_LOG_NEXT";
/// Number of messages in a batch.
const BATCH: u64 = 5;
/// Number of batches appended to the churned topic between two purges.
const BATCHES_PER_PURGE: u64 = 30;
/// Maximum time that [`append_until`] waits for the first report of a child process before it kills
/// the child. Without `kill_after`, also the time from the first report until the child is killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The durability and the handling of partial blocks of each topic of the log. The last topic is
/// churned: repeatedly purged, truncated and trimmed.
pub(crate) const TOPICS: [(Durability, PartialBlocks); 5] = [
    (Durability::Process, PartialBlocks::Pad),
    (Durability::Process, PartialBlocks::Carry),
    (Durability::Disk, PartialBlocks::Pad),
    (Durability::Disk, PartialBlocks::Carry),
    (Durability::Disk, PartialBlocks::Pad),
];

/// Index of the churned topic, which the test repeatedly purges, truncates and trims.
const CHURNED: usize = TOPICS.len() - 1;

/// What child processes reported about a topic before they died. Messages are numbered from 0.
/// Recovery must keep acknowledged messages, unless they were purged, and must not bring back
/// purged messages.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Promised {
    /// The number of the last acknowledged message, plus 1; 0 if there is none.
    pub(crate) acknowledged: u64,
    /// The number of the last purged message, plus 1; 0 if there is none.
    pub(crate) purged: u64,
}

/// The messages found in a topic: the number of the first message (`first`), and the number of the
/// last message plus 1 (`end`). Both are 0 for an empty topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) first: u64,
    pub(crate) end: u64,
}

/// The entry point of a child process. In the parent process, this test does nothing.
#[test]
fn child_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (word, directory) = task.split_once(' ').expect("two words");
    let done = match word {
        "append" => append(Path::new(directory), false),
        "append-directly" => append(Path::new(directory), true),
        "look" => look(Path::new(directory)),
        _ => panic!("no task: {task}"),
    };
    if let Err(error) = done {
        say(&format!("failed {error:?}"));
    }
}

fn say(line: &str) {
    // A line break precedes the line, because the test harness may have printed an incomplete line.
    let mut output = std::io::stdout().lock();
    output.write_all(format!("\n{line}\n").as_bytes()).expect("a process that reads the output");
}

fn open(directory: &Path) -> Result<Log> {
    let tail_memory = match std::env::var_os(PRIVATE) {
        Some(_) => TailMemory::Private,
        None => TailMemory::Automatic,
    };
    let log = Log::open(directory, &LogOptions::new().with_tail_memory(tail_memory))?;
    if !log.streams().contains_key(&0) {
        log.create_stream(Some(0), "s")?;
    }
    for (number, (durability, partial_blocks)) in TOPICS.into_iter().enumerate() {
        let (id, name) = (number as u32, format!("t{number}"));
        let options = TopicOptions::new()
            .with_durability(durability)
            .with_partial_blocks(partial_blocks)
            .with_segment_bytes(256 << 10);
        let there = log.streams().get(&0).and_then(|stream| stream.topics.get(&id).cloned());
        match there {
            None => drop(log.create_topic(0, Some(id), &name, &options, 1)?),
            // An earlier process may have died between creating the topic and its partition.
            Some(topic) if topic.partitions.is_empty() => {
                log.create_partitions(TopicId { stream: 0, topic: id }, 1)?;
            }
            Some(_) => {}
        }
    }
    Ok(log)
}

fn partition(log: &Log, number: usize) -> Result<std::sync::Arc<Partition>> {
    log.partition(TopicId { stream: 0, topic: number as u32 }.partition(0))
}

/// Returns the number of the last message of a topic, plus 1; 0 for an empty topic.
fn next_number(partition: &Partition) -> u64 {
    read_all(partition).last().map_or(0, |(_, number)| number + 1)
}

/// Appends to all topics concurrently. Each topic has its own thread, which ends when an append to
/// the topic fails.
/// Appends until an error. If `directly`, the effective mode of appends must be direct.
fn append(directory: &Path, directly: bool) -> Result<()> {
    let log = open(directory)?;
    assert!(!directly || log.modes().append == "direct", "{:?}", log.modes());
    std::thread::scope(|scope| {
        for number in 0..TOPICS.len() {
            let log = &log;
            scope.spawn(move || {
                let done = match number {
                    CHURNED => churn(log, number),
                    _ => append_to(log, number),
                };
                if let Err(error) = done {
                    say(&format!("failed {error:?}"));
                }
            });
        }
    });
    Ok(())
}

fn append_to(log: &Log, number: usize) -> Result<()> {
    let partition = partition(log, number)?;
    let mut next = next_number(&partition);
    loop {
        append_batch(&partition, next)?;
        next += BATCH;
        say(&format!("acknowledged {number} {next}"));
    }
}

fn append_batch(partition: &Partition, next: u64) -> Result<()> {
    let length = 100 + (next * 37 % 3000) as usize;
    partition.append(&batch(next..next + BATCH, length))?.ticket.wait()
}

/// Appends to the churned topic. Between appends, repeatedly purges it, removes its segments, and
/// truncates it.
fn churn(log: &Log, number: usize) -> Result<()> {
    let partition = partition(log, number)?;
    let least = std::env::var(NEXT).map_or(0, |next| next.parse().expect("a number"));
    let mut next = next_number(&partition).max(least).max(1);
    loop {
        for round in 0..BATCHES_PER_PURGE {
            append_batch(&partition, next)?;
            next += BATCH;
            say(&format!("acknowledged {number} {next}"));
            match round % 10 {
                3 => partition.delete_segments(1, u64::MAX).wait()?,
                6 => partition.retain().wait()?,
                // This truncation is to the current end. It must therefore neither seal a segment
                // nor remove a message.
                9 => log.truncate(partition.id(), partition.stats().end_offset)?,
                _ => {}
            }
        }
        log.purge_topic(partition.id().topic())?;
        say(&format!("purged {number} {next}"));
    }
}

/// Prints which messages every topic contains. Reports a failure if the messages of a topic are not
/// consecutive.
fn look(directory: &Path) -> Result<()> {
    let log = open(directory)?;
    for number in 0..TOPICS.len() {
        let partition = partition(&log, number)?;
        let found = read_all(&partition);
        let follow =
            found.windows(2).all(|two| two[0].0 + 1 == two[1].0 && two[0].1 + 1 == two[1].1);
        if !follow {
            say(&format!("failed topic {number} has a gap or a duplicate"));
        }
        let first = found.first().map_or(0, |(_, number)| *number);
        let end = found.last().map_or(0, |(_, number)| number + 1);
        say(&format!("found {number} {first} {end}"));
    }
    log.close()
}

/// A child process, which is killed when this value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(word: &str, directory: &Path, has_shared: bool, next: u64) -> Process {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "process::child_process", "--nocapture", "--test-threads=1"]);
    command.env(TASK, format!("{word} {}", directory.display()));
    command.env(NEXT, next.to_string());
    if !has_shared {
        command.env(PRIVATE, "1");
    }
    Process(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a process"))
}

/// Returns whether a log on this machine uses shared memory by default.
pub(crate) fn has_shared_memory() -> bool {
    let directory = tempfile::tempdir().expect("a directory");
    let log = Log::open(directory.path().join("log"), &LogOptions::default()).expect("a log");
    log.modes().tail == "shared memory"
}

/// Starts a child process that appends, and records its reports in `promised` until it ends. If
/// `directly`, the child ends at once unless the effective mode of appends is direct. With
/// `kill_after`, the child is killed this long after its first report. With `None`, the caller
/// makes the disk fail, which ends the appends; the child is killed after its first error, or at
/// the latest [`PATIENCE`] after its first report.
///
/// # Errors
/// The last error that the child reported.
pub(crate) fn append_until(
    directory: &Path,
    has_shared: bool,
    directly: bool,
    promised: &mut [Promised; TOPICS.len()],
    kill_after: Option<Duration>,
) -> std::result::Result<(), String> {
    let churned = promised[CHURNED];
    let next = churned.acknowledged.max(churned.purged);
    let word = if directly { "append-directly" } else { "append" };
    let mut process = start(word, directory, has_shared, next);
    let output = process.0.stdout.take().expect("standard output");
    let id = process.0.id().to_string();
    let (began, begun) = std::sync::mpsc::channel::<()>();
    let killer = spawn("kills", move || {
        // The error of a timeout is ignored: a child that reports nothing is killed, too.
        let _ = begun.recv_timeout(PATIENCE);
        std::thread::sleep(kill_after.unwrap_or(PATIENCE));
        let _ = Command::new("kill").args(["-9", &id]).stderr(Stdio::null()).status();
    });
    let mut killer = Some(killer.expect("a thread"));
    let mut failure = Ok(());
    for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
        if let Some(error) = line.strip_prefix("failed ") {
            failure = Err(error.to_owned());
            if kill_after.is_none() {
                // The disk has failed, so later output does not matter.
                break;
            }
            continue;
        }
        let mut words = line.split(' ');
        let (Some(word), Some(topic), Some(next)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let (Ok(topic), Ok(next)) = (topic.parse::<usize>(), next.parse::<u64>()) else { continue };
        match word {
            "acknowledged" => promised[topic].acknowledged = next,
            "purged" => promised[topic].purged = next,
            _ => continue,
        }
        let _ = began.send(());
    }
    if kill_after.is_none() {
        drop(process);
        // The thread is not joined, because it may sleep for up to [`PATIENCE`].
        std::mem::forget(killer.take());
    } else {
        drop(killer);
    }
    failure
}

/// Starts a child process that reads a log. Returns the messages found in each topic.
///
/// # Errors
/// The problem that the child reported.
pub(crate) fn find(
    directory: &Path,
    has_shared: bool,
) -> std::result::Result<[Found; TOPICS.len()], String> {
    let mut process = start("look", directory, has_shared, 0);
    let output = process.0.stdout.take().expect("standard output");
    let mut all = [Found { first: 0, end: 0 }; TOPICS.len()];
    let mut seen = 0;
    for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
        if let Some(error) = line.strip_prefix("failed ") {
            return Err(error.to_owned());
        }
        let Some(numbers) = line.strip_prefix("found ") else { continue };
        let numbers: Vec<u64> =
            numbers.split(' ').map(|it| it.parse().expect("a number")).collect();
        all[numbers[0] as usize] = Found { first: numbers[1], end: numbers[2] };
        seen += 1;
    }
    if seen < TOPICS.len() { Err(format!("it looked at {seen} topics and ended")) } else { Ok(all) }
}

/// Compares the messages found in each topic with those promised. `survives` returns whether topics
/// with the given durability must have kept their acknowledged messages.
///
/// # Errors
/// A description of the first violation.
pub(crate) fn check(
    found: &[Found; TOPICS.len()],
    promised: &[Promised; TOPICS.len()],
    survives: impl Fn(Durability) -> bool,
) -> std::result::Result<(), String> {
    for (number, (durability, _)) in TOPICS.into_iter().enumerate() {
        let (found, promised) = (found[number], promised[number]);
        let is_empty = found.first == found.end;
        // A topic may be empty if the last reported purge covered all acknowledged messages.
        let all_purged = is_empty && promised.purged >= promised.acknowledged;
        if survives(durability) && found.end < promised.acknowledged && !all_purged {
            // The child may have purged the topic, and died before it reported the purge.
            let may_be_purged = number == CHURNED && is_empty;
            if !may_be_purged {
                return Err(format!("topic {number}: {found:?} of {promised:?}"));
            }
        }
        if !is_empty && found.first < promised.purged {
            return Err(format!("topic {number}: {found:?} reappeared: {promised:?}"));
        }
        if number != CHURNED && found.first != 0 {
            return Err(format!("topic {number}: {found:?} begins late"));
        }
    }
    Ok(())
}
