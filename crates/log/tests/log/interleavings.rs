//! Explores interleavings of a partition's commands with the model checker shuttle. At every use of
//! a lock, an atomic or a condition variable, shuttle chooses which thread continues.
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::common::{Machine, batch, messages, read_all, topic};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread;
use tailwater_io::{Clock as _, Operation, Storage as _};
use tailwater_log::{
    Consumer, Durability, ErrorKind, Log, PartialBlocks, Partition, PartitionId, Strategy,
    TopicOptions,
};

/// Number of runs of each scenario with a random schedule (`RANDOM_RUNS`), and with few thread
/// switches at random points (`PCT_RUNS`).
const RANDOM_RUNS: usize = 1500;
const PCT_RUNS: usize = 1500;

fn explore(scenario: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(scenario.clone(), RANDOM_RUNS);
    shuttle::check_pct(scenario, PCT_RUNS, 3);
}

/// Number of threads that run pending work. There are two, so that a test can find defects in which
/// one thread's work on a partition overtakes the other's.
const PERSISTERS: usize = 2;

/// A log with one partition, and threads that run the log's pending work until the log is dropped.
struct Served {
    machine: Machine,
    log: Arc<Log>,
    partition: Arc<Partition>,
    is_over: Arc<AtomicBool>,
    persisters: Vec<thread::JoinHandle<()>>,
}

impl Served {
    fn new(durability: Durability, partial: PartialBlocks) -> Self {
        Self::with_options(
            &topic(durability, partial)
                .with_messages_required_to_save(1)
                .with_size_of_messages_required_to_save(1),
        )
    }

    fn with_options(options: &TopicOptions) -> Self {
        let machine = Machine::new(1, options.durability == Durability::Process);
        let log = Arc::new(machine.open());
        let stream = log.create_stream(None, "s").expect("a stream");
        let topic = log.create_topic(stream, None, "t", options, 1).expect("a topic");
        let partition = log.partition(topic.partition(0)).expect("a partition");
        let is_over = Arc::new(AtomicBool::new(false));
        let persist = |_| {
            let (log, is_over) = (Arc::clone(&log), Arc::clone(&is_over));
            thread::spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    log.run_pending();
                    thread::yield_now();
                }
                log.run_pending();
            })
        };
        let persisters = (0..PERSISTERS).map(persist).collect();
        Self { machine, log, partition, is_over, persisters }
    }

    /// Ends the threads, closes the log, and opens it again.
    fn reopen(self) -> (Log, PartitionId) {
        let (machine, id) = self.close();
        (machine.open(), id)
    }

    /// Ends the threads and closes the log.
    fn close(self) -> (Machine, PartitionId) {
        self.is_over.store(true, Ordering::SeqCst);
        for persister in self.persisters {
            persister.join().expect("no panic");
        }
        let id = self.partition.id();
        drop(self.partition);
        self.log.close().expect("the log closes");
        drop(self.log);
        (self.machine, id)
    }
}

/// Checks the calls on segments since the recording began: a removed file, or a file of a removed
/// directory, is not touched again, and a partition writes its segments one after the other.
fn assert_order_of_files(machine: &Machine) {
    let mut removed = BTreeSet::new();
    let mut written: BTreeMap<&Path, &Path> = BTreeMap::new();
    let calls = machine.storage.calls();
    for call in &calls {
        let path = &*call.path;
        let Some(directory) = path.parent() else { continue };
        match call.operation {
            Operation::Remove => drop(removed.insert(path)),
            Operation::Create | Operation::Write | Operation::Sync | Operation::Truncate => {
                let is_removed = removed.contains(path) || removed.contains(directory);
                assert!(!is_removed, "{call:?} after its removal");
            }
            _ => {}
        }
        if call.operation == Operation::Write && path.extension().is_some_and(|it| it == "log") {
            let last = written.insert(directory, path);
            assert!(last.is_none_or(|last| last <= path), "{call:?} after a write to {last:?}");
        }
    }
}

/// Appends batches of one message each, and returns the numbers that were acknowledged.
fn append_all(partition: &Partition, numbers: std::ops::Range<u64>) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    for number in numbers {
        match partition.append(&batch(number..number + 1, 100)) {
            Ok(appended) => {
                if appended.ticket.wait().is_ok() {
                    acknowledged.push(number);
                }
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
        }
    }
    acknowledged
}

#[test]
fn a_purge_removes_exactly_the_messages_before_it() {
    for durability in [Durability::Disk, Durability::Process] {
        explore(move || {
            let served = Served::new(durability, PartialBlocks::Pad);
            let appending = {
                let partition = Arc::clone(&served.partition);
                thread::spawn(move || append_all(&partition, 0..4))
            };
            let purging = {
                let partition = Arc::clone(&served.partition);
                thread::spawn(move || partition.purge().wait().expect("a purge"))
            };
            let reading =
                {
                    let partition = Arc::clone(&served.partition);
                    thread::spawn(move || {
                        for _ in 0..3 {
                            let polled = partition.poll(Strategy::First, 10).expect("a poll");
                            let found = messages(&polled);
                            // A poll sees the partition either before or after the purge. In both
                            // cases, the offsets of the messages must be consecutive, and so must
                            // the numbers that the test wrote into the messages.
                            assert!(found.windows(2).all(|two| {
                                two[0].0 + 1 == two[1].0 && two[0].1 + 1 == two[1].1
                            }));
                        }
                    })
                };
            let acknowledged = appending.join().expect("appends without panic");
            purging.join().expect("purges without panic");
            reading.join().expect("reads without panic");
            assert_eq!(acknowledged, [0, 1, 2, 3]);
            let found = read_all(&served.partition);
            let (log, id) = served.reopen();
            let again = read_all(&log.partition(id).expect("a partition"));
            assert_eq!(found, again);
            // The remaining messages must be those appended last, and their offsets must begin at
            // 0.
            let numbers: Vec<u64> = found.iter().map(|(_, number)| *number).collect();
            assert_eq!(numbers, (4 - numbers.len() as u64..4).collect::<Vec<_>>());
            assert!((0..).zip(&found).all(|(offset, found)| found.0 == offset));
            log.close().expect("the log closes");
        });
    }
}

#[test]
fn a_truncation_keeps_messages_below_it_and_later_appends() {
    explore(|| {
        let served = Served::new(Durability::Disk, PartialBlocks::Pad);
        assert_eq!(append_all(&served.partition, 0..2), [0, 1]);
        let appending = {
            let partition = Arc::clone(&served.partition);
            thread::spawn(move || append_all(&partition, 2..4))
        };
        let truncating = {
            let partition = Arc::clone(&served.partition);
            thread::spawn(move || partition.truncate(1).wait().expect("a truncation"))
        };
        assert_eq!(appending.join().expect("appends without panic"), [2, 3]);
        truncating.join().expect("truncations without panic");
        let found = read_all(&served.partition);
        let (log, id) = served.reopen();
        assert_eq!(found, read_all(&log.partition(id).expect("a partition")));
        let numbers: Vec<u64> = found.iter().map(|(_, number)| *number).collect();
        let possible: [&[u64]; 3] = [&[0], &[0, 3], &[0, 2, 3]];
        assert!(possible.contains(&&numbers[..]), "{numbers:?}");
        log.close().expect("the log closes");
    });
}

#[test]
fn a_close_persists_accepted_appends() {
    for partial in [PartialBlocks::Pad, PartialBlocks::Carry] {
        explore(move || {
            let served = Served::new(Durability::Process, partial);
            let appending = {
                let partition = Arc::clone(&served.partition);
                thread::spawn(move || append_all(&partition, 0..3))
            };
            let flushing = {
                let partition = Arc::clone(&served.partition);
                thread::spawn(move || drop(partition.flush(true).wait()))
            };
            served.log.close().expect("the log closes");
            let acknowledged = appending.join().expect("appends without panic");
            flushing.join().expect("flushes without panic");
            let (log, id) = served.reopen();
            let found = read_all(&log.partition(id).expect("a partition"));
            let numbers: Vec<u64> = found.iter().map(|(_, number)| *number).collect();
            assert_eq!(numbers, acknowledged);
            log.close().expect("the log closes");
        });
    }
}

#[test]
fn a_close_persists_acknowledged_appends_of_a_topic_created_concurrently() {
    explore(|| {
        let served = Served::new(Durability::Process, PartialBlocks::Pad);
        let creating = {
            let log = Arc::clone(&served.log);
            thread::spawn(move || {
                let options = topic(Durability::Process, PartialBlocks::Pad);
                let created = match log.create_topic(0, None, "late", &options, 1) {
                    Ok(topic) => log.partition(topic.partition(0)),
                    Err(error) => Err(error),
                };
                match created {
                    Ok(partition) => append_all(&partition, 0..1),
                    Err(error) => {
                        // These are the errors of a call on a closed log, which has no partitions
                        // any more.
                        let kinds = [ErrorKind::Closed, ErrorKind::NotFound];
                        assert!(kinds.contains(&error.kind()), "{error}");
                        Vec::new()
                    }
                }
            })
        };
        served.log.close().expect("the log closes");
        let acknowledged = creating.join().expect("no panic");
        let (log, id) = served.reopen();
        if !acknowledged.is_empty() {
            let late = PartitionId { topic: 1, ..id };
            let found = read_all(&log.partition(late).expect("the partition"));
            let numbers: Vec<u64> = found.iter().map(|(_, number)| *number).collect();
            assert_eq!(numbers, acknowledged);
        }
        log.close().expect("the log closes");
    });
}

#[test]
fn a_poll_of_the_tail_never_waits_and_never_misses() {
    explore(|| {
        let served = Served::new(Durability::Memory, PartialBlocks::Pad);
        let appending = {
            let partition = Arc::clone(&served.partition);
            thread::spawn(move || append_all(&partition, 0..4))
        };
        let mut next = 0;
        while next < 4 {
            let polled = served.partition.poll(Strategy::Offset(next), 10).expect("a poll");
            for (offset, number) in messages(&polled) {
                assert_eq!((offset, number), (next, next));
                next += 1;
            }
            thread::yield_now();
        }
        appending.join().expect("appends without panic");
        let (log, _) = served.reopen();
        log.close().expect("the log closes");
    });
}

/// Regression test: a poll by timestamp looked at the chunks that existed when it began, but up to
/// an end that was newer. It returned no message although the newest message was visible and not
/// older than the timestamp.
#[test]
fn a_poll_by_timestamp_finds_a_visible_message() {
    explore(|| {
        let served = Served::new(Durability::Memory, PartialBlocks::Pad);
        // Each batch needs a chunk of its own.
        drop(served.partition.append(&batch(0..1, 30_000)).expect("an append"));
        let clock = served.machine.storage.clock();
        clock.advance(1_000_000);
        let since_us = clock.wall_us();
        let appending = {
            let partition = Arc::clone(&served.partition);
            thread::spawn(move || {
                drop(partition.append(&batch(1..2, 30_000)).expect("an append"));
            })
        };
        loop {
            let polled = served.partition.poll(Strategy::Timestamp(since_us), 10).expect("a poll");
            if polled.partition_last_offset == Some(1) {
                assert_eq!(messages(&polled), [(1, 1)]);
                break;
            }
            assert_eq!(polled.count, 0);
            thread::yield_now();
        }
        appending.join().expect("appends without panic");
        let (log, _) = served.reopen();
        log.close().expect("the log closes");
    });
}

/// Regression test: retention that was about to remove the newest message checked that every
/// message was persisted, but began the next segment only later. A batch that was appended in
/// between belonged to the old segment. Persisting that batch created the old segment's file again,
/// and thereby truncated the file.
#[test]
fn retention_removes_no_message_that_is_appended_meanwhile() {
    for partial in [PartialBlocks::Pad, PartialBlocks::Carry] {
        explore(move || {
            let options = topic(Durability::Disk, partial).with_message_expiry_us(1_000_000);
            let served = Served::with_options(&options);
            assert_eq!(append_all(&served.partition, 0..2), [0, 1]);
            served.machine.storage.clock().advance(5_000_000_000);
            let appending = {
                let partition = Arc::clone(&served.partition);
                thread::spawn(move || append_all(&partition, 2..4))
            };
            served.partition.retain().wait().expect("retention");
            assert_eq!(appending.join().expect("appends without panic"), [2, 3]);
            let found = read_all(&served.partition);
            assert!(found.ends_with(&[(2, 2), (3, 3)]), "{found:?}");
            let (log, id) = served.reopen();
            let again = read_all(&log.partition(id).expect("a partition"));
            assert!(again.ends_with(&[(2, 2), (3, 3)]), "{again:?}");
            log.close().expect("the log closes");
        });
    }
}

/// Regression test: storing an offset compared the offset with the end of the partition. Then a
/// truncation lowered the end, and lowered all stored offsets beyond it. Only then was the new
/// offset stored, so that it was beyond the end.
#[test]
fn no_stored_offset_is_beyond_the_end_of_a_truncated_partition() {
    explore(|| {
        let served = Served::new(Durability::Disk, PartialBlocks::Pad);
        assert_eq!(append_all(&served.partition, 0..3), [0, 1, 2]);
        let (id, consumer) = (served.partition.id(), Consumer::Single(1));
        let storing = {
            let log = Arc::clone(&served.log);
            thread::spawn(move || match log.store_offset(id, consumer, 2) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}"),
            })
        };
        served.log.truncate(id, 1).expect("a truncation");
        storing.join().expect("no panic");
        let stored = served.log.offset(id, consumer).expect("a partition");
        assert!(stored.is_none_or(|offset| offset < 1), "{stored:?}");
        let (log, _) = served.reopen();
        log.close().expect("the log closes");
    });
}

#[test]
fn a_deletion_leaves_no_file_and_spares_a_new_topic_of_the_id() {
    for durability in [Durability::Disk, Durability::Process] {
        explore(move || {
            let served = Served::new(durability, PartialBlocks::Pad);
            served.machine.storage.start_recording();
            let id = served.partition.id().topic();
            let appending = {
                let partition = Arc::clone(&served.partition);
                thread::spawn(move || {
                    for number in 0..3 {
                        let appended = partition.append(&batch(number..number + 1, 100));
                        let waited = appended.and_then(|appended| appended.ticket.wait());
                        if let Err(error) = waited {
                            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                        }
                    }
                })
            };
            served.log.delete_topic(id).expect("a deletion");
            let options = topic(durability, PartialBlocks::Pad);
            let again = served.log.create_topic(id.stream, Some(id.topic), "t", &options, 1);
            assert_eq!(again.expect("a topic"), id);
            let new = served.log.partition(id.partition(0)).expect("a partition");
            assert_eq!(append_all(&new, 10..12), [10, 11]);
            appending.join().expect("appends without panic");
            drop(new);
            let (machine, id) = served.close();
            assert_order_of_files(&machine);
            let directory = Path::new("/log/streams/0/topics/0/partitions");
            let left = machine.storage.list(directory).expect("a list");
            assert_eq!(left.len(), 1, "{left:?}");
            let log = machine.open();
            let found = read_all(&log.partition(id).expect("the new partition"));
            assert_eq!(found, [(0, 10), (1, 11)]);
            log.close().expect("the log closes");
        });
    }
}

#[test]
fn a_rotation_waits_for_the_persists_before_it() {
    for durability in [Durability::Memory, Durability::Disk] {
        explore(move || {
            let served = Served::new(durability, PartialBlocks::Pad);
            served.machine.storage.start_recording();
            let appending = {
                let partition = Arc::clone(&served.partition);
                // Two batches fill a segment.
                thread::spawn(move || {
                    let append = |number| partition.append(&batch(number..number + 1, 30_000));
                    let tickets: Vec<_> = (0..5).map(append).collect();
                    for appended in tickets {
                        let ticket = appended.expect("an append").ticket;
                        ticket.wait().expect("an acknowledgement");
                    }
                })
            };
            let removed = served.partition.delete_segments(1, u64::MAX);
            let flushed = served.partition.flush(true);
            removed.wait().expect("a removal");
            flushed.wait().expect("a flush");
            appending.join().expect("appends without panic");
            served.partition.flush(true).wait().expect("a flush");
            let found = read_all(&served.partition);
            let (machine, id) = served.close();
            assert_order_of_files(&machine);
            let log = machine.open();
            assert_eq!(found, read_all(&log.partition(id).expect("a partition")));
            let first = found[0].0;
            assert!(first == 0 || first == 2, "{found:?}");
            assert_eq!(found, (first..5).map(|number| (number, number)).collect::<Vec<_>>());
            log.close().expect("the log closes");
        });
    }
}
