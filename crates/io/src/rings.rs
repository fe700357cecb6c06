//! A bounded pool of io_uring instances.
//!
//! A ring costs a file descriptor and some kernel memory, and setting one up takes longer than a
//! read from a fast device. So rings are kept for reuse. Each open ring is
//! [reserved](DescriptorBudget::reserve) in the budget of the pool.
//!
//! Whoever keeps a ring for a long time lends it (`Lender`): if no ring is idle and a few are
//! open, the pool takes back one that has no request in flight, before it opens another one.
//!
//! `TAILWATER_IO_URING=off` in the environment disables io_uring in all pools.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock, Weak};

use io_uring::{IoUring, opcode};
use rustix::io::Errno;

use crate::descriptors::{DescriptorBudget, Reservation};
use crate::sync::Mutex;

/// Size of a ring's submission queue: maximum number of requests submitted in one call. More may be
/// in flight.
const ENTRIES: u32 = 64;

/// Maximum number of rings of a pool that are open at the same time.
const RINGS_MAX: usize = 32;

/// Number of rings that the pool opens before it takes back those that are lent. Up to so many
/// streams that are read in turn keep their rings; otherwise, each would take the ring of a stream
/// that needs it next. It is enough for a few scans at a time, and costs few descriptors.
const FEW: usize = 4;

/// Environment variable. The value `off` disables io_uring.
const SWITCH: &str = "TAILWATER_IO_URING";

/// A bounded pool of io_uring instances. Safe to use from any thread.
pub struct Rings {
    budget: DescriptorBudget,
    /// Whether the kernel has io_uring and lets this process use it. Containers often forbid it.
    /// Empty until the first ring is wanted.
    allowed: OnceLock<bool>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    idle: Vec<OpenRing>,
    /// Number of open rings, idle or in use.
    open: usize,
    /// Users of rings, from which the pool may take their rings back.
    lenders: Vec<Weak<dyn Lender>>,
}

/// A user of a ring that lends the ring to its pool while no request is in flight.
pub(crate) trait Lender: Send + Sync {
    /// Removes and returns the ring, if no request is in flight. Does not wait, and does not use
    /// the pool.
    fn take_back(&self) -> Option<PooledRing>;
}

impl State {
    /// Takes back a ring that was lent, if there is one without requests.
    fn take_back(&mut self) -> Option<PooledRing> {
        let mut taken = None;
        self.lenders.retain(|lender| match lender.upgrade() {
            Some(lender) if taken.is_none() => {
                taken = lender.take_back();
                taken.is_none()
            }
            lender => lender.is_some(),
        });
        taken
    }
}

struct OpenRing {
    ring: IoUring,
    _descriptor: Reservation,
}

impl Rings {
    /// Creates a pool without rings. Each ring that it opens is reserved in `budget`.
    pub fn new(budget: &DescriptorBudget) -> Arc<Self> {
        let (budget, allowed) = (budget.clone(), OnceLock::new());
        Arc::new(Self { budget, allowed, state: Mutex::default() })
    }

    /// Returns whether the kernel has io_uring and lets this process use it. The first call finds
    /// out by setting up a ring.
    pub fn are_allowed(&self) -> bool {
        if let Some(allowed) = self.allowed.get() {
            return *allowed;
        }
        let is_off = std::env::var_os(SWITCH).is_some_and(|value| value == "off");
        if is_off {
            return *self.allowed.get_or_init(|| false);
        }
        let allowed = match build() {
            // Out of file descriptors. A later attempt may succeed, so the result is not
            // remembered.
            Err(error) if is_out_of_descriptors(&error) => return false,
            built => built.is_ok_and(answers),
        };
        *self.allowed.get_or_init(|| allowed)
    }

    /// Takes a ring without requests; `None` if io_uring is not allowed, all rings have requests,
    /// or setting up a ring fails.
    pub(crate) fn take(self: &Arc<Self>) -> Option<PooledRing> {
        if !self.are_allowed() {
            return None;
        }
        let mut state = self.state.lock();
        if let Some(ring) = state.idle.pop() {
            return Some(PooledRing { ring: Some(ring), pool: Arc::clone(self) });
        }
        // Before yet another ring is opened: so streams that are seldom read share a few rings.
        if state.open >= FEW
            && let Some(ring) = state.take_back()
        {
            return Some(ring);
        }
        if state.open == RINGS_MAX {
            return None;
        }
        state.open += 1;
        drop(state);
        let descriptor = self.budget.reserve(1);
        match build() {
            Ok(ring) => {
                let ring = OpenRing { ring, _descriptor: descriptor };
                Some(PooledRing { ring: Some(ring), pool: Arc::clone(self) })
            }
            Err(_) => {
                let mut state = self.state.lock();
                state.open -= 1;
                state.take_back()
            }
        }
    }

    /// Adds a user of a ring of this pool, from which the pool may take the ring back.
    pub(crate) fn add_lender(&self, lender: &Arc<dyn Lender>) {
        let lenders = &mut self.state.lock().lenders;
        lenders.retain(|other| other.strong_count() > 0);
        lenders.push(Arc::downgrade(lender));
    }
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Rings")
            .field("open", &state.open)
            .field("idle", &state.idle.len())
            .finish_non_exhaustive()
    }
}

/// A ring that returns to its pool when it is dropped. It must then have no request in flight.
pub(crate) struct PooledRing {
    /// The ring; `None` only inside `drop` and [`Self::close`].
    ring: Option<OpenRing>,
    pool: Arc<Rings>,
}

impl PooledRing {
    /// Returns the pool to which the ring belongs.
    pub(crate) fn pool(&self) -> &Arc<Rings> {
        &self.pool
    }

    /// Closes the ring instead of returning it to the pool.
    pub(crate) fn close(mut self) {
        self.ring = None;
    }
}

impl Deref for PooledRing {
    type Target = IoUring;

    fn deref(&self) -> &IoUring {
        match &self.ring {
            Some(open) => &open.ring,
            None => unreachable!("the ring leaves only when this is dropped"),
        }
    }
}

impl DerefMut for PooledRing {
    fn deref_mut(&mut self) -> &mut IoUring {
        match &mut self.ring {
            Some(open) => &mut open.ring,
            None => unreachable!("the ring leaves only when this is dropped"),
        }
    }
}

impl Drop for PooledRing {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        match self.ring.take() {
            Some(ring) => state.idle.push(ring),
            None => state.open -= 1,
        }
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Returns whether a request completes on this ring. A system call filter may allow
/// `io_uring_setup` but forbid `io_uring_enter`.
#[expect(unsafe_code, reason = "submitting an entry is unsafe in general")]
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
