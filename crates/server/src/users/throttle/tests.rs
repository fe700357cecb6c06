//! Tests of the delays after failed logins.

use std::net::Ipv4Addr;

use super::*;

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Returns an address in a different slot than [`ADDRESS`].
fn other_address(throttle: &Throttle) -> IpAddr {
    let others = (1..).map(|number| IpAddr::V4(Ipv4Addr::from_bits(number)));
    let mut apart =
        others.filter(|other| !std::ptr::eq(throttle.slot(*other), throttle.slot(ADDRESS)));
    apart.next().unwrap()
}

/// Returns the duration of a refusal, in seconds.
async fn refuse(throttle: &Throttle, address: IpAddr) -> u64 {
    let start = Instant::now();
    throttle.delay_refusal(address).await;
    start.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn refusals_beyond_the_limit_are_delayed() {
    let throttle = Throttle::new(2);
    assert_eq!(refuse(&throttle, ADDRESS).await, 0);
    assert_eq!(refuse(&throttle, ADDRESS).await, 0, "the limit is not exceeded");
    assert_eq!(refuse(&throttle, ADDRESS).await, 1);
    assert_eq!(refuse(&throttle, other_address(&throttle)).await, 0, "another address");
}

#[tokio::test(start_paused = true)]
async fn concurrent_refusals_follow_each_other_within_a_bound() {
    let throttle = Throttle::new(1);
    throttle.delay_refusal(ADDRESS).await;
    let all = futures_util::future::join_all((0..8).map(|_| refuse(&throttle, ADDRESS))).await;
    assert_eq!(all, [1, 2, 3, 4, 5, 5, 5, 5]);
}

#[tokio::test(start_paused = true)]
async fn failures_are_forgotten() {
    let throttle = Throttle::new(1);
    throttle.delay_refusal(ADDRESS).await;
    assert_eq!(refuse(&throttle, ADDRESS).await, 1);
    tokio::time::sleep(WINDOW).await;
    assert_eq!(refuse(&throttle, ADDRESS).await, 0);
    assert_eq!(refuse(&throttle, ADDRESS).await, 1);
}
