//! Renders the metrics in Prometheus's text format, version 0.0.4.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::Relaxed;

use tailwater_io::{Latencies, Purpose};

use crate::metrics::{CommandCounters, Metrics, bucket_end_us};
use crate::state::State;
use crate::status::Status;

/// Quantiles that are shown for the storage's latencies.
const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 1.0];

/// Returns all metrics of a server.
pub(crate) fn render(state: &State) -> String {
    let mut text = Text(String::with_capacity(16 << 10));
    requests(&mut text, &state.metrics);
    connections(&mut text, state);
    log(&mut text, state);
    storage(&mut text, state);
    text.0
}

/// The text of the metrics, while it is being built.
struct Text(String);

impl Text {
    /// Begins a metric with its name, its type and a description.
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        self.0.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// Adds a value to the metric that was begun last. `labels` are pairs of a name and a value.
    fn value(&mut self, name: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.0.push_str(name);
        for (number, (label, text)) in labels.iter().enumerate() {
            self.0.push(if number == 0 { '{' } else { ',' });
            self.0.push_str(label);
            self.0.push_str("=\"");
            let text = text.to_string();
            for c in text.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, " {value}");
    }

    /// Adds a metric that has one value without labels.
    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.metric(name, kind, help);
        self.value(name, &[], value);
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn seconds_of_ns(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn requests(text: &mut Text, metrics: &Metrics) {
    let count = |command: &CommandCounters| -> u64 {
        command.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    };
    // Commands that were never requested are omitted.
    let used: Vec<(&CommandCounters, u64)> = metrics
        .commands
        .iter()
        .map(|command| (command, count(command)))
        .filter(|(_, count)| *count > 0)
        .collect();
    /// The name of a metric, its description, and a function that returns its value.
    type Counter = (&'static str, &'static str, fn(&CommandCounters) -> u64);
    let counters: [Counter; 3] = [
        (
            "tailwater_request_errors_total",
            "Requests answered with a status other than 0.",
            |command| command.errors.load(Relaxed),
        ),
        ("tailwater_request_bytes_total", "Bytes of requests, including headers.", |command| {
            command.bytes_in.load(Relaxed)
        }),
        ("tailwater_reply_bytes_total", "Bytes of replies, including headers.", |command| {
            command.bytes_out.load(Relaxed)
        }),
    ];
    let name = "tailwater_requests_total";
    text.metric(name, "counter", "Requests answered.");
    for (command, count) in &used {
        text.value(name, &[("command", &command.name)], count);
    }
    for (name, help, value) in counters {
        text.metric(name, "counter", help);
        for (command, _) in &used {
            text.value(name, &[("command", &command.name)], value(command));
        }
    }
    let name = "tailwater_request_statuses_total";
    text.metric(name, "counter", "Replies by status, without status 0; see Iggy's error codes.");
    for (status, count) in &*metrics.statuses.lock() {
        let label = Status(*status).name();
        text.value(name, &[("status", status), ("name", &label)], count);
    }
    latencies(text, &used);
}

fn latencies(text: &mut Text, used: &[(&CommandCounters, u64)]) {
    let name = "tailwater_request_duration_seconds";
    let help = "Time from the last byte of a request to the last byte of its reply.";
    text.metric(name, "histogram", help);
    for (command, _) in used {
        // Each bucket is read only once, so that the cumulative counts and the total count are
        // consistent while requests are being counted.
        let mut sum = 0;
        for (index, bucket) in command.buckets.iter().enumerate() {
            sum += bucket.load(Relaxed);
            let end = bucket_end_us(index).map_or(f64::INFINITY, seconds);
            let end = if end.is_infinite() { "+Inf".to_owned() } else { end.to_string() };
            let labels: [(&str, &dyn Display); 2] = [("command", &command.name), ("le", &end)];
            text.value(&format!("{name}_bucket"), &labels, sum);
        }
        let labels: [(&str, &dyn Display); 1] = [("command", &command.name)];
        let total = seconds(command.total_us.load(Relaxed));
        text.value(&format!("{name}_sum"), &labels, total);
        text.value(&format!("{name}_count"), &labels, sum);
    }
}

fn connections(text: &mut Text, state: &State) {
    let metrics = &state.metrics;
    let open = metrics.open.load(Relaxed);
    text.single("tailwater_connections", "gauge", "Open connections.", open);
    text.single(
        "tailwater_connections_opened_total",
        "counter",
        "Accepted connections.",
        metrics.opened.load(Relaxed),
    );
    let name = "tailwater_refused_total";
    text.metric(name, "counter", "Refused connections, frames and logins, and evicted sessions.");
    for (reason, count) in &*metrics.refused.lock() {
        text.value(name, &[("reason", reason)], count);
    }
    text.single(
        "tailwater_in_flight_bytes",
        "gauge",
        "Bytes of requests and replies in memory.",
        state.in_flight.bytes(),
    );
    text.single(
        "tailwater_in_flight_bytes_max",
        "gauge",
        "Bound on these bytes: limits.in_flight_bytes_max.",
        state.config.limits.in_flight_bytes_max,
    );
    text.single(
        "tailwater_uptime_seconds",
        "gauge",
        "Time since the server started.",
        state.started.elapsed().as_secs_f64(),
    );
}

fn log(text: &mut Text, state: &State) {
    let partitions = state.log.partitions();
    let (mut segments, mut messages, mut bytes) = (0, 0, 0);
    let (mut unpersisted_bytes, mut unpersisted_messages, mut most) = (0, 0, 0);
    let mut failed = 0;
    for partition in &partitions {
        let stats = partition.stats();
        segments += stats.segments;
        messages += stats.end_offset.saturating_sub(stats.start_offset);
        bytes += stats.bytes;
        unpersisted_bytes += stats.unpersisted_bytes;
        unpersisted_messages += stats.unpersisted_messages;
        most = most.max(stats.unpersisted_bytes);
        failed += usize::from(partition.failure().is_some());
    }
    let catalog = state.log.catalog();
    let streams = catalog.streams();
    let topics: usize = streams.values().map(|stream| stream.topics.len()).sum();
    let (tail, tail_max) = state.log.tail_memory();
    let figures: [(&str, &str, u64); 15] = [
        // The metrics for which Iggy has names use these names.
        ("streams", "Streams.", streams.len() as u64),
        ("topics", "Topics.", topics as u64),
        ("partitions", "Partitions.", partitions.len() as u64),
        ("segments", "Segments.", segments as u64),
        ("messages", "Messages that can be polled.", messages),
        ("users", "Users.", state.users.all().len() as u64),
        ("clients", "Connected clients.", state.sessions.count() as u64),
        ("tailwater_groups", "Consumer groups.", state.groups.count() as u64),
        ("tailwater_segment_bytes", "Bytes of all segments.", bytes),
        (
            "tailwater_partitions_failed",
            "Partitions that refuse appends; /health lists them.",
            failed as u64,
        ),
        ("tailwater_unpersisted_bytes", "Unpersisted bytes.", unpersisted_bytes),
        ("tailwater_unpersisted_messages", "Unpersisted messages.", unpersisted_messages),
        (
            "tailwater_unpersisted_bytes_of_a_partition_max",
            "Maximum of the unpersisted bytes over all partitions.",
            most,
        ),
        (
            "tailwater_tail_bytes",
            "Memory of recent messages, unpersisted or cached, in bytes.",
            tail as u64,
        ),
        (
            "tailwater_tail_bytes_max",
            "Bound on that memory: system.memory.tail_bytes_max.",
            tail_max as u64,
        ),
    ];
    for (name, help, value) in figures {
        text.single(name, "gauge", help, value);
    }
}

fn storage(text: &mut Text, state: &State) {
    let purposes = [
        ("append", Purpose::LogAppend),
        ("read", Purpose::LogRead),
        ("index", Purpose::LogIndex),
        ("journal", Purpose::LogJournal),
    ];
    let statistics = state.log.storage().statistics();
    let figures = purposes.map(|(label, purpose)| (label, statistics.snapshot(purpose)));
    let name = "tailwater_storage_bytes_total";
    text.metric(name, "counter", "Bytes read from and written to files.");
    for (label, figures) in &figures {
        let calls = [("read", figures.read_bytes), ("write", figures.written_bytes)];
        for (call, bytes) in calls {
            text.value(name, &[("purpose", label), ("call", &call)], bytes);
        }
    }
    let name = "tailwater_storage_duration_seconds";
    let help = "Duration of reads, writes and syncs; a write with purpose append is a persist.";
    text.metric(name, "summary", help);
    for (label, figures) in &figures {
        let calls: [(&str, &Latencies); 3] =
            [("read", &figures.reads), ("write", &figures.writes), ("sync", &figures.syncs)];
        for (call, latencies) in calls {
            for quantile in QUANTILES {
                let labels: [(&str, &dyn Display); 3] =
                    [("purpose", label), ("call", &call), ("quantile", &quantile)];
                let ns = latencies.percentile_ns(quantile * 100.0);
                text.value(name, &labels, seconds_of_ns(ns));
            }
            let labels: [(&str, &dyn Display); 2] = [("purpose", label), ("call", &call)];
            let total = seconds_of_ns(latencies.total_ns);
            text.value(&format!("{name}_sum"), &labels, total);
            text.value(&format!("{name}_count"), &labels, latencies.count);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    /// Checks that a text conforms to Prometheus's format. Returns its values; the key of a value
    /// is the name of its metric, including labels.
    pub(crate) fn parse(text: &str) -> BTreeMap<String, f64> {
        let mut values = BTreeMap::new();
        let mut metric = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a kind");
                assert!(["counter", "gauge", "histogram", "summary"].contains(&kind), "{line}");
                metric = name.to_owned();
                continue;
            }
            if line.starts_with("# HELP ") {
                continue;
            }
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let name = series.split('{').next().expect("a name");
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            assert!(name.chars().all(is_name) && name.starts_with(&metric), "{line}");
            assert_eq!(series.contains('{'), series.ends_with('}'), "{line}");
            let value: f64 = value.parse().expect("a number");
            assert!(values.insert(series.to_owned(), value).is_none(), "twice: {line}");
        }
        values
    }

    #[test]
    fn requests_are_rendered_and_their_buckets_add_up() {
        let metrics = Metrics::new();
        for us in [1, 3, 900, 900, 1_000_000, 200_000_000] {
            metrics.request(101, Duration::from_micros(us), 0, 300, 276);
        }
        metrics.request(100, Duration::from_micros(7), 41, 300, 256);
        let mut text = Text(String::new());
        requests(&mut text, &metrics);
        let values = parse(&text.0);
        let send = "{command=\"message.send\"}";
        assert_eq!(values[&format!("tailwater_requests_total{send}")], 6.0);
        assert_eq!(values[&format!("tailwater_request_bytes_total{send}")], 1800.0);
        assert_eq!(values[&format!("tailwater_request_errors_total{send}")], 0.0);
        assert_eq!(
            values["tailwater_request_statuses_total{status=\"41\",name=\"Unauthorized\"}"],
            1.0
        );
        let buckets: Vec<(f64, f64)> = values
            .iter()
            .filter_map(|(series, count)| {
                let le = series.strip_prefix(
                    "tailwater_request_duration_seconds_bucket{command=\"message.send\",le=\"",
                )?;
                Some((le.strip_suffix("\"}")?.parse().ok()?, *count))
            })
            .collect();
        assert_eq!(buckets.len(), crate::metrics::BUCKETS);
        for (le, count) in buckets {
            let seconds = [1e-6, 3e-6, 9e-4, 9e-4, 1.0, 200.0];
            let least = seconds.iter().filter(|seconds| **seconds * 1.5 <= le).count() as f64;
            let most = seconds.iter().filter(|seconds| **seconds <= le).count() as f64;
            assert!((least..=most).contains(&count), "{le}: {count} of {least} to {most}");
        }
        let count = format!("tailwater_request_duration_seconds_count{send}");
        assert_eq!(values[&count], 6.0);
    }

    #[test]
    fn labels_are_escaped() {
        let mut text = Text(String::new());
        text.value("m", &[("l", &"a\"b\\c\nd")], 1);
        assert_eq!(text.0, "m{l=\"a\\\"b\\\\c\\nd\"} 1\n");
    }
}
