//! The worker threads that make the calls of streams.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::sync::{Condvar, Mutex};
use crate::thread::{self, Thread};

type Job = Box<dyn FnOnce() + Send>;

/// A thread pool that serves requests in the order of submission; several streams share it.
///
/// A read occupies a thread for one call, a writer occupies a thread as long as it has something to
/// write. So provide one thread for each writer, and for readers as many threads as requests should
/// be in flight simultaneously.
///
/// Dropping the pool completes the submitted requests and joins the threads. Safe to use from any
/// thread.
pub struct Workers {
    queue: Arc<Queue>,
    /// Joined on drop.
    threads: Vec<Thread>,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    closed: bool,
}

impl Workers {
    /// Starts `count` threads, but at least one. Each makes one request at a time. Their names are
    /// `name` and a number.
    ///
    /// # Errors
    /// The errors of [`thread::spawn`]; threads that were already started have then been joined.
    ///
    /// # Panics
    /// If `name` contains a NUL byte.
    pub fn new(name: &str, count: usize) -> io::Result<Self> {
        let mut workers = Self { queue: Arc::default(), threads: Vec::new() };
        for number in 0..count.max(1) {
            let queue = Arc::clone(&workers.queue);
            workers.threads.push(thread::spawn(&format!("{name}{number}"), move || queue.work())?);
        }
        Ok(workers)
    }

    /// Submits a job. It must not wait for another job.
    pub(super) fn submit(&self, job: impl FnOnce() + Send + 'static) {
        let job = Box::new(job);
        self.queue.jobs.lock().waiting.push_back(job);
        self.queue.changed.notify_one();
    }
}

impl Queue {
    fn work(&self) {
        while let Some(job) = self.next() {
            // The panic hook has reported the panic, and the job's own drop notifies the waiting
            // thread; the worker continues.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    }

    /// Waits for the next job and returns it; `None` if the pool is closed and no job is left.
    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                return Some(job);
            }
            if jobs.closed {
                return None;
            }
            jobs = self.changed.wait(jobs);
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.jobs.lock().closed = true;
        self.queue.changed.notify_all();
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("threads", &self.threads).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    /// Regression test: threads that were already started were joined without closing their queue,
    /// and so never ended.
    #[test]
    #[cfg(debug_assertions)]
    fn a_failed_start_leaves_no_worker() {
        for room in 0..3 {
            let refused = thread::with_starts_left(room, || Workers::new("worker", 3));
            let text = refused.expect_err("no room").to_string();
            assert!(text.contains(&format!("'worker{room}'")), "{text}");
        }
        drop(thread::with_starts_left(3, || Workers::new("worker", 3)).unwrap());
    }

    #[test]
    fn dropping_workers_completes_all_jobs_despite_a_panic() {
        let done = Arc::new(AtomicU32::new(0));
        let workers = Workers::new("worker", 2).unwrap();
        for number in 0..100 {
            let done = Arc::clone(&done);
            workers.submit(move || {
                assert_ne!(number, 50, "on purpose");
                done.fetch_add(1, Relaxed);
            });
        }
        drop(workers);
        assert_eq!(done.load(Relaxed), 99);
    }
}
