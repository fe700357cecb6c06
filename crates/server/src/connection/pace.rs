//! Time limits of a transfer. A transfer reads a request or writes a reply.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::in_flight::Reservation;

/// Minimum rate of a transfer, in bytes per second. In addition to the time at this rate, a
/// transfer may take [`Pace::stall`].
const SLOWEST: u64 = 1 << 20;
/// Maximum value of [`Pace::stall`] while other connections wait for the memory that a transfer
/// holds.
const CONTENDED_STALL_MAX: Duration = Duration::from_secs(5);
/// Interval at which a transfer checks whether other connections wait for its memory.
const CHECK: Duration = Duration::from_secs(1);

/// The time limits for a transfer of bytes from or to a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Time that the transfer may take in addition to one second per MiB transferred so far.
    pub(super) stall: Duration,
    /// Time at which the transfer must end in any case; `None` if there is no such time.
    pub(super) end: Option<Instant>,
}

impl Pace {
    /// Runs `transfer` to its end; returns `None` if it takes too long. The transfer keeps the
    /// number of bytes transferred so far in `moved`. `reservation` is the memory that the transfer
    /// holds.
    pub(super) async fn run<T>(
        self,
        reservation: Option<&Reservation>,
        moved: &AtomicUsize,
        transfer: impl Future<Output = T>,
    ) -> Option<T> {
        let began = Instant::now();
        let mut transfer = pin!(transfer);
        loop {
            let now = Instant::now();
            let is_wanted = reservation.is_some_and(Reservation::is_wanted);
            let stall = if is_wanted { self.stall.min(CONTENDED_STALL_MAX) } else { self.stall };
            let moved_ms = moved.load(Ordering::Relaxed) as u64 * 1000 / SLOWEST;
            let slowest = began + stall + Duration::from_millis(moved_ms);
            let end = self.end.map_or(slowest, |end| end.min(slowest));
            if let Ok(done) = timeout_at(end.min(now + CHECK), &mut transfer).await {
                return Some(done);
            }
            if now >= end {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::in_flight::InFlight;

    const STALL: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_stalled_transfer_ends_sooner_if_others_wait_for_its_memory() {
        let pace = Pace { stall: STALL, end: None };
        let (nothing, much) = (AtomicUsize::new(0), AtomicUsize::new(10 << 20));
        let in_flight = InFlight::new(8 << 20);
        let reservation = in_flight.request(4 << 20).await;
        let elapsed = async |moved, pace: Pace| {
            let began = Instant::now();
            assert!(pace.run(reservation.as_ref(), moved, pending::<()>()).await.is_none());
            began.elapsed().as_secs()
        };
        assert!((30..=32).contains(&elapsed(&nothing, pace).await));
        assert!((40..=42).contains(&elapsed(&much, pace).await));
        let end = Some(Instant::now() + Duration::from_secs(3));
        assert!((3..=4).contains(&elapsed(&nothing, Pace { end, ..pace }).await));
        let mut waiting = pin!(in_flight.request(1 << 20));
        assert!(tokio::time::timeout(CHECK, &mut waiting).await.is_err());
        assert!((5..=7).contains(&elapsed(&nothing, pace).await));
        assert!((15..=17).contains(&elapsed(&much, pace).await));
    }
}
