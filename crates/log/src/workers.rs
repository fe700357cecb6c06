//! Marks the threads that work for a log: its own threads, and callers that do their work.
//!
//! Such a thread calls functions of the user, such as those registered with
//! [`Ticket::on_complete`](crate::Ticket::on_complete). While a function runs, the thread does not
//! work for the log, so the function must not wait for that work. In particular it cannot close the
//! log, because closing waits until everything is persisted.

use crate::sync::{Mutex, thread_number};

/// The threads that work for a log.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    /// Numbers of the threads. A thread has one entry for each of its [`Working`] values.
    threads: Mutex<Vec<usize>>,
}

/// While this value lives, its thread is marked as working for the log.
#[derive(Debug)]
pub(crate) struct Working<'a> {
    workers: &'a Workers,
    thread: usize,
}

impl Workers {
    /// Marks the calling thread as working for the log.
    pub(crate) fn begin(&self) -> Working<'_> {
        let thread = thread_number();
        self.threads.lock().push(thread);
        Working { workers: self, thread }
    }

    /// Returns whether the calling thread works for the log.
    pub(crate) fn include_this_thread(&self) -> bool {
        self.threads.lock().contains(&thread_number())
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let mut threads = self.workers.threads.lock();
        if let Some(at) = threads.iter().rposition(|thread| *thread == self.thread) {
            threads.swap_remove(at);
        }
    }
}
