//! The power of a disk: requests succeed while the power is on, and fail while it is off.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;

use super::contents::{Contents, Loss};

/// A disk with its power. It is shared by the threads that serve requests and the thread that cuts
/// the power.
#[derive(Debug)]
pub(super) struct Powered {
    state: Mutex<State>,
    /// Notified when the power is cut, to end the delay of flushes in progress.
    gone: Condvar,
    flush_delay: Duration,
    size: u64,
}

#[derive(Debug)]
struct State {
    contents: Contents,
    rng: Rng,
    /// Number of further writes and flushes that will take effect before the power is cut; `None`
    /// if no cut is scheduled.
    left: Option<u64>,
    /// Number of writes and flushes that arrived while the power was on.
    requests: u64,
    /// Effect of the last power cut; `None` while the power is on.
    loss: Option<Loss>,
}

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    NoPower,
    PastTheEnd,
}

impl Powered {
    pub(super) fn new(contents: Contents, seed: u64, flush_delay: Duration) -> Self {
        let size = contents.size() as u64;
        let rng = Rng::with_seed(seed);
        let state = State { contents, rng, left: None, requests: 0, loss: None };
        Self { state: Mutex::new(state), gone: Condvar::new(), flush_delay, size }
    }

    /// Returns the size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, Refused> {
        let state = self.lock();
        state.needs_power()?;
        state.contents.read(offset, length).map(<[u8]>::to_vec).ok_or(Refused::PastTheEnd)
    }

    pub(super) fn write(&self, offset: u64, data: &[u8]) -> Result<(), Refused> {
        let mut state = self.lock();
        self.begin(&mut state)?;
        state.contents.write(offset, data).ok_or(Refused::PastTheEnd)
    }

    /// Makes all writes durable that completed before the flush began. Writes that complete during
    /// the flush stay volatile.
    pub(super) fn flush(&self) -> Result<(), Refused> {
        let mut state = self.lock();
        self.begin(&mut state)?;
        let mark = state.contents.mark();
        if !self.flush_delay.is_zero() {
            let has_power = |state: &mut State| state.loss.is_none();
            let waited = self.gone.wait_timeout_while(state, self.flush_delay, has_power);
            state = waited.expect("no panic while it is held").0;
            // If the power was cut during the delay, the flush fails, and the writes before it may
            // be lost.
            state.needs_power()?;
        }
        state.contents.settle(mark);
        Ok(())
    }

    /// Counts a write or flush. If a scheduled cut is due, cuts the power before the request takes
    /// effect.
    fn begin(&self, state: &mut State) -> Result<(), Refused> {
        state.needs_power()?;
        state.requests += 1;
        match state.left {
            Some(0) => self.cut_now(state),
            Some(ref mut left) => *left -= 1,
            None => {}
        }
        state.needs_power()
    }

    /// Cuts the power. From then on, every request fails without effect.
    pub(super) fn cut(&self) {
        let mut state = self.lock();
        if state.loss.is_none() {
            self.cut_now(&mut state);
        }
    }

    fn cut_now(&self, state: &mut State) {
        state.left = None;
        state.loss = Some(state.contents.lose(&mut state.rng));
        self.gone.notify_all();
    }

    /// Lets the next `requests` writes and flushes take effect, and cuts the power before the
    /// request after them.
    pub(super) fn cut_after(&self, requests: u64) {
        self.lock().left = Some(requests);
    }

    /// Restores the power, if it was cut.
    pub(super) fn restore(&self) {
        let mut state = self.lock();
        state.left = None;
        state.loss = None;
    }

    pub(super) fn loss(&self) -> Option<Loss> {
        self.lock().loss
    }

    pub(super) fn requests(&self) -> u64 {
        self.lock().requests
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it is held")
    }
}

impl State {
    fn needs_power(&self) -> Result<(), Refused> {
        if self.loss.is_some() { Err(Refused::NoPower) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Powered, Refused};
    use crate::volatile_disk::contents::Contents;

    fn disk(flush_delay: Duration) -> Powered {
        Powered::new(Contents::new(4096, 512), 7, flush_delay)
    }

    #[test]
    fn without_power_everything_is_refused() {
        let disk = disk(Duration::ZERO);
        assert_eq!(disk.write(0, &[1; 512]), Ok(()));
        assert_eq!(disk.flush(), Ok(()));
        disk.cut();
        assert_eq!(disk.loss().map(|loss| loss.pending), Some(0));
        assert_eq!(disk.write(0, &[2; 512]), Err(Refused::NoPower));
        assert_eq!(disk.flush(), Err(Refused::NoPower));
        assert_eq!(disk.read(0, 512), Err(Refused::NoPower));
        disk.restore();
        assert_eq!(disk.loss(), None);
        assert_eq!(disk.read(0, 512), Ok(vec![1; 512]));
        assert_eq!(disk.write(4096, &[1]), Err(Refused::PastTheEnd));
    }

    #[test]
    fn the_power_is_cut_before_the_given_request() {
        let disk = disk(Duration::ZERO);
        disk.cut_after(2);
        assert_eq!(disk.write(0, &[1; 512]), Ok(()));
        assert_eq!(disk.flush(), Ok(()));
        assert_eq!(disk.loss(), None);
        assert_eq!(disk.flush(), Err(Refused::NoPower));
        assert!(disk.loss().is_some());
    }

    #[test]
    fn a_cut_ends_a_flush_that_is_under_way() {
        let disk = disk(Duration::from_secs(3600));
        disk.write(0, &[1; 512]).expect("power");
        std::thread::scope(|scope| {
            let flush = scope.spawn(|| disk.flush());
            while disk.requests() < 2 {
                std::thread::yield_now();
            }
            disk.cut();
            assert_eq!(flush.join().expect("no panic"), Err(Refused::NoPower));
        });
        assert_eq!(disk.loss().map(|loss| loss.pending), Some(1));
    }
}
