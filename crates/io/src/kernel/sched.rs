//! Waiting for a processor: `schedstat` of threads.
//!
//! A runnable thread that does not run is in a run queue. On a busy machine its operations look
//! slow although neither device nor page cache delayed them. `/proc/PID/schedstat` covers the first
//! thread only, so threads are read one by one.

use std::collections::BTreeMap;

use super::System;

/// A thread's use of processors since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunQueue {
    /// Time that it ran, in nanoseconds.
    pub running_ns: u64,
    /// Time that it was runnable and waited for a processor, in nanoseconds. A current wait is
    /// added once the thread runs.
    pub waiting_ns: u64,
    /// Number of times that it was given a processor.
    pub slices: u64,
}

impl RunQueue {
    /// Parses the text of a `schedstat`; `None` if the kernel keeps no such figures.
    pub fn parse(text: &str) -> Option<Self> {
        let mut figures = text.split_ascii_whitespace().map(|word| word.parse().ok());
        let mut next = || figures.next()?;
        let parsed = Self { running_ns: next()?, waiting_ns: next()?, slices: next()? };
        // Without the option CONFIG_SCHED_INFO the file exists and contains zeros.
        (parsed != Self::default()).then_some(parsed)
    }

    /// Returns the figures of the calling thread.
    pub fn of_this_thread() -> Option<Self> {
        Self::parse(&System::default().read("/proc/thread-self/schedstat")?)
    }

    /// Returns the figures of each thread that a process has now, by thread id; `None` if the
    /// process does not exist or nothing is reported.
    pub fn of_threads(system: &System, process: u32) -> Option<BTreeMap<u32, Self>> {
        let directory = format!("/proc/{process}/task");
        let mut threads = BTreeMap::new();
        for name in system.names(&directory) {
            let text = system.read(format!("{directory}/{name}/schedstat"));
            let parsed = text.and_then(|text| Self::parse(&text));
            // A thread may end between the listing and this.
            if let (Ok(thread), Some(parsed)) = (name.parse(), parsed) {
                threads.insert(thread, parsed);
            }
        }
        (!threads.is_empty()).then_some(threads)
    }

    /// Returns the increase since earlier figures of the same thread. If the earlier figures are of
    /// another thread with the same id, everything counts.
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
