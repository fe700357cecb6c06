//! The table of the keys that have an effect.
//!
//! A section is a struct with one field for each of its keys. Its rows declare these keys: the
//! documentation of the field, its name, the path of the key, the type of the field, the default as
//! text, and the [kind](super::kinds) of the values. From the rows, [`section`] generates the
//! struct, the function that reads it, and the [`Key`]s.
//!
//! [`OTHERS`] are the keys whose values are no fields of a section. From them,
//! [`read`](super::read) builds fields of [`Config`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tailwater_log::{Durability, IoModeChoice, PartialBlocks};
use toml::Value;

use super::kinds::{
    AGE_LIMIT, Address, Filled, Interval, Kind, Number, SIZE_LIMIT, Size, Switch, Word,
};
use super::sources::Values;
use super::{Config, Result, Tls};

/// Address to show for a transport that is turned off.
pub(super) const OFF: &str = "127.0.0.1:0";

/// Smallest allowed value of the maximum frame size, in bytes. All requests without messages are
/// smaller.
const FRAME_BYTES_MIN: u64 = 64 << 10;
/// Smallest value that the setting for the maximum size of a poll may have, in bytes. One read of
/// the log returns at most half as many bytes.
const POLL_BYTES_MIN: u64 = 2 << 20;

const IO_MODE: Word<IoModeChoice> = Word(
    &[
        ("auto", IoModeChoice::Auto),
        ("direct", IoModeChoice::Direct),
        ("buffered", IoModeChoice::Buffered),
    ],
    "auto, direct or buffered",
);
const DURABILITY: Word<Durability> = Word(
    &[
        ("memory", Durability::Memory),
        ("process", Durability::Process),
        ("replicated", Durability::Process),
        ("disk", Durability::Disk),
        ("persisted", Durability::Disk),
    ],
    "memory, process (replicated) or disk (persisted)",
);
const OFFSET_DURABILITY: Word<bool> = Word(
    &[("process", false), ("replicated", false), ("disk", true), ("persisted", true)],
    "process (replicated) or disk (persisted)",
);
const PARTIAL_BLOCKS: Word<PartialBlocks> =
    Word(&[("pad", PartialBlocks::Pad), ("carry", PartialBlocks::Carry)], "pad or carry");
const LOG_FORMAT: Word<bool> = Word(&[("text", false), ("json", true)], "text or json");

/// A configuration key that has an effect, in contrast to the keys that are ignored or rejected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    /// The key's path, such as `tcp.address`.
    pub(super) path: &'static str,
    /// The default, as text.
    pub(super) default: &'static str,
    /// Returns the value in a configuration, as it is written to a file.
    pub(super) show: fn(&Config) -> Value,
}

/// Returns all keys that have an effect.
pub(super) fn keys() -> impl Iterator<Item = &'static Key> {
    let sections =
        [Logging::KEYS, Segment::KEYS, Memory::KEYS, TopicDefaults::KEYS, OTHERS, Limits::KEYS];
    sections.into_iter().flatten()
}

const fn key(path: &'static str, default: &'static str, show: fn(&Config) -> Value) -> Key {
    Key { path, default, show }
}

const OTHERS: &[Key] = &[
    key("system.path", "local_data", |it| Filled.show(&it.path)),
    key("system.runtime.path", "runtime", |it| Filled.show(&it.runtime_path)),
    key("topic_defaults.enforce_fsync", "false", |it| {
        Value::from(it.topics.durability == Durability::Disk)
    }),
    key("tcp.enabled", "true", |it| Value::from(it.tcp.is_some())),
    key("tcp.address", "127.0.0.1:8090", |it| address(it.tcp.as_ref().map(|tcp| tcp.address))),
    key("tcp.tls.enabled", "false", |it| Value::from(tcp_tls(it).is_some())),
    key("tcp.tls.self_signed", "true", |it| Value::from(tcp_tls(it) == Some(&Tls::SelfSigned))),
    key("tcp.tls.cert_file", "", |it| Filled.show(&files(tcp_tls(it)).0)),
    key("tcp.tls.key_file", "", |it| Filled.show(&files(tcp_tls(it)).1)),
    key("http.enabled", "true", |it| Value::from(it.http.is_some())),
    key("http.address", "127.0.0.1:3000", |it| address(it.http.as_ref().map(|http| http.address))),
    key("http.metrics.enabled", "true", |it| Value::from(metrics_path(it).is_some())),
    key("http.metrics.endpoint", "/metrics", |it| {
        Value::from(metrics_path(it).unwrap_or("/metrics"))
    }),
    key("http.tls.enabled", "false", |it| Value::from(http_tls(it).is_some())),
    key("http.tls.cert_file", "", |it| Filled.show(&files(http_tls(it)).0)),
    key("http.tls.key_file", "", |it| Filled.show(&files(http_tls(it)).1)),
    key("heartbeat.enabled", "true", |it| Value::from(it.heartbeat_interval.is_some())),
    key("heartbeat.interval", "30 s", |it| {
        Interval.show(&it.heartbeat_interval.unwrap_or(Duration::from_secs(30)))
    }),
    key("personal_access_token.max_tokens_per_user", "100", |it| {
        Value::from(it.tokens_per_user_max)
    }),
    key("consumer_group.rebalancing_timeout", "30 s", |it| Interval.show(&it.rebalancing_timeout)),
    key("data_maintenance.messages.cleaner_enabled", "true", |it| Value::from(it.is_retention_on)),
];

fn address(address: Option<SocketAddr>) -> Value {
    address.map_or_else(|| Value::from(OFF), |address| Address.show(&address))
}

fn tcp_tls(config: &Config) -> Option<&Tls> {
    config.tcp.as_ref()?.tls.as_ref()
}

fn http_tls(config: &Config) -> Option<&Tls> {
    config.http.as_ref()?.tls.as_ref()
}

fn metrics_path(config: &Config) -> Option<&str> {
    config.http.as_ref()?.metrics_path.as_deref()
}

/// Returns the paths of a certificate's file and its key's file; empty paths if there are none.
fn files(tls: Option<&Tls>) -> (PathBuf, PathBuf) {
    match tls {
        Some(Tls::Files { certificate, key }) => (certificate.clone(), key.clone()),
        Some(Tls::SelfSigned) | None => Default::default(),
    }
}

/// Declares a section, and the field of [`Config`] that contains it; see the module documentation.
macro_rules! section {
    (
        $(#[$meta:meta])*
        pub struct $section:ident in $place:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident as $path:literal: $type:ty = $default:literal, $kind:expr;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $section {
            $(
                $(#[doc = $doc])+
                #[doc = concat!("\n\nThe key is `", $path, "`, its default `", $default, "`.")]
                pub $field: $type,
            )*
        }

        impl $section {
            const KEYS: &'static [Key] =
                &[$(key($path, $default, |config| $kind.show(&config.$place.$field))),*];

            /// Reads the values of the section's keys.
            pub(super) fn read(values: &Values) -> Result<Self> {
                Ok(Self { $($field: values.read($path, $kind)?,)* })
            }
        }
    };
}

section! {
    /// `[system.logging]`: the server's own log lines.
    pub struct Logging in logging {
        /// The minimum level of log lines, in the syntax of the variable `RUST_LOG`, which
        /// overrides it.
        level as "system.logging.level": String = "info", Filled;
        /// Whether log lines are also written to files.
        has_file as "system.logging.file_enabled": bool = "true", Switch;
        /// Whether log lines are written as JSON.
        is_json as "system.logging.format": bool = "text", LOG_FORMAT;
        /// Directory of the files. A relative path is relative to `[system] path`.
        path as "system.logging.path": PathBuf = "logs", Filled;
        /// Size of a log file at which a new one is started, in bytes; `None` lets files grow
        /// without limit.
        file_bytes_max as "system.logging.max_file_size": Option<u64> = "500 MB", SIZE_LIMIT;
        /// Total size of the log files above which the oldest ones are removed, in bytes; `None`
        /// for no limit.
        total_bytes_max as "system.logging.max_total_size": Option<u64> = "4 GB", SIZE_LIMIT;
        /// Age at which log files are removed; `None` keeps them indefinitely.
        retention as "system.logging.retention": Option<Duration> = "7 days", AGE_LIMIT;
    }
}

section! {
    /// `[system.segment]`: how segments are written and read.
    pub struct Segment in segment {
        /// How segments are written.
        append_io_mode as "system.segment.append_io_mode": IoModeChoice = "auto", IO_MODE;
        /// Whether each write to a segment is durable when it returns, even if the durability of
        /// the topic does not require it.
        syncs_appends as "system.segment.syncs_appends": bool = "false", Switch;
        /// How segments are read.
        read_io_mode as "system.segment.read_io_mode": IoModeChoice = "auto", IO_MODE;
        /// Whether unpersisted messages are kept in shared memory. They then survive if the
        /// server's process dies before it has written them to a segment.
        has_shared_memory as "system.segment.shared_memory": bool = "true", Switch;
        /// Number of threads that write segments.
        persisters as "system.segment.persisters": usize = "2", Number(1..=256);
    }
}

section! {
    /// `[system.memory]`: limits on the log's memory, in bytes.
    pub struct Memory in memory {
        /// Maximum memory for recent messages of all partitions: unpersisted messages, and
        /// persisted messages that are still cached.
        tail_bytes_max as "system.memory.tail_bytes_max": usize = "256 MiB", Size(1 << 20);
        /// Maximum size of the unpersisted messages of one partition.
        partition_unpersisted_bytes_max as "system.memory.partition_unpersisted_bytes_max":
            u64 = "64 MiB", Size(1 << 20);
        /// Maximum memory for data that is prefetched from segments.
        read_ahead_bytes_max as "system.memory.read_ahead_bytes_max": usize = "64 MiB",
            Size(1 << 20);
    }
}

section! {
    /// `[topic_defaults]`: values for options that a client does not set when it creates a topic.
    pub struct TopicDefaults in topics {
        /// The most severe kind of failure that an acknowledged message survives.
        durability as "topic_defaults.durability": Durability = "process", DURABILITY;
        /// Whether stored offsets of consumers survive a power cut.
        are_offsets_durable as "topic_defaults.consumer_offset_durability": bool = "process",
            OFFSET_DURABILITY;
        /// Number of unpersisted messages in a partition at which they are persisted.
        messages_required_to_save as "topic_defaults.messages_required_to_save": u32 = "1024",
            Number(1..=16 << 20);
        /// Size of the unpersisted messages in a partition at which they are persisted, in bytes.
        size_of_messages_required_to_save as "topic_defaults.size_of_messages_required_to_save":
            u64 = "1 MiB", Size(1);
        /// Maximum time that a message stays unpersisted.
        save_interval as "topic_defaults.save_interval": Duration = "1 s", Interval;
        /// Size at which a segment is sealed, in bytes.
        segment_bytes as "topic_defaults.segment_size": u64 = "1 GiB", Size(1 << 20);
        /// Age at which messages are removed; `None` keeps them indefinitely.
        message_expiry as "topic_defaults.message_expiry": Option<Duration> = "unlimited",
            AGE_LIMIT;
        /// Size of a topic beyond which its oldest segments are removed, in bytes; `None` for no
        /// limit.
        topic_bytes_max as "topic_defaults.max_topic_size": Option<u64> = "unlimited", SIZE_LIMIT;
        /// Handling of a partial block. A partial block is the last block of a write to a segment,
        /// if the written batches do not fill it.
        partial_blocks as "topic_defaults.partial_blocks": PartialBlocks = "pad", PARTIAL_BLOCKS;
    }
}

section! {
    /// `[limits]`: limits on the resources that clients can use.
    pub struct Limits in limits {
        /// Largest frame, in bytes.
        frame_bytes_max as "message_bus.max_message_size": usize = "64 MiB",
            Size(FRAME_BYTES_MIN);
        /// Maximum number of open connections.
        connections_max as "limits.connections_max": usize = "16384", Number(1..=1 << 20);
        /// Maximum time from the start of a connection until its login.
        unauthenticated_timeout as "limits.unauthenticated_timeout": Duration = "30 s", Interval;
        /// Maximum time for a client to complete a frame that it has begun, or to read a reply. One
        /// second is added for each MiB transferred.
        stall_timeout as "limits.stall_timeout": Duration = "30 s", Interval;
        /// Maximum memory of a connection for a request or a reply, in bytes. A connection has only
        /// one request or reply in memory at a time.
        connection_bytes_max as "limits.connection_bytes_max": usize = "128 MiB",
            Size(FRAME_BYTES_MIN);
        /// Maximum size of the messages that one poll returns, in bytes. A first batch that alone
        /// is larger is still returned.
        poll_bytes_max as "limits.poll_bytes_max": usize = "128 MiB", Size(POLL_BYTES_MIN);
        /// Maximum total memory of the requests and replies of all connections, in bytes.
        in_flight_bytes_max as "limits.in_flight_bytes_max": usize = "512 MiB",
            Size(FRAME_BYTES_MIN);
        /// Maximum number of streams.
        streams_max as "limits.streams_max": usize = "4096", Number(1..=1 << 20);
        /// Maximum number of topics of one stream.
        topics_max as "limits.topics_max": usize = "4096", Number(1..=1 << 20);
        /// Maximum number of partitions of one topic.
        partitions_max as "limits.partitions_max": usize = "1000", Number(1..=1_000_000);
        /// Maximum number of consumer groups of one topic.
        groups_max as "limits.groups_max": usize = "1024", Number(1..=1 << 20);
        /// Maximum number of consumers with a stored offset in one partition.
        consumers_max as "limits.consumers_max": usize = "10000", Number(1..=1 << 20);
        /// Number of failed logins from one address within a minute. At this number, further logins
        /// from that address are delayed.
        failed_logins_max as "limits.failed_logins_max": u32 = "10", Number(1..=u32::MAX);
        /// Maximum number of passwords that are hashed concurrently.
        password_hashers as "limits.password_hashers": usize = "2", Number(1..=256);
    }
}
