//! Waiting for a processor: `schedstat` of threads.
//!
//! A thread that could run and does not is in a run queue; on a busy machine its operations look
//! slow though neither device nor page cache kept it. `/proc/PID/schedstat` is the first thread
//! alone, so threads are read one by one.

use std::collections::BTreeMap;

use super::System;

/// What a thread had of the processors since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunQueue {
    /// For how long it ran, in nanoseconds.
    pub running_ns: u64,
    /// For how long it could have run and waited for a processor, in nanoseconds. What it waits
    /// at the moment is counted when it runs.
    pub waiting_ns: u64,
    /// How often it was given a processor.
    pub slices: u64,
}

impl RunQueue {
    /// From the text of a `schedstat`; `None` where the kernel keeps no such figures.
    pub fn parse(text: &str) -> Option<Self> {
        let mut figures = text.split_ascii_whitespace().map(|word| word.parse().ok());
        let mut next = || figures.next()?;
        let parsed = Self { running_ns: next()?, waiting_ns: next()?, slices: next()? };
        // Without the option CONFIG_SCHED_INFO the file is there and zero.
        (parsed != Self::default()).then_some(parsed)
    }

    /// Of the thread that asks.
    pub fn of_this_thread() -> Option<Self> {
        Self::parse(&System::default().read("/proc/thread-self/schedstat")?)
    }

    /// Of each thread that a process has now, by the thread's number; `None` if the process is not
    /// there or nothing is told.
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

    /// What came since an earlier moment of the same thread; everything if the earlier is of
    /// another that had its number.
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
