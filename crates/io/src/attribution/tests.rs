//! Tests with real waits. They compare causes with each other, and with the time that the test
//! waited for, never with a limit above it.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use tailwater_testkit::filesystem::say;

use super::{Attribution, Section, Spent, enter, is_active};
use crate::kernel::System;
use crate::sync::{Condvar, Mutex};
use crate::thread;

const MS: u64 = 1_000_000;

/// Returns where the time of an operation goes that is slow from a nanosecond on.
fn attribute(operation: impl FnOnce()) -> Spent {
    let attribution = Attribution::begin(1).expect("nothing else is attributed");
    operation();
    attribution.end().expect("it is slow")
}

fn sleep(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Uses the processor for a time of the thread's own clock.
fn compute(ms: u64) {
    let running = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
    };
    let end = running() + ms * MS;
    while running() < end {
        std::hint::spin_loop();
    }
}

/// Returns the sum of the causes, which may not exceed the duration: no time is attributed twice.
fn explained(spent: &Spent) -> u64 {
    let Spent { processor_ns, device_ns, lock_ns, unpacking_ns, work_ns, .. } = spent;
    let sum = processor_ns + device_ns + lock_ns + unpacking_ns + work_ns;
    assert!(sum <= spent.total_ns, "{spent:?}");
    sum
}

#[test]
fn an_operation_below_the_threshold_has_no_result() {
    let attribution = Attribution::begin(u64::MAX).expect("nothing else is attributed");
    assert!(is_active());
    drop(enter(Section::Device));
    assert_eq!(attribution.end(), None);
    assert!(!is_active());
}

#[test]
fn an_operation_within_another_is_a_part_of_it() {
    let spent = attribute(|| {
        assert!(Attribution::begin(1).is_none());
        assert!(is_active());
        let _waiting = enter(Section::Device);
        sleep(5);
    });
    assert!(spent.device_ns >= 4 * MS, "{spent:?}");
}

#[test]
fn an_operation_that_panics_ends() {
    let panicked = std::panic::catch_unwind(|| {
        let _attribution = Attribution::begin(1);
        let _waiting = enter(Section::Lock);
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panicked.is_err() && !is_active());
    assert!(attribute(|| sleep(1)).lock_ns == 0, "the section ended, too");
}

#[test]
fn waits_and_computing_are_told_apart() {
    let spent = attribute(|| {
        let waiting = enter(Section::Device);
        sleep(40);
        drop(waiting);
        compute(20);
        let unpacking = enter(Section::Unpacking);
        compute(10);
        drop(unpacking);
    });
    assert!(spent.device_ns + spent.processor_ns >= 39 * MS, "{spent:?}");
    assert!(spent.work_ns >= 19 * MS && spent.unpacking_ns >= 9 * MS, "{spent:?}");
    assert!(spent.lock_ns == 0 && explained(&spent) > 69 * MS, "{spent:?}");
}

/// Files pass times of the clock, from which those of the processor's counter may differ.
#[test]
fn a_time_before_the_last_one_takes_none() {
    let ahead_ns = crate::monotonic::monotonic_ns() + 10_000 * MS;
    let spent = attribute(|| {
        let waiting = crate::sections::enter_at(Section::Device, ahead_ns);
        waiting.leave_at(ahead_ns - 10 * MS);
        drop(enter(Section::Unpacking));
    });
    assert!(spent.device_ns == 0 && spent.unpacking_ns == 0, "{spent:?}");
    explained(&spent);
}

#[test]
fn sleeping_without_a_cause_is_unexplained() {
    let spent = attribute(|| sleep(40));
    assert!(spent.unexplained_ns() + spent.processor_ns >= 39 * MS, "{spent:?}");
    assert!(spent.work_ns < 39 * MS, "{spent:?}");
}

#[test]
fn a_contended_lock_and_a_condition_are_waits_for_locks() {
    let (mutex, condition) = (Mutex::new(false), Condvar::new());
    let (taken, is_taken) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let guard = mutex.lock();
            taken.send(()).expect("the other thread waits");
            sleep(30);
            drop(guard);
            sleep(30);
            *mutex.lock() = true;
            condition.notify_all();
        });
        is_taken.recv().expect("the lock is taken");
        let began = Instant::now();
        let spent = attribute(|| {
            let guard = mutex.lock();
            drop(condition.wait_while(guard, |is_set| !*is_set));
        });
        let waited = u64::try_from(began.elapsed().as_nanos()).expect("a short time");
        assert!(spent.lock_ns <= waited && spent.device_ns == 0, "{spent:?}");
        assert!(spent.lock_ns + spent.processor_ns >= 50 * MS, "{spent:?}");
    });
}

#[test]
fn a_lock_during_a_wait_for_the_device_belongs_to_that() {
    let condition = Condvar::new();
    let mutex = Mutex::new(());
    let spent = attribute(|| {
        let _waiting = enter(Section::Device);
        drop(condition.wait_timeout(mutex.lock(), Duration::from_millis(20)));
    });
    assert!(spent.lock_ns == 0 && spent.device_ns + spent.processor_ns >= 19 * MS, "{spent:?}");
}

/// What a thread did between two operations was once attributed to the second one.
#[test]
fn what_happened_before_an_operation_is_not_attributed_to_it() {
    let _ = attribute(|| ());
    compute(30);
    sleep(30);
    let spent = attribute(|| {
        let _waiting = enter(Section::Device);
        sleep(10);
    });
    assert!(spent.work_ns < 10 * MS && spent.total_ns >= 10 * MS, "{spent:?}");
    assert!(spent.device_ns + spent.processor_ns >= 9 * MS, "{spent:?}");
}

/// Time between operations once counted as time for which the thread ran, so that the computing of
/// the next slow operation was unexplained.
#[test]
fn pauses_between_fast_operations_do_not_hide_work() {
    let mut shares = Vec::new();
    for _ in 0..20 {
        for _ in 0..12 {
            std::thread::sleep(Duration::from_micros(10));
            drop(Attribution::begin(200_000));
        }
        let spent = attribute(|| compute(1));
        shares.push((spent.work_ns + spent.processor_ns) as f64 / spent.total_ns as f64);
    }
    shares.sort_unstable_by(f64::total_cmp);
    assert!(shares[10] > 0.9, "{shares:?}");
}

#[test]
fn threads_return_their_files() {
    let open_files = || System::default().names("/proc/self/fd").len();
    if System::default().read("/proc/thread-self/schedstat").is_none() {
        say("skipped: this kernel has no schedstat, so no files are opened");
        return;
    }
    let count = 50;
    // Other tests open files, too, but not as many.
    let before = open_files();
    let (ready, all_ready) = mpsc::channel();
    let threads: Vec<_> = (0..count)
        .map(|_| {
            let (ready, (end, ended)) = (ready.clone(), mpsc::channel::<()>());
            let body = move || {
                let _ = attribute(|| ());
                ready.send(()).expect("the test waits");
                let _ = ended.recv();
            };
            let thread = thread::spawn("attributes", body).expect("a thread");
            all_ready.recv().expect("a thread");
            (end, thread)
        })
        .collect();
    let meanwhile = open_files();
    // Dropping a thread waits for the destructors of its variables, which close the files. A scope
    // would not.
    for (end, thread) in threads {
        drop(end);
        drop(thread);
    }
    assert!(meanwhile >= before + count / 2, "{before}, then {meanwhile}");
    assert!(open_files() < before + count / 2, "{before}, then {}", open_files());
}

#[test]
fn a_busy_processor_is_a_wait_for_it() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let (stop, stopped) = (Mutex::new(false), |flag: &Mutex<bool>| *flag.lock());
    let spent = std::thread::scope(|scope| {
        for _ in 0..cpus * 4 {
            scope.spawn(|| {
                while !stopped(&stop) {
                    compute(1);
                }
            });
        }
        let spent = attribute(|| compute(100));
        *stop.lock() = true;
        spent
    });
    if System::default().read("/proc/thread-self/schedstat").is_none() {
        say("skipped: this kernel has no schedstat, so the wait for a processor is unknown");
        return;
    }
    assert!(spent.work_ns >= 90 * MS && spent.processor_ns > 0, "{spent:?}");
    let explained = explained(&spent);
    assert!(explained >= spent.total_ns / 10 * 9, "{explained} ns of {spent:?}");
}
