//! Errors from starting and stopping a server.

use std::fmt;
use std::net::SocketAddr;

/// The reason why a server failed to start or shut down.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// The log cannot be opened or closed.
    Log(tailwater_log::Error),
    /// The server's data directory contains Apache Iggy's data, which is never modified.
    ForeignData(String),
    /// The server cannot listen on an address.
    Listen {
        /// The configuration key whose value is the address.
        key: &'static str,
        /// The address on which the server cannot listen.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A certificate or key is unusable.
    Tls(String),
    /// The server cannot create its data directory.
    Directory(String),
    /// The limit on open files is too low.
    Descriptors(String),
    /// The server cannot write to its data directory.
    Storage(tailwater_io::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(error) => error.fmt(f),
            Self::ForeignData(message)
            | Self::Tls(message)
            | Self::Directory(message)
            | Self::Descriptors(message) => f.write_str(message),
            Self::Listen { key, address, source } => {
                write!(f, "{key}: cannot listen on {address}: {source}")
            }
            Self::Storage(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Log(error) => Some(error),
            Self::Listen { source, .. } => Some(source),
            Self::Storage(error) => Some(error),
            Self::ForeignData(_) | Self::Tls(_) | Self::Directory(_) | Self::Descriptors(_) => None,
        }
    }
}

impl From<tailwater_log::Error> for ServerError {
    fn from(error: tailwater_log::Error) -> Self {
        Self::Log(error)
    }
}

impl From<tailwater_io::Error> for ServerError {
    fn from(error: tailwater_io::Error) -> Self {
        Self::Storage(error)
    }
}
