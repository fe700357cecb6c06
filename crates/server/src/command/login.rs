//! The login command.

use std::sync::Arc;

use iggy_binary_protocol::requests::users::{LoginRegisterRequest, LoginRegisterWithPatRequest};
use iggy_binary_protocol::responses::users::LoginRegisterResponse;
use iggy_binary_protocol::{
    ClientVersionInfo, EvictionReason, IGGY_PROTOCOL_VERSION, ProtocolVersion, WireDecode,
    WireEncode, WireName, is_protocol_compatible,
};
use secrecy::ExposeSecret;
use tracing::{debug, info};

use crate::protocol::Head;
use crate::session::Session;
use crate::state::State;
use crate::users::LoginError;

/// Logs a client in with a password or a token, and binds the session to the user and the client.
///
/// # Errors
/// The eviction reason to send to the client. The client may try again on the same connection.
pub(crate) async fn login(
    state: &Arc<State>,
    session: &Arc<Session>,
    head: &Head,
    body: &[u8],
) -> Result<Vec<u8>, EvictionReason> {
    let malformed = |_| EvictionReason::MalformedLogin;
    let (version, prefix_bytes) = ClientVersionInfo::decode(body).map_err(malformed)?;
    if !is_protocol_compatible(version.protocol_version) {
        // The refusal is logged only at debug level, because clients can cause any number of
        // refusals without logging in.
        state.metrics.refused("protocol_version");
        debug!(
            address = %session.address,
            sdk = version.sdk_name.as_str(),
            protocol = %ProtocolVersion(version.protocol_version),
            "login with another version of the protocol"
        );
        return Err(EvictionReason::IncompatibleProtocol);
    }
    let sdk = format!("{} {}", version.sdk_name.as_str(), version.sdk_version.as_str());
    let credentials = Credentials::decode(version, body.get(prefix_bytes..).unwrap_or_default())
        .ok_or(EvictionReason::MalformedLogin)?;
    let in_progress = session.begin_login();
    let user = match check(state, session, &credentials).await {
        Ok(user) => user,
        Err(error) => {
            drop(in_progress);
            state.metrics.refused("login");
            debug!(address = %session.address, sdk, ?error, "login refused");
            // Every refusal takes this path, so that its time does not reveal its reason.
            state.users.delay_refusal(session.address.ip()).await;
            return Err(match error {
                LoginError::InvalidCredentials => EvictionReason::InvalidCredentials,
                LoginError::InvalidToken | LoginError::ExpiredToken => EvictionReason::InvalidToken,
                LoginError::Inactive => EvictionReason::UserInactive,
            });
        }
    };
    let before = session.binding();
    let binding = state.sessions.bind(session, user, head.client).inspect_err(|_| {
        state.metrics.refused("client_id");
        debug!(address = %session.address, user, sdk, "login refused: client id of another user");
    })?;
    drop(in_progress);
    if before.is_some_and(|before| before.client != head.client || before.user != user) {
        // The session changed its client id or its user, so it leaves the groups that it joined
        // before.
        state.groups.leave_all(session.id);
    }
    info!(address = %session.address, session = session.id.0, user, sdk, "logged in");
    let server_version = WireName::new(super::VERSION).map_err(|_| EvictionReason::SessionError)?;
    let response = LoginRegisterResponse {
        user_id: user,
        session: binding.session,
        server_protocol_version: IGGY_PROTOCOL_VERSION,
        server_version,
    };
    Ok(response.to_bytes().to_vec())
}

/// Checks the credentials of a login, and returns the user's id.
async fn check(
    state: &State,
    session: &Session,
    credentials: &Credentials,
) -> Result<u32, LoginError> {
    match credentials {
        Credentials::Password(login) => {
            let (name, password) = (login.username.as_str(), login.password.expose_secret());
            state.users.login(name, password, session.address.ip()).await
        }
        Credentials::Token(login) => state.users.login_with_token(login.token.expose_secret()),
    }
}

/// The credentials of a login.
enum Credentials {
    Password(LoginRegisterRequest),
    Token(LoginRegisterWithPatRequest),
}

impl Credentials {
    /// Decodes the part of a login's body that follows the version. Logins by password and by token
    /// have the same operation code and no field for their kind. The kind is the one whose encoding
    /// ends exactly at the end of the body.
    fn decode(version: ClientVersionInfo, body: &[u8]) -> Option<Self> {
        let password = LoginRegisterRequest::decode_after_prefix(version.clone(), body);
        if let Ok((login, length)) = password
            && length == body.len()
        {
            return Some(Self::Password(login));
        }
        let token = LoginRegisterWithPatRequest::decode_after_prefix(version, body);
        match token {
            Ok((login, length)) if length == body.len() => Some(Self::Token(login)),
            _ => None,
        }
    }
}
