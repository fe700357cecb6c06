//! What the calling thread does during an operation, and the time that it spends on each: the
//! lower part of [`crate::attribution`], which locks and files use.
//!
//! # Samples
//! In a span, the thread may also have been runnable without running. The kernel's figures of the
//! thread tell this: time that it waited for a processor, and processor time. Reading them takes
//! system calls, so short spans are attributed as a whole to their sections. The figures are read
//! ("sampled")
//! - after each span of at least a quarter of the threshold of a slow operation, but 10 to 50
//!   microseconds,
//! - after each operation that took at least the threshold, and
//! - before an operation, if the last sample is older than a millisecond.
//!
//! Of a long span, the wait for a processor is attributed to
//! [`processor_ns`](Spent::processor_ns). The rest of a wait for the device or a lock is
//! attributed to that. Of a long span of work, only the processor time counts as work. What is
//! left, such as the time that a hypervisor took, is [`Spent::unexplained_ns`].
//!
//! Between two samples there are only short spans besides the last one, and time between
//! operations: a millisecond at most. Waits for a processor in this time cannot be told from waits
//! in the long span after it, and are attributed to that.
//!
//! Each thread that samples keeps a file open, which [`crate::attribution`] opens: this module is
//! below the budget of descriptors.

mod counter;
mod figures;

use std::cell::Cell;
use std::marker::PhantomData;

use counter::Counter;
use figures::Figures;
pub(crate) use figures::keep_file;

/// What a thread does during an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Computes, except for [`Section::Unpacking`].
    Work,
    /// Checks and decompresses what was read.
    Unpacking,
    /// Reads from a file, or waits for a read that is in flight.
    Device,
    /// Waits for a lock, or for another thread.
    Lock,
}

impl Section {
    const COUNT: usize = Self::Lock as usize + 1;

    fn sleeps(self) -> bool {
        matches!(self, Self::Device | Self::Lock)
    }
}

/// Where the time of an operation went, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// The whole duration.
    pub total_ns: u64,
    /// Waiting for a processor. 0 if the kernel does not keep this figure.
    pub processor_ns: u64,
    /// Reading from files: see [`Section::Device`].
    pub device_ns: u64,
    /// Waiting for locks and other threads.
    pub lock_ns: u64,
    /// Checking and decompressing what was read.
    pub unpacking_ns: u64,
    /// All other computing.
    pub work_ns: u64,
    /// Page faults that needed no read from the device, since the sample before the operation.
    pub minor_faults: u64,
    /// Page faults that needed one.
    pub major_faults: u64,
}

impl Spent {
    /// Returns the time that no cause explains: the thread neither ran nor waited for anything that
    /// is known. Beneath a hypervisor, the processor may have run something else.
    pub fn unexplained_ns(&self) -> u64 {
        let explained =
            self.processor_ns + self.device_ns + self.lock_ns + self.unpacking_ns + self.work_ns;
        self.total_ns.saturating_sub(explained)
    }
}

/// The shortest and longest span that counts as long, in nanoseconds.
const LONG_NS: (u64, u64) = (10_000, 50_000);

/// Age of a sample, in nanoseconds, from which on the next operation begins with another.
const SAMPLE_AGE_NS: u64 = 1_000_000;

struct Thread {
    counter: Counter,
    is_active: Cell<bool>,
    section: Cell<Section>,
    /// The last boundary, in nanoseconds. Never decreases.
    last_ns: Cell<u64>,
    began_ns: Cell<u64>,
    threshold_ns: Cell<u64>,
    /// Length of a long span, in nanoseconds.
    long_ns: Cell<u64>,
    spent_ns: [Cell<u64>; Section::COUNT],
    processor_ns: Cell<u64>,
    minor_faults: Cell<u64>,
    major_faults: Cell<u64>,
    sample: Cell<Figures>,
    /// When the sample was taken, in nanoseconds.
    sampled_ns: Cell<u64>,
    /// When the next operation begins with a sample, in nanoseconds; 0 before the first sample.
    due_ns: Cell<u64>,
    /// Time since the sample, in nanoseconds, in which the thread may have slept: between
    /// operations, and in waits for the device or a lock.
    asleep_ns: Cell<u64>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            counter: Counter::new(),
            is_active: Cell::new(false),
            section: Cell::new(Section::Work),
            last_ns: Cell::new(0),
            began_ns: Cell::new(0),
            threshold_ns: Cell::new(0),
            long_ns: Cell::new(0),
            spent_ns: [const { Cell::new(0) }; Section::COUNT],
            processor_ns: Cell::new(0),
            minor_faults: Cell::new(0),
            major_faults: Cell::new(0),
            sample: Cell::new(Figures::ZERO),
            sampled_ns: Cell::new(0),
            due_ns: Cell::new(0),
            asleep_ns: Cell::new(0),
        }
    };
}

/// Whether the calling thread's operation is being attributed.
#[inline]
pub fn is_active() -> bool {
    THREAD.with(|thread| thread.is_active.get())
}

/// Returns when the calling thread's operation, which is being attributed, last entered or left a
/// section, or began: a time of [`SystemClock`](crate::clock::SystemClock).
#[inline]
pub fn last_boundary_ns() -> u64 {
    THREAD.with(|thread| thread.last_ns.get())
}

/// Enters a section of the calling thread's operation, until the result is dropped. Does nothing if
/// no operation is being attributed, or if a wait for the device goes on.
#[inline]
pub fn enter(section: Section) -> Entered {
    THREAD.with(|thread| match thread.is_active.get() {
        true => thread.enter(section, thread.now_ns()),
        false => Entered::NOTHING,
    })
}

/// Like [`enter`], for a caller that has just read the clock.
#[inline]
pub(crate) fn enter_at(section: Section, now_ns: u64) -> Entered {
    THREAD.with(|thread| match thread.is_active.get() {
        true => thread.enter(section, now_ns),
        false => Entered::NOTHING,
    })
}

/// A section that was entered. Dropping this returns to the section around it.
#[derive(Debug)]
#[must_use]
pub struct Entered {
    /// The section around this one, if this is another.
    previous: Option<Section>,
    /// The section is the thread's.
    thread: PhantomData<*const ()>,
}

impl Entered {
    const NOTHING: Self = Self { previous: None, thread: PhantomData };
}

impl Entered {
    /// Leaves the section, for a caller that has just read the clock.
    #[inline]
    pub(crate) fn leave_at(mut self, now_ns: u64) {
        if let Some(previous) = self.previous.take() {
            THREAD.with(|thread| thread.change_to(previous, now_ns));
        }
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        if let Some(previous) = self.previous {
            THREAD.with(|thread| thread.change_to(previous, thread.now_ns()));
        }
    }
}

/// Begins an operation. Returns whether it is the outermost one of the thread. `prepare` is called
/// once for each thread, before its first sample.
#[inline]
pub(crate) fn begin(threshold_ns: u64, prepare: fn()) -> bool {
    THREAD.with(|thread| {
        if thread.is_active.get() {
            return false;
        }
        let mut now = thread.now_ns();
        if now >= thread.due_ns.get() {
            thread.sample_before(prepare);
            now = thread.sampled_ns.get();
        } else {
            // Whether the thread ran between the operations is unknown.
            thread.add_asleep(now - thread.last_ns.get());
        }
        thread.begin(threshold_ns, now);
        true
    })
}

/// Ends the operation. Returns where its time went, if it was slow.
#[inline]
pub(crate) fn end() -> Option<Spent> {
    THREAD.with(|thread| {
        let now = thread.now_ns();
        thread.is_active.set(false);
        let total_ns = now - thread.began_ns.get();
        let span_ns = now - thread.last_ns.get();
        if total_ns < thread.threshold_ns.get() && span_ns < thread.long_ns.get() {
            thread.last_ns.set(now);
            return None;
        }
        thread.end_slowly(now, span_ns, total_ns)
    })
}

/// Ends the operation, if it has not ended, without a result.
#[inline]
pub(crate) fn abandon() {
    THREAD.with(|thread| thread.is_active.set(false));
}

impl Thread {
    /// Returns the time, at least that of the last boundary.
    #[inline]
    fn now_ns(&self) -> u64 {
        self.counter.now_ns().max(self.last_ns.get())
    }

    #[inline]
    fn begin(&self, threshold_ns: u64, now: u64) {
        self.is_active.set(true);
        self.section.set(Section::Work);
        self.last_ns.set(now);
        self.began_ns.set(now);
        self.threshold_ns.set(threshold_ns);
        self.long_ns.set((threshold_ns / 4).clamp(LONG_NS.0, LONG_NS.1));
        self.spent_ns.iter().for_each(|spent| spent.set(0));
        self.processor_ns.set(0);
        self.minor_faults.set(0);
        self.major_faults.set(0);
    }

    #[cold]
    fn sample_before(&self, prepare: fn()) {
        if self.due_ns.get() == 0 {
            prepare();
        }
        let figures = Figures::of_this_thread();
        self.sampled(figures, self.now_ns());
    }

    fn sampled(&self, figures: Figures, now: u64) {
        self.sample.set(figures);
        self.sampled_ns.set(now);
        self.due_ns.set(now + SAMPLE_AGE_NS);
        self.asleep_ns.set(0);
    }

    #[inline]
    fn enter(&self, section: Section, now: u64) -> Entered {
        let previous = self.section.get();
        // A lock that is taken during a wait for the device belongs to the wait.
        if previous == section || previous == Section::Device {
            return Entered::NOTHING;
        }
        self.change_to(section, now);
        Entered { previous: Some(previous), thread: PhantomData }
    }

    #[inline]
    fn change_to(&self, section: Section, now: u64) {
        let now = now.max(self.last_ns.get());
        let span_ns = now - self.last_ns.get();
        if span_ns >= self.long_ns.get() {
            self.add_long_span(now, span_ns);
        } else {
            let current = self.section.get();
            self.add(current, span_ns);
            if current.sleeps() {
                self.add_asleep(span_ns);
            }
        }
        self.last_ns.set(now);
        self.section.set(section);
    }

    #[inline]
    fn add_asleep(&self, time_ns: u64) {
        self.asleep_ns.set(self.asleep_ns.get() + time_ns);
    }

    #[inline]
    fn add(&self, section: Section, time_ns: u64) {
        let spent = &self.spent_ns[section as usize];
        spent.set(spent.get() + time_ns);
    }

    /// Samples, and attributes the span that ends `now`.
    #[cold]
    fn add_long_span(&self, now: u64, span_ns: u64) {
        let (before, after) = (self.sample.get(), Figures::of_this_thread());
        let waited_ns = after.waiting_ns.saturating_sub(before.waiting_ns);
        // The thread ran in all of the time since the sample and before this span, except where it
        // may have slept. In the span it ran at least as long as it did not run before it.
        let before_ns = self.last_ns.get().saturating_sub(self.sampled_ns.get());
        let ran_before_ns = before_ns.saturating_sub(self.asleep_ns.get());
        let ran_ns = after.running_ns.saturating_sub(before.running_ns);
        let ran_at_least_ns = ran_ns.saturating_sub(before_ns).min(span_ns);
        let waiting_ns = waited_ns.min(span_ns - ran_at_least_ns);
        self.processor_ns.set(self.processor_ns.get() + waiting_ns);
        let section = self.section.get();
        let left_ns = span_ns - waiting_ns;
        self.add(
            section,
            match section.sleeps() {
                true => left_ns,
                false => ran_ns.saturating_sub(ran_before_ns).min(left_ns),
            },
        );
        let faults = |sum: &Cell<u64>, before: u64, after: u64| sum.set(sum.get() + after - before);
        faults(&self.minor_faults, before.minor_faults, after.minor_faults);
        faults(&self.major_faults, before.major_faults, after.major_faults);
        self.sampled(after, now);
    }

    #[cold]
    fn end_slowly(&self, now: u64, span_ns: u64, total_ns: u64) -> Option<Spent> {
        self.add_long_span(now, span_ns);
        self.last_ns.set(self.now_ns());
        let spent = |section: Section| self.spent_ns[section as usize].get();
        (total_ns >= self.threshold_ns.get()).then(|| Spent {
            total_ns,
            processor_ns: self.processor_ns.get(),
            device_ns: spent(Section::Device),
            lock_ns: spent(Section::Lock),
            unpacking_ns: spent(Section::Unpacking),
            work_ns: spent(Section::Work),
            minor_faults: self.minor_faults.get(),
            major_faults: self.major_faults.get(),
        })
    }
}
