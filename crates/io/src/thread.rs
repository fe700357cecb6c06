//! Starts named threads, and assigns a number to each thread. A thread is joined when its handle is
//! dropped. All threads of this project are started here.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// Returns the calling thread's number. Numbers start at 1, are assigned when a thread first calls
/// this, and are never reused. Use them to spread threads over shards, modulo the number of shards.
/// Several threads can then have the same shard, so a shard must not assume a single writer.
#[inline]
pub fn ordinal() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    thread_local! {
        /// This thread's number; 0 if it has none yet.
        static ORDINAL: Cell<usize> = const { Cell::new(0) };
    }
    ORDINAL.with(|ordinal| match ordinal.get() {
        0 => {
            let new = NEXT.fetch_add(1, Ordering::Relaxed);
            ordinal.set(new);
            new
        }
        known => known,
    })
}

/// The scheduling priority of a thread, for processors and devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// The default priority.
    Normal,
    /// The default share of the processors, taken in longer slices, so that a thread of normal
    /// weight that wakes up preempts it (from Linux 6.12; before, this is as `Normal`). It may be
    /// preempted while it holds a lock, but gets the processor back after its fair time.
    Background,
    /// The thread runs only when no thread of normal weight wants the processor, and such a thread
    /// preempts it immediately (`SCHED_IDLE`). A device whose I/O scheduler supports priorities
    /// serves the thread's requests after those of normal threads. The weight cannot be raised
    /// again, since that takes a privilege. The thread must not hold a lock that a thread of normal
    /// weight waits for.
    LowPriority,
}

/// A running thread, which is joined when this is dropped. Before that, the thread must have been
/// asked to end.
#[derive(Debug)]
pub struct Thread<T = ()> {
    handle: Option<JoinHandle<T>>,
}

/// The source of an error of [`spawn`]. It names the thread that the system did not start.
#[derive(Debug)]
pub struct NotStarted {
    name: String,
    source: io::Error,
}

impl NotStarted {
    fn error(name: &str, source: io::Error) -> io::Error {
        io::Error::new(source.kind(), Self { name: name.to_owned(), source })
    }
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start the thread '{}': {}", self.name, self.source)
    }
}

impl std::error::Error for NotStarted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Starts a thread with this name. Linux shows only the first 15 bytes of the name.
///
/// # Errors
/// The error with which the system refused to start a thread. Its kind is the system's, and its
/// source is a [`NotStarted`] that names the thread.
///
/// # Panics
/// If `name` contains a NUL byte.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Thread<T>> {
    #[cfg(debug_assertions)]
    starts::take_one().map_err(|error| NotStarted::error(name, error))?;
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    let handle = started.map_err(|error| NotStarted::error(name, error))?;
    Ok(Thread { handle: Some(handle) })
}

#[cfg(debug_assertions)]
pub use starts::with_starts_left;

/// Simulates, for tests, that the system cannot start more threads.
#[cfg(debug_assertions)]
mod starts {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// When dropped, even during a panic, restores the previous limit on the number of threads that
    /// this thread can start.
    struct Restoring(usize);

    impl Drop for Restoring {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }

    /// Runs `work` with a limit on the threads that the calling thread can start: after `count`
    /// threads, starting another one fails. Only in builds with debug assertions.
    pub fn with_starts_left<T>(count: usize, work: impl FnOnce() -> T) -> T {
        let _restoring = Restoring(LEFT.replace(count));
        work()
    }

    pub(super) fn take_one() -> io::Result<()> {
        match LEFT.get() {
            usize::MAX => {}
            // Linux returns EAGAIN (`WouldBlock`) when the limit on processes is reached.
            0 => return Err(io::ErrorKind::WouldBlock.into()),
            left => LEFT.set(left - 1),
        }
        Ok(())
    }
}

/// Starts a thread of the given weight. If the system does not allow another weight, it stays
/// normal.
///
/// # Errors
/// The errors of [`spawn`].
///
/// # Panics
/// If `name` contains a NUL byte.
pub fn spawn_with<T: Send + 'static>(
    weight: Weight,
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Thread<T>> {
    match weight {
        Weight::Normal => spawn(name, body),
        Weight::Background => spawn(name, move || {
            lengthen_slice();
            body()
        }),
        Weight::LowPriority => spawn(name, move || {
            become_low_priority();
            #[cfg(debug_assertions)]
            crate::sync::become_low_priority();
            body()
        }),
    }
}

/// Lengthens this thread's slice. Errors are ignored.
///
/// A thread that wakes up preempts a thread with a longer slice immediately if it has used less
/// than its share of the processor (`PREEMPT_SHORT` in the kernel's `kernel/sched/features.h`). A
/// thread with a slice of equal length may first use it up, until the next tick of the clock.
fn lengthen_slice() {
    /// In nanoseconds: about twice the longest default slice, which is 3 ms.
    const SLICE_NS: u64 = 6_000_000;
    if let Some(own) = Scheduling::of_this_thread()
        && own.policy == libc::SCHED_OTHER as u32
    {
        Scheduling { runtime_ns: SLICE_NS, ..own }.apply();
    }
}

/// How the scheduler treats a thread: the kernel's `struct sched_attr`, in its first version.
#[repr(C)]
#[derive(Default)]
struct Scheduling {
    /// Size of this struct, in bytes.
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// The slice of a thread with the policy `SCHED_OTHER`; 0 before Linux 6.12.
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

impl Scheduling {
    const SIZE: u32 = size_of::<Self>() as u32;
    /// The thread id that stands for the calling thread.
    const OWN: libc::pid_t = 0;
    const NO_FLAGS: libc::c_uint = 0;

    #[expect(unsafe_code, reason = "rustix has no wrapper for sched_getattr")]
    fn of_this_thread() -> Option<Self> {
        let mut own = Self { size: Self::SIZE, ..Self::default() };
        let (call, to) = (libc::SYS_sched_getattr, &raw mut own);
        // SAFETY: the kernel writes at most SIZE bytes to the struct, which outlives the call.
        let result = unsafe { libc::syscall(call, Self::OWN, to, Self::SIZE, Self::NO_FLAGS) };
        (result == 0).then_some(own)
    }

    #[expect(unsafe_code, reason = "rustix has no wrapper for sched_setattr")]
    fn apply(&self) {
        let (call, from) = (libc::SYS_sched_setattr, std::ptr::from_ref(self));
        // SAFETY: the struct outlives the call, which changes nothing but this thread's scheduling.
        let _ = unsafe { libc::syscall(call, Self::OWN, from, Self::NO_FLAGS) };
    }
}

/// Gives this thread low priority for processors and devices, permanently. Errors are ignored.
fn become_low_priority() {
    /// The lowest level of `IOPRIO_CLASS_BE`. The idle class is even lower, but its requests can
    /// starve.
    const LAST: libc::c_int = 2 << IO_CLASS_SHIFT | 7;
    let policy = libc::SCHED_IDLE as u32;
    Scheduling { size: Scheduling::SIZE, policy, ..Scheduling::default() }.apply();
    set_io_priority(LAST);
}

/// Gives this thread the lowest weight of its scheduling policy (a nice value of 19), permanently:
/// raising it again takes a privilege. Errors are ignored.
pub fn lower_cpu_priority() {
    const NICEST: i32 = 19;
    // Linux keeps a nice value for each thread; the calling one is meant without an identifier.
    let _ = rustix::process::setpriority_process(None, NICEST);
}

/// Makes this thread's requests those of the idle class: an I/O scheduler that supports priorities
/// (such as BFQ) serves them only while no others wait. Errors are ignored.
pub fn lower_io_priority() {
    /// `IOPRIO_CLASS_IDLE`.
    const IDLE: libc::c_int = 3 << IO_CLASS_SHIFT;
    set_io_priority(IDLE);
}

/// Position of the class in an I/O priority.
const IO_CLASS_SHIFT: libc::c_int = 13;

#[expect(unsafe_code, reason = "rustix has no wrapper for ioprio_set")]
fn set_io_priority(priority: libc::c_int) {
    /// `IOPRIO_WHO_PROCESS`: the next argument of the call is a thread id. The id 0 means the
    /// calling thread.
    const THREAD: libc::c_int = 1;
    // SAFETY: the call accesses no memory of this process.
    let _ = unsafe { libc::syscall(libc::SYS_ioprio_set, THREAD, 0, priority) };
}

impl<T> Thread<T> {
    /// Waits for the thread to end and returns its result, or the payload of its panic.
    pub fn join(mut self) -> std::thread::Result<T> {
        match self.handle.take() {
            Some(handle) => handle.join(),
            None => {
                unreachable!("only join and drop take the handle, and each consumes the thread")
            }
        }
    }

    /// Returns whether the thread has ended, so that joining it does not wait.
    pub fn is_finished(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl<T> Drop for Thread<T> {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        // A thread that drops its own guard cannot join itself. It is about to end anyway.
        if handle.thread().id() != std::thread::current().id() {
            // Ignore a panic of the thread: the panic hook has already reported it, and panicking
            // again inside a drop could abort the process.
            let _ = handle.join();
        }
    }
}

/// Returns the message of a panic; `None` if its payload is no text.
pub fn panic_message(payload: &(dyn Any + Send)) -> Option<&str> {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_dropped_thread_has_ended() {
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ended);
        let thread = spawn("sleeper", move || {
            std::thread::sleep(Duration::from_millis(20));
            flag.store(true, Relaxed);
        })
        .unwrap();
        drop(thread);
        assert!(ended.load(Relaxed));
    }

    #[test]
    fn join_returns_the_value_or_the_panic() {
        let named = spawn("answer", || std::thread::current().name().map(str::to_owned)).unwrap();
        assert_eq!(named.join().unwrap().as_deref(), Some("answer"));
        let panicking = spawn("panics", || panic!("on purpose")).unwrap();
        assert!(panicking.join().is_err());
    }

    #[test]
    fn background_threads_have_a_longer_slice() {
        let slice = |weight| {
            let read = || Scheduling::of_this_thread().map_or(0, |own| own.runtime_ns);
            spawn_with(weight, "slice", read).unwrap().join().unwrap()
        };
        let (normal, background) = (slice(Weight::Normal), slice(Weight::Background));
        if normal == 0 {
            eprintln!("skipped: the kernel does not report the slices of threads");
            return;
        }
        assert!(background > normal, "{background} and {normal} ns");
    }

    /// Returns the class of the calling thread's I/O priority, as a number of the kernel.
    #[expect(unsafe_code, reason = "rustix has no wrapper for ioprio_get")]
    fn io_class() -> libc::c_long {
        // SAFETY: the call accesses no memory of this process.
        let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, 1, 0) };
        assert!(priority >= 0, "{}", io::Error::last_os_error());
        priority >> IO_CLASS_SHIFT
    }

    #[test]
    fn priorities_are_lowered_for_one_thread() {
        let nice = || rustix::process::getpriority_process(None).unwrap_or(-1);
        let lowered = spawn("nice", move || {
            lower_cpu_priority();
            lower_io_priority();
            (nice(), io_class())
        });
        let idle = 3;
        assert_eq!(lowered.unwrap().join().unwrap(), (19, idle));
        let of_this_thread = (nice(), io_class());
        assert!(of_this_thread.0 < 19 && of_this_thread.1 != idle, "{of_this_thread:?}");
    }

    #[test]
    #[cfg(debug_assertions)]
    fn the_error_names_the_thread_that_was_not_started() {
        with_starts_left(1, || {
            drop(spawn("first", || ()).unwrap());
            let error = spawn("second", || ()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            let text = error.to_string();
            assert!(text.starts_with("cannot start the thread 'second': "), "{text}");
        });
        drop(spawn("third", || ()).unwrap());
    }
}
