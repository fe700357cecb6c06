//! `current_config.toml`: the configuration of a running server. It is for the server's users, and
//! for programs that need the server's ports.
//!
//! The file can be loaded as a configuration. It contains no credentials, because no key of the
//! configuration has credentials as its value.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tailwater_io::{Create, Error, IoMode, Operation, Purpose, Storage};
use tailwater_log::Durability;
use toml::{Table, Value};

use super::units::{format_duration, format_size};
use super::{Config, Http, Tcp, Tls};

/// Name of the file with the configuration of the running server.
const NAME: &str = "current_config.toml";
/// Name of the file `current_config.toml` while it is being written.
const TEMPORARY_NAME: &str = "current_config.toml.tmp";
/// Address to write for a transport that is turned off.
const OFF: &str = "127.0.0.1:0";

/// Checks that the file `current_config.toml`, if it exists, is that of an earlier server on the
/// same `system.path`. In a directory outside `system.path`, it may belong to another server.
///
/// # Errors
/// If the file belongs to another server or program; I/O errors.
pub(crate) fn check_current(storage: &dyn Storage, config: &Config) -> tailwater_io::Result<()> {
    let directory = config.path.join(&config.runtime_path);
    if directory.starts_with(&config.path) {
        return Ok(());
    }
    let path = directory.join(NAME);
    let file = match storage.open(&path, IoMode::Buffered, Purpose::Metadata) {
        Err(error) if error.is_not_found() => return Ok(()),
        file => file?,
    };
    let mut bytes = vec![0; file.length()? as usize];
    let count = file.read_full_at(&mut bytes, 0, Purpose::Metadata)?;
    bytes.truncate(count);
    let text = String::from_utf8_lossy(&bytes);
    let document: Option<Table> = text.parse().ok();
    let owner = document.as_ref().and_then(|table| table.get("system")?.get("path")?.as_str());
    if owner == Some(&*config.path.to_string_lossy()) {
        return Ok(());
    }
    let owner = owner.map_or_else(String::new, |owner| format!(", with system.path {owner}"));
    let message = format!(
        "it belongs to another server{owner}: set system.runtime.path to another directory"
    );
    Err(Error::new(Operation::Create, &path, std::io::Error::other(message)))
}

/// Writes the configuration of the running server to the file `current_config.toml`. `tcp` and
/// `http` are the addresses on which the server actually listens; the file contains them instead of
/// the configured addresses.
///
/// # Errors
/// I/O errors.
pub(crate) fn write_current(
    storage: &dyn Storage,
    config: &Config,
    tcp: Option<SocketAddr>,
    http: Option<SocketAddr>,
) -> tailwater_io::Result<()> {
    let directory = config.path.join(&config.runtime_path);
    storage.create_directory(&directory)?;
    let temporary = directory.join(TEMPORARY_NAME);
    write(storage, &temporary, render(config, tcp, http).as_bytes())?;
    // A crash before the rename leaves the old file, or none. Readers never see an incomplete file.
    storage.rename(&temporary, &directory.join(NAME))?;
    storage.sync_directory(&directory)
}

/// Removes the file `current_config.toml`, if it exists.
///
/// # Errors
/// I/O errors.
pub(crate) fn remove_current(storage: &dyn Storage, config: &Config) -> tailwater_io::Result<()> {
    let directory = config.path.join(&config.runtime_path);
    match storage.remove(&directory.join(NAME)) {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

fn write(storage: &dyn Storage, path: &Path, bytes: &[u8]) -> tailwater_io::Result<()> {
    let purpose = Purpose::Metadata;
    let mut file = storage.create(path, Create::Truncate, IoMode::Buffered, purpose)?;
    file.write_all_at(bytes, 0, purpose)?;
    file.sync_all(purpose)
}

/// Returns the text to write to the file `current_config.toml`.
pub(super) fn render(config: &Config, tcp: Option<SocketAddr>, http: Option<SocketAddr>) -> String {
    let mut root = Table::new();
    for (path, value) in values(config, tcp, http) {
        set(&mut root, path, value);
    }
    root.to_string()
}

fn set(table: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            table.insert(path.to_owned(), value);
        }
        Some((name, rest)) => {
            let below = table.entry(name).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(below) = below {
                set(below, rest, value);
            }
        }
    }
}

/// Returns the values of all keys that have an effect. Also returns the keys of unsupported
/// transports, with values that turn these transports off.
pub(super) fn values(
    config: &Config,
    tcp: Option<SocketAddr>,
    http: Option<SocketAddr>,
) -> Vec<(&'static str, Value)> {
    let mut values = system(config);
    values.extend(topic_defaults(config));
    values.extend(transports(config, tcp, http));
    values.extend(limits(config));
    values
}

fn system(config: &Config) -> Vec<(&'static str, Value)> {
    let Config { logging, segment, memory, .. } = config;
    vec![
        ("system.path", text(config.path.to_string_lossy())),
        ("system.runtime.path", text(config.runtime_path.to_string_lossy())),
        ("system.logging.path", text(logging.path.to_string_lossy())),
        ("system.logging.level", text(&*logging.level)),
        ("system.logging.format", text(if logging.is_json { "json" } else { "text" })),
        ("system.logging.file_enabled", logging.has_file.into()),
        ("system.logging.max_file_size", bound(logging.file_bytes_max.map(format_size))),
        ("system.logging.max_total_size", bound(logging.total_bytes_max.map(format_size))),
        ("system.logging.retention", bound(logging.retention.map(format_duration))),
        ("system.segment.append_io_mode", text(segment.append_io_mode.name())),
        ("system.segment.read_io_mode", text(segment.read_io_mode.name())),
        ("system.segment.syncs_appends", segment.syncs_appends.into()),
        ("system.segment.shared_memory", segment.has_shared_memory.into()),
        ("system.segment.persisters", number(segment.persisters)),
        ("system.memory.tail_bytes_max", size(memory.tail_bytes_max)),
        (
            "system.memory.partition_unpersisted_bytes_max",
            text(format_size(memory.partition_unpersisted_bytes_max)),
        ),
        ("system.memory.read_ahead_bytes_max", size(memory.read_ahead_bytes_max)),
    ]
}

fn topic_defaults(config: &Config) -> Vec<(&'static str, Value)> {
    let topics = &config.topics;
    let offsets = if topics.are_offsets_durable { Durability::Disk } else { Durability::Process };
    vec![
        ("topic_defaults.durability", text(topics.durability.name())),
        ("topic_defaults.enforce_fsync", (topics.durability == Durability::Disk).into()),
        ("topic_defaults.consumer_offset_durability", text(offsets.name())),
        (
            "topic_defaults.messages_required_to_save",
            i64::from(topics.messages_required_to_save).into(),
        ),
        (
            "topic_defaults.size_of_messages_required_to_save",
            text(format_size(topics.size_of_messages_required_to_save)),
        ),
        ("topic_defaults.save_interval", duration(topics.save_interval)),
        ("topic_defaults.segment_size", text(format_size(topics.segment_bytes))),
        ("topic_defaults.message_expiry", bound(topics.message_expiry.map(format_duration))),
        ("topic_defaults.max_topic_size", bound(topics.topic_bytes_max.map(format_size))),
        ("topic_defaults.partial_blocks", text(topics.partial_blocks.name())),
    ]
}

fn transports(
    config: &Config,
    tcp: Option<SocketAddr>,
    http: Option<SocketAddr>,
) -> Vec<(&'static str, Value)> {
    let address = |configured: Option<SocketAddr>, bound: Option<SocketAddr>| {
        let address = bound.or(configured).map(|address| address.to_string());
        text(address.unwrap_or_else(|| OFF.to_owned()))
    };
    let Config { tcp: clients, http: metrics, .. } = config;
    let path = metrics.as_ref().and_then(|http| http.metrics_path.clone());
    let tcp_address = address(clients.as_ref().map(|tcp: &Tcp| tcp.address), tcp);
    let http_address = address(metrics.as_ref().map(|http: &Http| http.address), http);
    let tcp_tls = clients.as_ref().and_then(|tcp| tcp.tls.as_ref());
    let http_tls = metrics.as_ref().and_then(|http| http.tls.as_ref());
    let [tcp_certificate, tcp_key] = files(tcp_tls);
    let [http_certificate, http_key] = files(http_tls);
    vec![
        ("tcp.enabled", clients.is_some().into()),
        ("tcp.address", tcp_address),
        ("tcp.tls.enabled", tcp_tls.is_some().into()),
        ("tcp.tls.self_signed", (tcp_tls == Some(&Tls::SelfSigned)).into()),
        ("tcp.tls.cert_file", tcp_certificate),
        ("tcp.tls.key_file", tcp_key),
        ("http.enabled", metrics.is_some().into()),
        ("http.address", http_address),
        ("http.metrics.enabled", path.is_some().into()),
        ("http.metrics.endpoint", text(path.unwrap_or_else(|| "/metrics".to_owned()))),
        ("http.tls.enabled", http_tls.is_some().into()),
        ("http.tls.cert_file", http_certificate),
        ("http.tls.key_file", http_key),
        ("quic.enabled", false.into()),
        ("quic.address", text(OFF)),
        ("websocket.enabled", false.into()),
        ("websocket.address", text(OFF)),
    ]
}

fn limits(config: &Config) -> Vec<(&'static str, Value)> {
    let limits = &config.limits;
    let interval = config.heartbeat_interval;
    vec![
        ("heartbeat.enabled", interval.is_some().into()),
        ("heartbeat.interval", duration(interval.unwrap_or(Duration::from_secs(30)))),
        ("personal_access_token.max_tokens_per_user", i64::from(config.tokens_per_user_max).into()),
        ("consumer_group.rebalancing_timeout", duration(config.rebalancing_timeout)),
        ("data_maintenance.messages.cleaner_enabled", config.is_retention_on.into()),
        ("message_bus.max_message_size", size(limits.frame_bytes_max)),
        ("limits.connections_max", number(limits.connections_max)),
        ("limits.unauthenticated_timeout", duration(limits.unauthenticated_timeout)),
        ("limits.stall_timeout", duration(limits.stall_timeout)),
        ("limits.connection_bytes_max", size(limits.connection_bytes_max)),
        ("limits.poll_bytes_max", size(limits.poll_bytes_max)),
        ("limits.in_flight_bytes_max", size(limits.in_flight_bytes_max)),
        ("limits.streams_max", number(limits.streams_max)),
        ("limits.topics_max", number(limits.topics_max)),
        ("limits.partitions_max", number(limits.partitions_max)),
        ("limits.groups_max", number(limits.groups_max)),
        ("limits.consumers_max", number(limits.consumers_max)),
        ("limits.failed_logins_max", i64::from(limits.failed_logins_max).into()),
        ("limits.password_hashers", number(limits.password_hashers)),
    ]
}

fn text(text: impl Into<String>) -> Value {
    Value::String(text.into())
}

fn number(number: usize) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn size(bytes: usize) -> Value {
    text(format_size(bytes as u64))
}

fn duration(duration: Duration) -> Value {
    text(format_duration(duration))
}

fn bound(bound: Option<String>) -> Value {
    text(bound.unwrap_or_else(|| "unlimited".to_owned()))
}

/// Returns the paths of a certificate's file and its key's file; empty texts if there are none.
fn files(tls: Option<&Tls>) -> [Value; 2] {
    match tls {
        Some(Tls::Files { certificate, key }) => {
            [text(certificate.to_string_lossy()), text(key.to_string_lossy())]
        }
        Some(Tls::SelfSigned) | None => [text(""), text("")],
    }
}
