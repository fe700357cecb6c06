//! The commands of the protocol: one handler each.
//!
//! A handler receives the body of a request and returns the body of the reply, or a status.
//! Commands that need only memory run in the connection's task. Commands that wait for a disk or
//! hash a password run on a thread that may block. Every handler checks the user's permission
//! itself, after it has looked up the object that the request names.

pub(crate) mod before_body;
mod groups;
mod login;
mod messages;
mod offsets;
mod options;
mod partitions;
mod poll;
pub(crate) mod resolve;
mod streams;
mod system;
#[cfg(test)]
mod tests;
mod tokens;
mod topics;
mod users;

use std::sync::Arc;

use bytes::Bytes;
use iggy_binary_protocol::codes;
use tailwater_log::Error;

pub(crate) use login::login;
pub(crate) use options::{apply_config, imported_options};
pub(crate) use poll::{PollReply, Release, Unread};

use crate::in_flight::Reservation;
use crate::protocol::Head;
use crate::session::{Binding, Session};
use crate::state::State;
use crate::status::Status;

/// A request of a logged-in client.
pub(crate) struct Request<'a> {
    /// The client's session.
    pub(crate) session: &'a Arc<Session>,
    /// Id of the user.
    pub(crate) user: u32,
    /// The body, without the header.
    pub(crate) body: &'a [u8],
    /// The memory reserved for the body. `None` if the body is too small to be counted, or if the
    /// handler does not use the reservation.
    pub(crate) reservation: Option<&'a Reservation>,
}

/// The outcome of a command: the body of the reply, or the status of an error. Some replies have a
/// result section before the body. The outcome does not contain that section.
pub(crate) type Outcome = Result<Vec<u8>, Status>;

/// The body of a reply and the memory reserved for it. Some replies have a result section before
/// the body. This type does not contain that section.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) content: Content,
    /// The memory reserved for the reply; `None` if the reply is too small to count towards the
    /// limit on the memory of replies.
    pub(crate) reservation: Option<Reservation>,
}

/// The bytes of a reply's body.
#[derive(Debug)]
pub(crate) enum Content {
    /// The body as encoded bytes.
    Bytes(Vec<u8>),
    /// The body of a reply to a poll: a header, followed by batches. The batches are not copied;
    /// usually they are slices of the log's memory for recent messages (the tail).
    Polled {
        /// The partition's id, the offset of its last message, and the number of polled messages,
        /// encoded.
        header: [u8; POLL_HEADER_BYTES],
        /// The batches. They follow the header in the reply.
        reply: Box<PollReply>,
    },
}

/// Length of the header that precedes a poll's batches in the reply, in bytes.
pub(crate) const POLL_HEADER_BYTES: usize = 16;

impl Default for Content {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self { content: Content::Bytes(bytes), reservation: None }
    }
}

impl Body {
    /// Returns the bytes of the body, which the session remembers in case the client repeats the
    /// request. Returns no bytes for a poll, because replies to polls are never remembered.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Bytes(bytes) => bytes,
            Content::Polled { .. } => &[],
        }
    }
}

impl Content {
    /// Returns the body's length, in bytes.
    pub(crate) fn length(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Polled { header, reply } => header.len() + reply.length(),
        }
    }
}

/// Name and version of this server, as reported to clients.
const VERSION: &str = concat!("tailwater-", env!("CARGO_PKG_VERSION"));
/// Memory reserved for a potentially large reply before the reply is built, in bytes.
const BULKY_BYTES: usize = 1 << 20;

/// A handler of requests.
type Handler = fn(&State, &Request<'_>) -> Outcome;

/// The way in which a command is executed.
enum Command {
    /// Executed in the connection's task, because it needs only memory.
    Quick(Handler),
    /// Executed on a thread that may block.
    Blocking(Handler),
    /// Appends messages.
    Send,
    /// Reads messages.
    Poll,
    /// Persists messages.
    Flush,
    /// Checks a password and hashes a new one.
    ChangePassword,
    /// Stores a consumer's offset.
    StoreOffset,
    /// Deletes a consumer's offset.
    DeleteOffset,
    /// A command for clusters, which this server refuses.
    Cluster,
}

/// Returns the way in which a command is executed; `None` for an unknown code.
fn command(code: u32) -> Option<Command> {
    use Command::{Blocking, Quick};

    Some(match code {
        codes::GET_STATS_CODE => Blocking(system::get_stats),
        codes::GET_SNAPSHOT_FILE_CODE => Blocking(system::get_snapshot),
        codes::GET_CLUSTER_METADATA_CODE => Quick(system::get_cluster_metadata),
        codes::DESCRIBE_OPTIONS_CODE => Quick(options::describe),
        codes::GET_ME_CODE => Quick(system::get_me),
        codes::GET_CLIENT_CODE => Quick(system::get_client),
        codes::GET_CLIENTS_CODE => Quick(system::get_clients),
        codes::GET_USER_CODE => Quick(users::get_user),
        codes::GET_USERS_CODE => Quick(users::get_users),
        codes::CREATE_USER_CODE => Blocking(users::create_user),
        codes::DELETE_USER_CODE => Blocking(users::delete_user),
        codes::UPDATE_USER_CODE => Blocking(users::update_user),
        codes::UPDATE_PERMISSIONS_CODE => Blocking(users::update_permissions),
        codes::CHANGE_PASSWORD_CODE => Command::ChangePassword,
        codes::GET_PERSONAL_ACCESS_TOKENS_CODE => Quick(tokens::get_tokens),
        codes::CREATE_PERSONAL_ACCESS_TOKEN_CODE => Blocking(tokens::create_token),
        codes::DELETE_PERSONAL_ACCESS_TOKEN_CODE => Blocking(tokens::delete_token),
        codes::POLL_MESSAGES_CODE => Command::Poll,
        codes::SEND_MESSAGES_CODE => Command::Send,
        codes::FLUSH_UNSAVED_BUFFER_CODE => Command::Flush,
        codes::GET_CONSUMER_OFFSET_CODE => Quick(offsets::get),
        codes::STORE_CONSUMER_OFFSET_CODE => Command::StoreOffset,
        codes::DELETE_CONSUMER_OFFSET_CODE => Command::DeleteOffset,
        codes::GET_STREAM_CODE => Quick(streams::get_stream),
        codes::GET_STREAMS_CODE => Quick(streams::get_streams),
        codes::CREATE_STREAM_CODE => Blocking(streams::create_stream),
        codes::DELETE_STREAM_CODE => Blocking(streams::delete_stream),
        codes::UPDATE_STREAM_CODE => Blocking(streams::update_stream),
        codes::PURGE_STREAM_CODE => Blocking(streams::purge_stream),
        codes::GET_TOPIC_CODE => Quick(topics::get_topic),
        codes::GET_TOPICS_CODE => Quick(topics::get_topics),
        codes::CREATE_TOPIC_CODE => Blocking(topics::create_topic),
        codes::DELETE_TOPIC_CODE => Blocking(topics::delete_topic),
        codes::UPDATE_TOPIC_CODE => Blocking(topics::update_topic),
        codes::PURGE_TOPIC_CODE => Blocking(topics::purge_topic),
        codes::CREATE_PARTITIONS_CODE => Blocking(partitions::create_partitions),
        codes::DELETE_PARTITIONS_CODE => Blocking(partitions::delete_partitions),
        codes::DELETE_SEGMENTS_CODE => Blocking(partitions::delete_segments),
        codes::GET_CONSUMER_GROUP_CODE => Quick(groups::get_group),
        codes::GET_CONSUMER_GROUPS_CODE => Quick(groups::get_groups),
        codes::CREATE_CONSUMER_GROUP_CODE => Blocking(groups::create_group),
        codes::DELETE_CONSUMER_GROUP_CODE => Blocking(groups::delete_group),
        codes::JOIN_CONSUMER_GROUP_CODE => Quick(groups::join_group),
        codes::LEAVE_CONSUMER_GROUP_CODE => Quick(groups::leave_group),
        codes::SYNC_CONSUMER_GROUP_CODE => Quick(groups::sync_group),
        codes::ATTACH_CONSUMER_SESSION_CODE
        | codes::GET_POLL_ROUTING_CODE
        | codes::POLL_MESSAGES_ON_PRIMARY_CODE
        | codes::GET_CONSUMER_OFFSET_ROUTING_CODE => Command::Cluster,
        _ => return None,
    })
}

/// Returns whether replies to a command may be large. Memory for such replies is reserved before
/// they are built. Polls are excluded, because they reserve memory themselves.
fn is_bulky(code: u32) -> bool {
    matches!(
        code,
        codes::GET_SNAPSHOT_FILE_CODE
            | codes::GET_CLIENTS_CODE
            | codes::GET_USERS_CODE
            | codes::GET_STREAM_CODE
            | codes::GET_STREAMS_CODE
            | codes::GET_TOPICS_CODE
    )
}

/// Executes a request of a logged-in client. `reservation` is the memory reserved for the request's
/// body.
///
/// # Errors
/// The status of the reply.
pub(crate) async fn execute(
    state: &Arc<State>,
    session: &Arc<Session>,
    binding: &Binding,
    head: &Head,
    body: Bytes,
    reservation: Option<&Reservation>,
) -> Result<Body, Status> {
    let user = binding.user;
    let request = Request { session, user, body: &body, reservation };
    let reserved = if is_bulky(head.code) {
        let mut reservation = state.in_flight.bulk_reply(BULKY_BYTES);
        reservation.grow(BULKY_BYTES).await;
        Some(reservation)
    } else {
        None
    };
    let done = match command(head.code) {
        None => Err(Status::INVALID_COMMAND),
        Some(Command::Cluster) => Err(Status::FEATURE_UNAVAILABLE),
        Some(Command::Poll) => return poll::poll(state, &request).await,
        Some(Command::Quick(handler)) => handler(state, &request),
        Some(Command::Send) => messages::send(state, &request, body.clone()).await,
        Some(Command::Flush) => messages::flush(state, &request).await,
        Some(Command::StoreOffset) => offsets::store(state, &request).await,
        Some(Command::DeleteOffset) => offsets::delete(state, &request).await,
        Some(Command::ChangePassword) => users::change_password(state, &request).await,
        Some(Command::Blocking(handler)) => {
            let (state, session) = (Arc::clone(state), Arc::clone(session));
            let body = body.clone();
            let done = tokio::task::spawn_blocking(move || {
                handler(
                    &state,
                    &Request { session: &session, user, body: &body, reservation: None },
                )
            });
            done.await.unwrap_or_else(|error| {
                tracing::error!(code = head.code, %error, "a command failed");
                Err(Status::ERROR)
            })
        }
    };
    if head.operation.is_metadata() && done.is_ok() {
        state.changed();
    }
    let bytes = done?;
    let most = state.config.limits.connection_bytes_max;
    if bytes.len() > most {
        tracing::warn!(
            code = head.code,
            bytes = bytes.len(),
            "reply refused: it exceeds limits.connection_bytes_max"
        );
        return Err(Status::INVALID_SIZE_BYTES);
    }
    Ok(Body { reservation: reserved, ..Body::from(bytes) })
}

/// Returns a number in the type that replies use, `u32`. A larger number becomes `u32::MAX`.
fn count(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Returns the status of a change that failed in the storage, and logs the error. The error itself
/// is not sent to clients, because it may contain file names.
fn storage_status(error: &Error) -> Status {
    tracing::warn!(%error, "request failed");
    Status::from(error.clone())
}
