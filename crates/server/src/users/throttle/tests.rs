//! Tests of the delays after failed logins.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::Throttle;

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const DELAY: Duration = Duration::from_millis(50);
const SOON: Duration = Duration::from_millis(20);

fn throttle(failures_max: u32) -> Throttle {
    Throttle::with_times(failures_max, Duration::from_secs(60), DELAY)
}

/// Returns an address in a different slot than [`ADDRESS`].
fn other_address(throttle: &Throttle) -> IpAddr {
    let others = (1..).map(|number| IpAddr::V4(Ipv4Addr::from_bits(number)));
    let mut apart =
        others.filter(|other| !std::ptr::eq(throttle.slot(*other), throttle.slot(ADDRESS)));
    apart.next().unwrap()
}

#[tokio::test]
async fn failures_beyond_the_limit_delay_the_next_attempt_of_the_address() {
    let throttle = throttle(2);
    throttle.begin(ADDRESS).await.fail();
    let start = Instant::now();
    throttle.begin(ADDRESS).await.fail();
    assert!(start.elapsed() < DELAY, "the limit was not reached");
    let start = Instant::now();
    throttle.begin(ADDRESS).await.fail();
    throttle.begin(ADDRESS).await.fail();
    assert!(start.elapsed() >= 2 * DELAY);
    let other = other_address(&throttle);
    timeout(SOON, throttle.begin(other)).await.expect("another address is not delayed");
}

#[tokio::test]
async fn attempts_in_flight_are_limited_by_the_remaining_failures() {
    let throttle = throttle(2);
    let first = throttle.begin(ADDRESS).await;
    let second = throttle.begin(ADDRESS).await;
    assert!(timeout(SOON, throttle.begin(ADDRESS)).await.is_err());
    drop(first);
    let third = timeout(SOON, throttle.begin(ADDRESS)).await.expect("an attempt has ended");
    second.fail();
    assert!(timeout(SOON, throttle.begin(ADDRESS)).await.is_err(), "one is left, and in flight");
    drop(third);
    timeout(SOON, throttle.begin(ADDRESS)).await.expect("the attempt has ended");
}

#[tokio::test]
async fn successful_attempts_cause_no_delay() {
    let throttle = Arc::new(throttle(1));
    throttle.begin(ADDRESS).await.fail();
    let start = Instant::now();
    let attempts: Vec<_> = (0..2000)
        .map(|_| {
            let throttle = Arc::clone(&throttle);
            tokio::spawn(async move {
                let _attempt = throttle.begin(ADDRESS).await;
                tokio::task::yield_now().await;
            })
        })
        .collect();
    for attempt in attempts {
        timeout(Duration::from_secs(20), attempt).await.expect("no attempt is lost").unwrap();
    }
    assert!(start.elapsed() >= DELAY);
}

#[tokio::test]
async fn cancelled_attempts_release_their_place() {
    let throttle = throttle(1);
    throttle.begin(ADDRESS).await.fail();
    // This attempt is cancelled during its delay.
    assert!(timeout(DELAY / 5, throttle.begin(ADDRESS)).await.is_err());
    let running =
        timeout(DELAY * 2, throttle.begin(ADDRESS)).await.expect("no attempt is in flight");
    // This attempt is cancelled while it waits for the running attempt to end.
    assert!(timeout(SOON, throttle.begin(ADDRESS)).await.is_err());
    drop(running);
    timeout(SOON, throttle.begin(ADDRESS)).await.expect("no attempt is in flight");
}

#[tokio::test]
async fn failures_are_forgotten() {
    let throttle = Throttle::with_times(1, Duration::from_millis(100), Duration::from_secs(60));
    throttle.begin(ADDRESS).await.fail();
    tokio::time::sleep(Duration::from_millis(110)).await;
    timeout(SOON, throttle.begin(ADDRESS)).await.expect("the minute is over");
}

#[test]
fn addresses_of_one_host_share_a_slot() {
    let throttle = throttle(1);
    let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
    assert!(std::ptr::eq(throttle.slot(ADDRESS), throttle.slot(mapped)));
    let [a, b] = [1, 2].map(|end| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 0, 0, 0, end)));
    assert!(std::ptr::eq(throttle.slot(a), throttle.slot(b)));
}
