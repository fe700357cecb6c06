//! Requests that are refused before their bodies are read.
//!
//! A body that is small enough not to be counted in the memory for requests is always read. Of a
//! larger body, only the first bytes are read before this module decides.

use iggy_binary_protocol::codes;

use super::{Command, command, messages};
use crate::in_flight::UNCOUNTED_BYTES;
use crate::protocol::Head;
use crate::state::State;
use crate::status::Status;
use crate::users::Action;

/// Maximum length of the body of a command without messages and permissions, in bytes.
const PLAIN_BODY_BYTES_MAX: usize = 64 << 10;

/// Returns how many bytes of a body [`refusal`] needs. `arrived` are the bytes that have arrived so
/// far. The result may be higher when more have arrived.
pub(crate) fn bytes_needed(head: &Head, arrived: &[u8]) -> usize {
    match command(head.code) {
        Some(Command::Send) => messages::target_bytes(arrived).min(UNCOUNTED_BYTES),
        _ => 0,
    }
}

/// Returns the status with which a request of a logged-in user is refused, if it can be refused
/// before its body is read; `None` if its body must be read. `body_bytes` is the length of the
/// body, and `start` its first bytes, at least [`bytes_needed`].
pub(crate) fn refusal(
    state: &State,
    user: u32,
    head: &Head,
    body_bytes: usize,
    start: &[u8],
) -> Option<Status> {
    let refused = match head.code {
        codes::CREATE_USER_CODE => state.users.authorize(user, Action::CreateUser),
        codes::UPDATE_PERMISSIONS_CODE => state.users.authorize(user, Action::UpdatePermissions),
        code => match command(code) {
            None => Err(Status::INVALID_COMMAND),
            Some(Command::Cluster) => Err(Status::FEATURE_UNAVAILABLE),
            Some(Command::Send) => messages::check_target(state, user, start),
            Some(_) if body_bytes > PLAIN_BODY_BYTES_MAX => Err(Status::INVALID_SIZE_BYTES),
            Some(_) => Ok(()),
        },
    };
    refused.err()
}
