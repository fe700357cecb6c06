//! Parses and checks the values of all configuration keys, and builds the configuration from these
//! values.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tailwater_log::{Durability, IoModeChoice, PartialBlocks};

use super::sources::{Given, Values};
use super::units::{Bound, parse_bound, parse_duration, parse_size};
use super::{
    Config, ConfigError, ConfigSource, Flags, Http, Limits, Logging, Memory, NAME_BYTES,
    PASSWORD_BYTES, Root, Segment, Tcp, Tls, TopicDefaults, keys, log_filter,
};

type Result<T> = std::result::Result<T, ConfigError>;

/// Allowed segment sizes in bytes, as in Iggy.
const SEGMENT_BYTES: RangeInclusive<u64> = (1 << 20)..=(1 << 30);
const SEGMENT_UNIT: u64 = 512;
/// Smallest allowed value of the maximum frame size, in bytes. All requests without messages are
/// smaller.
const FRAME_BYTES_MIN: u64 = 64 << 10;
/// Largest allowed value of the maximum frame size, in bytes. The length field of a frame is a
/// `u32`.
const FRAME_BYTES_MAX: u64 = u32::MAX as u64;
/// Smallest value that the setting for the maximum size of a poll may have, in bytes. One read of
/// the log returns at most half as many bytes.
const POLL_BYTES_MIN: u64 = 2 << 20;

/// Returns whether a segment size, in bytes, is valid.
pub(crate) fn is_segment_size(bytes: u64) -> bool {
    SEGMENT_BYTES.contains(&bytes) && bytes.is_multiple_of(SEGMENT_UNIT)
}

/// Checks all values, and returns the configuration.
pub(super) fn config(
    values: &Values,
    flags: &Flags,
    environment: &BTreeMap<String, String>,
    warnings: &mut Vec<String>,
) -> Result<Config> {
    let path = PathBuf::from(values.filled("system.path")?);
    let heartbeat = values.positive_duration("heartbeat.interval")?;
    let config = Config {
        runtime_path: PathBuf::from(values.filled("system.runtime.path")?),
        tcp: tcp(values, warnings)?,
        http: http(values)?,
        root: root(flags, environment, warnings)?,
        heartbeat_interval: values.boolean("heartbeat.enabled")?.then_some(heartbeat),
        tokens_per_user_max: values.number("personal_access_token.max_tokens_per_user", 0)?,
        rebalancing_timeout: values.positive_duration("consumer_group.rebalancing_timeout")?,
        topics: topics(values)?,
        segment: Segment {
            append_io_mode: io_mode(values, "system.segment.append_io_mode")?,
            syncs_appends: values.boolean("system.segment.syncs_appends")?,
            read_io_mode: io_mode(values, "system.segment.read_io_mode")?,
            has_shared_memory: values.boolean("system.segment.shared_memory")?,
            persisters: values.between("system.segment.persisters", 1..=256)?,
        },
        memory: Memory {
            tail_bytes_max: values.bytes("system.memory.tail_bytes_max", 1 << 20)?,
            partition_unpersisted_bytes_max: values
                .size("system.memory.partition_unpersisted_bytes_max", 1 << 20)?,
            read_ahead_bytes_max: values.bytes("system.memory.read_ahead_bytes_max", 1 << 20)?,
        },
        limits: limits(values)?,
        is_retention_on: values.boolean("data_maintenance.messages.cleaner_enabled")?,
        logging: logging(values, environment, warnings)?,
        path,
    };
    warn_of_exposure(&config, warnings);
    warn_of_io_uring(environment, warnings);
    Ok(config)
}

fn tcp(values: &Values, warnings: &mut Vec<String>) -> Result<Option<Tcp>> {
    let address = values.address("tcp.address")?;
    let is_self_signed = values.boolean("tcp.tls.self_signed")?;
    let is_given = |key: &str| !values.get(key).text.trim().is_empty();
    // A configured certificate takes precedence over a generated one. If it cannot be used, the
    // server does not start: clients that trust the configured certificate would refuse another.
    let has_files = is_given("tcp.tls.cert_file") || is_given("tcp.tls.key_file");
    let tls = match values.boolean("tcp.tls.enabled")? {
        true if is_self_signed && !has_files => Some(Tls::SelfSigned),
        true => Some(certificate(values, "tcp.tls")?),
        false => None,
    };
    let is_enabled = values.boolean("tcp.enabled")?;
    if is_enabled && tls == Some(Tls::SelfSigned) {
        warnings.push(
            "tcp.tls.cert_file is not set: a self-signed certificate for localhost is generated, \
             which clients cannot verify"
                .to_owned(),
        );
    }
    Ok(is_enabled.then_some(Tcp { address, tls }))
}

fn http(values: &Values) -> Result<Option<Http>> {
    let address = values.address("http.address")?;
    let endpoint = values.filled("http.metrics.endpoint")?;
    if !endpoint.starts_with('/') || endpoint == "/ping" || endpoint == "/health" {
        let want = "a path that begins with '/', other than /ping and /health";
        return Err(values.refuse("http.metrics.endpoint", want));
    }
    let tls = if values.boolean("http.tls.enabled")? {
        Some(certificate(values, "http.tls")?)
    } else {
        None
    };
    let metrics_path = values.boolean("http.metrics.enabled")?.then_some(endpoint);
    Ok(values.boolean("http.enabled")?.then_some(Http { address, metrics_path, tls }))
}

fn certificate(values: &Values, section: &str) -> Result<Tls> {
    let file = |name: &str| values.filled(&format!("{section}.{name}")).map(PathBuf::from);
    Ok(Tls::Files { certificate: file("cert_file")?, key: file("key_file")? })
}

fn topics(values: &Values) -> Result<TopicDefaults> {
    let segment_bytes = values.size("topic_defaults.segment_size", *SEGMENT_BYTES.start())?;
    if !is_segment_size(segment_bytes) {
        let want = "1 MiB to 1 GiB, in multiples of 512 bytes";
        return Err(values.refuse("topic_defaults.segment_size", want));
    }
    let topic_bytes_max = values.bound("topic_defaults.max_topic_size", parse_size)?;
    let topic_bytes_max = topic_bytes_max.filter(|bytes| *bytes != 0);
    if topic_bytes_max.is_some_and(|bytes| bytes < segment_bytes) {
        let want = "at least topic_defaults.segment_size, or unlimited";
        return Err(values.refuse("topic_defaults.max_topic_size", want));
    }
    let save_bytes = "topic_defaults.size_of_messages_required_to_save";
    let size_of_messages_required_to_save = values.size(save_bytes, 1)?;
    if size_of_messages_required_to_save > 1 << 30 {
        return Err(values.refuse(save_bytes, "at most 1 GiB"));
    }
    let offset_durability = "topic_defaults.consumer_offset_durability";
    Ok(TopicDefaults {
        durability: durability(values)?,
        are_offsets_durable: match values.lower(offset_durability).as_str() {
            "process" | "replicated" => false,
            "disk" | "persisted" => true,
            _ => {
                let want = "process (replicated) or disk (persisted)";
                return Err(values.refuse(offset_durability, want));
            }
        },
        messages_required_to_save: values
            .between("topic_defaults.messages_required_to_save", 1..=16 << 20)?,
        size_of_messages_required_to_save,
        save_interval: values.positive_duration("topic_defaults.save_interval")?,
        segment_bytes,
        message_expiry: values
            .bound("topic_defaults.message_expiry", parse_duration)?
            .filter(|expiry| !expiry.is_zero()),
        topic_bytes_max,
        partial_blocks: match values.lower("topic_defaults.partial_blocks").as_str() {
            "pad" => PartialBlocks::Pad,
            "carry" => PartialBlocks::Carry,
            _ => return Err(values.refuse("topic_defaults.partial_blocks", "pad or carry")),
        },
    })
}

fn durability(values: &Values) -> Result<Durability> {
    let key = "topic_defaults.durability";
    let durability = match values.lower(key).as_str() {
        "memory" => Durability::Memory,
        "process" | "replicated" => Durability::Process,
        "disk" | "persisted" => Durability::Disk,
        _ => {
            let want = "memory, process (replicated) or disk (persisted)";
            return Err(values.refuse(key, want));
        }
    };
    let alias = "topic_defaults.enforce_fsync";
    let is_enforced = values.boolean(alias)?;
    let (rank, alias_rank) = (values.get(key).source.rank(), values.get(alias).source.rank());
    match (is_enforced, durability) {
        // If `durability` and `enforce_fsync` come from different sources, the source with the
        // higher precedence applies.
        _ if rank > alias_rank => Ok(durability),
        (false, Durability::Disk) if rank < alias_rank => Ok(Durability::default()),
        (true, other) if rank == alias_rank && other != Durability::Disk => {
            let message = format!("true, which is 'disk', but {key} is '{}'", other.name());
            Err(values.refuse_with(alias, message))
        }
        (true, _) => Ok(Durability::Disk),
        (false, durability) => Ok(durability),
    }
}

fn io_mode(values: &Values, key: &str) -> Result<IoModeChoice> {
    let name = values.lower(key);
    let choice = IoModeChoice::ALL.iter().copied().find(|choice| choice.name() == name);
    choice.ok_or_else(|| values.refuse(key, "auto, direct or buffered"))
}

fn limits(values: &Values) -> Result<Limits> {
    let frame_bytes_max = values.bytes("message_bus.max_message_size", FRAME_BYTES_MIN)?;
    if frame_bytes_max as u64 > FRAME_BYTES_MAX {
        return Err(values.refuse("message_bus.max_message_size", "at most 4 GiB"));
    }
    let limits = Limits {
        frame_bytes_max,
        connections_max: values.between("limits.connections_max", 1..=1 << 20)?,
        unauthenticated_timeout: values.positive_duration("limits.unauthenticated_timeout")?,
        stall_timeout: values.positive_duration("limits.stall_timeout")?,
        connection_bytes_max: values.bytes("limits.connection_bytes_max", FRAME_BYTES_MIN)?,
        poll_bytes_max: values.bytes("limits.poll_bytes_max", POLL_BYTES_MIN)?,
        in_flight_bytes_max: values.bytes("limits.in_flight_bytes_max", FRAME_BYTES_MIN)?,
        streams_max: values.between("limits.streams_max", 1..=1 << 20)?,
        topics_max: values.between("limits.topics_max", 1..=1 << 20)?,
        partitions_max: values.between("limits.partitions_max", 1..=1_000_000)?,
        groups_max: values.between("limits.groups_max", 1..=1 << 20)?,
        consumers_max: values.between("limits.consumers_max", 1..=1 << 20)?,
        failed_logins_max: values.number("limits.failed_logins_max", 1)?,
        password_hashers: values.between("limits.password_hashers", 1..=256)?,
    };
    // The memory for all connections must suffice for the largest request that a connection may
    // send.
    if limits.in_flight_bytes_max < frame_bytes_max.min(limits.connection_bytes_max) {
        let want = "at least message_bus.max_message_size or limits.connection_bytes_max";
        return Err(values.refuse("limits.in_flight_bytes_max", want));
    }
    Ok(limits)
}

fn logging(
    values: &Values,
    environment: &BTreeMap<String, String>,
    warnings: &mut Vec<String>,
) -> Result<Logging> {
    let bytes = |key: &str| -> Result<Option<u64>> {
        Ok(values.bound(key, parse_size)?.filter(|bytes| *bytes != 0))
    };
    Ok(Logging {
        level: log_level(values, environment, warnings)?,
        has_file: values.boolean("system.logging.file_enabled")?,
        is_json: match values.lower("system.logging.format").as_str() {
            "text" => false,
            "json" => true,
            _ => return Err(values.refuse("system.logging.format", "text or json")),
        },
        path: PathBuf::from(values.filled("system.logging.path")?),
        file_bytes_max: bytes("system.logging.max_file_size")?,
        total_bytes_max: bytes("system.logging.max_total_size")?,
        retention: values
            .bound("system.logging.retention", parse_duration)?
            .filter(|retention| !retention.is_zero()),
    })
}

/// Returns the filter of log lines: the variable `RUST_LOG` or, if that is not set or invalid, the
/// configured level.
fn log_level(
    values: &Values,
    environment: &BTreeMap<String, String>,
    warnings: &mut Vec<String>,
) -> Result<String> {
    const KEY: &str = "system.logging.level";
    const VARIABLE: &str = "RUST_LOG";
    let level = values.filled(KEY)?;
    if !log_filter::is_valid(&level) {
        return Err(values.refuse(KEY, log_filter::EXPECTED));
    }
    match environment.get(VARIABLE).filter(|filter| !filter.trim().is_empty()) {
        None => Ok(level),
        Some(filter) if log_filter::is_valid(filter) => Ok(filter.clone()),
        Some(filter) => {
            let expected = log_filter::EXPECTED;
            warnings.push(format!(
                "{VARIABLE} '{filter}' is invalid and has no effect: expected {expected}"
            ));
            Ok(level)
        }
    }
}

/// Reads the credentials of the root user from the environment. With the flag for the default
/// credentials, the default `iggy` replaces a missing name or password, as in Iggy.
fn root(
    flags: &Flags,
    environment: &BTreeMap<String, String>,
    warnings: &mut Vec<String>,
) -> Result<Root> {
    let [name, password] = ["IGGY_ROOT_USERNAME", "IGGY_ROOT_PASSWORD"];
    // An empty variable counts as not set, as for all other variables of the server.
    let given = |variable| environment.get(variable).filter(|text| !text.is_empty()).cloned();
    let refuse = |variable: &str, message: String| {
        Err(ConfigError {
            key: None,
            source: ConfigSource::Environment(variable.to_owned()),
            message,
        })
    };
    let is_default = flags.has_default_root_credentials;
    let filled = |variable| given(variable).or_else(|| is_default.then(|| "iggy".to_owned()));
    let root = match (given(name), given(password)) {
        (None, None) if is_default => return Ok(Root::Default),
        (None, None) => return Ok(Root::Random),
        _ => match (filled(name), filled(password)) {
            (Some(name), Some(password)) => (name, password),
            (Some(_), None) => {
                return refuse(name, format!("set without {password}: set both or neither"));
            }
            _ => return refuse(password, format!("set without {name}: set both or neither")),
        },
    };
    if is_default {
        warnings.push(format!(
            "--with-default-root-credentials does not replace what {name} and {password} set"
        ));
    }
    for (variable, text, length) in
        [(name, &root.0, NAME_BYTES), (password, &root.1, PASSWORD_BYTES)]
    {
        if !length.contains(&text.len()) {
            let (start, end) = length.into_inner();
            return refuse(variable, format!("it must have {start} to {end} bytes"));
        }
    }
    Ok(Root::Given { name: root.0, password: root.1 })
}

/// Warns about everything that other machines can access without a login. Whether they can log in
/// with the default credentials is checked elsewhere, because it depends on the users in the
/// directory.
fn warn_of_exposure(config: &Config, warnings: &mut Vec<String>) {
    if let Some(Http { address, metrics_path: Some(path), .. }) = &config.http
        && !address.ip().is_loopback()
    {
        warnings.push(format!(
            "http.address {address} is not a loopback address: {path} requires no login"
        ));
    }
}

/// Warns if the variable that turns io_uring off has a value without a meaning.
fn warn_of_io_uring(environment: &BTreeMap<String, String>, warnings: &mut Vec<String>) {
    const VARIABLE: &str = "TAILWATER_IO_URING";
    if let Some(value) = environment.get(VARIABLE)
        && !["", "on", "off"].contains(&value.as_str())
    {
        warnings.push(format!("{VARIABLE} '{value}' has no effect: expected on or off"));
    }
}

impl Values {
    fn refuse_with(&self, key: &str, message: String) -> ConfigError {
        ConfigError { key: Some(key.to_owned()), source: self.get(key).source, message }
    }

    /// Returns the error for an invalid value of a key. `want` describes valid values.
    fn refuse(&self, key: &str, want: &str) -> ConfigError {
        self.refuse_with(key, format!("'{}' is invalid: expected {want}", self.get(key).text))
    }

    fn lower(&self, key: &str) -> String {
        self.get(key).text.trim().to_lowercase()
    }

    fn filled(&self, key: &str) -> Result<String> {
        match self.get(key) {
            Given { text, .. } if text.trim().is_empty() => {
                Err(self.refuse_with(key, "empty, but required".to_owned()))
            }
            Given { text, .. } => Ok(text),
        }
    }

    fn boolean(&self, key: &str) -> Result<bool> {
        match self.lower(key).as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.refuse(key, "true or false")),
        }
    }

    fn number(&self, key: &str, least: u32) -> Result<u32> {
        self.between(key, least..=u32::MAX)
    }

    fn between<T: FromStr + PartialOrd + std::fmt::Display>(
        &self,
        key: &str,
        range: RangeInclusive<T>,
    ) -> Result<T> {
        let number = self.get(key).text.trim().parse().ok();
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            self.refuse(key, &format!("a number from {} to {}", range.start(), range.end()))
        })
    }

    /// Returns the value of a key as a size in bytes, which must be at least `least`.
    fn size(&self, key: &str, least: u64) -> Result<u64> {
        let bytes = parse_size(&self.get(key).text).filter(|bytes| *bytes >= least);
        bytes.ok_or_else(|| {
            let least = super::units::format_size(least);
            self.refuse(key, &format!("a size of at least {least}, such as \"64 MiB\""))
        })
    }

    fn bytes(&self, key: &str, least: u64) -> Result<usize> {
        let bytes = usize::try_from(self.size(key, least)?);
        bytes.map_err(|_| self.refuse(key, "a size that this machine can address"))
    }

    fn positive_duration(&self, key: &str) -> Result<Duration> {
        let duration = parse_duration(&self.get(key).text).filter(|span| !span.is_zero());
        duration.ok_or_else(|| self.refuse(key, "a duration above zero: \"30s\" or \"1 m\""))
    }

    /// Returns the value of a key as a limit on a size or an age; `None` for "unlimited".
    fn bound<T>(&self, key: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
        let text = match parse_bound(&self.get(key).text, &parse) {
            Some(Bound::Default) => keys::default(key).to_owned(),
            _ => self.get(key).text,
        };
        match parse_bound(&text, parse) {
            Some(Bound::At(bound)) => Ok(Some(bound)),
            Some(Bound::Unlimited | Bound::Default) => Ok(None),
            None => {
                Err(self.refuse(key, "\"unlimited\", or a value such as \"10 GiB\" or \"7 days\""))
            }
        }
    }

    fn address(&self, key: &str) -> Result<SocketAddr> {
        let text = self.get(key).text;
        let text = text.trim();
        if let Ok(address) = text.parse() {
            return Ok(address);
        }
        let resolved = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
        resolved.ok_or_else(|| self.refuse(key, "HOST:PORT, such as \"127.0.0.1:8090\""))
    }
}
