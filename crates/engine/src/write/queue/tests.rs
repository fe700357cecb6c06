//! Tests of leadership, of group membership, and of the results that writers get when another
//! writer panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use tailwater_format::batch::WriteBatch;

use super::in_flight::FEW_WRITERS;
use super::sync::lock;
use super::{Durability, Inserting, Leadership, Queue, Request, Turn, processors};
use crate::error::{Error, ErrorKind, Result};

const SYNCED: Durability = Durability::Synced;
const LOGGED: Durability = Durability::Logged;
const UNLOGGED: Durability = Durability::Unlogged;

/// Creates a request. Runs on the thread that waits for the request's turn.
type MakeRequest = fn() -> Request;
/// The action by which a group member inserts its batch.
type Insert = fn() -> Result<()>;

/// The way in which a writer's wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Led,
    Written,
    Failed(ErrorKind),
}

/// Returns a batch of `operations` operations of 4 bytes each.
fn batch(operations: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for _ in 0..operations {
        batch.delete_cf(0, b"ab").expect("a small key");
    }
    batch
}

fn request(operations: usize, durability: Durability) -> Request {
    Request::new(batch(operations), durability, false)
}

fn impatient() -> Request {
    Request::new(batch(1), LOGGED, true)
}

/// Waits until a request is served, and inserts its batch with `insert` if the leader requests it.
fn wait_out(queue: &Queue, request: Request, insert: impl Fn() -> Result<()>) -> Outcome {
    let request = Arc::new(request);
    let mut turn = queue.join(&request);
    loop {
        match turn {
            Turn::Lead(_leadership) => return Outcome::Led,
            Turn::Insert(insertion) => {
                insertion.inserted(insert());
                turn = request.wait(queue);
            }
            Turn::Done(Ok(())) => return Outcome::Written,
            Turn::Done(Err(error)) => return Outcome::Failed(error.kind()),
        }
    }
}

/// Queues the requests in order. Each request gets a thread that waits for its result. A thread is
/// started only after the previous request was queued.
fn enqueue<'scope, 'env, const N: usize>(
    scope: &'scope Scope<'scope, 'env>,
    queue: &'env Queue,
    requests: [MakeRequest; N],
) -> [ScopedJoinHandle<'scope, Outcome>; N] {
    requests.map(|request| {
        let before = waiting(queue);
        let thread = scope.spawn(move || wait_out(queue, request(), || Ok(())));
        wait_for(|| waiting(queue) > before);
        thread
    })
}

fn waiting(queue: &Queue) -> usize {
    lock(&queue.waiting).requests.len()
}

fn wait_for(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::yield_now();
    }
}

fn outcomes<const N: usize>(threads: [ScopedJoinHandle<'_, Outcome>; N]) -> [Outcome; N] {
    threads.map(|thread| thread.join().expect("a writer"))
}

/// Takes a group as leader, calls `then` with its members, then panics.
fn give_up(leadership: Leadership<'_>, then: impl FnOnce(&[Arc<Request>])) {
    let given_up = catch_unwind(AssertUnwindSafe(|| {
        let group = leadership.take_group(SYNCED, usize::MAX);
        then(&group);
        // Unlike `panic!`, this prints nothing.
        std::panic::resume_unwind(Box::new("given up"));
    }));
    assert!(given_up.is_err());
}

#[test]
fn at_most_one_writer_leads() {
    let queue = Queue::default();
    for _ in 0..3 {
        let leadership = queue.try_lead().unwrap();
        assert!(queue.try_lead().is_none());
        assert!(leadership.take_group(SYNCED, usize::MAX).is_empty());
        drop(leadership);
    }
    drop(queue.lead().unwrap());
    assert!(queue.try_lead().is_some());
}

#[test]
fn a_group_ends_before_the_first_request_that_does_not_fit() {
    let header = batch(0).size_in_bytes();
    let small: MakeRequest = || request(1, LOGGED);
    let synced: MakeRequest = || request(1, SYNCED);
    let unlogged: MakeRequest = || request(1, UNLOGGED);
    let nothing: MakeRequest = || request(0, LOGGED);
    let all = usize::MAX;
    // Each case: the waiting requests, the leader's durability and byte limit, and the number of
    // requests that the leader should take into its group.
    let cases: [([MakeRequest; 3], Durability, usize, usize); 10] = [
        ([small, small, small], LOGGED, all, 3),
        ([small, small, small], SYNCED, all, 3),
        ([small, small, small], UNLOGGED, all, 0),
        ([small, synced, small], LOGGED, all, 1),
        ([small, synced, small], SYNCED, all, 3),
        ([unlogged, small, unlogged], UNLOGGED, all, 1),
        ([small, small, unlogged], SYNCED, all, 2),
        ([small, nothing, small], SYNCED, all, 1),
        ([small, small, small], LOGGED, 2 * (header + 4) + 3, 2),
        ([small, small, small], LOGGED, header + 3, 0),
    ];
    for (index, (requests, durability, bytes, taken)) in cases.into_iter().enumerate() {
        let queue = Queue::default();
        thread::scope(|scope| {
            let leadership = queue.try_lead().unwrap();
            let threads = enqueue(scope, &queue, requests);
            let group = leadership.take_group(durability, bytes);
            assert_eq!(group.len(), taken, "case {index}");
            leadership.finish(group, &Ok(()));
            let mut expected = [Outcome::Led; 3];
            expected[..taken].fill(Outcome::Written);
            assert_eq!(outcomes(threads), expected, "case {index}");
        });
        assert!(queue.try_lead().is_some(), "case {index}");
    }
}

#[test]
fn members_get_the_error_of_their_group() {
    let queue = Queue::default();
    thread::scope(|scope| {
        let leadership = queue.try_lead().unwrap();
        let threads = enqueue(scope, &queue, [|| request(1, LOGGED), || request(1, SYNCED)]);
        let group = leadership.take_group(LOGGED, usize::MAX);
        leadership.finish(group, &Err(Error::new(ErrorKind::NoSpace, "")));
        assert_eq!(outcomes(threads), [Outcome::Failed(ErrorKind::NoSpace), Outcome::Led]);
    });
}

#[test]
fn the_writer_gets_its_batch_back_from_the_leader() {
    let request = request(3, LOGGED);
    assert_eq!((request.operations, request.bytes), (3, batch(3).size_in_bytes()));
    request.batch().set_sequence(7);
    let mut back = WriteBatch::new();
    request.swap_batch(&mut back);
    assert_eq!((back.len(), back.sequence()), (3, 7));
}

#[test]
fn waiting_writers_get_results_after_the_leader_panics() {
    let queue = Queue::default();
    thread::scope(|scope| {
        let leadership = queue.try_lead().unwrap();
        let three = [|| request(1, LOGGED), || request(0, LOGGED), || request(1, LOGGED)];
        let threads = enqueue(scope, &queue, three);
        give_up(leadership, |group| assert_eq!(group.len(), 1));
        let expected = [Outcome::Failed(ErrorKind::Panicked), Outcome::Led, Outcome::Led];
        assert_eq!(outcomes(threads), expected);
    });
    assert!(queue.try_lead().is_some());
}

#[test]
fn no_member_inserts_after_the_leader_has_panicked() {
    let queue = &Queue::default();
    let inserted = &AtomicBool::new(false);
    thread::scope(|scope| {
        let leadership = queue.try_lead().unwrap();
        let member = scope.spawn(move || {
            wait_out(queue, request(1, LOGGED), || {
                thread::sleep(Duration::from_millis(20));
                inserted.store(true, Ordering::Relaxed);
                Ok(())
            })
        });
        wait_for(|| waiting(queue) == 1);
        give_up(leadership, |group| {
            let inserting = Inserting::new(queue);
            group[0].let_insert(&inserting);
            std::panic::resume_unwind(Box::new("given up"));
        });
        assert!(inserted.load(Ordering::Relaxed));
        assert_eq!(outcomes([member]), [Outcome::Failed(ErrorKind::Panicked)]);
    });
}

#[test]
fn the_leader_gets_the_error_of_a_failed_or_panicked_member() {
    let failures: [(Insert, ErrorKind); 2] = [
        (|| Err(Error::new(ErrorKind::UserCode, "")), ErrorKind::UserCode),
        (|| std::panic::resume_unwind(Box::new("given up")), ErrorKind::Panicked),
    ];
    for (insert, kind) in failures {
        let queue = &Queue::default();
        thread::scope(|scope| {
            let leadership = queue.try_lead().unwrap();
            let others = enqueue(scope, queue, [|| request(1, LOGGED)]);
            let failing = scope.spawn(move || wait_out(queue, request(1, LOGGED), insert));
            wait_for(|| waiting(queue) == 2);
            let group = leadership.take_group(LOGGED, usize::MAX);
            let inserting = Inserting::new(queue);
            group.iter().for_each(|member| member.let_insert(&inserting));
            let written = inserting.wait();
            assert_eq!(written.clone().unwrap_err().kind(), kind);
            leadership.finish(group, &written);
            assert_eq!(outcomes(others), [Outcome::Failed(kind)]);
            // Either the insertion returned an error (`UserCode`), or its panic must have ended the
            // thread.
            assert!(failing.join().is_err() || kind == ErrorKind::UserCode);
        });
        assert!(queue.try_lead().is_some());
    }
    // A writer counts as held up from its notification until it runs. Writers that panicked must no
    // longer be counted. The count is process-wide, so it may include writers of other tests for a
    // while.
    let none_is = |_| {
        thread::sleep(Duration::from_millis(1));
        processors::held_up() == 0
    };
    assert!((0..30_000).any(none_is), "{}", processors::held_up());
}

#[test]
fn no_slowdown_requests_are_refused_during_a_stall() {
    let queue = &Queue::default();
    thread::scope(|scope| {
        let leadership = queue.try_lead().unwrap();
        let patient: MakeRequest = || request(1, SYNCED);
        let waiting_ones = enqueue(scope, queue, [patient, impatient, patient, impatient]);
        let refusing = leadership.refuse_impatient(Error::new(ErrorKind::Busy, ""));
        let refused = Outcome::Failed(ErrorKind::Busy);
        assert_eq!(waiting(queue), 2);
        assert_eq!(wait_out(queue, impatient(), || Ok(())), refused);
        drop(refusing);
        let later = enqueue(scope, queue, [impatient]);
        drop(leadership);
        let led = Outcome::Led;
        assert_eq!(outcomes(waiting_ones), [led, refused, led, refused]);
        assert_eq!(outcomes(later), [led]);
    });
    // If all waiting requests are `no_slowdown`, all of them are refused. Then no request remains
    // whose writer could become the next leader.
    thread::scope(|scope| {
        let leadership = queue.try_lead().unwrap();
        let threads = enqueue(scope, queue, [impatient, impatient]);
        drop(leadership.refuse_impatient(Error::new(ErrorKind::Busy, "")));
        drop(leadership);
        assert_eq!(outcomes(threads), [Outcome::Failed(ErrorKind::Busy); 2]);
    });
    assert!(queue.try_lead().is_some());
}

#[test]
fn a_leader_that_gives_up_refuses_waiting_writes_but_no_request_to_lead() {
    let queue = &Queue::default();
    thread::scope(|scope| {
        let leadership = queue.try_lead().unwrap();
        let (write, alone): (MakeRequest, MakeRequest) =
            (|| request(1, LOGGED), || request(0, UNLOGGED));
        let threads = enqueue(scope, queue, [write, alone, impatient, alone, write]);
        leadership.refuse_writes(&Error::new(ErrorKind::Busy, ""));
        assert_eq!(waiting(queue), 2);
        drop(leadership);
        let refused = Outcome::Failed(ErrorKind::Busy);
        assert_eq!(outcomes(threads), [refused, Outcome::Led, refused, Outcome::Led, refused]);
    });
    assert!(queue.try_lead().is_some());
}

/// The part of a database that the queue protects: only leaders and the members of their groups
/// write to it.
#[derive(Default)]
struct Written {
    /// Number of threads that currently hold the exclusive access of a leader.
    leaders: AtomicUsize,
    sequence: AtomicU64,
    inserted: AtomicU64,
}

impl Written {
    fn write(&self, queue: &Queue, round: usize, writer: usize) {
        let durability = [UNLOGGED, LOGGED, SYNCED][(round / 7 + writer) % 3];
        if round.is_multiple_of(50) {
            return self.alone(&queue.lead().expect("the lead"), 0);
        }
        if let Some(leadership) = queue.try_lead() {
            return self.lead(queue, leadership, durability);
        }
        let request = Arc::new(request(1, durability));
        let mut turn = queue.join(&request);
        loop {
            match turn {
                Turn::Lead(leadership) => return self.lead(queue, leadership, durability),
                Turn::Insert(insertion) => {
                    assert_eq!(self.leaders.load(Ordering::Relaxed), 1);
                    self.inserted.fetch_add(1, Ordering::Relaxed);
                    insertion.inserted(Ok(()));
                    turn = request.wait(queue);
                }
                Turn::Done(result) => return result.expect("a write"),
            }
        }
    }

    fn lead(&self, queue: &Queue, leadership: Leadership<'_>, durability: Durability) {
        let is_pipelined = durability == SYNCED && leadership.has_few_writers();
        if !is_pipelined {
            leadership.quiesce();
        }
        let group = leadership.take_group(durability, 100);
        self.alone(&leadership, group.len() + 1);
        if is_pipelined {
            let operations = group.len() as u64 + 1;
            let in_flight = leadership.begin_pipelined(&group);
            in_flight.wait_for_turn();
            // Loads and stores instead of an atomic addition: if two groups in flight did this at
            // the same time, the sum would be wrong, and an assertion would fail.
            let inserted = self.inserted.load(Ordering::Relaxed);
            self.inserted.store(inserted + operations, Ordering::Relaxed);
            return in_flight.finish(group, &Ok(()));
        }
        let inserting = Inserting::new(queue);
        self.leaders.fetch_add(1, Ordering::Relaxed);
        for (index, member) in group.iter().enumerate() {
            if index % 2 == 0 {
                member.let_insert(&inserting);
            } else {
                self.inserted.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.inserted.fetch_add(1, Ordering::Relaxed);
        inserting.wait().expect("insertions");
        let sequence = self.sequence.load(Ordering::Relaxed);
        assert_eq!(self.inserted.load(Ordering::Relaxed), sequence);
        self.leaders.fetch_sub(1, Ordering::Relaxed);
        leadership.finish(group, &Ok(()));
    }

    /// Takes `operations` sequence numbers, as a leader may do. This function uses a load and a
    /// store instead of an atomic addition, so that an assertion fails if two leaders run it at the
    /// same time.
    fn alone(&self, _leadership: &Leadership<'_>, operations: usize) {
        assert_eq!(self.leaders.fetch_add(1, Ordering::Relaxed), 0);
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence + operations as u64, Ordering::Relaxed);
        assert_eq!(self.leaders.fetch_sub(1, Ordering::Relaxed), 1);
    }
}

#[test]
fn groups_in_flight_end_in_order() {
    let queue = &Queue::default();
    let ended = &tailwater_io::sync::Mutex::new(Vec::new());
    thread::scope(|scope| {
        let groups: Vec<_> = (0..3)
            .map(|_| {
                let leadership = queue.try_lead().unwrap();
                let group = leadership.take_group(SYNCED, usize::MAX);
                (leadership.begin_pipelined(&group), group)
            })
            .collect();
        assert!(!queue.try_lead().unwrap().is_quiesced());
        for (index, (in_flight, group)) in groups.into_iter().enumerate().rev() {
            scope.spawn(move || {
                in_flight.wait_for_turn();
                ended.lock().push(index);
                in_flight.finish(group, &Ok(()));
            });
        }
    });
    assert_eq!(*ended.lock(), [0, 1, 2]);
    assert!(queue.try_lead().unwrap().is_quiesced());
}

#[test]
fn quiescing_waits_for_a_dropped_group_in_flight() {
    let queue = &Queue::default();
    thread::scope(|scope| {
        let leadership = queue.try_lead().unwrap();
        let group = leadership.take_group(SYNCED, usize::MAX);
        let in_flight = leadership.begin_pipelined(&group);
        let alone = scope.spawn(|| queue.lead().map(|leadership| leadership.is_quiesced()));
        thread::sleep(Duration::from_millis(20));
        assert!(!alone.is_finished());
        drop((group, in_flight));
        assert!(alone.join().unwrap().unwrap());
    });
}

#[test]
fn a_queue_has_many_writers_for_a_while_after_they_finish() {
    let queue = &Queue::default();
    let has_few = || queue.try_lead().unwrap().has_few_writers();
    assert!(has_few());
    thread::scope(|scope| {
        let leadership = queue.try_lead().unwrap();
        let synced: MakeRequest = || request(1, SYNCED);
        let threads = enqueue(scope, queue, [synced; FEW_WRITERS - 1]);
        assert!(leadership.has_few_writers());
        let group = leadership.take_group(SYNCED, usize::MAX);
        let in_flight = leadership.begin_pipelined(&group);
        assert!(!has_few(), "the writers in flight count, too");
        in_flight.finish(group, &Ok(()));
        assert_eq!(outcomes(threads), [Outcome::Written; FEW_WRITERS - 1]);
    });
    assert!(!has_few());
    assert!((0..1000).any(|_| has_few()));
}

#[test]
fn every_write_of_many_writers_is_applied_once() {
    const ROUNDS: usize = 2000;
    for writers in [2, 8] {
        let (queue, written) = (Queue::default(), Written::default());
        thread::scope(|scope| {
            for writer in 0..writers {
                let (queue, written) = (&queue, &written);
                scope.spawn(move || {
                    (0..ROUNDS).for_each(|round| written.write(queue, round, writer));
                });
            }
        });
        let operations = writers * (ROUNDS - ROUNDS.div_ceil(50));
        assert_eq!(written.sequence.into_inner(), operations as u64);
        assert!(queue.try_lead().is_some());
    }
}
