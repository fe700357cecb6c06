//! Requests that the kernel executes asynchronously: io_uring.
//!
//! The thread that reads from the stream submits them and reaps their completions, so no other
//! thread has to wake up. If the kernel reads fewer bytes than requested, or returns a request
//! without executing it, that thread completes the request with ordinary read calls.
//!
//! # Ownership
//! From submission until its completion has been reaped, a request's buffer belongs to the kernel.
//! It is kept in `pending`, where nothing accesses its bytes. Dropping [`RingRequests`] waits for
//! all requests, so buffers and files outlive the kernel's use of them. Forgetting it
//! (`mem::forget`) leaks them.
//!
//! # Refusals
//! A kernel may stop accepting requests, because a system call filter installed later forbids
//! `io_uring_enter`, or because memory is short for a long time. Then the ring is given up, and
//! nothing more is submitted to it. Requests that the kernel has not accepted are made with
//! ordinary read calls. Completions of accepted requests still arrive through the memory shared
//! with the kernel. If the completion of an accepted request does not arrive, the request fails and
//! its buffer is leaked, because the kernel may still write to it.
#![expect(unsafe_code, reason = "the kernel gets the addresses of buffers")]

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;

use super::span::{Chunk, Source};
use crate::buffer::PooledBuffer;
use crate::clock::monotonic_ns;
use crate::posix::system::RWF_DONTCACHE;
use crate::purpose::IoMode;
use crate::{Error, Operation};

/// Size of the submission queue: maximum number of requests submitted in one call. More may be in
/// flight.
const ENTRIES: u32 = 8;

/// Number of consecutive transient errors of `io_uring_enter` after which a ring is given up. With
/// a pause of [`REST`] after each, this takes about a second.
const REFUSALS_MAX: u32 = 1000;

/// After a ring was given up, it is polled for the completions of its requests. After this many
/// polls that found no completion, the requests fail. With a pause of [`REST`] after each poll,
/// this takes about a minute.
const LOOKS_MAX: u32 = 60_000;

/// Pause after a transient error, and between two polls of a ring that was given up. Such a ring
/// gets no new requests, but some of its requests may still be in flight.
const REST: Duration = Duration::from_millis(1);

/// Environment variable. The value `off` disables io_uring for all streams.
const SWITCH: &str = "TAILWATER_IO_URING";

/// The requests of one stream, submitted to a ring of its own.
pub(super) struct RingRequests {
    ring: IoUring,
    /// The submitted requests, by their numbers, which are assigned in the order of submission.
    pending: BTreeMap<u64, PendingRequest>,
    next_number: u64,
    /// Completed requests that the stream has not taken yet.
    done: VecDeque<(PendingRequest, Result<usize, Errno>)>,
    /// Requests that the kernel had not accepted when the ring was given up, and those made after
    /// that. They are made with ordinary read calls.
    left: VecDeque<PendingRequest>,
    /// Number of consecutive transient errors of `io_uring_enter` so far.
    refusals: u32,
    is_given_up: bool,
    /// After the ring was given up: how many more times the ring is polled for completions before
    /// its requests fail.
    polls_left: u32,
}

struct PendingRequest {
    index: u64,
    /// Keeps the file open while the kernel reads from it.
    source: Arc<Source>,
    buffer: PooledBuffer,
    submitted_ns: u64,
}

/// Returns whether the kernel has io_uring and lets this process use it. Containers often forbid
/// it.
pub(super) fn is_allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    if let Some(allowed) = ALLOWED.get() {
        return *allowed;
    }
    let is_off = std::env::var_os(SWITCH).is_some_and(|value| value == "off");
    let allowed = match build() {
        _ if is_off => false,
        // Out of file descriptors. A later attempt may succeed, so the result is not remembered.
        Err(error) if is_out_of_descriptors(&error) => return false,
        built => built.is_ok_and(answers),
    };
    *ALLOWED.get_or_init(|| allowed)
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Returns whether a request completes on this ring. A system call filter may allow
/// `io_uring_setup` but forbid `io_uring_enter`.
fn answers(mut ring: IoUring) -> bool {
    // SAFETY: the entry, a no-op, refers to no memory.
    let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
    pushed.is_ok() && ring.submit_and_wait(1).is_ok() && ring.completion().next().is_some()
}

fn build() -> io::Result<IoUring> {
    // With `COOP_TASKRUN` the kernel does not interrupt the thread to post completions; they are
    // posted when the thread next enters the kernel, which it does anyway.
    match IoUring::builder().setup_coop_taskrun().build(ENTRIES) {
        // Linux before 5.19 does not have the flag `COOP_TASKRUN`.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => IoUring::new(ENTRIES),
        built => built,
    }
}

impl RingRequests {
    /// Creates a ring; `None` if io_uring is not allowed, or creating the ring fails.
    pub(super) fn new() -> Option<Self> {
        if !is_allowed() {
            return None;
        }
        Some(Self {
            ring: build().ok()?,
            pending: BTreeMap::new(),
            next_number: 0,
            done: VecDeque::new(),
            left: VecDeque::new(),
            refusals: 0,
            is_given_up: false,
            polls_left: LOOKS_MAX,
        })
    }

    /// Submits a request. If its file has no descriptor ([`crate::ReadFile::descriptor`]), the
    /// request is made with an ordinary read call.
    pub(super) fn submit(&mut self, source: &Arc<Source>, index: u64, mut buffer: PooledBuffer) {
        let range = source.plan.range(index);
        let length = (range.end - range.start) as usize;
        buffer.set_length(length);
        let (source, submitted_ns) = (Arc::clone(source), monotonic_ns());
        let request = PendingRequest { index, source, buffer, submitted_ns };
        if self.is_given_up {
            self.left.push_back(request);
            return;
        }
        let number = self.next_number;
        let request = self.pending.entry(number).or_insert(request);
        // With descriptor -1 the request completes with EBADF, and is then made with an ordinary
        // read call.
        let descriptor = request.source.file.descriptor().map_or(-1, |file| file.as_raw_fd());
        let flags = match request.source.file.mode() {
            IoMode::Uncached => RWF_DONTCACHE,
            IoMode::Buffered | IoMode::Direct | IoMode::DropBehind => 0,
        };
        let memory = request.buffer.as_mut_ptr();
        let entry = opcode::Read::new(types::Fd(descriptor), memory, length as u32)
            .offset(range.start)
            .rw_flags(flags as i32)
            .build()
            .user_data(number);
        // SAFETY: the memory is `length` bytes that the buffer owns. The buffer stays in `pending`,
        // where nothing accesses its bytes, until the completion of this request has been reaped or
        // the kernel can no longer accept the request. Dropping `self`, also during unwinding,
        // waits for that.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            // The submission queue is full. A call into the kernel makes the kernel take entries
            // out of the queue.
            self.enter(0);
            if self.is_given_up {
                return;
            }
        }
        self.next_number += 1;
        self.enter(0);
    }

    /// Returns a completed request if there is one; does not wait.
    pub(super) fn ended(&mut self) -> Option<Chunk> {
        if self.done.is_empty() && !self.pending.is_empty() {
            // Entering the kernel makes it post the completions of this thread's requests.
            self.enter(0);
            self.reap();
        }
        let (request, result) = self.done.pop_front()?;
        Some(Self::chunk(request, result))
    }

    /// Waits until a request ends. At least one must be in flight.
    pub(super) fn wait(&mut self) -> Chunk {
        match self.next_end() {
            Some((request, result)) => Self::chunk(request, result),
            None => self.lose(),
        }
    }

    fn chunk(mut request: PendingRequest, result: Result<usize, Errno>) -> Chunk {
        let (index, source, buffer) = (request.index, &request.source, &mut request.buffer);
        let begin = source.plan.range(index).start;
        let error = match result {
            Ok(count) => {
                let duration_ns = monotonic_ns() - request.submitted_ns;
                source.file.was_read(begin, count, source.purpose, duration_ns);
                source.read_on(index, buffer, count)
            }
            Err(error) if was_given_back(error) => source.read(index, buffer),
            Err(error) => {
                buffer.clear();
                Some(Error::at(Operation::Read, source.file.path(), begin, error))
            }
        };
        Chunk { index, buffer: request.buffer, error }
    }

    /// Waits for a request to end and removes it; `None` if no completion arrives in time. For a
    /// request that the kernel has not accepted, the result is `CANCELED`, as if the kernel had
    /// returned it without executing it.
    fn next_end(&mut self) -> Option<(PendingRequest, Result<usize, Errno>)> {
        loop {
            self.reap();
            if let Some(end) = self.done.pop_front() {
                return Some(end);
            }
            if let Some(request) = self.left.pop_front() {
                return Some((request, Err(Errno::CANCELED)));
            }
            if !self.is_given_up {
                self.enter(1);
            } else if self.polls_left > 0 {
                self.polls_left -= 1;
                std::thread::sleep(REST);
            } else {
                return None;
            }
        }
    }

    /// Moves the requests whose completions have arrived from `pending` to `done`.
    fn reap(&mut self) {
        for end in self.ring.completion() {
            // A request whose completion arrives after `lose` has failed it is no longer pending.
            let Some(request) = self.pending.remove(&end.user_data()) else { continue };
            let result = usize::try_from(end.result());
            let result = result.map_err(|_| Errno::from_raw_os_error(-end.result()));
            self.done.push_back((request, result));
        }
    }

    /// Submits the entries in the submission queue and waits for the completion of requests; `ends`
    /// is their number. After a permanent error, or too many transient errors in a row, the ring is
    /// given up.
    fn enter(&mut self, ends: usize) {
        if self.is_given_up {
            return;
        }
        let Err(error) = self.ring.submitter().submit_and_wait(ends) else {
            self.refusals = 0;
            return;
        };
        self.refusals += 1;
        // The call may have failed because the completion queue is full, so empty it.
        self.reap();
        match Errno::from_io_error(&error) {
            // A signal interrupted the system call. The caller calls `enter` again if it still
            // waits.
            Some(Errno::INTR) => self.refusals = 0,
            Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) if self.refusals < REFUSALS_MAX => {
                std::thread::sleep(REST);
            }
            _ => self.give_up(),
        }
    }

    /// Stops submitting, and moves the requests that the kernel has not accepted from `pending` to
    /// `left`. The kernel accepts entries only inside `io_uring_enter`, so entries still in the
    /// submission queue are unknown to it.
    fn give_up(&mut self) {
        self.is_given_up = true;
        let waiting = self.ring.submission().len() as u64;
        let not_taken = self.pending.split_off(&(self.next_number - waiting));
        self.left.extend(not_taken.into_values());
    }

    /// Fails the oldest request because its completion does not arrive. Its buffer is leaked.
    fn lose(&mut self) -> Chunk {
        let Some((_, PendingRequest { index, source, buffer, .. })) = self.pending.pop_first()
        else {
            unreachable!("a caller that waits has submitted a request")
        };
        let offset = source.plan.range(index).start;
        let reason = io::Error::other("the kernel did not complete a request submitted to it");
        let error = Error::at(Operation::Read, source.file.path(), offset, reason);
        // Leak the source too: it keeps the file open, which the kernel may still read from.
        std::mem::forget(source);
        Chunk { index, buffer: buffer.leak_and_replace(), error: Some(error) }
    }
}

/// Returns whether this error means that the kernel did not execute the request in the ring, so
/// that an ordinary read call may succeed. The reasons are an interruption, the exit of the
/// submitting thread, or a file or filesystem that does not support the operation in a ring.
fn was_given_back(error: Errno) -> bool {
    matches!(
        error,
        Errno::INTR
            | Errno::AGAIN
            | Errno::CANCELED
            | Errno::BADF
            | Errno::INVAL
            | Errno::OPNOTSUPP
    )
}

impl Drop for RingRequests {
    fn drop(&mut self) {
        self.left.clear();
        while !self.pending.is_empty() {
            if self.next_end().is_none() {
                // No completion arrived in time. Leak the buffers, because the kernel may still
                // write to them.
                std::mem::forget(std::mem::take(&mut self.pending));
            }
        }
    }
}

impl fmt::Debug for RingRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indices: Vec<_> = self.pending.values().map(|request| request.index).collect();
        f.debug_struct("RingRequests").field("pending", &indices).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
