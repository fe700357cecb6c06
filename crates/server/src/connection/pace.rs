//! Time limits of a transfer. A transfer reads a request or writes a reply.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::in_flight::Progress;

/// Interval at which a transfer checks its time limit, which grows with the bytes transferred.
const CHECK: Duration = Duration::from_secs(1);

/// The time limits for a transfer of bytes from or to a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Time that the server may wait for the client in addition to the time in which the bytes
    /// transferred so far can be transferred at the slowest permitted rate
    /// ([`crate::in_flight::SLOWEST`]).
    pub(super) stall: Duration,
    /// Time at which the transfer must end in any case; `None` if there is no such time.
    pub(super) end: Option<Instant>,
}

impl Pace {
    /// Runs a part of a transfer to its end; returns `None` if the transfer takes too long.
    /// `progress` is the progress of the whole transfer, to which the part adds the bytes that it
    /// has transferred.
    pub(super) async fn run<T>(
        self,
        progress: &Progress,
        transfer: impl Future<Output = T>,
    ) -> Option<T> {
        let _waiting = progress.wait();
        let mut transfer = pin!(transfer);
        loop {
            let now = Instant::now();
            let allowed = self.stall + progress.allowed();
            let slowest = now + allowed.saturating_sub(progress.waited(now));
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

    const STALL: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn the_time_limit_grows_with_the_bytes_transferred() {
        let pace = Pace { stall: STALL, end: None };
        let elapsed = async |progress: &Progress, pace: Pace| {
            let began = Instant::now();
            assert!(pace.run(progress, pending::<()>()).await.is_none());
            began.elapsed().as_secs()
        };
        let progress = Progress::new(Duration::ZERO);
        assert!((30..=32).contains(&elapsed(&progress, pace).await));
        progress.add(10 << 20);
        assert!((10..=12).contains(&elapsed(&progress, pace).await), "10 MiB take 10 s more");
        let end = Some(Instant::now() + Duration::from_secs(3));
        progress.restart(Duration::ZERO);
        assert!((3..=4).contains(&elapsed(&progress, Pace { end, ..pace }).await));
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_time_in_which_the_server_waits_for_the_client_counts() {
        let pace = Pace { stall: STALL, end: None };
        let progress = Progress::new(Duration::ZERO);
        for _ in 0..10 {
            assert!(pace.run(&progress, tokio::time::sleep(STALL / 20)).await.is_some());
            tokio::time::sleep(STALL).await;
        }
        assert!(pace.run(&progress, tokio::time::sleep(STALL)).await.is_none());
    }
}
