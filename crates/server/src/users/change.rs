//! Changes of users. Users and tokens are changed only here and in [`super::token`].

use std::net::IpAddr;
use std::sync::Arc;

use iggy_binary_protocol::WireIdentifier;
use secrecy::{ExposeSecret as _, SecretString};
use tailwater_log::{Error, Log, TopicId};
use tokio::sync::oneshot;

use super::hashers::Origin;
use super::password::{Credential, PasswordHash};
use super::permission::Permissions;
use super::{Directory, ROOT, Token, User, Users, no_random, record};
use crate::config::{NAME_BYTES, PASSWORD_BYTES};
use crate::host::Host;
use crate::status::Status;

/// A user to create.
pub(crate) struct NewUser<'a> {
    pub(crate) name: &'a str,
    pub(crate) password: &'a str,
    pub(crate) is_active: bool,
    pub(crate) permissions: Option<Permissions>,
}

/// The result of updating a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Updated {
    pub(crate) user: u32,
    /// Whether the update deactivated the user. The caller must then end the user's sessions.
    pub(crate) was_deactivated: bool,
}

/// A new password, checked and hashed. `replaced` is the credential that it is to replace.
pub(crate) struct NewPassword {
    user: u32,
    replaced: Arc<Credential>,
    credential: Arc<Credential>,
}

/// A change of users and tokens in progress: a modified copy of the directory of users, and the
/// corresponding changes of records. The copy replaces the current directory after the changes of
/// records are durable.
pub(super) struct Edit {
    pub(super) directory: Directory,
    pub(super) changes: Vec<record::Change>,
}

impl Edit {
    fn keep_user(&mut self, user: User) -> Result<(), Status> {
        self.changes.push(record::keep_user(&user)?);
        self.directory.insert_user(user);
        Ok(())
    }

    /// Removes a user and the user's tokens.
    fn remove_user(&mut self, id: u32) {
        let tokens: Vec<_> = self.directory.tokens_of(id).cloned().collect();
        tokens.iter().for_each(|token| self.remove_token(token));
        self.changes.push(record::remove_user(id));
        self.directory.remove_user(id);
    }

    pub(super) fn keep_token(&mut self, token: Token) -> Result<(), Status> {
        self.changes.push(record::keep_token(&token)?);
        self.directory.insert_token(token);
        Ok(())
    }

    pub(super) fn remove_token(&mut self, token: &Token) {
        self.changes.push(record::remove_token(token));
        self.directory.remove_token(token);
    }

    fn find(&self, user: &WireIdentifier) -> Result<Arc<User>, Status> {
        self.directory.find(user).cloned().ok_or(Status::RESOURCE_NOT_FOUND)
    }
}

/// Checks that a name is valid, and that no user other than `id` has it.
fn check_name(directory: &Directory, name: &str, id: Option<u32>) -> Result<(), Status> {
    if !NAME_BYTES.contains(&name.len()) {
        return Err(Status::INVALID_USERNAME);
    }
    let holder = directory.named(name).map(|user| user.id);
    if holder.is_some() && holder != id {
        return Err(Status::USER_ALREADY_EXISTS);
    }
    Ok(())
}

impl Users {
    /// Makes a change atomically: if `edit` or the log returns an error, neither records nor memory
    /// change.
    pub(super) fn edit<T>(
        &self,
        log: &Log,
        edit: impl FnOnce(&mut Edit) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let _retired = self.retired.lock();
        self.edit_locked(log, edit)
    }

    /// Makes a change like [`Self::edit`]. The caller holds the lock on `retired`.
    fn edit_locked<T>(
        &self,
        log: &Log,
        edit: impl FnOnce(&mut Edit) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let directory = Directory::clone(&self.directory.load());
        let mut next = Edit { directory, changes: Vec::new() };
        let outcome = edit(&mut next)?;
        if !next.changes.is_empty() {
            log.set_records(&next.changes).map_err(|error| log_failure(&next.changes, error))?;
            // A crash before this line is safe: the change is durable, but was not acknowledged
            // yet.
            self.directory.store(Arc::new(next.directory));
        }
        Ok(outcome)
    }

    /// Creates a user. Its id is the lowest one that no user has had since the server started. The
    /// call blocks while the password is hashed.
    ///
    /// # Errors
    /// Invalid name or password; a name that is taken; errors from the log.
    pub(crate) fn create(&self, log: &Log, new: NewUser<'_>) -> Result<Arc<User>, Status> {
        // The name is checked again below, under the lock. This check avoids hashing the password
        // for nothing.
        check_name(&self.directory.load(), new.name, None)?;
        let origin = Origin { host: None, user: new.name };
        let hash =
            self.hash(new.password, origin)?.blocking_recv().map_err(|_| Status::IO_ERROR)?;
        let credential = Arc::new(Credential::new(hash.map_err(no_random)?));
        let created_us = self.clock.wall_us();
        let retired = self.retired.lock();
        self.edit_locked(log, |edit| {
            check_name(&edit.directory, new.name, None)?;
            let is_free =
                |id: &u32| !edit.directory.users.contains_key(id) && !retired.contains(id);
            let id = (0..=u32::MAX).find(is_free).ok_or(Status::USERS_LIMIT_REACHED)?;
            edit.keep_user(User {
                id,
                name: Arc::from(new.name),
                is_active: new.is_active,
                created_us,
                permissions: new.permissions,
                credential,
            })?;
            edit.find(&WireIdentifier::Numeric(id))
        })
    }

    /// Deletes a user and the user's tokens, and returns the user's id.
    ///
    /// # Errors
    /// Not found; cannot delete, for the root user; errors from the log.
    pub(crate) fn delete(&self, log: &Log, user: &WireIdentifier) -> Result<u32, Status> {
        let mut retired = self.retired.lock();
        let id = self.edit_locked(log, |edit| {
            let id = edit.find(user)?.id;
            if id == ROOT {
                return Err(Status::CANNOT_DELETE_USER);
            }
            edit.remove_user(id);
            Ok(id)
        })?;
        retired.insert(id);
        Ok(id)
    }

    /// Renames a user, and activates or deactivates the user. `None` leaves the name or the status
    /// unchanged.
    ///
    /// # Errors
    /// Not found; invalid name; a name that is taken; errors from the log. Invalid status, for
    /// deactivating the root user, because nobody could reactivate it.
    pub(crate) fn update(
        &self,
        log: &Log,
        user: &WireIdentifier,
        name: Option<&str>,
        is_active: Option<bool>,
    ) -> Result<Updated, Status> {
        self.edit(log, |edit| {
            let old = edit.find(user)?;
            if let Some(name) = name {
                check_name(&edit.directory, name, Some(old.id))?;
            }
            if old.id == ROOT && is_active == Some(false) {
                return Err(Status::INVALID_USER_STATUS);
            }
            let is_active = is_active.unwrap_or(old.is_active);
            let was_deactivated = old.is_active && !is_active;
            let mut new = User::clone(&old);
            new.name = name.map_or_else(|| Arc::clone(&old.name), Arc::from);
            new.is_active = is_active;
            if was_deactivated {
                // The new credential has the same password hash. Logins in progress fail, because
                // they compare the credential with the one that they have checked. The cached fast
                // hash of the password is dropped.
                new.credential = Arc::new(Credential::new(old.credential.hash.clone()));
            }
            edit.keep_user(new)?;
            Ok(Updated { user: old.id, was_deactivated })
        })
    }

    /// Replaces a user's permissions, and returns the user's id.
    ///
    /// # Errors
    /// Not found; cannot change permissions, for the root user; errors from the log.
    pub(crate) fn set_permissions(
        &self,
        log: &Log,
        user: &WireIdentifier,
        permissions: Option<Permissions>,
    ) -> Result<u32, Status> {
        self.edit(log, |edit| {
            let old = edit.find(user)?;
            if old.id == ROOT {
                return Err(Status::CANNOT_CHANGE_PERMISSIONS);
            }
            edit.keep_user(User { permissions, ..User::clone(&old) })?;
            Ok(old.id)
        })
    }

    /// Removes the permissions of all users on a stream and its topics. Called when the stream is
    /// deleted.
    ///
    /// # Errors
    /// Errors from the log.
    pub(crate) fn forget_stream(&self, log: &Log, stream: u32) -> Result<(), Status> {
        self.forget(log, |permissions| permissions.forget_stream(stream))
    }

    /// Removes the permissions of all users on a topic. Called when the topic is deleted.
    ///
    /// # Errors
    /// Errors from the log.
    pub(crate) fn forget_topic(&self, log: &Log, topic: TopicId) -> Result<(), Status> {
        self.forget(log, |permissions| permissions.forget_topic(topic))
    }

    /// Calls `forget` for the permissions of each user. `forget` removes some of them, and returns
    /// whether it removed any.
    fn forget(&self, log: &Log, forget: impl Fn(&mut Permissions) -> bool) -> Result<(), Status> {
        self.edit(log, |edit| {
            let users: Vec<_> = edit.directory.users.values().cloned().collect();
            for user in users {
                let mut user = User::clone(&user);
                if user.permissions.as_mut().is_some_and(&forget) {
                    edit.keep_user(user)?;
                }
            }
            Ok(())
        })
    }

    /// Checks a user's current password and hashes a new one. Waits until a thread of the pool is
    /// free. A wrong current password counts as a failed login from `address`: if several have
    /// failed recently, the error is returned with a delay.
    ///
    /// # Errors
    /// Not found; invalid credentials, for the current password; invalid password, for the new one.
    pub(crate) async fn prepare_password(
        &self,
        user: &WireIdentifier,
        current: &str,
        new: &str,
        address: IpAddr,
    ) -> Result<NewPassword, Status> {
        let user = self.find(user).ok_or(Status::RESOURCE_NOT_FOUND)?;
        if !self.check_password(&user.credential, current, &user.name, address).await {
            self.throttle.delay_refusal(address).await;
            return Err(Status::INVALID_CREDENTIALS);
        }
        let origin = Origin { host: Some(Host::of(address)), user: &user.name };
        let hash = self.hash(new, origin)?.await.map_err(|_| Status::IO_ERROR)?;
        let credential = Arc::new(Credential::new(hash.map_err(no_random)?));
        Ok(NewPassword { user: user.id, replaced: Arc::clone(&user.credential), credential })
    }

    /// Sets a password that [`Self::prepare_password`] returned, and returns the user's id. The
    /// user's sessions and tokens stay valid.
    ///
    /// # Errors
    /// Not found; invalid credentials, if the password was changed or the user was deactivated
    /// after `prepare_password` had checked the current password; errors from the log.
    pub(crate) fn set_password(&self, log: &Log, new: NewPassword) -> Result<u32, Status> {
        let NewPassword { user, replaced, credential } = new;
        self.edit(log, |edit| {
            let latest = edit.find(&WireIdentifier::Numeric(user))?;
            if !Arc::ptr_eq(&latest.credential, &replaced) {
                return Err(Status::INVALID_CREDENTIALS);
            }
            edit.keep_user(User { credential, ..User::clone(&latest) })?;
            Ok(user)
        })
    }

    /// Queues a job that hashes a password on a thread of the pool. Returns a receiver of the hash.
    ///
    /// # Errors
    /// Invalid password.
    fn hash(&self, password: &str, origin: Origin<'_>) -> Result<Hashing, Status> {
        if !PASSWORD_BYTES.contains(&password.len()) {
            return Err(Status::INVALID_PASSWORD);
        }
        let password = SecretString::from(password);
        let hash = move |workspace: &mut _| PasswordHash::new(password.expose_secret(), workspace);
        Ok(self.hashers.run(origin, hash))
    }
}

/// A receiver of the hash of a password. If hashing panics, the channel is closed without a value.
type Hashing = oneshot::Receiver<Result<PasswordHash, getrandom::Error>>;

#[cold]
fn log_failure(changes: &[record::Change], error: Error) -> Status {
    let keys: Vec<&str> = changes.iter().map(|(key, _)| key.as_str()).collect();
    tracing::error!(?keys, %error, "records of users were not written");
    error.into()
}
