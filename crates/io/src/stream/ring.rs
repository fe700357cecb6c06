//! Requests that the kernel makes on its own: io_uring.
//!
//! They are submitted, and their ends are seen, by the stream's own thread, so no other thread has
//! to wake up for them. What a request leaves undone, because it was short or was given back, that
//! thread does by plain reads.
//!
//! # Ownership
//! From its submission until its end was seen, a request's buffer is the kernel's: it stands in
//! `under_way`, where nothing looks at its bytes. Dropping this waits for all of them, so buffers
//! and files outlive what the kernel does with them; forgetting it leaks them.
#![expect(unsafe_code, reason = "the kernel is told the addresses of buffers")]

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, OnceLock};

use io_uring::{IoUring, cqueue, opcode, types};
use rustix::io::Errno;

use super::requests::{Chunk, Source};
use crate::buffer::PooledBuffer;
use crate::clock::monotonic_ns;
use crate::posix::system::RWF_DONTCACHE;
use crate::purpose::IoMode;
use crate::{Error, Operation};

/// How many requests are handed to the kernel in one call. More may be on their way.
const ENTRIES: u32 = 8;

/// Set to `off`, it has all streams do without io_uring.
const SWITCH: &str = "TAILWATER_IO_URING";

/// The requests of one stream.
pub(super) struct RingRequests {
    ring: IoUring,
    /// By a number that no other request of this ring has.
    under_way: BTreeMap<u64, UnderWay>,
    next_number: u64,
}

struct UnderWay {
    index: u64,
    /// Keeps the file open.
    source: Arc<Source>,
    buffer: PooledBuffer,
    submitted_ns: u64,
}

/// Whether the kernel has io_uring and lets this process use it: containers often forbid it.
pub(super) fn is_allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        std::env::var_os(SWITCH).is_none_or(|value| value != "off") && build().is_ok_and(answers)
    })
}

/// Whether a request gets an answer: a filter may let rings be made and not be entered.
fn answers(mut ring: IoUring) -> bool {
    // SAFETY: it refers to no memory.
    let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
    pushed.is_ok() && ring.submit_and_wait(1).is_ok() && ring.completion().next().is_some()
}

fn build() -> io::Result<IoUring> {
    // The ends are looked for by a call anyway, so the thread need not be interrupted for them.
    match IoUring::builder().setup_coop_taskrun().build(ENTRIES) {
        // Before Linux 5.19.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => IoUring::new(ENTRIES),
        built => built,
    }
}

impl RingRequests {
    /// `None` where it is not allowed, or nothing is left to make a ring from.
    pub(super) fn new() -> Option<Self> {
        if !is_allowed() {
            return None;
        }
        Some(Self { ring: build().ok()?, under_way: BTreeMap::new(), next_number: 0 })
    }

    /// Hands in a request. The file has a descriptor.
    pub(super) fn submit(&mut self, source: &Arc<Source>, index: u64, mut buffer: PooledBuffer) {
        let range = source.plan.range(index);
        let length = (range.end - range.start) as usize;
        buffer.set_length(length);
        let (source, submitted_ns) = (Arc::clone(source), monotonic_ns());
        let number = self.next_number;
        self.next_number += 1;
        let request = UnderWay { index, source, buffer, submitted_ns };
        let request = self.under_way.entry(number).or_insert(request);
        // A descriptor that is not there fails as one that is closed, and the request is made anew
        // by a plain read.
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
        // SAFETY: the memory is `length` bytes that the buffer owns. It stays in `under_way`, and
        // nothing reads or writes its bytes there, until the end of this request was seen; whoever
        // drops or unwinds past this waits for that.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            // What was pushed before was not taken, for want of memory: until some of it is.
            self.enter(0);
        }
        self.enter(0);
    }

    /// A request that has ended, if any has.
    pub(super) fn ended(&mut self) -> Option<Chunk> {
        if self.under_way.is_empty() {
            return None;
        }
        // The kernel tells of an end when this thread comes by.
        self.enter(0);
        let end = self.ring.completion().next()?;
        let (request, result) = self.take(&end);
        Some(Self::chunk(request, result))
    }

    /// Waits for the end of some request. One is under way.
    pub(super) fn wait(&mut self) -> Chunk {
        let (request, result) = self.next_end();
        Self::chunk(request, result)
    }

    fn chunk(mut request: UnderWay, result: Result<usize, Errno>) -> Chunk {
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

    /// Waits for the end of some request and takes it out.
    fn next_end(&mut self) -> (UnderWay, Result<usize, Errno>) {
        loop {
            let end = self.ring.completion().next();
            let Some(end) = end else {
                self.enter(1);
                continue;
            };
            return self.take(&end);
        }
    }

    fn take(&mut self, end: &cqueue::Entry) -> (UnderWay, Result<usize, Errno>) {
        let Some(request) = self.under_way.remove(&end.user_data()) else {
            unreachable!("the kernel ends each request once")
        };
        let result = usize::try_from(end.result());
        (request, result.map_err(|_| Errno::from_raw_os_error(-end.result())))
    }

    /// Hands over what was pushed and waits until so many requests have ended.
    fn enter(&self, ends: usize) {
        if self.ring.submitter().submit_and_wait(ends).is_err() {
            // A signal, or no memory for now: whoever called looks again.
            std::thread::yield_now();
        }
    }
}

/// Whether the kernel only did not make the request this way: an interruption, the end of the
/// thread that submitted it, something that this kernel or filesystem cannot do by a ring.
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
        while !self.under_way.is_empty() {
            drop(self.next_end());
        }
    }
}

impl fmt::Debug for RingRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indices: Vec<_> = self.under_way.values().map(|request| request.index).collect();
        f.debug_struct("RingRequests").field("under_way", &indices).finish_non_exhaustive()
    }
}
