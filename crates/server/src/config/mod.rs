//! The configuration: a file in Iggy's format, Iggy's environment variables, and flags.
//!
//! Loading has two steps. First, [`sources`] collects the text of each key: the file overrides the
//! defaults, environment variables override the file, and flags override both. [`sources`] also
//! reports keys that, according to the tables in [`keys`], are unknown, without effect or
//! relocated. Then [`read`] checks each text and builds the [`Config`]. [`current`] writes the
//! configuration of a running server to a file. [`table`] declares the keys that have an effect.

mod current;
mod keys;
mod kinds;
mod log_filter;
mod read;
mod sources;
mod table;
#[cfg(test)]
mod tests;
mod units;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use current::{check_current, remove_current, write_current};
pub(crate) use read::is_segment_size;
pub use table::{Limits, Logging, Memory, Segment, TopicDefaults};
pub(crate) use units::{Bound, parse_bound, parse_duration, parse_size};

/// Maximum size of the body of a reply, in bytes. The length field of a frame, which includes the
/// header, has 32 bits.
const REPLY_BODY_MAX: usize = u32::MAX as usize - (4 << 10);
/// Range of the length of a user's name in bytes, as in Iggy.
pub(crate) const NAME_BYTES: RangeInclusive<usize> = 3..=50;
/// Range of the length of a password in bytes, as in Iggy.
pub(crate) const PASSWORD_BYTES: RangeInclusive<usize> = 3..=100;

type Result<T> = std::result::Result<T, ConfigError>;

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
    /// Credentials of the root user. They are used only to create the root user in a new directory.
    pub root: Root,
    /// `[heartbeat] interval`: the session of a member of a consumer group ends if the server gets
    /// no request from it for 1.2 intervals. `None` if the server does not check this.
    pub heartbeat_interval: Option<Duration>,
    /// `[personal_access_token] max_tokens_per_user`: maximum number of a user's personal access
    /// tokens.
    pub tokens_per_user_max: u32,
    /// `[consumer_group] rebalancing_timeout`: maximum time for which the handover of a partition
    /// waits until the old owner has committed the messages that it polled.
    pub rebalancing_timeout: Duration,
    /// `[topic_defaults]`: values for options that a client does not set when it creates a topic.
    pub topics: TopicDefaults,
    /// `[system.segment]`: how segments are written and read.
    pub segment: Segment,
    /// `[system.memory]`: bounds on the log's memory.
    pub memory: Memory,
    /// `[limits]`: limits on the resources that clients can use.
    pub limits: Limits,
    /// `[data_maintenance.messages] cleaner_enabled`: whether messages are removed by age and by
    /// the size of their topic.
    pub is_retention_on: bool,
    /// `[system.logging]`: the server's own log lines.
    pub logging: Logging,
}

/// `[tcp]`: the transport for clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Tcp {
    /// `address`: where to listen; port 0 selects a free port.
    pub address: SocketAddr,
    /// `[tcp.tls]`; `None` if it is off.
    pub tls: Option<Tls>,
}

/// `[tcp.tls]` or `[http.tls]`: the certificate of encrypted connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tls {
    /// A self-signed certificate, generated at each start of the server.
    SelfSigned,
    /// A certificate and its private key, in two files in the PEM format.
    Files {
        /// `cert_file`: the certificate chain, beginning with the server's certificate.
        certificate: PathBuf,
        /// `key_file`: the private key.
        key: PathBuf,
    },
}

/// `[http]`: the interface for metrics and health.
#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    /// `address`: where to listen; port 0 selects a free port.
    pub address: SocketAddr,
    /// `[http.metrics] endpoint`: path of the metrics; `None` if metrics are off.
    pub metrics_path: Option<String>,
    /// `[http.tls]`; `None` if it is off.
    pub tls: Option<Tls>,
}

/// Credentials of the root user, which is the first user and has the id 0.
#[derive(Clone, PartialEq, Eq)]
pub enum Root {
    /// The values of `IGGY_ROOT_USERNAME` and `IGGY_ROOT_PASSWORD`.
    Given {
        /// Name of the user.
        name: String,
        /// The password.
        password: String,
    },
    /// `--with-default-root-credentials`: name and password are both `iggy`.
    Default,
    /// The name `iggy`, and a generated password that is printed once.
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

impl Limits {
    /// Returns the maximum size of the body of a reply to a poll in bytes, including the body's
    /// header. A reply with a single batch may be larger.
    pub(crate) fn poll_body_max(&self) -> usize {
        self.poll_bytes_max.min(self.connection_bytes_max).min(REPLY_BODY_MAX)
    }
}

/// Flags of the command `tailwater serve`. A flag overrides the environment variable and the value
/// in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--config`: path of the configuration file. Without the flag, the path is the value of the
    /// variable `IGGY_CONFIG_PATH`.
    pub config: Option<PathBuf>,
    /// `--path`: the key `system.path`.
    pub path: Option<PathBuf>,
    /// `--address`: the key `tcp.address`.
    pub address: Option<String>,
    /// `--set`: a key and its value, such as `tcp.address` and `0.0.0.0:8090`. The flag can be
    /// repeated.
    pub settings: Vec<(String, String)>,
    /// `--with-default-root-credentials`.
    pub has_default_root_credentials: bool,
}

/// The source of a configuration value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigSource {
    /// The built-in default.
    Default,
    /// The configuration file with this path.
    File(PathBuf),
    /// The environment variable with this name.
    Environment(String),
    /// The command-line flag with this name, such as `--path`.
    Flag(String),
}

impl ConfigSource {
    /// Returns the precedence of the source. A value overrides values whose sources have lower
    /// precedence.
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

/// An error in the configuration: the key, the source of its value, and the problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The key, such as `tcp.address`; `None` if the problem concerns no single key.
    pub key: Option<String>,
    /// The source of the rejected configuration value.
    pub source: ConfigSource,
    /// The text that says what is wrong.
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
    ) -> Result<(Self, Vec<String>)> {
        let (values, mut warnings) = sources::collect(flags, environment)?;
        let config = read::config(&values, flags, environment, &mut warnings)?;
        Ok((config, warnings))
    }
}

impl Default for Config {
    /// Returns the default configuration: without a file, environment variables or flags.
    fn default() -> Self {
        let loaded = Self::load(&Flags::default(), &BTreeMap::new());
        loaded.expect("valid defaults in the table of keys").0
    }
}
