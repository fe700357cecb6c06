//! The tables of the configuration keys that are accepted without effect, and of those that are
//! rejected. Looks up all keys, also those with an effect, which [`table`] declares.

use super::table::{self, Key};

/// A section or key of Iggy's configuration that is accepted without effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ignored {
    /// The path of the key or section. If it is a section, everything below it is accepted as well.
    pub(super) path: &'static str,
    /// The reason why the key has no effect, as shown to users.
    pub(super) reason: &'static str,
}

/// A key of earlier versions of Iggy's server that is rejected, because its setting was relocated
/// or removed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Relocated {
    /// The path of the key or section. If it is a section, everything below it is rejected as well.
    pub(super) path: &'static str,
    /// The topic option that has replaced this key or section; empty if the setting was removed.
    pub(super) to: &'static str,
}

const fn ignored(path: &'static str, reason: &'static str) -> Ignored {
    Ignored { path, reason }
}

const fn relocated(path: &'static str, to: &'static str) -> Relocated {
    Relocated { path, to }
}

const ONE_NODE: &str = "this server is one node, without consensus";
const SHARDS: &str = "connections share one runtime";
const PATHS: &str = "directories below system.path have fixed names";
const JWT: &str = "HTTP serves metrics and health only, without a login";

/// Sections and keys of Iggy's configuration that are accepted but have no effect.
pub(super) const IGNORED: &[Ignored] = &[
    ignored("quic", "clients connect by TCP only"),
    ignored("websocket", "clients connect by TCP only"),
    ignored("cluster", ONE_NODE),
    ignored("metadata", ONE_NODE),
    ignored("partition", ONE_NODE),
    ignored("telemetry", "logs go to files, metrics are at http.metrics.endpoint"),
    ignored("http.cors", JWT),
    ignored("http.jwt", JWT),
    ignored("http.max_request_size", JWT),
    ignored("http.web_ui", JWT),
    ignored(
        "data_maintenance.messages.interval",
        "expired segments are removed as soon as possible",
    ),
    ignored("personal_access_token.cleaner", "an expired token is removed within seconds"),
    ignored("message_bus.max_batch", SHARDS),
    ignored("message_bus.peer_queue_capacity", SHARDS),
    ignored("message_bus.reconnect_period", ONE_NODE),
    ignored("message_bus.close_peer_timeout", SHARDS),
    ignored("message_bus.close_grace", "limits.stall_timeout bounds it"),
    ignored("message_bus.handshake_grace", "limits.unauthenticated_timeout bounds it"),
    ignored("system.sharding", SHARDS),
    ignored("system.memory_pool", "[system.memory] bounds memory"),
    ignored("system.encryption", "stored messages are not encrypted"),
    ignored("system.recovery.recreate_missing_state", "recovery never invents state"),
    ignored("system.stream", PATHS),
    ignored("system.topic", PATHS),
    ignored("system.partition", PATHS),
    ignored("system.segment.archive_expired", "expired segments are removed"),
    ignored("system.logging.rotation_check_interval", "sizes are checked at every write"),
];

/// Keys that turn an unsupported feature on, each with the reason why it is unsupported. The value
/// `true` is rejected, because the server would otherwise run without a feature that the user
/// requested.
pub(super) const REFUSED: &[(&str, &str)] = &[
    ("cluster.enabled", "this server is one node and cannot replicate"),
    ("system.encryption.enabled", "stored messages cannot be encrypted"),
    ("system.segment.archive_expired", "expired segments cannot be archived"),
    ("system.recovery.recreate_missing_state", "missing state cannot be recreated"),
];

/// Keys of earlier versions of Iggy's server. Iggy replaced them by options of topics, or removed
/// them.
pub(super) const RELOCATED: &[Relocated] = &[
    relocated("system.topic.max_size", "max_topic_size"),
    relocated("system.topic.message_expiry", "message_expiry"),
    relocated("system.partition.enforce_fsync", "durability"),
    relocated("system.partition.messages_required_to_save", "messages_required_to_save"),
    relocated(
        "system.partition.size_of_messages_required_to_save",
        "size_of_messages_required_to_save",
    ),
    relocated("system.segment.size", "segment_size"),
    relocated("system.segment.preallocate", ""),
    relocated("system.message_deduplication", ""),
    relocated("extra", ""),
];

impl Relocated {
    /// Returns a message for users. It names the topic option that replaces the key, or says that
    /// the key was removed.
    pub(super) fn message(self) -> String {
        match self.to {
            "" => "no longer exists: the feature that it configured was removed".to_owned(),
            option => format!(
                "no longer exists: it is the option '{option}' of a topic, whose default is \
                 topic_defaults.{option}"
            ),
        }
    }
}

/// Environment variables that begin with `IGGY_`, but are not configuration keys of the server.
pub(super) const OTHER_VARIABLES: &[&str] = &[
    "IGGY_CONFIG_PATH",
    "IGGY_ROOT_USERNAME",
    "IGGY_ROOT_PASSWORD",
    // This variable is used by `tailwater log import`.
    "IGGY_PASSWORD",
    "IGGY_CI_BUILD",
    "IGGY_SHARD_RUNTIME_CAPACITY",
];

/// Prefixes of environment variables that belong to other programs of Iggy.
pub(super) const OTHER_PREFIXES: &[&str] = &["IGGY_CONNECTORS_", "IGGY_MCP_", "IGGY_TEST_"];

/// Returns the environment variable of a key.
pub(super) fn variable(path: &str) -> String {
    format!("IGGY_{}", path.replace('.', "_").to_uppercase())
}

/// Returns whether `path` is the section `section`, or a key or section in it.
pub(super) fn is_within(path: &str, section: &str) -> bool {
    path.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the key with this path, if it has an effect.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    table::keys().find(|key| key.path == path)
}

/// Returns the text of a key's default.
pub(super) fn default(path: &str) -> &'static str {
    find(path).map_or("", |key| key.default)
}

/// Returns the section or key without effect whose path is `path` or a parent of `path`.
pub(super) fn find_ignored(path: &str) -> Option<&'static Ignored> {
    IGNORED.iter().find(|ignored| is_within(path, ignored.path))
}

/// Returns the entry of `RELOCATED` that rejects `path`: its key or section is `path` itself, or a
/// section that contains `path`.
pub(super) fn find_relocated(path: &str) -> Option<Relocated> {
    RELOCATED.iter().copied().find(|relocated| is_within(path, relocated.path))
}

/// Returns whether there are keys below a path.
pub(super) fn is_section(path: &str) -> bool {
    let mut paths = all_paths().chain(RELOCATED.iter().map(|relocated| relocated.path));
    paths.any(|known| known != path && is_within(known, path))
}

/// Returns the paths of the keys that have an effect, and the paths of the sections and keys that
/// have none.
pub(super) fn all_paths() -> impl Iterator<Item = &'static str> {
    table::keys().map(|key| key.path).chain(IGNORED.iter().map(|ignored| ignored.path))
}

/// Returns the name in `known` with the smallest edit distance from `name`. Of several such names,
/// returns the first one.
pub(super) fn nearest(name: &str, known: impl Iterator<Item = String>) -> Option<String> {
    known.min_by_key(|candidate| distance(name, candidate))
}

/// Returns the edit distance of two names: the minimum number of characters to insert, delete or
/// replace.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}
