//! Time that threads waited for a processor, from the kernel's `schedstat` files.
//!
//! A thread that is runnable but does not run waits in a run queue. On a busy machine its
//! operations therefore look slow, although neither the device nor the page cache delayed them.
//! `/proc/PID/schedstat` covers only the first thread of a process, so the file of each thread is
//! read.

use std::collections::BTreeMap;

use super::System;

/// A thread's use of processors since the thread was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunQueue {
    /// Time that the thread ran, in nanoseconds.
    pub running_ns: u64,
    /// Time that the thread was runnable and waited for a processor, in nanoseconds. The kernel
    /// adds the time of a wait when the wait ends.
    pub waiting_ns: u64,
    /// Number of times that the thread was scheduled on a processor.
    pub slices: u64,
}

impl RunQueue {
    /// Parses the text of a `schedstat` file; `None` if the kernel does not keep these figures.
    pub fn parse(text: &str) -> Option<Self> {
        let mut figures = text.split_ascii_whitespace().map(|word| word.parse().ok());
        let mut next = || figures.next()?;
        let parsed = Self { running_ns: next()?, waiting_ns: next()?, slices: next()? };
        // A kernel without the option CONFIG_SCHED_INFO also has the `schedstat` file, but with
        // zeros.
        (parsed != Self::default()).then_some(parsed)
    }

    /// Returns the processor use of the calling thread.
    pub fn of_this_thread() -> Option<Self> {
        Self::parse(&System::default().read("/proc/thread-self/schedstat")?)
    }

    /// Returns the processor use of each thread that a process has now, by thread id. `None` if the
    /// process does not exist or the kernel does not keep these figures.
    pub fn of_threads(system: &System, process: u32) -> Option<BTreeMap<u32, Self>> {
        let directory = format!("/proc/{process}/task");
        let mut threads = BTreeMap::new();
        for name in system.names(&directory) {
            let text = system.read(format!("{directory}/{name}/schedstat"));
            let parsed = text.and_then(|text| Self::parse(&text));
            // If the thread ended after it was listed, its file could not be read.
            if let (Ok(thread), Some(parsed)) = (name.parse(), parsed) {
                threads.insert(thread, parsed);
            }
        }
        (!threads.is_empty()).then_some(threads)
    }

    /// Returns the increase since `earlier`, the figures of the same thread id at an earlier time.
    /// If any figure is lower than in `earlier`, the id belongs to a new thread. Then the result is
    /// `self`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let difference = || {
            Some(Self {
                running_ns: self.running_ns.checked_sub(earlier.running_ns)?,
                waiting_ns: self.waiting_ns.checked_sub(earlier.waiting_ns)?,
                slices: self.slices.checked_sub(earlier.slices)?,
            })
        };
        difference().unwrap_or(self)
    }
}
