//! Measures small calls, which start at a fixed rate.

use std::net::SocketAddr;
use std::time::Duration;

use hdrhistogram::Histogram;
use iggy::prelude::*;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::raw::Raw;
use super::{Result, STREAM, USERS, connect, name, send};

/// Interval between two measured logins.
const LOGIN_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum duration of a measured call. A call that takes longer has failed.
const CALL_MAX: Duration = Duration::from_secs(30);

/// The latencies of one kind of call.
struct Row {
    label: String,
    latency: Histogram<u64>,
    failures: u64,
}

impl Row {
    fn new(label: String) -> Result<Self> {
        Ok(Self { label, latency: Histogram::new(3)?, failures: 0 })
    }

    /// Waits for a call that was due at a given time, and records its latency.
    async fn record<T>(&mut self, due: Instant, call: impl Future<Output = Result<T>>) {
        if !matches!(timeout(CALL_MAX, call).await, Ok(Ok(_))) {
            self.failures += 1;
        }
        let _ = self.latency.record(due.elapsed().as_micros() as u64);
    }

    /// Returns the row as a member of a JSON object.
    fn json(&self) -> String {
        let at = |quantile| self.latency.value_at_quantile(quantile);
        format!(
            "\"{}\": {{\"calls\": {}, \"failures\": {}, \"p50_us\": {}, \"p99_us\": {}, \
             \"max_us\": {}}}",
            self.label,
            self.latency.len(),
            self.failures,
            at(0.5),
            at(0.99),
            self.latency.max()
        )
    }
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    ticks
}

/// Measures sends of one message, each on the same connection.
pub(crate) async fn measure_sends(
    address: SocketAddr,
    label: &'static str,
    bytes: usize,
    every: Duration,
    until: Instant,
) -> Result<String> {
    let client = connect(address).await?;
    let mut row = Row::new(format!("send {label}"))?;
    let mut ticks = ticks(every);
    while Instant::now() < until {
        let due = ticks.tick().await;
        row.record(due, send(&client, label, bytes)).await;
    }
    Ok(row.json())
}

/// Measures polls of one message, each on the same connection.
pub(crate) async fn measure_polls(
    address: SocketAddr,
    label: &'static str,
    every: Duration,
    until: Instant,
) -> Result<String> {
    let client = connect(address).await?;
    let mut row = Row::new(format!("poll {label}"))?;
    let (stream, topic, consumer) = (name(STREAM), name(label), Consumer::new(name("probe")));
    // The first message is in a segment, if the server was restarted after `setup`.
    let first = PollingStrategy::first();
    let mut ticks = ticks(every);
    while Instant::now() < until {
        let due = ticks.tick().await;
        let poll = async {
            let polled =
                client.poll_messages(&stream, &topic, Some(0), &consumer, &first, 1, false).await?;
            if polled.count == 1 { Ok(()) } else { Err("no message".into()) }
        };
        row.record(due, poll).await;
    }
    Ok(row.json())
}

/// Measures logins with right passwords, each on a new connection.
pub(crate) async fn measure_logins(address: SocketAddr, until: Instant) -> Result<String> {
    let mut row = Row::new("login".to_owned())?;
    let mut ticks = ticks(LOGIN_INTERVAL);
    for number in (0..USERS).cycle() {
        if Instant::now() >= until {
            break;
        }
        let due = ticks.tick().await;
        row.record(due, Raw::login(address, 1 << 64, &format!("user{number}"), "secret")).await;
    }
    Ok(row.json())
}
