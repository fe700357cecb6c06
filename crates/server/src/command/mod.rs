//! The commands of the protocol: one handler each.
//!
//! A handler takes the request's body and returns the reply's, or a status. What is answered from
//! memory runs on the connection's task; what waits for a disk or hashes a password runs on a
//! thread that may block. Every handler checks the user's permission itself, once it knows what
//! the request is about.

mod groups;
mod login;
mod messages;
mod offsets;
mod options;
mod partitions;
pub(crate) mod resolve;
mod streams;
mod system;
mod tokens;
mod topics;
mod users;

use std::sync::Arc;

use bytes::Bytes;
use iggy_binary_protocol::codes;
use tailwater_log::{Error, ErrorKind, Polled, Ticket};

pub(crate) use login::login;
pub(crate) use messages::Balancer;
pub(crate) use options::apply_config;

use crate::protocol::Head;
use crate::session::{Binding, Session};
use crate::state::State;
use crate::status::Status;

/// A request of a client that is logged in.
pub(crate) struct Request<'a> {
    /// The client's session.
    pub(crate) session: &'a Arc<Session>,
    /// Id of the user.
    pub(crate) user: u32,
    /// The body, without the header.
    pub(crate) body: &'a [u8],
}

/// The body of a reply, without the section of results that some replies begin with.
pub(crate) type Outcome = Result<Vec<u8>, Status>;

/// The body of a reply.
#[derive(Debug)]
pub(crate) enum Body {
    /// Bytes.
    Bytes(Vec<u8>),
    /// A header, and behind it batches where they are: in the log's memory, as a rule.
    Polled {
        /// Partition, current offset, number of messages.
        header: [u8; 16],
        /// The batches.
        polled: Polled,
    },
}

impl Default for Body {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

impl Body {
    /// Returns its length, in bytes.
    pub(crate) fn length(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Polled { header, polled } => header.len() + polled.length(),
        }
    }

    /// Calls `each` with its parts, in their order.
    pub(crate) fn for_each<'a>(&'a self, mut each: impl FnMut(&'a [u8])) {
        match self {
            Self::Bytes(bytes) => each(bytes),
            Self::Polled { header, polled } => {
                each(header);
                polled.pieces.iter().for_each(|piece| each(piece.as_ref()));
            }
        }
    }
}

/// A handler that is called with a request.
type Handler = fn(&State, &Request<'_>) -> Outcome;

/// How a command is executed.
enum Command {
    /// From memory, at once.
    Quick(Handler),
    /// On a thread that may block.
    Blocking(Handler),
    /// Appends messages.
    Send,
    /// Reads messages.
    Poll,
    /// Persists messages.
    Flush,
    /// Stores how far a consumer has come.
    StoreOffset,
    /// Forgets how far a consumer has come.
    DeleteOffset,
    /// Only a cluster can answer it.
    Cluster,
}

/// Returns how a command is executed; none for a code that is no command.
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
        codes::CHANGE_PASSWORD_CODE => Blocking(users::change_password),
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

/// Executes a request of a client that is logged in.
///
/// # Errors
/// The status of the reply.
pub(crate) async fn execute(
    state: &Arc<State>,
    session: &Arc<Session>,
    binding: &Binding,
    head: &Head,
    body: Bytes,
) -> Result<Body, Status> {
    let request = Request { session, user: binding.user, body: &body };
    let done = match command(head.code) {
        None => Err(Status::INVALID_COMMAND),
        Some(Command::Cluster) => Err(Status::FEATURE_UNAVAILABLE),
        Some(Command::Quick(handler)) => handler(state, &request).map(Body::Bytes),
        Some(Command::Send) => messages::send(state, &request).await.map(Body::Bytes),
        Some(Command::Poll) => messages::poll(state, &request).await,
        Some(Command::Flush) => messages::flush(state, &request).await.map(Body::Bytes),
        Some(Command::StoreOffset) => offsets::store(state, &request).await.map(Body::Bytes),
        Some(Command::DeleteOffset) => offsets::delete(state, &request).await.map(Body::Bytes),
        Some(Command::Blocking(handler)) => {
            let (state, session, user) = (Arc::clone(state), Arc::clone(session), binding.user);
            let body = body.clone();
            let done = tokio::task::spawn_blocking(move || {
                handler(&state, &Request { session: &session, user, body: &body })
            });
            done.await.unwrap_or(Err(Status::ERROR)).map(Body::Bytes)
        }
    };
    if head.operation.is_metadata() && done.is_ok() {
        state.changed();
    }
    done
}

/// Waits for a ticket without a thread.
async fn complete(ticket: Ticket) -> Result<(), Error> {
    if ticket.is_complete() {
        return ticket.wait();
    }
    let (sender, receiver) = tokio::sync::oneshot::channel();
    ticket.on_complete(move |outcome| {
        // Who waits for it may be gone.
        let _ = sender.send(outcome);
    });
    let ended = || Err(Error::new(ErrorKind::Closed, "the log was closed"));
    receiver.await.unwrap_or_else(|_| ended())
}

/// Returns the status of a change that the storage refused, and logs the error: a client is told
/// no file names.
fn storage_status(error: &Error) -> Status {
    tracing::warn!(%error, "request failed");
    Status::from(error.clone())
}
