//! The configuration: a file in Iggy's format, Iggy's environment variables, and flags.
//!
//! Loading has two steps. First, [`sources`] collects the text of each key: the file overrides the
//! defaults, environment variables override the file, and flags override both. [`sources`] also
//! reports keys that, according to the table in [`keys`], are unknown, without effect or relocated.
//! Then [`read`] checks each text and builds the [`Config`]. [`current`] writes the configuration
//! of a running server to a file.

mod current;
mod keys;
mod read;
mod sources;
#[cfg(test)]
mod tests;
mod units;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use tailwater_log::{Durability, IoModeChoice, PartialBlocks};

pub(crate) use current::{remove_current, write_current};
pub(crate) use read::is_segment_size;
pub(crate) use units::{Bound, parse_bound, parse_duration, parse_size};

/// Maximum size of a reply's body, in bytes: the length of a frame, including its header, has 32
/// bits.
const REPLY_BODY_MAX: usize = u32::MAX as usize - (4 << 10);
/// Range of the length of a user's name in bytes, as in Iggy.
pub(crate) const NAME_BYTES: RangeInclusive<usize> = 3..=50;
/// Range of the length of a password in bytes, as in Iggy.
pub(crate) const PASSWORD_BYTES: RangeInclusive<usize> = 3..=100;

/// The whole configuration, with every value checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `[system] path`: the directory of all data.
    pub path: PathBuf,
    /// `[system.runtime] path`: directory of `current_config.toml`. A relative path is relative to
    /// `path`.
    pub runtime_path: PathBuf,
    /// `[tcp]`; `None` if it is off.
    pub tcp: Option<Tcp>,
    /// `[http]`; `None` if it is off.
    pub http: Option<Http>,
    /// Credentials of the root user, which is created with a new directory.
    pub root: Root,
    /// `[heartbeat] interval`: a member of a group is evicted after 1.2 intervals without a
    /// request. With `None`, members are not evicted.
    pub heartbeat_interval: Option<Duration>,
    /// `[personal_access_token] max_tokens_per_user`.
    pub tokens_per_user_max: u32,
    /// `[consumer_group] rebalancing_timeout`.
    pub rebalancing_timeout: Duration,
    /// `[topic_defaults]`: values of options that a topic does not set.
    pub topics: TopicDefaults,
    /// `[system.segment]`: how segments are written and read.
    pub segment: Segment,
    /// `[system.memory]`: bounds on the log's memory.
    pub memory: Memory,
    /// `[limits]`: bounds on what clients can use.
    pub limits: Limits,
    /// `[data_maintenance.messages] cleaner_enabled`.
    pub is_retention_on: bool,
    /// `[system.logging]`.
    pub logging: Logging,
}

/// `[tcp]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Tcp {
    /// `address`: where to listen; port 0 selects a free port.
    pub address: SocketAddr,
    /// `[tcp.tls]`; `None` if it is off.
    pub tls: Option<Tls>,
}

/// `[tcp.tls]`, `[http.tls]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tls {
    /// A certificate that is generated at each start.
    SelfSigned,
    /// Files in the PEM format.
    Files {
        /// `cert_file`: the certificate chain, beginning with the server's certificate.
        certificate: PathBuf,
        /// `key_file`: the private key.
        key: PathBuf,
    },
}

/// `[http]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    /// `address`: where to listen; port 0 selects a free port.
    pub address: SocketAddr,
    /// `[http.metrics] endpoint`; `None` if metrics are off.
    pub metrics_path: Option<String>,
    /// `[http.tls]`; `None` if it is off.
    pub tls: Option<Tls>,
}

/// Credentials of the first user, whose id is 0.
#[derive(Clone, PartialEq, Eq)]
pub enum Root {
    /// The values of `IGGY_ROOT_USERNAME` and `IGGY_ROOT_PASSWORD`.
    Given {
        /// Name of the user.
        name: String,
        /// The password.
        password: String,
    },
    /// `--with-default-root-credentials`: name and password are iggy.
    Default,
    /// The name iggy, and a generated password that is printed once.
    Random,
}

impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Given { name, .. } => write!(f, "Given({name})"),
            Self::Default => f.write_str("Default"),
            Self::Random => f.write_str("Random"),
        }
    }
}

/// `[topic_defaults]`: values of options that a topic does not set.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicDefaults {
    /// The most severe kind of failure that an acknowledged message survives.
    pub durability: Durability,
    /// Whether stored offsets of consumers survive a power cut.
    pub are_offsets_durable: bool,
    /// Number of unpersisted messages in a partition that triggers a persist.
    pub messages_required_to_save: u32,
    /// Unpersisted bytes in a partition that trigger a persist.
    pub size_of_messages_required_to_save: u64,
    /// Maximum time that a message stays unpersisted.
    pub save_interval: Duration,
    /// Size at which a segment is sealed, in bytes.
    pub segment_bytes: u64,
    /// Age at which messages are removed; `None` keeps them indefinitely.
    pub message_expiry: Option<Duration>,
    /// Size of a topic beyond which its oldest segments are removed, in bytes; `None` for no limit.
    pub topic_bytes_max: Option<u64>,
    /// Handling of a partial block: the last block of a write, which the batches do not fill.
    pub partial_blocks: PartialBlocks,
}

/// `[system.segment]`: how segments are written and read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// `append_io_mode`: how segments are written.
    pub append_io_mode: IoModeChoice,
    /// `syncs_appends`: whether each write is durable when it returns, whatever the topic's
    /// durability.
    pub syncs_appends: bool,
    /// `read_io_mode`: how segments are read.
    pub read_io_mode: IoModeChoice,
    /// `shared_memory`: whether unpersisted messages are kept in shared memory, so that they
    /// survive the death of the process before they are written to a segment.
    pub has_shared_memory: bool,
    /// `persisters`: number of threads that write segments.
    pub persisters: usize,
}

/// `[system.memory]`: bounds on the log's memory, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Bound on the memory of recent messages: unpersisted messages, and persisted messages that
    /// are cached.
    pub tail_bytes_max: usize,
    /// Bound on the size of the unpersisted messages of one partition.
    pub partition_unpersisted_bytes_max: u64,
    /// Bound on the memory for prefetching from segments.
    pub read_ahead_bytes_max: usize,
}

/// `[limits]`: bounds on what clients can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Largest frame, in bytes (`[message_bus] max_message_size`).
    pub frame_bytes_max: usize,
    /// Maximum number of open connections.
    pub connections_max: usize,
    /// Maximum time from the start of a connection until its login.
    pub unauthenticated_timeout: Duration,
    /// Maximum time for a client to complete a frame that it has begun, or to read a reply. One
    /// second is added for each MiB transferred.
    pub stall_timeout: Duration,
    /// Maximum size of a request or a reply, in bytes. A connection has only one request or reply
    /// in memory at a time.
    pub connection_bytes_max: usize,
    /// Maximum size of the messages that one poll returns, in bytes. A first batch that alone is
    /// larger is still returned.
    pub poll_bytes_max: usize,
    /// Bound on the total memory of the requests and replies of all connections, in bytes.
    pub in_flight_bytes_max: usize,
    /// Maximum number of streams.
    pub streams_max: usize,
    /// Maximum number of topics of one stream.
    pub topics_max: usize,
    /// Maximum number of partitions of one topic.
    pub partitions_max: usize,
    /// Maximum number of consumer groups of one topic.
    pub groups_max: usize,
    /// Maximum number of consumers with a stored offset in one partition.
    pub consumers_max: usize,
    /// Number of failed logins from one address within a minute after which further logins from
    /// that address are delayed.
    pub failed_logins_max: u32,
    /// Maximum number of passwords that are hashed concurrently.
    pub password_hashers: usize,
}

impl Limits {
    /// Maximum size of a poll's body in bytes, including its header. A single larger batch may
    /// exceed it.
    pub(crate) fn poll_body_max(&self) -> usize {
        self.poll_bytes_max.min(self.connection_bytes_max).min(REPLY_BODY_MAX)
    }
}

/// `[system.logging]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logging {
    /// `level`: the minimum level of logged lines, in the syntax of `RUST_LOG`.
    pub level: String,
    /// `file_enabled`: whether lines are also written to files.
    pub has_file: bool,
    /// `format`: whether lines are JSON.
    pub is_json: bool,
    /// `path`: directory of the files. A relative path is relative to `[system] path`.
    pub path: PathBuf,
    /// `max_file_size`: size at which a new file is started, in bytes; `None` lets files grow
    /// without bound.
    pub file_bytes_max: Option<u64>,
    /// `max_total_size`: total size above which the oldest files are removed, in bytes.
    pub total_bytes_max: Option<u64>,
    /// `retention`: age at which files are removed.
    pub retention: Option<Duration>,
}

/// Flags of `tailwater serve`. Each flag overrides the environment and the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--config`: path of the configuration file; by default the path in `IGGY_CONFIG_PATH`.
    pub config: Option<PathBuf>,
    /// `--path`: the key `system.path`.
    pub path: Option<PathBuf>,
    /// `--address`: the key `tcp.address`.
    pub address: Option<String>,
    /// `--set`: any key with its value, such as `tcp.address` and `0.0.0.0:8090`.
    pub settings: Vec<(String, String)>,
    /// `--with-default-root-credentials`.
    pub has_default_root_credentials: bool,
}

/// The source of a configuration value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigSource {
    /// The built-in default.
    Default,
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A flag.
    Flag(String),
}

impl ConfigSource {
    /// Returns the precedence of the source: a source overrides sources of lower precedence.
    fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File(_) => 1,
            Self::Environment(_) => 2,
            Self::Flag(_) => 3,
        }
    }
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::File(path) => path.display().fmt(f),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// An invalid value, and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The key, such as `tcp.address`; `None` if the problem concerns no single key.
    pub key: Option<String>,
    /// The source of the value.
    pub source: ConfigSource,
    /// The problem.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{key} (from {}): {}", self.source, self.message),
            None => write!(f, "{}: {}", self.source, self.message),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads the configuration: the file overrides the defaults, `environment` overrides the file,
    /// and `flags` override both. Also returns warnings about keys and variables that are unknown
    /// or have no effect, and about unsafe settings.
    ///
    /// # Errors
    /// An invalid value; a key or variable that was relocated; a flag that sets an unknown key; a
    /// file that cannot be read or is not TOML; only one of the root user's name and password.
    pub fn load(
        flags: &Flags,
        environment: &BTreeMap<String, String>,
    ) -> Result<(Self, Vec<String>), ConfigError> {
        let (values, mut warnings) = sources::collect(flags, environment)?;
        let config = read::config(&values, flags, environment, &mut warnings)?;
        Ok((config, warnings))
    }
}

impl Default for Config {
    /// Returns the configuration without a file, environment or flags.
    fn default() -> Self {
        let loaded = Self::load(&Flags::default(), &BTreeMap::new());
        loaded.expect("valid defaults in the table of keys").0
    }
}
