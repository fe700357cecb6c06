//! Commands 31-37: users.
//!
//! Users may request their own description and change their own password without a permission. All
//! other commands require a permission. As in Iggy, the status of a refused request nevertheless
//! reveals whether the requested user exists.

use std::sync::Arc;

use bytes::Bytes;
use iggy_binary_protocol::primitives::permissions::WirePermissions;
use iggy_binary_protocol::requests::users::{
    ChangePasswordRequest, CreateUserRequest, DeleteUserRequest, GetUserRequest,
    UpdatePermissionsRequest, UpdateUserRequest,
};
use iggy_binary_protocol::responses::users::get_user::UserDetailsResponse;
use iggy_binary_protocol::responses::users::get_users::GetUsersResponse;
use iggy_binary_protocol::responses::users::user_response::UserResponse;
use iggy_binary_protocol::{WireDecode, WireEncode, WireIdentifier, WireName, WireOptions};
use tokio::time::timeout;

use super::{Outcome, Request, options};
use crate::state::State;
use crate::status::Status;
use crate::users::{Action, NewUser, Permissions, User};

const ACTIVE: u8 = 1;
const INACTIVE: u8 = 2;

/// Command 31: returns one user; an empty body if the user does not exist.
pub(crate) fn get_user(state: &State, request: &Request<'_>) -> Outcome {
    let wanted = GetUserRequest::decode_from(request.body)?.user_id;
    let Some(user) = state.users.find(&wanted) else {
        return Ok(Vec::new());
    };
    if user.id != request.user {
        state.users.authorize(request.user, Action::GetUser)?;
    }
    Ok(details(&user)?.into())
}

/// Command 32: returns all users, ordered by id.
pub(crate) fn get_users(state: &State, request: &Request<'_>) -> Outcome {
    state.users.authorize(request.user, Action::GetUsers)?;
    let users = state.users.all();
    let users = users.iter().map(|user| header(user)).collect::<Result<_, _>>()?;
    Ok(GetUsersResponse { users }.to_bytes().into())
}

/// Command 33: creates a user. The call blocks while it hashes the user's password.
pub(crate) fn create_user(state: &State, request: &Request<'_>) -> Outcome {
    let new = CreateUserRequest::decode_from(request.body)?;
    state.users.authorize(request.user, Action::CreateUser)?;
    options::refuse_all(&new.options)?;
    let user = state.users.create(
        &state.log,
        NewUser {
            name: &new.username,
            password: &new.password,
            is_active: is_active(new.status)?,
            permissions: new.permissions.as_ref().map(Permissions::from),
        },
    )?;
    tracing::info!(user = user.id, name = &*user.name, by = request.user, "user created");
    Ok(details(&user)?.into())
}

/// Command 34: deletes a user and the user's tokens, and ends the user's sessions.
pub(crate) fn delete_user(state: &State, request: &Request<'_>) -> Outcome {
    let wanted = DeleteUserRequest::decode_from(request.body)?.user_id;
    state.users.authorize(request.user, Action::DeleteUser)?;
    let user = state.users.delete(&state.log, &wanted)?;
    state.sessions.evict_user(user);
    tracing::info!(user, by = request.user, "user deleted");
    Ok(Vec::new())
}

/// Command 35: changes a user's name or status. If the user becomes inactive, the user's sessions
/// end.
pub(crate) fn update_user(state: &State, request: &Request<'_>) -> Outcome {
    let update = UpdateUserRequest::decode_from(request.body)?;
    state.users.authorize(request.user, Action::UpdateUser)?;
    options::refuse_all(&update.options)?;
    let is_active = update.status.map(is_active).transpose()?;
    let name = update.username.as_deref();
    let updated = state.users.update(&state.log, &update.user_id, name, is_active)?;
    if updated.was_deactivated {
        state.sessions.evict_user(updated.user);
    }
    tracing::info!(user = updated.user, name, is_active, by = request.user, "user updated");
    Ok(Vec::new())
}

/// Command 36: replaces a user's permissions. The change takes effect with the next request of the
/// user.
pub(crate) fn update_permissions(state: &State, request: &Request<'_>) -> Outcome {
    let update = UpdatePermissionsRequest::decode_from(request.body)?;
    state.users.authorize(request.user, Action::UpdatePermissions)?;
    let permissions = update.permissions.as_ref().map(Permissions::from);
    let user = state.users.set_permissions(&state.log, &update.user_id, permissions)?;
    tracing::info!(user, by = request.user, "permissions updated");
    Ok(Vec::new())
}

/// Command 37: changes a password. As in Iggy, the user's sessions and tokens stay valid.
pub(crate) async fn change_password(state: &Arc<State>, request: &Request<'_>) -> Outcome {
    let change = ChangePasswordRequest::decode_from(request.body)?;
    let target = state.users.find(&change.user_id).ok_or(Status::RESOURCE_NOT_FOUND)?.id;
    if target != request.user {
        state.users.authorize(request.user, Action::ChangePassword)?;
    }
    let target = WireIdentifier::Numeric(target);
    let (current, new) = (&change.current_password, &change.new_password);
    let address = request.session.address.ip();
    let prepared = state.users.prepare_password(&target, current, new, address);
    // After failed logins from the client's address, checking the password is delayed.
    let prepared = timeout(state.config.limits.stall_timeout, prepared).await;
    let prepared = prepared.unwrap_or(Err(Status::TRANSIENT_NOT_ACCEPTED))?;
    let (state, by) = (Arc::clone(state), request.user);
    let changed = tokio::task::spawn_blocking(move || {
        let user = state.users.set_password(&state.log, prepared)?;
        tracing::info!(user, by, "password changed");
        Ok(Vec::new())
    });
    changed.await.unwrap_or(Err(Status::ERROR))
}

fn is_active(status: u8) -> Result<bool, Status> {
    match status {
        ACTIVE => Ok(true),
        INACTIVE => Ok(false),
        _ => Err(Status::INVALID_USER_STATUS),
    }
}

fn header(user: &User) -> Result<UserResponse, Status> {
    Ok(UserResponse {
        id: user.id,
        created_at: user.created_us,
        status: if user.is_active { ACTIVE } else { INACTIVE },
        username: WireName::new(&*user.name)?,
        options: WireOptions::empty(),
    })
}

fn details(user: &User) -> Result<Bytes, Status> {
    let permissions = user.permissions.as_ref().map(WirePermissions::from);
    Ok(UserDetailsResponse { user: header(user)?, permissions }.to_bytes())
}
