//! Threads that attribute their time keep a bounded number of files open. A test of its own,
//! because it lowers the limit on open files of the process, and counts the process's descriptors.

use std::sync::Barrier;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use tailwater_io::attribution::{Attribution, Section, Spent, enter};
use tailwater_io::kernel::{RunQueue, System};
use tailwater_testkit::filesystem::say;

/// Limit on open files, and the sixteenth of it that threads may use.
const LIMIT: u64 = 256;
const FILES_MAX: usize = 16;

const THREADS: usize = 3 * FILES_MAX;

const SLEEP_MS: u64 = 10;

/// Returns the number of `schedstat` files that the process has open.
fn open_files() -> usize {
    let names = System::default().names("/proc/self/fd");
    let target = |name: &String| std::fs::read_link(format!("/proc/self/fd/{name}")).ok();
    let paths = names.iter().filter_map(target);
    paths.filter(|path| path.ends_with("schedstat")).count()
}

/// Attributes the time of threads that sleep. Returns where it went, and the number of files that
/// were open when all of them had slept and none had ended.
fn attribute_in_threads() -> (Vec<Spent>, usize) {
    let (have_slept, may_end) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    let sleep = || {
        let spent = Attribution::begin(1).and_then(|attribution| {
            let waiting = enter(Section::Device);
            std::thread::sleep(Duration::from_millis(SLEEP_MS));
            drop(waiting);
            attribution.end()
        });
        have_slept.wait();
        may_end.wait();
        spent
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(sleep)).collect();
        have_slept.wait();
        let files = open_files();
        may_end.wait();
        // A thread that was joined has closed its file.
        let spent = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        (spent.map(|spent| spent.expect("a slow operation")).collect(), files)
    })
}

#[test]
fn further_threads_are_attributed_without_a_file() {
    if RunQueue::of_this_thread().is_none() {
        return say("skipped: this kernel has no schedstat, so no files are opened");
    }
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(LIMIT);
    setrlimit(Resource::Nofile, limit).expect("a lower limit");
    // The second time, the files of the first have been closed.
    for _ in 0..2 {
        let (spent, files) = attribute_in_threads();
        assert_eq!(files, FILES_MAX);
        for spent in &spent {
            let waited_ns = spent.device_ns + spent.processor_ns;
            assert!(waited_ns >= SLEEP_MS * 1_000_000 * 9 / 10, "{spent:?}");
        }
        let without_file = spent.iter().filter(|spent| spent.processor_ns == 0).count();
        assert!(without_file >= THREADS - FILES_MAX, "{spent:?}");
        assert_eq!(open_files(), 0);
    }
}
