//! Loom models of concurrent writers: loom runs them in every order that the memory model allows,
//! and the models check who leads, which results writers get, and what readers see.
//!
//! Data that only a leader may access is in loom's cells, so that loom reports two simultaneous
//! leaders, and a leader that does not see its predecessor's actions. Loom also reports a writer
//! that is never woken, as a deadlock.

#![expect(unsafe_code, reason = "loom checks the accesses that the queue's contract allows")]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::{self, JoinHandle};
use tailwater_format::batch::WriteBatch;

use super::{Durability, Group, Inserting, Leadership, Queue, Request, Turn};
use crate::error::{Error, ErrorKind, Result};

/// Upper bound (exclusive) of the sequence numbers in all models.
const CAPACITY: usize = 5;

/// The parts of a database that the queue protects.
struct Database {
    queue: Queue,
    /// The memtable: the number of the writer that wrote each sequence number.
    entries: [UnsafeCell<usize>; CAPACITY],
    /// The last sequence number assigned. Only leaders access it.
    sequence: UnsafeCell<usize>,
    /// The last sequence number that readers see.
    published: AtomicU64,
}

// SAFETY: the queue orders every access to the cells. The models test this: loom checks each
// access.
unsafe impl Sync for Database {}
// SAFETY: the queue orders every access to the cells, whichever thread performs it; loom checks
// each one.
unsafe impl Send for Database {}

/// Who inserts the batches of a group's members into the memtable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Leader,
    /// The leader of a group in flight: the next leader may begin before this one ends.
    LeaderInFlight,
    Themselves,
    /// The members are to insert their own batches, but panic before they do. So nobody inserts
    /// these batches.
    NobodyInTheEnd,
}

impl By {
    /// Returns the durability of the writes. The durability determines whom a leader notifies
    /// first: after a synced group the members, otherwise the next leader. The models cover both
    /// orders.
    fn durability(self) -> Durability {
        match self {
            Self::Leader | Self::LeaderInFlight => Durability::Synced,
            Self::Themselves | Self::NobodyInTheEnd => Durability::Logged,
        }
    }
}

impl Database {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: Queue::default(),
            entries: std::array::from_fn(|_| UnsafeCell::new(0)),
            sequence: UnsafeCell::new(0),
            published: AtomicU64::new(0),
        })
    }

    /// Writes as a writer of a database does. Writers are numbered from 1.
    fn write(&self, writer: usize, by: By) -> Result<()> {
        if let Some(leadership) = self.queue.try_lead() {
            return self.lead(leadership, writer, by);
        }
        let mut batch = WriteBatch::new();
        batch.delete([writer as u8]).expect("a small key");
        let request = Arc::new(Request::new(batch, by.durability(), false));
        let mut turn = self.queue.join(&request);
        loop {
            match turn {
                Turn::Lead(leadership) => return self.lead(leadership, writer, by),
                Turn::Insert(insertion) => {
                    if by == By::Themselves {
                        self.insert(request.batch().sequence() as usize, writer);
                        insertion.inserted(Ok(()));
                    } else {
                        drop(insertion);
                    }
                    turn = request.wait(&self.queue);
                }
                Turn::Done(result) => return result,
            }
        }
    }

    fn lead(&self, leadership: Leadership<'_>, writer: usize, by: By) -> Result<()> {
        if by != By::LeaderInFlight {
            leadership.quiesce();
        }
        let group = leadership.take_group(by.durability(), usize::MAX);
        let first = self.number(&leadership, group.len() + 1);
        if by == By::LeaderInFlight {
            let in_flight = leadership.begin_pipelined(&group);
            in_flight.wait_for_turn();
            let written = self.insert_group(&group, first, writer, by);
            self.published.store((first + group.len()) as u64, Ordering::Release);
            in_flight.finish(group, &written);
            return written;
        }
        let written = self.insert_group(&group, first, writer, by);
        if written.is_ok() {
            self.published.store((first + group.len()) as u64, Ordering::Release);
        }
        leadership.finish(group, &written);
        written
    }

    /// Takes `count` sequence numbers and returns the first. Loom would report two simultaneous
    /// leaders.
    fn number(&self, _leadership: &Leadership<'_>, count: usize) -> usize {
        self.sequence.with_mut(|sequence| {
            // SAFETY: loom fails the model if another access is not ordered before or after this.
            unsafe {
                *sequence += count;
                *sequence + 1 - count
            }
        })
    }

    fn insert_group(&self, group: &Group, first: usize, writer: usize, by: By) -> Result<()> {
        let inserting = Inserting::new(&self.queue);
        for (sequence, member) in (first + 1..).zip(group.iter()) {
            member.batch().set_sequence(sequence as u64);
            if by.durability() == Durability::Synced {
                let key = member.batch().data().last().copied();
                self.insert(sequence, usize::from(key.expect("a key")));
            } else {
                member.let_insert(&inserting);
            }
        }
        self.insert(first, writer);
        inserting.wait()
    }

    fn insert(&self, sequence: usize, writer: usize) {
        // SAFETY: loom fails the model if another access is not ordered before or after this.
        self.entries[sequence].with_mut(|entry| unsafe { *entry = writer });
    }

    /// Returns the writers of the published entries, in order.
    fn read(&self) -> Vec<usize> {
        let published = self.published.load(Ordering::Acquire) as usize;
        let entries = &self.entries[1..=published];
        // SAFETY: loom fails the model if another access is not ordered before or after this.
        entries.iter().map(|entry| entry.with(|entry| unsafe { *entry })).collect()
    }

    /// Reads while writers write, and checks that published entries exist and stay.
    fn look(&self) {
        let before = self.read();
        let after = self.read();
        assert!(!before.contains(&0) && !after.contains(&0), "{before:?}, then {after:?}");
        assert!(after.starts_with(&before), "{before:?}, then {after:?}");
    }

    /// Accesses data that only leaders may access, like a caller that has to quiesce writes.
    fn quiesce(&self) {
        let leadership = self.queue.lead().expect("the lead");
        let published = self.published.load(Ordering::Relaxed) as usize;
        assert_eq!(self.number(&leadership, 0), published + 1);
        assert_eq!(self.read().len(), published);
    }
}

fn start<T: 'static>(
    database: &Arc<Database>,
    body: impl FnOnce(&Database) -> T + 'static,
) -> JoinHandle<T> {
    let database = Arc::clone(database);
    thread::spawn(move || body(&database))
}

/// Runs a model with every order of its steps that has at most `preemptions` preemptions.
fn model(preemptions: usize, test: impl Fn(&Arc<Database>) + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || test(&Database::new()));
}

/// Lets writers 1 to `writers` write once each, the last of them on this thread.
fn write_all(database: &Arc<Database>, writers: usize, by: By) {
    let others: Vec<_> = (1..writers)
        .map(|writer| start(database, move |database| database.write(writer, by)))
        .collect();
    database.write(writers, by).expect("a write");
    for other in others {
        other.join().expect("a writer").expect("a write");
    }
    let mut written = database.read();
    written.sort_unstable();
    assert_eq!(written, (1..=writers).collect::<Vec<_>>());
    assert!(database.queue.try_lead().is_some());
}

#[test]
fn two_writers_both_get_results() {
    model(8, |database| write_all(database, 2, By::Leader));
}

#[test]
fn three_writers_all_get_results() {
    model(3, |database| write_all(database, 3, By::Leader));
}

#[test]
fn members_insert_their_own_batches_before_the_group_is_published() {
    model(8, |database| write_all(database, 2, By::Themselves));
    model(3, |database| write_all(database, 3, By::Themselves));
}

#[test]
fn a_writer_continues_while_another_is_notified() {
    model(3, |database| {
        let other = start(database, |database| {
            database.write(1, By::Themselves).unwrap();
            database.write(2, By::Themselves).unwrap();
        });
        database.write(3, By::Themselves).unwrap();
        database.write(4, By::Themselves).unwrap();
        other.join().unwrap();
        let of = |writers: [usize; 2]| {
            let written = database.read();
            written.into_iter().filter(|writer| writers.contains(writer)).collect::<Vec<_>>()
        };
        assert_eq!((of([1, 2]), of([3, 4])), (vec![1, 2], vec![3, 4]));
    });
}

#[test]
fn groups_in_flight_are_published_in_order() {
    model(3, |database| {
        let reader = start(database, Database::look);
        let writer = start(database, |database| database.write(1, By::LeaderInFlight));
        database.write(2, By::LeaderInFlight).unwrap();
        writer.join().unwrap().unwrap();
        reader.join().unwrap();
    });
    model(2, |database| write_all(database, 3, By::LeaderInFlight));
}

#[test]
fn quiescing_waits_for_groups_in_flight() {
    model(3, |database| {
        let writer = start(database, |database| database.write(1, By::LeaderInFlight));
        let alone = start(database, Database::quiesce);
        database.write(2, By::Leader).unwrap();
        writer.join().unwrap().unwrap();
        alone.join().unwrap();
        assert_eq!(database.read().len(), 2);
    });
}

#[test]
fn a_panicking_member_fails_its_group_without_a_deadlock() {
    model(3, |database| {
        let other = start(database, |database| database.write(1, By::NobodyInTheEnd));
        let here = database.write(2, By::NobodyInTheEnd);
        let other = other.join().unwrap();
        // If each writer wrote its own batch, both succeeded. If one writer led the other, both
        // have the result of their group.
        assert_eq!(here.is_ok(), other.is_ok());
        assert_eq!(database.read().len(), if here.is_ok() { 2 } else { 0 });
        assert!(database.queue.try_lead().is_some());
    });
}

#[test]
fn a_panicking_leader_leaves_no_writer_waiting() {
    model(4, |database| {
        let other = start(database, |database| database.write(1, By::Themselves));
        if let Some(leadership) = database.queue.try_lead() {
            let group = leadership.take_group(Durability::Logged, usize::MAX);
            let inserting = Inserting::new(&database.queue);
            for member in &*group {
                member.batch().set_sequence(1);
                member.let_insert(&inserting);
            }
            let taken = !group.is_empty();
            // Drops the leader's values in the order in which an early return or a panic would drop
            // them: first its local variables, then its parameter `leadership`.
            drop(inserting);
            drop(group);
            drop(leadership);
            // No member may still insert into the memtable. If one did, loom would report that this
            // access conflicts with the insertion below.
            let leadership = database.queue.lead().unwrap();
            database.insert(1, 2);
            drop(leadership);
            assert_eq!(other.join().unwrap().is_err(), taken);
        } else {
            other.join().unwrap().unwrap();
        }
        assert!(database.queue.try_lead().is_some());
    });
}

#[test]
fn readers_see_whole_groups_in_order() {
    model(3, |database| {
        let writer = start(database, |database| database.write(1, By::Themselves));
        let reader = start(database, Database::look);
        database.write(2, By::Themselves).unwrap();
        writer.join().unwrap().unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn no_write_is_concurrent_with_a_quiescing_leader() {
    model(3, |database| {
        let writer = start(database, |database| database.write(1, By::Themselves));
        let alone = start(database, Database::quiesce);
        database.write(2, By::Themselves).unwrap();
        writer.join().unwrap().unwrap();
        alone.join().unwrap();
        assert_eq!(database.read().len(), 2);
    });
}

#[test]
fn a_request_with_no_slowdown_is_refused_or_leads() {
    model(4, |database| {
        let impatient = start(database, |database| {
            let mut batch = WriteBatch::new();
            batch.delete(b"a").unwrap();
            let request = Arc::new(Request::new(batch, Durability::Logged, true));
            match database.queue.join(&request) {
                Turn::Lead(_) => {}
                Turn::Insert(_) => panic!("nobody takes a group"),
                Turn::Done(result) => assert!(result.is_err()),
            }
        });
        let leadership = database.queue.lead().unwrap();
        drop(leadership.refuse_impatient(Error::new(ErrorKind::Busy, "")));
        drop(leadership);
        impatient.join().unwrap();
        assert!(database.queue.try_lead().is_some());
    });
}
