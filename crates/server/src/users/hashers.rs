//! The threads that hash passwords.
//!
//! To hash a password takes milliseconds of processor time and megabytes of memory, so only a few
//! passwords are hashed concurrently. The others wait in a queue. Queued work is skipped if its
//! requester is gone.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

use tailwater_io::sync::{Condvar, Mutex};
use tailwater_io::thread::{Thread, spawn};
use tokio::sync::oneshot;

use super::password::Workspace;

type Job = Box<dyn FnOnce(&mut Workspace) + Send>;

/// A pool of threads. Dropping the pool drops queued work, and joins the threads.
pub(super) struct Hashers {
    shared: Arc<JobQueue>,
    /// The threads, joined when the pool is dropped.
    threads: Vec<Thread>,
}

#[derive(Default)]
struct JobQueue {
    queue: Mutex<Queue>,
    /// Notified when work is queued, or the queue is closed.
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl Hashers {
    /// Starts a pool of `count` threads, but at least one.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn start(count: usize) -> io::Result<Self> {
        let mut hashers = Self { shared: Arc::default(), threads: Vec::new() };
        for number in 0..count.max(1) {
            let shared = Arc::clone(&hashers.shared);
            hashers.threads.push(spawn(&format!("password{number}"), move || shared.work())?);
        }
        Ok(hashers)
    }

    /// Queues work. The returned receiver gets the result of the work, or an error if the pool was
    /// dropped. If the receiver is dropped before the work begins, the work is skipped.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Workspace) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        let job = move |workspace: &mut Workspace| {
            if !sender.is_closed() {
                // Sending fails if the receiver was dropped meanwhile.
                let _ = sender.send(work(workspace));
            }
        };
        self.shared.queue.lock().jobs.push_back(Box::new(job));
        self.shared.changed.notify_one();
        receiver
    }
}

impl JobQueue {
    fn work(&self) {
        let mut workspace = Workspace::default();
        while let Some(job) = self.next(&mut workspace) {
            job(&mut workspace);
        }
    }

    /// Waits for work; returns `None` once the queue is closed. Before waiting, the memory of
    /// `workspace` is released.
    fn next(&self, workspace: &mut Workspace) -> Option<Job> {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_closed {
                return None;
            }
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            *workspace = Workspace::default();
            queue = self.changed.wait(queue);
        }
    }
}

impl Drop for Hashers {
    fn drop(&mut self) {
        let unbegun = {
            let mut queue = self.shared.queue.lock();
            queue.is_closed = true;
            std::mem::take(&mut queue.jobs)
        };
        self.shared.changed.notify_all();
        drop(unbegun);
        self.threads.clear();
    }
}

impl fmt::Debug for Hashers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hashers({} threads)", self.threads.len())
    }
}
