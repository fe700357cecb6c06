//! The worker threads that make read and write calls for streams.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::sync::{Condvar, Mutex};
use crate::thread::{self, Thread};

/// A call to make for a stream.
struct Job {
    stream: usize,
    run: Box<dyn FnOnce() + Send>,
}

/// A thread pool that runs jobs in the order of submission. Several streams can share it.
///
/// A reader occupies a thread for one read call at a time, and a writer as long as it has buffers
/// to write. So provide one thread for each writer, and for readers one thread for each request
/// that should be in flight. While no thread is free, a reader or writer that must wait makes its
/// calls itself: streams never wait for each other's calls.
///
/// Dropping the pool completes the submitted jobs and joins the threads. Safe to use from any
/// thread.
pub struct Workers {
    name: String,
    queue: Arc<Queue>,
    /// The threads, which are joined on drop.
    threads: Mutex<Vec<Thread>>,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    /// Number of threads that wait for a job, or were woken for one and have not taken it yet.
    idle: usize,
    closed: bool,
}

impl Workers {
    /// Starts `count` threads, or one if `count` is 0. Each runs one job at a time. A thread's name
    /// is `name` followed by its number, from 0.
    ///
    /// # Errors
    /// The errors of [`thread::spawn`]. Threads that had already been started are then joined.
    ///
    /// # Panics
    /// If `name` contains a NUL byte.
    pub fn new(name: &str, count: usize) -> io::Result<Self> {
        let workers =
            Self { name: name.to_owned(), queue: Arc::default(), threads: Mutex::default() };
        workers.grow(count.max(1))?;
        Ok(workers)
    }

    /// Starts threads until there are `count`.
    ///
    /// # Errors
    /// The errors of [`thread::spawn`]. The threads that run continue.
    pub fn grow(&self, count: usize) -> io::Result<()> {
        let mut threads = self.threads.lock();
        for number in threads.len()..count {
            let queue = Arc::clone(&self.queue);
            let name = format!("{}{number}", self.name);
            threads.push(thread::spawn(&name, move || queue.work())?);
        }
        Ok(())
    }

    /// Whether there are more jobs than threads to begin them: a job that waits may wait until a
    /// running job has ended.
    pub(crate) fn are_occupied(&self) -> bool {
        let jobs = self.queue.jobs.lock();
        jobs.waiting.len() > jobs.idle
    }

    /// Submits a job of `stream`, which is the address of what the stream shares with its jobs. The
    /// job must not wait for another job, which might never get a thread.
    pub(crate) fn submit(&self, stream: usize, job: impl FnOnce() + Send + 'static) {
        let job = Job { stream, run: Box::new(job) };
        self.queue.jobs.lock().waiting.push_back(job);
        self.queue.changed.notify_one();
    }

    /// Drops the jobs of `stream` that have not begun. While all threads are occupied, the jobs of
    /// streams that have ended would pile up.
    pub(crate) fn withdraw(&self, stream: usize) {
        self.queue.jobs.lock().waiting.retain(|job| job.stream != stream);
    }

    /// Returns the number of jobs that have not begun.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.queue.jobs.lock().waiting.len()
    }
}

impl Queue {
    fn work(&self) {
        while let Some(job) = self.next() {
            // Ignore a panic of the job and continue with the next one. The panic hook has already
            // reported it, and dropping the job notifies the stream that waits for it.
            let _ = catch_unwind(AssertUnwindSafe(job.run));
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
            jobs.idle += 1;
            jobs = self.changed.wait(jobs);
            jobs.idle -= 1;
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
        f.debug_struct("Workers").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::sync::mpsc::channel;

    use super::*;
    use crate::buffer::BufferPool;
    use crate::sim::SimStorage;
    use crate::storage::{Create, Storage};
    use crate::stream::{SequentialWriter, WriterOptions};
    use crate::{IoMode, Purpose};

    /// Regression test: if one thread could not be started, the threads started before were joined
    /// although their queue was still open, so the join never returned.
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
            workers.submit(0, move || {
                assert_ne!(number, 50, "on purpose");
                done.fetch_add(1, Relaxed);
            });
        }
        drop(workers);
        assert_eq!(done.load(Relaxed), 99);
    }
    /// The jobs of writers that had ended piled up while the workers were occupied.
    #[test]
    fn a_writer_leaves_no_job_behind() {
        let workers = Arc::new(Workers::new("worker", 1).unwrap());
        let (ended, end) = channel();
        workers.submit(0, move || end.recv().unwrap());
        while workers.waiting() > 0 {
            std::thread::yield_now();
        }
        let (storage, pool) = (SimStorage::new(1), BufferPool::new(1 << 20));
        let purpose = Purpose::CompactionWrite;
        let file = storage.create(Path::new("/f"), Create::New, IoMode::Buffered, purpose).unwrap();
        let options = WriterOptions { depth: 1, buffer_bytes: 4096, ..WriterOptions::new(purpose) };
        let mut writer = SequentialWriter::new(file, options, &pool, Some(&workers)).unwrap();
        writer.append(&[1; 8192]).unwrap();
        assert_eq!(workers.waiting(), 1);
        writer.close().unwrap();
        assert_eq!(workers.waiting(), 0);
        ended.send(()).unwrap();
    }
}
