//! The threads that hash passwords.
//!
//! Hashing a password takes milliseconds of processor time and megabytes of memory, so only a few
//! passwords are hashed concurrently. Further jobs wait in a queue, in which addresses take turns,
//! and the user names of an address: many logins with wrong passwords delay a login of another user
//! or address by only a few jobs. A job is skipped if nobody waits for its result any more.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::Arc;

use tailwater_io::sync::{Condvar, Mutex};
use tailwater_io::thread::{Thread, spawn};
use tokio::sync::oneshot;

use super::password::Workspace;
use super::turns::{Queue as _, Turns};
use crate::host::Host;

type Job = Box<dyn FnOnce(&mut Workspace) + Send>;

/// The origin of a job. Jobs of different origins take turns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    /// The host that sent the request; `None` for a request of a user who may create users.
    pub(super) host: Option<Host>,
    /// The name of the user whose password is hashed.
    pub(super) user: &'a str,
}

/// A pool of threads. Dropping the pool drops the queued jobs, and waits for the threads to end.
pub(super) struct Hashers {
    shared: Arc<JobQueue>,
    hasher: RandomState,
    /// The threads, joined when the pool is dropped.
    threads: Vec<Thread>,
}

#[derive(Default)]
struct JobQueue {
    queue: Mutex<Queue>,
    /// Notified when a job is queued, or when the queue is closed.
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Jobs by host and user name, each hashed.
    jobs: Turns<Turns<VecDeque<Job>>>,
    is_closed: bool,
    /// Number of jobs that were begun.
    #[cfg(test)]
    begun: u64,
}

impl Hashers {
    /// Starts a pool of `count` threads, or of one thread if `count` is 0.
    ///
    /// # Errors
    /// I/O errors from starting a thread.
    pub(super) fn start(count: usize) -> io::Result<Self> {
        let mut hashers =
            Self { shared: Arc::default(), hasher: RandomState::new(), threads: Vec::new() };
        for number in 0..count.max(1) {
            let shared = Arc::clone(&hashers.shared);
            hashers.threads.push(spawn(&format!("password{number}"), move || shared.work())?);
        }
        Ok(hashers)
    }

    /// Returns the number of jobs that were begun.
    #[cfg(test)]
    pub(super) fn begun(&self) -> u64 {
        self.shared.queue.lock().begun
    }

    /// Queues a job. The returned receiver gets the result of `work`, or an error if `work`
    /// panicked or the pool was dropped first. If the receiver is dropped before the job begins,
    /// the job is skipped.
    pub(super) fn run<T: Send + 'static>(
        &self,
        origin: Origin<'_>,
        work: impl FnOnce(&mut Workspace) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        let job = move |workspace: &mut Workspace| {
            if !sender.is_closed() {
                // Sending fails only if the receiver was dropped during the job.
                let _ = sender.send(work(workspace));
            }
        };
        let host = self.hasher.hash_one(origin.host);
        let user = self.hasher.hash_one(origin.user);
        self.shared.queue.lock().jobs.push((host, (user, ())), Box::new(job));
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

    /// Returns the next job; waits for one if the queue is empty. Returns `None` after the queue
    /// was closed. Before a thread waits, it releases the memory of its `workspace`.
    fn next(&self, workspace: &mut Workspace) -> Option<Job> {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_closed {
                return None;
            }
            if let Some(job) = queue.jobs.pop() {
                #[cfg(test)]
                {
                    queue.begun += 1;
                }
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
