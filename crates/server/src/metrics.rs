//! Counters of requests and connections.
//!
//! Recording a successful request takes no lock and allocates nothing: each command has its own
//! counters, which are updated by relaxed atomic operations. A reader reads the counters one after
//! another. It may therefore see a request in one counter but not yet in another.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use iggy_binary_protocol::codes::LOGIN_REGISTER_CODE;
use iggy_binary_protocol::dispatch::COMMAND_TABLE;
use tailwater_io::sync::Mutex;

/// Number of command codes that can have their own counters. All codes of the protocol are less
/// than this.
const CODES: usize = 1024;
/// Index in `commands` of the counters that all unknown command codes share.
const OTHER: usize = 0;
/// Name that the metrics show for the counters of unknown command codes.
const OTHER_NAME: &str = "unknown";
/// Number of buckets of a latency histogram. Each power of two has two buckets, from 1 microsecond
/// to 67 seconds.
pub(crate) const BUCKETS: usize = 53;

/// Counters of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// For each command code, the index of its counters in `commands`.
    pub(crate) places: Box<[u8; CODES]>,
    /// Counters of each command. The first element is for all unknown codes.
    pub(crate) commands: Vec<CommandCounters>,
    /// Number of replies with each status other than 0.
    pub(crate) statuses: Mutex<BTreeMap<u32, u64>>,
    pub(crate) open: AtomicU64,
    pub(crate) opened: AtomicU64,
    pub(crate) refused: Mutex<BTreeMap<&'static str, u64>>,
}

/// Counters of one command.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct CommandCounters {
    pub(crate) name: &'static str,
    pub(crate) errors: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) total_us: AtomicU64,
    pub(crate) buckets: [AtomicU64; BUCKETS],
}

impl CommandCounters {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            errors: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            total_us: AtomicU64::new(0),
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// Returns the index of the bucket for a duration of `us` microseconds.
fn bucket(us: u64) -> usize {
    let us = us.max(1);
    let power = us.ilog2() as usize;
    let half = if power == 0 { 0 } else { (us >> (power - 1)) as usize & 1 };
    (2 * power + half).min(BUCKETS - 1)
}

/// Returns the upper bound (exclusive) of a bucket, in microseconds; `None` for the last bucket.
pub(crate) fn bucket_end_us(bucket: usize) -> Option<u64> {
    if bucket + 1 >= BUCKETS {
        return None;
    }
    let next = bucket + 1;
    let power = 1_u64 << (next / 2);
    Some(if next.is_multiple_of(2) { power } else { power + power / 2 })
}

impl Metrics {
    /// Creates counters that are zero.
    pub(crate) fn new() -> Self {
        let mut places = Box::new([0; CODES]);
        let mut commands = vec![CommandCounters::new(OTHER_NAME)];
        for meta in COMMAND_TABLE {
            let place = u8::try_from(commands.len());
            let slot = usize::try_from(meta.code).ok().and_then(|code| places.get_mut(code));
            if let (Ok(place), Some(slot)) = (place, slot) {
                *slot = place;
                commands.push(CommandCounters::new(meta.name));
            }
        }
        // Code 0 denotes a login: the header of a login contains no command code.
        places[0] = places[LOGIN_REGISTER_CODE as usize];
        Self {
            places,
            commands,
            statuses: Mutex::default(),
            open: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            refused: Mutex::default(),
        }
    }

    /// Counts an answered request. `code` is its command, and `status` the status of the reply.
    /// `elapsed` is the time from the last byte of the request to the last byte of the reply.
    /// `bytes_in` and `bytes_out` are the sizes of the two frames.
    pub(crate) fn request(
        &self,
        code: u32,
        elapsed: Duration,
        status: u32,
        bytes_in: usize,
        bytes_out: usize,
    ) {
        let place = self.places.get(code as usize).map_or(OTHER, |place| usize::from(*place));
        let Some(command) = self.commands.get(place) else { return };
        let us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        command.buckets[bucket(us)].fetch_add(1, Relaxed);
        command.total_us.fetch_add(us, Relaxed);
        command.bytes_in.fetch_add(bytes_in as u64, Relaxed);
        command.bytes_out.fetch_add(bytes_out as u64, Relaxed);
        if status != 0 {
            command.errors.fetch_add(1, Relaxed);
            *self.statuses.lock().entry(status).or_default() += 1;
        }
    }

    /// Counts a connection that was accepted.
    pub(crate) fn connection_opened(&self) {
        self.open.fetch_add(1, Relaxed);
        self.opened.fetch_add(1, Relaxed);
    }

    /// Counts a connection that ended.
    pub(crate) fn connection_closed(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    /// Counts a refused connection or frame, by the reason for the refusal.
    pub(crate) fn refused(&self, reason: &'static str) {
        *self.refused.lock().entry(reason).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_ends_where_the_next_begins() {
        assert_eq!(bucket(0), 0);
        for index in 0..BUCKETS - 1 {
            let end = bucket_end_us(index).expect("a bound");
            // Bucket 0 is exempt from both checks. It ends at 1.5 microseconds. `bucket_end_us`
            // rounds this end down to 1, although a duration of 1 microsecond belongs to bucket 0.
            if index > 0 {
                assert!(bucket(end - 1) <= index, "{index}");
            }
            assert!(bucket(end) > index || end == 1, "{index}: {end}");
        }
        assert_eq!(bucket_end_us(BUCKETS - 1), None);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket(1000), bucket(1023));
        assert!(bucket(1024) < bucket(1536));
    }

    #[test]
    fn statuses_are_counted_by_all_threads() {
        let metrics = Metrics::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..1000 {
                        metrics.request(101, Duration::ZERO, 41 + round % 3 * 128, 1, 2);
                    }
                });
            }
        });
        let counts = metrics.statuses.lock().clone();
        assert_eq!(counts, BTreeMap::from([(41, 1336), (169, 1332), (297, 1332)]));
        let send = metrics.commands.iter().find(|command| command.name == "message.send");
        assert_eq!(send.expect("a command").errors.load(Relaxed), 4000);
    }

    #[test]
    fn every_command_has_counters_of_its_own() {
        let metrics = Metrics::new();
        for meta in COMMAND_TABLE {
            metrics.request(meta.code, Duration::from_micros(5), 0, 256, 256);
        }
        metrics.request(999, Duration::from_micros(5), 3, 256, 256);
        metrics.request(u32::MAX, Duration::from_micros(5), 3, 256, 256);
        for command in &metrics.commands {
            let count: u64 = command.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum();
            assert_eq!(count, if command.name == OTHER_NAME { 2 } else { 1 }, "{}", command.name);
        }
    }
}
