//! Tests of pools, and of the threads of an environment.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::pool::{Job, Pool, Settings};
use super::*;

const NEEDS: Needs = Needs { flushes: 1, compactions: 1, jobs: 1 };

fn settings(threads: usize) -> Settings {
    Settings { threads, ..Settings::default() }
}

fn pool(threads: usize) -> Pool {
    let pool = Pool::new(|number| format!("pool{number}"), usize::MAX, settings(threads));
    pool.start().expect("threads");
    pool
}

/// Schedules a job that reports its number, and runs until the sender is dropped.
fn schedule_waiting(pool: &Pool, number: u64, begun: &Sender<u64>) -> Sender<()> {
    let (end, ended) = channel::<()>();
    let begun = begun.clone();
    pool.queue(Job::new(number, move || {
        begun.send(number).expect("the test listens");
        let _ = ended.recv();
    }));
    end
}

fn nothing(begun: &Receiver<u64>) {
    assert!(begun.recv_timeout(Duration::from_millis(20)).is_err());
}

#[test]
fn a_pool_runs_as_many_jobs_as_it_has_threads() {
    let pool = pool(1);
    let (begin, begun) = channel();
    let first = schedule_waiting(&pool, 1, &begin);
    let second = schedule_waiting(&pool, 2, &begin);
    assert_eq!(begun.recv(), Ok(1));
    nothing(&begun);
    assert!(pool.is_busy());
    pool.set(settings(2));
    pool.start().expect("a thread");
    assert_eq!(begun.recv(), Ok(2));
    // With one thread less, the job that runs is completed and the next one waits for the other.
    pool.set(settings(1));
    let third = schedule_waiting(&pool, 3, &begin);
    drop(second);
    nothing(&begun);
    drop(first);
    assert_eq!(begun.recv(), Ok(3));
    drop(third);
}

#[test]
fn a_pool_continues_after_a_panic() {
    let pool = pool(1);
    let (begin, begun) = channel();
    pool.queue(Job::new(1, || panic!("on purpose")));
    drop(schedule_waiting(&pool, 2, &begin));
    assert_eq!(begun.recv(), Ok(2));
}

#[test]
fn cancelled_jobs_are_dropped_and_others_stay() {
    let pool = pool(1);
    let (begin, begun) = channel();
    let first = schedule_waiting(&pool, 1, &begin);
    assert_eq!(begun.recv(), Ok(1));
    let held = Arc::new(());
    for owner in [7, 8] {
        let (held, begin) = (Arc::clone(&held), begin.clone());
        pool.queue(Job::new(owner, move || {
            begin.send(owner).expect("the test listens");
            drop(held);
        }));
    }
    let later = Arc::clone(&held);
    pool.schedule_at(Instant::now() + Duration::from_hours(1), Job::new(7, move || drop(later)));
    drop(pool.take_jobs(7));
    assert_eq!(Arc::strong_count(&held), 2, "the job of 8 is left");
    drop(first);
    assert_eq!(begun.recv(), Ok(8));
}

#[test]
fn delayed_jobs_run_in_the_order_of_their_times_although_others_block() {
    let unbounded = settings(usize::MAX);
    let pool = Pool::new(|_| "upkeep".to_owned(), 1, unbounded);
    pool.start().expect("a thread");
    let (begin, begun) = channel();
    let blocking: Vec<_> = (0..3).map(|number| schedule_waiting(&pool, number, &begin)).collect();
    for _ in &blocking {
        assert!(begun.recv().is_ok());
    }
    let now = Instant::now();
    for number in [12, 11, 10] {
        let begin = begin.clone();
        let report = move || begin.send(number).expect("the test listens");
        pool.schedule_at(now + Duration::from_millis(number), Job::new(1, report));
    }
    // Two that are due at the same time may run in two threads, in any order.
    let mut order: Vec<_> = (0..3).map(|_| begun.recv().expect("a job")).collect();
    order.sort_unstable();
    assert_eq!(order, [10, 11, 12]);
    drop(blocking);
}

#[test]
fn threads_run_while_a_database_uses_them() {
    let env = Env::new();
    let is_running = || env.shared.threads.lock().upgrade().is_some();
    assert!(!env.schedule(Priority::Low, || ()), "no database is open");
    let first = env.enter(NEEDS).expect("threads");
    let second = env.enter(Needs { compactions: 3, ..NEEDS }).expect("threads");
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(env.background_threads(Priority::Low), 3);
    drop(first);
    assert!(is_running());
    drop(second);
    assert!(!is_running());
    let third = env.enter(NEEDS).expect("threads");
    assert_eq!(third.pool(Priority::Low).threads_max(), 3, "the number is never lowered");
    assert!(!env.schedule(Priority::User, || ()), "the pool has no threads");
}

#[test]
fn flushes_use_threads_of_low_priority_if_there_are_no_others() {
    let env = Env::new();
    let threads = env.enter(NEEDS).expect("threads");
    let thread_of_a_flush = || {
        let (report, reported) = channel();
        let job = move || {
            let name = std::thread::current().name().map(str::to_owned);
            report.send(name).expect("the test listens");
        };
        threads.schedule(Priority::High, Job::new(1, job));
        reported.recv().expect("the job runs").expect("a name")
    };
    assert!(thread_of_a_flush().starts_with("tailwater-flush"));
    env.set_background_threads(0, Priority::High);
    assert!(thread_of_a_flush().starts_with("tailwater-comp"));
}

/// Tests that a job waits while no pool has threads for it, and then gets any of them.
#[test]
fn waiting_jobs_move_to_a_pool_that_gets_threads() {
    for got in [Priority::High, Priority::Low] {
        let env = Env::new();
        let threads = env.enter(NEEDS).expect("threads");
        env.set_background_threads(0, Priority::Low);
        env.set_background_threads(0, Priority::High);
        let (begun, begins) = channel();
        threads.schedule(
            Priority::High,
            Job::new(1, move || {
                begun.send(()).expect("the test listens");
            }),
        );
        assert!(begins.try_recv().is_err());
        env.set_background_threads(1, got);
        begins.recv().expect("the job runs");
    }
}

/// Tests that a job with a lowered priority does not pass it on to a thread of another pool.
#[test]
fn a_thread_with_a_lowered_priority_starts_none_of_another_pool() {
    let env = Env::new();
    env.lower_thread_pool_cpu_priority(Priority::Low);
    let threads = env.enter(NEEDS).expect("threads");
    let (occupy, occupied) = channel::<()>();
    let (begun, begins) = channel();
    // All threads for upkeep that are kept are busy.
    let occupied = Arc::new(Mutex::new(occupied));
    for _ in 0..2 {
        let (begun, occupied) = (begun.clone(), Arc::clone(&occupied));
        threads.upkeep().queue(Job::new(1, move || {
            begun.send(()).expect("the test listens");
            let _ = occupied.lock().recv();
        }));
        begins.recv().expect("a job");
    }
    let (report, reported) = channel();
    let in_low = Arc::clone(&threads);
    threads.schedule(
        Priority::Low,
        Job::new(1, move || {
            in_low.upkeep().queue(Job::new(1, move || {
                let own = rustix::process::getpriority_process(None).expect("a nice value");
                report.send(own).expect("the test listens");
            }));
            begun.send(()).expect("the test listens");
        }),
    );
    begins.recv().expect("a job");
    threads.start_missing();
    assert!(reported.recv().expect("a job for upkeep") < 19);
    drop(occupy);
}

#[test]
fn priorities_are_lowered_for_the_threads_of_one_pool() {
    let env = Env::new();
    env.lower_thread_pool_cpu_priority(Priority::Low);
    env.set_background_threads(1, Priority::User);
    let _threads = env.enter(NEEDS).expect("threads");
    let nice = |priority| {
        let (report, reported) = channel();
        let job = move || {
            let own = rustix::process::getpriority_process(None).expect("a nice value");
            report.send(own).expect("the test listens");
        };
        assert!(env.schedule(priority, job));
        reported.recv().expect("the job runs")
    };
    let (low, user) = (nice(Priority::Low), nice(Priority::User));
    assert!(low == 19 && user < 19, "{low} and {user}");
    env.lower_thread_pool_cpu_priority(Priority::User);
    assert_eq!(nice(Priority::User), 19, "threads that run already follow");
}
