//! Tests of the shares of memory.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::{Instant, sleep, timeout};

use super::*;

const SOON: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// A limit with shares of 64 MiB (of which the lane has 20 MiB), 8 MiB, 8 MiB, 32 MiB and 16 MiB.
fn in_flight() -> InFlight {
    InFlight::new(128 * MIB, 20 * MIB)
}

fn request(in_flight: &InFlight, bytes: usize) -> Reservation {
    in_flight.request(bytes).expect("counted")
}

fn reply(in_flight: &InFlight, bytes: usize) -> Reservation {
    in_flight.reply(bytes, &Arc::new(Progress::new(PATIENCE)))
}

async fn is_ready(future: impl Future) -> bool {
    timeout(SOON, future).await.is_ok()
}

/// A way to reserve memory of one share, the size of a reservation, and the number of reservations
/// of this size that fill the share.
type Share<'a> = (&'a dyn Fn(usize) -> Reservation, usize, usize);

#[tokio::test(start_paused = true)]
async fn a_client_that_fills_one_share_delays_no_other_share() {
    let in_flight = in_flight();
    let shares: [Share<'_>; 5] = [
        (&|bytes| request(&in_flight, bytes), 20 * MIB, 4),
        (&|bytes| request(&in_flight, bytes), MIB, 8),
        (&|bytes| request(&in_flight, bytes), 128 * KIB, 64),
        (&|bytes| reply(&in_flight, bytes), 8 * MIB, 4),
        (&|bytes| reply(&in_flight, bytes), MIB, 16),
    ];
    for (full, (reserve, bytes, count)) in shares.iter().enumerate() {
        let mut held = Vec::new();
        // One reservation of large requests is in the lane, and the others are in the rest.
        for _ in 0..*count - usize::from(full == 0) {
            let mut reservation = reserve(*bytes);
            assert!(is_ready(reservation.grow(*bytes)).await);
            held.push(reservation);
        }
        assert!(!is_ready(reserve(*bytes).grow(*bytes)).await, "the share is full");
        for (other, (reserve, bytes, _)) in shares.iter().enumerate() {
            let mut reservation = reserve(*bytes);
            assert_eq!(is_ready(reservation.grow(*bytes)).await, other != full, "{full} {other}");
        }
    }
    assert!(in_flight.request(UNCOUNTED_BYTES).is_none());
    assert_eq!(in_flight.bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_larger_than_its_share_takes_the_whole_share() {
    let in_flight = InFlight::new(2 * MIB, 2 * MIB);
    let mut whole = request(&in_flight, 2 * MIB);
    assert!(is_ready(whole.grow(2 * MIB)).await);
    assert_eq!(in_flight.bytes(), MIB);
    let mut waiting = request(&in_flight, MIB + 1);
    let mut waiting = pin!(waiting.grow(MIB));
    assert!(!is_ready(&mut waiting).await);
    drop(whole);
    assert!(is_ready(waiting).await);
}

/// Regression test: memory for the whole body of a request was reserved when its first byte had
/// arrived. Clients that sent large bodies slowly kept the memory from others without using it.
#[tokio::test(start_paused = true)]
async fn requests_that_pay_as_they_arrive_never_wait_for_each_other_forever() {
    let in_flight = Arc::new(in_flight());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let in_flight = Arc::clone(&in_flight);
        tasks.spawn(async move {
            let mut body = request(&in_flight, 20 * MIB);
            for bytes in (0..=20 * MIB).step_by(512 * KIB) {
                body.grow(bytes).await;
                // The clients of all bodies are on time.
                body.progress().add(512 * KIB);
                sleep(Duration::from_millis(1)).await;
            }
        });
    }
    // Together they want 16 times the share, and hold all of it before any has arrived.
    let all = async { while tasks.join_next().await.is_some() {} };
    timeout(LONG, all).await.expect("no deadlock");
    assert_eq!(in_flight.bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn reservations_that_are_behind_are_revoked_the_furthest_first() {
    let in_flight = in_flight();
    let mut held = Vec::new();
    for _ in 0..16 {
        let mut reservation = reply(&in_flight, MIB);
        reservation.grow(MIB).await;
        held.push(reservation);
        sleep(Duration::from_millis(1)).await;
    }
    // Three of them wait for their clients. One client has read much, so it is not behind.
    let slow = [3, 5, 7].map(|at: usize| Arc::clone(held[at].progress()));
    let waits = slow.each_ref().map(|progress| progress.wait());
    held[5].progress().add(10 * MIB);
    sleep(Duration::from_millis(500)).await;
    held[3].progress().add(MIB / 4);
    let mut waiting = reply(&in_flight, MIB);
    {
        let mut waiting = pin!(waiting.grow(MIB));
        assert!(!is_ready(&mut waiting).await);
        for (at, reservation) in held.iter().enumerate() {
            assert_eq!(is_ready(reservation.revoked()).await, at == 7, "{at}");
        }
        held[7].release();
        assert!(is_ready(waiting).await);
        assert!(!is_ready(held[7].revoked()).await, "it can be used again");
    }
    // The next one is the other that is behind. Then there is none.
    let mut another = reply(&in_flight, MIB);
    let mut another = pin!(another.grow(MIB));
    assert!(!is_ready(&mut another).await);
    assert!(is_ready(held[3].revoked()).await && !is_ready(held[5].revoked()).await);
    drop(waits);
}

/// Regression test: a client that had moved 60 MiB fast could then stall for 60 s, and keep its
/// memory although others waited.
#[tokio::test(start_paused = true)]
async fn a_client_that_was_fast_may_not_stall_for_long() {
    let progress = Progress::new(PATIENCE);
    let wait = progress.wait();
    for _ in 0..60 {
        progress.add(MIB);
    }
    sleep(Duration::from_millis(1050)).await;
    assert_eq!(progress.lag(Instant::now()), None);
    sleep(Duration::from_millis(100)).await;
    assert_eq!(progress.lag(Instant::now()), Some(Duration::from_millis(50)));
    drop(wait);
    assert_eq!(progress.lag(Instant::now()), None, "it does not wait");
    // What it is behind is not forgotten, until it has caught up.
    let _wait = progress.wait();
    progress.add(MIB / 100);
    assert!(progress.lag(Instant::now()).is_some());
    progress.add(MIB / 10);
    assert_eq!(progress.lag(Instant::now()), None);
}

/// A reservation that waits for memory does not lose the memory that it has, even if its client is
/// behind: its client cannot send.
#[tokio::test(start_paused = true)]
async fn reservations_that_wait_for_memory_are_not_revoked() {
    let in_flight = in_flight();
    let mut bodies = Vec::new();
    for _ in 0..4 {
        let mut body = request(&in_flight, 20 * MIB);
        body.grow(11 * MIB).await;
        bodies.push(body);
    }
    let [first, second, ..] = bodies.as_mut_slice() else { panic!("four bodies") };
    drop(first.progress().wait());
    // The first gets the lane, and the second waits.
    assert!(is_ready(first.grow(20 * MIB)).await);
    {
        let mut growing = pin!(second.grow(20 * MIB));
        assert!(timeout(LONG, &mut growing).await.is_err());
    }
    assert!(!is_ready(second.revoked()).await);
    assert_eq!(in_flight.bytes(), 53 * MIB);
}

/// Regression test: a reservation that was revoked could wait for more memory. Meanwhile it kept
/// what it had, although others counted on that.
#[tokio::test(start_paused = true)]
async fn a_revoked_reservation_does_not_wait_for_more() {
    for is_revoked_first in [true, false] {
        let in_flight = in_flight();
        let [mut slow, mut lane, mut waiting] = [(); 3].map(|()| request(&in_flight, MIB));
        slow.grow(7 * MIB).await;
        lane.grow(MIB).await;
        let progress = Arc::clone(slow.progress());
        let mut wait = Some(progress.wait());
        sleep(LONG).await;
        let mut waiting = pin!(waiting.grow(MIB));
        if is_revoked_first {
            assert!(!is_ready(&mut waiting).await && slow.is_revoked());
            wait = None;
        }
        assert_eq!(timeout(LONG, slow.grow(8 * MIB)).await, Ok(false));
        drop((wait, slow));
        assert!(timeout(LONG, waiting).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_growing_reply_leaves_a_quarter_of_the_share_free() {
    let in_flight = in_flight();
    let mut reservation = reply(&in_flight, 2 * MIB);
    assert!(reservation.try_grow_within_reason(24 * MIB));
    assert!(!reservation.try_grow_within_reason(25 * MIB));
    assert_eq!(in_flight.bytes(), 24 * MIB, "it is unchanged");
    assert!(reservation.try_grow(32 * MIB) && !reply(&in_flight, 2 * MIB).try_grow(1));
    reservation.shrink(10);
    assert_eq!(in_flight.bytes(), KIB);
    drop(reservation);
    assert_eq!(in_flight.bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_wants_no_memory() {
    let in_flight = in_flight();
    let mut held = reply(&in_flight, 32 * MIB);
    held.grow(32 * MIB).await;
    assert!(!is_ready(reply(&in_flight, 2 * MIB).grow(MIB)).await);
    let _wait = held.progress().wait();
    sleep(LONG).await;
    assert!(!is_ready(held.revoked()).await, "nobody waits");
}

/// Regression test: polls that waited for the device took all threads that may block, so that other
/// clients' large sends and commands waited for them.
#[tokio::test(flavor = "multi_thread")]
async fn reads_that_wait_leave_threads_for_other_work() {
    let in_flight = Arc::new(in_flight());
    let (gate, begun) = (Arc::new(tokio::sync::RwLock::new(())), Arc::new(AtomicUsize::new(0)));
    let closed = gate.write().await;
    let mut reads = tokio::task::JoinSet::new();
    for _ in 0..4 * READS_MAX {
        let (in_flight, gate, begun) =
            (Arc::clone(&in_flight), Arc::clone(&gate), Arc::clone(&begun));
        let read = move || {
            begun.fetch_add(1, Ordering::Relaxed);
            drop(gate.blocking_read());
        };
        reads.spawn(async move { in_flight.read(read).await });
    }
    while begun.load(Ordering::Relaxed) < READS_MAX {
        sleep(Duration::from_millis(1)).await;
    }
    sleep(SOON).await;
    timeout(LONG, tokio::task::spawn_blocking(|| ())).await.expect("a thread").expect("no panic");
    assert_eq!(begun.load(Ordering::Relaxed), READS_MAX);
    drop(closed);
    while let Some(read) = reads.join_next().await {
        read.expect("no panic").expect("no panic");
    }
    assert_eq!(begun.load(Ordering::Relaxed), 4 * READS_MAX);
}
