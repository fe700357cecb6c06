//! Commands 41-43: a user's own personal access tokens. They require no permission.

use iggy_binary_protocol::requests::personal_access_tokens::{
    CreatePersonalAccessTokenRequest, DeletePersonalAccessTokenRequest,
};
use iggy_binary_protocol::responses::personal_access_tokens::{
    GetPersonalAccessTokensResponse, PersonalAccessTokenResponse, RawPersonalAccessTokenResponse,
};
use iggy_binary_protocol::{WireDecode, WireEncode, WireName};

use crate::command::{Outcome, Request};
use crate::state::State;
use crate::status::Status;
use crate::users::Token;

/// Command 41: returns the user's tokens, ordered by name, without their secrets.
pub(crate) fn get_tokens(state: &State, request: &Request<'_>) -> Outcome {
    let tokens = state.users.tokens(request.user);
    let tokens = tokens.iter().map(|token| entry(token)).collect::<Result<_, _>>()?;
    Ok(GetPersonalAccessTokensResponse { tokens }.to_bytes().into())
}

/// Command 42: creates a token. The reply contains the token's secret, which is not stored on disk.
/// It stays in memory, in the session's remembered reply, until the session's next numbered
/// request.
pub(crate) fn create_token(state: &State, request: &Request<'_>) -> Outcome {
    let new = CreatePersonalAccessTokenRequest::decode_from(request.body)?;
    // An expiry of 0 or `u64::MAX` means that the token does not expire.
    let expires_after_us = Some(new.expiry).filter(|us| !matches!(*us, 0 | u64::MAX));
    let secret = state.users.create_token(&state.log, request.user, &new.name, expires_after_us)?;
    tracing::info!(user = request.user, token = &*new.name, "personal access token created");
    let token = WireName::new(secret)?;
    Ok(RawPersonalAccessTokenResponse { token }.to_bytes().into())
}

/// Command 43: deletes a token.
pub(crate) fn delete_token(state: &State, request: &Request<'_>) -> Outcome {
    let name = DeletePersonalAccessTokenRequest::decode_from(request.body)?.name;
    state.users.delete_token(&state.log, request.user, &name)?;
    tracing::info!(user = request.user, token = &*name, "personal access token deleted");
    Ok(Vec::new())
}

fn entry(token: &Token) -> Result<PersonalAccessTokenResponse, Status> {
    let name = WireName::new(&*token.name)?;
    Ok(PersonalAccessTokenResponse { name, expiry_at: token.expires_us.unwrap_or(0) })
}
