//! Commands 41-43: a user's own personal access tokens. They take no permission.

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
use crate::users::{Expiry, TokenInfo};

/// 41: the tokens of the user, by their names, without their secrets.
pub(crate) fn get_tokens(state: &State, request: &Request<'_>) -> Outcome {
    let tokens = state.users.tokens(request.user);
    let tokens = tokens.iter().map(entry).collect::<Result<_, _>>()?;
    Ok(GetPersonalAccessTokensResponse { tokens }.to_bytes().into())
}

/// 42: creates a token. The reply has its secret, which is kept nowhere: a repeated request cannot
/// be answered from what is remembered of the first.
pub(crate) fn create_token(state: &State, request: &Request<'_>) -> Outcome {
    let new = CreatePersonalAccessTokenRequest::decode_from(request.body)?;
    let expiry = match new.expiry {
        // The server's default is none.
        0 | u64::MAX => Expiry::Never,
        us => Expiry::AfterUs(us),
    };
    let secret = state.users.create_token(&state.log, request.user, &new.name, expiry)?;
    tracing::info!(user = request.user, token = &*new.name, "personal access token created");
    let token = WireName::new(secret)?;
    Ok(RawPersonalAccessTokenResponse { token }.to_bytes().into())
}

/// 43: deletes a token.
pub(crate) fn delete_token(state: &State, request: &Request<'_>) -> Outcome {
    let name = DeletePersonalAccessTokenRequest::decode_from(request.body)?.name;
    state.users.delete_token(&state.log, request.user, &name)?;
    tracing::info!(user = request.user, token = &*name, "personal access token deleted");
    Ok(Vec::new())
}

fn entry(token: &TokenInfo) -> Result<PersonalAccessTokenResponse, Status> {
    let name = WireName::new(&*token.name)?;
    Ok(PersonalAccessTokenResponse { name, expiry_at: token.expires_us.unwrap_or(0) })
}
