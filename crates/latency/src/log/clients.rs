//! The producers and consumers of the benchmark, each of which measures the latency of its
//! messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use tailwater_format::message::batch::{HEADER_BYTES, Header, Messages};
use tailwater_log::Piece;

use super::event_loop::{Acknowledged, Connection, PollReply, Request};
use super::{LogBenchArguments, scratch};
use crate::experiment::timeline::Recorder;
use crate::failure::Failure;

/// Time that a consumer waits after a round in which none of its partitions had new messages.
const EMPTY_WAIT: Duration = Duration::from_micros(200);

/// The start of a run, the end of its warm-up, and its end.
#[derive(Clone, Copy)]
pub(super) struct Schedule {
    pub(super) start: Instant,
    /// End of the warm-up. Messages due before this time are not measured.
    pub(super) measured_from: Instant,
    pub(super) end: Instant,
}

impl Schedule {
    /// Returns the time since the start, in nanoseconds.
    fn since_start_ns(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.start).as_nanos() as u64
    }
}

/// Length of the due time in bytes, which is stored at the start of each payload. The due time is
/// in nanoseconds since the start of the run.
pub(super) const DUE_BYTES: usize = 8;

/// Longest time between two batches of a producer, in seconds. It is longer than any run.
const INTERVAL_MAX_S: f64 = 1e9;

/// Runs producer number `producer`: sends batches to its partitions in turn, at their due times.
/// Records the latencies of the messages, and returns the number of messages sent. Messages that
/// were due during the warm-up count neither here nor for a consumer.
pub(super) fn produce(
    arguments: &LogBenchArguments,
    schedule: Schedule,
    producer: usize,
    loops: &[Sender<Request>],
    mut recorder: Recorder,
) -> Result<u64, Failure> {
    let mut messages = 0;
    let connections: Vec<Connection<Acknowledged>> = loops.iter().map(Connection::new).collect();
    let batch_bytes = f64::from(arguments.batch) * f64::from(arguments.message_size);
    let interval = interval(batch_bytes, arguments.rate.0, arguments.clients);
    let mine: Vec<usize> = if arguments.balanced {
        (0..arguments.partitions).collect()
    } else {
        (producer..arguments.partitions).step_by(arguments.clients).collect()
    };
    if mine.is_empty() {
        return Ok(0);
    }
    let mut payload = vec![b'x'; arguments.message_size as usize];
    // Stagger the producers: their first due times are spread evenly over one interval.
    let mut due = schedule.start + interval.mul_f64(producer as f64 / arguments.clients as f64);
    for number in 0.. {
        if due >= schedule.end {
            break;
        }
        let now = Instant::now();
        if due > now {
            std::thread::sleep(due - now);
        }
        let due_ns = (due - schedule.start).as_nanos() as u64;
        payload[..DUE_BYTES].copy_from_slice(&due_ns.to_le_bytes());
        let batch = Arc::new(scratch::batch(due_ns / 1000, arguments.batch, &payload)?);
        let partition = mine[number % mine.len()];
        let connection = &connections[partition % connections.len()];
        let reply = connection.reply.clone();
        connection.requests.send(Request::Append { partition, batch, reply })?;
        let acknowledged = connection.replies.recv()??;
        if due >= schedule.measured_from {
            let latency = acknowledged.saturating_duration_since(due);
            let (at_ns, count) =
                (schedule.since_start_ns(acknowledged), u64::from(arguments.batch));
            recorder.record_n(at_ns, latency.as_nanos() as u64, count);
            messages += count;
        }
        due += interval;
    }
    recorder.finish();
    Ok(messages)
}

/// Returns the time between two batches of a producer, if all producers together send at this rate.
fn interval(batch_bytes: f64, bytes_per_second: u64, producers: usize) -> Duration {
    let seconds = batch_bytes * producers as f64 / bytes_per_second as f64;
    // An interval that is rounded to zero would never bring the producer to the end of the run.
    Duration::from_secs_f64(seconds.min(INTERVAL_MAX_S)).max(Duration::from_nanos(1))
}

/// Runs consumer number `consumer`: polls its partitions in turn until the producers have ended and
/// no messages are left. Records the latencies of messages, and returns their number.
pub(super) fn consume(
    arguments: &LogBenchArguments,
    schedule: Schedule,
    consumer: usize,
    loops: &[Sender<Request>],
    producers_ended: &AtomicBool,
    mut recorder: Recorder,
) -> Result<u64, Failure> {
    let mut messages = 0;
    let connections: Vec<Connection<PollReply>> = loops.iter().map(Connection::new).collect();
    let mut mine: Vec<(usize, u64)> = (consumer..arguments.partitions)
        .step_by(arguments.clients)
        .map(|partition| (partition, 0))
        .collect();
    loop {
        // Read the flag before polling. If it is set, the polls of this round see all messages, so
        // a round without messages is the last.
        let is_over = producers_ended.load(Ordering::Acquire);
        let mut found = 0;
        for (partition, offset) in &mut mine {
            let connection = &connections[*partition % connections.len()];
            let (partition, reply) = (*partition, connection.reply.clone());
            let request =
                Request::Poll { partition, offset: *offset, count: arguments.batch, reply };
            connection.requests.send(request)?;
            let (polled, at) = connection.replies.recv()??;
            found += polled.count;
            if polled.count == 0 {
                continue;
            }
            *offset = polled.end_offset();
            match polled.pieces.iter().any(Piece::is_header) {
                // The header and the messages of the batch are separate pieces. `note` needs them
                // joined.
                true => messages += note(&polled.to_vec(), at, schedule, &mut recorder)?,
                false => {
                    for piece in &polled.pieces {
                        messages += note(piece, at, schedule, &mut recorder)?;
                    }
                }
            }
        }
        if found == 0 {
            if is_over {
                recorder.finish();
                return Ok(messages);
            }
            std::thread::sleep(EMPTY_WAIT);
        }
    }
}

/// Records the latency of the polled messages, from the time when they were due to be sent until
/// `at`. Returns their number.
fn note(
    mut bytes: &[u8],
    at: Instant,
    schedule: Schedule,
    recorder: &mut Recorder,
) -> Result<u64, Failure> {
    let mut noted = 0;
    while !bytes.is_empty() {
        let header = Header::decode(bytes)?;
        let messages = bytes.get(HEADER_BYTES..header.length as usize).unwrap_or_default();
        let first = Messages::new(messages).next();
        bytes = bytes.get(header.length as usize..).unwrap_or_default();
        let Some(first) = first else { continue };
        let due_ns = first.payload.first_chunk().copied().map_or(0, u64::from_le_bytes);
        let due = schedule.start + Duration::from_nanos(due_ns);
        if due >= schedule.measured_from {
            // All messages of a batch were due at the same time.
            let count = u64::from(header.count);
            let latency = at.saturating_duration_since(due);
            recorder.record_n(schedule.since_start_ns(at), latency.as_nanos() as u64, count);
            noted += count;
        }
    }
    Ok(noted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: the interval of very small or very frequent batches was zero, so that a run
    /// never ended.
    #[test]
    fn every_rate_has_an_interval() {
        assert_eq!(interval(100_000.0, 250_000_000, 2), Duration::from_micros(800));
        assert_eq!(interval(8.0, u64::MAX / 2, 1), Duration::from_nanos(1));
        assert_eq!(interval(1e30, 1, 2), Duration::from_secs(1_000_000_000));
    }
}
