//! `current_config.toml`: the configuration of a running server. It is for the server's users, and
//! for programs that need the server's ports.
//!
//! The file can be loaded as a configuration. It contains no credentials, because no key of the
//! configuration has credentials as its value.

use std::net::SocketAddr;
use std::path::Path;

use tailwater_io::{Create, Error, IoMode, Operation, Purpose, Storage};
use toml::{Table, Value};

use super::Config;
use super::table::{self, OFF};

/// Name of the file with the configuration of the running server.
const NAME: &str = "current_config.toml";
/// Name of the file `current_config.toml` while it is being written.
const TEMPORARY_NAME: &str = "current_config.toml.tmp";

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
    let Some(bytes) = storage.read_if_exists(&path, u64::MAX, Purpose::Metadata)? else {
        return Ok(());
    };
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
    let mut config = config.clone();
    if let (Some(clients), Some(address)) = (&mut config.tcp, tcp) {
        clients.address = address;
    }
    if let (Some(metrics), Some(address)) = (&mut config.http, http) {
        metrics.address = address;
    }
    let mut values: Vec<_> = table::keys().map(|key| (key.path, (key.show)(&config))).collect();
    values.extend([
        ("quic.enabled", Value::from(false)),
        ("quic.address", Value::from(OFF)),
        ("websocket.enabled", Value::from(false)),
        ("websocket.address", Value::from(OFF)),
    ]);
    values
}
