//! The budget: reservations, claims, and the caches that close files for others.

use std::fmt;
use std::sync::{Arc, LazyLock, Weak};

use super::{Exhausted, open_files_max};
use crate::sync::{Mutex, Turns};

/// Whatever is reserved, claims may use at least 1/CLAIMED_PART of the limit.
const CLAIMED_PART: usize = 8;
/// Minimum capacity for claims, however low the limit is.
const CAPACITY_MIN: usize = 8;

/// All budgets of this process.
static BUDGETS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// The two kinds of claimed descriptors. Each can use what the other does not need, and always gets
/// half of the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Files that are open for reading.
    Reading,
    /// Files that are open for writing.
    Writing,
}

impl Share {
    fn other(self) -> Self {
        match self {
            Self::Reading => Self::Writing,
            Self::Writing => Self::Reading,
        }
    }
}

/// A cache of files that are kept open only for speed.
pub trait KeepsFilesOpen: Send + Sync {
    /// Closes some files, because a system call found no free descriptor. Runs in the thread whose
    /// call failed, while that thread may hold any of its locks. Must not open files, nor wait for
    /// a lock whose holder may open files. Returns whether it closed any.
    fn close_some(&self, exhausted: Exhausted) -> bool;

    /// Closes the least recently used file of a share that is not in use, and returns its
    /// [`Claim`]. Returns false if there is none. A cache whose files are not claimed has none.
    fn close_oldest(&self, _share: Share) -> bool {
        false
    }
}

/// A budget of file descriptors, as [the module](crate::descriptors) describes.
///
/// A clone is another handle to the same budget. Safe to use from any thread.
#[derive(Clone)]
pub struct DescriptorBudget(Arc<Shared>);

struct Shared {
    /// The limit; `None` for the current limit of the process.
    limit: Option<usize>,
    state: Mutex<State>,
    keepers: Mutex<Vec<Weak<dyn KeepsFilesOpen>>>,
    /// The threads that wait for descriptors.
    turns: Turns,
}

#[derive(Debug, Default)]
struct State {
    reserved: usize,
    /// The claimed descriptors of each share.
    reading: usize,
    writing: usize,
}

impl State {
    fn claimed(&mut self, share: Share) -> &mut usize {
        match share {
            Share::Reading => &mut self.reading,
            Share::Writing => &mut self.writing,
        }
    }
}

impl DescriptorBudget {
    /// Returns the budget of this process. Its limit is the process's current limit on open files.
    pub fn of_process() -> Self {
        static PROCESS: LazyLock<DescriptorBudget> = LazyLock::new(|| DescriptorBudget::with(None));
        PROCESS.clone()
    }

    /// Creates a separate budget of `limit` descriptors. The sum of the limits of all budgets in
    /// use should not exceed the process's limit.
    pub fn new(limit: usize) -> Self {
        Self::with(Some(limit))
    }

    fn with(limit: Option<usize>) -> Self {
        let shared = Arc::new(Shared {
            limit,
            state: Mutex::default(),
            keepers: Mutex::default(),
            turns: Turns::default(),
        });
        let mut budgets = BUDGETS.lock();
        budgets.retain(|budget| budget.strong_count() > 0);
        budgets.push(Arc::downgrade(&shared));
        Self(shared)
    }

    /// Returns the limit: the number of descriptors that all users of this budget may have open
    /// together. [`usize::MAX`] means no limit.
    pub fn limit(&self) -> usize {
        self.0.limit.unwrap_or_else(open_files_max)
    }

    /// Returns the capacity for claims: the limit without what is reserved.
    pub fn capacity(&self) -> usize {
        self.0.capacity(&self.0.state.lock())
    }

    /// Reserves `count` descriptors, as long as the result exists. A reservation is a statement,
    /// not a request: it succeeds even if it exceeds the limit. Claims can use at least an eighth
    /// of the limit in any case.
    pub fn reserve(&self, count: usize) -> Reservation {
        let mut state = self.0.state.lock();
        state.reserved = state.reserved.saturating_add(count);
        Reservation { budget: self.clone(), count }
    }

    /// Adds a cache that can close files, for as long as it exists.
    pub fn register(&self, keeper: Weak<dyn KeepsFilesOpen>) {
        let mut keepers = self.0.keepers.lock();
        keepers.retain(|keeper| keeper.strong_count() > 0);
        keepers.push(keeper);
    }

    /// Claims `count` descriptors. While too few are free and no file can be closed, waits. The
    /// calling thread must not have another claim of this budget.
    pub fn claim(&self, share: Share, count: usize) -> Claim {
        self.0.turns.take(|| self.try_claim(share, count))
    }

    /// Claims `count` descriptors without waiting. Closes files that are not in use as long as too
    /// few descriptors are free. If that does not suffice, exceeds the capacity.
    pub fn claim_now(&self, share: Share, count: usize) -> Claim {
        self.try_claim(share, count).unwrap_or_else(|| {
            *self.0.state.lock().claimed(share) += count;
            Claim { budget: self.clone(), share, count }
        })
    }

    /// Claims `count` descriptors without waiting; `None` if too few are free even after all files
    /// that are not in use were closed.
    pub fn try_claim(&self, share: Share, count: usize) -> Option<Claim> {
        loop {
            let victim = {
                let mut state = self.0.state.lock();
                let capacity = self.0.capacity(&state);
                let used = state.reading.saturating_add(state.writing);
                // A claim that exceeds the whole capacity is granted when there is no other.
                if used == 0 || used.saturating_add(count) <= capacity {
                    *state.claimed(share) += count;
                    return Some(Claim { budget: self.clone(), share, count });
                }
                if *state.claimed(share) >= capacity / 2 { share } else { share.other() }
            };
            if !self.close_oldest(victim) && !self.close_oldest(victim.other()) {
                return None;
            }
        }
    }

    fn close_oldest(&self, share: Share) -> bool {
        self.0.keepers().iter().any(|keeper| keeper.close_oldest(share))
    }

    /// Asks all caches of this budget to close some files, because a call on a simulated disk found
    /// no free descriptor. Returns whether any file was closed.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn relieve(&self, exhausted: Exhausted) -> bool {
        self.0.relieve(exhausted)
    }
}

impl Default for DescriptorBudget {
    /// Returns the budget of this process.
    fn default() -> Self {
        Self::of_process()
    }
}

impl Shared {
    fn capacity(&self, state: &State) -> usize {
        let limit = self.limit.unwrap_or_else(open_files_max);
        limit.saturating_sub(state.reserved).max(limit / CLAIMED_PART).max(CAPACITY_MIN)
    }

    fn keepers(&self) -> Vec<Arc<dyn KeepsFilesOpen>> {
        self.keepers.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn relieve(&self, exhausted: Exhausted) -> bool {
        let closes = |keeper: &Arc<dyn KeepsFilesOpen>| keeper.close_some(exhausted);
        // Every cache closes some files.
        self.keepers().iter().map(closes).filter(|has_closed| *has_closed).count() > 0
    }
}

/// Asks the caches of all budgets of this process to close some files. Returns whether any file was
/// closed.
pub(super) fn relieve_process(exhausted: Exhausted) -> bool {
    let budgets: Vec<_> = BUDGETS.lock().iter().filter_map(Weak::upgrade).collect();
    let relieve = |budget: &Arc<Shared>| budget.relieve(exhausted);
    budgets.iter().map(relieve).filter(|has_closed| *has_closed).count() > 0
}

impl fmt::Debug for DescriptorBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        write!(f, "DescriptorBudget({state:?} of {:?})", self.0.limit)
    }
}

/// Claimed descriptors, which return to the budget when this is dropped. Drop it after the files
/// are closed.
#[derive(Debug)]
pub struct Claim {
    budget: DescriptorBudget,
    share: Share,
    count: usize,
}

impl Claim {
    /// Returns the number of claimed descriptors.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Splits off a claim of `count` of the descriptors, or of all if there are fewer.
    #[must_use]
    pub fn split(&mut self, count: usize) -> Self {
        let count = count.min(self.count);
        self.count -= count;
        Self { budget: self.budget.clone(), share: self.share, count }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.count > 0 {
            *self.budget.0.state.lock().claimed(self.share) -= self.count;
            self.budget.0.turns.changed();
        }
    }
}

/// Reserved descriptors, which claims can use again when this is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: DescriptorBudget,
    count: usize,
}

impl Reservation {
    /// Returns the number of reserved descriptors.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.budget.0.state.lock();
        state.reserved = state.reserved.saturating_sub(self.count);
        drop(state);
        self.budget.0.turns.changed();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;

    use super::*;

    /// Open files that are not in use, with their claims. The oldest is the first.
    #[derive(Debug, Default)]
    struct Idle {
        files: Mutex<Vec<Claim>>,
        relieved: AtomicUsize,
    }

    impl KeepsFilesOpen for Idle {
        fn close_some(&self, _: Exhausted) -> bool {
            self.relieved.fetch_add(1, Relaxed);
            self.close_oldest(Share::Reading)
        }

        fn close_oldest(&self, share: Share) -> bool {
            let oldest = {
                let mut files = self.files.lock();
                let found = files.iter().position(|claim| claim.share == share);
                found.map(|found| files.remove(found))
            };
            oldest.is_some()
        }
    }

    fn budget_with_idle(limit: usize) -> (DescriptorBudget, Arc<Idle>) {
        let (budget, idle) = (DescriptorBudget::new(limit), Arc::new(Idle::default()));
        let keeper: Weak<Idle> = Arc::downgrade(&idle);
        budget.register(keeper);
        (budget, idle)
    }

    #[test]
    fn reservations_reduce_the_capacity_but_not_to_nothing() {
        let budget = DescriptorBudget::new(200);
        let connections = budget.reserve(120);
        assert_eq!((budget.limit(), budget.capacity()), (200, 80));
        let more = budget.reserve(usize::MAX);
        assert_eq!(budget.capacity(), 25);
        drop((connections, more));
        assert_eq!(DescriptorBudget::new(1).capacity(), CAPACITY_MIN);
        assert!(DescriptorBudget::of_process().limit() >= 20);
    }

    #[test]
    fn idle_files_are_closed_for_a_claim_and_each_share_keeps_half() {
        let (budget, idle) = budget_with_idle(20);
        let keep = |share| {
            let claim = budget.claim(share, 1);
            idle.files.lock().push(claim);
        };
        (0..20).for_each(|_| keep(Share::Reading));
        assert_eq!(budget.0.state.lock().reading, 20);
        (0..30).for_each(|_| keep(Share::Writing));
        (0..30).for_each(|_| keep(Share::Reading));
        let State { reading, writing, .. } = *budget.0.state.lock();
        assert_eq!((reading, writing), (10, 10));
    }

    #[test]
    fn a_claim_waits_until_a_file_is_closed_and_a_persister_does_not_wait() {
        let (budget, idle) = budget_with_idle(10);
        let mut busy = budget.claim(Share::Reading, 10);
        assert!(budget.try_claim(Share::Reading, 1).is_none());
        let persisters = budget.claim_now(Share::Writing, 1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| budget.claim(Share::Reading, 2).count());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished());
            drop(busy.split(2));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished(), "the persister's descriptor is still in use");
            drop(persisters);
            assert_eq!(waiting.join().expect("no panic"), 2);
            // A file that becomes idle is found without any descriptor being returned.
            let last = scope.spawn(|| budget.claim(Share::Writing, 9).count());
            idle.files.lock().push(busy);
            assert_eq!(last.join().expect("no panic"), 9);
        });
    }

    #[test]
    fn every_waiting_thread_gets_its_turn() {
        let budget = DescriptorBudget::new(8);
        let served = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let claim = budget.claim(Share::Reading, 3);
                        assert!(budget.0.state.lock().reading <= 8);
                        served.fetch_add(claim.count(), Relaxed);
                    }
                });
            }
        });
        assert_eq!(served.load(Relaxed), 16 * 50 * 3);
        assert_eq!(budget.0.state.lock().reading, 0);
    }

    #[test]
    fn a_shortage_asks_the_caches_of_every_budget() {
        let (budget, idle) = budget_with_idle(10);
        let (_other, others) = budget_with_idle(10);
        assert!(!relieve_process(Exhausted::Process) || idle.relieved.load(Relaxed) > 0);
        assert!(idle.relieved.load(Relaxed) > 0 && others.relieved.load(Relaxed) > 0);
        let claim = budget.claim(Share::Reading, 1);
        idle.files.lock().push(claim);
        assert!(relieve_process(Exhausted::System));
        assert!(idle.files.lock().is_empty());
    }
}
