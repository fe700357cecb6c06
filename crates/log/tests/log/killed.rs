//! A process that is killed while it appends: nothing is lost that was acknowledged.
//!
//! This test runs itself as the process: with `TAILWATER_LOG_CHILD` set to a directory, the test
//! `killed::child` appends to the log there until it is killed, and says on standard output what
//! was acknowledged.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::{batch, read_all};
use tailwater_log::{
    Durability, Log, LogOptions, PartialBlocks, TailMemory, TopicId, TopicOptions,
};

const CHILD: &str = "TAILWATER_LOG_CHILD";
/// Messages of a batch.
const BATCH: u64 = 5;

fn options(has_shared: bool) -> LogOptions {
    let tail_memory = if has_shared { TailMemory::Automatic } else { TailMemory::Private };
    LogOptions { tail_memory, ..LogOptions::default() }
}

fn topic_options(durability: Durability, partial_blocks: PartialBlocks) -> TopicOptions {
    TopicOptions { durability, partial_blocks, segment_bytes: 1 << 20, ..TopicOptions::default() }
}

const TOPICS: [(Durability, PartialBlocks); 4] = [
    (Durability::Process, PartialBlocks::Pad),
    (Durability::Process, PartialBlocks::Carry),
    (Durability::Disk, PartialBlocks::Pad),
    (Durability::Disk, PartialBlocks::Carry),
];

/// Appends to every topic until it is killed; does nothing unless it is the child.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(CHILD) else { return };
    let has_shared = std::env::var_os("TAILWATER_LOG_PRIVATE").is_none();
    let log = Log::open(Path::new(&directory), &options(has_shared)).expect("it opens");
    std::thread::scope(|scope| {
        for number in 0..TOPICS.len() as u32 {
            let partition = log
                .partition(TopicId { stream: 0, topic: number }.partition(0))
                .expect("it is there");
            scope.spawn(move || {
                let mut next = partition.stats().end_offset;
                loop {
                    let length = 100 + (next * 37 % 3000) as usize;
                    let appended = partition.append(&batch(next..next + BATCH, length));
                    let appended = appended.expect("an append");
                    assert_eq!(appended.base_offset, next);
                    next += BATCH;
                    appended.ticket.wait().expect("it is acknowledged");
                    let mut output = std::io::stdout().lock();
                    writeln!(output, "ack {number} {next}").expect("the parent reads");
                }
            });
        }
    });
}

fn kill_repeatedly(kills: usize, has_shared: bool) {
    let directory = tempfile::tempdir().expect("a directory");
    {
        let log = Log::open(directory.path(), &options(has_shared)).expect("it opens");
        log.create_stream(Some(0), "s").expect("a stream");
        for (number, (durability, partial)) in TOPICS.into_iter().enumerate() {
            let (id, name) = (Some(number as u32), format!("t{number}"));
            log.create_topic(0, id, &name, &topic_options(durability, partial), 1)
                .expect("a topic");
        }
        log.close().expect("it closes");
    }
    let mut seed = tailwater_testkit::seed::rng();
    eprintln!("TAILWATER_SEED={}", seed.value());
    let mut acknowledged = [0; TOPICS.len()];
    for kill in 0..kills {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "killed::child", "--nocapture"]).env(CHILD, directory.path());
        if !has_shared {
            command.env("TAILWATER_LOG_PRIVATE", "1");
        }
        let mut process =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a process");
        let output = process.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        let reading = std::thread::scope(|scope| {
            let reading = scope.spawn(move || {
                let mut acknowledged = [0; TOPICS.len()];
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let Some(rest) = line.strip_prefix("ack ") else { continue };
                    // The first one says that the child is at work.
                    let _ = sender.send(());
                    let (topic, next) = rest.split_once(' ').expect("two numbers");
                    let (topic, next): (usize, u64) =
                        (topic.parse().expect("a number"), next.parse().expect("a number"));
                    acknowledged[topic] = next;
                }
                acknowledged
            });
            lines.recv_timeout(Duration::from_secs(30)).expect("the child appends");
            std::thread::sleep(Duration::from_millis(seed.rng.u64(1..120)));
            process.kill().expect("it is killed");
            process.wait().expect("it ends");
            reading.join().expect("it reads")
        });
        for (all, new) in acknowledged.iter_mut().zip(reading) {
            *all = new.max(*all);
        }
        let log = Log::open(directory.path(), &options(has_shared)).expect("it opens again");
        for (number, acknowledged) in acknowledged.iter().enumerate() {
            let id = TopicId { stream: 0, topic: number as u32 }.partition(0);
            let partition = log.partition(id).expect("it is there");
            let found = read_all(&partition);
            let expected: Vec<(u64, u64)> =
                (0..found.len() as u64).map(|number| (number, number)).collect();
            assert!(found == expected, "kill {kill}: topic {number} has a gap or a duplicate");
            assert!(
                found.len() as u64 >= *acknowledged,
                "kill {kill}: topic {number} has {} of {acknowledged} acknowledged messages: {:?}",
                found.len(),
                log.open_report()
            );
        }
        log.close().expect("it closes");
    }
}

/// How often a process is killed.
fn kills() -> usize {
    12 * tailwater_testkit::seed::rounds()
}

#[test]
fn what_was_acknowledged_survives_the_process_in_shared_memory() {
    kill_repeatedly(kills(), true);
}

#[test]
fn what_was_acknowledged_survives_the_process_without_shared_memory() {
    kill_repeatedly(kills() / 3, false);
}
