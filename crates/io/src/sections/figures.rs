//! The kernel's figures of the calling thread.
#![expect(unsafe_code, reason = "rustix has no getrusage")]

use std::any::Any;
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::time::{ClockId, clock_gettime};

/// How a thread used processors and memory since it was started.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    /// Time for which it ran, in nanoseconds.
    pub(super) running_ns: u64,
    /// Time for which it was runnable and did not run, in nanoseconds; 0 if it is unknown.
    pub(super) waiting_ns: u64,
    /// Page faults without a read from the device.
    pub(super) minor_faults: u64,
    /// Page faults with a read from the device.
    pub(super) major_faults: u64,
}

impl Figures {
    pub(super) const ZERO: Self =
        Self { running_ns: 0, waiting_ns: 0, minor_faults: 0, major_faults: 0 };

    /// Returns the figures of the calling thread. Its wait for a processor is unknown if the kernel
    /// does not keep it, or if the thread has no file ([`keep_file`]).
    pub(super) fn of_this_thread() -> Self {
        // The running time in `schedstat` may be some milliseconds old, this one never is.
        let running = clock_gettime(ClockId::ThreadCPUTime);
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the call writes to `usage`, which is valid even if it writes nothing, because
        // zeros are valid.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init()
        };
        Self {
            running_ns: running.tv_sec.cast_unsigned() * 1_000_000_000
                + running.tv_nsec.cast_unsigned(),
            waiting_ns: waiting_ns().unwrap_or(0),
            minor_faults: usage.ru_minflt.cast_unsigned(),
            major_faults: usage.ru_majflt.cast_unsigned(),
        }
    }
}

/// A file, and what is returned when it has been closed.
type File = (OwnedFd, Box<dyn Any>);

thread_local! {
    /// The thread's `schedstat` file. It stays open, because opening it takes longer than reading
    /// it.
    static FILE: RefCell<Option<File>> = const { RefCell::new(None) };
}

/// Keeps the `schedstat` file of the calling thread open until the thread ends, and `permit` as
/// long.
pub(crate) fn keep_file(file: OwnedFd, permit: Box<dyn Any>) {
    // If the thread is ending, the file is closed at once.
    let _ = FILE.try_with(|kept| *kept.borrow_mut() = Some((file, permit)));
}

fn waiting_ns() -> Option<u64> {
    let mut text = [0; 96];
    let read = |kept: &RefCell<Option<File>>| {
        let kept = kept.borrow();
        rustix::io::pread(&kept.as_ref()?.0, &mut text, 0).ok()
    };
    let length = FILE.try_with(read).ok()??;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    // The time for which it ran, and that for which it waited.
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}
