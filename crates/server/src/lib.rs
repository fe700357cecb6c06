//! A message log server for unmodified Apache Iggy clients.
//!
//! The server implements Iggy's binary protocol 0.11 over TCP, on one node, and stores messages in
//! [`tailwater_log`]. Networking runs on a tokio runtime; the log's own threads write segments.
//!
//! # Layers
//!
//! | module | responsibility |
//! |---|---|
//! | `server` | starting, listening, shutting down |
//! | `listener` | accepting connections |
//! | `places` | the bound on the number of connections |
//! | `connection` | one client's connection: frames in, replies out, limits |
//! | `in_flight` | the bound on the memory of requests and replies |
//! | `descriptors` | the division of file descriptors between connections and the log |
//! | `protocol` | encoding of frames; bodies are encoded by `iggy_binary_protocol` |
//! | `command` | one handler per command |
//! | `session` | connected and logged-in clients, and their recent requests |
//! | `users` | users, permissions, tokens, passwords |
//! | `groups` | consumer groups: members, assignments, rebalancing |
//! | `config` | the configuration file, environment and flags |
//! | `http` | metrics and health |
//! | [`import`] | filling a log from a running server |
//!
//! `state` holds the state that all handlers share. Streams, topics and partitions belong to the
//! log. Users, tokens and groups are records in the log's catalog, so that one journal orders all
//! changes of metadata.

mod balancer;
mod command;
mod config;
mod connection;
mod consumers;
mod descriptors;
mod error;
mod groups;
mod host;
mod http;
pub mod import;
mod in_flight;
mod listener;
mod metrics;
mod places;
mod prometheus;
mod protocol;
mod server;
mod session;
mod state;
mod status;
mod tls;
mod users;

pub use config::{
    Config, ConfigError, ConfigSource, Flags, Http, Limits, Logging, Memory, Root, Segment, Tcp,
    Tls, TopicDefaults,
};
pub use descriptors::DescriptorShares;
pub use error::ServerError;
pub use server::{Addresses, Server, Shutdown};
