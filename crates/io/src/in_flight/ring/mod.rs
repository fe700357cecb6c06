//! Requests that the kernel executes asynchronously: io_uring.
//!
//! The thread that wants the bytes submits them and reaps their completions, so no other thread has
//! to wake up. If the kernel reads fewer bytes than requested, or returns a request
//! without executing it, that thread completes the request with ordinary read calls.
//!
//! # Ownership
//! From submission until its completion has been reaped, a request's buffer belongs to the kernel.
//! It is kept in `pending`, where nothing accesses its bytes. Dropping [`RingRequests`] waits for
//! all requests, so buffers and files outlive the kernel's use of them. Forgetting it
//! (`mem::forget`) leaks them.
//!
//! # Lending
//! A stream that is not read for a long time would keep its ring as long. So a stream lends its
//! ring: when the pool needs one, and no request of the stream is in flight, the pool takes the
//! ring back ([`Lender`]). The results of completed requests stay with the stream. While the stream
//! chooses how to make requests and submits them, it holds the ring: the pool cannot take it.
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
use std::sync::Arc;
use std::time::Duration;

use io_uring::{opcode, types};
use rustix::io::Errno;

use super::request::{CompletedRead, ReadRequest};
use crate::buffer::PooledBuffer;
use crate::clock::monotonic_ns;
use crate::posix::system::RWF_DONTCACHE;
use crate::purpose::IoMode;
use crate::rings::{Lender, PooledRing, Rings};
use crate::sections::{self, Section};
use crate::statistics::ReadTime;
use crate::sync::Mutex;
use crate::{Error, Operation};

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

/// The requests of one queue, submitted to a ring that only this queue uses. Dropping this waits
/// for them.
#[derive(Debug)]
pub(crate) struct RingRequests {
    /// The requests. The pool refers to them, too, once the ring has been lent.
    queue: Arc<Mutex<RingQueue>>,
    /// Whether the pool knows that the ring is lent at times.
    is_known: bool,
}

impl RingRequests {
    pub(super) fn new(ring: PooledRing) -> Self {
        Self { queue: Arc::new(Mutex::new(RingQueue::new(ring))), is_known: false }
    }

    /// From now on, the pool cannot take the ring back. It may have done so before.
    pub(super) fn hold(&self) {
        self.queue.lock().is_held = true;
    }

    /// Lets the pool take the ring back while no request is in flight.
    pub(super) fn lend(&mut self) {
        let pool = {
            let mut queue = self.queue.lock();
            queue.is_held = false;
            queue.ring.as_ref().map(|ring| Arc::clone(ring.pool()))
        };
        if let Some(pool) = pool
            && !std::mem::replace(&mut self.is_known, true)
        {
            let queue: Arc<dyn Lender> = Arc::clone(&self.queue) as _;
            pool.add_lender(&queue);
        }
    }

    /// Whether the queue has a ring of this pool that still accepts requests.
    pub(super) fn is_of(&self, rings: &Arc<Rings>) -> bool {
        self.queue.lock().is_of(rings)
    }

    /// Adds a request: see [`RingQueue::submit`].
    pub(super) fn submit(&self, request: ReadRequest, buffer: PooledBuffer) {
        self.queue.lock().submit(request, buffer);
    }

    /// Makes the kernel take the entries out of the submission queue.
    pub(super) fn begin(&self) {
        self.queue.lock().begin();
    }

    /// Returns a completed request if there is one; does not wait.
    pub(super) fn ended(&self) -> Option<CompletedRead> {
        self.queue.lock().ended()
    }

    /// Returns a completed request if its completion was posted; does not enter the kernel.
    pub(super) fn completed(&self) -> Option<CompletedRead> {
        self.queue.lock().completed()
    }

    /// Waits until a request ends. At least one must be in flight.
    pub(super) fn wait(&self) -> CompletedRead {
        self.queue.lock().wait()
    }

    /// Cancels the requests with a number below `number` that the kernel has not accepted, and
    /// returns their buffers. Other requests cannot be cancelled: the kernel may have begun them.
    pub(super) fn take_back(&self, number: u64) -> Vec<PooledBuffer> {
        self.queue.lock().cancel_left(number)
    }
}

impl Drop for RingRequests {
    fn drop(&mut self) {
        // The pool may hold another reference to the queue for a moment, so the queue itself may be
        // dropped later, by another thread.
        self.queue.lock().end();
    }
}

impl Lender for Mutex<RingQueue> {
    fn take_back(&self) -> Option<PooledRing> {
        self.try_lock()?.take_idle_ring()
    }
}

/// A queue of requests, and its ring.
struct RingQueue {
    /// The ring; `None` after the pool has taken it back. Dropping `self` returns it to its pool,
    /// or closes it if it was given up.
    ring: Option<PooledRing>,
    /// Whether the pool cannot take the ring back.
    is_held: bool,
    /// The submitted requests, by their numbers, which are assigned in the order of submission.
    pending: BTreeMap<u64, PendingRequest>,
    next_number: u64,
    /// Completed requests that the caller has not taken yet.
    done: VecDeque<(PendingRequest, Result<usize, Errno>)>,
    /// Requests that the kernel had not accepted when the ring was given up, and those made after
    /// that, or without a ring. They are made with ordinary read calls.
    left: VecDeque<PendingRequest>,
    /// Number of consecutive transient errors of `io_uring_enter` so far.
    refusals: u32,
    is_given_up: bool,
    /// After the ring was given up: how many more times the ring is polled for completions before
    /// its requests fail.
    polls_left: u32,
}

struct PendingRequest {
    /// The request, which keeps its file open while the kernel reads from it.
    request: ReadRequest,
    buffer: PooledBuffer,
    submitted_ns: u64,
}

impl RingQueue {
    fn new(ring: PooledRing) -> Self {
        Self {
            ring: Some(ring),
            is_held: true,
            pending: BTreeMap::new(),
            next_number: 0,
            done: VecDeque::new(),
            left: VecDeque::new(),
            refusals: 0,
            is_given_up: false,
            polls_left: LOOKS_MAX,
        }
    }

    fn is_of(&self, rings: &Arc<Rings>) -> bool {
        !self.is_given_up && self.ring.as_ref().is_some_and(|ring| Arc::ptr_eq(ring.pool(), rings))
    }

    /// Removes and returns the ring, if it is not held and no request is in flight.
    fn take_idle_ring(&mut self) -> Option<PooledRing> {
        if self.is_held || self.is_given_up {
            return None;
        }
        self.reap();
        if self.pending.is_empty() { self.ring.take() } else { None }
    }

    /// Removes the requests of `left` with a number below `number`, and returns their buffers.
    fn cancel_left(&mut self, number: u64) -> Vec<PooledBuffer> {
        let (taken, left): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.left)
            .into_iter()
            .partition(|pending| pending.request.number < number);
        self.left = left;
        taken.into_iter().map(|pending| pending.buffer).collect()
    }

    /// Adds a request to the submission queue. If its file has no descriptor
    /// ([`crate::ReadFile::ring_access`]), the request is made with an ordinary read call.
    fn submit(&mut self, request: ReadRequest, mut buffer: PooledBuffer) {
        buffer.set_length(request.length);
        let pending = PendingRequest { request, buffer, submitted_ns: monotonic_ns() };
        if self.is_given_up || self.ring.is_none() {
            self.left.push_back(pending);
            return;
        }
        let number = self.next_number;
        let PendingRequest { request, buffer, .. } = self.pending.entry(number).or_insert(pending);
        // With descriptor -1 the request completes with EBADF, and is then made with an ordinary
        // read call.
        let access = request.file.ring_access();
        let descriptor = access.map_or(-1, |access| access.descriptor.as_raw_fd());
        let flags = match request.file.mode() {
            IoMode::Uncached => RWF_DONTCACHE,
            IoMode::Buffered | IoMode::Direct | IoMode::DropBehind => 0,
        };
        let entry =
            opcode::Read::new(types::Fd(descriptor), buffer.as_mut_ptr(), request.length as u32)
                .offset(request.offset)
                .rw_flags(flags as i32)
                .build()
                .user_data(number);
        let is_full = |ring: &mut PooledRing| {
            // SAFETY: the memory is `length` bytes that the buffer owns. The buffer stays in
            // `pending`, where nothing accesses its bytes, until the completion of this request has
            // been reaped or the kernel can no longer accept the request. Dropping the queue, also
            // during unwinding, waits for that.
            unsafe { ring.submission().push(&entry) }.is_err()
        };
        while self.ring.as_mut().is_some_and(is_full) {
            // The submission queue is full. A call into the kernel makes the kernel take entries
            // out of the queue.
            self.enter(0);
            if self.is_given_up {
                return;
            }
        }
        self.next_number += 1;
    }

    /// Makes the kernel take the entries out of the submission queue.
    fn begin(&mut self) {
        if self.waiting_entries() > 0 {
            self.enter(0);
        }
    }

    /// Returns the number of entries in the submission queue.
    fn waiting_entries(&mut self) -> u64 {
        self.ring.as_mut().map_or(0, |ring| ring.submission().len() as u64)
    }

    /// Returns a completed request if there is one; does not wait.
    fn ended(&mut self) -> Option<CompletedRead> {
        if self.done.is_empty() && !self.pending.is_empty() {
            // Entering the kernel makes it post the completions of this thread's requests.
            self.enter(0);
        }
        self.completed()
    }

    /// Returns a completed request if its completion was posted; does not enter the kernel.
    fn completed(&mut self) -> Option<CompletedRead> {
        self.reap();
        let (request, result) = self.done.pop_front()?;
        Some(Self::complete(request, result))
    }

    /// Waits until a request ends. At least one must be in flight.
    fn wait(&mut self) -> CompletedRead {
        match self.next_end() {
            Some((request, result)) => Self::complete(request, result),
            None => self.lose(),
        }
    }

    fn complete(pending: PendingRequest, result: Result<usize, Errno>) -> CompletedRead {
        let PendingRequest { request, mut buffer, submitted_ns } = pending;
        let error = match result {
            Ok(count) => {
                let duration_ns = monotonic_ns() - submitted_ns;
                let time = match request.in_batch {
                    true => ReadTime::InBatch(duration_ns),
                    false => ReadTime::Alone(duration_ns),
                };
                let _charged = request.charge();
                request.file.was_read(request.offset, count, request.purpose, time);
                request.read_on(&mut buffer, count)
            }
            Err(error) if was_given_back(error) => request.read(&mut buffer),
            Err(error) => {
                buffer.clear();
                Some(Error::at(Operation::Read, request.file.path(), request.offset, error))
            }
        };
        CompletedRead { number: request.number, buffer, error }
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
        let Some(ring) = &mut self.ring else { return };
        for end in ring.completion() {
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
        let Some(ring) = self.ring.as_ref().filter(|_| !self.is_given_up) else { return };
        // Even if it waits for no completion, the kernel may read from the page cache in this call.
        let _waiting = sections::enter(Section::Device);
        let Err(error) = ring.submitter().submit_and_wait(ends) else {
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
        let waiting = self.waiting_entries();
        let not_taken = self.pending.split_off(&(self.next_number - waiting));
        self.left.extend(not_taken.into_values());
    }

    /// Fails the oldest request because its completion does not arrive. Its buffer is leaked.
    fn lose(&mut self) -> CompletedRead {
        let Some((_, PendingRequest { request, buffer, .. })) = self.pending.pop_first() else {
            unreachable!("a caller that waits has submitted a request")
        };
        let reason = io::Error::other("the kernel did not complete a request submitted to it");
        let error = Error::at(Operation::Read, request.file.path(), request.offset, reason);
        let number = request.number;
        // Leak the request too: it keeps the file open, which the kernel may still read from.
        std::mem::forget(request);
        CompletedRead { number, buffer: buffer.leak_and_replace(), error: Some(error) }
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

impl RingQueue {
    /// Waits for all requests, drops their results, and returns the ring to its pool.
    fn end(&mut self) {
        self.left.clear();
        while !self.pending.is_empty() {
            if self.next_end().is_none() {
                // No completion arrived in time. Leak the buffers, because the kernel may still
                // write to them.
                std::mem::forget(std::mem::take(&mut self.pending));
            }
        }
        self.done.clear();
        match self.ring.take() {
            Some(ring) if self.is_given_up => ring.close(),
            _ => {}
        }
    }
}

impl Drop for RingQueue {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for RingQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<_> = self.pending.values().map(|it| it.request.number).collect();
        f.debug_struct("RingQueue").field("pending", &numbers).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
