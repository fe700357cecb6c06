//! Builds the configuration from the values of all keys. Checks values that depend on several keys,
//! or on the environment.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use tailwater_log::Durability;

use super::kinds::{Address, Filled, Interval, Kind, Number, Switch};
use super::sources::Values;
use super::{
    Config, ConfigError, ConfigSource, Flags, Http, Limits, Logging, Memory, NAME_BYTES,
    PASSWORD_BYTES, Result, Root, Segment, Tcp, Tls, TopicDefaults, log_filter,
};

/// Allowed segment sizes in bytes, as in Iggy.
const SEGMENT_BYTES: RangeInclusive<u64> = (1 << 20)..=(1 << 30);
const SEGMENT_UNIT: u64 = 512;
/// Largest allowed value of the maximum frame size, in bytes. The length field of a frame is a
/// `u32`.
const FRAME_BYTES_MAX: u64 = u32::MAX as u64;

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
    let path = values.read("system.path", Filled)?;
    let heartbeat = values.read("heartbeat.interval", Interval)?;
    let tokens = Number(0..=u32::MAX);
    let config = Config {
        path,
        runtime_path: values.read("system.runtime.path", Filled)?,
        tcp: tcp(values, warnings)?,
        http: http(values)?,
        root: root(flags, environment, warnings)?,
        heartbeat_interval: values.read("heartbeat.enabled", Switch)?.then_some(heartbeat),
        tokens_per_user_max: values.read("personal_access_token.max_tokens_per_user", tokens)?,
        rebalancing_timeout: values.read("consumer_group.rebalancing_timeout", Interval)?,
        topics: topics(values)?,
        segment: Segment::read(values)?,
        memory: Memory::read(values)?,
        limits: limits(values)?,
        is_retention_on: values.read("data_maintenance.messages.cleaner_enabled", Switch)?,
        logging: logging(values, environment, warnings)?,
    };
    warn_of_exposure(&config, warnings);
    warn_of_io_uring(environment, warnings);
    Ok(config)
}

fn tcp(values: &Values, warnings: &mut Vec<String>) -> Result<Option<Tcp>> {
    let address = values.read("tcp.address", Address)?;
    let is_self_signed = values.read("tcp.tls.self_signed", Switch)?;
    // A configured certificate takes precedence over a generated one. If it cannot be used, the
    // server does not start: clients that trust the configured certificate would refuse another.
    let is_given = |key| !values.get(key).text.trim().is_empty();
    let has_files = is_given("tcp.tls.cert_file") || is_given("tcp.tls.key_file");
    let tls = match values.read("tcp.tls.enabled", Switch)? {
        true if is_self_signed && !has_files => Some(Tls::SelfSigned),
        true => Some(certificate(values, "tcp.tls")?),
        false => None,
    };
    let is_enabled = values.read("tcp.enabled", Switch)?;
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
    let address = values.read("http.address", Address)?;
    let endpoint: String = values.read("http.metrics.endpoint", Filled)?;
    if !endpoint.starts_with('/') || endpoint == "/ping" || endpoint == "/health" {
        let want = "a path that begins with '/', other than /ping and /health";
        return Err(values.get("http.metrics.endpoint").refuse(want));
    }
    let tls = if values.read("http.tls.enabled", Switch)? {
        Some(certificate(values, "http.tls")?)
    } else {
        None
    };
    let metrics_path = values.read("http.metrics.enabled", Switch)?.then_some(endpoint);
    Ok(values.read("http.enabled", Switch)?.then_some(Http { address, metrics_path, tls }))
}

fn certificate(values: &Values, section: &str) -> Result<Tls> {
    let file = |name: &str| values.read(&format!("{section}.{name}"), Filled);
    Ok(Tls::Files { certificate: file("cert_file")?, key: file("key_file")? })
}

fn topics(values: &Values) -> Result<TopicDefaults> {
    let mut topics = TopicDefaults::read(values)?;
    if !is_segment_size(topics.segment_bytes) {
        let want = "1 MiB to 1 GiB, in multiples of 512 bytes";
        return Err(values.get("topic_defaults.segment_size").refuse(want));
    }
    if topics.topic_bytes_max.is_some_and(|bytes| bytes < topics.segment_bytes) {
        let want = "at least topic_defaults.segment_size, or unlimited";
        return Err(values.get("topic_defaults.max_topic_size").refuse(want));
    }
    if topics.size_of_messages_required_to_save > 1 << 30 {
        let save_bytes = values.get("topic_defaults.size_of_messages_required_to_save");
        return Err(save_bytes.refuse("at most 1 GiB"));
    }
    topics.durability = durability(values, topics.durability)?;
    Ok(topics)
}

/// Returns the durability that results from the key `durability`, whose value is given, and from
/// its alias.
fn durability(values: &Values, durability: Durability) -> Result<Durability> {
    let key = values.get("topic_defaults.durability");
    let alias = values.get("topic_defaults.enforce_fsync");
    let is_enforced = Switch.read(&alias)?;
    let (rank, alias_rank) = (key.source.rank(), alias.source.rank());
    match (is_enforced, durability) {
        // If `durability` and `enforce_fsync` come from different sources, the source with the
        // higher precedence applies.
        _ if rank > alias_rank => Ok(durability),
        (false, Durability::Disk) if rank < alias_rank => Ok(Durability::default()),
        (true, other) if rank == alias_rank && other != Durability::Disk => {
            let (path, name) = (&key.path, other.name());
            Err(alias.error(format!("true, which is 'disk', but {path} is '{name}'")))
        }
        (true, _) => Ok(Durability::Disk),
        (false, durability) => Ok(durability),
    }
}

fn limits(values: &Values) -> Result<Limits> {
    let limits = Limits::read(values)?;
    if limits.frame_bytes_max as u64 > FRAME_BYTES_MAX {
        return Err(values.get("message_bus.max_message_size").refuse("at most 4 GiB"));
    }
    // The memory for all connections must suffice for the largest request that a connection may
    // send.
    if limits.in_flight_bytes_max < limits.frame_bytes_max.min(limits.connection_bytes_max) {
        let want = "at least message_bus.max_message_size or limits.connection_bytes_max";
        return Err(values.get("limits.in_flight_bytes_max").refuse(want));
    }
    Ok(limits)
}

/// Returns the section of the server's own log lines. Their level is the variable `RUST_LOG` or, if
/// that is not set or invalid, the configured one.
fn logging(
    values: &Values,
    environment: &BTreeMap<String, String>,
    warnings: &mut Vec<String>,
) -> Result<Logging> {
    const VARIABLE: &str = "RUST_LOG";
    let expected = log_filter::EXPECTED;
    let mut logging = Logging::read(values)?;
    if !log_filter::is_valid(&logging.level) {
        return Err(values.get("system.logging.level").refuse(expected));
    }
    match environment.get(VARIABLE).filter(|filter| !filter.trim().is_empty()) {
        None => {}
        Some(filter) if log_filter::is_valid(filter) => logging.level.clone_from(filter),
        Some(filter) => warnings.push(format!(
            "{VARIABLE} '{filter}' is invalid and has no effect: expected {expected}"
        )),
    }
    Ok(logging)
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
